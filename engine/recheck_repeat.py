"""What both repetitions of a recording need of its models."""

from __future__ import annotations

from collections.abc import Sequence

from engine.adaptive import FixedLength
from engine.answer import Answer, Limits
from engine.events import Round, RunStarted, Settings
from engine.pair import Pair
from engine.recheck_draws import Watched, watched
from engine.speculate import Speculator

TOLERANCES = {"float32": 1e-4, "float64": 1e-6, "float16": 0.02, "bfloat16": 0.1}
"""Difference of a probability that two passes of different shape, or two machines, can make in a format."""


def tolerance_of(pair: Pair) -> float:
    """What rounding explains in the format of the target."""
    info = pair.target.info
    # Kernels for quantised matrices round what they are given to bfloat16, whatever the format.
    return TOLERANCES.get("bfloat16" if info.quantized else info.dtype, max(TOLERANCES.values()))


class Repeater:
    """Runs rounds again with one segment's settings. They have no time.

    Args:
        number: of the segment.
    """

    def __init__(self, pair: Pair, settings: Settings, number: int) -> None:
        self.settings = settings
        self._speculator: Speculator = pair.speculator(settings, number, lambda: (0, 0))
        draws = watched(self._speculator.draws)
        self._speculator.draws = draws
        self.draws: Watched = draws

    def round(self, answer: Answer, number: int, k: int | None) -> Round:
        """One round after what the answer holds; it commits its tokens.

        Args:
            k: of the recorded round, which counts where each round's K was chosen: what it was chosen by is
                not repeated, as rounds have no time here. None: as many as may be.
        """
        if self.settings.adaptive:
            self._speculator.chooser = FixedLength(self.settings.num_draft_tokens if k is None else k)
        self.draws.begin(len(answer.tokens))
        return self._speculator.round(answer, number)


def fits_drafter(pair: Pair, method: str, settings: Settings) -> bool:
    """Whether the drafter that is loaded guesses as these settings say.

    Args:
        method: the one that is loaded.
    """
    own = pair.drafter.settings()
    return settings.drafter == method and all(getattr(settings, name) == own[name] for name in own)


def foretell(pair: Pair, prompt: Sequence[int], answer: Sequence[int]) -> None:
    """Tell a drafter that has to know the answer what the recording knows of it: what was committed.

    The recorded one knew what plain decoding writes after that, too, so where a draft reached past the end of
    the answer the two need not agree: see ``is_known``.
    """
    if pair.drafter.needs_plain_run:
        pair.drafter.foretell([*prompt, *answer])


def is_known(pair: Pair, recorded: Round, length: int) -> bool:
    """Whether what a round drafted follows from a recording whose text ends after ``length`` tokens.

    A round for which a knowing drafter had fewer drafts than asked for passed the end of what it knew, which
    is not recorded.
    """
    if not pair.drafter.needs_plain_run:
        return True
    return len(recorded.drafts) == recorded.k and recorded.context_length + recorded.k <= length


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
