"""The race of three tokens with shared noise, as areas of a triangle.

With E_x independent exponential variables, the token of a law w is the x of least E_x / w_x. Which one that
is depends on the shares E_x / (E_0 + E_1 + E_2) only, and those are uniform on the triangle of all shares (a
flat Dirichlet law). The shares for which x wins form a convex polygon, so the joint law of the winners under
any number of laws is made of areas of intersected polygons.
"""

from __future__ import annotations

from collections.abc import Sequence

Point = tuple[float, float, float]
"""Shares of the three variables; they add up to 1."""
Polygon = tuple[Point, ...]
"""Corners of a convex region, in order; empty if nothing is left."""

WHOLE: Polygon = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))


def winning(region: Polygon, law: Sequence[float], x: int) -> Polygon:
    """The part of a region in which x has the least E / law."""
    if law[x] <= 0:
        return ()
    for z, weight in enumerate(law):
        if z != x and weight > 0:
            region = _cut(region, z, x, law[x], weight)
    return region


def area(region: Polygon) -> float:
    """Twice the area, seen along the third share; the whole triangle has 1."""
    following = (*region[1:], *region[:1])
    return abs(sum(a[0] * b[1] - b[0] * a[1] for a, b in zip(region, following, strict=True)))


def _cut(region: Polygon, z: int, x: int, at_z: float, at_x: float) -> Polygon:
    """What has E_z * at_z >= E_x * at_x (Sutherland and Hodgman 1974)."""

    def side(point: Point) -> float:
        return point[z] * at_z - point[x] * at_x

    kept: list[Point] = []
    for a, b in zip(region, (*region[1:], *region[:1]), strict=True):
        here, there = side(a), side(b)
        if here >= 0:
            kept.append(a)
        if (here > 0 > there) or (here < 0 < there):
            share = here / (here - there)
            between = [u + share * (v - u) for u, v in zip(a, b, strict=True)]
            kept.append((between[0], between[1], between[2]))
    return tuple(kept)


def joint(q: Sequence[float], p: Sequence[float]) -> list[list[float]]:
    """P(x wins under q and y wins under p).  # [x][y]"""
    return [[area(winning(winning(WHOLE, q, x), p, y)) for y in range(3)] for x in range(3)]
