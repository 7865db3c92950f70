"""A recording checked again without models: is every round what its own numbers say it must be?

Nothing of the engine's decisions is taken on trust: from p(x), q(x) and u each acceptance is decided again,
the draws are computed again from the seed, the counts are added up again. The laws themselves cannot be known
without the models.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from engine.costs import KEPT
from engine.events import (
    BaselineFinished,
    Calibrated,
    EndReason,
    Event,
    PlainStep,
    PrefillFinished,
    Round,
    RunFinished,
    RunStarted,
    SegmentStarted,
    Settings,
)
from engine.recheck_finding import Finding, Grade
from engine.recheck_round import RoundChecks
from engine.registry import DRAFTERS, RULES
from engine.stats import Statistics

__all__ = ["Finding", "Grade", "Recheck"]

_TIME_SLACK_MS = 1.0


class Recheck:
    """Checks the events of a recording in their order; nothing but counts and the ids of one answer is kept.

    ``rounds`` and ``checks`` say how much was looked at.
    """

    def __init__(self) -> None:
        self.runs = self.rounds = self.checks = 0
        self._finished = 0
        self._run: _Run | None = None

    def add(self, event: Event) -> Iterator[Finding]:
        """What is wrong with one event; to be consumed before the next is added."""
        run = self._run
        if isinstance(event, RunStarted) and not (event.resumed and run is not None):
            self.runs += 1
            self._run = _Run(event)
            return
        if run is None:
            if isinstance(event, Calibrated | Round | PlainStep | RunFinished | BaselineFinished):
                self.checks += 1
                yield Finding(0, None, "order", Grade.BUG, f"a {type(event).__name__} comes before any run")
            return
        before, was_finished = run.checks, run.is_finished
        yield from run.add(event)
        self._finished += run.is_finished - was_finished
        self.checks += run.checks - before
        self.rounds += isinstance(event, Round)

    @property
    def unfinished(self) -> int:
        """Runs whose end is not in the recording: it stopped before."""
        return self.runs - self._finished


class _Run(RoundChecks):
    """One run, as far as it was read."""

    def __init__(self, started: RunStarted) -> None:
        super().__init__(started.run)
        self.started = started
        self.settings: dict[int, Settings] = {}
        self.newest: int | None = None
        self.statistics = Statistics()
        self.ids: list[int] = []
        """Of the answer, the given ones not among them."""
        self.steps = 0
        self.ended: EndReason | None = None
        self.is_finished = False
        self.is_prefilled = False

    def add(self, event: Event) -> Iterator[Finding]:
        self._found = []
        self._number = event.number if isinstance(event, Round | PlainStep) else None
        if isinstance(event, RunStarted):
            self._resumed(event)
        elif isinstance(event, SegmentStarted):
            self.settings[event.settings_id] = event.settings
            self.newest = event.settings_id
            self._segment(event.settings)
        elif isinstance(event, PrefillFinished):
            self.is_prefilled = True
        elif isinstance(event, Calibrated):
            self._calibrated(event)
        elif isinstance(event, Round):
            self._round(event)
        elif isinstance(event, PlainStep):
            self._step(event)
        elif isinstance(event, RunFinished):
            self.is_finished = True
            self._finished(event)
        elif isinstance(event, BaselineFinished):
            self._baseline(event)
        yield from self._found

    def _resumed(self, event: RunStarted) -> None:
        """It goes on, with other models."""
        self._expect(event.run == self.started.run, "order", f"run {event.run} goes on where another one was")
        self._expect(event.prompt == self.started.prompt, "context", "it goes on after another prompt")
        written = (*self.started.given, *self.ids)
        self._expect(event.given == written, "context", "it does not go on where it stood")
        self.started = replace(event, given=self.started.given)
        self.ended, self.is_finished, self.is_prefilled = None, False, False

    def _segment(self, settings: Settings) -> None:
        """Settings that a drafter and a rule of this program can have."""
        self._expect(
            settings.drafter in DRAFTERS, "settings", f"there is no drafter {settings.drafter!r} to draft"
        )
        rule = settings.verify_strategy
        self._expect(rule in RULES, "settings", f"there is no rule {rule!r} to judge by")
        greedy = settings.temperature == 0
        self._expect(greedy or rule != "greedy_match", "settings", "greedy_match is temperature 0")
        self._expect(
            all(0 <= share <= 1 for share in settings.acceptance), "settings", "an acceptance is no share"
        )
        self._expect((settings.draft_cost or 0.0) >= 0, "settings", "a draft costs less than nothing")
        least = settings.min_match
        self._expect(least is None or least >= 1, "settings", "less than one token is looked up")

    def _calibrated(self, event: Calibrated) -> None:
        """Costs that passes can have, measured with the prompt read and the answer not ended."""
        costs = event.costs
        self._expect(self.is_prefilled, "order", "costs were measured before the prompt was read")
        self._expect(self.ended is None and not self.is_finished, "order", "the answer had ended before it")
        self._expect(
            event.settings_id == self.newest,
            "settings",
            f"settings {event.settings_id} are not those of its segment",
        )
        if event.reason != KEPT:
            self._stands_at(costs.context_length)
        self._expect(costs.is_usable, "costs", "no pass takes such times, or no memory is so slow")
        self._expect(costs.took_ms >= costs.t1_ms, "time", "it took less than the step that was measured")

    def _stands_at(self, told: int) -> None:
        """As many tokens are committed as an event says."""
        length = len(self.started.prompt) + len(self.started.given) + len(self.ids)
        self._expect(told == length, "context", f"{length} tokens are committed, not {told}")

    # -- a round

    def _round(self, event: Round) -> None:
        self.steps += 1
        self._expect(event.number == self.steps, "order", f"it is round {self.steps} of its run")
        self._expect(self.ended is None, "order", "the answer had ended before it")
        self._stands_at(event.context_length)
        settings = self.settings.get(event.settings_id)
        if self._expect(
            settings is not None and event.settings_id == self.newest,
            "settings",
            f"settings {event.settings_id} are not those of its segment",
        ):
            assert settings is not None
            self._decisions(event, settings)
        self._commit(event)

    # -- what was committed

    def _commit(self, event: Round) -> None:
        whole = [*(draft.id for draft in event.drafts[: event.n_accepted]), event.target.id]
        kept = list(event.tokens)
        self._expect(kept == whole[: len(kept)], "commit", "the committed ids are not those that stand")
        if event.cut is None:
            self._expect(
                kept == whole, "cut", f"{len(whole) - len(kept)} tokens are missing, and nothing cut them"
            )
            self._expect(event.taken_back == 0, "cut", "tokens were taken back, but no stop string was found")
        elif event.cut is not EndReason.STOP:
            self._expect(event.taken_back == 0, "cut", "only a stop string takes tokens back")
            self._expect(bool(kept), "cut", "a round commits a token at least")
        self._expect(0 <= event.taken_back <= len(self.ids), "cut", "more was taken back than there was")
        if event.cut in {EndReason.ROUNDS, EndReason.CANCELLED}:
            self._expect(kept == whole, "cut", f"{event.cut} does not cut a round")
        self.statistics.add(event)
        self._extend(kept, event.taken_back)
        self.ended = event.cut
        limit = self.started.max_new_tokens
        self._expect(len(self.ids) <= limit, "cut", f"{len(self.ids)} tokens, {limit} at most were asked for")
        if event.cut is EndReason.MAX_NEW_TOKENS:
            self._expect(
                len(self.ids) == limit, "cut", f"{len(self.ids)} tokens are not the {limit} asked for"
            )
        for name in ("draft_ms", "verify_ms", "host_ms"):
            value = getattr(event, name)
            self._expect(value >= 0, "time", f"{name} is {value:g}")

    def _extend(self, ids: list[int], taken_back: int) -> None:
        if taken_back:
            del self.ids[-taken_back:]
        self.ids += ids

    def _step(self, event: PlainStep) -> None:
        self.steps += 1
        self._expect(event.number == self.steps, "order", f"it is step {self.steps} of its run")
        self._expect(self.ended is None, "order", "the answer had ended before it")
        self._extend([event.id], event.taken_back)
        self.ended = event.cut

    # -- the run as a whole

    def _finished(self, event: RunFinished) -> None:
        self._expect(event.tokens == len(self.ids), "counts", f"{len(self.ids)} tokens, not {event.tokens}")
        limit = self.started.max_rounds
        self._expect(limit is None or self.steps <= limit, "counts", f"{self.steps} rounds, {limit} at most")
        if self.ended is not None:
            self._expect(
                event.reason is self.ended, "cut", f"it ended by {self.ended}, not by {event.reason}"
            )
        statistics = self.statistics
        try:
            statistics.check_identities()
        except AssertionError as error:
            self._expect(False, "identities", str(error))
        if statistics.rounds:
            summed = statistics.draft_ms + statistics.verify_ms + statistics.host_ms
            self._expect(
                abs(summed - event.decode_ms) <= _TIME_SLACK_MS + 1e-6 * summed,
                "time",
                f"its rounds took {summed:.3f} ms, the run says {event.decode_ms:.3f}",
            )

    def _baseline(self, event: BaselineFinished) -> None:
        if event.sampled:
            told = event.ids or event.identical is not None or event.divergence is not None
            self._expect(not told, "baseline", "some places of an answer say nothing of the whole of it")
            return
        ids = tuple(self.ids)
        shorter = min(len(ids), len(event.ids))
        differs = next((at for at in range(shorter) if ids[at] != event.ids[at]), None)
        self._divergence(event, differs)
        if not event.complete:
            return
        self._expect(event.tokens == len(event.ids), "baseline", f"{len(event.ids)} ids, not {event.tokens}")
        if event.identical is None:
            return
        self._expect(self._repeats_plain(), "baseline", "sampled texts need not be the same, yet it is told")
        same = differs is None and len(ids) == len(event.ids)
        self._expect(event.identical == same, "baseline", "whether the texts are the same is told wrong")
        if differs is not None:
            self._expect(
                event.first_difference == differs, "baseline", f"the first difference is at token {differs}"
            )

    def _repeats_plain(self) -> bool:
        """Whether the newest settings have the text of plain decoding; unknown ones are told elsewhere."""
        settings = None if self.newest is None else self.settings[self.newest]
        rule = None if settings is None else RULES.get(settings.verify_strategy)
        return settings is None or rule is None or settings.temperature == 0 or rule.follows_seed

    def _divergence(self, event: BaselineFinished, differs: int | None) -> None:
        """What is told of the first difference is told of the first difference."""
        found = event.divergence
        if found is None:
            return
        if not self._expect(
            differs is not None and found.index == differs == event.first_difference,
            "baseline",
            f"the texts differ first at token {differs}, the divergence is told of {found.index}",
        ):
            return
        self._expect(
            (found.written, found.plain) == (self.ids[found.index], event.ids[found.index]),
            "baseline",
            "the tokens of the divergence are not those of the texts",
        )
        measured = [value for value in (found.gap, found.change) if value is not None]
        self._expect(all(value >= 0 for value in measured), "baseline", "a distance is negative")
