# SPDX-License-Identifier: GPL-3.0-or-later
"""What one call of a solver takes, without Blender: NumPy is all that is needed.

    python benchmarks/solvers.py [--repeats N]

Prints one table: microseconds a call and nanoseconds a solve of processor time (no solver uses threads),
the best of some runs, so that other work on the machine counts least.
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from ik_addon.core import aim, ccd, fabrik, planar, two_bone  # noqa: E402
from ik_addon.core.job import ChainJob  # noqa: E402
from ik_addon.core.limited import JointChain, solve_limited  # noqa: E402
from ik_addon.core.limits import JointLimits, rotation_of  # noqa: E402
from ik_addon.core.transforms import (  # noqa: E402
    axis_angle_to_matrix,
    matrix_to_quaternion,
    quaternion_to_matrix,
)

MANY = 10_000
# Nanoseconds that 10,000 solves of two bones in one call are to take at most, each.
AIM = 380.0


def unit(v: np.ndarray) -> np.ndarray:
    return v / np.linalg.norm(v, axis=-1, keepdims=True)


def chains(rng: np.random.Generator, count: int, bones: int, pole: str = "") -> ChainJob:
    """Chains that wind a little, with a target in reach each; the pole "on" its line or "off" it."""
    steps = unit(np.array([0.0, 0.0, 1.0]) + rng.normal(0.0, 0.4, (count, bones, 3))) / bones
    joints = np.zeros((count, bones + 1, 3))
    joints[:, 1:] = np.cumsum(steps, axis=1)
    line = unit(rng.normal(size=(count, 3)))
    target = line * rng.uniform(0.2, 0.95, (count, 1))
    hinge = two_bone.bend_normal(joints[:, :3], rng.normal(size=(count, 3)))
    side = unit(np.cross(line, rng.normal(size=(count, 3))))
    poles = {"": None, "off": side, "on": line + np.tan(np.radians(2.0)) * side}
    return ChainJob(joints, target, hinge, poles[pole]).validated()


def limited(
    rng: np.random.Generator, count: int, bones: int, in_reach: bool, one_by_one: bool
) -> Callable[[], object]:
    """The solve of straight chains with 40 degrees about each axis whose free solution exceeds them."""
    most = np.radians(40.0)
    size = 20 * count + 100
    frames = np.broadcast_to(np.eye(3), (size, bones, 3, 3))
    step = np.broadcast_to(np.array([0.0, 1.0 / bones, 0.0]), (size, bones, 3))
    chain = JointChain(frames[:, 0], np.zeros((size, 3)), frames, step)
    fk = rotation_of(rng.uniform(-0.5, 0.5, (size, bones, 3)) * most)
    target = unit(rng.normal(size=(size, 3))) * rng.uniform(0.3, 0.9, (size, 1))
    if in_reach:
        target = chain.joints(rotation_of(rng.uniform(-1.0, 1.0, (size, bones, 3)) * most))[:, -1]
    oriented = quaternion_to_matrix(fk)
    for bone in range(1, bones):
        oriented[:, bone] = oriented[:, bone - 1] @ oriented[:, bone]
    turns = fabrik.solve(ChainJob(chain.joints(fk), target, oriented[:, 0, :, 0])).rotations @ oriented
    turns[:, 1:] = np.swapaxes(turns[:, :-1], -1, -2) @ turns[:, 1:]
    wanted = matrix_to_quaternion(turns)
    box = JointLimits(np.full((bones, 3), -most), np.full((bones, 3), most)).box()
    solved = solve_limited(chain, target, wanted, box, fk)
    rows = np.flatnonzero(box.exceeded(wanted) & (solved.bound != in_reach))[:count]

    def given(at: np.ndarray) -> tuple:
        parts = (chain.base, chain.root, chain.rest, chain.step)
        return JointChain(*(part[at] for part in parts)), target[at], wanted[at], box, fk[at]

    problems = [given(row) for row in rows] if one_by_one else [given(rows)]
    return lambda: [solve_limited(*problem) for problem in problems]


def seconds(work: Callable[[], object], repeats: int) -> float:
    """Best mean of some runs, each of as many calls as fill a hundredth of a second."""
    start = time.thread_time()
    work()
    calls = max(1, int(0.01 / max(time.thread_time() - start, 1e-6)))
    best = np.inf
    for _ in range(repeats):
        start = time.thread_time()
        for _ in range(calls):
            work()
        best = min(best, (time.thread_time() - start) / calls)
    return float(best)


def cases(rng: np.random.Generator) -> Iterator[tuple[str, int, Callable[[], object]]]:
    """Names, numbers of solves in a call, and the calls."""
    for name, pole in (("no pole", ""), ("pole", "off"), ("pole on its line, in the cone", "on")):
        for count in (MANY, 1, 20):
            job = chains(rng, count, 2, pole)
            yield f"two-bone, {name}", count, lambda job=job: two_bone.solve_valid(job)
    for count in (MANY, 1, 20):
        job = chains(rng, count, 2)
        yield "two-bone in a plane", count, lambda job=job: planar.solve_valid(job, 0, 1.0)
    for count in (1_000, 1, 20):
        job = chains(rng, count, 20)
        for name, solver in (("FABRIK", fabrik), ("CCD", ccd)):
            yield f"{name}, 20 bones", count, lambda job=job, solver=solver: solver.solve_valid(job)
    for count in (MANY, 1, 20):
        turn = axis_angle_to_matrix(unit(rng.normal(size=(count, 3))), rng.uniform(0.0, 3.0, count))
        head, target, pole = rng.normal(size=(3, count, 3))
        given = (turn, head, target, "Y", "Z", pole)
        yield "aim, looking at a target, pole", count, lambda given=given: aim.look_at(*given)
    for name, in_reach in (("in reach", True), ("that keep it away", False)):
        for count, how in ((200, ""), (20, ", one by one")):
            work = limited(rng, count, 5, in_reach, one_by_one=bool(how))
            yield f"limits {name}, 5 bones{how}", count, work


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=30)
    repeats = parser.parse_args().repeats
    print(f"Python {platform.python_version()}, NumPy {np.__version__}, {platform.machine()}")
    print()
    print("| solver | solves in a call | a call, us | a solve, ns | aim, ns |")
    print("|---|---|---|---|---|")
    for name, count, work in cases(np.random.default_rng(1)):
        call = seconds(work, repeats)
        wanted = f"{AIM:.0f}" if count == MANY and name.startswith("two-bone,") else ""
        print(
            f"| {name} | {count:,} | {call * 1e6:,.0f} | {call / count * 1e9:,.0f} | {wanted} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
