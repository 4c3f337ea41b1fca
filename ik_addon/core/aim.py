# SPDX-License-Identifier: GPL-3.0-or-later
"""Orientation of one bone that takes its target's rotation or looks at it.

Orientations are rotation matrices whose columns are the bone's axes in the frame that all
input shares (the add-on uses armature space).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from .aim_few import OBLIQUE, few_aims
from .bend_plane import (
    PARALLEL,
    SIN_ALIGNED,
    SIN_CONE,
    blend_sides,
    carried_plane,
    cross,
    dot,
    pole_turn,
    smooth_step,
)
from .job import REACHED, ZERO, Status
from .reach import soft_distance
from .transforms import (
    TINY,
    axis_angle_to_matrix,
    length,
    matrix_to_quaternion,
    normalize,
    perpendicular,
    quaternion_to_axis_angle,
)

_Y = np.array([0.0, 1.0, 0.0])
# Temporaries of this many bones stay in the processor's cache.
BLOCK = 1280


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
    aim, up = _axes(aim_axis, up_axis)
    orientation, head, target = (np.asarray(a, float) for a in (orientation, head, target))
    offset = np.broadcast_to(np.asarray(offset, float), np.shape(offset) or (3,))
    vectors = [head, target, aim, up, offset]
    if pole is not None:
        vectors.append(np.asarray(pole, float))
    batch = np.broadcast_shapes(
        orientation.shape[:-2],
        () if pole_mask is None else np.shape(pole_mask),
        *(v.shape[:-1] for v in vectors),
    )
    bones = np.broadcast_to(orientation, (*batch, 3, 3)).reshape(-1, 3, 3)
    mask = None if pole_mask is None else np.broadcast_to(pole_mask, batch).reshape(-1)
    rotation, residual, status = few_aims(bones, vectors, batch, mask) or _look_at_all(
        bones, vectors, batch, mask
    )
    return AimResult(rotation.reshape(*batch, 3, 3), residual.reshape(batch), status.reshape(batch))


def _look_at_all(
    bones: np.ndarray, vectors: list[np.ndarray], batch: tuple[int, ...], mask: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`look_at` of any number of bones, with arguments as in `aim_few.few_aims`."""
    bone = bones.transpose(1, 2, 0)
    # Axes and offsets that all bones share stay single columns.
    shared = [v.ndim == 1 and 2 <= i < 5 for i, v in enumerate(vectors)]
    columns = [
        v[:, None] if single else np.broadcast_to(v, (*batch, 3)).reshape(-1, 3).T
        for v, single in zip(vectors, shared, strict=True)
    ]
    count = bone.shape[-1]
    rotation, residual, status = np.empty((3, 3, count)), np.empty(count), np.empty(count, np.int8)
    for start in range(0, count, BLOCK):
        cut = np.s_[..., start : start + BLOCK]
        part = [v if single else v[cut] for v, single in zip(columns, shared, strict=True)]
        solved = _look_at(np.ascontiguousarray(bone[cut]), part, None if mask is None else mask[cut])
        rotation[cut], residual[cut], status[cut] = solved
    return rotation.transpose(2, 0, 1), residual, status


def _look_at(
    bone: np.ndarray, vectors: list[np.ndarray], mask: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`look_at` with the batch last.

    Args:
        bone: ``(3, 3, m)``.
        vectors: head and target ``(3, m)``; aim axis, up axis and offset ``(3, m)`` or ``(3, 1)``;
            pole ``(3, m)``, if there is one.
        mask: ``(m,)`` or None.

    Returns:
        Rotation ``(3, 3, m)``, residual and status ``(m,)``.
    """
    head, target, aim, up, offset, *poles = vectors
    way = target - head
    distance = np.sqrt(dot(way, way))
    here = distance <= ZERO * (np.sqrt(dot(head, head)) + np.sqrt(dot(target, target))) + TINY
    reach = np.sqrt(dot(offset, offset))
    meeting = _meeting(aim, offset, distance) if reach.any() else aim
    now, side = _carried(bone, meeting), _carried(bone, up)
    line = way / np.maximum(distance, TINY)
    if here.any():
        line = np.where(here, now, line)

    # The side of the up axis before and after the swing, and how far it is off the line.
    flat = side - dot(side, now) * now
    off_line = np.sqrt(dot(flat, flat))
    along = off_line < PARALLEL
    flat /= np.maximum(off_line, TINY)
    if along.any():
        flat = np.where(along, perpendicular(now.T).T, flat)
    if (off_line < OBLIQUE).any():
        # What is left of a vector near the line leans along it by its rounding.
        flat -= dot(flat, now) * now
        flat /= np.sqrt(dot(flat, flat))
    turned = carried_plane(now, flat[None], line)[0]
    turned = turned - dot(turned, line) * line
    turned /= np.sqrt(dot(turned, turned))
    across = cross(line, turned)
    status = np.zeros(len(distance), np.int8)
    if poles:
        cosine, sine, aligned = _roll(poles[0], turned, across, off_line, side, mask)
        turned, across = cosine * turned + sine * across, cosine * across - sine * turned
        status[aligned & ~here] = Status.POLE_ALIGNED
    # Parts of the bone's axes in the frame before, put into the frame after.
    parts = [_carried(bone.transpose(1, 0, 2), axis) for axis in (now, flat, cross(now, flat))]
    rotation = line[:, None] * parts[0] + turned[:, None] * parts[1] + across[:, None] * parts[2]
    if here.any():
        rotation = np.where(here, bone, rotation)

    local = _carried(rotation.transpose(1, 0, 2), way) - offset
    local -= np.maximum(dot(local, aim), 0.0) * aim
    residual = np.sqrt(dot(local, local))
    status[residual > REACHED * (distance + reach)] = Status.TARGET_NEAR
    return rotation, residual, status


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


def _axes(aim_axis: str | np.ndarray, up_axis: str | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Aim and up axes ``(..., 3)``, the latter not along the former."""
    if isinstance(aim_axis, str) and isinstance(up_axis, str):
        return _named_axes(aim_axis, up_axis)
    aim, up = axis_vector(aim_axis), axis_vector(up_axis)
    parallel = length(np.cross(aim, up)) < PARALLEL * length(up)
    if not parallel.any():
        return aim, up
    other = np.where(np.abs(aim[..., 2:]) > 0.9, np.array([0.0, 1.0, 0.0]), np.array([0.0, 0.0, 1.0]))
    return aim, np.where(parallel[..., None], other, up)


@cache
def _named_axes(aim_axis: str, up_axis: str) -> tuple[np.ndarray, np.ndarray]:
    return _axes(axis_vector(aim_axis), axis_vector(up_axis))


def _meeting(aim: np.ndarray, offset: np.ndarray, distance: np.ndarray) -> np.ndarray:
    """Direction ``(3, m)``, in the bone's frame, of the point of the ray that meets the target."""
    along = dot(offset, aim)
    aside = offset - along * aim
    reach = np.sqrt(np.maximum(distance * distance - dot(aside, aside), 0.0))
    point = aside + np.maximum(reach, along) * aim
    size = np.sqrt(dot(point, point))
    return np.where(size > TINY, point / np.maximum(size, TINY), aim)


def _carried(matrices: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Products ``(3, m)`` of matrices ``(3, 3, m)`` and vectors ``(3, m)``."""
    columns = matrices * vectors
    return columns[:, 0] + columns[:, 1] + columns[:, 2]


def _roll(
    pole: np.ndarray,
    turned: np.ndarray,
    across: np.ndarray,
    off_line: np.ndarray,
    up: np.ndarray,
    mask: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cosine and sine ``(m,)`` of the roll about the line to the pole, and where one is along the line.

    Args:
        turned, across: ``(3, m)`` side of the up axis, the line's cross product with it.
        off_line: ``(m,)`` sine of the angle between up axis and line; mask: ``(m,)`` or None.
    """
    size = np.sqrt(dot(pole, pole))
    counts = (size > TINY) & (dot(up, up) > 0.0)
    if mask is not None:
        counts = counts & mask
    cosine, sine, aligned = pole_turn(
        pole / np.maximum(size, TINY), np.stack((across, -turned)), counts, None
    )
    aligned = np.zeros_like(counts) if aligned is None else aligned
    near = off_line < SIN_CONE
    if near.any():
        part = blend_sides(smooth_step(off_line, SIN_ALIGNED, SIN_CONE), cosine, sine)
        cosine, sine = np.where(near, part[0], cosine), np.where(near, part[1], sine)
        aligned = aligned | (counts & (off_line < SIN_ALIGNED))
    return cosine, sine, aligned
