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

Directions are given by their part along u ``(n, m)`` and the complex rest, Y + i N ``(n, m)``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from .transforms import TINY

# A complex number, or an array of them.
Number = Any

# Half cosine of a swing below which its axis is lost in rounding.
_OPPOSITE = 1e-9


def swings(along: np.ndarray, off: np.ndarray, posed_along: np.ndarray, posed_off: np.ndarray) -> np.ndarray:
    """Quaternions of the bones' turns; the first bone's parent is not turned.

    A swing by 180 degrees in the plane of u and Y is about N.

    Args:
        along, off: ``(n, m)`` directions of the bones before, root to tip.
        posed_along, posed_off: the same after.

    Returns:
        ``(4, n, m)`` parts w, u, Y, N of the quaternions, of any length but zero.
    """
    first, second = _spinors(along, off, posed_along, posed_off)
    parent, bone = slice(None, -1), slice(1, None)
    even = first[:, parent].conj() * first[:, bone] + second[:, parent].conj() * second[:, bone]
    odd = first[:, parent] * second[:, bone] - second[:, parent] * first[:, bone]
    even, odd = even[0].conj() * even[1], odd[0].conj() * odd[1]
    root = first[0, 0].conj() * first[1, 0] + second[0, 0].conj() * second[1, 0]
    untwist = _twists(root, even, odd).conj()
    upper, lower = untwist * first[1], untwist * second[1]
    straight = upper * first[0].conj() + lower.conj() * second[0]
    across = lower * first[0].conj() - upper.conj() * second[0]
    return np.stack((straight.real, -straight.imag, -across.imag, across.real))


def turn_matrices(turns: np.ndarray) -> np.ndarray:
    """Rotation matrices ``(3, 3, n, m)`` of the quaternions ``(4, n, m)``, of any length but zero."""
    real, vector = turns[0], turns[1:]
    squares = vector * vector
    scale = 2.0 / (squares[0] + squares[1] + squares[2] + real * real)
    scaled = vector * scale
    matrices = vector[:, None] * scaled
    squares *= scale
    matrices[0, 0] = 1.0 - squares[1] - squares[2]
    matrices[1, 1] = 1.0 - squares[2] - squares[0]
    matrices[2, 2] = 1.0 - squares[0] - squares[1]
    scaled *= real
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        matrices[j, i] += scaled[k]
        matrices[i, j] -= scaled[k]
    return matrices


def _spinors(
    along: np.ndarray, off: np.ndarray, posed_along: np.ndarray, posed_off: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """First and second part ``(2, n, m)`` of the pairs for the directions before and after."""
    along, off = np.stack((along, posed_along)), np.stack((off, posed_off))
    back = along < 0.0
    # Of the two forms, which differ by a factor, the one that keeps its digits.
    return np.where(back, off.conj(), 1.0 + along), np.where(back, 1.0 - along, off)


def _twists(root: np.ndarray, even: np.ndarray, odd: np.ndarray) -> np.ndarray:
    """The units h of all bones ``(n, m)``, from what each takes from its parent's."""
    size = np.abs(even) + np.abs(odd) + TINY
    even, odd = even / size, odd / size
    if len(root) == 1:
        # Python's own numbers are faster than arrays of one.
        twists = np.array(_chained(root.item(), even[:, 0].tolist(), odd[:, 0].tolist()))[:, None]
    else:
        twists = np.array(_chained(root, even, odd))
    size = np.abs(twists)
    lost = size < _OPPOSITE
    lost[1:] |= size[1:] < _OPPOSITE * size[:-1]
    if lost.any():
        return np.array(_chained_units(root, even, odd))
    return twists / size


def _chained(root: Number, even: Iterable[Number], odd: Iterable[Number]) -> list[Number]:
    twists = [root]
    for kept, mirrored in zip(even, odd, strict=True):
        twists.append(kept * twists[-1] + mirrored * twists[-1].conjugate())
    return twists


def _chained_units(root: np.ndarray, even: np.ndarray, odd: np.ndarray) -> list[np.ndarray]:
    """`_chained`, but a bone that has swung by 180 degrees has no twist to hand on."""
    twists = [_unit(root)]
    for kept, mirrored in zip(even, odd, strict=True):
        twists.append(_unit(kept * twists[-1] + mirrored * twists[-1].conj()))
    return twists


def _unit(twist: np.ndarray) -> np.ndarray:
    size = np.abs(twist)
    lost = size < _OPPOSITE
    return np.where(lost, 1.0, twist) / np.where(lost, 1.0, size)
