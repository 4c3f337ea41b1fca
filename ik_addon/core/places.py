# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the chains of a stage are in FK, and where their targets are after a solve, in world space.

The live solve does without; checks and tools that plant contacts ask for it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from . import limb
from .batch import Batch
from .shift import EASE_OUT
from .stage import Group, Stage
from .stretch import stretched_reach
from .transforms import (
    affine_inverse,
    length,
    matrix_to_quaternion,
    rotation_part,
    transform_point,
)
from .work import Solution, Work, joints_of, repose, spaces_of, start


@dataclass(frozen=True)
class Places:
    """Where F frames have the chains. Zeros and identities for chains that are broken.

    Attributes:
        tip: ``(F, chains, 3)`` in FK, with no chain solved.
        limb: ``(F, chains)`` length of the limb in FK, joint to joint.
        rotation: ``(F, chains, 4)`` rotation of a target in the world with which the end bone would
            stay as it is in FK; of the last bone for a chain that ends at a tail.
        target: ``(F, chains, 3)`` after the solve.
        space: ``(F, chains, 4, 4)`` from the space that the target is stored in to the world.
        root: ``(F, chains, 3)`` the point that the limb reaches from, before it shifts its root.
        reach: ``(F, chains)`` how far from there a target is that the tip arrives at: as far as the
            limb goes before softness eases, and what stretching or shifting its root may add.
        extension: ``(F, chains)`` distance from the root to the target as a share of the straight
            limb, after the solve, in armature space, where limbs are solved; 0 for an aim.
    """

    tip: np.ndarray
    limb: np.ndarray
    rotation: np.ndarray
    target: np.ndarray
    space: np.ndarray
    root: np.ndarray
    reach: np.ndarray
    extension: np.ndarray


def places(stage: Stage, batch: Batch, solution: Solution) -> Places:
    """The chains of a stage, in FK and after a solve of this batch."""
    fk, work = start(stage, batch), solution.work
    repose(work)
    shape = work.residual.shape
    out = Places(
        tip=np.zeros((*shape, 3)),
        limb=np.zeros(shape),
        rotation=np.broadcast_to([1.0, 0.0, 0.0, 0.0], (*shape, 4)).copy(),
        target=np.zeros((*shape, 3)),
        space=np.broadcast_to(np.eye(4), (*shape, 4, 4)).copy(),
        root=np.zeros((*shape, 3)),
        reach=np.zeros(shape),
        extension=np.zeros(shape),
    )
    for goal in work.goals:
        group = goal.group
        in_fk = _world_joints(fk, group)
        out.tip[:, group.pick] = in_fk[:, :, -1]
        out.limb[:, group.pick] = length(in_fk[:, :, 1:] - in_fk[:, :, :-1]).sum(axis=-1)
        out.rotation[:, group.pick] = _end_rotation(fk, group)
        world = work.objects[:, group.rig]
        out.target[:, group.pick] = transform_point(world, goal.place)
        out.space[:, group.pick] = world @ spaces_of(work, group.target, group.rig)
        out.root[:, group.pick], out.reach[:, group.pick] = _reach(fk, work, group)
        if group.example.solver != "AIM":
            root, outer = _limb_from(group, joints_of(work, group))
            out.extension[:, group.pick] = length(goal.place - root) / np.where(outer > 0.0, outer, 1.0)
    return out


def _world_joints(work: Work, group: Group) -> np.ndarray:
    world = work.objects[:, group.rig]
    return transform_point(world[:, :, None], joints_of(work, group))


def _end_rotation(work: Work, group: Group) -> np.ndarray:
    """The rotation ``(F, m, 4)`` in the world that a solve takes off the last bone's matrix."""
    into = rotation_part(affine_inverse(work.objects[:, group.rig]))
    turn = rotation_part(work.pose[:, group.bones[:, -1]])
    return matrix_to_quaternion(np.swapaxes(into, -1, -2) @ turn)


def _reach(fk: Work, work: Work, group: Group) -> tuple[np.ndarray, np.ndarray]:
    """The points ``(F, m, 3)`` that limbs reach from, and how far they do ``(F, m)``."""
    settings, pick, handling = work.batch.settings, group.pick, group.example.handling
    root, outer = _limb_from(group, _world_joints(fk if handling == "MOVE_ROOT" else work, group))
    if handling == "STRETCH":
        _, outer = _limb_from(group, _world_joints(fk, group))
    reach = outer * (1.0 - settings["softness"][:, pick])
    if handling == "STRETCH":
        reach = outer * stretched_reach(settings["stretch_max"][:, pick], settings["softness"][:, pick])
    if handling == "MOVE_ROOT":
        # On the last part of its way the root eases out.
        reach = reach + (1.0 - EASE_OUT) * settings["move_max"][:, pick]
    return root, reach


def _limb_from(group: Group, joints: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The points ``(F, m, 3)`` that limbs with these joints go out from, and how long they are straight."""
    if group.example.solver == "THREE_BONE":
        return limb.reach_of(joints, group.example.limb_mode)
    return joints[:, :, 0], length(joints[:, :, 1:] - joints[:, :, :-1]).sum(axis=-1)
