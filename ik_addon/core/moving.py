# SPDX-License-Identifier: GPL-3.0-or-later
"""Shift bones above chains toward targets that are out of reach: `limit_mode` MOVE_ROOT.

All chains that shift the same bone have their say at once, before any of them is solved, so it
does not matter in which order they stand; `shift` tells the rule by which they share it. The bone
moves at most by the largest `move_max` among the chains that have influence. What joint limits then
leave is closed by one more shift, by the same rule.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from . import limb
from .job import Status
from .reaching import ON_TARGET, Task, chain_length, flat_way, reach, solve_limb, task_of
from .shift import EASE_IN, balanced_shift, hull, limited_shift
from .skeleton import parent_transform
from .stage import Group, Pull
from .transforms import affine_inverse, dot, length, transform_vector
from .turning import set_channels
from .work import Goal, Work, joints_of, repose

# A second shift below this fraction of a chain's length is rounding.
MEANT = 1e-9


@dataclass(frozen=True)
class Say:
    """What n chains want of a bone, see `shift.balanced_shift`.

    Attributes:
        centers: ``(F, n, 3)``; outer, softness, weight: ``(F, n)``.
        around: ``(F, n, 2N + 1, 3)`` the centers on the frames around, of which N = `counts` ``(F,)``
            count; None without such frames.
        largest: ``(F, n)`` most that each chain moves the bone, metres.
        world: ``(F, 3, 3)`` from armature space to the world.
    """

    centers: np.ndarray
    around: np.ndarray | None
    counts: np.ndarray | None
    outer: np.ndarray
    softness: np.ndarray
    weight: np.ndarray
    largest: np.ndarray
    world: np.ndarray

    def shared(self) -> tuple[np.ndarray, np.ndarray]:
        """The shift ``(F, 3)``, and the distances ``(F, n)`` that the chains ease theirs to.

        Pulls are as stiff as it takes to reach a target, so a pull times a small influence would still
        move the bone all the way. Instead the shifts are blended: with influences a >= b >= c of three
        chains it is (a - b) times the shift of the first alone, (b - c) times that of the first two, and
        c times that of all. So it is continuous in each of them, and linear where one or all fade.
        The eased distances are those with this chain at full influence: its pose is blended later.
        """
        levels = -np.sort(-self.weight, axis=1)
        below = np.concatenate([levels[:, 1:], np.zeros((len(levels), 1))], axis=1)
        shift = np.zeros((len(levels), 3))
        seen = np.zeros(self.centers.shape)
        full = np.where(self.weight > 0.0, self.weight, 1.0)
        for level, under in zip(levels.T, below.T, strict=True):
            if not (level > under).any():
                continue
            counts = (self.weight >= level[:, None]) & (self.weight > 0.0)
            here = replace(self, weight=counts.astype(float))
            wanted = here.wanted()
            shift += (level - under)[:, None] * here.allowed(wanted)
            share = np.minimum(level[:, None] / full, 1.0) - np.minimum(under[:, None] / full, 1.0)
            seen += share[..., None] * wanted[:, None]
        return shift, length(self.centers - seen)

    def wanted(self) -> np.ndarray:
        """``(F, 3)`` in armature space, however far.

        The early shift where it brings all targets as near as they need; else on the way from there
        to what the targets ask for, no further than it takes.
        """
        asked = balanced_shift(self.centers, self.outer, self.softness, self.weight)
        early = self._early()
        if early is None:
            return asked
        step, way = asked - early, self.centers - early[:, None]
        # A chain that has not come to its soft zone needs nothing.
        onset = (1.0 - np.clip(np.maximum(self.softness, EASE_IN), 0.0, 1.0)) * self.outer
        needed = np.maximum(length(self.centers - asked[:, None]), onset)
        # The smaller t with |way - t step| = needed: from there on a target is near enough.
        over = np.where(self.weight > 0.0, dot(way, way) - needed**2, 0.0)
        along = dot(way, step[:, None])
        bottom = along + np.sqrt(np.maximum(along**2 - over * dot(step, step)[:, None], 0.0))
        share = np.where(over > 0.0, over / np.where(bottom > 0.0, bottom, 1.0), 0.0)
        return early + np.clip(share, 0.0, 1.0).max(axis=1)[:, None] * step

    def _early(self) -> np.ndarray | None:
        """What the targets on the frames around ask for, ``(F, 3)``, if any. It starts before a target is
        out of reach, and ends after it."""
        if self.around is None or self.counts is None:
            return None
        frames, chains, steps, _ = self.around.shape
        rows = np.swapaxes(self.around, 1, 2).reshape(frames * steps, chains, 3)
        spread = (np.repeat(values, steps, axis=0) for values in (self.outer, self.softness, self.weight))
        asked = balanced_shift(rows, *spread).reshape(frames, steps, 3)
        middle = steps // 2
        out = asked[:, middle].copy()
        for count in np.unique(self.counts[self.counts > 0]).tolist():
            at = self.counts == count
            out[at] = hull(asked[at, middle - count : middle + count + 1])
        return out

    def allowed(self, shift: np.ndarray) -> np.ndarray:
        """A shift ``(F, 3)`` no larger than the chains that count let it be."""
        moved = transform_vector(self.world, shift)
        size = length(moved)
        largest = np.where(self.weight > 0.0, self.largest, 0.0).max(axis=1)
        share = length(limited_shift(moved, largest)) / np.where(size > 0.0, size, 1.0)
        return shift * share[:, None]


def move_bones(work: Work, pulls: Sequence[Pull]) -> dict[int, Say]:
    """Shift the bones that the chains of a wave pull, and pose what hangs on them.

    Returns:
        what the chains wanted, by place of the bone in `Stage.posed`.
    """
    said: dict[int, Say] = {}
    for pull in pulls:
        say = _say(work, pull)
        said[pull.slot] = say
        shift, left = say.shared()
        numbers = np.concatenate([group.chains[columns] for group, columns in pull.chains])
        work.within.update({int(chain): left[:, at] for at, chain in enumerate(numbers)})
        _shift_bone(work, pull.slot, shift)
        repose(work)
    return said


def _say(work: Work, pull: Pull) -> Say:
    parts: list[tuple[np.ndarray, ...]] = []
    for group, columns in pull.chains:
        task = task_of(work, group)
        way, around, outer = _ways(work, task)
        # A target that is no number has no say: only its own chain is BROKEN.
        weight = np.where(np.isfinite(way).all(axis=-1), task.weight, 0.0)
        way = np.where((weight > 0.0)[..., None], way, 0.0)
        around = np.where(np.isfinite(around), around, 0.0)
        fields = (way, around, outer, task.settings["softness"], weight, task.settings["move_max"])
        parts.append(tuple(field[:, columns] for field in fields))
    way, around, outer, softness, weight, largest = (
        np.concatenate(part, axis=1) for part in zip(*parts, strict=True)
    )
    counts = _window(work, pull)
    rig = work.stage.rig_of_bone[work.stage.posed[pull.slot]]
    world = work.objects[:, rig, :3, :3]
    return Say(way, around if counts is not None else None, counts, outer, softness, weight, largest, world)


def _window(work: Work, pull: Pull) -> np.ndarray | None:
    """How many frames to each side count for a bone ``(F,)``: the most that one of its chains asks for."""
    asked = work.batch.settings.get("move_frames")
    if asked is None:
        return None
    numbers = np.concatenate([group.chains[columns] for group, columns in pull.chains])
    counts: np.ndarray = asked[:, numbers].max(axis=1)
    return counts if counts.any() else None


def _ways(work: Work, task: Task) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Vectors ``(F, m, 3)`` from the roots to the targets, ``(F, m, 2N + 1, 3)`` to those on frames around,
    and the chains' full reach ``(F, m)``."""
    joints = joints_of(work, task.group)
    chain = task.group.example
    root, outer = joints[:, :, 0], chain_length(joints)
    if chain.solver == "THREE_BONE":
        # The shoulder as the clavicle brings it toward the target.
        posed = solve_limb(work, task, joints).joints if chain.limb_mode == "CLAVICLE" else joints
        root, outer = limb.reach_of(posed, chain.limb_mode)
    around = task.target[:, :, None] if task.around is None else task.around
    return flat_way(task.group, task.target - root), flat_way(task.group, around - root[:, :, None]), outer


def _shift_bone(work: Work, slot: int, shift: np.ndarray) -> None:
    """Bring a bone's location channel to a shift ``(F, 3)`` from FK, in armature space."""
    bone = work.stage.posed[[slot]]
    parent_pose = work.pose[:, work.stage.parents[bone]]
    frame = parent_transform(work.stage.skeleton, bone, parent_pose).location
    step = shift - work.shift.get(slot, 0.0)
    local = transform_vector(affine_inverse(frame)[:, 0], step)
    work.location[:, slot] += local
    work.basis[:, slot, :3, 3] += local
    work.local[:, slot] = work.stage.offset[slot] @ work.basis[:, slot]
    work.shift[slot] = shift
    work.moved[:, slot] = (shift != 0.0).any(axis=-1)


def close_gaps(work: Work, pulls: Sequence[Pull], said: dict[int, Say], before: np.ndarray) -> None:
    """Shift bones once more where joint limits have kept tips off their targets.

    Args:
        said: what `move_bones` returned.
        before: ``(F, k, 4)`` rotation channels from which the wave was solved.
    """
    for pull in pulls:
        say, found = _say_of_gaps(work, pull, said[pull.slot])
        if not found.any():
            continue
        shift = np.where(found[:, None], say.shared()[0], work.shift[pull.slot])
        scale = max(float(goal.size.max()) for goal in _goals(work, pull))
        if np.abs(shift - work.shift[pull.slot]).max() <= MEANT * scale:
            continue
        _shift_bone(work, pull.slot, shift)
        repose(work)
        for group, _ in pull.chains:
            _solve_again(work, group, before)


def _goals(work: Work, pull: Pull) -> Iterator[Goal]:
    for group, _ in pull.chains:
        yield next(goal for goal in work.goals if goal.group is group)


def _say_of_gaps(work: Work, pull: Pull, say: Say) -> tuple[Say, np.ndarray]:
    """What the chains want now, and the frames ``(F,)`` on which one is off that a shift can help."""
    centers, outer, weight, first = say.centers.copy(), say.outer.copy(), say.weight.copy(), 0
    found = np.zeros(len(centers), bool)
    now = work.shift[pull.slot]
    for (group, columns), goal in zip(pull.chains, _goals(work, pull), strict=True):
        at = slice(first, first + len(columns))
        first = at.stop
        if goal.gap is None or goal.bound is None:
            continue
        may_help = goal.bound[:, columns]
        if group.example.solver == "THREE_BONE":
            # How far such a limb reaches was an estimate.
            may_help = may_help | (goal.status[:, columns] != Status.TARGET_NEAR)
        if not may_help.any():
            continue
        gap = flat_way(group, goal.gap[:, columns])
        off = may_help & (length(gap) > ON_TARGET * goal.size[:, columns]) & (goal.weight[:, columns] > 0.0)
        asked = now[:, None] + goal.weight[:, columns, None] * gap
        centers[:, at] = np.where(off[..., None], asked, centers[:, at])
        outer[:, at] = np.where(off, 0.0, outer[:, at])
        weight[:, at] = np.where(off, 1.0, weight[:, at])
        found |= off.any(axis=1)
    return replace(say, centers=centers, outer=outer, weight=weight), found


def _solve_again(work: Work, group: Group, before: np.ndarray) -> None:
    """Solve a group whose root was moved; the pose that it had stays where it is nearer now."""
    place = next(i for i, goal in enumerate(work.goals) if goal.group is group)
    first = work.goals[place]
    slots = group.written
    held = work.rotation[:, slots].copy()
    kept = length(first.place - joints_of(work, group)[:, :, -1])
    work.rotation[:, slots] = before[:, slots]
    set_channels(work, group, before[:, slots])
    goal = reach(work, task_of(work, group))
    gap = length(goal.place - joints_of(work, group)[:, :, -1])
    keep = (first.weight == 1.0) & (kept <= gap + ON_TARGET * first.size)
    rotation = np.where(keep[..., None, None], held, work.rotation[:, slots])
    set_channels(work, group, rotation)
    work.rotation[:, slots] = rotation
    work.goals[place] = replace(goal, status=np.where(keep, first.status, goal.status))
