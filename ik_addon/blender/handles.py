# SPDX-License-Identifier: GPL-3.0-or-later
"""Targets and poles that are stored as coordinates, as things to drag in the world."""

from __future__ import annotations

from typing import Any

import bpy
import numpy as np
from mathutils import Matrix, Quaternion, Vector

from . import placing, smoothing
from .chain_bones import resolve, uses_pole
from .space_samples import PARTS, space_of


def moves(chain: Any, part: str) -> bool:
    """Whether the place of a target or pole is to be dragged.

    A target without an offset in the space of an object or bone is that: there the object
    or bone is dragged.
    """
    names = PARTS[part]
    space = space_of(chain, names)
    if space.kind == "CUSTOM" and (space.target is None or not any(getattr(chain, names.location))):
        return False
    if part == "POLE":
        is_placed = chain.pole_mode == "POINT" or any(chain.pole_location)
        return bool(uses_pole(chain) and is_placed)
    return not (chain.solver == "AIM" and chain.aim_mode == "MATCH_ROTATION")


def turns(chain: Any) -> bool:
    """Whether the rotation of a target is to be dragged: the chain looks at it."""
    space = space_of(chain, PARTS["TARGET"])
    if space.kind == "CUSTOM" and (space.target is None or not moves(chain, "TARGET")):
        return False
    if chain.solver == "AIM":
        return bool(chain.aim_mode == "MATCH_ROTATION")
    return bool(chain.use_rotation and not chain.use_tail)


def matrix(
    ob: bpy.types.Object, chain: Any, part: str, depsgraph: bpy.types.Depsgraph | None = None
) -> Matrix:
    """World matrix of a target, smoothed, or of a pole.

    Its axes are those of the target where the chain takes its rotation, else those of its space: a drag along
    one changes one number of its location.

    A direction is shown as the point to which it leads from the first joint, a limb's length away.

    Args:
        depsgraph: read from this one, as it is (see `placing.evaluated`).

    Raises:
        ChainError: when the chain has no bones.
    """
    names = PARTS[part]
    space = placing.space_matrix(ob, *space_of(chain, names), depsgraph)
    if part == "POLE":
        point = space @ Vector(chain.pole_location)
        if chain.pole_mode == "DIRECTION":
            root, length = _limb(ob, chain, depsgraph)
            point = root + length * (space.to_3x3() @ Vector(chain.pole_location)).normalized()
        return Matrix.Translation(point)
    location, rotation = _offset(ob, chain, depsgraph)
    point = space @ location
    world = placing.evaluated(ob, depsgraph).matrix_world
    own = placing.rotation(world.inverted_safe() @ space)
    if turns(chain):
        own = own @ rotation.to_matrix()
    out = placing.rotation(world.to_3x3() @ own).to_4x4()
    if not moves(chain, part) and turns(chain):
        bone = placing.evaluated(ob, depsgraph).pose.bones[resolve(ob, chain).turned[0]]
        point = world @ bone.head
    out.translation = point
    return out


def put(ob: bpy.types.Object, chain: Any, part: str, world: Matrix, what: str) -> None:
    """Store a world matrix as the offset of a target or pole, in its own space.

    Args:
        what: MOVE for the location alone, TURN for the rotation alone.
    """
    names = PARTS[part]
    if part == "POLE":
        space = placing.space_matrix(ob, *space_of(chain, names))
        inverse = space.inverted_safe()
        if chain.pole_mode == "POINT":
            chain.pole_location = inverse @ world.translation
            return
        length = Vector(chain.pole_location).length
        direction = inverse.to_3x3() @ (world.translation - _limb(ob, chain)[0])
        if direction.length > 0.0:
            chain.pole_location = length * direction.normalized()
        return
    if chain.solver == "AIM":
        # `put_target` takes the matrix of the bone, which has this turn on top.
        world = world @ Matrix.Rotation(chain.offset_yaw, 4, "Y")
    keep = ("target_rotation",) if what == "MOVE" else ("target_location",)
    placing.put_target(ob, chain, world, keep, smoothing.at_present(ob, chain))


def _offset(
    ob: bpy.types.Object, chain: Any, depsgraph: bpy.types.Depsgraph | None
) -> tuple[Vector, Quaternion]:
    """Location and unit rotation of a target in its space, smoothed."""
    location, rotation = chain.target_location, chain.target_rotation
    change = smoothing.at_present(ob, chain, depsgraph)
    if change is None:
        return location.copy(), rotation.normalized()
    (at,), (turn,) = change.smoothed(np.array([location]), np.array([rotation]))
    return Vector(at), Quaternion(turn).normalized()


def _limb(
    ob: bpy.types.Object, chain: Any, depsgraph: bpy.types.Depsgraph | None = None
) -> tuple[Vector, float]:
    """The first joint of a chain in the world, and how long the chain is there at rest."""
    bones = resolve(ob, chain).turned
    seen = placing.evaluated(ob, depsgraph)
    steps = [ob.data.bones[name].tail_local - ob.data.bones[name].head_local for name in bones]
    length = sum((seen.matrix_world.to_3x3() @ step).length for step in steps)
    return seen.matrix_world @ seen.pose.bones[bones[0]].head, length
