"""The sessions that tuning runs its drafters on: the user's own one, and others that share its models.

The own session keeps its pair and its configuration throughout, so nothing has to be put back. Another
drafter gets a session of its own, with caches of its own, over the very target that is held: no weights are
read but those of a drafter model that is not in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from engine.config_tables import DraftConfig
from engine.errors import ModelNotFound
from engine.models.load import at_hand

if TYPE_CHECKING:
    from engine.events import Event
    from engine.models.causal_lm import CausalLM
    from engine.session import Session


class TuneSessions:
    """Loads what a drafter needs when it is first asked for.

    Args:
        own: loaded; its models are shared, and it is not closed.
        cancelled: asked while a model is loaded.
    """

    def __init__(self, own: Session, cancelled: Callable[[], bool]) -> None:
        self._own, self._cancelled = own, cancelled
        self._others: dict[tuple[object, ...], Session] = {}

    def of(self, draft: DraftConfig) -> Session:
        """The session of a drafter.

        Raises:
            ModelNotFound: its model would have to be fetched first; tuning fetches nothing.
            UserError, ResourceError: it cannot be used with this target, or has no room.
            Cancelled: ``cancelled`` said so while its model was loaded.
        """
        key = _key(draft)
        if key == _key(self._own.config.draft):
            return self._own
        if key not in self._others:
            self._others[key] = self._loaded(draft)
        return self._others[key]

    def close(self) -> None:
        """Free all but the own one."""
        for session in self._others.values():
            session.close()
        self._others.clear()

    def _loaded(self, draft: DraftConfig) -> Session:
        from engine.session import Session

        held = self._own.pair.models()
        drafter = held.get("drafter")
        if draft.model_name is not None and (drafter is None or drafter.info.name != draft.model_name):
            drafter = self._named(draft.model_name)
            if drafter is None and at_hand(draft.model_name) is None:
                raise ModelNotFound(
                    f"{draft.model_name} is not on this machine", "Load it once; tuning fetches nothing."
                )
        session = Session(self._own.config.model_copy(update={"draft": draft}))
        session.seed = self._own.seed
        session.shared_target, session.shared_drafter = held["target"], drafter

        def end_if_cancelled(_: Event) -> None:
            if self._cancelled():
                session.cancel()

        session.load(end_if_cancelled)
        return session

    def _named(self, name: str) -> CausalLM | None:
        """A drafter model that another of these sessions holds."""
        held = (session.pair.models().get("drafter") for session in self._others.values())
        return next((model for model in held if model is not None and model.info.name == name), None)


def _key(draft: DraftConfig) -> tuple[object, ...]:
    """All but what a run can change."""
    return tuple(draft.model_dump(exclude={"num_draft_tokens"}).values())
