# SPDX-License-Identifier: GPL-3.0-or-later
"""The rest state of armature objects as a skeleton of the core."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import bpy
import numpy as np

from ..core.skeleton import InheritScale, Skeleton


def bone_order(ob: bpy.types.Object) -> np.ndarray:
    """``(n,)`` places in `pose.bones`, parents before their children."""
    depth = [len(bone.bone.parent_recursive) for bone in ob.pose.bones]
    return np.argsort(depth, kind="stable")


def skeleton_of(rigs: Sequence[bpy.types.Object], orders: Sequence[np.ndarray]) -> Skeleton:
    """All bones of some armature objects as one skeleton, named ``rig/bone``, rig by rig.

    Args:
        orders: the `bone_order` of each.
    """
    rows: list[dict[str, Any]] = []
    index: dict[tuple[int, str], int] = {}
    for rig, (ob, order) in enumerate(zip(rigs, orders, strict=True)):
        for place in order.tolist():
            bone = ob.pose.bones[place].bone
            index[rig, bone.name] = len(rows)
            rows.append(
                {
                    "name": f"{rig}/{bone.name}",
                    "parent": index[rig, bone.parent.name] if bone.parent else -1,
                    "rest": np.array(bone.matrix_local, np.float64),
                    "length": bone.length,
                    "rotation": bone.use_inherit_rotation,
                    "scale": InheritScale[bone.inherit_scale],
                    "local": bone.use_local_location,
                    "connected": bone.use_connect,
                }
            )

    def column(name: str, dtype: type) -> np.ndarray:
        return np.array([row[name] for row in rows], dtype)

    return Skeleton(
        names=tuple(row["name"] for row in rows),
        parents=column("parent", int),
        rest=column("rest", float).reshape(-1, 4, 4),
        lengths=column("length", float),
        inherit_rotation=column("rotation", bool),
        inherit_scale=column("scale", int),
        local_location=column("local", bool),
        connected=column("connected", bool),
    )
