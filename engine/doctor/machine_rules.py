"""Advice on the machine and the libraries, whatever the pair: one rule a function, each pure."""

from __future__ import annotations

from engine.doctor.facts import Advice, Facts

BUSY = 0.25
"""Share of the processor that others may use before timings suffer."""


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


def torch_for_cuda(facts: Facts) -> Advice | None:
    """A GPU that this build of torch cannot use."""
    torch = facts.torch
    if torch is None or not torch.nvidia_driver or torch.cuda_build is not None:
        return None
    return Advice(
        "install a torch built for CUDA: uv sync --extra cu128",
        "there is an NVIDIA driver, and this torch is built without CUDA",
    )


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
    if facts.busy <= BUSY:
        return None
    return Advice(
        "stop what else runs here before you believe a timing",
        f"other programs used {facts.busy:.0%} of the processor meanwhile",
    )
