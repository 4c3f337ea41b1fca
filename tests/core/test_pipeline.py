# SPDX-License-Identifier: GPL-3.0-or-later
"""The pipeline against forward kinematics of its own result, on random rigs and frames."""

from dataclasses import replace

import numpy as np
import pytest
from shots import FRAMES, HAND, LOOSE, LOWER, UPPER, Shot, build, random_turns, reachable, skeleton

from ik_addon.core import carried, pipeline, reaching, stage, turning
from ik_addon.core.job import Status
from ik_addon.core.skeleton import InheritScale
from ik_addon.core.transforms import (
    affine_inverse,
    compose,
    normalize,
    quaternion_to_matrix,
    slerp,
    transform_point,
)

ARM = stage.Chain("rig: arm", 0, "TWO_BONE", (UPPER, LOWER), end=HAND, target=stage.Space(stage.ARMATURE))


@pytest.mark.parametrize("seed", range(5))
def test_tips_are_on_reachable_targets_by_independent_forward_kinematics(seed):
    rng = np.random.default_rng(seed)
    bones = skeleton(rng)
    shot, scene = Shot(rng, bones), build(bones, [ARM])
    target = reachable(shot, rng)
    solution = pipeline.solve(scene, shot.batch(scene, target_location=target[:, None]))
    pose = shot.solved_pose(scene, solution)
    assert np.abs(pose[:, HAND, :3, 3] - target).max() < 1e-12
    assert solution.residual.max() < 1e-11
    assert (solution.status == Status.OK).all()
    assert np.allclose(transform_point(shot.objects[:, 0], target), solution.tip[:, 0], atol=1e-11)
    lengths = np.linalg.norm(np.diff(pose[:, [UPPER, LOWER, HAND]][..., :3, 3], axis=1), axis=-1)
    before = np.linalg.norm(np.diff(shot.pose()[:, [UPPER, LOWER, HAND]][..., :3, 3], axis=1), axis=-1)
    assert np.allclose(lengths, before, atol=1e-12)


def test_a_target_where_the_tip_is_turns_nothing():
    rng = np.random.default_rng(7)
    bones = skeleton(rng)
    shot, scene = Shot(rng, bones), build(bones, [ARM])
    target = shot.pose()[:, HAND, :3, 3]
    solution = pipeline.solve(scene, shot.batch(scene, target_location=target[:, None]))
    assert np.abs(shot.solved_pose(scene, solution) - shot.pose()).max() < 1e-9


@pytest.mark.parametrize("kind", ["world", "object", "bone"])
def test_a_target_lives_in_its_space(kind):
    rng = np.random.default_rng(11)
    bones = skeleton(rng)
    shot = Shot(rng, bones, objects=2)
    space, matrix = {
        "world": (stage.Space(stage.WORLD), np.eye(4)),
        "object": (stage.Space(stage.OBJECT, 1), shot.objects[:, 1]),
        "bone": (stage.Space(stage.BONE, LOOSE), shot.objects[:, 0] @ shot.pose()[:, LOOSE]),
    }[kind]
    chain = stage.Chain("rig: arm", 0, "TWO_BONE", (UPPER, LOWER), end=HAND, target=space)
    scene = build(bones, [chain], carriers=[-1, -1])
    world = transform_point(shot.objects[:, 0], reachable(shot, rng))
    local = transform_point(affine_inverse(np.broadcast_to(matrix, (FRAMES, 4, 4))), world)
    solution = pipeline.solve(scene, shot.batch(scene, target_location=local[:, None]))
    tip = transform_point(shot.objects[:, 0], shot.solved_pose(scene, solution)[:, HAND, :3, 3])
    assert np.abs(tip - world).max() < 1e-11


def test_unreachable_targets_leave_the_distance_that_geometry_leaves():
    rng = np.random.default_rng(13)
    bones = skeleton(rng)
    shot, scene = Shot(rng, bones), build(bones, [ARM])
    heads = shot.pose()[:, [UPPER, LOWER, HAND]][..., :3, 3]
    reach = np.linalg.norm(np.diff(heads, axis=1), axis=-1).sum(axis=1)
    way = normalize(rng.normal(size=(FRAMES, 3)))
    target = heads[:, 0] + way * (reach * 1.5)[:, None]
    solution = pipeline.solve(scene, shot.batch(scene, target_location=target[:, None]))
    scale = np.linalg.norm(shot.objects[:, 0, :3, 0], axis=-1)
    assert np.allclose(solution.residual[:, 0], 0.5 * reach * scale, atol=1e-11)
    assert (solution.status == Status.TARGET_FAR).all()


@pytest.mark.parametrize("mode", list(InheritScale))
@pytest.mark.parametrize("turns", [True, False])
@pytest.mark.parametrize("local", [True, False])
def test_every_way_of_inheriting_reaches_the_target(mode, turns, local):
    rng = np.random.default_rng(17)
    flags = {
        "inherit_rotation": np.array([True, True, True, turns, turns, turns, True]),
        "inherit_scale": np.array([0, 0, 0, mode, mode, mode, 0]),
        "local_location": np.array([True, True, True, local, local, local, True]),
    }
    bones = skeleton(rng, **flags)
    shot, scene = Shot(rng, bones), build(bones, [ARM])
    shot.scale[:, 0] = 1.3  # a uniform scale above the limb
    target = reachable(shot, rng)
    solution = pipeline.solve(scene, shot.batch(scene, target_location=target[:, None]))
    assert np.abs(shot.solved_pose(scene, solution)[:, HAND, :3, 3] - target).max() < 2e-6


def test_under_a_sheared_parent_the_tip_reaches_or_the_residual_says_so():
    rng = np.random.default_rng(19)
    bones = skeleton(rng)
    shot, scene = Shot(rng, bones, scale=True, bend=0.4), build(bones, [ARM])
    target = shot.pose()[:, HAND, :3, 3] + rng.normal(scale=0.1, size=(FRAMES, 3))
    solution = pipeline.solve(scene, shot.batch(scene, target_location=target[:, None]))
    gap = np.linalg.norm(
        transform_point(shot.objects[:, 0], shot.solved_pose(scene, solution)[:, HAND, :3, 3])
        - transform_point(shot.objects[:, 0], target),
        axis=-1,
    )
    assert np.allclose(gap, solution.residual[:, 0], atol=1e-9)
    size = 2.0 * np.linalg.norm(shot.objects[:, 0, :3, 0], axis=-1)
    assert ((gap < 1e-3 * size) | (solution.status[:, 0] != Status.OK)).all()


@pytest.mark.parametrize("seed", [23, 32, 39, 57])
def test_passes_under_a_sheared_parent_turn_the_bend_plane_once(seed):
    rng = np.random.default_rng(seed)
    bones = skeleton(rng)
    shot, scene = Shot(rng, bones, scale=True, bend=0.4), build(bones, [ARM])
    shot.scale[:] = 1.0 + 0.2 * (shot.scale - 1.0)
    target = shot.pose()[:, HAND, :3, 3] + rng.normal(scale=0.1, size=(FRAMES, 3))
    normals = []
    for angle in (0.0, 0.7):
        solution = pipeline.solve(scene, shot.batch(scene, target_location=target[:, None], pole_angle=angle))
        assert solution.residual.max() < 1e-5
        heads = shot.solved_pose(scene, solution)[:, [UPPER, LOWER, HAND]][..., :3, 3]
        normals.append(normalize(np.cross(heads[:, 2] - heads[:, 0], heads[:, 1] - heads[:, 0])))
    assert np.abs(np.arccos(np.sum(normals[0] * normals[1], axis=-1)) - 0.7).max() < 0.05


@pytest.mark.parametrize("off_pole", [0.3, 3.0, 60.0])
@pytest.mark.parametrize("mode", [stage.AUTO, stage.DIRECTION])
def test_further_passes_keep_the_bend_plane_of_the_first(monkeypatch, off_pole, mode):
    """Also within the cone about the pole's line, where the FK pose has a say."""
    rng = np.random.default_rng(41)
    bones = skeleton(rng)
    armature = stage.Space(stage.ARMATURE)
    chain = replace(ARM, target=armature, pole=armature, pole_mode=mode)
    shot, scene = Shot(rng, bones), build(bones, [chain])
    target = reachable(shot, rng)
    way = normalize(target - shot.pose()[:, UPPER, :3, 3])
    aside = normalize(np.cross(way, rng.normal(size=(FRAMES, 3))))
    pole = np.cos(np.radians(off_pole)) * way + np.sin(np.radians(off_pole)) * aside
    batch = shot.batch(scene, target_location=target[:, None], pole_location=pole[:, None], pole_angle=0.7)
    once = pipeline.solve(scene, batch)
    monkeypatch.setattr(reaching, "RIGID", -1.0)
    assert np.abs(pipeline.solve(scene, batch).rotation - once.rotation).max() < 1e-9


def test_a_carried_bend_goes_through_the_pole_where_a_frame_alone_flips():
    rng = np.random.default_rng(37)
    bones = skeleton(rng)
    shot = Shot(rng, bones, bend=0.0)
    shot.location[:] = 0.0
    pole = stage.Space(stage.ARMATURE)
    scene = build(bones, [replace(ARM, pole=pole, target=pole, pole_mode=stage.DIRECTION)])
    root = shot.pose()[0, UPPER, :3, 3]
    way = np.stack([np.sin(np.linspace(-0.4, 0.5, FRAMES)), np.full(FRAMES, 0.8), np.zeros(FRAMES)], axis=1)
    where = {"target_location": (root + 1.2 * way)[:, None], "pole_location": [0.0, 1.0, 0.0]}
    batch = shot.batch(scene, **where)
    path = carried.BendPath(np.arange(float(FRAMES)))
    alone, together = pipeline.solve(scene, batch), pipeline.solve(scene, batch, path)
    knees = [shot.solved_pose(scene, s)[:, LOWER, :3, 3] for s in (alone, together)]
    assert np.array_equal(alone.rotation[0], together.rotation[0])
    assert np.allclose(alone.residual, together.residual, atol=1e-9) and alone.residual.max() < 1e-6
    steps = [np.linalg.norm(np.diff(k, axis=0), axis=-1).max() for k in knees]
    assert steps[0] > 0.6 and steps[1] < 0.3
    assert path.turned[0][0] == 0.0 and path.turned[0][-1] == pytest.approx(np.pi)


LOOKING = replace(ARM, name="rig: turned arm", use_rotation=True)
TAIL = replace(ARM, name="rig: tail", solver="FABRIK", bones=(1, 2, UPPER, LOWER))


@pytest.mark.parametrize("scale", [1.0, 0.6])
@pytest.mark.parametrize("chain", [ARM, LOOKING, TAIL, replace(TAIL, end=-1)])
def test_three_roads_lead_to_one_pose(monkeypatch, chain, scale):
    """Bones that nothing looks at are not posed, rigid ones are turned at once, others one by one."""
    rng = np.random.default_rng(23)
    bones = skeleton(rng)
    shot, scene = Shot(rng, bones), build(bones, [chain])
    # Even scales, of the first parent and within the chains.
    shot.scale[:, [0, LOWER]] *= scale
    turn = random_turns(rng, FRAMES, 1)
    batch = shot.batch(scene, target_location=reachable(shot, rng)[:, None], target_rotation=turn)
    unposed = pipeline.solve(scene, batch)
    assert unposed.work.unposed
    monkeypatch.setattr(reaching, "_may_stay", lambda work, task: False)
    at_once = pipeline.solve(scene, batch)
    monkeypatch.setattr(turning, "is_rigid", lambda work, group: False)
    one_by_one = pipeline.solve(scene, batch)
    assert not at_once.work.unposed and not one_by_one.work.unposed
    for other in (at_once, one_by_one):
        turned = np.einsum("fki,fki->fk", unposed.rotation, other.rotation)
        assert np.abs(np.abs(turned) - 1.0).max() < 1e-13
        for name in ("residual", "tip", "pose"):
            assert np.allclose(getattr(unposed, name), getattr(other, name), atol=1e-12), name
        assert (unposed.status == other.status).all() and (unposed.changed == other.changed).all()


@pytest.mark.parametrize("seed", range(4))
def test_a_straight_limb_does_not_roll_where_rest_matrices_are_not_quite_square(seed):
    """Blender's are orthogonal to 1e-5 only: the limb is solved again from where it came out."""
    rng = np.random.default_rng(seed)
    square = skeleton(rng)
    rest = square.rest.copy()
    rest[:, :3, :3] *= 1.0 + rng.uniform(-1e-5, 1e-5, rest[:, :3, :3].shape)
    shot = Shot(rng, square)
    scenes = [build(bones, [ARM]) for bones in (square, replace(square, rest=rest))]
    root = shot.pose()[:, UPPER, :3, 3]
    far = root + 1.2 * (reachable(shot, rng) - root) / 0.01
    solutions = [pipeline.solve(scene, shot.batch(scene, target_location=far[:, None])) for scene in scenes]
    turned = np.einsum("fki,fki->fk", *(solution.rotation for solution in solutions))
    assert np.arccos(np.minimum(np.abs(turned), 1.0)).max() < 1e-3
    # What is told is measured on the pose.
    heads = solutions[1].pose[:, ARM.end, :3, 3]
    world = solutions[1].work.objects[:, 0]
    assert np.allclose(transform_point(world, heads), solutions[1].tip[:, 0], rtol=0.0, atol=1e-13)


@pytest.mark.parametrize("bone", [0, UPPER, LOWER])
def test_mirrored_bones_reach_too(bone):
    """A scale below zero, of a bone above the chain or in it, turns turns round."""
    rng = np.random.default_rng(29)
    bones = skeleton(rng)
    shot, scene = Shot(rng, bones), build(bones, [ARM])
    shot.scale[:, bone] *= -1.0
    batch = shot.batch(scene, target_location=reachable(shot, rng)[:, None])
    solution = pipeline.solve(scene, batch)
    assert solution.residual.max() < 1e-9
    heads = transform_point(batch.objects[:, 0], solution.pose[:, ARM.end, :3, 3])
    assert np.allclose(heads, solution.tip[:, 0], rtol=0.0, atol=1e-9)


def test_all_bones_are_looked_at_where_one_carries_an_object():
    rng = np.random.default_rng(29)
    bones = skeleton(rng)
    assert len(build(bones, [ARM], carriers=[-1, LOWER]).looked_at) == len(bones.names)
    assert len(build(bones, [ARM], carriers=[-1, 0]).looked_at) < len(bones.names)


@pytest.mark.parametrize("chain", [ARM, replace(ARM, limit_mode="MOVE_ROOT", move_bone=1)])
def test_steps_are_taken_again_only_for_the_same_channels(chain):
    """Also where a bone is shifted from them."""
    rng = np.random.default_rng(31)
    bones = skeleton(rng)
    shot, scene = Shot(rng, bones), build(bones, [chain])
    batch = shot.batch(scene, target_location=1.5 * reachable(shot, rng)[:, None])
    for frame in (0, 0, 3, 3, 1, 0):
        one = slice(frame, frame + 1)
        fields = {f: getattr(batch, f)[one] for f in ("pose", "objects", "location", "rotation", "scale")}
        alone = pipeline.Batch(**fields, settings={k: v[one] for k, v in batch.settings.items()})
        known, new = pipeline.solve(scene, alone), pipeline.solve(build(bones, [chain]), alone)
        assert np.array_equal(known.rotation, new.rotation) and np.array_equal(known.pose, new.pose)


@pytest.mark.parametrize("chain", [ARM, LOOKING, TAIL], ids=["arm", "turned", "tail"])
@pytest.mark.parametrize("space", ["world", "bone", "object"])
@pytest.mark.parametrize("mode", ["ACCEPT", "MOVE_ROOT", "STRETCH"])
def test_a_solve_rests_on_no_pose_that_it_does_not_look_at(chain, space, mode):
    rng = np.random.default_rng(37)
    bones = skeleton(rng)
    shot = Shot(rng, bones, objects=2)
    target = {
        "world": stage.Space(stage.WORLD),
        "bone": stage.Space(stage.BONE, LOOSE),
        # Carried by the first bone, above the chain.
        "object": stage.Space(stage.OBJECT, 1),
    }[space]
    chain = replace(chain, target=target, limit_mode=mode, move_bone=1 if mode == "MOVE_ROOT" else -1)
    if mode == "MOVE_ROOT":
        chain = replace(chain, bones=(UPPER, LOWER))
    scene = build(bones, [chain], carriers=[-1, 0])
    batch = shot.batch(scene, target_location=rng.normal(size=(FRAMES, 1, 3)), softness=0.1)
    other = ~np.isin(np.arange(len(bones.names)), scene.looked_at)
    pose = batch.pose.copy()
    pose[:, other] = rng.normal(size=pose[:, other].shape)
    one, two = pipeline.solve(scene, batch), pipeline.solve(scene, replace(batch, pose=pose))
    assert other.any()
    for name in ("rotation", "location", "scale", "changed", "residual", "status", "tip"):
        assert np.array_equal(getattr(one, name), getattr(two, name)), name


def test_influence_blends_rotations_and_zero_changes_nothing_at_all():
    rng = np.random.default_rng(29)
    bones = skeleton(rng)
    shot, scene = Shot(rng, bones), build(bones, [ARM])
    target = reachable(shot, rng)[:, None]
    weights = np.array([0.0, 0.25, 0.5, 0.75, 1.0, 0.0, 1.0])[:, None]
    full = pipeline.solve(scene, shot.batch(scene, target_location=target))
    part = pipeline.solve(scene, shot.batch(scene, target_location=target, influence=weights))
    fk = shot.rotation[:, scene.posed]
    at = scene.turned
    wanted = slerp(fk[:, at], full.rotation[:, at], weights)
    assert np.allclose(np.abs(np.einsum("fki,fki->fk", wanted, part.rotation[:, at])), 1.0, atol=1e-13)
    assert np.array_equal(part.rotation[weights[:, 0] == 0.0], fk[weights[:, 0] == 0.0])
    assert np.array_equal(part.changed[:, at], np.broadcast_to(weights > 0.0, part.changed[:, at].shape))
    assert (part.status[[1, 2, 3], 0] == Status.INFLUENCE).all()


def test_the_end_bone_takes_the_rotation_of_the_target():
    rng = np.random.default_rng(31)
    bones = skeleton(rng)
    chain = stage.Chain("rig: arm", 0, "TWO_BONE", (UPPER, LOWER), end=HAND, use_rotation=True)
    shot, scene = Shot(rng, bones), build(bones, [chain])
    world = transform_point(shot.objects[:, 0], reachable(shot, rng))
    turn = random_turns(rng, FRAMES)
    batch = shot.batch(scene, target_location=world[:, None], target_rotation=turn[:, None])
    solution = pipeline.solve(scene, batch)
    hand = shot.objects[:, 0] @ shot.solved_pose(scene, solution)[:, HAND]
    axes = hand[:, :3, :3] / np.linalg.norm(hand[:, :3, :3], axis=1)[:, None]
    assert np.abs(axes - quaternion_to_matrix(turn)).max() < 1e-12
    assert np.abs(hand[:, :3, 3] - world).max() < 1e-11


def test_an_arm_follows_a_chain_that_bends_its_parent():
    rng = np.random.default_rng(37)
    bones = skeleton(rng)
    spine = stage.Chain("rig: spine", 0, "TWO_BONE", (0, 1), end=2, target=stage.Space(stage.ARMATURE))
    shot, scene = Shot(rng, bones), build(bones, [ARM, spine])
    assert scene.waves == ((1,), (0,))
    chest = reachable(shot, rng, joints=(0, 1, 2))
    # Where the arm begins is known only after the spine is solved: aim near its old tip.
    alone = pipeline.solve(
        build(bones, [spine]), shot.batch(build(bones, [spine]), target_location=chest[:, None])
    )
    moved = shot.solved_pose(build(bones, [spine]), alone)
    target = moved[:, UPPER, :3, 3] + 0.8 * (moved[:, HAND, :3, 3] - moved[:, UPPER, :3, 3])
    both = np.stack([target, chest], axis=1)
    solution = pipeline.solve(scene, shot.batch(scene, target_location=both))
    pose = shot.solved_pose(scene, solution)
    assert np.abs(pose[:, HAND, :3, 3] - target).max() < 1e-12
    assert np.abs(pose[:, 2, :3, 3] - chest).max() < 1e-12


def test_a_target_carried_by_a_solved_bone_of_another_rig_is_met_in_the_same_solve():
    rng = np.random.default_rng(41)
    bones = skeleton(rng, rigs=2)
    shot = Shot(rng, bones, objects=3)
    # Object 2 is fixed to the hand of rig 0; the hand of rig 1 holds on to it.
    shot.objects[:, 2] = (
        shot.objects[:, 0] @ shot.pose()[:, HAND] @ compose(np.array([0.0, 0.1, 0.0]), np.eye(3))
    )
    first = stage.Chain("a: arm", 0, "TWO_BONE", (UPPER, LOWER), end=HAND, target=stage.Space(stage.ARMATURE))
    second = stage.Chain(
        "b: arm", 1, "TWO_BONE", (UPPER + 7, LOWER + 7), end=HAND + 7, target=stage.Space(stage.OBJECT, 2)
    )
    scene = build(bones, [second, first], carriers=[-1, -1, HAND])
    assert scene.waves == ((1,), (0,))
    target = reachable(shot, rng)
    where = np.zeros((FRAMES, 2, 3))
    where[:, 1] = target
    solution = pipeline.solve(scene, shot.batch(scene, target_location=where))
    pose = shot.solved_pose(scene, solution)
    carried = shot.objects[:, 0] @ pose[:, HAND] @ compose(np.array([0.0, 0.1, 0.0]), np.eye(3))
    tip = transform_point(shot.objects[:, 1], pose[:, HAND + 7, :3, 3])
    gap = np.linalg.norm(tip - carried[:, :3, 3], axis=-1)
    assert np.allclose(gap, solution.residual[:, 0], atol=1e-10)
    near = solution.status[:, 0] == Status.OK
    assert (gap[near] < 1e-10).all()
    assert np.abs(pose[:, HAND, :3, 3] - target).max() < 1e-12


def test_frames_do_not_know_of_each_other():
    rng = np.random.default_rng(43)
    bones = skeleton(rng)
    shot, scene = Shot(rng, bones), build(bones, [ARM])
    batch = shot.batch(scene, target_location=reachable(shot, rng)[:, None])
    together = pipeline.solve(scene, batch)
    for frame in range(FRAMES):
        one = slice(frame, frame + 1)
        fields = {n: getattr(batch, n)[one] for n in ("pose", "objects", "location", "rotation", "scale")}
        alone = pipeline.solve(
            scene, pipeline.Batch(**fields, settings={n: v[one] for n, v in batch.settings.items()})
        )
        assert np.allclose(alone.rotation[0], together.rotation[frame], atol=1e-14)


def test_a_broken_chain_holds_still_and_says_so():
    rng = np.random.default_rng(47)
    bones = skeleton(rng)
    broken = stage.Chain("rig: arm", 0, "TWO_BONE", (UPPER, LOWER), end=HAND, broken="no target")
    shot, scene = Shot(rng, bones), build(bones, [broken])
    solution = pipeline.solve(scene, shot.batch(scene, target_location=5.0))
    assert (solution.status == Status.BROKEN).all()
    assert not solution.changed.any()
    assert np.array_equal(solution.rotation, shot.rotation[:, scene.posed])


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("solver", ["TWO_BONE", "FABRIK", "CCD", "AIM", "MATCH_ROTATION"])
@pytest.mark.parametrize("name", ["target_location", "target_rotation", "pole_location", "influence"])
def test_what_is_no_number_never_reaches_a_bone(solver, name):
    """In one of the frames, beside a chain that goes on."""
    rng = np.random.default_rng(53)
    bones = skeleton(rng)
    space = {"target": stage.Space(stage.ARMATURE), "pole": stage.Space(stage.ARMATURE)}
    space["pole_mode"] = stage.POINT
    if solver in ("AIM", "MATCH_ROTATION"):
        mode = "LOOK_AT" if solver == "AIM" else solver
        chain = stage.Chain("rig: arm", 0, "AIM", (UPPER,), aim_mode=mode, **space)
    else:
        chain = stage.Chain("rig: arm", 0, solver, (UPPER, LOWER), end=HAND, use_rotation=True, **space)
    other = stage.Chain("rig: other", 0, "AIM", (LOOSE,), target=stage.Space(stage.ARMATURE))
    shot, scene = Shot(rng, bones), build(bones, [chain, other])
    values = {"target_location": 1.0, "pole_location": 2.0}
    batch = shot.batch(scene, **values)
    good = pipeline.solve(scene, batch)
    settings = {key: array.copy() for key, array in batch.settings.items()}
    settings[name][2, 0] = np.nan
    found = pipeline.solve(scene, replace(batch, settings=settings))
    for field in ("rotation", "residual", "tip"):
        assert np.isfinite(getattr(found, field)).all(), field
    arm = np.isin(scene.posed, chain.written)
    for frame in range(FRAMES):
        if frame != 2:
            assert np.array_equal(found.rotation[frame], good.rotation[frame])
    assert np.array_equal(found.rotation[2, ~arm], good.rotation[2, ~arm])
    if found.status[2, 0] == Status.BROKEN:
        assert np.array_equal(found.rotation[2, arm], batch.rotation[2, arm])
        assert not found.changed[2, arm].any()
    else:
        assert name != "target_location" or solver == "MATCH_ROTATION", "it was looked at"
