"""What to change, and the fact it follows from. Nothing is advised on suspicion."""

from __future__ import annotations

from collections.abc import Callable

from engine.doctor import machine_rules, pair_rules
from engine.doctor.facts import Advice, Facts

Rule = Callable[[Facts], Advice | None]


RULES: tuple[Rule, ...] = (
    machine_rules.install_again,
    pair_rules.other_device,
    pair_rules.as_the_error_says,
    machine_rules.torch_for_cuda,
    pair_rules.use_the_gpu,
    pair_rules.fetch_models,
    pair_rules.room_on_disk,
    pair_rules.other_tokenizer,
    pair_rules.fit_memory,
    pair_rules.dear_drafter,
    pair_rules.same_tokenizer,
    pair_rules.faster_format,
    machine_rules.threads,
    pair_rules.long_drafts,
    machine_rules.busy_machine,
    machine_rules.other_versions,
)
"""In the order of what is told."""


def advise(facts: Facts) -> tuple[Advice, ...]:
    """What every rule says, what matters most first."""
    return tuple(advice for rule in RULES if (advice := rule(facts)) is not None)
