# SPDX-License-Identifier: GPL-3.0-or-later
"""Read what a plan needs from Blender at the frame that was just evaluated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import bpy
import numpy as np

from ..core.batch import Batch
from ..core.channels import MODES, to_quaternion
from . import memory
from .memory import Held
from .plan import Plan, Rig, VectorChannel
from .smoothing import neighbouring_locations, smooth_targets

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
    "share": 1,
    "share_max": 1,
    "lean": 1,
    "aim_offset": 3,
    "aim_limit": 1,
    "aim_damping": 1,
    "move_max": 1,
    "stretch_max": 1,
    "smooth_frames": 1,
}
INTEGERS = {"bend_sign", "smooth_frames"}
_WIDTH = sum(SETTINGS.values())
# More objects than this are read in one call for the whole view layer.
FEW_OBJECTS = 4


@dataclass(frozen=True)
class Reading:
    """One or more frames of a plan, as they were read.

    Attributes:
        batch: for the solver.
        fk: ``(F, turned, 4)`` FK channel rows of the bones that chains turn, rig by rig.
        fk_vectors: for each rig and each of its `vectors`, ``(F, k, 3)`` FK rows.
        held: for each rig what its bones held before, at the last frame: rotations, then its `vectors`.
    """

    batch: Batch
    fk: np.ndarray
    fk_vectors: tuple[tuple[np.ndarray, ...], ...]
    held: tuple[tuple[Held, ...], ...]


def read(
    plan: Plan,
    rigs: Sequence[bpy.types.Object],
    seen: Sequence[bpy.types.Object],
    depsgraph: bpy.types.Depsgraph,
    fresh: bool,
) -> Reading:
    """Read the frame that `depsgraph` holds.

    Args:
        rigs, seen: the original and the evaluated armature objects of the plan.
        fresh: the frame has just changed, so that curves have set what they animate.
    """
    count, places = len(plan.stage.skeleton.names), len(plan.stage.posed)
    pose = np.empty((1, count, 4, 4))
    location, scale = np.zeros((1, places, 3)), np.ones((1, places, 3))
    rotation = np.zeros((1, places, 4))
    rotation[..., 0] = 1.0
    fk, fk_vectors, held = [], [], []
    for rig, ob, evaluated in zip(plan.rigs, rigs, seen, strict=True):
        bones = evaluated.pose.bones
        matrices = memory.read_vectors(bones, "matrix", 16).reshape(-1, 4, 4)
        # Blender hands matrices out column by column.
        pose[0, rig.bones] = matrices[rig.order].transpose(0, 2, 1)
        location[0, rig.places] = memory.read_vectors(bones, "location", 3)[rig.pose_places]
        scale[0, rig.places] = memory.read_vectors(bones, "scale", 3)[rig.pose_places]
        if len(rig.follow_places):
            _read_followers(rig, bones, location, rotation, scale)
        held.append(_held(rig, ob))
        fk.append(_fk_rows(rig, held[-1][0], evaluated, fresh))
        rotation[0, rig.places] = to_quaternion(fk[-1], rig.modes)
        vectors = []
        for channel, kept in zip(rig.vectors, held[-1][1:], strict=True):
            row = _fk_vectors(channel, kept, bones, fresh)
            (location if channel.prop == "location" else scale)[0, channel.places] = row
            vectors.append(row[None])
        fk_vectors.append(tuple(vectors))
    settings = _settings(plan, rigs, seen)
    around: dict[str, np.ndarray] = {}
    if plan.stage.moves:
        moves = [chain.handling == "MOVE_ROOT" for chain in plan.stage.chains]
        around = neighbouring_locations(rigs, seen, depsgraph, settings, moves)
    smooth_targets(rigs, seen, depsgraph, settings)
    settings.update(around)
    batch = Batch(
        pose=pose,
        objects=_objects(plan, seen, depsgraph)[None],
        location=location,
        rotation=rotation,
        scale=scale,
        settings=settings,
    )
    return Reading(batch, np.concatenate(fk)[None], tuple(fk_vectors), tuple(held))


def stack(readings: Sequence[Reading]) -> Reading:
    """Readings of single frames as one of many."""
    batches = [reading.batch for reading in readings]

    def joined(name: str) -> np.ndarray:
        return np.concatenate([getattr(batch, name) for batch in batches])

    settings = {name: np.concatenate([b.settings[name] for b in batches]) for name in (*SETTINGS, "mute")}
    settings.update(_stacked_neighbours(batches))
    names = ("pose", "objects", "location", "rotation", "scale")
    batch = Batch(**{name: joined(name) for name in names}, settings=settings)
    vectors = tuple(
        tuple(np.concatenate(rows) for rows in zip(*rigs, strict=True))
        for rigs in zip(*(reading.fk_vectors for reading in readings), strict=True)
    )
    return Reading(batch, np.concatenate([r.fk for r in readings]), vectors, readings[-1].held)


def _stacked_neighbours(batches: Sequence[Batch]) -> dict[str, np.ndarray]:
    """Where targets are on frames around each; those beyond a frame's own `move_frames` do not count."""
    if not any("move_frames" in batch.settings for batch in batches):
        return {}
    still = np.zeros(batches[0].settings["influence"].shape, int)
    counts = np.concatenate([batch.settings.get("move_frames", still) for batch in batches])
    locations = []
    for batch, count in zip(batches, counts.max(axis=1).tolist(), strict=True):
        here = batch.settings["target_location"][:, :, None]
        missing = np.repeat(here, counts.max() - count, axis=2)
        locations.append(
            np.concatenate([missing, batch.settings.get("move_location", here), missing], axis=2)
        )
    return {"move_location": np.concatenate(locations), "move_frames": counts}


def _read_followers(
    rig: Rig, bones: Any, location: np.ndarray, rotation: np.ndarray, scale: np.ndarray
) -> None:
    """Read the evaluated channels of the bones that only follow."""
    at, pose_at = rig.follow_places, rig.follow_pose_places
    location[0, at] = memory.read_vectors(bones, "location", 3)[pose_at]
    scale[0, at] = memory.read_vectors(bones, "scale", 3)[pose_at]
    rotation[0, at] = to_quaternion(memory.read_rows(bones, rig.follow_modes, pose_at), rig.follow_modes)


def _held(rig: Rig, ob: bpy.types.Object) -> tuple[Held, ...]:
    bones, at = ob.pose.bones, rig.pose_places
    rotation = memory.read_held(bones, "rotation", at, memory.read_rows(bones, rig.modes, at))
    return (rotation, *(_held_vectors(channel, bones) for channel in rig.vectors))


def _held_vectors(channel: VectorChannel, bones: Any) -> Held:
    at = channel.pose_places
    return memory.read_held(bones, channel.prop, at, memory.read_vectors(bones, channel.prop, 3)[at])


def _fk_vectors(channel: VectorChannel, kept: Held, evaluated: Any, fresh: bool) -> np.ndarray:
    """FK rows ``(k, 3)`` of a location or scale channel, as `_fk_rows` has them for rotation."""
    current = kept.channels
    if channel.animated.any():
        rows = memory.read_vectors(evaluated, channel.prop, 3)[channel.pose_places]
        current = np.where(channel.animated, rows, current)
    return memory.fk_rows(current, kept.marks != 0.0, kept.fk, kept.solved, channel.animated, fresh)


def _fk_rows(rig: Rig, held: Held, evaluated: bpy.types.Object, fresh: bool) -> np.ndarray:
    """FK channel rows ``(k, 4)`` of the bones that chains turn.

    What no curve animates is taken from the original object, since only there it is known
    what was written last; what a curve animates is read as evaluated.
    """
    if not rig.is_animated and held.is_as_written(rig.codes):
        return held.fk
    current = held.channels
    if rig.is_animated:
        rows = memory.read_rows(evaluated.pose.bones, rig.modes, rig.pose_places)
        current = np.where(rig.animated, rows, current)
    fk, solved, codes = held.fk, held.solved, held.marks
    if not np.array_equal(codes, rig.codes):
        other_mode = np.flatnonzero((codes != 0.0) & (codes != rig.codes))
        fk, solved = _converted(rig, other_mode, codes, current, fk, solved)
    return memory.fk_rows(current, codes != 0.0, fk, solved, rig.animated, fresh)


def _converted(
    rig: Rig, places: np.ndarray, codes: np.ndarray, current: np.ndarray, fk: np.ndarray, solved: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The memory of bones whose rotation mode was changed since, in their present mode.

    Blender converted the channel too, with its own rounding: what is equal but for that
    still is what was written.
    """
    before = [MODES[int(code) - 1] for code in codes[places]]
    after = [rig.modes[place] for place in places]
    fk, solved = fk.copy(), solved.copy()
    fk[places] = memory.change_mode(fk[places], before, after)
    turned = to_quaternion(solved[places].astype(np.float64), before)
    now = to_quaternion(current[places].astype(np.float64), after)
    same = np.abs(np.einsum("ki,ki->k", turned, now)) > 1.0 - 1e-10
    solved[places] = np.where(same[:, None], current[places], np.nan)
    return fk, solved


def _objects(plan: Plan, seen: Sequence[bpy.types.Object], depsgraph: bpy.types.Depsgraph) -> np.ndarray:
    """World matrices ``(objects, 4, 4)`` of the plan's objects as evaluated."""
    out = np.empty((len(seen) + len(plan.links), 4, 4))
    for place, ob in enumerate(seen):
        out[place] = ob.matrix_world
    missing: Sequence[int] = range(len(plan.links))
    if len(plan.links) > FEW_OBJECTS:
        missing = _read_in_bulk(plan, seen, depsgraph, out)
    if len(missing):
        # Looking up chain i walks past those before it, so walk once.
        chains = [list(ob.ik_chains) for ob in seen]
        for place in missing:
            link = plan.links[place]
            out[len(seen) + place] = getattr(chains[link.rig][link.chain], link.prop).matrix_world
    return out


def _read_in_bulk(
    plan: Plan, seen: Sequence[bpy.types.Object], depsgraph: bpy.types.Depsgraph, out: np.ndarray
) -> Sequence[int]:
    """Read linked objects of the view layer in one call; returns the places of those it has not."""
    objects = depsgraph.view_layer_eval.objects
    key = (depsgraph.scene.session_uid, depsgraph.view_layer.name, depsgraph.mode)
    rows, missing, count = plan.object_rows.get(key, (None, (), -1))
    if count != len(objects):
        rows, missing = _rows_of_links(plan, seen, objects)
        plan.object_rows[key] = (rows, missing, len(objects))
    matrices = memory.read_vectors(objects, "matrix_world", 16).reshape(-1, 4, 4)
    out[len(seen) :] = matrices[rows].transpose(0, 2, 1)
    return missing


def _rows_of_links(
    plan: Plan, seen: Sequence[bpy.types.Object], objects: Any
) -> tuple[np.ndarray, Sequence[int]]:
    """For each link its place among `objects` (0 where it has none), and the links without one."""
    # Evaluated copies have no session uid of their own.
    places = {ob.original.session_uid: place for place, ob in enumerate(objects)}
    chains = [list(ob.ik_chains) for ob in seen]
    linked = [getattr(chains[link.rig][link.chain], link.prop) for link in plan.links]
    found = [places.get(ob.original.session_uid, -1) for ob in linked]
    rows = np.array(found)
    return np.maximum(rows, 0), np.flatnonzero(rows < 0).tolist()


def _settings(
    plan: Plan, rigs: Sequence[bpy.types.Object], seen: Sequence[bpy.types.Object]
) -> dict[str, np.ndarray]:
    """Evaluated settings ``(1, chains, ...)``."""
    parts = [_settings_of(ob, evaluated) for ob, evaluated in zip(rigs, seen, strict=True)]
    if len(parts) == 1:
        return parts[0]
    return {name: np.concatenate([part[name] for part in parts], axis=1) for name in parts[0]}


def _settings_of(ob: bpy.types.Object, evaluated: bpy.types.Object) -> dict[str, np.ndarray]:
    # A chain that was just added is not evaluated yet.
    chains: Any = evaluated.ik_chains
    count = len(chains)
    if count != len(ob.ik_chains):
        chains = ob.ik_chains
        count = len(chains)
    # One array for all: each further one costs as much as reading it.
    flat = np.empty(_WIDTH * count, np.float32)
    whole = np.empty(count, np.int32)
    layout = _layout(count)
    for name, at, _ in layout:
        if name in INTEGERS:
            chains.foreach_get(name, whole)
            flat[at] = whole
        else:
            chains.foreach_get(name, flat[at])
    exact = flat.astype(np.float64)
    settings = {name: exact[at].reshape(shape) for name, at, shape in layout}
    muted = np.empty(count, bool)
    chains.foreach_get("mute", muted)
    if muted.any():
        settings["influence"][0, muted] = 0.0
    settings["mute"] = muted[None]
    return settings


@lru_cache(maxsize=64)
def _layout(count: int) -> tuple[tuple[str, slice, tuple[int, ...]], ...]:
    """Where the settings of so many chains stand in one array, and their shapes."""
    found, first = [], 0
    for name, width in SETTINGS.items():
        at = slice(first, first + width * count)
        found.append((name, at, (1, count, width) if width > 1 else (1, count)))
        first = at.stop
    return tuple(found)
