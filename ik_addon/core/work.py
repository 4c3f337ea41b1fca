# SPDX-License-Identifier: GPL-3.0-or-later
"""The state of a solve: what was read, the pose as it stands, and what came out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from . import carried
from .batch import Batch
from .fk_steps import path_products, steps_of
from .skeleton import pose_from_basis
from .stage import Group, SpaceTable, Stage
from .transforms import affine_inverse, quaternion_to_matrix

IDENTITY = np.eye(4)


@dataclass(frozen=True)
class Solution:
    """What the chains did in F frames.

    Attributes:
        rotation: ``(F, k, 4)`` rotation channels of `Stage.posed` as unit quaternions.
        changed: ``(F, k)`` False where a bone keeps its FK channel.
        location, scale: ``(F, k, 3)`` these channels; `moved` and `scaled`, ``(F, k)``, are False
            where a bone keeps its own.
        residual: ``(F, chains)`` distance from tip to target in world space, metres.
        status: ``(F, chains)`` int8, values of `Status`.
        tip: ``(F, chains, 3)`` the tips in world space.
        work: the state that the solve ended in.
    """

    rotation: np.ndarray
    changed: np.ndarray
    location: np.ndarray
    moved: np.ndarray
    scale: np.ndarray
    scaled: np.ndarray
    residual: np.ndarray
    status: np.ndarray
    tip: np.ndarray
    work: Work

    @cached_property
    def pose(self) -> np.ndarray:
        """``(F, n, 4, 4)`` the solved pose; bones that no chain looks at keep what the batch has of them."""
        repose(self.work)
        return self.work.pose[:, :-1]


@dataclass
class Work:
    """The state of a solve: it starts as the FK pose and ends as the solved one.

    `pose` has one more bone than the stage, an identity: the parent of roots. `basis`
    holds the local matrices ``(F, k, 4, 4)`` of `Stage.posed`, `local` the same below the
    rest offset from the parent, for bones that inherit in full. `shift` holds how far chains have
    shifted bones of `posed`, in armature space, and `within` the distance to the target that the
    shift shall leave to each chain. `unposed` are the places in `posed` of bones that still stand in
    FK in `pose`, `basis` and `local`, since nothing looks at them.
    """

    stage: Stage
    batch: Batch
    pose: np.ndarray
    objects: np.ndarray
    inverse: np.ndarray
    basis: np.ndarray
    local: np.ndarray
    rotation: np.ndarray
    changed: np.ndarray
    location: np.ndarray
    moved: np.ndarray
    scale: np.ndarray
    scaled: np.ndarray
    scale_before: np.ndarray
    residual: np.ndarray
    status: np.ndarray
    tip: np.ndarray
    shift: dict[int, np.ndarray] = field(default_factory=dict)
    within: dict[int, np.ndarray] = field(default_factory=dict)
    unposed: list[np.ndarray] = field(default_factory=list)
    carry: np.ndarray | None = None
    bend_path: carried.BendPath | None = None
    goals: list[Goal] = field(default_factory=list)


@dataclass(frozen=True)
class Goal:
    """What the chains of a group were to reach, in armature space.

    Attributes:
        place: ``(F, m, 3)``; orientation: ``(F, m, 3, 3)`` or None; size: ``(F, m)`` lengths
            that a gap is compared with; status: ``(F, m)`` of the solver; weight: influence.
        gap: ``(F, m, 3)`` from the tip at full influence to the target, where chains shift bones;
            bound: ``(F, m)`` where a joint limit keeps it away.
        tip: ``(F, m, 3)`` in armature space, where the bones are left `Work.unposed`.
    """

    group: Group
    place: np.ndarray
    orientation: np.ndarray | None
    size: np.ndarray
    status: np.ndarray
    weight: np.ndarray
    gap: np.ndarray | None = None
    bound: np.ndarray | None = None
    tip: np.ndarray | None = None


def start(stage: Stage, batch: Batch) -> Work:
    """The FK pose of a batch, from which a solve starts."""
    frames, bones = batch.pose.shape[:2]
    chains = len(stage.chains)
    pose = np.empty((frames, bones + 1, 4, 4))
    pose[:, :bones] = batch.pose
    pose[:, bones] = IDENTITY
    steps = steps_of(stage, batch)
    work = Work(
        stage=stage,
        batch=batch,
        pose=pose,
        objects=batch.objects,
        inverse=affine_inverse(batch.objects[:, : stage.rig_count]),
        basis=steps.basis.copy(),
        local=steps.local.copy(),
        rotation=batch.rotation.copy(),
        changed=np.zeros(batch.rotation.shape[:2], bool),
        location=batch.location.copy() if stage.moves else batch.location,
        moved=np.zeros(batch.rotation.shape[:2], bool),
        scale=batch.scale.copy() if stage.stretches else batch.scale,
        scaled=np.zeros(batch.rotation.shape[:2], bool),
        scale_before=batch.scale,
        residual=np.zeros((frames, chains)),
        status=np.empty((frames, chains), np.int8),
        tip=np.zeros((frames, chains, 3)),
    )
    work.status[:] = stage.first_status
    if len(stage.carried):
        work.objects = batch.objects.copy()
        bone = stage.carriers[stage.carried]
        held = batch.objects[:, stage.rig_of_bone[bone]] @ batch.pose[:, bone]
        work.carry = affine_inverse(held) @ batch.objects[:, stage.carried]
    _pose_runs(work, steps.products)
    _place_objects(work)
    return work


def take_channels(work: Work, slots: np.ndarray, rotation: np.ndarray) -> None:
    """Local matrices of bones at `slots` in `Stage.posed` from rotation channels ``(F, ..., 4)``."""
    linear = quaternion_to_matrix(rotation) * work.scale[:, slots][..., None, :]
    work.basis[:, slots, :3, :3] = linear
    work.local[:, slots] = work.stage.offset[slots] @ work.basis[:, slots]


def repose(work: Work) -> None:
    """Forward kinematics of `posed` from the local matrices, then the objects they carry."""
    for slots in work.unposed:
        take_channels(work, slots, work.rotation[:, slots])
    work.unposed.clear()
    _pose_runs(work, path_products(work.stage, work.local))
    _place_objects(work)


def _pose_runs(work: Work, products: Sequence[np.ndarray | None]) -> None:
    """Pose all bones of `posed`; `products` are those of `path_products`."""
    stage = work.stage
    for run, product in zip(stage.runs, products, strict=True):
        above = work.pose[:, run.parents[:, 0]]
        if product is not None:
            work.pose[:, run.bones] = product if run.from_world else above[:, :, None] @ product
        else:
            bones = run.bones[:, 0]
            basis = work.basis[:, run.places[:, 0]]
            work.pose[:, bones] = pose_from_basis(stage.skeleton, bones, above, basis)


def _place_objects(work: Work) -> None:
    """The objects that bones carry."""
    stage = work.stage
    if work.carry is None:
        return
    for place, ob in enumerate(stage.carried):
        bone = stage.carriers[ob]
        work.objects[:, ob] = (
            work.objects[:, stage.rig_of_bone[bone]] @ work.pose[:, bone] @ work.carry[:, place]
        )
        if ob < stage.rig_count:
            work.inverse[:, ob] = affine_inverse(work.objects[:, ob])


def spaces_of(work: Work, table: SpaceTable, rigs: np.ndarray) -> np.ndarray:
    """The matrices ``(F, m, 4, 4)`` from each chain's space to its armature's space."""
    if len(table.world) == table.count:
        return work.inverse[:, rigs]
    if len(table.object) == table.count:
        return work.inverse[:, rigs] @ work.objects[:, table.object_index]
    out = np.empty((work.pose.shape[0], table.count, 4, 4))
    out[:, table.armature] = IDENTITY
    out[:, table.world] = work.inverse[:, rigs[table.world]]
    out[:, table.object] = work.inverse[:, rigs[table.object]] @ work.objects[:, table.object_index]
    out[:, table.near] = work.pose[:, table.near_bone]
    far = work.objects[:, table.far_rig] @ work.pose[:, table.far_bone]
    out[:, table.far] = work.inverse[:, rigs[table.far]] @ far
    return out


def joints_of(work: Work, group: Group) -> np.ndarray:
    """Positions ``(F, m, solved + 1, 3)`` of heads and tip, in armature space."""
    heads = work.pose[..., :3, 3][:, group.bones]
    if group.bones.shape[1] > group.solved:
        return heads
    return np.concatenate([heads, tails_of(work, group.bones[:, -1])[:, :, None]], axis=2)


def tails_of(work: Work, bones: np.ndarray) -> np.ndarray:
    """Tails ``(F, m, 3)`` of m bones, in armature space."""
    pose = work.pose[:, bones]
    return pose[..., :3, 3] + pose[..., :3, 1] * work.stage.skeleton.lengths[bones][:, None]
