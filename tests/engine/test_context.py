"""The context: chat messages from JSON, and every way in which a file can be wrong."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, TextIO

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine import presets
from engine.context import (
    ROLES,
    SIZE_LIMIT,
    Message,
    dump_context,
    load_context,
    messages_from,
    messages_to,
    parse_context,
    preset_context,
)
from engine.errors import ContextError

ROOT = Path(__file__).parents[2]
GOOD = '[{"role": "user", "content": "Hello"}]'


def one_line(error: ContextError) -> str:
    """Message and hint; the message is one printable line of bearable length."""
    assert error.message.isprintable(), error.message
    assert len(error.message) < 300, error.message
    return f"{error.message} | {error.hint}"


def refused(text: str) -> str:
    """The one line and the hint that a context is refused with."""
    with pytest.raises(ContextError) as caught:
        parse_context(text, "chat.json")
    assert caught.value.message.startswith("chat.json")
    return one_line(caught.value)


def test_reads_a_file(tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    path.write_text('[{"role":"system","content":"Be brief."},{"content":"Héllo 👋","role":"user"}]', "utf-8")
    assert load_context(str(path)) == (Message("system", "Be brief."), Message("user", "Héllo 👋"))


def test_a_byte_order_mark_is_no_matter(tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    path.write_bytes(b"\xef\xbb\xbf" + GOOD.encode())
    assert load_context(str(path)) == (Message("user", "Hello"),)


@pytest.mark.parametrize(
    "stream",
    [
        lambda: io.BytesIO(GOOD.encode()),
        lambda: io.TextIOWrapper(io.BytesIO(GOOD.encode()), "latin-1"),
        lambda: io.StringIO(GOOD),
    ],
)
def test_reads_standard_input(
    stream: Callable[[], BinaryIO | TextIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert load_context("-", stream()) == (Message("user", "Hello"),)
    monkeypatch.setattr("sys.stdin", stream())
    assert load_context("-") == (Message("user", "Hello"),)


def test_standard_input_in_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ContextError, match="standard input: is empty"):
        load_context("-", io.BytesIO())
    with pytest.raises(ContextError, match="standard input: is larger than 16 MiB"):
        load_context("-", io.BytesIO(b" " * (SIZE_LIMIT + 1)))
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(ContextError, match="standard input: is closed"):
        load_context("-")
    with Path("/proc/self/mem").open("rb") as unreadable, pytest.raises(ContextError, match="cannot be read"):
        load_context("-", unreadable)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "chat.json: is empty"),
        (" \n\t", "chat.json: is empty"),
        ("[", "chat.json, line 1, column 2: no valid JSON"),
        ('[{"role": "user",\n "content": "a",}]', "chat.json, line 2, column 17: no valid JSON"),
        (GOOD + GOOD, "line 1, column 39: no valid JSON: Extra data"),
        ("hello", "line 1, column 1: no valid JSON"),
        ("{}", "is an object, not a list of messages"),
        (GOOD[1:-1], "is an object, not a list of messages"),
        ('"hello"', "is a string, not a list"),
        ("null", "is null, not a list"),
        ("true", "is true or false, not a list"),
        ("12", "is a number, not a list"),
        ("NaN", "is a number, not a list"),
        ("[]", "holds no message"),
        ("[[]]", "message 1 is a list, not an object"),
        (GOOD[:-1] + ', "hello"]', "message 2 is a string, not an object"),
        ('[{"content": "a"}]', "message 1 has no 'role'"),
        ('[{"role": "user"}]', "message 1 has no 'content'"),
        ('[{"role": "user", "content": "a", "name": "b"}]', "message 1 has an unknown key 'name'"),
        ('[{"role": "user", "contents": "a"}]', "unknown key 'contents' | Did you mean 'content'?"),
        (
            '[{"role": "usr", "content": "a"}]',
            "unknown role 'usr' | Roles are system, user, assistant, tool; did you",
        ),
        ('[{"role": "", "content": "a"}]', "unknown role '' | Roles are system, user, assistant, tool."),
        (
            '[{"role": "USER", "content": "a"}]',
            "unknown role 'USER' | Roles are system, user, assistant, tool; did you",
        ),
        ('[{"role": 1, "content": "a"}]', "message 1: 'role' is a number, not a string: 1"),
        ('[{"role": "user", "content": null}]', "message 1: 'content' is null, not a string"),
        ('[{"role": "user", "content": ["a"]}]', "message 1: 'content' is a list, not a string"),
        ('[{"role": "user", "role": "system", "content": "a"}]', "a message has the key 'role' twice"),
        ('[{"role": "user", "content": "a\\ud83d"}]', "half a character, '\\ud83d', at position 2"),
        ('[{"role": "user", "content": "\\ude00\\ud83d"}]', "half a character, '\\ude00', at position 1"),
        ('[{"role": "\\ud83d", "content": "a"}]', "'role' has half a character"),
        ('[{"role": "user\\u001b[31m", "content": "a"}]', "unknown role 'user\\x1b[31m'"),
        ('[{"\\u202e": "user", "content": "a"}]', "unknown key '\\u202e'"),
        ('[{"role": "' + "x" * 5000 + '", "content": "a"}]', "unknown role 'xxx"),
        ('[{"role": "user", "content": ' + "9" * 5000 + "}]", "holds a number that is too long"),
        ('[{"role": "user", "content": 1e999}]', "'content' is a number, not a string: inf"),
        ("[" * 100_000, "is nested too deeply"),
        ("[" * 100_000 + "]" * 100_000, "is nested too deeply"),
        ('{"a":' * 100_000, "is nested too deeply"),
    ],
    ids=lambda value: value[:40],
)
def test_refusals(text: str, said: str) -> None:
    assert said in refused(text)


def test_half_a_character_that_is_paired_is_whole() -> None:
    assert parse_context('[{"role": "user", "content": "\\ud83d\\ude00"}]', "x") == (Message("user", "😀"),)


def test_content_may_be_empty_or_odd() -> None:
    text = '[{"role": "tool", "content": ""}, {"role": "assistant", "content": "\\u0000\\u001b[2J"}]'
    assert [message.content for message in parse_context(text, "x")] == ["", "\0\x1b[2J"]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b'[{"role": "user",\n"content": "\xff"}]', "line 2: byte 0xff is not UTF-8"),
        (GOOD.encode("utf-16"), "is UTF-16, not UTF-8"),
        (b"\0" * 10, "line 1: holds a NUL byte"),
        (b" " * (SIZE_LIMIT + 1), "is larger than 16 MiB"),
    ],
    ids=["latin-1", "utf-16", "nul", "huge"],
)
def test_files_that_are_no_text(data: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    path.write_bytes(data)
    with pytest.raises(ContextError) as caught:
        load_context(str(path))
    assert said in caught.value.message
    assert caught.value.hint


def test_files_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path, said in [
        (str(tmp_path / "none.json"), "none.json: no such file"),
        (str(tmp_path), "is a directory, not a file"),
        ("a\0b", "'a\\x00b': is not a possible file name"),
        ("x" * 5000, "cannot be read: File name too long"),
        ("", "''"),
    ]:
        with pytest.raises(ContextError) as caught:
            load_context(path)
        assert said in caught.value.message

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(ContextError, match=r"chat\.json: may not be read"):
        load_context("chat.json")


messages = st.builds(Message, role=st.sampled_from(ROLES), content=st.text())


@given(st.lists(messages, min_size=1, max_size=5))
@settings(deadline=None)
def test_round_trip(chat: list[Message]) -> None:
    text = dump_context(chat)
    assert text.endswith("]\n")
    assert parse_context(text, "x") == tuple(chat)
    assert messages_from(messages_to(chat), "x") == tuple(chat)
    assert dump_context(parse_context(text, "x")) == text


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(ROLES),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(("role", "content")) | st.text(), inner),
    max_leaves=10,
)


@given(st.binary() | st.text().map(str.encode) | json_values.map(lambda value: json.dumps(value).encode()))
@example(b"[" * 5000)
@example(b'[{"role":"user","content":"\\ud800"}]')
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        chat = load_context("-", io.BytesIO(data))
    except ContextError as error:
        one_line(error)
    else:
        assert chat == messages_from(json.loads(data.decode("utf-8-sig")), "x")


def test_example_file_is_the_preset_of_the_story() -> None:
    example_chat = load_context(str(ROOT / "context.example.json"))
    assert example_chat == preset_context("qwen3")
    assert [message.role for message in example_chat] == ["user"]
    assert "brave knight" in example_chat[0].content


@pytest.mark.parametrize("name", presets.PRESETS)
def test_presets_have_a_context(name: str) -> None:
    chat = preset_context(name)
    assert chat[-1].role == "user"
    assert presets.context_text(name) == dump_context(chat)


def test_no_preset_no_context() -> None:
    with pytest.raises(KeyError):
        preset_context("nonesuch")
