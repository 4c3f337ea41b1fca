# SPDX-License-Identifier: GPL-3.0-or-later
"""What the solvers for chains of any number of bones share: the way in and the way out.

In: the FK pose is turned by the shortest way from its own tip direction onto the line from
the root to the target, and seen from the frame of that line: u along it, N the hinge's part
across it, Y = N x u the side that the hinge bends to. There only the distance is left to solve.

Out: the chain is turned about the line to its pole, and its bones get their turns.

Singular places:

- Without a pole: the target exactly opposite the FK tip direction. At a small angle e from
  there the chain turns 2 / e times as fast as the target does.
- With a pole: the line of the pole, as in `bend_plane`.
- The target on the root, or the FK tip on the root: there is no direction to turn from or to,
  and the chain is not turned. Near to the root the chain turns as fast as the direction does.
- A chain whose mean offset from the line passes zero (an S) has no side for the pole; it
  keeps the FK pose's, so it does not flip.

Lengths and distances are shares of the chain's length, arrays have the batch last.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import numpy as np

from .bend_plane import (
    blend_sides,
    carried_plane,
    dot,
    hinge_frames,
    pole_turn,
    smooth_step,
    turned_plane,
)
from .closing import bow
from .job import REACHED, ZERO, ChainJob, ChainResult, Status
from .reach import reach_range
from .swing import swings
from .transforms import TINY, quaternion_to_matrix

# FK bends (radians, roughly) between which the hinge's side gives way to the chain's own.
_STRAIGHT, _BENT = 1e-4, 8e-4
# Below this share of what it would be in a plain arc, the mean offset tells no side.
_ONE_SIDED = 0.25
# Joints that are solved at once; their temporaries stay in the cache.
BLOCK = 16384
# How near to its radii a chain that cannot reach its target is posed to find its side.
_EDGE = 1e-9


@dataclass
class Line:
    """FK poses of m chains, turned onto the lines to their targets.

    Attributes:
        root, target: ``(3, m)`` in the job's frame and unit.
        total: ``(m,)`` lengths of the chains in the job's unit.
        lengths: ``(n, m)`` of the bones.
        bones: ``(n, 3, m)`` directions, in the frame (u, Y, N) of the line.
        before, frame: ``(3, 3, m)`` u, Y, N in the FK pose and on the line, in the job's frame.
        start, distance: ``(m,)`` from root to FK tip and to the target.
        inner: ``(m,)`` smallest reach.
        arc: ``(n, m)`` from `closing.bow`.
        side: ``(m,)`` complex unit, where the FK pose bends to: Y is 1, N is 1j.
        far, near: ``(m,)`` True where the target is out of reach.
        on_root: ``(m,)`` True where the target is on the root; None: nowhere.
        source: ``(n, m)`` the bone whose direction a bone takes; None: each its own.
        dead: ``(m,)`` True for chains without length; None: there are none.
    """

    root: np.ndarray
    target: np.ndarray
    total: np.ndarray
    lengths: np.ndarray
    bones: np.ndarray
    before: np.ndarray
    frame: np.ndarray
    start: np.ndarray
    distance: np.ndarray
    inner: np.ndarray
    arc: np.ndarray
    side: np.ndarray
    far: np.ndarray
    near: np.ndarray
    on_root: np.ndarray | None
    source: np.ndarray | None
    dead: np.ndarray | None

    def solvable(self) -> np.ndarray:
        """Distances ``(m,)`` to solve at: those out of reach are brought to just within."""
        inside = np.minimum(np.maximum(self.distance, self.inner + _EDGE), 1.0 - _EDGE)
        return np.where(self.far | self.near, inside, self.distance)


def to_line(job: ChainJob) -> Line:
    """The job's FK poses on the lines to their targets; the job is valid."""
    count = job.joints.shape[-2]
    joints = np.ascontiguousarray(job.joints.reshape(-1, count, 3).transpose(1, 2, 0))
    target = job.target.reshape(-1, 3).T
    bones = joints[1:] - joints[:-1]
    vectors = np.stack((joints[-1] - joints[0], target - joints[0], job.hinge.reshape(-1, 3).T))
    lengths, sizes = np.sqrt(dot(bones, bones)), np.sqrt(dot(vectors, vectors))
    total = lengths.sum(axis=0)
    small = lengths <= ZERO * total
    bones /= np.maximum(lengths, TINY)[:, None]
    vectors /= np.maximum(sizes, TINY)[:, None]
    source = dead = None
    if small.any():
        bones, lengths, source, dead = _without_gaps(bones, lengths, small)
    scale = 1.0 / np.maximum(total, TINY)
    lengths = lengths * (scale if dead is None else np.where(dead, 1.0, scale))
    start, distance = sizes[:2] * scale
    tip, line, on_root = _directions(vectors[0], vectors[1], bones, sizes[:2] <= ZERO * total, lengths)
    if on_root is not None:
        distance = np.where(on_root, 0.0, distance)

    frames = hinge_frames(tip[None], vectors[2])[:, 0]
    plane = carried_plane(tip, frames[1:], line)
    before = np.stack((tip, -frames[2], frames[1]))
    frame = np.stack((line, -plane[1], plane[0]))
    local = np.einsum("nkm,akm->nam", bones, before)
    arc = bow(lengths)
    return Line(
        root=joints[0],
        target=target,
        total=total,
        lengths=lengths,
        bones=local,
        before=before,
        frame=frame,
        start=np.minimum(start, 1.0),
        distance=distance,
        inner=reach_range(lengths.T)[0],
        arc=arc,
        side=_side(local, lengths * arc),
        far=distance >= 1.0,
        near=distance <= 2.0 * lengths.max(axis=0) - 1.0 + ZERO,
        on_root=on_root,
        source=source,
        dead=dead,
    )


def to_result(
    job: ChainJob, line: Line, along: np.ndarray, off: np.ndarray, gap: np.ndarray, tolerance: float
) -> ChainResult:
    """The solved chains in the job's frame and unit.

    Args:
        along, off: ``(n, m)`` directions of the bones along u and, complex, along Y and N.
        gap: ``(m,)`` what the solver left between tip and target.
        tolerance: the gap that counts as none.
    """
    posed, aligned = _turned_to_pole(job, line, off)
    out = line.far | line.near
    if out.any():
        along = np.where(out, _extreme(line), along)
        off = np.where(out, 0.0, off)
    bones = np.stack((along, off.real, off.imag), axis=1)
    if line.source is not None:
        bones = np.take_along_axis(bones, line.source[:, None], axis=0)
    count, size = line.lengths.shape
    joints = np.empty((count + 1, 3, size))
    joints[0] = line.root
    joints[1:] = np.einsum("nam,akm->nkm", bones, posed)
    joints[1:] *= (line.lengths * line.total)[:, None]
    joints = np.cumsum(joints, axis=0)
    miss = joints[-1] - line.target

    turns = swings(line.bones, bones, _HINGE)
    turns[:, 1:] = np.einsum("nam,akm->nkm", turns[:, 1:], posed)
    chain = np.einsum("akm,ajm->mkj", posed, line.before)
    rotations = quaternion_to_matrix(turns.transpose(2, 0, 1)) @ chain[:, None]
    if line.dead is not None:
        rotations = np.where(line.dead[:, None, None, None], np.eye(3), rotations)
    batch = job.joints.shape[:-2]
    return ChainResult(
        rotations=rotations.reshape(*batch, count, 3, 3),
        joints=joints.transpose(2, 0, 1).reshape(*batch, count + 1, 3),
        residual=np.sqrt(dot(miss, miss)).reshape(batch),
        status=_status(line, gap > tolerance, aligned).reshape(batch),
    )


# N in the frame (u, Y, N).
_HINGE = np.array([[0.0], [0.0], [1.0]])


def _without_gaps(
    bones: np.ndarray, lengths: np.ndarray, small: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:
    """Bones without length take their parent's direction, at the root their first child's."""
    index = np.where(small, -1, np.arange(len(bones))[:, None])
    source = np.maximum.accumulate(index, axis=0)
    source = np.where(source < 0, np.argmin(small, axis=0), source)
    bones = np.take_along_axis(bones, source[:, None], axis=0)
    dead = small.all(axis=0)
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
    lengths: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Unit vectors to the FK tip and the target ``(3, m)``, also where one is on the root.

    Args:
        small: ``(2, m)`` True where the FK tip, the target are on the root.

    Returns:
        Both vectors, and where the target is on the root (None: nowhere).
    """
    if not small.any():
        return tip, line, None
    at_tip, on_root = small
    tip = np.where(at_tip, np.where(on_root, bones[0], line), tip)
    # A chain that folds onto one bone folds along its first one, which then stays in place.
    longest = lengths.max(axis=0)
    along = np.where(lengths[0] == longest, bones[0], -bones[0])
    tip = np.where(on_root & (longest >= 0.5 - ZERO), along, tip)
    return tip, np.where(on_root, tip, line), on_root


def _side(bones: np.ndarray, moments: np.ndarray) -> np.ndarray:
    """Where the FK pose bends to, as a complex unit ``(m,)``; a straight one to the hinge's side.

    Args:
        moments: ``(n, m)`` lengths times bow: the bend that is like an arc.
    """
    bend = _mean_offset(bones[:, 1] + 1j * bones[:, 2], moments)
    size = np.abs(bend)
    straight = size < _BENT
    bend = (bend + (size == 0.0)) / (size + (size == 0.0))
    if straight.any():
        blended = blend_sides(smooth_step(size, _STRAIGHT, _BENT), bend.real, bend.imag)
        bend = np.where(straight, blended[0] + 1j * blended[1], bend)
    return bend


def _mean_offset(off: np.ndarray, moments: np.ndarray) -> np.ndarray:
    """Twice the mean offset of a chain from its line, complex ``(m,)``, all its points counted.

    The integral of the offset along the chain is, by parts, one of the direction times the
    length still to go; on a closed line the latter may be counted from the chain's middle.
    """
    return np.einsum("nm,nm->m", moments, off)


def _turned_to_pole(job: ChainJob, line: Line, off: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """The frame (u, Y, N) turned about u ``(3, 3, m)``, and where the pole is on the line."""
    plane = np.stack((line.frame[2], -line.frame[1]))
    aligned = None
    if job.pole is not None:
        pole = job.pole.reshape(-1, 3).T
        pole = pole / np.maximum(np.sqrt(dot(pole, pole)), TINY)
        mask = None if job.pole_mask is None else job.pole_mask.reshape(-1)
        side = _posed_side(line, off)
        towards = turned_plane(plane, side.real, side.imag)
        cosine, sine, aligned = pole_turn(pole, towards, mask, line.on_root)
        plane = turned_plane(plane, cosine, sine)
    angle = np.asarray(job.pole_angle, float).reshape(-1)
    if angle.any():
        angle = angle if line.on_root is None else np.where(line.on_root, 0.0, angle)
        plane = turned_plane(plane, np.cos(angle), np.sin(angle))
    return np.stack((line.frame[0], -plane[1], plane[0])), aligned


def _posed_side(line: Line, off: np.ndarray) -> np.ndarray:
    """Where the solved chain bends to, a complex unit ``(m,)``.

    It is the direction of the mean offset, or the opposite if that is nearer to the FK pose's
    side: an S whose mean offset passes zero would flip otherwise. Where the offsets all but
    cancel it fades to the FK pose's side.
    """
    moments = line.lengths * line.arc
    mean = _mean_offset(off, moments) * line.side.conj()
    size = np.abs(mean)
    most = np.einsum("nm,nm->m", np.abs(moments), np.abs(off))
    weight = smooth_step(size / np.maximum(most, TINY), 0.0, _ONE_SIDED)
    off_side = (np.abs(mean.real) + 1j * mean.imag) / np.maximum(size, TINY)
    off_side = weight * off_side + (1.0 - weight)
    return line.side * off_side / np.abs(off_side)


def _extreme(line: Line) -> np.ndarray:
    """Parts along u ``(n, m)`` of bones that all point to the target, or fold onto the longest."""
    longest = np.argmax(line.lengths, axis=0) == np.arange(len(line.lengths))[:, None]
    return np.where(line.near & ~line.far & ~longest, -1.0, 1.0)


def _status(line: Line, missed: np.ndarray, aligned: np.ndarray | None) -> np.ndarray:
    """Values of `Status` ``(m,)`` int8."""
    status = np.zeros(len(line.distance), np.int8)
    if aligned is not None:
        status[aligned] = Status.POLE_ALIGNED
    status[missed & ~(line.far | line.near)] = Status.NOT_CONVERGED
    status[line.distance > 1.0 + REACHED] = Status.TARGET_FAR
    status[line.distance < line.inner - REACHED] = Status.TARGET_NEAR
    return status


def in_blocks(
    solver: Callable[[ChainJob, int, float], ChainResult], job: ChainJob, iterations: int, tolerance: float
) -> ChainResult:
    """The result of ``solver`` for a job of any size, solved in blocks that stay in the cache."""
    batch = job.joints.shape[:-2]
    size = max(1, BLOCK // job.joints.shape[-2])
    count = int(np.prod(batch))
    if count <= size:
        return solver(job, iterations, tolerance)
    tails = {"joints": 2, "target": 1, "hinge": 1, "pole": 1, "pole_mask": 0, "pole_angle": 0}
    flat = {}
    for name, tail in tails.items():
        value = getattr(job, name)
        if isinstance(value, np.ndarray):
            flat[name] = value.reshape(-1, *value.shape[value.ndim - tail :])
    parts = [
        solver(replace(job, **{k: v[i : i + size] for k, v in flat.items()}), iterations, tolerance)
        for i in range(0, count, size)
    ]

    def whole(name: str) -> np.ndarray:
        array = np.concatenate([getattr(p, name) for p in parts])
        return array.reshape(*batch, *array.shape[1:])

    return ChainResult(*(whole(f.name) for f in fields(ChainResult)))
