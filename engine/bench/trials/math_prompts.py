"""The "math" prompts of our own set, made from seeded templates: no one can have learned their answers.

``engine/assets/prompts.jsonl`` holds what ``math_turns()`` gives; a test compares them.
"""

from __future__ import annotations

import random

SEED = 7
_TEMPLATES = (
    "A baker makes {a} trays of {b} rolls, then {c} trays of {d}, sells {e}. What is left? Show each step.",
    "Compute {a} * {b} + {c} * {d} step by step, and write down every intermediate result.",
    "A bus leaves at {hour}:{minute:02d} and takes {e} minutes, the next one {f} more. When do both arrive?",
    "List the first {f} multiples of {b}, one on each line, each with its digit sum.",
    "A tank holds {big} litres; {b} a minute flow out and {c} in. When is it empty? Explain each step.",
    "Write the numbers from {a} to {end} in a table with three columns: n, n squared, and n squared minus n.",
    "Four friends share {big} coins in the ratio {c} : {d} : {f} : {one}. How much does each get? Show how.",
    "Is {big} divisible by {c}? By {d}? By {f}? Do the long division for each and state the remainder.",
)


def math_turns(seed: int = SEED) -> tuple[str, ...]:
    """One problem from each template, the same for the same seed."""
    chance = random.Random(seed)
    return tuple(template.format(**_numbers(chance)) for template in _TEMPLATES)


def _numbers(chance: random.Random) -> dict[str, int]:
    start = chance.randint(12, 48)
    return {
        "a": start,
        "b": chance.randint(13, 37),
        "c": chance.randint(3, 9),
        "d": chance.randint(11, 19),
        "e": chance.randint(41, 99),
        "f": chance.randint(8, 12),
        "one": 1,
        "big": 10 * chance.randint(121, 899),
        "hour": chance.randint(6, 11),
        "minute": chance.randint(1, 59),
        "end": start + 9,
    }
