"""Each acceptance rule checked again: what real rounds write is sound, and every change of it is noticed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import settings as limited
from hypothesis import strategies as st
from support.runs import Forced, context, run_rounds
from support.tables import KINDS, TableModel, disjoint_tables, often_equal_tables, random_table, settings

from engine.answer import Limits
from engine.drafters.base import Drafter
from engine.drafters.lookup import LookupDrafter
from engine.drafters.model import ModelDrafter
from engine.draws import Draws, SharedNoise, Stream
from engine.events import (
    BaselineFinished,
    Divergence,
    Event,
    Round,
    RunStarted,
    SegmentStarted,
)
from engine.philox import exponential, uniform53
from engine.recheck import Finding, Grade, Recheck
from engine.recheck_block import capped_products
from engine.registry import RULES, load
from engine.verify import Rule

SAMPLED = ("speculative_sampling", "block", "match", "seed_exact")
PROMPT = (1, 0, 2)


def check(events: Sequence[Event]) -> list[Finding]:
    recheck = Recheck()
    return [finding for event in events for finding in recheck.add(event)]


def bugs(events: Sequence[Event]) -> set[str]:
    return {finding.check for finding in check(events) if finding.grade is Grade.BUG}


def drafter_of(name: str, p: TableModel, q: TableModel) -> Drafter:
    if name == "lookup":
        return LookupDrafter(context(p.as_lm()))
    if name == "certain":
        return Forced(context(p.as_lm()), PROMPT * 20, [2])
    return ModelDrafter(context(p.as_lm(), q.as_lm(), greedy=name == "greedy"))


def story(
    rule: str,
    drafter: str,
    tables: tuple[Any, Any],
    seed: int,
    *,
    vocab_size: int,
    dtype: torch.dtype = torch.float32,
    temperature: float = 1.0,
    tokens: int = 24,
    k: int = 4,
) -> list[Event]:
    """A run by the shipped rounds, as a recording tells it."""
    p, q = (TableModel(table, vocab_size, dtype=dtype) for table in tables)
    made: Rule = load(RULES[rule])()
    given = replace(
        settings(temperature=temperature),
        num_draft_tokens=k,
        verify_strategy=rule,
        seed=seed,
        sample_strategy="greedy" if drafter == "greedy" else "random",
        drafter="model" if drafter in {"random", "greedy"} else "lookup",
    )
    run = run_rounds(
        p.as_lm(),
        drafter_of(drafter, p, q),
        PROMPT,
        Limits(tokens, 10_000),
        k=k,
        given=given,
        rule=made,
        draws=made.draws(seed),
        dtype=dtype,
    )
    rounds = [replace(round_, settings_id=1) for round_ in run.rounds]
    return [begun(tokens), SegmentStarted(0, 0, 1, given), *rounds]


def begun(tokens: int) -> RunStarted:
    return RunStarted(0, 0, 1, "speculative", PROMPT, (b"",) * 3, 0, tokens, None, ())


@limited(max_examples=15)
@pytest.mark.parametrize("drafter", ["random", "greedy", "lookup", "certain"])
@pytest.mark.parametrize("rule", RULES)
@given(
    st.integers(0, 2**20),
    st.integers(3, 9),
    st.sampled_from([torch.float32, torch.float64]),
    st.sampled_from(["unlike", "alike", "strange"]),
    st.booleans(),
)
def test_what_a_rule_decides_is_sound(
    rule: str, drafter: str, seed: int, vocab_size: int, dtype: torch.dtype, pair: str, greedy: bool
) -> None:
    if pair == "unlike":
        tables = random_table(seed, vocab_size, KINDS), random_table(seed + 1, vocab_size, KINDS)
    elif pair == "alike":
        tables = often_equal_tables(seed, vocab_size)
    else:
        tables = disjoint_tables(seed, vocab_size)
    temperature = 0.0 if greedy or rule == "greedy_match" else 1.0
    events = story(
        rule, drafter, tables, seed, vocab_size=vocab_size, dtype=dtype, temperature=temperature, tokens=12
    )
    assert bugs(events) == set(), check(events)


@given(st.integers(0, 2**63 - 1), st.integers(0, 2**40), st.integers(0, 5000))
def test_the_draws_of_a_whole_law_are_those_of_the_engine(seed: int, position: int, id_: int) -> None:
    class Open(Draws):
        def point(self) -> float:
            return self._wide_uniform(position, Stream.TARGET, 0)

    class OpenNoise(SharedNoise):
        def wait(self) -> float:
            return float(self._exponential(position, id_ + 1)[id_])

    assert uniform53(seed, position, Stream.TARGET) == Open(seed).point()
    told = exponential(seed, position, Stream.NOISE, id_)
    assert float(torch.tensor(told, dtype=torch.float32)) == OpenNoise(seed).wait()


# -- changes


@cache
def run_of(rule: str) -> tuple[Event, ...]:
    """Rounds with an accepted, a rejected and an ignored draft among them."""
    tables = random_table(3, 12), random_table(4, 12)
    events = tuple(story(rule, "random", tables, 7, vocab_size=12, tokens=200))
    assert check(events) == []
    assert any(is_partial(event) for event in events)
    return events


def is_partial(event: Event) -> bool:
    return isinstance(event, Round) and 0 < event.n_accepted < len(event.drafts) - 1


def draft(round_: Round, place: int, **values: Any) -> Round:
    drafts = list(round_.drafts)
    drafts[place] = replace(drafts[place], **values)
    return replace(round_, drafts=tuple(drafts))


def with_target(round_: Round, id_: int, **values: Any) -> Round:
    """Another token of the target's, committed too."""
    target = replace(round_.target, id=id_, **values)
    return replace(round_, target=target, tokens=(*round_.tokens[:-1], id_))


def least(round_: Round) -> int:
    """An id at the other end of the law's likeliest ones, that the target did not draw."""
    row = round_.p_top[round_.n_accepted]
    return max((e for e in row if e.id != round_.target.id), key=lambda e: abs(e.id - round_.target.id)).id


def chance(round_: Round, id_: int) -> float:
    return next(entry.probability for entry in round_.p_top[round_.n_accepted] if entry.id == id_)


def swapped(round_: Round) -> Round:
    """The target's token becomes another likely one, with its right probability."""
    id_ = least(round_)
    return with_target(round_, id_, p=chance(round_, id_))


BLOCK: dict[str, tuple[Callable[[Round], Round], str]] = {
    "no h": (lambda r: draft(r, 0, h=None), "draw"),
    "an h above 1": (lambda r: draft(r, 0, h=1.5), "draw"),
    "the last h": (lambda r: draft(r, -1, h=(r.drafts[-1].h or 0) * 0.9 + 0.05), "h"),
    "an h above its bounds": (lambda r: draft(r, r.n_accepted - 1, h=1.0), "h"),
    "an h below its draw": (lambda r: draft(r, r.n_accepted - 1, h=0.0), "acceptance"),
    "an h above a later draw": (lambda r: draft(r, -1, h=1.0), "acceptance"),
    "a draw": (lambda r: draft(r, 0, u=0.5), "draw"),
    "a correction that the drafter likes better": (
        lambda r: replace(r, target=replace(r.target, p=1e-4, q=0.9)),
        "target",
    ),
}
MATCH: dict[str, tuple[Callable[[Round], Round], str]] = {
    "a draw": (lambda r: draft(r, 0, u=0.5), "draw"),
    "an h": (lambda r: draft(r, 0, h=0.5), "draw"),
    "the token that fell": (
        lambda r: with_target(r, r.drafts[r.n_accepted].id, p=r.drafts[r.n_accepted].p),
        "acceptance",
    ),
    "p of an accepted draft": (lambda r: draft(r, 0, p=0.0), "acceptance"),
    "the target's token": (swapped, "draw"),
}


@pytest.mark.parametrize("name", BLOCK)
def test_a_change_of_a_block_is_noticed(name: str) -> None:
    change, noticed_by = BLOCK[name]
    events = list(run_of("block"))
    at = next(at for at, event in enumerate(events) if is_partial(event) and not _is_one(event))
    changed = change(events[at])  # type: ignore[arg-type]
    assert noticed_by in bugs([*events[:at], changed, *events[at + 1 :]])


def _is_one(event: Event) -> bool:
    """Whether the product of the last draft that stands is 1: then its h is 1 too."""
    assert isinstance(event, Round)
    return capped_products(event.drafts)[event.n_accepted - 1] > 0.9


@pytest.mark.parametrize("rule", ["match", "seed_exact"])
@pytest.mark.parametrize("name", MATCH)
def test_a_change_of_a_match_is_noticed(name: str, rule: str) -> None:
    change, noticed_by = MATCH[name]
    events = list(run_of(rule))
    at = next(at for at, event in enumerate(events) if is_partial(event))
    changed = change(events[at])  # type: ignore[arg-type]
    assert noticed_by in bugs([*events[:at], changed, *events[at + 1 :]])


@pytest.mark.parametrize("rule", SAMPLED)
def test_one_accepted_less_is_noticed_under_every_rule(rule: str) -> None:
    """The last accepted draft is told as the target's correction, in keeping with everything else."""
    events = list(run_of(rule))
    at = next(at for at, event in enumerate(events) if is_partial(event))
    round_ = events[at]
    assert isinstance(round_, Round)
    fewer = round_.n_accepted - 1
    from engine.events import Origin, Verdict

    forged = draft(draft(round_, fewer, verdict=Verdict.REJECTED), fewer + 1, verdict=Verdict.IGNORED)
    last = round_.drafts[fewer]
    target = replace(round_.target, id=last.id, p=last.p, q=last.q, origin=Origin.CORRECTION)
    forged = replace(forged, n_accepted=fewer, target=target, tokens=(*round_.tokens[:fewer], last.id))
    assert "acceptance" in bugs([*events[:at], forged])


@pytest.mark.parametrize("rule", ["match", "seed_exact"])
def test_another_seed_is_noticed_by_the_tokens_alone(rule: str) -> None:
    events = [
        replace(event, settings=replace(event.settings, seed=8))
        if isinstance(event, SegmentStarted)
        else event
        for event in run_of(rule)
    ]
    assert "draw" in bugs(events)


def with_settings(rule: str, **changes: Any) -> list[Event]:
    return [
        replace(event, settings=replace(event.settings, **changes))
        if isinstance(event, SegmentStarted)
        else event
        for event in run_of(rule)
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"verify_strategy": "none"},
        {"drafter": "nobody"},
        {"acceptance": (0.5, 1.5)},
        {"draft_cost": -1.0},
        {"min_match": 0},
        {"verify_strategy": "greedy_match"},
    ],
)
def test_settings_that_no_run_has_are_noticed(change: dict[str, Any]) -> None:
    assert "settings" in bugs(with_settings("match", **change))


# -- plain decoding of the same length


def ids_of(events: Sequence[Event]) -> list[int]:
    return [id_ for event in events if isinstance(event, Round) for id_ in event.tokens]


def baseline(ids: Sequence[int], **values: Any) -> BaselineFinished:
    told: dict[str, Any] = {"identical": None, "first_difference": None, "complete": True, **values}
    return BaselineFinished(0, 0, len(ids), tuple(ids), 1.0, 1.0, **told)


@pytest.mark.parametrize(("rule", "sound"), [("match", True), ("seed_exact", True), ("block", False)])
def test_sampled_texts_are_told_the_same_only_where_the_seed_fixes_them(rule: str, sound: bool) -> None:
    events = list(run_of(rule))
    found = bugs([*events, baseline(ids_of(events), identical=True)])
    assert found == (set() if sound else {"baseline"})
    assert bugs([*events, baseline(ids_of(events))]) == set()


@pytest.mark.parametrize(
    ("change", "sound"),
    [
        ({}, True),
        ({"gap": None, "change": None}, True),
        ({"index": 4}, False),
        ({"written": 99}, False),
        ({"plain": 99}, False),
        ({"gap": -0.1}, False),
        ({"change": -0.1}, False),
    ],
)
def test_a_divergence_is_that_of_the_texts(change: dict[str, Any], sound: bool) -> None:
    events = list(run_of("match"))
    ids = ids_of(events)
    plain = [*ids[:5], (ids[5] + 1) % 12, *ids[6:]]
    told: dict[str, Any] = {"index": 5, "written": ids[5], "plain": plain[5], "gap": 0.1, "change": 0.2}
    found = Divergence(**{"written_piece": b"", "plain_piece": b"", **told, **change})
    end = baseline(plain, identical=False, first_difference=5, divergence=found)
    assert (bugs([*events, end]) == set()) == sound
    same = baseline(ids, identical=True, divergence=found)
    assert "baseline" in bugs([*events, same]), "nothing differs, so nothing is told of a difference"
