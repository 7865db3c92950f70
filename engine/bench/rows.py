"""The measures, each against the limit it is held to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

from engine.bench import arms, cut, memory, prompts
from engine.bench.arms import Arm
from engine.bench.equality import first_difference
from engine.bench.prompts import Prompt
from engine.bench.report import Row, ratio_row
from engine.bench.timing import Block, fastest, interleave, median_ratio
from engine.models.causal_lm import CausalLM
from engine.models.load import describe, load_model

MB = 1e6


@dataclass(frozen=True, slots=True)
class Setup:
    """What is measured, and how long."""

    target: str = "builtin:smollm2-135m"
    layers: tuple[int, ...] = cut.LAYERS
    """Those of the target that the drafter keeps."""
    copy: Sequence[Prompt] = prompts.COPY
    chat: Sequence[Prompt] = prompts.CHAT
    tuning_copy: Sequence[Prompt] = prompts.TUNING_COPY
    tuning_chat: Sequence[Prompt] = prompts.TUNING_CHAT
    chat_tokens: int = 32
    copy_tokens: int = 80
    tuning_tokens: int = 24
    memory_tokens: int = 128
    lookup_ks: tuple[int, ...] = (8, 12, 16)
    drafter_ks: tuple[int, ...] = (1, 2, 3)
    repeats: int = 1
    """How often every prompt is decoded there and back."""


@dataclass(slots=True)
class Lab:
    """The loaded models of one number format."""

    setup: Setup
    dtype: str
    scratch: Path
    """Where the cut model is written, once for all number formats."""
    chosen: dict[str, int] = field(default_factory=dict)
    """Each K that was chosen, by its row."""
    _loaded: dict[str, CausalLM] = field(default_factory=dict)

    @property
    def target(self) -> CausalLM:
        return self._load(self.setup.target)

    @property
    def drafter(self) -> CausalLM:
        return self._load(str(self.drafter_folder))

    @property
    def drafter_folder(self) -> Path:
        folder = self.scratch / "cut"
        if not folder.exists():
            cut.cut_layers(describe(self.setup.target).folder.path, folder, self.setup.layers)
        return folder

    def ids(self, asked: Sequence[Prompt]) -> list[list[int]]:
        """The prompts as the target reads them."""
        return [self.target.text.encode_chat(prompt.messages, None) for prompt in asked]

    def _load(self, name: str) -> CausalLM:
        if name not in self._loaded:
            self._loaded[name] = load_model(name, device="cpu", dtype=self.dtype)
        return self._loaded[name]


def plain_rows(lab: Lab) -> Iterator[Row]:
    """Plain decoding against transformers' ``generate``."""
    setup = lab.setup
    ours, theirs = arms.plain(lab.target), arms.transformers_plain(lab.target)
    blocks = interleave([ours, theirs], lab.ids(setup.chat), setup.chat_tokens, setup.repeats)
    yield _speed_row(lab, "plain decoding / transformers generate", blocks, ours, theirs, at_least=1.0)


def lookup_rows(lab: Lab) -> Iterator[Row]:
    """Lookup against plain decoding, on text that copies its prompt."""
    setup = lab.setup
    k = fastest(
        lambda k: arms.lookup(lab.target, k), setup.lookup_ks, lab.ids(setup.tuning_copy), setup.tuning_tokens
    )
    lab.chosen["lookup"] = k
    ours, theirs = arms.lookup(lab.target, k), arms.plain(lab.target)
    blocks = interleave([ours, theirs], lab.ids(setup.copy), setup.copy_tokens, setup.repeats)
    yield _speed_row(lab, "lookup / plain decoding, copying", blocks, ours, theirs, at_least=2.0, k=k)
    yield _host_row(lab, "lookup", blocks, ours)


def drafter_rows(lab: Lab) -> Iterator[Row]:
    """A model that drafts, against assisted generation at the better of transformers' defaults and our K."""
    setup = lab.setup
    k = fastest(
        lambda k: arms.drafted(lab.target, lab.drafter, k),
        setup.drafter_ks,
        lab.ids(setup.tuning_chat),
        setup.tuning_tokens,
    )
    lab.chosen["drafter"] = k
    ours = arms.drafted(lab.target, lab.drafter, k)
    theirs = [arms.transformers_assisted(lab.target, lab.drafter, each) for each in (None, k)]
    blocks = interleave([ours, *theirs], lab.ids(setup.chat), setup.chat_tokens, setup.repeats)
    better = min(theirs, key=lambda arm: sum(block.ms(arm.name) for block in blocks))
    yield _speed_row(lab, "drafter + target / transformers assisted", blocks, ours, better, at_least=1.0, k=k)
    yield _host_row(lab, "drafter", blocks, ours)


def memory_rows(lab: Lab) -> Iterator[Row]:
    """Whole sessions in processes of their own: the target alone, and with the drafter."""
    for name, draft in {
        "lookup": {"method": "lookup"},
        "drafter": {"method": "model", "model_name": str(lab.drafter_folder)},
    }.items():
        peak, steady = f"load peak, {name}, {lab.dtype}", f"steady memory, {name}, {lab.dtype}"
        if not memory.can_measure():
            yield from (Row(row, None, "MB", note="no /proc here") for row in (peak, steady))
            continue
        found = memory.measure(_memory_request(lab, draft))
        yield Row(
            peak,
            found.load_peak / MB,
            "MB",
            at_most=1.3 * found.files / MB,
            note=f"{found.files / MB:.0f} MB of files",
        )
        yield Row(
            steady,
            found.steady / MB,
            "MB",
            at_most=1.1 * (found.weights + found.caches) / MB + 64,
            note=f"{found.weights / MB:.0f} MB of weights, {found.caches / MB:.0f} MB of caches",
        )


ROWS: Mapping[str, Callable[[Lab], Iterator[Row]]] = {
    "plain": plain_rows,
    "lookup": lookup_rows,
    "drafter": drafter_rows,
    "memory": memory_rows,
}
"""Every group of measures by its name."""


def _memory_request(lab: Lab, draft: Mapping[str, str]) -> memory.Request:
    setup = lab.setup
    return memory.Request(
        config={
            "draft": dict(draft),
            "verify": {"model_name": setup.target},
            "sampling": {"temperature": 0},
            "run": {
                "device": "cpu",
                "dtype": lab.dtype,
                "max_new_tokens": setup.memory_tokens,
                "ignore_eos": True,
            },
        },
        messages=[{"role": each.role, "content": each.content} for each in setup.copy[0].messages],
    )


def _speed_row(
    lab: Lab,
    name: str,
    blocks: Sequence[Block],
    ours: Arm,
    theirs: Arm,
    *,
    at_least: float,
    k: int | None = None,
) -> Row:
    estimate = median_ratio([block.ratio(ours.name, theirs.name) for block in blocks])
    notes = [] if k is None else [f"K = {k}"]
    if tau := _tau(blocks, ours):
        notes.append(f"tau {tau:.2f}")
    mine, other = (fmean(block.ms(arm.name) for block in blocks) for arm in (ours, theirs))
    notes.append(f"{mine:.1f} ms a token against {other:.1f} of {theirs.name}")
    notes.append(_agreement(blocks, ours, theirs))
    return ratio_row(f"{name}, {lab.dtype}", estimate, at_least, "; ".join(notes))


def _tau(blocks: Sequence[Block], arm: Arm) -> float:
    """Tokens a round; 0 for an arm without rounds."""
    rounds = [round_ for block in blocks for timed in block.timed[arm.name] for round_ in timed.rounds]
    return sum(len(round_.tokens) for round_ in rounds) / len(rounds) if rounds else 0.0


def _agreement(blocks: Sequence[Block], ours: Arm, theirs: Arm) -> str:
    """How many texts are the same token for token: in float32 all of them, near ties apart."""
    found = [
        first_difference(block.timed[theirs.name][0].ids, block.timed[ours.name][0].ids) for block in blocks
    ]
    parted = [at for at in found if at is not None]
    text = f"{len(found) - len(parted)} of {len(found)} texts identical"
    return f"{text}, the others up to token {min(parted)} at least" if parted else text


def _host_row(lab: Lab, name: str, blocks: Sequence[Block], arm: Arm) -> Row:
    rounds = [round_ for block in blocks for timed in block.timed[arm.name] for round_ in timed.rounds]
    share = sum(round_.host_ms for round_ in rounds) / sum(round_.ms for round_ in rounds)
    a_round = sum(round_.host_ms for round_ in rounds) / len(rounds)
    return Row(f"host share of a round, {name}, {lab.dtype}", 100 * share, "%", note=f"{a_round:.2f} ms")
