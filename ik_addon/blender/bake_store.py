# SPDX-License-Identifier: GPL-3.0-or-later
"""What a bake replaced, kept in the file until it is unbaked.

The keys lie as arrays where they belong: those of a rotation channel on its pose bone, those
of a chain's mute on the object, by the number of the chain. So they follow renamed bones,
renamed and moved chains and copied rigs, undo, save and load, and work on library overrides.
Hidden actions would do the same, but exporters write out every action of a file. No pointer
to the baked action either: it would count as a user. A number on the action takes its place.
"""

# No postponed annotations here: Blender reads the properties from the annotations.
# mypy: disable-error-code="valid-type"

import random
from typing import Any

import bpy
import numpy as np
from bpy.props import (
    BoolProperty,
    CollectionProperty,
    FloatProperty,
    IntProperty,
    PointerProperty,
    StringProperty,
)

from . import keys as keying

OVERRIDE = {"LIBRARY_OVERRIDABLE"}
COLLECTION = {"LIBRARY_OVERRIDABLE", "USE_INSERTION"}
HIDDEN = {"HIDDEN"}


class IKBakedCurve(bpy.types.PropertyGroup):
    """One curve of a channel before its first bake; the arrays lie beside the properties."""

    index: IntProperty(description="Component of the property", options=HIDDEN, override=OVERRIDE)
    existed: BoolProperty(description="There was a curve", options=HIDDEN, override=OVERRIDE)
    value: FloatProperty(description="Value without a curve", options=HIDDEN, override=OVERRIDE)


class IKBakedChannel(bpy.types.PropertyGroup):
    """A property whose curves were baked in one action.

    Its frame ranges and the numbers of the chains lie beside the properties.
    """

    action: IntProperty(description="Number of the baked action", options=HIDDEN, override=OVERRIDE)
    slot: IntProperty(description="Handle of the baked slot", options=HIDDEN, override=OVERRIDE)
    path: StringProperty(description="Name of the property", options=HIDDEN, override=OVERRIDE)
    made_group: BoolProperty(description="The bake made the group", options=HIDDEN, override=OVERRIDE)
    curves: CollectionProperty(
        type=IKBakedCurve, description="Curves before the bake", options=HIDDEN, override=COLLECTION
    )


class IKBakedAction(bpy.types.PropertyGroup):
    """An action that was baked into, and what was assigned before."""

    action: IntProperty(description="Number of the baked action", options=HIDDEN, override=OVERRIDE)
    made_action: BoolProperty(description="The bake made the action", options=HIDDEN, override=OVERRIDE)
    made_slot: BoolProperty(description="The bake made the slot", options=HIDDEN, override=OVERRIDE)
    before: PointerProperty(
        type=bpy.types.Action,
        description="The shared action that this one is a copy of",
        options=HIDDEN,
        override=OVERRIDE,
    )


CLASSES = (IKBakedCurve, IKBakedChannel, IKBakedAction)


def array(group: bpy.types.PropertyGroup, name: str, width: int) -> np.ndarray:
    """An array beside the properties of a group, ``(n, width)`` float32; empty when unset."""
    flat = np.array(group.get(name, ()), np.float32)
    return flat.reshape(-1, width)


def set_array(group: bpy.types.PropertyGroup, name: str, values: np.ndarray) -> None:
    """Store ``(n, width)`` numbers beside the properties of a group, or remove an empty array."""
    # Blender (4.2 to 5.3) copies an array over the one that is there without resizing it.
    if name in group:
        del group[name]
    if len(values):
        group[name] = np.ascontiguousarray(values, np.float32).ravel()


def ranges(channel: IKBakedChannel) -> np.ndarray:
    """The baked ranges of a channel, ``(n, 2)`` first and last frame, sorted, apart."""
    return array(channel, "ranges", 2)


def add_range(channel: IKBakedChannel, first: float, last: float) -> None:
    """Add a baked range to those of a channel; overlapping ones become one."""
    united: list[list[float]] = []
    for low, high in sorted([*ranges(channel).tolist(), [first, last]]):
        if united and low <= united[-1][1]:
            united[-1][1] = max(united[-1][1], high)
        else:
            united.append([low, high])
    set_array(channel, "ranges", np.array(united))


def keep(curve: IKBakedCurve, keys: np.ndarray) -> None:
    """Add keys that a bake is about to replace."""
    set_array(curve, "keys", keying.merged(kept(curve), keys))


def kept(curve: IKBakedCurve) -> np.ndarray:
    """The replaced keys of a curve, see `keys`."""
    return array(curve, "keys", keying.WIDTH)


def added(curve: IKBakedCurve) -> np.ndarray:
    """Keys that a bake set beside its range: ``(n, 2)`` frame and value."""
    return array(curve, "added", 2)


def set_added(curve: IKBakedCurve, values: np.ndarray) -> None:
    """Note the keys that a bake set beside its range."""
    set_array(curve, "added", values)


def channel(owner: Any, action: int, slot: int, path: str, chain: int = 0) -> IKBakedChannel:
    """The backup of a property in an action and slot, made where there is none.

    Args:
        owner: the pose bone, or the object for a property of the chain with number `chain`.
    """
    key = f"{action} {slot} {chain} {path}"
    found = owner.ik_baked.get(key)
    if found is None:
        found = owner.ik_baked.add()
        found.name, found.action, found.slot, found.path = key, action, slot, path
    return found


def chains(channel: IKBakedChannel) -> set[int]:
    """Numbers of the chains whose bake wrote a channel."""
    return set(array(channel, "chains", 1)[:, 0].astype(int).tolist())


def set_chains(channel: IKBakedChannel, numbers: set[int]) -> None:
    """Note the chains whose bake wrote a channel."""
    set_array(channel, "chains", np.array(sorted(numbers)).reshape(-1, 1))


def owners(ob: bpy.types.Object) -> list[Any]:
    """What holds backups: the object and those of its pose bones that have some."""
    bones = [bone for bone in ob.pose.bones if len(bone.ik_baked)] if ob.pose else []
    return [ob, *bones]


def baked_chains(ob: bpy.types.Object) -> set[int]:
    """Numbers of the chains of `ob` that can be unbaked."""
    return {number for channel in ob.ik_baked for number in chains(channel)}


def forget_chain(ob: bpy.types.Object, chain: int) -> None:
    """Drop the backups of a chain that is removed: what was baked stays."""
    for owner in owners(ob):
        for place in reversed(range(len(owner.ik_baked))):
            left = chains(owner.ik_baked[place]) - {chain}
            set_chains(owner.ik_baked[place], left)
            if not left:
                owner.ik_baked.remove(place)


def number(action: bpy.types.Action) -> int:
    """The number of an action, which tells it from all others; given to it when first asked for."""
    if not action.ik_bake_number:
        action.ik_bake_number = random.randrange(1, 2**31)
    return action.ik_bake_number


def find_action(ob: bpy.types.Object, wanted: int) -> bpy.types.Action | None:
    """The action of this number: the assigned one when it is, for copies of an action share it."""
    assigned = ob.animation_data.action if ob.animation_data else None
    if assigned is not None and assigned.ik_bake_number == wanted:
        return assigned
    return next((action for action in bpy.data.actions if action.ik_bake_number == wanted), None)


def register() -> None:
    """Add the groups, and their places on actions, objects and pose bones."""
    for cls in CLASSES:
        bpy.utils.register_class(cls)
    bpy.types.Action.ik_bake_number = IntProperty(
        description="Number by which backups of baked keys find the action", options=HIDDEN, override=OVERRIDE
    )
    bpy.types.Object.ik_baked_actions = CollectionProperty(
        type=IKBakedAction, description="Actions that were baked into", options=HIDDEN, override=COLLECTION
    )
    bpy.types.Object.ik_baked = CollectionProperty(
        type=IKBakedChannel, description="Mute of chains before the bake", options=HIDDEN, override=COLLECTION
    )
    bpy.types.PoseBone.ik_baked = CollectionProperty(
        type=IKBakedChannel, description="Keys before the bake", options=HIDDEN, override=COLLECTION
    )


def unregister() -> None:
    """Take away what `register` added; the data stays in the file."""
    del bpy.types.PoseBone.ik_baked
    del bpy.types.Object.ik_baked
    del bpy.types.Object.ik_baked_actions
    del bpy.types.Action.ik_bake_number
    for cls in reversed(CLASSES):
        bpy.utils.unregister_class(cls)
