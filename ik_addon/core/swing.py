# SPDX-License-Identifier: GPL-3.0-or-later
"""Turns of a chain's bones that lead from one pose to another without roll.

Each bone takes its parent's turn and then swings by the shortest way onto its new direction,
so no bone is twisted against its parent, and no roll piles up along the chain.

Done in this order, each bone has to wait for its parent. With half angles only one number a
bone has to: a direction at the angle t from the axis u of the frame (u, Y, N), at the azimuth p
from Y to N, is the pair of complex numbers (cos(t/2), sin(t/2) e^ip), up to a common factor
(a spinor). A turn is a unitary matrix on such pairs,

    U = conj(h) x' x^H + h y' y^H      y = (-conj(x2), conj(x1)), at right angles to x

which carries the bone's direction x onto x'; the phase of h is its twist about the bone. It
has no twist against its parent V if x^H V^H U x is real, so

    h = phase of h_V conj(x_V^H x) x'_V^H x' + conj(h_V) conj(y_V^H x) y'_V^H x'

Arrays have the bones first, root to tip, and the batch last.
"""

from __future__ import annotations

import numpy as np

from .transforms import TINY

# Both numbers of the spinors of some directions.
Spinors = tuple[np.ndarray, np.ndarray]
# Half cosine of a swing below which its axis is lost in rounding.
_OPPOSITE = 1e-9


def swings(before: Spinors, after: Spinors) -> np.ndarray:
    """Quaternions of the bones' turns; the first bone's parent is not turned.

    A swing by 180 degrees in the plane of u and Y is about N.

    Args:
        before, after: both numbers of the bones' directions, ``(n, m)`` each, root to tip, of any
            length but zero, as from `closing.spinors`.

    Returns:
        ``(4, n, m)`` parts w, u, Y, N of the quaternions, of any length but zero.
    """
    count, size = before[0].shape
    # Both numbers, before and after; u stands for the parent of the first bone.
    pairs = np.zeros((2, 2, count + 1, size), complex)
    pairs[0, :, 0] = 1.0
    pairs[0, 0, 1:], pairs[1, 0, 1:] = before
    pairs[0, 1, 1:], pairs[1, 1, 1:] = after
    bones, parents = pairs[:, :, 1:], pairs[:, :, :-1]
    along = parents.conj() * bones
    apart = parents[0] * bones[1] - parents[1] * bones[0]
    along = along[0] + along[1]
    twist = twists(along[0].conj() * along[1], apart[0].conj() * apart[1])
    first, second = bones[:, 0]
    upper, lower = bones[:, 1] * twist.conj()
    straight = upper * first.conj() + lower.conj() * second
    across = lower * first.conj() - upper.conj() * second
    out = np.empty((4, *straight.shape))
    out[0], out[3] = straight.real, across.real
    np.negative(straight.imag, out=out[1])
    np.negative(across.imag, out=out[2])
    return out


def twists(even: np.ndarray, odd: np.ndarray) -> np.ndarray:
    """The units h of all bones, from what each takes from its parent's, h = even h_V + odd h_V*.

    Args:
        even, odd: ``(n, m)``, or ``(n,)`` of a single chain.
    """
    if even.ndim == 1:
        return np.array(_single_twists(even.tolist(), odd.tolist()))
    scale = 1.0 / (np.abs(even) + np.abs(odd) + TINY)
    even, odd = even * scale, odd * scale
    rows, twist = [], np.ones(even.shape[1:], complex)
    for kept, mirrored in zip(even, odd, strict=True):
        twist = kept * twist + mirrored * twist.conj()
        rows.append(twist)
    found = np.array(rows)
    size = np.abs(found)
    lost = size < _OPPOSITE
    lost[1:] |= size[1:] < _OPPOSITE * size[:-1]
    if lost.any():
        columns = [_single_twists(*pair) for pair in zip(even.T.tolist(), odd.T.tolist(), strict=True)]
        return np.array(columns).T
    return found / size


def _single_twists(even: list[complex], odd: list[complex]) -> list[complex]:
    """Of one chain, in Python's own numbers, which are faster than arrays of one.

    A bone that has swung by 180 degrees has no twist to hand on.
    """
    found, twist = [], 1.0 + 0.0j
    for kept, mirrored in zip(even, odd, strict=True):
        twist = kept * twist + mirrored * twist.conjugate()
        size = abs(twist)
        lost = size < _OPPOSITE * (abs(kept) + abs(mirrored) + TINY)
        twist = 1.0 + 0.0j if lost else twist / size
        found.append(twist)
    return found
