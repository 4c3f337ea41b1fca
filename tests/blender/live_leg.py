# SPDX-License-Identifier: GPL-3.0-or-later
"""A rig with a chain on its leg, and where its foot shall be."""

from typing import Any

import bpy
import numpy as np
from bone_rigs import (
    LEG_LENGTH,
    armature,
    head,
    update,
)

from ik_addon.blender import chains

ON_TARGET = 2e-6 * LEG_LENGTH
TARGET = (0.15, -0.2, 0.2)


def leg(name: str = "Rig", **settings: Any) -> bpy.types.Object:
    """A rig with a chain on its leg, solved."""
    ob = armature(name)
    settings = {"target_location": TARGET, **settings}
    chains.add(ob, "thigh", "foot", name="leg", use_tail=False, **settings)
    update()
    return ob


def off(ob: bpy.types.Object, target: Any = TARGET, bone: str = "foot") -> float:
    return float(np.linalg.norm(head(ob, bone) - np.array(target)))


def moving(ob: bpy.types.Object) -> None:
    """Key an empty from TARGET to 0.2 further up at frame 11."""
    for frame, z in ((1, TARGET[2]), (11, TARGET[2] + 0.2)):
        ob.location = (TARGET[0], TARGET[1], z)
        ob.keyframe_insert("location", frame=frame)
    for curves in ob.animation_data.action.layers[0].strips[0].channelbags if SLOTS else ():
        for curve in curves.fcurves:
            for key in curve.keyframe_points:
                key.interpolation = "LINEAR"
    if not SLOTS:
        for curve in ob.animation_data.action.fcurves:
            for key in curve.keyframe_points:
                key.interpolation = "LINEAR"


SLOTS = hasattr(bpy.types, "ActionSlot")
