"""Every action of the app: keys, footer, command palette, help and documentation are made from this list."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from textual.binding import Binding

from tui.state import Phase, ViewState, step_count


@dataclass(frozen=True, slots=True)
class Now:
    """What decides which actions apply."""

    state: ViewState
    replay: bool = False
    """A recording is shown."""
    messages: int = 0
    answered: bool = False
    """The assistant has the last word."""
    can_undo: bool = False
    can_redo: bool = False

    @property
    def running(self) -> bool:
        return self.state.running and not self.replay

    @property
    def loaded(self) -> bool:
        return self.state.target is not None and not self.replay and not self.loading

    @property
    def loading(self) -> bool:
        return self.state.phase is Phase.LOADING

    @property
    def stepping(self) -> bool:
        """Something of the newest round is hidden."""
        state = self.state
        return state.revealed is not None and state.revealed < step_count(state.rounds[-1])


def always(now: Now) -> bool:
    """Applies at any time."""
    del now
    return True


@dataclass(frozen=True, slots=True)
class Action:
    """One thing the user can do, wherever the focus is."""

    id: str
    """Its stable name, for the keymap: "run.start"."""
    keys: str
    """As Textual names them, separated by commas; "" for none. Text fields keep those that print."""
    title: str
    tooltip: str
    group: str
    when: Callable[[Now], bool] = always
    footer: bool = False
    call: str = ""
    """The action as Textual calls it; default: the id with an underscore."""

    @property
    def name(self) -> str:
        """The action as Textual calls it."""
        return self.call or self.id.replace(".", "_")

    @property
    def bindings(self) -> list[Binding]:
        """A key each; those that a text field would take for itself come first."""
        return [
            Binding(
                key,
                self.name,
                self.title,
                id=self.id,
                tooltip=self.tooltip,
                show=self.footer,
                priority=key in _TAKEN_BY_FIELDS,
            )
            for key in self.keys.split(",")
            if key
        ]


_TAKEN_BY_FIELDS = {"f6", "shift+f6", "f7"}


def _steps(now: Now) -> bool:
    if now.replay or now.running or now.stepping:
        return True
    return now.messages > 0 and not now.answered and not now.loading


def _ends(now: Now) -> bool:
    return not now.replay and (now.running or now.loading or now.state.phase is Phase.BASELINE)


def _pauses(now: Now) -> bool:
    return now.running or now.replay


def _branches(now: Now) -> bool:
    return now.state.run > 0 and not now.replay


def _replays(now: Now) -> bool:
    return now.replay


RUN, REPLAY, CHANGE, MODELS, TALK, VIEW, PROGRAM = (
    "Run",
    "Replay",
    "Between rounds",
    "Models and settings",
    "Conversation",
    "View",
    "Program",
)
PANE_KEYS = {"context": 1, "output": 2, "rounds": 3, "inspector": 4, "gauge": 5, "prompt": 6, "why": 8}
"""The panes by their keys; 7 is the line of a replay."""
PANES = tuple(PANE_KEYS)

ACTIONS: tuple[Action, ...] = (
    Action(
        *("run.start", "ctrl+r,f5", "Run"),
        "Answer the conversation; an answer that is there is written again with a new seed",
        RUN,
        lambda now: now.messages > 0 and not now.running,
        footer=True,
    ),
    Action(
        *("run.again", "S", "Same seed"),
        "Write the answer again with the same seed",
        RUN,
        lambda now: now.answered and not now.running and not now.replay,
    ),
    Action(
        "run.pause", "space,f7", "Pause / go on", "Pause at the next commit, or go on", RUN, _pauses, True
    ),
    Action(
        *("run.round", "full_stop,f8", "Next round"), "One round, then stand still", RUN, _steps, footer=True
    ),
    Action(
        *("run.token", "comma,f9", "Next token"),
        "Show the drafts, verdicts and the target's token one by one",
        RUN,
        _steps,
        footer=True,
    ),
    Action(
        *("run.cancel", "escape", "Cancel"),
        "End the answer, the measurement or the load; a partial answer is kept",
        RUN,
        _ends,
        footer=True,
    ),
    Action(
        *("run.continue", "c", "Go on"),
        "Let the answer go on at its end",
        RUN,
        lambda now: now.answered and not now.running and not now.replay,
    ),
    Action(
        *("race.start", "A", "Race"),
        "Plain against speculative decoding of this context: each way alone, then both side by side",
        RUN,
        lambda now: now.messages > 0 and now.loaded and not now.running,
    ),
    Action(
        *("run.branch", "b", "Branch"),
        "Go on from another token than the one at the cursor of the output",
        RUN,
        _branches,
    ),
    Action("replay.leave", "escape", "Leave", "Leave the recording", REPLAY, _replays, footer=True),
    Action("replay.back_round", "backspace,shift+f8", "Round back", "One round back", REPLAY, _replays),
    Action("replay.back_token", "semicolon,shift+f9", "Token back", "Hide the last token", REPLAY, _replays),
    Action(
        *("replay.slower", "less_than_sign", "Slower"),
        "Slower, to 0.1 times its pace",
        REPLAY,
        _replays,
    ),
    Action(
        *("replay.faster", "greater_than_sign", "Faster"),
        "Faster, to 16 times its pace",
        REPLAY,
        _replays,
    ),
    Action(
        *("replay.previous", "left_square_bracket", "Marker before"),
        "Back to the nearest round of the chosen kind",
        REPLAY,
        _replays,
        call="replay_marker(-1)",
    ),
    Action(
        *("replay.next", "right_square_bracket", "Next marker"),
        "On to the nearest round of the chosen kind",
        REPLAY,
        _replays,
        footer=True,
        call="replay_marker(1)",
    ),
    Action(
        *("replay.kind", "M", "Kind of marker"),
        "Which rounds [ and ] go to: rejected at the first draft, all accepted, slow, bookmarks",
        REPLAY,
        _replays,
    ),
    Action("replay.bookmark", "B", "Bookmark", "Set or remove a bookmark at this round", REPLAY, _replays),
    Action("replay.go", "ctrl+g", "Go to round", "Go to a round by its number", REPLAY, _replays),
    Action("replay.loop", "O", "Loop", "At the end begin again, or not", REPLAY, _replays),
    Action(
        *("replay.idle", "I", "Waits"),
        "Cut waits to 2 seconds, to half a second, or play them in full",
        REPLAY,
        _replays,
    ),
    Action(
        *("replay.verify", "v", "Verify"),
        "Check every round again, without models",
        REPLAY,
        _replays,
    ),
    Action(
        *("replay.fork", "b", "Fork"),
        "The conversation up to here becomes your own, to go on with",
        REPLAY,
        _replays,
        footer=True,
    ),
    Action("record.toggle", "R", "Record", "Record what follows, or stop", RUN),
    Action("change.more", "plus,equals_sign", "K + 1", "One more drafted token a round", CHANGE),
    Action("change.fewer", "minus", "K - 1", "One drafted token less a round", CHANGE),
    Action(
        *("change.auto", "", "K automatic"),
        "K is chosen before each round, and is 0 where drafts do not pay",
        CHANGE,
    ),
    Action("change.temperature", "T", "Temperature", "Another temperature from the next round on", CHANGE),
    Action("change.rule", "V", "Rule", "How drafts are judged: a list of the rules", CHANGE),
    Action(
        *("change.drafter", "D", "Drafter"),
        "Who drafts: a list of the ways; an answer on its way goes on",
        CHANGE,
    ),
    Action(
        *("models.load", "ctrl+l,y", "Load"),
        "Load the models that the settings name",
        MODELS,
        lambda now: not now.loaded and not now.loading,
        footer=True,
    ),
    Action("models.pick", "f3", "Models", "Choose, load and free models", MODELS, footer=True),
    Action(
        *("tune.start", "K", "Tune"),
        "Try drafters and K on this context for half a minute, rank them, and take the best",
        MODELS,
        lambda now: now.messages > 0 and now.loaded and not now.running,
    ),
    Action(
        *("bench.start", "Q", "Quick bench"),
        "This pair over a prompt of each category, each K beside plain decoding: about 3 minutes",
        MODELS,
        lambda now: now.loaded and not now.running,
    ),
    Action("settings.open", "f2", "Settings", "Every key of the configuration", MODELS, footer=True),
    Action("talk.list", "f4", "Conversations", "Open, rename, delete, import and export conversations", TALK),
    Action("talk.new", "ctrl+n", "New conversation", "Begin a new conversation", TALK),
    Action(
        *("talk.undo", "u", "Undo"),
        "Undo the last edit, answer or branch; the run behind it is shown again",
        TALK,
        lambda now: now.can_undo and not now.replay,
    ),
    Action(
        *("talk.redo", "U", "Redo"),
        "Do again what was undone",
        TALK,
        lambda now: now.can_redo and not now.replay,
    ),
    Action("talk.system", "", "System prompt", "Edit the system prompt", TALK),
    Action("talk.thinking", "", "Thinking", "Ask the model to think first, or not", TALK),
    Action(
        *("talk.copy", "Y", "Copy the answer"),
        "Put the text of the answer on the clipboard",
        TALK,
        lambda now: now.state.run > 0,
    ),
    *(
        Action(
            *(f"view.{name}", str(number), name.capitalize()),
            f"To the pane: {name}",
            VIEW,
            call=f"pane('{name}')",
        )
        for name, number in PANE_KEYS.items()
    ),
    Action("view.write", "0", "Write", "To the line for your next message", VIEW),
    Action(
        "view.timeline", "7", "Timeline", "To the line of the replay", VIEW, _replays, call="pane('timeline')"
    ),
    Action("view.next", "f6", "Next pane", "To the next pane", VIEW, call="cycle(1)"),
    Action("view.previous", "shift+f6", "Pane before", "To the pane before", VIEW, call="cycle(-1)"),
    Action("view.jump", "ctrl+o", "Jump", "Show a letter on every pane, and go to one", VIEW),
    Action("view.maximise", "z", "Maximise", "The pane alone, or all of them", VIEW, footer=True),
    Action("view.theme", "", "Next theme", "Dark, light, high contrast, colour-blind safe", VIEW),
    Action("library.open", "L", "Recordings", "Play, compare, check and export what was recorded", PROGRAM),
    Action("demo.play", "", "Play the recording", "A recorded run that comes with the program", PROGRAM),
    Action(
        "app.help", "f1,question_mark", "Help", "What the pane is for, and every key", PROGRAM, footer=True
    ),
    Action("app.picture", "f12", "Screenshot", "Save the screen as an SVG picture", PROGRAM),
    Action(
        "app.leave", "ctrl+q", "Quit", "Leave the program; the conversation is saved", PROGRAM, call="quit"
    ),
)
BY_ID = {action.id: action for action in ACTIONS}
BY_NAME = {action.name: action for action in ACTIONS}


def bindings() -> list[Binding]:
    """The app's key bindings."""
    return [binding for action in ACTIONS for binding in action.bindings]


def applies(name: str, parameters: tuple[object, ...], now: Now) -> bool | None:
    """Whether an action applies; None for one that is not of this list."""
    words = f"{name}({', '.join(map(repr, parameters))})" if parameters else name
    action = BY_NAME.get(words)
    return None if action is None else action.when(now)


def topics() -> Iterable[tuple[str, tuple[tuple[str, str], ...]]]:
    """Groups with their keys and what these do, for the help and the documentation."""
    for group in (RUN, REPLAY, CHANGE, MODELS, TALK, VIEW, PROGRAM):
        keys = [(action.keys, action.tooltip) for action in ACTIONS if action.group == group and action.keys]
        yield group, tuple(keys)
