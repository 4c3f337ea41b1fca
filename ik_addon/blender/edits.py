# SPDX-License-Identifier: GPL-3.0-or-later
"""Edits that have no key: Blender drops them when curves of the same object are written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import bpy
import numpy as np

from . import compat
from .state import STATE

# What a solve left on the bones: it tells an edit of FK from what was written.
MEMORY = {
    "ik_fk_rotation": (4, np.float32),
    "ik_solved_rotation": (4, np.float32),
    "ik_held_mode": (1, np.int32),
}


@contextmanager
def kept(ob: bpy.types.Object) -> Iterator[None]:
    """Keep the values of animated properties of `ob` while its curves are written.

    Properties that are set meanwhile keep what they were set to.
    """
    before = _values(ob)
    memory = _memory(ob)
    yield
    meant = {path: value for path, value in _values(ob).items() if path in before}
    with STATE.at_work():
        bpy.context.view_layer.update()
        for path, value in _values(ob).items():
            if path in meant and value != meant[path]:
                owner, _, name = path.rpartition(".")
                setattr(ob.path_resolve(owner) if owner else ob, name, meant[path])
        for name, flat in memory.items():
            ob.pose.bones.foreach_set(name, flat)
    ob.update_tag()


def _values(ob: bpy.types.Object) -> dict[str, Any]:
    """The values of properties with curves; those in square brackets are left to their curves."""
    found = {}
    for path in {curve.data_path for curve in compat.assigned_curves(ob)}:
        if path.endswith("]"):
            continue
        try:
            value = ob.path_resolve(path)
        except ValueError:
            continue
        found[path] = tuple(value) if hasattr(value, "__len__") and not isinstance(value, str) else value
    return found


def _memory(ob: bpy.types.Object) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = {}
    for name, (width, kind) in MEMORY.items() if ob.pose else ():
        found[name] = np.empty(len(ob.pose.bones) * width, kind)
        ob.pose.bones.foreach_get(name, found[name])
    return found
