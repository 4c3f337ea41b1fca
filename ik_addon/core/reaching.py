# SPDX-License-Identifier: GPL-3.0-or-later
"""Bring the tips of a group of chains to their targets: soft reach, growth, solve, limits, blend."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from . import carried, ccd, fabrik, limb, planar, stretch, two_bone
from .job import REACHED, ChainJob, ChainResult, Status
from .limits import KEPT, Box
from .reach import ease_target, soft_distance
from .spine import lean_target
from .stage import DIRECTION, POINT, Group
from .transforms import (
    dot,
    length,
    quaternion_conjugate,
    quaternion_multiply,
    quaternion_to_axis_angle,
    quaternion_to_matrix,
    rotation_part,
    slerp,
    transform_point,
    transform_vector,
)
from .turning import RIGID, blend, grow, is_rigid, set_channels, turn_bones, turned_channels, within_limits
from .work import Goal, Work, joints_of, spaces_of

# A gap below this fraction of a chain's length is on target: Blender stores poses as
# float32, which moves a tip by up to 2e-6 of the length.
ON_TARGET = 1e-6
# So often the growth of a limb of three bones is found anew from its pose.
LIMB_STEPS = 8
# Under sheared parents posed lengths change with the pose: solve again, at most so often.
SHEAR_PASSES = 8


@dataclass(frozen=True)
class Task:
    """What the chains of a group shall do, in armature space.

    Attributes:
        settings: of `Batch.settings`, those of the group.
        target: ``(F, m, 3)``; orientation: ``(F, m, 3, 3)`` for the end bone, or None.
        around: ``(F, m, 2N + 1, 3)`` the targets on frames around, which shift bones early, or None.
    """

    group: Group
    settings: dict[str, np.ndarray]
    target: np.ndarray
    orientation: np.ndarray | None
    around: np.ndarray | None = None

    @property
    def weight(self) -> np.ndarray:
        return self.settings["influence"]


@dataclass(frozen=True)
class Answer:
    """A solve at full influence: channels ``(F, m, b, 4)``, status, and where a limit binds; the tips
    ``(F, m, 3)`` where the bones were not posed."""

    solved: np.ndarray
    status: np.ndarray
    bound: np.ndarray
    tip: np.ndarray | None = None


def task_of(work: Work, group: Group) -> Task:
    """The targets of a group as the pose stands."""
    settings = {name: values[:, group.pick] for name, values in work.batch.settings.items()}
    spaces = spaces_of(work, group.target, group.rig)
    target = transform_point(spaces, settings["target_location"])
    example = group.example
    orientation = None
    if example.use_rotation or (example.solver == "AIM" and example.aim_mode == "MATCH_ROTATION"):
        orientation = rotation_part(spaces) @ quaternion_to_matrix(settings["target_rotation"])
    if example.use_lean:
        target = lean_target(joints_of(work, group), target, settings["lean"])
    around = None
    if example.handling == "MOVE_ROOT" and "move_location" in settings:
        around = transform_point(spaces[:, :, None], settings["move_location"])
    return Task(group, settings, target, orientation, around)


def pole_of(work: Work, task: Task, joints: np.ndarray) -> dict:
    """The pole fields of a job: a vector from the root of the bend, in armature space."""
    group = task.group
    if not group.has_pole:
        return {}
    root = joints[:, :, group.example.bend_root]
    spaces = spaces_of(work, group.pole, group.rig)
    location = task.settings["pole_location"]
    is_direction = (group.pole_mode == DIRECTION)[:, None]
    vector = np.where(
        is_direction, transform_vector(spaces, location), transform_point(spaces, location) - root
    )
    mask = (group.pole_mode != 0) & (length(vector) > 0.0)
    return {"pole": vector, "pole_mask": mask}


def reach(work: Work, task: Task) -> Goal:
    """Bring the tips of a group to their targets."""
    group, weight, target = task.group, task.weight, task.target
    joints = joints_of(work, group)
    size = chain_length(joints)
    if not weight.any():
        return Goal(group, target, task.orientation, size, np.zeros(weight.shape, np.int8), weight)
    mode = group.example.handling
    growth = np.ones(weight.shape)
    if mode == "STRETCH":
        growth, eased = _stretched(work, task, joints, size)
        task = _hard(task)
    elif mode == "MOVE_ROOT":
        eased = _as_near_as_shifted(work, task, joints, size)
        task = _hard(task)
    else:
        eased = _softened(task, joints, size)
    answer = _answer(work, task, eased, growth * size)
    if mode == "STRETCH" and answer.bound.any():
        answer, growth = _stretch_on(work, task, eased, growth, size, answer)
    gap = target - joints_of(work, group)[:, :, -1] if mode == "MOVE_ROOT" else None
    blend(work, group, answer.solved, weight, growth if group.growth else None)
    if answer.tip is not None:
        work.unposed.append(group.written)
    status = answer.status
    if eased is not target:
        # The tip stops short because softness says so, not because a solver failed.
        solver_ok = (status == Status.OK) | (status == Status.POLE_ALIGNED)
        out = length(flat_way(group, target - joints[:, :, 0])) > growth * size * (1.0 + REACHED)
        eased_away = (solver_ok | out) & (length(target - eased) > ON_TARGET * size)
        status = np.where(eased_away, Status.TARGET_FAR, status)
    return Goal(group, target, task.orientation, growth * size, status, weight, gap, answer.bound, answer.tip)


def chain_length(joints: np.ndarray) -> np.ndarray:
    """Sum of the bones' lengths ``(F, m)`` from joints ``(F, m, n + 1, 3)``."""
    return length(joints[:, :, 1:] - joints[:, :, :-1]).sum(axis=-1)


def _hard(task: Task) -> Task:
    """A task whose softness is dealt with: a limb of three bones would ease once more."""
    return replace(task, settings={**task.settings, "softness": np.zeros(task.weight.shape)})


def _softened(task: Task, joints: np.ndarray, size: np.ndarray) -> np.ndarray:
    """The targets as softness eases them."""
    softness = task.settings["softness"]
    # A limb of three bones eases the part of it that is solved as two.
    if not softness.any() or task.group.example.solver == "THREE_BONE":
        return task.target
    return ease_target(joints[:, :, 0], task.target, size, softness)


def flat_way(group: Group, way: np.ndarray) -> np.ndarray:
    """Vectors ``(F, m, 3)`` toward targets, of planar chains in their plane."""
    axis = group.example.planar_axis
    if axis < 0:
        return way
    return way * (np.arange(3) != axis)


# Stretch


def _stretched(work: Work, task: Task, joints: np.ndarray, size: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Grow the chains of a group as far as their targets need.

    Returns:
        ratios ``(F, m)``, and the targets that the grown chains are solved for.
    """
    root = joints[:, :, 0]
    if task.group.example.solver == "THREE_BONE":
        wanted, reached = _limb_growth(work, task, joints)
    else:
        wanted, reached = _chain_growth(task, joints, size)
    most = 1.0 + np.fmax(task.settings["stretch_max"], 0.0)
    growth = np.where(task.weight > 0.0, np.clip(wanted, 1.0, most), 1.0)
    grow(work, task.group, growth)
    capped = wanted > most
    if not capped.any():
        return growth, task.target
    return growth, np.where(capped[..., None], root + growth[..., None] * reached, task.target)


def _chain_growth(task: Task, joints: np.ndarray, size: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The ratios ``(F, m)`` that bring the tips to their targets, and the way ``(F, m, 3)`` from the
    roots that the tips go without growth."""
    way = task.target - joints[:, :, 0]
    distance = length(flat_way(task.group, way))
    reached = np.minimum(soft_distance(distance, size, task.settings["softness"]), size)
    share = reached / np.where(distance > 0.0, distance, 1.0)
    return stretch.ratio(distance, reached), way * share[..., None]


def _limb_growth(work: Work, task: Task, joints: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`_chain_growth` of limbs of three bones.

    A limb that has grown by s toward a target at D from its root is the limb before, solved for
    D / s and enlarged. With c the way to the root of its two-bone part and b that part's length as it
    is then, s follows from ``|D - s c| = s b``; both change little with s.
    """
    root = joints[:, :, 0]
    way = task.target - root
    most = 1.0 + np.fmax(task.settings["stretch_max"], 0.0)
    ratio = np.ones(task.weight.shape)
    for _ in range(LIMB_STEPS):
        nearer = replace(task, target=root + way / np.minimum(ratio, most)[..., None])
        posed = solve_limb(work, nearer, joints).joints
        first, _ = limb.reach_of(posed, task.group.example.limb_mode)
        to_first, part = first - root, length(posed[:, :, -1] - first)
        ratio = np.maximum(stretch.ratio_from(way, to_first, part), 1.0)
    return ratio, posed[:, :, -1] - root


def solve_limb(work: Work, task: Task, joints: np.ndarray) -> ChainResult:
    """A limb of three bones as it is solved in one pass, without turning its bones."""
    hinge = _hinge(work, task.group)
    angle = task.settings["pole_angle"]
    job = ChainJob(joints, task.target, hinge, pole_angle=angle, **pole_of(work, task, joints))
    return position_solver(task.group, job, task.settings)


def _stretch_on(
    work: Work, task: Task, eased: np.ndarray, growth: np.ndarray, size: np.ndarray, first: Answer
) -> tuple[Answer, np.ndarray]:
    """Grow once more where joint limits keep tips away that growth brings nearer.

    Of the pose that was found and a pose solved anew, both grown, the nearer one counts.
    """
    group, target = task.group, task.target
    joints = joints_of(work, group)
    root = joints[:, :, 0]
    tip = joints[:, :, -1] - root
    most = 1.0 + np.fmax(task.settings["stretch_max"], 0.0)
    wanted = growth * dot(target - root, tip) / np.maximum(dot(tip, tip), 1e-300)
    more = np.where(first.bound, np.clip(wanted, growth, most), growth)
    if not (more > growth).any():
        return first, growth
    grow(work, group, more)
    set_channels(work, group, first.solved)
    kept_gap = length(joints_of(work, group)[:, :, -1] - target)
    set_channels(work, group, work.rotation[:, group.written])
    grown = more > growth
    again = _answer(work, task, np.where(grown[..., None], target, eased), more * size)
    gap = length(joints_of(work, group)[:, :, -1] - target)
    keep = ~grown | (kept_gap <= gap + ON_TARGET * size)
    solved = np.where(keep[..., None, None], first.solved, again.solved)
    set_channels(work, group, solved)
    status = np.where(keep, first.status, again.status)
    return Answer(solved, status, np.where(keep, first.bound, again.bound)), more


# Shift


def _as_near_as_shifted(work: Work, task: Task, joints: np.ndarray, size: np.ndarray) -> np.ndarray:
    """The targets after a shift: no nearer than softness wants, where the shift was too short."""
    if not task.settings["softness"].any() or task.group.example.solver == "THREE_BONE":
        return task.target
    way = task.target - joints[:, :, 0]
    distance = length(way)
    within = np.stack([work.within[int(i)] for i in task.group.chains], axis=1)
    far = (distance > within * (1.0 + 1e-12)) & (task.settings["softness"] > 0.0)
    held = np.where(far, within, distance) / np.where(distance > 0.0, distance, 1.0)
    if not far.any():
        return task.target
    return np.where(far[..., None], joints[:, :, 0] + way * held[..., None], task.target)


# Solve


def _hinge(work: Work, group: Group) -> np.ndarray:
    return transform_vector(work.pose[:, group.bones[:, group.example.bend_root]], group.hinge)


def _answer(work: Work, task: Task, eased: np.ndarray, size: np.ndarray) -> Answer:
    """Solve a group for its eased targets at full influence, and pose it."""
    group, settings, orientation, weight = task.group, task.settings, task.orientation, task.weight
    chain = group.example
    joints = joints_of(work, group)
    pole = pole_of(work, task, joints)
    status, angle = np.zeros(weight.shape, np.int8), settings["pole_angle"]
    missed = np.ones(weight.shape, bool)
    posed_hinge: np.ndarray | None = None
    solved: np.ndarray = np.empty(0)
    for attempt in range(SHEAR_PASSES):
        hinge = _hinge(work, group) if posed_hinge is None else posed_hinge
        if group.solved == 2:
            hinge = two_bone.fold_hinge(joints, hinge, eased)
        job = ChainJob(joints, eased, hinge, pole_angle=angle, **pole)
        if work.bend_path is not None and chain.bends_freely and not attempt:
            upper = rotation_part(work.pose[:, group.bones[:, 0]])
            work.bend_path.rewind(group.chains.tolist())
            job = carried.carry(job, work.bend_path, group.chains.tolist(), upper, weight)
        result = position_solver(group, job, settings)
        status = status if attempt else result.status
        now = solved if attempt else work.rotation[:, group.written]
        if attempt == 0 and _may_stay(work, task):
            channels = turned_channels(work, group, result.quaternions, now, orientation)
            unbound = np.zeros(weight.shape, bool)
            return Answer(channels, status, unbound, result.joints[:, :, -1])
        turned = turn_bones(work, group, result.quaternions, now, orientation)
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
        if group.solved == 2:
            # Of a limb that is straight now the bend tells nothing: its bones would roll.
            posed_hinge = transform_vector(result.rotations[:, :, 0], hinge)
        if attempt == 0 and chain.bends_freely:
            pole = {"pole": two_bone.bend_side(job, result)}
            angle = np.zeros(weight.shape)
        elif attempt == 0:
            angle = np.where(pole["pole_mask"], angle, 0.0) if pole else np.zeros(weight.shape)
        if chain.solver == "THREE_BONE":
            # The lone bone took its share in the first pass.
            settings = {**settings, "share": np.zeros(weight.shape), "share_max": np.zeros(weight.shape)}
            pole = pole_of(work, task, joints)
    bound = np.zeros(weight.shape, bool)
    if group.limits is not None:
        has_pole = np.broadcast_to(pole.get("pole_mask", False), weight.shape)
        box = group.limits.box(work.rotation[:, group.written])
        # A limb of three bones has put its tip where its own softness lets it be.
        goal = result.joints[:, :, -1] if chain.solver == "THREE_BONE" else eased
        free = solved
        solved, bound = within_limits(work, group, box, solved, goal, orientation, has_pole)
        if chain.solver == "THREE_BONE" and chain.limb_mode == "CLAVICLE":
            found = Answer(solved, status, bound)
            solved, bound = _with_share(work, task, box, free, found, goal, has_pole)
        # A target out of the limb's own reach is the first thing to tell, whatever its limits add to the gap.
        out = (status == Status.TARGET_FAR) | (status == Status.TARGET_NEAR)
        status = np.where(bound & ~out, np.int8(Status.LIMIT), status)
    return Answer(solved, status, bound)


def _may_stay(work: Work, task: Task) -> bool:
    """Whether the bones need not be posed: what the solver says of them is where they will be, and no
    one else looks at them."""
    group = task.group
    return (
        work.stage.is_single
        and group.square
        and group.limits is None
        and bool((task.weight == 1.0).all())
        and is_rigid(work, group)
    )


def _with_share(
    work: Work, task: Task, box: Box, free: np.ndarray, found: Answer, goal: np.ndarray, has_pole: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Channels within limits, and where limits bind, of clavicles that turn no further than they may.

    Where limits of the arm turned one further it goes back to where it may be, and the arm is solved alone.

    Args:
        free: ``(F, m, b, 4)`` the channels without limits.
    """
    group, settings, solved = task.group, task.settings, found.solved
    fk, now = work.rotation[:, group.slots[:, 0]], solved[:, :, 0]
    helps = limb.most_turn(settings["share"], settings["share_max"])
    most = np.maximum(helps, _turn_between(fk, free[:, :, 0]))
    turn = _turn_between(fk, now)
    past = turn > most + KEPT
    if not past.any():
        return solved, found.bound
    back = slerp(fk, now, most / np.where(past, turn, 1.0))
    held = box.holding(0, np.where(past[..., None], back, now))
    solved, alone = within_limits(work, group, held, solved, goal, task.orientation, has_pole)
    return solved, found.bound | alone


def _turn_between(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Radians ``(...)`` from one rotation to another, by the shorter way."""
    return quaternion_to_axis_angle(quaternion_multiply(quaternion_conjugate(a), b))[1]


def position_solver(group: Group, job: ChainJob, settings: dict) -> ChainResult:
    """Solve a job with the solver of a group."""
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
