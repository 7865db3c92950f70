"""The prompts of a bench: JSON lines in Spec-Bench's keys, whose own file can be used as it is; torch-free.

A line is ``{"question_id": 81, "category": "writing", "turns": ["first message", "second message"]}``; other
keys, such as "reference", are not read. A further turn is asked after the answer to the one before it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.context import LONE_SURROGATE, Message
from engine.errors import ContextError
from engine.user_text import read_text, shown, shown_name

SIZE_LIMIT = 16 * 2**20
"""Largest prompt file, in bytes."""
OWN = Path(__file__).parents[2] / "assets" / "prompts.jsonl"
"""The set that comes with the program."""
_SHAPE = 'A line is {"question_id": 1, "category": "chat", "turns": ["Hello"]}'


@dataclass(frozen=True, slots=True)
class Question:
    """One conversation to be had."""

    id: str
    category: str
    turns: tuple[str, ...]
    """What the user says, one after the other; at least one."""
    before: tuple[Message, ...] = ()
    """What stands before the first turn: the head of a context file."""

    def messages(self, answers: Sequence[str]) -> tuple[Message, ...]:
        """The conversation up to the turn after these answers.

        Args:
            answers: to the first turns, fewer than there are turns.
        """
        said = [Message("user", turn) for turn in self.turns[: len(answers) + 1]]
        answered = [Message("assistant", answer) for answer in answers]
        woven = [message for pair in zip(said, answered, strict=False) for message in pair]
        return (*self.before, *woven, said[-1])


def own_questions() -> tuple[Question, ...]:
    """The program's own prompt set: 8 categories of 8."""
    return load_questions(str(OWN))


def load_questions(path: str) -> tuple[Question, ...]:
    """Read a prompt file. Raises ContextError, which names the file, the line and the key."""
    return parse_questions(read_text(path, SIZE_LIMIT, ContextError, _SHAPE), shown_name(path))


def of_context(messages: Sequence[Message], name: str) -> Question:
    """A conversation that exists already, as one question of the category "context".

    Raises ContextError if the user does not have the last word.
    """
    if not messages or messages[-1].role != "user":
        raise ContextError(f"{name}: the last message is not the user's", "A bench answers the user.")
    return Question(name, "context", (messages[-1].content,), tuple(messages[:-1]))


def parse_questions(text: str, name: str) -> tuple[Question, ...]:
    """Questions from JSON lines; ``name`` stands for the file in messages. Raises ContextError."""
    found: dict[str, Question] = {}
    # Not splitlines(): JSON allows U+2028 and its like inside a text.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{name}, line {number}"
        question = _question(line, where)
        if question.id in found:
            raise ContextError(f"{where}: question_id {shown(question.id)} was there before", _SHAPE)
        found[question.id] = question
    if not found:
        raise ContextError(f"{name}: holds no question", _SHAPE)
    return tuple(found.values())


def _question(line: str, where: str) -> Question:
    try:
        value: object = json.loads(line)
    except json.JSONDecodeError as failure:
        raise ContextError(f"{where}, column {failure.colno}: no valid JSON: {failure.msg}", _SHAPE) from None
    except (RecursionError, ValueError):
        raise ContextError(f"{where}: is nested too deeply, or holds a number that is too long") from None
    if not isinstance(value, dict):
        raise ContextError(f"{where}: is not an object", _SHAPE)
    for key in ("question_id", "category", "turns"):
        if key not in value:
            raise ContextError(f"{where}: has no {key!r}", _SHAPE)
    number, category, turns = value["question_id"], value["category"], value["turns"]
    if isinstance(number, bool) or not isinstance(number, int | str) or number == "":
        raise ContextError(f"{where}: 'question_id' is neither a number nor a text: {shown(number)}", _SHAPE)
    if not isinstance(category, str) or not category.strip() or not category.isprintable():
        raise ContextError(f"{where}: 'category' is not a name: {shown(category)}", _SHAPE)
    if not isinstance(turns, list) or not turns:
        raise ContextError(f"{where}: 'turns' is not a list of messages: {shown(turns)}", _SHAPE)
    return Question(str(number), category, tuple(_turns(turns, where)))


def _turns(turns: Sequence[object], where: str) -> Iterator[str]:
    for number, turn in enumerate(turns, start=1):
        if not isinstance(turn, str) or not turn.strip():
            raise ContextError(f"{where}: 'turns' message {number} is no text: {shown(turn)}", _SHAPE)
        if LONE_SURROGATE.search(turn):
            raise ContextError(f"{where}: 'turns' message {number} has half a character", _SHAPE)
        yield turn
