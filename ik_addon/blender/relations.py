# SPDX-License-Identifier: GPL-3.0-or-later
"""What an object or a bone hangs on: its parent, its constraints, its drivers.

A *holder* carries what it holds rigidly, so that a solved holder moves it in the same
update. Any other dependency is a *source*: Blender evaluates it, the solver cannot.
A constraint whose influence is animated is one too, on every frame: what a chain depends on
must not change while frames go by.

A place is a pair (object, bone name), with an empty name for the object itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import bpy

from . import animation

Place = tuple[bpy.types.Object, str]

# Their subtarget is a vertex group, which follows modifiers.
_WITH_VERTEX_GROUPS = {"MESH", "LATTICE"}
# Without one of these a Child Of constraint keeps part of its owner where it is.
_CHILD_OF_PARTS = tuple(f"use_{part}_{axis}" for part in ("location", "rotation") for axis in "xyz")
_DRIVEN_BONE = re.compile(r'^pose\.bones\["((?:[^"\\]|\\.)*)"\]')


def holder(ob: bpy.types.Object) -> Place | None:
    """The object or bone that carries `ob` rigidly, or None: it stands in the world."""
    constraint = _holding_constraint(ob)
    return _place(constraint.target, constraint.subtarget) if constraint else _parent(ob)


def _place(target: bpy.types.Object, subtarget: str) -> Place:
    """The place that a subtarget names; on a mesh it is a vertex group, on most objects nothing."""
    return target, (subtarget if target.type == "ARMATURE" else "")


def _holding_constraint(ob: bpy.types.Object) -> bpy.types.Constraint | None:
    """The last constraint that fixes `ob` to its target."""
    return next((c for c in reversed(ob.constraints) if is_active(c) and _is_rigid(c)), None)


def _parent(ob: bpy.types.Object) -> Place | None:
    """What the parent relation fixes `ob` to."""
    if ob.parent is None or ob.parent_type in {"VERTEX", "VERTEX_3"}:
        return None
    by_bone = ob.parent_type == "BONE" and ob.parent.type == "ARMATURE"
    return ob.parent, (ob.parent_bone if by_bone else "")


def sources(ob: bpy.types.Object, bone: str = "") -> Iterator[tuple[Place, str]]:
    """What else the transform of an object, or of one of its pose bones, depends on.

    Yields:
        the place, and words for the dependency that can follow "through".
    """
    owner = ob.pose.bones.get(bone) if bone else ob
    if owner is None:
        return
    held_by = None if bone else _holding_constraint(ob)
    for constraint in owner.constraints:
        if is_active(constraint) and constraint != held_by:
            for place in _constraint_targets(constraint):
                yield place, f"its constraint '{constraint.name}'"
    if not bone and ob.parent and ob.parent_type in {"VERTEX", "VERTEX_3"}:
        yield (ob.parent, ""), "its vertex parent"
    if held_by and held_by.type == "CHILD_OF":
        carrier = _parent(ob)
        if carrier:
            yield carrier, f"its parent, below the constraint '{held_by.name}'"
    yield from _driver_sources(ob, bone)


def is_active(constraint: bpy.types.Constraint) -> bool:
    """Whether a constraint has an effect: it is known, not muted, and has influence.

    One whose mute or influence is animated has an effect, whatever they are now.
    """
    # A constraint of a kind that this Blender does not know has none of these.
    if getattr(constraint, "type", None) is None:
        return False
    if constraint.mute and not _is_animated(constraint, "mute", "enabled"):
        return False
    return constraint.influence > 0.0 or _is_animated(constraint, "influence")


def _is_animated(constraint: bpy.types.Constraint, *props: str) -> bool:
    animated = animation.animated_constraint_settings(constraint.id_data)
    if not animated:
        return False
    path = constraint.path_from_id()
    return any(f"{path}.{prop}" in animated for prop in props)


def _is_rigid(constraint: Any) -> bool:
    """Whether an active constraint fixes its owner to the target, on every frame."""
    if constraint.type == "CHILD_OF":
        is_whole = all(getattr(constraint, prop) for prop in _CHILD_OF_PARTS)
    elif constraint.type == "COPY_TRANSFORMS":
        spaces = {constraint.target_space, constraint.owner_space}
        is_whole = constraint.mix_mode == "REPLACE" and spaces == {"WORLD"}
    else:
        return False
    target = constraint.target
    if target is None or (constraint.subtarget and target.type in _WITH_VERTEX_GROUPS):
        return False
    at_full = constraint.influence == 1.0
    return is_whole and at_full and not _is_animated(constraint, "mute", "enabled", "influence")


def _constraint_targets(constraint: bpy.types.Constraint) -> Iterator[Place]:
    several = getattr(constraint, "targets", None)
    for holder_of_target in several if several is not None else (constraint,):
        for prop, bone in (("target", "subtarget"), ("pole_target", "pole_subtarget")):
            target = getattr(holder_of_target, prop, None)
            if target is not None:
                yield _place(target, getattr(holder_of_target, bone, ""))


def _driver_sources(ob: bpy.types.Object, bone: str) -> Iterator[tuple[Place, str]]:
    data = ob.animation_data
    if data is None or not len(data.drivers):
        return
    prefix = f'pose.bones["{bpy.utils.escape_identifier(bone)}"]' if bone else ""
    for curve in data.drivers:
        of_bone = curve.data_path.startswith("pose.bones[")
        wanted = curve.data_path.startswith(prefix) if bone else _moves_object(curve.data_path)
        if curve.mute or of_bone != bool(bone) or not wanted:
            continue
        for variable in curve.driver.variables:
            for target in variable.targets:
                place = _driver_place(variable, target)
                if place is not None:
                    yield place, f"a driver on '{curve.data_path}'"


def _moves_object(path: str) -> bool:
    return path.startswith(("location", "rotation", "scale", "delta_", "constraints["))


def _driver_place(variable: bpy.types.DriverVariable, target: bpy.types.DriverTarget) -> Place | None:
    if not isinstance(target.id, bpy.types.Object):
        return None
    if variable.type in {"TRANSFORMS", "ROTATION_DIFF", "LOC_DIFF"}:
        return _place(target.id, target.bone_target)
    # A plain property: only what is computed from the pose depends on a solve.
    match = _DRIVEN_BONE.match(target.data_path or "")
    if match and re.search(r"\.(matrix|head|tail)\b", target.data_path):
        return target.id, bpy.utils.unescape_identifier(match[1])
    return None
