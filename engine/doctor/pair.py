"""What a configuration asks for, from files alone: nothing is fetched, and no weights are read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from engine.config import Config
from engine.doctor.facts import Memory, Model, Pair, Vocabulary
from engine.errors import ConfigError, DoesNotFit, SpeculateError, VocabularyMismatch
from engine.models.builtin import PREFIX, find_builtin
from engine.models.devices import Placement, dtype_name, place
from engine.models.folder import architecture_of
from engine.models.generation_config import check_generation_config
from engine.models.load import Source, at_hand, estimate
from engine.models.local import load_config, load_tokenizer
from engine.models.memory import WORKING_BYTES, Estimate, cached_numbers, check_fits, free_on
from engine.models.shared_tokens import shared_tokens
from engine.models.token_text import TokenText, compare_vocabularies
from engine.preparing import memory_estimates, quantize_of
from engine.registry import DRAFTERS

_BITS = ("none", "int8", "int4")
"""Ways to hold layers, the largest first."""
_EXPERTS = ("num_experts_per_tok", "num_experts_per_token", "moe_topk")
"""Names under which a configuration says how many of its experts a token goes through."""


def examine_pair(config: Config, name: str) -> Pair:
    """What can be told of a configuration's models before they are loaded.

    Args:
        name: of the configuration, as it was given.
    """
    run, placement = config.run, None
    refusal: SpeculateError | None = None
    try:
        placement = place(run.device, run.dtype)
    except ConfigError as error:
        refusal = error
    names = {"target": config.verify.model_name, "drafter": config.draft.model_name}
    found = {role: _found(role, named) for role, named in names.items() if named is not None}
    sources = {role: source for role, (source, _) in found.items() if source is not None}
    estimates, models = _weighed(
        config, sources, {role: model for role, (_, model) in found.items()}, placement
    )
    refusal = refusal or _refusal(config, sources)
    return Pair(
        config=name,
        method=config.draft.method,
        num_draft_tokens=config.draft.num_draft_tokens,
        any_tokenizer=DRAFTERS[config.draft.method].any_tokenizer,
        device_asked=run.device,
        device=None if placement is None else str(placement.device),
        device_reason="" if placement is None else placement.device_reason,
        dtype_asked=run.dtype,
        dtype="" if placement is None else dtype_name(placement.dtype),
        dtype_reason="" if placement is None else placement.dtype_reason,
        threads_asked=run.threads,
        models=tuple(models.values()),
        vocabulary=_vocabulary(config, sources),
        memory=None if placement is None or not estimates else _memory(config, sources, estimates, placement),
        problem=None if refusal is None else refusal.message,
        hint=None if refusal is None else refusal.hint,
    )


def _found(role: str, name: str) -> tuple[Source | None, Model]:
    model = Model(role, name, here=False)
    try:
        source = at_hand(name)
    except SpeculateError as error:
        return None, replace(model, problem=error.message, hint=error.hint)
    except OSError as error:
        return None, replace(model, problem=f"{name} cannot be read: {error.strerror or error}")
    if source is not None:
        return source, replace(model, here=True)
    size = find_builtin(name).download_bytes if name.startswith(PREFIX) else None
    return None, replace(model, fetch_bytes=size)


def _weighed(
    config: Config, sources: dict[str, Source], models: dict[str, Model], placement: Placement | None
) -> tuple[dict[str, Estimate], dict[str, Model]]:
    """Estimates of what is here and can run, and the models with what their files tell.

    Models that cannot be read go from ``sources``.
    """
    for role, source in list(sources.items()):
        try:
            described = _described(models[role], source)
            if placement is not None:
                described = _held(described, source, config, placement)
        except SpeculateError as error:
            described = replace(models[role], problem=error.message, hint=error.hint)
            del sources[role]
        models[role] = described
    return {} if placement is None else memory_estimates(config, sources), models


def _held(model: Model, source: Source, config: Config, placement: Placement) -> Model:
    """The model with its bytes as they will be in memory."""
    quantize = quantize_of(config, model.role)
    run = config.run
    weights = estimate(source, device=run.device, dtype=run.dtype, tokens=1, quantize=quantize).weights
    read = _bytes_a_token(source, weights, placement.dtype.itemsize)
    return replace(model, weights=weights, bytes_a_token=read, quantize=quantize)


def _described(model: Model, source: Source) -> Model:
    folder = source.folder
    config = load_config(folder).get_text_config(decoder=True)
    architecture = architecture_of(folder.config)
    refused = not cached_numbers(config)
    return replace(
        model,
        architecture=architecture,
        parameters=sum(entry.numbers for entry in folder.entries.values()),
        layers=int(config.num_hidden_layers),
        problem=f"{architecture} is recurrent: its state cannot be rewound" if refused else None,
    )


def _bytes_a_token(source: Source, weights: int, item_bytes: int) -> int | None:
    """Weights that a pass of one row reads: all, but one row only of an input table of its own.

    None for a mixture of experts, which reads those of a token's experts only.
    """
    config = load_config(source.folder).get_text_config(decoder=True)
    if any(getattr(config, name, None) for name in _EXPERTS):
        return None
    if config.tie_word_embeddings:
        return weights
    return weights - int(config.vocab_size) * int(config.hidden_size) * item_bytes


def _vocabulary(config: Config, sources: dict[str, Source]) -> Vocabulary | None:
    """Target against drafter; None where one of them is not here, or they are the same."""
    if not {"target", "drafter"} <= sources.keys() or config.draft.model_name == config.verify.model_name:
        return None
    try:
        target, drafter = (
            TokenText(load_tokenizer(Path(sources[role].folder.path))) for role in ("target", "drafter")
        )
    except SpeculateError:
        return None  # what is wrong with a tokenizer is told where the model is loaded
    sizes = (target.vocab_size, drafter.vocab_size)
    try:
        compare_vocabularies(target, drafter)
    except VocabularyMismatch as error:
        return Vocabulary(sizes, error.message, len(shared_tokens(target, drafter)))
    return Vocabulary(sizes, None)


def _memory(
    config: Config, sources: dict[str, Source], estimates: dict[str, Estimate], placement: Placement
) -> Memory:
    problem = _misfit(estimates, placement)
    ways = []
    if problem is not None:
        for words, other in _smaller(config, placement):
            kept = {role: source for role, source in sources.items() if role in estimates}
            if other.draft.model_name is None:
                kept.pop("drafter", None)
            if _misfit(memory_estimates(other, kept), placement) is None:
                ways.append(words)
    free, where = free_on(placement.device, placement.balanced)
    weights, cache = (
        sum(getattr(each, part) for each in estimates.values()) for part in ("weights", "cache")
    )
    return Memory(weights, cache, WORKING_BYTES, free, where, problem, tuple(ways))


def _misfit(estimates: dict[str, Estimate], placement: Placement) -> str | None:
    """Why models do not fit; None if they do."""
    try:
        check_fits(estimates.values(), *free_on(placement.device, placement.balanced))
    except DoesNotFit as error:
        return error.message
    return None


def _smaller(config: Config, placement: Placement) -> Iterator[tuple[str, Config]]:
    """Configurations that take less memory, with the key that makes them so."""

    def changed(table: str, **values: object) -> Config:
        return config.model_copy(update={table: getattr(config, table).model_copy(update=values)})

    if placement.dtype.itemsize > 2:
        yield 'run.dtype = "bfloat16"', changed("run", dtype="bfloat16")
    for bits in _BITS[_BITS.index(config.verify.quantize) + 1 :]:
        yield f'verify.quantize = "{bits}"', changed("verify", quantize=bits)
    if config.draft.model_name is not None:
        yield 'draft.method = "lookup"', changed("draft", method="lookup", model_name=None, quantize="none")


def _refusal(config: Config, sources: dict[str, Source]) -> SpeculateError | None:
    """What the target's own generation settings say against it."""
    if "target" not in sources:
        return None
    greedy = config.verify.verify_strategy == "greedy_match"
    try:
        check_generation_config(sources["target"].folder, config.sampling, greedy=greedy)
    except SpeculateError as error:
        return error
    return None
