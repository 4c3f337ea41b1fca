# SPDX-License-Identifier: GPL-3.0-or-later
import numpy as np
import pytest
from chains import LENGTHS, SHAPES, chains, check_chain, mean_offset, moves, radii, reachable, twist
from limbs import X, Y, Z, angle_between, unit
from test_fabrik import arc_chain, paths

from ik_addon.core import ccd, fabrik
from ik_addon.core.job import ChainJob, Status

COUNT = 1_000


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("n", [2, 3, 10, 20, 100])
def test_every_target_in_reach_is_reached(n, lengths, shape):
    rng = np.random.default_rng([n, list(LENGTHS).index(lengths), list(SHAPES).index(shape)])
    count = COUNT if n <= 20 else 200
    joints = chains(rng, count, n, lengths, shape)
    job = ChainJob(joints, reachable(rng, joints), rng.normal(size=(count, 3)))
    result = ccd.solve(job, iterations=100)
    assert (result.residual <= 1e-6 * radii(joints)[1]).all()
    assert (result.status == Status.OK).all()
    check_chain(job, result)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_chain_whose_tip_is_on_its_target_stays(shape):
    rng = np.random.default_rng(1)
    joints = chains(rng, COUNT, 9, "random", shape)
    result = ccd.solve(ChainJob(joints, joints[:, -1], rng.normal(size=(COUNT, 3))), tolerance=1e-9)
    assert np.abs(result.joints - joints).max() <= 1e-7
    assert np.abs(result.rotations - np.eye(3)).max() <= 1e-7


def bends(joints):
    bones = np.diff(joints, axis=-2)
    return angle_between(bones[..., 1:, :], bones[..., :-1, :])


def test_the_tip_bends_first():
    joints = arc_chain(12, bend=0.3)
    for share in (0.8, 0.6, 0.4):
        job = ChainJob(joints, share * joints[-1], Y)
        added = bends(ccd.solve(job).joints) - bends(joints)
        even = bends(fabrik.solve(job).joints) - bends(joints)
        assert added[-5:].sum() > 1.2 * added[:5].sum()
        assert even[-5:].sum() == pytest.approx(even[:5].sum(), rel=1e-3)


def test_no_joint_curls():
    rng = np.random.default_rng(2)
    joints = chains(rng, COUNT, 12, "equal", "arc")
    target = joints[:, 0] + rng.uniform(0.3, 0.99, (COUNT, 1)) * (joints[:, -1] - joints[:, 0])
    result = ccd.solve(ChainJob(joints, target, Y))
    # A closed ring of twelve bends by 30 degrees at each joint.
    assert bends(result.joints).max() < np.radians(75.0)
    assert (np.sum(mean_offset(result.joints) * mean_offset(joints), axis=-1) > 0.0).all()


def test_a_target_straight_behind_every_joint():
    joints = np.outer(np.arange(6), Z)
    for target in (-3.0 * Z, -5.0 * Z, -6.0 * Z, 3.0 * Z, 0.5 * Z):
        job = ChainJob(joints, target, Y)
        result = ccd.solve(job)
        check_chain(job, result)
        assert np.abs(result.joints @ Y).max() < 1e-12


def test_a_straight_chain_folds_to_the_side_of_its_hinge():
    joints = np.outer(np.arange(4), 0.4 * Z)
    result = ccd.solve(ChainJob(joints, Z, -Y), tolerance=1e-9)
    assert result.residual <= 1e-9
    assert (result.joints[1:-1] @ -X > 0.1).all()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("lengths", ["equal", "random", "one long"])
def test_joints_follow_the_target_without_a_jump(lengths, shape):
    rng = np.random.default_rng([3, list(SHAPES).index(shape)])
    for n in (3, 4, 6, 10, 20):
        joints = chains(rng, 1, n, lengths, shape)[0]
        for target in paths(rng, joints, 1_000):
            assert moves(ccd.solve, joints, target).max() < 25.0


def test_a_bone_longer_than_the_others_does_not_flip_past_one_of_them():
    rng = np.random.default_rng([3, 0, 10])
    joints = chains(rng, 1, 10, "one long", "in plane")[0]
    radial, _ = paths(rng, joints, 1_000)
    assert moves(ccd.solve, joints, radial).max() < 25.0


def test_no_bone_is_twisted_against_its_parent():
    rng = np.random.default_rng(4)
    joints = chains(rng, COUNT, 8, "random", "tangled")
    turns = ccd.solve(ChainJob(joints, reachable(rng, joints), Y)).rotations
    local = np.swapaxes(turns[:, :-1], -1, -2) @ turns[:, 1:]
    assert np.abs(twist(local, unit(np.diff(joints, axis=1))[:, 1:])).max() < 1e-9


def test_a_pole_a_far_and_a_near_target():
    joints = np.concatenate([np.zeros((1, 3)), np.cumsum([4.0 * Z, X, Z], axis=0)])
    target = np.stack([3.0 * Z, 9.0 * Z, 1.0 * Z])
    result = ccd.solve(ChainJob(joints, target, Y, pole=Y))
    assert result.status.tolist() == [Status.OK, Status.TARGET_FAR, Status.TARGET_NEAR]
    assert np.allclose(result.residual, [0.0, 3.0, 1.0], rtol=0.0, atol=6e-6)
    assert mean_offset(result.joints)[0] @ Y > 0.1
    assert np.abs(mean_offset(result.joints)[0] @ X) < 1e-6


def test_a_batch_is_its_chains_one_by_one():
    rng = np.random.default_rng(5)
    joints = chains(rng, 20, 6, "random", "winding")
    job = ChainJob(joints, reachable(rng, joints), Y)
    batch = ccd.solve(job, tolerance=1e-9)
    for i in range(20):
        alone = ccd.solve(ChainJob(joints[i], job.target[i], Y), tolerance=1e-9)
        assert np.abs(alone.joints - batch.joints[i]).max() < 1e-11
        assert np.abs(alone.rotations - batch.rotations[i]).max() < 1e-9


@pytest.mark.parametrize("iterations", [1, 2, 3])
def test_too_few_iterations_are_told(iterations):
    rng = np.random.default_rng(6)
    joints = chains(rng, COUNT, 8, "random", "tangled")
    outer = radii(joints)[1]
    job = ChainJob(joints, joints[:, 0] + 0.99 * outer[:, None] * unit(rng.normal(size=(COUNT, 3))), Y)
    result = ccd.solve(job, iterations=iterations)
    missed = result.residual > 1e-6 * outer
    assert missed.any()
    assert ((result.status == Status.NOT_CONVERGED) == missed).all()
    check_chain(job, result, tolerance=1.0)


def test_what_is_no_job_is_refused_by_name():
    with pytest.raises(ValueError, match="target"):
        ccd.solve(ChainJob(arc_chain(), np.full(3, np.nan), Y))
