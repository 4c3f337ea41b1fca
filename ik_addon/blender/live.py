# SPDX-License-Identifier: GPL-3.0-or-later
"""Solve the frame that Blender has just evaluated, and write it to the pose bones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import bpy
import numpy as np

from ..core.channels import from_quaternion
from ..core.pipeline import Solution, solve
from . import anchors, animation, memory
from .plan import Plan, Rig, compile_plan, discrete_values, groups_of_rigs, mode_codes
from .reading import read
from .state import STATE


def chained_rigs() -> list[bpy.types.Object]:
    """Armature objects of the file that have chains, or bones that a chain still holds."""
    users = tuple(armature.users for armature in bpy.data.armatures)
    if STATE.rigs is not None and STATE.armature_users == users:
        found = [bpy.data.objects.get(key) for key in STATE.rigs]
        if all(ob is not None and ob.type == "ARMATURE" for ob in found):
            return found
    STATE.forget_plans()
    found = [ob for ob in bpy.data.objects if ob.type == "ARMATURE" and _is_ours(ob)]
    STATE.rigs = tuple(ob.name if ob.library is None else (ob.name, ob.library.filepath) for ob in found)
    STATE.armature_users = users
    return found


def _is_ours(ob: bpy.types.Object) -> bool:
    return ob.pose is not None and bool(len(ob.ik_chains) or memory.held_bones(ob))


def solve_rigs(rigs: Iterable[bpy.types.Object], depsgraph: bpy.types.Depsgraph, fresh: bool) -> None:
    """Solve rigs, and those they depend on, at the frame that `depsgraph` holds.

    Args:
        fresh: the frame has just changed (see `reading.read`).
    """
    for group in groups_of_rigs(rigs):
        seen = [ob.evaluated_get(depsgraph) for ob in group]
        present = [
            (ob, evaluated)
            for ob, evaluated in zip(group, seen, strict=True)
            if evaluated.is_evaluated and ob.data.pose_position == "POSE" and ob.mode != "EDIT"
        ]
        if present:
            _solve_group([ob for ob, _ in present], [evaluated for _, evaluated in present], fresh)


def _solve_group(
    rigs: Sequence[bpy.types.Object], seen: Sequence[bpy.types.Object], fresh: bool
) -> None:
    plan = plan_of(rigs, seen)
    reading = read(plan, rigs, seen, fresh)
    solution = solve(plan.stage, reading.batch)
    first = 0
    for number, (rig, ob) in enumerate(zip(plan.rigs, rigs, strict=True)):
        rows = slice(first, first + len(rig.places))
        first = rows.stop
        write(rig, ob, reading.fk[0, rows], reading.written[number], solution)


def plan_of(rigs: Sequence[bpy.types.Object], seen: Sequence[bpy.types.Object]) -> Plan:
    """The plan of a group of rigs: the one at hand while nothing it depends on has changed."""
    key = (tuple(ob.session_uid for ob in rigs), discrete_values(rigs, seen))
    plan = STATE.plans.get(key)
    if plan is None or not _is_current(plan, rigs):
        for ob in rigs:
            anchors.take_renames(ob)
            memory.release_unused(ob)
        plan = STATE.plans[key] = compile_plan(rigs, seen)
        _tell_broken(plan, rigs)
    return plan


def _is_current(plan: Plan, rigs: Sequence[bpy.types.Object]) -> bool:
    return all(
        rig.name == ob.name
        and len(rig.order) == len(ob.pose.bones)
        and rig.chains.stop - rig.chains.start == len(ob.ik_chains)
        and rig.signature == animation.signature(ob)
        and rig.mode_codes == mode_codes(ob)
        for rig, ob in zip(plan.rigs, rigs, strict=True)
    )


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
    rows = from_quaternion(solution.rotation[:, rig.places], rig.modes, fk)
    return np.where(solution.changed[:, rig.places, None], rows.astype(np.float32), fk)


def write(rig: Rig, ob: bpy.types.Object, fk: np.ndarray, written: np.ndarray, solution: Solution) -> None:
    """Write one solved frame to the original object and remember the FK rows beside it."""
    if len(rig.places):
        rows = solved_rows(rig, fk[None], solution)[0]
        bones, at = ob.pose.bones, rig.pose_places
        if not np.array_equal(rows, written):
            memory.write_rows(bones, rig.modes, at, rows)
        codes = np.array([[memory.MODE_CODES[mode]] for mode in rig.modes], np.int32)
        memory.write_vectors(bones, "ik_fk_rotation", at, fk)
        memory.write_vectors(bones, "ik_solved_rotation", at, rows)
        memory.write_scalars(bones, "ik_held_mode", at, codes[:, 0])
        ob.update_tag(refresh={"DATA"})
    ob.ik_chains.foreach_set("last_residual", solution.residual[0, rig.chains].astype(np.float32))
    ob.ik_chains.foreach_set("last_status", solution.status[0, rig.chains].astype(np.int32))


