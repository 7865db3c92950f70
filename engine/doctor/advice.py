"""What to change, and the fact it follows from: one rule a function, each pure.

A rule is silent where its fact was not found: nothing is advised on suspicion.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from engine.doctor.expectation import expectation
from engine.doctor.facts import Facts, Model, Speed
from engine.models.memory import shown
from engine.registry import DRAFTERS

_FASTER = 1.2
"""A number format counts as faster from this ratio on; less may be the noise of a short measurement."""
BUSY = 0.25
"""Share of the processor that others may use before timings suffer."""
_DEAR_DRAFT = 0.5
"""From this c on, one draft a round needs every second draft to be right to pay at all."""
_WIDE_PASS = 1.5
"""From this ratio on, nine rows cost so much more than one that long drafts have to be right."""
_LONG_DRAFT = 8
"""Drafts of the round whose pass has the nine rows that were measured."""
_TIGHT = 0.8
"""Share of the free memory above which little is left for anything else."""
_ROOM_FOR_FLOATS = 6.0
"""Bytes on disk that a download and its conversion to float32 take, for each byte of the download."""


@dataclass(frozen=True, slots=True)
class Advice:
    """One thing to do."""

    do: str
    """With the key or command in full."""
    why: str
    """The fact."""


Rule = Callable[[Facts], Advice | None]


def advise(facts: Facts) -> tuple[Advice, ...]:
    """What every rule says, what matters most first."""
    return tuple(advice for rule in RULES if (advice := rule(facts)) is not None)


def install_again(facts: Facts) -> Advice | None:
    """torch or transformers cannot be imported."""
    if facts.torch_problem is None:
        return None
    return Advice('reinstall: pip install -c constraints.txt -e ".[dev]"', facts.torch_problem)


def other_versions(facts: Facts) -> Advice | None:
    """Libraries of other versions than the tested ones."""
    others = [library for library in facts.libraries if not library.is_as_tested]
    if not others:
        return None
    named = ", ".join(f"{each.name} {each.installed or 'missing'}, not {each.tested}" for each in others)
    return Advice("pip install -c constraints.txt -e .", f"other versions than the tested ones: {named}")


def other_device(facts: Facts) -> Advice | None:
    """The device that is asked for is not here."""
    pair = facts.pair
    if pair is None or pair.device is not None or facts.torch is None:
        return None
    here = ", ".join(device.name for device in facts.torch.devices)
    return Advice('set run.device = "auto"', f'run.device = "{pair.device_asked}", and here are: {here}')


def as_the_error_says(facts: Facts) -> Advice | None:
    """A model, or its settings, that cannot be used, where the reason comes with a way out."""
    pair = facts.pair
    if pair is None or pair.device is None:
        return None
    found = [(pair.problem, pair.hint), *((model.problem, model.hint) for model in pair.models)]
    return next((Advice(hint, problem) for problem, hint in found if problem and hint), None)


def use_the_gpu(facts: Facts) -> Advice | None:
    """The processor is asked for where there is a GPU."""
    if facts.pair is None or facts.torch is None or facts.pair.device_asked != "cpu":
        return None
    others = [device for device in facts.torch.devices if device.name != "cpu"]
    if not others:
        return None
    return Advice('set run.device = "auto"', f'run.device = "cpu", and there is {others[0].about}')


def torch_for_cuda(facts: Facts) -> Advice | None:
    """A GPU that this build of torch cannot use."""
    torch = facts.torch
    if torch is None or not torch.nvidia_driver or torch.cuda_build is not None:
        return None
    return Advice(
        "install a torch built for CUDA: uv sync --extra cu128",
        "there is an NVIDIA driver, and this torch is built without CUDA",
    )


def fetch_models(facts: Facts) -> Advice | None:
    """Models that are not on this machine."""
    if facts.pair is None:
        return None
    missing = [model for model in facts.pair.models if not model.here and model.problem is None]
    if not missing:
        return None
    commands = "; ".join(dict.fromkeys(f"spec models fetch {model.name}" for model in missing))
    return Advice(f"run {commands}", "; ".join(map(_not_here, missing)))


def _not_here(model: Model) -> str:
    size = f", a download of {shown(model.fetch_bytes)}" if model.fetch_bytes else ""
    return f"the {model.role} is not on this machine yet{size}"


def room_on_disk(facts: Facts) -> Advice | None:
    """No room in the cache for what would be fetched."""
    if facts.pair is None or facts.cache_free is None:
        return None
    needed = _ROOM_FOR_FLOATS * sum(model.fetch_bytes or 0 for model in facts.pair.models)
    if needed <= facts.cache_free:
        return None
    return Advice(
        "set NAIVE_SPECULATE_CACHE to a folder with room",
        f"{shown(facts.cache_free)} free there, about {shown(int(needed))} needed",
    )


def other_tokenizer(facts: Facts) -> Advice | None:
    """A drafter that numbers its tokens otherwise."""
    pair = facts.pair
    if pair is None or pair.vocabulary is None or not pair.vocabulary.difference or pair.any_tokenizer:
        return None
    methods = " or ".join(f'"{name}"' for name, entry in DRAFTERS.items() if entry.any_tokenizer)
    return Advice(f"set draft.method = {methods}", "drafter and target number their tokens differently")


def same_tokenizer(facts: Facts) -> Advice | None:
    """A detour over text that this pair does not need."""
    pair = facts.pair
    if pair is None or pair.vocabulary is None or pair.vocabulary.difference or not pair.any_tokenizer:
        return None
    return Advice(
        'set draft.method = "model"',
        f'target and drafter share their vocabulary, so "{pair.method}" only adds work',
    )


def fit_memory(facts: Facts) -> Advice | None:
    """A pair that does not fit, or hardly does."""
    pair = facts.pair
    if pair is None or pair.memory is None:
        return None
    memory = pair.memory
    why = f"about {shown(memory.needed)} needed on {memory.where}, {shown(memory.free)} free"
    if memory.problem is None:
        if memory.needed <= _TIGHT * memory.free:
            return None
        return Advice("close other programs, or lower run.max_new_tokens", f"memory is tight: {why}")
    ways = [f"set {way}" for way in memory.ways] or ["use a smaller model"]
    return Advice(" or ".join(ways), f"it does not fit: {why}")


def faster_format(facts: Facts) -> Advice | None:
    """A number format that is faster here than the one in use."""
    pair, speed = facts.pair, _believable_speed(facts)
    now = None if pair is None or speed is None else speed.of(pair.dtype)
    if speed is None or now is None:
        return None
    best = min(speed.formats, key=lambda found: found.one_ms)
    if best.one_ms * _FASTER > now.one_ms or best.nine_ms > now.nine_ms:
        return None
    return Advice(
        f'set run.dtype = "{best.dtype}"',
        f"products of one row are {now.one_ms / best.one_ms:.1f}x as fast in it here as in {now.dtype}, "
        f"of nine rows {now.nine_ms / best.nine_ms:.1f}x",
    )


def _believable_speed(facts: Facts) -> Speed | None:
    """What was measured on the pair's device, unless others kept it busy meanwhile."""
    pair, speed = facts.pair, facts.speed
    if pair is None or speed is None or pair.device != speed.device or facts.machine.busy > BUSY:
        return None
    return speed


def threads(facts: Facts) -> Advice | None:
    """More threads than cores, which then wait for each other, or fewer."""
    torch, pair, useful = facts.torch, facts.pair, facts.machine.useful_threads
    if torch is None or torch.threads == useful or (pair is not None and pair.device not in {"cpu", None}):
        return None
    asked = None if pair is None else pair.threads_asked
    variables = " and ".join(f"{name}={value}" for name, value in facts.machine.thread_variables)
    source = f"run.threads = {asked}" if asked else variables
    do = f"set run.threads = {useful}" + (f", or unset {variables}" if variables and not asked else "")
    said = f"torch computes with {_counted(torch.threads, 'thread')}" + (f" ({source})" if source else "")
    return Advice(do, f"{said}, and {_counted(useful, 'core')} can be used")


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def busy_machine(facts: Facts) -> Advice | None:
    """Others use the processor."""
    machine = facts.machine
    if machine.busy <= BUSY:
        return None
    return Advice(
        "stop what else runs here before you believe a timing",
        f"{machine.busy:.0%} of the processor was in use while this program waited",
    )


def dear_drafter(facts: Facts) -> Advice | None:
    """A drafter so large that its drafts have to be right too often."""
    expected, pair = expectation(facts), facts.pair
    if expected is None or pair is None or pair.drafter is None or expected.c is None:
        return None
    if expected.c < _DEAR_DRAFT or expected.break_even_alpha is None:
        return None
    pays = (
        f"one draft a round pays only where alpha is above {expected.break_even_alpha:.2f}"
        if expected.break_even_alpha < 1
        else "no draft pays, however often it is right"
    )
    return Advice(
        'use a smaller drafter, or set draft.method = "lookup"',
        f"a draft is expected to cost {expected.c:.2f} of a plain step, so {pays}",
    )


def long_drafts(facts: Facts) -> Advice | None:
    """Wide passes that cost much more than narrow ones."""
    pair, speed = facts.pair, _believable_speed(facts)
    if pair is None or speed is None:
        return None
    if not isinstance(pair.num_draft_tokens, int) or pair.num_draft_tokens < _LONG_DRAFT:
        return None
    now = speed.of(pair.dtype)
    if now is None or now.nine_ms < _WIDE_PASS * now.one_ms:
        return None
    return Advice(
        "try a smaller draft.num_draft_tokens, such as 3",
        f"products of nine rows take {now.nine_ms / now.one_ms:.1f}x as long as of one in {now.dtype}: "
        "a round of 8 drafts has to give more tokens than that to pay",
    )


RULES: tuple[Rule, ...] = (
    install_again,
    other_device,
    as_the_error_says,
    torch_for_cuda,
    use_the_gpu,
    fetch_models,
    room_on_disk,
    other_tokenizer,
    fit_memory,
    dear_drafter,
    same_tokenizer,
    faster_format,
    threads,
    long_drafts,
    busy_machine,
    other_versions,
)
"""In the order of what is told."""
