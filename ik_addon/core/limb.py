# SPDX-License-Identifier: GPL-3.0-or-later
"""Exact solve of a limb of three bones: one bone follows a rule, the other two are solved as two.

No iterations. What the rule leaves is a limb of two bones, solved by `two_bone` with its pole,
its bend plane and its singular places. With the target at the FK tip nothing moves.

CLAVICLE: clavicle, upper arm, forearm.
    The arm's FK direction, shoulder to tip, turns to the direction from the FK shoulder to the
    target by some shortest turn. The clavicle swings, without twist, by `share` of the part of
    that turn at right angles to it, at most by `share_max`, and carries the arm along. A target
    that is then too far for the arm turns it on toward the target, by just what is needed and
    within `share_max` of FK: in full from a share of `FULL_HELP` on, down to no help at share 0,
    which leaves the clavicle at FK. A target too near is left to the elbow.
HOCK_PARALLEL: thigh, shin, hock; the tip is the paw.
    The hock turns as the thigh does, so both keep their FK angle (parallel ones stay parallel: a
    pantograph). Thigh and hock together then act as one bone, their sum, and the shin as the
    other: tip = turn1 (thigh + hock) + turn2 shin.
HOCK_RATIO: the same bones.
    The hock turns by `share` of the shortest turn of the root-target line from FK (0: it keeps
    its FK direction, 1: it turns with the line). Where thigh and shin cannot reach its head,
    the angle between it and the line is brought to the nearest one for which they can, so the
    tip is no further off than the three lengths demand.

Where the answer could jump it is eased over a zone instead:

- A target straight opposite the FK direction has no one shortest turn. Over the last
  `BEHIND` .. 180 degrees the turn goes over to one in a fixed plane: that of arm and clavicle
  (an arm that hangs down rises sideways), or the leg's bend plane (forward at the knee).
- Seen from the clavicle's root, a target behind it is as near on one side as on the other. Its
  help fades out where the angle from its FK direction to the target, and what it has turned
  already, add up to as much.
- Within `NEAR` of the limb's length the direction of the target counts less and less.

What stays: the hock exactly along or against the line when it has to be turned further, where it
leaves the line to the bend side; and the singular places of `two_bone`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from . import two_bone
from .bend_plane import BENT, STRAIGHT, blend_sides, carried_plane, hinge_frames, smooth_step
from .job import REACHED, ZERO, ChainJob, ChainResult, Status
from .reach import ease_target, reach_range
from .transforms import (
    TINY,
    axis_angle_to_matrix,
    cross,
    dot,
    frame,
    length,
    normalize,
    reject,
    rotation_arc,
    transform_vector,
)

MODES = ("CLAVICLE", "HOCK_PARALLEL", "HOCK_RATIO")
# Angle from which a direction counts as behind, and the limit of `share_max`.
BEHIND, LARGEST_SWING = float(np.radians(150.0)), float(np.radians(90.0))
# Share of the limb's length within which the target's direction fades.
NEAR = 0.2
# Share from which the clavicle helps in full with a target out of reach.
FULL_HELP = 0.1

_X = np.array([1.0, 0.0, 0.0])
Setting = np.ndarray | float


def solve(
    job: ChainJob,
    mode: str,
    share: Setting = 0.3,
    share_max: Setting = np.pi / 6.0,
    softness: Setting = 0.0,
    pole_points: np.ndarray | None = None,
) -> ChainResult:
    """Put the tip on the target, or as near as the mode's rule allows.

    Args:
        job: ``joints`` ``(..., 4, 3)``; any frame and unit, magnitudes up to 1e75. `hinge` is
            the rest bend axis of the two-bone part as its first bone carries it in FK; it counts
            only where that part is straight or almost so. For a CLAVICLE the pole is a vector
            from the FK shoulder.
        mode: one of `MODES`.
        share: ``(...)`` 0 to 1, without effect on HOCK_PARALLEL.
        share_max: ``(...)`` radians, 0 to pi / 2, most that the clavicle turns.
        softness: ``(...)`` as in `reach.ease_target`; what is eased is the distance from the
            two-bone part's root, the moved shoulder or the hip, over the reach that `reach_of` tells.
        pole_points: ``(...)`` True where `pole` leads to a point, which the pole of a clavicle's
            arm keeps to when the shoulder moves; None: nowhere.

    Returns:
        Turns, positions, residual and status in the job's frame and unit. Status TARGET_FAR also
        where softness keeps the tip short.

    Raises:
        ValueError: for an unknown mode, wrong shapes or numbers that are not finite.
    """
    job = job.validated()
    if job.joints.shape[-2] != 4:
        raise ValueError(f"joints: a three-bone limb has 4 joints, got {job.joints.shape[-2]}")
    if mode not in MODES:
        raise ValueError(f"mode: expected one of {', '.join(MODES)}, got {mode!r}")
    for name, value in (("share", share), ("share_max", share_max), ("softness", softness)):
        if not np.isfinite(value).all():
            raise ValueError(f"{name}: expected finite numbers, got {value}")
    return solve_valid(job, mode, share, share_max, softness, pole_points)


def solve_valid(
    job: ChainJob,
    mode: str,
    share: Setting,
    share_max: Setting,
    softness: Setting = 0.0,
    pole_points: np.ndarray | None = None,
) -> ChainResult:
    """`solve` without checks: all arrays of the job are float64 and share its batch shape."""
    share = np.clip(share, 0.0, 1.0)
    if mode == "CLAVICLE":
        share_max = np.clip(share_max, 0.0, LARGEST_SWING)
        turns, eased, status = _solve_clavicle(job, share, share_max, softness, pole_points)
    else:
        eased = job.target
        if np.any(softness):
            eased = ease_target(*_origin_target_reach(job, mode), softness)
        part = replace(job, target=eased)
        turns, status = _solve_parallel(part) if mode == "HOCK_PARALLEL" else _solve_ratio(part, share)
    if eased is not job.target:
        size = length(np.diff(job.joints, axis=-2)).sum(axis=-1)
        reached = (status == Status.OK) | (status == Status.POLE_ALIGNED)
        short = reached & (length(job.target - eased) > REACHED * size)
        status = np.where(short, np.int8(Status.TARGET_FAR), status)
    steps = np.einsum("...nij,...nj->...ni", turns, np.diff(job.joints, axis=-2))
    root = job.joints[..., :1, :]
    joints = np.concatenate([root, root + np.cumsum(steps, axis=-2)], axis=-2)
    return ChainResult(turns, joints, length(joints[..., -1, :] - job.target), status)


def bend_root(mode: str) -> int:
    """Place of the first bone of the two-bone part among the three."""
    return 1 if mode == "CLAVICLE" else 0


def bend_joints(joints: np.ndarray, mode: str) -> np.ndarray:
    """Root, middle and tip ``(..., 3, 3)`` of the two-bone part of a limb in its FK pose ``(..., 4, 3)``."""
    if mode == "CLAVICLE":
        return joints[..., 1:, :]
    if mode == "HOCK_RATIO":
        return joints[..., :3, :]
    root, knee, ankle, tip = np.moveaxis(joints, -2, 0)
    return np.stack([root, knee + (tip - ankle), tip], axis=-2)


def reach_of(joints: np.ndarray, mode: str) -> tuple[np.ndarray, np.ndarray]:
    """Where the two-bone part of a limb in its FK pose starts, and how far it reaches from there.

    Args:
        joints: ``(..., 4, 3)`` positions, any frame and unit.

    Returns:
        origin: ``(..., 3)`` the FK shoulder, or the hip.
        outer: ``(...)`` distance at which it is straight.
    """
    steps = np.diff(joints, axis=-2)
    first, second, third = np.moveaxis(length(steps), -1, 0)
    if mode == "CLAVICLE":
        return joints[..., 1, :], second + third
    if mode == "HOCK_PARALLEL":
        return joints[..., 0, :], length(steps[..., 0, :] + steps[..., 2, :]) + second
    return joints[..., 0, :], first + second + third


def _origin_target_reach(job: ChainJob, mode: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    origin, outer = reach_of(job.joints, mode)
    return origin, job.target, outer


def _solve_two(job: ChainJob, joints: np.ndarray, target: np.ndarray) -> ChainResult:
    """The two-bone part ``(..., 3, 3)`` of a limb, solved."""
    hinge = two_bone.fold_hinge(joints, job.hinge, target)
    return two_bone.solve_valid(replace(job, joints=joints, target=target, hinge=hinge))


def _shared_turn(before: np.ndarray, after: np.ndarray, share: Setting, behind: np.ndarray) -> np.ndarray:
    """Rotation vectors ``(..., 3)`` of a share of the shortest turns between unit vectors.

    Args:
        before, after: ``(..., 3)``; a zero vector has no direction and is not turned.
        behind: ``(..., 3)`` axes, not longer than 1, that straight opposites are turned about.
    """
    axis = cross(before, after)
    sine = length(axis)
    angle = np.arctan2(sine, dot(before, after))
    weight = smooth_step(angle, BEHIND, np.pi)
    vector = ((1.0 - weight) * angle / np.maximum(sine, TINY))[..., None] * axis
    return np.asarray(share)[..., None] * (vector + (weight * np.pi)[..., None] * behind)


# Clavicle


def _solve_clavicle(
    job: ChainJob, share: Setting, share_max: Setting, softness: Setting, pole_points: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Turns ``(..., 3, 3, 3)``, eased target ``(..., 3)`` and status ``(...)``."""
    root, joints = job.joints[..., 0, :], job.joints
    swing = _clavicle_swing(joints, job.target, share, share_max)
    shoulder = root + transform_vector(swing, joints[..., 1, :] - root)
    arm = transform_vector(swing[..., None, :, :], joints[..., 1:, :] - joints[..., 1:2, :])
    arm = shoulder[..., None, :] + arm
    eased = job.target
    if np.any(softness):
        eased = ease_target(shoulder, eased, reach_of(joints, "CLAVICLE")[1], softness)
    part = replace(job, hinge=transform_vector(swing, job.hinge))
    if job.pole is not None and pole_points is not None:
        moved = np.where(np.asarray(pole_points)[..., None], shoulder - joints[..., 1, :], 0.0)
        part = replace(part, pole=job.pole - moved)
    result = _solve_two(part, arm, eased)
    turns = np.concatenate([swing[..., None, :, :], result.rotations @ swing[..., None, :, :]], axis=-3)
    return turns, eased, result.status


def most_turn(share: Setting, share_max: Setting) -> np.ndarray:
    """Radians ``(...)`` that a clavicle may turn from FK to help its arm."""
    return np.clip(share_max, 0.0, LARGEST_SWING) * _willing(share)


def _willing(share: Setting) -> np.ndarray:
    return smooth_step(np.asarray(share, float), 0.0, FULL_HELP)


def _clavicle_swing(joints: np.ndarray, target: np.ndarray, share: Setting, share_max: Setting) -> np.ndarray:
    """Rotation matrices ``(..., 3, 3)`` that turn the clavicle, at most by ``share_max``."""
    sizes = length(np.diff(joints, axis=-2))
    total = sizes.sum(axis=-1)
    arm, way = joints[..., 3, :] - joints[..., 1, :], target - joints[..., 1, :]
    clavicle = normalize(joints[..., 1, :] - joints[..., 0, :], _X)
    before = normalize(arm)
    reach = sizes[..., 1] + sizes[..., 2]
    near = smooth_step(length(way) / np.maximum(reach, TINY), 0.0, NEAR)
    # The side that a hanging arm rises to is less and less certain the more it lies along the clavicle.
    turn = _shared_turn(before, normalize(way), near * share, cross(before, clavicle))
    turn = reject(turn, clavicle)
    angle = np.minimum(length(turn), share_max)[..., None]
    posed = np.cos(angle) * clavicle + np.sin(angle) * cross(normalize(turn), clavicle)
    posed = _helping(clavicle, posed, target - joints[..., 0, :], sizes[..., 0], reach, share, share_max)
    swing = rotation_arc(clavicle, posed)
    return np.where((sizes[..., 0] <= ZERO * total)[..., None, None], np.eye(3), swing)


def _helping(
    clavicle: np.ndarray,
    posed: np.ndarray,
    way: np.ndarray,
    size: np.ndarray,
    reach: np.ndarray,
    share: Setting,
    share_max: Setting,
) -> np.ndarray:
    """The clavicle's direction, turned on as far as a target out of the arm's reach needs.

    It goes from ``posed`` along the great circle to the direction within ``share_max`` of FK
    that is nearest to the target's. On it the shoulder comes steadily nearer to the target, until
    the cosine of the angle to the target's direction is that of the triangle of clavicle, reach
    and distance.

    Args:
        clavicle, posed: ``(..., 3)`` unit vectors in FK and so far.
        way: ``(..., 3)`` from the clavicle's root to the target.
        size, reach: ``(...)`` lengths of the clavicle and of the arm.
    """
    distance = length(way)
    least = ZERO * (size + reach) + TINY
    needed = (size - reach) * ((size + reach) / np.maximum(distance, least)) + distance
    needed = needed / (2.0 * np.maximum(size, least))
    line = normalize(way)
    along = dot(posed, line)
    short = along < needed
    if not short.any():
        return posed
    off = reject(line, clavicle)
    apart = np.arctan2(length(off), dot(line, clavicle))
    within = np.minimum(apart, share_max)[..., None]
    nearest = np.cos(within) * clavicle + np.sin(within) * normalize(off)
    side = reject(nearest, posed)
    most = np.arctan2(length(side), dot(nearest, posed))
    side = normalize(side)
    rise = dot(side, line)
    height = np.hypot(rise, along)
    ratio = needed / np.maximum(height, TINY)
    enough = np.arctan2(rise, along) - np.arccos(np.clip(ratio, -1.0, 1.0))
    turned = np.arctan2(length(cross(clavicle, posed)), dot(clavicle, posed))
    helps = 1.0 - smooth_step(apart + turned, BEHIND, np.pi)
    helps = helps * _willing(share)
    angle = (helps * np.clip(enough, 0.0, most))[..., None]
    return np.where(short[..., None], np.cos(angle) * posed + np.sin(angle) * side, posed)


# Hock


def _solve_parallel(job: ChainJob) -> tuple[np.ndarray, np.ndarray]:
    """Turns ``(..., 3, 3, 3)`` and status ``(...)``."""
    result = _solve_two(job, bend_joints(job.joints, "HOCK_PARALLEL"), job.target)
    first, second = result.rotations[..., 0, :, :], result.rotations[..., 1, :, :]
    return np.stack([first, second, first], axis=-3), result.status


def _solve_ratio(job: ChainJob, share: Setting) -> tuple[np.ndarray, np.ndarray]:
    """Turns ``(..., 3, 3, 3)`` and status ``(...)``."""
    joints = job.joints
    sizes = length(np.diff(joints, axis=-2))
    total, size = sizes.sum(axis=-1), sizes[..., 2]
    way = job.target - joints[..., 0, :]
    distance = length(way)
    hock = normalize(joints[..., 3, :] - joints[..., 2, :], _X)
    before = normalize(joints[..., 3, :] - joints[..., 0, :], hock)
    line = normalize(way, before)
    normal = two_bone.bend_normal(joints[..., :3, :], job.hinge)

    near = smooth_step(distance / np.maximum(total, TINY), 0.0, NEAR)
    vector = _shared_turn(before, line, near * share, reject(normal, before))
    turn = axis_angle_to_matrix(normalize(vector), length(vector))
    posed = transform_vector(turn, hock)
    inner, outer = reach_range(sizes[..., :2])
    left = length(way - size[..., None] * posed)
    short = (left > outer + ZERO * total) | (left < inner - ZERO * total)
    if short.any():
        reached = np.where(left > outer, outer, inner)
        angle = _triangle_angle(distance, size, reached)
        side = _side_of_line(posed, line, before, normal)
        # The hinge of the hock: it turns in the plane of line and side.
        across = cross(line, side)
        bent = angle[0][..., None] * line + angle[1][..., None] * side
        further = frame(bent, across) @ np.swapaxes(frame(posed, across), -1, -2)
        turn = np.where(short[..., None, None], further @ turn, turn)
        posed = np.where(short[..., None], bent, posed)

    result = _solve_two(job, joints[..., :3, :], job.target - size[..., None] * posed)
    last = result.rotations[..., 1:, :, :]
    turn = np.where((size <= ZERO * total)[..., None, None, None], last, turn[..., None, :, :])
    inner, outer = reach_range(sizes)
    slack = REACHED * outer
    status = np.where(result.status == Status.POLE_ALIGNED, result.status, np.int8(Status.OK))
    status = np.where(distance > outer + slack, np.int8(Status.TARGET_FAR), status)
    status = np.where(distance < inner - slack, np.int8(Status.TARGET_NEAR), status)
    return np.concatenate([result.rotations, turn], axis=-3), status


def _triangle_angle(a: np.ndarray, b: np.ndarray, opposite: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cosine and sine of the angle between sides a and b of a triangle, from its half angle.

    A third side too long or too short for a triangle gives 180 or 0 degrees.
    """
    sine = np.sqrt(np.maximum(opposite - np.abs(a - b), 0.0)) * np.sqrt(opposite + np.abs(a - b))
    cosine = np.sqrt(np.maximum(a + b - opposite, 0.0)) * np.sqrt(a + b + opposite)
    size = np.maximum(np.hypot(sine, cosine), TINY)
    sine, cosine = sine / size, cosine / size
    return (cosine - sine) * (cosine + sine), 2.0 * sine * cosine


def _side_of_line(posed: np.ndarray, line: np.ndarray, before: np.ndarray, normal: np.ndarray) -> np.ndarray:
    """Unit vectors ``(..., 3)`` at right angles to the line, to the side that the hock points to.

    Where it lies along the line it is the bend side of the FK plane, carried with the line; as in
    `two_bone.bend_normal` both are blended over a narrow band.
    """
    off = reject(posed, line)
    rows = [vector.reshape(-1, 3).T for vector in np.broadcast_arrays(line, before, normal, normalize(off))]
    line_, before_, normal_, off_ = rows
    frames = hinge_frames(before_[None], normal_)[:, 0]
    across, away = carried_plane(before_, frames[1:], line_)
    weight = smooth_step(length(off).reshape(-1), STRAIGHT, BENT)
    cosine, sine = blend_sides(weight, -(off_ * away).sum(axis=0), (off_ * across).sum(axis=0))
    return (sine * across - cosine * away).T.reshape(off.shape)
