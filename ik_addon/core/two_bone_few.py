# SPDX-License-Identifier: GPL-3.0-or-later
"""The two-bone solve of a few limbs in plain floats, equal to `two_bone` to the bit.

Faster than arrays for a few limbs, see `float_vectors`. Formulas and order of operations
are those of `two_bone` and `bend_plane`, where they are explained; a test compares both.
Singular input is left to the arrays.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import sqrt
from typing import Any

import numpy as np

from .bend_plane import BENT
from .float_vectors import (
    Frame,
    Vector,
    carried,
    cross,
    dot,
    hinge_frame,
    length,
    less,
    over,
    turned_by,
    turned_to_pole,
)
from .job import REACHED, ZERO, ChainJob, Status
from .transforms import TINY

# Turns and joints by rows, residual and status of a limb.
Limb = tuple[list[float], list[float], float, int]

# With more limbs than this the arrays are faster.
FEW = 8


def few_limbs(job: ChainJob) -> tuple[np.ndarray, ...] | None:
    """Turns ``(n, 18)``, joints ``(n, 9)``, residual and status ``(n,)`` of a valid job.

    None for more than `FEW` limbs, or where one of them is singular.
    """
    joints = job.joints.reshape(-1, 9)
    if not 0 < len(joints) <= FEW:
        return None
    poles: list[Any] = [None] * len(joints) if job.pole is None else job.pole.reshape(-1, 3).tolist()
    if job.pole_mask is not None:
        poles = [p if m else None for p, m in zip(poles, job.pole_mask.reshape(-1).tolist(), strict=True)]
    angles = np.broadcast_to(job.pole_angle, job.joints.shape[:-2]).reshape(-1).tolist()
    targets, hinges = job.target.reshape(-1, 3).tolist(), job.hinge.reshape(-1, 3).tolist()
    rows: list[Any] = list(zip(joints.tolist(), targets, hinges, poles, angles, strict=True))
    return _gathered(_solve_one(*limb) for limb in rows)


def few_planar(job: ChainJob, normals: np.ndarray) -> tuple[np.ndarray, ...] | None:
    """As `few_limbs`, in planes with unit normals ``(n, 3)``."""
    joints = job.joints.reshape(-1, 9)
    if not 0 < len(joints) <= FEW:
        return None
    rows: list[Any] = [joints.tolist(), job.target.reshape(-1, 3).tolist(), normals.tolist()]
    return _gathered(_solve_planar(*limb) for limb in zip(*rows, strict=True))


def _gathered(solved: Iterable[Limb | None]) -> tuple[np.ndarray, ...] | None:
    limbs = []
    for limb in solved:
        if limb is None:
            return None
        limbs.append(limb)
    turns, positions, residual, status = zip(*limbs, strict=True)
    return np.array(turns), np.array(positions), np.array(residual), np.array(status, np.int8)


def few_clear_bends(joints: np.ndarray) -> np.ndarray | None:
    """`two_bone.bend_normal` ``(n, 3)`` of at most `FEW` poses, all clearly bent; else None."""
    rows = joints.reshape(-1, 9)
    if len(rows) > FEW:
        return None
    normals = []
    for x1, y1, z1, x2, y2, z2, x3, y3, z3 in rows.tolist():
        upper, lower = (x2 - x1, y2 - y1, z2 - z1), (x3 - x2, y3 - y2, z3 - z2)
        a, b = length(upper), length(lower)
        if min(a, b) <= TINY:
            return None
        normal = cross(over(lower, b), over(upper, a))
        bend = length(normal)
        if bend < BENT:
            return None
        normals.append(over(normal, bend))
    return np.array(normals)


def _solve_one(
    joints: list[float], target: Vector, hinge: Vector, pole: Vector | None, angle: float
) -> Limb | None:
    """Turns, joints, residual and status of one limb; None where it is singular."""
    x1, y1, z1, x2, y2, z2, x3, y3, z3 = joints
    upper, lower = (x2 - x1, y2 - y1, z2 - z1), (x3 - x2, y3 - y2, z3 - z2)
    tip, line = (x3 - x1, y3 - y1, z3 - z1), (target[0] - x1, target[1] - y1, target[2] - z1)
    a, b, reach, distance = length(upper), length(lower), length(tip), length(line)
    hinge_size = length(hinge)
    if min(a, b, reach, distance) <= ZERO * (a + b) or hinge_size <= TINY:
        return None
    hinge = over(hinge, hinge_size)
    tip, line = over(tip, reach), over(line, distance)
    first, second = hinge_frame(over(upper, a), hinge), hinge_frame(over(lower, b), hinge)
    plane = hinge_frame(tip, hinge)
    if first is None or second is None or plane is None:
        return None
    plane, aligned = carried(plane, line), False
    if plane is None:
        return None
    if pole is not None:
        plane, aligned = turned_to_pole(plane, pole)
    if angle:
        plane = turned_by(plane, angle)

    turns, positions, residual, status = _placed(joints, target, (first, second), (a, b), plane, distance)
    if aligned and status == Status.OK:
        status = Status.POLE_ALIGNED
    return turns, positions, residual, status


def _solve_planar(joints: list[float], target: Vector, normal: Vector) -> Limb | None:
    """`_solve_one` in the plane normal to a unit vector, for `planar`."""
    x1, y1, z1, x2, y2, z2, x3, y3, z3 = joints
    upper, lower = (x2 - x1, y2 - y1, z2 - z1), (x3 - x2, y3 - y2, z3 - z2)
    a, b = length(upper), length(lower)
    offset = target[0] - x1, target[1] - y1, target[2] - z1
    offset = less(offset, dot(offset, normal), normal)
    distance = length(offset)
    if min(a, b, distance) <= ZERO * (a + b):
        return None
    first, second = hinge_frame(over(upper, a), normal), hinge_frame(over(lower, b), normal)
    if first is None or second is None:
        return None
    line = over(offset, distance)
    plane = line, normal, cross(line, normal)
    return _placed(joints, target, (first, second), (a, b), plane, distance)


def _placed(
    joints: list[float],
    target: Vector,
    frames: tuple[Frame, Frame],
    lengths: tuple[float, float],
    plane: Frame,
    distance: float,
) -> Limb:
    """What `two_bone.place` gives in a bend plane, and the status."""
    (first, second), (a, b), (x1, y1, z1) = frames, lengths, joints[:3]
    cosine1, sine1, cosine2, sine2, status = _triangle(a, b, distance)
    turns1, step1 = _posed(first, a, plane, cosine1, sine1)
    turns2, step2 = _posed(second, b, plane, cosine2, sine2)
    x2, y2, z2 = x1 + step1[0], y1 + step1[1], z1 + step1[2]
    x3, y3, z3 = x2 + step2[0], y2 + step2[1], z2 + step2[2]
    residual = length((x3 - target[0], y3 - target[1], z3 - target[2]))
    return turns1 + turns2, [x1, y1, z1, x2, y2, z2, x3, y3, z3], residual, status


def _triangle(a: float, b: float, distance: float) -> tuple[float, float, float, float, int]:
    outer, excess = a + b, a - b
    inner = abs(excess)
    reached = min(max(distance, inner), outer)
    longer, shorter = max(a, b), min(a, b)
    past_fold = min(shorter, distance) - (longer - max(shorter, distance))
    before_full = shorter + (longer - distance)
    height = sqrt(max(past_fold, 0.0) * (reached + inner))
    height *= sqrt(max(before_full, 0.0) * (reached + outer))
    height /= reached
    skew = excess * outer / reached
    along1, along2 = reached + skew, reached - skew
    size1 = sqrt(along1 * along1 + height * height)
    size2 = sqrt(along2 * along2 + height * height)
    miss, slack = distance - reached, REACHED * outer
    status = Status.TARGET_FAR if miss > slack else Status.TARGET_NEAR if miss < -slack else Status.OK
    return along1 / size1, height / size1, along2 / size2, -height / size2, status


def _posed(frame: Frame, size: float, plane: Frame, cosine: float, sine: float) -> tuple[list[float], Vector]:
    """Turn of a bone by rows, and the step from its head to its tail."""
    (b0, b1, b2), (h0, h1, h2), (t0, t1, t2) = frame
    line, normal, away = plane
    turn = []
    posed = (
        cosine * line[0] - sine * away[0],
        cosine * line[1] - sine * away[1],
        cosine * line[2] - sine * away[2],
    )
    for p, n, u, w in zip(posed, normal, line, away, strict=True):
        q = sine * u + cosine * w
        turn += [p * b0 + n * h0 + q * t0, p * b1 + n * h1 + q * t1, p * b2 + n * h2 + q * t2]
    return turn, (posed[0] * size, posed[1] * size, posed[2] * size)
