# SPDX-License-Identifier: GPL-3.0-or-later
"""Rotation channels as Blender stores them, in each bone's rotation mode.

A *channel row* has four numbers: a quaternion wxyz, an axis-angle (angle, x, y, z), or
Euler angles (x, y, z, 0). Modes are Blender's names: QUATERNION, AXIS_ANGLE, or an Euler
order.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from .transforms import (
    EULER_ORDERS,
    NO_TURN,
    axis_angle_to_quaternion,
    euler_to_matrix,
    make_compatible,
    matrix_to_euler,
    matrix_to_quaternion,
    normalize,
    quaternion_to_axis_angle,
    quaternion_to_matrix,
)

MODES = ("QUATERNION", *EULER_ORDERS, "AXIS_ANGLE")
Y_AXIS = np.array([0.0, 1.0, 0.0])


@lru_cache(maxsize=256)
def _places_of(modes: tuple[str, ...]) -> tuple[tuple[str, np.ndarray | slice], ...]:
    kinds = dict.fromkeys(modes)
    if len(kinds) == 1:
        return ((modes[0], slice(None)),)
    array = np.asarray(modes)
    return tuple((mode, np.flatnonzero(array == mode)) for mode in kinds)


def _places(modes: Sequence[str]) -> tuple[tuple[str, np.ndarray | slice], ...]:
    """The modes that occur, each with the places of its bones."""
    return _places_of(tuple(modes))


def to_quaternion(rows: np.ndarray, modes: Sequence[str]) -> np.ndarray:
    """Unit quaternions ``(..., k, 4)`` of channel rows ``(..., k, 4)``, one mode a bone.

    As in Blender, a zero quaternion means no turn and a zero axis means Y.
    """
    out = np.empty(rows.shape)
    for mode, at in _places(modes):
        part = np.asarray(rows[..., at, :], float)
        if mode == "QUATERNION":
            out[..., at, :] = normalize(part, NO_TURN)
        elif mode == "AXIS_ANGLE":
            out[..., at, :] = axis_angle_to_quaternion(normalize(part[..., 1:], Y_AXIS), part[..., 0])
        else:
            out[..., at, :] = matrix_to_quaternion(euler_to_matrix(part[..., :3], mode))
    return out


def from_quaternion(q: np.ndarray, modes: Sequence[str], near: np.ndarray) -> np.ndarray:
    """Channel rows ``(..., k, 4)`` of unit quaternions, of the equal ones those next to `near`.

    Args:
        q: ``(..., k, 4)`` unit quaternions.
        modes: k rotation modes.
        near: ``(..., k, 4)`` channel rows, such as the FK channels or the key before.
    """
    out = np.zeros(q.shape)
    for mode, at in _places(modes):
        part, other = q[..., at, :], np.asarray(near[..., at, :], float)
        if mode == "QUATERNION":
            opposite = np.einsum("...i,...i->...", part, other) < 0.0
            out[..., at, :] = np.where(opposite[..., None], -part, part)
        elif mode == "AXIS_ANGLE":
            out[..., at, :] = _nearest_axis_angle(part, other)
        else:
            euler = matrix_to_euler(quaternion_to_matrix(part), mode)
            out[..., at, :3] = nearest_euler(euler, other[..., :3], mode)
    return out


def continuous(rows: np.ndarray, modes: Sequence[str], before: np.ndarray | None = None) -> np.ndarray:
    """Rows ``(frames, k, 4)`` rewritten such that each is the one nearest to the row before it.

    Quaternions and axis-angles may change their sign, Euler angles are replaced by the
    equal triple that is nearest. The first row follows ``before`` ``(k, 4)`` when given.
    """
    out = rows.copy()
    for mode, at in _places(modes):
        first = None if before is None else before[at]
        if mode == "QUATERNION":
            out[:, at] = make_compatible(rows[:, at], first)
            continue
        last = rows[0, at] if first is None else first
        for frame in range(len(rows)):
            if mode == "AXIS_ANGLE":
                q = axis_angle_to_quaternion(rows[frame, at, 1:], rows[frame, at, 0])
                last = _nearest_axis_angle(q, last)
                out[frame, at] = last
            else:
                out[frame, at, :3] = nearest_euler(rows[frame, at, :3], last[:, :3], mode)
                last = out[frame, at]
    return out


def nearest_euler(euler: np.ndarray, near: np.ndarray, order: str) -> np.ndarray:
    """Of all Euler triples of the same rotation the one with the least change from `near`.

    Both ``(..., 3)``. Each rotation has two families of triples, shifted by whole turns;
    `mathutils.Euler.make_compatible` looks at the second only in special cases.
    """
    _, middle, _, _ = EULER_ORDERS[order]
    other = euler + np.pi
    other[..., middle] = np.pi - euler[..., middle]
    candidates = np.stack([euler, other])
    candidates = candidates - 2.0 * np.pi * np.round((candidates - near) / (2.0 * np.pi))
    change = np.abs(candidates - near).sum(axis=-1)
    return np.where((change[1] < change[0])[..., None], candidates[1], candidates[0])


def _nearest_axis_angle(q: np.ndarray, near: np.ndarray) -> np.ndarray:
    axis, angle = quaternion_to_axis_angle(q)
    side = np.einsum("...i,...i->...", axis, near[..., 1:])
    # No turn has no axis: keep the one before.
    still = (angle < 1e-12)[..., None] & np.any(near[..., 1:] != 0.0, axis=-1, keepdims=True)
    axis = np.where(still, near[..., 1:], np.where((side < 0.0)[..., None], -axis, axis))
    angle = np.where((side < 0.0) & ~still[..., 0], -angle, angle)
    angle = angle - 2.0 * np.pi * np.round((angle - near[..., 0]) / (2.0 * np.pi))
    return np.concatenate([angle[..., None], axis], axis=-1)
