"""The built-in model run by sessions and by transformers: the same weights, loaded once, greedy, EOS off."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from engine.bench import peers
from engine.bench.equality import Agreement, compare
from engine.bench.prompts import Prompt
from engine.config import Config
from engine.events import BaselineFinished, Event, Round, RunFinished
from engine.models.causal_lm import CausalLM
from engine.models.load import Source
from engine.session import Session

DRAFTERS = ("lookup", "perfect", "cut")
KS = (1, 2, 4, 8)
ROUNDING = 1e-3
"""Passes of different widths differ by less, in logits; they do by 5e-5."""


@dataclass(frozen=True, slots=True)
class Answered:
    """One run, against what transformers wrote."""

    rounds: tuple[Round, ...]
    ids: tuple[int, ...]
    agreement: Agreement

    @property
    def tau(self) -> float:
        return len(self.ids) / len(self.rounds)

    @property
    def accepted(self) -> int:
        return sum(round_.accepted for round_ in self.rounds)

    @property
    def rejections(self) -> int:
        return sum(round_.rejected for round_ in self.rounds)

    @property
    def full_accepts(self) -> int:
        return sum(0 < len(round_.drafts) == round_.n_accepted for round_ in self.rounds)

    def check(self) -> None:
        """The same text, or a tie of two tokens where they part."""
        found = self.agreement
        assert found.change < ROUNDING, f"{found}: passes of different widths differ by more than rounding"
        assert found.same or found.tied, f"{found}: the texts part, and no tie explains it"


@dataclass
class RealRuns:
    """Sessions of the built-in model with each drafter, and transformers' answers to compare them with.

    Args:
        target: the built-in model.
        cut: some of its layers.
        tokens: length of every answer.
    """

    target: CausalLM
    cut: CausalLM
    tokens: int
    _sessions: dict[str, Session] = field(default_factory=dict)
    _references: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def reference(self, prompt: Prompt) -> tuple[int, ...]:
        """What transformers' own ``generate`` writes."""
        if prompt.name not in self._references:
            ids = self.target.text.encode_chat(prompt.messages, None)
            self._references[prompt.name] = peers.generate(self.target.model, ids, self.tokens).ids
        return self._references[prompt.name]

    def run(self, drafter: str, k: int, prompt: Prompt) -> Answered:
        """An answer by a session."""
        session = self.session(drafter)
        session.config = self._config(drafter, k)
        events = list(session.generate(prompt.messages))
        rounds = tuple(event for event in events if isinstance(event, Round))
        ids = tuple(id_ for round_ in rounds for id_ in round_.tokens)
        session.run_statistics.check_identities()
        assert _of(RunFinished, events).tokens == len(ids) == self.tokens
        prompt_ids = self.target.text.encode_chat(prompt.messages, None)
        return Answered(rounds, ids, compare(self.target, prompt_ids, self.reference(prompt), ids, k))

    def baseline(self, drafter: str) -> BaselineFinished:
        """Plain decoding of the drafter's last run."""
        finished: BaselineFinished = _of(BaselineFinished, list(self.session(drafter).baseline()))
        return finished

    def session(self, drafter: str) -> Session:
        """A loaded session; the weights are those that are in memory already."""
        if drafter not in self._sessions:
            session = Session(self._config(drafter, max(KS)))
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("engine.pair.load_model", self._load_model)
                session.load()
            self._sessions[drafter] = session
        return self._sessions[drafter]

    def _load_model(self, source: Source, **_: Any) -> CausalLM:
        return {model.info.name: model for model in (self.target, self.cut)}[source.name].twin()

    def _config(self, drafter: str, k: int) -> Config:
        models = {"perfect": self.target, "cut": self.cut}
        named = {"method": "model", "model_name": models[drafter].info.name} if drafter in models else {}
        return Config.model_validate(
            {
                "draft": {"method": "lookup", **named, "num_draft_tokens": k},
                "verify": {"model_name": self.target.info.name},
                "sampling": {"temperature": 0},
                "run": {
                    "device": "cpu",
                    "dtype": "float32",
                    "max_new_tokens": self.tokens,
                    "ignore_eos": True,
                },
            }
        )


def _of(kind: type[Any], events: list[Event]) -> Any:
    (found,) = (event for event in events if isinstance(event, kind))
    return found
