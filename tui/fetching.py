"""Which models of a configuration are not on this machine yet."""

from __future__ import annotations

from engine.config import Config
from engine.errors import ModelError
from engine.models.builtin import PREFIX, is_cached
from tui.model_list import ModelEntry, entry_for, find_models, folders_of


def to_fetch(config: Config) -> tuple[ModelEntry, ...]:
    """The models that loading would fetch. Names that mean nothing are left to the load to tell."""
    names = [config.verify.model_name]
    if config.draft.model_name is not None:
        names.append(config.draft.model_name)
    try:
        if all(name.startswith(PREFIX) and is_cached(name) for name in names):
            return ()
        known = find_models(folders_of(names))
        entries = [entry_for(name, known) for name in dict.fromkeys(names)]
    except ModelError:
        return ()
    return tuple(entry for entry in entries if not entry.here)
