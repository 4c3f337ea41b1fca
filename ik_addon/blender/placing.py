# SPDX-License-Identifier: GPL-3.0-or-later
"""Where targets and poles are: the one place that turns spaces into matrices for tools.

The solve itself resolves spaces for whole batches in `core.pipeline`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import bpy
import numpy as np
from mathutils import Matrix, Vector

from ..core import limb
from ..core.transforms import rotation_part
from . import smoothing
from .chain_bones import resolve, uses_pole
from .rest_bend import rest_hinge
from .sampling import evaluation
from .state import STATE

AXES = {"X": Vector((1, 0, 0)), "Y": Vector((0, 1, 0)), "Z": Vector((0, 0, 1))}


def evaluated(ob: bpy.types.Object, depsgraph: bpy.types.Depsgraph | None = None) -> bpy.types.Object:
    """`ob` as the current view layer evaluates it; itself where it is in none.

    Args:
        depsgraph: read from this one, as it is; without it the present one is brought up to date.
    """
    return ob.evaluated_get(depsgraph or bpy.context.evaluated_depsgraph_get())


def space_matrix(
    ob: bpy.types.Object,
    space: str,
    target: bpy.types.Object | None,
    subtarget: str,
    depsgraph: bpy.types.Depsgraph | None = None,
) -> Matrix:
    """World matrix of a space: WORLD, ARMATURE (of `ob`), or CUSTOM (`target`, its bone `subtarget`)."""
    if space == "ARMATURE":
        return evaluated(ob, depsgraph).matrix_world.copy()
    if space == "CUSTOM" and target is not None:
        seen = evaluated(target, depsgraph)
        if subtarget:
            return seen.matrix_world @ seen.pose.bones[subtarget].matrix
        return seen.matrix_world.copy()
    return Matrix.Identity(4)


def tip_matrix(ob: bpy.types.Object, chain: Any) -> Matrix:
    """World matrix of the end bone as it is posed now, moved to the tip.

    For an aim that looks at its target, the place is one bone length along the aim ray.
    """
    bones = resolve(ob, chain)
    seen = evaluated(ob)
    last = seen.pose.bones[bones.end or bones.turned[-1]]
    point = _free_head(last) if bones.end else last.tail
    if chain.solver == "AIM" and chain.aim_mode == "LOOK_AT":
        sign, axis = (-1, chain.aim_axis[1]) if chain.aim_axis[0] == "-" else (1, chain.aim_axis)
        direction = last.matrix.to_3x3().normalized() @ AXES[axis]
        point = last.matrix @ Vector(chain.aim_offset) + sign * last.length * direction
    world = seen.matrix_world @ last.matrix
    world.translation = seen.matrix_world @ point
    return world


def _free_head(bone: bpy.types.PoseBone) -> Vector:
    """Where the bones above lead the head of an evaluated bone, whatever its constraints do."""
    if bone.parent is None or not len(bone.constraints):
        return bone.head
    rest = bone.bone
    # A connected bone ignores its location.
    basis = Matrix.Translation((0.0, 0.0, 0.0) if rest.use_connect else bone.location)
    above = {"parent_matrix": bone.parent.matrix, "parent_matrix_local": rest.parent.matrix_local}
    return rest.convert_local_to_pose(basis, rest.matrix_local, **above).translation


def put_target(
    ob: bpy.types.Object,
    chain: Any,
    world: Matrix,
    keep: Iterable[str] = (),
    change: smoothing.Change | None = None,
) -> None:
    """Store a world matrix as the chain's target, in the space that the target has.

    Rotations are taken off the matrices as the solve does it, so that the end bone stays as
    it is also where a space is mirrored or scaled unevenly.

    Args:
        keep: `target_location` or `target_rotation`, to leave it alone.
        change: what smoothing does to the target: it is taken off.
    """
    space = space_matrix(ob, chain.target_space, chain.target, chain.subtarget)
    to_armature = _inverse(evaluated(ob).matrix_world)
    turn = rotation(to_armature @ space).transposed() @ rotation(to_armature @ world)
    if chain.solver == "AIM":
        turn = turn @ Matrix.Rotation(-chain.offset_yaw, 3, "Y")
    values = {"target_location": _inverse(space) @ world.translation, "target_rotation": turn.to_quaternion()}
    if change is not None:
        raw = change.raw(*(np.array([value]) for value in values.values()))
        values = {name: value for name, (value,) in zip(values, raw, strict=True)}
    for name, value in values.items():
        if name not in keep:
            setattr(chain, name, value)


def put_pole(ob: bpy.types.Object, chain: Any) -> None:
    """Store the side to which the chain bends now as its pole, one limb length away."""
    bones = resolve(ob, chain)
    seen = evaluated(ob)
    tip = seen.matrix_world.inverted_safe() @ tip_matrix(ob, chain).translation
    joints = [*(seen.pose.bones[name].head for name in bones.turned), tip]
    first, root, middle = bones.turned[0], joints[0], joints[len(bones.turned) // 2]
    if chain.solver == "THREE_BONE":
        first = bones.turned[limb.bend_root(chain.limb_mode)]
        root, middle, tip = (Vector(joint) for joint in limb.bend_joints(np.array(joints), chain.limb_mode))
    line = tip - root
    side = (middle - root) - (middle - root).project(line) if line.length else middle - root
    if side.length <= 1e-4 * max(line.length, 1e-9):
        # The side of a straight limb is that of its rest bend axis.
        mode = chain.limb_mode if chain.solver == "THREE_BONE" else ""
        hinge = seen.pose.bones[first].matrix.to_3x3() @ Vector(rest_hinge(ob, bones, mode))
        axis = hinge.cross(line) if line.length else hinge
        side = axis - axis.project(line) if line.length else axis
    direction = side.normalized()
    inverse = _inverse(space_matrix(ob, chain.pole_space, chain.pole_target, chain.pole_subtarget))
    to_space = inverse @ seen.matrix_world
    if chain.pole_mode == "DIRECTION":
        chain.pole_location = (to_space.to_3x3() @ direction).normalized()
    else:
        chain.pole_location = to_space @ (middle + direction * max(line.length, 1e-9))


def place(ob: bpy.types.Object, chain: Any, keep: Iterable[str] = ()) -> None:
    """Put target and pole such that solving the chain moves nothing; settings in `keep` stay."""
    # Nothing is solved meanwhile: the target is not where it shall be yet.
    with STATE.at_work(), evaluation([ob]):
        change = None
        if chain.target_space == "CUSTOM":
            change = smoothing.in_space(ob, chain.smooth_frames, chain.target, chain.subtarget)
        put_target(ob, chain, tip_matrix(ob, chain), keep, change)
        if chain.pole_mode != "AUTO" and "pole_location" not in keep and uses_pole(chain):
            put_pole(ob, chain)


def rotation(matrix: Matrix) -> Matrix:
    """The rotation that the solve takes off a matrix, 3 x 3."""
    return Matrix(rotation_part(np.array(matrix, dtype=np.float64)))


def _inverse(matrix: Matrix) -> Matrix:
    return matrix.inverted_safe()
