"""Two recordings side by side: token N beside token N, the first difference, the runs, the measures."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest
from support.nasty import NASTY, assert_harmless, drawn, wait_until
from support.panes import NASTY_PIECES, assert_safe, rows, style_at
from support.recordings import Shelf, answer, record
from textual.events import MouseScrollDown
from textual.pilot import Pilot

from tui.playable import PATH
from tui.screens.compare import CompareScreen
from tui.screens.message import ChoiceModal, ErrorModal
from tui.themes import ThemedApp
from tui.widgets.comparison import AnswersPane, MeasuresPane

WORDS = [f" word{number}".encode() for number in range(60)]


class Visit:
    """The screen, its app and its pilot."""

    def __init__(self, app: ThemedApp[None], screen: CompareScreen, pilot: Pilot[None]) -> None:
        self.app, self.screen, self.pilot = app, screen, pilot

    @property
    def text(self) -> str:
        return drawn(self.app)

    @property
    def answers(self) -> AnswersPane:
        return self.screen.query_one(AnswersPane)

    @property
    def measures(self) -> list[str]:
        pane = self.screen.query_one(MeasuresPane)
        return [pane.build_row(y).text for y in range(pane.row_total())]

    async def until(self, condition: Callable[[], object]) -> None:
        await wait_until(self.pilot, lambda: bool(condition()), turns=1000)

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    def shown(self) -> list[str]:
        """All rows of the answers."""
        return [self.answers.build_row(y).text for y in range(self.answers.row_total())]


Test = Callable[[Visit], Awaitable[None]]


def visit(
    first: Path,
    second: Path,
    test: Test,
    *,
    size: tuple[int, int] = (80, 24),
    ascii_only: bool = False,
    shows: bool = True,
) -> None:
    async def run() -> None:
        app: ThemedApp[None] = ThemedApp()
        app.ascii = ascii_only
        async with app.run_test(size=size) as pilot:
            screen = CompareScreen(first, second)
            app.push_screen(screen)
            await pilot.pause()
            here = Visit(app, screen, pilot)
            if shows:
                await here.until(lambda: here.answers._shape is not None)
                await pilot.pause()
            await test(here)

    asyncio.run(run())


def two(tmp_path: Path, first: Sequence[bytes], second: Sequence[bytes]) -> tuple[Path, Path]:
    shelf = Shelf(tmp_path)
    return shelf.put("one.jsonl", first), shelf.put("two.jsonl", second, target="org/other")


SIZES = [(60, 20), (80, 24), (120, 36), (200, 50)]


@pytest.mark.parametrize("size", SIZES)
def test_token_n_stands_beside_token_n(tmp_path: Path, size: tuple[int, int]) -> None:
    """The second answer has longer words, so that the first one's lines end where the second one's do."""
    longer = [word + b"s" * (number % 7) for number, word in enumerate(WORDS)]

    async def test(here: Visit) -> None:
        seen = 0
        for line in here.shown():
            if line.startswith(("-", "\u2500")) or " A: " in line:
                continue
            number = int(line.split()[0])
            half = line.index("!") if "!" in line else line.index("\u2502")
            left, right = line[:half].count("word"), line[half:].count("word")
            assert left == right > 0
            assert number == seen + 1
            seen += left
        assert seen == len(WORDS)

    visit(*two(tmp_path, WORDS, longer), test, size=size)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("ascii_only", [False, True])
def test_the_first_difference_has_lines_of_its_own(
    tmp_path: Path, size: tuple[int, int], ascii_only: bool
) -> None:
    other = [*WORDS[:50], b" another", *WORDS[51:]]

    async def test(here: Visit) -> None:
        assert "they part at token 51" in here.text
        await here.press("d")
        await here.until(lambda: "first difference: token 51" in here.text)
        lines = rows(here.answers)
        at = next(y for y, line in enumerate(lines) if "first difference: token 51" in line)
        assert "A: id" in lines[at + 1] and "B: id" in lines[at + 1] and "accept" in lines[at + 1]
        assert lines[at + 2].split()[0] == "51", "the line behind begins with it"
        assert " word50" in lines[at + 2] and " another" in lines[at + 2] and " ! " in lines[at + 2]
        assert " ! " not in "".join(lines[:at]), "before it the tokens are the same"
        for word, is_reversed in ((" word50", True), (" another", True), (" word51", False)):
            assert style_at(here.answers, word.strip())[3] is is_reversed
        assert_harmless(here.app)
        if ascii_only:
            assert here.text.isascii()

    visit(*two(tmp_path, WORDS, other), test, size=size, ascii_only=ascii_only)


def test_the_same_answers_have_no_difference(tmp_path: Path) -> None:
    async def test(here: Visit) -> None:
        assert "the same 60 tokens" in here.text
        assert "Difference" not in here.text, "there is no key for it"
        await here.press("d")
        assert here.answers.scroll_offset.y == 0

    visit(*two(tmp_path, WORDS, WORDS), test)


def test_an_answer_that_ends_earlier(tmp_path: Path) -> None:
    async def test(here: Visit) -> None:
        await here.press("d")
        await here.until(lambda: "first difference: token 31" in here.text)
        assert "A: no more tokens" in here.text
        last = here.shown()[-1]
        assert "word59" in last.partition("!")[2] and "word" not in last.partition("!")[0]

    visit(*two(tmp_path, WORDS[:30], WORDS), test)


def test_the_measures_and_their_difference(tmp_path: Path) -> None:
    async def test(here: Visit) -> None:
        lines = {line[:18].strip(): line[18:].split() for line in here.measures if line.strip()}
        assert lines["tokens"] == ["30", "60", "+30", "2.00x"]
        assert lines["tau"] == ["2", "2", "0", "1.00x"]
        assert lines["draft efficiency"][0] == "1"
        assert lines["same as plain"] == ["--", "--"]
        assert lines["target"] == ["org/target", "org/other"]
        assert "speedup" in here.text

    visit(*two(tmp_path, WORDS[:30], WORDS), test)


@pytest.mark.parametrize(("size", "beside"), [((80, 24), False), ((159, 40), False), ((160, 40), True)])
def test_the_table_stands_above_or_beside(tmp_path: Path, size: tuple[int, int], beside: bool) -> None:
    async def test(here: Visit) -> None:
        table, answers = here.screen.query_one(MeasuresPane).region, here.answers.region
        assert (table.y == answers.y) is beside
        assert answers.height >= 8
        before = table.height
        await here.press("s")
        if not beside:
            assert here.screen.query_one(MeasuresPane).region.height > before
            await here.press("s")
            assert here.screen.query_one(MeasuresPane).region.height == before

    visit(*two(tmp_path, WORDS, WORDS), test, size=size)


def test_scrolling_by_keys_and_mouse(tmp_path: Path) -> None:
    async def test(here: Visit) -> None:
        await here.press("G")
        assert "word299" in here.text
        await here.press("g")
        assert here.answers.scroll_offset.y == 0
        await here.pilot._post_mouse_events([MouseScrollDown], here.answers, offset=(5, 3), button=0)
        await here.pilot.pause()
        assert here.answers.scroll_offset.y > 0
        await here.press("g")
        await here.press("j", "j", "pagedown")
        assert here.answers.scroll_offset.y > 2
        await here.press("slash", *"word250", "enter")
        await here.until(lambda: "word250" in here.text)
        await here.press("escape", "tab")
        assert isinstance(here.screen.focused, MeasuresPane)
        await here.press("G")
        assert "same as plain" in here.text

    long = [f" word{number}".encode() for number in range(300)]
    visit(*two(tmp_path, long, long), test)


def test_a_run_is_chosen_where_there_are_several(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    path = record(
        shelf.path("runs.jsonl"), [*answer([b" one"], 1), *answer([b" two"], 2), *answer([b" three"], 3)]
    )
    single = shelf.put("single.jsonl", [b" two"])

    async def test(here: Visit) -> None:
        assert "run 3 (one of 3)" in here.text
        assert "they part at token 1" in here.text
        await here.press("b")
        assert here.app.screen is here.screen, "the second recording has one run"
        await here.press("a")
        await here.until(lambda: isinstance(here.app.screen, ChoiceModal))
        assert "1 tokens:  two" in here.text or "1 tokens: two" in here.text
        await here.press("down", "enter")
        await here.until(lambda: "run 2 (one of 3)" in here.text and "the same 1 tokens" in here.text)

    visit(path, single, test)

    async def itself(here: Visit) -> None:
        names = here.text.splitlines()[1:3]
        assert "run 2 (one of 3)" in names[0] and "run 3 (one of 3)" in names[1], "its last two runs"

    visit(path, path, itself)


@pytest.mark.parametrize(
    "content", [b"", b"hello\n", b'{"format":"naive-speculate-recording","version":1}\n']
)
def test_a_file_without_an_answer_says_so_and_the_screen_closes(tmp_path: Path, content: bytes) -> None:
    shelf = Shelf(tmp_path)
    good, bad = shelf.put("good.jsonl"), shelf.put("bad.jsonl", content=content)

    async def test(here: Visit) -> None:
        await here.until(lambda: isinstance(here.app.screen, ErrorModal))
        assert "bad.jsonl" in here.text
        await here.press("escape")
        await here.until(lambda: len(here.app.screen_stack) == 1)

    visit(good, bad, test, shows=False)


def test_a_damaged_file_is_compared_as_far_as_it_can_be_read(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    good = shelf.put("good.jsonl", WORDS)
    lines = good.read_bytes().splitlines(keepends=True)
    bad = shelf.put("bad.jsonl", content=b"".join([*lines[:10], b"{oh\n", *lines[11:]]))

    async def test(here: Visit) -> None:
        said = "\n".join(str(toast.message) for toast in here.app._notifications)
        assert "bad.jsonl, line 11" in said
        await here.press("d")
        await here.until(lambda: "B: no more tokens" in here.text)

    visit(good, bad, test)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("ascii_only", [False, True])
def test_tokens_and_names_do_nothing(tmp_path: Path, size: tuple[int, int], ascii_only: bool) -> None:
    shelf = Shelf(tmp_path)
    pieces = [*NASTY_PIECES, b"a" * 300, "\u65e5\u672c\u8a9e".encode() * 30]
    name = NASTY[0].replace("/", "") + NASTY[1].replace("/", "") + NASTY[4]
    first = shelf.put(f"{name}.jsonl", pieces, target=NASTY[2])
    second = shelf.put("other.jsonl", [b"x", *pieces], target=NASTY[3])

    async def test(here: Visit) -> None:
        for y in range(0, here.answers.row_total() + 1, 5):
            here.answers.scroll_to(y=y, animate=False)
            await here.pilot.pause()
            assert_safe(here.answers)
            assert_harmless(here.app)
        await here.press("s", "tab", "G")
        assert_safe(here.screen.query_one(MeasuresPane))
        assert_harmless(here.app)

    visit(first, second, test, size=size, ascii_only=ascii_only)


def test_a_resize_keeps_the_tokens_side_by_side(tmp_path: Path) -> None:
    async def test(here: Visit) -> None:
        before = len(here.shown())
        await here.pilot.resize_terminal(200, 50)
        await here.until(lambda: len(here.shown()) != before)
        assert "".join(here.shown()).count("word") == 2 * len(WORDS)
        await here.pilot.resize_terminal(60, 20)
        await here.pilot.pause()
        assert "".join(here.shown()).count("word") == 2 * len(WORDS)

    visit(*two(tmp_path, WORDS, WORDS), test)


def test_the_shipped_recording_with_itself(tmp_path: Path) -> None:
    async def test(here: Visit) -> None:
        assert "the same 127 tokens" in here.text
        assert "BankAccount" in here.text and "correction" in here.text

    visit(PATH, PATH, test)
