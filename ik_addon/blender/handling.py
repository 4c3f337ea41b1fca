# SPDX-License-Identifier: GPL-3.0-or-later
"""The channels that chains write: rotation, and where a gap leads to it, location or scale."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import bpy

from ..core.stretch import stretched_bones
from . import animation, rest
from .chain_bones import ChainBones, ChainError, resolve
from .obstacles import obstacles


@dataclass(frozen=True)
class HeldChannels:
    """Names of the bones whose FK value must be kept, by channel: all that a chain writes, at any frame."""

    rotation: tuple[str, ...] = ()
    location: tuple[str, ...] = ()
    scale: tuple[str, ...] = ()


def held_channels(
    ob: bpy.types.Object, chain: Any, in_the_way: Mapping[str, str] | None = None
) -> HeldChannels:
    """The bones whose channels a chain writes.

    Args:
        chain: an IKChain, or anything with its settings.
        in_the_way: the `obstacles` of `ob`, by those who ask for many chains.

    Raises:
        ChainError: when the chain names no path that its solver can turn, or a bone to move
            that cannot move.
    """
    bones = resolve(ob, chain)
    animated = animation.animated_chain_settings(ob)
    takes_end = bones.end and (chain.use_rotation or {"solver", "use_tail", "use_rotation"} & animated)
    rotation = (*bones.turned, bones.end) if takes_end else bones.turned
    location: tuple[str, ...] = ()
    scale: tuple[str, ...] = ()
    if chain.solver != "AIM":
        switched = "limit_mode" in animated
        if chain.limit_mode == "MOVE_ROOT":
            location = (moved_bone(ob, chain, bones, in_the_way),)
        elif switched:
            # On another frame the mode may be another one; a bone that cannot move is refused there.
            with suppress(ChainError):
                location = (moved_bone(ob, chain, bones, in_the_way),)
        if chain.limit_mode == "STRETCH" or switched:
            scale = _stretched(ob, chain, bones)
    return HeldChannels(rotation, location, scale)


def _stretched(ob: bpy.types.Object, chain: Any, bones: ChainBones) -> tuple[str, ...]:
    skeleton = rest.skeleton_of([ob], [rest.bone_order(ob)])
    index = skeleton.index
    path = tuple(index[f"0/{name}"] for name in bones.turned)
    found = stretched_bones(skeleton, path, index[f"0/{bones.end}"] if bones.end else -1)
    names = tuple(skeleton.names[bone].partition("/")[2] for bone in found)
    for name in names:
        if _is_driven(ob, name, "scale"):
            raise ChainError(
                f"{ob.name}: chain '{chain.name}': the scale of bone '{name}' has a driver, which acts"
                " after the chain; it cannot stretch"
            )
    return names


def moved_bone(
    ob: bpy.types.Object, chain: Any, bones: ChainBones, in_the_way: Mapping[str, str] | None = None
) -> str:
    """The bone that a chain moves when its tip is off the target; without a name the nearest that can.

    Args:
        in_the_way: as `held_channels` takes it. All who ask must see the same obstacles: a bone that one
            takes for moved and another does not would keep what was written to it.

    Raises:
        ChainError: when it cannot move, with the reason and the ancestors that would do.
    """
    reasons = obstacles(ob) if in_the_way is None else in_the_way
    above = [bone.name for bone in ob.data.bones[bones.turned[0]].parent_recursive]
    free = [name for name in above if not _cannot_move(ob, name, reasons)]
    who = f"{ob.name}: chain '{chain.name}'"
    would_do = f"; {_listed(free)} would do" if free else "; no bone above it can move"
    if not chain.move_bone:
        if free:
            return free[0]
        raise ChainError(f"{who} has no bone to move: {_reasons(ob, above, bones.turned[0], reasons)}")
    name = chain.move_bone
    if name not in ob.data.bones:
        raise ChainError(f"{who}: the bone to move, '{name}', does not exist{would_do}")
    if name not in above:
        raise ChainError(f"{who}: bone '{name}' is not above root bone '{bones.turned[0]}'{would_do}")
    why = _cannot_move(ob, name, reasons)
    if why:
        raise ChainError(f"{who}: bone '{name}' cannot move, {why}{would_do}")
    return name


def nearest_free_bone(ob: bpy.types.Object, chain: Any) -> str:
    """The bone that a chain without a named one moves, or an empty string."""
    try:
        return moved_bone(ob, chain, resolve(ob, chain))
    except ChainError:
        return ""


def _listed(names: list[str]) -> str:
    return " or ".join(f"'{name}'" for name in names)


def _reasons(ob: bpy.types.Object, above: list[str], root: str, reasons: Mapping[str, str]) -> str:
    if not above:
        return f"nothing is above '{root}'"
    return "; ".join(f"'{name}': {_cannot_move(ob, name, reasons)}" for name in above)


def _cannot_move(ob: bpy.types.Object, name: str, reasons: Mapping[str, str]) -> str:
    """Why the location channel of a bone cannot be written, as the end of a sentence, or nothing."""
    bone = ob.pose.bones[name]
    if bone.bone.use_connect:
        return "it is connected"
    if any(bone.lock_location):
        return "its location is locked"
    if name in reasons and "constraint" in reasons[name]:
        return reasons[name].replace("turns bone", "poses bone")
    if _is_driven(ob, name, "location"):
        return "its location has a driver"
    return ""


def _is_driven(ob: bpy.types.Object, name: str, prop: str) -> bool:
    path = animation.vector_path(name, prop)
    data = ob.animation_data
    return data is not None and any(c.data_path == path and not c.mute for c in data.drivers)
