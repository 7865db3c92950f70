"""The loaded sessions of a bench: one for all arms that need the same models."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from engine.bench.trials.build import models_key, target_key
from engine.config import Config

if TYPE_CHECKING:
    from engine.models.causal_lm import CausalLM
    from engine.session import Session


class Sessions:
    """Loads what a configuration names when it is first asked for, and keeps it.

    Arms are interleaved, so all models of a bench are in memory together, a target that several
    configurations name only once.

    Args:
        load: gives a loaded session, which shares the target that it is given, if it is given one; raises
            UserError or ResourceError.
    """

    def __init__(self, load: Callable[[Config, CausalLM | None], Session]) -> None:
        self._load = load
        self._held: dict[tuple[object, ...], Session] = {}

    def of(self, config: Config) -> Session:
        """The session of these models."""
        key = models_key(config)
        if key not in self._held:
            self._held[key] = self._load(config, self._target_of(config))
        return self._held[key]

    def _target_of(self, config: Config) -> CausalLM | None:
        """What is held already and is this configuration's target too."""
        wanted = target_key(config)
        found = (held.pair.target for held in self._held.values() if target_key(held.config) == wanted)
        return next(found, None)

    @property
    def held(self) -> tuple[Session, ...]:
        """All that were loaded."""
        return tuple(self._held.values())

    def close(self) -> None:
        """Free the models."""
        for session in self._held.values():
            session.close()
        self._held.clear()
