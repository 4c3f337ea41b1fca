# SPDX-License-Identifier: GPL-3.0-or-later
"""Solve the frame that Blender has just evaluated, and write it to the pose bones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import bpy
import numpy as np

from ..core.pipeline import solve
from . import anchors, animation, joint_limits, memory
from .memory import Held
from .outcomes import Outcome, outcomes
from .plan import (
    Plan,
    Rig,
    animated_discrete,
    compile_plan,
    discrete_values,
    fingerprint,
    groups_of_rigs,
)
from .raw import Raw, RawRig, read_raw
from .reading import reading_of
from .state import STATE

# Plans kept for values of animated discrete settings: a keyed number has no end of them.
MOST_PLANS = 32


@dataclass
class Compiled:
    """The plans of a group of rigs: one for each set of values of animated discrete settings.

    They hold while the rigs' fingerprints and `limits` do, which may change without an edit or not;
    `constrained` are the bones with Limit Rotation.
    """

    fingerprints: list[tuple]
    constrained: list[list[str]]
    limits: list[tuple]
    limits_may_change: bool
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
        fresh: the frame has just changed (see `raw.read_raw`).
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
    plan = plan_of(rigs, seen, not fresh or depsgraph.id_type_updated("ARMATURE"))
    raw = read_raw(plan, rigs, seen, depsgraph, fresh)
    for each in zip(plan.rigs, rigs, seen, raw.rigs, _outcomes(plan, raw, fresh), strict=True):
        _write(*each)


def _outcomes(plan: Plan, raw: Raw, fresh: bool) -> tuple[Outcome, ...]:
    """What a solve finds; of frames, what it found before for the same numbers."""
    key = (plan.serial, raw.key()) if fresh else None
    found: tuple[Outcome, ...] | None = STATE.recall.get(key) if key else None
    if found is None:
        reading = reading_of(plan, raw)
        found = outcomes(plan, reading, solve(plan.stage, reading.batch))
        if key:
            STATE.recall.put(key, found)
    return found


def _shows_pose(ob: bpy.types.Object, evaluated: bpy.types.Object) -> bool:
    return evaluated.is_evaluated and ob.data.pose_position == "POSE" and ob.mode != "EDIT"


def plan_of(
    rigs: Sequence[bpy.types.Object], seen: Sequence[bpy.types.Object], was_edited: bool = True
) -> Plan:
    """The plan of a group of rigs: the one at hand while nothing it rests on has changed.

    Args:
        was_edited: False where Blender tells that no armature was: then limits are what curves say.
    """
    key = tuple(ob.session_uid for ob in rigs)
    compiled = STATE.plans.get(key)
    if compiled is None or not _holds(compiled, rigs, seen, was_edited):
        for ob in rigs:
            anchors.take_renames(ob)
            memory.release_unused(ob)
        names = animated_discrete(rigs)
        constrained = [joint_limits.constrained_bones(ob) for ob in rigs]
        limits = _limits(rigs, seen, constrained)
        may_change = any(map(joint_limits.may_change, rigs, limits))
        fingerprints = [fingerprint(ob) for ob in rigs]
        compiled = Compiled(fingerprints, constrained, limits, may_change, names, any(names))
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


def _holds(
    compiled: Compiled,
    rigs: Sequence[bpy.types.Object],
    seen: Sequence[bpy.types.Object],
    was_edited: bool,
) -> bool:
    if compiled.fingerprints != [fingerprint(ob) for ob in rigs]:
        return False
    if not (was_edited or compiled.limits_may_change):
        return True
    return compiled.limits == _limits(rigs, seen, compiled.constrained)


def _limits(
    rigs: Sequence[bpy.types.Object],
    seen: Sequence[bpy.types.Object],
    constrained: Sequence[Sequence[str]],
) -> list[tuple]:
    return [joint_limits.fingerprint(*each) for each in zip(rigs, seen, constrained, strict=True)]


def _tell_broken(plan: Plan, rigs: Sequence[bpy.types.Object]) -> None:
    """Leave on each chain why it is broken, and print it once."""
    chains = [chain for ob in rigs for chain in ob.ik_chains]
    for chain, compiled in zip(chains, plan.stage.chains, strict=True):
        if chain.message != compiled.broken:
            chain.message = compiled.broken
        if compiled.broken and STATE.first_report(compiled.broken):
            print(f"IK Chains: {compiled.broken}")


def _write(
    rig: Rig, ob: bpy.types.Object, evaluated: bpy.types.Object, raw: RawRig, outcome: Outcome
) -> None:
    """Write one solved frame to the original object, and the FK rows beside it.

    Where all that is written is there already, as with a planted foot while the body rests, Blender's
    evaluation stands, and is not asked for again: neither of the pose nor of the meshes it deforms.
    """
    bones, as_seen = ob.pose.bones, evaluated.pose.bones
    stale = False
    if len(rig.places):
        at, rows, held = rig.pose_places, outcome.rotation, raw.held[0]
        if not memory.same(rows, held.channels):
            memory.write_rows(bones, rig.modes, at, rows)
            stale = True
        _remember(bones, "rotation", at, held, memory.record(raw.fk, rows, rig.codes))
        stale = stale or not memory.same(rows, memory.read_rows(as_seen, rig.modes, at))
    vectors = zip(rig.vectors, raw.fk_vectors, raw.held[1:], outcome.vectors, strict=True)
    for channel, fk, held, rows in vectors:
        at = channel.pose_places
        if not memory.same(rows, held.channels):
            memory.write_vectors(bones, channel.prop, at, rows)
            stale = True
        _remember(bones, channel.prop, at, held, memory.record(fk, rows, 1.0))
        stale = stale or not memory.same(rows, memory.read_vectors(as_seen, channel.prop, 3)[at])
    if len(ob.ik_chains):
        stale |= _write_results(ob.ik_chains, outcome)
    if stale:
        ob.update_tag(refresh={"DATA"})


def _remember(bones: Any, channel: str, at: np.ndarray, held: Held, record: np.ndarray) -> None:
    if not memory.same(record, held.record):
        memory.write_vectors(bones, f"ik_held_{channel}", at, record)


def _write_results(chains: Any, outcome: Outcome) -> bool:
    """Residuals and statuses of the chains; whether they are other ones than before."""
    changed = False
    for prop, values in (("last_residual", outcome.residual), ("last_status", outcome.status)):
        before = np.empty_like(values)
        chains.foreach_get(prop, before)
        if not memory.same(before, values):
            _set_results(chains, prop, values)
            changed = True
    return changed


def _set_results(chains: Any, prop: str, values: np.ndarray) -> None:
    if memory.takes_arrays(chains, prop):
        chains.foreach_set(prop, values)
        return
    for chain, value in zip(chains, values.tolist(), strict=True):
        setattr(chain, prop, value)
