# SPDX-License-Identifier: GPL-3.0-or-later
"""Each operator is one step of undo: back is exactly the state before, forward again exactly that after."""

from collections.abc import Callable
from typing import Any

import bpy
import pytest
from rig_state import NOISE, differences, dump, make_empty, make_rig, pose, pose_difference, select_bones
from walking import leg, walker


def rig() -> bpy.types.Object:
    """The rig as it is now: undo swaps all data, so nothing may be held across it."""
    return bpy.data.objects["Rig"]


@pytest.fixture
def chains(fresh: Any) -> None:
    """A rig with keyed and unkeyed FK, a keyed and driven chain, a chain on an empty, and an aim."""
    ob = make_rig()
    make_empty("Door", (0.2, -0.1, 0.3))
    for frame, angle in ((1, 0.0), (20, 0.4)):
        ob.pose.bones["thigh"].rotation_mode = "XYZ"
        ob.pose.bones["thigh"].rotation_euler.x = angle
        ob.pose.bones["thigh"].keyframe_insert("rotation_euler", frame=frame)
    bpy.context.scene.frame_set(7)
    bpy.ops.ik_chain.add(object="Rig", name="leg", end_bone="foot", use_tail=False, target="Door")
    bpy.ops.ik_chain.add(object="Rig", name="aim", end_bone="hips")
    bpy.ops.ik_chain.add(object="Rig", name="prop", end_bone="control", target_space="ARMATURE")
    bpy.data.objects["Door"].location.z += 0.1
    leg = ob.ik_chains["leg"]
    leg.keyframe_insert("influence", frame=3)
    leg.keyframe_insert("target_location", frame=3)
    curve = ob.driver_add("ik_chains[2].influence")
    curve.driver.type, curve.driver.expression = "SCRIPTED", "0.5"
    bpy.context.scene.frame_set(8)


def leave_ik(_: Any = None) -> None:
    rig().pose.bones["shin"].rotation_quaternion = (0.9, -0.3, 0.05, 0.0)
    bpy.context.view_layer.update()


def walk() -> None:
    """Replace the rig by one that walks; its foot rests in three contacts."""
    bpy.data.objects.remove(rig())
    leg(walker())
    bpy.context.scene.frame_set(8)


OPERATORS: dict[str, tuple[Callable[[], None] | None, str, dict[str, Any]]] = {
    "add": (lambda: select_bones(rig(), ["shin", "thigh", "control"], "shin"), "add", {}),
    "add by name": (None, "add", {"object": "Rig", "end_bone": "foot", "target": "Door", "solver": "AIM"}),
    "remove first": (None, "remove", {"object": "Rig", "chain": "leg"}),
    "remove active": (None, "remove", {}),
    "move": (None, "move", {"object": "Rig", "chain": "leg", "direction": "DOWN"}),
    "snap FK": (None, "snap_fk", {"object": "Rig", "chain": "leg"}),
    "snap IK": (leave_ik, "snap_ik", {"object": "Rig", "chain": "leg"}),
    "bake": (None, "bake", {"object": "Rig", "scope": "ALL", "frame_start": 1, "frame_end": 12}),
    "plant": (walk, "plant", {"object": "Rig"}),
    "unbake": (
        lambda: bpy.ops.ik_chain.bake(object="Rig", scope="ALL", frame_start=1, frame_end=12),
        "unbake",
        {"object": "Rig", "scope": "ALL"},
    ),
}


@pytest.mark.parametrize("case", OPERATORS)
@pytest.mark.usefixtures("chains")
def test_undo_and_redo_are_exact(case: str) -> None:
    prepare, name, properties = OPERATORS[case]
    if prepare:
        prepare()
    before, pose_before = dump(), pose(rig())
    bpy.ops.ed.undo_push(message="before")
    assert getattr(bpy.ops.ik_chain, name)("EXEC_DEFAULT", True, **properties) == {"FINISHED"}
    after, pose_after = dump(), pose(rig())
    assert after != before

    for _ in range(2):
        bpy.ops.ed.undo()
        assert differences(before, dump()) == []
        assert pose_difference(pose(rig()), pose_before) < NOISE
        bpy.ops.ed.redo()
        assert differences(after, dump()) == []
        assert pose_difference(pose(rig()), pose_after) < NOISE


@pytest.mark.usefixtures("chains")
def test_a_check_leaves_no_step() -> None:
    bpy.ops.ed.undo_push(message="one")
    rig().location.x = 3.0
    bpy.ops.ed.undo_push(message="two")
    assert bpy.ops.ik_chain.check("EXEC_DEFAULT", True, object="Rig", scope="ALL") == {"FINISHED"}
    bpy.ops.ed.undo()
    assert rig().location.x == 0.0


@pytest.mark.usefixtures("chains")
def test_a_cancelled_operator_leaves_no_step() -> None:
    bpy.ops.ed.undo_push(message="one")
    rig().location.x = 3.0
    bpy.ops.ed.undo_push(message="two")
    with pytest.raises(RuntimeError):
        bpy.ops.ik_chain.remove("EXEC_DEFAULT", True, object="Rig", chain="nobody")
    bpy.ops.ed.undo()
    assert rig().location.x == 0.0


@pytest.mark.usefixtures("chains")
def test_the_limb_follows_its_target_after_undo() -> None:
    bpy.ops.ed.undo_push(message="before")
    bpy.ops.ik_chain.remove("EXEC_DEFAULT", True, object="Rig", chain="leg")
    bpy.ops.ed.undo()
    before = pose(rig())
    bpy.data.objects["Door"].location.z += 0.05
    moved = pose(rig())["foot"][2][3] - before["foot"][2][3]
    assert abs(moved - 0.05) < 1e-5
