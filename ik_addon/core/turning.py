# SPDX-License-Identifier: GPL-3.0-or-later
"""Turn the bones of chains: from turns in armature space to rotation channels, and the pose."""

from __future__ import annotations

import numpy as np

from .limited import JointChain, solve_limited
from .limits import Box
from .skeleton import basis_from_pose, pose_from_basis
from .stage import Group
from .transforms import (
    TINY,
    chain_products,
    compose,
    linear_inverse,
    matrix_to_quaternion,
    quaternion_to_matrix,
    rotation_part,
    slerp,
    transform_vector,
)
from .work import IDENTITY, Work, joints_of

# Posed lengths differ from what the solver was told by more than the rounding of float32 rest
# matrices only under sheared parents.
RIGID = 5e-7


def turn_bones(work: Work, group: Group, rotations: np.ndarray, orientation: np.ndarray | None) -> np.ndarray:
    """Turn the bones of a group from where they are, and pose them.

    Args:
        rotations: ``(F, m, solved, 3, 3)`` turns in armature space.
        orientation: ``(F, m, 3, 3)`` of the end bone in armature space, or None.

    Returns:
        ``(F, m, b, 4)`` the new rotation channels as quaternions; without an orientation
        the end bone has no column.
    """
    pose = work.pose[:, group.bones][..., :3, :3]
    wanted = rotations @ pose[:, :, : group.solved]
    if orientation is not None:
        wanted = np.concatenate([wanted, orientation[:, :, None]], axis=2)
    if group.plain and _is_rigid(work, group):
        return _turn_rigid(work, group, wanted)
    return _turn_any(work, group, wanted)


def _is_rigid(work: Work, group: Group) -> bool:
    """No scale in the chains and above them but uniform ones."""
    scale = work.scale[:, group.slots]
    if (scale != scale[..., :1]).any() or (scale == 0.0).any():
        return False
    above = work.pose[:, group.parents[:, 0]][..., :3, :3]
    gram = np.swapaxes(above, -1, -2) @ above
    uniform = gram[..., 0, 0, None, None]
    return bool((np.abs(gram - uniform * IDENTITY[:3, :3]) <= RIGID * uniform).all())


def _turn_rigid(work: Work, group: Group, wanted: np.ndarray) -> np.ndarray:
    """`turn` for bones without scale: all at once, since each wanted parent is known.

    A uniform scale above the chain drops out when the quaternions are normalised.
    """
    columns = wanted.shape[2]
    above = work.pose[:, group.parents[:, 0]][:, :, None, :3, :3]
    parents = np.concatenate([above, wanted[:, :, : columns - 1]], axis=2)
    frames = parents @ work.stage.rest_turn[group.slots[:, :columns]]
    # Not the transpose: Blender's rest matrices are orthogonal to 1e-5 only.
    turn = linear_inverse(frames) @ wanted
    scale = np.sqrt(np.einsum("...i,...i->...", turn[..., 1], turn[..., 1]))
    out = matrix_to_quaternion(turn / np.maximum(scale, TINY)[..., None, None])
    set_channels(work, group, out)
    return out


def _turn_any(work: Work, group: Group, wanted: np.ndarray) -> np.ndarray:
    """`turn` for every way in which bones inherit, and under scale and shear: root to tip."""
    skeleton = work.stage.skeleton
    out = np.empty((*wanted.shape[:3], 4))
    for column in range(wanted.shape[2]):
        bones, slots = group.bones[:, column], group.slots[:, column]
        parent_pose = work.pose[:, group.parents[:, column]]
        scale = work.scale[:, slots]
        pose = compose(work.location[:, slots], wanted[:, :, column])
        local = basis_from_pose(skeleton, bones, parent_pose, pose)[..., :3, :3]
        turn = rotation_part(local / np.where(scale == 0.0, 1.0, scale)[..., None, :])
        out[:, :, column] = matrix_to_quaternion(turn)
        basis = work.basis[:, slots]
        basis[..., :3, :3] = turn * scale[..., None, :]
        work.pose[:, bones] = pose_from_basis(skeleton, bones, parent_pose, basis)
    set_channels(work, group, out)
    return out


def set_channels(work: Work, group: Group, rotation: np.ndarray) -> None:
    """Local matrices of turned bones from new rotation channels ``(F, m, b, 4)``, and the pose."""
    slots = group.slots[:, : rotation.shape[2]]
    linear = quaternion_to_matrix(rotation) * work.scale[:, slots][..., None, :]
    work.basis[:, slots, :3, :3] = linear
    work.local[:, slots] = work.stage.offset[slots] @ work.basis[:, slots]
    if group.plain:
        above = work.pose[:, group.parents[:, 0], None]
        work.pose[:, group.bones] = above @ chain_products(work.local[:, group.slots])
        return
    for column in range(group.bones.shape[1]):
        bones, parents = group.bones[:, column], group.parents[:, column]
        parent_pose = work.pose[:, parents]
        basis = work.basis[:, group.slots[:, column]]
        work.pose[:, bones] = pose_from_basis(work.stage.skeleton, bones, parent_pose, basis)


def grow(work: Work, group: Group, ratio: np.ndarray) -> None:
    """Bring the scale channels of a group's chains to ratios ``(F, m)`` of FK, and pose them."""
    growth = group.growth
    assert growth is not None, "the group does not stretch"
    slots = growth.slots
    factor = ratio[:, growth.rows, None] ** growth.powers
    work.scale[:, slots] = work.batch.scale[:, slots] * factor
    work.scaled[:, slots] = True
    linear = quaternion_to_matrix(work.rotation[:, slots]) * work.scale[:, slots][..., None, :]
    work.basis[:, slots, :3, :3] = linear
    work.local[:, slots] = work.stage.offset[slots] @ work.basis[:, slots]
    set_channels(work, group, work.rotation[:, group.written])


def blend(
    work: Work, group: Group, solved: np.ndarray, weight: np.ndarray, ratio: np.ndarray | None = None
) -> None:
    """Store the solved channels, blended from the channels before by the influence.

    Rotations are blended the shorter way, a growth `ratio` ``(F, m)`` linearly; where the influence
    is 0 the channels stay as they were to the bit.
    """
    if ratio is not None and ((weight < 1.0) & (ratio > 1.0)).any():
        grow(work, group, 1.0 + weight * (ratio - 1.0))
    slots = group.slots[:, : solved.shape[2]]
    if (weight < 1.0).any():
        before = work.rotation[:, slots]
        blended = slerp(before, solved, weight[..., None])
        solved = np.where((weight == 0.0)[..., None, None], before, blended)
        set_channels(work, group, solved)
    work.rotation[:, slots] = solved
    work.changed[:, slots] |= (weight > 0.0)[..., None]


def within_limits(
    work: Work,
    group: Group,
    box: Box,
    solved: np.ndarray,
    target: np.ndarray,
    orientation: np.ndarray | None,
    has_pole: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """The solved channels ``(F, m, b, 4)`` brought inside the joint limits, and the pose.

    Returns:
        the channels, and ``(F, m)`` where a limit keeps the tip away.
    """
    columns = group.solved
    exceeded = box.exceeded(solved)
    if not exceeded.any():
        return solved, exceeded
    wanted = solved[:, :, :columns]
    pose = rotation_part(work.pose[:, group.bones[:, :columns]])
    joints = joints_of(work, group)
    before = np.concatenate([np.broadcast_to(np.eye(3), pose[:, :, :1].shape), pose[:, :, :-1]], axis=2)
    back = np.swapaxes(pose, -1, -2)
    chain = JointChain(
        base=np.broadcast_to(np.eye(3), pose[:, :, 0].shape),
        root=joints[:, :, 0],
        rest=np.swapaxes(before, -1, -2) @ pose @ np.swapaxes(quaternion_to_matrix(wanted), -1, -2),
        step=transform_vector(back, joints[:, :, 1:] - joints[:, :, :-1]),
    )
    inner = box.bones(slice(columns))
    fk = work.rotation[:, group.slots[:, :columns]]
    result = solve_limited(chain, target, wanted, inner, fk, has_pole, inner.exceeded(wanted))
    solved = solved.copy()
    solved[:, :, :columns] = result.rotation
    set_channels(work, group, solved)
    if orientation is not None:
        # The end bone keeps the target's rotation as far as its own limits let it.
        still = np.broadcast_to(np.eye(3), (*result.rotation.shape[:-1], 3, 3))
        end = turn_bones(work, group, still, orientation)[:, :, columns:]
        solved[:, :, columns:] = box.bones(slice(columns, None)).clamp(end)
        set_channels(work, group, solved)
    return solved, result.bound & exceeded
