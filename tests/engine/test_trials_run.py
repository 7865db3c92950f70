"""Running a plan on tiny models: order, lengths, equality, what is kept, what is left as it was."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from support.sessions import ASK, configured, loaded
from support.trials import ONE, TWO, small_plan

from engine.bench.trials import decode as decoding
from engine.bench.trials.build import PEERS, plan_of, quick_plan, takes_auto, with_settings
from engine.bench.trials.decode import Written, calibrate, decode
from engine.bench.trials.events import CellMeasured, Finished, Progress, TrialEvent
from engine.bench.trials.facts import plan_key
from engine.bench.trials.plan import Plan
from engine.bench.trials.questions import Question, own_questions
from engine.bench.trials.run import run_trials
from engine.bench.trials.sessions import Sessions
from engine.bench.trials.units import Unit
from engine.config import Config
from engine.errors import ConfigError, PromptTooLong
from engine.events import PlainStep, Round, RunStarted
from engine.models.causal_lm import CausalLM
from engine.session import Session

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def session(target: str) -> Iterator[Session]:
    session = loaded(configured(target))
    yield session
    session.close()


@pytest.fixture(scope="module")
def pair_session(target: str, drafter: str) -> Iterator[Session]:
    session = loaded(configured(target, drafter, run={"optimize": "static"}))
    yield session
    session.close()


@pytest.fixture(autouse=True)
def no_calibration(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calibration takes most of the time of a tiny run; the tests of it bring it back."""
    monkeypatch.setattr("engine.bench.trials.run.calibrate", lambda *_: None)


def told(session: Session, plan: Plan, **more: Any) -> list[TrialEvent]:
    return list(run_trials(lambda _: session, plan, **more))


def results(events: Sequence[TrialEvent]) -> Any:
    assert isinstance(events[-1], Finished)
    return events[-1].results


# -- the order and the texts


def test_arms_are_interleaved_forth_and_back(session: Session, target: str) -> None:
    plan = small_plan(target, repeats=2)
    events = told(session, plan)
    names = [arm.name for arm in plan.arms]
    asked = [(event.question, event.repeat, event.arm) for event in events if isinstance(event, Progress)]
    once = [*names, *reversed(names)]
    assert asked == [
        (question, repeat, name)
        for repeat in (1, 2)
        for question, turns in (("1", 1), ("2", 2))
        for _ in range(turns)
        for name in once
    ]
    progress = [event for event in events if isinstance(event, Progress)]
    assert [event.done for event in progress] == [*range(len(asked))]
    assert {event.total for event in progress} == {len(asked)} == {plan.runs}
    assert progress[0].seconds_left is None
    assert all(event.seconds_left and event.seconds_left > 0 for event in progress[1:])
    cells = [event.cell for event in events if isinstance(event, CellMeasured)]
    assert [cell.arm for cell in cells] == names * 4
    assert [cell.questions for cell in cells[::3]] == [1, 2, 2, 2]


def test_every_run_reads_its_whole_prompt(
    session: Session, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the time to the first token is the same measure for all arms, and none drafts from another's."""
    reused: list[int] = []
    take = decoding._take

    def spy(written: Written, event: Any) -> None:
        if isinstance(event, RunStarted):
            reused.append(event.reused)
        take(written, event)

    monkeypatch.setattr(decoding, "_take", spy)
    told(session, small_plan(target, questions=[ONE]))
    assert len(reused) == 3 + 6 and set(reused) == {0}


def test_greedy_arms_write_plain_decodings_text_at_its_length(session: Session, target: str) -> None:
    plan = small_plan(target)
    cells = results(told(session, plan)).cells
    assert [cell.k for cell in cells] == [0, 2, 4]
    assert [cell.tokens for cell in cells] == [36, 36, 36], "6 tokens, 3 turns, forth and back"
    assert {cell.identical for cell in cells} == {1.0}
    assert {cell.compared for cell in cells} == {6}
    assert len({cell.digest for cell in cells}) == 1
    assert cells[1].rounds > 0 and cells[0].rounds == 0
    assert all(cell.ttft_ms for cell in cells)


def test_where_plain_decoding_ends_its_text_all_arms_end(session: Session, target: str) -> None:
    plain_ids: list[int] = []
    with session.aside(lambda config: config):
        plain_ids = [event.id for event in session.plain(ONE.messages(())) if isinstance(event, PlainStep)]
    eos = plain_ids[3]
    before, session.pair.target.eos_ids = session.pair.target.eos_ids, frozenset({eos})
    try:
        cells = results(told(session, small_plan(target, questions=[ONE], tokens=12))).cells
    finally:
        session.pair.target.eos_ids = before
    wanted = 2 * (plain_ids.index(eos) + 1)
    assert [cell.tokens for cell in cells] == [wanted] * 3


def test_a_second_turn_follows_plain_decodings_answer(
    session: Session, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    answers: list[Written] = []

    def spy(*arguments: Any, **more: Any) -> Written | None:
        asked.append(arguments[2])
        written = decode(*arguments, **more)
        assert written is not None
        answers.append(written)
        return written

    monkeypatch.setattr("engine.bench.trials.run.decode", spy)
    plan = small_plan(target, questions=[TWO])
    told(session, plan)
    arms = len(plan.arms)
    first, second = asked[arms : 3 * arms], asked[3 * arms :]  # the warm-up comes first
    assert set(first) == {TWO.messages(())}
    assert set(second) == {TWO.messages((answers[arms].text,))}


def test_sampled_arms_have_one_length_and_are_not_compared(session: Session, target: str) -> None:
    plan = small_plan(target, temperatures=[1.0], rules=["block", "match"], questions=[ONE], tokens=9)
    assert [arm.kind for arm in plan.arms] == ["plain", *["speculative"] * 4], "one plain arm for one law"
    cells = results(told(session, plan)).cells
    assert {cell.identical for cell in cells} == {None}
    assert len({cell.tokens for cell in cells}) == 1


@pytest.mark.parametrize("shortened", [False, True])
def test_a_text_that_differs_is_found_and_is_no_tie(
    session: Session, target: str, monkeypatch: pytest.MonkeyPatch, shortened: bool
) -> None:
    wrong = small_plan(target).arms[2].name

    def spoiled(*arguments: Any, **more: Any) -> Written | None:
        written = decode(*arguments, **more)
        assert written is not None
        if arguments[1].name == wrong and shortened:
            del written.ids[2:]
        elif arguments[1].name == wrong:
            written.ids[2] = 5 if written.ids[2] != 5 else 6
        return written

    monkeypatch.setattr("engine.bench.trials.run.decode", spoiled)
    cells = {cell.arm: cell for cell in results(told(session, small_plan(target, questions=[ONE]))).cells}
    assert (cells[wrong].identical, cells[wrong].first_difference, cells[wrong].ties) == (0.0, 2, 0)
    assert cells[wrong].unexplained == 2
    assert all(cell.unexplained == 0 for name, cell in cells.items() if name != wrong)


# -- what is kept, and what ends it


def test_a_stopped_bench_goes_on_after_what_is_kept(session: Session, target: str) -> None:
    plan = small_plan(target, repeats=2)
    kept: list[Unit] = []
    for event in run_trials(lambda _: session, plan, keep=kept.append):
        if isinstance(event, Progress) and event.repeat == 2:
            break
    assert [unit.key for unit in kept] == ["1 x 1", "2 x 1"]
    again: list[Unit] = []
    events = told(session, plan, kept={unit.key: unit for unit in kept}, keep=again.append)
    assert [unit.key for unit in again] == ["1 x 2", "2 x 2"]
    first = next(event for event in events if isinstance(event, Progress))
    assert (first.done, first.total, first.repeat) == (18, 36, 2)
    assert results(events).cells[0].tokens == 2 * 36
    everything = {unit.key: unit for unit in (*kept, *again)}
    assert told(session, plan, kept=everything) == [Finished(results(events))], "nothing is run again"


@pytest.mark.parametrize("after", [0, 1, 5])
def test_a_cancelled_bench_ends_without_a_result(session: Session, target: str, after: int) -> None:
    events: list[TrialEvent] = []
    kept: list[Unit] = []
    plan = small_plan(target)
    bench = run_trials(lambda _: session, plan, keep=kept.append, cancelled=lambda: len(events) > after)
    while (event := next(bench, None)) is not None:
        events.append(event)
    assert all(isinstance(event, Progress) for event in events) and not kept
    assert len(events) == (after + 1)


def test_cancelling_the_session_ends_it_at_the_next_commit(
    session: Session, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = small_plan(target, tokens=40)
    events: list[TrialEvent] = []
    steps = 0

    def cancelling(written: Written, event: object) -> None:
        nonlocal steps
        steps += isinstance(event, PlainStep | Round)
        if events and steps:
            session.cancel()

    monkeypatch.setattr(decoding, "_take", cancelling)
    for event in run_trials(lambda _: session, plan):
        events.append(event)
        steps = 0
    assert len(events) == 1 and steps == 1


def test_the_conversation_is_not_touched(session: Session, target: str) -> None:
    session.seed = 77
    list(session.generate(ASK))
    before = (session.config, session.seed, session.statistics())
    told(session, small_plan(target, questions=[ONE], temperatures=[0.0, 0.7]))
    assert (session.config, session.seed, session.statistics()) == before
    assert list(session.baseline()), "the last run is still the last one"


def test_a_prompt_that_does_not_fit_is_an_error_and_a_later_turn_that_does_not_is_left_out(
    session: Session, target: str
) -> None:
    long = "the knight " * 300
    with pytest.raises(PromptTooLong, match="reads 512 at most"):
        told(session, small_plan(target, questions=[Question("1", "a", (long,))]))
    plan = small_plan(target, questions=[ONE, Question("far", "a", (long,))])
    with pytest.raises(PromptTooLong, match=r"^prompt far: ") as raised:
        next(run_trials(lambda _: session, plan))  # before a prompt is timed
    assert raised.value.hint
    events = told(session, small_plan(target, questions=[Question("1", "a", ("the knight", long))]))
    assert results(events).cells[0].tokens == 12
    assert next(reversed([event for event in events if isinstance(event, Progress)])).total == 12


# -- costs


def test_rounds_are_predicted_by_costs_that_were_measured_before(
    session: Session, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.bench.trials.run.calibrate", calibrate)
    plan = small_plan(target, questions=[ONE])
    cells = results(told(session, plan)).cells
    assert [cell.predicted_speedup is not None for cell in cells] == [False, True, True]
    assert [cell.prediction_error is not None for cell in cells] == [False, True, True]
    assert cells[1].best_k is not None
    (choice,) = results(told(session, plan)).choices
    assert choice.oracle_speedup is not None and choice.oracle_speedup > 0.999, "plain decoding is open to it"


def test_costs_are_measured_anew_for_each_prompt(session: Session, target: str) -> None:
    arm = small_plan(target).arms[2]
    first = calibrate(session, arm, ONE.messages(()), 0)
    second = calibrate(session, arm, ONE.messages(()), 0)
    assert first is not None and second is not None and first != second
    assert {cost.drafts for cost in first.drafts} <= {1, 2, 4}


# -- peers


def test_peers_write_the_same_greedy_text_on_the_very_weights(pair_session: Session) -> None:
    """Our own layers took views of the weights; transformers' module has to be whole all the same."""
    assert {model.info.passes for model in pair_session.pair.models().values()} == {"static"}
    plan = plan_of({"mine": pair_session.config}, [ONE], ks=[3], tokens=10, repeats=1, peers=True)
    assert [arm.peer for arm in plan.arms if arm.kind == "peer"] == [*PEERS]
    cells = results(told(pair_session, plan)).cells
    assert {cell.identical for cell in cells} == {1.0}
    assert [cell.k for cell in cells if cell.kind == "peer"] == [0, 3, 3]
    assert all(cell.speedup is not None and cell.speedup.value > 0 for cell in cells)


def test_peers_are_greedy_and_assisted_only_by_a_model(target: str) -> None:
    config = configured(target)
    plan = plan_of({"mine": config}, [ONE], temperatures=[0.0, 1.0], peers=True)
    assert [arm.peer for arm in plan.arms if arm.kind == "peer"] == ["generate", "lookup"]


# -- plans


def test_every_combination_has_an_arm_and_every_law_a_plain_one(target: str) -> None:
    config = configured(target, verify={"verify_strategy": "greedy_match"})
    plan = plan_of(
        {"a": config, "b": config}, [ONE], ks=[2, 3], rules=["greedy_match", "block"], temperatures=[0.0, 1.0]
    )
    assert sum(arm.kind == "plain" for arm in plan.arms) == 2, "both configurations have one target"
    laws = {(arm.configuration, arm.rule, arm.temperature) for arm in plan.arms if arm.kind == "speculative"}
    assert len(laws) == 6, "greedy_match at temperature 1 is left out"
    for arm in plan.measured:
        assert plan.arm(arm.plain).temperature == arm.temperature
        assert plan.arms.index(plan.arm(arm.plain)) < plan.arms.index(arm)
    with pytest.raises(ConfigError, match="nothing is left"):
        plan_of({"a": config}, [ONE], rules=["greedy_match"], temperatures=[1.0])


def test_a_value_that_is_not_possible_names_its_option(target: str) -> None:
    with pytest.raises(ConfigError, match="--k 99"):
        plan_of({"a": configured(target)}, [ONE], ks=[99])
    with pytest.raises(ConfigError, match="--rule blok"):
        plan_of({"a": configured(target)}, [ONE], rules=["blok"])


def test_the_quick_plan(target: str) -> None:
    config = with_settings(configured(target), k=5)
    plan = quick_plan({"a": config}, own_questions())
    assert len(plan.questions) == 8 and {len(question.turns) for question in plan.questions} == {1}
    assert (plan.tokens, plan.repeats) == (48, 1)
    fixed = [arm.k for arm in plan.arms if isinstance(arm.k, int)]
    assert fixed == [0, 2, 4, 5, 8, 16]
    assert ("auto" in [arm.k for arm in plan.arms]) == takes_auto(config)
    assert [arm.k for arm in quick_plan({"a": config}, own_questions(), ks=[3]).arms] == [0, 3]


def test_arms_of_the_same_models_share_a_session_and_others_the_target(target: str, drafter: str) -> None:
    made: list[Session] = []

    def load(config: Config, shared: CausalLM | None) -> Session:
        session = Session(config)
        session.shared_target = shared
        session.load()
        made.append(session)
        return session

    sessions = Sessions(load)
    lookup, model = configured(target), configured(target, drafter)
    plan = plan_of({"a": lookup, "b": model}, [ONE], ks=[2, 4], tokens=5, repeats=1)
    cells = results([*run_trials(sessions.of, plan)]).cells
    assert len(made) == 2 and sessions.held == tuple(made)
    one, other = (session.pair for session in made)
    assert one.target.model is other.target.model and one.cache is not other.cache
    assert {cell.identical for cell in cells} == {1.0}, "one does not disturb the other's cache"
    sessions.of(replaced(lookup, optimize="eager"))
    assert len(made) == 3
    assert made[2].pair.target.model is not one.target.model
    sessions.close()
    assert not sessions.held and all(session.held == (None, None) for session in made)


def replaced(config: Config, **run: Any) -> Config:
    return config.model_copy(update={"run": config.run.model_copy(update=run)})


@pytest.mark.parametrize(
    "changes", [{"tokens": 7}, {"repeats": 2}, {"seed": 1}, {"ks": [2, 5]}, {"questions": [ONE]}]
)
def test_what_is_kept_is_of_one_plan_only(target: str, changes: dict[str, Any]) -> None:
    assert plan_key(small_plan(target)) == plan_key(small_plan(target))
    assert plan_key(small_plan(target)) != plan_key(small_plan(target, **changes))


def test_a_plan_knows_its_runs(target: str) -> None:
    plan = small_plan(target, repeats=3)
    assert plan.runs == 2 * 3 * 3 * 3, "forth and back, arms, repeats, turns"
    with pytest.raises(KeyError):
        plan.arm("nobody")
    with pytest.raises(AssertionError, match="share a name"):
        replace(plan, arms=(plan.arms[0], plan.arms[0]))
