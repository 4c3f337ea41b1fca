# SPDX-License-Identifier: GPL-3.0-or-later
"""What snaps, switches spaces, drags and adds targets does right by a smoothed target, or refuses."""

import math
from collections.abc import Callable
from typing import Any

import bpy
import numpy as np
import pytest
from bone_rigs import (
    action_curves,
    armature,
    bone_world,
    go_to,
    head,
    pose,
    update,
)
from mathutils import Vector
from rig_state import differences, dump
from test_smoothing_blender import CARRIERS, FRAMES, OFFSET, leg, shake, wide_scene
from test_switch_space import (
    NOW,
    PAIRS,
    assert_same,
    key_target,
    make,
    motion,
    named,
    put_into,
    switch,
)

from ik_addon.blender import handles
from ik_addon.ui import gizmos

pytestmark = pytest.mark.usefixtures("fresh")


@pytest.fixture(params=CARRIERS)
def carried(request: pytest.FixtureRequest, fresh: Any) -> tuple[Any, Any, str, str]:
    wide_scene()
    return CARRIERS[request.param]()


def turn_fk(ob: bpy.types.Object) -> np.ndarray:
    """Another FK pose; where it is."""
    for name, angle in (("thigh", 0.1), ("shin", 0.25), ("foot", -0.2)):
        ob.pose.bones[name].rotation_quaternion = (1.0, angle, 0.1 * angle, 0.0)
    return fk_pose(ob)


def fk_pose(ob: bpy.types.Object) -> np.ndarray:
    ob.ik_chains["leg"].mute = True
    update()
    found = pose(ob)
    ob.ik_chains["leg"].mute = False
    update()
    return found


def apart(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.abs(np.asarray(a, float) - np.asarray(b, float)).max())


def refused(operator: Callable[..., Any], **properties: Any) -> str:
    before = dump()
    with pytest.raises(RuntimeError) as caught:
        operator(**properties)
    assert differences(before, dump()) == []
    return str(caught.value)


# Snapping


def test_ik_takes_the_fk_pose_where_the_offset_has_no_keys(
    carried: tuple[Any, Any, str, str], capfd: Any
) -> None:
    """Whatever the object or bone does that the target is."""
    chain, owner, _, _ = carried
    ob = chain.id_data
    for frame in (15, 20):
        go_to(frame)
        fk = turn_fk(ob)
        assert apart(pose(ob), fk) > 0.01
        assert bpy.ops.ik_chain.snap_ik(object=ob.name) == {"FINISHED"}
        told = "Smooth Frames keeps the limb" in capfd.readouterr().out
        update()
        if owner != chain:
            assert apart(pose(ob), fk) < 2e-5 and not told
        else:
            assert apart(pose(ob), fk) > 1e-3 and told


def test_a_key_of_a_smoothed_target_is_at_the_fk_pose(capfd: Any) -> None:
    chain = CARRIERS["world"]()[0]
    ob = chain.id_data
    go_to(15)
    turn_fk(ob)
    chain.mute = True
    update()
    wanted = head(ob, "foot")
    chain.mute = False
    bpy.ops.ik_chain.snap_ik(object=ob.name)
    curves = [curve for curve in action_curves(ob) if curve.data_path.endswith("target_location")]
    assert apart([curve.evaluate(15) for curve in curves], wanted) < OFFSET
    words = capfd.readouterr().out
    update()
    away = float(words.partition("keeps the limb ")[2].partition(" mm")[0]) / 1000.0
    assert away == pytest.approx(np.linalg.norm(head(ob, "foot") - wanted), rel=0.02)
    go_to(15)
    assert away == pytest.approx(np.linalg.norm(head(ob, "foot") - wanted), rel=0.02)


def test_snapping_back_and_forth_leaves_a_control_bone_the_target() -> None:
    """FK at the solved pose: the target has no offset in the bone, and gets none."""
    chain = CARRIERS["bone, euler"]()[0]
    ob = chain.id_data
    go_to(15)
    before = pose(ob)
    for _ in range(5):
        bpy.ops.ik_chain.snap_fk(object=ob.name)
        bpy.ops.ik_chain.snap_ik(object=ob.name)
    update()
    assert apart(pose(ob), before) < 2e-5
    assert np.abs(chain.target_location).max() < 1e-5
    shaken = pose(ob)
    chain.smooth_frames = 0
    update()
    assert apart(pose(ob), shaken) > 1e-3


def test_fk_takes_the_smoothed_pose(carried: tuple[Any, Any, str, str]) -> None:
    chain = carried[0]
    ob = chain.id_data
    go_to(15)
    before = pose(ob)
    assert bpy.ops.ik_chain.snap_fk(object=ob.name) == {"FINISHED"}
    update()
    assert apart(pose(ob), before) < OFFSET
    assert apart(fk_pose(ob), before) < OFFSET


# Switching spaces


@pytest.mark.parametrize("keyed", [(), range(1, 41, 3)], ids=["still", "keyed"])
@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_nothing_moves_on_the_switch_frame(pair: tuple[str, str], keyed: Any) -> None:
    """The door is an empty, whose own motion is smoothed while the target is in it."""
    ob = make("uneven")
    put_into(ob, pair[0])
    key_target(ob, keyed)
    ob.ik_chains["leg"].smooth_frames = 6
    before = motion(ob, FRAMES)[1]
    go_to(NOW)
    here = pose(ob)
    assert switch(**named(pair[1])) == {"FINISHED"}
    update()
    assert apart(pose(ob), here) < 2e-5
    after = motion(ob, FRAMES)[1]
    assert apart(after[NOW - 1], here) < 2e-5
    assert apart(after[: NOW - 7], before[: NOW - 7]) < 2e-5
    assert apart(after[-1], before[-1]) > 1e-3


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_without_keys_nothing_moves_now(pair: tuple[str, str]) -> None:
    ob = make("uneven")
    put_into(ob, pair[0])
    ob.ik_chains["leg"].smooth_frames = 6
    update()
    here = pose(ob)
    assert switch(method="ALWAYS", **named(pair[1])) == {"FINISHED"}
    for _ in range(2):
        update()
        assert apart(pose(ob), here) < 2e-5
        go_to(NOW)


def test_a_range_over_moving_spaces_is_refused() -> None:
    ob = make("turning")
    chain = ob.ik_chains["leg"]
    chain.smooth_frames = 3
    words = refused(switch, space="ARMATURE", method="RANGE", frame_start=10, frame_end=30)
    assert "leg" in words and "Smooth Frames" in words
    chain.smooth_frames = 0
    before = motion(ob, FRAMES)
    assert switch(space="ARMATURE", method="RANGE", frame_start=10, frame_end=30) == {"FINISHED"}
    assert_same(before, motion(ob, FRAMES))


# Adding things to drag


@pytest.mark.parametrize("kind", ["empty", "bone"])
def test_a_smoothed_target_becomes_a_thing_and_nothing_moves(kind: str) -> None:
    """The keys are those of the thing now, and are smoothed as before."""
    wide_scene()
    ob = armature()
    ob.location, ob.rotation_euler = (0.2, 0.1, 0.0), (0.1, 0.2, 0.5)
    update()
    chain = leg(ob, target_location=head(ob, "foot") + (0.0, -0.1, 0.15))
    shake(chain, "target_location", 0.01)
    shake(chain, "target_rotation", 0.05)
    shake(ob.pose.bones["hips"], "location", 0.01)
    frames = (*FRAMES, 20.5)
    before = [limb(ob) for frame in frames if not go_to(frame)]
    go_to(NOW)
    assert getattr(bpy.ops.ik_chain, f"add_target_{kind}")(object="Rig", chain="leg") == {"FINISHED"}
    after = [limb(ob) for frame in frames if not go_to(frame)]
    assert apart(after, before) < 2e-5
    chain.smooth_frames = 0
    raw = [limb(ob) for frame in frames if not go_to(frame)]
    assert apart(raw, before) > 1e-3


def limb(ob: bpy.types.Object) -> list[np.ndarray]:
    return [bone_world(ob, name) for name in ("thigh", "shin", "foot")]


def test_below_what_is_smoothed_nothing_is_added() -> None:
    chain = CARRIERS["empty, euler"]()[0]
    wide_scene()
    for kind in ("empty", "bone"):
        words = refused(getattr(bpy.ops.ik_chain, f"add_target_{kind}"), object="Rig", chain="leg")
        assert "leg" in words and "'Goal'" in words and "Smooth Frames" in words
    chain.smooth_frames = 0
    assert bpy.ops.ik_chain.add_target_empty(object="Rig", chain="leg") == {"FINISHED"}


def test_a_bone_that_would_have_to_make_up_for_the_body_is_not_added() -> None:
    """A planted foot, whose control bone moves against the moving body."""
    wide_scene()
    ob = make("turning")
    ob.ik_chains["leg"].smooth_frames = 3
    words = refused(bpy.ops.ik_chain.add_target_bone, object="Rig", chain="leg")
    assert "leg" in words and "Smooth Frames" in words
    assert bpy.ops.ik_chain.add_target_empty(object="Rig", chain="leg") == {"FINISHED"}


# Dragging


def test_what_is_dragged_is_where_the_limb_is(carried: tuple[Any, Any, str, str]) -> None:
    chain, owner, _, _ = carried
    ob = chain.id_data
    go_to(15)
    if owner != chain and not np.any(chain.target_location):
        assert not handles.moves(chain, "TARGET")
        return
    found = gizmos.place_all(ob, bpy.context.evaluated_depsgraph_get())["TARGET", "MOVE", "FREE"]
    assert apart(found.translation, head(ob, "foot")) < OFFSET
    before = head(ob, "foot")
    offset = Vector((0.01, 0.02, 0.015))
    assert bpy.ops.ik_chain.drag(object=ob.name, offset=offset) == {"FINISHED"}
    update()
    assert apart(head(ob, "foot") - before, offset) < OFFSET
    foot = bone_world(ob, "foot")[:3, :3]
    assert bpy.ops.ik_chain.drag(object=ob.name, action="TURN", axis="Y", angle=0.2) == {"FINISHED"}
    update()
    turned = bone_world(ob, "foot")[:3, :3]
    assert apart(turned[:, 1], foot[:, 1]) < 2e-5
    sine = np.linalg.norm(np.cross(turned[:, 0], foot[:, 0])) / np.prod(
        np.linalg.norm([turned[:, 0], foot[:, 0]], axis=1)
    )
    assert sine == pytest.approx(math.sin(0.2), abs=1e-4)


def test_a_drag_with_auto_keying_moves_the_key_by_the_offset() -> None:
    chain = CARRIERS["world"]()[0]
    ob = chain.id_data
    bpy.context.scene.tool_settings.use_keyframe_insert_auto = True
    go_to(15)
    curves = [curve for curve in action_curves(ob) if curve.data_path.endswith("target_location")]
    before = np.array([curve.evaluate(15) for curve in curves])
    bpy.ops.ik_chain.drag(object=ob.name, offset=(0.01, 0.02, 0.03))
    assert apart([curve.evaluate(15) for curve in curves] - before, (0.01, 0.02, 0.03)) < OFFSET
