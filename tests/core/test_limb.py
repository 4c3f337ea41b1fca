# SPDX-License-Identifier: GPL-3.0-or-later
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from limbs import X, Y, Z, angle_between, bone_lengths, forward, unit

from ik_addon.core import two_bone
from ik_addon.core.job import ChainJob, Status
from ik_addon.core.limb import FULL_HELP, MODES, reach_of, solve
from ik_addon.core.reach import soft_distance
from ik_addon.core.transforms import (
    axis_angle_to_matrix,
    matrix_to_quaternion,
    quaternion_to_axis_angle,
    quaternion_to_matrix,
)

# Clavicle, upper arm, forearm: hanging, and lying flat. A dog's hind leg, thigh and hock parallel.
HANGING = np.array([(0.02, 0, 1.45), (0.18, 0.03, 1.47), (0.2, 0.05, 1.18), (0.21, -0.02, 0.93)])
FLAT = np.array([(0.0, 0, 0), (0.16, 0, 0), (0.45, 0, 0.05), (0.7, 0, 0)])
DOG = np.array([(0, 0, 0.6), (0, -0.1, 0.38), (0, 0.1, 0.2), (0, 0.01, 0.002)])
LIMBS = {"CLAVICLE": HANGING, "HOCK_PARALLEL": DOG, "HOCK_RATIO": DOG}

each_mode = pytest.mark.parametrize("mode", MODES)
each_hock = pytest.mark.parametrize("mode", ["HOCK_PARALLEL", "HOCK_RATIO"])


def random_jobs(rng, count, spread=0.5, pole=False):
    """Limbs of any shape anywhere, targets from the root to beyond reach."""
    steps = unit(rng.normal(size=(count, 3, 3))) * rng.uniform(0.1, 1.0, (count, 3, 1))
    root = rng.normal(size=(count, 3))
    joints = np.concatenate([root[:, None], root[:, None] + np.cumsum(steps, axis=1)], axis=1)
    total = bone_lengths(joints).sum(axis=-1)
    target = root + rng.normal(size=(count, 3)) * total[:, None] * spread
    poles = rng.normal(size=(count, 3)) if pole else None
    return ChainJob(joints, target, rng.normal(size=(count, 3)), poles)


def totals(job):
    return bone_lengths(job.joints).sum(axis=-1)


def check(job, result, tolerance=1e-9):
    """Finite, rigid, lengths kept; rotations, joints and residual agree; OK means on target."""
    size = np.maximum(totals(job), 1e-300)
    for name in ("rotations", "joints", "residual", "status"):
        assert np.isfinite(getattr(result, name)).all(), name
    gram = np.swapaxes(result.rotations, -1, -2) @ result.rotations
    assert np.abs(gram - np.eye(3)).max(initial=0.0) <= tolerance
    assert (np.linalg.det(result.rotations) > 0.0).all()
    far = np.maximum(np.abs(job.joints).max(axis=(-1, -2)), np.abs(job.target).max(axis=-1))
    allowed = tolerance * size + 1e-14 * far
    drift = np.linalg.norm(forward(job.joints, result.rotations) - result.joints, axis=-1)
    assert (drift <= allowed[..., None]).all()
    stretch = np.abs(bone_lengths(result.joints) - bone_lengths(job.joints))
    assert (stretch <= allowed[..., None]).all()
    missed = np.linalg.norm(result.joints[..., -1, :] - job.target, axis=-1)
    assert (np.abs(missed - result.residual) <= allowed).all()
    reached = (result.status == Status.OK) | (result.status == Status.POLE_ALIGNED)
    assert (missed[reached] <= allowed[reached]).all()
    assert np.isin(result.status[missed > allowed], [Status.TARGET_FAR, Status.TARGET_NEAR]).all()


def turn_of(rotation):
    """Axis and angle of rotations ``(..., 3, 3)``."""
    return quaternion_to_axis_angle(matrix_to_quaternion(rotation))


def settings(rng, count):
    return rng.uniform(0.0, 1.0, count), rng.uniform(0.0, 0.5 * np.pi, count)


@pytest.mark.parametrize("pole", [False, True])
@each_mode
def test_limbs_of_any_shape(mode, pole, fuzz_cases):
    rng = np.random.default_rng(7)
    for _ in range(max(1, fuzz_cases // 100_000)):
        job = random_jobs(rng, min(fuzz_cases, 100_000), pole=pole)
        check(job, solve(job, mode, *settings(rng, len(job.target))))


@each_mode
def test_a_target_at_the_fk_tip_moves_nothing(mode):
    rng = np.random.default_rng(8)
    job = random_jobs(rng, 5000)
    job = ChainJob(job.joints, job.joints[:, -1], job.hinge)
    result = solve(job, mode, *settings(rng, 5000))
    assert np.abs(result.joints - job.joints).max() <= 1e-9
    assert np.abs(result.rotations - np.eye(3)).max() <= 1e-9
    assert (result.status == Status.OK).all()


@each_mode
def test_the_answer_turns_moves_and_scales_with_the_job(mode):
    rng = np.random.default_rng(9)
    job = random_jobs(rng, 2000, pole=True)
    values = settings(rng, 2000)
    before = solve(job, mode, *values)
    turn = quaternion_to_matrix(unit(rng.normal(size=4)))
    moved = ChainJob(
        joints=1e3 * (job.joints @ turn.T) + 5.0,
        target=1e3 * (job.target @ turn.T) + 5.0,
        hinge=job.hinge @ turn.T,
        pole=job.pole @ turn.T,
    )
    after = solve(moved, mode, *values)
    same = np.abs(after.rotations - turn @ before.rotations @ turn.T).max(axis=(1, 2, 3))
    # A clavicle that helps leaves the arm at full reach, where a square root amplifies rounding.
    assert np.quantile(same, 0.75) <= 1e-12
    assert same.max() <= 1e-6
    assert (after.status == before.status).all()


@each_mode
def test_a_mirrored_limb_gives_the_mirrored_pose(mode):
    """Clearly bent ones: which way round a straight one leaves its rest side is right-handed."""
    rng = np.random.default_rng(10)
    job = random_jobs(rng, 3000)
    first, second, third = np.moveaxis(np.diff(job.joints, axis=-2), -2, 0)
    two = {"CLAVICLE": (second, third), "HOCK_PARALLEL": (first + third, second)}
    bent = angle_between(*two.get(mode, (first, second))) > two_bone.CLEAR
    job = ChainJob(job.joints[bent], job.target[bent], job.hinge[bent])
    values = settings(rng, bent.sum())
    flip = np.diag([-1.0, 1.0, 1.0])
    mirrored = ChainJob(job.joints @ flip, job.target @ flip, -job.hinge @ flip)
    before, after = solve(job, mode, *values), solve(mirrored, mode, *values)
    gap = np.abs(after.joints - before.joints @ flip).max(axis=(1, 2))
    assert gap.max() <= 1e-6


@each_mode
def test_any_leading_dimensions(mode):
    rng = np.random.default_rng(11)
    job = random_jobs(rng, 12, pole=True)
    share, share_max = settings(rng, 12)
    whole = solve(job, mode, share, share_max)
    shaped = ChainJob(
        job.joints.reshape(3, 4, 4, 3), *(a.reshape(3, 4, 3) for a in (job.target, job.hinge, job.pole))
    )
    folded = solve(shaped, mode, share.reshape(3, 4), share_max.reshape(3, 4))
    assert folded.rotations.shape == (3, 4, 3, 3, 3)
    assert folded.joints.shape == (3, 4, 4, 3)
    assert np.abs(folded.joints.reshape(12, 4, 3) - whole.joints).max() <= 1e-12
    for i in range(12):
        alone = ChainJob(job.joints[i], job.target[i], job.hinge[i], job.pole[i])
        one = solve(alone, mode, share[i], share_max[i])
        assert one.residual.shape == ()
        assert np.abs(one.joints - whole.joints[i]).max() <= 1e-9
        assert one.status == whole.status[i]


HARD = np.array(
    [(0, 0, 0), (1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, 0, 1), (0.6, 0.8, 0), (1e-6, 1, 0), (0, -1, 1e-9)]
)


@each_mode
def test_bones_without_length_straight_folded_and_opposite(mode, fuzz_cases):
    """Bones and targets drawn from few directions, so that they meet in every singular way."""
    rng = np.random.default_rng(12)
    count = min(fuzz_cases, 100_000)
    sizes = rng.choice([0.0, 1e-6, 0.5, 1.0, 1e6], (count, 3, 1), p=[0.15, 0.1, 0.2, 0.4, 0.15])
    steps = HARD[rng.integers(len(HARD), size=(count, 3))] * sizes
    joints = np.concatenate([np.zeros((count, 1, 3)), np.cumsum(steps, axis=1)], axis=1)
    reach = rng.choice([0.0, 1e-9, 0.3, 1.0, 2.0, 3.0], (count, 1))
    size = np.maximum(bone_lengths(joints).sum(axis=-1), 1.0)[:, None]
    target = HARD[rng.integers(len(HARD), size=count)] * reach * size
    target = target + joints[np.arange(count), rng.integers(4, size=count)]
    pole = HARD[rng.integers(len(HARD), size=count)]
    job = ChainJob(joints, target, HARD[rng.integers(len(HARD), size=count)], pole, rng.random(count) < 0.5)
    share, share_max = rng.choice([0.0, 0.3, 1.0], count), rng.choice([0.0, 0.5, 0.5 * np.pi], count)
    check(job, solve(job, mode, share, share_max, rng.choice([0.0, 0.05], count)))


@pytest.mark.parametrize("scale", [1e-150, 1e-30, 1e30, 1e70])
@each_mode
def test_any_unit_of_length(mode, scale):
    joints = LIMBS[mode] - LIMBS[mode][0]
    target = joints[3] + (0.1, 0.05, 0.2)
    expected = solve(ChainJob(joints, target, X), mode)
    found = solve(ChainJob(joints * scale, target * scale, X), mode)
    if scale > 1e-100:
        assert np.abs(found.rotations - expected.rotations).max() <= 1e-9
        assert found.residual <= 1e-9 * scale
    assert np.isfinite(found.joints).all()


def largest_jump(mode, joints, share, share_max, pole=None, count=40_000):
    """How far the joint that follows the rule still moves between two targets that halving brought
    together, where it moved most."""
    rng = np.random.default_rng(13)
    total = bone_lengths(joints).sum()
    joint = 1 if mode == "CLAVICLE" else 2
    low = joints[0] + rng.normal(size=(count, 3)) * total * 0.45
    high = low + 1e-3 * total * unit(rng.normal(size=(count, 3)))

    def moved(a, b):
        at = [solve(ChainJob(joints, t, X, pole), mode, share, share_max).joints[:, joint] for t in (a, b)]
        return np.linalg.norm(at[0] - at[1], axis=-1)

    worst = np.argsort(-moved(low, high))[:100]
    low, high = low[worst], high[worst]
    for _ in range(40):
        middle = 0.5 * (low + high)
        first = (moved(low, middle) > moved(middle, high))[:, None]
        low, high = np.where(first, low, middle), np.where(first, middle, high)
    return moved(low, high).max() / total


@pytest.mark.parametrize("share", [0.05, 0.3, 1.0])
@pytest.mark.parametrize("joints", [HANGING, FLAT], ids=["hanging", "flat"])
@pytest.mark.parametrize("degrees", [30, 90])
def test_the_shoulder_never_jumps(joints, share, degrees):
    assert largest_jump("CLAVICLE", joints, share, np.radians(degrees)) <= 1e-7


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_the_hock_never_jumps(share):
    """With parallel hock it moves as the bend plane does; by ratio it stays put for any target."""
    assert largest_jump("HOCK_RATIO", DOG, share, 0.0) <= 1e-7
    assert largest_jump("HOCK_PARALLEL", DOG, 0.0, 0.0, pole=-Y) <= 1e-7


def test_the_rule_moves_no_joint_faster_than_allowed():
    """At 0.3 to 0.999 of the reach the lone joint moves at most 25 times as far as the target."""
    rng = np.random.default_rng(14)
    for mode, joints in LIMBS.items():
        start, outer = reach_of(joints, mode)
        line = unit(rng.normal(size=(50_000, 3)))
        away = angle_between(line, unit(start - joints[3]))
        # By ratio the hock may point straight back, from where each way round is as near.
        line = line[away > np.radians(30.0 if mode == "HOCK_RATIO" else 7.5)]
        low = start + line * outer * rng.uniform(0.3, 0.999, (len(line), 1))
        step = 1e-5 * outer * unit(rng.normal(size=line.shape))
        results = [solve(ChainJob(joints, t, X), mode) for t in (low, low + step)]
        reached = (results[0].status == Status.OK) & (results[1].status == Status.OK)
        if mode == "CLAVICLE":
            # Beyond the arm's reach the help sets in as steeply as a circle leaves its tangent.
            arm = np.linalg.norm(low - results[0].joints[:, 1], axis=-1)
            reached &= arm < 0.999 * outer
        ratio = np.linalg.norm(results[0].joints - results[1].joints, axis=-1) / (1e-5 * outer)
        lone = ratio[reached, 1 if mode == "CLAVICLE" else 2]
        assert reached.mean() > 0.5
        assert lone.max() <= 25.0, mode


@pytest.mark.parametrize("mode", ["CLAVICLE", "HOCK_RATIO"])
def test_a_target_that_passes_close_to_shoulder_or_hip_does_not_throw_the_lone_bone(mode):
    """There its direction turns as fast as the target is near."""
    rng = np.random.default_rng(15)
    joints = LIMBS[mode]
    start, outer = reach_of(joints, mode)
    low = start + unit(rng.normal(size=(20_000, 3))) * outer * 10.0 ** rng.uniform(-6.0, -1.0, (20_000, 1))
    step = 1e-8 * outer * unit(rng.normal(size=low.shape))
    before, after = (solve(ChainJob(joints, t, X), mode, 1.0, 1.0) for t in (low, low + step))
    lone = 1 if mode == "CLAVICLE" else 2
    ratio = np.linalg.norm(before.joints - after.joints, axis=-1)[:, lone] / (1e-8 * outer)
    assert ratio.max() <= 25.0


# Clavicle


def test_share_0_is_the_two_bone_solve_with_the_clavicle_at_fk():
    rng = np.random.default_rng(20)
    job = random_jobs(rng, 3000, pole=True)
    result = solve(job, "CLAVICLE", 0.0, 1.0)
    hinge = two_bone.fold_hinge(job.joints[:, 1:], job.hinge, job.target)
    plain = two_bone.solve(ChainJob(job.joints[:, 1:], job.target, hinge, job.pole))
    assert np.abs(result.rotations[:, 0] - np.eye(3)).max() <= 1e-15
    assert np.abs(result.rotations[:, 1:] - plain.rotations).max() <= 1e-12
    assert (result.status == plain.status).all()


@pytest.mark.parametrize(
    ("share", "share_max", "degrees"), [(0.5, 40, 30), (0.5, 20, 20), (0.25, 90, 15), (1, 90, 60)]
)
def test_the_clavicle_takes_its_share_of_the_rise(share, share_max, degrees):
    """An arm in the plane of its clavicle rises by 60 degrees about y."""
    rise = axis_angle_to_matrix(-Y, np.radians(60.0))
    target = FLAT[1] + 0.8 * rise @ (FLAT[3] - FLAT[1])
    result = solve(ChainJob(FLAT, target, Y), "CLAVICLE", share, np.radians(share_max))
    assert np.abs(result.rotations[0] - axis_angle_to_matrix(-Y, np.radians(degrees))).max() <= 1e-9
    assert result.residual <= 1e-9


def test_an_arm_that_turns_about_its_clavicle_leaves_it_alone():
    target = HANGING[1] + axis_angle_to_matrix(unit(HANGING[1] - HANGING[0]), 0.8) @ (HANGING[3] - HANGING[1])
    along = unit(HANGING[1] - HANGING[0])
    flat = HANGING.copy()
    # An arm at right angles to its clavicle: its direction turns exactly about the clavicle.
    flat[2:] -= np.outer((flat[2:] - flat[1]) @ along, along)
    target = flat[1] + axis_angle_to_matrix(along, 0.8) @ (flat[3] - flat[1])
    result = solve(ChainJob(flat, target, X), "CLAVICLE", 1.0, 1.0)
    assert np.abs(result.rotations[0] - np.eye(3)).max() <= 1e-9


def test_the_clavicle_swings_without_twist_and_never_past_its_limit():
    rng = np.random.default_rng(21)
    job = random_jobs(rng, 20_000, spread=0.8)
    share, share_max = settings(rng, 20_000)
    result = solve(job, "CLAVICLE", share, share_max)
    axis, angle = turn_of(result.rotations[:, 0])
    clavicle = unit(job.joints[:, 1] - job.joints[:, 0])
    assert (angle <= share_max + 1e-9).all()
    twist = np.abs(np.sum(axis * clavicle, axis=-1)) * angle
    assert twist.max() <= 1e-9


def test_within_reach_the_clavicle_turns_by_its_share_and_no_further():
    rng = np.random.default_rng(22)
    job = random_jobs(rng, 20_000, spread=0.3)
    result = solve(job, "CLAVICLE", 0.4, np.radians(25.0))
    before, after = (unit(p - job.joints[:, 1]) for p in (job.joints[:, 3], job.target))
    rise = angle_between(before, after)
    arm = bone_lengths(job.joints)[:, 1:].sum(axis=-1)
    slack = arm - np.linalg.norm(job.target - result.joints[:, 1], axis=-1)
    # Outside the zones in which the turn fades.
    plain = (slack > 1e-6) & (rise < np.radians(150.0))
    plain &= np.linalg.norm(job.target - job.joints[:, 1], axis=-1) > 0.2 * arm
    assert plain.mean() > 0.2
    clavicle = unit(job.joints[:, 1] - job.joints[:, 0])
    vector = np.cross(before, after)
    vector *= (0.4 * rise / np.maximum(np.linalg.norm(vector, axis=-1), 1e-12))[:, None]
    vector -= np.sum(vector * clavicle, axis=-1)[:, None] * clavicle
    expected = np.minimum(np.linalg.norm(vector, axis=-1), np.radians(25.0))
    axis, angle = turn_of(result.rotations[:, 0])
    assert np.abs(angle - expected)[plain].max() <= 1e-9
    clear = plain & (expected > 1e-3)
    assert np.abs(axis - unit(vector))[clear].max() <= 1e-9


def test_a_straight_arm_bends_about_its_rest_hinge_as_the_clavicle_carries_it():
    straight = np.array([(0, 0, 0), (0.16, 0, 0), (0.22, 0.12, -0.24), (0.28, 0.24, -0.48)])
    target = straight[1] + (0.25, -0.2, 0.3)
    result = solve(ChainJob(straight, target, Y), "CLAVICLE", 0.5, np.radians(80.0))
    swing = result.rotations[0]
    arm = straight[1] @ swing.T + (straight[1:] - straight[1]) @ swing.T
    plain = two_bone.solve(ChainJob(arm, target, swing @ Y))
    assert np.abs(plain.joints - result.joints[1:]).max() <= 1e-9
    flat = two_bone.solve(ChainJob(arm, target, Y))
    assert np.abs(flat.joints - result.joints[1:]).max() > 0.01


def test_a_clavicle_without_length_is_not_turned():
    arm = np.concatenate([HANGING[1:2], HANGING[1:]])
    for target in (arm[3] + (0.3, -0.1, 0.4), arm[3] + (0.0, 0.0, 2.0)):
        result = solve(ChainJob(arm, target, X), "CLAVICLE", 1.0, 1.0)
        assert np.array_equal(result.rotations[0], np.eye(3))
        hinge = two_bone.fold_hinge(arm[1:], X, target)
        assert (
            np.abs(result.joints[1:] - two_bone.solve(ChainJob(arm[1:], target, hinge)).joints).max() <= 1e-12
        )


def test_out_of_reach_the_clavicle_helps_by_just_what_is_needed():
    rng = np.random.default_rng(23)
    count = 40_000
    job = random_jobs(rng, count, spread=0.6)
    share, share_max = rng.uniform(FULL_HELP, 1.0, count), rng.uniform(0.05, 0.5 * np.pi, count)
    result = solve(job, "CLAVICLE", share, share_max)
    unlimited = solve(job, "CLAVICLE", share, 0.0)
    size, arm = bone_lengths(job.joints)[:, 0], bone_lengths(job.joints)[:, 1:].sum(axis=-1)
    way = job.target - job.joints[:, 0]
    clavicle = job.joints[:, 1] - job.joints[:, 0]
    apart = angle_between(clavicle, way)
    ahead = apart + share_max < np.radians(150.0)
    # The nearest that a clavicle within its limit can bring the shoulder.
    rest = np.maximum(apart - share_max, 0.0)
    distance = np.linalg.norm(way, axis=-1)
    nearest = np.sqrt((distance - size * np.cos(rest)) ** 2 + (size * np.sin(rest)) ** 2)
    far = ahead & (np.linalg.norm(job.target - job.joints[:, 1], axis=-1) > arm)
    far &= result.status != Status.TARGET_NEAR
    gap = np.maximum(nearest - arm, 0.0)
    total = totals(job)
    assert far.mean() > 0.2
    reachable = far & (gap == 0.0)
    assert reachable.sum() > 1000
    # None is missed that the clavicle could have brought within reach.
    assert (result.residual <= 1e-9 * total)[reachable].all()
    assert (np.abs(result.residual - gap) <= 1e-9 * total)[far & (gap > 0.0)].all()
    assert (unlimited.residual > 1e-6 * total)[reachable].mean() > 0.5
    # Where it had to turn on, the arm is straight: it turned no further than that.
    _, angle = turn_of(result.rotations[:, 0])
    plain = np.minimum(share * np.pi, share_max)
    turned_on = reachable & (angle > plain + 1e-6)
    straight = arm - np.linalg.norm(result.joints[:, 3] - result.joints[:, 1], axis=-1)
    assert np.abs(straight)[turned_on].max(initial=0.0) <= 1e-9


def test_a_hanging_arm_that_reaches_straight_up_rises_sideways():
    hanging = np.array([(0, 0, 0), (0.16, 0, 0), (0.17, 0.03, -0.29), (0.16, 0, -0.55)])
    result = solve(ChainJob(hanging, hanging[1] + 0.4 * Z, X), "CLAVICLE", 0.3, np.radians(30.0))
    assert np.abs(result.rotations[0] - axis_angle_to_matrix(-Y, np.radians(30.0))).max() <= 1e-9
    assert result.residual <= 1e-9


@pytest.mark.parametrize("as_point", [True, False])
def test_the_elbow_turns_to_a_pole_point_as_seen_from_the_moved_shoulder(as_point):
    rng = np.random.default_rng(24)
    target = HANGING[1] + (0.3, -0.25, 0.1)
    for _ in range(20):
        pole = rng.normal(size=3)
        result = solve(
            ChainJob(HANGING, target, X, pole), "CLAVICLE", 0.5, 0.6, pole_points=np.array(as_point)
        )
        shoulder, elbow, tip = result.joints[1:]
        seen = pole - (shoulder - HANGING[1] if as_point else 0.0)
        line = unit(tip - shoulder)
        off = [v - v @ line * line for v in (elbow - shoulder, seen)]
        assert angle_between(*off) <= 1e-9


# Hock


def test_a_hock_parallel_to_its_thigh_stays_parallel():
    rng = np.random.default_rng(30)
    dog = DOG.copy()
    dog[3] = dog[2] + 0.8 * (dog[1] - dog[0])
    target = dog[0] + unit(rng.normal(size=(1000, 3))) * rng.uniform(0.2, 0.6, (1000, 1))
    result = solve(ChainJob(dog, target, X), "HOCK_PARALLEL")
    thigh, shin, hock = (unit(b) for b in np.moveaxis(np.diff(result.joints, axis=-2), -2, 0))
    assert angle_between(thigh, hock).max() <= 1e-9
    a, b, c = bone_lengths(dog)
    tip = dog[0] + (a + c) * thigh + b * shin
    assert np.abs(tip - result.joints[:, 3]).max() <= 1e-9
    assert result.residual.max() <= 1e-9


def test_parallel_keeps_the_fk_angle_and_reaches_what_it_can():
    rng = np.random.default_rng(31)
    job = random_jobs(rng, 10_000)
    result = solve(job, "HOCK_PARALLEL")
    assert np.array_equal(result.rotations[:, 0], result.rotations[:, 2])
    first, second, third = np.moveaxis(np.diff(job.joints, axis=-2), -2, 0)
    both, shin = np.linalg.norm(first + third, axis=-1), np.linalg.norm(second, axis=-1)
    distance = np.linalg.norm(job.target - job.joints[:, 0], axis=-1)
    gap = np.maximum(np.maximum(distance - both - shin, np.abs(both - shin) - distance), 0.0)
    assert (np.abs(result.residual - gap) <= 1e-9 * totals(job)).all()
    assert (gap == 0.0).mean() > 0.2


@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 1.0])
def test_the_hock_takes_its_share_of_the_turn_of_the_line(share):
    """In the plane of the leg, whose line turns by 40 degrees."""
    turn = axis_angle_to_matrix(X, np.radians(40.0))
    target = DOG[0] + 0.9 * turn @ (DOG[3] - DOG[0])
    result = solve(ChainJob(DOG, target, X), "HOCK_RATIO", share)
    assert result.residual <= 1e-9
    assert np.abs(result.rotations[2] - axis_angle_to_matrix(X, share * np.radians(40.0))).max() <= 1e-9


def test_by_ratio_the_tip_is_as_near_as_the_lengths_allow():
    rng = np.random.default_rng(32)
    job = random_jobs(rng, 30_000)
    result = solve(job, "HOCK_RATIO", rng.uniform(0.0, 1.0, 30_000))
    sizes = bone_lengths(job.joints)
    outer, inner = sizes.sum(axis=-1), 2.0 * sizes.max(axis=-1) - sizes.sum(axis=-1)
    distance = np.linalg.norm(job.target - job.joints[:, 0], axis=-1)
    gap = np.maximum(np.maximum(distance - outer, inner - distance), 0.0)
    assert (np.abs(result.residual - gap) <= 1e-9 * outer).all()
    assert ((result.status == Status.TARGET_FAR) == (distance > outer * (1.0 + 1e-9))).all()
    assert ((result.status == Status.TARGET_NEAR) == (distance < inner - 1e-9 * outer)).all()


def test_by_ratio_the_hock_turns_further_by_just_what_is_needed():
    """Where thigh and shin had to be helped they are straight, or folded, and no more."""
    rng = np.random.default_rng(33)
    job = random_jobs(rng, 20_000)
    result = solve(job, "HOCK_RATIO", 0.0)
    kept = np.abs(result.rotations[:, 2] - np.eye(3)).max(axis=(1, 2)) <= 1e-9
    sizes = bone_lengths(job.joints)[:, :2]
    reached = result.status == Status.OK
    span = np.linalg.norm(result.joints[:, 2] - result.joints[:, 0], axis=-1)
    edge = np.minimum(np.abs(span - sizes.sum(axis=-1)), np.abs(span - np.abs(sizes[:, 0] - sizes[:, 1])))
    assert 0.2 < kept[reached].mean() < 0.9
    assert (edge[reached & ~kept] <= 1e-9).all()
    # Kept wherever it can be.
    hock = job.joints[:, 3] - job.joints[:, 2]
    wanted = np.linalg.norm(job.target - hock - job.joints[:, 0], axis=-1)
    can = (wanted < sizes.sum(axis=-1)) & (wanted > np.abs(sizes[:, 0] - sizes[:, 1]))
    near = np.linalg.norm(job.target - job.joints[:, 0], axis=-1) < 1e-12
    assert kept[can & ~near].all()
    # It turns in the plane of itself and the line.
    axis, _ = turn_of(result.rotations[:, 2])
    normal = unit(np.cross(hock, job.target - job.joints[:, 0]))
    assert (angle_between(axis, normal) * (np.pi - angle_between(axis, normal)))[~kept].max() <= 1e-5


def test_a_straight_leg_folds_with_its_hock_to_the_other_side_of_the_knee():
    straight = np.array([(0, 0, 0), (0, 0, -0.5), (0, 0, -0.7), (0, 0, -1.0)])
    near = solve(ChainJob(straight, (0, 0, -0.65), X), "HOCK_RATIO", 1.0)
    assert near.joints[1, 1] > 0.1 and abs(near.joints[2, 1]) <= 1e-9, "its hock is still in line"
    # Nearer than thigh and shin can fold with the hock in line.
    result = solve(ChainJob(straight, (0, 0, -0.4), X), "HOCK_RATIO", 1.0)
    assert result.residual <= 1e-9
    assert result.joints[2, 1] < -0.1
    # What float32 poses leave on the other side decides nothing.
    for noise in (-1e-7, 1e-7):
        wobbly = straight + np.array([(0, 0, 0), (0, noise, 0), (0, -noise, 0), (0, noise, 0)])
        for share in (0.0, 1.0):
            assert solve(ChainJob(wobbly, (0, 0, -0.4), X), "HOCK_RATIO", share).joints[2, 1] < -0.1


def test_a_hock_without_length_takes_the_turn_of_the_shin():
    dog = np.concatenate([DOG[:3], DOG[2:3]])
    result = solve(ChainJob(dog, dog[3] + (0.05, 0.1, 0.05), X), "HOCK_RATIO", 1.0)
    assert np.array_equal(result.rotations[2], result.rotations[1])
    assert result.residual <= 1e-9


@each_hock
def test_the_knee_turns_to_the_pole(mode):
    rng = np.random.default_rng(34)
    target = DOG[0] + (0.02, -0.1, -0.45)
    for _ in range(20):
        pole = rng.normal(size=3)
        joints = solve(ChainJob(DOG, target, X, pole), mode, 0.5).joints
        # The two-bone part: root, middle, tip.
        middle, tip = joints[1:3]
        if mode == "HOCK_PARALLEL":
            middle, tip = joints[1] + joints[3] - joints[2], joints[3]
        line = unit(tip - joints[0])
        off = [v - v @ line * line for v in (middle - joints[0], pole)]
        assert angle_between(*off) <= 1e-9


# Softness


@each_mode
def test_softness_eases_the_distance_from_where_the_two_bones_start(mode):
    joints = LIMBS[mode]
    origin, outer = reach_of(joints, mode)
    for ratio in np.linspace(0.5, 1.4, 40):
        target = origin + ratio * outer * unit(joints[3] - origin)
        # With no share the shoulder stays where it is.
        result = solve(ChainJob(joints, target, X), mode, 0.0, 0.0, softness=0.1)
        distance = np.linalg.norm(result.joints[3] - origin)
        assert abs(distance - soft_distance(ratio * outer, outer, 0.1)) <= 1e-9
        gap = ratio * outer - distance
        assert result.status == (Status.TARGET_FAR if gap > 1e-9 else Status.OK)
        assert abs(result.residual - gap) <= 1e-9


def test_reach_of_is_the_distance_at_which_the_two_bones_are_straight():
    for mode, joints in LIMBS.items():
        origin, outer = reach_of(joints, mode)
        line = unit(joints[3] - origin)
        inside = solve(ChainJob(joints, origin + 0.999999 * outer * line, X), mode, 0.0, 0.0)
        outside = solve(ChainJob(joints, origin + 1.000001 * outer * line, X), mode, 0.0, 0.0)
        assert (inside.status, outside.status) == (Status.OK, Status.TARGET_FAR)


# What is refused, and settings beyond their range


def test_what_is_refused():
    job = ChainJob(HANGING, HANGING[3], X)
    with pytest.raises(ValueError, match="mode: expected one of CLAVICLE, .*, got 'X'"):
        solve(job, "X")
    with pytest.raises(ValueError, match="joints: a three-bone limb has 4 joints, got 3"):
        solve(ChainJob(HANGING[:3], HANGING[2], X), "CLAVICLE")
    for name in ("share", "share_max", "softness"):
        with pytest.raises(ValueError, match=f"{name}: expected finite numbers, got nan"):
            solve(job, "CLAVICLE", **{name: np.nan})
    with pytest.raises(ValueError, match="target"):
        solve(ChainJob(HANGING, (np.inf, 0, 0), X), "CLAVICLE")


@given(st.floats(-2, 3), st.floats(-3, 5))
def test_settings_are_kept_in_their_range(share, share_max):
    target = HANGING[1] + (0.5, -0.3, 0.4)
    job = ChainJob(HANGING, target, X)
    kept = solve(job, "CLAVICLE", min(max(share, 0.0), 1.0), min(max(share_max, 0.0), 0.5 * np.pi))
    assert np.array_equal(solve(job, "CLAVICLE", share, share_max).joints, kept.joints)
