# SPDX-License-Identifier: GPL-3.0-or-later
"""Curves and drivers of chains are bound by the chain's place in the list: keep them on it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import bpy

from . import animation, compat

_INDEXED = re.compile(r"^ik_chains\[(\d+)\]")


def setting_paths(chain: Any, index: int, name: str) -> tuple[str, ...]:
    """The data paths that lead to a setting of a chain: as Blender writes it, and by name."""
    escaped = bpy.utils.escape_identifier(chain.name)
    return f"ik_chains[{index}].{name}", f'ik_chains["{escaped}"].{name}'


def curve_collections(ob: bpy.types.Object) -> Iterator[Any]:
    """Every collection of curves that may animate `ob`: its action, its NLA strips, its drivers."""
    data = ob.animation_data
    if data is None:
        return
    yield data.drivers
    actions = [data.action, *(strip.action for strip in animation.all_strips(ob))]
    for action in dict.fromkeys(actions):
        if action is not None and action.library is None:
            yield from compat.slot_curve_collections(action, ob)


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
