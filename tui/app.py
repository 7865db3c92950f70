"""The app: its screens and keys, and the frames in which the engine's events reach the screen.

Importing this loads neither torch nor transformers; the engine's thread does, after the first paint.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from time import monotonic
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message

from engine.errors import DiskError
from tui.actions import ACTIONS, bindings
from tui.app_bench import BenchApp
from tui.app_library import LibraryApp
from tui.engine_thread import EngineThread
from tui.guards import on_signals
from tui.key_order import KeyOrder
from tui.key_text import key_text
from tui.lab import Lab
from tui.launch import Launch
from tui.pump import Pump
from tui.safe_text import visible
from tui.screens.live import LiveScreen
from tui.session_recorder import SessionRecorder
from tui.state import FailureSeen, Phase, ViewState
from tui.widgets.transport import TransportBar

_MEMORY_EVERY_S = 2.0
_QUIET_NOTICES = frozenset({"device", "dtype", "optimize"})
"""The first line says these."""


class Woken(Message):
    """The engine said something."""


class SpecApp(KeyOrder[int], LibraryApp, BenchApp):
    """The terminal app.

    Args:
        engine: not started yet; the app starts it after its first paint, whoever made it stops it.
        launch: what it begins with.
    """

    CSS_PATH = Path(__file__).with_name("app.tcss")
    TITLE = "Naive Speculate"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings()]
    ENABLE_COMMAND_PALETTE = True

    def __init__(self, engine: EngineThread, launch: Launch) -> None:
        super().__init__()
        self.launch = launch
        self.ascii = launch.ascii
        self.store = launch.store
        self.config_path = launch.config_path
        self.engine = engine
        self.lab = Lab(engine, launch.config, launch.conversation)
        self.recorder = SessionRecorder(self.lab, launch.recordings, self.show_error)
        self.pump = Pump(self._take, self._frame, self._later, self._after_paint)
        self.crash: Exception | None = None
        """What ended the app, if it was a mistake of its own."""
        self._applied: tuple[bool | None, ...] = ()
        self._shown = ViewState()
        self._previewed: object = None
        self._notices = 0
        self._memory_at = float("-inf")
        self._save_failed = False
        self._wanting = []
        self.animation_level = "none"

    def get_default_screen(self) -> LiveScreen:
        """The live screen is the bottom of the stack."""
        return LiveScreen()

    # -- beginning and end

    def on_mount(self) -> None:
        on_signals(self._leave)
        self.set_keymap(self.launch.keymap)
        self.lab.on_change = self.show
        self.lab.on_conversation = self._conversation_changed
        self.lab.say = self.say
        self.engine.wake = self._woken_from_thread
        self.live.call_after_refresh(self._begin)

    def _begin(self) -> None:
        """After the first paint."""
        self.engine.start()
        launch = self.launch
        if launch.problem is not None:
            self.say(launch.problem, "warning")
        if launch.replay is not None:
            self.play(launch.replay)
        elif launch.demo:
            self.action_demo_play()
        self._conversation_changed()
        self.show()
        if launch.load:
            self.load(launch.config)
        waiting = (
            launch.demo
            or launch.replay is not None
            or (launch.load and not self.lab.answered and bool(launch.conversation.messages))
        )
        self.live.go_to("output" if waiting else "write")

    def _woken_from_thread(self) -> None:
        self.post_message(Woken())

    def _leave(self, code: int) -> None:
        self.lab.keep_partial()
        self.exit(code, return_code=code)

    async def action_quit(self) -> None:
        """Leave; what was written so far is kept."""
        self.lab.keep_partial()
        self.exit(0)

    def _handle_exception(self, error: Exception) -> None:
        self.crash = self.crash or error
        super()._handle_exception(error)

    def _print_error_renderables(self) -> None:
        """Textual's traceback shows local variables, and so prompts; ``crash`` is told by the caller."""
        if self.crash is None:
            super()._print_error_renderables()

    def get_key_display(self, binding: Binding) -> str:
        """A key for the last line; Textual has signs such as an arrow for enter."""
        shown = super().get_key_display(binding)
        return shown if shown.isascii() or not self.ascii else key_text(binding.key)

    # -- frames

    def _later(self, seconds: float, call: Callable[[], None]) -> None:
        if seconds > 0:
            self.set_timer(seconds, call)
        else:
            self.call_later(call)

    def _after_paint(self, call: Callable[[], None]) -> None:
        if self.screen_stack:
            self.screen.call_after_refresh(call)

    def on_woken(self) -> None:
        self.pump.wake()

    def _take(self) -> bool:
        """Take what happened; whether more waits."""
        self.lab.drain()
        return self.lab.backlog

    def _frame(self) -> None:
        """Show what was taken."""
        if self.screen_stack and self.lab.state is not self._shown:
            self._preview()  # the target comes a moment before the load is over
            self.show()
        self._wait_for_replay()

    def _wait_for_replay(self) -> None:
        replay = self.lab.replay
        due = None if replay is None else replay.next_due_s
        if due is not None:
            self.pump.wake(due)

    def show(self) -> None:
        """Show the state, in one paint."""
        if not self.screen_stack:
            return  # the app is closing; what still happens is not shown any more
        lab = self.lab
        state = self._shown = lab.state
        with self.batch_update():
            self.live.query_one(TransportBar).recording = self.recorder.sign
            self.live.show(state, lab.config, self.recorded)
            self.show_timeline()
            self.live.offer(self._offer())
            if self.picker is not None:
                self.picker.show(state)
        self._show_memory()
        self._tell()
        self._wait_for_replay()
        now = self.now
        applied = tuple(action.when(now) for action in ACTIONS)
        if applied != self._applied:
            self._applied = applied
            self.refresh_bindings()

    def _offer(self) -> str:
        """What to do next, while no model is there."""
        lab = self.lab
        if lab.replay is not None:
            fetch = "" if self.model_is_here else " (fetches 93 MB, asks first)"
            damage = lab.replay.tape.damage
            if damage is not None:
                return visible(f"The recording ends early: {damage}", "", ascii_only=self.ascii)
            if lab.state.failure is not None:
                said = lab.state.failure.message
                return visible(f"Here it failed when it was recorded: {said}", "", ascii_only=self.ascii)
            again = "space pauses" if lab.replay.clock.playing else "space goes on"
            if lab.replay.at_end:
                again = "space plays it again"
            return f"A recorded run: {again}, Escape leaves it. ctrl+l loads the model itself{fetch}."
        if lab.state.phase is not Phase.EMPTY or lab.loading:
            return ""
        name = visible(lab.config.verify.model_name, "", ascii_only=self.ascii)
        return f"No model is loaded. ctrl+l loads {name}, F3 chooses another one."

    @cached_property
    def model_is_here(self) -> bool:
        """Whether the built-in model was fetched before the app began."""
        from engine.models.builtin import BUILTINS, PREFIX, is_cached

        return any(is_cached(PREFIX + name) for name in BUILTINS)

    def _tell(self) -> None:
        """Notices as toasts, a failure in a dialog."""
        state = self.lab.state
        if self.lab.replay is None:  # a recording's are of another time, and perhaps of another machine
            for notice in state.notices[self._notices :]:
                if notice.key not in _QUIET_NOTICES:
                    self.say(notice.text)
            self._notices = len(state.notices)
        failure = state.failure
        if failure is not None and self.lab.replay is None:
            from tui.screens.message import ErrorModal

            # Seen as soon as it is shown: the engine may be told to do something else meanwhile.
            self.lab.act_quietly(FailureSeen())
            self.close_measuring()
            self.push_screen(ErrorModal.of(failure))

    def _show_memory(self) -> None:
        now = monotonic()
        if now - self._memory_at >= _MEMORY_EVERY_S and self.lab.loaded:
            import psutil

            self._memory_at = now
            self.live.show_memory(psutil.Process().memory_info().rss)

    # -- the conversation

    def _conversation_changed(self) -> None:
        """Show the messages and save them."""
        lab = self.lab
        if lab.replay is None and (lab.conversation.past or lab.conversation.future):
            self._save()
        if not self.screen_stack:
            return
        self.live.show_conversation(lab.conversation, lab.live_at)
        self._preview()
        self.show()

    def _save(self) -> None:
        try:
            self.lab.conversation = self.store.save(self.lab.conversation)
            self._save_failed = False
        except DiskError as error:
            if not self._save_failed:
                self._save_failed = True
                self.show_error(error)

    def _preview(self) -> None:
        """Before a first run: what the model would read."""
        lab = self.lab
        messages = lab.conversation.messages
        wanted = (messages, lab.state.target)
        if not lab.loaded or lab.state.run or not messages or lab.running or wanted == self._previewed:
            return
        self._previewed = wanted

        def show(value: object) -> None:
            if isinstance(value, tuple) and lab.conversation.messages == messages:
                lab.preview(*value)

        self.ask_engine(lambda session: session.prompt_tokens(messages), show)
