# SPDX-License-Identifier: GPL-3.0-or-later
"""What smoothing leaves as it moves."""

from typing import Any

import bpy
import numpy as np
import pytest
from bone_rigs import (
    action_curves,
    armature,
    bone_world,
    edit_mode,
    empty,
    go_to,
    head,
    update,
    world,
)
from smoothed import (
    ANGLE,
    CARRIERS,
    FRAMES,
    INSIDE,
    OFFSET,
    START,
    WITH_CONTROL,
    apart,
    assert_at,
    assert_unsmoothed,
    bone_world_at,
    expected,
    leg,
    shake,
    wide_scene,
)

from ik_addon.blender import chains
from ik_addon.blender.own_curves import OwnCurves

pytestmark = pytest.mark.usefixtures("fresh")


@pytest.fixture(params=CARRIERS)
def carried(request: pytest.FixtureRequest, fresh: Any) -> tuple[Any, Any, str, str]:
    wide_scene()
    return CARRIERS[request.param]()


def shaken_empty(**settings: Any) -> tuple[Any, Any, str, str]:
    ob, goal = armature(), empty("Goal", START)
    shake(goal, "location", 0.01)
    chain = leg(ob, target_space="CUSTOM", target=goal, **{"target_location": (0, 0, 0), **settings})
    return chain, goal, "location", "rotation_euler"


def test_an_empty_with_a_constraint_is_left() -> None:
    carried = shaken_empty()
    constraint = carried[1].constraints.new("LIMIT_LOCATION")
    for frame in INSIDE:
        go_to(frame)
        assert np.abs(head(carried[0].id_data, "foot") - world(carried[1])[:3, 3]).max() < OFFSET
    constraint.mute = True
    assert_at(bone_world_at(carried[0], 20), expected(carried, 20))


def test_a_driven_location_is_left_and_the_rotation_is_not() -> None:
    carried = shaken_empty()
    goal = carried[1]
    shake(goal, "rotation_euler", 0.1)
    curve = goal.driver_add("location", 0)
    curve.driver.type, curve.driver.expression = "SCRIPTED", "0.13 + 0.01 * (frame % 2)"
    for frame in INSIDE:
        place = expected(carried, frame, 0)[:3, 3]
        assert np.abs(bone_world_at(carried[0], frame)[:3, 3] - place).max() < OFFSET
        turned = apart(bone_world_at(carried[0], frame), expected(carried, frame))[1]
        assert turned < ANGLE


def test_strips_are_left_and_an_action_on_top_of_them_is_not() -> None:
    carried = shaken_empty()
    goal = carried[1]
    data = goal.animation_data
    action, slot = data.action, getattr(data, "action_slot", None)
    strip = data.nla_tracks.new().strips.new("shake", 1, action)
    if slot is not None:
        strip.action_slot = slot
    data.action = None
    assert_unsmoothed(carried)
    data.action = action
    if slot is not None:
        data.action_slot = slot
    assert_at(bone_world_at(carried[0], 20), expected(carried, 20))
    data.action_influence = 0.5
    assert_unsmoothed(carried)
    data.action_influence, data.action_blend_type = 1.0, "ADD"
    go_to(20)
    # Far away, it is what the residual is measured to.
    gap = np.linalg.norm(head(carried[0].id_data, "foot") - world(goal)[:3, 3])
    assert carried[0].residual == pytest.approx(gap, abs=1e-5)


def test_an_action_that_is_tweaked_inside_a_strip_is_left() -> None:
    """Its frames are those of the strip, which may be stretched."""
    carried = shaken_empty()
    data = carried[1].animation_data
    track = data.nla_tracks.new()
    strip = track.strips.new("shake", 1, data.action)
    if hasattr(data, "action_slot"):
        strip.action_slot = data.action_slot
    data.action = None
    strip.scale, strip.select, track.select = 2.0, True, True
    data.nla_tracks.active = track
    data.use_tweak_mode = True
    assert data.use_tweak_mode and data.action is not None
    assert_unsmoothed(carried)


def test_a_curve_that_was_given_another_path_is_not_taken_for_the_old_one() -> None:
    """Also where no update came between: the places of curves are remembered."""
    goal = empty("Goal", START)
    shake(goal, "location", 0.01)
    assert [curve.array_index for curve in OwnCurves(goal).find(("location",), 3)] == [0, 1, 2]
    action_curves(goal)[1].data_path = "scale"
    before = [curve.data_path for curve in action_curves(goal)]
    found = OwnCurves(goal).find(("location",), 3)
    assert before == ["location", "scale", "location"]
    assert [curve and curve.data_path for curve in found] == ["location", None, "location"]
    assert [curve and curve.data_path for curve in OwnCurves(goal).find(("scale",), 3)] == [
        None,
        "scale",
        None,
    ]


def test_a_parent_is_left() -> None:
    """Its motion is that of the space: the target is at the same place in it."""
    carried = shaken_empty()
    cart = empty("Cart")
    carried[1].parent = cart
    shake(cart, "location", 0.02, seed=8)
    for frame in INSIDE:
        assert_at(bone_world_at(carried[0], frame), expected(carried, frame))


def test_a_foot_that_is_planted_in_the_world_stays_under_a_moving_body() -> None:
    ob = armature()
    leg(ob, 8, target_location=START)
    shake(ob.pose.bones["hips"], "location", 0.02)
    shake(ob, "location", 0.02, seed=2)
    for frame in INSIDE:
        go_to(frame)
        assert np.abs(head(ob, "foot") - START).max() < OFFSET


def test_a_hand_stays_on_the_hip_of_a_moving_character() -> None:
    """In the space of the armature, and in that of the bone."""
    ob = armature(bones=WITH_CONTROL)
    chain = leg(ob, 8, target_space="ARMATURE", target_location=START)
    shake(ob, "location", 0.05)
    shake(ob, "rotation_euler", 0.1)
    shake(ob.pose.bones["root"], "location", 0.02)
    for space in ("ARMATURE", "CUSTOM"):
        chain.target_space, chain.target, chain.subtarget = space, ob, "root"
        update()
        inverse = np.linalg.inv(bone_world(ob, "root") if space == "CUSTOM" else world(ob))
        place = head(ob, "foot")
        chain.target_location = inverse[:3, :3] @ place + inverse[:3, 3]
        for frame in INSIDE:
            go_to(frame)
            held = bone_world(ob, "root") if space == "CUSTOM" else world(ob)
            wanted = held[:3, :3] @ np.array(chain.target_location) + held[:3, 3]
            assert np.abs(head(ob, "foot") - wanted).max() < OFFSET
        assert chain.status == "OK"


@pytest.mark.parametrize("kind", ["mesh", "empty with children"])
def test_a_hand_stays_on_a_moving_door(kind: str) -> None:
    ob = armature()
    door = bpy.data.objects.new("Door", bpy.data.meshes.new("Door") if kind == "mesh" else None)
    bpy.context.scene.collection.objects.link(door)
    if kind != "mesh":
        empty("Leaf").parent = door
    chain = leg(ob, 8, target_space="CUSTOM", target=door, target_location=START)
    shake(door, "location", 0.02)
    shake(door, "rotation_euler", 0.05)
    # What the target does on the door is smoothed.
    shake(chain, "target_location", 0.01, seed=3)
    for frame in INSIDE:
        wanted = expected((chain, chain, "target_location", "target_rotation"), frame, 8)
        on_door = world(door)[:3, :3] @ wanted[:3, 3] + world(door)[:3, 3]
        assert np.abs(bone_world_at(chain, frame)[:3, 3] - on_door).max() < OFFSET


def test_a_thing_that_is_the_target_is_smoothed() -> None:
    """A ball that is reached for: the target has no offset in it."""
    ob, ball = armature(), bpy.data.objects.new("Ball", bpy.data.meshes.new("Ball"))
    bpy.context.scene.collection.objects.link(ball)
    ball.location = START
    chain = leg(ob, target_space="CUSTOM", target=ball, target_location=(0, 0, 0))
    shake(ball, "location", 0.01)
    carried = (chain, ball, "location", "rotation_euler")
    assert_at(bone_world_at(chain, 20), expected(carried, 20))
    chain.target_location = (0.0, 0.0, 0.01)
    assert_unsmoothed(carried)


@pytest.mark.parametrize(
    "what", ["deforms", "has a child", "inherits no rotation", "has a constraint", "is connected"]
)
def test_which_bones_are_smoothed(what: str) -> None:
    """With an offset in them."""
    ob = armature(bones=WITH_CONTROL)
    bone = ob.pose.bones["control"]
    shake(bone, "location", 0.01)
    chain = leg(ob, target_space="CUSTOM", target=ob, subtarget="control", target_location=(0.01, 0.0, 0.0))
    carried = (chain, bone, "location", "rotation_quaternion")
    ob.data.bones["control"].use_deform = False
    assert_at(bone_world_at(chain, 20), expected(carried, 20))
    if what == "deforms":
        ob.data.bones["control"].use_deform = True
    elif what == "has a child":
        held = empty("Held")
        held.parent, held.parent_type, held.parent_bone = ob, "BONE", "control"
    elif what == "inherits no rotation":
        ob.data.bones["control"].use_inherit_rotation = False
    elif what == "has a constraint":
        bone.constraints.new("LIMIT_SCALE")
    elif what == "is connected":
        with edit_mode(ob) as bones:
            bones["root"].tail = bones["control"].head
            bones["control"].use_connect = True
    for frame in INSIDE:
        go_to(frame)
        matrix = bone_world(ob, "control")
        wanted = matrix[:3, :3] @ np.array((0.01, 0.0, 0.0)) + matrix[:3, 3]
        assert np.abs(head(ob, "foot") - wanted).max() < OFFSET


def test_a_control_bone_that_a_chain_turns_is_left() -> None:
    ob = armature(bones=WITH_CONTROL)
    bone = ob.pose.bones["control"]
    shake(bone, "location", 0.01)
    look = chains.add(ob, "control", "control", name="look", solver="AIM", target_location=(0.0, -3.0, 0.3))
    chain = leg(
        ob,
        target_space="CUSTOM",
        target=ob,
        subtarget="control",
        target_location=(0, 0, 0),
        use_rotation=False,
    )
    for frame in INSIDE:
        go_to(frame)
        assert np.abs(head(ob, "foot") - head(ob, "control")).max() < OFFSET
    chains.remove(ob, ob.ik_chains.find(look.name))
    carried = (ob.ik_chains["leg"], bone, "location", "rotation_quaternion")
    wanted = expected(carried, 20)[:3, 3]
    assert np.abs(bone_world_at(ob.ik_chains["leg"], 20)[:3, 3] - wanted).max() < OFFSET
    assert chain is not None


@pytest.mark.parametrize("scale", [(0.0, 0.0, 0.0), (1.0, 0.0, 1.0)])
def test_an_empty_without_size_is_left(scale: tuple[float, float, float]) -> None:
    carried = shaken_empty()
    carried[1].scale = scale
    for frame in INSIDE:
        go_to(frame)
        assert np.abs(head(carried[0].id_data, "foot") - world(carried[1])[:3, 3]).max() < OFFSET


def test_the_window_does_not_reach_over_a_switch_of_space() -> None:
    """Beside a switch it is narrower, and on its frames the target is where it is."""
    ob = armature()
    ob.location = (3.0, 0.0, 0.0)
    update()
    chain = leg(ob, 5)
    here = head(ob, "foot") + (0.0, -0.1, 0.1)
    items = {"WORLD": here, "ARMATURE": here - (3.0, 0.0, 0.0)}
    rng = np.random.default_rng(6)
    for frame in FRAMES:
        space = "WORLD" if frame < 20 else "ARMATURE"
        chain.target_space, chain.target_location = space, items[space] + 0.01 * rng.normal(size=3)
        chain.keyframe_insert("target_space", frame=frame)
        chain.keyframe_insert("target_location", frame=frame)
    carried = (chain, chain, "target_location", "target_rotation")
    for frame, width in (
        (10, 5),
        (14, 5),
        (15, 4),
        (18, 1),
        (19, 0),
        (20, 0),
        (21, 1),
        (24, 4),
        (25, 5),
        (30, 5),
    ):
        assert_at(bone_world_at(chain, frame), expected(carried, frame, width))
