"""What all dialogs share: a box in the middle that fits small terminals, its keys, and escape to leave."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, TypeVar

from textual import events, on
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static, TextArea

from tui.clipboard import say_copied
from tui.key_text import key_text
from tui.safe_text import visible

Result = TypeVar("Result")


class KeyHints(Static):
    """One line: the keys of the dialog that apply where the focus is."""

    DEFAULT_CSS = """
    KeyHints { height: 1; text-wrap: nowrap; text-overflow: ellipsis; color: $text-muted; }
    """

    def __init__(self) -> None:
        super().__init__("", classes="keys-line", markup=False)

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, lambda _: self.look())
        self.look()

    def look(self) -> None:
        """Look again which keys there are."""
        screen = self.screen
        if isinstance(screen, Dialog) and screen.is_active:
            parts: list[str | tuple[str, str]] = []
            for key, does in screen.hints():
                parts += [(visible(key, ""), "bold $text-accent"), f" {visible(does, '')}  "]
            self.update(Content.assemble(*parts))


class Dialog(ModalScreen[Result]):
    """A box over the screen. Its content goes into one container with the class ``box``."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Close", id="dialog.leave", tooltip="Close the dialog"),
        # The ids of the app: a user who gives these other keys means the dialogs too.
        Binding(
            "f12",
            "picture",
            "Screenshot",
            id="app.picture",
            tooltip="Save the screen as an SVG picture",
            show=False,
        ),
        Binding("ctrl+q", "quit", "Quit", id="app.leave", tooltip="Leave the program", show=False),
    ]
    KEYS: ClassVar[tuple[tuple[str, str], ...]] = ()
    """Keys of its widgets that are worth a hint, and what they do."""
    DEFAULT_CSS = """
    Dialog { align: center middle; }
    Dialog > .box {
        width: 90%; max-width: 84; height: auto; max-height: 95%;
        padding: 0 1; border: round $primary; background: $surface;
    }
    Dialog .title { text-style: bold; height: auto; margin-bottom: 1; }
    Dialog .quiet { color: $text-muted; height: auto; }
    Dialog .problem { color: $text-error; text-style: bold; height: auto; }
    Dialog .buttons { height: auto; align-horizontal: right; margin-top: 1; }
    Dialog .buttons Button { margin-left: 2; min-width: 10; }
    Dialog .buttons Button.-default { background: $panel; }
    Dialog .box OptionList > .option-list--option-highlighted {
        background: $primary 30%; color: $foreground;
    }
    Dialog .box Input, Dialog .box Input:focus { border: none; height: 1; padding: 0 1; background: $panel; }
    Dialog.-ascii > .box { border: ascii $primary; }
    Dialog.-ascii KeyHints { text-overflow: clip; }
    Dialog.-ascii SelectOverlay, Dialog.-ascii SelectOverlay:focus { border: ascii $primary; }
    """

    @on(events.Mount)
    async def _complete(self) -> None:
        self.set_class(self.ascii, "-ascii")
        await self.query_one(".box").mount(KeyHints())

    @property
    def ascii(self) -> bool:
        """Whether only ASCII signs are drawn."""
        return bool(getattr(self.app, "ascii", False))

    @property
    def unsaved(self) -> bool:
        """Whether something would be lost if the program ended now."""
        return False

    def hints(self) -> Iterable[tuple[str, str]]:
        """The keys that apply where the focus is: as shown, what they do; the one that leaves is last."""
        own = own_keys(self)
        return [*self.KEYS, *((key, name) for key, name, action in own if action != "leave")] + [
            (key, name) for key, name, action in own if action == "leave"
        ]

    LEAVE_QUESTION: ClassVar[str] = "Leave without saving?"

    def action_leave(self) -> None:
        """Close without a result; asks first if something would be lost."""
        if not self.unsaved:
            self.dismiss(None)
            return

        def leave(sure: bool | None) -> None:
            if sure:
                self.dismiss(None)

        self._ask_to_lose(self.LEAVE_QUESTION, "Leave", leave)

    def _ask_to_lose(self, question: str, yes: str, answered: Callable[[bool | None], Any]) -> None:
        from tui.screens.message import ConfirmModal

        self.app.push_screen(
            ConfirmModal(question, "Your changes would be lost.", yes=yes, danger=True), answered
        )

    def action_picture(self) -> None:
        """Have the app save a picture of the screen, the dialog with it."""
        take = getattr(self.app, "action_app_picture", None)
        if take is not None:
            take()

    async def action_quit(self) -> None:
        """End the program; asks first if something would be lost."""
        screens = self.app.screen_stack
        if not any(isinstance(screen, Dialog) and screen.unsaved for screen in screens):
            await self.app.action_quit()
            return

        async def leave(sure: bool | None) -> None:
            if sure:
                await self.app.action_quit()

        self._ask_to_lose("Quit without saving?", "Quit", leave)

    def action_copy_text(self) -> None:
        """Copy what is selected with the mouse, and say so."""
        super().action_copy_text()
        say_copied(self, self.get_selected_text() or "")

    def safe(self, text: str, keep: str = "\n") -> str:
        """Text from anywhere, in the character set the app is set to."""
        return visible(text, keep, ascii_only=self.ascii)


def own_keys(screen: Dialog[Result]) -> list[tuple[str, str, str]]:
    """The first key, the name and the action of what a dialog and its focused widget tell in their hints."""
    found: dict[str, tuple[str, str, str]] = {}
    typing = isinstance(screen.focused, Input | TextArea)
    for key, active in screen.active_bindings.items():
        binding, owner = active.binding, type(active.node).__module__
        if typing and len(key_text(key)) == 1:
            continue  # it is typed
        if binding.show and active.enabled and not binding.system and owner.startswith("tui.screens."):
            found.setdefault(binding.action, (key_text(key), binding.description, binding.action))
    return list(found.values())


def plain(text: str, classes: str = "", *, id: str | None = None) -> Static:
    """A widget for a text that may come from anywhere: made safe, never markup."""
    return Static(Content(visible(text)), classes=classes, id=id, markup=False)
