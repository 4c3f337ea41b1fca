# SPDX-License-Identifier: GPL-3.0-or-later
"""What an object or a bone hangs on: its parent, its constraints, its drivers.

A *holder* carries what it holds rigidly, so that a solved holder moves it in the same
update. Any other dependency is a *source*: Blender evaluates it, the solver cannot.
A place is a pair (object, bone name), with an empty name for the object itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import bpy

Place = tuple[bpy.types.Object, str]

# Constraints that fix their owner to the target rigidly, at full influence.
RIGID_CONSTRAINTS = {"CHILD_OF", "COPY_TRANSFORMS"}
_DRIVEN_BONE = re.compile(r'^pose\.bones\["((?:[^"\\]|\\.)*)"\]')


def holder(ob: bpy.types.Object) -> Place | None:
    """The object or bone that carries `ob` rigidly, or None: it stands in the world."""
    for constraint in reversed(ob.constraints):
        if is_active(constraint) and _is_rigid(constraint) and constraint.target:
            return constraint.target, constraint.subtarget
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
    for constraint in owner.constraints:
        if not is_active(constraint) or (not bone and _is_rigid(constraint)):
            continue
        for place in _constraint_targets(constraint):
            yield place, f"its constraint '{constraint.name}'"
    if not bone and ob.parent and ob.parent_type in {"VERTEX", "VERTEX_3"}:
        yield (ob.parent, ""), "its vertex parent"
    yield from _driver_sources(ob, bone)


def is_active(constraint: bpy.types.Constraint) -> bool:
    """Whether a constraint has an effect: it is known, not muted, and has influence."""
    # A constraint of a kind that this Blender does not know has none of these.
    kind = getattr(constraint, "type", None)
    return kind is not None and not constraint.mute and constraint.influence > 0.0


def _is_rigid(constraint: bpy.types.Constraint) -> bool:
    return constraint.type in RIGID_CONSTRAINTS and constraint.influence == 1.0


def _constraint_targets(constraint: bpy.types.Constraint) -> Iterator[Place]:
    several = getattr(constraint, "targets", None)
    for holder_of_target in several if several is not None else (constraint,):
        for prop, bone in (("target", "subtarget"), ("pole_target", "pole_subtarget")):
            target = getattr(holder_of_target, prop, None)
            if target is not None:
                yield (target, getattr(holder_of_target, bone, ""))


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
        return target.id, target.bone_target
    # A plain property: only what is computed from the pose depends on a solve.
    match = _DRIVEN_BONE.match(target.data_path or "")
    if match and re.search(r"\.(matrix|head|tail)\b", target.data_path):
        return target.id, bpy.utils.unescape_identifier(match[1])
    return None
