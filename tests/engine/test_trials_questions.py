"""The prompt file: what is read, what is refused, and our own set."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from engine.bench.trials.math_prompts import math_turns
from engine.bench.trials.questions import (
    OWN,
    SIZE_LIMIT,
    Question,
    load_questions,
    of_context,
    own_questions,
    parse_questions,
)
from engine.context import Message
from engine.errors import ContextError

LINE: dict[str, Any] = {"question_id": 81, "category": "writing", "turns": ["Hello", "And now?"]}


def line(**changes: Any) -> str:
    return json.dumps({**LINE, **changes})


def test_a_line_of_spec_bench() -> None:
    text = line(reference=["x"], question_id="q-1") + "\n\n" + line(turns=["One"])
    assert parse_questions(text, "q") == (
        Question("q-1", "writing", ("Hello", "And now?")),
        Question("81", "writing", ("One",)),
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "q: holds no question"),
        (f"{line()}\n{{", "q, line 2, column 2: no valid JSON"),
        ("[1]", "q, line 1: is not an object"),
        ('{"category": "a", "turns": ["b"]}', "q, line 1: has no 'question_id'"),
        ('{"question_id": 1, "turns": ["b"]}', "q, line 1: has no 'category'"),
        ('{"question_id": 1, "category": "a"}', "q, line 1: has no 'turns'"),
        (line(question_id=True), "'question_id' is neither a number nor a text: True"),
        (line(question_id=1.5), "'question_id' is neither a number nor a text: 1.5"),
        (line(category=" "), "'category' is not a name"),
        (line(category="a\x1b[2J"), "'category' is not a name"),
        (line(turns="Hello"), "'turns' is not a list of messages"),
        (line(turns=[]), "'turns' is not a list of messages"),
        (line(turns=["a", 3]), "'turns' message 2 is no text: 3"),
        (line(turns=["  "]), "'turns' message 1 is no text"),
        (line(turns=["\ud83d"]), "'turns' message 1 has half a character"),
        (f"{line()}\n{line()}", "q, line 2: question_id '81' was there before"),
        ('{"question_id": ' + "1" * 5000 + "}", "q, line 1: is nested too deeply, or holds a number"),
    ],
)
def test_what_is_refused(text: str, said: str) -> None:
    with pytest.raises(ContextError) as failure:
        parse_questions(text, "q")
    assert said in failure.value.message
    assert "\n" not in failure.value.message and "\x1b" not in failure.value.message


def test_a_file_that_is_too_large_or_not_there(tmp_path: Path) -> None:
    path = tmp_path / "large.jsonl"
    with path.open("wb") as file:
        file.truncate(SIZE_LIMIT + 1)
    with pytest.raises(ContextError, match="larger than 16 MiB"):
        load_questions(str(path))
    with pytest.raises(ContextError, match="no such file"):
        load_questions(str(tmp_path / "none.jsonl"))


def test_turns_are_asked_after_the_answers_to_those_before() -> None:
    question = Question("1", "a", ("one", "two", "three"), (Message("system", "Be short."),))
    assert question.messages(()) == (Message("system", "Be short."), Message("user", "one"))
    assert [(each.role, each.content) for each in question.messages(("first", "second"))] == [
        ("system", "Be short."),
        ("user", "one"),
        ("assistant", "first"),
        ("user", "two"),
        ("assistant", "second"),
        ("user", "three"),
    ]


def test_a_conversation_is_one_question() -> None:
    messages = (Message("user", "a"), Message("assistant", "b"), Message("user", "c"))
    assert of_context(messages, "x.json").messages(()) == messages
    with pytest.raises(ContextError, match="not the user's"):
        of_context(messages[:2], "x.json")


def test_our_own_set() -> None:
    questions = own_questions()
    assert Counter(question.category for question in questions) == dict.fromkeys(
        ("chat", "new_code", "code_edit", "copy_summarise", "math", "structured", "unpredictable", "repeat"),
        8,
    )
    turns = [turn for question in questions for turn in question.turns]
    assert len(set(turns)) == len(turns), "no prompt stands there twice"
    assert all(1 <= len(turn.split()) <= 120 for turn in turns)
    assert any(len(question.turns) > 1 for question in questions)
    assert all("```" in question.turns[0] for question in questions if question.category == "code_edit")
    assert (OWN.parent / "PROMPTS.md").is_file()


def test_math_is_made_from_its_templates() -> None:
    kept = [question.turns for question in own_questions() if question.category == "math"]
    assert kept == [(turn,) for turn in math_turns()]
    assert set(math_turns(seed=8)).isdisjoint(math_turns())


def test_a_text_may_hold_line_separators_of_unicode() -> None:
    """JSON allows them unescaped; only a line feed ends a line."""
    written = json.dumps({**LINE, "turns": ["one\u2028two\x85three"]}, ensure_ascii=False)
    assert parse_questions(f"{written}\r\n{line(question_id=2)}", "q")[0].turns == ("one\u2028two\x85three",)
