# SPDX-License-Identifier: GPL-3.0-or-later
"""Solve of a chain of free joints in which all joints share the work.

FABRIK (Aristidou and Lasenby, "FABRIK: A fast, iterative solver for the inverse kinematics
problem", 2011) pulls the chain onto its target in passes, backward from the target and forward
from the root, bone lengths kept. Its passes move the joints little and evenly, but they crawl
near full reach (10 bones at 0.999 of it: 387 passes to 1e-3 of the length, over 3,000 to 1e-6),
and on a chain that is nearly straight they flip the last bones as the target passes a joint:
a few passes ahead of an exact finish moved joints 100 to 400 times as far as the target.

So the passes are replaced by where they lead to: of the poses that one stretch and one shift
of all bones' directions lead to from the FK pose, the only one with the tip on its target
(`closing`). It takes 3 steps in the mean (at most 15 for 210,000 targets up to 0.999 of the reach,
to 1e-6) and follows the target smoothly; for two bones it is the two-bone solve. `iterative`
tells where a chain cannot be smooth: away from there a joint moves at most 25 times as far as
the target for distances from 0.3 to 0.999 of the chain's length.
"""

from __future__ import annotations

from .chains_few import few_chains
from .closing import close
from .iterative import bowed, in_blocks, to_line, to_result
from .job import ChainJob, ChainResult

# With more chains than this the arrays are faster.
FEW = 2


def solve(job: ChainJob, iterations: int = 100, tolerance: float = 1e-6) -> ChainResult:
    """Put the tip on the target, or as near as geometry allows.

    The answer depends on the job alone, starts from its FK pose and leaves a chain whose tip
    is on the target as it is. A chain of a batch comes out as it would alone. Joint limits
    are not kept here.

    Args:
        job: ``joints`` ``(..., n + 1, 3)`` with n >= 1; any frame and unit, magnitudes up to 1e150.
        iterations: most steps.
        tolerance: distance from tip to target, as a share of the chain's length, that is near
            enough.

    Returns:
        Turns, positions, residual and status in the job's frame and unit. Lengths are kept.
        The root bone takes the turn of the whole chain and then swings by the shortest way,
        each other bone keeps its FK twist against its parent. A bone of length zero takes its
        parent's turn.

    Raises:
        ValueError: for wrong shapes or numbers that are not finite.
    """
    return solve_valid(job.validated(), iterations, tolerance)


def solve_valid(job: ChainJob, iterations: int = 100, tolerance: float = 1e-6) -> ChainResult:
    """`solve` without checks: all arrays of the job are float64 and share its batch shape."""
    few = solve_few(job, iterations, tolerance)
    return solve_many(job, iterations, tolerance) if few is None else few


def solve_few(job: ChainJob, iterations: int, tolerance: float) -> ChainResult | None:
    """`solve_valid` of a few chains, see `chains_few`; None for more than `FEW`, or singular ones."""
    return few_chains(job, FEW, iterations, tolerance)


def solve_many(job: ChainJob, iterations: int, tolerance: float) -> ChainResult:
    """`solve_valid` of any number of chains."""
    return in_blocks(_solve, job, iterations, tolerance)


def _solve(job: ChainJob, iterations: int, tolerance: float) -> ChainResult:
    line = to_line(job)
    distance = line.solvable()
    points = bowed(line, distance)
    points, missed, _ = close(points, line.lengths, distance, line.active(job), iterations, tolerance)
    return to_result(job, line, points, missed)
