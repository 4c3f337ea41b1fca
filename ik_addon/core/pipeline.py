# SPDX-License-Identifier: GPL-3.0-or-later
"""Solve the chains of a stage over a batch of frames, in dependency order.

The one road from a pose to a solved pose: live playback hands in one frame, a bake all
frames of its range. No frame knows of another, unless a bake asks for carried bend sides.
"""

from __future__ import annotations

import numpy as np

from . import aim, carried
from .batch import Batch
from .job import Status
from .moving import close_gaps, move_bones
from .reaching import ON_TARGET, Task, pole_of, reach, task_of
from .stage import Group, Stage
from .transforms import (
    dot,
    length,
    matrix_to_quaternion,
    quaternion_to_axis_angle,
    rotation_part,
    transform_point,
    transform_vector,
)
from .turning import blend, set_channels, turn_bones
from .work import Goal, Solution, Work, repose, start, tails_of


def solve(stage: Stage, batch: Batch, bend_path: carried.BendPath | None = None) -> Solution:
    """Solve all chains of the stage in each frame of the batch.

    Args:
        bend_path: of these frames, to carry the bend sides of two-bone chains along them.
    """
    work = start(stage, batch)
    work.bend_path = bend_path
    for number, (groups, pulls) in enumerate(zip(stage.groups, stage.pulls, strict=True)):
        if number:
            repose(work)
        if stage.stretches:
            work.scale_before = work.scale.copy()
        said = move_bones(work, pulls)
        before = work.rotation.copy() if pulls else work.rotation
        for group in groups:
            _solve_group(work, group)
        close_gaps(work, pulls, said, before)
    if len(stage.groups) > 1 or work.carry is not None or stage.stretches:
        repose(work)
    for goal in work.goals:
        _measure(work, goal)
    if not np.isfinite(work.rotation.sum() + work.residual.sum()):
        _hold_lost_chains(work)
    return Solution(
        rotation=work.rotation,
        changed=work.changed,
        location=work.location,
        moved=work.moved,
        scale=work.scale,
        scaled=work.scaled,
        residual=work.residual,
        status=work.status,
        tip=work.tip,
        work=work,
    )


def _hold_lost_chains(work: Work) -> None:
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
    batch = work.batch
    work.rotation = np.where(lost_bones[..., None], batch.rotation, work.rotation)
    work.changed &= ~lost_bones
    for values, fk, changed in (
        (work.location, batch.location, work.moved),
        (work.scale, batch.scale, work.scaled),
    ):
        lost_rows = ~np.isfinite(values).all(axis=-1)
        if lost_rows.any():
            values[lost_rows] = fk[lost_rows]
            changed &= ~lost_rows


def _solve_group(work: Work, group: Group) -> None:
    step = _aim if group.example.solver == "AIM" else reach
    work.goals.append(step(work, task_of(work, group)))


def _aim(work: Work, task: Task) -> Goal:
    """Turn the bones of a group to look at their targets, or as their targets are turned."""
    group, settings, target, orientation = task.group, task.settings, task.target, task.orientation
    bone, weight = group.bones[:, 0], task.weight
    pose = work.pose[:, bone]
    now, head = rotation_part(pose), pose[..., :3, 3]
    chain = group.example
    if orientation is not None:
        wanted = aim.match_rotation(orientation, settings["offset_yaw"])
        status = np.zeros(weight.shape, np.int8)
        size = np.broadcast_to(work.stage.skeleton.lengths[bone], weight.shape)
        orientation = wanted
    else:
        pole = pole_of(work, task, head[:, :, None])
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
        turn = matrix_to_quaternion(wanted @ np.swapaxes(now, -1, -2))
        solved = turn_bones(work, group, turn[:, :, None], work.rotation[:, group.written], None)
        if group.limits is not None:
            kept = group.limits.box(work.rotation[:, group.slots]).clamp(solved)
            status = np.where((kept != solved).any(axis=(-1, -2)), np.int8(Status.LIMIT), status)
            solved = kept
            set_channels(work, group, solved)
        blend(work, group, solved, weight)
    return Goal(group, target, orientation, size, status, weight)


def _measure(work: Work, goal: Goal) -> None:
    """Residual and status from the final pose, in metres in world space; of bones that were not posed from
    what the solver says of it."""
    group, size = goal.group, goal.size
    world = work.objects[:, group.rig]
    if group.example.solver == "AIM":
        tip, gap = _aim_gap(work, goal)
    elif goal.tip is not None:
        tip, gap = goal.tip, goal.tip - goal.place
    else:
        last = group.bones[:, -1]
        by_head = group.bones.shape[1] > group.solved
        tip = work.pose[:, last][..., :3, 3] if by_head else tails_of(work, last)
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


def _aim_gap(work: Work, goal: Goal) -> tuple[np.ndarray, np.ndarray]:
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
    return tails_of(work, bone), axis * (angle * goal.size)[..., None]
