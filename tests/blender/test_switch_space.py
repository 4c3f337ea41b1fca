# SPDX-License-Identifier: GPL-3.0-or-later
"""Targets and poles change their space and stay where they are.

What is compared is where Blender evaluates the limb, and where its own matrices put the target.
"""

import itertools
import math
from collections.abc import Iterable
from typing import Any

import bpy
import numpy as np
import pytest
from bone_rigs import (
    LEG,
    action_curves,
    armature,
    bone_world,
    empty,
    evaluated,
    go_to,
    pose,
    poses,
    update,
    world,
)
from rig_state import NOISE, differences, dump
from rig_state import pose as pose_by_name

pytestmark = pytest.mark.usefixtures("fresh")

# Field figures: metres, radians.
OFFSET, ANGLE = 1e-5, math.radians(0.01)
FRAMES = range(1, 41)
NOW = 20
WITH_CONTROL = (*LEG, ("control", "", (0.4, -0.2, 0.3), (0.4, 0.0, 0.4)))

# Of the rig and of the door: do they move, do they turn, their scale.
PARENTS: dict[str, tuple[bool, bool, tuple[float, float, float]]] = {
    "moving": (True, False, (1.0, 1.0, 1.0)),
    "turning": (True, True, (1.0, 1.0, 1.0)),
    "scaled": (True, True, (0.5, 0.5, 0.5)),
    "uneven": (True, True, (1.5, 1.0, 0.7)),
    "mirrored": (True, True, (-1.0, 1.0, 1.0)),
}
SPACES = ("WORLD", "ARMATURE", "object", "own bone", "bone of another")

PAIRS = [pair for pair in itertools.permutations(SPACES, 2) if not all(kind in SPACES[2:] for kind in pair)]
# Every pair of spaces under one kind of parents, every kind of parents with some pairs.
SOME = (("WORLD", "ARMATURE"), ("ARMATURE", "WORLD"), ("WORLD", "object"), ("own bone", "WORLD"))
CASES = [
    pytest.param(pair, parents, id="-".join((*pair, parents)))
    for pair, parents in dict.fromkeys(
        [*((pair, "uneven") for pair in PAIRS), *itertools.product(SOME, PARENTS)]
    )
]


def make(parents: str = "moving") -> bpy.types.Object:
    """A rig with a leg, a door and another rig, all of which move."""
    moves, turns, scale = PARENTS[parents]
    ob, door, other = armature("Rig", WITH_CONTROL), empty("Door", (0.5, 0.2, 0.1)), armature("Other")
    for place, item in enumerate((ob, door, other)):
        item.scale = scale
        for frame, way in ((1, 0.0), (NOW, 0.3), (40, 1.0)):
            if moves:
                item.location = (0.1 * place + 0.2 * way, -0.1 * way, 0.05 * place * way)
                item.keyframe_insert("location", frame=frame)
            if turns:
                item.rotation_euler = (0.3 * way + place, 0.2 * place * way, -0.5 * way)
                item.keyframe_insert("rotation_euler", frame=frame)
    for rig, bone in ((ob, "control"), (other, "thigh")):
        for frame, angle in ((1, 0.0), (40, 0.4)):
            rig.pose.bones[bone].rotation_quaternion = (1.0, angle, 0.0, 0.5 * angle)
            rig.pose.bones[bone].keyframe_insert("rotation_quaternion", frame=frame)
    bpy.ops.ik_chain.add(object="Rig", end_bone="foot", use_tail=False, name="leg")
    ob.ik_chains["leg"].use_rotation = True
    go_to(NOW)
    return ob


def named(kind: str) -> dict[str, str]:
    """The space as `ik_chain.switch_space` takes it."""
    return {
        "object": {"space": "CUSTOM", "target": "Door"},
        "own bone": {"space": "CUSTOM", "target": "Rig", "subtarget": "control"},
        "bone of another": {"space": "CUSTOM", "target": "Other", "subtarget": "shin"},
    }.get(kind, {"space": kind})


def put_into(ob: bpy.types.Object, kind: str, part: str = "TARGET") -> None:
    """Without any key."""
    if kind == (ob.ik_chains["leg"].target_space if part == "TARGET" else ob.ik_chains["leg"].pole_space):
        return
    assert switch(method="ALWAYS", part=part, **named(kind)) == {"FINISHED"}
    assert ob.animation_data is None or not chain_keys(ob)


def switch(**properties: Any) -> set[str]:
    return bpy.ops.ik_chain.switch_space(object="Rig", chain="leg", **properties)


def space_matrix(ob: bpy.types.Object, part: str = "TARGET") -> np.ndarray:
    chain = evaluated(ob).ik_chains["leg"]
    kind, target, bone = (
        (chain.target_space, chain.target, chain.subtarget)
        if part == "TARGET"
        else (chain.pole_space, chain.pole_target, chain.pole_subtarget)
    )
    if kind == "WORLD":
        return np.eye(4)
    if kind == "ARMATURE":
        return world(ob)
    return bone_world(target.original, bone) if bone else world(target.original)


def target_place(ob: bpy.types.Object, part: str = "TARGET") -> np.ndarray:
    """World position of the target or of the pole's point."""
    update()
    chain = evaluated(ob).ik_chains["leg"]
    location = chain.target_location if part == "TARGET" else chain.pole_location
    matrix = space_matrix(ob, part)
    return matrix[:3, :3] @ np.array(location, float) + matrix[:3, 3]


def motion(
    ob: bpy.types.Object, frames: Iterable[float], part: str = "TARGET"
) -> tuple[np.ndarray, np.ndarray]:
    """Target positions ``(F, 3)`` and poses ``(F, n, 4, 4)`` on frames."""
    places, poses = [], []
    for frame in frames:
        go_to(frame)
        places.append(target_place(ob, part))
        poses.append(pose(ob))
    return np.array(places), np.array(poses, np.float64)


def apart(a: np.ndarray, b: np.ndarray) -> tuple[float, float]:
    """Largest distance and angle between poses ``(..., 4, 4)`` without scale."""
    columns = np.einsum("...ij,...ij->...j", a[..., :3, :3], b[..., :3, :3])
    sizes = [np.linalg.norm(m[..., :3, :3], axis=-2) for m in (a, b)]
    across = np.linalg.norm(
        np.cross(np.swapaxes(a[..., :3, :3], -1, -2), np.swapaxes(b[..., :3, :3], -1, -2)), axis=-1
    )
    assert np.allclose(*sizes, atol=1e-5)
    moved = np.linalg.norm(a[..., :3, 3] - b[..., :3, 3], axis=-1)
    return float(moved.max()), float(np.arctan2(across, columns).max())


def assert_same(before: tuple[np.ndarray, np.ndarray], after: tuple[np.ndarray, np.ndarray]) -> None:
    assert np.abs(before[0] - after[0]).max() < OFFSET
    moved, turned = apart(before[1], after[1])
    assert moved < OFFSET
    assert turned < ANGLE


def key_target(ob: bpy.types.Object, frames: Iterable[int], rotation: bool = True) -> None:
    """Keys of a target that moves and turns, near where it is."""
    chain = ob.ik_chains["leg"]
    inverse = np.linalg.inv(space_matrix(ob))
    for frame in frames:
        ankle = bone_world(ob, "foot")[:3, 3] + 0.1 * np.array((math.sin(frame), math.cos(frame), 0.5))
        chain.target_location = inverse[:3, :3] @ ankle + inverse[:3, 3]
        chain.keyframe_insert("target_location", frame=frame)
        if rotation:
            chain.target_rotation = (1.0, 0.1 * math.sin(frame), 0.01 * frame, 0.1)
            chain.keyframe_insert("target_rotation", frame=frame)
    go_to(NOW)


def chain_keys(ob: bpy.types.Object) -> dict[str, list[list[tuple[float, float, str]]]]:
    """Frame, value and interpolation of the keys, by name of the setting."""
    found: dict[str, list[list[tuple[float, float, str]]]] = {}
    for curve in action_curves(ob) if ob.animation_data and ob.animation_data.action else ():
        if curve.data_path.startswith("ik_chains["):
            points = [(*k.co, k.interpolation) for k in curve.keyframe_points]
            found.setdefault(curve.data_path.rpartition(".")[2], []).append(points)
    return found


# A step


@pytest.mark.parametrize(("pair", "parents"), CASES)
def test_nothing_moves_on_the_switch_frame(pair: tuple[str, str], parents: str) -> None:
    ob = make(parents)
    put_into(ob, pair[0])
    ob.ik_chains["leg"].target_location[0] += 0.03
    before = motion(ob, FRAMES)
    go_to(NOW)
    assert switch(**named(pair[1])) == {"FINISHED"}
    update()
    assert_same(
        (before[0][NOW - 1 : NOW], before[1][NOW - 1 : NOW]), (target_place(ob)[None], pose(ob)[None])
    )
    after = motion(ob, FRAMES)
    assert_same((before[0][:NOW], before[1][:NOW]), (after[0][:NOW], after[1][:NOW]))
    # From then on it goes with its new space.
    moved = np.abs(before[0][-1] - after[0][-1]).max()
    assert moved > 0.01


@pytest.mark.parametrize("mode", ["POINT", "DIRECTION"])
@pytest.mark.parametrize(("pair", "parents"), CASES)
def test_a_pole_does_not_move_on_the_switch_frame(pair: tuple[str, str], parents: str, mode: str) -> None:
    ob = make(parents)
    chain = ob.ik_chains["leg"]
    chain.pole_mode, chain.pole_location = mode, (0.4, -0.8, 0.3)
    put_into(ob, pair[0], "POLE")
    before = motion(ob, FRAMES, "POLE")
    length = np.linalg.norm(chain.pole_location)
    go_to(NOW)
    assert switch(part="POLE", **named(pair[1])) == {"FINISHED"}
    after = motion(ob, FRAMES, "POLE")
    moved, turned = apart(before[1][:NOW], after[1][:NOW])
    assert moved < OFFSET and turned < ANGLE
    if mode == "POINT":
        assert np.abs(before[0][:NOW] - after[0][:NOW]).max() < OFFSET
    else:
        go_to(NOW)
        assert np.linalg.norm(chain.pole_location) == pytest.approx(length, rel=1e-5)


def test_space_and_offset_are_keyed_as_a_step() -> None:
    ob = make()
    chain = ob.ik_chains["leg"]
    values = {"target_location": list(chain.target_location), "target_rotation": list(chain.target_rotation)}
    assert switch(space="ARMATURE") == {"FINISHED"}
    found = chain_keys(ob)
    assert found.pop("target_space") == [[(NOW - 1, 0, "CONSTANT"), (NOW, 1, "CONSTANT")]]
    assert found.keys() == values.keys()
    for name, old in values.items():
        new = getattr(chain, name)
        assert len(found[name]) == len(new)
        for component, keys in enumerate(found[name]):
            assert [key[0] for key in keys] == [NOW - 1, NOW]
            assert [key[1] for key in keys] == pytest.approx([old[component], new[component]], abs=1e-7)
            assert [key[2] for key in keys] == ["CONSTANT", "CONSTANT"]


def test_from_the_panel_it_is_a_step_too() -> None:
    ob = make()
    assert bpy.ops.ik_chain.switch_space("INVOKE_DEFAULT", object="Rig", space="ARMATURE") == {"FINISHED"}
    assert [key[0] for key in chain_keys(ob)["target_location"][0]] == [NOW - 1, NOW]


def test_a_pole_has_no_rotation_to_key() -> None:
    ob = make()
    ob.ik_chains["leg"].pole_mode = "POINT"
    assert switch(space="WORLD", part="POLE") == {"FINISHED"}
    assert chain_keys(ob).keys() == {"pole_space", "pole_location"}


def test_a_chain_named_by_its_index_and_one_by_its_name() -> None:
    """Curves with a name path are used as they are."""
    ob = make()
    ob.keyframe_insert('ik_chains["leg"].target_location', frame=5)
    paths = {curve.data_path for curve in action_curves(ob) if "target_location" in curve.data_path}
    assert switch(space="ARMATURE") == {"FINISHED"}
    assert {curve.data_path for curve in action_curves(ob) if "target_location" in curve.data_path} == paths


# Keys that are there


@pytest.mark.parametrize(("pair", "parents"), CASES)
def test_keys_keep_their_meaning(pair: tuple[str, str], parents: str) -> None:
    """Before the switch on every frame, after it on the frames of the keys."""
    ob = make(parents)
    put_into(ob, pair[0])
    later = (25, 33, 40)
    key_target(ob, (1, 7, 15, *later))
    before = motion(ob, FRAMES)
    go_to(NOW)
    assert switch(**named(pair[1])) == {"FINISHED"}
    after = motion(ob, FRAMES)
    kept = [frame - 1 for frame in (*range(1, NOW + 1), *later)]
    assert_same((before[0][kept], before[1][kept]), (after[0][kept], after[1][kept]))
    assert {point[0] for points in chain_keys(ob)["target_location"] for point in points} == {
        1, 7, 15, NOW - 1, NOW, *later,
    }  # fmt: skip
    # Between them it is led on in its new space, near to where it was.
    assert np.abs(before[0] - after[0]).max() < 0.05


@pytest.mark.parametrize("kind", ["BEZIER", "LINEAR", "CONSTANT", "BOUNCE"])
@pytest.mark.parametrize("handle", ["AUTO_CLAMPED", "AUTO", "VECTOR", "ALIGNED", "FREE"])
def test_curves_keep_their_shape_where_no_space_moves(kind: str, handle: str) -> None:
    """A rig that stands still, turned and scaled: also between the keys all is the same."""
    ob = armature("Rig", WITH_CONTROL)
    ob.location, ob.rotation_euler, ob.scale = (1.0, 2.0, 0.5), (0.3, 0.2, 1.0), (0.5, 0.5, 0.5)
    bpy.ops.ik_chain.add(object="Rig", end_bone="foot", use_tail=False, name="leg")
    ob.ik_chains["leg"].use_rotation = True
    key_target(ob, (1, 12, 24, 31, 40))
    for curve in action_curves(ob):
        for number, point in enumerate(curve.keyframe_points):
            point.interpolation = kind
            point.handle_left_type = point.handle_right_type = handle
            if handle == "FREE":
                point.handle_left = (point.co[0] - 3.0, point.co[1] + 0.05 * number)
                point.handle_right = (point.co[0] + 9.0, point.co[1] - 0.03)
        curve.update()
    frames = np.arange(1.0, 40.5, 0.5)
    before = motion(ob, frames)
    go_to(NOW)
    assert switch(space="ARMATURE") == {"FINISHED"}
    after = motion(ob, frames)
    # Between the frame before and the switch frame lies the step.
    kept = frames != NOW - 0.5
    if kind == "BOUNCE":
        kept &= frames % 1.0 == 0.0
    assert_same((before[0][kept], before[1][kept]), (after[0][kept], after[1][kept]))
    # Blender computes handles anew when a key is added: the shape may not hang on that.
    for curve in action_curves(ob):
        curve.update()
    again = motion(ob, frames)
    assert_same((before[0][kept], before[1][kept]), (again[0][kept], again[1][kept]))


def test_keys_of_the_location_alone() -> None:
    """Only one component has keys, and the rotation none at all."""
    ob = make("turning")
    chain = ob.ik_chains["leg"]
    for frame, value in ((5, 0.1), (30, 0.3)):
        chain.target_location[2] = value
        chain.keyframe_insert("target_location", index=2, frame=frame)
    go_to(NOW)
    before = motion(ob, FRAMES)
    go_to(NOW)
    assert switch(space="ARMATURE") == {"FINISHED"}
    after = motion(ob, FRAMES)
    kept = [frame - 1 for frame in (*range(1, NOW + 1), 30)]
    assert_same((before[0][kept], before[1][kept]), (after[0][kept], after[1][kept]))


@pytest.mark.parametrize("keyed", [(), (1, 40), (26,)], ids=["no keys", "keys around", "a key inside"])
def test_a_later_switch_and_an_earlier_one(keyed: tuple[int, ...]) -> None:
    for order, spaces in (
        ((10, 30), [(9, 0), (10, 1), (29, 1), (30, 2)]),
        ((30, 10), [(9, 0), (10, 1), (30, 2)]),
    ):
        bpy.ops.wm.read_factory_settings(use_empty=True)
        ob = make("turning")
        key_target(ob, keyed)
        before = motion(ob, FRAMES)
        for frame in order:
            go_to(frame)
            there = target_place(ob)
            assert switch(**named("ARMATURE" if frame == 10 else "object")) == {"FINISHED"}
            assert np.abs(target_place(ob) - there).max() < OFFSET
        after = motion(ob, FRAMES)
        assert_same((before[0][:10], before[1][:10]), (after[0][:10], after[1][:10]))
        assert [(x, y) for x, y, _ in chain_keys(ob)["target_space"][0]] == spaces


def test_an_earlier_switch_stops_at_the_later_one() -> None:
    ob = make("turning")
    go_to(30)
    switch(space="ARMATURE")
    before = motion(ob, FRAMES)
    go_to(10)
    switch(space="CUSTOM", target="Door")
    after = motion(ob, FRAMES)
    kept = [frame - 1 for frame in (*range(1, 11), *range(30, 41))]
    assert_same((before[0][kept], before[1][kept]), (after[0][kept], after[1][kept]))
    assert np.abs(before[0][20] - after[0][20]).max() > 1e-3
    # The frame before the later switch held the target in the world: it is there still.
    assert np.abs(before[0][28] - after[0][28]).max() < OFFSET


def test_a_curve_that_runs_through_a_later_switch_is_cut_there() -> None:
    ob = make("turning")
    key_target(ob, (1, 40))
    chain = ob.ik_chains["leg"]
    for frame, space in ((1, "WORLD"), (30, "ARMATURE")):
        chain.target_space = space
        chain.keyframe_insert("target_space", frame=frame)
    before = motion(ob, FRAMES)
    go_to(10)
    assert switch(space="ARMATURE") == {"FINISHED"}
    after = motion(ob, FRAMES)
    kept = [frame - 1 for frame in (*range(1, 11), *range(29, 41))]
    assert_same((before[0][kept], before[1][kept]), (after[0][kept], after[1][kept]))


def test_switching_there_and_back_on_one_frame() -> None:
    ob = make("turning")
    before = motion(ob, FRAMES)
    go_to(NOW)
    switch(space="ARMATURE")
    switch(space="WORLD")
    assert_same(before, motion(ob, FRAMES))


def test_an_edit_without_a_key_is_kept() -> None:
    """What is seen on the switch frame counts, not what the curves say."""
    ob = make("turning")
    key_target(ob, (1, 40))
    ob.ik_chains["leg"].target_location[0] += 0.1
    bpy.data.objects["Door"].location.x += 0.2
    ob.pose.bones["hips"].rotation_quaternion = (1.0, 0.1, 0.0, 0.0)
    update()
    seen, held = target_place(ob), pose(ob)
    assert switch(space="CUSTOM", target="Door") == {"FINISHED"}
    assert np.abs(target_place(ob) - seen).max() < OFFSET
    moved, turned = apart(held.astype(float), pose(ob).astype(float))
    assert moved < OFFSET and turned < ANGLE


def test_a_hidden_object_can_be_the_space() -> None:
    ob = make("turning")
    bpy.data.objects["Door"].hide_viewport = True
    key_target(ob, (1, 33))
    before = motion(ob, FRAMES)
    go_to(NOW)
    assert switch(space="CUSTOM", target="Door") == {"FINISHED"}
    after = motion(ob, FRAMES)
    kept = [*range(NOW), 32]
    assert_same((before[0][kept], before[1][kept]), (after[0][kept], after[1][kept]))


def test_a_hidden_rig_can_be_switched() -> None:
    ob = make("turning")
    key_target(ob, (1, 33))
    before = motion(ob, FRAMES)
    go_to(NOW)
    ob.hide_viewport = True
    update()
    assert switch(space="ARMATURE") == {"FINISHED"}
    ob.hide_viewport = False
    after = motion(ob, FRAMES)
    kept = [*range(NOW), 32]
    assert_same((before[0][kept], before[1][kept]), (after[0][kept], after[1][kept]))


def test_a_bone_that_another_chain_turns_can_be_the_space() -> None:
    """The space is taken as it is solved, on later keys too."""
    ob = make("turning")
    bpy.ops.ik_chain.add(object="Rig", root_bone="control", end_bone="control", solver="AIM", name="aim")
    aim = ob.ik_chains["aim"]
    for frame, value in ((1, 0.0), (40, 0.5)):
        aim.target_location = (0.4 + value, 0.5 - value, 0.2)
        aim.keyframe_insert("target_location", frame=frame)
    key_target(ob, (1, 33))
    before = motion(ob, FRAMES)
    go_to(NOW)
    held = pose_by_name(ob)
    assert switch(**named("own bone")) == {"FINISHED"}
    assert apart(*(np.array([m[k] for k in held], float) for m in (held, pose_by_name(ob))))[0] < OFFSET
    after = motion(ob, FRAMES)
    kept = [*range(NOW), 32]
    assert_same((before[0][kept], before[1][kept]), (after[0][kept], after[1][kept]))


def test_another_rig_that_plays_the_same_action_is_left_alone() -> None:
    ob = make("turning")
    key_target(ob, (1, 33))
    twin = ob.copy()
    bpy.context.scene.collection.objects.link(twin)
    twin.animation_data.action = ob.animation_data.action
    if hasattr(twin.animation_data, "action_slot"):
        twin.animation_data.action_slot = ob.animation_data.action_slot
    before = poses(twin, FRAMES)
    go_to(NOW)
    assert switch(space="ARMATURE") == {"FINISHED"}
    assert twin.animation_data.action != ob.animation_data.action
    assert np.abs(poses(twin, FRAMES) - before).max() < 1e-5


# A range, and all frames


@pytest.mark.parametrize(("pair", "parents"), CASES)
def test_over_a_range_the_motion_stays(pair: tuple[str, str], parents: str) -> None:
    ob = make(parents)
    put_into(ob, pair[0])
    key_target(ob, (1, 15, 22, 40))
    before = motion(ob, FRAMES)
    go_to(NOW)
    assert switch(frame_start=10, frame_end=25, **named(pair[1])) == {"FINISHED"}
    update()
    assert np.abs(target_place(ob) - before[0][NOW - 1]).max() < OFFSET
    after = motion(ob, FRAMES)
    assert_same(before, after)
    go_to(17)
    assert ob.ik_chains["leg"].target_space == named(pair[1])["space"]
    for frame in (9, 26):
        go_to(frame)
        assert ob.ik_chains["leg"].target_space == named(pair[0])["space"]
    for keys in chain_keys(ob)["target_location"]:
        assert [key[0] for key in keys] == [1, *range(9, 27), 40]


def test_a_range_of_a_pole() -> None:
    ob = make("turning")
    chain = ob.ik_chains["leg"]
    chain.pole_mode, chain.pole_location = "DIRECTION", (0.4, -0.8, 0.3)
    before = motion(ob, FRAMES, "POLE")
    assert switch(part="POLE", space="WORLD", method="RANGE", frame_start=10, frame_end=25) == {"FINISHED"}
    after = motion(ob, FRAMES, "POLE")
    moved, turned = apart(before[1], after[1])
    assert moved < OFFSET and turned < ANGLE


def test_a_range_takes_over_other_switches_inside() -> None:
    ob = make("turning")
    go_to(15)
    switch(space="CUSTOM", target="Door")
    go_to(22)
    switch(space="WORLD")
    before = motion(ob, FRAMES)
    # The object may be another one where no frame outside of the range needs it.
    assert switch(space="CUSTOM", target="Other", frame_start=12, frame_end=30) == {"FINISHED"}
    assert_same(before, motion(ob, FRAMES))
    assert [(x, y) for x, y, _ in chain_keys(ob)["target_space"][0]] == [(11, 0), (12, 2), (31, 0)]


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_on_all_frames_the_keys_are_converted(pair: tuple[str, str]) -> None:
    ob = make("turning")
    put_into(ob, pair[0])
    frames = (1, 15, 22, 40)
    key_target(ob, frames)
    before = motion(ob, frames)
    go_to(NOW)
    now = target_place(ob)
    assert switch(method="ALWAYS", **named(pair[1])) == {"FINISHED"}
    # The spaces move against each other: a key holds it where it is now.
    assert np.abs(target_place(ob) - now).max() < OFFSET
    assert_same(before, motion(ob, frames))
    go_to(NOW)
    assert np.abs(target_place(ob) - now).max() < OFFSET
    found = chain_keys(ob)
    assert "target_space" not in found
    expected = sorted({*frames, NOW})
    assert all([key[0] for key in keys] == expected for keys in found["target_location"])


def test_on_all_frames_no_key_is_added_where_nothing_moves() -> None:
    ob = armature("Rig", WITH_CONTROL)
    ob.location, ob.rotation_euler = (1.0, 2.0, 0.5), (0.3, 0.2, 1.0)
    bpy.ops.ik_chain.add(object="Rig", end_bone="foot", use_tail=False, name="leg")
    key_target(ob, (1, 12, 40), rotation=False)
    frames = np.arange(1.0, 40.5, 0.5)
    before = motion(ob, frames)
    go_to(NOW)
    assert switch(space="ARMATURE", method="ALWAYS") == {"FINISHED"}
    assert_same(before, motion(ob, frames))
    found = chain_keys(ob)
    assert found.keys() == {"target_location"}
    assert all([key[0] for key in keys] == [1, 12, 40] for keys in found["target_location"])


def test_on_all_frames_without_keys_none_is_made() -> None:
    ob = make("turning")
    held = target_place(ob), pose(ob)
    assert switch(space="CUSTOM", target="Other", subtarget="shin", method="ALWAYS") == {"FINISHED"}
    assert_same((held[0][None], held[1][None]), (target_place(ob)[None], pose(ob)[None]))
    # And from one object to another.
    assert switch(space="CUSTOM", target="Door", method="ALWAYS") == {"FINISHED"}
    assert_same((held[0][None], held[1][None]), (target_place(ob)[None], pose(ob)[None]))
    assert chain_keys(ob) == {}


# What is refused


def refused(**properties: Any) -> str:
    before = dump()
    with pytest.raises(RuntimeError) as caught:
        switch(**properties)
    assert differences(before, dump()) == []
    return str(caught.value)


def test_refusals() -> None:
    ob = make()
    assert "in that space already" in refused(space="WORLD")
    assert "needs an object" in refused(space="CUSTOM")
    assert "no object 'Nothing'" in refused(space="CUSTOM", target="Nothing")
    assert "has no bone 'nothing'" in refused(space="CUSTOM", target="Other", subtarget="nothing")
    assert "before the first" in refused(space="ARMATURE", frame_start=9, frame_end=8)
    assert "which the chain itself turns" in refused(space="CUSTOM", target="Rig", subtarget="shin")
    ob.ik_chains["leg"].root_bone = "nothing"
    assert "root bone 'nothing' does not exist" in refused(space="ARMATURE")


def test_another_object_is_no_step() -> None:
    """The object of a space takes no key; what would do is said."""
    ob = make()
    put_into(ob, "object")
    text = refused(space="CUSTOM", target="Other")
    assert "'Door'" in text and "takes no key" in text and "World or Armature" in text
    # What the message offers works.
    before = motion(ob, FRAMES)
    go_to(NOW)
    assert switch(space="WORLD", frame_start=-5, frame_end=NOW - 1) == {"FINISHED"}
    assert_same((before[0][: NOW - 1], before[1][: NOW - 1]), tuple(m[: NOW - 1] for m in motion(ob, FRAMES)))


def test_what_takes_no_key_is_refused() -> None:
    ob = make()
    chain = ob.ik_chains["leg"]
    curve = ob.driver_add("ik_chains[0].target_location", 0)
    curve.driver.type, curve.driver.expression = "SCRIPTED", "0.1"
    assert "driver" in refused(space="ARMATURE")
    ob.driver_remove("ik_chains[0].target_location", 0)
    chain.keyframe_insert("target_location", frame=3)
    curves = [curve for curve in action_curves(ob) if "target_location" in curve.data_path]
    curves[1].lock = True
    assert "is locked" in refused(space="ARMATURE")
    curves[1].lock, curves[1].mute = False, True
    assert "is muted" in refused(space="ARMATURE")
    curves[1].mute = False
    curves[1].modifiers.new("CYCLES")
    assert "Cycles" in refused(space="ARMATURE")
    curves[1].modifiers.remove(curves[1].modifiers[0])
    curves[1].extrapolation = "LINEAR"
    assert "extrapolated" in refused(space="ARMATURE")
    curves[1].extrapolation = "CONSTANT"
    chain.keyframe_insert("target_space", frame=3)
    assert "has keys" in refused(space="ARMATURE", method="ALWAYS")


def test_a_space_without_size_is_refused() -> None:
    make()
    bpy.data.objects["Door"].scale = (1.0, 0.0, 1.0)
    assert "scale is 0" in refused(space="CUSTOM", target="Door")


# Undo, and what is left alone


@pytest.mark.parametrize("properties", [{}, {"frame_start": 5, "frame_end": 30}, {"method": "ALWAYS"}])
def test_a_switch_is_one_step_of_undo(properties: dict[str, Any]) -> None:
    ob = make("turning")
    key_target(ob, (1, 33))
    before = dump()
    bpy.ops.ed.undo_push(message="before")
    arguments = {"object": "Rig", "chain": "leg", "space": "CUSTOM", "target": "Door", **properties}
    assert bpy.ops.ik_chain.switch_space("EXEC_DEFAULT", True, **arguments) == {"FINISHED"}
    after = dump()
    bpy.ops.ed.undo()
    assert differences(before, dump()) == []
    bpy.ops.ed.redo()
    assert differences(after, dump()) == []


def test_a_target_alone_means_its_space() -> None:
    ob = make()
    goal = empty("Elsewhere", (0.3, 0.1, 0.2))
    assert switch(target="Elsewhere") == {"FINISHED"}
    chain = ob.ik_chains["leg"]
    assert (chain.target_space, chain.target) == ("CUSTOM", goal)


def test_sampling_leaves_poses_and_memory_alone() -> None:
    """Frames are sampled for later keys, with an edit of FK that has no key."""
    ob = make("turning")
    ob.pose.bones["thigh"].rotation_quaternion = (1.0, 0.2, 0.0, 0.0)
    ob.pose.bones["thigh"].keyframe_insert("rotation_quaternion", frame=1)
    ob.pose.bones["thigh"].rotation_quaternion = (1.0, 0.0, 0.3, 0.0)
    ob.pose.bones["shin"].rotation_quaternion = (1.0, 0.5, 0.0, 0.0)
    key_target(ob, (1, 33))
    ob.pose.bones["thigh"].rotation_quaternion = (1.0, -0.3, 0.1, 0.0)
    update()
    kept = ("ik_held_rotation", "rotation_quaternion")
    before = {b.name: [np.array(getattr(b, prop)) for prop in kept] for b in ob.pose.bones}
    assert switch(space="ARMATURE") == {"FINISHED"}
    update()
    for bone in ob.pose.bones:
        for prop, value in zip(kept, before[bone.name], strict=True):
            assert np.abs(np.array(getattr(bone, prop)) - value).max() < NOISE, (bone.name, prop)
    assert len(bpy.data.scenes) == 1 and not [o for o in bpy.data.objects if "sampling" in o.name]
