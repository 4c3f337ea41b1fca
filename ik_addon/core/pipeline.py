# SPDX-License-Identifier: GPL-3.0-or-later
"""Solve the chains of a stage over a batch of frames, in dependency order.

The one road from a pose to a solved pose: live playback hands in one frame, a bake all
frames of its range. No frame knows of another.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from . import aim, ccd, fabrik, planar, two_bone
from .job import ChainJob, ChainResult, Status
from .reach import ease_target
from .skeleton import basis_from_pose, pose_from_basis
from .stage import AUTO, DIRECTION, Group, SpaceTable, Stage
from .transforms import (
    affine_inverse,
    axis_angle_to_matrix,
    compose,
    cross,
    length,
    matrix_to_quaternion,
    quaternion_to_matrix,
    rotation_part,
    slerp,
    transform_point,
    transform_vector,
)

# A gap below this fraction of a chain's length is on target: Blender stores poses as
# float32, which moves a tip by up to 2e-6 of the length.
ON_TARGET = 1e-6
# Posed lengths differ from what the solver was told by more than the rounding of float32 rest
# matrices only under sheared parents.
RIGID = 5e-7
SHEAR_PASSES = 8


@dataclass(frozen=True)
class Batch:
    """What was read from Blender for F frames.

    Attributes:
        pose: ``(F, n, 4, 4)`` evaluated pose matrices, each in its armature's space.
        objects: ``(F, objects, 4, 4)`` evaluated world matrices, the rigs first.
        location, scale: ``(F, k, 3)`` FK channels of the bones in `Stage.posed`.
        rotation: ``(F, k, 4)`` FK rotation channels of these bones as quaternions.
        settings: per chain, ``(F, chains, ...)``: influence (0 when muted),
            target_location, target_rotation, pole_location, pole_angle, bend_sign,
            offset_yaw, softness.
    """

    pose: np.ndarray
    objects: np.ndarray
    location: np.ndarray
    rotation: np.ndarray
    scale: np.ndarray
    settings: dict[str, np.ndarray]


@dataclass(frozen=True)
class Solution:
    """What the chains did in F frames.

    Attributes:
        rotation: ``(F, k, 4)`` rotation channels of `Stage.posed` as unit quaternions.
        changed: ``(F, k)`` False where a bone keeps its FK channel.
        residual: ``(F, chains)`` distance from tip to target in world space, metres.
        status: ``(F, chains)`` int8, values of `Status`.
        tip: ``(F, chains, 3)`` the tips in world space.
        pose: ``(F, n, 4, 4)`` the solved pose; bones that no chain looks at keep the
            evaluated one.
    """

    rotation: np.ndarray
    changed: np.ndarray
    residual: np.ndarray
    status: np.ndarray
    tip: np.ndarray
    pose: np.ndarray


@dataclass
class _Work:
    """The state of a solve: it starts as the FK pose and ends as the solved one."""

    stage: Stage
    batch: Batch
    pose: np.ndarray
    objects: np.ndarray
    inverse: np.ndarray
    basis: np.ndarray
    rotation: np.ndarray
    changed: np.ndarray
    carry: np.ndarray | None
    residual: np.ndarray
    status: np.ndarray
    tip: np.ndarray
    goals: list = field(default_factory=list)


def solve(stage: Stage, batch: Batch) -> Solution:
    """Solve all chains of the stage in each frame of the batch."""
    work = _start(stage, batch)
    for number, groups in enumerate(stage.groups):
        if number:
            _repose(work)
        for group in groups:
            _solve_group(work, group)
    if len(stage.groups) > 1 or work.carry is not None:
        _repose(work)
    _measure(work)
    return Solution(work.rotation, work.changed, work.residual, work.status, work.tip, work.pose)


def _start(stage: Stage, batch: Batch) -> _Work:
    frames, chains = batch.pose.shape[0], len(stage.chains)
    broken = [bool(chain.broken) for chain in stage.chains]
    work = _Work(
        stage=stage,
        batch=batch,
        pose=batch.pose.copy(),
        objects=batch.objects.copy(),
        inverse=affine_inverse(batch.objects[:, : int(stage.rig_of_bone.max(initial=-1)) + 1]),
        basis=_fk_basis(stage, batch),
        rotation=batch.rotation.copy(),
        changed=np.zeros(batch.rotation.shape[:2], bool),
        carry=None,
        residual=np.zeros((frames, chains)),
        status=np.broadcast_to(np.where(broken, Status.BROKEN, Status.OK), (frames, chains)).astype(np.int8),
        tip=np.zeros((frames, chains, 3)),
    )
    if len(stage.carried):
        bones = stage.carriers[stage.carried]
        held = batch.objects[:, stage.rig_of_bone[bones]] @ batch.pose[:, bones]
        work.carry = affine_inverse(held) @ batch.objects[:, stage.carried]
    _repose(work)
    return work


def _fk_basis(stage: Stage, batch: Batch) -> np.ndarray:
    """Local matrices ``(F, k, 4, 4)``: of turned bones from their FK channels, of the bones
    that only follow from their evaluated pose, so that their constraints are in it."""
    basis = compose(batch.location, quaternion_to_matrix(batch.rotation), batch.scale)
    follow = np.flatnonzero(~stage.turned)
    if len(follow):
        bones = stage.posed[follow]
        parent_pose = batch.pose[:, stage.skeleton.parents[bones]]
        basis[:, follow] = basis_from_pose(stage.skeleton, bones, parent_pose, batch.pose[:, bones])
    return basis


def _repose(work: _Work) -> None:
    """Forward kinematics of `posed` from the local matrices, then the objects they carry."""
    stage, skeleton = work.stage, work.stage.skeleton
    for places in stage.levels:
        bones = stage.posed[places]
        parent_pose = work.pose[:, skeleton.parents[bones]]
        work.pose[:, bones] = pose_from_basis(skeleton, bones, parent_pose, work.basis[:, places])
    if work.carry is None:
        return
    for place, ob in enumerate(stage.carried):
        bone = stage.carriers[ob]
        work.objects[:, ob] = (
            work.objects[:, stage.rig_of_bone[bone]] @ work.pose[:, bone] @ work.carry[:, place]
        )
        if ob < work.inverse.shape[1]:
            work.inverse[:, ob] = affine_inverse(work.objects[:, ob])


def _spaces(work: _Work, table: SpaceTable, rigs: np.ndarray) -> np.ndarray:
    """The matrices ``(F, m, 4, 4)`` from each chain's space to its armature's space."""
    if len(table.world) == table.count:
        return work.inverse[:, rigs]
    out = np.empty((work.pose.shape[0], table.count, 4, 4))
    out[:, table.armature] = np.eye(4)
    if len(table.world):
        out[:, table.world] = work.inverse[:, rigs[table.world]]
    if len(table.object):
        out[:, table.object] = work.inverse[:, rigs[table.object]] @ work.objects[:, table.object_index]
    if len(table.near):
        out[:, table.near] = work.pose[:, table.near_bone]
    if len(table.far):
        world = work.objects[:, table.far_rig] @ work.pose[:, table.far_bone]
        out[:, table.far] = work.inverse[:, rigs[table.far]] @ world
    return out


def _solve_group(work: _Work, group: Group) -> None:
    settings = {name: values[:, group.chains] for name, values in work.batch.settings.items()}
    spaces = _spaces(work, group.target, group.rig)
    target = transform_point(spaces, settings["target_location"])
    weight = settings["influence"]
    example = group.example
    orientation = None
    if example.use_rotation or (example.solver == "AIM" and example.aim_mode == "MATCH_ROTATION"):
        orientation = rotation_part(spaces) @ quaternion_to_matrix(settings["target_rotation"])
    if example.solver == "AIM":
        status = _aim(work, group, settings, target, orientation)
    else:
        status = _reach(work, group, settings, target, orientation)
    work.goals.append((group, target, orientation, status, weight))


def _joints(work: _Work, group: Group) -> np.ndarray:
    """Positions ``(F, m, solved + 1, 3)`` of heads and tip, in armature space."""
    bones = group.bones
    heads = work.pose[..., :3, 3][:, bones]
    if bones.shape[1] > group.solved:
        return heads
    last = bones[:, -1]
    stretch = work.stage.skeleton.lengths[last][:, None]
    tail = heads[:, :, -1] + work.pose[..., :3, 1][:, last] * stretch
    return np.concatenate([heads, tail[:, :, None]], axis=2)


def _pole(work: _Work, group: Group, settings: dict, root: np.ndarray) -> dict:
    """The pole fields of a job: a vector from the root, in armature space."""
    if not group.has_pole:
        return {}
    spaces = _spaces(work, group.pole, group.rig)
    location = settings["pole_location"]
    is_direction = (group.pole_mode == DIRECTION)[:, None]
    vector = np.where(
        is_direction, transform_vector(spaces, location), transform_point(spaces, location) - root
    )
    mask = (group.pole_mode != AUTO) & (length(vector) > 0.0)
    return {"pole": vector, "pole_mask": mask}


def _reach(
    work: _Work, group: Group, settings: dict, target: np.ndarray, orientation: np.ndarray | None
) -> np.ndarray:
    """Bring the tips to their targets; returns the solver's status ``(F, m)``."""
    weight = settings["influence"]
    joints = _joints(work, group)
    total = length(joints[:, :, 1:] - joints[:, :, :-1]).sum(axis=-1)
    eased = target
    if np.any(settings["softness"] > 0.0):
        eased = ease_target(joints[:, :, 0], target, total, settings["softness"])
    pole = _pole(work, group, settings, joints[:, :, 0])
    status = None
    for _ in range(SHEAR_PASSES):
        hinge = transform_vector(work.pose[:, group.bones[:, 0]], group.hinge)
        if group.solved == 2:
            hinge = two_bone.bend_normal(joints, hinge)
        job = ChainJob(joints, eased, hinge, pole_angle=settings["pole_angle"], **pole)
        result = _position_solver(group, job, settings)
        status = result.status if status is None else status
        solved = _turn(work, group, result.rotations, orientation)
        joints = _joints(work, group)
        missed = length(joints[:, :, -1] - result.joints[:, :, -1])
        if not np.any(missed > RIGID * total):
            break
    _blend(work, group, solved, weight)
    status = status.copy()
    # The tip stops short because softness says so, not because a solver failed.
    status[(status == Status.OK) & (length(target - eased) > ON_TARGET * total)] = Status.TARGET_FAR
    return status


def _position_solver(group: Group, job: ChainJob, settings: dict) -> ChainResult:
    chain = group.example
    if chain.solver == "TWO_BONE" and chain.planar_axis >= 0:
        return planar.solve_valid(job, chain.planar_axis, settings["bend_sign"])
    if chain.solver == "TWO_BONE":
        return two_bone.solve_valid(job)
    solver = fabrik if chain.solver == "FABRIK" else ccd
    return solver.solve_valid(job, chain.iterations, chain.tolerance)


def _aim(
    work: _Work, group: Group, settings: dict, target: np.ndarray, orientation: np.ndarray | None
) -> np.ndarray:
    bone = group.bones[:, 0]
    now = rotation_part(work.pose[:, bone])
    chain = group.example
    if orientation is not None:
        wanted = aim.match_rotation(orientation, settings["offset_yaw"])
        status = np.zeros(wanted.shape[:2], np.int8)
    else:
        head = work.pose[..., :3, 3][:, bone]
        pole = _pole(work, group, settings, head)
        result = aim.look_at(now, head, target, chain.aim_axis, chain.up_axis, **pole)
        wanted, status = result.rotation, result.status
    turn = wanted @ np.swapaxes(now, -1, -2)
    solved = _turn(work, group, turn[:, :, None], None)
    _blend(work, group, solved, settings["influence"])
    return status


def _turn(
    work: _Work, group: Group, rotations: np.ndarray, orientation: np.ndarray | None
) -> np.ndarray:
    """Turn the bones of a group from where they are and pose them, root to tip.

    Args:
        rotations: ``(F, m, solved, 3, 3)`` turns in armature space.
        orientation: ``(F, m, 3, 3)`` of the end bone in armature space, or None.

    Returns:
        ``(F, m, b, 4)`` the new rotation channels as quaternions.
    """
    skeleton, batch = work.stage.skeleton, work.batch
    count = group.bones.shape[1]
    out = np.empty((*work.pose.shape[:1], *group.bones.shape, 4))
    for column in range(count):
        bones, slots = group.bones[:, column], group.slots[:, column]
        parent_pose = work.pose[:, group.parents[:, column]]
        if column < group.solved:
            wanted = work.pose[:, bones]
            wanted[..., :3, :3] = rotations[:, :, column] @ wanted[..., :3, :3]
        elif orientation is not None:
            wanted = compose(np.zeros(3), orientation)
        else:
            out[:, :, column] = work.rotation[:, slots]
            work.pose[:, bones] = pose_from_basis(skeleton, bones, parent_pose, work.basis[:, slots])
            continue
        scale = batch.scale[:, slots]
        local = basis_from_pose(skeleton, bones, parent_pose, wanted)[..., :3, :3]
        turn = rotation_part(local / np.where(scale == 0.0, 1.0, scale)[..., None, :])
        out[:, :, column] = matrix_to_quaternion(turn)
        basis = compose(batch.location[:, slots], turn, scale)
        work.pose[:, bones] = pose_from_basis(skeleton, bones, parent_pose, basis)
        work.basis[:, slots] = basis
    return out


def _blend(work: _Work, group: Group, solved: np.ndarray, weight: np.ndarray) -> None:
    """Store the solved channels, blended from the channels before by the influence.

    Rotations are blended the shorter way; where the influence is 0 the channels stay as
    they were to the bit.
    """
    columns = group.bones.shape[1] if group.example.use_rotation else group.solved
    slots = group.slots[:, :columns]
    before = work.rotation[:, slots]
    after = solved[:, :, :columns]
    part = weight < 1.0
    if np.any(part):
        blended = slerp(before, after, weight[..., None])
        after = np.where(part[..., None, None], blended, after)
        after = np.where((weight == 0.0)[..., None, None], before, after)
    work.rotation[:, slots] = after
    work.changed[:, slots] |= (weight > 0.0)[..., None]
    if np.any(part):
        turned = quaternion_to_matrix(after)
        work.basis[:, slots] = compose(work.batch.location[:, slots], turned, work.batch.scale[:, slots])
        _repose_group(work, group)


def _repose_group(work: _Work, group: Group) -> None:
    for column in range(group.bones.shape[1]):
        bones, slots = group.bones[:, column], group.slots[:, column]
        parent_pose = work.pose[:, group.parents[:, column]]
        work.pose[:, bones] = pose_from_basis(work.stage.skeleton, bones, parent_pose, work.basis[:, slots])


def _measure(work: _Work) -> None:
    """Residual and status from the final pose, in metres in world space."""
    for group, target, orientation, status, weight in work.goals:
        world = work.objects[:, group.rig]
        if group.example.solver == "AIM":
            tip, goal, size = _aim_gap(work, group, target, orientation)
        else:
            joints = _joints(work, group)
            tip, goal = joints[:, :, -1], target
            size = length(joints[:, :, 1:] - joints[:, :, :-1]).sum(axis=-1)
        gap = length(tip - goal)
        held = (gap > ON_TARGET * size) & (weight < 1.0)
        blended = held & ((status == Status.OK) | (status == Status.POLE_ALIGNED) | (weight == 0.0))
        other = (gap > 2.0 * ON_TARGET * size) & (status == Status.OK) & ~blended
        status = np.where(blended, Status.INFLUENCE, np.where(other, Status.NOT_CONVERGED, status))
        status = np.where((gap <= ON_TARGET * size) & (status != Status.POLE_ALIGNED), Status.OK, status)
        work.status[:, group.chains] = status
        work.residual[:, group.chains] = length(transform_vector(world, tip - goal))
        work.tip[:, group.chains] = transform_point(world, tip)


def _aim_gap(
    work: _Work, group: Group, target: np.ndarray, orientation: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where an aimed bone points, where it should, and a length to compare their distance with.

    Looking at a target, the tip is the point of the aim ray that is nearest to it;
    matching a rotation, the tail.
    """
    bone = group.bones[:, 0]
    head = work.pose[..., :3, 3][:, bone]
    if orientation is None:
        ray = transform_vector(rotation_part(work.pose[:, bone]), aim.axis_vector(group.example.aim_axis))
        along = np.maximum(np.einsum("...i,...i->...", target - head, ray), 0.0)
        return head + along[..., None] * ray, target, length(target - head)
    size = np.broadcast_to(work.stage.skeleton.lengths[bone], head.shape[:2])
    yaw = work.batch.settings["offset_yaw"][:, group.chains]
    wanted = aim.match_rotation(orientation, yaw)
    now = rotation_part(work.pose[:, bone])
    # The angle that is left, as the way of the bone's tail: all three axes count.
    left = matrix_to_quaternion(wanted @ np.swapaxes(now, -1, -2))
    angle = 2.0 * np.arctan2(length(left[..., 1:]), left[..., 0])
    tail = head + now[..., :, 1] * size[..., None]
    offset = np.zeros_like(tail)
    offset[..., 0] = angle * size
    return tail, tail + offset, size
