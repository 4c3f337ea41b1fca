# SPDX-License-Identifier: GPL-3.0-or-later
"""What compiled chains rest on besides settings and curves: bones and constraints.

Blender tells that *something* of an armature or its bones was updated, also when only a
bone was posed. Comparing this is a hundred times cheaper than compiling anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import bpy
import numpy as np

from . import relations

_BONE_FLAGS = ("use_inherit_rotation", "inherit_scale", "use_local_location", "use_connect")
_LINKS = ("target", "subtarget", "pole_target", "pole_subtarget", "chain_count", "owner_space", "influence")


def structure(groups: Iterable[Iterable[bpy.types.Object]]) -> tuple:
    """Bones and constraints of rigs, and constraints of the objects their targets hang on."""
    rigs = [ob for group in groups for ob in group]
    return tuple(_of_rig(ob) for ob in rigs) + tuple(_of_constraints(ob) for ob in hangs_on(rigs))


def _of_rig(ob: bpy.types.Object) -> tuple:
    bones = ob.data.bones
    rest = np.empty(len(bones) * 16, np.float32)
    bones.foreach_get("matrix_local", rest)
    lengths = np.empty(len(bones), np.float32)
    bones.foreach_get("length", lengths)
    flags = np.empty((len(_BONE_FLAGS), len(bones)), np.int32)
    for row, name in zip(flags, _BONE_FLAGS, strict=True):
        bones.foreach_get(name, row)
    locks = np.empty(len(bones) * 3, bool)
    ob.pose.bones.foreach_get("lock_location", locks)
    constraints = tuple(_of_constraints(bone) for bone in ob.pose.bones if len(bone.constraints))
    state = (ob.data.pose_position, ob.mode == "EDIT")
    names = tuple(bones.keys())
    return (names, rest.tobytes(), lengths.tobytes(), flags.tobytes(), locks.tobytes(), constraints, state)


def hangs_on(rigs: Iterable[bpy.types.Object]) -> list[bpy.types.Object]:
    """Targets and poles of the chains of some rigs, and what holds them."""
    found: dict[int, bpy.types.Object] = {}
    for chain in (chain for ob in rigs for chain in ob.ik_chains):
        for target in (chain.target, chain.pole_target):
            while target is not None and target.session_uid not in found:
                found[target.session_uid] = target
                place = relations.holder(target)
                target = place[0] if place else None
    return list(found.values())


def _of_constraints(owner: Any) -> tuple:
    return (owner.name, tuple(_of_constraint(constraint) for constraint in owner.constraints))


def _of_constraint(constraint: bpy.types.Constraint) -> tuple:
    kind = getattr(constraint, "type", None)
    if kind is None:  # of a Blender that this one does not know
        return ()
    values = []
    owner: Any = type(constraint)
    for name in (*_LINKS, *_switches(owner)):
        value = getattr(constraint, name, None)
        values.append(value.session_uid if isinstance(value, bpy.types.ID) else value)
    return (kind, constraint.name, *values)


@lru_cache(maxsize=64)
def _switches(kind: Any) -> tuple[str, ...]:
    """The on-off settings of a class of constraints, `mute` among them."""
    skipped = {"show_expanded", "active", "is_valid", "is_override_data"}
    return tuple(
        p.identifier for p in kind.bl_rna.properties if p.type == "BOOLEAN" and p.identifier not in skipped
    )
