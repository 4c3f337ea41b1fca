# SPDX-License-Identifier: GPL-3.0-or-later
"""What a chain writes never becomes the FK pose, and what a user sets always does."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import bpy
import numpy as np
import pytest
from bone_rigs import (
    LEG_LENGTH,
    action_curves,
    armature,
    empty,
    go_to,
    head,
    key_rotation,
    pose,
    poses,
    rotation_property,
    update,
)

from ik_addon.blender import chain_bones, chains

pytestmark = pytest.mark.usefixtures("fresh")

FRAMES = list(range(1, 13))
ON_TARGET = 2e-6 * LEG_LENGTH
TARGET = (0.15, -0.2, 0.2)
# Every rotation mode stores the same turns: about X, then a little about Z.
MODES = ("QUATERNION", "XYZ", "ZXY", "AXIS_ANGLE")


def key_all(ob: bpy.types.Object) -> None:
    key_rotation(ob, "thigh", {1: (0.98, 0.2, 0, 0), 6: (0.95, -0.2, 0.1, 0.2), 12: (1, 0, 0, 0)})
    key_rotation(ob, "shin", {1: (1, 0, 0, 0), 9: (0.9, 0.4, 0, 0), 12: (0.95, 0.3, 0, 0.05)})


def pose_by_hand(ob: bpy.types.Object) -> None:
    ob.pose.bones["thigh"].rotation_quaternion = (0.97, 0.2, 0.05, 0.1)
    ob.pose.bones["shin"].rotation_quaternion = (0.9, -0.4, 0.0, 0.02)


def key_thigh_alone(ob: bpy.types.Object) -> None:
    pose_by_hand(ob)
    key_rotation(ob, "thigh", {1: (0.98, 0.2, 0, 0), 12: (0.95, -0.2, 0.1, 0.2)})


def key_one_component(ob: bpy.types.Object) -> None:
    """X of an Euler bone is keyed, Y and Z are not."""
    thigh = ob.pose.bones["thigh"]
    thigh.rotation_mode = "XYZ"
    thigh.rotation_euler = (0.1, 0.2, -0.1)
    for frame, angle in ((1, 0.0), (12, -0.6)):
        thigh.rotation_euler[0] = angle
        thigh.keyframe_insert("rotation_euler", index=0, frame=frame)


def drive(ob: bpy.types.Object, bone: str) -> None:
    """X of an Euler bone turns by 0.05 a frame, by a driver."""
    ob.pose.bones[bone].rotation_mode = "XYZ"
    curve = ob.pose.bones[bone].driver_add("rotation_euler", 0)
    for modifier in list(curve.modifiers):
        curve.modifiers.remove(modifier)
    curve.modifiers.new("GENERATOR").coefficients = (0.0, -0.05)
    curve.driver.type = "SUM"
    variable = curve.driver.variables.new()
    variable.targets[0].id_type = "SCENE"
    variable.targets[0].id = bpy.context.scene
    variable.targets[0].data_path = "frame_current"


def drive_hips(ob: bpy.types.Object) -> None:
    pose_by_hand(ob)
    drive(ob, "hips")


def play_from_nla(ob: bpy.types.Object) -> None:
    key_all(ob)
    data = ob.animation_data
    action, slot = data.action, getattr(data, "action_slot", None)
    strip = data.nla_tracks.new().strips.new("walk", 1, action)
    data.action = None
    if slot is not None:
        strip.action_slot = action.slots[0]


FK: dict[str, Callable[[bpy.types.Object], None]] = {
    "keyed": key_all,
    "by hand": pose_by_hand,
    "one bone keyed": key_thigh_alone,
    "one component keyed": key_one_component,
    "parent driven": drive_hips,
    "from the NLA": play_from_nla,
}


@pytest.fixture(params=FK)
def rig(request: pytest.FixtureRequest, fresh: Any) -> bpy.types.Object:
    ob = armature()
    FK[request.param](ob)
    go_to(1)
    return ob


def add_leg(ob: bpy.types.Object, **settings: Any) -> bpy.types.PropertyGroup:
    chain = chains.add(ob, "thigh", "foot", name="leg", use_tail=False, **settings)
    update()
    return chain


def off(ob: bpy.types.Object, target: Any = TARGET) -> float:
    return float(np.linalg.norm(head(ob, "foot") - np.array(target)))


def test_adding_moves_nothing(rig: bpy.types.Object) -> None:
    before = pose(rig)
    add_leg(rig)
    assert np.abs(pose(rig) - before).max() <= 4e-6


def test_influence_zero_is_fk_to_the_bit(rig: bpy.types.Object) -> None:
    fk = poses(rig, FRAMES)
    chain = add_leg(rig, target_location=TARGET)
    live = poses(rig, FRAMES)
    assert np.abs(live - fk).max() > 0.05
    chain.influence = 0.0
    assert np.array_equal(poses(rig, FRAMES), fk)
    chain.influence = 1.0
    assert np.array_equal(poses(rig, FRAMES), live)


def test_mute_is_fk_to_the_bit(rig: bpy.types.Object) -> None:
    fk = poses(rig, FRAMES)
    chain = add_leg(rig, target_location=TARGET)
    poses(rig, FRAMES)
    chain.mute = True
    update()
    assert np.array_equal(pose(rig), fk[-1])
    assert np.array_equal(poses(rig, FRAMES), fk)


def test_removing_gives_fk_back_to_the_bit(rig: bpy.types.Object) -> None:
    fk = poses(rig, FRAMES)
    add_leg(rig, target_location=TARGET)
    poses(rig, FRAMES)
    chains.remove(rig, 0)
    update()
    assert np.array_equal(pose(rig), fk[-1])
    assert np.array_equal(poses(rig, FRAMES), fk)


def test_the_order_of_frames_does_not_matter(rig: bpy.types.Object) -> None:
    add_leg(rig, target_location=TARGET)
    forward = poses(rig, FRAMES)
    assert np.array_equal(poses(rig, FRAMES[::-1])[::-1], forward)
    order = np.random.default_rng(1).permutation(len(FRAMES) * 3) % len(FRAMES)
    assert np.array_equal(poses(rig, [FRAMES[i] for i in order]), forward[order])


def test_a_frame_seen_many_times_stays_the_same(rig: bpy.types.Object) -> None:
    add_leg(rig, target_location=TARGET)
    first = poses(rig, [5, 11])
    for _ in range(100):
        go_to(7)
        go_to(5)
        update()
    assert np.array_equal(poses(rig, [5, 11]), first)


def test_influence_keyed_down_and_up(rig: bpy.types.Object) -> None:
    fk = poses(rig, FRAMES)
    chain = add_leg(rig, target_location=TARGET)
    full = poses(rig, FRAMES)
    for frame, value in ((1, 1.0), (6, 0.0), (8, 0.0), (12, 1.0)):
        chain.influence = value
        chain.keyframe_insert("influence", frame=frame)
    for order in (FRAMES, FRAMES[::-1]):
        blended = dict(zip(order, poses(rig, order), strict=True))
        assert np.array_equal(blended[1], full[0]) and np.array_equal(blended[12], full[11])
        for frame in (6, 7, 8):
            assert np.array_equal(blended[frame], fk[frame - 1])
        assert not np.array_equal(blended[3], fk[2]) and not np.array_equal(blended[3], full[2])
    go_to(3)
    assert chain.status == "INFLUENCE"


def test_mute_keyed(rig: bpy.types.Object) -> None:
    fk = poses(rig, FRAMES)
    chain = add_leg(rig, target_location=TARGET)
    full = poses(rig, FRAMES)
    for frame, value in ((1, False), (4, True), (9, False)):
        chain.mute = value
        chain.keyframe_insert("mute", frame=frame)
    expected = np.concatenate([full[:3], fk[3:8], full[8:]])
    assert np.array_equal(poses(rig, FRAMES), expected)
    assert np.array_equal(poses(rig, FRAMES[::-1])[::-1], expected)


def test_a_reloaded_file_has_the_same_fk_and_the_same_solve(rig: bpy.types.Object, tmp_path: Path) -> None:
    fk = poses(rig, FRAMES)
    add_leg(rig, target_location=TARGET)
    live = poses(rig, FRAMES)
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "rig.blend"))
    bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "rig.blend"))
    rig = bpy.data.objects["Rig"]
    assert np.array_equal(pose(rig), live[-1]), "as loaded"
    assert np.array_equal(poses(rig, FRAMES), live)
    chains.remove(rig, 0)
    assert np.array_equal(poses(rig, FRAMES), fk)


def test_undo_and_redo_keep_fk(rig: bpy.types.Object) -> None:
    fk = poses(rig, FRAMES)
    add_leg(rig, target_location=TARGET)
    go_to(5)
    bpy.ops.ed.undo_push(message="leg")
    near = pose(rig)
    rig.ik_chains["leg"].target_location = (0.1, -0.3, 0.3)
    update()
    bpy.ops.ed.undo_push(message="target")
    moved = pose(rig)
    assert not np.array_equal(moved, near)
    bpy.ops.ed.undo()
    assert np.array_equal(pose(bpy.data.objects["Rig"]), near)
    bpy.ops.ed.redo()
    rig = bpy.data.objects["Rig"]
    assert np.array_equal(pose(rig), moved)
    rig.ik_chains["leg"].influence = 0.0
    assert np.array_equal(poses(rig, FRAMES), fk)


def test_keys_set_elsewhere_leave_fk_alone(rig: bpy.types.Object) -> None:
    """Setting a key makes Blender run all curves of the object again, without a new frame."""
    fk = poses(rig, FRAMES)
    chain = add_leg(rig, target_location=TARGET)
    go_to(5)
    live = pose(rig)
    rig.pose.bones["foot"].keyframe_insert("scale", frame=5)
    rig.ik_chains["leg"].keyframe_insert("softness", frame=5)
    update()
    assert np.array_equal(pose(rig), live)
    rig.ik_chains["leg"].target_location[2] += 0.05
    update()
    chain.influence = 0.0
    update()
    assert np.array_equal(pose(rig), fk[4])
    assert np.array_equal(poses(rig, FRAMES), fk)


def test_both_rigs_of_a_full_copy_keep_their_own(rig: bpy.types.Object) -> None:
    """A copy made while the chain is live has the same FK, and one's edit is not the other's."""
    fk = poses(rig, FRAMES)
    add_leg(rig, target_location=TARGET)
    live = poses(rig, FRAMES)
    copy = rig.copy()
    copy.data = rig.data.copy()
    bpy.context.scene.collection.objects.link(copy)
    assert np.array_equal(poses(copy, FRAMES), live)
    copy.ik_chains["leg"].target_location = (0.1, -0.3, 0.3)
    assert np.array_equal(poses(rig, FRAMES), live)
    go_to(3)
    assert off(copy, (0.1, -0.3, 0.3)) <= ON_TARGET and off(rig) <= ON_TARGET
    chains.remove(copy, 0)
    assert np.array_equal(poses(copy, FRAMES), fk)
    assert np.array_equal(poses(rig, FRAMES), live)


def test_a_linked_copy_is_solved_on_its_own(rig: bpy.types.Object) -> None:
    fk = poses(rig, FRAMES)
    add_leg(rig, target_location=TARGET)
    live = poses(rig, FRAMES)
    copy = rig.copy()
    bpy.context.scene.collection.objects.link(copy)
    copy.ik_chains["leg"].target_location = (0.1, -0.3, 0.3)
    go_to(3)
    assert off(copy, (0.1, -0.3, 0.3)) <= ON_TARGET and off(rig) <= ON_TARGET
    chains.remove(rig, 0)
    assert np.array_equal(poses(rig, FRAMES), fk)
    copy.ik_chains["leg"].target_location = TARGET
    assert np.array_equal(poses(copy, FRAMES), live)


# Edits between two solves


@pytest.fixture
def by_hand(fresh: Any) -> bpy.types.Object:
    ob = armature()
    pose_by_hand(ob)
    update()
    return ob


@pytest.mark.parametrize("mode", MODES)
def test_a_value_set_by_script_becomes_fk(by_hand: bpy.types.Object, mode: str) -> None:
    thigh = by_hand.pose.bones["thigh"]
    thigh.rotation_mode = mode
    chain = add_leg(by_hand, target_location=TARGET)
    prop = rotation_property(by_hand, "thigh")
    value = {"QUATERNION": (0.9, -0.3, 0.3, 0.0), "AXIS_ANGLE": (0.7, 0.0, 0.6, 0.8)}.get(
        mode, (-0.5, 0.3, 0.1)
    )
    setattr(thigh, prop, value)
    update()
    assert off(by_hand) <= ON_TARGET, "the chain is solved from the new FK pose"
    chain.influence = 0.0
    update()
    assert np.array_equal(np.float32(getattr(thigh, prop)), np.float32(value))


def test_an_edit_while_the_influence_is_zero_becomes_fk(by_hand: bpy.types.Object) -> None:
    chain = add_leg(by_hand, target_location=TARGET)
    chain.influence = 0.0
    update()
    by_hand.pose.bones["shin"].rotation_quaternion = (0.8, -0.6, 0, 0)
    update()
    edited = pose(by_hand)
    chain.influence = 1.0
    update()
    assert off(by_hand) <= ON_TARGET
    chains.remove(by_hand, 0)
    update()
    assert np.array_equal(pose(by_hand), edited)


def test_a_key_set_on_the_solved_pose_holds(by_hand: bpy.types.Object) -> None:
    """Keying what is seen makes it FK: the pose stays when the chain goes."""
    add_leg(by_hand, target_location=TARGET)
    solved = pose(by_hand)
    for bone in ("thigh", "shin"):
        by_hand.pose.bones[bone].keyframe_insert("rotation_quaternion", frame=1)
    go_to(1)
    chains.remove(by_hand, 0)
    update()
    assert np.abs(pose(by_hand) - solved).max() <= 2e-6


@pytest.mark.parametrize("keyed", [(0,), (0, 2), (0, 1, 2)])
@pytest.mark.parametrize("mode", ["XYZ", "QUATERNION"])
def test_an_edited_curve_leaves_the_other_components_alone(
    by_hand: bpy.types.Object, mode: str, keyed: tuple[int, ...]
) -> None:
    """Blender evaluates curves again when one is edited, with no frame change."""
    thigh, prop = by_hand.pose.bones["thigh"], "rotation_euler" if mode == "XYZ" else "rotation_quaternion"
    thigh.rotation_mode = mode
    for index in keyed:
        thigh.keyframe_insert(prop, index=index, frame=1)
    go_to(1)
    wanted = np.array(getattr(thigh, prop), np.float32)
    chain = add_leg(by_hand, target_location=TARGET)
    action = by_hand.animation_data.action
    for step in range(1, 4):
        wanted[0] = np.float32(wanted[0] + 0.1 * step)
        action_curves(by_hand)[0].keyframe_points[0].co[1] = wanted[0]
        action.update_tag()
        update()
        assert off(by_hand) <= ON_TARGET
    chain.influence = 0.0
    update()
    assert np.array_equal(np.float32(getattr(thigh, prop)), wanted)


def test_removed_keys_leave_the_last_fk_value(by_hand: bpy.types.Object) -> None:
    key_all(by_hand)
    go_to(6)
    add_leg(by_hand, target_location=TARGET)
    by_hand.animation_data_clear()
    chains.remove(by_hand, 0)
    update()
    fk = np.array((0.95, -0.2, 0.1, 0.2), np.float32)
    assert np.array_equal(np.float32(by_hand.pose.bones["thigh"].rotation_quaternion), fk)


def test_muted_curves_are_no_longer_fk(by_hand: bpy.types.Object) -> None:
    key_all(by_hand)
    go_to(6)
    chain = add_leg(by_hand, target_location=TARGET)
    for curve in action_curves(by_hand):
        curve.mute = True
    thigh = by_hand.pose.bones["thigh"]
    thigh.rotation_quaternion = (0.9, 0.1, 0.4, 0.0)
    update()
    go_to(8)
    assert off(by_hand) <= ON_TARGET
    chain.influence = 0.0
    update()
    assert np.array_equal(np.float32(thigh.rotation_quaternion), np.float32((0.9, 0.1, 0.4, 0.0)))


@pytest.mark.parametrize("after", MODES[1:])
def test_another_rotation_mode_keeps_fk(by_hand: bpy.types.Object, after: str) -> None:
    """Blender converts the channel on a change of mode; the FK value behind it must follow."""
    update()
    fk = pose(by_hand)
    chain = add_leg(by_hand, target_location=TARGET)
    for bone in ("thigh", "shin"):
        by_hand.pose.bones[bone].rotation_mode = after
    update()
    assert off(by_hand) <= ON_TARGET
    chain.influence = 0.0
    update()
    assert np.abs(pose(by_hand) - fk).max() <= 2e-6
    for bone in ("thigh", "shin"):
        by_hand.pose.bones[bone].rotation_mode = "QUATERNION"
    chain.influence = 1.0
    update()
    assert off(by_hand) <= ON_TARGET
    chains.remove(by_hand, 0)
    update()
    assert np.abs(pose(by_hand) - fk).max() <= 2e-6


def test_bones_that_leave_the_chain_get_fk_back(by_hand: bpy.types.Object) -> None:
    fk = pose(by_hand)
    chain = add_leg(by_hand, target_location=TARGET)
    chain.end_bone = "shin"
    chain.root_bone = "hips"
    chain.solver = "TWO_BONE"
    update()
    shin = [bone.name for bone in by_hand.pose.bones].index("shin")
    # The shin turns with the thigh above it; its own channel is FK again.
    local = np.linalg.inv(pose(by_hand)[shin - 1].astype(float)) @ pose(by_hand)[shin]
    before = np.linalg.inv(fk[shin - 1].astype(float)) @ fk[shin]
    assert np.abs(local - before).max() <= 2e-6
    chains.remove(by_hand, 0)
    update()
    assert np.array_equal(pose(by_hand), fk)


def test_a_driven_rotation_is_refused_with_words(by_hand: bpy.types.Object) -> None:
    """Blender runs a driver after each write, so no chain can turn such a bone."""
    chain = add_leg(by_hand, target_location=TARGET)
    drive(by_hand, "thigh")
    fk = []
    for frame in (2, 9):
        go_to(frame)
        assert chain.status == "BROKEN" and "thigh" in chain.message and "driver" in chain.message
        fk.append(pose(by_hand))
    chains.remove(by_hand, 0)
    assert np.array_equal(poses(by_hand, (2, 9)), np.stack(fk)), "held still at FK"
    before = len(by_hand.ik_chains)
    with pytest.raises(chain_bones.ChainError, match="thigh.*driver"):
        add_leg(by_hand, target_location=TARGET)
    assert len(by_hand.ik_chains) == before


def test_a_driven_influence_is_followed(by_hand: bpy.types.Object) -> None:
    chain = add_leg(by_hand, target_location=TARGET)
    by_hand["weight"] = 0.0
    curve = by_hand.driver_add("ik_chains[0].influence")
    variable = curve.driver.variables.new()
    curve.driver.type = "SUM"
    variable.targets[0].id, variable.targets[0].data_path = by_hand, '["weight"]'
    for weight, on_target in ((0.0, False), (1.0, True), (0.0, False)):
        by_hand["weight"] = weight
        by_hand.update_tag()
        update()
        assert (off(by_hand) <= ON_TARGET) == on_target
        assert chain.status == ("OK" if on_target else "INFLUENCE")


def test_a_driven_target_is_followed_in_the_same_frame(by_hand: bpy.types.Object) -> None:
    goal = empty("Goal", (0.1, -0.2, 0.2))
    curve = goal.driver_add("location", 2)
    for modifier in list(curve.modifiers):
        curve.modifiers.remove(modifier)
    curve.modifiers.new("GENERATOR").coefficients = (0.1, 0.03)
    curve.driver.type = "SUM"
    variable = curve.driver.variables.new()
    variable.targets[0].id_type = "SCENE"
    variable.targets[0].id, variable.targets[0].data_path = bpy.context.scene, "frame_current"
    add_leg(by_hand, target_space="CUSTOM", target=goal, target_location=(0, 0, 0))
    for frame in (1, 7, 12, 3):
        go_to(frame)
        assert off(by_hand, (0.1, -0.2, 0.1 + 0.03 * frame)) <= ON_TARGET


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("where", ["setting", "object"])
def test_a_target_that_is_no_number_leaves_the_fk_pose_in_memory(
    by_hand: bpy.types.Object, where: str
) -> None:
    fk = pose(by_hand)
    goal = empty("Goal", TARGET)
    chain = add_leg(by_hand, target_space="CUSTOM", target=goal, target_location=(0, 0, 0))
    if where == "setting":
        chain.target_location.x = float("nan")
    else:
        goal.location.x = float("nan")
    update()
    assert chain.status == "BROKEN" and chain.residual == 0.0
    assert np.array_equal(pose(by_hand), fk)
    chain.target_location.x, goal.location.x = 0.0, TARGET[0]
    update()
    assert off(by_hand) <= ON_TARGET
    chains.remove(by_hand, 0)
    update()
    assert np.array_equal(pose(by_hand), fk)


# Keys on bones that a chain poses


@pytest.mark.parametrize("influence", [0.0, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("mode", ["QUATERNION", "XYZ"])
def test_keying_the_fk_pose_moves_nothing_at_any_influence(
    by_hand: bpy.types.Object, mode: str, influence: float
) -> None:
    for bone in ("thigh", "shin"):
        by_hand.pose.bones[bone].rotation_mode = mode
    update()
    fk = pose(by_hand)
    chain = add_leg(by_hand, target_location=TARGET, influence=influence)
    seen = pose(by_hand)
    assert bpy.ops.ik_chain.key_fk(object=by_hand.name) == {"FINISHED"}
    keyed = {curve.data_path for curve in action_curves(by_hand)}
    assert keyed == {f'pose.bones["{name}"].{rotation_property(by_hand, name)}' for name in ("thigh", "shin")}
    update()
    assert np.abs(pose(by_hand) - seen).max() <= 2e-6
    for frame in (7, 1):
        go_to(frame)
        assert np.abs(pose(by_hand) - seen).max() <= 2e-6, "one key holds on all frames"
    chain.mute = True
    update()
    assert np.abs(pose(by_hand) - fk).max() <= 2e-6


def test_a_key_set_on_the_bones_themselves_is_the_blended_pose_and_becomes_fk(
    by_hand: bpy.types.Object,
) -> None:
    """As docs/settings.md says: at half influence the next frame blends on from there."""
    chain = add_leg(by_hand, target_location=TARGET, influence=0.5)
    seen = pose(by_hand)
    for bone in ("thigh", "shin"):
        by_hand.pose.bones[bone].keyframe_insert("rotation_quaternion", frame=1)
    go_to(2)
    nearer = off(by_hand)
    chain.mute = True
    go_to(3)
    assert np.abs(pose(by_hand) - seen).max() <= 2e-6
    assert nearer < 0.9 * off(by_hand)


def test_fk_of_a_moved_and_a_stretched_bone_is_keyed_too(by_hand: bpy.types.Object) -> None:
    fk = pose(by_hand)
    chain = add_leg(
        by_hand, target_location=(0.9, 0.0, 0.2), limit_mode="MOVE_ROOT", move_bone="hips", move_max=2.0
    )
    moved = pose(by_hand)
    assert np.abs(moved - fk).max() > 0.1
    bpy.ops.ik_chain.key_fk(object=by_hand.name)
    chain.limit_mode, chain.stretch_max = "STRETCH", 1.0
    update()
    bpy.ops.ik_chain.key_fk(object=by_hand.name)
    keyed = {curve.data_path.rpartition(".")[2] for curve in action_curves(by_hand)}
    assert keyed == {"rotation_quaternion", "location", "scale"}
    chain.mute = True
    go_to(4)
    assert np.abs(pose(by_hand) - fk).max() <= 2e-6


def test_keying_fk_keeps_an_edit_that_has_no_key_yet(by_hand: bpy.types.Object) -> None:
    """A bone with curves, turned by hand: that pose is keyed, as Blender's own key would."""
    key_all(by_hand)
    go_to(3)
    add_leg(by_hand, target_location=TARGET, influence=0.0)
    edited = (0.9, 0.1, 0.3, 0.0)
    by_hand.pose.bones["thigh"].rotation_quaternion = edited
    update()
    bpy.ops.ik_chain.key_fk(object=by_hand.name)
    go_to(8)
    go_to(3)
    assert np.allclose(by_hand.pose.bones["thigh"].rotation_quaternion, edited, atol=1e-6)


def test_fk_that_a_driver_or_a_strip_sets_takes_no_key(by_hand: bpy.types.Object) -> None:
    add_leg(by_hand, target_location=TARGET)
    play_from_nla(by_hand)
    go_to(2)
    with pytest.raises(RuntimeError, match="is set by NLA strip 'walk', which takes no key"):
        bpy.ops.ik_chain.key_fk(object=by_hand.name)
    assert by_hand.animation_data.action is None
