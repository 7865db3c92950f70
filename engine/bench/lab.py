"""What is measured, and the loaded models it is measured on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from engine.bench import cut, prompts
from engine.bench.prompts import Prompt
from engine.bench.report import Row
from engine.bench.trials.plan import K
from engine.bench.trials.questions import Question, own_questions
from engine.models.causal_lm import CausalLM
from engine.models.load import describe, load_model
from engine.models.optimize import Optimize, optimize

DTYPES = ("float32", "bfloat16")
"""Number formats, in the order they are measured."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What is measured, and how long."""

    target: str = "builtin:smollm2-135m"
    layers: tuple[int, ...] = cut.LAYERS
    """Those of the target that the drafter keeps."""
    copy: Sequence[Prompt] = (*prompts.COPY, *prompts.EDIT)
    """Texts whose answers copy them, word for word or with changes."""
    chat: Sequence[Prompt] = prompts.CHAT
    tuning_copy: Sequence[Prompt] = prompts.TUNING_COPY
    tuning_chat: Sequence[Prompt] = prompts.TUNING_CHAT
    chat_tokens: int = 32
    copy_tokens: int = 80
    tuning_tokens: int = 24
    memory_tokens: int = 128
    lookup_ks: tuple[int, ...] = (8, 12, 16)
    drafter_ks: tuple[int, ...] = (1, 2, 3)
    contexts: tuple[int, ...] = (128, 256, 512, 1024, 2048, 4096, 8192)
    """Tokens in the cache; those the model has no positions for are left out."""
    context_k: int = 8
    context_repeats: int = 3
    """Steps and rounds at each of them, on the way there and on the way back."""
    optimize: Optimize = "auto"
    """How our own passes run, as ``run.optimize``."""
    repeats: int = 1
    """How often every prompt is decoded there and back."""
    questions: Sequence[Question] = field(default_factory=own_questions)
    """Whose first of each category makes the quick set."""
    quick_ks: tuple[K, ...] = ()
    """Empty: those of ``spec bench --quick``."""
    adversarial_tokens: int = 96
    adversarial_repeats: int = 5
    """Pairs A B B A of adaptive and plain decoding on unpredictable text."""


@dataclass(slots=True)
class Lab:
    """The models of one number format, each loaded when it is first asked for."""

    setup: Setup
    dtype: str
    scratch: Path
    """Where the cut model is written, once for all number formats."""
    _loaded: dict[tuple[str, bool], CausalLM] = field(default_factory=dict)

    @property
    def target(self) -> CausalLM:
        return self._load(self.setup.target)

    @property
    def drafter(self) -> CausalLM:
        return self._load(str(self.drafter_folder))

    @property
    def peer_target(self) -> CausalLM:
        """The target once more, for transformers' own loops."""
        return self._load(self.setup.target, peer=True)

    @property
    def peer_drafter(self) -> CausalLM:
        """The drafter once more, for transformers' own loops."""
        return self._load(str(self.drafter_folder), peer=True)

    @property
    def drafter_folder(self) -> Path:
        folder = self.scratch / "cut"
        if not folder.exists():
            cut.cut_layers(describe(self.setup.target).folder.path, folder, self.setup.layers)
        return folder

    def ids(self, asked: Sequence[Prompt]) -> list[list[int]]:
        """The prompts as the target reads them."""
        return [self.target.text.encode_chat(prompt.messages, None) for prompt in asked]

    def _load(self, name: str, *, peer: bool = False) -> CausalLM:
        if (name, peer) not in self._loaded:
            model = load_model(name, device="cpu", dtype=self.dtype)
            optimize(model, "eager" if peer else self.setup.optimize)
            self._loaded[name, peer] = model
        return self._loaded[name, peer]


class Labs:
    """The labs of several number formats, of which only the newest one is held."""

    def __init__(self, setup: Setup, scratch: Path) -> None:
        self._setup = setup
        self._scratch = scratch
        self._newest: Lab | None = None

    def of(self, dtype: str) -> Lab:
        """The lab of one format."""
        if self._newest is None or self._newest.dtype != dtype:
            self._newest = None  # two sets of models are never there at once
            self._newest = Lab(self._setup, dtype, self._scratch)
        return self._newest


@dataclass(frozen=True, slots=True)
class Measure:
    """A group of rows that are measured together."""

    rows: Callable[[Lab], Iterator[Row]]
    seconds: float
    """What it takes on two cores with the built-in model; only the time left is told from it."""
    dtypes: tuple[str, ...] = DTYPES
    """Number formats it is measured in."""
