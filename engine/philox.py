"""Philox 4x64 with 10 rounds in plain Python.

Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3". The same numbers as numpy's, so that the
draws of a recording can be computed again without numpy or torch. A round needs a dozen of them: numpy, which
makes a generator for each key, takes three times as long for that.
"""

from __future__ import annotations

import math

_MASK = 2**64 - 1
_MULTIPLIERS = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
_WEYL = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)
_ROUNDS = 10
_WORDS = 4
"""Of a block."""

Block = tuple[int, int, int, int]


def philox(counter: Block, key: tuple[int, int]) -> Block:
    """Four random 64-bit words: a pure function of the counter and the key, each word 0 <= w < 2**64."""
    a, b, c, d = counter
    k0, k1 = key
    for _ in range(_ROUNDS):
        left, right = _MULTIPLIERS[0] * a, _MULTIPLIERS[1] * c
        a, b, c, d = (right >> 64) ^ b ^ k0, right & _MASK, (left >> 64) ^ d ^ k1, left & _MASK
        k0, k1 = (k0 + _WEYL[0]) & _MASK, (k1 + _WEYL[1]) & _MASK
    return a, b, c, d


def uniform24(seed: int, position: int, stream: int, count: int) -> list[float]:
    """What ``Draws.uniform`` gives: ``count`` draws in [0, 1) with 24 random bits."""
    words = [
        word for block in range(-(-count // _WORDS)) for word in _block(seed, position, stream, 0, block)
    ]
    return [(word >> 40) * 2.0**-24 for word in words[:count]]


def uniform53(seed: int, position: int, stream: int, index: int = 0) -> float:
    """The point in [0, 1) by which ``Draws.categorical`` picks a token."""
    return (_word(seed, position, stream, 1, index) >> 11) * 2.0**-53


def exponential(seed: int, position: int, stream: int, id_: int) -> float:
    """What ``SharedNoise`` divides by the probability of an id, before it is rounded to float32."""
    return -math.log(((_word(seed, position, stream, 0, id_) >> 12) + 0.5) * 2.0**-52)


def _word(seed: int, position: int, stream: int, family: int, index: int) -> int:
    return _block(seed, position, stream, family, index // _WORDS)[index % _WORDS]


def _block(seed: int, position: int, stream: int, family: int, number: int) -> Block:
    # numpy counts up before it takes the first block
    return philox((number + 1, stream, position, family), (seed, 0))
