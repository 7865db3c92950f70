"""What ``spec doctor`` knows: measured or read, never guessed. Torch-free; sizes in bytes, times in ms."""

from __future__ import annotations

from dataclasses import dataclass

from engine.machine import Machine


@dataclass(frozen=True, slots=True)
class Library:
    """An installed package."""

    name: str
    installed: str | None
    """None: it is not there."""
    tested: str | None
    """The version that constraints.txt names; None where that file is not at hand."""

    @property
    def is_as_tested(self) -> bool:
        """Whether the versions agree; a build tag such as "+cpu" does not count. True where it is unknown."""
        return self.tested is None or (self.installed or "").partition("+")[0] == self.tested


@dataclass(frozen=True, slots=True)
class Device:
    """Where models can run."""

    name: str
    """As ``run.device`` takes it."""
    about: str
    """What it is, such as "NVIDIA H200, compute capability 9.0"."""
    memory_total: int | None = None
    memory_free: int | None = None


@dataclass(frozen=True, slots=True)
class Torch:
    """How torch sees this machine."""

    cuda_build: str | None
    """CUDA version that it is built for; None: none."""
    nvidia_driver: bool
    """Whether the system has NVIDIA's driver."""
    fast_bfloat16: str | None
    """The processor's feature that multiplies bfloat16 fast."""
    threads: int
    """Those that it computes with, ``run.threads`` applied."""
    devices: tuple[Device, ...]


@dataclass(frozen=True, slots=True)
class FormatSpeed:
    """How long products of matrices take in one number format."""

    dtype: str
    one_ms: float
    """One row by all the matrices: a plain step in small."""
    nine_ms: float
    """Nine rows: a round of 8 drafts in small."""


@dataclass(frozen=True, slots=True)
class Speed:
    """What the device does, measured."""

    device: str
    read_bytes: int
    """Size of the buffer that was read."""
    bandwidth_gbs: float
    """The fastest way of reading it, 1e9 bytes a second."""
    ways: str
    """Every way and its speed."""
    matrices: str
    """What the products were of, such as "8 matrices of 2048 x 2048"."""
    formats: tuple[FormatSpeed, ...]
    others: float = 0.0
    """Share of all cores that other programs used meanwhile, 0..1."""

    def of(self, dtype: str) -> FormatSpeed | None:
        """The speed in a number format, if it was measured."""
        return next((speed for speed in self.formats if speed.dtype == dtype), None)


@dataclass(frozen=True, slots=True)
class Model:
    """A model of the pair, as far as its files tell."""

    role: str
    """ "target" or "drafter"."""
    name: str
    here: bool
    """Whether loading it fetches and converts nothing."""
    problem: str | None = None
    """Why it cannot run."""
    hint: str | None = None
    """What to do about that, where there is something."""
    fetch_bytes: int | None = None
    """Of the download, where it is known."""
    architecture: str = ""
    parameters: int = 0
    layers: int = 0
    quantize: str = "none"
    weights: int = 0
    """In memory, in the format that it will be held in."""
    bytes_a_token: int | None = None
    """Weights that a pass of one row reads; None where not every pass reads the same ones."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Target and drafter, token by token."""

    sizes: tuple[int, int]
    """Of target and drafter."""
    difference: str | None
    """The first id that they do not share; None: every common id means the same."""
    shared: int | None = None
    """Tokens of the target whose text is a token of the drafter too; None where all are."""


@dataclass(frozen=True, slots=True)
class Memory:
    """What the pair takes, by estimate."""

    weights: int
    cache: int
    working: int
    """Beside weights and cache, for a pass."""
    free: int
    where: str
    problem: str | None
    """Why it does not fit."""
    ways: tuple[str, ...] = ()
    """Keys with which it would fit, each tried by estimate."""

    @property
    def needed(self) -> int:
        return self.weights + self.cache + self.working


@dataclass(frozen=True, slots=True)
class Pair:
    """What a configuration asks for."""

    config: str
    """Its name, as it was given."""
    method: str
    num_draft_tokens: int | str
    """Or the word for a K that adapts."""
    any_tokenizer: bool
    """Whether the method takes a drafter with another tokenizer."""
    device_asked: str
    device: str | None
    """None: it is not here."""
    device_reason: str
    dtype_asked: str
    dtype: str
    dtype_reason: str
    threads_asked: int | None
    models: tuple[Model, ...]
    """The target first."""
    vocabulary: Vocabulary | None = None
    """None where there is nothing to compare, or a tokenizer is not at hand."""
    memory: Memory | None = None
    problem: str | None = None
    """Why it cannot run, apart from models, vocabularies and memory."""
    hint: str | None = None
    """What to do about that, where there is something."""

    @property
    def target(self) -> Model:
        return self.models[0]

    @property
    def drafter(self) -> Model | None:
        return self.models[1] if len(self.models) > 1 else None

    @property
    def problems(self) -> tuple[str, ...]:
        """Every reason why it cannot run."""
        found = [self.problem, *(model.problem for model in self.models)]
        if self.vocabulary is not None and self.vocabulary.difference and not self.any_tokenizer:
            found.append(self.vocabulary.difference)
        found.append(None if self.memory is None else self.memory.problem)
        return tuple(problem for problem in found if problem)


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything that was found."""

    version: str
    """Of this program."""
    python: str
    libraries: tuple[Library, ...]
    machine: Machine
    cache: str
    """The cache folder."""
    cache_free: int | None
    """Free bytes of its disk; None where that cannot be told."""
    torch: Torch | None = None
    """None where it cannot be imported."""
    torch_problem: str | None = None
    speed: Speed | None = None
    """None where nothing was measured."""
    pair: Pair | None = None

    @property
    def busy(self) -> float:
        """Share of all cores that others used, before or while something was measured."""
        return max(self.machine.busy, 0.0 if self.speed is None else self.speed.others)

    @property
    def problems(self) -> tuple[str, ...]:
        """What makes the program unusable with this configuration."""
        found = () if self.torch_problem is None else (self.torch_problem,)
        return found if self.pair is None else (*found, *self.pair.problems)


@dataclass(frozen=True, slots=True)
class Advice:
    """One thing to do."""

    do: str
    """With the key or command in full."""
    why: str
    """The fact that it follows from."""
