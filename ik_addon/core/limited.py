# SPDX-License-Identifier: GPL-3.0-or-later
"""Chains whose joints have limits: from the pose that a free solver wants to one inside the box.

The free pose carries the pole's side, the bones' twist and the look of the chain, so the search
starts at the pose of the box that is nearest to it and moves as little as it needs to. Where
a bent chain gets stuck at its bounds the search starts again from poses that are the same for each
call. Neither frames nor chains know of each other.

With a box that keeps the tip away the nearest pose is looked for. From a few starts it is the
nearest of all in 99 of 100 cases, and never a worse one than from the free pose. Neighbouring
targets give neighbouring poses, apart from where the way from the free pose ends at the bounds
and another pose takes over (1 step in 1,000 of chains of three bones with 40 degrees, fewer the
more bones there are), and where the free solver jumps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from .box_search import CURVED, LEAST_MOVE, RESTART, drawn, search
from .job import REACHED
from .limited_chain import Chains, not_alone, place, taken
from .limited_hinge import hinged, solve_hinge
from .limits import KEPT, Box, rotation_of
from .reach import reach_range
from .transforms import (
    NO_TURN,
    TINY,
    length,
    matrix_to_quaternion,
    quaternion_conjugate,
    quaternion_multiply,
    quaternion_to_matrix,
)

# A gap larger by this share of the chain's length than its bones alone would leave is the limits'.
BOUND = 1e-6
# Poses to start again from, and evenly spread ones that the best of them are taken from.
STARTS, SPREAD = 14, 256
# By so much of a range these go past its ends, and are cut off there: the nearest pose often is at a bound.
PAST = 0.25
# So many of these are posed at once, of all chains together.
AT_ONCE = 8192
# Of poses that do not reach, so many of the nearest are refined, if they are within this share of the
# length of the nearest one.
REFINED, CLOSE = 4, 0.1
# An angle without a range starts anywhere on its circle, counted from the free pose.
WIDE = np.pi
# Targets are brought nearer than this many lengths of their chains: further off only their direction counts.
FAR = 1e4
# So many numbers are in the second derivatives of the chains that are searched at once.
BLOCK = 2_000_000


@dataclass(frozen=True)
class JointChain:
    """Chains of n bones as their joints see them, in any frame (the add-on uses armature space).

    A bone's orientation is that of its parent @ rest @ channel rotation.

    Attributes:
        base: ``(..., 3, 3)`` orientation of the root's parent.
        root: ``(..., 3)`` position of the root.
        rest: ``(..., n, 3, 3)`` rest orientations, each in the parent's rest frame.
        step: ``(..., n, 3)`` from each joint to the next, the last one to the tip, in the bone's
            own posed frame.
    """

    base: np.ndarray
    root: np.ndarray
    rest: np.ndarray
    step: np.ndarray

    def joints(self, rotation: np.ndarray) -> np.ndarray:
        """Positions ``(..., n + 1, 3)`` for channel rotations ``(..., n, 4)``."""
        local = self.rest @ quaternion_to_matrix(rotation)
        frame, at = self.base, self.root
        joints = [np.broadcast_to(at, (*rotation.shape[:-2], 3))]
        for bone in range(rotation.shape[-2]):
            frame = frame @ local[..., bone, :, :]
            at = at + np.einsum("...ij,...j->...i", frame, self.step[..., bone, :])
            joints.append(at)
        return np.stack(joints, axis=-2)


@dataclass(frozen=True)
class LimitedResult:
    """Poses within limits.

    Attributes:
        rotation: ``(..., n, 4)`` channel rotations.
        joints: ``(..., n + 1, 3)`` positions from root to tip.
        residual: ``(...)`` distance from tip to target.
        bound: ``(...)`` True where limits keep the tip away: further than the bones' lengths alone.
    """

    rotation: np.ndarray
    joints: np.ndarray
    residual: np.ndarray
    bound: np.ndarray


def solve_limited(
    chain: JointChain,
    target: np.ndarray,
    wanted: np.ndarray,
    box: Box,
    fk: np.ndarray | None = None,
    has_pole: np.ndarray | bool = False,
    exceeded: np.ndarray | None = None,
) -> LimitedResult:
    """Bring the tips as near to their targets as the joints' limits let them.

    Args:
        target: ``(..., 3)`` in the chain's frame.
        wanted: ``(..., n, 4)`` channel rotations of the free solution; where they exceed no
            limit they are returned as they are to the bit.
        box: from `JointLimits.box`.
        fk: ``(..., n, 4)`` channel rotations in the FK pose, one of the poses to start again from.
        has_pole: ``(...)`` True where a pole says to which side the chain bends.
        exceeded: ``(...)`` what `Box.exceeded` says of ``wanted``, if that is known.

    The cheap way in, since most poses exceed nothing::

        box = limits.box(fk)
        exceeded = box.exceeded(wanted)
        if exceeded.any():
            result = solve_limited(chain, target, wanted, box, fk, has_pole, exceeded)
    """
    batch = np.broadcast_shapes(wanted.shape[:-2], target.shape[:-1])
    exceeded = np.broadcast_to(box.exceeded(wanted) if exceeded is None else exceeded, batch)
    rotation = np.broadcast_to(wanted, (*batch, *wanted.shape[-2:]))
    if exceeded.any():
        rotation = rotation.copy()
        rows = np.argwhere(exceeded)
        size = max(1, BLOCK // (STARTS * (3 * wanted.shape[-2]) ** 2))
        for start in range(0, len(rows), size):
            # A single chain has no batch dimension to index; it gets one.
            at = tuple(rows[start : start + size].T) or (None,)
            part = _Problem(
                _picked(chain.base, batch, 2, at),
                _picked(chain.rest, batch, 3, at),
                _picked(chain.step, batch, 2, at),
                _picked(target - chain.root, batch, 1, at),
                _picked(wanted, batch, 2, at),
                box.pick(at, batch),
                None if fk is None else _picked(fk, batch, 2, at),
                _picked(np.asarray(has_pole), batch, 0, at),
            )
            rotation[at] = _solve(part)
    joints = chain.joints(rotation)
    miss = length(joints[..., -1, :] - target)
    inner, outer = reach_range(length(chain.step))
    distance = length(target - chain.root)
    least = np.maximum(np.maximum(distance - outer, inner - distance), 0.0)
    return LimitedResult(rotation, joints, miss, miss > least + BOUND * outer)


@dataclass(frozen=True)
class _Problem:
    """m chains to solve, the fields as in `solve_limited` with one batch dimension.

    Attributes:
        target: ``(m, 3)`` from the root.
    """

    base: np.ndarray
    rest: np.ndarray
    step: np.ndarray
    target: np.ndarray
    wanted: np.ndarray
    box: Box
    fk: np.ndarray | None
    has_pole: np.ndarray


def _picked(array: np.ndarray, batch: tuple[int, ...], tail: int, at: tuple) -> np.ndarray:
    """The elements ``at`` of an array that has ``tail`` dimensions behind the batch."""
    shape = (*batch, *array.shape[array.ndim - tail :])
    return (array if array.shape == shape else np.broadcast_to(array, shape))[at]


def _last(array: np.ndarray) -> np.ndarray:
    """The batch dimension moved from the first place to the last."""
    return np.ascontiguousarray(array.transpose(*range(1, array.ndim), 0))


def _first(array: np.ndarray) -> np.ndarray:
    """The batch dimension moved from the last place to the first."""
    return np.ascontiguousarray(array.transpose(array.ndim - 1, *range(array.ndim - 1)))


def _solve(problem: _Problem) -> np.ndarray:
    """Channel rotations ``(m, n, 4)`` inside the box."""
    box = problem.box
    # Angles of bones without any limit count from the free pose, far from gimbal lock.
    wanted = box.canonical(problem.wanted)
    free = np.isinf(box.lower).all(axis=-1)[..., None]
    zero = np.where(free, wanted, NO_TURN)
    chains = _chains(problem, zero)
    angles = _last(box.nearest(np.where(free, NO_TURN, wanted)))
    turned = np.empty(wanted.shape)

    rest = np.arange(len(wanted))
    exact = hinged(chains)
    if exact.any():
        rows = not_alone(np.flatnonzero(exact))
        knees = chains.pick(rows)
        upper, lower = solve_hinge(knees, taken(angles, rows), problem.has_pole[rows])
        turned[rows, 0] = matrix_to_quaternion(_first(upper))
        turned[rows, 1] = rotation_of(_first(lower))
        if not free[rows, 0].all():
            found = _last(box.pick(rows).nearest(turned[rows]))
            angles[..., rows] = found
            exact[rows] = np.maximum(knees.lower - found, found - knees.upper).max(axis=(0, 1)) <= KEPT
        rest = np.flatnonzero(~exact)
    if len(rest):
        part = chains if len(rest) == len(wanted) else chains.pick(rest)

        def fk_angles(lost: np.ndarray) -> np.ndarray | None:
            if problem.fk is None:
                return None
            rows = rest[lost]
            own = quaternion_multiply(quaternion_conjugate(zero[rows]), box.canonical(problem.fk)[rows])
            return _last(box.pick(rows).nearest(own))

        start = np.clip(taken(angles, rest), part.lower, part.upper)
        turned[rest] = rotation_of(_first(_searched(part, start, fk_angles)))
    out = np.where(free, quaternion_multiply(zero, turned), turned)
    return box.stored(np.where(out[..., :1] < 0.0, -out, out))


def _chains(problem: _Problem, zero: np.ndarray) -> Chains:
    """The problem in shares of the chains' lengths, bones turning from ``zero`` ``(m, n, 4)``."""
    rest, step = problem.rest, problem.step
    naming = problem.box.naming
    if naming is not None:
        own = naming.matrices()
        rest, step = rest @ own, np.einsum("mnji,mnj->mni", own, step)
        rest[:, 1:] = np.swapaxes(own[:, :-1], -1, -2) @ rest[:, 1:]
    size = length(step).sum(axis=-1)
    scale = np.where(size > TINY, 1.0 / np.maximum(size, TINY), 0.0)
    target = problem.target * scale[:, None]
    target = target / np.maximum(np.abs(target).max(axis=-1, keepdims=True) / FAR, 1.0)
    return Chains(
        base=_last(problem.base),
        rest=_last(rest @ quaternion_to_matrix(zero)),
        step=_last(step * scale[:, None, None]),
        lower=_last(problem.box.lower),
        upper=_last(problem.box.upper),
        target=_last(target),
    )


def _searched(
    chains: Chains, start: np.ndarray, fk_angles: Callable[[np.ndarray], np.ndarray | None]
) -> np.ndarray:
    """The angles found from ``start`` ``(n, 3, m)``, or from elsewhere where these do not reach.

    Args:
        fk_angles: gives those of the FK poses of chains at indices, if they are known.
    """
    first = search(chains, start, LEAST_MOVE)
    lost = np.flatnonzero(first.gap > REACHED)
    if not len(lost):
        return first.angles
    chains, start = chains.pick(lost), taken(start, lost)
    others = _starts(chains, start, fk_angles(lost))
    size, count = len(lost), 1 + len(others)
    many = chains.pick(np.tile(np.arange(size), count))
    found = search(many, np.concatenate([taken(first.angles, lost), *others], axis=-1), RESTART)
    gap = found.gap.reshape(count, size)
    least = gap.min(axis=0)
    rank = gap.argsort(axis=0, kind="stable").argsort(axis=0, kind="stable")
    near = np.flatnonzero((rank < REFINED) & (gap <= least + CLOSE) & (least > REACHED))
    if len(near):
        found.put(near, search(many.pick(near), taken(found.angles, near), CURVED))
        gap = found.gap.reshape(count, size)
    wanted = np.tile(start, count)
    there = np.flatnonzero(found.gap <= REACHED)
    if len(there):
        found.put(there, drawn(many.pick(there), found.pick(there), taken(wanted, there)))
        gap = found.gap.reshape(count, size)
    # Poses that are as near are told apart by how far they are from the free pose.
    away = np.square(found.angles - wanted).sum(axis=(0, 1)).reshape(count, size)
    as_near = gap <= np.maximum(gap.min(axis=0) + BOUND * (least > REACHED), REACHED)
    first.put(lost, found.pick(np.where(as_near, away, np.inf).argmin(axis=0) * size + np.arange(size)))
    return first.angles


def _starts(chains: Chains, start: np.ndarray, fk: np.ndarray | None) -> list[np.ndarray]:
    """Poses in the box ``(n, 3, m)``: FK, the middle, ``start`` mirrored there, and some near
    the target."""
    free = np.isinf(chains.lower)
    lower = np.where(free, start - WIDE, chains.lower)
    upper = np.where(free, start + WIDE, chains.upper)
    middle = 0.5 * (lower + upper)
    # On a circle the middle is where it starts from, and mirrored is half a turn away.
    starts = [middle, np.where(free, upper, np.clip(2.0 * middle - start, lower, upper))]
    if fk is not None:
        starts.insert(0, np.clip(fk, chains.lower, chains.upper))
    return [*starts, *_nearest_of_spread(chains, lower, upper, STARTS - len(starts))]


def _nearest_of_spread(chains: Chains, lower: np.ndarray, upper: np.ndarray, count: int) -> list[np.ndarray]:
    """Of ``count`` sets of poses spread evenly over the box the one of each whose tip is next to the target.

    A search from anywhere ends in a dead end more often than not where joints have one axis each:
    only some of the ways to fold such a chain lead to a target, and no step leads from one to another.
    """
    size, each = chains.target.shape[-1], SPREAD // count
    step = _steps(lower < upper)

    def poses(numbers: np.ndarray) -> np.ndarray:
        """Numbers of the sequence, ``(..., 1, 1, 1)`` or ``(m,)`` for m chains: ``(..., n, 3, m)``."""
        share = (1.0 + 2.0 * PAST) * ((0.5 + numbers * step) % 1.0) - PAST
        return lower + np.minimum(np.maximum(share, 0.0), 1.0) * (upper - lower)

    gaps, at_once = [], max(AT_ONCE // size, 1)
    for first in range(0, count * each, at_once):
        numbers = np.arange(first, min(first + at_once, count * each))
        angles = np.moveaxis(poses(numbers[:, None, None, None]), 0, 2).reshape(*step.shape[:2], -1)
        many = chains.pick(np.tile(np.arange(size), len(numbers)))
        gaps.append(place(many, angles).gap.reshape(-1, size))
    best = np.concatenate(gaps).reshape(count, each, size).argmin(axis=1)
    return [poses(row + number * each) for number, row in enumerate(best)]


def _steps(movable: np.ndarray) -> np.ndarray:
    """Steps ``(n, 3, m)`` of a sequence that fills the box evenly (Roberts 2018), in shares of it.

    Only angles that may move, ``(n, 3, m)``, are dimensions of the box: points that are even in
    more dimensions are not even in some of them.
    """
    flat = movable.reshape(-1, movable.shape[-1])
    powers = np.cumsum(flat, axis=0)
    base = np.array([_golden(count) for count in powers[-1].tolist()])
    return (base ** -powers.astype(float)).reshape(movable.shape)


@cache
def _golden(count: int) -> float:
    """The positive x with x^(count + 1) = x + 1."""
    golden = 2.0
    for _ in range(32):
        golden = (1.0 + golden) ** (1.0 / (max(count, 1) + 1))
    return golden
