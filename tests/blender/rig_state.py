# SPDX-License-Identifier: GPL-3.0-or-later
"""A leg to work on, and everything an operator could change as plain data to compare."""

from typing import Any

import bpy
import numpy as np

from ik_addon.blender import compat

BONES = (
    # name, parent, head, tail
    ("hips", "", (0.0, 0.0, 1.0), (0.0, 0.0, 1.2)),
    ("thigh", "hips", (0.1, 0.0, 1.0), (0.1, -0.06, 0.5)),
    ("shin", "thigh", (0.1, -0.06, 0.5), (0.1, 0.0, 0.05)),
    ("foot", "shin", (0.1, 0.0, 0.05), (0.1, -0.2, 0.0)),
    ("control", "", (0.1, 0.0, 0.05), (0.1, 0.2, 0.05)),
)


def make_rig(name: str = "Rig") -> bpy.types.Object:
    """An armature object with a bent leg and a control bone, active, in Object Mode, nothing selected."""
    armature = bpy.data.armatures.new(name)
    ob = bpy.data.objects.new(name, armature)
    bpy.context.scene.collection.objects.link(ob)
    bpy.context.view_layer.objects.active = ob
    bpy.ops.object.mode_set(mode="EDIT")
    for bone_name, parent, head, tail in BONES:
        bone = armature.edit_bones.new(bone_name)
        bone.head, bone.tail = head, tail
        bone.parent = armature.edit_bones.get(parent)
    bpy.ops.object.mode_set(mode="OBJECT")
    return ob


def make_empty(name: str, location: tuple[float, float, float]) -> bpy.types.Object:
    """An empty in the scene, not selected."""
    empty = bpy.data.objects.new(name, None)
    empty.location = location
    bpy.context.scene.collection.objects.link(empty)
    return empty


def select_bones(ob: bpy.types.Object, names: list[str], active: str = "") -> None:
    """In Pose Mode: exactly these bones."""
    bpy.context.view_layer.objects.active = ob
    bpy.ops.object.mode_set(mode="POSE")
    for bone in ob.pose.bones:
        compat.select_bone(bone, bone.name in names)
    ob.data.bones.active = ob.data.bones[active or names[-1]] if names else None


def pose(ob: bpy.types.Object) -> dict[str, list[tuple[float, ...]]]:
    """The evaluated pose matrices by bone, brought up to date."""
    bpy.context.view_layer.update()
    seen = ob.evaluated_get(bpy.context.evaluated_depsgraph_get())
    return {bone.name: [tuple(row) for row in seen.matrix_world @ bone.matrix] for bone in seen.pose.bones}


def pose_difference(a: dict[str, Any], b: dict[str, Any]) -> float:
    """The largest difference between numbers of two poses of the same bones."""
    assert a.keys() == b.keys()
    return max(
        abs(x - y)
        for name in a
        for row, other in zip(a[name], b[name], strict=True)
        for x, y in zip(row, other, strict=True)
    )


def dump() -> dict[str, Any]:
    """Objects with their chains, bones, drivers and NLA, and all actions."""
    bpy.context.view_layer.update()
    return {
        "objects": {ob.name: _object(ob) for ob in bpy.data.objects},
        "actions": {action.name: _action(action) for action in bpy.data.actions},
        "scenes": {s.name: (s.frame_current, s.collection.all_objects.keys()) for s in bpy.data.scenes},
    }


# What a solve writes: Blender's float32 poses, from which it starts, carry noise in the last digits.
SOLVED = ("rotation_quaternion", "rotation_euler", "rotation_axis_angle", "ik_held_rotation", "residual")
NOISE = 1e-6


def differences(a: Any, b: Any, path: str = "") -> list[str]:
    """Where two dumps differ, a readable line for each value; only solved values may carry noise."""
    if isinstance(a, dict) and isinstance(b, dict):
        keys = [*a, *(key for key in b if key not in a)]
        return [line for key in keys for line in differences(a.get(key), b.get(key), f"{path}/{key}")]
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        pairs = enumerate(zip(a, b, strict=True))
        return [line for i, pair in pairs for line in differences(*pair, f"{path}/{i}")]
    same = a == b
    if not same and path.endswith(SOLVED):
        same = np.allclose(a, b, rtol=0.0, atol=NOISE)
    return [] if same else [f"{path}: {a} -> {b}"]


def _object(ob: bpy.types.Object) -> dict[str, Any]:
    data = ob.animation_data
    owners = (ob, *(ob.pose.bones if ob.pose else ()))
    return {
        "basis": [tuple(row) for row in ob.matrix_basis],
        "chains": [_properties(chain) for chain in ob.ik_chains],
        "index": ob.ik_chains_index,
        "bones": {bone.name: _properties(bone, BONE_CHANNELS) for bone in ob.pose.bones} if ob.pose else {},
        "baked": [channel.name for owner in owners for channel in owner.ik_baked],
        "drivers": sorted(_driver(curve) for curve in data.drivers) if data else [],
        "action": data.action.name if data and data.action else "",
    }


BONE_CHANNELS = (
    "location", "rotation_mode", "rotation_quaternion", "rotation_euler", "rotation_axis_angle", "scale",
    "ik_held_rotation", "ik_held_location", "ik_held_scale",
)  # fmt: skip


def _properties(owner: Any, names: tuple[str, ...] = ()) -> dict[str, Any]:
    found = {}
    for prop in owner.bl_rna.properties:
        if prop.identifier == "rna_type" or (names and prop.identifier not in names):
            continue
        value = getattr(owner, prop.identifier)
        if prop.type == "POINTER":
            value = value.name if value else None
        found[prop.identifier] = tuple(value) if getattr(prop, "is_array", False) else value
    return found


def _driver(curve: bpy.types.FCurve) -> tuple[Any, ...]:
    targets = [(variable.name, variable.targets[0]) for variable in curve.driver.variables]
    held = [(name, target.id.name if target.id else "", target.bone_target) for name, target in targets]
    return curve.data_path, curve.array_index, curve.mute, sorted(held)


def _action(action: bpy.types.Action) -> list[Any]:
    if hasattr(action, "layers"):
        bags = [bag for layer in action.layers for strip in layer.strips for bag in strip.channelbags]
        collections = [(bag.slot.identifier, bag.fcurves) for bag in bags]
    else:
        collections = [("", action.fcurves)]
    return sorted(
        (slot, curve.data_path, curve.array_index, curve.mute, [tuple(k.co) for k in curve.keyframe_points])
        for slot, curves in collections
        for curve in curves
    )
