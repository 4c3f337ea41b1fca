# SPDX-License-Identifier: GPL-3.0-or-later
"""The two-bone solve of a few limbs in plain floats, equal to `two_bone` to the bit.

A NumPy call takes half a microsecond however small its array, and a solve takes two
hundred of them: live playback of one character would spend its time there. Formulas and
order of operations are those of `two_bone` and `bend_plane`, where they are explained; a
test compares both. Singular input is left to the arrays.
"""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np

from .bend_plane import BENT, OPPOSITE, PARALLEL, SIN_CONE
from .job import REACHED, ZERO, ChainJob, Status
from .transforms import TINY

Vector = tuple[float, float, float]

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
    limbs = []
    for limb in rows:
        solved = _solve_one(*limb)
        if solved is None:
            return None
        limbs.append(solved)
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
        a, b = _size(upper), _size(lower)
        if min(a, b) <= TINY:
            return None
        normal = _cross(_over(lower, b), _over(upper, a))
        bend = _size(normal)
        if bend < BENT:
            return None
        normals.append(_over(normal, bend))
    return np.array(normals)


def _solve_one(
    joints: list[float], target: Vector, hinge: Vector, pole: Vector | None, angle: float
) -> tuple[list[float], list[float], float, int] | None:
    """Turns, joints, residual and status of one limb; None where it is singular."""
    x1, y1, z1, x2, y2, z2, x3, y3, z3 = joints
    upper, lower = (x2 - x1, y2 - y1, z2 - z1), (x3 - x2, y3 - y2, z3 - z2)
    tip, line = (x3 - x1, y3 - y1, z3 - z1), (target[0] - x1, target[1] - y1, target[2] - z1)
    a, b, reach, distance = _size(upper), _size(lower), _size(tip), _size(line)
    hinge_size = _size(hinge)
    if min(a, b, reach, distance) <= ZERO * (a + b) or hinge_size <= TINY:
        return None
    hinge = _over(hinge, hinge_size)
    tip, line = _over(tip, reach), _over(line, distance)
    first, second = _frame(_over(upper, a), hinge), _frame(_over(lower, b), hinge)
    plane = _frame(tip, hinge)
    if first is None or second is None or plane is None:
        return None

    normal, away = plane[1], plane[2]
    middle = (tip[0] + line[0], tip[1] + line[1], tip[2] + line[2])
    square = _dot(middle, middle)
    if square < OPPOSITE**2:
        return None
    normal = _minus(normal, 2.0 * _dot(normal, middle) / square, middle)
    away = _minus(away, 2.0 * _dot(away, middle) / square, middle)
    if pole is not None:
        size = _size(pole)
        if size <= TINY:
            return None
        pole = _over(pole, size)
        sine, back = _dot(pole, normal), _dot(pole, away)
        off_line = sqrt(sine * sine + back * back)
        if off_line < SIN_CONE:
            return None
        normal, away = _turned(normal, away, -back / off_line, sine / off_line)
    if angle:
        # NumPy's cosine: the one of `math` may differ from it in the last digit.
        normal, away = _turned(normal, away, float(np.cos(angle)), float(np.sin(angle)))

    cosine1, sine1, cosine2, sine2, status = _triangle(a, b, distance)
    turns1, step1 = _posed(first, a, line, normal, away, cosine1, sine1)
    turns2, step2 = _posed(second, b, line, normal, away, cosine2, sine2)
    x2, y2, z2 = x1 + step1[0], y1 + step1[1], z1 + step1[2]
    x3, y3, z3 = x2 + step2[0], y2 + step2[1], z2 + step2[2]
    residual = _size((x3 - target[0], y3 - target[1], z3 - target[2]))
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


def _posed(
    frame: tuple[Vector, Vector, Vector],
    length: float,
    line: Vector,
    normal: Vector,
    away: Vector,
    cosine: float,
    sine: float,
) -> tuple[list[float], Vector]:
    """Turn of a bone by rows, and the step from its head to its tail."""
    (b0, b1, b2), (h0, h1, h2), (t0, t1, t2) = frame
    turn = []
    posed = (
        cosine * line[0] - sine * away[0],
        cosine * line[1] - sine * away[1],
        cosine * line[2] - sine * away[2],
    )
    for p, n, u, w in zip(posed, normal, line, away, strict=True):
        q = sine * u + cosine * w
        turn += [p * b0 + n * h0 + q * t0, p * b1 + n * h1 + q * t1, p * b2 + n * h2 + q * t2]
    return turn, (posed[0] * length, posed[1] * length, posed[2] * length)


def _frame(bone: Vector, hinge: Vector) -> tuple[Vector, Vector, Vector] | None:
    normal = _minus(hinge, _dot(bone, hinge), bone)
    square = _dot(normal, normal)
    if square < PARALLEL**2:
        return None
    normal = _over(normal, sqrt(square))
    return bone, normal, _cross(bone, normal)


def _turned(normal: Vector, away: Vector, cosine: float, sine: float) -> tuple[Vector, Vector]:
    (n0, n1, n2), (w0, w1, w2) = normal, away
    return (
        (cosine * n0 + sine * w0, cosine * n1 + sine * w1, cosine * n2 + sine * w2),
        (cosine * w0 - sine * n0, cosine * w1 - sine * n1, cosine * w2 - sine * n2),
    )


def _dot(a: Vector, b: Vector) -> float:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def _size(a: Vector) -> float:
    x, y, z = a
    return sqrt(x * x + y * y + z * z)


def _over(a: Vector, size: float) -> Vector:
    inverse = 1.0 / size
    return a[0] * inverse, a[1] * inverse, a[2] * inverse


def _minus(a: Vector, factor: float, b: Vector) -> Vector:
    return a[0] - factor * b[0], a[1] - factor * b[1], a[2] - factor * b[2]


def _cross(a: Vector, b: Vector) -> Vector:
    (x, y, z), (u, v, w) = a, b
    return y * w - z * v, z * u - x * w, x * v - y * u
