# SPDX-License-Identifier: GPL-3.0-or-later
"""What else poses the bones that a chain turns, after the chain: it would undo the solve."""

from __future__ import annotations

from typing import Any

import bpy

from . import animation
from .joint_limits import is_local_limit
from .relations import is_active


def obstacles(ob: bpy.types.Object) -> dict[str, str]:
    """The bones of `ob` that no chain can turn now, each with the reason.

    Blender applies constraints and drivers after what a chain writes. They count while
    they are not muted and have influence; the joint limits that chains keep do not.
    """
    found: dict[str, str] = {}
    for bone in ob.pose.bones:
        for constraint in bone.constraints:
            if not is_active(constraint) or is_local_limit(constraint):
                continue
            what = f"the constraint '{constraint.name}' of bone '{bone.name}'"
            for name in [bone.name, *_ik_bones(bone, constraint)]:
                found.setdefault(name, f"{what} turns bone '{name}' after the chain; mute it")
    for name in _driven_bones(ob):
        found.setdefault(name, f"the rotation of bone '{name}' has a driver, which acts after the chain")
    return found


def _ik_bones(bone: bpy.types.PoseBone, constraint: Any) -> list[str]:
    """The bones above its owner that an IK constraint turns."""
    if constraint.type not in {"IK", "SPLINE_IK"} or constraint.target is None:
        return []
    names = [parent.name for parent in bone.parent_recursive]
    if not constraint.chain_count:
        return names
    by_tail = getattr(constraint, "use_tail", True)
    return names[: constraint.chain_count - 1] if by_tail else names[: constraint.chain_count]


def _driven_bones(ob: bpy.types.Object) -> list[str]:
    """The bones whose rotation channel has a driver that is not muted."""
    data = ob.animation_data
    paths = {curve.data_path for curve in data.drivers if not curve.mute} if data else set()
    if not any(path.startswith("pose.bones[") for path in paths):
        return []
    return [
        bone.name for bone in ob.pose.bones if animation.bone_path(bone.name, bone.rotation_mode) in paths
    ]
