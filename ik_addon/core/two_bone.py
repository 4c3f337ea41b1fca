# SPDX-License-Identifier: GPL-3.0-or-later
"""Exact solve of a limb of two bones in space.

The triangle of root, middle and tip has three known sides, so all that is free is the
plane it lies in: `bend_plane` says which, and where no continuous answer exists.
With the target on the root there is no plane; the upper bone keeps its FK direction.

Arrays inside this module have the batch last, ``(3, n)``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .bend_plane import (
    BENT,
    STRAIGHT,
    blend_sides,
    carried_plane,
    cross,
    dot,
    hinge_frames,
    pole_turn,
    smooth_step,
    turned_plane,
)
from .job import REACHED, ZERO, ChainJob, ChainResult, Status
from .transforms import TINY, transform_vector
from .two_bone_few import few_clear_bends, few_limbs

# FK bend (radians) from which a limb keeps its own bend plane however far it folds.
CLEAR = float(np.radians(12.0))
_COS_CLEAR = float(np.cos(CLEAR))

# Temporaries of this many solves stay in the processor's cache.
BLOCK = 1280

_OK, _FAR, _NEAR = np.int8(Status.OK), np.int8(Status.TARGET_FAR), np.int8(Status.TARGET_NEAR)
_ALIGNED = np.int8(Status.POLE_ALIGNED)


def solve(job: ChainJob) -> ChainResult:
    """Put the tip on the target, or as near as geometry allows.

    Args:
        job: ``joints`` ``(..., 3, 3)``; any frame and unit, magnitudes up to 1e150.

    Returns:
        Turns, positions, residual and status in the job's frame and unit. Lengths are
        kept, the hinge of both bones lies along the bend plane's normal. A bone of
        length zero gets the other bone's turn.

    Raises:
        ValueError: for wrong shapes or numbers that are not finite.
    """
    job = job.validated()
    if job.joints.shape[-2] != 3:
        raise ValueError(f"joints: a two-bone chain has 3 joints, got {job.joints.shape[-2]}")
    return solve_valid(job)


def solve_valid(job: ChainJob) -> ChainResult:
    """`solve` without checks: all arrays of the job are float64 and share its batch shape."""
    batch = job.joints.shape[:-2]
    parts = few_limbs(job) or _solve_all(job)
    turns, joints, residual, status = parts
    return ChainResult(
        turns=turns.reshape(*batch, 2, 3, 3),
        joints=joints.reshape(*batch, 3, 3),
        residual=residual.reshape(batch),
        status=status.reshape(batch),
    )


def bend_normal(joints: np.ndarray, rest_hinge: np.ndarray) -> np.ndarray:
    """The hinge of a FK pose that keeps the pose's own bend side, for `ChainJob.hinge`.

    It is the normal u x Y of the plane that the pose bends in. An exactly straight (or
    folded) pose has none and takes the rest hinge; between bends of 1e-4 and 8e-4 radians
    both are blended, since Blender's float32 poses carry a noise of 1e-7. Inside that
    band one direction of the bend stays singular, as inside `CONE`.

    Args:
        joints: ``(..., 3, 3)`` FK positions of root, middle, tip, any frame and unit.
        rest_hinge: ``(..., 3)`` the bones' own bend axis as the FK pose carries it.

    Returns:
        ``(..., 3)`` unit vectors at right angles to the upper bone.
    """
    joints, rest_hinge = np.asarray(joints, float), np.asarray(rest_hinge, float)
    batch = joints.shape[:-2]
    if rest_hinge.shape != (*batch, 3):
        batch = np.broadcast_shapes(batch, rest_hinge.shape[:-1])
        joints = np.broadcast_to(joints, (*batch, 3, 3))
        rest_hinge = np.broadcast_to(rest_hinge, (*batch, 3))
    clear = few_clear_bends(joints)
    if clear is not None:
        return clear.reshape(*batch, 3)
    rows = joints.reshape(-1, 3, 3).transpose(1, 2, 0)
    bones = rows[1:] - rows[:2]
    bones *= (1.0 / np.maximum(np.sqrt(dot(bones, bones)), TINY))[:, None]
    normal = cross(bones[1], bones[0])
    bend = np.sqrt(dot(normal, normal))
    normal *= 1.0 / np.maximum(bend, TINY)
    straight = bend < BENT
    if straight.any():
        axis = np.where(dot(bones[0], bones[0]) > 0.5, bones[0], bones[1])
        rest = rest_hinge.reshape(-1, 3).T
        rest = rest / np.maximum(np.sqrt(dot(rest, rest)), TINY)
        _, rest, across = hinge_frames(axis[None], rest)[:, 0]
        weight = smooth_step(bend, STRAIGHT, BENT)
        cosine, sine = blend_sides(weight, dot(normal, rest), dot(normal, across))
        normal = np.where(straight, cosine * rest + sine * across, normal)
    return normal.T.reshape(*batch, 3)


def fold_hinge(joints: np.ndarray, rest_hinge: np.ndarray, target: np.ndarray) -> np.ndarray:
    """The hinge for a limb without a pole that shall go from its FK pose to a target.

    `bend_normal`, but for limbs that are almost straight in FK: there the plane follows
    from small deviations (of motion capture, or a knee that goes a little past straight)
    and would swing wildly for a target that folds the limb. So what the limb bends *more*
    than in FK, as a share of the bend, goes to the rest hinge: all of it for a straight
    limb, nothing from a bend of `CLEAR` on. With the target at the FK tip, or further
    away, the plane is the FK pose's, so a chain that is added moves nothing.

    Args:
        joints: ``(..., 3, 3)`` FK positions of root, middle, tip, any frame and unit.
        rest_hinge: ``(..., 3)`` the bones' own bend axis as the FK pose carries it.
        target: ``(..., 3)`` where the tip shall go.

    Returns:
        ``(..., 3)`` unit vectors at right angles to the upper bone.
    """
    normal = bend_normal(joints, rest_hinge)
    bones = joints[..., 1:, :] - joints[..., :2, :]
    square = np.einsum("...i,...i->...", bones, bones)
    along = np.einsum("...i,...i->...", bones[..., 0, :], bones[..., 1, :])
    cosine = along / np.maximum(np.sqrt(square[..., 0] * square[..., 1]), TINY)
    if not (cosine > _COS_CLEAR).any():
        return normal
    lengths = np.sqrt(square)
    tip, line = joints[..., 2, :] - joints[..., 0, :], target - joints[..., 0, :]
    before = _height(lengths, np.sqrt(np.einsum("...i,...i->...", tip, tip)))
    after = _height(lengths, np.sqrt(np.einsum("...i,...i->...", line, line)))
    grown = np.maximum(after - before, 0.0) / np.maximum(after, TINY)
    bend = np.arccos(np.clip(cosine, -1.0, 1.0))
    share = grown * (1.0 - smooth_step(bend, 0.0, CLEAR))
    upper = (bones[..., 0, :] / np.maximum(lengths[..., :1], TINY)).reshape(-1, 3).T
    rest = np.broadcast_to(rest_hinge, normal.shape).reshape(-1, 3).T
    rest = rest / np.maximum(np.sqrt(dot(rest, rest)), TINY)
    _, rest, across = hinge_frames(upper[None], rest)[:, 0]
    fk = normal.reshape(-1, 3).T
    turn = blend_sides(1.0 - share.reshape(-1), dot(fk, rest), dot(fk, across))
    mixed = (turn[0] * rest + turn[1] * across).T.reshape(normal.shape)
    return np.where((share > 0.0)[..., None], mixed, normal)


def bend_side(job: ChainJob, result: ChainResult) -> np.ndarray:
    """The side of the line to the target on which the middle stands, also of a straight limb.

    Args:
        job, result: of a solve; the hinge at right angles to the upper bone.

    Returns:
        ``(..., 3)`` of any length, for `ChainJob.pole`; zero with the target on the root.
    """
    normal = transform_vector(result.rotations[..., 0, :, :], job.hinge)
    return np.cross(normal, job.target - job.joints[..., 0, :])


def _height(lengths: np.ndarray, distance: np.ndarray) -> np.ndarray:
    """How far the middle stands off the line from root to tip, ``(..., 2), (...) -> (...)``."""
    a, b = lengths[..., 0], lengths[..., 1]
    distance = np.clip(distance, np.abs(a - b), a + b)
    # Heron's formula; the height only weighs two sides here, digits lost near 0 do not count.
    product = (a + b + distance) * (a + b - distance) * (distance + a - b) * (distance - a + b)
    return np.sqrt(np.maximum(product, 0.0)) / np.maximum(2.0 * distance, TINY)


def _solve_all(job: ChainJob) -> tuple[np.ndarray, ...]:
    """The parts of `solve_valid` by arrays, for any number of limbs."""
    joints = job.joints.reshape(-1, 3, 3).transpose(1, 2, 0)
    target, hinge = job.target.reshape(-1, 3).T, job.hinge.reshape(-1, 3).T
    pole = None if job.pole is None else job.pole.reshape(-1, 3).T
    mask = None if job.pole_mask is None else job.pole_mask.reshape(-1)
    angle = np.broadcast_to(job.pole_angle, job.joints.shape[:-2]).reshape(-1)

    def solve_block(cut: Any, out: Posed) -> None:
        poles = None if pole is None else pole[cut], None if mask is None else mask[cut]
        _solve_block(joints[cut], target[cut], hinge[cut], *poles, angle[cut], out)

    return in_blocks(joints.shape[-1], solve_block)


@dataclass(frozen=True)
class Posed:
    """Where a solve of n limbs writes: turns ``(2, 3, 3, n)``, joints ``(3, 3, n)``, the rest ``(n,)``."""

    turns: np.ndarray
    joints: np.ndarray
    residual: np.ndarray
    status: np.ndarray


def in_blocks(count: int, solve_block: Callable[[Any, Posed], None]) -> tuple[np.ndarray, ...]:
    """Turns ``(count, 18)``, joints ``(count, 9)``, residual and status, solved block by block."""
    whole, status = np.empty((28, count)), np.empty(count, np.int8)
    turns, joints, residual = whole[:18], whole[18:27], whole[27]
    out = Posed(turns.reshape(2, 3, 3, count), joints.reshape(3, 3, count), residual, status)
    for start in range(0, count, BLOCK):
        cut = np.s_[..., start : start + BLOCK]
        solve_block(cut, Posed(out.turns[cut], out.joints[cut], out.residual[cut], out.status[cut]))
    return turns.T, joints.T, residual, status


def _solve_block(
    joints: np.ndarray,
    target: np.ndarray,
    hinge: np.ndarray,
    pole: np.ndarray | None,
    mask: np.ndarray | None,
    angle: np.ndarray,
    out: Posed,
) -> None:
    """The solve of n limbs: joints ``(3, 3, n)``, vectors ``(3, n)``, mask and angle ``(n,)``."""
    # Upper bone, lower bone, root to tip, root to target, hinge, pole.
    vectors = np.empty((5 if pole is None else 6, *target.shape))
    np.subtract(joints[1:], joints[:2], out=vectors[:2])
    np.subtract(joints[2], joints[0], out=vectors[2])
    np.subtract(target, joints[0], out=vectors[3])
    vectors[4] = hinge
    if pole is not None:
        vectors[5] = pole
    sizes = np.sqrt(dot(vectors, vectors))
    vectors *= (1.0 / np.maximum(sizes, TINY))[:, None]
    lengths, distance, line = sizes[:2], sizes[3], vectors[3]

    zero = on_root = None
    small = sizes[:4] <= ZERO * (sizes[0] + sizes[1])
    if small.any():
        zero, on_root = small[:2], small[3]
        onward = np.where(zero[0], -vectors[1], vectors[0])
        vectors[2] = np.where(small[2] | on_root, onward, vectors[2])
        vectors[3] = np.where(on_root, onward, vectors[3])
        angle = np.where(on_root, 0.0, angle)

    frames = hinge_frames(vectors[:3], vectors[4])
    plane = carried_plane(vectors[2], frames[1:, 2], line)
    angles, status = triangle(lengths, distance, on_root)
    if pole is not None:
        cosine, sine, aligned = pole_turn(vectors[5], plane, mask, on_root)
        plane = turned_plane(plane, cosine, sine)
        if aligned is not None:
            status[aligned & (status == _OK)] = _ALIGNED
    if angle.any():
        plane = turned_plane(plane, np.cos(angle), np.sin(angle))
    out.status[:] = status
    place(frames[:, :2], zero, line, plane, angles, joints[0], lengths, target, out)


def triangle(
    lengths: np.ndarray, distance: np.ndarray, on_root: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Directions of both bones in the bend plane, from the three sides of the triangle.

    The height comes from the area in Heron's formula with the factors in Kahan's order
    (nearly equal lengths are subtracted first), so that no digit is lost near full reach
    and full fold, where acos of the law of cosines loses half of them.

    Args:
        lengths: ``(2, n)`` of upper and lower bone.
        distance: ``(n,)`` from root to target; out of reach the nearest within counts.
        on_root: ``(n,)`` True where the lower bone shall be folded back on the upper one.

    Returns:
        angles: ``(2, 2, n)`` cosines and sines of upper and lower bone, from the line to
            the target toward the bend side.
        status: ``(n,)`` int8, OK, TARGET_FAR or TARGET_NEAR.
    """
    upper, lower = lengths
    outer, excess = upper + lower, upper - lower
    inner = np.abs(excess)
    reached = np.minimum(np.maximum(distance, inner), outer)
    longer, shorter = np.maximum(upper, lower), np.minimum(upper, lower)
    past_fold = np.minimum(shorter, distance) - (longer - np.maximum(shorter, distance))
    before_full = shorter + (longer - distance)
    safe = np.maximum(reached, TINY)
    # Height over the line and the bones' parts along it, both times two.
    height = np.sqrt(np.maximum(past_fold, 0.0) * (reached + inner))
    height *= np.sqrt(np.maximum(before_full, 0.0) * (reached + outer))
    height /= safe
    skew = excess * outer / safe
    angles = np.empty((2, *lengths.shape))
    np.add(reached, skew, out=angles[0, 0])
    np.subtract(reached, skew, out=angles[0, 1])
    angles[1, 0] = height
    np.negative(height, out=angles[1, 1])
    squares = angles * angles
    angles /= np.maximum(np.sqrt(squares[0] + squares[1]), TINY)
    if on_root is not None:
        folded = np.array([[[1.0], [-1.0]], [[0.0], [0.0]]])
        angles = np.where(on_root, folded, angles)
    miss, slack = distance - reached, REACHED * outer
    status = (miss > slack) * _FAR + (miss < -slack) * _NEAR
    return angles, status


def place(
    frames: np.ndarray,
    zero: np.ndarray | None,
    line: np.ndarray,
    plane: np.ndarray,
    angles: np.ndarray,
    root: np.ndarray,
    lengths: np.ndarray,
    target: np.ndarray,
    out: Posed,
) -> None:
    """Both bones at the given angles in the bend plane: fills all of ``out`` but the status.

    Args:
        frames: ``(3, 2, 3, n)`` of the bones in the FK pose, from `hinge_frames`.
        zero: ``(2, n)`` True for a bone without length; None where all have one.
        line, plane: ``(3, n)`` unit vector to the target, ``(2, 3, n)`` normal and away.
        angles: from `triangle`.
        root, lengths, target: ``(3, n)``, ``(2, n)``, ``(3, n)``.
    """
    normal, away = plane
    cosines, sines = angles[:, :, None]
    posed = cosines * line - sines * away
    across = sines * line + cosines * away
    bones, hinges, thirds = frames[:, :, None]
    turns, joints = out.turns, out.joints
    np.multiply(posed[:, :, None], bones, out=turns)
    turns += normal[:, None] * hinges
    turns += across[:, :, None] * thirds
    if zero is not None:
        turns[:] = np.where(zero[:, None, None], turns[::-1], turns)
        turns[:] = np.where(zero.all(axis=0), np.eye(3)[..., None], turns)
    joints[0] = root
    posed *= lengths[:, None]
    np.add(root, posed[0], out=joints[1])
    np.add(joints[1], posed[1], out=joints[2])
    gap = joints[2] - target
    np.sqrt(dot(gap, gap), out=out.residual)
