# SPDX-License-Identifier: GPL-3.0-or-later
import numpy as np
import pytest
from chains import (
    LENGTHS,
    SHAPES,
    chains,
    check_chain,
    mean_offset,
    moves,
    off_line,
    radii,
    reachable,
    twist,
)
from hypothesis import given
from hypothesis import strategies as st
from limbs import X, Y, Z, angle_between, bone_lengths, unit

from ik_addon.core import fabrik, iterative, two_bone
from ik_addon.core.job import ChainJob, Status
from ik_addon.core.transforms import axis_angle_to_matrix, quaternion_to_matrix, rotation_arc

COUNT = 1_000


def solved(joints, target, hinge=Y, tolerance=1e-12, **fields):
    job = ChainJob(np.asarray(joints, float), np.asarray(target, float), hinge, **fields)
    result = fabrik.solve(job, tolerance=tolerance)
    check_chain(job, result, tolerance)
    return result


def arc_chain(n=6, bend=0.8, length=1.0):
    """In the plane of X and Z, from the origin upward, the middle toward X."""
    angle = bend * np.linspace(1.0, -1.0, n)
    steps = length * np.stack([np.sin(angle), 0.0 * angle, np.cos(angle)], axis=-1)
    return np.concatenate([np.zeros((1, 3)), np.cumsum(steps, axis=0)])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("n", [2, 3, 5, 10, 20, 50, 100])
def test_every_target_in_reach_is_reached(n, lengths, shape):
    rng = np.random.default_rng([n, list(LENGTHS).index(lengths), list(SHAPES).index(shape)])
    joints = chains(rng, COUNT, n, lengths, shape)
    job = ChainJob(joints, reachable(rng, joints), rng.normal(size=(COUNT, 3)))
    result = fabrik.solve(job, iterations=100)
    assert (result.residual <= 1e-6 * radii(joints)[1]).all()
    assert (result.status == Status.OK).all()
    check_chain(job, result)


def test_a_tight_tolerance_is_met():
    rng = np.random.default_rng(1)
    joints = chains(rng, COUNT, 12, "random", "winding")
    job = ChainJob(joints, reachable(rng, joints), Y)
    result = fabrik.solve(job, tolerance=1e-12)
    assert (result.residual <= 1.1e-12 * radii(joints)[1]).all()


@pytest.mark.parametrize("n", [3, 10, 20, 100])
@pytest.mark.parametrize("share", [0.3, 0.9, 0.999, 1.0 - 1e-9])
def test_full_reach_takes_no_more_steps_than_half_of_it(n, share):
    rng = np.random.default_rng(n)
    joints = chains(rng, COUNT, n, "equal", "winding")
    target = joints[:, 0] + share * n * unit(rng.normal(size=(COUNT, 3)))
    assert (fabrik.solve(ChainJob(joints, target, Y), iterations=8).status == Status.OK).all()


def test_too_few_steps_are_told():
    rng = np.random.default_rng(2)
    joints = chains(rng, COUNT, 8, "random", "tangled")
    inner, outer = radii(joints)
    job = ChainJob(joints, joints[:, 0] + 0.999 * outer[:, None] * unit(rng.normal(size=(COUNT, 3))), Y)
    result = fabrik.solve(job, iterations=1)
    missed = result.residual > 1e-6 * outer
    assert missed.any()
    assert (result.status[missed] == Status.NOT_CONVERGED).all()
    assert (result.status[~missed] == Status.OK).all()
    check_chain(job, result, tolerance=1.0)


@pytest.mark.parametrize("shape", SHAPES)
def test_beyond_reach_the_chain_is_straight_toward_the_target(shape):
    rng = np.random.default_rng(3)
    joints = chains(rng, COUNT, 7, "random", shape)
    outer = radii(joints)[1]
    way = unit(rng.normal(size=(COUNT, 3)))
    excess = rng.uniform(1e-6, 3.0, COUNT)
    result = solved(joints, joints[:, 0] + (outer + excess)[:, None] * way)
    assert np.allclose(result.residual, excess, rtol=0.0, atol=1e-12 * outer.max())
    assert np.allclose(unit(np.diff(result.joints, axis=1)), way[:, None], rtol=0.0, atol=1e-12)
    assert (result.status == Status.TARGET_FAR).all()


def test_inside_the_inner_radius_the_chain_folds_to_it():
    rng = np.random.default_rng(4)
    joints = chains(rng, COUNT, 5, "one long", "winding")
    inner = radii(joints)[0]
    way = unit(rng.normal(size=(COUNT, 3)))
    distance = inner * rng.uniform(0.0, 0.999, COUNT)
    result = solved(joints, joints[:, 0] + distance[:, None] * way)
    assert np.allclose(result.joints[:, -1], joints[:, 0] + inner[:, None] * way, rtol=0.0, atol=1e-11)
    assert (result.status == Status.TARGET_NEAR).all()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("pole", [None, X])
def test_a_target_at_either_radius_is_reached(shape, pole):
    rng = np.random.default_rng(5)
    joints = chains(rng, 200, 4, "one long", shape)
    inner, outer = radii(joints)
    way = unit(rng.normal(size=(200, 3)))
    for radius in (inner, outer):
        result = solved(joints, joints[:, 0] + radius[:, None] * way, pole=pole)
        assert (result.residual <= 1e-11).all()
        assert np.isin(result.status, [Status.OK, Status.POLE_ALIGNED]).all()


@pytest.mark.parametrize("shape", SHAPES)
def test_a_chain_whose_tip_is_on_its_target_stays(shape):
    rng = np.random.default_rng(6)
    joints = chains(rng, COUNT, 9, "random", shape)
    result = solved(joints, joints[:, -1], rng.normal(size=(COUNT, 3)))
    assert np.abs(result.joints - joints).max() <= 1e-7
    assert np.abs(result.rotations - np.eye(3)).max() <= 1e-7


def test_a_bent_chain_whose_tip_is_on_its_target_stays_to_rounding():
    rng = np.random.default_rng(7)
    joints = chains(rng, COUNT, 9, "random", "tangled")
    result = solved(joints, joints[:, -1], tolerance=1e-9)
    assert np.abs(result.joints - joints).max() <= 1e-12
    assert np.abs(result.rotations - np.eye(3)).max() <= 1e-12


@pytest.mark.parametrize("hinge", [X, Y, -X, X + Y + 0.3 * Z, 1e-6 * Y])
@pytest.mark.parametrize("n", [2, 3, 4, 20])
def test_a_straight_chain_folds_to_the_side_of_its_hinge(n, hinge):
    joints = np.outer(np.arange(n + 1), 0.4 * Z)
    target = (n * 0.4 - 0.2) * Z
    result = solved(joints, target, hinge)
    side = np.cross(unit(hinge), Z)
    assert (result.joints[1:-1] @ unit(side) > 0.05).all()
    assert (
        np.abs(off_line(result.joints) - (off_line(result.joints) @ unit(side))[:, None] * unit(side)).max()
        < 1e-12
    )


def test_three_bones_on_their_line_keep_the_reported_figures():
    joints = np.outer(np.arange(4), 0.4 * Z)
    result = solved(joints, 1.0 * Z, hinge=X)
    assert result.residual <= 1e-12
    assert np.abs(bone_lengths(result.joints) - 0.4).max() <= 1e-12
    assert (result.joints[1:-1, 1] < -0.1).all()


@pytest.mark.parametrize("share", [0.9, 0.5, 0.1])
def test_a_straight_chain_folds_to_an_even_arc(share):
    n = 12
    result = solved(np.outer(np.arange(n + 1), Z), share * n * Z)
    bones = np.diff(result.joints, axis=0)
    bends = angle_between(bones[1:], bones[:-1])
    assert bends.max() / bends.min() < 4.0
    assert np.allclose(bends, bends[::-1], rtol=1e-9)


@pytest.mark.parametrize("signs", [(1, -1), (1, 1, -1), (1, -1, 1, -1), (-1, 1, 1, 1)])
def test_a_chain_folded_onto_its_line_unfolds_to_the_side_of_its_hinge(signs):
    joints = np.concatenate([np.zeros((1, 3)), np.cumsum(np.outer(signs, Z), axis=0)])
    for share in (0.6, 0.8, 0.95):
        result = solved(joints, share * len(signs) * Z)
        assert result.status == Status.OK
        assert mean_offset(result.joints) @ X > 0.01


def test_a_wobble_does_not_choose_the_side():
    rng = np.random.default_rng(8)
    joints = chains(rng, COUNT, 6, "random", "wobbly")
    line = joints[:, -1] - joints[:, 0]
    hinge = unit(np.cross(line, rng.normal(size=(COUNT, 3))))
    result = solved(joints, joints[:, 0] + 0.6 * line, hinge)
    side = unit(np.cross(hinge, line))
    assert (np.sum(unit(mean_offset(result.joints)) * side, axis=-1) > np.cos(np.radians(12.0))).all()


def test_a_clear_bend_keeps_its_side_against_the_hinge():
    joints = arc_chain(bend=0.4)
    for share in (0.9, 0.6, 0.3):
        result = solved(joints, share * joints[-1], hinge=-Y)
        assert mean_offset(result.joints) @ X > 0.1
        assert np.abs(result.joints[:, 1]).max() < 1e-12


def test_a_target_on_the_root_closes_the_chain_or_folds_it():
    rng = np.random.default_rng(9)
    joints = chains(rng, COUNT, 5, "random", "winding")
    result = solved(joints, joints[:, 0])
    assert (result.residual <= 1e-11).all()
    joints = chains(rng, COUNT, 5, "one long", "winding")
    result = solved(joints, joints[:, 0])
    assert np.allclose(result.residual, radii(joints)[0], rtol=1e-12)
    assert np.abs(result.rotations[:, 0] - np.eye(3)).max() < 1e-12


def test_a_closed_chain_opens():
    square = np.array([[0, 0, 0], [0, 0, 1], [1, 0, 1], [1, 0, 0], [0, 0, 0]], float)
    for target in (Z, X, Y, unit(X - Y), 1e-3 * X):
        assert solved(square, target).status == Status.OK


def test_bones_without_length_take_their_parents_turn():
    rng = np.random.default_rng(10)
    joints = chains(rng, COUNT, 5, "random", "tangled")
    target = reachable(rng, joints)
    plain = solved(joints, target)
    gaps = joints[:, [0, 0, 1, 2, 2, 2, 3, 4, 5, 5]]
    result = solved(gaps, target)
    assert np.allclose(result.joints, plain.joints[:, [0, 0, 1, 2, 2, 2, 3, 4, 5, 5]], rtol=0.0, atol=1e-9)
    bones = [0, 0, 1, 1, 1, 2, 3, 4, 4]
    assert np.allclose(result.rotations, plain.rotations[:, bones], rtol=0.0, atol=1e-9)


def test_a_chain_without_length_is_not_turned():
    joints = np.ones((3, 4, 3))
    result = solved(joints, np.array([np.ones(3), 2.0 * np.ones(3), np.zeros(3)]))
    assert (result.rotations == np.eye(3)).all()
    assert (result.joints == joints).all()
    assert result.status.tolist() == [Status.OK, Status.TARGET_FAR, Status.TARGET_FAR]


def test_one_bone_points_to_its_target():
    result = solved([[0, 0, 0], [0, 0, 2]], [[3, 0, 0], [1, 0, 0], [2, 0, 0], [0, 0, -2]])
    assert result.status.tolist() == [Status.TARGET_FAR, Status.TARGET_NEAR, Status.OK, Status.OK]
    assert np.allclose(result.rotations[0], axis_angle_to_matrix(Y, np.pi / 2))
    # Straight behind: about the hinge.
    assert np.allclose(result.rotations[3], axis_angle_to_matrix(Y, np.pi))


@pytest.mark.parametrize("n", [2, 5, 20])
def test_no_bone_is_twisted_against_its_parent(n):
    rng = np.random.default_rng(n)
    joints = chains(rng, COUNT, n, "random", "tangled")
    target = reachable(rng, joints)
    turns = solved(joints, target, rng.normal(size=(COUNT, 3))).rotations
    bones = unit(np.diff(joints, axis=1))
    local = np.swapaxes(turns[:, :-1], -1, -2) @ turns[:, 1:]
    assert np.abs(twist(local, bones[:, 1:])).max() < 1e-9
    carried = rotation_arc(unit(joints[:, -1] - joints[:, 0]), unit(target - joints[:, 0]))
    assert np.abs(twist(np.swapaxes(carried, -1, -2) @ turns[:, 0], bones[:, 0])).max() < 1e-9


@pytest.mark.parametrize("turn", [0.0, 1.0, np.pi, -2.0])
def test_the_hinge_ends_along_the_normal_of_the_bend_plane(turn):
    joints = arc_chain()
    pole = np.cos(turn) * X + np.sin(turn) * Y
    result = solved(joints, 4.0 * Z, pole=pole)
    normal = np.cross(Z, pole)
    assert np.allclose(result.rotations @ Y, normal, rtol=0.0, atol=1e-12)
    assert np.abs(result.joints @ normal).max() < 1e-12


def test_straight_and_folded_chains_have_a_repeatable_roll():
    pole = unit(X + Y)
    straight = solved(np.outer(np.arange(4), Z), 9.0 * Z, pole=pole)
    assert np.allclose(straight.rotations @ Y, np.cross(Z, pole), rtol=0.0, atol=1e-12)
    long = np.cumsum([np.zeros(3), 3.0 * Z, Z, 0.5 * Z], axis=0)
    folded = solved(long, 0.5 * Z, pole=pole)
    assert np.allclose(folded.rotations @ Y, np.cross(Z, pole), rtol=0.0, atol=1e-12)


def test_two_bones_come_out_as_from_the_two_bone_solver():
    rng = np.random.default_rng(11)
    joints = chains(rng, COUNT, 2, "random", "tangled")
    bones = np.diff(joints, axis=1)
    hinge = np.cross(bones[:, 1], bones[:, 0])
    target = reachable(rng, joints, 0.01)
    for pole, angle in ((None, 0.0), (rng.normal(size=(COUNT, 3)), 0.7)):
        job = ChainJob(joints, target, hinge, pole=pole, pole_angle=angle)
        ours, theirs = fabrik.solve(job, tolerance=1e-13), two_bone.solve(job)
        assert np.abs(ours.joints - theirs.joints).max() < 1e-9
        assert np.abs(ours.rotations - theirs.rotations).max() < 1e-9
        assert (ours.status == theirs.status).all()


def test_the_chain_bends_toward_its_pole():
    rng = np.random.default_rng(12)
    joints = chains(rng, COUNT, 8, "random", "arc")
    target = reachable(rng, joints, 0.05)
    pole = rng.normal(size=(COUNT, 3))
    line = unit(target - joints[:, 0])
    across = pole - np.sum(pole * line, axis=-1, keepdims=True) * line
    clear = angle_between(pole, across) < np.radians(80.0)
    result = solved(joints, target, rng.normal(size=(COUNT, 3)), pole=pole)
    assert angle_between(mean_offset(result.joints), across)[clear].max() < 1e-6
    turned = solved(joints, target, pole=pole, pole_angle=0.5)
    side = np.cos(0.5) * unit(across) + np.sin(0.5) * np.cross(line, unit(across))
    assert angle_between(mean_offset(turned.joints), side)[clear].max() < 1e-6


def test_the_pole_angle_turns_the_bend_plane_without_a_pole_too():
    joints = arc_chain()
    result = solved(joints, 4.0 * Z, pole_angle=np.radians(90.0))
    assert mean_offset(result.joints) @ Y > 0.5
    assert np.abs(result.joints[:, 0]).max() < 1e-12


def test_a_pole_on_the_line_leaves_the_bend_to_the_fk_pose():
    joints = arc_chain()
    auto = solved(joints, 4.0 * Z)
    for pole in (Z, -Z, Z + 1e-4 * Y):
        result = solved(joints, 4.0 * Z, pole=pole)
        assert result.status == Status.POLE_ALIGNED
        assert np.allclose(result.joints, auto.joints, rtol=0.0, atol=1e-3)
    masked = solved(joints, 4.0 * Z, pole=Z, pole_mask=np.array(False))
    assert masked.status == Status.OK
    assert (masked.joints == auto.joints).all()


def test_an_s_keeps_its_side_of_the_pole_while_its_mean_offset_passes_zero():
    angle = np.array([0.4, -1.0, 0.1, 0.3, 0.2])
    steps = np.stack([np.sin(angle), 0.0 * angle, np.cos(angle)], axis=-1)
    joints = np.concatenate([np.zeros((1, 3)), np.cumsum(steps, axis=0)])
    target = np.linspace(0.999, 0.3, 2_000)[:, None] * 5.0 * unit(joints[-1])
    result = fabrik.solve(ChainJob(joints, target, Y, pole=X))
    side = mean_offset(result.joints) @ X
    assert side.min() < -0.02 and side.max() > 0.02
    assert moves(fabrik.solve, joints, target, pole=X).max() < 25.0


def paths(rng, joints, count):
    """A radial and a winding path of targets, both away from the opposite of the FK tip."""
    inner, outer = radii(joints)
    tip = unit(joints[-1] - joints[0])
    low = max(inner + 0.03 * outer, 0.3 * outer)
    radial = np.linspace(0.999 * outer, low, count)[:, None] * unit(tip + rng.normal(0.0, 0.5, 3))
    across = unit(np.cross(tip, rng.normal(size=3)))
    other = np.cross(tip, across)
    t = np.linspace(0.0, 2.0 * np.pi, count)
    polar = 1.2 + 0.8 * np.sin(2.0 * t)
    round_tip = np.cos(t)[:, None] * across + np.sin(t)[:, None] * other
    way = np.cos(polar)[:, None] * tip + np.sin(polar)[:, None] * round_tip
    winding = (low + (0.999 * outer - low) * (0.5 + 0.5 * np.sin(3.0 * t)))[:, None] * way
    return [joints[0] + radial, joints[0] + winding]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("lengths", ["equal", "random", "one long"])
def test_joints_follow_the_target_without_a_jump(lengths, shape):
    rng = np.random.default_rng([13, list(SHAPES).index(shape)])
    for n in (3, 4, 6, 10, 20):
        for _ in range(4):
            joints = chains(rng, 1, n, lengths, shape)[0]
            for target in paths(rng, joints, 1_000):
                assert moves(fabrik.solve, joints, target).max() < 25.0


@pytest.mark.parametrize("shape", SHAPES)
def test_joints_follow_the_target_with_a_pole(shape):
    rng = np.random.default_rng([14, list(SHAPES).index(shape)])
    for n in (3, 6, 20):
        joints = chains(rng, 1, n, "random", shape)[0]
        for target in paths(rng, joints, 1_000):
            pole = unit(rng.normal(size=3))
            angle = angle_between(target - joints[0], pole)
            clear = (angle > np.radians(6.0)) & (angle < np.radians(174.0))
            step = moves(fabrik.solve, joints, target, pole=pole)
            assert step[clear[1:] & clear[:-1]].max() < 25.0


vectors = st.lists(st.floats(-1.0, 1.0), min_size=3, max_size=3).map(np.array)


@given(
    seed=st.integers(0, 10_000),
    shape=st.sampled_from(["arc", "winding", "tangled"]),
    turn=st.lists(st.floats(-1.0, 1.0), min_size=4, max_size=4).map(np.array),
    shift=vectors,
    scale=st.floats(1e-3, 1e3),
)
def test_the_frame_of_the_job_does_not_matter(seed, shape, turn, shift, scale):
    rng = np.random.default_rng(seed)
    joints = chains(rng, 20, 6, "random", shape)
    target, hinge, pole = reachable(rng, joints, 0.01), rng.normal(size=(20, 3)), rng.normal(size=(20, 3))
    rotation = quaternion_to_matrix(turn) if np.linalg.norm(turn) > 0.1 else np.eye(3)
    there = scale * joints @ rotation.T + shift
    one = solved(joints, target, hinge, pole=pole)
    two = solved(
        there,
        scale * target @ rotation.T + shift,
        hinge @ rotation.T,
        tolerance=1e-11,
        pole=pole @ rotation.T,
    )
    assert np.allclose(
        two.joints, scale * one.joints @ rotation.T + shift, rtol=0.0, atol=1e-6 * max(scale, 1.0)
    )
    assert np.allclose(two.rotations, rotation @ one.rotations @ rotation.T, rtol=0.0, atol=1e-6)


def test_a_batch_is_its_chains_one_by_one():
    rng = np.random.default_rng(15)
    joints = chains(rng, 60, 7, "random", "winding")
    joints[::7, 3] = joints[::7, 2]
    target = joints[:, 0] + rng.uniform(0.0, 8.0, (60, 1)) * unit(rng.normal(size=(60, 3)))
    job = ChainJob(joints, target, Y, pole=rng.normal(size=(60, 3)), pole_mask=np.arange(60) % 2 == 0)
    batch = fabrik.solve(job, tolerance=1e-9)
    for i in range(60):
        alone = fabrik.solve(
            ChainJob(joints[i], target[i], Y, pole=job.pole[i], pole_mask=job.pole_mask[i]), tolerance=1e-9
        )
        assert np.abs(alone.joints - batch.joints[i]).max() < 1e-11
        assert np.abs(alone.rotations - batch.rotations[i]).max() < 1e-9
        assert alone.status == batch.status[i]


def test_blocks_do_not_matter(monkeypatch):
    rng = np.random.default_rng(16)
    joints = chains(rng, 30, 4, "random", "winding")
    target = reachable(rng, joints)
    job = ChainJob(joints.reshape(3, 10, 5, 3), target.reshape(3, 10, 3), Y, pole=X, pole_angle=0.2)
    whole = fabrik.solve(job)
    monkeypatch.setattr(iterative, "BLOCK", 40)
    parts = fabrik.solve(job)
    for name in ("joints", "rotations", "residual", "status"):
        assert getattr(parts, name).shape == getattr(whole, name).shape
        assert np.allclose(getattr(parts, name), getattr(whole, name), rtol=0.0, atol=1e-12)


def test_frames_and_chains_broadcast():
    joints = arc_chain()
    target = np.stack([4.0 * Z, 3.0 * X])[:, None] + 0.1 * np.stack([X, Y, Z])
    result = fabrik.solve(ChainJob(joints, target, np.broadcast_to(Y, (3, 3))))
    assert result.rotations.shape == (2, 3, 6, 3, 3) and result.joints.shape == (2, 3, 7, 3)
    assert result.residual.shape == (2, 3) and result.status.dtype == np.int8


def test_the_job_is_left_as_it_is():
    joints, target = arc_chain(), np.array([0.3, 0.0, 2.0])
    kept = joints.copy(), target.copy()
    fabrik.solve(ChainJob(joints, target, Y, pole=X))
    assert (joints == kept[0]).all() and (target == kept[1]).all()


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"joints": np.zeros((1, 3))}, "joints"),
        ({"joints": np.full((3, 3), np.nan)}, "joints"),
        ({"target": np.zeros(2)}, "target"),
        ({"pole": np.full(3, np.inf)}, "pole"),
    ],
)
def test_what_is_no_job_is_refused_by_name(fields, name):
    good = {"joints": arc_chain(), "target": Z, "hinge": Y}
    with pytest.raises(ValueError, match=name):
        fabrik.solve(ChainJob(**(good | fields)))
