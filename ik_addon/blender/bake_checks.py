# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be baked, asked before anything is changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

import bpy

from . import animation, bake_curves, bake_store, chains, compat, handling
from .obstacles import obstacles


class BakeError(ValueError):
    """Why nothing can be baked or unbaked, in one sentence."""


@dataclass(frozen=True)
class Skipped:
    """A chain that was left out, and why."""

    armature: str
    chain: str
    reason: str


@dataclass
class Choice:
    """The chains of one armature object that are baked.

    Attributes:
        chains: their places in `ik_chains`.
        apart: bones that chains turn which go on live on top of the baked keys -> these
            chains, as `solve_range` takes them. Keys of such a bone hold its pose below them.
    """

    ob: bpy.types.Object
    chains: list[int]
    apart: dict[str, frozenset[tuple[str, str]]] = field(default_factory=dict)


def refuse_locked(ob: bpy.types.Object) -> None:
    """Raise BakeError when the animation of `ob` cannot be edited."""
    if ob.type != "ARMATURE":
        raise BakeError(f"{ob.name} is not an armature")
    if ob.library is not None:
        raise BakeError(f"{ob.name} is linked from {ob.library.filepath}: make a library override first")
    if ob.override_library is not None and ob.override_library.is_system_override:
        raise BakeError(f"{ob.name} is a system override: make its override editable first")
    if ob.mode == "EDIT":
        raise BakeError(f"{ob.name} is in edit mode: leave it first")
    if ob.animation_data is not None and ob.animation_data.use_tweak_mode:
        raise BakeError(f"{ob.name} is in the tweak mode of an NLA strip: leave it first")


def refuse_hidden(ob: bpy.types.Object, first: float, last: float) -> None:
    """Raise BakeError when keys in the action of `ob` would not be what shows."""
    if ob.data.pose_position == "REST":
        raise BakeError(f"{ob.name} shows its rest position: switch to the pose position first")
    data = ob.animation_data
    if data is None or not data.use_nla or not len(data.nla_tracks):
        return
    if not animation.action_plays(ob):
        raise BakeError(f"{ob.name} has an NLA track on solo, which keeps its action out: end that first")
    if data.action_blend_type != "REPLACE" or data.action_influence != 1.0:
        raise BakeError(
            f"{ob.name} blends its action with {data.action_blend_type.title()} at influence"
            f" {data.action_influence:g} over the NLA strips: baked keys show only with Replace at 1"
        )
    action = data.action
    limited = action is not None and action.use_frame_range and data.action_extrapolation != "HOLD"
    if limited and not action.frame_start <= first <= last <= action.frame_end:
        raise BakeError(
            f"{ob.name} plays its action from {action.frame_start:g} to {action.frame_end:g} alone:"
            " bake inside its manual frame range, or let it extrapolate with Hold"
        )


def matching(
    rigs: Sequence[bpy.types.Object], patterns: str | Sequence[str] | None
) -> Iterator[tuple[bpy.types.Object, list[int]]]:
    """The places of the chains whose name fits a pattern (``*``, ``?``), rig by rig.

    Raises:
        BakeError: for a pattern that fits no chain, or when there are none.
    """
    names = [chain.name for ob in rigs for chain in ob.ik_chains]
    if not names:
        raise BakeError(f"no IK chains on {', '.join(ob.name for ob in rigs) or 'no armature at all'}")
    wanted = ["*"] if patterns is None else [patterns] if isinstance(patterns, str) else list(patterns)
    for pattern in wanted:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise BakeError(f"no chain is called '{pattern}'; there are {', '.join(sorted(set(names)))}")
    for ob in rigs:
        fits = [
            place
            for place, chain in enumerate(ob.ik_chains)
            if any(fnmatchcase(chain.name, pattern) for pattern in wanted)
        ]
        if fits:
            yield ob, fits


def choose(ob: bpy.types.Object, places: Sequence[int]) -> tuple[Choice, list[Skipped]]:
    """Those chains of `ob` that a bake can stand in for, and the others with their reasons."""
    curves = bake_curves.by_path(compat.assigned_curves(ob))
    drivers = ob.animation_data.drivers if ob.animation_data else ()
    driven = {curve.data_path for curve in drivers if not curve.mute}
    in_the_way = obstacles(ob)
    problems = [chains.problem(ob, chain, in_the_way) for chain in ob.ik_chains]
    held = [
        handling.HeldChannels() if problems[place] else handling.held_channels(ob, chain, in_the_way)
        for place, chain in enumerate(ob.ik_chains)
    ]
    written = {place: channels.rotation for place, channels in enumerate(held)}
    skipped = []
    chosen = []
    for place in places:
        reason = problems[place] or _obstacle(ob, place, held[place], curves, driven)
        if reason:
            skipped.append(Skipped(ob.name, ob.ik_chains[place].name, reason))
        else:
            chosen.append(place)
    while True:
        below = _goes_on_below(ob, chosen, written) or _moves_with(ob, chosen, held)
        if below is None:
            break
        place, reason = below
        chosen.remove(place)
        skipped.append(Skipped(ob.name, ob.ik_chains[place].name, reason))
    return Choice(ob, chosen, _apart(ob, chosen, written)), skipped


def chain_paths(ob: bpy.types.Object, place: int, prop: str) -> tuple[str, str]:
    """The data paths that lead to a setting of a chain: as Blender writes it, and by name."""
    name = bpy.utils.escape_identifier(ob.ik_chains[place].name)
    return f"ik_chains[{place}].{prop}", f'ik_chains["{name}"].{prop}'


def is_animated(ob: bpy.types.Object, place: int, prop: str) -> bool:
    """Whether anything animates a setting of a chain."""
    paths = chain_paths(ob, place, prop)
    return any(True for _ in animation.playing_curves(ob, paths.__contains__))


def idle(ob: bpy.types.Object, place: int) -> str:
    """Why a chain does nothing on any frame, or an empty string."""
    chain = ob.ik_chains[place]
    if chain.mute and not is_animated(ob, place, "mute"):
        is_baked = chain.uid in bake_store.baked_chains(ob)
        return "it is baked already: unbake it first, to bake it anew" if is_baked else "it is muted"
    if chain.influence == 0.0 and not is_animated(ob, place, "influence"):
        return "its influence is 0"
    return ""


def _obstacle(
    ob: bpy.types.Object,
    place: int,
    held: handling.HeldChannels,
    curves: bake_curves.Curves,
    driven: set[str],
) -> str:
    """Why baked keys cannot stand in for a chain that can be solved, or an empty string."""
    if idle(ob, place):
        return idle(ob, place)
    mutes = chain_paths(ob, place, "mute")
    if driven.intersection(mutes):
        return "its mute is driven, so that the bake could not switch it off"
    for path in mutes:
        if (path, 0) in curves and _closed(curves[path, 0]):
            return f"the curve of its mute {_closed(curves[path, 0])}"
    for bone in held.rotation:
        path = animation.bone_path(bone, ob.pose.bones[bone].rotation_mode)
        words = _closed_channel(curves, path)
        if words:
            return f"a rotation curve of bone '{bone}' {words}"
    for prop in ("location", "scale"):
        for bone in getattr(held, prop):
            words = _closed_channel(curves, animation.vector_path(bone, prop))
            if words:
                return f"a {prop} curve of bone '{bone}' {words}"
    return ""


def _closed_channel(curves: bake_curves.Curves, path: str) -> str:
    """What keeps keys in some curve of a channel from being what plays, or an empty string."""
    found = (_closed(curves[path, index]) for index in range(4) if (path, index) in curves)
    return next((words for words in found if words), "")


def _closed(curve: bpy.types.FCurve) -> str:
    """What keeps baked keys in a curve from being what plays, as the end of a sentence."""
    if curve.lock:
        return "is locked"
    if curve.mute or (curve.group is not None and curve.group.mute):
        return "is muted"
    if len(curve.sampled_points):
        return "holds samples, not keys"
    for modifier in curve.modifiers:
        # Cycles change nothing between the first and the last key.
        if modifier.type != "CYCLES" and not modifier.mute and modifier.influence > 0.0:
            return f"has the modifier {modifier.type.title()}, which would act on the baked keys"
    return ""


def _goes_on_below(
    ob: bpy.types.Object, chosen: Sequence[int], written: dict[int, tuple[str, ...]]
) -> tuple[int, str] | None:
    """A chosen chain that is solved on top of one that goes on live, with words for it.

    The other would then be solved on top of the baked keys: the order is turned round.
    """
    for place in chosen:
        for other in range(place):
            shared = set(written[place]).intersection(written[other])
            if shared and other not in chosen and not idle(ob, other):
                name = ob.ik_chains[other].name
                return place, f"chain '{name}' turns bone '{min(shared)}' before it: bake both"
    return None


def _moves_with(
    ob: bpy.types.Object, chosen: Sequence[int], held: Sequence[handling.HeldChannels]
) -> tuple[int, str] | None:
    """A chosen chain that moves a bone together with one that goes on live, with words for it.

    The other would move it once more, on top of the baked keys.
    """
    for place in chosen:
        for other, channels in enumerate(held):
            shared = set(held[place].location).intersection(channels.location)
            if shared and other not in chosen and not idle(ob, other):
                name = ob.ik_chains[other].name
                return place, f"chain '{name}' moves bone '{min(shared)}' together with it: bake both"
    return None


def _apart(
    ob: bpy.types.Object, chosen: Sequence[int], written: dict[int, tuple[str, ...]]
) -> dict[str, frozenset[tuple[str, str]]]:
    baked = {bone for place in chosen for bone in written[place]}
    above: dict[str, set[tuple[str, str]]] = {}
    for place, bones in written.items():
        if place not in chosen and not idle(ob, place):
            for bone in baked.intersection(bones):
                above.setdefault(bone, set()).add((ob.name, ob.ik_chains[place].name))
    return {bone: frozenset(names) for bone, names in above.items()}
