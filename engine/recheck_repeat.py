"""What both repetitions of a recording need of its models.

Rounds at a recorded place, and draws that tell how near another token was.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.answer import Answer, Limits
from engine.draws import Draws, Stream
from engine.events import RunStarted, Settings
from engine.pair import Pair
from engine.speculate import Speculator

TOLERANCES = {"float32": 1e-4, "float64": 1e-6, "float16": 0.02, "bfloat16": 0.1}
"""Difference of a probability that two passes of different shape, or two machines, can make in a format."""


def tolerance_of(pair: Pair) -> float:
    """What rounding explains in the format of the target."""
    return TOLERANCES.get(pair.target.info.dtype, max(TOLERANCES.values()))


class WatchedDraws(Draws):
    """Draws that remember, for the newest position, the laws they were made from."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._position = -1
        self._weights: dict[tuple[Stream, int], Tensor] = {}

    def categorical(self, weights: Tensor, position: int, stream: Stream, index: int = 0) -> Tensor:
        if position != self._position:
            self._position = position
            self._weights.clear()
        self._weights[stream, index] = weights
        return super().categorical(weights, position, stream, index)

    def miss(self, draft: int | None, id_: int) -> float | None:
        """Share of the law's mass between the draw and an id, which is how much the law has to change for the
        draw to give that id; 0 if it lies on the border.

        Args:
            draft: place of the draft token in the round; None: the target's own token.

        Returns None if that token was not drawn.
        """
        place = (Stream.TARGET, 0) if draft is None else (Stream.DRAFT, draft)
        weights = self._weights.get(place)
        if weights is None or not 0 <= id_ < weights.shape[0]:
            return None
        law = weights.detach().to("cpu", torch.float64)  # (V,)
        cumulative = law.cumsum(-1)  # (V,)
        total = float(cumulative[-1])
        point = float(self._wide_uniform(self._position, *place)) * total
        low, high = float(cumulative[id_] - law[id_]), float(cumulative[id_])
        return max(low - point, point - high, 0.0) / total


def speculator(pair: Pair, settings: Settings, number: int) -> tuple[Speculator, WatchedDraws]:
    """A decoder for the segment of that number, and its draws. Its rounds have no time."""
    made = pair.speculator(settings, number, lambda: (0, 0))
    made.draws = draws = WatchedDraws(settings.seed)
    return made, draws


def answer_after(
    pair: Pair,
    started: RunStarted,
    given: Sequence[int],
    written: Sequence[int],
    *,
    held: list[int],
    eos_ids: frozenset[int],
) -> Answer:
    """The answer of a recorded run at some place, taken in by the models.

    Args:
        given: ids that the answer began with.
        written: ids that it has come to since.
        held: ids whose keys and values the target's cache holds.
    """
    tokens = [*started.prompt, *given, *written]
    left = max(started.max_new_tokens - len(written), 1)
    answer = Answer(tokens, pair.target.text, Limits(left, pair.target.context_length, eos_ids, started.stop))
    answer.begin_after([*given, *written])
    pair.rewind(held, tokens)
    pair.reserve(len(tokens) + 64)
    for _ in pair.prefill(tokens):
        pass
    return answer
