# SPDX-License-Identifier: GPL-3.0-or-later
"""The joint limits of pose bones: IK limits and locks, and Limit Rotation in local space."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import bpy
import numpy as np

from ..core.limits import JointLimit
from ..core.transforms import EULER_ORDERS
from . import animation

AXES = "xyz"
# Properties that say whether a bone has IK limits at all, and those that say which.
FLAGS = tuple(f"{name}_{axis}" for name in ("use_ik_limit", "lock_ik") for axis in AXES)
RANGES = tuple(f"ik_{end}_{axis}" for end in ("min", "max") for axis in AXES)


def is_local_limit(constraint: Any) -> bool:
    """Whether a constraint is a Limit Rotation of the bone's own channels at full influence."""
    return (
        getattr(constraint, "type", None) == "LIMIT_ROTATION"
        and constraint.owner_space == "LOCAL"
        and constraint.influence == 1.0
        and not constraint.mute
    )


def limits_of(bone: bpy.types.PoseBone) -> JointLimit | None:
    """The limits of a bone, None without any.

    Of several ranges for one axis their common part counts; when they have none, the last.
    IK limits are read in the Euler order of the Limit Rotation constraints, where there are some.
    """
    constraints = [constraint for constraint in bone.constraints if is_local_limit(constraint)]
    lower, upper = [-np.inf] * 3, [np.inf] * 3
    for i, axis in enumerate(AXES):
        ranges = []
        if getattr(bone, f"use_ik_limit_{axis}"):
            ranges.append((getattr(bone, f"ik_min_{axis}"), getattr(bone, f"ik_max_{axis}")))
        for constraint in constraints:
            if getattr(constraint, f"use_limit_{axis}"):
                ranges.append((getattr(constraint, f"min_{axis}"), getattr(constraint, f"max_{axis}")))
        for low, high in ranges:
            # Blender takes a minimum above its maximum as the range across 180 degrees.
            high = high + 2.0 * np.pi if high < low else high
            lower[i], upper[i] = max(lower[i], low), min(upper[i], high)
            if lower[i] > upper[i]:
                lower[i], upper[i] = low, high
    locked = (bone.lock_ik_x, bone.lock_ik_y, bone.lock_ik_z)
    if not any(locked) and np.isinf(lower + upper).all():
        return None
    (x0, y0, z0), (x1, y1, z1) = lower, upper
    return JointLimit((x0, y0, z0), (x1, y1, z1), locked, _order(bone, constraints))


def _order(bone: bpy.types.PoseBone, constraints: list[Any]) -> str:
    """The Euler order of the last constraint: its own, or the bone's rotation mode."""
    order = constraints[-1].euler_order if constraints else "XYZ"
    if order == "AUTO":
        order = bone.rotation_mode if bone.rotation_mode in EULER_ORDERS else "XYZ"
    return order


def _as_evaluated(ob: bpy.types.Object, evaluated: bpy.types.Object) -> Any:
    """The pose bones of a rig, by place, with the limits of the evaluated frame: a bake or a render reads
    frames that the original does not hold. Names are the original's."""
    seen = evaluated.pose.bones
    return seen if len(seen) == len(ob.pose.bones) else ob.pose.bones


def chain_limits(
    ob: bpy.types.Object, evaluated: bpy.types.Object, names: Collection[str]
) -> tuple[JointLimit, ...]:
    """The limits of some bones in their order, () where none of them has any."""
    bones = _as_evaluated(ob, evaluated)
    limits = [limits_of(bones[ob.pose.bones.find(name)]) for name in names]
    if not any(limits):
        return ()
    return tuple(limit or JointLimit() for limit in limits)


def fingerprint(ob: bpy.types.Object, evaluated: bpy.types.Object, constrained: Collection[str]) -> tuple:
    """What the limits of a rig rest on; `constrained` are its bones with Limit Rotation."""
    bones = _as_evaluated(ob, evaluated)
    flags = np.empty((len(FLAGS), len(bones)), bool)
    for row, prop in zip(flags, FLAGS, strict=True):
        bones.foreach_get(prop, row)
    parts: list[Any] = [flags.tobytes()]
    if flags[:3].any():
        ranges = np.empty((len(RANGES), len(bones)), np.float32)
        for values, prop in zip(ranges, RANGES, strict=True):
            bones.foreach_get(prop, values)
        parts.append(ranges.tobytes())
    places = [ob.pose.bones.find(name) for name in constrained]
    parts.extend(limits_of(bones[place]) for place in places if place >= 0)
    return tuple(parts)


def may_change(ob: bpy.types.Object, limits: tuple) -> bool:
    """Whether limits of a rig may become other ones without an edit.

    Args:
        limits: its fingerprint. Limits that are there may be animated, and curves may bring the first.
    """
    flags, *others = limits
    if others or any(flags):
        return True
    return any(True for _ in animation.playing_curves(ob, lambda path: path.rpartition(".")[2] in FLAGS))


def constrained_bones(ob: bpy.types.Object) -> list[str]:
    """The bones that have a Limit Rotation constraint, whatever its settings."""
    return [
        bone.name
        for bone in ob.pose.bones
        if any(getattr(constraint, "type", None) == "LIMIT_ROTATION" for constraint in bone.constraints)
    ]
