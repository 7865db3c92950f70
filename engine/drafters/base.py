"""The contract of a drafter."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from torch import Tensor

from engine.config_tables import DraftConfig
from engine.draws import Draws
from engine.events import ModelInfo
from engine.laws import Laws
from engine.sampling import Law

if TYPE_CHECKING:
    from engine.models.causal_lm import CausalLM


@dataclass(frozen=True, slots=True)
class Draft:
    """A guess at the next K tokens; K may be less than what was asked for, 0 too."""

    ids: Tensor
    """The guessed ids.  # (K,)"""
    q: Tensor | None = None
    """The laws they were DRAWN from; None if the guess is deterministic.  # (K, C), C <= V"""
    top: Tensor | None = None
    """The drafter's likeliest ids and their probabilities, as ``Laws.top`` gives them.  # (K, 2 * TOP)"""
    reason: str | None = None
    """Why there are fewer than asked for, if that is worth saying."""
    source: str = ""
    """Which part guessed, for a drafter that has several."""


@dataclass(frozen=True, slots=True)
class Scored:
    """What became of the last draft."""

    drafts: Sequence[int]
    """The drafted ids, read from the device in the round's one transfer.  # (K,)"""
    n_accepted: int


@dataclass(frozen=True, slots=True)
class DrafterContext:
    """What a drafter is made from."""

    target: CausalLM
    model: CausalLM | None
    """The model that ``[draft] model_name`` names; None where the method loads none."""
    common_ids: int
    """Ids below this mean the same text to both models."""
    greedy: bool
    """``sample_strategy = "greedy"``: always the likeliest token."""
    options: DraftConfig = field(default_factory=lambda: DraftConfig(method="lookup"))
    """The table [draft] of the configuration."""


def next_id(laws: Laws, draws: Draws, position: int, index: int, *, certain: bool) -> Tensor:
    """A draft token from the law of one position: the likeliest if ``certain``, else a drawn one.  # (1,)

    Args:
        position: committed tokens before the round.
        index: the draft's place in the round.
    """
    return laws.ids_of(laws.likeliest() if certain else draws.draft(laws.p[0], position, index)[None])


class Drafter(ABC):
    """Guesses tokens. It owns its cache and is told the truth: every call gets ALL committed tokens.

    Args:
        context: the models and options it may use.
    """

    needs_plain_run = False
    """Whether it is to be told, by ``foretell``, what plain decoding writes."""

    def __init__(self, context: DrafterContext) -> None:
        self.context = context

    @property
    def model_info(self) -> ModelInfo | None:
        """The model it loads; None for a drafter without one."""
        return self.context.model.info if self.context.model else None

    def settings(self) -> Mapping[str, Any]:
        """Its own fields of ``engine.events.Settings``, with nothing left open."""
        return {}

    def parts(self) -> Mapping[str, Drafter]:
        """Who may guess, by ``Draft.source``: itself, or the drafters it is made of."""
        return {"": self}

    def reserve(self, tokens: int) -> None:  # noqa: B027 - optional: most drafters hold no cache
        """Have room for this many tokens."""

    def forget(self) -> None:  # noqa: B027 - optional, as ``reserve``
        """Hold no token any more: the next ``prefill`` takes in the whole prompt."""

    def aside(self) -> AbstractContextManager[None]:
        """What is drafted meanwhile is no part of the session: it must not change a later draft, nor may an
        earlier answer help it. For a drafter whose drafts depend on more than the tokens it is given."""
        return nullcontext()

    def prefill(self, tokens: list[int]) -> Iterator[int]:
        """Take in the prompt before the clock of the rounds starts; yields tokens done after each chunk."""
        return iter(())

    def prefill_cost(self, tokens: list[int]) -> int:
        """Tokens that ``prefill`` has to compute, for the progress shown."""
        return 0

    def foretell(self, tokens: Sequence[int]) -> None:  # noqa: B027 - optional, see ``needs_plain_run``
        """Learn prompt and answer as plain decoding writes them, before the first round."""

    @abstractmethod
    def propose(self, tokens: list[int], k: int, law: Law, draws: Draws) -> Draft:
        """Guess up to k >= 1 tokens that follow ``tokens``.

        The tokens may have changed in any way since the last call; the drafter syncs itself first.
        """

    def observe(self, scored: Scored) -> None:  # noqa: B027 - optional: most drafters have nothing to note
        """Learn what became of the last draft, after the commit."""

    @abstractmethod
    def take_ms(self) -> float:
        """Time of the drafting since the last call: device time of the passes; without a model, all of it."""
