# SPDX-License-Identifier: GPL-3.0-or-later
"""Targets and poles that Blender would not evaluate are followed."""

from collections.abc import Callable
from typing import Any

import bpy
import numpy as np
import pytest
from bone_rigs import (
    edit_mode,
    empty,
    go_to,
    head,
    pose,
    update,
)
from live_leg import ON_TARGET, TARGET, leg, moving, off

from ik_addon.blender import chains

pytestmark = pytest.mark.usefixtures("fresh")


def hide(goal: bpy.types.Object) -> None:
    goal.hide_viewport = True


def hide_everywhere(goal: bpy.types.Object) -> None:
    goal.hide_viewport = goal.hide_render = True
    goal.hide_set(True)


def exclude(goal: bpy.types.Object) -> None:
    collection = bpy.data.collections.new("Controls")
    bpy.context.scene.collection.children.link(collection)
    collection.objects.link(goal)
    bpy.context.scene.collection.objects.unlink(goal)
    bpy.context.view_layer.layer_collection.children["Controls"].exclude = True


def unlink(goal: bpy.types.Object) -> None:
    bpy.context.scene.collection.objects.unlink(goal)


HIDING: dict[str, Callable[[bpy.types.Object], None]] = {
    "hidden": hide,
    "hidden everywhere": hide_everywhere,
    "in an excluded collection": exclude,
    "in no collection": unlink,
}


@pytest.mark.parametrize("how", HIDING)
@pytest.mark.parametrize("role", ["target", "pole"])
def test_a_hidden_object_that_moves_is_followed(how: str, role: str) -> None:
    goal = empty("Goal", TARGET)
    settings = {"target_space": "CUSTOM", "target": goal, "target_location": (0, 0, 0)}
    if role == "pole":
        settings = {
            "pole_mode": "POINT",
            "pole_space": "CUSTOM",
            "pole_target": goal,
            "pole_location": (0, 0, 0),
        }
        goal.location = (1.0, -0.5, 0.6)
    ob = leg(**settings)
    HIDING[how](goal)
    if role == "target":
        moving(goal)
        for frame in (1, 6, 11, 4):
            go_to(frame)
            assert off(ob, (TARGET[0], TARGET[1], TARGET[2] + 0.02 * (frame - 1))) <= ON_TARGET
        return
    for frame, x in ((1, 1.0), (11, -1.0)):
        goal.location.x = x
        goal.keyframe_insert("location", frame=frame)
    for frame, x in ((1, 1.0), (11, -1.0), (1, 1.0)):
        go_to(frame)
        assert bend_side(ob) @ (np.array((x, -0.5, 0.6)) - head(ob, "thigh")) > 0.999 * np.linalg.norm(
            across(ob, np.array((x, -0.5, 0.6)) - head(ob, "thigh"))
        )


def across(ob: bpy.types.Object, vector: np.ndarray) -> np.ndarray:
    """The part of a vector at right angles to the line from hip to ankle."""
    line = head(ob, "foot") - head(ob, "thigh")
    return vector - (vector @ line) / (line @ line) * line


def bend_side(ob: bpy.types.Object) -> np.ndarray:
    side = across(ob, head(ob, "shin") - head(ob, "thigh"))
    return side / np.linalg.norm(side)


@pytest.mark.parametrize("how", HIDING)
def test_a_hidden_object_that_is_edited_is_followed(how: str) -> None:
    goal = empty("Goal", TARGET)
    ob = leg(target_space="CUSTOM", target=goal, target_location=(0, 0, 0))
    HIDING[how](goal)
    update()
    goal.location.z += 0.1
    update()
    assert off(ob, (0.15, -0.2, 0.3)) <= ON_TARGET


def test_a_hidden_target_that_hangs_on_a_moving_parent(fresh: Any) -> None:
    cart, goal = empty("Cart"), empty("Goal", TARGET)
    goal.parent = cart
    ob = leg(target_space="CUSTOM", target=goal, target_location=(0, 0, 0))
    exclude(goal)
    for frame, y in ((1, 0.0), (11, -0.1)):
        cart.location.y = y
        cart.keyframe_insert("location", frame=frame)
    go_to(11)
    assert off(ob, (0.15, -0.3, 0.2)) <= ON_TARGET


def test_a_deleted_target_breaks_its_chain_alone() -> None:
    goal = empty("Goal", TARGET)
    ob = leg(target_space="CUSTOM", target=goal, target_location=(0, 0, 0))
    fk = evaluated_fk(ob)
    chains.add(ob, "hips", "hips", name="turn", solver="AIM", target_location=(0.0, 0.0, 5.0))
    other = leg("Other")
    update()
    bpy.data.objects.remove(goal)
    go_to(2)
    chain = ob.ik_chains["leg"]
    assert chain.status == "BROKEN" and "leg" in chain.message and "target" in chain.message
    assert ob.ik_chains["turn"].status != "BROKEN"
    other.ik_chains["leg"].target_location[2] += 0.1
    update()
    assert off(other, (0.15, -0.2, 0.3)) <= ON_TARGET
    shin = [bone.name for bone in ob.pose.bones].index("shin")
    local = np.linalg.inv(pose(ob)[shin - 1].astype(float)) @ pose(ob)[shin]
    assert np.abs(local - fk).max() <= 2e-6, "the broken chain stands still at FK"
    chain.target = empty("New", TARGET)
    update()
    assert chain.status == "OK" and chain.message == ""
    assert off(ob) <= ON_TARGET


def evaluated_fk(ob: bpy.types.Object) -> np.ndarray:
    """The shin in the space of the thigh, at rest: the FK pose of these tests."""
    thigh, shin = ob.data.bones["thigh"], ob.data.bones["shin"]
    return np.linalg.inv(np.array(thigh.matrix_local, float)) @ np.array(shin.matrix_local, float)


def test_a_deleted_bone_breaks_its_chain_alone() -> None:
    ob = leg()
    chains.add(ob, "hips", "hips", name="turn", solver="AIM", target_location=(0.0, 0.0, 5.0))
    with edit_mode(ob) as bones:
        bones.remove(bones["foot"])
    update()
    assert ob.ik_chains["leg"].status == "BROKEN" and "foot" in ob.ik_chains["leg"].message
    assert ob.ik_chains["turn"].status == "OK"
