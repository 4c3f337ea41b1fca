# SPDX-License-Identifier: GPL-3.0-or-later
"""Targets and poles become empties or control bones, and nothing moves, on any frame."""

import math
from typing import Any

import bpy
import numpy as np
import pytest
from bone_rigs import (
    action_curves,
    armature,
    bone_world,
    go_to,
    pose,
    update,
)
from rig_state import differences, dump
from test_switch_space import FRAMES, NOW, SPACES, apart, key_target, make, motion, put_into, switch

pytestmark = pytest.mark.usefixtures("fresh")

# Field figures: metres, radians.
OFFSET, ANGLE = 1e-4, math.radians(0.05)
KINDS = ("empty", "bone")
CASES = [*((space, "uneven") for space in SPACES), ("ARMATURE", "mirrored"), ("own bone", "scaled")]


@pytest.fixture(autouse=True)
def frames(fresh: Any) -> None:
    bpy.context.scene.frame_start, bpy.context.scene.frame_end = FRAMES[0], FRAMES[-1]


def add(kind: str, **properties: Any) -> set[str]:
    return getattr(bpy.ops.ik_chain, f"add_target_{kind}")(object="Rig", chain="leg", **properties)


def poses(ob: bpy.types.Object) -> np.ndarray:
    """Of the bones that were there before, in the world: ``(F, n, 4, 4)``."""
    found = []
    for frame in FRAMES:
        go_to(frame)
        update()
        found.append([bone_world(ob, name) for name in ("hips", "thigh", "shin", "foot")])
    return np.array(found)


def assert_still(before: np.ndarray, after: np.ndarray) -> None:
    moved, turned = apart(before, after)
    assert moved < OFFSET
    assert turned < ANGLE


def frames_of(owner: bpy.types.Object, path: str) -> list[list[float]]:
    data = owner.animation_data
    curves = action_curves(owner) if data and data.action else ()
    return [[key.co[0] for key in c.keyframe_points] for c in curves if c.data_path.endswith(path)]


@pytest.mark.parametrize("keyed", [(), (1, 15, 40)], ids=["still", "keyed"])
@pytest.mark.parametrize(("space", "parents"), CASES)
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_moves_on_any_frame(kind: str, space: str, parents: str, keyed: tuple[int, ...]) -> None:
    ob = make(parents)
    put_into(ob, space)
    ob.ik_chains["leg"].target_location[0] += 0.02
    key_target(ob, keyed)
    before = poses(ob)
    go_to(NOW)
    assert add(kind) == {"FINISHED"}
    update()
    chain = ob.ik_chains["leg"]
    assert (chain.target_space, tuple(chain.target_location)) == ("CUSTOM", (0.0, 0.0, 0.0))
    assert tuple(chain.target_rotation) == (1.0, 0.0, 0.0, 0.0)
    assert (chain.target.name, chain.subtarget) == (
        ("leg Target", "") if kind == "empty" else ("Rig", "leg Target")
    )
    assert frames_of(ob, ".target_location") == frames_of(ob, ".target_rotation") == []
    now = np.array([bone_world(ob, name) for name in ("hips", "thigh", "shin", "foot")])
    assert_still(before[NOW - 1], now)
    assert_still(before, poses(ob))


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("kind", KINDS)
def test_it_is_where_the_target_was(kind: str, space: str) -> None:
    """Also where the limb does not reach."""
    ob = make("turning")
    put_into(ob, space)
    ob.ik_chains["leg"].target_location[0] += 2.0
    key_target(ob, (1, 15, 40))
    before = motion(ob, FRAMES)[0]
    go_to(NOW)
    add(kind)
    assert np.abs(motion(ob, FRAMES)[0] - before).max() < OFFSET


def test_an_empty_hangs_on_the_space_and_takes_the_keys() -> None:
    ob = make("turning")
    put_into(ob, "ARMATURE")
    key_target(ob, (1, 15, 40))
    add("empty")
    found = bpy.data.objects["leg Target"]
    assert (found.type, found.parent, found.empty_display_type) == ("EMPTY", ob, "CUBE")
    assert found.users_collection == ob.users_collection
    assert frames_of(found, "location") == [[1, 15, 40]] * 3
    assert frames_of(found, "rotation_quaternion") == [[1, 15, 40]] * 4


def test_an_empty_of_a_planted_target_stays_in_the_world() -> None:
    make("turning")
    add("empty")
    found = bpy.data.objects["leg Target"]
    assert found.parent is None and found.animation_data is None


def test_a_bone_gets_a_key_on_each_frame_where_the_rig_moves_under_its_target() -> None:
    ob = make("turning")
    add("bone")
    assert frames_of(ob, '"leg Target"].location') == [[*FRAMES]] * 3
    assert frames_of(ob, '"leg Target"].rotation_quaternion') == [[*FRAMES]] * 4


def test_a_bone_takes_the_keys_where_nothing_moves_under_it() -> None:
    ob = make("turning")
    put_into(ob, "ARMATURE")
    key_target(ob, (1, 15, 40))
    add("bone")
    assert frames_of(ob, '"leg Target"].location') == [[1, 15, 40]] * 3


def test_a_bone_is_a_control_in_the_rest_pose_of_the_limb() -> None:
    ob = make("turning")
    put_into(ob, "ARMATURE")
    ob.pose.bones["thigh"].rotation_quaternion = (1.0, 0.3, 0.1, 0.0)
    bpy.ops.ik_chain.snap_ik(object="Rig")
    update()
    add("bone")
    bone, foot = ob.data.bones["leg Target"], ob.data.bones["foot"]
    assert bone.parent is None and not bone.use_deform
    assert np.allclose(bone.matrix_local, foot.matrix_local, atol=1e-5)
    assert not np.allclose(ob.pose.bones["leg Target"].matrix_basis, np.eye(4), atol=0.01)
    assert 0.1 < bone.length < 0.5


def test_a_bone_in_the_space_of_a_bone_is_its_child() -> None:
    ob = make("turning")
    put_into(ob, "own bone")
    add("bone")
    assert ob.data.bones["leg Target"].parent == ob.data.bones["control"]
    assert frames_of(ob, '"leg Target"].location') == []


def test_a_parent_can_be_given() -> None:
    ob = make("turning")
    before = poses(ob)
    go_to(NOW)
    add("bone", parent_bone="hips")
    assert ob.data.bones["leg Target"].parent == ob.data.bones["hips"]
    assert_still(before, poses(ob))


def test_a_target_whose_space_is_keyed() -> None:
    """The empty stands in the world, with a key on each frame."""
    ob = make("turning")
    switch(space="ARMATURE")
    before = poses(ob)
    go_to(NOW)
    add("empty")
    found = bpy.data.objects["leg Target"]
    assert found.parent is None
    assert frames_of(found, "location") == [[*FRAMES]] * 3
    assert frames_of(ob, ".target_space") == []
    assert_still(before, poses(ob))


@pytest.mark.parametrize("mode", ["AUTO", "POINT", "DIRECTION"])
@pytest.mark.parametrize("space", ["WORLD", "ARMATURE", "own bone"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_pole(kind: str, space: str, mode: str) -> None:
    ob = make("turning")
    chain = ob.ik_chains["leg"]
    if mode != "AUTO":
        chain.pole_mode, chain.pole_location = mode, (0.4, -0.8, 0.3)
    put_into(ob, space, "POLE")
    update()
    before = poses(ob)
    go_to(NOW)
    assert add(kind, part="POLE") == {"FINISHED"}
    assert (chain.pole_mode, chain.pole_space, tuple(chain.pole_location)) == (
        "POINT",
        "CUSTOM",
        (0.0, 0.0, 0.0),
    )
    name = "leg Pole"
    assert (chain.pole_target.name, chain.pole_subtarget) == (
        (name, "") if kind == "empty" else ("Rig", name)
    )
    assert chain.target_space == "WORLD"
    after = poses(ob)
    assert_still(before[NOW - 1], after[NOW - 1])
    if mode == "POINT":
        assert_still(before, after)
    if kind == "empty":
        assert bpy.data.objects[name].empty_display_type == "SPHERE"


def test_a_look_at_target() -> None:
    ob = armature("Rig")
    bpy.ops.ik_chain.add(object="Rig", end_bone="foot", solver="AIM", name="leg")
    ob.ik_chains["leg"].target_location[0] += 0.1
    update()
    for kind in KINDS:
        before = pose(ob)[:4]
        add(kind)
        update()
        assert np.abs(pose(ob)[:4] - before).max() < 1e-5
        ob.ik_chains["leg"].target_location[0] += 0.1
        update()


@pytest.mark.parametrize(
    ("chain", "expected"),
    [
        ("leg", "leg Target"),
        ("leg.L", "leg Target.L"),
        ("hand_r", "hand Target_r"),
        ("arm Left", "arm Target Left"),
    ],
)
def test_sides_stay_at_the_end_of_the_name(chain: str, expected: str) -> None:
    ob = make()
    ob.ik_chains["leg"].name = chain
    bpy.ops.ik_chain.add_target_empty(object="Rig")
    assert ob.ik_chains[0].target.name == expected
    assert bpy.utils.flip_name(expected) != expected or chain == "leg"


@pytest.mark.parametrize("mode", ["OBJECT", "POSE"])
def test_adding_a_bone_leaves_mode_and_active_object_alone(mode: str) -> None:
    ob = make()
    other = armature("Active")
    bpy.context.view_layer.objects.active = other
    bpy.ops.object.mode_set(mode=mode)
    add("bone")
    assert bpy.context.view_layer.objects.active == other
    assert (other.mode, ob.mode) == (mode, "OBJECT")
    assert "leg Target" in ob.pose.bones and "leg Target" not in other.pose.bones


def test_an_edit_without_a_key_is_kept() -> None:
    ob = make("turning")
    key_target(ob, (1, 40))
    ob.pose.bones["control"].rotation_quaternion = (1.0, 0.0, 0.4, 0.0)
    ob.location.z += 0.2
    ob.pose.bones["thigh"].rotation_quaternion = (1.0, 0.2, 0.1, 0.0)
    update()
    names = ob.pose.bones.keys()
    before = np.array([bone_world(ob, name) for name in names])
    add("bone")
    update()
    after = np.array([bone_world(ob, name) for name in names])
    assert_still(before, after)


def refused(kind: str, **properties: Any) -> str:
    before = dump()
    with pytest.raises(RuntimeError) as caught:
        add(kind, **properties)
    assert differences(before, dump()) == []
    return str(caught.value)


def test_refusals() -> None:
    ob = make()
    assert "no bone 'nothing'" in refused("bone", parent_bone="nothing")
    assert "which the chain itself turns" in refused("bone", parent_bone="shin")
    chain = ob.ik_chains["leg"]
    chain.pole_mode = "DIRECTION"
    chain.keyframe_insert("pole_location", frame=3)
    assert "no point" in refused("empty", part="POLE")
    chain.target_space, chain.target, chain.target_location = "CUSTOM", bpy.data.objects["Door"], (0, 0, 0)
    update()
    assert "is 'Door' already" in refused("empty")


def hide_by_eye(ob: bpy.types.Object) -> None:
    ob.hide_set(True)


def disable(ob: bpy.types.Object) -> None:
    ob.hide_viewport = True


def put_away(ob: bpy.types.Object) -> bpy.types.LayerCollection:
    collection = bpy.data.collections.new("Away")
    bpy.context.scene.collection.children.link(collection)
    collection.objects.link(ob)
    bpy.context.scene.collection.objects.unlink(ob)
    return bpy.context.view_layer.layer_collection.children["Away"]


def exclude(ob: bpy.types.Object) -> None:
    put_away(ob).exclude = True


def hide_collection(ob: bpy.types.Object) -> None:
    put_away(ob).hide_viewport = True


def unlink(ob: bpy.types.Object) -> None:
    bpy.context.scene.collection.objects.unlink(ob)


@pytest.mark.parametrize("mode", ["OBJECT", "POSE"])
@pytest.mark.parametrize("hide", [hide_by_eye, disable, exclude, hide_collection, unlink])
def test_a_hidden_rig_gets_a_control_bone_too(hide: Any, mode: str) -> None:
    ob = make()
    other = armature("Other")
    bpy.context.view_layer.objects.active = ob
    bpy.ops.object.mode_set(mode=mode)
    if mode == "OBJECT":
        bpy.context.view_layer.objects.active = other
    before = poses(ob)
    go_to(NOW)
    hide(ob)
    update()
    state = (ob.hide_viewport, ob.visible_get(), [c.name for c in ob.users_collection], ob.mode)
    assert not ob.visible_get()
    assert add("bone") == {"FINISHED"}
    update()
    now = (ob.hide_viewport, ob.visible_get(), [c.name for c in ob.users_collection], ob.mode)
    assert now == state
    chain = ob.ik_chains["leg"]
    assert (chain.target, chain.subtarget) == (ob, "leg Target")
    show = bpy.context.scene.collection.objects
    if ob not in show.values():
        show.link(ob)
    ob.hide_viewport = False
    update()
    ob.hide_set(False)
    assert_still(before, poses(ob))


def test_a_rig_that_keys_hide_gets_one_and_one_that_a_driver_hides_does_not() -> None:
    ob = make()
    ob.hide_viewport = True
    ob.keyframe_insert("hide_viewport", frame=1)
    go_to(3)
    assert not ob.visible_get()
    assert add("bone") == {"FINISHED"}
    go_to(4)
    assert ob.hide_viewport
    ob.animation_data_clear()
    ob.driver_add("hide_viewport").driver.expression = "1"
    go_to(5)
    assert "'Rig' is kept hidden by a driver" in refused("bone", part="POLE")
    assert ob.hide_viewport


def test_a_linked_armature_takes_no_bone(tmp_path: Any) -> None:
    ob = make()
    path = str(tmp_path / "rig.blend")
    bpy.data.libraries.write(path, {ob}, fake_user=True)
    bpy.ops.wm.read_factory_settings(use_empty=True)
    with bpy.data.libraries.load(path, link=True) as (_, data):
        data.objects = ["Rig"]
    linked = data.objects[0]
    bpy.context.scene.collection.objects.link(linked)
    own = linked.override_create()
    bpy.context.scene.collection.objects.unlink(linked)
    bpy.context.scene.collection.objects.link(own)
    bpy.context.view_layer.objects.active = own
    update()
    with pytest.raises(RuntimeError, match="add an empty"):
        bpy.ops.ik_chain.add_target_bone(object="Rig")
    before = pose(own)
    assert bpy.ops.ik_chain.add_target_empty(object="Rig") == {"FINISHED"}
    update()
    assert np.abs(pose(own) - before).max() < 1e-5
    assert own.ik_chains[0].target.name == "leg Target"


@pytest.mark.parametrize("part", ["TARGET", "POLE"])
@pytest.mark.parametrize("kind", KINDS)
def test_it_is_one_step_of_undo(kind: str, part: str) -> None:
    ob = make("turning")
    key_target(ob, (1, 33))
    before = dump()
    bpy.ops.ed.undo_push(message="before")
    operator = getattr(bpy.ops.ik_chain, f"add_target_{kind}")
    assert operator("EXEC_DEFAULT", True, object="Rig", chain="leg", part=part) == {"FINISHED"}
    after = dump()
    bpy.ops.ed.undo()
    assert differences(before, dump()) == []
    bpy.ops.ed.redo()
    assert differences(after, dump()) == []


# Placing a pole


@pytest.mark.parametrize("mode", ["POINT", "DIRECTION"])
@pytest.mark.parametrize("influence", [1.0, 0.5])
@pytest.mark.parametrize("angle", [0.0, 0.7])
@pytest.mark.parametrize(
    "given",
    [
        {"root_bone": "thigh", "end_bone": "foot", "use_tail": False},
        {"root_bone": "hips", "end_bone": "foot", "solver": "FABRIK"},
        {"root_bone": "hips", "end_bone": "foot", "solver": "CCD"},
        {"end_bone": "foot", "solver": "AIM"},
    ],
    ids=["two-bone", "fabrik", "ccd", "aim"],
)
def test_a_pole_is_placed_where_the_limb_bends(
    given: dict[str, Any], angle: float, influence: float, mode: str
) -> None:
    ob = armature("Rig")
    ob.location, ob.rotation_euler, ob.scale = (1.0, 2.0, 0.5), (0.3, 0.2, 1.0), (0.5, 0.5, 0.5)
    update()
    bpy.ops.ik_chain.add(object="Rig", name="leg", **given)
    chain = ob.ik_chains["leg"]
    chain.pole_angle, chain.influence = angle, influence
    chain.target_location = np.array(chain.target_location) + (0.03, -0.1, 0.1)
    update()
    before = pose(ob).astype(float)
    assert bpy.ops.ik_chain.place_pole(object="Rig", mode=mode) == {"FINISHED"}
    update()
    assert chain.pole_mode == mode and any(chain.pole_location)
    assert_still(before, pose(ob).astype(float))


def test_placing_a_pole_keys_it_where_it_is_animated() -> None:
    ob = make()
    chain = ob.ik_chains["leg"]
    chain.keyframe_insert("pole_mode", frame=1)
    chain.keyframe_insert("pole_location", frame=1)
    bpy.ops.ik_chain.place_pole(object="Rig", mode="POINT")
    assert frames_of(ob, ".pole_location") == [[1, NOW]] * 3
    assert frames_of(ob, ".pole_mode") == [[1, NOW]]
    go_to(NOW)
    assert chain.pole_mode == "POINT"
    go_to(1)
    assert chain.pole_mode == "AUTO"


def test_a_planar_limb_has_no_use_for_a_pole() -> None:
    ob = make()
    ob.ik_chains["leg"].use_planar = True
    before = dump()
    with pytest.raises(RuntimeError, match="no use for a pole"):
        bpy.ops.ik_chain.place_pole(object="Rig")
    assert differences(before, dump()) == []
