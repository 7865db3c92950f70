"""The sections of ``spec doctor``, as lines for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence

from engine.doctor.advice import advise
from engine.doctor.expectation import Expectation, expectation
from engine.doctor.facts import Facts, FormatSpeed, Model, Pair
from engine.doctor.machine_rules import BUSY
from engine.models.memory import shown
from tui.model_list import ModelEntry

_LABEL = 16
"""Columns of the names on the left."""
_ABSENT = "--"

Row = tuple[str, str]
Section = tuple[str, list[str]]


def sections(
    facts: Facts,
    models: Sequence[ModelEntry],
    terminal: str,
    width: int,
    private: Callable[[str], str],
) -> Iterator[Section]:
    """Titles and lines; not made safe for a terminal.

    Args:
        terminal: what is to be said of it.
        private: takes out of a text what tells who runs this.
    """
    parts: list[tuple[str, list[Row]]] = [
        ("program", list(_program(facts))),
        ("machine", [*_machine(facts), ("terminal", terminal)]),
        ("speed here", list(_speed(facts))),
        ("models on this machine", list(_models(models))),
    ]
    if facts.pair is not None:
        parts.append((f"the pair of {facts.pair.config}", list(_pair(facts, facts.pair))))
    for title, rows in parts:
        if rows:
            yield private(title), [line for row in rows for line in _lines(row, width, private)]
    yield "what to change", list(_advice(facts, width, private))


def _lines(row: Row, width: int, private: Callable[[str], str]) -> list[str]:
    label, text = row
    return textwrap.wrap(
        private(text) or _ABSENT,
        width,
        initial_indent=f"  {label}".ljust(_LABEL + 2),
        subsequent_indent=" " * (_LABEL + 2),
        break_on_hyphens=False,
    )


def _program(facts: Facts) -> Iterator[Row]:
    yield "version", f"naive-speculate {facts.version}, Python {facts.python}"
    yield "libraries", ", ".join(f"{each.name} {each.installed or 'missing'}" for each in facts.libraries)
    others = [library for library in facts.libraries if not library.is_as_tested]
    if others:
        named = ", ".join(f"{each.name} {each.tested}" for each in others)
        yield "tested with", f"{named}; the others as here"
    elif all(library.tested is None for library in facts.libraries):
        yield "tested with", "not known: constraints.txt is not installed with the program"
    else:
        yield "tested with", "these very versions"
    if facts.torch is not None:
        build = facts.torch.cuda_build
        yield "torch's build", "without CUDA" if build is None else f"for CUDA {build}"
    if facts.torch_problem is not None:
        yield "PROBLEM", facts.torch_problem


def _machine(facts: Facts) -> Iterator[Row]:
    machine = facts.machine
    yield "system", machine.system
    yield "processor", machine.processor
    cores = f"{machine.physical_cores or 'unknown'} physical, {machine.logical_cores} logical"
    if machine.allowed_cores < machine.logical_cores:
        cores += f", {machine.allowed_cores} allowed to this process"
    if machine.core_quota is not None:
        cores += f", the container may take {machine.core_quota:g}"
    yield "cores", cores
    memory = f"{shown(machine.memory_total)}, {shown(machine.memory_free)} free"
    if machine.memory_limit is not None:
        memory += f", the container may take {shown(machine.memory_limit)}"
    yield "main memory", memory
    load = "" if machine.load is None else f", load {' '.join(f'{value:.2f}' for value in machine.load)}"
    yield "in use", f"{machine.busy:.0%} of the processor by others{load}"
    if facts.torch is not None:
        set_by = "".join(f", {name}={value}" for name, value in machine.thread_variables)
        threads = f"{facts.torch.threads} for torch, {machine.useful_threads} can run at once"
        yield "threads", f"{threads}{set_by}"
        for device in facts.torch.devices:
            room = ""
            if device.memory_total is not None and device.memory_free is not None:
                room = f", {shown(device.memory_total)}, {shown(device.memory_free)} free"
            yield device.name, f"{device.about}{room}"
    free = "" if facts.cache_free is None else f", {shown(facts.cache_free)} free on its disk"
    yield "cache", f"{facts.cache}{free}"


def _speed(facts: Facts) -> Iterator[Row]:
    speed = facts.speed
    if speed is None:
        return
    if facts.busy > BUSY:
        yield "BUSY", f"others used {facts.busy:.0%} of the processor: a hint at most"
    yield "memory reads", f"{speed.bandwidth_gbs:.1f} GB/s on {speed.device}, of {shown(speed.read_bytes)}"
    if not speed.formats:
        return
    yield "products", f"ms for 1 row and for 9 rows by {speed.matrices}"
    fastest = min(speed.formats, key=lambda found: found.one_ms)
    for found in speed.formats:
        yield found.dtype, _format(found, fastest)


def _format(found: FormatSpeed, fastest: FormatSpeed) -> str:
    ratio = (
        "the fastest"
        if found is fastest
        else f"{found.one_ms / fastest.one_ms:.1f}x the time of {fastest.dtype}"
    )
    return f"{found.one_ms:6.2f} {found.nine_ms:6.2f} (9 rows {found.nine_ms / found.one_ms:.1f}x), {ratio}"


def _models(models: Sequence[ModelEntry]) -> Iterator[Row]:
    for entry in models:
        state = "on disk" if entry.here else "not fetched"
        held = "" if entry.full_bytes is None else f", {shown(entry.full_bytes)} as float32"
        size = f"{shown(entry.disk_bytes)} {state}" if entry.disk_bytes else state
        problem = f"; cannot be used: {entry.problem}" if entry.problem else ""
        yield entry.place.value, f"{entry.name}: {size}{held}{problem}"


def _pair(facts: Facts, pair: Pair) -> Iterator[Row]:
    for model in pair.models:
        yield model.role, _model(model)
    if pair.drafter is None:
        yield "drafter", f'none to load: draft.method = "{pair.method}"'
    drafts = pair.num_draft_tokens
    yield "method", f"{pair.method}, K = {drafts}"
    yield "device", pair.device_reason or _ABSENT
    yield "format", pair.dtype_reason or _ABSENT
    if pair.vocabulary is not None:
        yield "vocabularies", _vocabulary(pair)
    if pair.memory is not None:
        memory = pair.memory
        verdict = "fits" if memory.problem is None else "DOES NOT FIT"
        parts = ((memory.weights, "weights"), (memory.cache, "cache"), (memory.working, "room to work in"))
        needed = ", ".join(f"{shown(size)} of {what}" for size, what in parts)
        some = "" if all(model.here for model in pair.models) else "of what is here: "
        yield "needs", f"{some}{needed}; {shown(memory.free)} free on {memory.where}: {verdict}"
    expected = expectation(facts)
    if expected is not None:
        yield from _expected(facts, pair, expected)
    for problem in pair.problems:
        yield "PROBLEM", problem


def _model(model: Model) -> str:
    if model.problem is not None and not model.architecture:
        return model.name
    if not model.here:
        size = f", a download of {shown(model.fetch_bytes)}" if model.fetch_bytes else ""
        return f"{model.name}: not on this machine{size}"
    bits = f", layers in {model.quantize}" if model.quantize != "none" else ""
    size = f", {shown(model.weights)}{bits}" if model.weights else ""
    return f"{model.name}: {model.architecture}, {_parameters(model.parameters)}, {model.layers} layers{size}"


def _parameters(count: int) -> str:
    return f"{count / 1e9:.2f}B parameters" if count >= 10**9 else f"{count / 1e6:.1f}M parameters"


def _vocabulary(pair: Pair) -> str:
    vocabulary = pair.vocabulary
    assert vocabulary is not None, "they were compared"
    sizes = "target {:,}, drafter {:,} tokens".format(*vocabulary.sizes)
    if vocabulary.difference is None:
        return f"{sizes}: every common id means the same"
    shared = (
        "" if vocabulary.shared is None else f"; {vocabulary.shared / vocabulary.sizes[0]:.0%} shared as text"
    )
    # Where it is a problem, the problem says where they differ.
    where = f": {vocabulary.difference}" if pair.any_tokenizer else ""
    return f"{sizes}: they differ{shared}{where}"


def _expected(facts: Facts, pair: Pair, expected: Expectation) -> Iterator[Row]:
    read, speed = pair.target.bytes_a_token, facts.speed
    if expected.plain_ms is not None and read is not None and speed is not None:
        rate = f"at best {expected.plain_tokens_per_second:.1f} tokens/s, {expected.plain_ms:.1f} ms a token"
        yield "plain decoding", f"{rate} = {shown(read)} read a token / {speed.bandwidth_gbs:.1f} GB/s"
    if pair.drafter is not None:
        costs = (("bytes", expected.c_bytes), ("layers", expected.c_layers))
        told = ", ".join(f"{cost:.2f} by {name}" for name, cost in costs if cost is not None)
        if told:
            yield "c", f"{told} (a draft over a plain step; bytes decide on a CPU, layers on a GPU)"
    elif expected.c is not None:
        yield "c", "about 0: a draft is a search of the text"
    if expected.break_even_alpha is not None:
        formula = "a* = c + r(2) + o - 1, with r(2) taken as 1 and o as 0"
        never = ", so never," if expected.break_even_alpha >= 1 else ""
        yield "break-even", f"alpha {expected.break_even_alpha:.2f}{never} at K = 1: {formula}"


def _advice(facts: Facts, width: int, private: Callable[[str], str]) -> Iterator[str]:
    """Each advice with its reason below it."""
    told = advise(facts)
    if not told:
        yield "  nothing: no fact above speaks against this setting"
    for advice in told:
        for text, first in ((advice.do, "  - "), (advice.why, "      ")):
            rest = "    " if first == "  - " else first
            yield from textwrap.wrap(
                private(text), width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
            )
