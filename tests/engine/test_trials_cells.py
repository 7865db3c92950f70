"""What comes of units: sums, intervals, choices, and how they are told."""

from __future__ import annotations

import json
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from support.calibrated import costs
from support.scripted import make_round
from support.trials import ONE, TWO, small_plan, trial_of, unit_of

from engine.bench.bars import Bars, bars_svg
from engine.bench.trials.bootstrap import Interval, ratio_of_sums
from engine.bench.trials.cells import cell_of, results_of
from engine.bench.trials.html_page import html_page
from engine.bench.trials.json_results import json_results
from engine.bench.trials.labels import labels_of
from engine.bench.trials.markdown import markdown
from engine.bench.trials.plan import Arm, Plan
from engine.bench.trials.tables import category_lines, table_lines
from engine.bench.trials.units import ArmTrial, Unit, dump_unit, parse_unit
from engine.bench.trials.words import sentences
from engine.stats import Statistics, Timing

PLAN = small_plan("somewhere")
PLAIN, TWO_DRAFTS, FOUR_DRAFTS = (arm.name for arm in PLAN.arms)
UNITS = (
    unit_of(PLAN, ONE, {PLAIN: 100.0, TWO_DRAFTS: 50.0, FOUR_DRAFTS: 125.0}),
    unit_of(PLAN, TWO, {PLAIN: 300.0, TWO_DRAFTS: 150.0, FOUR_DRAFTS: 75.0}),
)
FACTS = {
    "command": "spec bench <mine> | x",
    "date": "today",
    "processor": "a <processor>",
    "cores": 2,
    "memory_gb": 1.0,
    "threads": 1,
    "versions": {"torch": "1"},
    "models": ["a model"],
    "load_average_before": 0.5,
    "load_average_after": None,
    "peak_memory_mb": None,
    "questions": 2,
    "tokens": 6,
    "repeats": 1,
    "seed": 0,
    "seconds": 2.0,
}


def with_auto(plan: Plan, ms: float) -> tuple[Plan, list[Unit]]:
    """The plan with an arm whose K is left to the program, and what was measured of it."""
    draft = plan.arms[1].config.draft.model_copy(update={"num_draft_tokens": "auto"})
    config = plan.arms[1].config.model_copy(update={"draft": draft})
    auto = Arm("auto", "speculative", "mine", config, PLAIN)
    units = [replace(unit, arms=(*unit.arms, trial_of("auto", ms))) for unit in UNITS]
    return replace(plan, arms=(*plan.arms, auto)), units


# -- sums and intervals


def test_the_speedup_is_that_of_the_sums_not_the_mean_of_ratios() -> None:
    cell = cell_of(PLAN, PLAN.arm(FOUR_DRAFTS), UNITS)
    assert cell.speedup is not None
    assert cell.speedup.value == pytest.approx(400 / 200), "the mean of 0.8 and 4.0 is 2.4"
    assert cell.questions == 2 and cell.tokens == 20
    assert cell.tokens_per_second == pytest.approx(100)
    assert cell.baseline_tokens_per_second == pytest.approx(50)


def test_the_interval_resamples_prompts_and_repeats_the_same_way() -> None:
    cell = cell_of(PLAN, PLAN.arm(FOUR_DRAFTS), UNITS)
    assert cell.speedup == Interval(2.0, 0.8, 4.0), "both prompts, or one of them twice"
    assert cell == cell_of(PLAN, PLAN.arm(FOUR_DRAFTS), UNITS)
    again = [replace(unit, repeat=repeat) for repeat in range(1, 6) for unit in UNITS]
    assert cell_of(PLAN, PLAN.arm(FOUR_DRAFTS), again).speedup == cell.speedup, "repeats are no prompts"
    single = cell_of(PLAN, PLAN.arm(FOUR_DRAFTS), UNITS[:1])
    assert single.speedup == Interval(100 / 125)


def test_a_bootstrap_covers_what_it_should() -> None:
    """Of intervals over samples of a known ratio, nearly all hold it; by chance alone 95 % would."""
    import random

    chance = random.Random(3)
    held = 0
    for _ in range(100):
        pairs = [(2 * x * chance.uniform(0.8, 1.2), x) for x in (chance.uniform(1, 2) for _ in range(20))]
        interval = ratio_of_sums(pairs, resamples=400)
        assert interval is not None and interval.low is not None and interval.high is not None
        held += interval.low <= 2 <= interval.high
    assert 85 <= held < 100


def test_nothing_is_divided_by_nothing() -> None:
    assert ratio_of_sums([]) is None
    assert ratio_of_sums([(1.0, 0.0)]) is None


def test_a_peer_that_wrote_more_is_brought_to_the_same_length() -> None:
    longer = [
        replace(unit, arms=(unit.arms[0], trial_of(TWO_DRAFTS, 200.0, 40), unit.arms[2])) for unit in UNITS
    ]
    cell = cell_of(PLAN, PLAN.arm(TWO_DRAFTS), longer)
    assert cell.speedup is not None
    assert cell.speedup.value == pytest.approx(400 / 100), "200 ms for 40 tokens are 50 for 10"


def test_measures_are_those_of_the_statistics() -> None:
    units = [
        replace(unit, arms=(unit.arms[0], trial_of(TWO_DRAFTS, 50.0, rounds=5), unit.arms[2]))
        for unit in UNITS
    ]
    cell = cell_of(PLAN, PLAN.arm(TWO_DRAFTS), units)
    assert (cell.rounds, cell.tokens, cell.tau) == (10, 20, 2.0)
    assert (cell.alpha_hat, cell.draft_efficiency) == (0.5, 0.5)
    assert cell.acceptance_by_position == (1.0, 0.0)
    assert cell.verify_ms_per_round == pytest.approx(40.125)
    assert cell.predicted_speedup is None and cell.prediction_error is None, "nothing was calibrated"


def predicted(ms: float) -> ArmTrial:
    """5 rounds of 2 tokens that should have taken 48 ms each, 40 in plain decoding a token."""
    counts = Statistics()
    counts.set_costs(costs(c=0.05, growth=0.05))
    for number in range(1, 6):
        counts.add(make_round(number, 2, 1))
    counts.timing = Timing(ms, None)
    return replace(trial_of(TWO_DRAFTS, ms), counts=counts, costs=counts.costs)


def test_predictions_are_those_of_the_statistics_and_their_error_is_the_median_over_prompts() -> None:
    """By the costs 80 / 48 = 1.67x; measured are 2x, 1.6x and 1x."""
    three = (ONE, TWO, replace(ONE, id="3"))
    units = [
        replace(
            unit_of(PLAN, question, {PLAIN: 400.0, TWO_DRAFTS: 0.0, FOUR_DRAFTS: 1.0}),
            arms=(trial_of(PLAIN, 400.0), predicted(ms), trial_of(FOUR_DRAFTS, 1.0)),
        )
        for question, ms in zip(three, (200.0, 250.0, 400.0), strict=True)
    ]
    cell = cell_of(PLAN, PLAN.arm(TWO_DRAFTS), units)
    assert cell.predicted_speedup == pytest.approx(80 / 48)
    assert cell.prediction_error == pytest.approx(abs(80 / 48 - 2) / 2)
    assert cell.best_k == units[0].of(TWO_DRAFTS).counts.best_k == 1, "the second draft never stood"


def test_a_unit_survives_its_file() -> None:
    unit = replace(UNITS[0], arms=(trial_of("a", 12.5, rounds=3), predicted(3.0), *UNITS[0].arms))
    assert parse_unit(json.loads(json.dumps(dump_unit(unit)))) == unit
    with pytest.raises(ValueError, match="category"):
        parse_unit({"question": "1"})


# -- choices


def test_the_best_fixed_k_and_auto_against_it() -> None:
    plan, units = with_auto(PLAN, 110.0)
    (choice,) = results_of(plan, units).choices
    assert (choice.static_k, choice.static_speedup) == (2, 2.0), "the first of equals"
    assert choice.adaptive_speedup == pytest.approx(400 / 220)
    assert choice.adaptive_over_static is not None
    assert choice.adaptive_over_static.value == pytest.approx(200 / 220)
    assert 'The best fixed K is 2 (2.00x), known afterwards; "auto" is 1.82x, 90.9% of that' in " ".join(
        sentences(results_of(plan, units))
    )


def test_where_no_k_pays_plain_decoding_is_the_best_choice() -> None:
    slow = [unit_of(PLAN, ONE, {PLAIN: 100.0, TWO_DRAFTS: 125.0, FOUR_DRAFTS: 200.0})]
    plan, _ = with_auto(PLAN, 0.0)
    slow = [replace(unit, arms=(*unit.arms, trial_of("auto", 104.0))) for unit in slow]
    (choice,) = results_of(plan, slow).choices
    assert (choice.static_k, choice.static_speedup) == (0, 1.0)
    assert choice.adaptive_over_static == Interval(100 / 104)


def test_the_oracle_is_that_of_the_largest_fixed_k() -> None:
    assert results_of(PLAN, UNITS).choices[0].oracle_speedup is None
    units = []
    for unit in UNITS:
        two, four = (replace(trial, oracle_plain_ms=90.0) for trial in unit.arms[1:])
        arms = (unit.arms[0], replace(two, oracle_ms=80.0), replace(four, oracle_ms=30.0))
        units.append(replace(unit, arms=arms))
    (choice,) = results_of(PLAN, units).choices
    assert choice.oracle_speedup == pytest.approx(3.0)
    assert sentences(results_of(PLAN, units))[-1].endswith("would have 3.00x by the costs.")


# -- telling


def test_what_loses_is_said() -> None:
    said = sentences(results_of(PLAN, UNITS))
    assert "On chat, slower than plain decoding: K = 4 (0.80x)." in said
    worse = [unit_of(PLAN, ONE, {PLAIN: 100.0, TWO_DRAFTS: 125.0, FOUR_DRAFTS: 50.0})]
    assert sentences(results_of(PLAN, worse))[0] == "K = 2 is slower than plain decoding: 0.80x."


def test_a_wrong_text_is_shouted_before_anything_else_and_only_in_float32() -> None:
    wrong = replace(trial_of(TWO_DRAFTS, 50.0, identical=0), ties=1, first_difference=3)
    units = [replace(unit, arms=(unit.arms[0], wrong, unit.arms[2])) for unit in UNITS]
    first = sentences(results_of(PLAN, units))[0]
    assert first.startswith("WRONG TEXT: K = 2: 2 of 4 greedy answers in float32")
    half = replace(wrong, dtype="bfloat16", ties=0)
    units = [replace(unit, arms=(unit.arms[0], half, unit.arms[2])) for unit in UNITS]
    said = sentences(results_of(PLAN, units))
    assert not any("WRONG" in sentence for sentence in said)
    assert "4 of 4 answers part from plain decoding's as bfloat16 rounds by width, token 3" in said[0]


@pytest.mark.parametrize("width", [30, 40, 60, 80, 200])
def test_the_table_fits(width: int) -> None:
    label = "a/very/long/folder/of/configurations/with-a-long-name.toml"
    other = [
        replace(arm, name=f"{label} {arm.name}", configuration=label, plain=f"{label} {PLAIN}")
        for arm in PLAN.arms
    ]
    plan = replace(PLAN, arms=(*PLAN.arms, *other))
    units = [
        replace(unit, arms=(*unit.arms, *(replace(trial, arm=f"{label} {trial.arm}") for trial in unit.arms)))
        for unit in UNITS
    ]
    results = results_of(plan, units)
    lines = [*table_lines(results.cells, width), *category_lines(results, width)]
    assert max(map(len, lines)) <= width
    assert any("2.00x" in line for line in lines)
    if width == 200:
        assert "draft efficiency" in lines[0] and lines[4].startswith("with-a-long-name.toml, ")


def test_paths_of_configurations_are_told_by_what_parts_them() -> None:
    def labels(*paths: str) -> set[str]:
        cell = results_of(PLAN, UNITS).cells[0]
        return set(labels_of([replace(cell, arm=path, configuration=path) for path in paths]).values())

    assert labels("a/long/one.toml", "a/long/two.toml") == {"one.toml, plain", "two.toml, plain"}
    assert labels("a/same.toml", "b/same.toml", "same.toml") == {
        "a/same.toml, plain",
        "b/same.toml, plain",
        "same.toml, plain",
    }


def test_json_has_the_names_that_all_outputs_share() -> None:
    plan, units = with_auto(PLAN, 110.0)
    told = json.loads(json_results(results_of(plan, units), FACTS))
    cell = told["cells"][1]
    names = "tokens rounds tau alpha_hat draft_efficiency acceptance_by_position tokens_per_second"
    names += " baseline_tokens_per_second speedup predicted_speedup prediction_error best_k ttft_ms identical"
    assert set(names.split()) <= cell.keys()
    assert cell["speedup"] == 2.0 and cell["speedup_low"] <= 2.0 <= cell["speedup_high"]
    assert cell["identical"] is True and cell["tau"] is None
    assert told["cells"][3]["num_draft_tokens"] == "auto"
    assert told["choices"][0]["adaptive_over_static"] == pytest.approx(200 / 220)
    assert len(told["by_category"]) == 8


class _Page(HTMLParser):
    """Collects tags and text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in {"src", "href"}]

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_stands_alone_and_holds_no_markup_of_others() -> None:
    plan, units = with_auto(PLAN, 110.0)
    units = [replace(unit, category=f"<script>{unit.category}") for unit in units]
    text = html_page(results_of(plan, units), FACTS)
    page = _Page()
    page.feed(text)
    assert "script" not in page.tags and page.links == []
    assert page.tags.count("svg") == 2
    assert "spec bench <mine> | x" in page.text and "<script>chat" in page.text
    assert "prefers-color-scheme: dark" in text
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")


def test_markdown_escapes_what_is_not_its_own() -> None:
    plan, units = with_auto(PLAN, 110.0)
    units = [replace(unit, category="a|b*") for unit in units]
    text = markdown(results_of(plan, units), FACTS)
    assert "- command: spec bench \\<mine\\> \\| x" in text
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert len({line.count("|") - line.count("\\|") for line in table}) == 1
    assert "2.00x" in text


def test_bars_are_as_long_as_their_values() -> None:
    text = bars_svg(Bars("t", "x", ["a", "b"], [("g<", [1.0, None]), ("h", [2.0, 0.5])], line=1.0))
    widths = [float(part.split('"')[0]) for part in text.split('width="')[3:]]
    assert "g&lt;" in text
    bars = [wide for wide in widths if wide not in {12.0, 920.0}]
    assert len(bars) == 3
    assert bars[0] == pytest.approx(bars[1] / 2, abs=0.1) and bars[2] == pytest.approx(bars[0] / 2, abs=0.1)
