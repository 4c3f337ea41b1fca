# SPDX-License-Identifier: GPL-3.0-or-later
"""Add, check, move and remove the chains of an armature object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import bpy

from . import anchors, animation, bake_store, memory, paths, placing
from .joint_limits import is_local_limit
from .obstacles import obstacles
from .state import STATE


class ChainError(ValueError):
    """What is wrong with a chain, in one sentence that a rigger can act on."""


@dataclass(frozen=True)
class ChainBones:
    """The bones of a chain by name.

    Attributes:
        turned: the bones that bring the tip to the target, root first.
        end: the bone whose head is the tip, or an empty string: the tip is a tail.
    """

    turned: tuple[str, ...]
    end: str


COUNTS = {2: "two", 3: "three"}
# Head to next head, as a fraction of the limb: shorter ones have no direction.
SHORTEST = 1e-6


def resolve(ob: bpy.types.Object, chain: Any) -> ChainBones:
    """The bones that a chain names.

    Args:
        ob: the armature object.
        chain: an IKChain, or anything with its bone and solver settings.

    Raises:
        ChainError: when the chain names no path that its solver can turn.
    """
    bones = ob.data.bones
    who = f"{ob.name}: chain '{chain.name}'"
    root_name = chain.root_bone or (chain.end_bone if chain.solver == "AIM" else "")
    for label, name in (("root", root_name), ("end", chain.end_bone)):
        if not name:
            raise ChainError(f"{who} names no {label} bone")
        if name not in bones:
            raise ChainError(f"{who}: {label} bone '{name}' does not exist")
    path = [bones[chain.end_bone]]
    while path[0].name != root_name:
        if path[0].parent is None:
            raise ChainError(f"{who}: end bone '{chain.end_bone}' is not below root bone '{root_name}'")
        path.insert(0, path[0].parent)
    names = tuple(bone.name for bone in path)
    if chain.solver == "AIM":
        if len(names) != 1:
            differ = f"root '{names[0]}' and end '{names[-1]}' differ"
            raise ChainError(f"{who}: aiming turns one bone, but {differ}")
        return ChainBones(names, "")
    by_tail = chain.use_tail
    turned = names if by_tail else names[:-1]
    if not turned:
        both = f"root and end are both '{names[0]}'"
        raise ChainError(f"{who}: {both}, so with Use Tail off no bone is left to turn")
    if chain.solver == "TWO_BONE":
        if len(turned) != 2:
            raise ChainError(f"{who}: the two-bone solver {_too_many(2, turned, by_tail)}")
        _check_lengths(who, path, by_tail)
    if chain.solver == "THREE_BONE":
        if len(turned) != 3:
            raise ChainError(f"{who}: the three-bone solver {_too_many(3, turned, by_tail)}")
        _check_lengths(who, path, by_tail)
    return ChainBones(turned, "" if by_tail else names[-1])


def _too_many(count: int, turned: tuple[str, ...], by_tail: bool) -> str:
    """What is wrong with a chain that turns `turned` where its solver turns `count` bones."""
    text = f"turns {COUNTS[count]} bones, not {len(turned)} ({', '.join(turned)})"
    if by_tail and len(turned) == count + 1:
        return f"{text}; switch Use Tail off to end at the head of '{turned[-1]}', or use FABRIK"
    return f"{text}; use FABRIK"


def held_bones(ob: bpy.types.Object, chain: Any) -> tuple[str, ...]:
    """The bones whose FK value must be kept: all that the chain turns, at any frame.

    Raises:
        ChainError: as `resolve`.
    """
    bones = resolve(ob, chain)
    switched = {"solver", "use_tail", "use_rotation"} & animation.animated_chain_settings(ob)
    takes_end = bones.end and (chain.use_rotation or switched)
    return (*bones.turned, bones.end) if takes_end else bones.turned


def _check_lengths(who: str, path: list[bpy.types.Bone], by_tail: bool) -> None:
    joints = [bone.head_local for bone in path] + ([path[-1].tail_local] if by_tail else [])
    lengths = [(after - before).length for before, after in zip(joints, joints[1:], strict=False)]
    for bone, size in zip(path, lengths, strict=False):
        if size <= SHORTEST * sum(lengths):
            raise ChainError(f"{who}: bone '{bone.name}' has no length up to the next joint")


def problem(ob: bpy.types.Object, chain: Any, in_the_way: Mapping[str, str] | None = None) -> str:
    """Why a chain cannot be solved, as one sentence, or an empty string.

    Args:
        in_the_way: the `obstacles` of `ob`, by those who ask for many chains.
    """
    try:
        turned = held_bones(ob, chain)
    except ChainError as error:
        return str(error)
    who = f"{ob.name}: chain '{chain.name}'"
    reasons = obstacles(ob) if in_the_way is None else in_the_way
    for bone in turned:
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


def uses_pole(chain: bpy.types.PropertyGroup) -> bool:
    """Whether the pole settings of a chain have an effect."""
    if chain.pole_mode == "AUTO" or (chain.solver == "AIM" and chain.aim_mode != "LOOK_AT"):
        return False
    return not (chain.solver == "TWO_BONE" and chain.use_planar)


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
    if ob.type != "ARMATURE":
        raise ChainError(f"{ob.name} is not an armature")
    draft = _Draft({"name": name or end_bone, "root_bone": root_bone, "end_bone": end_bone, **settings})
    resolve(ob, draft)
    text = problem(ob, draft)
    if text:
        raise ChainError(text)
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
