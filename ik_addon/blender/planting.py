# SPDX-License-Identifier: GPL-3.0-or-later
"""Plant the contacts of chains: targets get keys in the world with which the tips rest there.

Contacts are found in the FK motion (`core.contacts`). In each the target is one place; beside
them it goes where FK takes the tip, with an offset that eases (`core.planting`).
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

import bpy
import numpy as np

from ..core import planting, stage
from ..core.contacts import Contact
from ..core.report import length_text
from ..core.transforms import make_compatible
from . import bake_checks, compat, contact_check, keys, smoothing, spaces
from .bake_checks import BakeError, Skipped
from .chain_bones import ChainError, resolve
from .contact_check import ContactReport
from .handling import held_channels
from .keys import LEFT, RIGHT
from .ranges import ChainPlaces, ChainTrack, run, solve_range
from .space_samples import PARTS

# Of the limb's length: an offset that is drawn in by less is not worth a word.
NOTED = 1e-3
# A target whose keys lead the tip further from FK than this has a motion of its own.
ELSEWHERE = 0.2


@dataclass(frozen=True)
class PlantOptions:
    """What to plant.

    Attributes:
        frames: first and last frame.
        chains: a pattern for the names of chains (``*``, ``?``), or None: all.
    """

    frames: tuple[int, int]
    chains: str | None = None


@dataclass(frozen=True)
class Planted:
    """A chain whose contacts were planted.

    Attributes:
        contacts: what `ik_chain.check` finds afterwards, measured anew.
        notes: what else an animator should know, in sentences.
    """

    armature: str
    chain: str
    contacts: list[ContactReport]
    notes: list[str]


@dataclass
class PlantReport:
    """What was planted, and which chains were left as they are."""

    chains: list[Planted] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)


@dataclass(frozen=True)
class _Plan:
    """What will be written for one chain: a path of its target over all frames."""

    ob: bpy.types.Object
    index: int
    contacts: list[Contact]
    values: dict[str, np.ndarray]
    notes: list[str]


def plant(
    scene: bpy.types.Scene, rigs: Sequence[bpy.types.Object], options: PlantOptions
) -> Generator[float, None, PlantReport]:
    """Plant the contacts of chains of some armature objects.

    A coroutine: it yields the progress from 0 to 1 and returns a `PlantReport`. Closed before
    that, it has changed nothing.

    Raises:
        ChainError, BakeError: before anything is changed.
    """
    first, last = options.frames
    if last <= first:
        raise ChainError(f"expected a range of some frames, got {first} to {last}")
    for ob in rigs:
        bake_checks.refuse_locked(ob)
    report = PlantReport()
    chosen = list(_chosen(scene, rigs, options, report))
    if not chosen:
        return report
    frames = [float(frame) for frame in range(first, last + 1)]
    found = yield from _solved(scene, rigs, frames)
    plans = []
    for ob, index in chosen:
        track = found[ob.name, ob.ik_chains[index].name]
        try:
            plans.append(_plan(scene, ob, index, track))
        except ChainError as error:
            report.skipped.append(Skipped(ob.name, track.chain, str(error)))
    for plan in plans:
        # Read anew: what was written for another chain may have given the object another action.
        path = spaces.world_path(plan.ob, plan.index, scene, options.frames)
        path.write({name: _keys(frames, rows, plan.contacts) for name, rows in plan.values.items()})
    if plans:
        found = run(_solved(scene, rigs, frames))
    rate = contact_check.frame_rate(scene)
    for plan in plans:
        track = found[plan.ob.name, plan.ob.ik_chains[plan.index].name]
        contacts = contact_check.reports(plan.ob, track, rate)
        report.chains.append(Planted(track.armature, track.chain, contacts, plan.notes))
    return report


def _chosen(
    scene: bpy.types.Scene, rigs: Sequence[bpy.types.Object], options: PlantOptions, report: PlantReport
) -> Generator[tuple[bpy.types.Object, int], None, None]:
    """The chains that can be planted; the others are reported as skipped."""
    for ob, places in bake_checks.matching(rigs, options.chains):
        for place in places:
            chain = ob.ik_chains[place]
            try:
                _refuse(ob, chain)
                spaces.world_path(ob, place, scene, options.frames)
            except (ChainError, BakeError) as error:
                report.skipped.append(Skipped(ob.name, chain.name, str(error)))
            else:
                yield ob, place


def _refuse(ob: bpy.types.Object, chain: Any) -> None:
    if chain.solver == "AIM":
        raise ChainError("it aims, and has no tip that rests anywhere")
    if chain.use_lean and chain.solver in ("FABRIK", "CCD"):
        raise ChainError("it leans: its tip follows its target only sideways, and cannot be planted")
    if smoothing.may_smooth(ob, chain):
        raise ChainError("Smooth Frames would smooth the keys with which it rests: set it to 0 first")


def _solved(
    scene: bpy.types.Scene, rigs: Sequence[bpy.types.Object], frames: list[float]
) -> Generator[float, None, dict[tuple[str, str], ChainTrack]]:
    """The chains by armature and name."""
    solved = yield from solve_range(scene, rigs, frames, with_places=True)
    return {(track.armature, track.chain): track for track in solved.chains}


def _plan(scene: bpy.types.Scene, ob: bpy.types.Object, index: int, track: ChainTrack) -> _Plan:
    """Raises `ChainError` when there is nothing to plant, or it must not be."""
    chain, places = ob.ik_chains[index], track.places
    assert places is not None
    if track.message:
        raise ChainError(track.message)
    _refuse_custom(chain, places)
    _refuse_keyed(ob, index, track)
    rate = contact_check.frame_rate(scene)
    contacts = contact_check.rests(track, rate)
    if not contacts:
        first, last = track.frames[0], track.frames[-1]
        raise ChainError(
            f"its tip rests nowhere in frames {first:g} to {last:g}: it is never low and slow for long"
        )
    numbers = (places.root, places.reach, places.rotation)
    if not all(np.isfinite(rows).all() for rows in numbers):
        raise ChainError("its pose is no finite number on some frames")
    path = planting.plant(places.tip, places.root, places.reach, contacts, rate)
    values = {PARTS["TARGET"].location: path.target}
    if resolve(ob, chain).end in held_channels(ob, chain).rotation:
        rotation = planting.plant_rotation(make_compatible(places.rotation), contacts, rate)
        values[PARTS["TARGET"].rotation] = rotation
    return _Plan(ob, index, contacts, values, [*_stood(track, places), *_notes(track, path)])


def _refuse_custom(chain: Any, places: ChainPlaces) -> None:
    custom = np.isin(places.kind, (stage.OBJECT, stage.BONE))
    if custom.any():
        name = chain.subtarget or chain.target.name
        raise ChainError(
            f"its target follows '{name}' on {int(custom.sum())} frames, and would leave it: "
            "switch its space to World first, then plant"
        )


def _refuse_keyed(ob: bpy.types.Object, index: int, track: ChainTrack) -> None:
    """Refuse a target whose keys lead the limb elsewhere: planting would put the FK motion in their place."""
    places = track.places
    assert places is not None
    away = np.where(places.muted, 0.0, np.linalg.norm(track.tip - places.tip, axis=1))
    far = away > ELSEWHERE * np.median(places.limb)
    paths = bake_checks.chain_paths(ob, index, "target_location")
    has_keys = any(
        ((track.frames[0] <= frames) & (frames <= track.frames[-1])).any()
        for curve in compat.assigned_curves(ob)
        if curve.data_path in paths
        for frames in [keys.read(curve)[:, keys.FRAME]]
    )
    if far.any() and has_keys:
        raise ChainError(
            f"its target is keyed away from FK, by up to {length_text(float(away.max()))}: planting would put"
            " the FK motion in the place of these keys; bake the chain first, so that FK has its motion"
        )


def _stood(track: ChainTrack, places: ChainPlaces) -> Generator[str, None, None]:
    """A word on a target that stood still and held its tip, away from FK: now it goes where FK does."""
    away = np.linalg.norm(places.target - places.tip, axis=1)
    limb = np.median(places.limb)
    stood = (np.ptp(places.target, axis=0) <= NOTED * limb).all() and (track.residual <= NOTED * limb).all()
    if stood and not places.muted.any() and away.max() > ELSEWHERE * limb:
        yield (
            f"'{track.chain}': its target stood still, and held the tip; now it goes where FK takes the tip,"
            f" by up to {length_text(float(away.max()))} from there"
        )


def _notes(track: ChainTrack, path: planting.Path) -> Generator[str, None, None]:
    assert track.places is not None
    far = path.drawn_in > NOTED * np.median(track.places.limb)
    if far.any():
        most = length_text(float(path.drawn_in.max()))
        yield (
            f"'{track.chain}': beside its contacts the way to the planted places leads out of reach on "
            f"{int(far.sum())} frames, by up to {most}: there the target is drawn in"
        )


def _keys(frames: Sequence[float], rows: np.ndarray, contacts: Sequence[Contact]) -> list[np.ndarray]:
    """Keys for each component of a path ``(F, w)``: two in a contact, with no slope, one a frame beside it.

    The slope of a key is that between its neighbours, so that the path runs smoothly through
    the frames; nothing moves between the keys of a contact.
    """
    slope = np.gradient(rows, axis=0)
    kept = np.ones(len(rows), bool)
    for contact in contacts:
        slope[contact.frames] = 0.0
        kept[contact.first + 1 : contact.last] = False
    times = np.asarray(frames)[kept]
    thirds = np.diff(times) / 3.0
    columns = []
    for values, slopes in zip(rows[kept].T, slope[kept].T, strict=True):
        new = keys.make(times, values)
        new[1:, LEFT] -= np.stack([thirds, thirds * slopes[1:]], axis=1)
        new[:-1, RIGHT] += np.stack([thirds, thirds * slopes[:-1]], axis=1)
        columns.append(new)
    return columns
