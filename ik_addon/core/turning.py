# SPDX-License-Identifier: GPL-3.0-or-later
"""Turn the bones of chains: from turns in armature space to rotation channels, and the pose."""

from __future__ import annotations

import numpy as np

from .limited import JointChain, solve_limited
from .limits import Box
from .skeleton import basis_from_pose, pose_from_basis
from .stage import Group
from .transforms import (
    NO_TURN,
    TINY,
    chain_products,
    compose,
    length,
    linear_inverse,
    matrix_to_quaternion,
    quaternion_conjugate,
    quaternion_multiply,
    quaternion_to_matrix,
    rotation_part,
    slerp,
    transform_vector,
)
from .work import IDENTITY, Work, joints_of, take_channels

# Posed lengths differ from what the solver was told by more than the rounding of float32 rest
# matrices only under sheared parents, and where rest matrices are not quite orthogonal.
RIGID = 5e-7
# Then a pose within limits is solved for again from where it came out, at most so often.
PASSES = 8


def turn_bones(
    work: Work, group: Group, turns: np.ndarray, now: np.ndarray, orientation: np.ndarray | None
) -> np.ndarray:
    """Turn the bones of a group from where they are, and pose them.

    Args:
        turns: ``(F, m, solved, 4)`` in armature space, as unit quaternions.
        now: ``(F, m, b, 4)`` the rotation channels that the bones are posed with.
        orientation: ``(F, m, 3, 3)`` of the end bone in armature space, or None.

    Returns:
        ``(F, m, b, 4)`` the new rotation channels as quaternions; without an orientation
        the end bone has no column.
    """
    if not is_rigid(work, group):
        return _turn_any(work, group, turns, orientation)
    out = turned_channels(work, group, turns, now, orientation)
    set_channels(work, group, out)
    return out


def is_rigid(work: Work, group: Group) -> bool:
    """No scale in the chains and above them but uniform ones, and no reflection."""
    scale = work.scale[:, group.slots]
    if not group.plain or (scale != scale[..., :1]).any() or (scale <= 0.0).any():
        return False
    if group.from_world:
        return True
    above = work.pose[:, group.parents[:, 0]]
    return bool(_is_uniform(above).all() and (np.linalg.det(above[..., :3, :3]) > 0.0).all())


def _is_uniform(m: np.ndarray) -> np.ndarray:
    """``(...)`` True for matrices ``(..., 4, 4)`` that keep angles."""
    linear = m[..., :3, :3]
    gram = np.swapaxes(linear, -1, -2) @ linear
    uniform = gram[..., 0, 0, None, None]
    return np.all(np.abs(gram - uniform * IDENTITY[:3, :3]) <= RIGID * uniform, axis=(-1, -2))


def turned_channels(
    work: Work, group: Group, turns: np.ndarray, now: np.ndarray, orientation: np.ndarray | None
) -> np.ndarray:
    """What `turn_bones` returns for rigid chains. No bone is posed.

    With G a bone's rotation in armature space, Q its channel, R its turn and V its parent's, the new
    channel is ``Q G^-1 V^-1 R G``: the turn against the parent, seen from the bone, comes on top.
    """
    linear = work.pose[..., :3, :3][:, group.bones[:, : now.shape[2]]]
    if orientation is not None:
        end = matrix_to_quaternion(orientation @ np.swapaxes(rotation_part(linear[:, :, -1]), -1, -2))
        turns = np.concatenate([turns, end[:, :, None]], axis=2)
    step = turns.copy()
    step[:, :, 1:] = quaternion_multiply(quaternion_conjugate(turns[:, :, :-1]), turns[:, :, 1:])
    seen = np.einsum("...ji,...j->...i", linear, step[..., 1:])
    # A uniform scale is not to count.
    step[..., 1:] = seen / np.maximum(length(linear[..., 1]), TINY)[..., None]
    out = quaternion_multiply(now, step)
    return out / length(out)[..., None]


def _turn_any(work: Work, group: Group, turns: np.ndarray, orientation: np.ndarray | None) -> np.ndarray:
    """`turn_bones` for every way in which bones inherit, and under scale and shear: root to tip."""
    skeleton = work.stage.skeleton
    wanted = quaternion_to_matrix(turns) @ work.pose[:, group.bones[:, : group.solved], :3, :3]
    if orientation is not None:
        wanted = np.concatenate([wanted, orientation[:, :, None]], axis=2)
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
    take_channels(work, group.slots[:, : rotation.shape[2]], rotation)
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
    """Bring the scale channels of a group's chains to ratios ``(F, m)`` of what they were before the
    wave, in FK or as chains below have left them, and pose them."""
    growth = group.growth
    assert growth is not None, "the group does not stretch"
    slots = growth.slots
    factor = ratio[:, growth.rows, None] ** growth.powers
    work.scale[:, slots] = work.scale_before[:, slots] * factor
    work.scaled[:, slots] = (work.scale[:, slots] != work.batch.scale[:, slots]).any(axis=-1)
    take_channels(work, slots, work.rotation[:, slots])
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
    inner = box.bones(slice(columns))
    fk = work.rotation[:, group.slots[:, :columns]]
    wanted = solved[:, :, :columns]
    left = inner.exceeded(wanted)
    solved = solved.copy()
    for _ in range(PASSES):
        chain, goal = _as_posed(work, group, wanted, target)
        result = solve_limited(chain, goal, wanted, inner, fk, has_pole, left)
        solved[:, :, :columns] = wanted = result.rotation
        set_channels(work, group, solved)
        joints = joints_of(work, group)
        missed = length(joints[:, :, -1] - target) > RIGID * _chain_length(joints)
        left &= missed & (result.residual <= RIGID * length(chain.step).sum(axis=-1))
        if not left.any():
            break
    if orientation is not None:
        # The end bone keeps the target's rotation as far as its own limits let it.
        still = np.broadcast_to(NO_TURN, result.rotation.shape)
        end = turn_bones(work, group, still, solved, orientation)[:, :, columns:]
        solved[:, :, columns:] = box.bones(slice(columns, None)).clamp(end)
        set_channels(work, group, solved)
    return solved, result.bound & exceeded


def _as_posed(
    work: Work, group: Group, rotation: np.ndarray, target: np.ndarray
) -> tuple[JointChain, np.ndarray]:
    """The chains of a group as they are posed, and their targets, both from the roots.

    Args:
        rotation: ``(F, m, n, 4)`` their channels; target: ``(F, m, 3)`` in armature space.
    """
    linear = work.pose[:, group.bones[:, : rotation.shape[2]]][..., :3, :3]
    joints = joints_of(work, group)
    step, goal = joints[:, :, 1:] - joints[:, :, :-1], target - joints[:, :, 0]
    back = _without_shear(work, group)
    if back is not None:
        linear = back[:, :, None] @ linear
        step, goal = transform_vector(back[:, :, None], step), transform_vector(back, goal)
    pose = rotation_part(linear)
    upright = np.broadcast_to(np.eye(3), pose[:, :, :1].shape)
    before = np.concatenate([upright, pose[:, :, :-1]], axis=2)
    chain = JointChain(
        base=upright[:, :, 0],
        root=np.zeros(goal.shape),
        rest=np.swapaxes(before, -1, -2) @ pose @ np.swapaxes(quaternion_to_matrix(rotation), -1, -2),
        step=transform_vector(np.swapaxes(pose, -1, -2), step),
    )
    return chain, goal


def _without_shear(work: Work, group: Group) -> np.ndarray | None:
    """Linear maps ``(F, m, 3, 3)`` from armature space to where chains keep their lengths in every pose.

    Under a parent that is scaled unevenly that is the parent's own space; None: armature space for all.
    """
    if not group.plain:
        return None
    above = work.pose[:, group.parents[:, 0]]
    sheared = ~_is_uniform(above)
    if not sheared.any():
        return None
    back = linear_inverse(above[..., :3, :3])
    usable = sheared & back.any(axis=(-1, -2))
    return np.where(usable[..., None, None], back, np.eye(3))


def _chain_length(joints: np.ndarray) -> np.ndarray:
    return length(joints[:, :, 1:] - joints[:, :, :-1]).sum(axis=-1)
