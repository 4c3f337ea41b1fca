# SPDX-License-Identifier: GPL-3.0-or-later
"""A body to set up, and what its chains are."""

from typing import Any

import bpy
import numpy as np
import pytest
from bone_rigs import armature, head, tail, update
from rig_state import dump

# Of a limb's length. Blender's float32 poses; a joint of a limb that is straight moves by the root of that.
ROUNDING, STRAIGHT = 4e-6, 4e-4

# A body with both arms and legs, a spine and a tail.
SIDES = (("L", 1.0), ("R", -1.0))
BODY = (
    ("hips", "", (0.0, 0.0, 1.0), (0.0, 0.0, 1.1)),
    ("spine", "hips", (0.0, 0.0, 1.1), (0.0, 0.03, 1.3)),
    ("chest", "spine", (0.0, 0.03, 1.3), (0.0, 0.0, 1.5)),
    ("neck", "chest", (0.0, 0.0, 1.5), (0.0, 0.0, 1.6)),
    ("tail", "hips", (0.0, 0.1, 1.0), (0.0, 0.3, 0.95)),
    ("tail.001", "tail", (0.0, 0.3, 0.95), (0.0, 0.5, 0.95)),
    ("tail.002", "tail.001", (0.0, 0.5, 0.95), (0.0, 0.7, 1.0)),
)
LIMBS = (
    ("upper_arm", "chest", (0.2, 0.0, 1.45), (0.45, 0.05, 1.4)),
    ("forearm", "upper_arm", (0.45, 0.05, 1.4), (0.7, 0.0, 1.35)),
    ("hand", "forearm", (0.7, 0.0, 1.35), (0.8, 0.0, 1.35)),
    ("thigh", "hips", (0.1, 0.0, 0.95), (0.1, -0.05, 0.5)),
    ("shin", "thigh", (0.1, -0.05, 0.5), (0.1, 0.0, 0.08)),
    ("foot", "shin", (0.1, 0.0, 0.08), (0.1, -0.15, 0.03)),
)
ALL = {"Spine", "Arm.L", "Arm.R", "Leg.L", "Leg.R", "Tail"}


def figure(name: str = "Figure", left_out: tuple[str, ...] = ()) -> bpy.types.Object:
    """The body; `left_out` are bones that it has not."""
    bones = list(BODY)
    for side, mirror in SIDES:
        for bone, parent, start, stop in LIMBS:
            above = parent if parent in ("chest", "hips") else f"{parent}.{side}"
            points = ((mirror * x, y, z) for x, y, z in (start, stop))
            bones.append((f"{bone}.{side}", above, *points))
    return armature(name, [bone for bone in bones if bone[0] not in left_out])


def by_name(ob: bpy.types.Object) -> dict[str, tuple[str, str, str, bool, str]]:
    """Root, end, solver, use_tail and target space of the chains."""
    return {c.name: (c.root_bone, c.end_bone, c.solver, c.use_tail, c.target_space) for c in ob.ik_chains}


def limb_joints(ob: bpy.types.Object, chain: Any) -> np.ndarray:
    """World positions of the joints of a chain, the tip last."""
    bone = ob.data.bones[chain.end_bone]
    path = [bone.name]
    while path[0] != chain.root_bone:
        bone = bone.parent
        path.insert(0, bone.name)
    tip = tail(ob, path[-1]) if chain.use_tail else head(ob, path[-1])
    heads = path if chain.use_tail else path[:-1]
    return np.array([*(head(ob, name) for name in heads), tip])


def assert_set_up_in_place(ob: bpy.types.Object, before: dict[str, Any]) -> None:
    """All chains have their tips on their targets, and no joint has moved."""
    update()
    for chain in ob.ik_chains:
        assert (chain.status, chain.message) == ("OK", ""), chain.name
        joints = limb_joints(ob, chain)
        was = np.array([np.array(before[name])[:3, 3] for name in path_of_chain(ob, chain)])
        length = np.linalg.norm(np.diff(joints, axis=0), axis=1).sum()
        straight = np.linalg.norm(joints[-1] - joints[0]) > 0.999 * length
        moved = np.linalg.norm(joints[: len(was)] - was, axis=1).max()
        assert moved <= (STRAIGHT if straight else 20.0 * ROUNDING) * length, chain.name
        assert chain.residual <= ROUNDING * length, chain.name


def path_of_chain(ob: bpy.types.Object, chain: Any) -> list[str]:
    names = [chain.end_bone, *(bone.name for bone in ob.data.bones[chain.end_bone].parent_recursive)]
    return names[: names.index(chain.root_bone) + 1][::-1]


def refusal(**properties: Any) -> str:
    """What `ik_chain.setup` says when it refuses, and changes nothing."""
    before = dump()
    with pytest.raises(RuntimeError) as caught:
        bpy.ops.ik_chain.setup(**properties)
    assert dump() == before
    return str(caught.value)
