"""The measures, each against the limit it is held to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

from engine.bench import arms, memory
from engine.bench.arms import Arm
from engine.bench.bandwidth import reading
from engine.bench.equality import first_difference
from engine.bench.lab import Lab, Measure
from engine.bench.long_context import context_rows
from engine.bench.quick_set import quick_rows
from engine.bench.report import Row, ratio_row
from engine.bench.timing import (
    Block,
    fastest,
    host_share,
    interleave,
    median_ratio,
    rounds_of,
    tokens_a_round,
)
from engine.memory_bandwidth import MemoryReader, bytes_a_token

MB = 1e6
PEER_LOOKUP = 10
"""Draft tokens of prompt lookup as transformers' documentation calls it."""


def plain_rows(lab: Lab) -> Iterator[Row]:
    """Plain decoding against transformers' ``generate``, and against reading the weights and nothing else."""
    setup, size = lab.setup, bytes_a_token(lab.target)
    reader = MemoryReader(size, lab.target.device)
    ours, theirs, limit = (
        arms.plain(lab.target),
        arms.transformers_plain(lab.peer_target),
        reading(reader, size),
    )
    blocks = interleave([ours, theirs, limit], lab.ids(setup.chat), setup.chat_tokens, setup.repeats)
    yield _speed_row(lab, "plain decoding / transformers generate", blocks, ours, theirs, at_least=1.3)
    yield ratio_row(
        f"plain decoding / limit of memory bandwidth, {lab.dtype}",
        median_ratio([block.ratio(ours.name, limit.name) for block in blocks]),
        0.5 if lab.dtype == "bfloat16" else None,
        f"{size / MB:.0f} MB of weights a token; read at {reader.speeds} GB/s; "
        f"{lab.target.info.passes} passes",
    )


def lookup_rows(lab: Lab) -> Iterator[Row]:
    """Lookup against plain decoding and against transformers' own lookup, on text that copies its prompt."""
    setup = lab.setup
    k = fastest(
        lambda k: arms.lookup(lab.target, k), setup.lookup_ks, lab.ids(setup.tuning_copy), setup.tuning_tokens
    )
    ours, plain = arms.lookup(lab.target, k), arms.plain(lab.target)
    theirs = [arms.transformers_lookup(lab.peer_target, each) for each in dict.fromkeys((PEER_LOOKUP, k))]
    blocks = interleave([ours, plain, *theirs], lab.ids(setup.copy), setup.copy_tokens, setup.repeats)
    least = 2.5 if lab.dtype == "bfloat16" else 2.0
    yield _speed_row(
        lab, "lookup / plain decoding, copies and edits", blocks, ours, plain, at_least=least, k=k
    )
    better = _faster(theirs, blocks)
    yield _speed_row(
        lab, "lookup / transformers lookup, copies and edits", blocks, ours, better, at_least=1.5, k=k
    )
    yield _host_row(lab, "lookup", blocks, ours, k)


def drafter_rows(lab: Lab) -> Iterator[Row]:
    """A model that drafts, against assisted generation at the better of transformers' defaults and our K."""
    setup = lab.setup
    k = fastest(
        lambda k: arms.drafted(lab.target, lab.drafter, k),
        setup.drafter_ks,
        lab.ids(setup.tuning_chat),
        setup.tuning_tokens,
    )
    ours = arms.drafted(lab.target, lab.drafter, k)
    theirs = [arms.transformers_assisted(lab.peer_target, lab.peer_drafter, each) for each in (None, k)]
    blocks = interleave([ours, *theirs], lab.ids(setup.chat), setup.chat_tokens, setup.repeats)
    better = _faster(theirs, blocks)
    yield _speed_row(lab, "drafter + target / transformers assisted", blocks, ours, better, at_least=1.5, k=k)
    yield _host_row(lab, "drafter", blocks, ours, k)


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


ROWS: Mapping[str, Measure] = {
    "plain": Measure(plain_rows, 25),
    "lookup": Measure(lookup_rows, 90),
    "drafter": Measure(drafter_rows, 100),
    "memory": Measure(memory_rows, 50),
    "context": Measure(context_rows, 30),
    "trials": Measure(quick_rows, 200, dtypes=("bfloat16",)),
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
    if rounds_of(blocks, ours.name):
        notes.append(f"tau {tokens_a_round(blocks, ours.name):.2f}")
    mine, other = (fmean(block.ms(arm.name) for block in blocks) for arm in (ours, theirs))
    notes.append(f"{mine:.1f} ms a token against {other:.1f} of {theirs.name}")
    notes.append(_agreement(blocks, ours, theirs))
    return ratio_row(f"{name}, {lab.dtype}", estimate, at_least, "; ".join(notes), k)


def _faster(arms: Sequence[Arm], blocks: Sequence[Block]) -> Arm:
    """The faster one over all blocks."""
    return min(arms, key=lambda arm: sum(block.ms(arm.name) for block in blocks))


def _agreement(blocks: Sequence[Block], ours: Arm, theirs: Arm) -> str:
    """How many texts are the same token for token: in float32 all of them, near ties apart."""
    found = [
        first_difference(block.timed[theirs.name][0].ids, block.timed[ours.name][0].ids) for block in blocks
    ]
    parted = [at for at in found if at is not None]
    text = f"{len(found) - len(parted)} of {len(found)} texts identical"
    return f"{text}, the others up to token {min(parted)} at least" if parted else text


def _host_row(lab: Lab, name: str, blocks: Sequence[Block], arm: Arm, k: int) -> Row:
    share, a_round = host_share(blocks, arm.name)
    return Row(
        *(f"host share of a round, {name}, {lab.dtype}", 100 * share, "%"),
        at_most=5,
        note=f"{a_round:.2f} ms a round",
        k=k,
    )
