# SPDX-License-Identifier: GPL-3.0-or-later
"""Solve the chains of a stage over a batch of frames, in dependency order.

The one road from a pose to a solved pose: live playback hands in one frame, a bake all
frames of its range. No frame knows of another, unless a bake asks for carried bend sides.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from . import aim, carried, ccd, fabrik, limb, planar, two_bone
from .job import ChainJob, ChainResult, Status
from .limited import JointChain, solve_limited
from .limits import Box
from .reach import ease_target
from .skeleton import basis_from_pose, pose_from_basis
from .spine import lean_target
from .stage import AUTO, DIRECTION, POINT, Group, SpaceTable, Stage
from .transforms import (
    TINY,
    affine_inverse,
    compose,
    cross,
    dot,
    length,
    matrix_to_quaternion,
    quaternion_to_axis_angle,
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

IDENTITY = np.eye(4)


@dataclass(frozen=True)
class Batch:
    """What was read from Blender for F frames.

    Attributes:
        pose: ``(F, n, 4, 4)`` evaluated pose matrices, each in its armature's space.
        objects: ``(F, objects, 4, 4)`` evaluated world matrices, the rigs first.
        location, scale: ``(F, k, 3)`` FK channels of the bones in `Stage.posed`.
        rotation: ``(F, k, 4)`` FK rotation channels of these bones as quaternions; those of
            bones that no chain turns are their evaluated ones.
        settings: per chain, ``(F, chains, ...)``: influence (0 when muted),
            target_location, target_rotation, pole_location, pole_angle, bend_sign,
            offset_yaw, softness, share, share_max, lean, aim_offset, aim_limit, aim_damping.
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
    """The state of a solve: it starts as the FK pose and ends as the solved one.

    `pose` has one more bone than the stage, an identity: the parent of roots. `basis`
    holds the local matrices ``(F, k, 4, 4)`` of `Stage.posed`, `local` the same below the
    rest offset from the parent, for bones that inherit in full.
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
    residual: np.ndarray
    status: np.ndarray
    tip: np.ndarray
    carry: np.ndarray | None = None
    bend_path: carried.BendPath | None = None
    goals: list[_Goal] = field(default_factory=list)


@dataclass(frozen=True)
class _Goal:
    """What the chains of a group were to reach, in armature space.

    Attributes:
        place: ``(F, m, 3)``; orientation: ``(F, m, 3, 3)`` or None; size: ``(F, m)`` lengths
            that a gap is compared with; status: ``(F, m)`` of the solver; weight: influence.
    """

    group: Group
    place: np.ndarray
    orientation: np.ndarray | None
    size: np.ndarray
    status: np.ndarray
    weight: np.ndarray


def solve(stage: Stage, batch: Batch, bend_path: carried.BendPath | None = None) -> Solution:
    """Solve all chains of the stage in each frame of the batch.

    Args:
        bend_path: of these frames, to carry the bend sides of two-bone chains along them.
    """
    work = _start(stage, batch)
    work.bend_path = bend_path
    for number, groups in enumerate(stage.groups):
        if number:
            _repose(work)
        for group in groups:
            _solve_group(work, group)
    if len(stage.groups) > 1 or work.carry is not None:
        _repose(work)
    for goal in work.goals:
        _measure(work, goal)
    if not np.isfinite(work.rotation.sum() + work.residual.sum()):
        _hold_lost_chains(work)
    pose = work.pose[:, :-1]
    return Solution(work.rotation, work.changed, work.residual, work.status, work.tip, pose)


def _hold_lost_chains(work: _Work) -> None:
    """Chains keep their FK channels and are BROKEN where what they were given is no number.

    A NaN that reached a bone would end up in the memory of its FK pose and stay for good.
    """
    stage = work.stage
    lost_bones = ~np.isfinite(work.rotation).all(axis=-1)
    for number, chain in enumerate(stage.chains):
        slots = np.flatnonzero(np.isin(stage.posed, chain.written))
        lost = lost_bones[:, slots].any(axis=1) | ~np.isfinite(work.residual[:, number])
        lost_bones[:, slots] |= lost[:, None]
        work.status[lost, number] = Status.BROKEN
        work.residual[lost, number] = 0.0
        work.tip[lost, number] = 0.0
    work.rotation = np.where(lost_bones[..., None], work.batch.rotation, work.rotation)
    work.changed &= ~lost_bones


def _start(stage: Stage, batch: Batch) -> _Work:
    frames, bones = batch.pose.shape[:2]
    chains = len(stage.chains)
    pose = np.empty((frames, bones + 1, 4, 4))
    pose[:, :bones] = batch.pose
    pose[:, bones] = IDENTITY
    basis = _fk_basis(stage, batch)
    work = _Work(
        stage=stage,
        batch=batch,
        pose=pose,
        objects=batch.objects,
        inverse=affine_inverse(batch.objects[:, : stage.rig_count]),
        basis=basis,
        local=_below_parents(stage, batch, basis),
        rotation=batch.rotation.copy(),
        changed=np.zeros(batch.rotation.shape[:2], bool),
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
    _repose(work)
    return work


def _fk_basis(stage: Stage, batch: Batch) -> np.ndarray:
    """Local matrices ``(F, k, 4, 4)`` from the FK channels; of followers that constraints pose
    from their evaluated pose."""
    basis = compose(batch.location, quaternion_to_matrix(batch.rotation), batch.scale)
    if stage.has_connected:
        basis[..., :3, 3] *= stage.moves_by_location
    follow = stage.constrained
    if len(follow):
        bones = stage.posed[follow]
        parent_pose = _parent_poses(stage, batch, bones)
        basis[:, follow] = basis_from_pose(stage.skeleton, bones, parent_pose, batch.pose[:, bones])
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
        local[:, follow] = affine_inverse(_parent_poses(stage, batch, bones)) @ batch.pose[:, bones]
    return local


def _repose(work: _Work) -> None:
    """Forward kinematics of `posed` from the local matrices, then the objects they carry."""
    stage = work.stage
    for level in stage.levels:
        parent_pose = work.pose[:, level.parents]
        if level.plain:
            work.pose[:, level.bones] = parent_pose @ work.local[:, level.places]
        else:
            basis = work.basis[:, level.places]
            work.pose[:, level.bones] = pose_from_basis(stage.skeleton, level.bones, parent_pose, basis)
    if work.carry is None:
        return
    for place, ob in enumerate(stage.carried):
        bone = stage.carriers[ob]
        work.objects[:, ob] = (
            work.objects[:, stage.rig_of_bone[bone]] @ work.pose[:, bone] @ work.carry[:, place]
        )
        if ob < stage.rig_count:
            work.inverse[:, ob] = affine_inverse(work.objects[:, ob])


def _spaces(work: _Work, table: SpaceTable, rigs: np.ndarray) -> np.ndarray:
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


def _solve_group(work: _Work, group: Group) -> None:
    settings = {name: values[:, group.pick] for name, values in work.batch.settings.items()}
    spaces = _spaces(work, group.target, group.rig)
    target = transform_point(spaces, settings["target_location"])
    example = group.example
    orientation = None
    if example.use_rotation or (example.solver == "AIM" and example.aim_mode == "MATCH_ROTATION"):
        orientation = rotation_part(spaces) @ quaternion_to_matrix(settings["target_rotation"])
    step = _aim if example.solver == "AIM" else _reach
    work.goals.append(step(work, group, settings, target, orientation))


def _joints(work: _Work, group: Group) -> np.ndarray:
    """Positions ``(F, m, solved + 1, 3)`` of heads and tip, in armature space."""
    heads = work.pose[:, group.bones][..., :3, 3]
    if group.bones.shape[1] > group.solved:
        return heads
    return np.concatenate([heads, _tail(work, group.bones[:, -1])[:, :, None]], axis=2)


def _tail(work: _Work, bones: np.ndarray) -> np.ndarray:
    pose = work.pose[:, bones]
    return pose[..., :3, 3] + pose[..., :3, 1] * work.stage.skeleton.lengths[bones][:, None]


def _pole(work: _Work, group: Group, settings: dict, joints: np.ndarray) -> dict:
    """The pole fields of a job: a vector from the root of the bend, in armature space."""
    if not group.has_pole:
        return {}
    root = joints[:, :, group.example.bend_root]
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
) -> _Goal:
    """Bring the tips of a group to their targets."""
    weight = settings["influence"]
    joints = _joints(work, group)
    size = length(joints[:, :, 1:] - joints[:, :, :-1]).sum(axis=-1)
    chain = group.example
    if chain.use_lean:
        target = lean_target(joints, target, settings["lean"])
    if not weight.any():
        return _Goal(group, target, orientation, size, np.zeros(weight.shape, np.int8), weight)
    eased = target
    # A limb of three bones eases the part of it that is solved as two.
    if settings["softness"].any() and chain.solver != "THREE_BONE":
        eased = ease_target(joints[:, :, 0], target, size, settings["softness"])
    pole = _pole(work, group, settings, joints)
    status, angle = np.zeros(weight.shape, np.int8), settings["pole_angle"]
    missed = np.ones(weight.shape, bool)
    solved: np.ndarray = np.empty(0)
    for attempt in range(SHEAR_PASSES):
        hinge = transform_vector(work.pose[:, group.bones[:, chain.bend_root]], group.hinge)
        if group.solved == 2:
            hinge = two_bone.fold_hinge(joints, hinge, eased)
        job = ChainJob(joints, eased, hinge, pole_angle=angle, **pole)
        if work.bend_path is not None and chain.bends_freely and not attempt:
            upper = rotation_part(work.pose[:, group.bones[:, 0]])
            job = carried.carry(job, work.bend_path, group.chains.tolist(), upper, weight)
        result = _position_solver(group, job, settings)
        status = status if attempt else result.status
        turned = _turn(work, group, result.rotations, orientation)
        if attempt:
            # A chain that was there after an earlier pass stays as it is, whatever the others need.
            turned = np.where(missed[..., None, None], turned, solved)
            _set_channels(work, group, turned)
        solved = turned
        joints = _joints(work, group)
        missed &= length(joints[:, :, -1] - result.joints[:, :, -1]) > RIGID * size
        if not missed.any():
            break
        # The next pass starts from the solved pose: the bend plane, found from FK, stays as it is.
        if attempt == 0 and chain.bends_freely:
            pole = {"pole": two_bone.bend_side(job, result)}
            angle = np.zeros(weight.shape)
        elif attempt == 0:
            angle = np.where(pole["pole_mask"], angle, 0.0) if pole else np.zeros(weight.shape)
        if chain.solver == "THREE_BONE":
            # The lone bone took its share in the first pass.
            settings = {**settings, "share": np.zeros(weight.shape), "share_max": np.zeros(weight.shape)}
            pole = _pole(work, group, settings, joints)
    if group.limits is not None:
        has_pole = np.broadcast_to(pole.get("pole_mask", False), weight.shape)
        box = group.limits.box(work.rotation[:, group.slots[:, : solved.shape[2]]])
        # A limb of three bones has put its tip where its own softness lets it be.
        goal = result.joints[:, :, -1] if chain.solver == "THREE_BONE" else eased
        solved, bound = _within_limits(work, group, box, solved, goal, orientation, has_pole)
        status = np.where(bound, np.int8(Status.LIMIT), status)
    _blend(work, group, solved, weight)
    if eased is not target:
        # The tip stops short because softness says so, not because a solver failed.
        solver_ok = (status == Status.OK) | (status == Status.POLE_ALIGNED)
        eased_away = solver_ok & (length(target - eased) > ON_TARGET * size)
        status = np.where(eased_away, Status.TARGET_FAR, status)
    return _Goal(group, target, orientation, size, status, weight)


def _position_solver(group: Group, job: ChainJob, settings: dict) -> ChainResult:
    chain = group.example
    if chain.solver == "TWO_BONE" and chain.planar_axis >= 0:
        return planar.solve_valid(job, chain.planar_axis, settings["bend_sign"])
    if chain.solver == "TWO_BONE":
        return two_bone.solve_valid(job)
    if chain.solver == "THREE_BONE":
        part = (settings["share"], settings["share_max"], settings["softness"])
        return limb.solve_valid(job, chain.limb_mode, *part, pole_points=group.pole_mode == POINT)
    solver = fabrik if chain.solver == "FABRIK" else ccd
    return solver.solve_valid(job, chain.iterations, chain.tolerance)


def _aim(
    work: _Work, group: Group, settings: dict, target: np.ndarray, orientation: np.ndarray | None
) -> _Goal:
    """Turn the bones of a group to look at their targets, or as their targets are turned."""
    bone, weight = group.bones[:, 0], settings["influence"]
    pose = work.pose[:, bone]
    now, head = rotation_part(pose), pose[..., :3, 3]
    chain = group.example
    if orientation is not None:
        wanted = aim.match_rotation(orientation, settings["offset_yaw"])
        status = np.zeros(weight.shape, np.int8)
        size = np.broadcast_to(work.stage.skeleton.lengths[bone], weight.shape)
        orientation = wanted
    else:
        pole = _pole(work, group, settings, head[:, :, None])
        # As seen in the bone's orientation, which a scaled or sheared bone's own space is not.
        start = transform_vector(pose, settings["aim_offset"])
        offset = transform_vector(np.swapaxes(now, -1, -2), start)
        result = aim.look_at(now, head, target, chain.aim_axis, chain.up_axis, offset=offset, **pole)
        size = length(target - head) + length(start)
        wanted, limited = aim.limit_swing(
            now, result.rotation, settings["aim_limit"], settings["aim_damping"]
        )
        status = np.where(limited, np.int8(Status.LIMIT), result.status)
    if weight.any():
        turn = wanted @ np.swapaxes(now, -1, -2)
        solved = _turn(work, group, turn[:, :, None], None)
        if group.limits is not None:
            kept = group.limits.box(work.rotation[:, group.slots]).clamp(solved)
            status = np.where((kept != solved).any(axis=(-1, -2)), np.int8(Status.LIMIT), status)
            solved = kept
            _set_channels(work, group, solved)
        _blend(work, group, solved, weight)
    return _Goal(group, target, orientation, size, status, weight)


def _turn(work: _Work, group: Group, rotations: np.ndarray, orientation: np.ndarray | None) -> np.ndarray:
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


def _within_limits(
    work: _Work,
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
    joints = _joints(work, group)
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
    _set_channels(work, group, solved)
    if orientation is not None:
        # The end bone keeps the target's rotation as far as its own limits let it.
        still = np.broadcast_to(np.eye(3), (*result.rotation.shape[:-1], 3, 3))
        end = _turn(work, group, still, orientation)[:, :, columns:]
        solved[:, :, columns:] = box.bones(slice(columns, None)).clamp(end)
        _set_channels(work, group, solved)
    return solved, result.bound & exceeded


def _is_rigid(work: _Work, group: Group) -> bool:
    """No scale in the chains, and none but a uniform one above them."""
    if (work.batch.scale[:, group.slots] != 1.0).any():
        return False
    above = work.pose[:, group.parents[:, 0]][..., :3, :3]
    gram = np.swapaxes(above, -1, -2) @ above
    uniform = gram[..., 0, 0, None, None]
    return bool((np.abs(gram - uniform * IDENTITY[:3, :3]) <= RIGID * uniform).all())


def _turn_rigid(work: _Work, group: Group, wanted: np.ndarray) -> np.ndarray:
    """`_turn` for bones without scale: all at once, since each wanted parent is known.

    A uniform scale above the chain drops out when the quaternions are normalised.
    """
    columns = wanted.shape[2]
    above = work.pose[:, group.parents[:, 0]][:, :, None, :3, :3]
    parents = np.concatenate([above, wanted[:, :, : columns - 1]], axis=2)
    frames = parents @ work.stage.rest_turn[group.slots[:, :columns]]
    # Not the transpose: Blender's rest matrices are orthogonal to 1e-5 only.
    x, y, z = frames[..., 0], frames[..., 1], frames[..., 2]
    rows = np.stack([cross(y, z), cross(z, x), cross(x, y)], axis=-2)
    turn = np.sign(dot(x, rows[..., 0, :]))[..., None, None] * rows @ wanted
    scale = np.sqrt(np.einsum("...i,...i->...", turn[..., 1], turn[..., 1]))
    out = matrix_to_quaternion(turn / np.maximum(scale, TINY)[..., None, None])
    _set_channels(work, group, out)
    return out


def _turn_any(work: _Work, group: Group, wanted: np.ndarray) -> np.ndarray:
    """`_turn` for every way in which bones inherit, and under scale and shear: root to tip."""
    skeleton, batch = work.stage.skeleton, work.batch
    out = np.empty((*wanted.shape[:3], 4))
    for column in range(wanted.shape[2]):
        bones, slots = group.bones[:, column], group.slots[:, column]
        parent_pose = work.pose[:, group.parents[:, column]]
        scale = batch.scale[:, slots]
        pose = compose(batch.location[:, slots], wanted[:, :, column])
        local = basis_from_pose(skeleton, bones, parent_pose, pose)[..., :3, :3]
        turn = rotation_part(local / np.where(scale == 0.0, 1.0, scale)[..., None, :])
        out[:, :, column] = matrix_to_quaternion(turn)
        basis = work.basis[:, slots]
        basis[..., :3, :3] = turn * scale[..., None, :]
        work.pose[:, bones] = pose_from_basis(skeleton, bones, parent_pose, basis)
    _set_channels(work, group, out)
    return out


def _set_channels(work: _Work, group: Group, rotation: np.ndarray) -> None:
    """Local matrices of turned bones from new rotation channels ``(F, m, b, 4)``, and the pose."""
    slots = group.slots[:, : rotation.shape[2]]
    linear = quaternion_to_matrix(rotation) * work.batch.scale[:, slots][..., None, :]
    work.basis[:, slots, :3, :3] = linear
    work.local[:, slots] = work.stage.offset[slots] @ work.basis[:, slots]
    for column in range(group.bones.shape[1]):
        bones, parents = group.bones[:, column], group.parents[:, column]
        at = group.slots[:, column]
        if group.plain:
            work.pose[:, bones] = work.pose[:, parents] @ work.local[:, at]
        else:
            parent_pose = work.pose[:, parents]
            basis = work.basis[:, at]
            work.pose[:, bones] = pose_from_basis(work.stage.skeleton, bones, parent_pose, basis)


def _blend(work: _Work, group: Group, solved: np.ndarray, weight: np.ndarray) -> None:
    """Store the solved channels, blended from the channels before by the influence.

    Rotations are blended the shorter way; where the influence is 0 the channels stay as
    they were to the bit.
    """
    slots = group.slots[:, : solved.shape[2]]
    if (weight < 1.0).any():
        before = work.rotation[:, slots]
        blended = slerp(before, solved, weight[..., None])
        solved = np.where((weight == 0.0)[..., None, None], before, blended)
        _set_channels(work, group, solved)
    work.rotation[:, slots] = solved
    work.changed[:, slots] |= (weight > 0.0)[..., None]


def _measure(work: _Work, goal: _Goal) -> None:
    """Residual and status from the final pose, in metres in world space."""
    group, size = goal.group, goal.size
    world = work.objects[:, group.rig]
    if group.example.solver == "AIM":
        tip, gap = _aim_gap(work, goal)
    else:
        last = group.bones[:, -1]
        by_head = group.bones.shape[1] > group.solved
        tip = work.pose[:, last][..., :3, 3] if by_head else _tail(work, last)
        gap = tip - goal.place
    missed = length(gap)
    work.residual[:, group.pick] = length(transform_vector(world, gap))
    work.tip[:, group.pick] = transform_point(world, tip)
    status = goal.status
    off = missed > (ON_TARGET + group.example.allowed_gap) * size
    if status.any() or off.any():
        solver_ok = (status == Status.OK) | (status == Status.POLE_ALIGNED)
        faded = off & (((goal.weight < 1.0) & solver_ok) | (goal.weight == 0.0))
        status = np.where(off & solver_ok, Status.NOT_CONVERGED, status)
        status = np.where(faded, Status.INFLUENCE, status)
        status = np.where(~off & (status != Status.POLE_ALIGNED), Status.OK, status)
    work.status[:, group.pick] = status


def _aim_gap(work: _Work, goal: _Goal) -> tuple[np.ndarray, np.ndarray]:
    """Where aimed bones point, and the vector from where they should, ``(F, m, 3)`` each.

    Looking at a target, the tip is the point of the aim ray that is nearest to it; the ray starts
    at the head, or at an offset from it. Matching a rotation, the tip is the tail, and the gap is
    as long as the arc of the turn that is left.
    """
    group = goal.group
    bone = group.bones[:, 0]
    pose = work.pose[:, bone]
    now = rotation_part(pose)
    if goal.orientation is None:
        ray = transform_vector(now, aim.axis_vector(group.example.aim_axis))
        start = transform_point(pose, work.batch.settings["aim_offset"][:, group.pick])
        along = np.maximum(dot(goal.place - start, ray), 0.0)
        tip = start + along[..., None] * ray
        return tip, tip - goal.place
    left = matrix_to_quaternion(goal.orientation @ np.swapaxes(now, -1, -2))
    axis, angle = quaternion_to_axis_angle(left)
    return _tail(work, bone), axis * (angle * goal.size)[..., None]
