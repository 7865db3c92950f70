"""From configurations and what is to be varied to the plan of a bench; torch-free."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from pydantic import ValidationError

from engine import registry
from engine.bench.trials.plan import QUICK_KS, QUICK_TOKENS, Arm, K, Plan, one_a_category
from engine.bench.trials.questions import Question
from engine.config import Config, known_keys
from engine.config_errors import translate
from engine.errors import ConfigError

PEERS = ("generate", "lookup", "assisted")
"""Decoding loops of transformers that are measured beside ours; "assisted" where a model drafts."""


def plan_of(
    configs: Mapping[str, Config],
    questions: Sequence[Question],
    *,
    ks: Sequence[K] = (),
    rules: Sequence[str] = (),
    temperatures: Sequence[float] = (),
    tokens: int = 64,
    repeats: int = 5,
    seed: int = 0,
    peers: bool = False,
) -> Plan:
    """Every configuration with every K, rule and temperature that was asked for; its own where none was.

    ``greedy_match`` is temperature 0: its other combinations are left out.

    Args:
        configs: by what the user calls them.

    Raises:
        ConfigError: a value is not possible, or nothing is left.
    """
    arms: list[Arm] = []
    plains: dict[object, str] = {}
    for label, config in configs.items():
        for temperature, rule in product(temperatures or (None,), rules or (None,)):
            if rule == "greedy_match" and temperature:
                continue
            law = with_settings(config, rule=rule, temperature=temperature)
            plain = _plain_arm(law, label, plains)
            if plain.name not in {arm.name for arm in arms}:
                arms.append(plain)
            arms += _arms(label, law, ks or (config.draft.num_draft_tokens,), plain.name, peers)
    if not arms:
        raise ConfigError("nothing is left to run", "greedy_match needs a temperature of 0.")
    return Plan(_unique(arms), tuple(questions), tokens=tokens, repeats=repeats, seed=seed)


def quick_plan(
    configs: Mapping[str, Config], questions: Sequence[Question], *, ks: Sequence[K] = (), **more: Any
) -> Plan:
    """One prompt a category, its first turn, 48 tokens, once forth and back; K = 2, 4, 8, 16, the
    configuration's own and "auto", where every configuration takes that.
    """
    first_turns = [replace(each, turns=each.turns[:1]) for each in one_a_category(questions)]
    plan = plan_of(configs, first_turns, ks=ks or quick_ks(configs.values()), **more)
    return replace(plan, tokens=min(plan.tokens, QUICK_TOKENS), repeats=1)


def quick_ks(configs: Iterable[Config]) -> tuple[K, ...]:
    """K of a quick run."""
    configs = tuple(configs)
    own = {config.draft.num_draft_tokens for config in configs}
    fixed = sorted({k for k in own if isinstance(k, int)} | set(QUICK_KS))
    return (*fixed, *(("auto",) if all(map(takes_auto, configs)) else ()))


def takes_auto(config: Config) -> bool:
    """Whether K can be left to the program."""
    try:
        with_settings(config, k="auto")
    except ConfigError:
        return False
    return True


def with_settings(
    config: Config, *, k: K | None = None, rule: str | None = None, temperature: float | None = None
) -> Config:
    """The configuration with these instead of its own. Raises ConfigError, which names the option."""
    said: dict[str, tuple[object, str]] = {
        "draft.num_draft_tokens": (k, f"--k {k}"),
        "verify.verify_strategy": (rule, f"--rule {rule}"),
        "sampling.temperature": (temperature, f"--temperature {temperature}"),
    }
    data, labels = config.model_dump(), {}
    for key, (value, label) in said.items():
        if value is not None:
            table, _, name = key.partition(".")
            data[table][name], labels[key] = value, label
    try:
        return Config.model_validate(data)
    except ValidationError as failure:
        raise translate(failure, "the bench", labels, known_keys()) from None


def models_key(config: Config) -> tuple[object, ...]:
    """What a session has to be loaded for: all but what a run can change."""
    draft = config.draft.model_dump(exclude={"num_draft_tokens"})
    return (*target_key(config), *draft.items())


def target_key(config: Config) -> tuple[object, ...]:
    """What a target is loaded and read with."""
    run, verify = config.run, config.verify
    names = ("device", "dtype", "optimize", "threads", "template", "thinking")
    return (verify.model_name, verify.quantize, *(getattr(run, name) for name in names))


def _plain_arm(config: Config, label: str, plains: dict[object, str]) -> Arm:
    """Plain decoding with the target and law of a configuration, once for all that share them."""
    law = config.sampling.model_dump(exclude={"seed"})
    if config.verify.verify_strategy == "greedy_match":
        law["temperature"] = 0.0
    key = (*target_key(config), *law.items())
    name = plains.setdefault(key, f"{label}, plain{_law_words(law['temperature'])}")
    return Arm(name, "plain", label, config, plain=name)


def _arms(label: str, config: Config, ks: Sequence[K], plain: str, peers: bool) -> Iterator[Arm]:
    greedy = config.verify.verify_strategy == "greedy_match"
    temperature = 0.0 if greedy else config.sampling.temperature
    for k in ks:
        with_k = with_settings(config, k=k)
        words = f"K = {k}, {config.verify.verify_strategy}{_law_words(temperature)}"
        yield Arm(f"{label}, {words}", "speculative", label, with_k, plain)
    if peers and temperature == 0:
        for peer in PEERS:
            if peer != "assisted" or registry.DRAFTERS[config.draft.method].loads_model:
                yield Arm(f"transformers {peer} ({label})", "peer", label, config, plain, peer)


def _law_words(temperature: float | None) -> str:
    return "" if temperature is None else f", T = {temperature:g}"


def _unique(arms: Sequence[Arm]) -> tuple[Arm, ...]:
    """Each arm once: a value that was given twice makes no second one."""
    return tuple({arm.name: arm for arm in arms}.values())
