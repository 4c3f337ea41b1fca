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

import numpy as np

from .bend_plane import cross, dot
from .closing import close, directions, leave_line, project
from .iterative import in_blocks, to_line, to_result
from .job import ChainJob, ChainResult
from .transforms import TINY

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
    return in_blocks(_solve, job, iterations, tolerance)


def _solve(job: ChainJob, iterations: int, tolerance: float) -> ChainResult:
    line = to_line(job)
    distance = line.solvable()
    points = project(line.along, line.off, line.arc, line.side)
    points = leave_line(points, line.arc, line.side, line.start, distance)
    along, off = directions(points)
    bones = np.stack((along, off.real, off.imag), axis=1)
    step = np.minimum(np.maximum(distance - line.start, -_REACH), _REACH)
    sweeps = min(SWEEPS, iterations)
    for _ in range(sweeps):
        bones = _swept(bones, line.lengths, line.start + step)
    points = project(bones[:, 0], bones[:, 1] + 1j * bones[:, 2], line.arc, line.side)
    active = line.active(job)
    along, off, missed, _ = close(points, line.lengths, distance, active, iterations - sweeps, tolerance)
    return to_result(job, line, along, off, missed)


def _swept(bones: np.ndarray, lengths: np.ndarray, distance: np.ndarray) -> np.ndarray:
    """Directions ``(n, 3, m)`` after one turn of each joint, from the tip to the root."""
    steps = bones * lengths[:, None]
    ways = np.add.accumulate(steps, axis=0) - steps
    np.negative(ways, out=ways)
    ways[:, 0] += distance
    reach = np.sqrt(dot(ways, ways))
    bend = bones[1:] - bones[:-1]
    caps = np.empty(lengths.shape)
    caps[0] = _CAP
    np.minimum(_CAP, 0.5 * np.sqrt(dot(bend, bend)), out=caps[1:])
    # The last row is the way from the joint at hand to the tip.
    rows = np.concatenate((bones, np.zeros_like(bones[:1])))
    lever = rows[-1]
    for i in reversed(range(len(bones))):
        lever += steps[i]
        axis = cross(lever, ways[i]) / (np.sqrt(dot(lever, lever)) * reach[i] + _NEAR**2)
        # Half the angle, as its tangent.
        axis *= 0.5 * caps[i] / np.sqrt(dot(axis, axis) + caps[i] * caps[i] + TINY)
        across = cross(axis, rows[i:])
        rows[i:] += (across + cross(axis, across)) * (2.0 / (1.0 + dot(axis, axis)))
    return rows[:-1]
