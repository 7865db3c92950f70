"""Measurements of the app, on a terminal of its own: ``python -m tui.bench``, or ``make bench``."""
