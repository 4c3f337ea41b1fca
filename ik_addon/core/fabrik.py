# SPDX-License-Identifier: GPL-3.0-or-later
"""Solve of a chain of free joints."""

from __future__ import annotations

import numpy as np

from .closing import close, leave_line, project
from .iterative import in_blocks, to_line, to_result
from .job import ChainJob, ChainResult


def solve(job: ChainJob, iterations: int = 100, tolerance: float = 1e-6) -> ChainResult:
    """Put the tip on the target."""
    return solve_valid(job.validated(), iterations, tolerance)


def solve_valid(job: ChainJob, iterations: int = 100, tolerance: float = 1e-6) -> ChainResult:
    """`solve` without checks: all arrays of the job are float64 and share its batch shape."""
    return in_blocks(_solve, job, iterations, tolerance)


def _solve(job: ChainJob, iterations: int, tolerance: float) -> ChainResult:
    line = to_line(job)
    points = project(line.bones, line.arc, line.side)
    distance = line.solvable()
    points = leave_line(points, line.arc, line.side, line.start, distance)
    # A chain that cannot reach needs its shape for nothing but the side to its pole.
    active = ~(line.far | line.near) if job.pole is None else np.ones(len(distance), bool)
    along, off, gap, _ = close(points, line.lengths, distance, active, iterations, tolerance)
    return to_result(job, line, along, off, gap, tolerance)
