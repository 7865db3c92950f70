"""The panes after a jump: what lies before it is in the file, and looks the same when it is looked at."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.panes import assert_safe, fold, rows, run, shown
from support.replays import one_run, record, recording, timed
from support.scripted import TARGET, make_round

from engine.events import LoadFinished, Round
from engine.recording_file import RecordingFile
from tui.source import ReplayClock, ReplaySource
from tui.state import Jumped, ViewState, reduce
from tui.tape import BEGINNING, FileTape
from tui.widgets.context import ContextPane
from tui.widgets.output import OutputPane
from tui.widgets.rounds import RoundsPane

ROUNDS = 1200
NASTY = [b" \x1b[31m", b"\xe2\x80\xae", b"\n", b"\xf0\x9f", b" [bold]x"]


def sought(path: Path, count: int) -> tuple[FileTape, ViewState, ViewState]:
    """A recording, its state behind so many rounds as a jump tells it, and as it was played."""
    tape = FileTape(RecordingFile(path))
    place = tape.steps[count - 1] + 1
    *_, there = tape.state_at(place)
    assert there is not None and there.rounds.archived > 0
    told = [event for at in range(place) if (event := tape.event(at)) is not None]
    return tape, reduce(BEGINNING, Jumped(there)), fold(BEGINNING, told)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rounds with an end of line now and then."""
    events = one_run(ROUNDS)
    for at, event in enumerate(events):
        if isinstance(event, Round) and event.number % 9 == 0:
            piece = b"\n" if event.number % 18 else b" end\n"
            pieces = [*(draft.piece for draft in event.drafts), piece]
            events[at] = make_round(event.number, 3, event.number % 4, pieces=pieces)
    folder = tmp_path_factory.mktemp("archived")
    return record(folder / "r.jsonl", timed([LoadFinished(0, 0, "target", TARGET, 1.0), *events]))


def test_the_output_is_that_of_a_replay_that_played_it_all(path: Path) -> None:
    async def scenario() -> None:
        tape, there, played = sought(path, 1100)
        async with shown(OutputPane(), (70, 20)) as (pane, pilot, _):
            pane.show(played)
            await pilot.pause()
            whole = [pane.build_row(y).text for y in range(pane.row_total())]
            pane.show(ViewState())
            pane.show(there)
            await pilot.pause()
            assert pane.laid_out < len(whole)
            end = rows(pane)
            part = [pane.build_row(y).text for y in range(1, pane.row_total())]
            assert whole[-len(part) :] == part
            for _ in range(20):
                if "tokens before" not in pane.build_row(0).text:
                    break
                await pilot.press("home")
                await pilot.pause()
            assert [pane.build_row(y).text for y in range(pane.row_total())] == whole
            await pilot.press("end")
            await pilot.pause()
            assert rows(pane) == end
            more = there
            for at in range(tape.steps[1099] + 1, tape.steps[1149] + 1):
                event = tape.event(at)
                more = more if event is None else reduce(more, event)
            pane.show(more)
            await pilot.pause()
            assert pane.build_row(pane.row_total() - 1).text.strip() == rows(pane)[-2].strip()

    run(scenario)


def test_what_stands_on_screen_stays_when_more_comes_above_it(path: Path) -> None:
    async def scenario() -> None:
        _, there, _ = sought(path, 1100)
        async with shown(OutputPane(), (70, 20)) as (pane, pilot, _):
            pane.show(there)
            await pilot.pause()
            pane.scroll_to(y=2, animate=False)
            await pilot.pause()
            seen = rows(pane)[:-1]
            await pilot.press("up", "up")
            await pilot.pause()
            top = pane.scroll_offset.y
            assert top > 2, "there is more above"
            assert seen[0] in rows(pane)[:6]

    run(scenario)


def test_the_cursor_stays_among_what_is_laid_out(path: Path) -> None:
    async def scenario() -> None:
        _, there, _ = sought(path, 1100)
        async with shown(OutputPane(), (70, 20)) as (pane, pilot, _):
            pane.show(there)
            await pilot.pause()
            for _ in range(3):
                await pilot.press("left")
            assert pane.cursor == len(there.output) - 3
            pane.select(0)
            await pilot.press("left", "right")
            assert pane.cursor is not None and pane.cursor > 0

    run(scenario)


def test_the_context_shows_the_end_of_a_long_answer(path: Path) -> None:
    async def scenario() -> None:
        _, there, played = sought(path, 1100)
        async with shown(ContextPane(), (70, 20)) as (pane, pilot, _):
            pane.show(played)
            await pilot.pause()
            end = rows(pane)[:-1]
            pane.show(ViewState())
            pane.show(there)
            await pilot.pause()
            assert rows(pane)[:-1] == end
            texts = [pane.build_row(y).text for y in range(pane.row_total())]
            assert any("rounds before" in text for text in texts)

    run(scenario)


@pytest.mark.parametrize("thinks", [b"<think>", b"no"])
def test_the_context_leaves_the_thinking_out(tmp_path: Path, thinks: bytes) -> None:
    events = one_run(300)
    for at, event in enumerate(events):
        if isinstance(event, Round) and event.number in {1, 280}:
            word = thinks if event.number == 1 else b"</think>"
            events[at] = make_round(event.number, 0, 0, pieces=[word])
    path = record(tmp_path / "r.jsonl", timed(events))

    def words(pane: ContextPane) -> list[str]:
        """The last ones; where lines are broken depends on what comes before."""
        return " ".join(rows(pane)[:-1]).split()[-15:]

    async def scenario() -> None:
        async with shown(ContextPane(), (70, 20)) as (pane, pilot, _):
            for count in (200, 290):
                _, there, played = sought(path, count)
                pane.show(ViewState())
                pane.show(played)
                await pilot.pause()
                end = words(pane)
                pane.show(ViewState())
                pane.show(there)
                await pilot.pause()
                assert words(pane) == end

    run(scenario)


def test_rounds_are_listed_searched_and_filtered_as_far_as_they_are_near(path: Path) -> None:
    async def scenario() -> None:
        _, there, played = sought(path, 1100)
        async with shown(RoundsPane(), (70, 20)) as (pane, pilot, _):
            pane.show(there)
            await pilot.pause()
            assert pane.row_total() == 1100
            await pilot.press("home")
            await pilot.pause()
            assert " 1" in rows(pane)[0] and "w1.0" in rows(pane)[0]
            assert there.rounds[3] == played.rounds[3]
            await pilot.press("G", "f")
            await pilot.pause()
            listed = pane.row_total()
            near = range(there.rounds.archived - 512, 1100)
            assert listed == sum(played.rounds[at].n_accepted == 0 for at in near)
            assert f"{listed} of the last {len(near):,}" in rows(pane)[-1]

    run(scenario)


def test_nothing_of_a_file_is_obeyed(tmp_path: Path) -> None:
    events = one_run(200)
    for at, event in enumerate(events):
        if isinstance(event, Round):
            pieces = [NASTY[(event.number + slot) % len(NASTY)] for slot in range(4)]
            events[at] = make_round(event.number, 3, event.number % 4, pieces=pieces)
    path = record(tmp_path / "r.jsonl", timed(events))

    async def scenario() -> None:
        _, there, _ = sought(path, 190)
        for pane_type in (OutputPane, ContextPane, RoundsPane):
            async with shown(pane_type(), (70, 20)) as (pane, pilot, _):
                pane.show(there)
                await pilot.pause()
                assert_safe(pane)
                await pilot.press("home")
                await pilot.pause()
                assert_safe(pane)

    run(scenario)


def test_a_damaged_round_says_so(tmp_path: Path) -> None:
    path = recording(tmp_path / "r.jsonl", 300)
    lines = path.read_bytes().split(b"\n")
    lines[20] = b'{"event":"Round","seq":5,"t_ns":1,"number":"x"}'
    path.write_bytes(b"\n".join(lines))
    source = ReplaySource(FileTape(RecordingFile(path)), ReplayClock(lambda: 0.0))
    source.seek_step(250)
    there = arrived(source)
    assert len(there.rounds) == 250 and source.tape.damage is None
    damaged = ["damaged" in round_.k_reason for round_ in there.rounds]
    assert damaged.index(True) == 15 and len(damaged) == 250
    assert len(list(there.output)) == len(there.output)
    assert "".join(there.text) is not None
    assert source.tape.damage is not None and source.next_due_s == 0.0
    assert len(arrived(source).rounds) == 15, "and now it ends there"
    assert source.at_end


def arrived(source: ReplaySource) -> ViewState:
    """The state that the next jump tells."""
    while True:
        for told in source.poll():
            assert isinstance(told, Jumped)
            return told.state
