# SPDX-License-Identifier: GPL-3.0-or-later
"""The bones that a chain names, and what is wrong where they are no chain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import bpy


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


def _check_lengths(who: str, path: list[bpy.types.Bone], by_tail: bool) -> None:
    joints = [bone.head_local for bone in path] + ([path[-1].tail_local] if by_tail else [])
    lengths = [(after - before).length for before, after in zip(joints, joints[1:], strict=False)]
    for bone, size in zip(path, lengths, strict=False):
        if size <= SHORTEST * sum(lengths):
            raise ChainError(f"{who}: bone '{bone.name}' has no length up to the next joint")


def uses_pole(chain: bpy.types.PropertyGroup) -> bool:
    """Whether the pole settings of a chain have an effect."""
    if chain.pole_mode == "AUTO" or (chain.solver == "AIM" and chain.aim_mode != "LOOK_AT"):
        return False
    return not (chain.solver == "TWO_BONE" and chain.use_planar)
