"""The table of all keys in ``docs/app.md``, made from the actions and bindings themselves."""

from __future__ import annotations

from collections.abc import Iterator

from textual.binding import Binding

from tui.actions import ACTIONS
from tui.key_text import key_text
from tui.keys import OWNERS

TITLES = {
    "LineView": "In every pane",
    "ContextPane": "In the pane Context",
    "OutputPane": "In the pane Output",
    "RoundsPane": "In the pane Rounds",
    "InspectorPane": "In the pane Inspector",
    "PromptPane": "In the pane Prompt",
    "WhyPane": "In the pane Why",
    "Timeline": "In the line of a replay",
    "ChatInput": "In the line for your next message",
    "Dialog": "In every dialog",
    "ConversationsScreen": "In the list of conversations",
    "EditorModal": "In the editor of a message",
    "HelpScreen": "In the help",
    "JumpScreen": "While jump letters are shown",
    "ConfirmModal": "In a question",
    "ErrorModal": "In an error",
    "ModelPicker": "In the model picker",
    "ModelRows": "In its list of models",
    "AlternativesModal": "In the choice of a branch",
    "SafeSelect": "In a choice of the settings",
    "SettingsScreen": "In the settings",
    "RaceScreen": "In a race",
    "TuneScreen": "While a context is tuned",
    "BenchScreen": "In a bench",
    "LibraryScreen": "In the recordings",
    "RecordingRows": "In their list",
    "CompareScreen": "In the comparison",
}
"""Where the keys of a class apply."""


def key_table() -> str:
    """Markdown: a table for each place, with the keys, their id for the keymap, and what they do."""
    parts = []
    for title, rows in _places():
        lines = [f"| {_code(keys)} | `{id_}` | {does} |" for keys, id_, does in rows]
        parts.append("\n".join([f"### {title}", "", "| keys | id | |", "|---|---|---|", *lines]))
    return "\n\n".join(parts) + "\n"


def _places() -> Iterator[tuple[str, list[tuple[str, str, str]]]]:
    groups = dict.fromkeys(action.group for action in ACTIONS)
    for group in groups:
        yield (
            f"Anywhere: {group.lower()}",
            [(act.keys, act.id, act.tooltip) for act in ACTIONS if act.group == group and act.keys],
        )
    for owner in OWNERS:
        rows: dict[str, tuple[str, str, str]] = {}
        for binding in owner.__dict__.get("BINDINGS", ()):
            if isinstance(binding, Binding) and binding.id:
                keys = ",".join(filter(None, (rows.get(binding.id, ("",))[0], binding.key)))
                rows[binding.id] = (keys, binding.id, binding.tooltip or binding.description)
        if rows:
            yield TITLES.get(owner.__name__, owner.__name__), [*rows.values()]


def _code(keys: str) -> str:
    shown = (key_text(key.strip()) for key in keys.split(","))
    return " ".join("`` ` ``" if key == "`" else f"`{key}`".replace("|", "\\|") for key in shown)
