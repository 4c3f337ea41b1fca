# SPDX-License-Identifier: GPL-3.0-or-later
"""The pose of a free chain whose tip is at a given distance, next to the pose it starts from.

Take the line from the root to the target as the axis of a unit sphere, and each bone's
direction as a point of it: u is straight on, -u straight back. Seen from the point -u
(stereographic projection), the sphere becomes a plane, a bone at the angle t from u a
point z at the distance tan(t / 2) from the middle. The family of poses that is searched is

    z -> (z + shift) * scale    one complex shift, one positive scale for all bones.

A scale below 1 straightens the chain, one above 1 folds it, the shift keeps the tip on the
line. These are the maps of the sphere that keep angles and hold -u: the bones' order and
bend side stay, and a small step is the smallest turn of all bones, weighted by length, that
moves the tip by that much. For each distance strictly between the inner and the outer radius
exactly one member of the family closes the polygon of the bones and the line, unless bones of
one and the same direction make up half of it or more (Kapovich and Millson, "The symplectic
geometry of polygons in Euclidean space", 1996; here the line is one more edge). So the answer
is a smooth function of the distance and of the start, whatever leads to it.

It is the minimum of a convex function on hyperbolic space, which Newton steps along geodesics
find in a few iterations (Cantarella and Schumacher, "Computing the conformal barycenter",
2022). Steps are capped, since far from the minimum full ones can cycle.

Lengths and distances are shares of the chain's length, arrays have the batch last.
"""

from __future__ import annotations

import numpy as np

from .transforms import TINY

# Longest Newton step, as a distance in hyperbolic space: it scales angles by at most e^1.5.
_STEP = 1.5
# Bend, in the projection, that is mixed into a chain that has to fold ...
_ARC = 0.02
# ... in full from this much folding on.
_ARC_ONSET = 0.1
# Sine of the angle to -u below which a bone is set off from it.
_BACK = 1e-6


def project(bones: np.ndarray, arc: np.ndarray, side: np.ndarray) -> np.ndarray:
    """Points of the plane for the bones' directions.

    Args:
        bones: ``(n, 3, m)`` unit vectors in the frame (u, Y, N) of the line.
        arc: ``(n, m)`` from `bow`.
        side: ``(m,)`` complex unit, where the chain bends to: Y is 1, N is 1j. A bone that
            points straight back leaves the line as a bow to that side would.
    """
    along, off = bones[:, 0], bones[:, 1] + 1j * bones[:, 2]
    lift = 1.0 + along
    back = along < 0.0
    if back.any():
        square = off.real**2 + off.imag**2
        stuck = back & (square < _BACK**2)
        off = np.where(stuck, np.copysign(_BACK, arc) * side, off)
        # Close to -u the sum 1 + along loses its digits, this form of it does not.
        lift = np.where(back, np.where(stuck, _BACK**2, square) / (1.0 - along), lift)
    return off / lift


def directions(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Parts of the unit directions along the line ``(n, m)``, and complex along Y and N ``(n, m)``."""
    twice = 2.0 / (1.0 + points.real**2 + points.imag**2)
    return twice - 1.0, twice * points


def bow(lengths: np.ndarray) -> np.ndarray:
    """Weights ``(n, m)``, from 1 at the root to -1 at the tip, that bend a straight chain to an arc."""
    return 1.0 - 2.0 * np.cumsum(lengths, axis=0) + lengths


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
    amount = _ARC * np.minimum(np.maximum(folding / _ARC_ONSET, 0.0), 1.0)
    return points + arc * (amount * side)


def close(
    points: np.ndarray,
    lengths: np.ndarray,
    distance: np.ndarray,
    active: np.ndarray,
    iterations: int,
    tolerance: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Bring the tip to ``distance`` along the line.

    Args:
        points: ``(n, m)`` from `project`.
        lengths: ``(n, m)``, of sum 1.
        distance: ``(m,)`` between the inner radius and 1.
        active: ``(m,)`` False for chains that shall be left as they are.
        iterations: most Newton steps.
        tolerance: gap at which a chain is done; from there on it does not change.

    Returns:
        along: ``(n, m)`` parts of the unit directions along the line.
        off: ``(n, m)`` complex, parts along Y and N.
        gap: ``(m,)`` distance from the tip to its place.
        steps: how many steps were made.
    """
    points = _first_guess(points, lengths, distance)
    for step in range(iterations + 1):
        twice = 2.0 / (1.0 + points.real**2 + points.imag**2)
        off = twice * points
        weighted = lengths * off
        miss_off = weighted.sum(axis=0)
        miss = np.einsum("nm,nm->m", lengths, twice) - (1.0 + distance)
        gap = np.sqrt(miss * miss + miss_off.real**2 + miss_off.imag**2)
        active = active & (gap > tolerance)
        if step == iterations or not active.any():
            break
        along_step, off_step = _newton(twice, off, weighted, miss, miss_off, distance)
        points = _travel(points, along_step, off_step, active)
    return twice - 1.0, off, gap, step


def _first_guess(points: np.ndarray, lengths: np.ndarray, distance: np.ndarray) -> np.ndarray:
    """The scale that would be right if all bones stood at the same angle to the line."""
    square = points.real**2 + points.imag**2
    # Half of what the tip lacks to full reach; from 1 - cos, so straight chains keep their digits.
    lack = np.einsum("nm,nm->m", lengths, square / (1.0 + square))
    ratio = (1.0 - distance) / (1.0 + distance) * ((1.0 - lack) / np.maximum(lack, TINY))
    return points * np.sqrt(ratio)


def _newton(
    twice: np.ndarray,
    off: np.ndarray,
    weighted: np.ndarray,
    miss: np.ndarray,
    miss_off: np.ndarray,
    distance: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """The step -H^-1 (miss, miss_off) with H = sum of l (1 - b b^T) over bones and line.

    H splits into the part along the line and the one across it; the latter acts on a complex
    number as a -> spread a - skew conj(a).
    """
    stiff = np.einsum("nm,nm->m", weighted.real, off.real) + np.einsum("nm,nm->m", weighted.imag, off.imag)
    mixed = miss_off - np.einsum("nm,nm->m", twice, weighted)
    skew = 0.5 * np.einsum("nm,nm->m", weighted, off)
    spread = 1.0 + distance - 0.5 * stiff
    across = 1.0 / np.maximum(spread * spread - (skew.real**2 + skew.imag**2), TINY)
    solved_mixed = (spread * mixed + skew * mixed.conj()) * across
    solved_miss = (spread * miss_off + skew * miss_off.conj()) * across
    along = stiff - (mixed.real * solved_mixed.real + mixed.imag * solved_mixed.imag)
    coupled = mixed.real * solved_miss.real + mixed.imag * solved_miss.imag
    along_step = (coupled - miss) / np.maximum(along, TINY)
    return along_step, -solved_miss - solved_mixed * along_step


def _travel(points: np.ndarray, along: np.ndarray, off: np.ndarray, active: np.ndarray) -> np.ndarray:
    """The points after a step along a geodesic of the upper half-space, from its point (0, 1)."""
    size = np.sqrt(along * along + off.real**2 + off.imag**2)
    path = np.where(active, np.minimum(size, _STEP), 0.0)
    rate = np.sinh(path) / np.maximum(size, TINY)
    return points * (np.cosh(path) - along * rate) + off * rate
