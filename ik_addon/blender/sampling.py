# SPDX-License-Identifier: GPL-3.0-or-later
"""Evaluate rigs apart from the scene that is open."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import bpy

from .state import STATE

NAME = "IK Chains sampling"


@contextmanager
def sampling_scene(scene: bpy.types.Scene, rigs: Sequence[bpy.types.Object]) -> Iterator[bpy.types.Scene]:
    """A scene that holds the rigs alone, with the time settings of `scene`.

    What the rigs depend on is evaluated with them; meshes and the rest are not, which
    makes a frame of a heavy scene a hundred times cheaper.
    """
    sampling = bpy.data.scenes.new(NAME)
    body = bpy.data.meshes.new(NAME)
    holder = bpy.data.objects.new(NAME, body)
    try:
        # A rig that is disabled in viewports is evaluated only as far as something visible
        # hangs on it; envelopes hang on all of its bones.
        for ob in rigs:
            deform = holder.modifiers.new(ob.name, "ARMATURE")
            deform.object, deform.use_bone_envelopes = ob, True
        sampling.collection.objects.link(holder)
        for prop in ("fps", "fps_base", "frame_map_old", "frame_map_new"):
            setattr(sampling.render, prop, getattr(scene.render, prop))
        for ob in dict.fromkeys([*rigs, *_empties(rigs)]):
            sampling.collection.objects.link(ob)
        yield sampling
    finally:
        # `scenes.remove` crashes Blender 4.3 in a command line run, which has no window.
        bpy.data.batch_remove([sampling, holder, body])


def _empties(rigs: Sequence[bpy.types.Object]) -> Iterator[bpy.types.Object]:
    """Targets that cost nothing to evaluate: in the view layer all are read in one call."""
    for chain in (chain for ob in rigs for chain in ob.ik_chains):
        for ob in (chain.target, chain.pole_target):
            if ob is not None and ob.type == "EMPTY":
                yield ob


@contextmanager
def evaluation(rigs: Sequence[bpy.types.Object]) -> Iterator[bool]:
    """A context in whose view layer `rigs` are evaluated at the current frame.

    The present one, where it does, with False; otherwise (a rig is hidden, in an excluded
    collection or in none) that of a scene of its own, with True: the frame is new there.
    """
    depsgraph = bpy.context.evaluated_depsgraph_get()
    if all(ob.evaluated_get(depsgraph).is_evaluated for ob in rigs):
        yield False
        return
    scene = bpy.context.scene
    with STATE.at_work(), sampling_scene(scene, rigs) as sampling:
        sampling.frame_set(scene.frame_current, subframe=scene.frame_subframe)
        with bpy.context.temp_override(scene=sampling, view_layer=sampling.view_layers[0]):
            yield True
