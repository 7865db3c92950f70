"""Another value in a configuration, and from when on it counts. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.config import Config
from engine.errors import ConfigError
from tui.settings_form import Reach, changed, check, fields, texts_of

APP_TOKENS = 512
"""Tokens of an answer where the configuration limits neither tokens nor rounds: in the app one reads on."""
MAX_DRAFTS = 64


def with_values(config: Config, values: Mapping[str, Any]) -> Config:
    """The configuration with other values, by dotted key; None takes a key out. Raises ConfigError."""
    form = fields()
    texts = texts_of(config)
    for field in form:
        if field.key in values:
            texts[field.key] = field.text(values[field.key])
    checked = check(texts, form)
    if checked.config is None:
        key, sentence = next(iter(checked.problems.items()))
        raise ConfigError(f"{key} {sentence}")
    return checked.config


def problem_of(config: Config, key: str, text: str) -> str | None:
    """What is wrong with a text for a key; None for nothing."""
    problems = check({**texts_of(config), key: text}, fields()).problems
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


def other_rule(config: Config, temperature: float | None = None) -> Config:
    """With the other verification rule; greedy matching is temperature 0, so that is left out then.

    Args:
        temperature: of speculative sampling, if it takes the place of greedy matching; None is the target's
            own.

    Raises:
        ConfigError: the configuration cannot be used with the other rule.
    """
    if config.verify.verify_strategy != "greedy_match":
        return with_values(config, {"verify.verify_strategy": "greedy_match", "sampling.temperature": None})
    sampled = {"verify.verify_strategy": "speculative_sampling", "sampling.temperature": temperature}
    return with_values(config, sampled)
