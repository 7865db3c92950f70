"""The configuration that a recording's header holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.config import Config


def recorded_config(header: Mapping[str, Any]) -> Config | None:
    """With what it was made; it records nothing. None where the header holds none that this version knows."""
    try:
        return Config.model_validate({**header["config"], "record": {}})
    except (KeyError, TypeError, ValueError):
        return None
