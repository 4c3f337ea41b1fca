# SPDX-License-Identifier: GPL-3.0-or-later
"""Orientation of one bone that takes its target's rotation or looks at it.

Orientations are rotation matrices whose columns are the bone's axes in the frame that all
input shares (the add-on uses armature space).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .bend_plane import ALIGNED, CONE, blend_sides, cross, dot, hinge_frames, pole_turn, smooth_step
from .job import REACHED, ZERO, Status
from .reach import soft_distance
from .swing import swings
from .transforms import (
    TINY,
    axis_angle_to_matrix,
    length,
    matrix_to_quaternion,
    normalize,
    perpendicular,
    quaternion_to_axis_angle,
    quaternion_to_matrix,
)

_SIN_CONE, _SIN_ALIGNED = float(np.sin(CONE)), float(np.sin(ALIGNED))
_Y = np.array([0.0, 1.0, 0.0])
# Sine of the angle between aim and up axis below which another up axis is taken.
_PARALLEL = 1e-6


@dataclass(frozen=True)
class AimResult:
    """What an aim did to a bone.

    Attributes:
        rotation: ``(..., 3, 3)`` new orientation of the bone.
        residual: ``(...)`` distance from the target to the aim ray, in the unit of the input.
        status: ``(...)`` int8, values of `Status`.
    """

    rotation: np.ndarray
    residual: np.ndarray
    status: np.ndarray


def axis_vector(axis: str | np.ndarray) -> np.ndarray:
    """Unit vectors ``(..., 3)`` of an axis: its name X, Y, Z, -X, -Y or -Z, or any vectors.

    Raises:
        ValueError: for another name, or numbers that are not finite vectors.
    """
    if isinstance(axis, str):
        if axis.removeprefix("-") not in ("X", "Y", "Z"):
            raise ValueError(f"axis: expected X, Y, Z, -X, -Y or -Z, got {axis!r}")
        unit = np.zeros(3)
        unit["XYZ".index(axis[-1])] = -1.0 if axis[0] == "-" else 1.0
        return unit
    vectors = np.asarray(axis, np.float64)
    if vectors.ndim == 0 or vectors.shape[-1] != 3 or not np.isfinite(vectors).all():
        raise ValueError(f"axis: expected finite vectors (..., 3), got shape {vectors.shape}")
    return normalize(vectors)


def match_rotation(target_rotation: np.ndarray, offset_yaw: np.ndarray | float) -> np.ndarray:
    """Orientation of a bone that takes its target's rotation.

    Args:
        target_rotation: ``(..., 3, 3)`` rotation of the target, in the bone's frame of reference.
        offset_yaw: ``(...)`` turn about the bone's own Y axis after the copy, radians.

    Returns:
        ``(..., 3, 3)`` orientation in the same frame.
    """
    return np.asarray(target_rotation, float) @ axis_angle_to_matrix(_Y, np.asarray(offset_yaw))


def look_at(
    orientation: np.ndarray,
    head: np.ndarray,
    target: np.ndarray,
    aim_axis: str | np.ndarray,
    up_axis: str | np.ndarray,
    pole: np.ndarray | None = None,
    pole_mask: np.ndarray | None = None,
    offset: np.ndarray | float = 0.0,
) -> AimResult:
    """Turn a bone about its head so that its aim axis points to the target.

    First the bone swings by the shortest way; one that points straight away from its target
    turns about its up axis. Then it rolls about the line to the target until its up axis
    stands to the side of the pole. Without a pole it does not roll, so a bone that is aimed
    already stays as it is (one whose target is behind its head, but ahead of an offset that is
    further behind, turns it to the front).

    With an offset (an eye, a muzzle) the ray starts at that point of the bone instead of the
    head. The point of the bone that meets the target then lies at w + q * aim, w being the
    offset's part across the aim axis and q = sqrt(distance^2 - |w|^2).

    Singular places: the target on the head (nothing is turned); the target straight behind
    the bone's FK aim; the pole or the up axis on the line to the target, where the roll fades
    out within `bend_plane.CONE` (status POLE_ALIGNED within `bend_plane.ALIGNED`).

    Args:
        orientation: ``(..., 3, 3)`` FK orientation of the bone.
        head, target: ``(..., 3)`` positions.
        aim_axis, up_axis: names or ``(..., 3)`` vectors in the bone's own frame. An up axis
            along the aim axis is replaced by Z, or by Y where the aim axis is Z.
        pole: ``(..., 3)`` direction that the up axis is kept toward, or None.
        pole_mask: ``(...)`` True where `pole` counts; None: everywhere.
        offset: ``(..., 3)`` where the ray starts, in the bone's own frame and the unit of the
            positions.

    Returns:
        Status TARGET_NEAR where the offset is larger than the distance, so that the ray
        passes the target: it then passes as near as it can.

    Raises:
        ValueError: for an axis that is none.
    """
    aim, up = axis_vector(aim_axis), axis_vector(up_axis)
    orientation, head, target = (np.asarray(a, float) for a in (orientation, head, target))
    offset = np.broadcast_to(np.asarray(offset, float), np.shape(offset) or (3,))
    vectors = [head, target, aim, up, offset] + ([] if pole is None else [np.asarray(pole, float)])
    batch = np.broadcast_shapes(
        orientation.shape[:-2],
        () if pole_mask is None else np.shape(pole_mask),
        *(v.shape[:-1] for v in vectors),
    )
    head, target, aim, up, offset, *poles = (np.broadcast_to(v, (*batch, 3)).reshape(-1, 3) for v in vectors)
    bone = np.broadcast_to(orientation, (*batch, 3, 3)).reshape(-1, 3, 3)
    up = _other_up(aim, up)

    way = target - head
    distance = length(way)
    here = distance <= ZERO * (length(head) + length(target)) + TINY
    line = normalize(way)
    along = np.einsum("mi,mi->m", offset, aim)
    aside = offset - along[:, None] * aim
    reach = np.sqrt(np.maximum(distance**2 - np.einsum("mi,mi->m", aside, aside), 0.0))
    meeting = normalize(aside + np.maximum(reach, along)[:, None] * aim, aim)

    now = np.einsum("mij,mj->im", bone, meeting)
    line = np.where(here, now, line.T)
    side = np.einsum("mij,mj->im", bone, up)
    turned = _swing(now, line, side) @ bone
    aligned = np.zeros(len(head), bool)
    if poles:
        side = np.einsum("mij,mj->im", turned, up)
        angle, aligned = _roll(line, side, poles[0].T, pole_mask, batch)
        turned = axis_angle_to_matrix(line.T, angle) @ turned
    rotation = np.where(here[:, None, None], bone, turned)

    residual = _distance_to_ray(rotation, way, aim, offset)
    status = np.where(aligned & ~here, np.int8(Status.POLE_ALIGNED), np.int8(Status.OK))
    status[residual > REACHED * (distance + length(offset))] = Status.TARGET_NEAR
    return AimResult(rotation.reshape(*batch, 3, 3), residual.reshape(batch), status.reshape(batch))


def limit_swing(
    orientation: np.ndarray,
    wanted: np.ndarray,
    limit: np.ndarray | float,
    damping: np.ndarray | float = 0.0,
) -> tuple[np.ndarray, np.ndarray]:
    """Keep the turn of a bone from its FK orientation within an angle.

    The turn, roll included, keeps its axis. Its angle a passes unchanged up to
    limit * (1 - damping) and is eased over the rest as in `reach.soft_distance`: value and slope
    are continuous, the limit is never exceeded, and with damping never reached. A limit of 180
    degrees or more is none. Singular: a wanted turn by 180 degrees, whose axis has no sign.

    Args:
        orientation, wanted: ``(..., 3, 3)`` FK and wanted orientation of the bone in one frame.
        limit: ``(...)`` radians; below 0 counts as 0.
        damping: ``(...)`` share of the limit that is eased, 0 to 1.

    Returns:
        orientation: ``(..., 3, 3)``; ``wanted`` to the bit where nothing is limited.
        limited: ``(...)`` True where the limit or its easing keeps the bone from it.
    """
    orientation, wanted = np.asarray(orientation, float), np.asarray(wanted, float)
    limit = np.asarray(np.maximum(limit, 0.0), float)
    turn = matrix_to_quaternion(wanted @ np.swapaxes(orientation, -1, -2))
    axis, angle = quaternion_to_axis_angle(turn)
    allowed = np.minimum(soft_distance(angle, limit, damping), limit)
    eased = (allowed < angle) & (limit < np.pi)
    held = axis_angle_to_matrix(axis, allowed) @ orientation
    return np.where(eased[..., None, None], held, wanted), eased & (allowed < angle - REACHED)


def _other_up(aim: np.ndarray, up: np.ndarray) -> np.ndarray:
    """Up axes ``(m, 3)`` that are not along the aim axes ``(m, 3)``."""
    parallel = length(np.cross(aim, up)) < _PARALLEL * length(up)
    if not parallel.any():
        return up
    other = np.where(np.abs(aim[:, 2:]) > 0.9, np.array([0.0, 1.0, 0.0]), np.array([0.0, 0.0, 1.0]))
    return np.where(parallel[:, None], other, up)


def _swing(now: np.ndarray, line: np.ndarray, side: np.ndarray) -> np.ndarray:
    """Shortest turns ``(m, 3, 3)`` of ``now`` onto ``line``, of opposites about ``side``; all ``(3, m)``."""
    _, across, other = hinge_frames(line[None], side)[:, 0]
    along, off = dot(now, line), 1j * dot(now, across) - dot(now, other)
    ahead = np.ones((1, len(along)))
    real, about, aside, over = swings(along[None], off[None], ahead, 0j * ahead)[:, 0]
    vector = about * line - aside * other + over * across
    return quaternion_to_matrix(np.concatenate((real[None], vector)).T)


def _roll(
    line: np.ndarray,
    up: np.ndarray,
    pole: np.ndarray,
    mask: np.ndarray | None,
    batch: tuple[int, ...],
) -> tuple[np.ndarray, np.ndarray]:
    """Angle ``(m,)`` about ``line`` from the up axis to the pole, and where one is along the line.

    All vectors ``(3, m)``.
    """
    size = np.sqrt(dot(pole, pole))
    counts = (size > TINY) & (dot(up, up) > 0.0)
    if mask is not None:
        counts = counts & np.broadcast_to(mask, batch).reshape(-1)
    up = up - dot(up, line) * line
    off_line = np.sqrt(dot(up, up))
    up = np.where(off_line > _SIN_ALIGNED, up / np.maximum(off_line, TINY), perpendicular(line.T).T)
    cosine, sine, aligned = pole_turn(
        pole / np.maximum(size, TINY), np.stack((cross(line, up), -up)), counts, None
    )
    aligned = np.zeros_like(counts) if aligned is None else aligned
    near = off_line < _SIN_CONE
    if near.any():
        part = blend_sides(smooth_step(off_line, _SIN_ALIGNED, _SIN_CONE), cosine, sine)
        cosine, sine = np.where(near, part[0], cosine), np.where(near, part[1], sine)
        aligned = aligned | (counts & (off_line < _SIN_ALIGNED))
    return np.arctan2(sine, cosine), aligned


def _distance_to_ray(
    rotation: np.ndarray, way: np.ndarray, aim: np.ndarray, offset: np.ndarray
) -> np.ndarray:
    """Distance ``(m,)`` from the target at ``way`` from the head to the ray of the turned bone."""
    local = np.einsum("mji,mj->mi", rotation, way) - offset
    ahead = np.maximum(np.einsum("mi,mi->m", local, aim), 0.0)
    return length(local - ahead[:, None] * aim)
