# SPDX-License-Identifier: GPL-3.0-or-later
"""The pose of a free chain whose tip is at a given distance, next to the pose it starts from.

Take the line from the root to the target as the axis of a unit sphere, and each bone's
direction as a point of it: u is straight on, -u straight back. Seen from the point -u
(stereographic projection), the sphere becomes a plane, a bone at the angle t from u a
point z at the distance tan(t / 2) from the middle. The family of poses that is searched is

    z -> (z + shift) * scale    one complex shift, one positive scale for all bones.

A scale below 1 straightens the chain, one above 1 folds it, the shift keeps the tip on the
line. These are the maps of the sphere that keep angles and hold -u. So a plane chain stays in its
plane and bends to its side, and of all small changes that move the tip as far, this is the
smallest of bones and line together, weighted by length. For each distance strictly between
the inner and the outer radius exactly one member of the family closes the polygon of the bones
and the line, unless bones of one and the same direction make up half of it or more (Kapovich
and Millson, "The symplectic geometry of polygons in Euclidean space", 1996; here the line is
one more edge). So the answer is a smooth function of the distance and of the start, whatever
leads to it.

It is the minimum of a convex function on hyperbolic space, which Newton steps along geodesics
find in a few iterations (Cantarella and Schumacher, "Computing the conformal barycenter",
2022). Steps are capped, since far from the minimum full ones can cycle.

Lengths and distances are shares of the chain's length, arrays have the batch last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .transforms import TINY

# A number, or an array of them.
Number = Any

# Longest Newton step, as a distance in hyperbolic space: it scales angles by at most e^1.5.
STEP = 1.5
# Bend, in the projection, that is mixed into a chain that has to fold ...
ARC = 0.02
# ... in full from this much folding on.
ARC_ONSET = 0.1
# What a chain lacks to full reach below which its directions are no more than rounding.
FIRST_LACK = 1e-17
# Sine of the angle to -u below which a bone is set off from it.
_BACK = 1e-6


def spinors(along: np.ndarray, off: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two complex numbers for each direction, whose ratio second / first is its point.

    They keep their digits all over the sphere, and at -u, whose point is infinitely far away.

    Args:
        along, off: ``(n, m)`` parts of the unit directions along the line, and complex along
            Y and N.
    """
    back = along < 0.0
    if not back.any():
        return 1.0 + along, off
    # Close to -u the sum 1 + along loses its digits, 1 - along does not.
    return np.where(back, off.conj(), 1.0 + along), np.where(back, 1.0 - along, off)


def project(first: np.ndarray, second: np.ndarray, arc: np.ndarray, side: Number) -> np.ndarray:
    """Points of the plane ``(n, m)`` for directions.

    Args:
        first, second: ``(n, m)`` as from `spinors`, of any length but zero.
        arc: ``(n, m)`` from `bow`.
        side: ``(m,)`` complex unit, where the chain bends to: Y is 1, N is 1j. A bone that
            points straight back leaves the line as a bow to that side would.
    """
    stuck = np.abs(first) < 0.5 * _BACK * np.abs(second)
    if stuck.any():
        first = np.where(stuck, np.copysign(0.5 * _BACK, arc), first)
        second = np.where(stuck, side, second)
    return second / first


def directions(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Parts of the unit directions along the line ``(n, m)``, and complex along Y and N ``(n, m)``."""
    twice = 2.0 / (1.0 + square(points))
    return twice - 1.0, twice * points


def bow(lengths: np.ndarray) -> np.ndarray:
    """Weights ``(n, m)``, from 1 at the root to -1 at the tip, that bend a straight chain to an arc."""
    return 1.0 - 2.0 * np.add.accumulate(lengths, axis=0) + lengths


def leave_line(
    points: np.ndarray,
    arc: np.ndarray,
    side: np.ndarray,
    start: np.ndarray,
    distance: np.ndarray,
) -> np.ndarray:
    """The points ``(n, m)`` with a slight bow, so that straight stretches fold to ``side``.

    Bones of one direction cannot be told apart by any member of the family. The bow comes
    in with the folding, so a chain that has not to fold keeps its shape, and all of it
    before the chain has folded so far that it could matter to which side a stretch goes.

    Args:
        start, distance: ``(m,)`` from root to tip before and after.
    """
    folding = np.sqrt((1.0 - distance) / (1.0 + distance)) - np.sqrt((1.0 - start) / (1.0 + start))
    amount = ARC * np.minimum(np.maximum(folding / ARC_ONSET, 0.0), 1.0)
    return points + arc * (amount * side)


def close(
    points: np.ndarray,
    lengths: np.ndarray,
    distance: np.ndarray,
    active: np.ndarray,
    iterations: int,
    tolerance: float,
) -> tuple[np.ndarray, np.ndarray, int]:
    """Bring the tip to ``distance`` along the line.

    Args:
        points: ``(n, m)`` from `project`.
        lengths: ``(n, m)``, of sum 1.
        distance: ``(m,)`` between the inner radius and 1.
        active: ``(m,)`` False for chains that shall be left as they are.
        iterations: most Newton steps.
        tolerance: gap between tip and place at which a chain is done; from there on it does
            not change.

    Returns:
        points: ``(n, m)`` of the closed chains.
        missed: ``(m,)`` True for active chains that are not done.
        steps: how many steps were made.
    """
    points = points * _first_scale(points, lengths, distance)
    reach = 1.0 + distance
    terms = np.empty((5, *points.shape), complex)
    for step in range(iterations + 1):
        twice = 2.0 / (1.0 + square(points))
        np.multiply(lengths, twice, out=terms[0])
        np.multiply(terms[0], points, out=terms[1])
        np.multiply(terms[:2], twice, out=terms[2:4])
        np.multiply(terms[3], points, out=terms[4])
        sums = np.add.reduce(terms, axis=1)
        active = active & (np.hypot(sums[0].real - reach, np.abs(sums[1])) > tolerance)
        if step == iterations or not active.any():
            break
        along, off = newton_step(sums, reach)
        size = np.hypot(along, np.abs(off)) + TINY
        path = np.minimum(size, STEP) * active
        rate = np.sinh(path) / size
        points = points * (np.cosh(path) - along * rate) + off * rate
    return points, active, step


def _first_scale(points: np.ndarray, lengths: np.ndarray, distance: np.ndarray) -> np.ndarray:
    """The scale ``(m,)`` that would be right if all bones stood at the same angle to the line."""
    bend = square(points)
    # Half of what the tip lacks to full reach; from 1 - cos, so straight chains keep their digits.
    lack = np.add.reduce(lengths * bend / (1.0 + bend), axis=0)
    ratio = (1.0 - distance) * (1.0 - lack) / ((1.0 + distance) * np.maximum(lack, FIRST_LACK))
    return np.sqrt(ratio)


def newton_step(sums: Sequence[Number], reach: Number) -> tuple[Number, Number]:
    """The step -H^-1 r along and, complex, off the line, with r the tip's way from its place.

    H is the sum of l (1 - b b^T) over bones and line. It splits into the part along the line
    and the one across it; the latter acts on a complex number as a -> spread a - skew conj(a).

    Args:
        sums: complex sums of l t, l t z, l t^2, l t^2 z, l t^2 z^2 over the bones, with z their
            points and t = 2 / (1 + |z|^2), 1 more than the direction's part along u.
        reach: 1 and the distance to solve at.
    """
    tip, tip_off = sums[0].real, sums[1]
    stiff = 2.0 * tip - sums[2].real
    mixed, skew = tip_off - sums[3], 0.5 * sums[4]
    spread = reach - 0.5 * stiff
    across = 1.0 / (abs(spread * spread - square(skew)) + TINY)
    solved_mixed = (spread * mixed + skew * mixed.conjugate()) * across
    solved_miss = (spread * tip_off + skew * tip_off.conjugate()) * across
    to_mixed = mixed.conjugate()
    along = stiff - (to_mixed * solved_mixed).real
    along_step = ((to_mixed * solved_miss).real - tip + reach) / (abs(along) + TINY)
    return along_step, -solved_miss - solved_mixed * along_step


def square(z: Number) -> Number:
    """Of the length of a complex number, or of those of an array."""
    return (z * z.conjugate()).real
