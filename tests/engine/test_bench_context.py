"""Cost against context length: what is measured where, what counts as growth, the picture."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from support.tiny import tiny_lm
from torch import Tensor

from engine.bench.__main__ import main
from engine.bench.curve import points_table
from engine.bench.lab import Setup
from engine.bench.long_context import Point, Walk, beyond, beyond_row, faster, fitting, growth_row, parts
from engine.bench.plot import HEIGHT, WIDTH, Panel, Series, svg, ticks
from engine.bench.prompts import COPY
from engine.bench.report import Row
from engine.kv_cache import KVCache

pytestmark = pytest.mark.usefixtures("one_thread")

CONTEXTS = (128, 256, 512, 1024, 2048, 4096, 8192)


def points(**more: float) -> list[Point]:
    """A model whose passes grow by as much as attention; ``more`` is added at 8,192 tokens, as a square."""
    found = []
    for context in CONTEXTS:
        kilo = context / 1000
        point = {
            "context": float(context),
            "step": 20 + 3 * kilo,
            "step_host": 0.5,
            "prefill": 1.0,
            "step_host_penalised": 0.7,
            "attention_1": 0.5 + 3 * kilo,
            "round": 25 + 6 * kilo,
            "round_host": 2.0,
            "lookup": 0.03,
            "attention_9": 1 + 6 * kilo,
        }
        for name, ms in more.items():
            point[name] += ms * (context / CONTEXTS[-1]) ** 2
        found.append(point)
    return found


def test_nothing_but_attention_grows() -> None:
    step = growth_row("a plain step, bfloat16", "step", 1, points())
    block = growth_row("a round of 9 rows, bfloat16", "round", 9, points())
    assert step.value == pytest.approx(0)
    assert block.value == pytest.approx(0)
    assert step.status == block.status == "PASS"
    assert "3.00 ms a 1,000 tokens, attention alone 3.00, host 0.000" in step.note
    assert "20.9 ms at 128, 45.1 ms at 8,192 tokens" in step.note
    assert step.points, "one row of each number format has the curve"
    assert not block.points


@pytest.mark.parametrize("part", ["step", "step_host"])
def test_something_else_that_grows_is_seen(part: str) -> None:
    assert growth_row("", "step", 1, points(**{part: 40.0})).status == "SHORT"
    assert growth_row("", "round", 9, points(**{part: 40.0})).status == "PASS", "not part of a round"


@pytest.mark.parametrize(
    "part", ["step", "step_host", "step_host_penalised", "round", "round_host", "lookup"]
)
def test_a_square_is_seen(part: str) -> None:
    assert beyond_row("bfloat16", 8, points()).value == pytest.approx(0, abs=1e-6)
    found = beyond_row("bfloat16", 8, points(**{part: 60.0}))
    assert found.status == "SHORT"
    assert part.replace("_", " ") in found.note


def test_attention_that_does_not_grow_is_no_measure() -> None:
    for sign in (1, -1):
        flat = [{**point, "attention_1": 5.0 + sign * 1e-9 * point["context"]} for point in points()]
        status = growth_row("", "step", 1, flat).status
        assert status == ("SHORT" if sign > 0 else "REPORT")


def test_the_faster_visit_counts() -> None:
    one, other = (
        {"context": 128.0, "step": 900.0, "host": 0.5, "prefill": 1.0},
        {"context": 128.0, "step": 20.0},
    )
    assert faster(one, {**other, "host": 0.6}) == {
        "context": 128.0,
        "step": 20.0,
        "host": 0.5,
        "prefill": 1.0,
    }


def test_beyond_a_line() -> None:
    assert beyond(points(), "step") == pytest.approx(0, abs=1e-9)
    assert beyond(points(step=100.0), "step") == pytest.approx(50, rel=0.2)


def test_lengths_that_fit() -> None:
    assert fitting((128, 256), 1000) == [128, 256]
    assert fitting((128, 4096, 8192), 8177) == [128, 4096, 8128]
    assert fitting((128, 256, 512), 200) == [128, 192]


def test_a_walk_stops_where_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_lm("llama")
    widths: list[tuple[int, int]] = []
    cache_lengths: list[int] = []
    walks: list[Point] = []
    walk = Walk(model, [40, 41, 42, 43, 50, 51], 200, 3)
    forward = model.forward

    def seen(ids: list[int] | Tensor, cache: KVCache, keep: int) -> Tensor:
        cache_lengths.append(len(cache))
        widths.append((len(ids), keep))
        return forward(ids, cache, keep)

    monkeypatch.setattr(model, "forward", seen)
    for context in (64, 128, 64):
        cache_lengths.clear()
        widths.clear()
        point = walk.at(context, 2)
        assert widths == [(1, 1), (1, 1), (4, 4)] * 3, (
            "a step, one with a penalty, a round; one more to warm up"
        )
        assert cache_lengths == [context - 1 + number for number in range(3) for _ in range(3)]
        assert point["context"] == context
        assert point.keys() >= {*parts("step"), *parts("round"), "attention_1", "attention_4"}
        assert ("prefill" in point) == (len(walks) < 2), "on the way back the cache is full"
        walks.append(point)
        assert all(value > 0 for name, value in point.items() if "host" not in name)


def test_command(target: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    document = tmp_path / "measured.md"
    before = "<!-- measured: begin -->\nold\n<!-- measured: end -->\n<!-- context: begin -->\n"
    document.write_text(f"{before}<!-- context: end -->\n")
    small = Setup(target=target, copy=COPY[:1], contexts=(64, 128, 256, 512), context_repeats=1)
    small = replace(small, context_k=3)
    assert main(["--only", "context-float32", "--write", str(document)], small) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert len(told["rows"]) == 3
    curve = told["rows"][0]["points"]
    assert [point["context"] for point in curve] == [64, 128, 256, 448], "the model has 512 positions"
    text = document.read_text()
    assert text.startswith(before), "the other table is left as it was"
    assert "| context, float32 |" in text
    assert "\n| 448 |" in text
    assert "![" in text and "](context.svg)" in text
    drawn = ElementTree.fromstring((tmp_path / "context.svg").read_text())
    words = "".join(drawn.itertext())
    assert "A plain step, float32" in words and "A round of 4 rows, float32" in words


def test_table_of_points() -> None:
    row = growth_row("a plain step, bfloat16", "step", 1, points())
    head, rule, *lines = points_table(row).splitlines()
    assert head.startswith("| context, bfloat16 | plain step | its host |")
    assert "pass of 9 rows" in head
    assert head.count("|") == rule.count("|") == lines[0].count("|")
    assert lines[-1] == "| 8,192 | 44.58 | 0.50 | 0.70 | 25.08 | 74.15 | 2.00 | 0.03 | 50.15 | 1.00 |"


# -- the picture


@pytest.mark.parametrize(
    ("most", "expected"),
    [
        (1.0, [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (8192, [0, 2000, 4000, 6000, 8000, 10000]),
        (64.6, [0, 20, 40, 60, 80]),
        (10, [0, 2, 4, 6, 8, 10]),
        (0.03, [0, 0.005, 0.01, 0.015, 0.02, 0.025, 0.03]),
    ],
)
def test_ticks(most: float, expected: list[float]) -> None:
    assert ticks(most) == pytest.approx(expected)


@pytest.mark.parametrize("most", [0.001, 0.37, 1.01, 3, 7, 99, 1234, 65536])
def test_ticks_reach_around_the_data(most: float) -> None:
    found = ticks(most)
    assert found[0] == 0
    assert found[-2] < most <= found[-1] * (1 + 1e-9)
    assert 4 <= len(found) <= 8


def test_a_picture() -> None:
    lines = [Series("a < b", [(0, 0), (50, 10), (100, 20)]), Series("flat", [(0, 5), (100, 5)])]
    drawn = ElementTree.fromstring(svg([Panel(f"panel {n}", "tokens", "ms", lines) for n in range(3)]))
    name = "{http://www.w3.org/2000/svg}"
    assert drawn.get("viewBox") == f"0 0 {2 * WIDTH} {2 * HEIGHT}", "three panels, two in a row"
    assert len(drawn.findall(f"{name}g")) == 3
    assert "a < b" in [text.text for text in drawn.iter(f"{name}text")]
    steep, flat = (
        [tuple(map(float, place.split(","))) for place in (line.get("points") or "").split()]
        for line in list(drawn.iter(f"{name}polyline"))[:2]
    )
    assert [x for x, _ in steep] == sorted(x for x, _ in steep)
    assert steep[0][1] - steep[1][1] == pytest.approx(steep[1][1] - steep[2][1], abs=0.2), (
        "a line is straight"
    )
    assert steep[2][1] < flat[1][1] < steep[0][1], "more is higher up"
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in (*steep, *flat))


def test_rows_without_points_are_no_curve() -> None:
    with pytest.raises(IndexError):
        points_table(Row("plain", 1.0, "x"))
