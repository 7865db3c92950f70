"""A recorded run written once more, freely: from its prompt, its seed and settings, and nothing else of it.

What comes out is compared token by token. Settings that changed in the middle of the run change before the
same round. Where the rounds part without a difference in the text (a drafter guessed otherwise), the text is
compared further: at temperature 0, and under a rule with which the seed alone fixes the text, it does not
depend on the drafts, so a token that differs has to be explained at its own place. Of another drawn text
nothing can be said from there on; what parted the rounds explains it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from engine.draws import Stream
from engine.events import EndReason, Round
from engine.pair import Pair
from engine.recheck_compare import Difference, difference, fixed_text, graded, likeliest_margin, same_ids
from engine.recheck_finding import Finding, Grade
from engine.recheck_repeat import Repeater, answer_after, foretell, is_known, tolerance_of
from engine.recheck_runs import OWN_ENDS, RecordedRun, Written, written_by


@dataclass(slots=True)
class FreeRun:
    """What the free repetition of one run came to."""

    run: int
    seed: int | None = None
    tokens: int = 0
    """Recorded ones that it was compared with."""
    same_tokens: int = 0
    """Of them, those before the first that differs."""
    same_rounds: int = 0
    """Rounds before the first that differs in anything."""
    identical: bool = False
    """The same tokens and the same end, as far as it was repeated."""
    token: int | None = None
    """Number of the first token that differs, from 1."""
    round: int | None = None
    """Recorded round that it stands in."""
    recorded_id: int | None = None
    repeated_id: int | None = None
    grade: Grade | None = None
    """Of the difference."""
    margin: float | None = None
    left_out: str | None = None
    """Why it was not repeated to its end, in words."""


def repeat_freely(pair: Pair, run: RecordedRun, eos_ids: frozenset[int]) -> tuple[FreeRun, Finding | None]:
    """Write a run once more.

    Args:
        pair: the models that wrote it.
        run: as it was recorded.
        eos_ids: what ends its text; empty if that was ignored.

    Returns what came out, and what is wrong with it if anything is.
    """
    result = FreeRun(run.started.run, left_out=run.left_out)
    if not run.rounds:
        result.identical = run.left_out is None
        return result, None
    return _FreeRepeater(pair, run, eos_ids, result).repeat()


class _FreeRepeater:
    def __init__(self, pair: Pair, run: RecordedRun, eos_ids: frozenset[int], result: FreeRun) -> None:
        self._pair = pair
        self._run = run
        self._eos_ids = eos_ids
        self._result = result
        self._tokens = run.tokens
        self._tolerance = tolerance_of(pair)
        self._in_step = True
        self._parted: Difference | None = None
        """What parted the rounds; None where it is only that a drafter's knowledge was not recorded."""
        started = run.started
        self._length = len(started.prompt) + len(started.given) + len(self._tokens)
        pair.forget()
        foretell(pair, started.prompt, (*started.given, *(token.id for token in self._tokens)))
        result.seed = run.settings[1].seed
        result.tokens = len(self._tokens)

    def repeat(self) -> tuple[FreeRun, Finding | None]:
        result, last = self._result, None
        for last, repeater in self._rounds():
            found = self._compare(last, repeater)
            if found is not None:
                return result, found
            if result.same_tokens == result.tokens and (self._run.reason not in OWN_ENDS or last.cut):
                break
        if last is None:
            return result, None
        if result.left_out is None and (wrong := self._end(last)):
            return result, self._finding(None, Difference("end", wrong, Grade.BUG, None))
        result.identical = result.same_tokens == result.tokens
        return result, None

    def _rounds(self) -> Iterator[tuple[Round, Repeater]]:
        """Rounds, one after the other, until the answer ends; the limit of rounds does not end it: where the
        rounds have parted, the recorded text may take more of them."""
        run, started = self._run, self._run.started
        answer = answer_after(self._pair, started, started.given, (), held=[], eos_ids=self._eos_ids)
        number, repeater = 0, Repeater(self._pair, run.settings[1], 1)
        while True:
            number += 1
            if number > 1 and number in run.settings:
                if not self._in_step:
                    self._result.left_out = f"the rounds had parted when settings changed, at round {number}"
                    return
                repeater = Repeater(self._pair, run.settings[number], number)
            recorded = run.rounds[number - 1] if number <= len(run.rounds) else None
            round_ = repeater.round(answer, number, None if recorded is None else recorded.k)
            if self._in_step and recorded is not None:
                self._step(recorded, round_, repeater)
            yield round_, repeater
            if round_.cut:
                return

    def _step(self, recorded: Round, round_: Round, repeater: Repeater) -> None:
        """See whether the rounds stay the same."""
        if same_ids(recorded, round_):
            self._result.same_rounds += 1
            return
        self._in_step = False
        if is_known(self._pair, recorded, self._length):
            self._parted = difference(recorded, round_, repeater.settings, repeater.draws, self._tolerance)

    def _compare(self, round_: Round, repeater: Repeater) -> Finding | None:
        """Set its tokens beside the recorded ones that are next."""
        result = self._result
        for place, token in enumerate(written_by(round_)):
            if result.same_tokens == result.tokens:
                return self._goes_on()
            recorded = self._tokens[result.same_tokens]
            if token.id != recorded.id:
                return self._differs(recorded, token, place, repeater)
            result.same_tokens += 1
        return None

    def _differs(self, recorded: Written, token: Written, place: int, repeater: Repeater) -> Finding:
        """``place`` is that of the token in its round."""
        result, settings = self._result, repeater.settings
        result.token, result.round = result.same_tokens + 1, recorded.round
        result.recorded_id, result.repeated_id = recorded.id, token.id
        text = f"token {result.token} is {_named(token)}, it was {_named(recorded)}"
        if settings.temperature == 0:
            margin = likeliest_margin(recorded.row, token.row, recorded.id, token.id)
            found = graded("free", text, margin, self._tolerance)
        elif fixed_text(settings):
            margin = repeater.draws.miss(Stream.TARGET, place, recorded.id)
            found = graded("free", text, margin, self._tolerance)
        else:
            # What was drawn hangs together: the decision that parted the rounds explains all that follows.
            parted = self._parted
            assert parted is not None, "rounds that agree in everything committed the same"
            where = f"from round {result.same_rounds + 1} on the rounds differ: {parted.text}"
            found = Difference("free", f"{text}; {where}", parted.grade, parted.margin)
        return self._finding(recorded.round, found)

    def _goes_on(self) -> Finding | None:
        """A token comes after the last recorded one."""
        if self._run.reason not in OWN_ENDS:
            return None
        result, reason = self._result, self._run.reason
        text = f"the text goes on after token {result.tokens}, where the recording ends by {reason}"
        return self._finding(None, Difference("end", text, Grade.BUG, None))

    def _end(self, last: Round) -> str | None:
        """What is wrong with how the repetition ended."""
        result, reason = self._result, self._run.reason
        if result.same_tokens < result.tokens:
            return (
                f"the text ends by {last.cut} after token {result.same_tokens}, where the recording goes on"
            )
        back = self._run.rounds[-1].taken_back
        if reason in OWN_ENDS and (last.cut, last.taken_back) != (reason, back):
            return f"the text ends by {last.cut}, it ended by {reason}"
        stopped = reason in {EndReason.ROUNDS, EndReason.CANCELLED}
        if stopped and self._in_step and last.cut is not None:
            return f"the text ends by {last.cut} where the recording ends by {reason}"
        return None

    def _finding(self, round_: int | None, found: Difference) -> Finding:
        self._result.grade, self._result.margin = found.grade, found.margin
        return Finding(self._run.started.run, round_, found.check, found.grade, found.text, found.margin)


def _named(token: Written) -> str:
    return f"id {token.id} {token.piece.decode('utf-8', 'replace')!r}"
