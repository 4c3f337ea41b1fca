# SPDX-License-Identifier: GPL-3.0-or-later
"""Snapping FK to IK and back: switching the chain on or off afterwards moves nothing."""

import math
from typing import Any

import bpy
import numpy as np
import pytest
from mathutils import Matrix, Vector
from rig_state import differences, dump, make_empty, make_rig, pose

from ik_addon.blender import placing

# Field figures: metres, radians.
OFFSET, ANGLE = 1e-4, math.radians(0.05)


@pytest.fixture
def rig(fresh: Any) -> bpy.types.Object:
    return make_rig()


def apart(a: dict[str, Any], b: dict[str, Any], scale: float = 1.0) -> tuple[float, float]:
    """Largest distance of bone heads, in units of `scale`, and largest angle between bones."""
    moved, turned = 0.0, 0.0
    for name in a:
        first, second = Matrix(a[name]), Matrix(b[name])
        moved = max(moved, (first.translation - second.translation).length / scale)
        # Ratios of columns, since mirrored objects have no rotation of their own.
        angles = [x.angle(y) for x, y in zip(first.to_3x3().col, second.to_3x3().col, strict=True)]
        turned = max(turned, *angles)
    return moved, turned


def assert_equal_poses(a: dict[str, Any], b: dict[str, Any], scale: float = 1.0) -> None:
    moved, turned = apart(a, b, scale)
    assert moved < OFFSET
    assert turned < ANGLE


def without_ik(ob: bpy.types.Object) -> dict[str, Any]:
    """The pose with all chains muted."""
    muted = [chain.mute for chain in ob.ik_chains]
    for chain in ob.ik_chains:
        chain.mute = True
    fk = pose(ob)
    for chain, mute in zip(ob.ik_chains, muted, strict=True):
        chain.mute = mute
    return fk


def turn(ob: bpy.types.Object, seed: int = 0, amount: float = 0.15) -> None:
    """Another FK pose of the leg, in which the whole leg lies in a plane of its own."""
    rng = np.random.default_rng(seed)
    for name in ("hips", "thigh", "foot"):
        bone = ob.pose.bones[name]
        bone.rotation_mode = "QUATERNION"
        bone.rotation_quaternion = (1.0, *rng.normal(0.0, amount, 3))
    ob.pose.bones["shin"].rotation_mode = "XYZ"
    ob.pose.bones["shin"].rotation_euler = (rng.uniform(0.1, 0.8), rng.normal(0.0, amount), 0.0)


def make_target(kind: str, ob: bpy.types.Object) -> dict[str, str]:
    """Settings of `ik_chain.add` for a target space."""
    if kind == "bone":
        return {"target": ob.name, "subtarget": "control"}
    if kind == "object":
        door = make_empty("Door", (0.4, -0.3, 0.2))
        door.rotation_euler, door.scale = (0.4, 1.0, 2.0), (3.0, 3.0, 3.0)
        return {"target": "Door"}
    return {"target_space": kind}


def bring_into_reach(ob: bpy.types.Object, chain: Any) -> None:
    """Move the target beside the line from the tip to the chain's first bone."""
    fk = without_ik(ob)
    root, tip = (Matrix(fk[name]).translation for name in (chain.root_bone or chain.end_bone, chain.end_bone))
    point = root.lerp(tip, 0.9) + Vector((0.02, -0.03, 0.01))
    space = placing.space_matrix(ob, chain.target_space, chain.target, chain.subtarget)
    chain.target_location = space.inverted() @ point


SPACES = ("WORLD", "ARMATURE", "object", "bone")
CHAINS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "two-bone": ({"end_bone": "shin"}, {}),
    "rotation": ({"end_bone": "foot", "use_tail": False}, {"use_rotation": True}),
    "pole point": (
        {"end_bone": "foot", "use_tail": False}, {"pole_mode": "POINT", "pole_location": (0.3, -1.0, 0.5)}
    ),
    "pole direction": (
        {"end_bone": "shin"},
        {
            "pole_mode": "DIRECTION",
            "pole_space": "WORLD",
            "pole_location": (0.3, -1.0, 0.1),
            "pole_angle": 0.7,
        },
    ),
    "pole on the line": (
        {"end_bone": "shin"}, {"pole_mode": "DIRECTION", "pole_location": (0.0, 0.0, -1.0)}
    ),
    "soft": ({"end_bone": "shin"}, {"softness": 0.2}),
    "fabrik": ({"root_bone": "hips", "end_bone": "foot"}, {}),
    "fabrik with pole": (
        {"root_bone": "thigh", "end_bone": "foot"}, {"pole_mode": "POINT", "pole_location": (0.3, -1.0, 0.5)}
    ),
    "look at": ({"end_bone": "foot", "solver": "AIM"}, {"aim_axis": "-Z", "up_axis": "X"}),
    "look at with pole": (
        {"end_bone": "foot", "solver": "AIM"}, {"pole_mode": "POINT", "pole_location": (0.3, -1.0, 2.0)}
    ),
    "match rotation": (
        {"end_bone": "foot", "solver": "AIM"}, {"aim_mode": "MATCH_ROTATION", "offset_yaw": 0.4}
    ),
}  # fmt: skip


def add(ob: bpy.types.Object, given: dict[str, Any], settings: dict[str, Any]) -> Any:
    bpy.ops.ik_chain.add(object=ob.name, **given)
    chain = ob.ik_chains[-1]
    for name, value in settings.items():
        setattr(chain, name, value)
    return chain


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("kind", CHAINS)
def test_ik_takes_the_fk_pose(rig: bpy.types.Object, kind: str, space: str) -> None:
    given, settings = CHAINS[kind]
    rig.location, rig.rotation_euler, rig.scale = (1.0, 2.0, 0.5), (0.3, 0.2, 1.0), (0.5, 0.5, 0.5)
    add(rig, {**given, **make_target(space, rig)}, settings)
    for seed in range(3):
        turn(rig, seed)
        fk = without_ik(rig)
        assert apart(pose(rig), fk)[1] > 0.01
        assert bpy.ops.ik_chain.snap_ik(object="Rig") == {"FINISHED"}
        assert_equal_poses(pose(rig), fk)
        assert_equal_poses(without_ik(rig), fk)


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("kind", CHAINS)
def test_fk_takes_the_ik_pose(rig: bpy.types.Object, kind: str, space: str) -> None:
    given, settings = CHAINS[kind]
    rig.location, rig.rotation_euler, rig.scale = (1.0, 2.0, 0.5), (0.3, 0.2, 1.0), (0.5, 0.5, 0.5)
    chain = add(rig, {**given, **make_target(space, rig)}, settings)
    turn(rig)
    bring_into_reach(rig, chain)
    chain.target_rotation = (0.8, 0.2, 0.5, 0.1)
    ik = pose(rig)
    assert chain.status != "TARGET_FAR" or chain.softness > 0.0
    assert apart(ik, without_ik(rig))[1] > 0.01
    assert bpy.ops.ik_chain.snap_fk(object="Rig") == {"FINISHED"}
    assert_equal_poses(pose(rig), ik)
    assert_equal_poses(without_ik(rig), ik)
    assert len(bpy.data.actions) == 0


@pytest.mark.parametrize("scale", [0.01, 100.0, -1.0])
@pytest.mark.parametrize("kind", ["rotation", "pole point", "soft", "look at"])
def test_any_object_scale(rig: bpy.types.Object, kind: str, scale: float) -> None:
    given, settings = CHAINS[kind]
    rig.scale = (scale,) * 3
    add(rig, given, settings)
    turn(rig)
    fk = without_ik(rig)
    bpy.ops.ik_chain.snap_ik()
    assert_equal_poses(pose(rig), fk, abs(scale))


def test_the_planar_solver_takes_the_bend_side_of_the_fk_pose(rig: bpy.types.Object) -> None:
    chain = add(rig, {"end_bone": "shin"}, {"use_planar": True, "planar_axis": "X"})
    for bend in (0.8, -0.8):
        rig.pose.bones["shin"].rotation_mode = "XYZ"
        rig.pose.bones["shin"].rotation_euler = (bend, 0.0, 0.0)
        chain.bend_sign = 1
        fk = without_ik(rig)
        bpy.ops.ik_chain.snap_ik()
        assert_equal_poses(pose(rig), fk)


def test_a_pose_that_the_solver_cannot_take_is_reported(rig: bpy.types.Object, capfd: Any) -> None:
    add(rig, {"end_bone": "shin"}, {"use_planar": True, "planar_axis": "X"})
    rig.pose.bones["thigh"].rotation_quaternion = (0.9, 0.0, 0.3, 0.3)
    assert bpy.ops.ik_chain.snap_ik() == {"FINISHED"}
    assert "no pose nearer to FK than" in capfd.readouterr().out


@pytest.mark.parametrize("kind", CHAINS)
def test_fifty_round_trips_do_not_drift(rig: bpy.types.Object, kind: str) -> None:
    given, settings = CHAINS[kind]
    rig.location, rig.rotation_euler, rig.scale = (1.0, 2.0, 0.5), (0.3, 0.2, 1.0), (0.5, 0.5, 0.5)
    chain = add(rig, given, settings)
    turn(rig)
    chain.target_location[0] += 0.1
    start = pose(rig)
    for _ in range(50):
        bpy.ops.ik_chain.snap_fk()
        bpy.ops.ik_chain.snap_ik()
    assert_equal_poses(pose(rig), start)
    assert_equal_poses(without_ik(rig), start)


@pytest.mark.parametrize("influence", [0.0, 0.4])
def test_afterwards_the_influence_makes_no_difference(rig: bpy.types.Object, influence: float) -> None:
    chain = add(rig, {"end_bone": "shin"}, {})
    chain.target_location[0] += 0.2
    solved = pose(rig)
    chain.influence = influence
    bpy.ops.ik_chain.snap_fk()
    assert_equal_poses(pose(rig), solved)
    chain.mute = True
    assert_equal_poses(pose(rig), solved)


# Keys


def keys(ob: bpy.types.Object) -> dict[tuple[str, int], list[float]]:
    """Frames of the keys, by data path and index."""
    actions = dump()["actions"]
    curves = actions[ob.animation_data.action.name] if actions else []
    return {(path, index): [frame for frame, _ in points] for _, path, index, _, points in curves}


def test_fk_is_keyed_where_it_is_animated_and_has_changed(rig: bpy.types.Object) -> None:
    chain = add(rig, {"end_bone": "foot", "use_tail": False}, {})
    thigh, shin = rig.pose.bones["thigh"], rig.pose.bones["shin"]
    thigh.rotation_mode = "XYZ"
    for bone, prop in ((thigh, "rotation_euler"), (rig.pose.bones["foot"], "rotation_quaternion")):
        bone.keyframe_insert(prop, frame=1)
    before = keys(rig)
    bpy.context.scene.frame_set(10)
    chain.target_location[0] += 0.2
    solved = pose(rig)
    bpy.ops.ik_chain.snap_fk()
    after = keys(rig)
    assert {key for key in after if after[key] != before.get(key)} == {
        (thigh.path_from_id("rotation_euler"), index) for index in range(3)
    }
    assert after[thigh.path_from_id("rotation_euler"), 0] == [1.0, 10.0]
    chain.mute = True
    for frame in (3, 10):
        bpy.context.scene.frame_set(frame)
    assert_equal_poses(pose(rig), solved)
    assert shin.ik_held_rotation[-1] == 0 or tuple(shin.ik_held_rotation[:4]) != (1.0, 0.0, 0.0, 0.0)
    bpy.ops.ik_chain.snap_fk()
    assert keys(rig) == after


def test_fk_is_keyed_with_auto_keying(rig: bpy.types.Object) -> None:
    chain = add(rig, {"end_bone": "shin"}, {})
    chain.target_location[0] += 0.2
    pose(rig)
    bpy.context.scene.tool_settings.use_keyframe_insert_auto = True
    bpy.ops.ik_chain.snap_fk()
    bones = {path.split('"')[1] for path, _ in keys(rig)}
    assert bones == {"thigh", "shin"}


def test_the_target_is_keyed_where_it_is_animated(rig: bpy.types.Object) -> None:
    add(rig, {"end_bone": "foot", "use_tail": False, "name": "arm"}, {"use_rotation": True})
    chain = add(rig, {"end_bone": "foot", "use_tail": False, "name": "leg"}, {"use_rotation": True})
    rig.ik_chains["arm"].mute = True
    chain.keyframe_insert("target_location", frame=1)
    bpy.context.scene.frame_set(5)
    turn(rig)
    fk = without_ik(rig)
    bpy.ops.ik_chain.snap_ik(chain="leg")
    assert keys(rig) == {("ik_chains[1].target_location", index): [1.0, 5.0] for index in range(3)}
    assert_equal_poses(pose(rig), fk)
    bpy.context.scene.frame_set(1)
    bpy.context.scene.frame_set(5)
    assert_equal_poses(pose(rig), fk)
    bpy.ops.ik_chain.snap_ik(chain="leg")
    assert all(frames == [1.0, 5.0] for frames in keys(rig).values())


def refused(operator: Any, **properties: Any) -> str:
    before = dump()
    with pytest.raises(RuntimeError) as caught:
        operator(**properties)
    assert differences(before, dump()) == []
    return str(caught.value)


def test_a_driven_channel_is_refused(rig: bpy.types.Object) -> None:
    chain = add(rig, {"end_bone": "shin"}, {})
    curve = rig.pose.bones["shin"].driver_add("rotation_quaternion", 1)
    curve.driver.type, curve.driver.expression = "SCRIPTED", "0.1"
    chain.target_location[0] += 0.2
    pose(rig)
    assert "driver" in refused(bpy.ops.ik_chain.snap_fk)
    curve = rig.driver_add("ik_chains[0].target_location", 2)
    curve.driver.type, curve.driver.expression = "SCRIPTED", "0.1"
    turn(rig)
    assert "driver" in refused(bpy.ops.ik_chain.snap_ik)


def test_a_channel_in_the_nla_is_refused(rig: bpy.types.Object) -> None:
    chain = add(rig, {"end_bone": "shin"}, {})
    rig.pose.bones["thigh"].keyframe_insert("rotation_quaternion", frame=1)
    data = rig.animation_data
    data.nla_tracks.new().strips.new("walk", 1, data.action)
    data.action = None
    chain.target_location[0] += 0.2
    pose(rig)
    assert "NLA strip 'walk'" in refused(bpy.ops.ik_chain.snap_fk)


def test_a_broken_chain_is_refused(rig: bpy.types.Object) -> None:
    chain = add(rig, {"end_bone": "shin"}, {})
    chain.end_bone = "gone"
    pose(rig)
    assert "'gone' does not exist" in refused(bpy.ops.ik_chain.snap_fk)
    assert "'gone' does not exist" in refused(bpy.ops.ik_chain.snap_ik)


def test_a_hidden_rig_can_be_snapped(rig: bpy.types.Object) -> None:
    chain = add(rig, {"end_bone": "shin"}, {})
    chain.target_location[0] += 0.2
    solved = pose(rig)
    rig.hide_viewport = True
    chain.target_location[0] -= 0.2
    bpy.context.view_layer.update()
    chain.target_location[0] += 0.2
    bpy.ops.ik_chain.snap_fk(object="Rig", chain="shin")
    rig.hide_viewport = False
    assert_equal_poses(without_ik(rig), solved)
