# SPDX-License-Identifier: GPL-3.0-or-later
"""Solve of a chain of free joints that bends its tip first, by cyclic coordinate descent.

From the tip to the root, each joint in turn carries the tip toward the target: plain CCD
turns it all the way, which curls the end of the chain before the root has moved, jumps
where tip or target pass a joint and never ends near full reach. Here a turn is as large as
the sine of the angle asks for, at most `_CAP`, and fades out where tip or target come close to
the joint, so that the pose changes no faster than its target; a target straight behind a
joint leaves it to the others. After `SWEEPS` sweeps `closing` takes the tip the rest of the way.
"""

from __future__ import annotations

import numpy as np

from .bend_plane import cross, dot
from .closing import close, directions, leave_line, project
from .iterative import in_blocks, to_line, to_result
from .job import ChainJob, ChainResult

SWEEPS = 2
# Largest turn of a joint in one sweep, radians.
_CAP = 0.2
# Distance to a joint, as a share of the chain's length, within which its turn fades out.
_NEAR = 0.1


def solve(job: ChainJob, iterations: int = 100, tolerance: float = 1e-6) -> ChainResult:
    """Put the tip on the target, or as near as geometry allows; as `fabrik.solve`."""
    return solve_valid(job.validated(), iterations, tolerance)


def solve_valid(job: ChainJob, iterations: int = 100, tolerance: float = 1e-6) -> ChainResult:
    """`solve` without checks: all arrays of the job are float64 and share its batch shape."""
    return in_blocks(_solve, job, iterations, tolerance)


def _solve(job: ChainJob, iterations: int, tolerance: float) -> ChainResult:
    line = to_line(job)
    distance = line.solvable()
    points = project(line.bones, line.arc, line.side)
    points = leave_line(points, line.arc, line.side, line.start, distance)
    along, off = directions(points)
    bones = np.stack((along, off.real, off.imag), axis=1)
    for _ in range(min(SWEEPS, iterations)):
        _sweep(bones, line.lengths, distance)
    points = project(bones, line.arc, line.side)
    active = ~(line.far | line.near) if job.pole is None else np.ones(len(distance), bool)
    along, off, gap, _ = close(points, line.lengths, distance, active, iterations - SWEEPS, tolerance)
    return to_result(job, line, along, off, gap, tolerance)


def _sweep(bones: np.ndarray, lengths: np.ndarray, distance: np.ndarray) -> None:
    """Turn the bones ``(n, 3, m)`` in place, each joint once, from the tip to the root."""
    steps = bones * lengths[:, None]
    joints = np.cumsum(steps, axis=0) - steps
    tip = joints[-1] + steps[-1]
    target = np.zeros_like(tip)
    target[0] = distance
    for i in reversed(range(len(bones))):
        lever, wanted = tip - joints[i], target - joints[i]
        axis = cross(lever, wanted)
        axis /= np.sqrt(dot(lever, lever) * dot(wanted, wanted)) + _NEAR**2
        size = np.sqrt(dot(axis, axis))
        angle = size / np.sqrt(1.0 + (size / _CAP) ** 2)
        vector = axis * (np.sin(0.5 * angle) / np.maximum(size, 1e-300))
        real = np.cos(0.5 * angle)
        bones[i:] = _rotated(real, vector, bones[i:])
        tip = joints[i] + _rotated(real, vector, lever)


def _rotated(real: np.ndarray, vector: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Vectors ``(..., 3, m)`` turned by the quaternions of ``real`` ``(m,)`` and ``vector`` ``(3, m)``."""
    across = 2.0 * cross(np.broadcast_to(vector, v.shape), v)
    return v + real * across + cross(np.broadcast_to(vector, v.shape), across)
