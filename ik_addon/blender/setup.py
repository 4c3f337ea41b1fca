# SPDX-License-Identifier: GPL-3.0-or-later
"""Set a character up: find its limbs by the names of its bones and add their chains; nothing moves.

Feet stand in the world. Hands are in the character's space. A tail goes with the bone that it hangs on,
and so does a spine.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import bpy
from mathutils import Vector

from ..core.body import ARMS, LEGS, TAILS, Found, LeftOut, Limb, RestBone
from ..core.bone_names import is_layer
from ..core.limb_finder import find_limbs
from . import animation, chains, placing, spines
from .chain_bones import ChainError, resolve
from .obstacles import obstacles

SPINE, AUTO = "SPINE", "AUTO"
THERE = "the chain is there already"
HOLD_STILL = "limbs are animated and their targets are not: plant or mute the chains to keep the animation"
# So many reasons stand in a refusal; of the other limbs only the names do.
FEW = 2
# Share of its length by which a joint of a limb may move: straight ones do by the rounding of float32.
MOVED = 1e-3
# A leg that leads down less than this share of its length lies on its side.
DOWN = 0.3
# What each part is, for sentences.
PARTS = {ARMS: "arms", LEGS: "legs", SPINE: "a spine", TAILS: "a tail"}


@dataclass(frozen=True)
class Wanted:
    """A chain that is going to be added.

    Attributes:
        part: LEGS and so on; root, end: bones; turned: all bones that it turns, root first.
        settings: all others, the name among them.
    """

    part: str
    root: str
    end: str
    settings: dict[str, Any]
    turned: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return str(self.settings["name"])


@dataclass
class Plan:
    """What a setup is going to add.

    Attributes:
        wanted: the chains.
        left_out: limbs that seem to be there, and why they are left out.
        there: names of those whose chains are there already.
        missing: of which parts of a body no bone tells, a sentence each.
    """

    wanted: list[Wanted] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    there: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    def reasons(self) -> dict[str, str]:
        """Why limbs are left out: the reason by their names; those for the same reason stand together."""
        groups: dict[str, list[str]] = {}
        for item in self.left_out:
            groups.setdefault(item.reason, []).append(item.name)
        return {", ".join(names): reason for reason, names in groups.items()}


@dataclass(frozen=True)
class Report:
    """What a setup has done.

    Attributes:
        chains: names of the chains that were added.
        animated: those of them whose limbs are animated: their targets are not.
        left_out: names of the limbs without one.
        notes: why these are left out, and what else a rigger should know, a sentence each.
    """

    chains: list[str]
    animated: list[str]
    left_out: list[str]
    notes: list[str]


class AlreadySetUp(ChainError):
    """All limbs that chains can be added to have theirs."""


def add(ob: bpy.types.Object, preset: str = AUTO) -> Report:
    """Add the chains of a character's limbs, all of them or none.

    Args:
        preset: AUTO, all that is found; or one of `PARTS`.

    Returns:
        what was added, and what else there is to tell. Chains that depend on each other such that they cannot
        be solved are left out.

    Raises:
        ChainError: before anything is changed, when there is nothing to add; AlreadySetUp, when that is
            since all is there.
    """
    wanted = plan(ob, preset)
    lying = _lying_legs(ob, wanted)
    before = _heads(ob)
    added: dict[str, Wanted] = {}
    try:
        for chain in wanted.wanted:
            added[chains.add(ob, chain.root, chain.end, **chain.settings).name] = chain
    except Exception:
        _take_back(ob, added)
        raise
    bpy.context.view_layer.update()
    for name in [name for name in added if ob.ik_chains[name].status == "BROKEN"]:
        wanted.left_out.append(LeftOut(added[name].part, name, ob.ik_chains[name].message))
        _take_back(ob, [name])
        del added[name]
    if not added:
        raise ChainError(f"'{ob.name}': nothing to add: {_shortened(wanted.reasons())}")
    notes = [f"'{ob.name}': left out {names}: {reason}" for names, reason in wanted.reasons().items()]
    if lying:
        notes.append(
            f"'{ob.name}': {', '.join(lying)} do not lead down in the world: contacts take its Z axis for up;"
            " turn the character, or import it with other axes"
        )
    notes += _moved(ob, added, before)
    animated = [name for name, chain in added.items() if _is_animated(ob, chain)]
    left_out = [item.name for item in wanted.left_out]
    return Report(list(added), animated, left_out, [*notes, *wanted.missing])


def _take_back(ob: bpy.types.Object, names: Iterable[str]) -> None:
    """Remove chains that were just added."""
    for name in names:
        chains.remove(ob, ob.ik_chains.find(name))


def _heads(ob: bpy.types.Object) -> dict[str, Vector]:
    """Heads of all bones in the evaluated pose, in armature space."""
    return {bone.name: bone.head.copy() for bone in placing.evaluated(ob).pose.bones}


def _moved(ob: bpy.types.Object, added: Mapping[str, Wanted], before: Mapping[str, Vector]) -> list[str]:
    """Which limbs do not keep their pose, a sentence each: joint limits may not allow it."""
    after = _heads(ob)
    found = []
    for name, chain in added.items():
        size = sum((before[a] - before[b]).length for a, b in pairwise(chain.turned))
        most = max((after[bone] - before[bone]).length for bone in chain.turned)
        if most > MOVED * size > 0.0:
            found.append(
                f"'{ob.name}': {name} does not keep its pose, by {most / size:.1%} of its length: its joint"
                " limits do not allow it, or a constraint changes it"
            )
    return found


def _is_animated(ob: bpy.types.Object, chain: Wanted) -> bool:
    """Whether keys move the tip of a chain in the space of its target."""
    moved = {
        *animation.animated_rotation_components(ob),
        *animation.animated_vector_components(ob, "location"),
    }
    path = [chain.end, *(bone.name for bone in ob.data.bones[chain.end].parent_recursive)]
    carrier = chain.settings.get("subtarget", "")
    if carrier in path:
        # The target goes with the bone that carries the limb, and so does the tip.
        path = path[: path.index(carrier)]
    return not moved.isdisjoint(path)


def _lying_legs(ob: bpy.types.Object, found: Plan) -> list[str]:
    """The legs that do not lead down at rest, as in a file whose up axis was taken for another one."""
    lying = []
    for chain in found.wanted:
        if chain.part == LEGS:
            root, end = (ob.data.bones[name].head_local for name in (chain.root, chain.end))
            way = ob.matrix_world.to_3x3() @ (end - root)
            if -way.z < DOWN * way.length:
                lying.append(chain.name)
    return lying


def plan(ob: bpy.types.Object, preset: str = AUTO) -> Plan:
    """What `add` would add. It changes nothing, and raises the same."""
    if ob.type != "ARMATURE":
        raise ChainError(f"{ob.name} is not an armature")
    if preset != AUTO and preset not in PARTS:
        raise ChainError(f"expected a preset of {', '.join((AUTO, *PARTS))}, got '{preset}'")
    if not ob.is_editable:
        raise ChainError(f"'{ob.name}' is linked: make a library override to edit its chains")
    if ob.mode == "EDIT" or ob.data.pose_position == "REST":
        raise ChainError(f"'{ob.name}' shows its rest position: targets go where the pose is")
    bpy.context.view_layer.update()
    if ob.pose is None:
        raise ChainError(f"'{ob.name}' is in no scene that Blender has evaluated")
    parts = set(PARTS) if preset == AUTO else {preset}
    in_the_way = _in_the_way(ob)
    body = find_limbs(_rest_bones(ob, in_the_way))
    found = Plan()
    if SPINE in parts:
        _plan_spine(ob, found, body, in_the_way)
    _plan_limbs(ob, found, body, parts)
    if found.wanted:
        return found
    if found.there:
        raise AlreadySetUp(f"'{ob.name}' is set up already: {', '.join(found.there)}")
    if found.left_out:
        raise ChainError(f"'{ob.name}': nothing to add: {_shortened(found.reasons())}")
    if preset == SPINE:
        raise ChainError(found.missing[0])
    absent = [name for part, name in PARTS.items() if part in parts]
    told = f"{', '.join(absent[:-1])} or {absent[-1]}" if len(absent) > 1 else absent[0]
    why = "".join(f"; {text}" for text in found.missing if "no bone" not in text)
    raise ChainError(f"'{ob.name}' has no bones whose names tell of {told}{why}")


def _shortened(reasons: Mapping[str, str]) -> str:
    """The first reasons, and the names of the limbs that are left out for others."""
    told = [f"{names}: {reason}" for names, reason in list(reasons.items())[:FEW]]
    others = list(reasons)[FEW:]
    if others:
        told.append(f"and for other reasons {', '.join(others)}")
    return "; ".join(told)


def _plan_spine(ob: bpy.types.Object, found: Plan, body: Found, in_the_way: Mapping[str, str]) -> None:
    try:
        spine = spines.find_spine(ob, _carriers_of_legs(ob, body))
    except ChainError as error:
        found.missing.append(str(error))
        return
    end = ob.data.bones[spine.end]
    path = [end.name, *(bone.name for bone in end.parent_recursive)]
    turned = path[not spine.use_tail : path.index(spine.root) + 1]
    reason = next((in_the_way[name] for name in turned if name in in_the_way), "")
    if len(turned) < 2:
        reason = f"'{spine.root}' alone leads to the neck, and one bone does not bend"
    if reason:
        found.left_out.append(LeftOut(SPINE, "Spine", reason))
        return
    try:
        settings = spines.spine_settings(ob, spine)
    except ChainError as error:
        found.left_out.append(LeftOut(SPINE, "Spine", str(error)))
        return
    _want(ob, found, Wanted(SPINE, spine.root, spine.end, {**settings, "name": "Spine"}))


def _carriers_of_legs(ob: bpy.types.Object, body: Found) -> set[str]:
    """The bones above the legs: a spine that turned them would turn the hips."""
    carriers: set[str] = set()
    for limb in body.limbs:
        if limb.part == LEGS and not limb.in_front:
            carriers.update(bone.name for bone in ob.data.bones[limb.turned[0]].parent_recursive)
    return carriers


def _plan_limbs(ob: bpy.types.Object, found: Plan, body: Found, parts: Collection[str]) -> None:
    for limb in body.limbs:
        if limb.part in parts:
            end = limb.end or limb.turned[-1]
            _want(ob, found, Wanted(limb.part, limb.turned[0], end, _settings(ob, limb)))
    found.left_out += [item for item in body.left_out if item.part in parts]
    there = {limb.part for limb in body.limbs} | {item.part for item in body.left_out}
    if body.on_four_feet:
        there.add(ARMS)
    # A body without a tail is as usual as one with it.
    absent = [PARTS[part] for part in (ARMS, LEGS) if part in parts and part not in there]
    if absent:
        found.missing.append(f"'{ob.name}' has no bones whose names tell of {' or '.join(absent)}")


def _want(ob: bpy.types.Object, found: Plan, wanted: Wanted) -> None:
    """Plan a chain, or say why not."""
    try:
        turned = chains.check(ob, wanted.root, wanted.end, **wanted.settings)
        there = {chain.name: resolve(ob, chain).turned for chain in chains.that_turn(ob, turned)}
    except ChainError as error:
        reason = str(error).removeprefix(f"{ob.name}: chain '{wanted.name}': ")
        found.left_out.append(LeftOut(wanted.part, wanted.name, reason))
        return
    there |= {other.name: other.turned for other in found.wanted if not set(other.turned).isdisjoint(turned)}
    if not there:
        found.wanted.append(replace(wanted, turned=turned))
        return
    reason = (
        THERE if there.get(wanted.name) == turned else f"chain '{next(iter(there))}' turns its bones already"
    )
    found.left_out.append(LeftOut(wanted.part, wanted.name, reason))
    if turned in there.values():
        found.there.append(wanted.name)


def _settings(ob: bpy.types.Object, limb: Limb) -> dict[str, Any]:
    """The settings of the chain of a limb.

    Rotation stays off: the hand or foot keeps what FK does with it until the animator asks for more.
    """
    settings: dict[str, Any] = {"name": limb.name, "solver": limb.solver, "use_tail": not limb.end}
    if limb.limb_mode:
        settings["limb_mode"] = limb.limb_mode
    if limb.part == TAILS and limb.carrier:
        return {**settings, "target_space": "CUSTOM", "target": ob, "subtarget": limb.carrier}
    return {**settings, "target_space": "WORLD" if limb.part == LEGS else "ARMATURE"}


def _in_the_way(ob: bpy.types.Object) -> dict[str, str]:
    """The bones that no chain can turn now, with the reason.

    What a rig's own controls pose is not to be freed: those of a generated rig are many.
    """
    found = obstacles(ob)
    follows = "these bones follow the controls of the rig: animate those, or add a chain to them"
    return {name: follows if is_layer(name) else reason for name, reason in found.items()}


def _rest_bones(ob: bpy.types.Object, in_the_way: Mapping[str, str]) -> Iterator[RestBone]:
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
