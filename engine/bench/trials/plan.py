"""What a bench runs: arms (ways of decoding) and prompts; torch-free."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from engine.bench.trials.questions import Question
from engine.config import Config

Kind = Literal["plain", "speculative", "peer"]
"""Plain decoding by this engine; speculation by this engine; a decoding loop of transformers."""
K = int | Literal["auto"]
"""Draft tokens a round."""
QUICK_TOKENS = 48
QUICK_KS: tuple[int, ...] = (2, 4, 8, 16)


@dataclass(frozen=True, slots=True)
class Arm:
    """One way of decoding, with everything it depends on."""

    name: str
    """Unique in its plan: "builtin, K = 4"."""
    kind: Kind
    configuration: str
    """What the user calls the configuration: a path or the name of a preset."""
    config: Config
    """What is decoded with; limits, end of text, seed and baseline are set by the run."""
    plain: str
    """Name of the plain arm that this one is measured against; a plain arm names itself."""
    peer: str = ""
    """Which loop of transformers: "generate", "assisted" or "lookup"; empty for the other kinds."""

    @property
    def k(self) -> K:
        """Draft tokens a round; 0 for an arm that drafts none."""
        if self.kind == "plain" or self.peer == "generate":
            return 0
        return self.config.draft.num_draft_tokens

    @property
    def rule(self) -> str:
        """How drafts are judged; empty where none are, and where transformers does it."""
        return self.config.verify.verify_strategy if self.kind == "speculative" else ""

    @property
    def temperature(self) -> float | None:
        """0 is greedy; None leaves it to the target's generation_config."""
        greedy = self.config.verify.verify_strategy == "greedy_match"
        return 0.0 if greedy else self.config.sampling.temperature


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that is run. Arms are interleaved: each prompt is decoded by all of them, forth and back."""

    arms: tuple[Arm, ...]
    """Each plain arm stands before those measured against it."""
    questions: tuple[Question, ...]
    tokens: int = 64
    """Of an answer, at most: plain decoding's own end of text ends it sooner, for all arms."""
    repeats: int = 5
    """How often a prompt is decoded forth and back (A B B A)."""
    seed: int = 0
    """Of the draws, and of the bootstrap."""

    def __post_init__(self) -> None:
        names = [arm.name for arm in self.arms]
        assert len(names) == len(set(names)), f"two arms share a name: {names}"
        assert self.tokens >= 1 and self.repeats >= 1, "a plan runs something"

    def arm(self, name: str) -> Arm:
        """The arm of a name. Raises KeyError."""
        for arm in self.arms:
            if arm.name == name:
                return arm
        raise KeyError(name)

    @property
    def measured(self) -> tuple[Arm, ...]:
        """The arms that are compared with a plain one."""
        return tuple(arm for arm in self.arms if arm.kind != "plain")

    @property
    def runs(self) -> int:
        """Answers in all, each turn of a question counted once."""
        return 2 * len(self.arms) * self.repeats * sum(len(question.turns) for question in self.questions)


def one_a_category(questions: Iterable[Question]) -> tuple[Question, ...]:
    """The first question of each category, in their order: the quick set."""
    first: dict[str, Question] = {}
    for question in questions:
        first.setdefault(question.category, question)
    return tuple(first.values())
