"""``spec explain``: a recorded run explained, in 80 columns and as JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from support.calibrated import calibrated, costs, drawn_rounds, statistics_of
from support.replays import HEADER, one_run, record, timed
from support.scripted import TARGET
from support.story import baseline, finished, settings, started

from engine.costs import Costs
from engine.events import Event, LoadFinished, Round, RunStarted, SegmentStarted
from engine.explained import explained
from engine.run_fold import NO_RUN
from tui.cli import main
from tui.export.report import build_report


def run(
    price: Costs | None, *, k: int = 4, alpha: float = 0.7, speedup: float = 1.4, number: int = 1
) -> list[Event]:
    """A run of one calibration, with rounds that take what it says, and its baseline."""
    rounds = drawn_rounds(60, k, alpha)
    stats = statistics_of(rounds, price)
    told = [] if price is None else [calibrated(price)]
    opened = one_run(0, number=number)[:3]
    ends = [
        finished(stats.tokens, decode_ms=stats.decode_ms),
        baseline(stats.tokens, stats.decode_ms * speedup),
    ]
    return [*opened, *told, *rounds, *ends]


def written(path: Path, *runs: list[Event]) -> str:
    events = [LoadFinished(0, 0, "target", TARGET, 1.0), *(event for each in runs for event in each)]
    return str(record(path / "run.jsonl", timed(events), HEADER))


def told(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    assert main(["explain", *words]) == 0
    return capsys.readouterr().out.splitlines()


def test_a_run_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = told(capsys, written(tmp_path, run(costs(0.9, 0.1), speedup=0.6)))
    text = "\n".join(lines)
    assert max(map(len, lines)) <= 80
    for part in ("t1            40.00 ms", "c             0.9", "bandwidth     12.0 GB/s of 15.0"):
        assert part in text
    assert "survival" in text
    assert "  0   1.00x" in text
    assert text.count("not observed") >= 12
    assert "static best   K = 0: 1.00x" in text
    assert "oracle" in text
    assert "lookup" in text
    assert "  measured      0.60x" in text
    assert "Slower: drafting one token costs 0.90 of a plain step" in text
    now = [line for line in lines if line.endswith("now")]
    assert len(now) == 1
    assert now[0].split()[0] == "4"


def test_json_is_the_last_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, run(costs(0.1)))
    value = json.loads(told(capsys, path, "--k", "2", "--json")[-1])
    assert value["run"] == 1
    assert value["costs"]["c"] == pytest.approx(0.1)
    assert [point["k"] for point in value["predicted"]] == list(range(17))
    assert value["after_the_fact"]["what_if"]["k"] == 2
    assert value["after_the_fact"]["oracle"]["speedup"] >= value["after_the_fact"]["static_best"]["speedup"]
    assert value["why"].startswith("Faster: ")
    assert value["best_k"] == max(value["predicted"], key=lambda point: point["speedup"])["k"]


def test_a_round_that_ends_after_an_unsure_draft(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, run(costs(0.1)))
    asked = [
        json.loads(told(capsys, path, "--stop-below", q, "--json")[-1])["after_the_fact"]["what_if"]
        for q in ("0.4", "0.6")
    ]
    assert [each["k"] for each in asked] == [4, 4], "the run's own K"
    assert asked[0]["drafted"] == 240, "every q is 0.5"
    assert asked[1]["drafted"] < 240


def test_a_draft_cost_that_was_not_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, run(costs(0.9, 0.05), speedup=0.6))
    value = json.loads(told(capsys, path, "--draft-cost", "0.05", "--json")[-1])
    assert value["costs"]["c"] == pytest.approx(0.05)
    assert value["speedup"] is None, "no time that was measured is told beside other costs"
    assert value["predicted_speedup"] > 1.5
    assert value["why"].startswith("Faster by the prediction")


def test_a_run_without_a_calibration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, run(None))
    text = "\n".join(told(capsys, path, "--json"))
    assert "No costs were measured in this run" in text
    assert "  measured      1.40x" in text, "what is known is told"
    value = json.loads(text.splitlines()[-1])
    assert (value["costs"], value["predicted"], value["after_the_fact"]) == (None, [], None)
    assert main(["explain", path, "--draft-cost", "0.5"]) == 2
    assert "no costs were measured" in capsys.readouterr().err


def test_a_run_that_wrote_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, [*one_run(0)[:3], calibrated(), finished(0, decode_ms=0.0)])
    assert json.loads(told(capsys, path, "--json")[-1])["after_the_fact"] is None


def test_the_last_run_or_the_one_that_was_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, run(costs()), run(costs(0.4), k=2, number=2))
    assert told(capsys, path)[0].startswith("run 2: ")
    assert told(capsys, path, "--run", "1")[0].startswith("run 1: ")
    assert main(["explain", path, "--run", "3"]) == 2


@pytest.mark.parametrize(
    "words",
    [
        *(["--k", "-1"], ["--k", "65"], ["--draft-cost", "-0.1"], ["--draft-cost", "nan"]),
        *(["--stop-below", "1.5"], ["--stop-below", "nan"]),
    ],
)
def test_numbers_that_make_no_sense(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    assert main(["explain", written(tmp_path, run(costs())), *words]) == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_plain_decoding_is_not_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, [started(mode="plain"), finished(0)])
    assert main(["explain", path]) == 2
    assert "is plain decoding" in capsys.readouterr().err


def test_the_report_counts_as_the_app_does() -> None:
    events = run(costs(0.2))
    fold = NO_RUN
    for event in events:
        fold = fold.after(event)
    (report,) = build_report({}, events).runs
    assert report.statistics == fold.total.counts
    rows = dict(report.summary)
    assert rows["why"].startswith("Faster: ")
    assert rows["best K"] == str(fold.total.best_k)


def test_other_methods_go_into_the_verdict() -> None:
    """An answer that repeats its prompt: lookup would pay, the drafter does not."""
    events = run(costs(1.5, 0.0), speedup=0.4)
    (started_,) = (event for event in events if isinstance(event, RunStarted))
    rounds = [event for event in events if isinstance(event, Round)]
    ids = [id_ for round_ in rounds for id_ in round_.tokens]
    told_ = explained(
        statistics_of(rounds, costs(1.5, 0.0), 0.4), [*started_.prompt, *ids, ids[0]], rounds, "model"
    )
    assert told_.explanation is not None
    assert "lookup would give" in told_.explanation.sentence
    prompt = (*started_.prompt, *ids, ids[0])
    repeated = replace(started_, prompt=prompt, prompt_pieces=(b"w",) * len(prompt))
    segment = SegmentStarted(0, 0, 1, replace(settings(), drafter="model"))
    (report,) = build_report({}, [repeated, segment, *events[2:]]).runs
    assert report.measures["why"] == told_.explanation.sentence, "as the session told it"
    own = explained(statistics_of(rounds, costs(1.5, 0.0), 0.4), ids, rounds, "lookup")
    assert own.after is not None
    assert own.after.others == ()


def test_a_k_that_the_program_chooses_is_called_auto(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    events = [
        replace(event, settings=replace(event.settings, adaptive=True))
        if isinstance(event, SegmentStarted)
        else event
        for event in run(costs())
    ]
    assert told(capsys, written(tmp_path, events))[0].startswith("run 1: lookup, K auto, ")
