# SPDX-License-Identifier: GPL-3.0-or-later
"""Solve the chains of a stage over a batch of frames, in dependency order.

The one road from a pose to a solved pose: live playback hands in one frame, a bake all
frames of its range. No frame knows of another, unless a bake asks for carried bend sides.
"""

from __future__ import annotations

import numpy as np

from . import aim, carried, ccd, fabrik, limb, planar, two_bone
from .job import ChainJob, ChainResult, Status
from .reach import ease_target
from .spine import lean_target
from .stage import AUTO, DIRECTION, POINT, Group, Stage
from .transforms import (
    dot,
    length,
    matrix_to_quaternion,
    quaternion_to_axis_angle,
    quaternion_to_matrix,
    rotation_part,
    transform_point,
    transform_vector,
)
from .turning import RIGID, blend, set_channels, turn_bones, within_limits
from .work import Batch, Goal, Solution, Work, joints_of, repose, spaces_of, start, tails_of

# A gap below this fraction of a chain's length is on target: Blender stores poses as
# float32, which moves a tip by up to 2e-6 of the length.
ON_TARGET = 1e-6
# Under sheared parents posed lengths change with the pose: solve again, at most so often.
SHEAR_PASSES = 8


def solve(stage: Stage, batch: Batch, bend_path: carried.BendPath | None = None) -> Solution:
    """Solve all chains of the stage in each frame of the batch.

    Args:
        bend_path: of these frames, to carry the bend sides of two-bone chains along them.
    """
    work = start(stage, batch)
    work.bend_path = bend_path
    for number, groups in enumerate(stage.groups):
        if number:
            repose(work)
        for group in groups:
            _solve_group(work, group)
    if len(stage.groups) > 1 or work.carry is not None:
        repose(work)
    for goal in work.goals:
        _measure(work, goal)
    if not np.isfinite(work.rotation.sum() + work.residual.sum()):
        _hold_lost_chains(work)
    pose = work.pose[:, :-1]
    return Solution(work.rotation, work.changed, work.residual, work.status, work.tip, pose)


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
    work.rotation = np.where(lost_bones[..., None], work.batch.rotation, work.rotation)
    work.changed &= ~lost_bones


def _solve_group(work: Work, group: Group) -> None:
    settings = {name: values[:, group.pick] for name, values in work.batch.settings.items()}
    spaces = spaces_of(work, group.target, group.rig)
    target = transform_point(spaces, settings["target_location"])
    example = group.example
    orientation = None
    if example.use_rotation or (example.solver == "AIM" and example.aim_mode == "MATCH_ROTATION"):
        orientation = rotation_part(spaces) @ quaternion_to_matrix(settings["target_rotation"])
    step = _aim if example.solver == "AIM" else _reach
    work.goals.append(step(work, group, settings, target, orientation))


def _pole(work: Work, group: Group, settings: dict, joints: np.ndarray) -> dict:
    """The pole fields of a job: a vector from the root of the bend, in armature space."""
    if not group.has_pole:
        return {}
    root = joints[:, :, group.example.bend_root]
    spaces = spaces_of(work, group.pole, group.rig)
    location = settings["pole_location"]
    is_direction = (group.pole_mode == DIRECTION)[:, None]
    vector = np.where(
        is_direction, transform_vector(spaces, location), transform_point(spaces, location) - root
    )
    mask = (group.pole_mode != AUTO) & (length(vector) > 0.0)
    return {"pole": vector, "pole_mask": mask}


def _reach(
    work: Work, group: Group, settings: dict, target: np.ndarray, orientation: np.ndarray | None
) -> Goal:
    """Bring the tips of a group to their targets."""
    weight = settings["influence"]
    joints = joints_of(work, group)
    size = length(joints[:, :, 1:] - joints[:, :, :-1]).sum(axis=-1)
    chain = group.example
    if chain.use_lean:
        target = lean_target(joints, target, settings["lean"])
    if not weight.any():
        return Goal(group, target, orientation, size, np.zeros(weight.shape, np.int8), weight)
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
        turned = turn_bones(work, group, result.rotations, orientation)
        if attempt:
            # A chain that was there after an earlier pass stays as it is, whatever the others need.
            turned = np.where(missed[..., None, None], turned, solved)
            set_channels(work, group, turned)
        solved = turned
        joints = joints_of(work, group)
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
        solved, bound = within_limits(work, group, box, solved, goal, orientation, has_pole)
        status = np.where(bound, np.int8(Status.LIMIT), status)
    blend(work, group, solved, weight)
    if eased is not target:
        # The tip stops short because softness says so, not because a solver failed.
        solver_ok = (status == Status.OK) | (status == Status.POLE_ALIGNED)
        eased_away = solver_ok & (length(target - eased) > ON_TARGET * size)
        status = np.where(eased_away, Status.TARGET_FAR, status)
    return Goal(group, target, orientation, size, status, weight)


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
    work: Work, group: Group, settings: dict, target: np.ndarray, orientation: np.ndarray | None
) -> Goal:
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
        solved = turn_bones(work, group, turn[:, :, None], None)
        if group.limits is not None:
            kept = group.limits.box(work.rotation[:, group.slots]).clamp(solved)
            status = np.where((kept != solved).any(axis=(-1, -2)), np.int8(Status.LIMIT), status)
            solved = kept
            set_channels(work, group, solved)
        blend(work, group, solved, weight)
    return Goal(group, target, orientation, size, status, weight)


def _measure(work: Work, goal: Goal) -> None:
    """Residual and status from the final pose, in metres in world space."""
    group, size = goal.group, goal.size
    world = work.objects[:, group.rig]
    if group.example.solver == "AIM":
        tip, gap = _aim_gap(work, goal)
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
