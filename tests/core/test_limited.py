# SPDX-License-Identifier: GPL-3.0-or-later
"""Chains with joint limits: inside the box always, on the target where that can be."""

import itertools

import numpy as np
import pytest
from joints import (
    chains,
    forward,
    freely,
    inside,
    outside,
    quaternion,
    rotation,
    some,
    total,
    turns,
)

from ik_addon.core import box_search, ccd, fabrik, limited_chain, two_bone
from ik_addon.core.limited import JointChain, solve_limited
from ik_addon.core.limits import JointLimits

DEGREE = np.pi / 180.0
KUKA = np.array([0.3105, 0.2, 0.2, 0.2, 0.19, 0.078, 0.132])


def check(chain, target, result, lower, upper, order="XYZ", kept=1e-9):
    """Finite, inside, and what it says of itself is true by independent kinematics."""
    for name in ("rotation", "joints", "residual", "bound"):
        assert np.isfinite(getattr(result, name)).all(), name
    assert np.abs(np.linalg.norm(result.rotation, axis=-1) - 1.0).max() <= 1e-12
    assert outside(result.rotation, lower, upper, order).max() <= kept
    joints = forward(chain, result.rotation)
    scale = total(chain) + np.abs(chain.root).max(-1)
    assert (np.abs(joints - result.joints).max(axis=(-1, -2)) <= 1e-12 * scale + 1e-300).all()
    miss = np.linalg.norm(joints[..., -1, :] - target, axis=-1)
    assert (np.abs(miss - result.residual) <= 1e-12 * (scale + miss)).all()


def cube(bones, degrees):
    limit = np.full((bones, 3), degrees * DEGREE)
    return -limit, limit


def one_axis(rng, size, bones, least=30.0, most=170.0):
    """Ranges for one axis of each bone, the others held; with minimums above zero among them."""
    turns_about = np.eye(3, dtype=bool)[rng.integers(0, 3, (size, bones))]
    middle = rng.uniform(-60.0, 60.0, (size, bones, 1)) * DEGREE
    half = rng.uniform(least, most, (size, bones, 1)) * DEGREE
    return np.where(turns_about, middle - half, 0.0), np.where(turns_about, middle + half, 0.0)


@pytest.mark.parametrize("solver", [fabrik, ccd], ids=["fabrik", "ccd"])
@pytest.mark.parametrize("bones", range(3, 11))
def test_forty_degree_chains_reach_what_can_be_reached(bones, solver):
    rng = np.random.default_rng(bones)
    lower, upper = cube(bones, 40.0)
    chain = chains(rng, 250, bones, straight=True)
    target = forward(chain, quaternion(rotation(inside(rng, lower, upper, 250))))[:, -1]
    fk = quaternion(rotation(inside(rng, 0.5 * lower, 0.5 * upper, 250)))
    wanted = freely(chain, fk, target, solver)
    box = JointLimits(lower, upper).box()
    assert box.exceeded(wanted).mean() > 0.15
    result = solve_limited(chain, target, wanted, box, fk)
    check(chain, target, result, lower, upper, kept=1.1e-7)
    reached = result.residual <= 1e-4 * total(chain)
    assert reached.mean() >= 0.99
    assert not result.bound[result.residual <= 1e-7 * total(chain)].any()
    assert result.bound[~reached].all()


def test_two_bones_with_forty_degrees():
    rng = np.random.default_rng(2)
    lower, upper = cube(2, 40.0)
    chain = chains(rng, 500, 2, straight=True)
    target = forward(chain, quaternion(rotation(inside(rng, lower, upper, 500))))[:, -1]
    fk = quaternion(rotation(inside(rng, 0.5 * lower, 0.5 * upper, 500)))
    result = solve_limited(
        chain, target, freely(chain, fk, target, two_bone), JointLimits(lower, upper).box(), fk
    )
    check(chain, target, result, lower, upper, kept=1.1e-7)
    assert (result.residual <= 1e-6 * total(chain)).mean() >= 0.99


@pytest.mark.parametrize("bones", [2, 3, 4, 5, 7, 10])
def test_joints_of_one_axis_reach_what_can_be_reached(bones):
    """Robots of any build: from 2 to 10 hinges that stand anyhow, from poses far off the target."""
    rng = np.random.default_rng(bones)
    size = 250
    chain = chains(rng, size, bones)
    lower, upper = one_axis(rng, size, bones)
    target = forward(chain, quaternion(rotation(inside(rng, lower, upper))))[:, -1]
    fk = quaternion(rotation(inside(rng, lower, upper)))
    result = solve_limited(
        chain, target, freely(chain, fk, target, fabrik), JointLimits(lower, upper).box(), fk
    )
    check(chain, target, result, lower, upper)
    assert (result.residual <= 1e-8 * total(chain)).mean() >= 0.99


@pytest.mark.parametrize("solver", [fabrik, ccd], ids=["fabrik", "ccd"])
@pytest.mark.parametrize("bones", [3, 4])
def test_locked_joints_find_the_fold_that_reaches(bones, solver):
    """Each bone turns about one axis, all around: a few folds of many reach, and no step joins two."""
    rng = np.random.default_rng(bones)
    size = 1000
    chain = chains(rng, size, bones)
    free = np.eye(3, dtype=bool)[rng.integers(0, 3, (size, bones))]
    angles = np.where(free, rng.uniform(-np.pi, np.pi, free.shape), 0.0)
    target = forward(chain, quaternion(rotation(angles)))[:, -1]
    fk = np.broadcast_to([1.0, 0.0, 0.0, 0.0], (size, bones, 4))
    unbounded = np.full(free.shape, np.inf)
    box = JointLimits(-unbounded, unbounded, ~free).box(fk)
    result = solve_limited(chain, target, freely(chain, fk, target, solver), box, fk)
    held = np.where(free, 9.0, 0.0)
    check(chain, target, result, -held, held)
    assert (result.residual <= 1e-6 * total(chain)).mean() >= 0.998


@pytest.mark.parametrize("solver", [fabrik, ccd], ids=["fabrik", "ccd"])
def test_targets_beside_the_axis_of_the_first_joint(solver):
    """There it has to turn far to move the tip at all: no step may grow for a gain that is next to none."""
    rng = np.random.default_rng(71)
    size = 300
    rest = np.stack(
        [np.eye(3), rotation(np.radians([0.0, 0.0, 90.0])), rotation(np.radians([40.0, 0.0, 0.0]))]
    )
    step = np.array([[0.0, 0.47, 0.0], [0.0, 1.087, 0.0], [0.0, 2.171, 0.0]])
    chain = JointChain(np.eye(3), np.zeros(3), rest, step)
    free = np.array([[False, True, False], [False, False, True], [True, False, False]])
    angles = np.where(free, rng.uniform(-np.pi, np.pi, (300 * size, 3, 3)), 0.0)
    target = forward(chain, quaternion(rotation(angles)))[:, -1]
    target = target[np.hypot(target[:, 0], target[:, 2]) < 0.08 * total(chain)][:size]
    assert len(target) == size
    fk = np.broadcast_to([1.0, 0.0, 0.0, 0.0], (len(target), 3, 4))
    unbounded = np.full((3, 3), np.inf)
    box = JointLimits(-unbounded, unbounded, ~free).box(fk)
    result = solve_limited(chain, target, freely(chain, fk, target, solver), box, fk)
    check(chain, target, result, np.where(free, -9.0, 0.0), np.where(free, 9.0, 0.0))
    assert (result.residual <= 1e-6 * total(chain)).mean() >= 0.99


def test_a_robot_arm_from_its_straight_rest_pose():
    """Seven joints in turn about the bone and across, 170 and 120 degrees: a singular start."""
    rng = np.random.default_rng(7)
    size, bones = 400, 7
    step = np.zeros((bones, 3))
    step[:, 1] = KUKA
    chain = JointChain(np.eye(3), np.zeros(3), np.broadcast_to(np.eye(3), (bones, 3, 3)), step)
    free = np.array([[0, 1, 0], [0, 0, 1]] * 3 + [[0, 1, 0]], bool)
    limit = np.where(free, np.where(free[:, 1:2], 170.0, 120.0), 180.0) * DEGREE
    limits = JointLimits(-limit, limit, ~free)
    held = np.where(free, limit, 0.0)
    fk = np.broadcast_to([1.0, 0.0, 0.0, 0.0], (bones, 4))
    target = forward(chain, quaternion(rotation(inside(rng, -held, held, size))))[:, -1]
    wanted = freely(chain, np.broadcast_to(fk, (size, bones, 4)), target, fabrik)
    result = solve_limited(chain, target, wanted, limits.box(fk), fk)
    check(chain, target, result, -held, held)
    assert (result.residual <= 1e-8 * total(chain)).all()
    # Straight up, and straight down through its own base.
    for goal in ([0.0, 0.6, 0.0], [0.0, 1.31, 0.0], [0.0, -0.2, 0.0], [0.0, 2.0, 0.0]):
        goal = np.array(goal)
        straight = solve_limited(chain, goal, freely(chain, fk, goal, fabrik), limits.box(fk), fk)
        check(chain, goal, straight, -held, held)
        assert straight.residual <= max(goal[1] - total(chain), 0.0) + 1e-8
        assert not straight.bound


def test_a_pose_inside_is_returned_to_the_bit():
    rng = np.random.default_rng(8)
    lower, upper = cube(4, 40.0)
    chain = chains(rng, 60, 4, straight=True)
    wanted = quaternion(rotation(inside(rng, lower, upper, 60)))
    wanted[::3] = quaternion(rotation(inside(rng, 2.0 * lower, 2.0 * upper, 20)))
    box = JointLimits(lower, upper).box()
    exceeded = box.exceeded(wanted)
    assert 0 < exceeded.sum() <= 20
    target = rng.normal(size=(60, 3))
    result = solve_limited(chain, target, wanted, box)
    assert np.array_equal(result.rotation[~exceeded], wanted[~exceeded])
    assert (np.abs(result.rotation[exceeded] - wanted[exceeded]).max(axis=(-1, -2)) > 1e-6).all()


def nearest_on_grid(chain, lower, upper, target, steps):
    """Brute force: the least gap of one chain over a grid of its movable angles, refined."""
    movable = np.argwhere(lower < upper)

    def gap(share):
        angles = np.broadcast_to(lower, (*share.shape[:-1], *lower.shape)).copy()
        for number, (bone, axis) in enumerate(movable):
            angles[..., bone, axis] += share[..., number] * (upper - lower)[bone, axis]
        return np.linalg.norm(forward(chain, quaternion(rotation(angles)))[..., -1, :] - target, axis=-1)

    grid = np.array(list(itertools.product(np.linspace(0.0, 1.0, steps), repeat=len(movable))))
    gaps = gap(grid)
    best, width = grid[np.argsort(gaps)[:8]], 1.0 / (steps - 1)
    around = np.array(list(itertools.product(np.linspace(-1.0, 1.0, 5), repeat=len(movable))))
    for _ in range(12):
        tried = np.clip(best[:, None] + width * around, 0.0, 1.0)
        gaps = gap(tried)
        best = tried[np.arange(len(tried)), gaps.argmin(1)]
        width *= 0.5
    return gaps.min()


@pytest.mark.parametrize(("bones", "steps"), [(2, 40), (3, 20)])
def test_out_of_reach_the_nearest_pose_is_found(bones, steps):
    rng = np.random.default_rng(20 + bones)
    size = 20
    chain = chains(rng, size, bones)
    lower, upper = one_axis(rng, size, bones)
    target = chain.root + turns(rng, size)[..., 0] * (total(chain) * rng.uniform(0.1, 1.3, size))[:, None]
    fk = quaternion(rotation(inside(rng, lower, upper)))
    result = solve_limited(
        chain, target, freely(chain, fk, target, fabrik), JointLimits(lower, upper).box(), fk
    )
    check(chain, target, result, lower, upper)
    for row in range(size):
        least = nearest_on_grid(some(chain, row), lower[row], upper[row], target[row], steps)
        assert result.residual[row] <= least + 1e-6 * total(chain)[row]


@pytest.mark.parametrize(("low", "high"), [(0, 150), (20, 150), (-150, -20), (100, 260), (-400, -350)])
@pytest.mark.parametrize("with_pole", [False, True])
def test_a_knee_is_exact(low, high, with_pole):
    """Free hip, oblique hinge, locks at FK angles: as near as any angle of the hinge allows."""
    rng = np.random.default_rng(30)
    size = 300
    rest = np.stack([turns(rng, size), rotation(rng.normal(size=(size, 3)) * 0.1)], 1)
    chain = chains(rng, size, 2)
    chain = JointChain(chain.base, chain.root, rest, chain.step)
    free = np.full((2, 3), np.inf)
    lower, upper = -free, free
    lower[1, 0], upper[1, 0] = low * DEGREE, high * DEGREE
    limits = JointLimits(lower, upper, np.array([[False] * 3, [False, True, True]]))
    knee = np.concatenate([rng.uniform(low, high, (size, 1)) * DEGREE, rng.normal(size=(size, 2)) * 0.1], -1)
    fk = quaternion(rotation(np.stack([rng.normal(size=(size, 3)), knee], 1)))
    distance = total(chain) * rng.uniform(0.05, 1.2, size)
    target = chain.root + turns(rng, size)[..., 0] * distance[:, None]
    pole = rng.normal(size=(size, 3)) if with_pole else None
    wanted = freely(chain, fk, target, two_bone, pole)
    box = limits.box(fk)
    result = solve_limited(chain, target, wanted, box, fk, with_pole)
    check(chain, target, result, box.lower, box.upper)

    angles = np.broadcast_to(knee[:, None], (size, 801, 3)).copy()
    angles[..., 0] = np.linspace(low, high, 801) * DEGREE
    lower_bone = np.einsum("stij,sj->sti", rotation(angles), chain.step[:, 1])
    tip = chain.step[:, None, 0] + np.einsum("sij,stj->sti", rest[:, 1], lower_bone)
    least = np.abs(np.linalg.norm(tip, axis=-1) - distance[:, None]).min(1)
    assert (result.residual <= least + 1e-12 * total(chain)).all()
    if with_pole:
        line = (target - chain.root) / distance[:, None]
        sides = []
        for q in (wanted, result.rotation):
            middle = forward(chain, q)[:, 1] - chain.root
            sides.append(middle - (middle * line).sum(-1)[:, None] * line)
        sizes = np.linalg.norm(sides, axis=-1)
        clear = (sizes > 2e-3 * total(chain)).all(0)
        cosine = (sides[0] * sides[1]).sum(-1)[clear] / sizes.prod(0)[clear]
        assert clear.mean() > 0.5
        assert (cosine >= 1.0 - 1e-9).all(), "the middle joint stays in the pole's half plane"


def test_a_knee_bends_to_its_positive_side_alone():
    step = np.array([[0.0, 0.5, 0.0], [0.0, 0.4, 0.0]])
    chain = JointChain(np.eye(3), np.zeros(3), np.broadcast_to(np.eye(3), (2, 3, 3)), step)
    for low, high, side in ((0.0, 150.0, 1.0), (-150.0, 0.0, -1.0)):
        lower = np.array([[-np.inf] * 3, [low * DEGREE, 0.0, 0.0]])
        upper = np.array([[np.inf] * 3, [high * DEGREE, 0.0, 0.0]])
        for start in (-0.3, -1e-9, 0.0, 1e-9, 0.3):
            fk = quaternion(rotation(np.array([[0.0, 0.0, 0.0], [start, 0.0, 0.0]])))
            target = np.array([0.1, 0.6, 0.2])
            box = JointLimits(lower, upper).box()
            result = solve_limited(chain, target, freely(chain, fk, target, two_bone), box, fk)
            check(chain, target, result, lower, upper)
            assert result.residual <= 1e-9
            assert side * box.angles(result.rotation)[1, 0] > 0.5


@pytest.mark.parametrize("pole", [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [-1.0, 0.0, 0.0]])
@pytest.mark.parametrize("target", [[0.3, 1.2, 0.4], [0.2, 1.7, 0.1], [-0.5, 0.5, 0.5], [0.0, 1.0, 0.0]])
def test_ten_degrees_are_kept_wherever_the_pole_is(pole, target):
    step = np.array([[0.0, 1.0, 0.0], [0.0, 1.0, 0.0]])
    chain = JointChain(np.eye(3), np.zeros(3), np.broadcast_to(np.eye(3), (2, 3, 3)), step)
    limit = np.array([[10.0 * DEGREE] * 3, [np.inf] * 3])
    fk = quaternion(rotation(np.array([[0.0, 0.0, 0.0], [0.1, 0.0, 0.0]])))
    target, pole = np.array(target), np.array(pole)
    box = JointLimits(-limit, limit).box()
    result = solve_limited(chain, target, freely(chain, fk, target, two_bone, pole), box, fk, True)
    check(chain, target, result, -limit, limit)
    # The lower bone is free, so where the knee can be decides how near the tip comes.
    angles = np.stack(np.meshgrid(*[np.linspace(-10, 10, 81) * DEGREE] * 2, indexing="ij"), -1).reshape(-1, 2)
    knees = rotation(np.stack([angles[:, 0], 0.0 * angles[:, 0], angles[:, 1]], -1))[..., 1]
    least = np.abs(np.linalg.norm(target - knees, axis=-1) - 1.0).min()
    assert result.residual <= least + 1e-3


@pytest.mark.parametrize("order", ["XZY", "YXZ", "YZX", "ZXY", "ZYX"])
def test_every_euler_order_is_kept(order):
    rng = np.random.default_rng(40)
    size, bones = 200, 4
    lower = rng.uniform(-70.0, 10.0, (size, bones, 3)) * DEGREE
    upper = lower + rng.uniform(20.0, 60.0, lower.shape) * DEGREE
    chain = chains(rng, size, bones)
    target = forward(chain, quaternion(rotation(inside(rng, lower, upper), order)))[:, -1]
    wanted = quaternion(turns(rng, size, bones))
    box = JointLimits(lower, upper, order=np.array(order)).box()
    result = solve_limited(chain, target, wanted, box)
    check(chain, target, result, lower, upper, order)
    assert (result.residual <= 1e-8 * total(chain)).mean() >= 0.99
    assert outside(result.rotation, lower, upper).max() > 0.1, "it is not the box of order XYZ"


def test_locked_axes_keep_their_fk_angles_in_a_chain():
    rng = np.random.default_rng(41)
    size, bones = 200, 6
    locked = np.array([[False, True, False], [True, False, True], [False, True, True]] * 2)
    free = np.full((bones, 3), np.inf)
    limits = JointLimits(-free, free, locked)
    chain = chains(rng, size, bones, straight=True)
    angles = rng.uniform(-0.6, 0.6, (size, bones, 3))
    fk = quaternion(rotation(angles))
    target = chain.root + turns(rng, size)[..., 0] * (0.6 * total(chain))[:, None]
    result = solve_limited(chain, target, freely(chain, fk, target, fabrik), limits.box(fk), fk)
    held_low, held_high = np.where(locked, angles, -np.inf), np.where(locked, angles, np.inf)
    check(chain, target, result, np.maximum(held_low, -9.0), np.minimum(held_high, 9.0))
    assert (result.residual <= 1e-8 * total(chain)).mean() >= 0.99


def test_together_and_one_by_one_are_the_same():
    rng = np.random.default_rng(42)
    size, bones = 40, 5
    lower, upper = cube(bones, 35.0)
    chain = chains(rng, size, bones, straight=True)
    target = chain.root + rng.normal(size=(size, 3)) * 2.0
    fk = quaternion(rotation(inside(rng, lower, upper, size)))
    wanted = freely(chain, fk, target, fabrik)
    box = JointLimits(lower, upper).box()
    result = solve_limited(chain, target, wanted, box, fk)
    turned = result.rotation[::-1].reshape(4, 10, bones, 4)
    again = solve_limited(some(chain, slice(None, None, -1)), target[::-1], wanted[::-1], box, fk[::-1])
    assert np.array_equal(again.rotation.reshape(turned.shape), turned)
    for row in range(size):
        alone = solve_limited(some(chain, row), target[row], wanted[row], box, fk[row])
        assert np.array_equal(alone.rotation, result.rotation[row])
        assert alone.bound == result.bound[row]
    # The same question has the same answer to the bit.
    same = solve_limited(chain, target, wanted, box, fk)
    assert np.array_equal(same.rotation, result.rotation)


def test_frames_by_chains_and_shared_rests():
    rng = np.random.default_rng(43)
    lower, upper = cube(3, 30.0)
    chain = chains(rng, 5, 3, straight=True)
    frames = JointChain(turns(rng, 7, 5), rng.normal(size=(7, 5, 3)), chain.rest, chain.step)
    target = frames.root + rng.normal(size=(7, 5, 3))
    wanted = quaternion(turns(rng, 7, 5, 3))
    box = JointLimits(np.broadcast_to(lower, (5, 3, 3)), np.broadcast_to(upper, (5, 3, 3))).box()
    result = solve_limited(frames, target, wanted, box)
    assert result.rotation.shape == (7, 5, 3, 4)
    assert result.residual.shape == result.bound.shape == (7, 5)
    one = JointChain(frames.base[2, 3], frames.root[2, 3], chain.rest[3], chain.step[3])
    alone = solve_limited(one, target[2, 3], wanted[2, 3], JointLimits(lower, upper).box())
    assert np.abs(alone.rotation - result.rotation[2, 3]).max() <= 1e-8


@pytest.mark.parametrize("bones", [3, 5, 8])
def test_neighbouring_targets_give_neighbouring_poses(bones):
    """A middle joint moves by at most 25 times the target's step, on straight ways through reach.

    Some ways lead where the pose next to the free one gets stuck at its bounds, and another takes
    over: two steps in a thousand at most.
    """
    rng = np.random.default_rng(50 + bones)
    lower, upper = cube(bones, 40.0)
    box = JointLimits(lower, upper).box()
    step, rates = 0.002, []
    while len(rates) < 25:
        chain = some(chains(rng, 1, bones, straight=True), 0)
        length = total(chain)
        fk = quaternion(rotation(inside(rng, 0.4 * lower, 0.4 * upper)))
        ends = [forward(chain, quaternion(rotation(0.85 * inside(rng, lower, upper))))[-1] for _ in range(2)]
        share = np.linspace(0.0, 1.0, int(np.linalg.norm(ends[1] - ends[0]) / (step * length)) + 2)[:, None]
        target = ends[0] + share * (ends[1] - ends[0])
        wanted = freely(chain, np.broadcast_to(fk, (len(target), bones, 4)), target, fabrik)
        result = solve_limited(chain, target, wanted, box, fk)
        check(chain, target, result, lower, upper, kept=1.1e-7)
        if box.exceeded(wanted).any() and (result.residual <= 1e-6 * length).all():
            moved = np.linalg.norm(np.diff(result.joints, axis=0), axis=-1).max(axis=-1)
            rates.append(moved / (step * length))
    assert np.mean([way.max() <= 25.0 for way in rates]) >= 0.8
    assert np.mean(np.concatenate(rates) <= 25.0) >= 0.998


def test_a_knee_that_runs_into_its_limit_moves_on_smoothly():
    """From reach through the fold that the knee's range allows, and past full reach."""
    step = np.array([[0.0, 0.5, 0.0], [0.0, 0.45, 0.0]])
    chain = JointChain(np.eye(3), np.zeros(3), np.broadcast_to(np.eye(3), (2, 3, 3)), step)
    lower = np.array([[-np.inf] * 3, [15.0 * DEGREE, 0.0, 0.0]])
    upper = np.array([[np.inf] * 3, [100.0 * DEGREE, 0.0, 0.0]])
    fk = quaternion(rotation(np.array([[0.0, 0.0, 0.0], [0.8, 0.0, 0.0]])))
    distance = np.linspace(0.2, 1.2, 2001)[:, None]
    target = distance * np.array([0.3, 0.9, 0.3]) / np.linalg.norm([0.3, 0.9, 0.3])
    wanted = freely(chain, np.broadcast_to(fk, (2001, 2, 4)), target, two_bone)
    result = solve_limited(chain, target, wanted, JointLimits(lower, upper).box(), fk)
    check(chain, target, result, lower, upper, kept=1.1e-7)
    moved = np.linalg.norm(np.diff(result.joints, axis=0), axis=-1).max()
    # At a bend of 15 degrees the knee goes 4.2 times as fast as the target.
    assert moved <= 4.3 * 0.0005
    reach = np.linalg.norm(result.joints[:, -1], axis=-1)
    low, high = (np.sqrt(0.25 + 0.45**2 + 0.45 * np.cos(a * DEGREE)) for a in (100.0, 15.0))
    assert np.abs(reach - np.clip(distance[:, 0], low, high)).max() <= 1e-9
    assert np.array_equal(result.bound, (distance[:, 0] < low - 1e-9) | (distance[:, 0] > high + 1e-9))


def test_hard_cases(fuzz_cases):
    """Boxes that are points, slits or everything; bones without length; targets anywhere."""
    rng = np.random.default_rng(60)
    size = max(fuzz_cases // 40, 50)
    for bones in (1, 2, 3, 5):
        chain = chains(rng, size, bones)
        unit = 10.0 ** rng.uniform(-6.0, 6.0, size)
        none = rng.uniform(size=(size, bones, 1)) < 0.15
        step = np.where(none, 0.0, chain.step) * unit[:, None, None]
        step[: size // 20] = 0.0
        chain = JointChain(chain.base, chain.root * unit[:, None], chain.rest, step)
        middle = rng.uniform(-np.pi, np.pi, (size, bones, 3))
        half = rng.choice([0.0, 1e-9, 0.01, 0.5, 2.0, 4.0], middle.shape)
        limits = JointLimits(middle - half, middle + half, rng.uniform(size=half.shape) < 0.1)
        fk = quaternion(turns(rng, size, bones))
        box = limits.box(fk)
        far = rng.choice([0.0, 1e-12, 0.3, 0.9, 1.0, 1.5, 1e3, 1e9], size)
        target = chain.root + turns(rng, size)[..., 0] * (far * total(chain))[:, None]
        target[: size // 40] += 1.0
        wanted = quaternion(turns(rng, size, bones))
        wanted[::3] = box.clamp(wanted)[::3]
        result = solve_limited(chain, target, wanted, box, fk, rng.uniform(size=size) < 0.5)
        low = np.maximum(box.lower, box.middle - 9.0)
        high = np.minimum(box.upper, box.middle + 9.0)
        check(chain, target, result, low, high, kept=2e-7)
        # Never farther than the wanted pose brought into the box by hand.
        clamped = np.linalg.norm(forward(chain, box.clamp(wanted))[:, -1] - target, axis=-1)
        assert (result.residual <= clamped + 1e-9 * (total(chain) + clamped)).all()


def test_a_search_step_without_a_solution_is_none():
    matrix = np.zeros((3, 3, 1))
    step = box_search._newton(matrix, np.zeros(1), np.ones((3, 1), bool), np.ones((3, 1)))
    assert np.array_equal(step, np.zeros((3, 1)))


def test_a_long_chain_out_of_reach():
    rng = np.random.default_rng(61)
    lower, upper = cube(24, 8.0)
    chain = chains(rng, 12, 24, straight=True)
    target = chain.root - chain.base[..., 1] * (0.8 * total(chain))[:, None]
    wanted = freely(chain, quaternion(rotation(inside(rng, lower, upper, 12))), target, fabrik)
    result = solve_limited(chain, target, wanted, JointLimits(lower, upper).box())
    check(chain, target, result, lower, upper)
    assert result.bound.all()


def test_of_two_poses_that_are_as_near_the_one_next_to_the_free_pose_is_taken():
    """A limb with a bend of 90 degrees has a mirror image, its joints half a turn away."""
    chain = JointChain(
        np.eye(3),
        np.zeros(3),
        np.stack([np.eye(3), rotation(np.array([90.0 * DEGREE, 0.0, 0.0])), np.eye(3)]),
        np.array([[0.0, 0.2, 0.0], [0.0, 0.5, 0.0], [0.0, 0.4, 0.0]]),
    )
    held, free = np.zeros(3), np.full(3, np.inf)
    free_about = np.array([[False, True, False], [False, False, True], [True, False, False]])
    upper = np.where(free_about, free, held)
    upper[2, 0] = 15.0 * DEGREE
    box = JointLimits(np.where(free_about, -upper, 0.0), upper).box()
    fk = quaternion(np.broadcast_to(np.eye(3), (3, 3, 3)))
    for turn in (-40.0, 0.0, 70.0):
        goal = rotation(np.array([0.0, turn * DEGREE, 0.0])) @ np.array([0.25, 0.3, 1.6])
        wanted = freely(chain, fk, goal, fabrik)
        result = solve_limited(chain, goal, wanted, box, fk)
        assert result.bound
        clamped = box.angles(box.clamp(wanted))
        away = np.abs((box.angles(result.rotation) - clamped + np.pi) % (2.0 * np.pi) - np.pi).max()
        assert away < 90.0 * DEGREE


def problem(rng, size, bones, degrees):
    """Chains as the search sees them, the batch last, with targets that can be reached."""
    lower, upper = cube(bones, degrees)
    chain = chains(rng, size, bones)
    last = [np.ascontiguousarray(np.moveaxis(a, 0, -1)) for a in (chain.base, chain.rest, chain.step)]
    bounds = [np.repeat(a[..., None], size, axis=-1) for a in (lower, upper)]
    goal = forward(chain, quaternion(rotation(inside(rng, lower, upper, size))))[:, -1] - chain.root
    return limited_chain.Chains(*last, *bounds, goal.T.copy())


def test_first_and_second_derivatives():
    rng = np.random.default_rng(63)
    chain = problem(rng, 5, 3, 180.0)
    angles = rng.uniform(-1.0, 1.0, (3, 3, 5))
    pose = limited_chain.place(chain, angles)
    columns, axes = limited_chain.jacobian(pose)
    along = rng.normal(size=(3, 5))
    second = limited_chain.curvature(columns, axes, along)
    for number in range(9):
        step = np.zeros((9, 5))
        step[number] = 1e-5
        ahead, behind = (limited_chain.place(chain, angles + s * step.reshape(3, 3, 5)) for s in (1, -1))
        slope = (ahead.joints[-1] - behind.joints[-1]) / 2e-5
        assert np.abs(slope - columns[:, number]).max() <= 1e-8
        change = (limited_chain.jacobian(ahead)[0] - limited_chain.jacobian(behind)[0]) / 2e-5
        assert np.abs(np.einsum("idm,im->dm", change, along) - second[:, number]).max() <= 1e-8


def test_poses_that_reach_are_drawn_to_the_free_pose():
    rng = np.random.default_rng(64)
    chain = problem(rng, 60, 5, 40.0)
    wish = rng.uniform(-0.6, 0.6, (5, 3, 60))
    found = box_search.search(chain, rng.uniform(-0.6, 0.6, (5, 3, 60)), box_search.LEAST_MOVE)
    there = np.flatnonzero(found.gap <= 1e-9)
    chain, found, wish = chain.pick(there), found.pick(there), wish[..., there]
    drawn = box_search.drawn(chain, found, wish)
    assert (drawn.gap <= 1e-9).all()
    assert (np.abs(drawn.angles) <= 40.0 * DEGREE).all()
    before, after = (np.square(pose.angles - wish).sum((0, 1)) for pose in (found, drawn))
    assert np.sqrt(after).mean() <= 0.7 * np.sqrt(before).mean()
    assert (after <= before).all()


def test_a_search_does_not_change_its_start():
    rng = np.random.default_rng(62)
    chain = problem(rng, 6, 3, 40.0)
    start = rng.uniform(-0.5, 0.5, (3, 3, 6))
    before = start.copy()
    found = box_search.search(chain, start, box_search.LEAST_MOVE)
    assert np.array_equal(start, before)
    assert not np.array_equal(found.angles, before)
