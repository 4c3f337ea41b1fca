# SPDX-License-Identifier: GPL-3.0-or-later
"""Bring the FK and the IK pose of a chain together at the current frame, either way.

Afterwards both are the same pose, so that switching the chain on or off moves nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import bpy
import numpy as np
from mathutils import Matrix, Vector

from ..core import limb
from ..core.channels import to_quaternion
from ..core.pipeline import solve
from ..core.reach import hard_distance
from ..core.transforms import (
    axis_angle_to_matrix,
    length,
    matrix_to_quaternion,
    perpendicular,
    rotation_part,
    transform_point,
)
from ..core.work import Solution
from . import animation, keying, live, memory, outcomes, placing, smoothing
from .chain_bones import ChainError, uses_pole
from .handling import held_channels
from .paths import setting_paths
from .plan import Plan, Rig, groups_of_rigs
from .reading import Reading, read
from .sampling import evaluation
from .state import STATE

# What turns by less than this (radians), or differs by less than this, stays as it is and gets no key.
SAME = 1e-6
# How near the pole brings the bend plane to that of the FK pose (radians), and in how many steps.
PLANE, PLANE_STEPS = 1e-7, 8
# A pole within this sine of the line to the target is first put at right angles to it.
OFF_LINE = 0.2


@dataclass(frozen=True)
class Snap:
    """What a snap did.

    Attributes:
        changed: names of the bones or settings that got another value.
        offset: largest distance between a joint's FK and IK place now, metres in the world.
        angle: largest angle between the FK and the IK rotation of a bone now, radians.
        is_smoothed: they are not 0 since the target's keys are smoothed.
    """

    changed: list[str]
    offset: float
    angle: float
    is_smoothed: bool = False


@dataclass(frozen=True)
class _View:
    """A chain as the solver sees it at the current frame; `number` is its place in the stage."""

    ob: bpy.types.Object
    chain: Any
    plan: Plan
    reading: Reading
    rig: Rig
    number: int

    @property
    def rows(self) -> slice:
        """The rows of the reading that belong to the rig."""
        before = self.plan.rigs[: self.plan.rigs.index(self.rig)]
        first = sum(len(rig.places) for rig in before)
        return slice(first, first + len(self.rig.places))

    def solved(self, **settings: Any) -> Solution:
        """Solve with other settings of this chain."""
        varied = {name: values.copy() for name, values in self.reading.batch.settings.items()}
        for name, value in settings.items():
            varied[name][0, self.number] = value
        return solve(self.plan.stage, replace(self.reading.batch, settings=varied))


@contextmanager
def _looking(ob: bpy.types.Object, index: int) -> Iterator[_View]:
    """Raises `ChainError` when the chain cannot be solved."""
    bpy.context.view_layer.update()
    group = next(group for group in groups_of_rigs([ob]) if ob in group)
    with evaluation(group) as fresh:
        depsgraph = bpy.context.evaluated_depsgraph_get()
        seen = [member.evaluated_get(depsgraph) for member in group]
        plan = live.plan_of(group, seen)
        rig = plan.rigs[group.index(ob)]
        number = rig.chains.start + index
        if plan.stage.chains[number].broken:
            raise ChainError(plan.stage.chains[number].broken)
        yield _View(ob, ob.ik_chains[index], plan, read(plan, group, seen, depsgraph, fresh), rig, number)


def fk_to_ik(ob: bpy.types.Object, index: int, scene: bpy.types.Scene) -> Snap:
    """The FK channels of a chain take the pose that the chain solves to at full influence.

    A channel that curves animate gets a key, any other one with auto-keying on.

    Raises:
        ChainError: before anything is changed.
    """
    with _looking(ob, index) as view:
        names = _fk_to_ik(view, scene)
        handling = view.plan.stage.chains[view.number].handling
    if handling == "ACCEPT" or not names:
        return Snap(names, 0.0, 0.0)
    # Solved on top of its own pose, a chain in its soft zone moves or grows a little more.
    with _looking(ob, index) as view:
        return Snap(names, *_difference(view, view.solved(influence=0.0), view.solved(influence=1.0)))


def _fk_to_ik(view: _View, scene: bpy.types.Scene) -> list[str]:
    """Write the solved pose to FK; the names of the bones that changed."""
    ob, rig = view.ob, view.rig
    fk = view.reading.fk[:, view.rows]
    solution = view.solved(influence=1.0)
    rows = outcomes.solved_rows(rig, fk, solution)[0]
    written = view.plan.stage.chains[view.number].written
    own = np.isin(view.plan.stage.posed[rig.places], written)
    turn = np.einsum("ki,ki->k", to_quaternion(rows, rig.modes), to_quaternion(fk[0], rig.modes))
    places = np.flatnonzero(own & (2.0 * np.arccos(np.minimum(np.abs(turn), 1.0)) > SAME))
    bones = [ob.pose.bones[int(rig.pose_places[place])] for place in places]
    curves = [keying.keyable_curves(ob, [animation.bone_path(b.name, b.rotation_mode)]) for b in bones]
    for bone, place, keyed in zip(bones, places, curves, strict=True):
        prop, width = memory.channel(bone.rotation_mode)
        setattr(bone, prop, rows[place, :width])
        memory.hold(bone, "rotation", rows[place])
        keying.insert(keyed, scene.frame_current_final, rows[place].tolist())
        if not keyed and scene.tool_settings.use_keyframe_insert_auto:
            bone.keyframe_insert(prop, group=bone.name)
    names = [bone.name for bone in bones]
    names.extend(name for name in _snap_vectors(view, solution, scene) if name not in names)
    ob.update_tag()
    return names


def _snap_vectors(view: _View, solution: Solution, scene: bpy.types.Scene) -> list[str]:
    """Locations and scales that the chain writes take their solved values; the bones that changed."""
    ob, changed = view.ob, []
    held = held_channels(ob, view.chain)
    of_rig = view.reading.fk_vectors[view.plan.rigs.index(view.rig)]
    for channel, fk in zip(view.rig.vectors, of_rig, strict=True):
        rows = outcomes.solved_vectors(channel, fk, solution)[0]
        for row, before, place in zip(rows, fk[0], channel.pose_places.tolist(), strict=True):
            bone = ob.pose.bones[place]
            if bone.name not in getattr(held, channel.prop) or not _differs(before, row):
                continue
            changed.append(bone.name)
            keyed = keying.keyable_curves(ob, [animation.vector_path(bone.name, channel.prop)])
            setattr(bone, channel.prop, row)
            memory.hold(bone, channel.prop, row)
            keying.insert(keyed, scene.frame_current_final, row.tolist())
            if not keyed and scene.tool_settings.use_keyframe_insert_auto:
                bone.keyframe_insert(channel.prop, group=bone.name)
    return changed


def ik_to_fk(ob: bpy.types.Object, index: int, scene: bpy.types.Scene) -> Snap:
    """The target of a chain takes the FK pose of its tip, the pole the FK pose's bend plane.

    Both stay in their spaces. A setting that curves animate gets a key. A key of a target that
    is smoothed is the target itself; what smoothing makes of it is measured.

    Raises:
        ChainError: before anything is changed.
    """
    with _looking(ob, index) as view:
        fk = view.solved(influence=0.0)
        done = _ik_to_fk(view, fk, index, scene)
    if not ob.ik_chains[index].smooth_frames:
        return done
    with _looking(ob, index) as view:
        offset, angle = _difference(view, fk, view.solved(influence=1.0))
    return Snap(done.changed, offset, angle, offset > done.offset + SAME or angle > done.angle + SAME)


def _ik_to_fk(view: _View, fk: Solution, index: int, scene: bpy.types.Scene) -> Snap:
    ob = view.ob
    found: dict[str, Any] = {"influence": 1.0, **_target(view, fk)}
    candidates = [found]
    if view.chain.solver == "TWO_BONE" and view.chain.use_planar:
        candidates = [{**found, "bend_sign": sign} for sign in (1, -1)]
    elif uses_pole(view.chain):
        candidates = [_with_pole(view, fk, found)]
    measured = [(_difference(view, fk, view.solved(**settings)), settings) for settings in candidates]
    (offset, angle), settings = min(measured, key=lambda item: item[0])
    del settings["influence"]
    settings = _unsmoothed(view, settings)
    changed = {name: value for name, value in settings.items() if _differs(getattr(view.chain, name), value)}
    paths = {name: setting_paths(view.chain, index, name) for name in changed}
    curves = {name: keying.keyable_curves(ob, paths[name]) for name in changed}
    for name, value in changed.items():
        setattr(view.chain, name, value)
        keying.insert(curves[name], scene.frame_current_final, np.atleast_1d(value).tolist())
    ob.update_tag()
    return Snap(list(changed), offset, angle)


def _unsmoothed(view: _View, settings: dict[str, Any]) -> dict[str, Any]:
    """Settings with the offset of the target to be stored, for the one that the solve shall take."""
    names = ("target_location", "target_rotation")
    offset = [np.array(settings.get(name, getattr(view.chain, name)), float) for name in names]
    stored = smoothing.keyed_offset(view.ob, view.chain, *offset)
    if stored is None:
        return settings
    values = dict(zip(names, stored, strict=True))
    return {**settings, **{name: values[name].astype(np.float32) for name in names if name in settings}}


def _differs(now: Any, value: Any) -> bool:
    now, value = np.array(now, float), np.array(value, float)
    return bool(np.any(np.abs(now - value) > SAME * np.maximum(1.0, np.abs(value))))


# The target


def _target(view: _View, fk: Solution) -> dict[str, Any]:
    """Location and rotation of the target with which the chain stays in its FK pose."""
    chain, compiled = view.chain, view.plan.stage.chains[view.number]
    last = compiled.end if compiled.end >= 0 else compiled.bones[-1]
    matrix = Matrix(fk.pose[0, last])
    matrix.translation = _aim_point(view, fk) if chain.solver == "AIM" else _unsoftened_tip(view, fk)
    wanted = {"target_location"}
    if chain.solver == "AIM" and chain.aim_mode == "MATCH_ROTATION":
        wanted = {"target_rotation"}
    elif compiled.use_rotation:
        wanted.add("target_rotation")
    settings = ("target_space", "target", "subtarget", "solver", "offset_yaw")
    draft = SimpleNamespace(**{name: getattr(chain, name) for name in settings})
    placing.put_target(view.ob, draft, placing.evaluated(view.ob).matrix_world @ matrix)
    if chain.target_rotation.dot(draft.target_rotation) < 0.0:
        draft.target_rotation.negate()
    return {name: np.array(getattr(draft, name), np.float32) for name in wanted}


def _joints(view: _View, fk: Solution) -> np.ndarray:
    """FK positions of root to tip in armature space."""
    compiled = view.plan.stage.chains[view.number]
    heads = fk.pose[0, list(compiled.bones), :3, 3]
    world = np.array(placing.evaluated(view.ob).matrix_world, dtype=np.float64)
    tip = np.linalg.solve(world, [*fk.tip[0, view.number], 1.0])[:3]
    return np.concatenate([heads, tip[None]])


def _unsoftened_tip(view: _View, fk: Solution) -> np.ndarray:
    """The tip, or with softness the point beyond it that is eased to the tip.

    A chain that moves a bone or stretches closes the gap of softness: its target is the tip.
    """
    joints, compiled = _joints(view, fk), view.plan.stage.chains[view.number]
    if compiled.handling != "ACCEPT":
        return joints[-1]
    root, outer = joints[0], length(joints[1:] - joints[:-1]).sum()
    if compiled.solver == "THREE_BONE":
        root, outer = limb.reach_of(joints, compiled.limb_mode)
    distance = length(joints[-1] - root)
    if distance == 0.0:
        return joints[-1]
    softness = view.reading.batch.settings["softness"][0, view.number]
    stretch = hard_distance(distance, outer, softness) / distance
    return root + stretch * (joints[-1] - root)


def _aim_point(view: _View, fk: Solution) -> np.ndarray:
    """The point on the bone's aim ray that is as far from its start as the target is."""
    compiled = view.plan.stage.chains[view.number]
    pose = fk.pose[0, compiled.bones[0]]
    space = placing.space_matrix(view.ob, view.chain.target_space, view.chain.target, view.chain.subtarget)
    to_armature = placing.evaluated(view.ob).matrix_world.inverted_safe() @ space
    start = transform_point(pose, view.reading.batch.settings["aim_offset"][0, view.number])
    target = Vector(view.reading.batch.settings["target_location"][0, view.number])
    distance = length(np.array(to_armature @ target, float) - start)
    sign, axis = (-1.0, compiled.aim_axis[1]) if compiled.aim_axis[0] == "-" else (1.0, compiled.aim_axis)
    ray = sign * rotation_part(pose)[:, "XYZ".index(axis)]
    return start + ray * (distance or view.plan.stage.skeleton.lengths[compiled.bones[0]])


# The pole


def pole_to_bend(ob: bpy.types.Object, index: int, scene: bpy.types.Scene, mode: str) -> Snap:
    """The pole takes the side to which the chain bends now, one limb length away.

    Args:
        mode: POINT or DIRECTION, which the chain takes on.

    Raises:
        ChainError: before anything is changed.
    """
    chain = ob.ik_chains[index]
    values = {name: getattr(chain, name) for name in ("pole_mode", "pole_location")}
    curves = {name: keying.keyable_curves(ob, setting_paths(chain, index, name)) for name in values}
    with _looking(ob, index) as view:
        now = view.solved(influence=1.0)
    with STATE.at_work():
        try:
            chain.pole_mode = mode
            if not uses_pole(chain):
                raise ChainError(f"{ob.name}: chain '{chain.name}' has no use for a pole with these settings")
            placing.put_pole(ob, chain)
            with _looking(ob, index) as view:
                settings = _with_pole(view, now, {"influence": 1.0})
                offset, angle = _difference(view, now, view.solved(**settings))
        except ChainError:
            chain.pole_mode, chain.pole_location = values["pole_mode"], values["pole_location"]
            raise
        chain.pole_location = settings["pole_location"]
        item = chain.bl_rna.properties["pole_mode"].enum_items[mode].value
        keying.insert(curves["pole_mode"], scene.frame_current_final, [float(item)])
        keying.insert(curves["pole_location"], scene.frame_current_final, list(chain.pole_location))
    ob.update_tag()
    return Snap(list(values), offset, angle)


def _with_pole(view: _View, fk: Solution, settings: dict[str, Any]) -> dict[str, Any]:
    """Settings with the pole turned about the line to the target until the FK bend plane is met."""
    chain, compiled = view.chain, view.plan.stage.chains[view.number]
    space = placing.space_matrix(view.ob, chain.pole_space, chain.pole_target, chain.pole_subtarget)
    world = placing.evaluated(view.ob).matrix_world
    into = np.array(world.inverted_safe() @ space, dtype=np.float64)
    root = fk.pose[0, compiled.bones[0], :3, 3]
    tip = _aim_point(view, fk) if chain.solver == "AIM" else _joints(view, fk)[-1]
    if chain.solver == "THREE_BONE":
        root, _, tip = limb.bend_joints(_joints(view, fk), compiled.limb_mode)
    line = (tip - root) / max(length(tip - root), 1e-30)
    origin = np.zeros(3) if chain.pole_mode == "DIRECTION" else into[:3, 3] - root
    pole = into[:3, :3] @ np.array(chain.pole_location, dtype=np.float64) + origin
    if length(np.cross(pole, line)) < OFF_LINE * length(pole):
        pole = perpendicular(line) * length(pole)
    for _ in range(PLANE_STEPS):
        stored = np.linalg.solve(into[:3, :3], pole - origin).astype(np.float32)
        settings = {**settings, "pole_location": stored}
        angle = _turn_about(line, fk, view.solved(**settings), compiled.bones[compiled.bend_root])
        if abs(angle) < PLANE:
            break
        pole = axis_angle_to_matrix(line, np.array(-angle)) @ pole
    return settings


def _turn_about(line: np.ndarray, fk: Solution, ik: Solution, bone: int) -> float:
    """Angle about `line` by which a bone is turned from its FK to its IK pose."""
    turn = rotation_part(ik.pose[0, bone]) @ rotation_part(fk.pose[0, bone]).T
    w, *xyz = matrix_to_quaternion(turn)
    angle = 2.0 * np.arctan2(np.dot(xyz, line), w)
    return float((angle + np.pi) % (2.0 * np.pi) - np.pi)


def _difference(view: _View, fk: Solution, ik: Solution) -> tuple[float, float]:
    """Largest distance between joints (metres in the world) and angle between bones of two poses."""
    bones = list(view.plan.stage.chains[view.number].written)
    world = np.array(placing.evaluated(view.ob).matrix_world, dtype=np.float64)[:3, :3]
    apart = (ik.pose[0, bones, :3, 3] - fk.pose[0, bones, :3, 3]) @ world.T
    tips = ik.tip[0, view.number] - fk.tip[0, view.number]
    turns = rotation_part(ik.pose[0, bones]) @ np.swapaxes(rotation_part(fk.pose[0, bones]), -1, -2)
    q = matrix_to_quaternion(turns)
    angles = 2.0 * np.arctan2(length(q[:, 1:]), np.abs(q[:, 0]))
    offset = max(float(length(apart).max()), float(length(tips)) if view.chain.solver != "AIM" else 0.0)
    return offset, float(angles.max())
