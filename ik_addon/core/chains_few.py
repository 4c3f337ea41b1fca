# SPDX-License-Identifier: GPL-3.0-or-later
"""Free chains one at a time, equal to what `iterative` and `closing` give up to rounding.

What a chain has one of (its frame, its bend side, a Newton step) is computed in plain floats, see
`float_vectors`, and what it has one of for each bone in arrays ``(n,)``. For the live playback of a
few tails that takes a third of the time. Formulas are explained where the arrays are computed; a
test compares both. Singular chains, those that fold onto their longest bone, and those with a
bone that points almost straight back are left to the arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import cosh, sinh, sqrt
from typing import Any

import numpy as np

from .bend_plane import BENT, STRAIGHT
from .closing import ARC, ARC_ONSET, FIRST_LACK, STEP, bow, newton_step, square
from .float_vectors import (
    Frame,
    Vector,
    blend_sides,
    carried,
    frame_turn,
    hinge_frame,
    length,
    over,
    smooth_step,
    turned,
    turned_by,
    turned_to_pole,
)
from .iterative import EDGE, FULL, ONE_SIDED
from .job import REACHED, ZERO, ChainJob, ChainResult, Status
from .swing import twists
from .transforms import TINY, quaternion_multiply
from .two_bone import CLEAR

# Least part along u, plus 1, of a bone; its point loses digits below.
_BACK = 1e-4


@dataclass
class FewLine:
    """A chain on the line to its target; the fields as in `iterative.Line`.

    Attributes:
        lengths, arc: ``(n,)``; off, points: ``(n,)`` complex, of the FK pose.
        before, frame: u, N and -Y.
    """

    total: float
    lengths: np.ndarray
    arc: np.ndarray
    off: np.ndarray
    points: np.ndarray
    before: Frame
    frame: Frame
    start: float
    distance: float
    side: complex


# From points and the distance to solve at to the points to close from.
Shape = Callable[[np.ndarray, FewLine, float], np.ndarray]


def few_chains(
    job: ChainJob, most: int, iterations: int, tolerance: float, shape: Shape | None = None
) -> ChainResult | None:
    """The result of a valid job, or None for more than ``most`` chains, or where one is singular.

    Args:
        shape: moves the points before the chain is closed; None: they stay.
    """
    batch, count = job.joints.shape[:-2], job.joints.shape[-2]
    joints = job.joints.reshape(-1, count, 3)
    size = len(joints)
    if not 0 < size <= most:
        return None
    poles: list[Any] = [None] * size if job.pole is None else job.pole.reshape(-1, 3).tolist()
    if job.pole_mask is not None:
        poles = [p if m else None for p, m in zip(poles, job.pole_mask.reshape(-1).tolist(), strict=True)]
    angle = job.pole_angle
    angles = angle.reshape(-1).tolist() if isinstance(angle, np.ndarray) else [angle] * size
    vectors: list[Any] = [job.target.reshape(-1, 3).tolist(), job.hinge.reshape(-1, 3).tolist()]
    solved = []
    for chain, target, hinge, pole, angle in zip(joints, *vectors, poles, angles, strict=True):
        line = _to_line(chain, target, hinge)
        if line is None:
            return None
        points, missed = _solved(line, iterations, tolerance, shape, pole is not None)
        *result, aligned = _result(chain, target, line, points, pole, angle)
        solved.append((*result, _status(line, missed, aligned)))
    turns, positions, residual, status = zip(*solved, strict=True)
    return ChainResult(
        turns=np.array(turns).reshape(*batch, count - 1, 4),
        joints=np.array(positions).reshape(*batch, count, 3),
        residual=np.array(residual).reshape(batch),
        status=np.array(status, np.int8).reshape(batch),
    )


def _to_line(joints: np.ndarray, target: Vector, hinge: Vector) -> FewLine | None:
    """As `iterative.to_line`; None where the chain is singular or folds onto its longest bone."""
    bones = joints[1:] - joints[:-1]
    lengths = np.sqrt(np.einsum("ni,ni->n", bones, bones))
    sizes = lengths.tolist()
    total = sum(sizes)
    (x, y, z), (tip_x, tip_y, tip_z) = joints[0].tolist(), joints[-1].tolist()
    tip, line = (tip_x - x, tip_y - y, tip_z - z), (target[0] - x, target[1] - y, target[2] - z)
    start, distance, hinge_size = length(tip), length(line), length(hinge)
    if min(start, distance, *sizes) <= ZERO * total or hinge_size <= TINY:
        return None
    before = hinge_frame(over(tip, start), over(hinge, hinge_size))
    frame = None if before is None else carried(before, over(line, distance))
    start, distance, fold = min(start / total, 1.0), distance / total, 2.0 * max(sizes) / total - 1.0
    if before is None or frame is None or distance <= fold + ZERO:
        return None
    along, across, away = np.array(before) @ (bones / lengths[:, None]).T
    lift = 1.0 + along
    if lift.min() < _BACK:
        return None
    off = 1j * across - away
    lengths /= total
    arc = bow(lengths)
    side = _side(off, lengths * arc, arc)
    return FewLine(total, lengths, arc, off, off / lift, before, frame, start, distance, side)


def _side(off: np.ndarray, moments: np.ndarray, arc: np.ndarray) -> complex:
    bend = complex(moments @ off)
    size = abs(bend)
    unit = bend / (size + TINY)
    size = size / (float(moments @ arc) + TINY)
    if size < BENT:
        unit = complex(*blend_sides(smooth_step(size, STRAIGHT, BENT), unit.real, unit.imag))
    return unit


def _solved(
    line: FewLine, iterations: int, tolerance: float, shape: Shape | None, has_pole: bool
) -> tuple[np.ndarray, bool]:
    """Points of the chain with its tip in place, and if it is not."""
    points, distance = line.points, line.distance
    if distance >= 1.0 - FULL:
        if not has_pole:
            return points, False
        distance = min(distance, 1.0 - EDGE)
    folding = sqrt((1.0 - distance) / (1.0 + distance)) - sqrt((1.0 - line.start) / (1.0 + line.start))
    if folding > 0.0:
        points = points + line.arc * (ARC * min(folding / ARC_ONSET, 1.0) * line.side)
    if shape is not None:
        points = shape(points, line, distance)
    return _closed(points, line.lengths, distance, iterations, tolerance)


def _closed(
    points: np.ndarray, lengths: np.ndarray, distance: float, iterations: int, tolerance: float
) -> tuple[np.ndarray, bool]:
    """As `closing.close`."""
    bend = square(points)
    lack = float(lengths @ (bend / (1.0 + bend)))
    points = points * sqrt((1.0 - distance) * (1.0 - lack) / ((1.0 + distance) * max(lack, FIRST_LACK)))
    reach = 1.0 + distance
    # 1, t and t z of each bone, so that one product of matrices gives all sums.
    terms = np.ones((3, len(points)), complex)
    for step in range(iterations + 1):
        terms[1] = 2.0 / (1.0 + square(points))
        np.multiply(terms[1], points, out=terms[2])
        (_, tip, tip_off), (_, *mixed), (_, _, skew) = ((terms * lengths) @ terms.T).tolist()
        sums = (tip, tip_off, *mixed, skew)
        missed = sqrt((tip.real - reach) ** 2 + square(tip_off)) > tolerance
        if step == iterations or not missed:
            break
        along, off = newton_step(sums, reach)
        size = sqrt(along * along + square(off)) + TINY
        path = min(size, STEP)
        rate = sinh(path) / size
        points = points * (cosh(path) - along * rate) + off * rate
    return points, missed


def _result(
    joints: np.ndarray, target: Vector, line: FewLine, points: np.ndarray, pole: Vector | None, angle: float
) -> tuple[np.ndarray, np.ndarray, float, bool]:
    """Turns ``(n, 4)``, joints ``(n + 1, 3)``, residual, and if the pole is on the line."""
    settled = _settled(line)
    side, points = line.side * settled, points * settled
    frame, aligned = line.frame, False
    if pole is not None:
        side = _posed_side(line, side, 2.0 * points / (1.0 + square(points)))
        # The side to the pole, and the rest of the frame back by as much.
        frame, aligned = turned_to_pole(turned(frame, side.real, side.imag), pole)
        frame = turned(frame, side.real, -side.imag)
    if angle:
        frame = turned_by(frame, angle)
    if line.distance >= 1.0 - FULL:
        points = np.zeros(len(points), complex)
    turns = _swings(line.points, points)
    twice = 2.0 / (1.0 + square(points))
    off = twice * points
    posed = np.array(frame)
    steps = np.array((twice - 1.0, off.imag, -off.real)) * (line.lengths * line.total)
    solved = np.empty(joints.shape)
    solved[0] = joints[0]
    np.matmul(steps.T, posed, out=solved[1:])
    solved = np.add.accumulate(solved, axis=0)
    x, y, z = solved[-1].tolist()
    miss = length((x - target[0], y - target[1], z - target[2]))
    turns[:, 1:] = turns[:, 1:] @ posed
    turns /= np.sqrt(np.einsum("ni,ni->n", turns, turns))[:, None]
    chain = np.array(frame_turn(line.before, frame))
    return quaternion_multiply(turns, chain), solved, miss, aligned


def _settled(line: FewLine) -> complex:
    if line.distance >= line.start:
        return 1.0
    size = sqrt(3.0 * float(line.lengths @ square(line.off)))
    if size >= CLEAR:
        return 1.0
    ratio = (1.0 - line.start) * (1.0 + line.distance)
    ratio /= (1.0 + line.start) * (1.0 - line.distance) + TINY
    share = (1.0 - sqrt(ratio)) ** 2 * (1.0 - smooth_step(size, 0.0, CLEAR))
    side = complex(*blend_sides(1.0 - share, line.side.real, line.side.imag))
    return side * line.side.conjugate()


def _posed_side(line: FewLine, side: complex, off: np.ndarray) -> complex:
    moments = line.lengths * line.arc
    mean = complex(moments @ off) * side.conjugate()
    size, most = abs(mean), float(np.abs(moments) @ np.abs(off))
    weight = smooth_step(size / max(most, TINY), 0.0, ONE_SIDED)
    swung = weight * complex(abs(mean.real), mean.imag) / max(size, TINY) + (1.0 - weight)
    return side * swung / abs(swung)


def _swings(points: np.ndarray, posed: np.ndarray) -> np.ndarray:
    """Quaternions ``(n, 4)`` of `swing.swings`, parts w, u, N, -Y, from points before and after."""
    both = np.zeros((2, len(points) + 1), complex)
    both[0, 1:], both[1, 1:] = points, posed
    bones, parents = both[:, 1:], both[:, :-1]
    along, apart = 1.0 + parents.conj() * bones, bones - parents
    upper = twists(along[0].conj() * along[1], apart[0].conj() * apart[1]).conj()
    lower = upper * posed
    out = np.empty((len(points), 2), complex)
    out[:, 0] = (upper + lower.conj() * points).conj()
    out[:, 1] = lower - upper.conj() * points
    return out.view(float)


def _status(line: FewLine, missed: bool, aligned: bool) -> Status:
    if line.distance >= 1.0 - FULL:
        missed = False
        if line.distance > 1.0 + REACHED:
            return Status.TARGET_FAR
    if missed:
        return Status.NOT_CONVERGED
    return Status.POLE_ALIGNED if aligned else Status.OK
