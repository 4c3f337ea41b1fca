# SPDX-License-Identifier: GPL-3.0-or-later
"""One frame as Blender holds it, before anything is computed from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import bpy
import numpy as np

from ..core.channels import MODES, to_quaternion
from . import memory
from .chain_values import read_values
from .memory import Held
from .plan import Plan, Rig, VectorChannel
from .smoothing import neighbouring_locations, smooth_targets

# Of fewer bones than one in so many, matrices are read one by one: that is quicker then.
FEW_BONES = 50
# More objects than this are read in one call for the whole view layer.
FEW_OBJECTS = 4


@dataclass(frozen=True)
class RawRig:
    """One rig: the p bones that are posed (`Stage.posed`), and the k of them that chains turn.

    Attributes:
        matrices: ``(l, 4, 4)`` evaluated pose matrices of the bones that were read (`Rig.looked_at`, or all).
        location, scale: ``(p, 3)`` float32 evaluated channels; those that chains write are in FK.
        followers: ``(q, 4)`` float32 evaluated rotation rows of the bones that only follow.
        held: what its bones held before: rotations, then its `vectors`.
        fk: ``(k, 4)`` float32 rotation rows in FK; fk_vectors: ``(k, 3)`` of each of its `vectors`.
    """

    matrices: np.ndarray
    location: np.ndarray
    scale: np.ndarray
    followers: np.ndarray
    held: tuple[Held, ...]
    fk: np.ndarray
    fk_vectors: tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Raw:
    """One frame of the rigs of a plan.

    Attributes:
        objects: ``(objects, 4, 4)`` float64 world matrices; settings: as in `core.batch.Batch`.
        whole: all bones were read, not those alone that a solve looks at.
    """

    rigs: tuple[RawRig, ...]
    objects: np.ndarray
    settings: dict[str, np.ndarray]
    whole: bool

    def key(self) -> bytes:
        """All numbers that a solve of the frame depends on, unless the whole was read."""
        parts = [self.objects, *self.settings.values()]
        for raw in self.rigs:
            # What chains write of locations and scales is in FK among them.
            parts += [raw.matrices, raw.location, raw.scale, raw.followers, raw.fk]
        return b"".join(part.tobytes() for part in parts)


def read_raw(
    plan: Plan,
    rigs: Sequence[bpy.types.Object],
    seen: Sequence[bpy.types.Object],
    depsgraph: bpy.types.Depsgraph,
    fresh: bool,
    whole: bool = False,
) -> Raw:
    """Read the frame that `depsgraph` holds.

    Args:
        rigs, seen: the original and the evaluated armature objects of the plan.
        fresh: the frame has just changed, so that curves have set what they animate.
        whole: read where all bones are, not those alone that a solve looks at.
    """
    found = tuple(_read_rig(*each, fresh, whole) for each in zip(plan.rigs, rigs, seen, strict=True))
    settings = read_values(rigs, seen, plan.stage.settings)
    around: dict[str, np.ndarray] = {}
    if plan.stage.moves:
        moves = [chain.handling == "MOVE_ROOT" for chain in plan.stage.chains]
        around = neighbouring_locations(rigs, seen, depsgraph, settings, moves)
    smooth_targets(rigs, seen, depsgraph, settings)
    settings.update(around)
    return Raw(found, _objects(plan, seen, depsgraph), settings, whole)


def _read_rig(
    rig: Rig, ob: bpy.types.Object, evaluated: bpy.types.Object, fresh: bool, whole: bool
) -> RawRig:
    bones, held = evaluated.pose.bones, _held(rig, ob)
    channels = {prop: memory.read_vectors(bones, prop, 3) for prop in memory.VECTORS}
    fk_vectors = []
    for channel, kept in zip(rig.vectors, held[1:], strict=True):
        row = _fk_vectors(channel, kept, bones, fresh)
        channels[channel.prop][channel.pose_places] = row
        fk_vectors.append(row)
    return RawRig(
        matrices=_matrices(bones, rig.order if whole else rig.looked_at),
        location=channels["location"][rig.posed_pose_places],
        scale=channels["scale"][rig.posed_pose_places],
        followers=memory.read_rows(bones, rig.follow_modes, rig.follow_pose_places),
        held=held,
        fk=_fk_rows(rig, held[0], evaluated, fresh),
        fk_vectors=tuple(fk_vectors),
    )


def _matrices(bones: Any, places: np.ndarray) -> np.ndarray:
    """Pose matrices ``(l, 4, 4)`` float32 of the bones at `places`."""
    if len(places) * FEW_BONES > len(bones):
        # Blender hands arrays of matrices out column by column.
        return memory.read_vectors(bones, "matrix", 16).reshape(-1, 4, 4)[places].transpose(0, 2, 1)
    matrices = np.empty((len(places), 4, 4), np.float32)
    for matrix, place in zip(matrices, places.tolist(), strict=True):
        matrix[:] = bones[place].matrix
    return matrices


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
    if not memory.same(codes, rig.codes):
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
