"""The actions of the app, one method each; ``tui.actions`` has their keys and when they apply."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from textual.geometry import Offset
from textual.widget import Widget

from tui.actions import Now, applies, topics
from tui.app_replay import ReplayApp
from tui.themes import THEMES
from tui.widgets.messages import BranchRequested


class CommandApp(ReplayApp):
    """The part of the app that carries out actions."""

    @property
    def now(self) -> Now:
        """What decides which actions apply."""
        talk = self.lab.conversation
        return Now(
            state=self.lab.state,
            replay=self.lab.replay is not None,
            messages=len(talk),
            answered=self.lab.answered,
            can_undo=bool(talk.past),
            can_redo=bool(talk.future),
        )

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Whether an action applies now."""
        if action != "quit" and len(self.screen_stack) > 1 and applies(action, parameters, self.now):
            return False  # a dialog is open: its own keys count
        found = applies(action, parameters, self.now)
        return super().check_action(action, parameters) if found is None else found

    def action_command_palette(self) -> None:
        from tui.screens.palette import PALETTE_ID, Palette

        if self.screen.id != PALETTE_ID:
            self.push_screen(Palette(id=PALETTE_ID))

    # -- runs

    def action_run_start(self) -> None:
        again = self.lab.answered
        self.with_models(lambda: self.lab.start(new_seed=again))

    def action_run_again(self) -> None:
        self.with_models(self.lab.start)

    def action_run_pause(self) -> None:
        self.lab.toggle_pause()

    def action_run_round(self) -> None:
        if self.lab.replay is not None:
            self.lab.next_round()
        else:
            self.with_models(self.lab.next_round)

    def action_run_token(self) -> None:
        if self.lab.replay is not None:
            self.lab.next_token()
        else:
            self.with_models(self.lab.next_token)

    def action_run_cancel(self) -> None:
        self.lab.cancel()

    def action_run_continue(self) -> None:
        self.with_models(self.lab.go_on)

    def action_run_branch(self) -> None:
        index = self.live.output.cursor
        if index is None:
            self.live.go_to("output")
            self.say("Choose a token with left and right, then press b.")
        else:
            self.branch_at(BranchRequested(index))

    # -- the view

    def action_pane(self, name: str) -> None:
        self.live.go_to(name)

    def action_view_write(self) -> None:
        self.live.go_to("write")

    def action_cycle(self, by: int) -> None:
        self.live.cycle(by)

    def action_view_jump(self) -> None:
        from tui.screens.jump import JumpScreen

        live = self.live
        places: dict[str, tuple[str, Offset]] = {}
        for at, (letter, (name, widget)) in enumerate(live.places.items()):
            where = self._corner(widget)
            places[letter] = (name, where or Offset(2, 3 + 2 * at))
        self.push_screen(JumpScreen(places), lambda name: live.go_to(name) if name else None)

    @staticmethod
    def _corner(widget: Widget) -> Offset | None:
        """Where a letter stands on a widget; None if it cannot be seen."""
        region = widget.region
        return Offset(region.x + 2, region.y) if region else None

    def action_view_maximise(self) -> None:
        self.live.maximise()

    def action_view_theme(self) -> None:
        names = [theme.name for theme in THEMES]
        at = names.index(self.theme) if self.theme in names else -1
        self.theme = names[(at + 1) % len(names)]

    # -- the program

    def action_app_help(self) -> None:
        from tui.screens.help import HelpScreen, Topic, topic_of

        focused = self.live.focused
        first = topic_of(focused, None) if focused is not None else None
        rest = [Topic(title, "", keys) for title, keys in topics()]
        panes = [
            topic_of(self.live.pane(name))
            for name in ("context", "output", "rounds", "inspector", "gauge", "prompt")
        ]
        own = first.title if first is not None else ""
        others = [topic for topic in panes if topic is not None and topic.title != own]
        self.push_screen(HelpScreen([*([first] if first else []), *rest, *others]))

    def action_app_picture(self) -> None:
        stamp = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
        name = f"naive-speculate-{stamp}.svg"
        try:
            self.save_screenshot(name, str(Path.cwd()))
        except OSError as error:
            self.say(
                f"The picture cannot be written here: {(error.strerror or str(error)).lower()}. Start the"
                " program in a folder that you may write to.",
                "warning",
            )
        else:
            self.say(f"Saved {name} in the working folder.")

    async def action_press(self, key: str) -> None:
        self.simulate_key(key)
