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
    """The collections of F-curves of an action that an ID plays."""
    if not hasattr(action, "slots"):
        yield action.fcurves
        return
    for layer in action.layers:
        for strip in layer.strips:
            for bag in strip.channelbags:
                if ob in slot_users(action, bag.slot_handle):
                    yield bag.fcurves


def unused_curves(action: bpy.types.Action) -> Iterator[tuple[str, Any]]:
    """The collections of F-curves of an action that nothing plays, with the name of their slot, if any."""
    if not hasattr(action, "slots"):
        if not slot_users(action, 0):
            yield "", action.fcurves
        return
    for layer in action.layers:
        for strip in layer.strips:
            for bag in strip.channelbags:
                if not slot_users(action, bag.slot_handle):
                    yield bag.slot.identifier, bag.fcurves


def takes_slot(ob: bpy.types.ID, identifier: str) -> bool:
    """Whether Blender would give an ID the slot of this name when it is assigned an action."""
    last = getattr(ob.animation_data, "last_slot_identifier", "")
    return bool(identifier) and identifier in (last, f"OB{ob.name}")


def slot_users(action: bpy.types.Action, handle: int) -> list[bpy.types.ID]:
    """What plays the curves of an action's slot, as often as it does.

    As assigned action, in an NLA strip or in an Action constraint. Not by `slot.users()`:
    on Blender 4.5 that crashes while an armature has not been evaluated.
    """
    users = bpy.data.user_map(subset=[action])[action]
    return [user for user in users for _ in range(_uses(user, action, handle))]


def has_slots(action: bpy.types.Action) -> bool:
    """Whether the curves of an action lie in slots: Blender 4.4 and later."""
    return hasattr(action, "slots")


def slot_handle(ob: bpy.types.ID) -> int:
    """The number of the assigned slot inside its action; 0 where there are no slots."""
    slot = getattr(ob.animation_data, "action_slot", None)
    return slot.handle if slot is not None else 0


def find_slot(action: bpy.types.Action, handle: int, ob: bpy.types.ID) -> Any:
    """The slot of an action with this number, or None.

    A number that was noted before Blender 4.4 is 0: it stands for the slot of `ob`.
    """
    if not hasattr(action, "slots"):
        return None
    if handle == 0 and ob.animation_data.action == action:
        return ob.animation_data.action_slot
    return next((slot for slot in action.slots if slot.handle == handle), None)


def assign_action(ob: bpy.types.ID, action: bpy.types.Action | None, handle: int) -> None:
    """Assign an action, and its slot of this number."""
    ob.animation_data.action = action
    if action is not None and hasattr(action, "slots"):
        ob.animation_data.action_slot = find_slot(action, handle, ob)


def ensure_slot(ob: bpy.types.ID) -> bool:
    """Give `ob` a slot of its action when it has none; returns whether one was made.

    Without a slot the curves of an action do not play.
    """
    data = ob.animation_data
    if not hasattr(data.action, "slots") or data.action_slot is not None:
        return False
    data.action_slot = data.action.slots.new(id_type=ob.id_type, name=ob.name)
    return True


def remove_slot(action: bpy.types.Action, slot: Any) -> None:
    """Remove a slot of an action; does nothing before Blender 4.4."""
    if slot is not None:
        action.slots.remove(slot)


def curve_groups(action: bpy.types.Action, slot: Any) -> Any:
    """The groups of the curves of a slot; an empty tuple where it has no curves."""
    if not hasattr(action, "slots"):
        return action.groups
    bag = channelbag(action, slot) if slot is not None else None
    return bag.groups if bag is not None else ()


def new_curve(
    action: bpy.types.Action, slot: Any, path: str, index: int, group: str
) -> tuple[bpy.types.FCurve, bool]:
    """A new F-curve in a group of this name, if any; also returns whether the group was made."""
    if not hasattr(action, "slots"):
        made = bool(group) and group not in action.groups
        return action.fcurves.new(path, index=index, action_group=group), made
    bag = channelbag(action, slot, ensure=True)
    curve = bag.fcurves.new(path, index=index)
    if not group:
        return curve, False
    made = group not in bag.groups
    # By hand: the argument for it has another name, or none, in some versions.
    curve.group = bag.groups.new(group) if made else bag.groups[group]
    return curve, made


def plays_elsewhere(ob: bpy.types.ID) -> bool:
    """Whether the curves of `ob`'s action and slot are played by anything else.

    That is another object, an NLA strip or an Action constraint, also of `ob` itself.
    Other slots of the same action do not count.
    """
    action = ob.animation_data.action
    if action.users - action.use_fake_user <= 1:
        return False
    return len(slot_users(action, slot_handle(ob))) > 1


def _uses(user: bpy.types.ID, action: bpy.types.Action, handle: int) -> int:
    """How often an ID plays the curves of an action's slot."""
    data = getattr(user, "animation_data", None)
    places = [(data.action, getattr(data, "action_slot", None))] if data else []
    strips = [strip for track in data.nla_tracks for strip in track.strips] if data else []
    while strips:
        strip = strips.pop()
        strips.extend(strip.strips)
        places.append((strip.action, getattr(strip, "action_slot", None)))
    if isinstance(user, bpy.types.Object):
        owners = [user, *(user.pose.bones if user.pose else ())]
        constraints = [c for owner in owners for c in owner.constraints if c.type == "ACTION"]
        places.extend((c.action, getattr(c, "action_slot", None)) for c in constraints)
    return sum(
        other == action and (not hasattr(action, "slots") or (slot is not None and slot.handle == handle))
        for other, slot in places
    )


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


def newer_release_of_file() -> tuple[str, str] | None:
    """The release that wrote the open file, and this one, where the file is newer."""
    saved, here = bpy.data.version[:2], bpy.app.version[:2]
    if saved <= here:
        return None
    return ".".join(map(str, saved)), ".".join(map(str, here))
