# SPDX-License-Identifier: GPL-3.0-or-later
"""The keys of a property as a whole: read from the assigned action, and written back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import bpy
import numpy as np

from . import compat, key_shapes, keying, keys
from .chain_bones import ChainError
from .keys import FRAME


@dataclass(frozen=True)
class Track:
    """A property of w numbers.

    Attributes:
        paths: data paths that lead to it, Blender's own first.
        values: ``(w,)`` its present value.
        keys: ``(n, WIDTH)`` for each component, see `keys`; empty where nothing animates it.
        curves: its curves, None where there is none.
    """

    paths: tuple[str, ...]
    values: np.ndarray
    keys: list[np.ndarray]
    curves: list[Any]

    @property
    def frames(self) -> np.ndarray:
        """Frames on which any component has a key."""
        return np.unique(np.concatenate([curve[:, FRAME] for curve in self.keys]))

    def cut(self, frames: Sequence[float]) -> list[np.ndarray]:
        """The keys with one on each of some frames, the curves run as before."""
        out = []
        for old, curve, value in zip(self.keys, self.curves, self.values, strict=True):
            for frame in frames if len(old) else ():
                old = key_shapes.cut(old, frame, curve.evaluate)
            out.append(old if len(old) else key_shapes.flat(frames, value))
        return out


def read(ob: bpy.types.Object, paths: tuple[str, ...], values: Any) -> Track:
    """The track of a property of `ob`.

    Raises:
        ChainError: when keys of it could not be changed, or would not play as they stand.
    """
    numbers = np.atleast_1d(np.array(values, np.float64))
    track = Track(paths, numbers, [keys.make([], []) for _ in numbers], [None for _ in numbers])
    keying.keyable_curves(ob, paths)
    for curve in compat.assigned_curves(ob):
        if curve.data_path in paths and not curve.is_empty:
            reason = _closed(curve)
            if reason:
                raise ChainError(f"'{ob.name}': the curve of {paths[0]} {reason}")
            track.keys[curve.array_index] = keys.read(curve)
            track.curves[curve.array_index] = curve
    return track


def _closed(curve: bpy.types.FCurve) -> str:
    """What keeps keys from being what plays, as the end of a sentence."""
    if curve.lock:
        return "is locked"
    if curve.mute or (curve.group is not None and curve.group.mute):
        return "is muted"
    if len(curve.sampled_points):
        return "holds samples, not keys"
    if curve.extrapolation != "CONSTANT":
        return f"is extrapolated ({curve.extrapolation.title()}) beyond its keys"
    for modifier in curve.modifiers:
        if not modifier.mute and modifier.influence > 0.0:
            return f"has the modifier {modifier.type.title()}, which acts on the keys"
    return ""


def _own_action(ob: bpy.types.Object) -> None:
    """Give `ob` a copy of its action where others play it or it cannot be edited."""
    action = ob.animation_data.action if ob.animation_data else None
    if action is not None and (not action.is_editable or compat.plays_elsewhere(ob)):
        compat.assign_action(ob, action.copy(), compat.slot_handle(ob))


def write(ob: bpy.types.Object, paths: Sequence[str], columns: Sequence[np.ndarray], group: str = "") -> None:
    """Give a property of `ob` these keys ``(n, WIDTH)`` for each component, n >= 1.

    What anything else plays stays as it is: `ob` then gets an action of its own.
    """
    _own_action(ob)
    found = _curves(ob, paths)
    for index, column in enumerate(columns):
        if index not in found:
            # It makes action, slot and curve alike, and marks the curves of enums as such.
            component = index if len(columns) > 1 else -1
            options = {"group": group} if group else {}
            ob.keyframe_insert(paths[0], index=component, frame=float(column[0, FRAME]), **options)
    found = _curves(ob, paths)
    keys.write([(found[index], column) for index, column in enumerate(columns)])
    ob.animation_data.action.update_tag()


def remove(ob: bpy.types.Object, paths: Sequence[str]) -> None:
    """Remove the curves of a property from the assigned action."""
    if not _curves(ob, paths):
        return
    _own_action(ob)
    curves = compat.assigned_curves(ob)
    for curve in [curve for curve in curves if curve.data_path in paths]:
        curves.remove(curve)


def _curves(ob: bpy.types.Object, paths: Sequence[str]) -> dict[int, bpy.types.FCurve]:
    return {c.array_index: c for c in compat.assigned_curves(ob) if c.data_path in paths}


def value_at(ob: bpy.types.Object, paths: Sequence[str], frame: float) -> list[float]:
    """What the curves of a property, which has one for each component, say at a frame."""
    found = _curves(ob, paths)
    return [found[index].evaluate(frame) for index in sorted(found)]
