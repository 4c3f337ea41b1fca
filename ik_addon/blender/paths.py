# SPDX-License-Identifier: GPL-3.0-or-later
"""Curves and drivers of chains are bound by the chain's place in the list: keep them on it.

An object's own curves are those of its action, of its NLA strips and its drivers, and of actions that
nothing plays but that are kept for it: whose slot Blender would give it, and to no other object with
chains, or where no other object has chains at all. Others are left as they are, and named.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any

import bpy

from . import animation, compat

_INDEXED = re.compile(r"^ik_chains\[(\d+)\]")
_OF_CHAINS = "ik_chains["


def setting_paths(chain: Any, index: int, name: str) -> tuple[str, ...]:
    """The data paths that lead to a setting of a chain: as Blender writes it, and by name."""
    escaped = bpy.utils.escape_identifier(chain.name)
    return f"ik_chains[{index}].{name}", f'ik_chains["{escaped}"].{name}'


def curve_collections(ob: bpy.types.Object) -> Iterator[Any]:
    """Every collection of curves that animates `ob`, or is kept for it."""
    data = ob.animation_data
    actions: list[bpy.types.Action | None] = []
    if data is not None:
        yield data.drivers
        actions = [data.action, *(strip.action for strip in animation.all_strips(ob))]
    for action in dict.fromkeys(actions):
        if action is not None and action.library is None:
            yield from compat.slot_curve_collections(action, ob)
    for _, slot, curves in _kept_curves():
        if _owners(slot) == [ob]:
            yield curves


def doubtful_actions(ob: bpy.types.Object, places: Collection[int]) -> list[str]:
    """Names of actions that nothing plays, and that are kept for `ob` or for another object: nothing tells.

    Args:
        places: of the chains that are meant.
    """
    found = []
    for action, slot, curves in _kept_curves():
        owners = _owners(slot)
        if ob not in owners or len(owners) == 1:
            continue
        matches = [_INDEXED.match(curve.data_path) for curve in curves]
        if any(match and int(match[1]) in places for match in matches):
            found.append(action.name)
    return list(dict.fromkeys(found))


def _kept_curves() -> Iterator[tuple[bpy.types.Action, str, Any]]:
    """Curves that nothing plays, some of them of chains: their action, the name of its slot, all of them."""
    for action in bpy.data.actions:
        if not action.is_editable:
            continue
        for slot, curves in compat.unused_curves(action):
            if any(curve.data_path.startswith(_OF_CHAINS) for curve in curves):
                yield action, slot, curves


def _owners(slot: str) -> list[bpy.types.Object]:
    """The objects with chains that would play a slot."""
    rigs = [ob for ob in bpy.data.objects if ob.type == "ARMATURE" and len(ob.ik_chains)]
    return [ob for ob in rigs if compat.takes_slot(ob, slot)] or rigs


def _own_action(ob: bpy.types.Object) -> None:
    """Give `ob` a copy of an action that animates chains, where others play it or it cannot be edited."""
    data = ob.animation_data
    # In tweak mode the action is that of a strip, and stays it.
    if data is None or data.action is None or data.use_tweak_mode:
        return
    action = data.action
    if not any(_INDEXED.match(curve.data_path) for curve in compat.assigned_curves(ob)):
        return
    if not action.is_editable or compat.plays_elsewhere(ob):
        compat.assign_action(ob, action.copy(), compat.slot_handle(ob))


def renumber(ob: bpy.types.Object, places: dict[int, int]) -> None:
    """Give the curves of chains that changed their place the new index."""
    if not places:
        return
    _own_action(ob)
    for curves in curve_collections(ob):
        for curve in curves:
            match = _INDEXED.match(curve.data_path)
            if match and int(match[1]) in places:
                curve.data_path = f"ik_chains[{places[int(match[1])]}]{curve.data_path[match.end() :]}"


def drop_curves(ob: bpy.types.Object, index: int, name: str) -> None:
    """Remove the curves and drivers of one chain, bound by index or by name."""
    _own_action(ob)
    starts = (f"ik_chains[{index}]", f'ik_chains["{bpy.utils.escape_identifier(name)}"]')
    for curves in curve_collections(ob):
        for curve in [c for c in curves if c.data_path.startswith(starts)]:
            curves.remove(curve)
