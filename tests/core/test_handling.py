# SPDX-License-Identifier: GPL-3.0-or-later
"""What a gap leads to: a bone above moves, or the chain grows. Against independent kinematics."""

from dataclasses import replace

import numpy as np
import pytest
from shots import FRAMES, HAND, LOWER, UPPER, Shot, build, skeleton

from ik_addon.core import pipeline, stage
from ik_addon.core.job import Status
from ik_addon.core.limits import JointLimit
from ik_addon.core.reach import soft_distance
from ik_addon.core.shift import EASE_OUT, limited_shift
from ik_addon.core.skeleton import InheritScale
from ik_addon.core.transforms import (
    length,
    matrix_to_euler,
    normalize,
    quaternion_to_matrix,
    transform_point,
)

HIPS, SPINE, CHEST = 0, 1, 2
JOINTS = [UPPER, LOWER, HAND]
LOCAL = stage.Space(stage.ARMATURE)
STRETCHED = stage.Chain("arm", 0, "TWO_BONE", (UPPER, LOWER), end=HAND, target=LOCAL, limit_mode="STRETCH")
PULLING = replace(STRETCHED, limit_mode="MOVE_ROOT", move_bone=HIPS)
SOLVERS = ["TWO_BONE", "FABRIK", "CCD"]


def heads(pose, joints=JOINTS):
    return pose[:, joints][..., :3, 3]


def reach_of(pose, joints=JOINTS):
    return length(np.diff(heads(pose, joints), axis=1)).sum(axis=1)


def beyond(shot, rng, ratio, joints=JOINTS):
    """Targets in random directions at a multiple of the arm's reach."""
    pose = shot.pose()
    way = normalize(rng.normal(size=(FRAMES, 3)))
    return heads(pose, joints)[:, 0] + way * (reach_of(pose, joints) * ratio)[:, None]


def solve(scene, shot, target, **settings):
    solution = pipeline.solve(scene, shot.batch(scene, target_location=target[:, None], **settings))
    return solution, shot.solved_pose(scene, solution)


# Stretch


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("softness", [0.0, 0.05])
def test_a_chain_grows_just_enough(solver, softness):
    rng = np.random.default_rng(1)
    bones = skeleton(rng)
    shot, scene = Shot(rng, bones), build(bones, [replace(STRETCHED, solver=solver)])
    target = beyond(shot, rng, 1.07)
    solution, pose = solve(scene, shot, target, softness=softness)
    assert length(pose[:, HAND, :3, 3] - target).max() < 1e-6
    reach = reach_of(shot.pose())
    wanted = (
        1.07 * reach / soft_distance(1.07 * reach, reach, softness) if softness else np.full(FRAMES, 1.07)
    )
    np.testing.assert_allclose(reach_of(pose) / reach, wanted, rtol=1e-6)
    assert (solution.status == Status.OK).all()
    # The knee stays soft: the chain is as bent as softness alone would have it.
    if softness:
        assert (length(heads(pose)[:, 2] - heads(pose)[:, 0]) < reach_of(pose) * (1.0 - 1e-4)).all()


@pytest.mark.parametrize("ratio", [0.5, 0.97])
def test_a_chain_in_reach_is_neither_grown_nor_squashed(ratio):
    rng = np.random.default_rng(2)
    bones = skeleton(rng)
    shot, scene = Shot(rng, bones), build(bones, [STRETCHED])
    solution, pose = solve(scene, shot, beyond(shot, rng, ratio))
    np.testing.assert_allclose(reach_of(pose), reach_of(shot.pose()), rtol=1e-12)
    np.testing.assert_array_equal(solution.scale, shot.scale[:, scene.posed])


def test_growth_ends_at_its_largest_ratio_and_the_status_says_so():
    rng = np.random.default_rng(3)
    bones = skeleton(rng)
    shot, scene = Shot(rng, bones), build(bones, [STRETCHED])
    target = beyond(shot, rng, 1.5)
    solution, pose = solve(scene, shot, target, stretch_max=0.2)
    reach = reach_of(shot.pose())
    np.testing.assert_allclose(reach_of(pose), 1.2 * reach, rtol=1e-9)
    np.testing.assert_allclose(length(pose[:, HAND, :3, 3] - target), 0.3 * reach, rtol=1e-6)
    assert (solution.status == Status.TARGET_FAR).all()


def joined(bones):
    """Rest matrices with each bone of the arm at the tail of the one before."""
    rest = bones.rest.copy()
    for parent, bone in ((CHEST, UPPER), (UPPER, LOWER), (LOWER, HAND)):
        rest[bone, :3, 3] = rest[parent, :3, 3] + rest[parent, :3, 1] * bones.lengths[parent]
    return rest


def shear(linear):
    unit = linear / length(np.swapaxes(linear, -1, -2))[..., None, :]
    return np.abs(np.swapaxes(unit, -1, -2) @ unit - np.eye(3)).max()


@pytest.mark.parametrize("mode", list(InheritScale))
@pytest.mark.parametrize("connected", [False, True])
def test_growth_shears_nothing_and_stops_at_the_hand(mode, connected):
    rng = np.random.default_rng(4)
    count = 7
    bones = skeleton(
        rng, inherit_scale=np.full(count, int(mode)), connected=np.array([False, *[connected] * 5, False])
    )
    if connected:
        bones = replace(bones, rest=joined(bones))
    shot, scene = Shot(rng, bones), build(bones, [STRETCHED])
    target = beyond(shot, rng, 1.05)
    _, pose = solve(scene, shot, target)
    assert length(pose[:, HAND, :3, 3] - target).max() < 1e-6
    assert shear(pose[:, :6, :3, :3]) < 1e-9
    assert np.abs(length(np.swapaxes(pose[:, HAND, :3, :3], -1, -2)) - 1.0).max() < 1e-9
    grown = length(np.swapaxes(pose[:, [UPPER, LOWER], :3, :3], -1, -2))
    assert grown[..., 1].max() > 1.01
    width = grown[..., [0, 2]]
    if connected and mode in (InheritScale.NONE, InheritScale.NONE_LEGACY, InheritScale.ALIGNED):
        assert np.abs(width - 1.0).max() < 1e-9, "only the length grows"
    else:
        np.testing.assert_allclose(width, grown[..., [1]] * [1.0, 1.0], rtol=1e-9)


def test_growth_is_blended_with_the_influence():
    rng = np.random.default_rng(5)
    bones = skeleton(rng)
    shot, scene = Shot(rng, bones), build(bones, [STRETCHED])
    target = beyond(shot, rng, 1.08)
    reach = reach_of(shot.pose())
    for weight in (0.25, 0.5):
        solution, pose = solve(scene, shot, target, influence=weight)
        np.testing.assert_allclose(reach_of(pose), reach * (1.0 + 0.08 * weight), rtol=1e-9)
        assert (solution.status == Status.INFLUENCE).all()
    solution, pose = solve(scene, shot, target, influence=0.0)
    np.testing.assert_array_equal(solution.scale, shot.scale[:, scene.posed])
    np.testing.assert_array_equal(pose, shot.pose())


def box(low, high):
    return JointLimit((low,) * 3, (high,) * 3)


# Shift


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("softness", [0.0, 0.06])
def test_a_bone_moves_by_just_what_is_needed(solver, softness):
    rng = np.random.default_rng(6)
    bones = skeleton(rng)
    chain = replace(PULLING, solver=solver)
    shot, scene = Shot(rng, bones), build(bones, [chain])
    target = beyond(shot, rng, 1.3)
    solution, pose = solve(scene, shot, target, softness=softness)
    assert length(pose[:, HAND, :3, 3] - target).max() < 2e-6
    assert (solution.status == Status.OK).all()
    shift = pose[:, HIPS, :3, 3] - shot.pose()[:, HIPS, :3, 3]
    way = target - heads(shot.pose())[:, 0]
    assert length(np.cross(shift, way)).max() < 1e-9, "it moves toward the target"
    reach = reach_of(shot.pose())
    assert (length(shift) >= 0.3 * reach - 1e-9).all()
    assert (length(shift) <= 0.3 * reach + max(softness, 0.02) * reach).all()
    np.testing.assert_allclose(pose[:, HIPS, :3, :3], shot.pose()[:, HIPS, :3, :3], atol=1e-12)
    np.testing.assert_allclose(reach_of(pose), reach, rtol=1e-9)


def test_a_bone_rests_while_targets_are_in_reach():
    rng = np.random.default_rng(7)
    bones = skeleton(rng)
    shot, scene = Shot(rng, bones), build(bones, [PULLING])
    solution, _ = solve(scene, shot, beyond(shot, rng, 0.9))
    np.testing.assert_array_equal(solution.location, shot.location[:, scene.posed])


def test_the_largest_shift_is_kept_and_the_rest_is_told():
    rng = np.random.default_rng(8)
    bones = skeleton(rng)
    shot, scene = Shot(rng, bones), build(bones, [PULLING])
    target = beyond(shot, rng, 1.5)
    size = length(shot.objects[:, 0, :3, 0])
    # The largest move is one in the world, whatever the scale of the armature.
    solution, pose = solve(scene, shot, target, move_max=0.3 * size[:, None])
    shift = length(pose[:, HIPS, :3, 3] - shot.pose()[:, HIPS, :3, 3])
    missing = 0.5 * reach_of(shot.pose())
    eased = length(limited_shift(missing[:, None] * [1.0, 0, 0], np.full(FRAMES, 0.3)))
    np.testing.assert_allclose(shift, eased, atol=1e-6)
    assert (shift <= 0.3).all()
    assert (shift > 0.3 * (1.0 - EASE_OUT)).all()
    gap = length(pose[:, HAND, :3, 3] - target)
    np.testing.assert_allclose(gap, missing - shift, atol=1e-6)
    np.testing.assert_allclose(solution.residual[:, 0], gap * length(shot.objects[:, 0, :3, 0]), atol=1e-9)
    assert (solution.status == Status.TARGET_FAR).all()


def test_other_chains_below_are_solved_after_it():
    rng = np.random.default_rng(9)
    bones = skeleton(rng, rigs=1)
    spine = stage.Chain("aim", 0, "AIM", (CHEST,), target=LOCAL)
    chains = [spine, replace(PULLING, name="arm", move_bone=HIPS)]
    # The chest turns, the arm hangs on it and pulls the hips above both: that goes in a circle.
    assert not any(chains[1].name in str(wave) for wave in build(bones, chains).waves[1:])
    over = [replace(spine, bones=(SPINE,)), replace(PULLING, move_bone=CHEST)]
    scene = build(bones, over)
    assert scene.waves == ((0,), (1,))
    shot = Shot(rng, bones)
    target = beyond(shot, rng, 1.2)
    places = np.stack([shot.pose()[:, HAND, :3, 3], target], axis=1)
    solution = pipeline.solve(scene, shot.batch(scene, target_location=places))
    pose = shot.solved_pose(scene, solution)
    assert length(pose[:, HAND, :3, 3] - target).max() < 1e-6
    assert (solution.residual[:, 0] < 1e-6).all()


def twins(rng):
    """Two arms on one chest, as two branches below the hips."""
    from ik_addon.core.skeleton import Skeleton

    one = skeleton(rng)
    two = skeleton(rng)
    rest = np.concatenate([one.rest[:6], two.rest[3:6] + 0.0])
    rest[6:, :3, 3] += one.rest[CHEST, :3, 3] - two.rest[CHEST, :3, 3] + [0.3, 0.0, 0.0]
    count = 9
    return Skeleton(
        names=tuple(f"0/{i}" for i in range(count)),
        parents=np.array([-1, 0, 1, 2, 3, 4, 2, 6, 7]),
        rest=rest,
        lengths=np.full(count, 0.8),
        inherit_rotation=np.ones(count, bool),
        inherit_scale=np.zeros(count, int),
        local_location=np.ones(count, bool),
        connected=np.zeros(count, bool),
    )


def test_chains_that_pull_the_same_bone_are_both_served_in_any_order():
    rng = np.random.default_rng(10)
    bones = twins(rng)
    left = replace(PULLING, name="left")
    right = replace(PULLING, name="right", bones=(6, 7), end=8)
    shot = Shot(rng, bones)
    shot.objects = shot.objects[:, :1]
    one = heads(shot.pose())[:, 0] + np.array([0.0, 1.2, 0.24]) * reach_of(shot.pose())[:, None]
    size = reach_of(shot.pose(), [6, 7, 8])[:, None]
    two = heads(shot.pose(), [6, 7, 8])[:, 0] + [0.33, 0.99, 0.0] * size
    shifts = []
    for chains, targets in (([left, right], [one, two]), ([right, left], [two, one])):
        scene = stage_of(bones, chains)
        solution = pipeline.solve(scene, shot.batch(scene, target_location=np.stack(targets, axis=1)))
        pose = shot.solved_pose(scene, solution)
        assert length(pose[:, HAND, :3, 3] - one).max() < 1e-6
        assert length(pose[:, 8, :3, 3] - two).max() < 1e-6
        shifts.append(pose[:, HIPS, :3, 3] - shot.pose()[:, HIPS, :3, 3])
    np.testing.assert_allclose(*shifts, atol=1e-9)


def stage_of(bones, chains):
    scene = build(bones, chains)
    return replace(scene, rig_of_bone=np.zeros(len(bones.names), int), carriers=np.array([-1]))


def test_a_target_that_is_no_number_stops_its_own_chain_alone():
    rng = np.random.default_rng(12)
    bones = twins(rng)
    chains = [replace(PULLING, name="left"), replace(PULLING, name="right", bones=(6, 7), end=8)]
    scene, shot = stage_of(bones, chains), Shot(rng, bones)
    far = heads(shot.pose(), [6, 7, 8])[:, 0] + [0.0, 2.5, 0.0]
    targets = np.stack([np.full((FRAMES, 3), np.nan), far], axis=1)
    solution = pipeline.solve(scene, shot.batch(scene, target_location=targets))
    assert (solution.status[:, 0] == Status.BROKEN).all()
    assert (solution.status[:, 1] == Status.OK).all()
    for channel in (solution.rotation, solution.location, solution.scale):
        assert np.isfinite(channel).all()


# Limits


@pytest.mark.parametrize("mode", ["MOVE_ROOT", "STRETCH"])
def test_what_limits_leave_is_closed_too(mode):
    rng = np.random.default_rng(14)
    bones = skeleton(rng)
    # The elbow is almost locked, so a near target is out of reach.
    limits = (JointLimit(), box(-0.1, 0.1))
    chain = replace(PULLING, limit_mode=mode, limits=limits)
    shot, scene = Shot(rng, bones, bend=0.05), build(bones, [chain])
    ratio = 0.8 if mode == "MOVE_ROOT" else 1.04
    target = beyond(shot, rng, ratio)
    accepted = build(bones, [replace(chain, limit_mode="ACCEPT")])
    before, _ = solve(accepted, shot, target)
    solution, pose = solve(scene, shot, target, move_max=100.0)
    assert length(pose[:, HAND, :3, 3] - target).max() < (1e-6 if mode == "MOVE_ROOT" else 2e-2)
    assert (solution.residual <= before.residual + 1e-9).all()
    turn = quaternion_to_matrix(solution.rotation[:, list(scene.posed).index(LOWER)])
    assert np.abs(matrix_to_euler(turn, "XYZ")).max() <= 0.1 + 1e-6


def test_targets_follow_scaled_and_moved_armatures():
    rng = np.random.default_rng(15)
    bones = skeleton(rng)
    chain = replace(PULLING, target=stage.Space(stage.WORLD))
    shot, scene = Shot(rng, bones), build(bones, [chain])
    target = transform_point(shot.objects[:, 0], beyond(shot, rng, 1.25))
    solution, pose = solve(scene, shot, target)
    tip = transform_point(shot.objects[:, 0], pose[:, HAND, :3, 3])
    assert length(tip - target).max() < 1e-5
    assert solution.residual.max() < 1e-5


LIMB = replace(PULLING, solver="THREE_BONE", bones=(CHEST, UPPER, LOWER), move_bone=HIPS)


@pytest.mark.parametrize("limb_mode", ["CLAVICLE", "HOCK_PARALLEL", "HOCK_RATIO"])
@pytest.mark.parametrize("mode", ["MOVE_ROOT", "STRETCH"])
@pytest.mark.parametrize("softness", [0.0, 0.05])
def test_limbs_of_three_bones_reach_as_well(limb_mode, mode, softness):
    rng = np.random.default_rng(16)
    bones = skeleton(rng)
    chain = replace(LIMB, limb_mode=limb_mode, limit_mode=mode)
    shot, scene = Shot(rng, bones), build(bones, [chain])
    joints = [CHEST, UPPER, LOWER, HAND]
    target = beyond(shot, rng, 1.1, joints)
    accepted, _ = solve(build(bones, [replace(chain, limit_mode="ACCEPT")]), shot, target)
    assert (accepted.residual > 1e-2).all()
    solution, pose = solve(scene, shot, target, softness=softness, stretch_max=5.0)
    gap = length(pose[:, HAND, :3, 3] - target)
    assert gap.max() < 2e-6 * reach_of(shot.pose(), joints).max()
    assert (solution.status == Status.OK).all()


@pytest.mark.parametrize("limb_mode", ["CLAVICLE", "HOCK_PARALLEL", "HOCK_RATIO"])
def test_limbs_of_three_bones_in_reach_move_and_stretch_nothing(limb_mode):
    rng = np.random.default_rng(17)
    bones = skeleton(rng)
    shot = Shot(rng, bones)
    target = shot.pose()[:, HAND, :3, 3]
    for mode in ("MOVE_ROOT", "STRETCH"):
        scene = build(bones, [replace(LIMB, limb_mode=limb_mode, limit_mode=mode)])
        solution, _ = solve(scene, shot, target)
        np.testing.assert_allclose(solution.location, shot.location[:, scene.posed], atol=2e-2)
        np.testing.assert_allclose(solution.scale, shot.scale[:, scene.posed], atol=1e-9)


def test_a_limb_of_three_bones_ends_at_its_largest_growth():
    rng = np.random.default_rng(18)
    bones = skeleton(rng)
    chain = replace(LIMB, limit_mode="STRETCH")
    shot, scene = Shot(rng, bones), build(bones, [chain])
    joints = [CHEST, UPPER, LOWER, HAND]
    target = beyond(shot, rng, 2.0, joints)
    accepted, before = solve(build(bones, [replace(chain, limit_mode="ACCEPT")]), shot, target)
    solution, pose = solve(scene, shot, target, stretch_max=0.2)
    np.testing.assert_allclose(reach_of(pose, joints), 1.2 * reach_of(shot.pose(), joints), rtol=1e-9)
    assert (solution.status == Status.TARGET_FAR).all()
    assert (solution.residual < accepted.residual).all()
    assert shear(pose[:, :6, :3, :3]) < 1e-9


def test_a_stretch_on_top_of_a_stretch_leaves_the_hand_its_size():
    """The spine takes its growth back from the arm's root bone; the arm grows from there."""
    rng = np.random.default_rng(21)
    bones = skeleton(rng)
    spine = stage.Chain("spine", 0, "FABRIK", (HIPS, SPINE), end=CHEST, target=LOCAL, limit_mode="STRETCH")
    arm = stage.Chain("arm", 0, "TWO_BONE", (CHEST, UPPER), end=LOWER, target=LOCAL, limit_mode="STRETCH")
    shot, scene = Shot(rng, bones), build(bones, [spine, arm])
    high = beyond(shot, rng, 1.08, [HIPS, SPINE, CHEST])
    reach = reach_of(shot.pose(), [CHEST, UPPER, LOWER])[:, None]
    far = high + normalize(rng.normal(size=(FRAMES, 3))) * reach * 1.05
    solution = pipeline.solve(scene, shot.batch(scene, target_location=np.stack([high, far], axis=1)))
    pose = shot.solved_pose(scene, solution)
    assert length(pose[:, CHEST, :3, 3] - high).max() < 1e-6
    assert length(pose[:, LOWER, :3, 3] - far).max() < 1e-6
    sizes = length(np.swapaxes(pose[..., :3, :3], -1, -2))
    np.testing.assert_allclose(sizes[:, LOWER], 1.0, rtol=1e-9)
    np.testing.assert_allclose(sizes[:, CHEST], 1.05, rtol=1e-6)
    assert shear(pose[:, :6, :3, :3]) < 1e-9


@pytest.mark.parametrize("mode", ["MOVE_ROOT", "STRETCH"])
def test_a_frame_knows_of_no_other(mode):
    rng = np.random.default_rng(22)
    bones = skeleton(rng)
    limits = (box(-1.2, 1.2), box(-0.5, 0.5))
    chains = [replace(PULLING, limit_mode=mode, limits=limits)]
    shot, scene = Shot(rng, bones), build(bones, chains)
    target = beyond(shot, rng, rng.uniform(0.5, 1.4, FRAMES))
    batch = shot.batch(scene, target_location=target[:, None], softness=0.05)
    whole = pipeline.solve(scene, batch)
    for frame in range(FRAMES):
        one = slice(frame, frame + 1)
        fields = {n: getattr(batch, n)[one] for n in ("pose", "objects", "location", "rotation", "scale")}
        alone = pipeline.solve(
            scene, pipeline.Batch(**fields, settings={n: v[one] for n, v in batch.settings.items()})
        )
        # A straight chain makes of rounding its root.
        for name, noise in (("rotation", 1e-7), ("location", 1e-9), ("scale", 1e-9), ("residual", 1e-9)):
            np.testing.assert_allclose(getattr(alone, name)[0], getattr(whole, name)[frame], atol=noise)


def test_a_target_too_near_moves_nothing_whatever_the_limits():
    rng = np.random.default_rng(23)
    bones = skeleton(rng)
    shot = Shot(rng, bones)
    pose = shot.pose()
    heads_now = heads(pose)
    upper, lower = np.linalg.norm(np.diff(heads_now, axis=1), axis=-1).T
    near = heads_now[:, 0] + [0.0, 0.0, 1.0] * (0.5 * np.abs(upper - lower))[:, None]
    free, loose = (), (box(-3.1, 3.1), box(-3.1, 3.1))
    for limits in (free, loose):
        scene = build(bones, [replace(PULLING, limits=limits)])
        solution, _ = solve(scene, shot, near)
        np.testing.assert_array_equal(solution.location, shot.location[:, scene.posed])
