"""Before models are loaded: whether they exist, are on this machine, and have room in its memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from engine.config import Config, RunConfig
from engine.events import ModelInfo
from engine.models.causal_lm import CausalLM
from engine.models.coding import Quantize
from engine.models.devices import dtype_name, place
from engine.models.generation_config import check_generation_config
from engine.models.load import Source, describe, estimate
from engine.models.memory import Estimate, check_fits, free_on

_TYPICAL_CONTEXT = 4096
"""Tokens of cache counted before the prompt is known."""


class Reporter(Protocol):
    """Who is told how the loading goes."""

    def started(self, role: str, name: str) -> None: ...

    def progress(self, role: str, stage: str, done: int, total: int | None) -> None: ...

    def finished(self, role: str, info: ModelInfo) -> None: ...


@dataclass(slots=True)
class Prepared:
    """What a configuration names: found, fetched, and with room for it."""

    models: dict[str, CausalLM]
    """Held already, by role; the others have a source."""
    sources: dict[str, Source]


def prepare(
    config: Config, reporter: Reporter, cancelled: Callable[[], bool], held: Mapping[str, CausalLM]
) -> Prepared:
    """Find, fetch, check and estimate what the configuration names; nothing is loaded or freed yet.

    Args:
        held: models in memory, by their role; one that still fits the configuration is kept.

    Raises:
        UserError, ResourceError: with the reason and what to do.
        Cancelled: ``cancelled`` said so.
    """
    names = {"target": config.verify.model_name}
    if config.draft.model_name is not None:
        names["drafter"] = config.draft.model_name
    models = {
        role: model
        for role, model in held.items()
        if _still_fits(model, names.get(role), quantize_of(config, role), config.run)
    }
    if "target" not in models:  # a drafter reads through its target's tokenizer
        models.clear()
    sources: dict[str, Source] = {}
    for role, name in names.items():
        if role not in models:
            reporter.started(role, name)
            shared = sources.get("target") if name == config.verify.model_name else None
            sources[role] = shared or describe(name, stages(reporter, role), cancelled)
    if "target" in sources:  # what is wrong with its own settings is told before anything is loaded
        greedy = config.verify.verify_strategy == "greedy_match"
        check_generation_config(sources["target"].folder, config.sampling, greedy=greedy)
    kept = {id(model.model) for model in models.values()}
    freed = {id(model.model): model.info.weight_bytes for model in held.values()}
    _check_memory(config, sources, sum(size for key, size in freed.items() if key not in kept))
    return Prepared(models, sources)


def are_twins(config: Config) -> bool:
    """Whether the drafter is the target itself: the same file, held in the same bits."""
    draft, verify = config.draft, config.verify
    return (draft.model_name, draft.quantize) == (verify.model_name, verify.quantize)


def quantize_of(config: Config, role: str) -> Quantize:
    """What the layers of the model in a role are to be held in."""
    return config.verify.quantize if role == "target" else config.draft.quantize


def stages(reporter: Reporter, role: str) -> Callable[[str, int, int | None], None]:
    """What the stages of loading are told to: stage, done, total."""
    return lambda stage, done, total: reporter.progress(role, stage, done, total)


def _still_fits(model: CausalLM, name: str | None, quantize: Quantize, run: RunConfig) -> bool:
    """Whether a held model is the one that the configuration asks for, where and how it asks for it."""
    placement = place(run.device, run.dtype)
    return (
        model.info.name == name
        and model.info.dtype == dtype_name(placement.dtype)
        and (model.info.quantized or "none") == quantize
        and model.device == placement.device
        and run.optimize in (model.asked, model.info.passes)
    )


def _check_memory(config: Config, sources: Mapping[str, Source], freed: int) -> None:
    """Refuse what does not fit; ``freed`` bytes more are there when the models of before go."""
    placement = place(config.run.device, config.run.dtype)
    free, where = free_on(placement.device, placement.balanced)
    check_fits(memory_estimates(config, sources).values(), free + freed, where)


def memory_estimates(config: Config, sources: Mapping[str, Source]) -> dict[str, Estimate]:
    """What the models of a configuration will need, by their role."""
    run = config.run
    max_new_tokens, _ = config.resolved_limits()
    tokens = _TYPICAL_CONTEXT + (max_new_tokens or 0)
    estimates = {
        role: estimate(
            source, device=run.device, dtype=run.dtype, tokens=tokens, quantize=quantize_of(config, role)
        )
        for role, source in sources.items()
    }
    if "drafter" in estimates and are_twins(config):
        # Shared weights, a cache of its own.
        estimates["drafter"] = replace(estimates["drafter"], weights=0, loading=0)
    return estimates
