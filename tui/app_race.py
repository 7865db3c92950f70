"""The part of the app that lets plain and speculative decoding race."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.app_commands import CommandApp
from tui.recording_work import works

if TYPE_CHECKING:
    from tui.screens.race import RaceScreen


class RaceApp(CommandApp):
    """Starts a race, shows it, and ends it with its screen."""

    racing: RaceScreen | None = None
    """The screen of the race, while it is open."""

    def action_race_start(self) -> None:
        """A measurement in progress ends before; work on recordings would be timed with it."""
        if works():
            self.say("A recording is being read: start the race when that is done.")
            return
        self.lab.when_free(self._race)

    def _race(self) -> None:
        from tui.screens.race import RaceScreen

        lab = self.lab
        draft = lab.config.draft
        drafter = lab.state.drafter.name if lab.state.drafter is not None else draft.method
        dtype = lab.state.target.dtype if lab.state.target is not None else ""
        screen = RaceScreen(f"K {draft.num_draft_tokens}: {drafter}", dtype)
        if lab.race(screen.tell):
            self.racing = screen
            self.push_screen(screen, lambda _: self._race_left(screen))

    def _race_left(self, screen: RaceScreen) -> None:
        self.racing = None
        if screen.state.result is None:
            self.lab.cancel()

    def close_race(self) -> None:
        """The engine failed: the race is over, and its screen gives way to the error."""
        if self.racing is not None and self.racing is self.screen:
            self.racing.dismiss(None)
