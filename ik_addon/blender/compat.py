# SPDX-License-Identifier: GPL-3.0-or-later
"""Where Blender's versions differ. Branches on features, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import bpy


def action_curves(action: bpy.types.Action | None, slot: Any = None) -> Any:
    """The F-curves of an action for one slot; an empty tuple where there are none.

    Before Blender 4.4 an action has no slots and `slot` is ignored.
    """
    if action is None:
        return ()
    if not hasattr(action, "slots"):
        return action.fcurves
    bag = channelbag(action, slot) if slot is not None else None
    return bag.fcurves if bag is not None else ()


def channelbag(action: bpy.types.Action, slot: Any, ensure: bool = False) -> Any:
    """The channelbag of a slot, None without one; with `ensure` it is made."""
    if ensure:
        layer = action.layers[0] if action.layers else action.layers.new("Layer")
        strip = layer.strips[0] if layer.strips else layer.strips.new(type="KEYFRAME")
        return strip.channelbag(slot, ensure=True)
    for layer in action.layers:
        for strip in layer.strips:
            bag = strip.channelbag(slot)
            if bag is not None:
                return bag
    return None


def assigned_curves(ob: bpy.types.ID) -> Any:
    """The F-curves of the action and slot that are assigned to an ID."""
    data = ob.animation_data
    if data is None or data.action is None:
        return ()
    return action_curves(data.action, getattr(data, "action_slot", None))


def strip_curves(strip: bpy.types.NlaStrip) -> Any:
    """The F-curves that an NLA strip plays."""
    return action_curves(strip.action, getattr(strip, "action_slot", None))


def slot_curve_collections(action: bpy.types.Action, ob: bpy.types.ID) -> Iterator[Any]:
    """The collections of F-curves of an action that belong to an ID: those of slots it may use."""
    if not hasattr(action, "slots"):
        yield action.fcurves
        return
    for layer in action.layers:
        for strip in layer.strips:
            for bag in strip.channelbags:
                users = bag.slot.users() if bag.slot is not None else ()
                if not users or ob in users:
                    yield bag.fcurves


def curve_plays(curve: bpy.types.FCurve, in_nla: bool) -> bool:
    """Whether an F-curve is evaluated.

    Args:
        in_nla: the object has NLA strips that play. From Blender 4.4 on, only then a muted
            group and a curve marked as disabled are left out.
    """
    if curve.mute or curve.is_empty:
        return False
    if in_nla or not hasattr(bpy.types, "ActionSlot"):
        return curve.is_valid and not (curve.group is not None and curve.group.mute)
    return True


def slot_name(ob: bpy.types.ID) -> str:
    """A name for the assigned slot of an ID that stays the same while it is assigned."""
    slot = getattr(ob.animation_data, "action_slot", None)
    return slot.identifier if slot is not None else ""


def bone_selected(pose_bone: bpy.types.PoseBone) -> bool:
    """Whether a pose bone is selected: stored on the pose bone from Blender 5.0 on."""
    return pose_bone.select if hasattr(pose_bone, "select") else pose_bone.bone.select


def select_bone(pose_bone: bpy.types.PoseBone, select: bool) -> None:
    """Select or deselect a pose bone."""
    if hasattr(pose_bone, "select"):
        pose_bone.select = select
    else:
        pose_bone.bone.select = select


def has_operator(category: Any, name: str) -> bool:
    """Whether an operator is registered, as in ``has_operator(bpy.ops.wm, "fbx_import")``."""
    try:
        getattr(category, name).get_rna_type()
    except KeyError:
        return False
    return True
