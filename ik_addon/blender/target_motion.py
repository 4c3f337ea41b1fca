# SPDX-License-Identifier: GPL-3.0-or-later
"""What moves the target of a chain by itself, and what is only the space that it is in.

A target has an offset in its space: that moves it. With an offset in a CUSTOM space, the
object or bone there may be a door, or a hip, which the target has to stay on. It counts as
the target itself where nothing else is seen to move with it (an empty without children, a
bone that neither deforms nor has children), and where the target has no offset in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import bpy
import numpy as np

from . import memory, relations
from .chain_bones import ChainError
from .handling import held_channels
from .obstacles import obstacles
from .own_curves import OwnCurves
from .paths import setting_paths
from .state import STATE

# A target nearer than this to the origin of its space, in units of the space, has no offset in it.
AT_ORIGIN = 1e-4

Curves = Sequence[bpy.types.FCurve | None]
UNMOVED: Curves = (None,)


class Motion(NamedTuple):
    """Location and rotation channels with their curves, None for each number that has none.

    Attributes:
        half_width: frames to each side over which it is smoothed.
        mode, row: rotation mode, and the evaluated rotation channel ``(4,)``.
    """

    half_width: int
    location: Curves
    rotation: Curves
    mode: str
    row: Sequence[float]

    @property
    def moves(self) -> bool:
        """Curves set its location."""
        return any(curve is not None for curve in self.location)

    @property
    def turns(self) -> bool:
        """Curves set its rotation."""
        return any(curve is not None for curve in self.rotation)


STILL = Motion(0, UNMOVED, UNMOVED, "QUATERNION", (1.0, 0.0, 0.0, 0.0))


class Carrier(NamedTuple):
    """The object or bone that a target is.

    Attributes:
        basis: ``(3, 3)`` of its channels, delta transforms included; scale: ``(3,)`` in there.
        world, armature: ``(4, 4)`` evaluated, of it and of the chain's armature object, to the world.
    """

    motion: Motion
    basis: np.ndarray
    scale: np.ndarray
    world: np.ndarray
    armature: np.ndarray


class Frame:
    """The evaluated frame, and the own curves of the objects that are asked for."""

    def __init__(self, depsgraph: bpy.types.Depsgraph) -> None:
        self.depsgraph = depsgraph
        # Where the curves are at, with fraction and time stretching.
        self.now = float(depsgraph.scene.frame_current_final)
        self._curves: dict[int, OwnCurves] = {}

    def curves(self, ob: bpy.types.Object) -> OwnCurves:
        """The own curves of an original object."""
        if ob.session_uid not in self._curves:
            self._curves[ob.session_uid] = OwnCurves(ob)
        return self._curves[ob.session_uid]


def of_offset(ob: bpy.types.Object, index: int, row: Sequence[float], half_width: int, at: Frame) -> Motion:
    """The motion of a chain's target in its space, up to where it is put into another space.

    Args:
        row: ``(4,)`` its evaluated rotation.
    """
    curves = at.curves(ob)
    if curves.has_none:
        return STILL
    location, rotation, space = (
        setting_paths(ob.ik_chains[index], index, name)
        for name in ("target_location", "target_rotation", "target_space")
    )
    motion = Motion(half_width, curves.find(location, 3), curves.find(rotation, 4), "QUATERNION", row)
    if not (motion.moves or motion.turns):
        return STILL
    if curves.is_set_elsewhere(space):
        # When the space changes is not known.
        return motion._replace(half_width=0)
    switches = curves.find(space, 1)[0]
    if switches is None:
        return motion
    return motion._replace(half_width=_unswitched(switches, half_width, at.now))


def _unswitched(curve: bpy.types.FCurve, half_width: int, now: float) -> int:
    """The largest half-width with one space on all frames: offsets in two spaces have no mean."""
    here = int(curve.evaluate(now))
    for k in range(1, half_width + 1):
        if int(curve.evaluate(now - k)) != here or int(curve.evaluate(now + k)) != here:
            return k - 1
    return half_width


def of_carrier(
    evaluated: bpy.types.Object,
    target: bpy.types.Object | None,
    bone: str,
    half_width: int,
    has_offset: bool,
    at: Frame,
) -> Carrier | None:
    """The object or bone that a target in CUSTOM space is; None where its own curves do not pose it alone.

    Args:
        evaluated: the armature object of the chain.
        target, bone: the original object, and the name of its bone or nothing.
        has_offset: the target is not at its origin.
    """
    if target is None or (target == evaluated.original and not bone):
        return None
    if has_offset and not carries_targets_only(target, bone):
        return None
    seen = target.evaluated_get(at.depsgraph)
    owner: Any = seen
    world = _array(seen.matrix_world)
    prefix, has_location = "", True
    if bone:
        owner = seen.pose.bones.get(bone) if seen.pose else None
        if owner is None or bone not in target.data.bones or not _is_posed_by_channels(target, bone):
            return None
        world = world @ _array(owner.matrix)
        prefix = f'pose.bones["{bpy.utils.escape_identifier(bone)}"].'
        has_location = not owner.bone.use_connect
    elif any(map(relations.is_active, target.constraints)):
        return None
    curves, mode = at.curves(target), owner.rotation_mode
    prop, width = memory.channel(mode)
    location = curves.find((f"{prefix}location",), 3) if has_location else UNMOVED
    row = [*getattr(owner, prop), 0.0][:4]
    motion = Motion(half_width, location, curves.find((prefix + prop,), width), mode, row)
    if not (motion.moves or motion.turns):
        return None
    scale = np.array(owner.scale, np.float64)
    if not bone:
        scale *= np.array(owner.delta_scale, np.float64)
    return Carrier(motion, _array(owner.matrix_basis)[:3, :3], scale, world, _array(evaluated.matrix_world))


def _array(matrix: Any) -> np.ndarray:
    return np.array(matrix, dtype=np.float64)


def carries_targets_only(target: bpy.types.Object, bone: str) -> bool:
    """Whether nothing that is seen moves with an object, or a bone of it."""
    if bone:
        data = target.data.bones.get(bone) if target.type == "ARMATURE" else None
        is_bare = data is not None and not data.use_deform and not len(data.children)
    else:
        is_bare = target.type == "EMPTY" and target.instance_type == "NONE"
        is_bare = is_bare and target.empty_display_type != "IMAGE"
    return is_bare and not _has_children(target, bone)


def _has_children(target: bpy.types.Object, bone: str) -> bool:
    """Remembered while nothing is parented anew: Blender walks through all objects of the file."""
    key = (target.session_uid, bone)
    if key not in STATE.has_children:
        children = target.children
        held = (child for child in children if child.parent_type == "BONE" and child.parent_bone == bone)
        STATE.has_children[key] = any(True for _ in held) if bone else len(children) > 0
    return STATE.has_children[key]


def _is_posed_by_channels(ob: bpy.types.Object, name: str) -> bool:
    """Whether a bone stands where its parent and its own channels put it, and no chain writes it."""
    bone = ob.data.bones[name]
    inherits = bone.parent is None or (bone.use_inherit_rotation and bone.inherit_scale == "FULL")
    if not inherits or not bone.use_local_location:
        return False
    if ob.session_uid not in STATE.posed_by_more:
        names = set(obstacles(ob))
        for chain in ob.ik_chains:
            try:
                held = held_channels(ob, chain)
                names.update(held.rotation, held.location, held.scale)
            except ChainError:
                continue
        STATE.posed_by_more[ob.session_uid] = frozenset(names)
    # A Limit Rotation is no obstacle to a chain, but it poses a bone.
    pose_bone = ob.pose.bones[name]
    return name not in STATE.posed_by_more[ob.session_uid] and not any(
        map(relations.is_active, pose_bone.constraints)
    )
