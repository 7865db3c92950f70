"""docs/measuring.md: every name that is shown is defined there, once, and its worked numbers hold."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from support.recordings import record
from support.screen_names import SOURCES
from support.scripted import make_round
from support.story import opening

from engine.costs import Costs, DraftCost, RoundCost
from engine.doctor.expectation import break_even_alpha
from engine.events import BaselineFinished, Calibrated, EndReason, Event, RunFinished
from engine.predictor import tau
from engine.recording import read_recording
from engine.stats import Statistics
from tui.export.report import build_report

TEXT = (Path(__file__).parents[1] / "docs" / "measuring.md").read_text("utf-8")
_TERM = r"(?:\*\*(?:\\\*|[^*])+\*\*|`[^`]+`)"
_ENTRY = re.compile(rf"^- ({_TERM}(?:, {_TERM})*)[ :(]", re.MULTILINE)


def entries(text: str) -> list[set[str]]:
    """The terms of each entry: what stands in bold or as code at its beginning."""
    joined = text.replace("\n  ", " ")
    return [
        {
            (term[1:-1] if term[0] == "`" else term[2:-2].replace("\\", ""))
            for term in re.findall(_TERM, leading)
        }
        for leading in _ENTRY.findall(joined)
    ]


def undefined(text: str, names: Iterable[str]) -> list[str]:
    """Names that no entry of a document begins with."""
    defined = set().union(*entries(text))
    return sorted({name for name in names if name not in defined})


@pytest.mark.parametrize("source", SOURCES)
def test_every_name_is_defined(source: str) -> None:
    names = list(SOURCES[source]())
    assert names, "this source shows no names any more"
    assert undefined(TEXT, names) == []


def test_the_gathering_sees_what_is_on_the_screen() -> None:
    assert {"speedup", "TTFT", "best K", "accepted up to draft", "eff", "segment"} <= set(
        SOURCES["the gauge"]()
    )
    assert {"a round takes", "same text as plain", "plain", "rule"} <= set(SOURCES["the summary"]())
    assert {"measured", "static best", "oracle", "survival", "t1", "o"} <= set(SOURCES["the pane Why"]())
    assert {"memory reads", "bfloat16", "break-even", "c"} <= set(SOURCES["the doctor"]())


@pytest.mark.parametrize("name", ["tau", "alpha-hat", "best_k", "TTFT", "first token, ms", "a*", "c"])
def test_a_name_that_is_only_mentioned_is_missed(name: str) -> None:
    assert undefined(TEXT, [name]) == []
    joined = TEXT.replace("\n  ", " ")
    kept = [
        line
        for line in joined.splitlines()
        if not (_ENTRY.match(line) and name in set().union(*entries(line)))
    ]
    without = "\n".join([*kept, f"- It is said that **{name}** matters.", f"`{name}` too."])
    assert undefined(without, [name]) == [name]


def test_each_name_has_one_definition() -> None:
    found = [term for entry in entries(TEXT) for term in entry]
    assert sorted({term for term in found if found.count(term) > 1}) == []


def test_the_table_of_contents_has_every_section() -> None:
    headings = re.findall(r"^## (.*)$", TEXT, re.MULTILINE)
    anchors = [heading.lower().replace(" ", "-") for heading in headings]
    assert re.findall(r"\]\(#([\w-]+)\)", TEXT.partition("## ")[0]) == anchors
    assert set(re.findall(r"\]\(#([\w-]+)\)", TEXT)) == set(anchors)


# -- the worked example


def table(*heads: str) -> list[list[str]]:
    """The cells of the document's table whose columns are called so."""
    (rows,) = re.findall(
        rf"^\| {re.escape(' | '.join(heads))} \|\n\|[-|]+\|\n((?:\|.*\n?)+)", TEXT, re.MULTILINE
    )
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in rows.splitlines()]


def shown_value(figure: str) -> str:
    """What the document says a figure is."""
    tables = re.findall(r"^\| figure \| how \| value \|\n\|[-|]+\|\n((?:\|.*\n)+)", TEXT, re.MULTILINE)
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")] for rows in tables for line in rows.splitlines()
    ]
    (value,) = (value for name, _, value in cells if name == figure)
    return str(value)


def number(pattern: str) -> float:
    """A number of the document's sentences."""
    (found,) = re.findall(pattern, " ".join(TEXT.split()))
    return float(found)


def example_costs() -> Costs:
    """The calibration of the example."""
    passes = number(r"\(pass ([\d.]+), host [\d.]+\)"), number(r"\(pass [\d.]+, host ([\d.]+)\)")
    rounds = tuple(
        RoundCost(int(rows), float(pass_ms), float(host_ms))
        for rows, pass_ms, host_ms in table("rows", "pass ms", "host ms")
    )
    return Costs(700, *passes, rounds, (DraftCost("", 1, 0.0), DraftCost("", 8, 0.0)), took_ms=900.0)


def example_events() -> list[Event]:
    """The example's rounds, and what came before and after them."""
    rounds: list[Event] = []
    spent = 0.0
    for at, asked, given, accepted, emitted, ms in table(
        "round", "asked", "drafted", "accepted", "emitted", "ms"
    ):
        made = make_round(int(at), int(given), int(accepted))
        assert len(made.tokens) == int(emitted)
        verify_ms = float(ms) - made.host_ms
        rounds.append(replace(made, k=int(asked), draft_ms=0.0, verify_ms=verify_ms))
        spent += float(ms)
    tokens, plain_ms = int(shown_value("tokens")), number(r"same 15 tokens took ([\d.]+) ms")
    begun = [event for event in opening() if isinstance(event, Event)]
    return [
        *begun,
        Calibrated(0, 0, 1, example_costs(), "start"),
        *rounds,
        RunFinished(0, 0, EndReason.ROUNDS, "", tokens, 10.0, 100.0, spent),
        BaselineFinished(0, 0, tokens, (), plain_ms, 5.0, None, None, complete=True),
    ]


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Statistics:
    """The measures of the example, from a recording of it."""
    path = record(tmp_path_factory.mktemp("example") / "example.jsonl", example_events())
    recording = read_recording(str(path))
    statistics = Statistics()
    for event in recording.events:
        if isinstance(event, Calibrated):
            statistics.set_costs(event.costs)
    (run,) = build_report(recording.header, recording.events).runs
    for round_ in run.rounds:
        statistics.add(round_)
    assert run.facts.finished is not None and run.facts.baseline is not None
    statistics.set_run(run.facts.finished)
    statistics.set_baseline(run.facts.baseline)
    statistics.check_identities()
    return statistics


def text_of(value: object, digits: int) -> str:
    assert isinstance(value, float), "it was measured"
    return f"{value:.{digits}f}"


def test_the_example_is_what_the_code_computes(example: Statistics) -> None:
    told = example.as_dict()
    assert shown_value("tokens") == str(told["tokens"])
    assert shown_value("tau") == text_of(told["tau"], 2)
    assert shown_value("alpha-hat") == text_of(told["alpha_hat"], 3)
    assert shown_value("draft efficiency") == text_of(told["draft_efficiency"], 3)
    shares = " ".join(text_of(share, 2) for share in told["acceptance_by_position"])
    assert shown_value("accepted by position") == shares
    assert shown_value("tokens/s") == text_of(told["tokens_per_second"], 1)
    assert shown_value("plain tokens/s") == text_of(told["baseline_tokens_per_second"], 1)
    assert shown_value("speedup") == text_of(told["speedup"], 2)
    assert shown_value("predicted speedup") == text_of(told["predicted_speedup"], 2)
    assert shown_value("prediction error") == text_of(told["prediction_error"], 3)
    assert number(r"t1 = ([\d.]+) ms") == pytest.approx(example_costs().t1_ms)
    assert shown_value("r(9)") == text_of(example_costs().r(9), 2)


def predicted(alpha: float, c: float, growth: float, k: int) -> Sequence[float]:
    """tau(K), the price of a round in plain steps, and their ratio."""
    rounds = tuple(RoundCost(rows, 10.0 * (1 + growth * (rows - 1)), 0.0) for rows in (1, 17))
    costs = Costs(100, 10.0, 0.0, rounds, tuple(DraftCost("", n, 10.0 * c * n) for n in (1, 16)), 0.0)
    price = costs.round_ms(k, k) / costs.t1_ms
    return tau(alpha, k), price, tau(alpha, k) / price


def test_the_table_of_k_is_what_the_code_computes() -> None:
    rows = table("K", "tau(K)", "K c + r(K+1)", "speedup")
    assert len(rows) == 4
    for k, *cells in rows:
        assert cells == [f"{value:.2f}" for value in predicted(0.7, 0.1, 0.03, int(k))]
    best = max(range(1, 17), key=lambda k: predicted(0.7, 0.1, 0.03, k)[2])
    assert number(r"The best K is (\d+)") == best
    assert number(r"0.1 \+ 1.03 \+ 0 - 1 = ([\d.]+)\.") == pytest.approx(break_even_alpha(0.1, r2=1.03))
