# SPDX-License-Identifier: GPL-3.0-or-later
"""Turns of a chain's bones that lead from one pose to another without roll.

Each bone takes its parent's turn and then swings by the shortest way onto its new direction.
So no bone is twisted against its parent, and no roll piles up along the chain.

Done bone by bone this needs one bone's turn for the next. Here all bones swing at once from
their own direction before, which leaves each with a twist against its parent; the twists that
undo this follow from one another by a map of two numbers, the only thing done bone by bone.

Arrays have the batch last.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from .bend_plane import cross, dot
from .transforms import perpendicular

# A complex number, or an array of them.
Number = Any

# Half cosine of a swing below which its axis is lost in rounding.
_OPPOSITE = 1e-9
# Sine of the angle between a bone and the hinge below which another axis is taken.
_PARALLEL = 1e-6
# Cosine between the directions before and after below which a bone is turned back first.
_BACK = -0.5


def swings(before: np.ndarray, after: np.ndarray, hinge: np.ndarray) -> np.ndarray:
    """Quaternions of the bones' turns; the first bone's parent is not turned.

    Args:
        before, after: ``(n, 3, m)`` unit vectors along the bones, root to tip.
        hinge: ``(3, 1)`` or ``(3, m)`` unit (or no) axis of swings by 180 degrees, of which it takes
            the part at right angles to the bone.

    Returns:
        ``(n, 4, m)`` unit quaternions w, x, y, z.
    """
    real, vector = _own_swings(before, after, hinge)
    twist = _twists(real, vector, before)
    cosine, sine = twist.real, twist.imag[:, None]
    turns = np.empty((len(before), 4, before.shape[-1]))
    turns[:, 0] = cosine * real - twist.imag * dot(vector, before)
    turns[:, 1:] = cosine[:, None] * vector + sine * (real[:, None] * before + cross(vector, before))
    return turns


def _own_swings(before: np.ndarray, after: np.ndarray, hinge: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Real ``(n, m)`` and vector part ``(n, 3, m)`` of a turn of each bone onto its direction."""
    back = dot(before, after) < _BACK
    turned_back = back.any()
    start = np.where(back[:, None], -before, before) if turned_back else before
    middle = start + after
    size = np.sqrt(dot(middle, middle))
    real, vector = 0.5 * size, cross(start, after) / size[:, None]
    if turned_back:
        axis = _across(before, hinge)
        real, vector = (
            np.where(back, -dot(vector, axis), real),
            np.where(back[:, None], real[:, None] * axis + cross(vector, axis), vector),
        )
    return real, vector


def _across(bones: np.ndarray, hinge: np.ndarray) -> np.ndarray:
    """Unit vectors at right angles to the bones, the hinge's part wherever it has one."""
    axis = hinge - dot(bones, hinge)[:, None] * bones
    size = np.sqrt(dot(axis, axis))[:, None]
    parallel = size < _PARALLEL
    axis = axis / np.where(parallel, 1.0, size)
    if parallel.any():
        other = np.moveaxis(perpendicular(np.moveaxis(bones, 1, -1)), -1, 1)
        axis = np.where(parallel, other, axis)
    return axis


def _twists(real: np.ndarray, vector: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Twist of each bone about its direction before, as cosine + i sine of half the angle ``(n, m)``.

    With the twist h of the parent, the local turn of a bone is h^-1 (parent swing)^-1 (own
    swing): linear in h. Its twist part is what the bone's own twist has to undo.
    """
    parent, bone = before[:-1], before[1:]
    local = real[:-1] * real[1:] + dot(vector[:-1], vector[1:])
    turn = real[:-1, None] * vector[1:] - real[1:, None] * vector[:-1] - cross(vector[:-1], vector[1:])
    to_sine = -dot(turn, bone)
    from_sine = dot(parent, turn)
    kept = local * dot(parent, bone) + dot(cross(parent, turn), bone)
    straight = 0.5 * ((local + kept) + 1j * (to_sine - from_sine))
    mirrored = 0.5 * ((local - kept) + 1j * (to_sine + from_sine))
    first = real[0] - 1j * dot(vector[0], before[0])
    if before.shape[-1] == 1:
        # Python's own numbers are faster than arrays of one.
        rows = zip(straight[:, 0].tolist(), mirrored[:, 0].tolist(), strict=True)
        return np.array(_chained(first.item(), rows))[:, None]
    return np.array(_chained(first, zip(straight, mirrored, strict=True)))


def _chained(first: Number, rows: Iterable[tuple[Number, Number]]) -> list[Number]:
    """All twists in turn, as units; a swing by 180 degrees takes none."""
    twists = [_unit(first)]
    for straight, mirrored in rows:
        twists.append(_unit(straight * twists[-1] + mirrored * twists[-1].conjugate()))
    return twists


def _unit(twist: Number) -> Number:
    size = abs(twist)
    lost = size < _OPPOSITE
    return (twist + lost) / (size + lost)
