"""Hypothesis tries the same cases every time, and a slow machine is no failure."""

from __future__ import annotations

import hypothesis

hypothesis.settings.register_profile("engine", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("engine")
