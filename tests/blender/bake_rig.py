# SPDX-License-Identifier: GPL-3.0-or-later
"""Rigs to bake, and everything about their animation as plain data to compare."""

from collections.abc import Iterable, Sequence
from typing import Any

import bpy
import numpy as np
import pytest

from ik_addon.blender import bake, chains, compat, keys
from ik_addon.blender.ranges import run

LIMBS = ("a", "b", "c", "d")
MODES = {"a": "QUATERNION", "b": "XYZ", "c": "ZYX", "d": "AXIS_ANGLE"}
LENGTH = 0.9
FRAMES = np.arange(1, 21)
SAME = 2e-6 * LENGTH


def new_armature(name: str, bones: Iterable[tuple[str, str, Sequence[float], Sequence[float]]]) -> Any:
    """An armature object in the scene, of bones (name, parent, head, tail), active, in Object Mode."""
    armature = bpy.data.armatures.new(name)
    ob = bpy.data.objects.new(name, armature)
    bpy.context.scene.collection.objects.link(ob)
    bpy.context.view_layer.objects.active = ob
    bpy.ops.object.mode_set(mode="EDIT")
    for bone_name, parent, head, tail in bones:
        bone = armature.edit_bones.new(bone_name)
        bone.head, bone.tail = head, tail
        bone.parent = armature.edit_bones.get(parent)
    bpy.ops.object.mode_set(mode="OBJECT")
    return ob


def make_walker(name: str = "Walker", limbs: Sequence[str] = LIMBS, frames: int = 20) -> Any:
    """Hips that move on and, below them, bent legs with a foot each, one rotation mode a leg.

    Legs "a" and "c" are keyed in FK, the other ones are posed and not keyed.
    """
    bones = [("hips", "", (0.0, 0.0, 1.0), (0.0, 0.0, 1.2))]
    for limb in limbs:
        x = 0.3 * LIMBS.index(limb)
        bones += [
            (f"thigh.{limb}", "hips", (x, 0.0, 1.0), (x, -0.06, 0.55)),
            (f"shin.{limb}", f"thigh.{limb}", (x, -0.06, 0.55), (x, 0.0, 0.1)),
            (f"foot.{limb}", f"shin.{limb}", (x, 0.0, 0.1), (x, -0.2, 0.05)),
        ]
    ob = new_armature(name, bones)
    scene = bpy.context.scene
    scene.frame_start, scene.frame_end = 1, frames
    hips = ob.pose.bones["hips"]
    for limb in limbs:
        for part in ("thigh", "shin", "foot"):
            ob.pose.bones[f"{part}.{limb}"].rotation_mode = MODES[limb]
    for limb in limbs:
        set_rotation(ob.pose.bones[f"thigh.{limb}"], 0.5)
        set_rotation(ob.pose.bones[f"shin.{limb}"], -0.9)
    for frame in range(1, frames + 1, 5):
        hips.location = (0.012 * frame, -0.08 - 0.03 * np.sin(0.4 * frame), 0.008 * frame)
        hips.keyframe_insert("location", frame=frame)
        for limb in {"a", "c"}.intersection(limbs):
            bone = ob.pose.bones[f"thigh.{limb}"]
            set_rotation(bone, 0.4 + 0.02 * frame)
            bone.keyframe_insert(channel_name(bone), frame=frame)
    scene.frame_set(1)
    return ob


def channel_name(bone: Any) -> str:
    return {"QUATERNION": "rotation_quaternion", "AXIS_ANGLE": "rotation_axis_angle"}.get(
        bone.rotation_mode, "rotation_euler"
    )


def set_rotation(bone: Any, angle: float) -> None:
    """A turn about the bone's X axis."""
    if bone.rotation_mode == "QUATERNION":
        bone.rotation_quaternion = (np.cos(angle / 2), np.sin(angle / 2), 0.0, 0.0)
    elif bone.rotation_mode == "AXIS_ANGLE":
        bone.rotation_axis_angle = (angle, 1.0, 0.0, 0.0)
    else:
        bone.rotation_euler = (angle, 0.0, 0.0)


def plant(ob: Any, limbs: Sequence[str] = LIMBS, **settings: Any) -> list[Any]:
    """A chain for each leg, which holds its foot on the ground, in reach on every frame."""
    for limb in limbs:
        ground = (0.3 * LIMBS.index(limb) + 0.12, -0.1, 0.2)
        here = {"target_location": ground, "use_tail": False, **settings}
        chains.add(ob, f"thigh.{limb}", f"foot.{limb}", name=f"leg.{limb}", **here)
    return list(ob.ik_chains)


def bake_now(rigs: Any, first: int, last: int, step: int = 1, only: Any = None) -> bake.BakeReport:
    rigs = rigs if isinstance(rigs, list) else [rigs]
    return run(bake.bake(bpy.context.scene, rigs, bake.BakeOptions((first, last), step, only)))


def poses(ob: Any, frames: Iterable[float]) -> np.ndarray:
    """Evaluated pose matrices ``(F, bones, 4, 4)``, in metres."""
    out = []
    for frame in frames:
        bpy.context.scene.frame_set(int(np.floor(frame)), subframe=float(frame % 1.0))
        seen = ob.evaluated_get(bpy.context.evaluated_depsgraph_get())
        out.append([np.array(bone.matrix, dtype=np.float64) for bone in seen.pose.bones])
    return np.array(out)


def angles(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Degrees between the orientations of two stacks of pose matrices."""
    turn = np.swapaxes(a[..., :3, :3], -1, -2) @ b[..., :3, :3]
    sines = np.linalg.norm(
        np.stack(
            [
                turn[..., 2, 1] - turn[..., 1, 2],
                turn[..., 0, 2] - turn[..., 2, 0],
                turn[..., 1, 0] - turn[..., 0, 1],
            ]
        ),
        axis=0,
    )
    return np.degrees(np.arctan2(sines, np.trace(turn, axis1=-2, axis2=-1) - 1.0))


def curve_state(curves: Iterable[Any]) -> dict[tuple[str, int], Any]:
    """All about some curves that a bake must not change, or an unbake bring back."""
    return {
        (curve.data_path, curve.array_index): {
            "keys": keys.read(curve).tolist(),
            "group": curve.group.name if curve.group else None,
            "extrapolation": curve.extrapolation,
            "color": (curve.color_mode, tuple(curve.color)),
            "smoothing": curve.auto_smoothing,
            "flags": (curve.mute, curve.lock, curve.hide),
            "modifiers": [(modifier.type, modifier.mute) for modifier in curve.modifiers],
        }
        for curve in curves
    }


def animation_state(ob: Any) -> dict[str, Any]:
    """The animation of an object as plain data: action, slot, curves, NLA, mutes, FK channels."""
    data = ob.animation_data
    action = data.action
    slot = getattr(data, "action_slot", None)
    return {
        "action": action.name if action else None,
        "slot": slot.identifier if slot else None,
        "slots": [s.identifier for s in action.slots] if action and hasattr(action, "slots") else [],
        "groups": sorted(group.name for group in compat.curve_groups(action, slot)) if action else [],
        "curves": curve_state(compat.assigned_curves(ob)),
        "nla": nla_state(ob),
        "mutes": [chain.mute for chain in ob.ik_chains],
        "modes": [bone.rotation_mode for bone in ob.pose.bones],
    }


def nla_state(ob: Any) -> list[Any]:
    return [
        (track.name, track.mute, track.is_solo, [strip_state(strip) for strip in track.strips])
        for track in ob.animation_data.nla_tracks
    ]


def strip_state(strip: Any) -> tuple[Any, ...]:
    span = (strip.frame_start, strip.frame_end, strip.influence, strip.mute, strip.blend_type)
    return (strip.name, strip.action.name, *span, curve_state(compat.strip_curves(strip)))


def curve(ob: Any, path: str, index: int = 0) -> Any:
    """A curve of the assigned action and slot."""
    return {(c.data_path, c.array_index): c for c in compat.assigned_curves(ob)}[path, index]


def rotation_curves(ob: Any, bone: str) -> list[Any]:
    path = f'pose.bones["{bone}"].{channel_name(ob.pose.bones[bone])}'
    return [c for c in compat.assigned_curves(ob) if c.data_path == path]


def rows(ob: Any, bone: str) -> tuple[np.ndarray, np.ndarray]:
    """Frames ``(n,)`` of the keys of a bone's rotation, and its values there ``(n, w)``."""
    found = [keys.read(c) for c in rotation_curves(ob, bone)]
    return found[0][:, keys.FRAME], np.stack([k[:, keys.VALUE] for k in found], axis=1)


def refused(ob: Any, text: str, **options: Any) -> None:
    """A bake is refused with these words, and nothing is changed."""
    before = animation_state(ob)
    with pytest.raises(bake.BakeError, match=text):
        run(bake.bake(bpy.context.scene, [ob], bake.BakeOptions(**{"frames": (1, 20), **options})))
    assert animation_state(ob) == before
