"""What to expect of a pair from bytes and bandwidth alone, before any of it has run (docs/measuring.md)."""

from __future__ import annotations

from dataclasses import dataclass

from engine.doctor.facts import Facts, Model


@dataclass(frozen=True, slots=True)
class Expectation:
    """Estimates; a calibration measures what they guess."""

    plain_ms: float | None
    """A plain step at best: bytes a token / bandwidth. None where nothing was measured."""
    c_bytes: float | None
    """c if a draft costs by the weights it reads, as on a processor."""
    c_layers: float | None
    """c if a draft costs by its layers, as where launching kernels is what takes time."""
    c: float | None
    """The one that fits the device; 0 for a drafter without a model, None where it is not known."""

    @property
    def plain_tokens_per_second(self) -> float | None:
        return 1000 / self.plain_ms if self.plain_ms else None

    @property
    def break_even_alpha(self) -> float | None:
        """For K = 1, with a pass of two rows as fast as one of one row and a host that costs nothing more."""
        return None if self.c is None else break_even_alpha(self.c)


def break_even_alpha(c: float, r2: float = 1.0, o: float = 0.0) -> float:
    """a* = c + r(2) + o - 1: the acceptance from which on one draft a round pays; 1 and more never does."""
    return c + r2 + o - 1


def expectation(facts: Facts) -> Expectation | None:
    """Of the pair; None without one whose target is at hand."""
    pair = facts.pair
    if pair is None or pair.target.bytes_a_token is None:
        return None
    target, drafter = pair.target, pair.drafter
    plain_ms = None
    if facts.speed is not None and facts.speed.bandwidth_gbs > 0:
        plain_ms = pair.target.bytes_a_token / facts.speed.bandwidth_gbs / 1e6
    if drafter is None:  # a synthetic drafter costs what it is told to
        return Expectation(plain_ms, None, None, 0.0 if pair.method == "lookup" else None)
    c_bytes, c_layers = _ratio(drafter, target, "bytes_a_token"), _ratio(drafter, target, "layers")
    known = [c_bytes] if pair.device == "cpu" else [c_bytes, c_layers]
    costs = [cost for cost in known if cost is not None]
    return Expectation(plain_ms, c_bytes, c_layers, max(costs, default=None))


def _ratio(drafter: Model, target: Model, name: str) -> float | None:
    part, whole = getattr(drafter, name), getattr(target, name)
    return part / whole if part and whole else None
