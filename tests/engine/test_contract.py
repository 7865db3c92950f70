"""One suite for all drafters and rules of the registry: what each pair of them owes a run.

The text is fixed (every law is one-hot), so that each rule, at any temperature, must write it token for
token; what varies is how much of it the drafter guesses. ``GUESSING`` says how to build a drafter that
guesses all, some or none of a text; whole sessions need nothing but the registry.
"""

from __future__ import annotations

import gc
import itertools
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from string import ascii_lowercase

import pytest
import torch
from support.runs import Run, context, run_plain, run_rounds
from support.sessions import ASK, configured, ids_of, kinds, loaded, of, text_of
from support.tables import Letters, Table, TableModel, random_table, settings

from engine import registry
from engine.answer import Limits
from engine.config import Config
from engine.config_tables import DraftConfig
from engine.context import Message
from engine.drafters.base import Drafter, DrafterContext
from engine.draws import Draws
from engine.events import BaselineFinished, EndReason, Round, RunFinished, Settings
from engine.kv_cache import KVCache
from engine.sampling import Law
from engine.session import Session
from engine.verify import Rule

V = 26
K = 4
PERIOD = 7
START = 2 * PERIOD
"""Tokens of the prompt: two periods."""
LENGTH = 24
LIMITS = Limits(LENGTH, 512)
AMOUNTS = ("none", "some", "all")
PERIODIC = [id_ % PERIOD for id_ in range(START + LENGTH + K)]
NEW_THEN_OLD = [*range(START + 10), *itertools.islice(itertools.cycle(range(START, START + 10)), LENGTH)]
"""Ten new tokens after the prompt, then the same again and again."""
REVERSED = Letters([*reversed(ascii_lowercase), "ab", "ef"])
"""Another vocabulary for the same texts: no id means the same, and two tokens are longer."""

pytestmark = pytest.mark.usefixtures("one_thread")


@dataclass
class Case:
    """A text, a target that writes it, and a drafter that guesses as much of it as it should."""

    text: list[int]
    target: TableModel
    drafter: Drafter

    @property
    def prompt(self) -> list[int]:
        return self.text[:START]

    @property
    def answer(self) -> list[int]:
        return self.text[START : START + LENGTH]


def one_hot(text: list[int], wrong: Callable[[int], bool] = lambda _: False) -> Table:
    """Writes the text, whatever was written before, but the next id where it is to be wrong."""

    def row(tokens: tuple[int, ...]) -> tuple[float, ...]:
        at = len(tokens)
        id_ = text[at] if at < len(text) else 0
        right = (id_ + 1) % V if wrong(at) else id_
        return tuple(float(each == right) for each in range(V))

    return row


def letters(ids: list[int]) -> str:
    """What ids of the target say."""
    return "".join(ascii_lowercase[id_] for id_ in ids)


WRONG: dict[str, Callable[[int], bool]] = {
    "none": lambda at: True,
    "some": lambda at: at % 5 == 0,
    "all": lambda at: False,
}
"""At which places of the text a drafter's model is wrong."""


def by_model(amount: str) -> Case:
    """The drafter's model writes the same text, another one, or the same with errors."""
    target = TableModel(one_hot(PERIODIC), V)
    model = TableModel(one_hot(PERIODIC, WRONG[amount]), V)
    return Case(PERIODIC, target, made("model", target, model))


def by_lookup(amount: str) -> Case:
    """A text that repeats itself, one that never does what it did before, or the first with errors."""
    text = list(PERIODIC)
    if amount == "some":
        text[START + 3 :: 6] = [25] * len(text[START + 3 :: 6])
    target = TableModel(one_hot(text), V)
    drafter = made("lookup", target)
    if amount == "none":
        mislead(drafter, text)
    return Case(text, target, drafter)


def by_hybrid(amount: str) -> Case:
    """A model guesses what is new, lookup what was written before."""
    text = list(NEW_THEN_OLD)
    if amount == "some":
        text[START + 18] = 25
    target, model = TableModel(one_hot(text), V), TableModel(one_hot(text, WRONG[amount]), V)
    drafter = made("hybrid", target, model)
    if amount == "none":
        mislead(drafter, text)
    return Case(text, target, drafter)


def mislead(drafter: Drafter, text: list[int]) -> None:
    """Have the answer go on otherwise wherever it would go on as lookup says."""
    law = Law(settings(), torch.float64)
    for at in range(START, len(text)):
        draft = drafter.propose(text[:at], 1, law, Draws(0))
        if draft.source != "model" and draft.ids.tolist() == [text[at]]:
            text[at] = (text[at] + 1) % V
    drafter.forget()


def by_slem(amount: str) -> Case:
    """The drafter's model writes the text, another one or one with errors, in the longest tokens it has."""
    return in_other_words("slem", amount, reach=2)


def by_tli(amount: str) -> Case:
    """The same, but by letters: what is drafted are tokens that both have."""
    return in_other_words("tli", amount, reach=1)


def in_other_words(method: str, amount: str, reach: int) -> Case:
    """A drafter that reads and writes another vocabulary.

    Args:
        reach: letters of the longest token that it writes.
    """
    wrong = WRONG[amount]
    written = letters(PERIODIC)
    believed = letters([id_ + wrong(at) for at, id_ in enumerate(PERIODIC)])

    def row(own: tuple[int, ...]) -> tuple[float, ...]:
        """Goes on from the text so far; after anything else it says z, which is nowhere in it."""
        read = "".join(REVERSED.tokens[id_] for id_ in own)
        more = believed[len(read) :][:reach] if written.startswith(read) else ""
        following = REVERSED.encode_more(more or "z")[0]
        return tuple(float(each == following) for each in range(len(REVERSED.tokens)))

    target = TableModel(one_hot(PERIODIC), V)
    model = TableModel(row, len(REVERSED.tokens), text=REVERSED)
    return Case(PERIODIC, target, made(method, target, model))


def by_synthetic(amount: str) -> Case:
    """It is told the text, and how often it has to be right."""
    target = TableModel(one_hot(PERIODIC), V)
    odds = {"none": 0.0, "some": 0.6, "all": 1.0}[amount]
    drafter = made("synthetic", target, acceptance=(odds,))
    drafter.foretell(PERIODIC)
    return Case(PERIODIC, target, drafter)


def made(method: str, target: TableModel, model: TableModel | None = None, **options: object) -> Drafter:
    """A drafter of the registry."""
    entry = registry.DRAFTERS[method]
    name = "model" if entry.loads_model else None
    table = DraftConfig.model_validate({"method": method, "model_name": name, **options})
    lm = model.as_lm() if model else None
    drafter: Drafter = registry.load(entry)(DrafterContext(target.as_lm(), lm, V, False, table))
    return drafter


GUESSING: dict[str, Callable[[str], Case]] = {
    "model": by_model,
    "lookup": by_lookup,
    "hybrid": by_hybrid,
    "slem": by_slem,
    "tli": by_tli,
    "synthetic": by_synthetic,
}
"""For each method of the registry: a drafter that guesses none, some or all."""


def built(method: str, amount: str) -> Case:
    assert method in GUESSING, f"say in GUESSING of {__file__} how {method!r} guesses all, some or none"
    return GUESSING[method](amount)


def rule_of(name: str) -> tuple[Rule, Settings]:
    """The rule, and a temperature it can have."""
    rule: Rule = registry.load(registry.RULES[name])()
    return rule, settings(temperature=0.0 if name == "greedy_match" else 1.0)


def run(
    case: Case, rule: str, limits: Limits = LIMITS, prompt: list[int] | None = None, seed: int = 0
) -> Run:
    shipped, given = rule_of(rule)
    return run_rounds(
        case.target.as_lm(),
        case.drafter,
        prompt or case.prompt,
        limits,
        k=K,
        given=given,
        rule=shipped,
        draws=shipped.draws(seed),
    )


def plain(case: Case, limits: Limits) -> Run:
    return run_plain(case.target.as_lm(), case.prompt, limits)


every_pair = pytest.mark.parametrize(
    ("rule", "method"), list(itertools.product(registry.RULES, registry.DRAFTERS))
)
each_once = pytest.mark.parametrize(
    ("rule", "method"), list(zip(itertools.cycle(registry.RULES), registry.DRAFTERS, strict=False))
)
"""Each rule and each method: for what takes long, and what the two do not share."""
assert len(registry.RULES) <= len(registry.DRAFTERS)


# -- rounds


@pytest.mark.parametrize("amount", AMOUNTS)
@every_pair
def test_none_some_and_all_are_accepted(rule: str, method: str, amount: str) -> None:
    case = built(method, amount)
    done = run(case, rule)
    assert done.ids == case.answer
    whole = [r for r in done.rounds if r.k == K and r.drafts]
    kept = {r.n_accepted for r in whole}
    assert len(whole) > 2, "what drafts nothing shows nothing"
    if amount == "all":
        assert kept == {K}
    elif amount == "none":
        assert kept == {0}
    else:
        assert len(kept) > 1
        assert kept & set(range(K)), "some drafts were refused"


@pytest.mark.parametrize("amount", AMOUNTS)
def test_both_parts_of_a_hybrid_are_seen(amount: str) -> None:
    done = run(built("hybrid", amount), "match")
    assert {r.source for r in done.rounds if len(r.drafts) == K} == {"lookup", "model"}


def test_the_other_vocabulary_is_another_one() -> None:
    """Drafts in words of two letters, and a text whose own tokens are fewer."""
    case = built("slem", "all")
    assert case.drafter.context.model is not None
    own = case.drafter.context.model.text
    assert not any(own.piece(id_) == case.target.text.piece(id_) for id_ in range(V))
    assert len(own.encode_more(letters(case.answer))) < LENGTH


@pytest.mark.parametrize("amount", ["some", "all"])
@every_pair
def test_eos_at_each_offset_of_a_block(rule: str, method: str, amount: str) -> None:
    case = built(method, amount)
    for offset in range(PERIOD):
        limits = Limits(LENGTH, 512, eos_ids=frozenset({case.answer[offset]}))
        done = run(case, rule, limits)
        assert done.outcome == plain(case, limits).outcome
        assert done.reason is EndReason.EOS
        assert done.ids == case.answer[: offset + 1]


@pytest.mark.parametrize("size", [1, 3, 6])
@every_pair
def test_stop_strings_inside_and_across_blocks(rule: str, method: str, size: int) -> None:
    case = built(method, "all")
    text = letters(case.answer)
    for begin in range(PERIOD):
        limits = Limits(LENGTH, 512, stop=(text[begin : begin + size], "never"))
        done = run(case, rule, limits)
        assert done.outcome == plain(case, limits).outcome
        assert done.reason is EndReason.STOP
        assert done.text == text[:begin]


@pytest.mark.parametrize("length", [1, 2, K, K + 1, K + 2])
@every_pair
def test_max_new_tokens(rule: str, method: str, length: int) -> None:
    case = built(method, "all")
    done = run(case, rule, Limits(length, 512))
    assert (done.ids, done.reason) == (case.answer[:length], EndReason.MAX_NEW_TOKENS)
    assert all(len(r.drafts) <= r.k <= length - 1 for r in done.rounds), "no draft that cannot be committed"


@pytest.mark.parametrize("room", [1, 2, K + 3])
@every_pair
def test_a_full_context(rule: str, method: str, room: int) -> None:
    case = built(method, "all")
    case.target.context_length = START + room  # a pass beyond it would be noticed
    done = run(case, rule, Limits(LENGTH, START + room))
    assert (done.ids, done.reason) == (case.answer[:room], EndReason.CONTEXT)


@every_pair
def test_a_drafter_with_a_shorter_context(rule: str, method: str) -> None:
    case = built(method, "all")
    model = case.drafter.context.model
    if model is None:
        assert not registry.DRAFTERS[method].loads_model
        return
    full = START + 8
    model.context_length = len(model.text.encode_more(letters(case.text[:full])))
    done = run(case, rule)
    assert done.ids == case.answer
    assert done.rounds[0].drafts
    late = [r for r in done.rounds if r.context_length >= full and r.k and r.source != "lookup"]
    assert late
    assert all(not r.drafts and r.k_reason for r in late)


@pytest.mark.parametrize("amount", AMOUNTS)
@every_pair
def test_after_an_edit_and_after_forgetting(rule: str, method: str, amount: str) -> None:
    """The same drafter goes on from any text: its own, a shorter one, another one, none."""
    case = built(method, amount)
    cost = case.drafter.prefill_cost(case.prompt)
    assert (cost > 0) == registry.DRAFTERS[method].loads_model
    first = run(case, rule)
    edited = [*case.prompt[:-2], 24]
    for prompt in (case.prompt, edited, edited[:3], first.answer.tokens[: START + 5], case.prompt):
        expected = run_plain(case.target.as_lm(), prompt, Limits(6, 512)).ids
        assert run(case, rule, Limits(6, 512), prompt).ids == expected
    case.drafter.forget()
    assert case.drafter.prefill_cost(case.prompt) == cost, "nothing is held any more"
    again = run(case, rule)
    assert again.outcome == first.outcome
    assert [r.drafts for r in again.rounds] == [r.drafts for r in first.rounds]


def drafting(method: str) -> Drafter:
    """A drafter with an opinion of its own on a random text."""
    entry = registry.DRAFTERS[method]
    words = Letters("fedcba") if entry.any_tokenizer else Letters()
    target, model = TableModel(random_table(1, 6), 6), TableModel(random_table(2, 6), 6, text=words)
    options = DraftConfig(method=method, model_name="model" if entry.loads_model else None)
    given = context(target.as_lm(), model.as_lm() if entry.loads_model else None)
    made: Drafter = registry.load(entry)(DrafterContext(given.target, given.model, 6, False, options))
    return made


@every_pair
def test_the_same_seed_gives_the_same_text(rule: str, method: str) -> None:
    shipped, given = rule_of(rule)
    limits = Limits(30, 512)

    def written(seed: int) -> list[int]:
        drafter = drafting(method)
        draws = shipped.draws(seed)
        target = drafter.context.target
        return run_rounds(
            target, drafter, [0, 1, 0, 1], limits, k=3, given=given, rule=shipped, draws=draws
        ).ids

    first, again, other = written(1), written(1), written(2)
    assert first == again
    assert (first == other) == (rule == "greedy_match")


# -- sessions


def session_of(rule: str, method: str, target: str, drafter: str, **run: object) -> Session:
    """Greedy, which every drafter and rule can do; the drafter's model is one that is right now and then."""
    name = drafter if registry.DRAFTERS[method].loads_model else None
    config = configured(
        target,
        draft={"method": method, "model_name": name},
        verify={"verify_strategy": rule},
        run={"max_new_tokens": 10, **run},
    )
    return loaded(config)


@every_pair
def test_a_session(rule: str, method: str, target: str, drafter: str) -> None:
    """Runs are those of plain decoding: the first one, after a cancel, after an edit, after forgetting."""
    session = session_of(rule, method, target, drafter)
    events = list(session.generate(ASK))
    whole = ids_of(events)
    assert len(whole) == 10
    assert of(BaselineFinished, list(session.baseline())).identical is True
    session.run_statistics.check_identities()

    rounds = 0
    cancelled = []
    for event in session.generate(ASK):
        cancelled.append(event)
        rounds += isinstance(event, Round)
        if rounds == 2:
            session.cancel()
    assert of(RunFinished, cancelled).reason is EndReason.CANCELLED
    assert rounds == 2
    assert ids_of(cancelled) == whole[: len(ids_of(cancelled))]

    edited = (Message("user", "Why did the knight ride?"),)
    after = list(session.generate(edited))
    assert of(BaselineFinished, list(session.baseline())).identical is True
    session.forget()
    assert text_of(list(session.generate(edited))) == text_of(after)
    assert kinds(list(session.generate(ASK))) == kinds(events)
    assert ids_of(list(session.generate(ASK))) == whole
    session.close()


def repeat(session: Session, runs: int) -> None:
    for number in range(runs):
        for _ in session.generate(ASK if number % 2 else (Message("user", "And then?"),)):
            pass
    gc.collect()


@each_once
def test_nothing_is_kept_of_a_run(rule: str, method: str, target: str, drafter: str) -> None:
    session = session_of(rule, method, target, drafter, max_new_tokens=6)
    repeat(session, 4)
    caches = caches_of(session)
    assert len(caches) == 1 + registry.DRAFTERS[method].loads_model
    sizes, objects = [cache.nbytes for cache in caches], len(gc.get_objects())
    repeat(session, 8)
    assert [cache.nbytes for cache in caches] == sizes
    assert len(gc.get_objects()) - objects < 8, "an object or more a run stays"
    session.close()


def caches_of(session: Session) -> list[KVCache]:
    """The target's, and that of the drafter or of one of its parts."""
    drafter = session.pair.drafter
    parts = (drafter, *(part for part in vars(drafter).values() if isinstance(part, Drafter)))
    held = {id(value): value for part in parts for value in vars(part).values()}
    return [session.pair.cache, *(value for value in held.values() if isinstance(value, KVCache))]


@each_once
def test_memory_does_not_grow(rule: str, method: str, target: str, drafter: str) -> None:
    """Ids and bytes too, which the collector does not count; what torch keeps for later settles slowly."""
    session = session_of(rule, method, target, drafter, max_new_tokens=4)
    repeat(session, 2)
    tracemalloc.start()
    repeat(session, 14)
    before = tracemalloc.get_traced_memory()[0]
    repeat(session, 14)
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 14 * 1500, f"{grown} bytes in 14 runs"
    session.close()


def test_every_pair_is_a_configuration() -> None:
    """What the suite goes over can be asked for."""
    for rule, (method, entry) in itertools.product(registry.RULES, registry.DRAFTERS.items()):
        name = "x" if entry.loads_model else None
        Config.model_validate(
            {
                "draft": {"method": method, "model_name": name},
                "verify": {"model_name": "x", "verify_strategy": rule},
                "sampling": {"temperature": 0},
            }
        )
