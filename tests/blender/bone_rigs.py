# SPDX-License-Identifier: GPL-3.0-or-later
"""Small armatures made for one test, and where Blender's evaluation has their joints.

Nothing here asks the add-on where a joint is.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import bpy
import numpy as np

Vector = tuple[float, float, float]

# name, parent, head, tail
LEG = (
    ("hips", "", (0.0, 0.0, 1.0), (0.0, 0.0, 1.2)),
    ("thigh", "hips", (0.1, 0.0, 1.0), (0.1, -0.06, 0.5)),
    ("shin", "thigh", (0.1, -0.06, 0.5), (0.1, 0.0, 0.05)),
    ("foot", "shin", (0.1, 0.0, 0.05), (0.1, -0.2, 0.0)),
)
LEG_LENGTH = float(np.hypot(0.06, 0.5) + np.hypot(0.06, 0.45))
# A spine of four bones, and an arm of two with a hand on its top.
TORSO = (
    ("spine1", "", (0.0, 0.0, 1.0), (0.0, 0.02, 1.2)),
    ("spine2", "spine1", (0.0, 0.02, 1.2), (0.0, 0.03, 1.4)),
    ("spine3", "spine2", (0.0, 0.03, 1.4), (0.0, 0.01, 1.6)),
    ("chest", "spine3", (0.0, 0.01, 1.6), (0.0, 0.0, 1.8)),
    ("upper_arm", "chest", (0.2, 0.0, 1.75), (0.5, 0.03, 1.74)),
    ("forearm", "upper_arm", (0.5, 0.03, 1.74), (0.78, 0.0, 1.74)),
    ("hand", "forearm", (0.78, 0.0, 1.74), (0.9, 0.0, 1.74)),
)
ARM_LENGTH = float(np.linalg.norm((0.3, 0.03, 0.01)) + np.linalg.norm((0.28, 0.03, 0.0)))


def armature(name: str = "Rig", bones: Sequence[tuple[str, str, Vector, Vector]] = LEG) -> bpy.types.Object:
    """An armature object in the scene's collection, in Object Mode."""
    data = bpy.data.armatures.new(name)
    ob = bpy.data.objects.new(name, data)
    bpy.context.scene.collection.objects.link(ob)
    with edit_mode(ob):
        for bone_name, parent, head, tail in bones:
            bone = data.edit_bones.new(bone_name)
            bone.head, bone.tail, bone.parent = head, tail, data.edit_bones.get(parent)
    bpy.context.view_layer.update()
    return ob


class edit_mode:  # noqa: N801 - used like a function
    """Edit Mode of an armature object for the length of a `with` block."""

    def __init__(self, ob: bpy.types.Object) -> None:
        self.ob = ob

    def __enter__(self) -> Any:
        bpy.context.view_layer.objects.active = self.ob
        bpy.ops.object.mode_set(mode="EDIT")
        return self.ob.data.edit_bones

    def __exit__(self, *_: object) -> None:
        bpy.ops.object.mode_set(mode="OBJECT")


def empty(name: str, location: Vector = (0.0, 0.0, 0.0)) -> bpy.types.Object:
    """An empty in the scene's collection."""
    ob = bpy.data.objects.new(name, None)
    ob.location = location
    bpy.context.scene.collection.objects.link(ob)
    return ob


def update() -> None:
    bpy.context.view_layer.update()


def evaluated(ob: bpy.types.Object) -> bpy.types.Object:
    return ob.evaluated_get(bpy.context.evaluated_depsgraph_get())


def world(ob: bpy.types.Object) -> np.ndarray:
    return np.array(evaluated(ob).matrix_world, np.float64)


def pose_matrix(ob: bpy.types.Object, bone: str) -> np.ndarray:
    """``(4, 4)`` in armature space."""
    return np.array(evaluated(ob).pose.bones[bone].matrix, np.float64)


def bone_world(ob: bpy.types.Object, bone: str) -> np.ndarray:
    return world(ob) @ pose_matrix(ob, bone)


def head(ob: bpy.types.Object, bone: str) -> np.ndarray:
    """World position of the evaluated head."""
    return bone_world(ob, bone)[:3, 3]


def tail(ob: bpy.types.Object, bone: str) -> np.ndarray:
    """World position of the evaluated tail."""
    point = np.array(evaluated(ob).pose.bones[bone].tail, np.float64)
    return world(ob)[:3, :3] @ point + world(ob)[:3, 3]


def pose(ob: bpy.types.Object) -> np.ndarray:
    """All evaluated pose matrices ``(n, 4, 4)``, float32 as Blender has them."""
    bones = evaluated(ob).pose.bones
    flat = np.empty(len(bones) * 16, np.float32)
    bones.foreach_get("matrix", flat)
    return flat.reshape(-1, 4, 4).transpose(0, 2, 1)


def poses(ob: bpy.types.Object, frames: Iterable[float]) -> np.ndarray:
    """Evaluated pose matrices ``(F, n, 4, 4)`` at frames, visited in this order."""
    found = []
    for frame in frames:
        go_to(frame)
        found.append(pose(ob))
    return np.stack(found)


def go_to(frame: float) -> None:
    whole = int(np.floor(frame))
    bpy.context.scene.frame_set(whole, subframe=frame - whole)


def key_rotation(ob: bpy.types.Object, bone: str, keys: dict[float, Sequence[float]]) -> None:
    """Key the rotation channel of a bone in its mode."""
    prop = rotation_property(ob, bone)
    for frame, value in keys.items():
        setattr(ob.pose.bones[bone], prop, value)
        ob.pose.bones[bone].keyframe_insert(prop, frame=frame)


def rotation_property(ob: bpy.types.Object, bone: str) -> str:
    modes = {"QUATERNION": "rotation_quaternion", "AXIS_ANGLE": "rotation_axis_angle"}
    return modes.get(ob.pose.bones[bone].rotation_mode, "rotation_euler")


def action_curves(ob: bpy.types.Object) -> Any:
    """The F-curves of the assigned action, with slots and without."""
    action = ob.animation_data.action
    if hasattr(action, "slots"):
        return action.layers[0].strips[0].channelbag(ob.animation_data.action_slot).fcurves
    return action.fcurves
