"""Every key binding of the program with its id: the app's and those of its panes and dialogs."""

from __future__ import annotations

from textual.binding import Binding

from tui.actions import ACTIONS
from tui.screens.bench import BenchScreen
from tui.screens.branch import AlternativesModal
from tui.screens.compare import CompareScreen
from tui.screens.conversations import ConversationsScreen
from tui.screens.dialog import Dialog
from tui.screens.editor import EditorModal
from tui.screens.help import HelpScreen
from tui.screens.jump import JumpScreen
from tui.screens.library import LibraryScreen
from tui.screens.message import ConfirmModal, ErrorModal
from tui.screens.model_rows import ModelRows
from tui.screens.models import ModelPicker
from tui.screens.race import RaceScreen
from tui.screens.recording_rows import RecordingRows
from tui.screens.settings import SettingsScreen
from tui.screens.tune import TuneScreen
from tui.widgets.context import ContextPane
from tui.widgets.inputs import ChatInput, SafeSelect
from tui.widgets.inspector import InspectorPane
from tui.widgets.lines import LineView
from tui.widgets.output import OutputPane
from tui.widgets.prompt import PromptPane
from tui.widgets.rounds import RoundsPane
from tui.widgets.timeline import Timeline
from tui.widgets.why import WhyPane

OWNERS = (
    *(LineView, ContextPane, OutputPane, RoundsPane, InspectorPane, PromptPane, WhyPane, Timeline, ChatInput),
    *(Dialog, ConversationsScreen, EditorModal, HelpScreen, JumpScreen, ConfirmModal, ErrorModal),
    *(ModelPicker, ModelRows, SettingsScreen, AlternativesModal, SafeSelect, RaceScreen),
    *(TuneScreen, BenchScreen),
    *(LibraryScreen, RecordingRows, CompareScreen),
)
"""Classes that bring keys of their own."""


def known_ids() -> tuple[str, ...]:
    """The ids that a keymap may name."""
    own = [
        binding.id
        for owner in OWNERS
        for binding in owner.__dict__.get("BINDINGS", ())
        if isinstance(binding, Binding) and binding.id is not None
    ]
    return tuple(dict.fromkeys([action.id for action in ACTIONS if action.keys] + own))
