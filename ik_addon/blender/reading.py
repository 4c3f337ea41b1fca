# SPDX-License-Identifier: GPL-3.0-or-later
"""Read what a plan needs from Blender at the frame that was just evaluated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import bpy
import numpy as np

from ..core.channels import MODES, to_quaternion
from ..core.pipeline import Batch
from . import memory
from .plan import Plan, Rig

# Settings that may change from frame to frame, with their number of values.
SETTINGS = {
    "influence": 1,
    "target_location": 3,
    "target_rotation": 4,
    "pole_location": 3,
    "pole_angle": 1,
    "bend_sign": 1,
    "offset_yaw": 1,
    "softness": 1,
}
INTEGERS = {"bend_sign"}


@dataclass(frozen=True)
class Reading:
    """One or more frames of a plan, as they were read.

    Attributes:
        batch: for the solver.
        fk: ``(F, turned, 4)`` FK channel rows of the bones that chains turn, rig by rig.
        written: for each rig ``(k, 4)`` what its channels hold on the original object.
    """

    batch: Batch
    fk: np.ndarray
    written: tuple[np.ndarray, ...]


def read(
    plan: Plan, rigs: Sequence[bpy.types.Object], seen: Sequence[bpy.types.Object], fresh: bool
) -> Reading:
    """Read the frame that was just evaluated.

    Args:
        rigs, seen: the original and the evaluated armature objects of the plan.
        fresh: the frame has just changed, so that curves have set what they animate.
    """
    count, places = len(plan.stage.skeleton.names), len(plan.stage.posed)
    pose = np.empty((1, count, 4, 4))
    location, scale = np.zeros((1, places, 3)), np.ones((1, places, 3))
    rotation = np.zeros((1, places, 4))
    rotation[..., 0] = 1.0
    fk, written = [], []
    for rig, ob, evaluated in zip(plan.rigs, rigs, seen, strict=True):
        bones = evaluated.pose.bones
        matrices = memory.read_vectors(bones, "matrix", 16).reshape(-1, 4, 4)
        # Blender hands matrices out column by column.
        pose[0, rig.bones] = matrices[rig.order].transpose(0, 2, 1)
        if not len(rig.places):
            written.append(np.zeros((0, 4), np.float32))
            continue
        location[0, rig.places] = memory.read_vectors(bones, "location", 3)[rig.pose_places]
        scale[0, rig.places] = memory.read_vectors(bones, "scale", 3)[rig.pose_places]
        rows, original = fk_rows(rig, ob, evaluated, fresh)
        rotation[0, rig.places] = to_quaternion(rows, rig.modes)
        fk.append(rows)
        written.append(original)
    batch = Batch(
        pose=pose,
        objects=_objects(plan, seen)[None],
        location=location,
        rotation=rotation,
        scale=scale,
        settings=_settings(plan, rigs, seen),
    )
    rows = np.concatenate(fk)[None] if fk else np.zeros((1, 0, 4), np.float32)
    return Reading(batch, rows, tuple(written))


def stack(readings: Sequence[Reading]) -> Reading:
    """Readings of single frames as one of many."""
    batches = [reading.batch for reading in readings]

    def joined(name: str) -> np.ndarray:
        return np.concatenate([getattr(batch, name) for batch in batches])

    settings = {name: np.concatenate([b.settings[name] for b in batches]) for name in SETTINGS}
    names = ("pose", "objects", "location", "rotation", "scale")
    batch = Batch(**{name: joined(name) for name in names}, settings=settings)
    return Reading(batch, np.concatenate([r.fk for r in readings]), readings[-1].written)


def fk_rows(
    rig: Rig, ob: bpy.types.Object, evaluated: bpy.types.Object, fresh: bool
) -> tuple[np.ndarray, np.ndarray]:
    """FK channel rows ``(k, 4)`` of the bones that chains turn, and what the original channels hold.

    What no curve animates is read from the original object, since only there it is known
    what was written last; what a curve animates is read as evaluated.
    """
    bones, at = ob.pose.bones, rig.pose_places
    modes = _all_modes(rig, ob)
    original = memory.read_rows(bones, modes)[at]
    current = original
    if rig.animated.any():
        current = np.where(rig.animated, memory.read_rows(evaluated.pose.bones, modes)[at], original)
    codes = np.empty(len(bones), np.int32)
    bones.foreach_get("ik_held_mode", codes)
    codes = codes[at]
    own = np.array([memory.MODE_CODES[mode] for mode in rig.modes], np.int32)
    fk = memory.read_vectors(bones, "ik_fk_rotation", 4)[at]
    solved = memory.read_vectors(bones, "ik_solved_rotation", 4)[at]
    held = codes != 0
    changed = np.flatnonzero(held & (codes != own))
    if len(changed):
        fk, solved = _converted(rig, changed, codes, current, fk, solved)
    components = rig.animated if fresh else np.zeros_like(rig.animated)
    return memory.fk_rows(current, held, fk, solved, components), original


def _converted(
    rig: Rig, places: np.ndarray, codes: np.ndarray, current: np.ndarray, fk: np.ndarray, solved: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The memory of bones whose rotation mode was changed since, in their present mode.

    Blender converted the channel too, with its own rounding: what is equal but for that
    still is what was written.
    """
    before = [MODES[code - 1] for code in codes[places]]
    after = [rig.modes[place] for place in places]
    fk, solved = fk.copy(), solved.copy()
    fk[places] = memory.change_mode(fk[places], before, after)
    turned = to_quaternion(solved[places].astype(np.float64), before)
    now = to_quaternion(current[places].astype(np.float64), after)
    same = np.abs(np.einsum("ki,ki->k", turned, now)) > 1.0 - 1e-10
    solved[places] = np.where(same[:, None], current[places], np.nan)
    return fk, solved


def _all_modes(rig: Rig, ob: bpy.types.Object) -> list[str]:
    """A mode for every bone: those of turned bones; the others' rows are not looked at."""
    modes = ["XYZ" if rig.modes[0] not in memory.CHANNELS else rig.modes[0]] * len(ob.pose.bones)
    for place, mode in zip(rig.pose_places.tolist(), rig.modes, strict=True):
        modes[place] = mode
    return modes


def _objects(plan: Plan, seen: Sequence[bpy.types.Object]) -> np.ndarray:
    """World matrices ``(objects, 4, 4)`` of the plan's objects as evaluated."""
    found = [*seen, *(getattr(seen[link.rig].ik_chains[link.chain], link.prop) for link in plan.links)]
    out = np.empty((len(found), 4, 4))
    for place, ob in enumerate(found):
        out[place] = ob.matrix_world
    return out


def _settings(
    plan: Plan, rigs: Sequence[bpy.types.Object], seen: Sequence[bpy.types.Object]
) -> dict[str, np.ndarray]:
    """Evaluated settings ``(1, chains, ...)``."""
    parts: dict[str, list[np.ndarray]] = {name: [] for name in SETTINGS}
    for ob, evaluated in zip(rigs, seen, strict=True):
        # A chain that was just added is not evaluated yet.
        same = len(evaluated.ik_chains) == len(ob.ik_chains)
        chains: Any = evaluated.ik_chains if same else ob.ik_chains
        for name, width in SETTINGS.items():
            values = np.empty(len(chains) * width, np.int32 if name in INTEGERS else np.float32)
            chains.foreach_get(name, values)
            parts[name].append(values.reshape(-1, width) if width > 1 else values)
        muted = np.empty(len(chains), bool)
        chains.foreach_get("mute", muted)
        parts["influence"][-1][muted] = 0.0
    return {name: np.concatenate(values)[None].astype(np.float64) for name, values in parts.items()}
