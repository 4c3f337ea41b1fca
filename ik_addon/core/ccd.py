# SPDX-License-Identifier: GPL-3.0-or-later
"""Solve of a chain of free joints that bends its tip first, by cyclic coordinate descent.

From the tip to the root, each joint in turn carries the tip toward the target. Plain CCD
turns it all the way: that curls the end of the chain before the root has moved, flips where
tip or target pass a joint, and takes thousands of sweeps near full reach. Here

- a turn is at most `_CAP`, and at most half the joint's bend, so no joint is straightened or
  bent to its other side;
- it grows with the sine of the angle and fades out where tip or target come close to the
  joint: a target straight behind a joint is left to the other joints;
- the target counts as at most `_REACH` from the FK tip, so that the pose which `SWEEPS` sweeps
  lead to is the same for all targets beyond;
- from there `closing` takes the tip the rest of the way.

Singular places and continuity are those of `fabrik`. One is added: where a sweep carries a bone
past the direction of another, both together more than half of chain and line, it can flip.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from .chains_few import FewLine, few_chains
from .closing import Number, close, directions, project, square
from .iterative import Line, bowed, in_blocks, to_line, to_result
from .job import ChainJob, ChainResult
from .swing import Spinors
from .transforms import TINY

# With more chains than this the arrays are faster.
FEW = 5

SWEEPS = 2
# Largest turn of a joint in one sweep, radians.
_CAP = 0.2
# How far the target is taken to be from the FK tip at most, as a share of the chain's length.
_REACH = 0.15
# Distance to a joint, as a share of the chain's length, within which its turn fades out.
_NEAR = 0.1


def solve(job: ChainJob, iterations: int = 100, tolerance: float = 1e-6) -> ChainResult:
    """Put the tip on the target, or as near as geometry allows; as `fabrik.solve`."""
    return solve_valid(job.validated(), iterations, tolerance)


def solve_valid(job: ChainJob, iterations: int = 100, tolerance: float = 1e-6) -> ChainResult:
    """`solve` without checks, as `fabrik.solve_valid`."""
    few = solve_few(job, iterations, tolerance)
    return solve_many(job, iterations, tolerance) if few is None else few


def solve_few(job: ChainJob, iterations: int, tolerance: float) -> ChainResult | None:
    """As `fabrik.solve_few`."""
    sweeps = min(SWEEPS, iterations)
    return few_chains(job, FEW, iterations - sweeps, tolerance, partial(_bent, sweeps=sweeps))


def solve_many(job: ChainJob, iterations: int, tolerance: float) -> ChainResult:
    """As `fabrik.solve_many`."""
    return in_blocks(_solve, job, iterations, tolerance)


def _solve(job: ChainJob, iterations: int, tolerance: float) -> ChainResult:
    line = to_line(job)
    distance = line.solvable()
    points = bowed(line, distance)
    sweeps = min(SWEEPS, iterations)
    points = _bent(points, line, distance, sweeps)
    active = line.active(job)
    points, missed, _ = close(points, line.lengths, distance, active, iterations - sweeps, tolerance)
    return to_result(job, line, points, missed)


def _bent(points: np.ndarray, line: Line | FewLine, distance: Number, sweeps: int) -> np.ndarray:
    """Points ``(n, m)`` after some sweeps, or ``(n,)`` of one chain."""
    for _ in range(sweeps):
        points = project(*_swept(points, line, distance), line.arc, line.side)
    return points


def _swept(points: np.ndarray, line: Line | FewLine, distance: Number) -> Spinors:
    """Directions of the bones, of any length but zero, after one turn of each joint from tip to root."""
    along, off = directions(points)
    steps, steps_off = along * line.lengths, off * line.lengths
    # From each joint to where the tip shall go.
    step = np.minimum(np.maximum(distance - line.start, -_REACH), _REACH)
    ways = line.start + step + steps - np.add.accumulate(steps, axis=0)
    ways_off = steps_off - np.add.accumulate(steps_off, axis=0)
    bend, bend_off = along[1:] - along[:-1], off[1:] - off[:-1]
    caps = np.empty(along.shape)
    caps[0] = _CAP
    np.minimum(_CAP, 0.5 * np.sqrt(bend * bend + square(bend_off)), out=caps[1:])
    reach = np.sqrt(ways * ways + square(ways_off))
    turns = _joint_turns(*(_rows(a) for a in (steps, steps_off, ways, ways_off, reach, caps)))
    first, second = np.array(_products(turns)).swapaxes(0, 1)
    return first - second.conj() * points, second + first.conj() * points


def _rows(array: np.ndarray) -> Any:
    """The elements of ``(n,)`` as Python's own numbers, which are faster than arrays of one."""
    return array.tolist() if array.ndim == 1 else array


def _joint_turns(
    steps: Sequence[Number],
    steps_off: Sequence[Number],
    ways: Sequence[Number],
    ways_off: Sequence[Number],
    reach: Sequence[Number],
    caps: Sequence[Number],
) -> list[tuple[Number, Number]]:
    """The turns of all joints: axes along and off the line, as long as the tangents of half the angles.

    A joint turns all bones behind it, but its turn depends only on their sum, the lever from it
    to the tip. So this is what is carried from joint to joint.

    Args:
        steps, ways: bones, and the ways from the joints to where the tip shall go; parts along
            the line and, complex, off it.
        reach: lengths of the ways.
        caps: largest turns.
    """
    turns = []
    lever, lever_off = 0.0, 0.0j
    for i in reversed(range(len(steps))):
        way, way_off = ways[i], ways_off[i]
        lever, lever_off = lever + steps[i], lever_off + steps_off[i]
        inner = lever_off.conjugate() * way_off
        size = lever * lever + square(lever_off)
        # The cross product of lever and way.
        axis, axis_off = inner.imag, 1j * (lever * way_off - way * lever_off)
        sine = axis * axis + square(axis_off)
        most = caps[i] * (reach[i] * size**0.5 + _NEAR**2)
        scale = 0.5 * caps[i] / (sine + most * most + TINY) ** 0.5
        turns.append((axis * scale, axis_off * scale))
        # The lever turns in the plane of lever and way.
        tangent = sine * scale * scale
        twice = 2.0 / (1.0 + tangent)
        kept = 1.0 - twice * (tangent + scale * (lever * way + inner.real))
        toward = twice * scale * size
        lever, lever_off = kept * lever + toward * way, kept * lever_off + toward * way_off
    return turns[::-1]


def _products(turns: list[tuple[Number, Number]]) -> list[tuple[Number, Number]]:
    """What turns each bone, the product of the turns from the root to it.

    Two complex numbers each, the first column a, b of the matrix on spinors (see `swing`) whose
    second is -b*, a*.
    """
    products = []
    first, second = 1.0 + 0.0j, 0.0j
    for axis, axis_off in turns:
        own, other = 1.0 - 1j * axis, -1j * axis_off
        first, second = (
            first * own - second.conjugate() * other,
            second * own + first.conjugate() * other,
        )
        products.append((first, second))
    return products
