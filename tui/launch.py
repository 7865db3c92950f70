"""What the app starts with: settings, conversation, and whether models are loaded at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from engine import presets
from engine.config import Config, Override, load_config
from engine.context import Message, preset_context
from tui.conversation import Conversation
from tui.conversation_store import ConversationStore
from tui.playable import Playable
from tui.recording_folder import RecordingFolder

DEFAULT_PRESET = "builtin"


@dataclass(frozen=True, slots=True)
class Launch:
    """How the app begins."""

    config: Config
    conversation: Conversation
    store: ConversationStore
    config_path: Path | None = None
    """The file of the settings; None for a preset."""
    load: bool = False
    """Load the pair at once; what has to be fetched is asked for."""
    demo: bool = False
    """Play the shipped recording first."""
    replay: Playable | None = None
    """Play this recording first."""
    ascii: bool = False
    keymap: dict[str, str] = field(default_factory=dict)
    """Other keys by the id of their action."""
    problem: str | None = None
    """What went wrong so far, to be told."""
    recordings: RecordingFolder = field(default_factory=RecordingFolder)


def first_launch(
    overrides: Sequence[str | Override] = (),
    *,
    ascii_only: bool = False,
    keymap: dict[str, str] | None = None,
    store: ConversationStore | None = None,
) -> Launch:
    """``spec`` alone: the last conversation, or the recording where there is none yet. Raises ConfigError."""
    store = store or ConversationStore()
    conversation, problem = store.restore()
    is_new = not conversation.messages and problem is None
    return Launch(
        config=load_config(DEFAULT_PRESET, overrides),
        conversation=_of_preset(DEFAULT_PRESET) if is_new else conversation,
        store=store,
        demo=is_new,
        ascii=ascii_only,
        keymap=keymap or {},
        problem=problem,
    )


def launch_with(
    config: Config,
    source: str,
    messages: tuple[Message, ...] | None,
    *,
    ascii_only: bool = False,
    keymap: dict[str, str] | None = None,
    store: ConversationStore | None = None,
) -> Launch:
    """``spec CONFIG [CONTEXT] --app``.

    Without a context the last conversation goes on; with a preset the last one that began with it, and where
    there is none yet, the preset's own.
    """
    store = store or ConversationStore()
    problem = None
    preset = source if presets.is_preset(source) else ""
    if messages is None:
        conversation, problem = store.restore(preset)
        if preset and not conversation.messages:
            conversation = _of_preset(preset)
    else:
        conversation = Conversation(messages)
    return Launch(
        config=config,
        conversation=conversation,
        store=store,
        config_path=None if preset else Path(source),
        load=True,
        ascii=ascii_only,
        keymap=keymap or {},
        problem=problem,
    )


def _of_preset(name: str) -> Conversation:
    return Conversation(preset_context(name), preset=name)
