# SPDX-License-Identifier: GPL-3.0-or-later
"""Edits that have no key: Blender drops them when curves of the same object are written."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

import bpy

from . import compat, memory
from .state import STATE


@contextmanager
def kept(ob: bpy.types.Object, but: Collection[str] = ()) -> Iterator[None]:
    """Keep the values of animated properties of an armature object while its curves are written.

    Args:
        but: data paths of properties that are set meanwhile: they keep what they were set to.
    """
    before = {path: value for path, value in _values(ob).items() if path not in but}
    # What a solve left on the bones: it tells an edit of FK from what was written.
    kept = [(bone.name, name, _plain(getattr(bone, name))) for bone in ob.pose.bones for name in memory.NAMES]
    yield
    meant = {path: value for path, value in _values(ob).items() if path in but}
    with STATE.at_work():
        bpy.context.view_layer.update()
        for path, value in {**before, **meant}.items():
            owner, _, name = path.rpartition(".")
            _set(ob.path_resolve(owner) if owner else ob, name, value)
        for bone, name, value in kept:
            _set(ob.pose.bones[bone], name, value)
    ob.update_tag()


def _values(ob: bpy.types.Object) -> dict[str, Any]:
    """The values of properties with curves, but for custom properties and paths that lead nowhere."""
    found = {}
    for path in {curve.data_path for curve in compat.assigned_curves(ob)}:
        try:
            value = ob.path_resolve(path)
        except ValueError:
            continue
        if not path.endswith("]"):
            found[path] = _plain(value)
    return found


def _plain(value: Any) -> Any:
    return tuple(value) if hasattr(value, "__len__") and not isinstance(value, str) else value


def _set(owner: Any, name: str, value: Any) -> None:
    if _plain(getattr(owner, name)) != value:
        setattr(owner, name, value)
