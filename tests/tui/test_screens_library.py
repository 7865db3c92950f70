"""The list of recordings: every key, files that are none, names that are meant to harm."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from support.bursts import type_at_once
from support.nasty import NASTY, assert_harmless, drawn, wait_until
from support.recordings import Shelf, answer, bad_files, record
from textual.pilot import Pilot
from textual.widgets import Input, OptionList

from engine.event_json import dump_line
from engine.recording_summary import RecordingSummary, summarise
from tui.playable import PATH
from tui.screens.compare import CompareScreen
from tui.screens.library import LibraryScreen
from tui.screens.message import ChoiceModal, ConfirmModal, ErrorModal, TextModal
from tui.screens.recording_list import Known
from tui.screens.recording_rows import RecordingRows, date_text
from tui.screens.verdict import VerdictModal
from tui.themes import ThemedApp

OPEN = object()


class Visit:
    """The screen, its app and its pilot."""

    def __init__(self, app: ThemedApp[None], screen: LibraryScreen, pilot: Pilot[None]) -> None:
        self.app, self.screen, self.pilot = app, screen, pilot

    @property
    def text(self) -> str:
        return drawn(self.app)

    @property
    def rows(self) -> RecordingRows:
        return self.screen.query_one(RecordingRows)

    @property
    def titles(self) -> list[str]:
        return [path.name.removesuffix(".jsonl") for path in self.rows._paths]

    def row(self, title: str) -> str:
        """What the list says of a file."""
        at = self.titles.index(title)
        return str(self.rows.get_option_at_index(at).prompt)

    async def until(self, condition: Callable[[], bool]) -> None:
        await wait_until(self.pilot, condition, turns=1000)

    async def top(self, kind: type) -> None:
        await self.until(lambda: isinstance(self.app.screen, kind))
        await self.pilot.pause()

    async def choose(self, title: str) -> None:
        """Put the cursor on a file."""
        self.rows.highlighted = self.titles.index(title)
        await self.pilot.pause()

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    @property
    def said(self) -> str:
        return "\n".join(str(toast.message) for toast in self.app._notifications)


Test = Callable[[Visit], Awaitable[None]]


def visit(
    shelf: Shelf,
    test: Test,
    *,
    size: tuple[int, int] = (80, 24),
    use_of: Callable[[Path], str] = lambda _: "",
    known: Known | None = None,
    ascii_only: bool = False,
) -> object:
    results: list[object] = [OPEN]

    async def run() -> None:
        app: ThemedApp[None] = ThemedApp()
        app.ascii = ascii_only
        async with app.run_test(size=size) as pilot:
            screen = LibraryScreen(shelf.recordings, use_of, known)
            app.push_screen(screen, results.append)
            await pilot.pause()
            here = Visit(app, screen, pilot)
            await here.until(lambda: all(row.told is not None for row in screen._rows.values()))
            await here.until(lambda: not screen._is_reading)
            await pilot.pause()
            await test(here)
            await pilot.pause()

    asyncio.run(run())
    return results[-1]


def three(tmp_path: Path) -> Shelf:
    shelf = Shelf(tmp_path)
    shelf.put("first.jsonl", target="org/alpha")
    shelf.put("second.jsonl", [b" a", b" b", b" x"], target="org/beta")
    shelf.put("third.jsonl", target="org/gamma")
    return shelf


def test_the_newest_first_with_its_measures_and_the_shipped_one_last(tmp_path: Path) -> None:
    async def test(here: Visit) -> None:
        assert here.titles == ["third", "second", "first", "demo"]
        row = here.row("third")
        assert "gamma + lookup" in row and "2 rounds  4 tok" in row and "tau 2.00" in row and "kB" in row
        assert "5.00x" in row, "100 ms a token plain, 20 ms speculative"
        assert date_text(1_700_000_180 * 10**9) in row
        assert "comes with the program" in here.row("demo") and "smollm2-135m + lookup" in here.row("demo")
        assert "third" in here.text and "gamma + lookup" in here.text

    visit(three(tmp_path), test)


def test_an_empty_folder_says_how_to_fill_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(here: Visit) -> None:
        assert "demo" in here.titles
        here.screen._shipped = tmp_path / "none"
        here.screen._list()
        await here.pilot.pause()
        assert "nothing was recorded yet: R in the app records" in here.text
        await here.press("space", "c", "v", "e", "r", "d", "enter")
        assert here.app.screen is here.screen

    visit(Shelf(tmp_path), test)


def test_enter_plays(tmp_path: Path) -> None:
    async def test(here: Visit) -> None:
        await here.press("down", "enter")

    shelf = three(tmp_path)
    assert visit(shelf, test) == shelf.path("second.jsonl")


def test_the_filter_is_by_name_and_by_model(tmp_path: Path) -> None:
    async def test(here: Visit) -> None:
        await here.press("slash")
        type_at_once(here.app, "SEC")
        await here.until(lambda: here.titles == ["second"])
        await here.press("ctrl+u")
        type_at_once(here.app, "lookup alp")
        await here.until(lambda: here.titles == ["first"])
        type_at_once(here.app, "xyz")
        await here.until(lambda: "none has such a name or model" in here.text)
        await here.press("ctrl+u")
        type_at_once(here.app, "rdcev")
        await here.until(lambda: here.screen.query_one(Input).value == "rdcev")
        assert here.app.screen is here.screen, "letters are typed there"
        await here.press("ctrl+u", "down")
        assert isinstance(here.screen.focused, OptionList)
        await here.press("slash", "enter")
        assert isinstance(here.screen.focused, OptionList)

    visit(three(tmp_path), test)


def test_two_are_marked_and_compared(tmp_path: Path) -> None:
    shelf = three(tmp_path)

    async def test(here: Visit) -> None:
        await here.press("c")
        assert "Space marks a recording" in here.text
        await here.press("space")
        assert here.row("third").startswith("A ")
        await here.press("down", "c")
        await here.top(CompareScreen)
        assert here.app.screen._paths == (shelf.path("third.jsonl"), shelf.path("second.jsonl"))  # type: ignore[attr-defined]
        await here.press("escape", "space", "down")
        assert here.row("second").startswith("B ")
        await here.press("space")
        assert "Two are marked" in here.text
        await here.press("c")
        await here.top(CompareScreen)
        assert here.app.screen._paths == (shelf.path("third.jsonl"), shelf.path("second.jsonl"))  # type: ignore[attr-defined]
        await here.press("escape")
        await here.choose("third")
        await here.press("space")
        assert here.row("third").startswith("  ") and here.row("second").startswith("A ")

    visit(shelf, test)


def test_rename(tmp_path: Path) -> None:
    shelf = three(tmp_path)

    async def test(here: Visit) -> None:
        await here.press("down", "space", "r")
        await here.top(TextModal)
        field = here.app.screen.query_one(Input)
        assert field.value == "second"
        for text, problem in (
            ("third", "A recording has that name."),
            ("a/b", "A name holds no path."),
            (".x", "does not begin with a dot"),
            ("x" * 255, "bytes at most"),
        ):
            field.value = text
            await here.press("enter")
            assert problem in here.text
        field.value = "another name"
        await here.press("enter")
        await here.top(LibraryScreen)
        assert here.titles == ["third", "another name", "first", "demo"], "it keeps its date and so its place"
        assert here.rows.chosen == shelf.path("another name.jsonl")
        assert here.row("another name").startswith("A "), "its mark too"
        await here.press("r", "escape")

    visit(shelf, test)
    assert shelf.names == ["another name.jsonl", "first.jsonl", "third.jsonl"]


def test_delete_asks(tmp_path: Path) -> None:
    shelf = three(tmp_path)

    async def test(here: Visit) -> None:
        await here.press("d")
        await here.top(ConfirmModal)
        await here.press("enter")
        assert len(shelf.names) == 3, "the safe answer has the focus"
        await here.press("delete", "y")
        await here.top(LibraryScreen)
        assert here.titles == ["second", "first", "demo"]

    visit(shelf, test)
    assert shelf.names == ["first.jsonl", "second.jsonl"]


def test_what_is_in_use_stays(tmp_path: Path) -> None:
    shelf = three(tmp_path)
    uses = {shelf.path("third.jsonl"): "is being recorded", shelf.path("second.jsonl"): "is being played"}

    async def test(here: Visit) -> None:
        for title, use in (
            ("third", "is being recorded"),
            ("second", "is being played"),
            ("demo", "comes with the program"),
        ):
            await here.choose(title)
            assert use in here.row(title)
            await here.press("d")
            assert f"{title} {use}: it cannot be deleted." in here.text
            await here.press("r")
            assert f"{title} {use}: it cannot be renamed." in here.text
        await here.choose("first")
        await here.press("d")
        await here.top(ConfirmModal)
        uses[shelf.path("first.jsonl")] = "is being played"
        await here.press("y")
        await here.top(LibraryScreen)
        assert "it cannot be deleted" in here.text, "it is looked at again after the question"

    visit(shelf, test, use_of=lambda path: uses.get(path, ""))
    assert len(shelf.names) == 3


@pytest.mark.parametrize(
    ("form", "begins"), [("html", "<!doctype html>"), ("md", "# "), ("csv", "run,"), ("json", "{")]
)
def test_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, begins: str) -> None:
    shelf = three(tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / f"third.{form}").write_text("mine")

    async def test(here: Visit) -> None:
        await here.press("e")
        await here.top(ChoiceModal)
        await here.press(*["down"] * ["html", "md", "csv", "json"].index(form), "enter")
        await here.top(TextModal)
        field = here.app.screen.query_one(Input)
        assert field.value == f"third-2.{form}", "no file has that name"
        field.value = f"third.{form}"
        await here.press("enter")
        assert "There is a file of that name." in here.text
        field.value = f"out.{form}"
        await here.press("enter")
        await here.until(lambda: f"out.{form}" in here.said)

    visit(shelf, test)
    assert (tmp_path / f"third.{form}").read_text() == "mine"
    assert (tmp_path / f"out.{form}").read_text().lower().startswith(begins)


def test_an_export_that_fails_says_so_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shelf = Shelf(tmp_path)
    shelf.put("photo.png", content=b"\x89PNG")
    shelf.put("whole.jsonl")

    async def test(here: Visit) -> None:
        for title, name in (("photo.png", "out.html"), ("whole", "none/out.html")):
            await here.choose(title)
            await here.press("e", "enter")
            await here.top(TextModal)
            here.app.screen.query_one(Input).value = name
            await here.press("enter")
            await here.top(ErrorModal)
            await here.press("escape")

    visit(shelf, test)
    assert not (tmp_path / "out.html").exists()


def test_verify_says_what_it_found(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    shelf.put("photo.png", content=b"\x89PNG")
    lines = PATH.read_bytes().splitlines(keepends=True)
    shelf.put("broken.jsonl", content=b"".join([*lines[:5], b"{oh\n"]))
    forged = [json.loads(line) for line in lines]
    for line in forged:
        if line.get("event") == "RunFinished":
            line["tokens"] += 1
    shelf.put("forged.jsonl", content=b"".join(dump_line(line) for line in forged))
    record(shelf.path("header.jsonl"), [])

    async def test(here: Visit) -> None:
        for title, kind, words in (
            ("demo", VerdictModal, ("demo: Nothing is wrong.", "1 run, 17 rounds")),
            ("forged", VerdictModal, ("x forged", "found something that cannot be", "BUG: run 1: counts")),
            ("broken", VerdictModal, ("line 6: it is no JSON", "was not checked")),
            ("header", VerdictModal, ("There is nothing to check",)),
            ("photo.png", ErrorModal, ("is not a recording",)),
        ):
            await here.choose(title)
            await here.press("v")
            await here.top(kind)
            assert all(word in " ".join(here.text.split()) for word in words), here.text
            if kind is VerdictModal:
                await here.pilot.click("#copy")
            await here.press("escape")
            await here.top(LibraryScreen)

    visit(shelf, test, size=(120, 36))


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (200, 50)])
def test_files_that_cannot_be_read_say_why_and_can_be_deleted(tmp_path: Path, size: tuple[int, int]) -> None:
    shelf = Shelf(tmp_path)
    told = bad_files(shelf)

    async def test(here: Visit) -> None:
        for title, words in told.items():
            assert words in here.row(title), here.row(title)
            await here.choose(title)
            assert_harmless(here.app)
            await here.press("d", "y")
            await here.until(lambda title=title: title not in here.titles)  # type: ignore[misc]

    visit(shelf, test, size=size)
    assert shelf.names == ["whole.jsonl"]


def nasty_names() -> list[str]:
    names = [text.replace("/", "").replace("\0", "").strip()[:80] for text in NASTY]
    long = "\u0639\u0631\u0628\u064a " + "x" * 240
    return [
        *filter(None, names),
        "\u05e9\u05dc\u05d5\u05dd",
        long,
        "[bold]b[/]".replace("/", ""),
        "\udcff\udcfe raw",
    ]


@pytest.mark.parametrize("ascii_only", [False, True])
def test_names_do_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ascii_only: bool) -> None:
    monkeypatch.chdir(tmp_path)
    shelf = Shelf(tmp_path)
    for number, text in enumerate(nasty_names()):
        shelf.put(f"{text}.jsonl", target=NASTY[number % len(NASTY)])

    async def test(here: Visit) -> None:
        assert len(here.titles) == len(nasty_names()) + 1
        for title in here.titles[:: 3 if ascii_only else 1]:
            await here.choose(title)
            assert_harmless(here.app)
            for keys, leave in (
                (("r",), ("escape",)),
                (("d",), ("escape",)),
                (("e",), ("escape",)),
                (("e", "enter"), ("escape",)),
                (("space", "c"), ("escape", "space")),
            ):
                if title == "demo" and keys[0] in "rd":
                    continue
                await here.press(*keys)
                await here.until(lambda: here.app.screen is not here.screen)
                assert_harmless(here.app)
                await here.press(*leave)
                await here.top(LibraryScreen)
            await here.press("v")
            await here.top(VerdictModal)
            assert_harmless(here.app)
            await here.press("escape")
            await here.top(LibraryScreen)

    visit(shelf, test, ascii_only=ascii_only)


def counted(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that are summarised from now on."""
    read: list[Path] = []

    def summary(path: Path, called_off: Callable[[], bool]) -> RecordingSummary:
        read.append(path)
        return summarise(path, called_off)

    monkeypatch.setattr("tui.screens.recording_list.summarise", summary)
    return read


def test_what_is_known_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shelf = three(tmp_path)
    known: Known = {}

    async def nothing(here: Visit) -> None:
        assert all(isinstance(told, RecordingSummary) for told in known.values())

    visit(shelf, nothing, known=known)
    read = counted(monkeypatch)
    shelf.path("second.jsonl").unlink()
    shelf.put("second.jsonl")

    async def test(here: Visit) -> None:
        assert read == [shelf.path("second.jsonl")], "the one that changed"
        assert here.titles[0] == "second"

    visit(shelf, test, known=known)


def test_it_can_be_left_while_files_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits is called off, not waited for."""
    shelf = Shelf(tmp_path)
    for number in range(200):
        record(shelf.path(f"{number}.jsonl"), answer([b"x"]))
    read = counted(monkeypatch)

    async def run() -> None:
        app: ThemedApp[None] = ThemedApp()
        async with app.run_test(size=(80, 24)) as pilot:
            app.push_screen(LibraryScreen(shelf.recordings))
            await pilot.press("escape")
            await wait_until(pilot, lambda: len(app.screen_stack) == 1)
            before = len(read)
            await pilot.pause(0.3)
            assert len(read) <= before + 1 < 200

    asyncio.run(run())


def test_buttons(tmp_path: Path) -> None:
    async def test(here: Visit) -> None:
        for button, kind in (
            ("#rename", TextModal),
            ("#delete", ConfirmModal),
            ("#export", ChoiceModal),
            ("#verify", VerdictModal),
        ):
            await here.pilot.click(button)
            await here.top(kind)
            await here.press("escape")
            await here.top(LibraryScreen)
        await here.press("space")
        await here.pilot.click("#compare")
        await here.top(CompareScreen)
        await here.press("escape")
        await here.top(LibraryScreen)
        await here.pilot.click("#close")

    assert visit(three(tmp_path), test) is None


def test_a_row_is_marked_without_colour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    shelf = three(tmp_path)
    uses = {shelf.path("first.jsonl"): "is being recorded"}

    async def test(here: Visit) -> None:
        await here.press("space")
        lines = here.text.splitlines()
        assert any("A 20" in line and "third" in line for line in lines)
        assert any("o is being recorded" in line for line in lines)
        odd = [line for line in lines if not line.isascii()]
        assert not odd, odd

    visit(shelf, test, use_of=lambda path: uses.get(path, ""), ascii_only=True)


def test_times_that_are_none() -> None:
    assert date_text(2**70) == "at no possible time"


@pytest.mark.parametrize(
    ("event", "name"), [("Round", "taken_back"), ("BaselineFinished", "tokens"), ("RunFinished", "tokens")]
)
def test_numbers_that_cannot_be_end_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, event: str, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    shelf = Shelf(tmp_path)
    lines = [json.loads(line) for line in PATH.read_bytes().splitlines()]
    for line in lines:
        if line.get("event") == event:
            line[name] = 10**400
    shelf.put("forged.jsonl", content=b"".join(dump_line(line) for line in lines))

    async def test(here: Visit) -> None:
        await here.choose("forged")
        await here.press("v")
        await here.top(VerdictModal)
        await here.press("escape")
        await here.top(LibraryScreen)
        await here.press("space", "c")
        await here.until(lambda: "Answers: the same" in here.text)
        await here.press("escape")
        for form in range(5):
            await here.press("e")
            await here.top(ChoiceModal)
            await here.press(*["down"] * form, "enter")
            await here.top(TextModal)
            await here.press("enter")
            await here.until(lambda: "Wrote" in here.said)
            await here.top(LibraryScreen)

    visit(shelf, test)
    written = {path.suffix for path in tmp_path.glob("forged.*")}
    assert written == {".csv", ".html", ".md", ".json", ".cast"}, "of what comes before it"
