# SPDX-License-Identifier: GPL-3.0-or-later
"""Exact solve of a limb of two bones in a plane, for characters drawn in two dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np

from .bend_plane import cross, dot, hinge_frames
from .job import ZERO, ChainJob, ChainResult
from .transforms import TINY, perpendicular
from .two_bone import Posed, in_blocks, place, triangle
from .two_bone_few import few_planar


def solve(job: ChainJob, axis: int | np.ndarray, bend_sign: np.ndarray | float = 1.0) -> ChainResult:
    """Put the tip on the target's projection onto the plane through the root normal to ``axis``.

    With phi the direction of the target in the plane, the upper bone stands at
    phi + sign * offset and the lower one is turned by -sign * flexion from it, both
    counted right-handed about ``axis``. The stored sign alone picks the side of the
    elbow. The bones only turn about ``axis`` (those that leave the plane in the FK pose
    are first swung into it), so neither side rolls them: hinge and pole are not used.

    Continuous for every target but the root itself, where the upper bone keeps its FK
    direction and the lower one is folded back on it.

    Args:
        job: ``joints`` ``(..., 3, 3)``, any frame and unit.
        axis: 0, 1, 2 for X, Y, Z of the job's frame, or a vector ``(..., 3)`` in it.
        bend_sign: ``(...)`` side of the elbow: positive or zero, or negative.

    Returns:
        As `two_bone.solve`; the residual counts the target's distance to the plane.

    Raises:
        ValueError: for wrong shapes, numbers that are not finite, or an axis of length 0.
    """
    job = job.validated()
    if job.joints.shape[-2] != 3:
        raise ValueError(f"joints: a two-bone chain has 3 joints, got {job.joints.shape[-2]}")
    vector = _vector(axis)
    if vector.shape[-1:] != (3,) or not (np.linalg.norm(vector, axis=-1) > TINY).all():
        raise ValueError(f"axis: expected 0, 1, 2 or a vector (..., 3) with a direction, got {axis}")
    return solve_valid(job, vector, bend_sign)


def solve_valid(job: ChainJob, axis: int | np.ndarray, bend_sign: np.ndarray | float) -> ChainResult:
    """`solve` without checks: float64 arrays, those of the job of one batch shape."""
    batch = job.joints.shape[:-2]
    axis = np.broadcast_to(_vector(axis), (*batch, 3)).reshape(-1, 3)
    sign = np.where(np.broadcast_to(bend_sign, batch).reshape(-1) < 0.0, -1.0, 1.0)
    normal = axis * (sign / np.sqrt(np.einsum("ni,ni->n", axis, axis)))[:, None]
    turns, solved, residual, status = few_planar(job, normal) or _solve_all(job, normal)
    return ChainResult(
        turns=turns.reshape(*batch, 2, 3, 3),
        joints=solved.reshape(*batch, 3, 3),
        residual=residual.reshape(batch),
        status=status.reshape(batch),
    )


def _solve_all(job: ChainJob, normals: np.ndarray) -> tuple[np.ndarray, ...]:
    """The parts of `solve_valid` by arrays, for any number of limbs."""
    joints = job.joints.reshape(-1, 3, 3).transpose(1, 2, 0)
    target, normal = job.target.reshape(-1, 3).T, normals.T

    def solve_block(cut: Any, out: Posed) -> None:
        _solve_block(joints[cut], target[cut], normal[cut], out)

    return in_blocks(joints.shape[-1], solve_block)


def _solve_block(joints: np.ndarray, target: np.ndarray, normal: np.ndarray, out: Posed) -> None:
    """The solve of n limbs: joints ``(3, 3, n)``, vectors ``(3, n)``."""
    bones = joints[1:] - joints[:2]
    lengths = np.sqrt(dot(bones, bones))
    bones *= (1.0 / np.maximum(lengths, TINY))[:, None]
    offset = target - joints[0]
    offset -= dot(offset, normal) * normal
    distance = np.sqrt(dot(offset, offset))
    line = offset * (1.0 / np.maximum(distance, TINY))
    slight = ZERO * (lengths[0] + lengths[1])
    zero, on_root = lengths <= slight, distance <= slight
    if on_root.any():
        line = np.where(on_root, _onward(bones, zero, normal), line)

    angles, out.status[:] = triangle(lengths, distance, on_root)
    plane = np.stack((normal, cross(line, normal)))
    frames = hinge_frames(bones, normal)
    place(frames, zero if zero.any() else None, line, plane, angles, joints[0], lengths, target, out)


def _vector(axis: int | np.ndarray) -> np.ndarray:
    return np.eye(3)[axis] if isinstance(axis, int) else np.asarray(axis, float)


def _onward(bones: np.ndarray, zero: np.ndarray, normal: np.ndarray) -> np.ndarray:
    """The upper bone's FK direction in the plane, ``(3, n)`` unit."""
    onward = np.where(zero[0], -bones[1], bones[0])
    onward = onward - dot(onward, normal) * normal
    size = np.sqrt(dot(onward, onward))
    upright = size < 1e-9
    onward = onward / np.where(upright, 1.0, size)
    return np.where(upright, perpendicular(normal.T).T, onward)
