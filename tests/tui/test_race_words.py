"""What a race says: the verdict, the times, whether the texts agree."""

from __future__ import annotations

import dataclasses

from support.nasty import OBEYED
from support.races import ROUNDS, fold, told
from support.scripted import make_round

from engine.race import RaceFinished, WarmUp
from tui.race_state import RaceState, side
from tui.race_words import agreement, doing, finishing, headline, verdict


def test_a_gain_a_loss_and_no_difference() -> None:
    assert verdict(fold(told())) == (
        1,
        "1.60 times as fast as plain decoding: 63.8 tokens/s against 40.0.",
    )
    slow = [dataclasses.replace(round_, host_ms=60.0) for round_ in ROUNDS]
    gain, sentence = verdict(fold(told(slow)))
    assert gain == -1
    assert sentence == (
        "Slower than plain decoding: 0.68 times its speed, 27.4 tokens/s against 40.0; speculation does not"
        " pay here."
    )
    even = [
        dataclasses.replace(round_, draft_ms=0.0, verify_ms=len(round_.tokens) * 25.2, host_ms=0.0)
        for round_ in ROUNDS
    ]
    assert verdict(fold(told(even)))[0] == 0


def test_nothing_written_is_no_speed() -> None:
    state = fold(told(()))
    assert verdict(state) == (0, "Nothing was decoded yet.")
    assert finishing(state) == (
        "Finished: plain after 0.01 s (prompt 0.01 s); speculative after 0.01 s (prompt 0.01 s)."
    )


def test_finishing_times() -> None:
    assert finishing(fold(told())) == (
        "Finished: plain after 0.35 s (prompt 0.01 s, 25.0 ms/token);"
        " speculative after 0.22 s (prompt 0.01 s, 15.7 ms/token)."
    )


def test_texts_that_agree() -> None:
    assert agreement(fold(told()), "float32") == "The texts are identical: all 14 tokens."


def test_the_first_difference_with_both_tokens() -> None:
    state = dataclasses.replace(fold(told()), result=RaceFinished(identical=False, first_difference=4))
    assert agreement(state, "float32") == (
        'The texts differ from token 5 on: plain wrote "\u00b7w2.0", speculative wrote "\u00b7w2.0".'
    )
    assert agreement(state, "bfloat16").endswith("In bfloat16 near ties fall either way; float32 decides.")
    assert agreement(state, "", ascii_only=True).isascii()
    longer = dataclasses.replace(state, result=RaceFinished(identical=False, first_difference=14))
    assert "plain had ended, speculative had ended" in agreement(longer, "float32")


def test_a_token_that_a_terminal_would_obey() -> None:
    nasty = make_round(1, 1, 1, pieces=[b"\x1b[2J", b"\x9b31m"], text="")
    state = fold(told((nasty,)))
    state = dataclasses.replace(state, result=RaceFinished(identical=False, first_difference=0))
    assert not OBEYED.search(agreement(state, "float32"))


def test_sampled_texts_differ_by_chance() -> None:
    said = agreement(fold(told(temperature=0.8)), "float32")
    assert said.startswith("At temperature 0.8 both draw from the same law")
    assert "differ by chance" in said


def test_what_goes_on() -> None:
    events = told()
    said: list[str] = []
    state = RaceState()
    for event in events:
        state = fold([event], state)
        line = headline(state, resting=False)
        said += [line] if line not in said else []
    assert [line[:20] for line in said] == [
        "Both ways are warmed",
        "1 of 2: plain decodi",
        "2 of 2: speculative ",
        "Both side by side, e",
    ]
    assert headline(state, resting=True) == "The race is over."
    assert headline(RaceState(), resting=False) == "The race begins when the engine is free."


def test_what_an_arm_does() -> None:
    warm = fold([WarmUp("plain", 2, 4)])
    assert doing(side(warm, "plain", 0.0)) == "warms up 2/4"
    assert doing(side(warm, "speculative", 0.0)) == "waits for its turn"
    state = fold(told())
    assert doing(side(state, "plain", 0.0)) == "reads the prompt 0/2"
    assert doing(side(state, "plain", 0.1)) == "decodes"
    assert doing(side(state, "plain", 9.0)) == "finished: the limit of rounds is reached"
