"""The part of the app that plays recordings; ``tui.actions`` has the keys."""

from __future__ import annotations

import asyncio
import gc

from textual import on, work
from textual.timer import Timer

from engine.config import Config
from engine.errors import Cancelled, DiskError, SpeculateError
from engine.recorded_config import recorded_config
from tui.app_settings import SettingsApp
from tui.bookmarks import Bookmarks
from tui.clipboard import copy
from tui.playable import Made, Playable, load_demo
from tui.recording_work import check, check_text
from tui.schedule import FASTEST, MAX_GAP_S, SLOWEST
from tui.screens.message import Choice, ChoiceModal, TextModal
from tui.state import Phase, visible_text
from tui.survey import MarkerKind, Survey
from tui.widgets.timeline import Timeline

SPEEDS = (SLOWEST, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, FASTEST)
_GAPS = (MAX_GAP_S, 0.5, None)
_SURVEY_S, _SURVEY_EVERY_S = 0.006, 0.02
"""How long the rounds ahead are read at a time, and how often."""
_SURVEY_SHOWN = 25
"""Readings between two paints of the timeline."""
_DECIDE_TEXT = ("template", "thinking", "stop", "ignore_eos", "max_new_tokens", "rounds")
"""Keys of [run] that a fork takes over with the recording's settings."""
_MUCH = 512
"""Chunks of text that are read while the screen waits."""
_MINE, _ITS = "mine", "its"


class ReplayApp(SettingsApp):
    """Plays recordings."""

    played: Playable | None = None
    """What is played, or was last."""
    survey: Survey | None = None
    bookmarks: Bookmarks | None = None
    _kind: MarkerKind | None = None
    """Which rounds [ and ] go to, once they were used."""
    _survey_timer: Timer | None = None
    _readings = 0

    @property
    def recorded(self) -> Made | None:
        """What the recording that is shown was made with."""
        return self.played.made if self.played is not None and self.lab.replay is not None else None

    # -- what is played

    def action_demo_play(self) -> None:
        demo = load_demo()
        if demo is None:
            self.say("There is no recording with this program.")
            return
        self.play(demo)

    def play(self, demo: Playable) -> None:
        """Show a recording, when what is on its way has ended."""

        def show() -> None:
            self.played = demo
            self.survey = Survey(demo.source.tape)
            self.bookmarks = Bookmarks(demo.source.tape.header)
            gc.freeze()  # one full collection of what the imports brought would cost a seek its time
            self._read_on()
            self.lab.play(demo.source, demo.messages)

        self.lab.when_free(show)

    def _read_on(self) -> None:
        """Read the rounds ahead, a little at a time."""
        if self._survey_timer is None:
            self._survey_timer = self.set_interval(_SURVEY_EVERY_S, self._read)

    def _read(self) -> None:
        survey = self.survey
        if survey is None or self.lab.replay is None or survey.read(_SURVEY_S):
            if self._survey_timer is not None:
                self._survey_timer.stop()
                self._survey_timer = None
            self.show_timeline()
            return
        self._readings += 1
        if not self._readings % _SURVEY_SHOWN:
            self.show_timeline()

    def show_timeline(self) -> None:
        """Show where the replay is; nothing while none is."""
        source, survey, bookmarks = self.lab.replay, self.survey, self.bookmarks
        if source is None or survey is None or bookmarks is None:
            self.live.show_timeline(None)
            return
        if not survey.whole:
            self._read_on()
        kind = "" if self._kind is None else f"[ ] {self._kind.value}"
        self.live.show_timeline(source, survey, bookmarks.rounds, kind)

    # -- going through it

    @on(Timeline.Sought)
    def _sought(self, event: Timeline.Sought) -> None:
        self.lab.seek_step(event.count)

    def action_replay_back_round(self) -> None:
        self.lab.back_round()

    def action_replay_back_token(self) -> None:
        self.lab.back_token()

    def action_replay_slower(self) -> None:
        self._speed(-1)

    def action_replay_faster(self) -> None:
        self._speed(1)

    def _speed(self, by: int) -> None:
        if self.lab.replay is None:
            return
        clock = self.lab.replay.clock
        ahead = [speed for speed in SPEEDS if (speed - clock.speed) * by > 1e-9]
        if ahead:
            clock.speed = min(ahead, key=lambda speed: abs(speed - clock.speed))
        else:
            self._say_alone(
                f"{'Slower' if by < 0 else 'Faster'} than {clock.speed:g} times its pace it cannot be."
            )
        self.lab.on_change()

    def action_replay_loop(self) -> None:
        if self.lab.replay is not None:
            self.lab.replay.loop = not self.lab.replay.loop
            self.lab.on_change()

    def action_replay_idle(self) -> None:
        """How long a wait may last: longer ones are cut to it."""
        replay = self.lab.replay
        if replay is None:
            return
        at = _GAPS.index(replay.max_gap_s) if replay.max_gap_s in _GAPS else -1
        replay.max_gap_s = _GAPS[(at + 1) % len(_GAPS)]
        self.lab.on_change()

    def action_replay_go(self) -> None:
        replay = self.lab.replay
        if replay is None:
            return
        total = replay.steps

        def problem(text: str) -> str | None:
            good = text.isascii() and text.isdigit() and 1 <= int(text[:12]) <= total
            return None if good else f"a number from 1 to {total}"

        def answered(text: str | None) -> None:
            if text is not None:
                self.lab.seek_step(int(text))

        question = f"Go to which round of {total:,}?"
        self.push_screen(TextModal(question, str(max(replay.step, 1)), check=problem), answered)

    # -- markers

    @property
    def _marked(self) -> MarkerKind:
        return self._kind or MarkerKind.REJECTED_AT_0

    def action_replay_marker(self, by: int) -> None:
        replay, survey, bookmarks = self.lab.replay, self.survey, self.bookmarks
        if replay is None or survey is None or bookmarks is None:
            return
        kind = self._kind = self._marked
        found = survey.marker(replay.step - 1, by, kind, bookmarks.rounds)
        if found is not None:
            self.lab.seek_step(found + 1)
            return
        where = "after" if by > 0 else "before"
        so_far = "" if survey.whole else f" in the {len(survey):,} rounds that were looked at so far"
        self._say_alone(f"No more {where} this round{so_far}: {kind.value}. M chooses another kind.")

    def action_replay_kind(self) -> None:
        kinds = list(MarkerKind)
        self._kind = kinds[(kinds.index(self._marked) + 1) % len(kinds)]
        self.show_timeline()

    def action_replay_bookmark(self) -> None:
        replay, bookmarks = self.lab.replay, self.bookmarks
        if replay is None or bookmarks is None:
            return
        if not replay.step:
            self.say("Bookmarks are set at rounds: go to one first.")
            return
        try:
            is_set = bookmarks.toggle(replay.step - 1)
        except DiskError as error:
            self.show_error(error)
        else:
            self._say_alone(f"Bookmark {'set' if is_set else 'removed'} at round {replay.step:,}.")
        self._kind = MarkerKind.BOOKMARK
        self.show_timeline()

    def _say_alone(self, text: str) -> None:
        """In the place of what was said before."""
        self.clear_notifications()
        self.say(text)

    # -- checking it

    @work(exclusive=True, group="check")
    async def action_replay_verify(self) -> None:
        """Check every round again, without models, as ``spec verify`` does."""
        path = self.played.path if self.played is not None else None
        if path is None:
            self.say("What came through a pipe is checked with: spec verify FILE")
            return
        from tui.screens.verdict import VerdictModal

        self._say_alone("Every round is checked again ...")
        try:
            checked = await asyncio.to_thread(check, path, lambda: self.lab.replay is None, lambda *_: None)
        except Cancelled:
            return  # the recording was left
        except SpeculateError as error:
            self.show_error(error)
            return
        finally:
            self.clear_notifications()
        verdict, lines = check_text(checked)
        self.push_screen(VerdictModal(verdict, lines, sound=checked.is_sound))

    async def _text(self) -> str:
        """That of the answer, as far as it is shown; what is in a long file only is read in a thread."""
        chunks = visible_text(self.lab.state)
        if chunks.archived < _MUCH:
            return "".join(chunks)
        self._say_alone("The text is read ...")
        return await asyncio.to_thread("".join, chunks)

    @work(exclusive=True, group="copy")
    async def action_talk_copy(self) -> None:
        """Put the text of the answer on the clipboard."""
        text = await self._text()
        if text:
            copy(self.live, text)

    # -- leaving it

    def action_replay_leave(self) -> None:
        self.lab.go_live()

    def action_replay_fork(self) -> None:
        """The conversation up to here becomes the user's own; with which settings, is asked."""
        replay = self.lab.replay
        if replay is None:
            return
        if self.lab.state.phase is not Phase.PAUSED and replay.clock.playing:
            self.lab.toggle_pause()
        mine, its = self.lab.config, recorded_config(replay.tape.header)
        config = mine if its is None else decoding_as(mine, its)
        if config == mine:
            self._fork(None)
            return
        choices = [
            Choice(_MINE, "Your settings", _pair(mine)),
            Choice(
                _ITS, "Those of the recording", f"{_pair(config)}. Nothing is loaded before you ask for it."
            ),
        ]

        def chosen(choice: str | None) -> None:
            if choice is not None:
                self._fork(config if choice == _ITS else None)

        self.push_screen(ChoiceModal("Go on from here with which settings?", choices), chosen)

    @work(exclusive=True, group="fork")
    async def _fork(self, config: Config | None) -> None:
        replay, text = self.lab.replay, await self._text()
        if self.lab.replay is not replay:
            return  # it was left meanwhile
        self.lab.fork(text, config)
        self.say("The conversation up to here is yours: c goes on with the answer, Ctrl+R writes it again.")


def decoding_as(mine: Config, its: Config) -> Config:
    """The user's configuration with what decides a recording's text; the seed stays the user's."""
    sampling = its.sampling.model_copy(update={"seed": mine.sampling.seed})
    run = mine.run.model_copy(update={name: getattr(its.run, name) for name in _DECIDE_TEXT})
    return mine.model_copy(
        update={"draft": its.draft, "verify": its.verify, "sampling": sampling, "run": run}
    )


def _pair(config: Config) -> str:
    return f"{config.verify.model_name} with {config.draft.model_name or config.draft.method}"
