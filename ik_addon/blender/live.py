# SPDX-License-Identifier: GPL-3.0-or-later
"""Solve the frame that Blender has just evaluated, and write it to the pose bones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import bpy
import numpy as np

from ..core.channels import from_quaternion
from ..core.pipeline import solve
from ..core.work import Solution
from . import anchors, animation, memory
from .joint_limits import constrained_bones
from .memory import Held
from .plan import (
    Plan,
    Rig,
    VectorChannel,
    animated_discrete,
    compile_plan,
    discrete_values,
    fingerprint,
    groups_of_rigs,
)
from .reading import read
from .state import STATE

# Plans kept for values of animated discrete settings: a keyed number has no end of them.
MOST_PLANS = 32
LARGEST = float(np.finfo(np.float32).max)


@dataclass
class Compiled:
    """The plans of a group of rigs: one for each set of values of animated discrete settings.

    They hold while the rigs' fingerprints do; `constrained` are the bones with Limit Rotation.
    """

    fingerprints: list[tuple]
    constrained: list[list[str]]
    discrete: tuple[tuple[str, ...], ...]
    is_discrete: bool
    plans: dict[tuple, Plan] = field(default_factory=dict)


def rig_groups() -> list[list[bpy.types.Object]]:
    """Armature objects of the file that have chains, or bones that a chain still holds.

    Those that must be solved together stand in one group, with the rigs they look at.
    """
    users = tuple(armature.users for armature in bpy.data.armatures)
    if STATE.groups is not None and STATE.armature_users == users:
        objects = bpy.data.objects
        found = [[objects.get(key) for key in group] for group in STATE.groups]
        if all(ob is not None and ob.type == "ARMATURE" for group in found for ob in group):
            return found
    STATE.forget_plans()
    groups = groups_of_rigs(ob for ob in bpy.data.objects if ob.type == "ARMATURE" and _is_ours(ob))
    STATE.groups = [[_key(ob) for ob in group] for group in groups]
    STATE.armature_users = users
    return groups


def _key(ob: bpy.types.Object) -> str | tuple[str, str]:
    return ob.name if ob.library is None else (ob.name, ob.library.filepath)


def _is_ours(ob: bpy.types.Object) -> bool:
    return ob.pose is not None and bool(len(ob.ik_chains) or memory.has_held(ob))


def solve_group(rigs: Sequence[bpy.types.Object], depsgraph: bpy.types.Depsgraph, fresh: bool) -> None:
    """Solve rigs that belong together at the frame that `depsgraph` holds.

    A rig that is not evaluated, is in edit mode, or shows its rest position, is left alone.

    Args:
        fresh: the frame has just changed (see `reading.read`).
    """
    seen = [ob.evaluated_get(depsgraph) for ob in rigs]
    if not all(map(_shows_pose, rigs, seen)):
        kept = [pair for pair in zip(rigs, seen, strict=True) if _shows_pose(*pair)]
        rigs, seen = [ob for ob, _ in kept], [evaluated for _, evaluated in kept]
    if not rigs:
        return
    if depsgraph.mode == "RENDER":
        for ob, evaluated in zip(rigs, seen, strict=True):
            animation.hand_back(ob, evaluated)
    plan = plan_of(rigs, seen)
    reading = read(plan, rigs, seen, depsgraph, fresh)
    solution = solve(plan.stage, reading.batch)
    first = 0
    parts = zip(plan.rigs, rigs, seen, reading.held, reading.fk_vectors, strict=True)
    for rig, ob, evaluated, held, fk_vectors in parts:
        rows = slice(first, first + len(rig.places))
        first = rows.stop
        _write(rig, ob, evaluated, _Found(reading.fk[:, rows], fk_vectors, held, solution))


@dataclass(frozen=True)
class _Found:
    """What a solve found for one rig.

    Attributes:
        fk, fk_vectors: as in `Reading`, of this rig; held: what its bones held before.
    """

    fk: np.ndarray
    fk_vectors: tuple[np.ndarray, ...]
    held: tuple[Held, ...]
    solution: Solution


def _shows_pose(ob: bpy.types.Object, evaluated: bpy.types.Object) -> bool:
    return evaluated.is_evaluated and ob.data.pose_position == "POSE" and ob.mode != "EDIT"


def plan_of(rigs: Sequence[bpy.types.Object], seen: Sequence[bpy.types.Object]) -> Plan:
    """The plan of a group of rigs: the one at hand while nothing it rests on has changed."""
    key = tuple(ob.session_uid for ob in rigs)
    compiled = STATE.plans.get(key)
    if compiled is None or compiled.fingerprints != _fingerprints(rigs, compiled.constrained):
        for ob in rigs:
            anchors.take_renames(ob)
            memory.release_unused(ob)
        names = animated_discrete(rigs)
        constrained = [constrained_bones(ob) for ob in rigs]
        compiled = Compiled(_fingerprints(rigs, constrained), constrained, names, any(names))
        STATE.plans[key] = compiled
    values = discrete_values(compiled.discrete, seen) if compiled.is_discrete else ()
    plan = compiled.plans.get(values)
    if plan is None:
        if len(compiled.plans) >= MOST_PLANS:
            compiled.plans.clear()
        plan = compiled.plans[values] = compile_plan(rigs, seen)
    if any(STATE.told.get(uid) is not plan for uid in key):
        STATE.told.update(dict.fromkeys(key, plan))
        _tell_broken(plan, rigs)
    return plan


def _fingerprints(rigs: Sequence[bpy.types.Object], constrained: Sequence[Sequence[str]]) -> list[tuple]:
    return [fingerprint(ob, names) for ob, names in zip(rigs, constrained, strict=True)]


def _tell_broken(plan: Plan, rigs: Sequence[bpy.types.Object]) -> None:
    """Leave on each chain why it is broken, and print it once."""
    chains = [chain for ob in rigs for chain in ob.ik_chains]
    for chain, compiled in zip(chains, plan.stage.chains, strict=True):
        if chain.message != compiled.broken:
            chain.message = compiled.broken
        if compiled.broken and STATE.first_report(compiled.broken):
            print(f"IK Chains: {compiled.broken}")


def solved_rows(rig: Rig, fk: np.ndarray, solution: Solution) -> np.ndarray:
    """Channel rows ``(F, k, 4)`` float32 of a solution; unchanged bones keep their FK row to the bit."""
    rows = from_quaternion(solution.rotation[:, rig.places], rig.modes, fk).astype(np.float32)
    changed = solution.changed[:, rig.places]
    return rows if changed.all() else np.where(changed[..., None], rows, fk)


def solved_vectors(channel: VectorChannel, fk: np.ndarray, solution: Solution) -> np.ndarray:
    """Rows ``(F, k, 3)`` float32 of a solved location or scale channel."""
    is_location = channel.prop == "location"
    rows = solution.location if is_location else solution.scale
    changed = vectors_changed(channel, solution)
    return np.where(changed[..., None], rows[:, channel.places].astype(np.float32), fk)


def vectors_changed(channel: VectorChannel, solution: Solution) -> np.ndarray:
    """``(F, k)`` where chains write a location or scale channel."""
    changed = solution.moved if channel.prop == "location" else solution.scaled
    return changed[:, channel.places]


def _write(rig: Rig, ob: bpy.types.Object, evaluated: bpy.types.Object, found: _Found) -> None:
    """Write one solved frame to the original object, and the FK rows beside it.

    Where all that is written is there already, as with a planted foot while the body rests, Blender's
    evaluation stands, and is not asked for again: neither of the pose nor of the meshes it deforms.
    """
    stale = _write_rotation(rig, ob, evaluated, found) if len(rig.places) else False
    for channel, fk, held in zip(rig.vectors, found.fk_vectors, found.held[1:], strict=True):
        stale |= _write_vectors(channel, ob, evaluated, fk, held, found.solution)
    if len(ob.ik_chains):
        stale |= _write_results(rig, ob, found.solution)
    if stale:
        ob.update_tag(refresh={"DATA"})


def _write_rotation(rig: Rig, ob: bpy.types.Object, evaluated: bpy.types.Object, found: _Found) -> bool:
    """Whether it is not what was evaluated."""
    rows = solved_rows(rig, found.fk, found.solution)[0]
    held, bones, at = found.held[0], ob.pose.bones, rig.pose_places
    same = np.array_equal(rows, held.channels)
    if not same:
        memory.write_rows(bones, rig.modes, at, rows)
    _remember(ob, "rotation", at, held, memory.record(found.fk[0], rows, rig.codes))
    return not (same and np.array_equal(rows, memory.read_rows(evaluated.pose.bones, rig.modes, at)))


def _write_vectors(
    channel: VectorChannel,
    ob: bpy.types.Object,
    evaluated: bpy.types.Object,
    fk: np.ndarray,
    held: Held,
    solution: Solution,
) -> bool:
    """Whether it is not what was evaluated."""
    rows, at = solved_vectors(channel, fk, solution)[0], channel.pose_places
    same = np.array_equal(rows, held.channels)
    if not same:
        memory.write_vectors(ob.pose.bones, channel.prop, at, rows)
    _remember(ob, channel.prop, at, held, memory.record(fk[0], rows, 1.0))
    return not (same and np.array_equal(rows, memory.read_vectors(evaluated.pose.bones, channel.prop, 3)[at]))


def _remember(ob: bpy.types.Object, channel: str, at: np.ndarray, held: Held, record: np.ndarray) -> None:
    if not np.array_equal(record, held.record):
        memory.write_vectors(ob.pose.bones, f"ik_held_{channel}", at, record)


def _write_results(rig: Rig, ob: bpy.types.Object, solution: Solution) -> bool:
    """Residuals and statuses of the chains; whether they are other ones than before."""
    residual = np.minimum(solution.residual[0, rig.chains], LARGEST).astype(np.float32)
    status = solution.status[0, rig.chains].astype(np.int32)
    changed = False
    for prop, values in (("last_residual", residual), ("last_status", status)):
        before = np.empty_like(values)
        ob.ik_chains.foreach_get(prop, before)
        if not np.array_equal(before, values):
            ob.ik_chains.foreach_set(prop, values)
            changed = True
    return changed
