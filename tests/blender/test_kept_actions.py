# SPDX-License-Identifier: GPL-3.0-or-later
"""Actions that are kept for a rig and not played just now: their curves stay on the chains they are for."""

import bpy
import pytest
from bone_rigs import armature, go_to
from real_rigs import assign

from ik_addon.blender import chains, compat, paths

pytestmark = pytest.mark.usefixtures("fresh")

LEGS = (("hips", "", (0, 0, 1), (0, 0, 1.2)),) + tuple(
    bone
    for x, side in ((0.1, "L"), (0.0, "M"), (-0.1, "R"))
    for bone in (
        (f"thigh.{side}", "hips", (x, 0, 1), (x, -0.05, 0.5)),
        (f"shin.{side}", f"thigh.{side}", (x, -0.05, 0.5), (x, 0, 0)),
    )
)
NAMES = ("L", "M", "R")
VALUES = {"L": 0.25, "M": 0.5, "R": 0.75}
SLOTS = hasattr(bpy.types, "ActionSlot")


def make(name: str = "Rig") -> bpy.types.Object:
    ob = armature(name, LEGS)
    for side in NAMES:
        chains.add(ob, f"thigh.{side}", f"shin.{side}", name=side)
    return ob


def keep_action(ob: bpy.types.Object, name: str, scale: float = 1.0) -> bpy.types.Action:
    """An action with another influence for each chain, kept and no longer assigned."""
    for chain in ob.ik_chains:
        chain.influence = scale * VALUES[chain.name]
        chain.keyframe_insert("influence", frame=1)
    action = ob.animation_data.action
    action.name, action.use_fake_user = name, True
    ob.animation_data.action = None
    return action


def played(ob: bpy.types.Object, action: bpy.types.Action) -> dict[str, float]:
    """The influences, by chain, that an action gives."""
    for chain in ob.ik_chains:
        chain.influence = 0.0
    assign(ob, action)
    go_to(bpy.context.scene.frame_current + 1)
    seen = ob.evaluated_get(bpy.context.evaluated_depsgraph_get())
    return {chain.name: chain.influence for chain in seen.ik_chains}


def paths_of(action: bpy.types.Action) -> set[str]:
    if SLOTS:
        bags = [bag for layer in action.layers for strip in layer.strips for bag in strip.channelbags]
        return {curve.data_path for bag in bags for curve in bag.fcurves}
    return {curve.data_path for curve in action.fcurves}


@pytest.mark.parametrize("beside", ["nothing", "another action", "a rig without chains"])
def test_all_actions_of_a_rig_follow_its_chains(beside: str) -> None:
    ob = make()
    kept = [keep_action(ob, "Walk"), keep_action(ob, "Run", 0.5)]
    if beside == "another action":
        assign(ob, keep_action(ob, "Idle", 0.1))
    elif beside == "a rig without chains":
        armature("Prop", LEGS).keyframe_insert("location", frame=1)
    assert bpy.ops.ik_chain.move(object="Rig", chain="L", direction="DOWN") == {"FINISHED"}
    assert bpy.ops.ik_chain.move(object="Rig", chain="R", direction="UP") == {"FINISHED"}
    assert [chain.name for chain in ob.ik_chains] == ["M", "R", "L"]
    for action, scale in zip(kept, (1.0, 0.5), strict=True):
        assert played(ob, action) == {name: scale * value for name, value in VALUES.items()}
    ob.animation_data.action = None
    assert bpy.ops.ik_chain.remove(object="Rig", chain="R") == {"FINISHED"}
    for action, scale in zip(kept, (1.0, 0.5), strict=True):
        assert played(ob, action) == {name: scale * VALUES[name] for name in ("M", "L")}
        assert len(paths_of(action)) == 2, "the curve of the chain that is gone is gone, too"


def test_with_another_rig_the_slot_tells_whose_an_action_is(capfd: pytest.CaptureFixture) -> None:
    ob, other = make(), make("Other")
    mine, theirs = keep_action(ob, "Run"), keep_action(other, "Jump")
    before = paths_of(theirs)
    bpy.ops.ik_chain.move(object="Rig", chain="L", direction="DOWN")
    assert paths_of(theirs) == before
    if SLOTS:
        assert played(ob, mine) == VALUES
        assert "left as they are" not in capfd.readouterr().out
    else:
        assert "Nothing plays 'Jump', 'Run' now" in capfd.readouterr().out
    assert played(other, theirs) == VALUES


def test_what_may_be_of_a_copy_is_left_alone_and_named(capfd: pytest.CaptureFixture) -> None:
    ob = make()
    action = keep_action(ob, "Run")
    copy = ob.copy()
    copy.data = ob.data.copy()
    bpy.context.scene.collection.objects.link(copy)
    before = paths_of(action)
    assert paths.doubtful_actions(ob, (0, 1)) == ["Run"]
    assert bpy.ops.ik_chain.remove(object="Rig", chain="L") == {"FINISHED"}
    assert paths_of(action) == before
    assert "Nothing plays 'Run' now, and it may be another rig's" in capfd.readouterr().out
    assert played(copy, action) == VALUES


def test_chains_beside_the_curves_are_not_doubted() -> None:
    ob = make()
    ob.ik_chains["L"].keyframe_insert("influence", frame=1)
    ob.animation_data.action.use_fake_user = True
    ob.animation_data.action = None
    copy = ob.copy()
    bpy.context.scene.collection.objects.link(copy)
    assert paths.doubtful_actions(ob, (0,)) and not paths.doubtful_actions(ob, (1, 2))


@pytest.mark.skipif(not SLOTS, reason="actions have slots from Blender 4.4 on")
def test_a_slot_of_another_rig_in_the_same_action_is_not_touched() -> None:
    ob, other = make(), make("Other")
    theirs = keep_action(other, "Both")
    slot = theirs.slots.new(id_type="OBJECT", name="Rig")
    ob.animation_data_create().action = theirs
    ob.animation_data.action_slot = slot
    for chain in ob.ik_chains:
        chain.influence = VALUES[chain.name]
        chain.keyframe_insert("influence", frame=1)
    bag = compat.channelbag(theirs, theirs.slots["OBOther"])
    before = [curve.data_path for curve in bag.fcurves]
    bpy.ops.ik_chain.move(object="Rig", chain="L", direction="DOWN")
    assert [curve.data_path for curve in bag.fcurves] == before
    for chain in ob.ik_chains:
        chain.influence = 0.0
    go_to(2)
    seen = ob.evaluated_get(bpy.context.evaluated_depsgraph_get())
    assert {chain.name: chain.influence for chain in seen.ik_chains} == VALUES


def test_an_undo_step_brings_kept_actions_back() -> None:
    ob = make()
    action = keep_action(ob, "Run")
    curves = sorted(paths_of(action))
    bpy.ops.ed.undo_push(message="Before")
    bpy.ops.ik_chain.remove(object="Rig", chain="L")
    bpy.ops.ed.undo_push(message="Remove")
    assert sorted(paths_of(bpy.data.actions["Run"])) != curves
    bpy.ops.ed.undo()
    assert sorted(paths_of(bpy.data.actions["Run"])) == curves
    assert len(bpy.data.objects["Rig"].ik_chains) == 3
