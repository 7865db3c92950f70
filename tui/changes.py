"""Another value in a configuration, and from when on it counts. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.config import Config
from engine.errors import ConfigError
from tui.settings_form import Field, Reach, changed, check, fields, texts_of

APP_TOKENS = 512
"""Tokens of an answer where the configuration limits neither tokens nor rounds: in the app one reads on."""
GREEDY = "greedy_match"


def with_values(config: Config, values: Mapping[str, Any]) -> Config:
    """The configuration with other values, by dotted key; None takes a key out. Raises ConfigError."""
    form = fields()
    texts = texts_of(config)
    for field in form:
        if field.key in values:
            texts[field.key] = field.text(values[field.key])
    return _checked(texts, form)


def _checked(texts: Mapping[str, str], form: tuple[Field, ...]) -> Config:
    checked = check(texts, form)
    if checked.config is None:
        key, sentence = next(iter(checked.problems.items()))
        raise ConfigError(f"{key} {sentence}")
    return checked.config


def problem_of(config: Config, key: str, text: str, method: str | None = None) -> str | None:
    """What is wrong with a text for a key; None for nothing.

    Args:
        method: of drafting, if it would change too.
    """
    texts = {**texts_of(config), key: text}
    if method is not None:
        texts["draft.method"] = method
    problems = check(texts, fields()).problems
    return problems.get(key) or next(iter(problems.values()), None)


def needs_load(before: Config, after: Config) -> bool:
    """Whether models have to be loaded again, or others."""
    form = fields()
    return any(field.reach is Reach.RELOAD for field in changed(texts_of(before), texts_of(after), form))


def effective(config: Config, seed: int | None) -> Config:
    """What the engine is given: with the seed chosen meanwhile, and a limit that suits reading."""
    sampling, run = config.sampling, config.run
    if seed is not None:
        sampling = sampling.model_copy(update={"seed": seed})
    if run.max_new_tokens is None and run.rounds is None:
        run = run.model_copy(update={"max_new_tokens": APP_TOKENS})
    return config.model_copy(update={"sampling": sampling, "run": run})


def with_rule(config: Config, rule: str, temperature: float | None = None) -> Config:
    """With another verification rule; greedy matching is temperature 0, so that is left out then.

    Args:
        rule: a key of ``engine.registry.RULES``.
        temperature: of the rule that takes the place of greedy matching; None is the target's own.

    Raises:
        ConfigError: the configuration cannot be used with that rule.
    """
    values: dict[str, Any] = {"verify.verify_strategy": rule}
    if GREEDY in {rule, config.verify.verify_strategy} and rule != config.verify.verify_strategy:
        values["sampling.temperature"] = None if rule == GREEDY else temperature
    return with_values(config, values)


def with_drafter(config: Config, method: str, acceptance: str | None = None) -> Config:
    """With another way of drafting; options that it does not have are left out, and so is a model's name.

    Args:
        method: a key of ``engine.registry.DRAFTERS``.
        acceptance: of a synthetic drafter, as it was typed.

    Raises:
        ConfigError: the configuration cannot be used with that drafter.
    """
    form, texts = fields(), texts_of(config)
    texts["draft.method"] = method
    if acceptance is not None:
        texts["draft.acceptance"] = acceptance
    return _checked(texts, form)
