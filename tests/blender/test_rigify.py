# SPDX-License-Identifier: GPL-3.0-or-later
"""Rigify's basic human, made by Blender's own add-on: the metarig, and the rig generated from it."""

from collections.abc import Iterator
from typing import Any

import bpy
import numpy as np
import pytest
from bone_rigs import bone_world, go_to, head, key_rotation, pose, poses, update
from real_rigs import geometric_gap, path_of, record

from ik_addon.blender import chain_bones, chains, ranges
from ik_addon.blender.bake import BakeOptions, bake

ROUNDING = 4e-6
FRAMES = list(range(1, 14))
METARIG_LIMBS = (
    ("upper_arm.L", "hand.L"),
    ("upper_arm.R", "hand.R"),
    ("thigh.L", "foot.L"),
    ("thigh.R", "foot.R"),
)


@pytest.fixture(scope="module")
def rigify(addon: Any) -> Iterator[None]:
    """Blender's add-on enabled; an empty file with its metarig and the rig generated from it."""
    import addon_utils  # a module of bpy's own, found once that is imported

    bpy.ops.wm.read_factory_settings(use_empty=True)
    if addon_utils.enable("rigify", default_set=True) is None:
        pytest.skip("this Blender comes without Rigify")
    bpy.ops.object.armature_basic_human_metarig_add()
    metarig = bpy.context.object
    bpy.ops.pose.rigify_generate()
    rig = bpy.context.object
    metarig.name, rig.name = "metarig", "rig"
    metarig.hide_set(False)
    walk(metarig, ("thigh.L", "thigh.R", "shin.L", "shin.R", "upper_arm.L", "forearm.R", "spine"))
    yield
    addon_utils.disable("rigify", default_set=True)
    bpy.ops.wm.read_factory_settings(use_empty=True)


def walk(ob: bpy.types.Object, bones: tuple[str, ...]) -> None:
    """Swing some bones about two axes, each in its own rotation mode."""
    for number, name in enumerate(bones):
        bone = ob.pose.bones[name]
        keys: dict[float, Any] = {}
        for frame in (1, 7, 13):
            x, z = 0.3 * np.sin(frame + number), 0.1 * np.cos(frame + 2 * number)
            by_quaternion = bone.rotation_mode == "QUATERNION"
            keys[frame] = (1.0, x / 2, 0.0, z / 2) if by_quaternion else (x, 0.0, z)
        key_rotation(ob, name, keys)
    go_to(1)


@pytest.fixture
def metarig(rigify: None) -> Iterator[bpy.types.Object]:
    ob = bpy.data.objects["metarig"]
    yield ob
    while len(ob.ik_chains):
        chains.remove(ob, 0)
    update()


@pytest.fixture
def rig(rigify: None) -> Iterator[bpy.types.Object]:
    ob = bpy.data.objects["rig"]
    yield ob
    while len(ob.ik_chains):
        chains.remove(ob, 0)
    update()


def test_the_limbs_of_the_metarig(metarig: bpy.types.Object) -> None:
    fk = record(metarig, FRAMES)
    planted = {}
    go_to(5)
    for root, end in METARIG_LIMBS:
        chain = chains.add(metarig, root, end, name=end, use_tail=False)
        planted[end] = head(metarig, end)
        assert np.linalg.norm(np.array(chain.target_location) - planted[end]) <= 1e-6
    live = record(metarig, FRAMES)
    for i, (root, end) in enumerate(METARIG_LIMBS):
        bones, tip = path_of(metarig, root, end, use_tail=False)
        joints = fk.joints(bones, tip)
        # The spine above swings, which no chain turns: roots are FK.
        lengths = np.linalg.norm(np.diff(joints, axis=1), axis=2)
        distance = np.linalg.norm(planted[end] - joints[:, 0], axis=1)
        gap, total = geometric_gap(distance, lengths), lengths.sum(axis=1)
        off = np.linalg.norm(live.joints(bones, tip)[:, -1] - planted[end], axis=1)
        assert (gap == 0.0).any()
        assert np.all(np.abs(off - gap) <= ROUNDING * total), end
        assert np.all(np.abs(live.residual[:, i] - gap) <= 1e-4 * gap + ROUNDING * total), end
    report = ranges.run(bake(bpy.context.scene, [metarig], BakeOptions((1, 13))))
    assert report.skipped == []
    baked = record(metarig, FRAMES)
    assert np.abs(baked.heads - live.heads).max() <= ROUNDING


def test_influence_zero_on_the_metarig_is_fk_to_the_bit(rigify: None) -> None:
    """On a copy: the bake of the test before left keys."""
    source = bpy.data.objects["metarig"]
    ob = source.copy()
    ob.data = source.data.copy()
    ob.animation_data_clear()
    bpy.context.scene.collection.objects.link(ob)
    walk(ob, ("thigh.L", "shin.R", "forearm.R", "spine"))
    fk = poses(ob, FRAMES)
    for root, end in METARIG_LIMBS:
        chains.add(ob, root, end, name=end, use_tail=False)
    live = poses(ob, FRAMES)
    assert not np.array_equal(live, fk)
    for chain in ob.ik_chains:
        chain.influence = 0.0
    assert np.array_equal(poses(ob, FRAMES), fk)
    while len(ob.ik_chains):
        chains.remove(ob, 0)
    assert np.array_equal(poses(ob, FRAMES), fk)
    bpy.data.objects.remove(ob)


def test_fk_controls_of_the_generated_rig(rig: bpy.types.Object) -> None:
    """The FK switch on, a chain on the FK arm: deform bones follow the controls that it turns."""
    rig.pose.bones["upper_arm_parent.L"]["IK_FK"] = 1.0
    rig.update_tag()
    update()
    before = pose(rig)
    chain = chains.add(rig, "upper_arm_fk.L", "forearm_fk.L", name="arm", use_tail=True)
    update()
    assert np.abs(pose(rig) - before).max() <= 1e-5, "adding moves nothing"
    goal = np.array(chain.target_location) + (-0.15, -0.2, 0.1)
    chain.target_location = goal
    update()
    bone = rig.evaluated_get(bpy.context.evaluated_depsgraph_get()).pose.bones["forearm_fk.L"]
    tip = np.array(rig.matrix_world @ bone.tail)
    assert chain.status == "OK"
    assert np.linalg.norm(tip - goal) <= 2e-6
    # The deform hand hangs on the controls through Rigify's own constraints.
    assert np.linalg.norm(head(rig, "DEF-hand.L") - goal) <= 1e-4


def test_a_chain_that_reaches_for_a_control_of_the_generated_rig(rig: bpy.types.Object) -> None:
    """The FK leg of the left side follows the IK control of the foot, which no chain turns."""
    rig.pose.bones["thigh_parent.L"]["IK_FK"] = 1.0
    rig.update_tag()
    update()
    chain = chains.add(
        rig,
        "thigh_fk.L",
        "shin_fk.L",
        name="leg",
        target_space="CUSTOM",
        target=rig,
        subtarget="foot_ik.L",
        target_location=(0, 0, 0),
    )
    rig.pose.bones["foot_ik.L"].location = (0.05, -0.1, 0.15)
    update()
    assert chain.status == "OK", chain.message
    bone = rig.evaluated_get(bpy.context.evaluated_depsgraph_get()).pose.bones["shin_fk.L"]
    assert np.linalg.norm(np.array(bone.tail) - bone_world(rig, "foot_ik.L")[:3, 3]) <= 4e-6
    chain.influence = 0.0
    update()


def test_bones_that_the_rig_constrains_are_refused_with_words(rig: bpy.types.Object) -> None:
    """ORG bones copy the controls, after any solve; mute the constraints, and the chain is solved."""
    goal = head(rig, "ORG-hand.R") + (0.1, -0.2, 0.1)
    settings = {"name": "org", "use_tail": False, "target_location": goal}
    with pytest.raises(chain_bones.ChainError, match="constraint '.+' of bone 'ORG-"):
        chains.add(rig, "ORG-upper_arm.R", "ORG-hand.R", **settings)
    assert not len(rig.ik_chains)
    arm = ("ORG-upper_arm.R", "ORG-forearm.R", "ORG-hand.R")
    constraints = [constraint for bone in arm for constraint in rig.pose.bones[bone].constraints]
    for constraint in constraints:
        constraint.mute = True
    try:
        chain = chains.add(rig, "ORG-upper_arm.R", "ORG-hand.R", **settings)
        update()
        assert chain.status == "OK"
        assert np.linalg.norm(head(rig, "ORG-hand.R") - goal) <= 4e-6
    finally:
        for constraint in constraints:
            constraint.mute = False
