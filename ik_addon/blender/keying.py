# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys for single values at the current frame, only where curves are already."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import bpy

from . import animation, compat
from .chain_bones import ChainError


def keyable_curves(ob: bpy.types.Object, paths: Collection[str]) -> list[bpy.types.FCurve]:
    """The curves that a new value of a property must be keyed on; none where nothing animates it.

    Args:
        paths: the data paths that lead to the property.

    Raises:
        ChainError: when something sets the property that takes no key.
    """
    data = ob.animation_data
    if data is None:
        return []
    what = f"'{ob.name}': {next(iter(paths))}"
    if any(curve.data_path in paths and not curve.mute for curve in data.drivers):
        raise ChainError(f"{what} is set by a driver, which would undo this")
    for strip in animation.nla_strips(ob):
        if any(curve.data_path in paths for curve in compat.strip_curves(strip)):
            raise ChainError(f"{what} is set by NLA strip '{strip.name}', which takes no key")
    if not animation.action_plays(ob):
        return []
    curves = [c for c in compat.assigned_curves(ob) if c.data_path in paths and compat.curve_plays(c, False)]
    if curves and not data.action.is_editable:
        raise ChainError(f"{what} is set by action '{data.action.name}', which is linked")
    return curves


def insert(curves: Sequence[bpy.types.FCurve], frame: float, values: Sequence[float]) -> None:
    """Key each curve with its component of `values`."""
    for curve in curves:
        curve.keyframe_points.insert(frame, values[curve.array_index])
        curve.update()
