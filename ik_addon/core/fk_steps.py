# SPDX-License-Identifier: GPL-3.0-or-later
"""The matrices of bones in their parents, from their FK channels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .batch import Batch
from .skeleton import basis_from_pose
from .stage import Stage
from .transforms import affine_inverse, chain_products, compose, quaternion_to_matrix


@dataclass(frozen=True)
class Steps:
    """The bones of `Stage.posed` in FK, from the channels alone.

    Attributes:
        channels: what they were computed from, to the bit.
        basis, local: as in `work.Work`.
        products: of each run, see `path_products`.
    """

    channels: bytes
    basis: np.ndarray
    local: np.ndarray
    products: tuple[np.ndarray | None, ...]


def steps_of(stage: Stage, batch: Batch) -> Steps:
    """The steps of a batch.

    Limbs that a chain poses mostly have no keys of their own: for one frame, the steps of the frame
    before are taken again while the channels are the same.
    """
    if len(batch.pose) > 1 or len(stage.constrained):
        return _computed(stage, batch, b"")
    channels = batch.location.tobytes() + batch.rotation.tobytes() + batch.scale.tobytes()
    last: Steps | None = stage.last_steps.get("steps")
    if last is None or last.channels != channels:
        last = stage.last_steps["steps"] = _computed(stage, batch, channels)
    return last


def path_products(stage: Stage, local: np.ndarray) -> tuple[np.ndarray | None, ...]:
    """For each of the stage's runs, ``(F, m, n, 4, 4)`` of the bones of a plain one in the frames of the
    paths' parents; None of the others, which inherit in parts."""
    return tuple(chain_products(local[:, run.places]) if run.plain else None for run in stage.runs)


def _computed(stage: Stage, batch: Batch, channels: bytes) -> Steps:
    basis = _fk_basis(stage, batch)
    local = _below_parents(stage, batch, basis)
    return Steps(channels, basis, local, path_products(stage, local))


def _fk_basis(stage: Stage, batch: Batch) -> np.ndarray:
    """Local matrices ``(F, k, 4, 4)`` from the FK channels; of followers that constraints pose
    from their evaluated pose, but for the heads that are tips."""
    basis = compose(batch.location, quaternion_to_matrix(batch.rotation), batch.scale)
    if stage.has_connected:
        basis[..., :3, 3] *= stage.moves_by_location
    follow = stage.constrained
    if len(follow):
        bones = stage.posed[follow]
        parent_pose = _parent_poses(stage, batch, bones)
        heads = basis[:, stage.tips, :3, 3]
        basis[:, follow] = basis_from_pose(stage.skeleton, bones, parent_pose, batch.pose[:, bones])
        basis[:, stage.tips, :3, 3] = heads
    return basis


def _parent_poses(stage: Stage, batch: Batch, bones: np.ndarray) -> np.ndarray:
    return batch.pose[:, stage.skeleton.parents[bones]]


def _below_parents(stage: Stage, batch: Batch, basis: np.ndarray) -> np.ndarray:
    """Matrices ``(F, k, 4, 4)`` of `posed` in their parents' pose, where they inherit in full.

    Followers that constraints pose keep the place that they were evaluated at, which may be
    away from a connected parent's tail.
    """
    local = stage.offset @ basis
    follow = stage.constrained
    if len(follow):
        bones = stage.posed[follow]
        heads = local[:, stage.tips, :3, 3]
        local[:, follow] = affine_inverse(_parent_poses(stage, batch, bones)) @ batch.pose[:, bones]
        local[:, stage.tips, :3, 3] = heads
    return local
