# SPDX-License-Identifier: GPL-3.0-or-later
"""Key the FK pose of a chain: its bones show the solved one, so a key set on them would hold that."""

from __future__ import annotations

import bpy

from . import animation, bake_checks, chains, keying, memory
from .chain_bones import ChainError
from .handling import held_channels
from .state import STATE


def key_fk(ob: bpy.types.Object, index: int) -> list[str]:
    """Give each channel that a chain writes a key of its FK value at the current frame; nothing moves.

    Returns:
        the data paths that were keyed.

    Raises:
        ChainError, BakeError: before anything is changed.
    """
    chain = ob.ik_chains[index]
    bake_checks.refuse_locked(ob)
    text = chains.problem(ob, chain)
    if text:
        raise ChainError(text)
    held = held_channels(ob, chain)
    channels = [(name, memory.channel(ob.pose.bones[name].rotation_mode)[0]) for name in held.rotation]
    channels += [(name, prop) for prop in memory.VECTORS for name in getattr(held, prop)]
    paths = [animation.vector_path(name, prop) for name, prop in channels]
    for path in paths:
        keying.keyable_curves(ob, [path])
    bpy.context.view_layer.update()
    with STATE.at_work():
        memory.release_all(ob, dict.fromkeys(name for name, _ in channels))
        for name, prop in channels:
            ob.pose.bones[name].keyframe_insert(prop, group=name)
    STATE.forget_plans()
    ob.update_tag()
    return paths
