# SPDX-License-Identifier: GPL-3.0-or-later
"""What a curve does between the keys of a bake.

Between two keys the curve is the parabola through both keys and the solved pose half-way.
It is local: a jump in the motion bends no curve beside it, as spline tangents over several
keys would. The half-way pose need not be solved where the keys around foretell it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .channels import to_quaternion
from .transforms import length, make_compatible, normalize

# Half-way between keys the cubic through four of them misses by this share of the fourth
# difference of the keys; at the ends of the range by 5/128 (Newton's remainder).
INNER, OUTER = 3.0 / 128.0, 5.0 / 128.0
QUARTERS = (0.25, 0.75)


def foretell(q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The pose half-way between keys, as the cubic through the four nearest keys has it.

    Args:
        q: ``(S, k, 4)`` unit quaternions at equal distances in time, S >= 2, of
            neighbouring signs (see `transforms.make_compatible`).

    Returns:
        ``(S - 1, k, 4)`` unit quaternions, and ``(S - 1, k)`` how far they may be off,
        radians; infinite where there are fewer than five keys to judge by.
    """
    middle, doubt = foretell_vectors(q)
    # A quaternion's change is half of the angle.
    return normalize(middle), 2.0 * doubt


def foretell_vectors(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`foretell` for vectors ``(S, k, w)``; the doubt is in their unit."""
    middle = 0.5 * (rows[:-1] + rows[1:])
    doubt = np.full(middle.shape[:2], np.inf)
    if len(rows) < 5:
        return middle, doubt
    middle[1:-1] = (9.0 * (rows[1:-2] + rows[2:-1]) - rows[:-3] - rows[3:]) / 16.0
    middle[0] = (5.0 * rows[0] + 15.0 * rows[1] - 5.0 * rows[2] + rows[3]) / 16.0
    middle[-1] = (5.0 * rows[-1] + 15.0 * rows[-2] - 5.0 * rows[-3] + rows[-4]) / 16.0
    fourth = length(np.diff(rows, n=4, axis=0))
    doubt[1:-1] = INNER * np.maximum(_padded(fourth, 0), _padded(fourth, 1))
    doubt[0], doubt[-1] = OUTER * fourth[0], OUTER * fourth[-1]
    return middle, doubt


def _padded(fourth: np.ndarray, before: int) -> np.ndarray:
    """Fourth differences with the first (`before` 1) or the last one once more."""
    parts = [fourth[:1], fourth] if before else [fourth, fourth[-1:]]
    return np.concatenate(parts)


def handles(rows: np.ndarray, middle: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values of the Bezier handles at a third and two thirds of the way between keys.

    Args:
        rows: ``(S, ...)`` values at the keys; middle: ``(S - 1, ...)`` half-way.

    Returns:
        The right handles of the keys but the last, the left handles of the keys but the
        first, ``(S - 1, ...)`` each: the parabola raised to a cubic.
    """
    return (4.0 * middle - rows[1:]) / 3.0, (4.0 * middle - rows[:-1]) / 3.0


def cost_of_mode(rows: np.ndarray, middle: np.ndarray, modes: Sequence[str]) -> np.ndarray:
    """How far the curves leave the motion between keys because of the rotation mode.

    Euler curves near gimbal lock swing about two axes at once: right on the keys, wrong
    between them. Measured at a quarter and three quarters of the way against the same
    parabola of quaternions.

    Args:
        rows: ``(S, k, 4)`` channel rows of the keys; middle: ``(S - 1, k, 4)`` half-way.

    Returns:
        ``(S - 1, k)`` the larger angle of the two, radians.
    """
    halfway = to_quaternion(middle, modes)
    start = make_compatible(to_quaternion(rows[:-1], modes)[None], halfway)[0]
    end = make_compatible(to_quaternion(rows[1:], modes)[None], halfway)[0]
    worst = np.zeros(middle.shape[:2])
    for t in QUARTERS:
        meant = normalize(_parabola(start, halfway, end, t))
        actual = to_quaternion(_parabola(rows[:-1], middle, rows[1:], t), modes)
        actual = make_compatible(actual[None], meant)[0]
        angle = 4.0 * np.arctan2(length(actual - meant), length(actual + meant))
        worst = np.maximum(worst, angle)
    return worst


def _parabola(start: np.ndarray, middle: np.ndarray, end: np.ndarray, t: float) -> np.ndarray:
    """Lagrange's parabola with the values `start`, `middle`, `end` at 0, 1/2, 1."""
    at_start, at_end = (1.0 - t) * (1.0 - 2.0 * t), t * (2.0 * t - 1.0)
    return at_start * start + 4.0 * t * (1.0 - t) * middle + at_end * end
