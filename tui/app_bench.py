"""The part of the app that tunes a context and runs a quick bench."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from engine.errors import SpeculateError
from tui.app_race import RaceApp
from tui.drafting import drafter_words
from tui.engine_commands import Work
from tui.recording_work import works

if TYPE_CHECKING:
    from engine.config import Config
    from engine.session import Session
    from tui.engine_commands import CalledOff
    from tui.screens.measuring import MeasuringScreen
    from tui.screens.tune import TuneChoice


class BenchApp(RaceApp):
    """Starts measurements that need the engine alone, shows them, and ends them with their screen."""

    measuring: MeasuringScreen[Any] | None = None
    """The screen of the one in progress, while it is open."""

    def action_tune_start(self) -> None:
        """Other measurements end before."""
        self._when_alone(self._tune)

    def action_bench_start(self) -> None:
        """As ``action_tune_start``."""
        self._when_alone(self._bench)

    def close_measuring(self) -> None:
        """The engine failed: the screen of what it measured gives way to the error."""
        self.close_race()
        if self.measuring is not None and self.measuring is self.screen:
            self.measuring.dismiss(None)

    def _when_alone(self, action: Callable[[], None]) -> None:
        if works():
            self.say("A recording is being read: measure when that is done.")
            return
        self.lab.when_free(action)

    def _measure(self, screen: MeasuringScreen[Any], work: Work, done: Callable[[Any], None]) -> None:
        def left(result: Any) -> None:
            self.measuring = None
            if not screen.finished:
                self.lab.cancel()
            if result is not None:
                done(result)

        self.measuring = screen
        self.lab.measure(work, screen.tell)
        self.push_screen(screen, left)

    # -- tuning

    def _tune(self) -> None:
        from tui.screens.tune import TuneScreen

        messages = self.lab.question
        if not messages:
            self.say("There is nothing to answer yet: write a message.")
            return

        def work(session: Session, called_off: CalledOff) -> Iterator[object]:
            from engine.tune import tune

            return tune(session, messages, cancelled=called_off)

        self._measure(TuneScreen(), work, self._use)

    def _use(self, choice: TuneChoice) -> None:
        from tui.tune_rows import applied

        try:
            config = applied(self.lab.config, choice.row)
            self.lab.change(config)
            if choice.save:
                self._save_tuned(config)
        except SpeculateError as error:
            self.show_error(error)

    def _save_tuned(self, config: Config) -> None:
        from tui.screens.message import ErrorModal
        from tui.tune_rows import draft_lines, save_draft

        if self.config_path is None:
            self.push_screen(
                ErrorModal(
                    "In use, and not saved",
                    "A preset cannot be changed. In a file of your own these lines do the same:\n\n"
                    + draft_lines(config),
                )
            )
            return
        save_draft(config.draft, self.config_path)
        self.say(f"Saved in {self.config_path}.")

    # -- the bench

    def _bench(self) -> None:
        from tui.bench_work import quick_bench
        from tui.screens.bench import BenchScreen

        draft, target = self.lab.config.draft, self.lab.config.verify.model_name
        pair = f"{drafter_words(draft.method, draft.model_name)}; target {target}"

        def work(session: Session, called_off: CalledOff) -> Iterator[object]:
            return quick_bench(session, called_off)

        self._measure(BenchScreen(pair), work, lambda _: None)
