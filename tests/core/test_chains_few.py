# SPDX-License-Identifier: GPL-3.0-or-later
"""The plain road of a few chains and that of arrays are one solver."""

import numpy as np
import pytest
from chains import LENGTHS, SHAPES, chains, reachable
from limbs import Y, Z, unit

from ik_addon.core import ccd, fabrik
from ik_addon.core.bend_plane import CONE
from ik_addon.core.job import ChainJob, Status

SOLVERS = [fabrik, ccd]


def jobs(rng, n, lengths, shape, count):
    """Single chains: in reach and out of it, with and without a pole, some poles in its cone."""
    joints = chains(rng, count, n, lengths, shape)
    target = reachable(rng, joints)
    target[::5] = joints[::5, 0] + 1.5 * n * unit(rng.normal(size=(len(target[::5]), 3)))
    pole = rng.normal(size=(count, 3))
    line = unit(target - joints[:, 0])
    close = rng.choice([-1.0, 1.0], count)[:, None] * line + rng.uniform(0.0, 1.2 * CONE, (count, 1)) * unit(
        pole
    )
    pole = np.where(np.arange(count)[:, None] % 7 == 0, close, pole)
    hinge = rng.normal(size=(count, 3))
    for i in range(count):
        with_pole = None if i % 3 == 0 else pole[i]
        angle = 0.0 if i % 2 else rng.normal()
        yield ChainJob(joints[i], target[i], hinge[i], with_pole, pole_angle=angle).validated()


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("lengths", LENGTHS)
def test_both_roads_lead_to_the_same_pose(lengths, shape, solver):
    rng = np.random.default_rng([list(LENGTHS).index(lengths), list(SHAPES).index(shape)])
    taken, count = 0, 0
    for n in (2, 3, 6, 20):
        for job in jobs(rng, n, lengths, shape, 40):
            few = solver.solve_few(job, 100, 1e-12)
            count += 1
            if few is None:
                continue
            taken += 1
            many = solver.solve_many(job, 100, 1e-12)
            size = np.linalg.norm(np.diff(job.joints, axis=0), axis=-1).sum()
            assert np.abs(few.joints - many.joints).max() <= 1e-9 * size
            assert np.abs(few.rotations - many.rotations).max() <= 1e-7
            assert few.residual == pytest.approx(many.residual, abs=1e-9 * size)
            assert few.status == many.status
            for name in ("joints", "rotations", "residual", "status"):
                assert getattr(few, name).shape == getattr(many, name).shape
                assert getattr(few, name).dtype == getattr(many, name).dtype
    # What the plain road is for: all but tangles, and targets on or inside the inner radius.
    assert taken >= (0.3 if shape == "tangled" else 0.8) * count


@pytest.mark.parametrize("solver", SOLVERS)
def test_too_few_steps_are_told_on_both_roads(solver):
    rng = np.random.default_rng(1)
    joints = chains(rng, 40, 8, "random", "winding")
    target = joints[:, 0] + 0.97 * 8 * unit(rng.normal(size=(40, 3)))
    missed = 0
    for i in range(40):
        job = ChainJob(joints[i], target[i], Y).validated()
        for iterations in (0, 1, 2):
            few, many = (solve(job, iterations, 1e-9) for solve in (solver.solve_few, solver.solve_many))
            if few is not None:
                assert few.status == many.status
                assert few.residual == pytest.approx(many.residual, abs=1e-9)
                missed += few.status == Status.NOT_CONVERGED
    assert missed > 20


@pytest.mark.parametrize("solver", SOLVERS)
def test_singular_chains_and_many_are_left_to_the_arrays(solver):
    straight = np.outer(np.arange(5), Z)
    gap = straight[[0, 1, 1, 2, 3]]
    folded = np.cumsum([0.0 * Z, Z, Z, -Z, Z], axis=0)
    closed = np.array([[0, 0, 0], [0, 0, 1], [1, 0, 1], [1, 0, 0], [0, 0, 0]], float)
    long = np.cumsum([0.0 * Z, 5.0 * Z, Z, Y, Z], axis=0)
    for joints, target in (
        (gap, Y),
        (folded, Z),
        (closed, Y),
        (long, Y),
        (straight, 0.0 * Z),
        (straight, -2.0 * Z),
    ):
        job = ChainJob(joints, target, Y).validated()
        assert solver.solve_few(job, 100, 1e-6) is None
    assert solver.solve_few(ChainJob(straight, Y, Z).validated(), 100, 1e-6) is None, "hinge along it"
    many = ChainJob(np.tile(straight, (solver.FEW + 1, 1, 1)), Y, Y).validated()
    assert solver.solve_few(many, 100, 1e-6) is None


@pytest.mark.parametrize("solver", SOLVERS)
def test_few_chains_of_one_call_are_those_of_many(solver):
    rng = np.random.default_rng(2)
    joints = chains(rng, solver.FEW, 7, "random", "winding")
    mask = np.arange(solver.FEW) % 2 == 0
    job = ChainJob(joints, reachable(rng, joints), Y, rng.normal(size=3), mask, 0.3).validated()
    few, many = solver.solve_few(job, 100, 1e-12), solver.solve_many(job, 100, 1e-12)
    assert np.abs(few.joints - many.joints).max() <= 1e-10
    assert np.abs(few.rotations - many.rotations).max() <= 1e-9
