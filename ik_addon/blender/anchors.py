# SPDX-License-Identifier: GPL-3.0-or-later
"""One muted driver on each rig, which holds on to what its chains name.

Blender follows renamed bones in driver variables, not in string properties, and it
evaluates the objects that a driver reads, also hidden, excluded and unlinked ones. So a rig
has a driver on a custom property of its object, with a variable for each bone and object that a
chain names. The driver is muted: its variables keep both effects and nothing is computed. One
driver for all chains, since Blender looks up each driver's property in each evaluation.

It has to be a custom property: beside a driver on a property that Blender knows by name (its own or an
add-on's), even a muted one, what other drivers of the object drive comes a frame late, on one of some
thousand frames (Blender 5.0 and 5.3).
"""

from __future__ import annotations

import random

import bpy

from .state import STATE

# The property that an add-on registers by this name hides the custom one from the interface.
PROPERTY = "ik_anchor"
PATH = f'["{PROPERTY}"]'
# Kind of variable -> the properties of a chain that it holds: object (None: the rig), bone.
LINKS = {
    "root": (None, "root_bone"),
    "end": (None, "end_bone"),
    "move": (None, "move_bone"),
    "target": ("target", "subtarget"),
    "pole": ("pole_target", "pole_subtarget"),
}


def _variable_name(kind: str, chain: bpy.types.PropertyGroup) -> str:
    return f"{kind}_{chain.uid}"


def _wanted(ob: bpy.types.Object, chain: bpy.types.PropertyGroup, kind: str) -> tuple | None:
    """The object and bone name that a variable shall hold, or None: there is nothing to hold."""
    target_prop, bone_prop = LINKS[kind]
    target, bone = getattr(chain, target_prop) if target_prop else ob, getattr(chain, bone_prop)
    return (target, bone) if target and (bone or target_prop) else None


def _driver(ob: bpy.types.Object) -> bpy.types.Driver | None:
    data = ob.animation_data
    curve = data.drivers.find(PATH) if data else None
    return curve.driver if curve else None


def _ensure_driver(ob: bpy.types.Object) -> bpy.types.Driver:
    driver = _driver(ob)
    if PROPERTY not in ob:
        # Also where a library override lost it.
        ob[PROPERTY] = 0.0
    if driver is None:
        curve = ob.driver_add(PATH)
        curve.mute = True
        for modifier in list(curve.modifiers):
            curve.modifiers.remove(modifier)
        driver = curve.driver
        driver.type = "SUM"
    return driver


def _new_number(ob: bpy.types.Object) -> int:
    """A number that no other chain of `ob` has, nor one that its library may get later."""
    if ob.override_library:
        # Backups of bakes store it in single precision.
        return random.randrange(2**16, 2**24)
    return 1 + max(other.uid for other in ob.ik_chains)


def hold_names(ob: bpy.types.Object, chain: bpy.types.PropertyGroup) -> None:
    """Make the driver of `ob` hold the names that the properties of `chain` have now.

    Changes nothing where it does already: no dependency is rebuilt without need.
    """
    if STATE.taking_renames:
        return
    if not chain.uid:
        chain.uid = _new_number(ob)
    for kind in LINKS:
        wanted = _wanted(ob, chain, kind)
        driver = _ensure_driver(ob) if wanted else _driver(ob)
        if driver is None:
            continue
        name = _variable_name(kind, chain)
        variable = driver.variables.get(name)
        if wanted is None:
            if variable:
                driver.variables.remove(variable)
            continue
        if variable is None:
            variable = driver.variables.new()
            variable.name = name
            variable.type = "TRANSFORMS"
        held = variable.targets[0]
        if (held.id, held.bone_target) != wanted:
            held.id, held.bone_target = wanted


def drop(ob: bpy.types.Object, chain: bpy.types.PropertyGroup) -> None:
    """Let go of what a chain names that is about to be removed; the last one takes the driver away."""
    driver = _driver(ob)
    if driver is None:
        return
    for kind in LINKS:
        variable = driver.variables.get(_variable_name(kind, chain))
        if variable:
            driver.variables.remove(variable)
    if not len(driver.variables):
        ob.animation_data.drivers.remove(ob.animation_data.drivers.find(PATH))
        ob.pop(PROPERTY, None)


def take_renames(ob: bpy.types.Object) -> None:
    """Give the chains of `ob` the bone names that Blender kept up to date in the driver."""
    driver = _driver(ob)
    if driver is None:
        return
    held = {variable.name: variable.targets[0].bone_target for variable in driver.variables}
    STATE.taking_renames = True
    try:
        for chain in ob.ik_chains:
            for kind, (_, prop) in LINKS.items():
                bone = held.get(_variable_name(kind, chain))
                if bone and bone != getattr(chain, prop):
                    setattr(chain, prop, bone)
    finally:
        STATE.taking_renames = False


def repair(ob: bpy.types.Object) -> None:
    """Bring names and driver in step after a file was loaded.

    A root or end that still is a bone stays: an override may have set it on top of the
    driver of its library. Variables without a chain go.
    """
    before = [(chain.root_bone, chain.end_bone) for chain in ob.ik_chains]
    take_renames(ob)
    bones = ob.data.bones
    for chain, names in zip(ob.ik_chains, before, strict=True):
        if all(name in bones for name in names) and names != (chain.root_bone, chain.end_bone):
            chain.root_bone, chain.end_bone = names
        hold_names(ob, chain)
    driver = _driver(ob)
    if driver is None:
        return
    kept = {_variable_name(kind, chain) for chain in ob.ik_chains for kind in LINKS}
    for variable in list(driver.variables):
        if variable.name not in kept:
            driver.variables.remove(variable)
