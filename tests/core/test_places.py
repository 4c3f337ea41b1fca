# SPDX-License-Identifier: GPL-3.0-or-later
"""Where chains are in FK and where their targets are, beside forward kinematics done here."""

import numpy as np
import pytest
from shots import FRAMES, HAND, LOOSE, LOWER, UPPER, Shot, build, skeleton

from ik_addon.core import pipeline, stage
from ik_addon.core.places import places
from ik_addon.core.transforms import quaternion_to_matrix, rotation_part

SPACES = {
    "world": stage.Space(),
    "armature": stage.Space(stage.ARMATURE),
    "own bone": stage.Space(stage.BONE, LOOSE),
    "solved bone": stage.Space(stage.BONE, UPPER),
}


def chain(**changed):
    return stage.Chain(
        **{"name": "arm", "rig": 0, "solver": "TWO_BONE", "bones": (UPPER, LOWER), "end": HAND, **changed}
    )


def points(matrices, at):
    return np.einsum("fij,fj->fi", matrices[:, :3, :3], at) + matrices[:, :3, 3]


def shot_of(seed, *chains, **settings):
    rng = np.random.default_rng(seed)
    bones = skeleton(rng)
    scene = build(bones, chains)
    shot = Shot(rng, bones)
    settings.setdefault("target_location", rng.normal(scale=0.5, size=(FRAMES, 1, 3)) + [0.0, 3.0, 0.0])
    return scene, shot, shot.batch(scene, **settings)


@pytest.mark.parametrize("space", SPACES)
def test_fk_and_target(space):
    turned = (stage.Chain("spine", 0, "AIM", (1,), target=stage.Space(stage.ARMATURE)),)
    arm = chain(target=SPACES[space] if space != "solved bone" else stage.Space(stage.BONE, 1))
    location = np.random.default_rng(5).normal(size=(FRAMES, 2, 3))
    scene, shot, batch = shot_of(1, *turned, arm, target_location=location)
    solution = pipeline.solve(scene, batch)
    found = places(scene, batch, solution)
    fk, solved, world = shot.pose(), shot.solved_pose(scene, solution), shot.objects[:, 0]
    assert np.allclose(found.tip[:, 1], points(world, fk[:, HAND, :3, 3]))
    joints = np.stack([points(world, fk[:, bone, :3, 3]) for bone in (UPPER, LOWER, HAND)], axis=1)
    assert np.allclose(found.limb[:, 1], np.linalg.norm(np.diff(joints, axis=1), axis=-1).sum(axis=1))
    expected = {
        "world": np.tile(np.eye(4), (FRAMES, 1, 1)),
        "armature": world,
        "own bone": world @ solved[:, LOOSE],
        "solved bone": world @ solved[:, 1],
    }[space]
    assert np.allclose(found.space[:, 1], expected)
    assert np.allclose(found.target[:, 1], points(expected, location[:, 1]))
    gap = np.linalg.norm(found.target[:, 1] - solution.tip[:, 1], axis=1)
    assert np.allclose(gap, solution.residual[:, 1])
    assert np.allclose(found.root[:, 1], points(world, solved[:, UPPER, :3, 3]))


def test_extension_tells_what_is_out_of_reach():
    """Beyond 1 the residual is what the straight limb lacks."""
    scene, _, batch = shot_of(2, chain(target=stage.Space(stage.ARMATURE)))
    batch.settings["target_location"][: FRAMES // 2] *= 3.0
    solution = pipeline.solve(scene, batch)
    found = places(scene, batch, solution)
    lacks = np.maximum(found.extension[:, 0] - 1.0, 0.0) * found.limb[:, 0]
    assert (found.extension > 1.0).any() and (found.extension < 1.0).any()
    assert np.allclose(lacks, solution.residual[:, 0], atol=1e-9)


@pytest.mark.parametrize("use_tail", [True, False])
def test_a_rotation_in_the_world_with_which_the_end_bone_stays(use_tail):
    """The solve takes it back: a chain that copies it, at its FK tip, leaves the end bone as it was."""
    arm = chain(end=-1, bones=(UPPER, LOWER)) if use_tail else chain(use_rotation=True)
    scene, shot, batch = shot_of(3, arm)
    found = places(scene, batch, pipeline.solve(scene, batch))
    last = LOWER if use_tail else HAND
    world = rotation_part(shot.objects[:, 0])
    wanted = world @ rotation_part(shot.pose()[:, last])
    assert np.allclose(quaternion_to_matrix(found.rotation[:, 0]), wanted)
    if use_tail:
        return
    batch.settings["target_rotation"][:, 0] = found.rotation[:, 0]
    batch.settings["target_location"][:, 0] = found.tip[:, 0]
    solution = pipeline.solve(scene, batch)
    assert np.allclose(shot.solved_pose(scene, solution)[:, HAND], shot.pose()[:, HAND], atol=1e-9)


def test_reach_ends_where_softness_begins_and_grows_with_what_a_gap_leads_to():
    plain, soft = chain(), chain()
    stretched = chain(limit_mode="STRETCH")
    moved = chain(limit_mode="MOVE_ROOT", move_bone=0)
    reaches = {}
    for name, one, settings in (
        ("plain", plain, {}),
        ("soft", soft, {"softness": 0.25}),
        ("stretched", stretched, {"stretch_max": 0.5}),
        ("moved", moved, {"move_max": 0.4}),
    ):
        scene, shot, batch = shot_of(4, one, **settings)
        found = places(scene, batch, pipeline.solve(scene, batch))
        reaches[name] = found.reach[:, 0] / found.limb[:, 0]
        root = points(shot.objects[:, 0], shot.pose()[:, UPPER, :3, 3])
        assert np.allclose(found.root[:, 0], root)
    assert np.allclose(reaches["plain"], 1.0)
    assert np.allclose(reaches["soft"], 0.75)
    assert np.allclose(reaches["stretched"], 1.5)
    assert np.allclose(reaches["moved"], 1.0 + 0.3 / found.limb[:, 0])


def test_a_broken_chain_has_no_places():
    broken = stage.Chain("gone", 0, "TWO_BONE", (), broken="no bones")
    location = np.zeros((FRAMES, 2, 3))
    scene, _, batch = shot_of(6, chain(), broken, target_location=location)
    found = places(scene, batch, pipeline.solve(scene, batch))
    assert not found.tip[:, 1].any() and not found.limb[:, 1].any() and not found.reach[:, 1].any()
    assert found.limb[:, 0].all()
