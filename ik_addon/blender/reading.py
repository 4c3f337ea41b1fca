# SPDX-License-Identifier: GPL-3.0-or-later
"""Frames of a plan as the solver takes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import bpy
import numpy as np

from ..core.batch import Batch
from ..core.channels import to_quaternion
from .plan import Plan
from .raw import Raw, read_raw

# Settings that only those frames have on which a bone may start to move early.
NEIGHBOURS = ("move_location", "move_frames")


@dataclass(frozen=True)
class Reading:
    """One or more frames of a plan.

    Attributes:
        batch: for the solver.
        fk: ``(F, turned, 4)`` FK channel rows of the bones that chains turn, rig by rig.
        fk_vectors: for each rig and each of its `vectors`, ``(F, k, 3)`` FK rows.
    """

    batch: Batch
    fk: np.ndarray
    fk_vectors: tuple[tuple[np.ndarray, ...], ...]


def read(
    plan: Plan,
    rigs: Sequence[bpy.types.Object],
    seen: Sequence[bpy.types.Object],
    depsgraph: bpy.types.Depsgraph,
    fresh: bool,
    whole: bool = False,
) -> Reading:
    """Read the frame that `depsgraph` holds; arguments as those of `raw.read_raw`."""
    return reading_of(plan, read_raw(plan, rigs, seen, depsgraph, fresh, whole))


def reading_of(plan: Plan, raw: Raw) -> Reading:
    """What was read of one frame, for the solver."""
    count, places = len(plan.stage.skeleton.names), len(plan.stage.posed)
    pose = np.full((1, count, 4, 4), np.nan)
    location, rotation, scale = np.empty((1, places, 3)), np.empty((1, places, 4)), np.empty((1, places, 3))
    for rig, read_rig in zip(plan.rigs, raw.rigs, strict=True):
        pose[0, rig.bones if raw.whole else rig.looked_at_bones] = read_rig.matrices
        rotation[0, rig.places] = to_quaternion(read_rig.fk, rig.modes)
        if len(rig.follow_places):
            rotation[0, rig.follow_places] = to_quaternion(read_rig.followers, rig.follow_modes)
        location[0, rig.posed_places], scale[0, rig.posed_places] = read_rig.location, read_rig.scale
    batch = Batch(
        pose=pose,
        objects=raw.objects[None],
        location=location,
        rotation=rotation,
        scale=scale,
        settings=raw.settings,
    )
    fk = np.concatenate([read_rig.fk for read_rig in raw.rigs])[None]
    vectors = tuple(tuple(row[None] for row in read_rig.fk_vectors) for read_rig in raw.rigs)
    return Reading(batch, fk, vectors)


def stack(readings: Sequence[Reading]) -> Reading:
    """Readings of single frames as one of many."""
    batches = [reading.batch for reading in readings]

    def joined(name: str) -> np.ndarray:
        return np.concatenate([getattr(batch, name) for batch in batches])

    own = [name for name in batches[0].settings if name not in NEIGHBOURS]
    settings = {name: np.concatenate([b.settings[name] for b in batches]) for name in own}
    settings.update(_stacked_neighbours(batches))
    names = ("pose", "objects", "location", "rotation", "scale")
    batch = Batch(**{name: joined(name) for name in names}, settings=settings)
    vectors = tuple(
        tuple(np.concatenate(rows) for rows in zip(*rigs, strict=True))
        for rigs in zip(*(reading.fk_vectors for reading in readings), strict=True)
    )
    return Reading(batch, np.concatenate([r.fk for r in readings]), vectors)


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
