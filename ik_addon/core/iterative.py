# SPDX-License-Identifier: GPL-3.0-or-later
"""What the solvers for chains of any number of bones share: the way in and the way out.

In: the FK pose is turned by the shortest way from its own tip direction onto the line from
the root to the target, and seen in the frame of that line: u along it, N the hinge's part
across it, Y = N x u the side that the hinge bends to. There only the distance is left to solve.

Out: the chain is turned about the line to its pole, rigidly and with its roll, and its bones
get their turns. The root bone's turn is that of the whole chain and then its own swing; each
other bone keeps its FK twist against its parent.

Singular places:

- Without a pole: the target exactly opposite the FK tip direction. At a small angle e from
  there the chain turns 2 / e times as fast as the target does.
- With a pole: the line of the pole, as told in `bend_plane`.
- The target on the root, or the FK tip on the root: there is no direction to turn from or to,
  and the chain is not turned. Near the root the chain turns as fast as the direction does.
- The bend side of a straight FK pose: see `_settled`.
- The pole's side of an S whose mean offset from the line passes zero: it stays on the side
  that the FK pose has, so that it does not flip.

Lengths and distances are shares of the chain's length. Arrays have the batch last. A
direction is its part along u, ``along`` ``(n, m)``, and ``off`` ``(n, m)``, complex, Y + i N.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import numpy as np

from .bend_plane import (
    BENT,
    STRAIGHT,
    blend_sides,
    carried_plane,
    dot,
    hinge_frames,
    pole_turn,
    smooth_step,
    turned_plane,
)
from .closing import bow, directions, leave_line, project, spinors
from .job import REACHED, ZERO, ChainJob, ChainResult, Status
from .swing import Spinors, swings
from .transforms import NO_TURN, TINY, matrix_to_quaternion, quaternion_multiply
from .two_bone import CLEAR

# What a chain lacks to full reach below which rounding hides how it bends.
FULL = 1e-14
# Below this share of what it would be in a plain arc, the mean offset tells no side.
ONE_SIDED = 0.25
# How near to its radii a chain that cannot reach its target is posed to find its side.
EDGE = 1e-9
# Joints that are solved at once; their temporaries stay in the cache.
BLOCK = 8192


@dataclass
class Line:
    """FK poses of m chains, turned onto the lines to their targets.

    Attributes:
        root, target: ``(3, m)`` in the job's frame and unit.
        total: ``(m,)`` lengths of the chains in the job's unit.
        lengths: ``(n, m)`` of the bones.
        off: ``(n, m)`` directions of the bones off the line.
        spinors: of the bones' directions, from `closing.spinors`.
        before, frame: ``(3, 3, m)`` u, Y, N in the FK pose and on the line, in the job's frame.
        start, distance: ``(m,)`` from root to FK tip and to the target.
        fold: ``(m,)`` what the longest bone exceeds all others by, may be below zero.
        arc: ``(n, m)`` from `closing.bow`.
        side: ``(m,)`` complex unit, where the FK pose bends to.
        out: ``(m,)`` True where the target is at full reach, at the inner radius or beyond.
        on_root: ``(m,)`` True where the target is on the root; None: nowhere.
        source: ``(n, m)`` the bone whose direction a bone takes; None: each its own.
        dead: ``(m,)`` True for chains without length; None: there are none.
    """

    root: np.ndarray
    target: np.ndarray
    total: np.ndarray
    lengths: np.ndarray
    off: np.ndarray
    spinors: Spinors
    before: np.ndarray
    frame: np.ndarray
    start: np.ndarray
    distance: np.ndarray
    fold: np.ndarray
    arc: np.ndarray
    side: np.ndarray
    out: np.ndarray
    on_root: np.ndarray | None
    source: np.ndarray | None
    dead: np.ndarray | None

    def solvable(self) -> np.ndarray:
        """Distances ``(m,)`` to solve at: those out of reach are brought to just within."""
        if not self.out.any():
            return self.distance
        inside = np.minimum(np.maximum(self.distance, self.fold + EDGE), 1.0 - EDGE)
        return np.where(self.out, inside, self.distance)

    def active(self, job: ChainJob) -> np.ndarray:
        """Chains ``(m,)`` to solve. One out of reach needs its shape only to find its pole's side."""
        return ~self.out if job.pole is None else np.ones(len(self.out), bool)


def in_blocks(
    solver: Callable[[ChainJob, int, float], ChainResult], job: ChainJob, iterations: int, tolerance: float
) -> ChainResult:
    """What ``solver`` gives for a valid job, solved in blocks that stay in the cache."""
    count, size = job.target.size // 3, max(1, BLOCK // job.joints.shape[-2])
    if count <= size:
        return solver(job, iterations, tolerance)
    batch = job.joints.shape[:-2]
    tails = {"joints": 2, "target": 1, "hinge": 1, "pole": 1, "pole_mask": 0, "pole_angle": 0}
    flat = {name: getattr(job, name) for name in tails}
    flat = {
        name: value.reshape(count, *value.shape[value.ndim - tails[name] :])
        for name, value in flat.items()
        if isinstance(value, np.ndarray)
    }
    parts = [
        solver(replace(job, **{k: v[i : i + size] for k, v in flat.items()}), iterations, tolerance)
        for i in range(0, count, size)
    ]
    whole = [np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(ChainResult)]
    return ChainResult(*(array.reshape(*batch, *array.shape[1:]) for array in whole))


def to_line(job: ChainJob) -> Line:
    """The FK poses of a valid job on the lines to their targets."""
    count = job.joints.shape[-2]
    joints = np.ascontiguousarray(job.joints.reshape(-1, count, 3).transpose(1, 2, 0))
    target = job.target.reshape(-1, 3).T
    # Bones, root to tip, root to target, hinge.
    vectors = np.empty((count + 2, *target.shape))
    np.subtract(joints[1:], joints[:-1], out=vectors[:-3])
    np.subtract(joints[-1], joints[0], out=vectors[-3])
    np.subtract(target, joints[0], out=vectors[-2])
    vectors[-1] = job.hinge.reshape(-1, 3).T
    sizes = np.sqrt(dot(vectors, vectors))
    lengths = sizes[:-3]
    total = np.add.reduce(lengths, axis=0)
    small = sizes[:-1] <= ZERO * total
    vectors *= (1.0 / np.maximum(sizes, TINY))[:, None]
    bones, tip, line, hinge = vectors[:-3], *vectors[-3:]
    any_small = small.any()
    source = dead = on_root = None
    if any_small and small[:-2].any():
        bones, lengths, source, dead = _without_gaps(bones, lengths, small[:-2])
    scale = 1.0 / np.maximum(total, TINY)
    lengths = lengths * (scale if dead is None else np.where(dead, 1.0, scale))
    start, distance = sizes[-3:-1] * scale
    fold = 2.0 * np.maximum.reduce(lengths, axis=0) - 1.0
    if any_small and small[-2:].any():
        tip, line, on_root = _directions(tip, line, bones, small[-2:], fold, lengths)
        # A chain of no length is on its target when that is on the root.
        distance = np.where(on_root, 0.0 if dead is None else dead, distance)

    plane = hinge_frames(tip[None], hinge)[1:, 0]
    before, frame = _frame(tip, plane), _frame(line, carried_plane(tip, plane, line))
    along, aside, across = np.einsum("nkm,akm->anm", bones, before)
    off = np.empty(along.shape, complex)
    off.real, off.imag = aside, across
    arc = bow(lengths)
    return Line(
        root=joints[0],
        target=target,
        total=total,
        lengths=lengths,
        off=off,
        spinors=spinors(along, off),
        before=before,
        frame=frame,
        start=np.minimum(start, 1.0),
        distance=distance,
        fold=fold,
        arc=arc,
        side=_side(off, lengths * arc, arc),
        out=(distance >= 1.0 - FULL) | (distance <= fold + ZERO),
        on_root=on_root,
        source=source,
        dead=dead,
    )


def _frame(line: np.ndarray, plane: np.ndarray) -> np.ndarray:
    """u, Y, N ``(3, 3, m)`` of a bend plane."""
    frame = np.empty((3, *line.shape))
    frame[0], frame[2] = line, plane[0]
    np.negative(plane[1], out=frame[1])
    return frame


def bowed(line: Line, distance: np.ndarray) -> np.ndarray:
    """Points ``(n, m)`` of the FK pose for `closing.close`, bowed where it has to fold."""
    points = project(*line.spinors, line.arc, line.side)
    return leave_line(points, line.arc, line.side, line.start, distance)


def to_result(job: ChainJob, line: Line, points: np.ndarray, missed: np.ndarray) -> ChainResult:
    """The solved chains in the job's frame and unit.

    Args:
        points: ``(n, m)`` of the bones' directions, see `closing`.
        missed: ``(m,)`` True where the solver did not converge.
    """
    side, settled = line.side, _settled(line)
    if settled is not None:
        side, points = side * settled, points * settled
    if line.source is not None:
        points = np.take_along_axis(points, line.source, axis=0)
    along, off = directions(points)
    frame, aligned = _turned_to_pole(job, line, side, off)
    posed: Spinors = (np.ones(1), points)
    if line.out.any():
        extreme = _extreme(line)
        along, off = np.where(line.out, extreme, along), np.where(line.out, 0.0, off)
        back = line.out & (extreme < 0.0)
        posed = np.where(back, 0.0, 1.0), np.where(back, 1.0, np.where(line.out, 0.0, points))
    count, size = along.shape
    bones = np.empty((3, count, size))
    bones[0], bones[1], bones[2] = along, off.real, off.imag
    joints = np.empty((count + 1, 3, size))
    joints[0] = line.root
    lengths = (line.lengths * line.total)[:, None]
    np.multiply(np.einsum("anm,akm->nkm", bones, frame), lengths, out=joints[1:])
    joints = np.add.accumulate(joints, axis=0)
    miss = joints[-1] - line.target

    turns = _turns(swings(line.spinors, posed), frame, line.before)
    if line.dead is not None:
        turns = np.where(line.dead[:, None, None], NO_TURN, turns)
    batch = job.joints.shape[:-2]
    return ChainResult(
        turns=turns.reshape(*batch, count, 4),
        joints=joints.transpose(2, 0, 1).reshape(*batch, count + 1, 3),
        residual=np.sqrt(dot(miss, miss)).reshape(batch),
        status=_status(line, missed, aligned).reshape(batch),
    )


def _turns(own: np.ndarray, frame: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Unit quaternions ``(m, n, 4)`` of the bones' turns in the job's frame.

    Args:
        own: ``(4, n, m)`` turns of the bones on the line, parts w, u, Y, N, of any length but zero.
        frame, before: ``(3, 3, m)``, what the chain is turned to as a whole, and from.
    """
    turns = np.empty((own.shape[2], own.shape[1], 4))
    turns[..., 0] = own[0].T
    np.einsum("anm,akm->mnk", own[1:], frame, out=turns[..., 1:])
    turns /= np.sqrt(np.einsum("mni,mni->mn", turns, turns))[..., None]
    chain = matrix_to_quaternion(np.einsum("akm,ajm->mkj", frame, before))
    return quaternion_multiply(turns, chain[:, None])


def _without_gaps(
    bones: np.ndarray, lengths: np.ndarray, small: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:
    """Bones without length take their parent's direction, at the root their first child's."""
    index = np.where(small, -1, np.arange(len(bones))[:, None])
    source = np.maximum.accumulate(index, axis=0)
    source = np.where(source < 0, np.argmin(small, axis=0), source)
    bones = np.take_along_axis(bones, source[:, None], axis=0)
    dead: np.ndarray = np.all(small, axis=0)
    if not dead.any():
        return bones, lengths, source, None
    # Any straight chain will do: what it gives is thrown away.
    bones = np.where(dead, np.array([[0.0], [1.0], [0.0]]), bones)
    return bones, np.where(dead, 1.0 / len(bones), lengths), source, dead


def _directions(
    tip: np.ndarray,
    line: np.ndarray,
    bones: np.ndarray,
    small: np.ndarray,
    fold: np.ndarray,
    lengths: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Unit vectors to the FK tip and the target ``(3, m)``, also where one is on the root.

    Args:
        small: ``(2, m)`` True where the FK tip, the target are on the root.

    Returns:
        Both vectors, and where the target is on the root.
    """
    at_tip, on_root = small
    tip = np.where(at_tip, np.where(on_root, bones[0], line), tip)
    # A chain that folds onto its longest bone folds along its first one, which stays in place.
    first = np.where(2.0 * lengths[0] - 1.0 == fold, bones[0], -bones[0])
    tip = np.where(on_root & (fold >= -ZERO), first, tip)
    return tip, np.where(on_root, tip, line), on_root


def _side(off: np.ndarray, moments: np.ndarray, arc: np.ndarray) -> np.ndarray:
    """Where the FK pose bends to, as a complex unit ``(m,)``; a straight one to the hinge's side.

    Args:
        moments: ``(n, m)`` lengths times bow.
    """
    bend = np.add.reduce(moments * off, axis=0)
    size = np.abs(bend)
    unit = bend / (size + TINY)
    # As an angle: what an arc of this bend has at its ends.
    size = size / (np.add.reduce(moments * arc, axis=0) + TINY)
    straight = size < BENT
    if straight.any():
        blended = blend_sides(smooth_step(size, STRAIGHT, BENT), unit.real, unit.imag)
        unit = np.where(straight, blended[0] + 1j * blended[1], unit)
    return unit


def _settled(line: Line) -> np.ndarray | None:
    """Turn about u, a complex unit ``(m,)``, that takes small bends to the hinge's side; None: no turn.

    A chain that is almost straight in FK gets its bend side from small deviations, and would
    fold to wherever they point. So what it bends more than in FK, as a share of the bend,
    squared, goes to the hinge's side: all of it for a straight chain, nothing from a bend of
    `two_bone.CLEAR` on. At the FK tip, or further away, nothing is turned.
    """
    folding = line.distance < line.start
    if not folding.any():
        return None
    size = np.sqrt(3.0 * np.add.reduce(line.lengths * (line.off * line.off.conj()).real, axis=0))
    folding &= size < CLEAR
    if not folding.any():
        return None
    distance = np.minimum(line.distance, line.start)
    ratio = (1.0 - line.start) * (1.0 + distance) / ((1.0 + line.start) * (1.0 - distance) + TINY)
    share = (1.0 - np.sqrt(ratio)) ** 2 * (1.0 - smooth_step(size, 0.0, CLEAR))
    cosine, sine = blend_sides(1.0 - share, line.side.real, line.side.imag)
    return np.where(folding, (cosine + 1j * sine) * line.side.conj(), 1.0)


def _turned_to_pole(
    job: ChainJob, line: Line, side: np.ndarray, off: np.ndarray
) -> tuple[np.ndarray, np.ndarray | None]:
    """The frame (u, Y, N) turned about u ``(3, 3, m)``, and where the pole is on the line."""
    angle = np.asarray(job.pole_angle, float).reshape(-1)
    turn = angle.any()
    if job.pole is None and not turn:
        return line.frame, None
    plane = np.stack((line.frame[2], -line.frame[1]))
    aligned = None
    if job.pole is not None:
        pole = job.pole.reshape(-1, 3).T
        pole = pole / np.maximum(np.sqrt(dot(pole, pole)), TINY)
        mask = None if job.pole_mask is None else job.pole_mask.reshape(-1)
        side = _posed_side(line, side, off)
        towards = turned_plane(plane, side.real, side.imag)
        cosine, sine, aligned = pole_turn(pole, towards, mask, line.on_root)
        plane = turned_plane(plane, cosine, sine)
    if turn:
        angle = angle if line.on_root is None else np.where(line.on_root, 0.0, angle)
        plane = turned_plane(plane, np.cos(angle), np.sin(angle))
    return _frame(line.frame[0], plane), aligned


def _posed_side(line: Line, side: np.ndarray, off: np.ndarray) -> np.ndarray:
    """Where the solved chain bends to, a complex unit ``(m,)``.

    It is the direction of the chain's mean offset from the line, or the opposite if that is
    nearer to ``side``, the FK pose's. Where the offsets all but cancel it fades to that side.

    The mean over all points of the chain is, by parts, one of the bones' directions times the
    length that is still to go; on a chain that ends on the line this may count from the middle.
    """
    moments = line.lengths * line.arc
    mean = np.add.reduce(moments * off, axis=0) * side.conj()
    size = np.abs(mean)
    most = np.add.reduce(np.abs(moments) * np.abs(off), axis=0)
    weight = smooth_step(size / np.maximum(most, TINY), 0.0, ONE_SIDED)
    swung = weight * (np.abs(mean.real) + 1j * mean.imag) / np.maximum(size, TINY) + (1.0 - weight)
    return side * swung / np.abs(swung)


def _extreme(line: Line) -> np.ndarray:
    """Parts along u ``(n, m)`` of bones that all point to the target, or fold onto the longest."""
    longest = np.argmax(line.lengths, axis=0)
    own = np.arange(len(line.lengths))[:, None] if line.source is None else line.source
    return np.where((line.distance < 1.0 - FULL) & (own != longest), -1.0, 1.0)


def _status(line: Line, missed: np.ndarray, aligned: np.ndarray | None) -> np.ndarray:
    """Values of `Status` ``(m,)`` int8."""
    status = np.zeros(len(missed), np.int8)
    if aligned is not None:
        status[aligned] = Status.POLE_ALIGNED
    if missed.any():
        status[missed & ~line.out] = Status.NOT_CONVERGED
    if line.out.any():
        status[line.distance > 1.0 + REACHED] = Status.TARGET_FAR
        status[line.distance < line.fold - REACHED] = Status.TARGET_NEAR
    return status
