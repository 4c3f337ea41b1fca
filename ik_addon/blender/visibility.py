# SPDX-License-Identifier: GPL-3.0-or-later
"""Show a hidden object for as long as Blender must see it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import bpy

from .chain_bones import ChainError
from .state import STATE


@contextmanager
def shown(ob: bpy.types.Object) -> Iterator[None]:
    """`ob` visible in the view layer, as Edit Mode wants it; afterwards it is hidden as it was.

    Raises:
        ChainError: when it stays hidden, for a driver wants it so.
    """
    if ob.visible_get():
        yield
        return
    layer, collection = bpy.context.view_layer, bpy.context.scene.collection
    disabled, is_new = ob.hide_viewport, ob not in collection.objects.values()
    eye = False
    try:
        with STATE.at_work():
            if is_new:
                # In the scene's own collection nothing hides it but its own switches.
                collection.objects.link(ob)
            ob.hide_viewport = False
            layer.update()
            eye = ob.hide_get()
            ob.hide_set(False)
            layer.update()
        if not ob.visible_get():
            raise ChainError(
                f"'{ob.name}' is kept hidden by a driver, and bones are added in Edit Mode: show it first"
            )
        yield
    finally:
        ob.hide_set(eye)
        ob.hide_viewport = disabled
        if is_new:
            collection.objects.unlink(ob)
