"""The bench's rows from trials, and the one table of all benches."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from support.sessions import configured
from support.trials import ONE, TWO, small_plan, trial_of, unit_of

from engine.bench import together
from engine.bench.__main__ import main
from engine.bench.lab import Setup
from engine.bench.quick_set import adversarial_row, quick_set_rows
from engine.bench.report import Row
from engine.bench.state import Done, State, read_all
from engine.bench.trials.bootstrap import Interval
from engine.bench.trials.build import takes_auto
from engine.bench.trials.cells import Cell, Choice, Results, results_of
from engine.bench.trials.plan import Arm, K
from engine.bench.trials.units import Unit

PLAN = small_plan("somewhere", [2])
PLAIN, SPECULATIVE = (arm.name for arm in PLAN.arms)


def cells(errors: dict[K, float | None]) -> tuple[Cell, ...]:
    """A cell of one category for each K, measured at twice the speed of plain decoding."""
    results = results_of(PLAN, [unit_of(PLAN, ONE, {PLAIN: 100.0, SPECULATIVE: 50.0})])
    cell = results.cells[1]
    return tuple(
        replace(cell, k=k, prediction_error=error, predicted_speedup=2.2) for k, error in errors.items()
    )


def test_the_prediction_error_is_the_median_over_prompts_and_fixed_k() -> None:
    found = cells({2: 0.02, 4: 0.05, 8: 0.30, 16: None, "auto": 0.9})
    (row,) = quick_set_rows(Results(found, found, ()))
    assert (row.name, row.value, row.unit, row.status) == ("prediction error, quick set", 5.0, "%", "PASS")
    assert "median of 3" in row.note and "worst 30 %" in row.note and "1.10" in row.note
    worse = cells({2: 0.02, 4: 0.11, 8: 0.30})
    (row,) = quick_set_rows(Results(worse, worse, ()))
    assert row.status == "SHORT"


def test_what_was_not_calibrated_has_no_error() -> None:
    found = cells({2: None})
    (row,) = quick_set_rows(Results(found, found, ()))
    assert row.value is None and row.status == "REPORT"


@pytest.mark.parametrize(("ratio", "status"), [(0.951, "PASS"), (0.949, "SHORT")])
def test_auto_against_the_best_fixed_k(ratio: float, status: str) -> None:
    choice = Choice("lookup", "block", 0.0, 8, 1.5, 1.4, Interval(ratio, 0.9, 1.0), None)
    found = cells({2: 0.02})
    _, row = quick_set_rows(Results(found, found, (choice,)))
    assert row.name == "adaptive K / static best K, quick set"
    assert (row.value, row.low, row.high, row.status, row.k) == (ratio, 0.9, 1.0, status, 8)


@pytest.mark.parametrize(("auto_ms", "status"), [(103.0, "PASS"), (104.0, "SHORT")])
def test_auto_on_text_that_nobody_can_guess(auto_ms: float, status: str) -> None:
    """The median of the pairs: one bad pair of five does not decide."""
    plan = replace(PLAN, arms=(PLAN.arms[0], Arm("auto", "speculative", "x", PLAN.arms[1].config, PLAIN)))
    units = [
        Unit("1", "unpredictable", n, (trial_of(PLAIN, 100.0), trial_of("auto", ms, rounds=5)), 1.0)
        for n, ms in enumerate([auto_ms, auto_ms, 300.0, auto_ms, auto_ms])
    ]
    row = adversarial_row(plan, units)
    assert (row.name, row.status) == ("adaptive K / plain, unpredictable text", status)
    assert row.value == pytest.approx(100 / auto_ms)
    assert row.low is not None and row.value is not None and row.low < row.value
    assert row.note == "5 pairs A B B A; 2.00 drafts a round"


@pytest.mark.usefixtures("one_thread")
def test_the_measure_runs_in_one_format(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    unpredictable = replace(ONE, id="3", category="unpredictable")
    setup = Setup(
        target=target,
        questions=(ONE, TWO, unpredictable),
        quick_ks=(2,),
        adversarial_tokens=4,
        adversarial_repeats=1,
    )
    assert main(["--only", "trials", "--json"], setup) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    names = ["prediction error, quick set"]
    if takes_auto(configured(target)):
        names.append("adaptive K / plain, unpredictable text")
    assert [row["name"] for row in rows] == names
    assert rows[0]["value"] > 0 and "median of 3" in rows[0]["note"]
    with pytest.raises(SystemExit):
        main(["--only", "trials-float32"])


# -- one table of all


def test_one_table_of_all_that_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "state.jsonl"
    old = State(path, "old", ["a", "b"])
    old.add(Done("a", (Row("first", 0.5, "x", at_least=1.0),), 1.0, "2026-01-01 10:00:00+00:00"))
    engine = State(path, "engine", ["a", "b"])
    engine.add(Done("a", (Row("first", 1.5, "x", at_least=1.0),), 2.0, "2026-01-01 11:00:00+00:00"))
    engine.add(Done("b", (Row("second", 9.0, "%", at_most=5),), 3.0, "2026-01-01 12:00:00+00:00"))
    app = State(path, "app", ["c"])
    app.add(Done("c", (Row("third", 4.0, "MB"),), 4.0, "2026-01-01 13:00:00+00:00"))
    assert [done.measure for done in read_all(path)] == ["a", "b", "c"]
    assert together.main([str(path), "--keep"]) == 0
    assert path.is_file()
    capsys.readouterr()
    assert together.main([str(path)]) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    told = json.loads(last)
    assert [(row["name"], row["status"]) for row in told["rows"]] == [
        ("first", "PASS"),
        ("second", "SHORT"),
        ("third", "REPORT"),
    ]
    assert told["seconds"] == 9.0
    assert sum(line.startswith(("first", "second", "third", "measure ")) for line in lines) == 4
    assert lines[-1] == "1 PASS, 1 SHORT: second"
    assert not path.exists()
    assert together.main([str(path)]) == 1
    assert "nothing is measured" in capsys.readouterr().err


def test_a_bench_can_leave_its_table_to_that(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from engine.bench.lab import Measure
    from engine.bench.rows import ROWS

    monkeypatch.setitem(ROWS, "trials", Measure(lambda lab: iter([Row("it", 1.0, "x")]), 1.0))
    path = tmp_path / "state.jsonl"
    assert main(["--only", "trials", "--state", str(path), "--keep", "--no-table"]) == 0
    assert capsys.readouterr().out == ""
    assert [row.name for done in read_all(path) for row in done.rows] == ["it", "it"]
