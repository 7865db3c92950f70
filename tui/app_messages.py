"""What the panes and dialogs ask of the app: each request is handed to the lab, or answered by a dialog."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from textual import on

from engine.context import Message
from tui.app_models import ModelApp
from tui.conversation import Conversation
from tui.lab_runs import told_error
from tui.screens.live import MessageLine
from tui.widgets import context_messages as ask
from tui.widgets.inputs import ChatInput
from tui.widgets.messages import BranchRequested

if TYPE_CHECKING:
    from tui.screens.branch import Branch

Edit = Callable[[Conversation], Conversation]
REGENERATE, KEEP = "regenerate", "keep"


class MessageApp(ModelApp):
    """The part of the app that answers messages."""

    # -- talking

    @on(ChatInput.Submitted)
    def _submitted(self, event: ChatInput.Submitted) -> None:
        if self.lab.running or self.lab.loading:
            doing = "The models are being loaded" if self.lab.loading else "An answer is being written"
            self.live.message_line.put_back(event.text)
            self.say(f"{doing}: wait for it, or end it with Escape.")
            return
        if self.lab.replay is not None:
            self.lab.open(Conversation())
        self.lab.set_conversation(self.lab.conversation.add(Message("user", event.text)))
        self.with_models(self.lab.start)

    @on(MessageLine.Empty)
    def _empty(self) -> None:
        if not self.lab.running and not self.lab.answered and self.lab.conversation.messages:
            self.with_models(self.lab.start)

    # -- the conversation

    def edit(self, change: Edit) -> None:
        """Edit the conversation. A run in progress reads it: then it is asked what becomes of the answer."""
        lab = self.lab
        if lab.replay is not None:
            lab.open(lab.conversation)
        if not lab.running:
            self._change_conversation(change)
            return
        from tui.screens.message import Choice, ChoiceModal

        choices = [
            Choice(REGENERATE, "Write the answer again", "What the caches hold of the prompt is used again."),
            Choice(KEEP, "Keep the answer as it stands", "It ends here, and is not written again."),
        ]

        def decided(choice: str | None) -> None:
            if choice is None:
                lab.release()
                return
            lab.when_free(partial(self._edit_after, change, again=choice == REGENERATE))

        lab.hold()
        detail = "An answer is being written. Escape drops the edit, and the answer goes on."
        self.push_screen(ChoiceModal("What becomes of the answer?", choices, detail), decided)

    def _edit_after(self, change: Edit, *, again: bool) -> None:
        self._change_conversation(change)
        if again:
            self.lab.start()

    def _change_conversation(self, change: Edit) -> None:
        before = self.lab.conversation
        changed = change(before)
        if changed is before:
            self.say("The edit changed nothing: the message is as it was, or there is none any more.")
        else:
            self.lab.set_conversation(changed)

    def _is_rewritten(self, index: int) -> bool:
        """Whether the answer that is on its way takes the place of a message; then it says so."""
        lab = self.lab
        if not lab.running or lab.plan is None or index < lab.plan.at - lab.plan.continues:
            return False
        self.say("That message is being written again: wait for the answer, or end it with Escape.")
        return True

    def _edit_message(
        self, message: Message, title: str, change: Callable[[Conversation, Message], Conversation]
    ) -> None:
        from tui.screens.editor import EditorModal

        def edited(result: Message | None) -> None:
            if result is None or (result == message and message.content):
                self.lab.release()
            else:
                self.edit(lambda conversation: change(conversation, result))

        self.lab.hold()
        self.push_screen(EditorModal(message, title), edited)

    @on(ask.AddMessage)
    @on(ask.InsertMessage)
    def _new(self, event: ask.AtMessage) -> None:
        at = event.index + 1 if isinstance(event, ask.AddMessage) else max(event.index, 0)
        if self._is_rewritten(at - 1):
            return
        before = self.lab.conversation.messages[at - 1] if 0 < at <= len(self.lab.conversation) else None
        role = (
            "assistant"
            if before is not None and before.role == "user" and at < len(self.lab.conversation)
            else "user"
        )
        self._edit_message(
            Message(role, ""), "New message", lambda talk, new: talk.insert(min(at, len(talk)), new)
        )

    @on(ask.EditMessage)
    def _edit(self, event: ask.EditMessage) -> None:
        if 0 <= event.index < len(self.lab.conversation) and not self._is_rewritten(event.index):
            self._edit_message(
                self.lab.conversation[event.index],
                f"Edit message {event.index + 1}",
                lambda talk, new: _at(talk, event.index, lambda: talk.edit(event.index, new)),
            )

    @on(ask.DeleteMessage)
    @on(ask.DuplicateMessage)
    @on(ask.MoveMessage)
    @on(ask.ChangeRole)
    def _simple_edit(self, event: ask.AtMessage) -> None:
        index = event.index
        last = index + max(event.delta, 0) if isinstance(event, ask.MoveMessage) else index
        if self._is_rewritten(min(last, len(self.lab.conversation) - 1)):
            return

        def change(talk: Conversation) -> Conversation:
            if isinstance(event, ask.DeleteMessage):
                return _at(talk, index, lambda: talk.delete(index))
            if isinstance(event, ask.DuplicateMessage):
                return _at(talk, index, lambda: talk.duplicate(index))
            if isinstance(event, ask.MoveMessage):
                return _at(talk, index, lambda: talk.move(index, event.delta))
            assert isinstance(event, ask.ChangeRole), f"{event} is no edit"
            return _at(talk, index, lambda: talk.set_role(index, event.role))

        self.edit(change)
        if isinstance(event, ask.MoveMessage):
            self.live.select_message(index + event.delta)

    @on(ask.RegenerateFrom)
    def _regenerate(self, event: ask.RegenerateFrom) -> None:
        talk = self.lab.conversation
        if 0 <= event.index < len(talk):
            at = event.index + (talk[event.index].role != "assistant")
            again = at < len(talk)
            self.with_models(lambda: self.lab.start(at, new_seed=again))

    @on(ask.ContinueFrom)
    def _continue(self, event: ask.ContinueFrom) -> None:
        talk = self.lab.conversation
        if not 0 <= event.index < len(talk):
            return
        if talk[event.index].role != "assistant":
            self.say("Only a message of the assistant's can go on: r answers this one.")
        elif event.index == len(talk) - 1:
            self.with_models(self.lab.go_on)
        else:
            self.with_models(lambda: self.lab.start(event.index + 1))

    @on(ask.UndoEdit)
    def action_talk_undo(self) -> None:
        """Undo the last edit, answer or branch."""
        self.lab.when_free(self.lab.step_back)

    @on(ask.RedoEdit)
    def action_talk_redo(self) -> None:
        """Do again what was undone."""
        self.lab.when_free(lambda: self.lab.step_back(forward=True))

    @on(ask.EditSystem)
    def edit_system(self) -> None:
        """Open the system prompt."""
        from tui.screens.editor import EditorModal

        before = Message("system", self.lab.conversation.system or "")

        def edited(result: Message | None) -> None:
            if result is None or result == before:
                self.lab.release()
            else:
                self.edit(lambda talk: talk.set_system(result.content))

        self.lab.hold()
        self.push_screen(EditorModal(before, "System prompt", fixed_role=True, may_be_empty=True), edited)

    @on(ask.ToggleThinking)
    def toggle_thinking(self) -> None:
        """Ask the model to think first, not to, or leave it to the template."""
        following = {None: True, True: False, False: None}
        wanted = following[self.lab.config.run.thinking]
        words = {None: "as the model's template has it", True: "asked for", False: "not wanted"}
        if self.change({"run.thinking": wanted}):
            self.say(f"Thinking: {words[wanted]}, from the next answer on.")

    @on(BranchRequested)
    def branch_at(self, event: BranchRequested) -> None:
        """Choose another token in place of one of the answer; a recording is forked instead."""
        from tui.screens.branch import AlternativesModal

        state = self.lab.state
        if self.lab.replay is not None:
            self.say("A recording is taken up at a round: go there and fork it.")
            return
        if event.index >= len(state.output):
            return  # the token was withdrawn meanwhile
        token = state.output[event.index]
        rows = state.rounds[token.round].p_top if token.round >= 0 else ()
        alternatives = rows[token.slot] if token.slot < len(rows) else ()

        def chosen(branch: Branch | None) -> None:
            if branch is None:
                self.lab.release()
                return
            self.live.output.select(None)
            if branch.id is not None:
                self.lab.branch(event.index, (branch.id,))
            else:
                text = branch.text or ""
                self.ask_engine(
                    lambda session: session.encode(text), lambda ids: self._typed(event.index, ids)
                )

        self.lab.hold()
        where = f"at token {event.index + 1}"
        self.push_screen(AlternativesModal(alternatives, token.id, where), chosen)

    def _typed(self, index: int, ids: object) -> None:
        error = told_error(ids)
        if isinstance(ids, tuple) and ids:
            self.lab.branch(index, ids)
            return
        self.lab.release()
        if error is not None:
            self.show_error(error)


def _at(talk: Conversation, index: int, edit: Callable[[], Conversation]) -> Conversation:
    """An edit of a message that may be gone by now."""
    return edit() if 0 <= index < len(talk) else talk
