"""Rule and drafter are named, and nothing measured with synthetic drafts stands without the word."""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Sequence
from typing import Any

import pytest
from support.panes import SETTINGS, fold, rows, run, shown, started
from support.scripted import TARGET, make_round

from engine.config import parse_config
from engine.events import (
    BaselineFinished,
    Divergence,
    EndReason,
    Event,
    Round,
    RunFinished,
    RunStarted,
    SegmentStarted,
    Settings,
)
from engine.registry import DRAFTERS, RULES
from engine.stats import Statistics
from tui.changes import GREEDY, with_drafter, with_rule
from tui.compare import compare_runs
from tui.compare_text import measure_rows
from tui.drafting import drafter_words, is_synthetic, option_words, rule_words, speedup_words, synthetic_of
from tui.export.html import as_html
from tui.export.markdown import as_markdown
from tui.export.report import build_report
from tui.export.tables import as_json
from tui.round_text import round_lines
from tui.screens.model_rows import held_text
from tui.settings_form import NUMBERS, Reach, check, fields, in_use, texts_of
from tui.summary import RunFacts, json_line, summary_rows
from tui.terminal import Output
from tui.widgets.gauge import GaugePane
from tui.widgets.inspector import InspectorPane
from tui.widgets.rounds import RoundsPane

SYNTHETIC = dataclasses.replace(
    SETTINGS, drafter="synthetic", verify_strategy="match", acceptance=(0.9, 0.7), draft_cost=0.1
)
HYBRID = dataclasses.replace(SETTINGS, drafter="hybrid", min_match=3, history=True)
CONFIG = parse_config('draft.method = "lookup"\nverify.model_name = "a"\nsampling.temperature = 0.7', "a")
KNOWN = parse_config('draft.method = "lookup"\nverify.model_name = "a"\nsampling.temperature = 0', "a")
"""The same where the text is fixed."""


def answer(settings: Settings = SYNTHETIC, *, source: str = "", **baseline: Any) -> list[Event]:
    """A run that was timed against plain decoding."""
    made = [dataclasses.replace(make_round(n, 3, n % 4), source=source) for n in range(1, 5)]
    tokens = sum(len(round_.tokens) for round_ in made)
    ms = sum(round_.ms for round_ in made)
    told = {"identical": True, "first_difference": None, "complete": True, **baseline}
    return [
        RunStarted(0, 0, 1, "speculative", (1,), (b"a",), 0, 64, None, ()),
        SegmentStarted(0, 0, 1, settings),
        *made,
        RunFinished(0, 0, EndReason.ROUNDS, "", tokens, 10.0, 50.0, ms),
        BaselineFinished(0, 0, tokens, (), 3.1 * ms, 10.0, **told),
    ]


def told(events: Sequence[Event], *, drafter: bool = False) -> tuple[RunFacts, dict[str, Any]]:
    facts, statistics = RunFacts(target=TARGET), Statistics()
    if drafter:
        facts.drafter = dataclasses.replace(TARGET, name="small")
    for event in events:
        facts.add(event)
        if isinstance(event, Round):
            statistics.add(event)
        elif isinstance(event, RunFinished):
            statistics.set_run(event)
        elif isinstance(event, BaselineFinished):
            statistics.set_baseline(event)
    return facts, statistics.as_dict()


# -- the summary and its JSON


def test_the_summary_says_synthetic_wherever_it_tells_what_that_made() -> None:
    facts, measures = told(answer())
    measures["synthetic"] = {"acceptance": [0.9, 0.7], "draft_cost": 0.1, "speedup_at_cost": 2.35}
    summary = dict(summary_rows(facts, measures))
    assert summary["drafter"].startswith("synthetic, 5 tokens a round, right with probability 0.9, 0.7")
    assert summary["speedup"] == (
        "synthetic: 3.10x as measured, with drafts that cost nothing;"
        " 2.35x if drafting a token cost 0.10 of a plain step"
    )
    for name in ("tau", "alpha-hat", "draft efficiency"):
        assert summary[name].endswith(" (synthetic)")
    assert summary["rule"].startswith("match, ")
    assert summary["same text as plain"].startswith("yes"), "the seed fixes the text"


def test_the_json_says_what_drafted_and_judged() -> None:
    line = json.loads(json_line(*told(answer())))
    assert line["synthetic"] == {"acceptance": [0.9, 0.7], "draft_cost": 0.1, "speedup_at_cost": None}
    assert (line["verify_strategy"], line["drafter"], line["draft_method"]) == ("match", *["synthetic"] * 2)
    assert line["draft_model"] is None and line["divergence"] is None
    line = json.loads(json_line(*told(answer(HYBRID), drafter=True)))
    assert (line["drafter"], line["draft_method"], line["draft_model"]) == ("small", "hybrid", "small")
    assert (line["min_match"], line["history"], line["synthetic"]) == (3, True, None)


def test_bits_are_told_beside_the_number_format() -> None:
    facts, measures = told(answer())
    facts.target = dataclasses.replace(TARGET, quantized="int8")
    words = "float32, layers in int8, on cpu, eager passes"
    assert words in dict(summary_rows(facts, measures))["target"]
    assert json.loads(json_line(facts, measures))["quantized"] == "int8"
    assert held_text(facts.target, None).endswith("(float32, int8 on cpu, eager)")
    facts.target = TARGET
    assert json.loads(json_line(facts, measures))["quantized"] is None


def test_a_part_that_was_synthetic_makes_the_run_so() -> None:
    events = answer()
    events.insert(4, SegmentStarted(0, 0, 2, SETTINGS))
    facts, measures = told(events)
    assert json.loads(json_line(facts, measures))["synthetic"] is not None
    assert "(synthetic)" in dict(summary_rows(facts, measures))["tau"]


def test_a_real_drafter_has_no_such_word() -> None:
    facts, measures = told(answer(HYBRID), drafter=True)
    summary = summary_rows(facts, measures)
    assert "synthetic" not in str(summary)
    words = dict(summary)["drafter"]
    assert words.startswith(
        "hybrid with small (134.5M parameters, float32 on cpu, eager passes), 5 tokens a round"
    )
    assert words.endswith("after at least 3 equal tokens, also in earlier answers")


def test_a_loss_with_synthetic_drafts_is_called_both() -> None:
    words = speedup_words(0.8, {"draft_cost": 0.0, "speedup_at_cost": 0.8})
    assert words == (
        "synthetic: slower than plain decoding: 0.80x as measured, with drafts that cost nothing"
    )
    assert speedup_words(2.0, None) == "2.00x"


def test_a_bug_is_loud_in_summary_and_json() -> None:
    found = Divergence(3, 7, b" the", 8, b" a", 0.5, 0.1)
    facts, measures = told(answer(identical=False, first_difference=3, divergence=found))
    assert dict(summary_rows(facts, measures))["same text as plain"].startswith("BUG: no, token 4")
    assert json.loads(json_line(facts, measures))["divergence"]["verdict"] == "bug"


# -- rounds


def test_a_round_says_which_part_guessed() -> None:
    round_ = dataclasses.replace(make_round(3, 3, 1), source="lookup")
    output = Output(io.StringIO())
    assert round_lines(round_, output)[0].startswith("round 3 (lookup): 1/3 accepted")
    assert round_lines(make_round(3, 3, 1), output)[0].startswith("round 3: 1/3 accepted")


def test_the_panes_say_synthetic_and_which_part_guessed() -> None:
    async def scenario() -> None:
        gauge, rounds, inspector = GaugePane(), RoundsPane(), InspectorPane()
        async with shown(gauge, (70, 40)) as (_, pilot, _):
            state = fold(started(), answer(source="lookup")[1:])
            gauge.show(state)
            await pilot.pause()
            assert gauge.border_title == "Gauge, SYNTHETIC"
            text = " ".join(" ".join(rows(gauge)).split())
            assert "Synthetic drafts, which cost nothing: 3.10 times as" in text
            gauge.compact = True
            await pilot.pause()
            assert "3.10x faster (synthetic)" in gauge.build_row(0).text
        async with shown(rounds, (70, 12)) as (_, pilot, _):
            rounds.show(state)
            await pilot.pause()
            assert rounds.border_title == "Rounds, SYNTHETIC"
            assert any("(lookup)" in row for row in rows(rounds))
        async with shown(inspector, (70, 30)) as (_, pilot, _):
            inspector.show(state)
            await pilot.pause()
            assert rows(inspector)[0].startswith("round 4 (lookup)  synthetic, K 3")

    run(scenario)


def test_the_inspector_has_h_beside_u() -> None:
    made = make_round(1, 3, 2)
    made = dataclasses.replace(made, drafts=tuple(dataclasses.replace(d, h=0.375) for d in made.drafts))
    block = dataclasses.replace(SETTINGS, verify_strategy="block")

    async def scenario() -> None:
        pane = InspectorPane()
        async with shown(pane, (70, 30)) as (_, pilot, _):
            pane.show(fold(started(), [SegmentStarted(0, 0, 1, block), made]))
            await pilot.pause()
            text = "\n".join(rows(pane))
            assert "u 0.2500   h 0.3750" in text
            assert "the block of 3 stands up to draft 2" in " ".join(text.split())

    run(scenario)


def test_a_bug_is_loud_in_the_gauge() -> None:
    found = Divergence(3, 7, b" the", 8, b" a", 0.5, 0.1)
    events = answer(SETTINGS, identical=False, first_difference=3, divergence=found)

    async def scenario() -> None:
        pane = GaugePane()
        async with shown(pane, (70, 40)) as (_, pilot, _):
            pane.show(fold(started(), events[1:]))
            await pilot.pause()
            assert "BUG: no, token 4 is the first that differs" in " ".join(" ".join(rows(pane)).split())

    run(scenario)


# -- documents and comparisons


def test_every_document_says_synthetic() -> None:
    report = build_report({}, answer(source="model"))
    assert '<p class="speedup">3.10x synthetic</p>' in as_html(report)
    assert "1 (model)" in as_html(report)
    assert "synthetic: 3.10x" in as_markdown(report)
    (told_run,) = json.loads(as_json(report))["runs"]
    assert told_run["synthetic"]["acceptance"] == [0.9, 0.7]
    assert told_run["divergence"] is None
    real = build_report({}, answer(SETTINGS))
    assert "synthetic" not in as_html(real) and "synthetic" not in as_markdown(real)


def test_a_comparison_says_which_run_is_synthetic() -> None:
    found = Divergence(3, 7, b" the", 8, b" a", 0.05, 0.1)
    (one,) = build_report({}, answer()).runs
    (other,) = build_report({}, answer(SETTINGS, identical=False, first_difference=3, divergence=found)).runs
    comparison = compare_runs(one, other)
    table = measure_rows(comparison)
    assert table[0] == ("drafts", "synthetic", "real", "", "")
    assert table[-1] == ("difference is", "--", "a tie", "", "")
    as_dict = comparison.as_dict()
    assert as_dict["synthetic"][0]["draft_cost"] == 0.1 and as_dict["synthetic"][1] is None
    assert as_dict["divergence"][1]["verdict"] == "numerical tie"
    assert measure_rows(compare_runs(other, other))[0][0] == "speedup"


# -- choosing


def test_names_of_rules_and_drafters() -> None:
    assert [rule_words(name) for name in ("speculative_sampling", "seed_exact")] == ["sampling", "seed exact"]
    assert drafter_words("model", "a") == "a"
    assert drafter_words("hybrid", "a") == "hybrid a"
    assert drafter_words("lookup", None) == "lookup"
    assert is_synthetic("synthetic") and not is_synthetic("lookup") and not is_synthetic("nobody")
    assert option_words(SETTINGS) == []
    assert synthetic_of({}, SETTINGS) is None


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_can_be_chosen_and_left(rule: str) -> None:
    chosen = with_rule(CONFIG, rule)
    assert chosen.verify.verify_strategy == rule
    assert (chosen.sampling.temperature is None) == (rule == GREEDY)
    back = with_rule(chosen, "block", 0.7)
    assert (back.verify.verify_strategy, back.sampling.temperature) == ("block", 0.7)


def test_a_change_of_drafter_leaves_out_what_the_new_one_does_not_have() -> None:
    synthetic = with_drafter(KNOWN, "synthetic", "[0.9, 0.5]")
    assert synthetic.draft.acceptance == (0.9, 0.5)
    assert with_drafter(synthetic, "lookup").draft.acceptance is None
    assert with_drafter(synthetic, "synthetic", "0.3").draft.acceptance == (0.3,)


def test_bits_of_a_drafter_go_with_it() -> None:
    pair = "draft = { model_name = 'a/b', quantize = 'int8' }"
    coded = parse_config(f"{pair}\nverify.model_name = 'a'", "a")
    assert with_drafter(coded, "lookup").draft.quantize == "none"
    assert with_drafter(coded, "hybrid").draft.quantize == "int8"
    for table in ("draft", "verify"):
        assert next(field.reach for field in fields() if field.key == f"{table}.quantize") is Reach.RELOAD


@pytest.mark.parametrize("method", DRAFTERS)
def test_options_are_in_use_with_the_methods_that_have_them(method: str) -> None:
    for option in ("min_match", "history", "acceptance", "cost"):
        assert in_use(f"draft.{option}", method) == (option in DRAFTERS[method].options)
    for name in ("model_name", "quantize"):
        assert in_use(f"draft.{name}", method) == DRAFTERS[method].loads_model
    assert in_use("verify.quantize", method)
    assert in_use("draft.num_draft_tokens", method) and in_use("run.device", method)


@pytest.mark.parametrize(
    ("text", "shares"), [("0.5", (0.5,)), ("1", (1.0,)), ("[0.9, 0.8]", (0.9, 0.8)), ("", None)]
)
def test_an_acceptance_is_a_number_or_a_list(text: str, shares: tuple[float, ...] | None) -> None:
    form = fields()
    field = next(field for field in form if field.key == "draft.acceptance")
    assert (field.type, field.reach) == (NUMBERS, Reach.RELOAD)
    texts = {**texts_of(KNOWN), "draft.method": "synthetic", "draft.acceptance": text}
    config = check(texts, form).config
    assert config is not None and config.draft.acceptance == shares
    assert check(texts_of(config), form).config == config


@pytest.mark.parametrize("text", ["2", "[0.5, -1]", "[", "often", "[]"])
def test_an_acceptance_that_is_none_is_told(text: str) -> None:
    texts = {**texts_of(CONFIG), "draft.method": "synthetic", "draft.acceptance": text}
    assert "draft.acceptance" in check(texts, fields()).problems
