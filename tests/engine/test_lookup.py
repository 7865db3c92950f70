"""Lookup: the longest match, how far it is copied, and which texts are looked up."""

from __future__ import annotations

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from support.sessions import ASK, configured, ids_of, loaded, of
from support.tables import TableModel, settings

from engine.config import Config
from engine.config_tables import DraftConfig
from engine.context import Message
from engine.drafters import lookup
from engine.drafters.base import DrafterContext, Scored
from engine.drafters.lookup import LookupDrafter, TextIndex
from engine.drafters.suffix_automaton import MIN_MATCH, TOKENS_PER_MATCHED
from engine.draws import Draws
from engine.events import Event, Round, SegmentStarted
from engine.race import race
from engine.recheck_compare import same_ids
from engine.recheck_models import ModelRecheck
from engine.sampling import Law
from engine.session import Session

texts = st.lists(st.integers(0, 3), max_size=40)
edits_of = st.lists(st.tuples(st.integers(0, 40), texts), max_size=8)


def brute_force(known: list[list[int]], k: int, min_match: int) -> tuple[list[int], int]:
    """Draft and length of the match, by looking everywhere; the last text is the one that goes on."""
    newest = known[-1]
    for length in range(len(newest), min_match - 1, -1):
        wanted = min(k, TOKENS_PER_MATCHED * length)
        for text in reversed(known):
            for end in range(len(text) - 1, length - 1, -1):
                if text[end - length : end] == newest[-length:]:
                    written = list(text)
                    for at in range(end, end + wanted):
                        if at < len(written):
                            continue
                        if text is not newest:
                            return written[end:], length
                        written.append(written[at - (len(newest) - end)])
                    return written[end : end + wanted], length
    return [], 0


def drafter(**options: object) -> LookupDrafter:
    model = TableModel(lambda _: (1.0,), 1).as_lm()
    draft = DraftConfig.model_validate({"method": "lookup", **options})
    return LookupDrafter(DrafterContext(model, None, 1, greedy=False, options=draft))


def ids(tried: LookupDrafter, tokens: list[int], k: int = 4) -> list[int]:
    return tried.propose(tokens, k, Law(settings()), Draws(0)).ids.tolist()


@given(edits_of, st.integers(1, 9), st.integers(1, 4), st.booleans())
@example([(0, [1, 2, 3, 1, 2, 9, 2, 3, 1, 2])], 4, 1, False)
@example([(0, [7, 7])], 5, 1, False)
@example([(0, [1, 2, 1, 2, 1])], 6, 3, False)
@example([(0, [0, 1, 2, 3]), (2, [3, 0, 1])], 6, 2, True)
@example([(0, [0, 1, 2]), (0, [1])], 2, 1, True)
def test_whatever_happened_before(
    edits: list[tuple[int, list[int]]], k: int, min_match: int, history: bool
) -> None:
    """Tokens are appended, taken back and replaced: the draft is the one that a search everywhere finds."""
    index, known = TextIndex(history=history), [list[int]()]
    for keep, more in edits:
        tokens = known[-1][:keep] + more
        if tokens[: len(known[-1])] == known[-1]:
            known[-1] = tokens
        else:
            known = [*known, tokens] if history else [tokens]
        index.sync(tokens)
        expected, length = brute_force([list(text) for text in known], k, min_match)
        drafted, reason = index.draft(k, min_match)
        assert drafted == expected
        if len(drafted) == k:
            assert reason is None
        elif not drafted:
            assert reason == "no match"
        else:
            assert reason in {f"match of {length}", "the earlier text ends"}


def test_the_index_keeps_its_own_copy() -> None:
    """The list of committed tokens grows in place between two calls."""
    tried, tokens = drafter(), [1, 2, 3]
    assert ids(tried, tokens) == []
    tokens.append(1)
    assert ids(tried, tokens, 2) == [2, 3]


def test_it_prefers_the_longest_then_the_latest() -> None:
    assert ids(drafter(), [1, 2, 3, 40, 9, 2, 3, 50, 9, 1, 2, 3], 1) == [40], "longer, though it is older"
    assert ids(drafter(), [2, 3, 40, 9, 2, 3, 50, 9, 7, 2, 3], 1) == [50], "of equal length the later one"


def test_the_draft_is_as_long_as_the_match_allows() -> None:
    text = list(range(20, 60))
    for length in (1, 2, 5):
        tokens = [*text, *text[:length]]
        for k in (1, 3, 12):
            draft = drafter().propose(tokens, k, Law(settings()), Draws(0))
            size = min(k, TOKENS_PER_MATCHED * length)
            assert draft.ids.tolist() == text[length : length + size]
            assert draft.reason == (f"match of {length}" if size < k else None)


def test_a_match_that_is_too_short_is_none() -> None:
    assert MIN_MATCH == 1
    assert ids(drafter(min_match=3), [1, 2, 3, 4, 9, 2, 3]) == []
    assert ids(drafter(min_match=3), [1, 2, 3, 4, 9, 1, 2, 3], 2) == [4, 9]


@pytest.mark.parametrize("tokens", [[1], [1, 2, 3]])
def test_without_a_match_it_says_so(tokens: list[int]) -> None:
    draft = drafter().propose(tokens, 4, Law(settings()), Draws(0))
    assert draft.ids.shape == (0,)
    assert draft.ids.dtype == torch.int64
    assert draft.reason == "no match"


def test_its_drafts_are_certain_and_its_time_is_counted() -> None:
    tried = drafter()
    assert list(tried.prefill([1, 2])) == []
    assert tried.prefill_cost([1, 2]) == 0
    assert tried.model_info is None
    draft = tried.propose([1, 2, 1], 3, Law(settings()), Draws(0))
    assert draft.ids.tolist() == [2, 1, 2]
    assert draft.q is None
    assert draft.top is None
    assert draft.reason is None
    assert draft.source == ""
    tried.observe(Scored([2, 1, 2], 1))
    assert tried.take_ms() > 0
    assert tried.take_ms() == 0


def test_what_it_is_decoded_with() -> None:
    assert drafter().settings() == {"min_match": MIN_MATCH, "history": False}
    assert drafter(min_match=7, history=True).settings() == {"min_match": 7, "history": True}


# -- earlier texts

FIRST = [1, 2, 3, 4, 5, 6]
SECOND = [9, 2, 3]


def test_an_earlier_text_is_copied_to_its_end_if_that_is_asked_for() -> None:
    for history, draft in ((False, []), (True, [4, 5, 6])):
        tried = drafter(history=history)
        list(tried.prefill(FIRST))
        assert ids(tried, SECOND, 6) == draft


def test_a_text_that_goes_on_is_no_earlier_one() -> None:
    tried = drafter(history=True)
    ids(tried, FIRST)
    ids(tried, [*FIRST, 7])
    assert tried._index._texts.tokens == [*FIRST, 7]


def test_forget_drops_every_text() -> None:
    tried = drafter(history=True)
    ids(tried, FIRST)
    tried.forget()
    assert ids(tried, SECOND) == []


def test_what_is_drafted_aside_leaves_no_trace() -> None:
    tried = drafter(history=True)
    ids(tried, FIRST)
    with tried.aside():
        assert ids(tried, SECOND) == [], "nor does an earlier answer help there"
        assert ids(tried, [70, 71, 72]) == []
        tried.forget()
    assert ids(tried, [70]) == []
    assert ids(tried, SECOND) == [4, 5, 6]


def test_earlier_texts_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over many turns; the newest ones stay."""
    monkeypatch.setattr(lookup, "HISTORY", 200)
    tried, sizes = drafter(history=True), []
    for turn in range(100):
        ids(tried, [100_000 + turn, *range(30 * turn, 30 * turn + 30)])
        sizes.append(len(tried._index._texts.tokens))
        assert tried._index._texts.start <= 200
        assert len(tried._index._texts._link) <= 2 * len(tried._index._texts.tokens) + 1
    assert max(sizes[50:]) == max(sizes[:50])
    assert min(sizes[10:]) >= 100
    assert ids(tried, [5, 30 * 99], 3) == [30 * 99 + 1, 30 * 99 + 2, 30 * 99 + 3]
    assert ids(tried, [5, 30 * 80]) == []


# -- sessions

OTHER = (Message("user", "Why did the knight go?"),)


def told(session: Session, *asked: tuple[Message, ...]) -> list[Event]:
    return [event for messages in asked for event in session.generate(messages)]


def sampled(target: str) -> Config:
    return configured(target, draft={"history": True}, sampling={"temperature": 1.0, "seed": 3, "top_k": 6})


@pytest.mark.usefixtures("one_thread", "own_cache")
def test_a_race_changes_no_later_draft(target: str) -> None:
    """Nor do earlier answers help in it: it begins with nothing looked up."""
    quiet, raced = loaded(sampled(target)), loaded(sampled(target))
    expected = told(quiet, ASK, OTHER, ASK)
    happened = told(raced, ASK)
    for _ in race(raced, OTHER):
        pass
    happened += told(raced, OTHER, ASK)
    rounds = [[event for event in events if isinstance(event, Round)] for events in (expected, happened)]
    assert len(rounds[0]) == len(rounds[1])
    assert all(same_ids(one, other) for one, other in zip(*rounds, strict=True))


@pytest.mark.usefixtures("one_thread", "own_cache")
def test_the_same_question_again_is_looked_up_in_the_answer_before(target: str) -> None:
    session = loaded(configured(target, draft={"history": True}))
    first, second = (told(session, ASK) for _ in range(2))
    assert of(SegmentStarted, first).settings.history is True
    assert of(SegmentStarted, first).settings.min_match == MIN_MATCH
    assert ids_of(first) == ids_of(second)
    rounds = [event for event in second if isinstance(event, Round)]
    assert all(round_.n_accepted == len(round_.drafts) for round_ in rounds)
    assert len(rounds) < sum(isinstance(event, Round) for event in first)


@pytest.mark.usefixtures("one_thread", "own_cache")
def test_a_recording_with_earlier_texts_is_repeated(target: str) -> None:
    session = loaded(sampled(target))
    events = told(session, ASK, OTHER, ASK)
    recheck = ModelRecheck(session.header(), Session)
    session.close()
    recheck.load()
    assert list(recheck.run(events)) == []
    assert recheck.result.identical == recheck.result.rounds > 0
    assert recheck.result.unknown > 0, "what later runs copied from may not be in the recording"
    assert [run.identical for run in recheck.result.free] == [True, False, False]
    assert [run.left_out is None for run in recheck.result.free] == [True, False, False]
    recheck.close()
