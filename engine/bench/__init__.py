"""Measurements of speed and memory: ``python -m engine.bench``, or ``make bench``."""
