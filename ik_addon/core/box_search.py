# SPDX-License-Identifier: GPL-3.0-or-later
"""Search for angles inside a box that bring the tips of chains to their targets.

Two kinds of steps, each damped and each inside the box:

- `least_move`: of all steps that bring the tip nearer, as the chain seems from here, the smallest
  (Gauss-Newton, damped as Levenberg and Marquardt). The bounds are part of it: with the step
  written as clip(J^T y), what is left is an equation for three numbers y, piecewise linear, solved
  by Newton's method (Hintermueller, Ito and Kunisch 2002, "The primal-dual active set strategy as a
  semismooth Newton method"). Quadratic where the target can be reached. The damping is the square
  of the gap, and no step is taken back: what a step does is continuous in where it starts, so
  neighbouring targets take neighbouring ways. Taking steps back, and damping by whether they
  helped, leads joints 40 degrees apart in tight boxes.
- `curved`: Newton's step with second derivatives, on the angles that are not held at a bound
  (Bertsekas 1982, "Projected Newton methods"). Quadratic where it cannot.

A chain that is done no longer changes, so it does not matter what it is solved together with.
Arrays have the batch last, see `limited_chain`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from .job import REACHED
from .limited_chain import Chains, Pose, curvature, jacobian, not_alone, place, taken
from .transforms import TINY

# Largest change of an angle in one step, radians, and largest part of a gap that it aims at.
MOST, FARTHEST = 0.3, 0.2
# Damping of `curved` at first, its factors after a step that helped and one that did not, its least value.
DAMPED, EASE, STIFFEN, SOFTEST = 1e-3, 0.2, 6.0, 1e-7
# Damping of steps that are to hit, for each angle.
FIRM = 1e-13
# Steps of `drawn`.
DRAWS = 12
# How often a step may change its mind about the angles that its bounds hold.
PASSES = 6
# Below this, as length per radian, a chain does not get nearer by any angle that may change.
STATIONARY = 1e-10


@dataclass(frozen=True)
class Slope:
    """What is known of m chains where they are.

    Attributes:
        miss: ``(3, m)`` from tip to target; gap: ``(m,)`` its length; damping: ``(m,)``.
        columns, axes: ``(3, 3n, m)`` as from `jacobian`.
        low, high: ``(3n, m)`` how far each angle may go down (at most 0) and up.
        uphill: ``(3n, m)`` slope of half the square of the gap.
    """

    miss: np.ndarray
    gap: np.ndarray
    damping: np.ndarray
    columns: np.ndarray
    axes: np.ndarray
    low: np.ndarray
    high: np.ndarray
    uphill: np.ndarray


@dataclass(frozen=True)
class Plan:
    """How to search.

    Attributes:
        step: the change of the angles ``(3n, m)``; one past the bounds is cut off there.
        strict: a step that does not lead nearer is taken back.
        iterations: at most so many steps.
        gain, patience: a step that closes less than the share `gain` of the least gap so far is a
            slow one, and a chain is done after `patience` of them in a row.
    """

    step: Callable[[Slope], np.ndarray]
    strict: bool
    iterations: int
    gain: float
    patience: int


class _State:
    """Chains under way.

    Attributes:
        damping: ``(m,)``; slow: ``(m,)`` how many steps in a row were slow.
        nearest, best: ``(m,)`` and ``(n, 3, m)`` the least gap so far, and the angles there.
    """

    def __init__(self, chains: Chains, angles: np.ndarray) -> None:
        self.chains = chains
        self.pose = place(chains, angles)
        self.damping = np.full(angles.shape[-1], DAMPED)
        self.slow = np.zeros(angles.shape[-1], int)
        self.nearest, self.best = self.pose.gap, angles

    def keep(self, rows: np.ndarray) -> None:
        """Let go of all other chains."""
        self.chains, self.pose = self.chains.pick(rows), self.pose.pick(rows)
        self.damping, self.slow = self.damping[rows], self.slow[rows]
        self.nearest, self.best = self.nearest[rows], taken(self.best, rows)

    @property
    def found(self) -> Pose:
        """The chains where they came nearest."""
        if (self.pose.gap <= self.nearest).all():
            return self.pose
        return place(self.chains, self.best)


def search(chains: Chains, start: np.ndarray, plan: Plan) -> Pose:
    """The poses found from ``start`` ``(n, 3, m)``, which is inside the box; never farther ones.

    What is found for a chain is the same to the bit whatever it is solved together with.
    """
    rows = not_alone(np.arange(start.shape[-1]))
    state = _State(chains.pick(rows), taken(start, rows))
    result = state.pose.pick(np.arange(start.shape[-1]))
    for _ in range(plan.iterations):
        left = np.flatnonzero((state.pose.gap > REACHED) & (state.slow < plan.patience))
        if len(left) < len(rows):
            result.put(rows, state.found)
            if not len(left):
                return result
            left = not_alone(left)
            state.keep(left)
            rows = rows[left]
        _advance(state, plan)
    result.put(rows, state.found)
    return result


def _advance(state: _State, plan: Plan) -> None:
    """One step of each chain."""
    chains, pose = state.chains, state.pose
    slope = _slope(state)
    downhill = np.minimum(np.maximum(-slope.uphill, slope.low), slope.high)
    still = np.abs(downhill).max(axis=0) <= STATIONARY
    trial = place(chains, _inside(chains, pose.angles, _limited(plan.step(slope))))
    nearer = trial.gap < state.nearest
    slow = state.nearest - trial.gap <= plan.gain * state.nearest
    state.slow = np.where(still, plan.patience, np.where(slow, state.slow + 1, 0))
    if nearer.all():
        state.best, state.nearest = trial.angles, trial.gap
    else:
        state.best = np.where(nearer, trial.angles, state.best)
        state.nearest = np.where(nearer, trial.gap, state.nearest)
    if plan.strict:
        state.damping = np.maximum(state.damping * np.where(nearer, EASE, STIFFEN), SOFTEST)
        trial = pose.where(nearer, trial)
    state.pose = trial


def _limited(change: np.ndarray) -> np.ndarray:
    """Steps ``(3n, m)`` that turn no angle by more than `MOST`."""
    return change * np.minimum(1.0, MOST / np.maximum(np.abs(change).max(axis=0), TINY))


def _inside(chains: Chains, angles: np.ndarray, change: np.ndarray) -> np.ndarray:
    angles = angles + change.reshape(angles.shape)
    return np.minimum(np.maximum(angles, chains.lower), chains.upper)


def _slope(state: _State) -> Slope:
    chains, pose = state.chains, state.pose
    columns, axes = jacobian(pose)
    return Slope(
        miss=pose.miss,
        gap=pose.gap,
        damping=state.damping,
        columns=columns,
        axes=axes,
        low=(chains.lower - pose.angles).reshape(axes.shape[1:]),
        high=(chains.upper - pose.angles).reshape(axes.shape[1:]),
        uphill=-np.einsum("idm,im->dm", columns, pose.miss),
    )


def least_move(slope: Slope, stiffest: float = 1.0) -> np.ndarray:
    """The smallest step inside the bounds that brings the tip nearer, ``(3n, m)``.

    Args:
        stiffest: most damping. The less of it, the sooner a search ends, but the more it depends
            on small changes of where it starts.
    """
    miss = slope.miss * np.minimum(1.0, FARTHEST / np.maximum(slope.gap, TINY))
    return _bounded(slope, miss, np.minimum(slope.gap * slope.gap, stiffest), np.zeros(slope.low.shape))


def _bounded(slope: Slope, miss: np.ndarray, damping: np.ndarray, towards: np.ndarray) -> np.ndarray:
    """Of the steps inside the bounds that move the tip by ``miss`` ``(3, m)`` the one next to
    ``towards``, ``(3n, m)``; ``damping`` ``(m,)`` says how much a step counts against a gap."""
    columns = slope.columns
    # More than rounding of the matrices below, which may be singular.
    damping = damping + FIRM * (1 + len(columns[0]))
    free, held = slope.low < slope.high, np.zeros(slope.low.shape)
    for _ in range(PASSES):
        part = np.where(free, columns, 0.0)
        matrix = np.einsum("idm,jdm->ijm", part, part)
        known = np.einsum("idm,dm->im", columns, np.where(free, towards, held))
        for axis in range(3):
            matrix[axis, axis] += damping
        pull = np.linalg.solve(matrix.transpose(2, 0, 1), (miss - known).T[..., None])[..., 0].T
        wanted = towards + np.einsum("idm,im->dm", columns, pull)
        change = np.minimum(np.maximum(wanted, slope.low), slope.high)
        inside = change == wanted
        at_bound = np.where(inside, 0.0, change)
        if (inside == free).all() and (at_bound == held).all():
            break
        free, held = inside, at_bound
    return change


def drawn(chains: Chains, pose: Pose, towards: np.ndarray) -> Pose:
    """Poses that reach, brought as near as that allows to the angles ``towards`` ``(n, 3, m)``.

    Two of them that can be turned into one another become one and the same.
    """
    rows = not_alone(np.arange(len(pose.gap)))
    state = _State(chains.pick(rows), taken(pose.angles, rows))
    aims, firm = taken(towards, rows), np.zeros(len(rows))
    for _ in range(DRAWS):
        slope = _slope(state)
        wish = (aims - state.pose.angles).reshape(slope.low.shape)
        change = _limited(_bounded(slope, slope.miss, firm, wish))
        state.pose = place(state.chains, _inside(state.chains, state.pose.angles, change))
    found = search(chains, state.pose.angles[..., : len(pose.gap)], LEAST_MOVE)
    away = (np.square(p.angles - towards).sum(axis=(0, 1)) for p in (found, pose))
    return pose.where((found.gap <= REACHED) & np.less(*away), found)


def curved(slope: Slope) -> np.ndarray:
    """Newton's step ``(3n, m)`` on the angles that no bound holds, none where it leads uphill.

    There more damping, which turns it downhill, is a matter of the next step.
    """
    low, high, columns = slope.low, slope.high, slope.columns
    free = ((low < 0.0) | (slope.uphill < 0.0)) & ((high > 0.0) | (slope.uphill > 0.0)) & (low < high)
    matrix = np.einsum("idm,ifm->dfm", columns, columns) - curvature(columns, slope.axes, slope.miss)
    held = np.zeros(low.shape)
    for _ in range(PASSES):
        left = -slope.uphill - np.einsum("dfm,fm->dm", matrix, held)
        change = held + _newton(matrix, slope.damping, free, left)
        past = free & ((change < low) | (change > high))
        if not past.any():
            break
        free &= ~past
        held = np.where(past, np.clip(change, low, high), held)
    return np.where(np.einsum("dm,dm->m", change, slope.uphill) < 0.0, change, 0.0)


def _newton(matrix: np.ndarray, damping: np.ndarray, free: np.ndarray, right: np.ndarray) -> np.ndarray:
    """x ``(3n, m)`` with (matrix + damping) x = right in the free angles, zero in the others."""
    part = np.where(free[:, None] & free, matrix, 0.0)
    diagonal = np.arange(len(free))
    part[diagonal, diagonal] += np.where(free, damping, 1.0)
    right = np.where(free, right, 0.0)
    try:
        return np.linalg.solve(part.transpose(2, 0, 1), right.T[..., None])[..., 0].T
    except np.linalg.LinAlgError:
        return np.zeros(right.shape)


# From the free pose, and from others.
LEAST_MOVE = Plan(least_move, strict=False, iterations=40, gain=1e-2, patience=3)
RESTART = Plan(partial(least_move, stiffest=0.02), strict=False, iterations=40, gain=3e-2, patience=2)
CURVED = Plan(curved, strict=True, iterations=40, gain=1e-6, patience=10)
