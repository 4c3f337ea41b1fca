# SPDX-License-Identifier: GPL-3.0-or-later
"""Set a character up: find its limbs by the names of its bones and add their chains; nothing moves.

Feet stand in the world. Hands are in the character's space. A tail goes with the bone that it hangs on,
and so does a spine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import bpy

from ..core.body import ARMS, LEGS, TAILS, Limb, RestBone
from ..core.limb_finder import find_limbs
from . import chains, presets
from .chain_bones import ChainError
from .obstacles import obstacles

SPINE = "SPINE"
# What each part is, for sentences.
PARTS = {ARMS: "arms", LEGS: "legs", SPINE: "a spine", TAILS: "a tail"}
AUTO = "AUTO"


@dataclass(frozen=True)
class Wanted:
    """A chain that is going to be added."""

    root: str
    end: str
    settings: dict[str, Any]


@dataclass
class Plan:
    """What a setup is going to add.

    Attributes:
        wanted: the chains.
        left_out: limbs that seem to be there but are left out: "name: reason".
        missing: parts of a body of which no bone tells, a sentence each.
    """

    wanted: list[Wanted] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Report:
    """What a setup has done.

    Attributes:
        chains: names of the chains that were added.
        left_out: what was not, and why, a sentence each.
    """

    chains: list[str]
    left_out: list[str]


def add(ob: bpy.types.Object, preset: str = AUTO) -> Report:
    """Add the chains of a character's limbs.

    Args:
        preset: AUTO, all that is found; or one of `PARTS`.

    Raises:
        ChainError: before anything is changed, when there is nothing to add.
    """
    wanted = plan(ob, preset)
    added = [chains.add(ob, chain.root, chain.end, **chain.settings).name for chain in wanted.wanted]
    return Report(added, [*(f"'{ob.name}': {text}" for text in wanted.left_out), *wanted.missing])


def plan(ob: bpy.types.Object, preset: str = AUTO) -> Plan:
    """What `add` would add. It changes nothing, and raises the same."""
    if ob.type != "ARMATURE":
        raise ChainError(f"{ob.name} is not an armature")
    parts = set(PARTS) if preset == AUTO else {preset}
    found = Plan()
    _plan_spine(ob, found, parts)
    _plan_limbs(ob, found, parts)
    if found.wanted:
        return found
    if found.left_out:
        raise ChainError(f"'{ob.name}': nothing is added: {'; '.join(found.left_out)}")
    if preset == SPINE:
        raise ChainError(found.missing[0])
    names = [name for part, name in PARTS.items() if part in parts]
    told = f"{', '.join(names[:-1])} or {names[-1]}" if len(names) > 1 else names[0]
    raise ChainError(f"'{ob.name}' has no bones whose names tell of {told}")


def _plan_spine(ob: bpy.types.Object, found: Plan, parts: set[str]) -> None:
    if SPINE not in parts:
        return
    try:
        spine = presets.find_spine(ob)
    except ChainError as error:
        found.missing.append(str(error))
        return
    try:
        settings = {**presets.spine_settings(ob, spine), "name": "Spine"}
    except ChainError as error:
        found.left_out.append(f"Spine: {error}")
        return
    _want(ob, found, Wanted(spine.root, spine.end, settings))


def _plan_limbs(ob: bpy.types.Object, found: Plan, parts: set[str]) -> None:
    body = find_limbs(_rest_bones(ob))
    for limb in body.limbs:
        if limb.part in parts:
            end = limb.end or limb.turned[-1]
            _want(ob, found, Wanted(limb.turned[0], end, _settings(ob, limb)))
    found.left_out += [f"{limb.name}: {limb.reason}" for limb in body.left_out if limb.part in parts]
    there = {limb.part for limb in body.limbs} | {limb.part for limb in body.left_out}
    if body.on_four_feet:
        there.add(ARMS)
    # A body without a tail is as usual as one with it.
    absent = [PARTS[part] for part in (ARMS, LEGS) if part in parts - there]
    if absent:
        found.missing.append(f"'{ob.name}' has no bones whose names tell of {' or '.join(absent)}")


def _want(ob: bpy.types.Object, found: Plan, wanted: Wanted) -> None:
    """Plan a chain, or say why not."""
    name = wanted.settings["name"]
    try:
        turned = chains.check(ob, wanted.root, wanted.end, **wanted.settings)
    except ChainError as error:
        reason = str(error).removeprefix(f"{ob.name}: chain '{name}': ")
        found.left_out.append(f"{name}: {reason}")
        return
    there = chains.that_turn(ob, turned)
    if not there:
        found.wanted.append(wanted)
        return
    chain = there[0]
    at = f"from '{chain.root_bone}' to '{chain.end_bone}'"
    found.left_out.append(f"{name}: '{ob.name}' has chain '{chain.name}' {at} already")


def _settings(ob: bpy.types.Object, limb: Limb) -> dict[str, Any]:
    """The settings of the chain of a limb.

    Rotation stays off: the hand or foot keeps what FK does with it until the animator asks for more.
    """
    settings: dict[str, Any] = {"name": limb.name, "solver": limb.solver, "use_tail": not limb.end}
    if limb.limb_mode:
        settings["limb_mode"] = limb.limb_mode
    if limb.part == TAILS and limb.carrier:
        return {**settings, "target_space": "CUSTOM", "target": ob, "subtarget": limb.carrier}
    return {**settings, "target_space": "WORLD" if limb.stands else "ARMATURE"}


def _rest_bones(ob: bpy.types.Object) -> Iterator[RestBone]:
    in_the_way = obstacles(ob)
    for bone in ob.data.bones:
        yield RestBone(
            bone.name,
            bone.parent.name if bone.parent else "",
            tuple(bone.head_local),
            tuple(bone.tail_local),
            bone.use_connect,
            bone.use_deform,
            in_the_way.get(bone.name, ""),
        )
