# SPDX-License-Identifier: GPL-3.0-or-later
"""One muted driver a chain, which holds on to what the chain names.

Blender follows renamed bones in driver variables, not in string properties, and it
evaluates the objects that a driver reads, also hidden, excluded and unlinked ones. So each
chain has a driver on its `anchor` property, with one variable for each bone and object it
names. The driver is muted: its variables keep both effects and cost nothing.
"""

from __future__ import annotations

import re

import bpy

from .state import STATE

_PATH = re.compile(r'^ik_chains\["(.*)"\]\.anchor$')

_PROPERTIES = {"root": "root_bone", "end": "end_bone", "target": "subtarget", "pole": "pole_subtarget"}


def _wanted(ob: bpy.types.Object, chain: bpy.types.PropertyGroup) -> dict[str, tuple[bpy.types.Object, str]]:
    """Variable name -> (object, bone name) that the driver of `chain` shall hold."""
    links = {
        "root": (ob, chain.root_bone) if chain.root_bone else None,
        "end": (ob, chain.end_bone) if chain.end_bone else None,
        "target": (chain.target, chain.subtarget) if chain.target else None,
        "pole": (chain.pole_target, chain.pole_subtarget) if chain.pole_target else None,
    }
    return {name: link for name, link in links.items() if link}


def _path(name: str) -> str:
    return f'ik_chains["{bpy.utils.escape_identifier(name)}"].anchor'


def _find(ob: bpy.types.Object, chain: bpy.types.PropertyGroup) -> bpy.types.FCurve | None:
    data = ob.animation_data
    return data.drivers.find(_path(chain.anchor_name)) if data and chain.anchor_name else None


def _held(curve: bpy.types.FCurve) -> dict[str, tuple[bpy.types.Object, str]]:
    targets = {variable.name: variable.targets[0] for variable in curve.driver.variables}
    return {name: (target.id, target.bone_target) for name, target in targets.items()}


def hold_names(ob: bpy.types.Object, chain: bpy.types.PropertyGroup) -> None:
    """Make the driver of `chain` hold the names that its properties have now.

    Does nothing where it does already: no dependency is rebuilt without need.
    """
    if STATE.taking_renames:
        return
    curve = _find(ob, chain)
    wanted = _wanted(ob, chain)
    if curve and chain.anchor_name == chain.name and _held(curve) == wanted:
        return
    if curve:
        ob.animation_data.drivers.remove(curve)
    if chain.anchor_name != chain.name:
        chain.anchor_name = chain.name
    if not wanted:
        return
    curve = ob.driver_add(_path(chain.name))
    curve.mute = True
    for modifier in list(curve.modifiers):
        curve.modifiers.remove(modifier)
    curve.driver.type = "SUM"
    for name, (target, bone) in wanted.items():
        variable = curve.driver.variables.new()
        variable.name = name
        variable.type = "TRANSFORMS"
        variable.targets[0].id = target
        variable.targets[0].bone_target = bone


def drop(ob: bpy.types.Object, chain: bpy.types.PropertyGroup) -> None:
    """Remove the driver of a chain that is about to be removed."""
    curve = _find(ob, chain)
    if curve:
        ob.animation_data.drivers.remove(curve)


def take_renames(ob: bpy.types.Object) -> None:
    """Give the chains of `ob` the bone names that Blender kept up to date in their drivers."""
    STATE.taking_renames = True
    try:
        for chain in ob.ik_chains:
            curve = _find(ob, chain)
            held = _held(curve) if curve else {}
            for variable, prop in _PROPERTIES.items():
                _, bone = held.get(variable, (None, ""))
                if bone and bone != getattr(chain, prop):
                    setattr(chain, prop, bone)
    finally:
        STATE.taking_renames = False


def repair(ob: bpy.types.Object) -> None:
    """Bring names and drivers in step after a file was loaded.

    A name that still is a bone stays: an override may have set it on top of the driver of
    its library. Drivers without a chain go.
    """
    names = [[getattr(chain, prop) for prop in _PROPERTIES.values()] for chain in ob.ik_chains]
    take_renames(ob)
    for chain, before in zip(ob.ik_chains, names, strict=True):
        for prop, name in zip(_PROPERTIES.values(), before, strict=True):
            if name in ob.data.bones and prop in ("root_bone", "end_bone"):
                setattr(chain, prop, name)
        hold_names(ob, chain)
    kept = {chain.anchor_name for chain in ob.ik_chains}
    data = ob.animation_data
    for curve in list(data.drivers) if data else ():
        match = _PATH.match(curve.data_path)
        if match and bpy.utils.unescape_identifier(match[1]) not in kept:
            data.drivers.remove(curve)
