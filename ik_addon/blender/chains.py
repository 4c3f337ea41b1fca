# SPDX-License-Identifier: GPL-3.0-or-later
"""Add, check, move and remove the chains of an armature object."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import bpy

from . import anchors, bake_store, handling, memory, paths, placing
from .chain_bones import ChainError, resolve, uses_pole
from .joint_limits import is_local_limit
from .obstacles import obstacles
from .state import STATE


def problem(ob: bpy.types.Object, chain: Any, in_the_way: Mapping[str, str] | None = None) -> str:
    """Why a chain cannot be solved, as one sentence, or an empty string.

    Args:
        in_the_way: the `obstacles` of `ob`, by those who ask for many chains.
    """
    reasons = obstacles(ob) if in_the_way is None else in_the_way
    try:
        held = handling.held_channels(ob, chain, reasons)
    except ChainError as error:
        return str(error)
    who = f"{ob.name}: chain '{chain.name}'"
    for bone in held.rotation:
        if bone in reasons:
            return f"{who}: {reasons[bone]}"
        if not chain.use_limits and any(map(is_local_limit, ob.pose.bones[bone].constraints)):
            return f"{who}: bone '{bone}' has a Limit Rotation constraint; mute it, or switch Use Limits on"
    for label, space, target, bone in (
        ("target", chain.target_space, chain.target, chain.subtarget),
        ("pole", chain.pole_space, chain.pole_target, chain.pole_subtarget),
    ):
        if space != "CUSTOM" or (label == "pole" and not uses_pole(chain)):
            continue
        if target is None:
            return f"{who} has a {label} in custom space but no {label} object"
        if bone and (target.type != "ARMATURE" or bone not in target.data.bones):
            return f"{who}: {label} bone '{bone}' does not exist in '{target.name}'"
    return ""


def add(
    ob: bpy.types.Object, root_bone: str, end_bone: str, *, name: str = "", **settings: Any
) -> bpy.types.PropertyGroup:
    """Add a chain to an armature object; nothing moves.

    Without `target_location` the target is put where the tip is now, in its space; the
    same holds for `target_rotation` and the end bone, and for `pole_location`.

    Args:
        settings: values of any other property of a chain.

    Raises:
        ChainError: before anything is changed, when the chain cannot be solved.
    """
    check(ob, root_bone, end_bone, name=name, **settings)
    bpy.context.view_layer.update()
    chain = ob.ik_chains.add()
    try:
        # The name first: everything else refers to it.
        chain.name = name or end_bone
        for key, value in {"root_bone": root_bone, "end_bone": end_bone, **settings}.items():
            setattr(chain, key, value)
        placing.place(ob, chain, keep=set(settings))
    except (TypeError, ValueError, AttributeError) as error:
        anchors.drop(ob, chain)
        ob.ik_chains.remove(len(ob.ik_chains) - 1)
        raise ChainError(f"{ob.name}: chain '{name or end_bone}': {error}") from error
    ob.ik_chains_index = len(ob.ik_chains) - 1
    STATE.forget_plans()
    ob.update_tag()
    return chain


def check(
    ob: bpy.types.Object, root_bone: str, end_bone: str, *, name: str = "", **settings: Any
) -> tuple[str, ...]:
    """The bones that a chain would turn, root first, if `add` added it.

    Raises:
        ChainError: when the chain cannot be solved.
    """
    if ob.type != "ARMATURE":
        raise ChainError(f"{ob.name} is not an armature")
    draft = _Draft({"name": name or end_bone, "root_bone": root_bone, "end_bone": end_bone, **settings})
    turned = resolve(ob, draft).turned
    text = problem(ob, draft)
    if text:
        raise ChainError(text)
    return turned


def that_turn(ob: bpy.types.Object, names: Collection[str]) -> list[bpy.types.PropertyGroup]:
    """The chains of an armature object that turn any of these bones."""
    found = []
    for chain in ob.ik_chains:
        try:
            turned = resolve(ob, chain).turned
        except ChainError:
            continue
        if not set(names).isdisjoint(turned):
            found.append(chain)
    return found


class _Draft:
    """The settings of a chain that is not there yet, with the defaults of `IKChain`."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings

    def __getattr__(self, key: str) -> Any:
        if key in self._settings:
            return self._settings[key]
        prop = bpy.types.Object.bl_rna.properties["ik_chains"].fixed_type.properties[key]
        if prop.type == "POINTER":
            return None
        return tuple(prop.default_array) if getattr(prop, "is_array", False) else prop.default


def remove(ob: bpy.types.Object, index: int) -> None:
    """Remove a chain: its bones get their FK pose back, curves and drivers of the others stay theirs.

    Raises:
        ChainError: before anything is changed, when a library override has the chain from
            its library: Blender cannot remove it there.
    """
    chain = ob.ik_chains[index]
    if is_from_library(ob, chain):
        raise ChainError(f"{ob.name}: chain '{chain.name}' comes from the rig's library: mute it instead")
    bake_store.forget_chain(ob, chain.uid)
    anchors.drop(ob, chain)
    paths.drop_curves(ob, index, chain.name)
    ob.ik_chains.remove(index)
    paths.renumber(ob, {old: old - 1 for old in range(index + 1, len(ob.ik_chains) + 1)})
    ob.ik_chains_index = min(ob.ik_chains_index, max(0, len(ob.ik_chains) - 1))
    memory.release_unused(ob)
    STATE.forget_plans()
    ob.update_tag()


def is_from_library(ob: bpy.types.Object, chain: bpy.types.PropertyGroup) -> bool:
    """Whether a library override has a chain from its library."""
    override = ob.override_library
    return bool(override and override.reference) and chain.name in override.reference.ik_chains


def move(ob: bpy.types.Object, index: int, to: int) -> None:
    """Move a chain to another place in the list, with its curves and drivers."""
    ob.ik_chains.move(index, to)
    step = 1 if to < index else -1
    shifted = range(min(index, to), max(index, to) + 1)
    paths.renumber(ob, {old: to if old == index else old + step for old in shifted})
    ob.ik_chains_index = to
    STATE.forget_plans()
    ob.update_tag()
