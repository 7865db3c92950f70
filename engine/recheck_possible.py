"""Whether a recording can be repeated at all: ids, lengths and settings that a model and a run can have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from engine import registry
from engine.config_tables import DraftConfig, RunConfig, SamplingConfig
from engine.errors import RecordingError
from engine.events import Event, Round, RunStarted, SegmentStarted, Settings

_IMPOSSIBLE = "The models that it names cannot have written it; check it without models."


def check_possible(events: Iterable[Event], vocab_size: int, context_length: int) -> None:
    """Check that models of this vocabulary and context, in tokens, can be fed with what a recording holds.

    Raises RecordingError where they cannot.
    """
    length = 0
    for event in events:
        ids: Sequence[int] = ()
        if isinstance(event, RunStarted):
            _check_limits(event)
            ids = (*event.prompt, *event.given)
            length = len(ids) if event.prompt else 0
        elif isinstance(event, Round):
            if not 0 < length < context_length:
                raise RecordingError(f"a round comes after {length} tokens", _IMPOSSIBLE)
            ids = event.tokens
            length += len(ids) - event.taken_back
        elif isinstance(event, SegmentStarted):
            _check_settings(event.settings)
        strange = next((id_ for id_ in ids if not 0 <= id_ < vocab_size), None)
        if strange is not None:
            raise RecordingError(f"the recording holds the token id {strange}", _IMPOSSIBLE)


def _check_limits(started: RunStarted) -> None:
    limits = {"max_new_tokens": started.max_new_tokens, "rounds": started.max_rounds, "stop": [*started.stop]}
    try:
        RunConfig.model_validate(limits)
    except ValueError as error:
        raise RecordingError("the recording holds limits that no run can have", _IMPOSSIBLE) from error


def _check_settings(settings: Settings) -> None:
    names = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty", "seed")
    method = registry.DRAFTERS.get(settings.drafter)
    drafting = {
        "method": settings.drafter,
        "model_name": "any" if method is not None and method.loads_model else None,
        "sample_strategy": settings.sample_strategy,
        "num_draft_tokens": settings.num_draft_tokens,
        "min_match": settings.min_match,
        "history": settings.history,
        "acceptance": settings.acceptance or None,
        "cost": settings.draft_cost,
    }
    try:
        SamplingConfig.model_validate({name: getattr(settings, name) for name in names})
        DraftConfig.model_validate(drafting)
        registry.RULES[settings.verify_strategy]
    except (KeyError, ValueError) as error:
        raise RecordingError("the recording holds settings that no run can have", _IMPOSSIBLE) from error
