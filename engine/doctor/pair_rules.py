"""Advice on a pair: one rule a function, each pure, silent where its fact was not found."""

from __future__ import annotations

from engine.doctor.expectation import expectation
from engine.doctor.facts import Advice, Facts, Model, Speed
from engine.doctor.machine_rules import BUSY
from engine.models.memory import shown
from engine.registry import DRAFTERS

_FASTER = 1.2
"""A number format counts as faster from this ratio on; less may be the noise of a short measurement."""
_DEAR_DRAFT = 0.5
"""From this c on, one draft a round needs every second draft to be right to pay at all."""
_WIDE_PASS = 1.5
"""From this ratio on, nine rows cost so much more than one that long drafts have to be right."""
_LONG_DRAFT = 8
"""Drafts of the round whose pass has the nine rows that were measured."""
_TIGHT = 0.8
"""Share of the free memory above which little is left for anything else."""
_DISK_A_BYTE = 8.0
"""Bytes on disk that a download of four bits takes with its conversion to float32, for each of its own."""


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
    needed = _DISK_A_BYTE * sum(model.fetch_bytes or 0 for model in facts.pair.models)
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
    if pair is None or speed is None or pair.device != speed.device or facts.busy > BUSY:
        return None
    return speed


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
