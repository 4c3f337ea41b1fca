# SPDX-License-Identifier: GPL-3.0-or-later
"""Solve a range of frames at once: for bakes, checks and reports. Writes nothing."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import bpy
import numpy as np

from ..core.carried import BendPath
from ..core.pipeline import solve
from ..core.places import Places, places
from ..core.stretch import stretched_bones
from ..core.work import Solution
from . import live, outcomes
from .plan import Plan, groups_of_rigs
from .reading import Reading, read, stack
from .sampling import sampling_scene
from .state import STATE

T = TypeVar("T")
# Which of the solved frames are handed out.
Asked = slice | np.ndarray

# `BoneTrack.mode` of channels that are no rotation.
VECTORS = ("LOCATION", "SCALE")
# Frames solved in one call: bounds the memory that a long shot takes.
CHUNK = 500


@dataclass(frozen=True)
class ChainPlaces(Places):
    """`core.places.Places` of one chain over F frames, without their axis of chains, and its settings.

    Attributes:
        location: ``(F, 3)`` of the target in its space; kind: ``(F,)`` of that space, as in `core.stage`.
        influence, softness: ``(F,)``, the influence 0 where the chain is muted.
        muted: ``(F,)`` bool.
    """

    location: np.ndarray
    kind: np.ndarray
    influence: np.ndarray
    softness: np.ndarray
    muted: np.ndarray


@dataclass(frozen=True)
class ChainTrack:
    """The result of one chain over F frames.

    Attributes:
        armature, chain, solver: names.
        frames: ``(F,)``.
        residual: ``(F,)`` metres in world space.
        status: ``(F,)`` values of `core.job.Status`.
        tip: ``(F, 3)`` in world space.
        turned: ``(F,)`` radians by which the bend was turned away from that of the frame by
            itself; 0 unless bend sides are carried.
        message: why the chain is broken, or an empty string.
        places: where it is in FK, and its target; None where nobody asked for it.
    """

    armature: str
    chain: str
    solver: str
    frames: np.ndarray
    residual: np.ndarray
    status: np.ndarray
    tip: np.ndarray
    turned: np.ndarray
    message: str
    places: ChainPlaces | None = None


@dataclass(frozen=True)
class BoneTrack:
    """One channel of a bone over F frames, as chains write it.

    Attributes:
        bone: its name.
        mode: its rotation mode; "LOCATION" or "SCALE" for these channels.
        rows: ``(F, 4)`` solved channel rows (see `core.channels`), ``(F, 3)`` of location and scale.
        changed: ``(F,)`` False where the bone keeps its FK channel.
        chains: names of the chains that write it.
    """

    bone: str
    mode: str
    rows: np.ndarray
    changed: np.ndarray
    chains: tuple[str, ...]


@dataclass(frozen=True)
class RangeSolution:
    """All chains and turned bones of some rigs over F frames; `bones` by armature object name."""

    frames: np.ndarray
    chains: list[ChainTrack]
    bones: dict[str, list[BoneTrack]]


def run(steps: Generator[Any, None, T]) -> T:
    """Run a coroutine to its end, without showing progress, and hand out its value."""
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            return stop.value


def solve_range(
    scene: bpy.types.Scene,
    rigs: Sequence[bpy.types.Object],
    frames: Sequence[float],
    without: Collection[tuple[str, str]] = (),
    carry_from: int | None = None,
    with_places: bool = False,
) -> Generator[float, None, RangeSolution]:
    """Read and solve frames of some rigs, and of the rigs they depend on.

    A coroutine: it yields the progress from 0 to 1 after each frame and returns a
    `RangeSolution`. The caller owns the loop, and may close it at any time.

    Args:
        scene: the scene whose animation is meant.
        frames: ``(F,)``, whole or fractional.
        without: armature and chain names of chains that are solved as if they were muted.
        carry_from: the frame from which two-bone chains carry their bend sides along (see
            `core.carried`), not after the first of the frames; None: each frame for itself.
        with_places: also where the chains are in FK, and their targets.
    """
    path = list(frames) if carry_from is None else _path(carry_from, frames)
    asked = slice(None) if carry_from is None else np.searchsorted(path, frames)
    groups = groups_of_rigs(rigs)
    everything = [ob for group in groups for ob in group]
    chains: list[ChainTrack] = []
    bones: dict[str, list[BoneTrack]] = {}
    parts: list[list[_Part]] = [[] for _ in groups]
    memories: list[dict] = [{} for _ in groups]
    with STATE.at_work(), sampling_scene(scene, everything) as sampling:
        for first in range(0, len(path), CHUNK):
            chunk = path[first : first + CHUNK]
            runs: list[list[tuple[Plan, list[Reading]]]] = [[] for _ in groups]
            for number, frame in enumerate(chunk, start=first + 1):
                sampling.frame_set(int(np.floor(frame)), subframe=float(frame - np.floor(frame)))
                depsgraph = sampling.view_layers[0].depsgraph
                for place, group in enumerate(groups):
                    seen = [ob.evaluated_get(depsgraph) for ob in group]
                    plan = live.plan_of(group, seen)
                    reading = read(plan, group, seen, depsgraph, fresh=True)
                    # A discrete setting that is keyed starts a new run with another plan.
                    if not runs[place] or runs[place][-1][0] is not plan:
                        runs[place].append((plan, []))
                    runs[place][-1][1].append(reading)
                yield number / len(path)
            for place, group_runs in enumerate(runs):
                left_out = _chains_of(groups[place], without)
                at = first
                for plan, readings in group_runs:
                    bend_path = None
                    if carry_from is not None:
                        bend_path = BendPath(np.array(path[at : at + len(readings)]), memories[place])
                    parts[place].append(_solve_run(plan, readings, left_out, bend_path, with_places))
                    at += len(readings)
    times = np.asarray(frames, float)
    for group, group_parts in zip(groups, parts, strict=True):
        for number, ob in enumerate(group):
            if ob in rigs or ob.name in {r.name for r in rigs}:
                chains.extend(_chain_tracks(ob, number, group_parts, times, asked))
                bones[ob.name] = _bone_tracks(ob, number, group_parts, asked)
    return RangeSolution(times, chains, bones)


@dataclass(frozen=True)
class _Part:
    """A run of frames with one plan: rows by rig, and the results of all chains.

    `vectors` has, for each of a rig's `vectors`, its rows and where they were changed.
    """

    plan: Plan
    rows: list[np.ndarray]
    changed: list[np.ndarray]
    vectors: list[list[tuple[np.ndarray, np.ndarray]]]
    residual: np.ndarray
    status: np.ndarray
    tip: np.ndarray
    turned: np.ndarray
    places: dict[str, np.ndarray]


def _chains_of(group: Sequence[bpy.types.Object], without: Collection[tuple[str, str]]) -> list[int]:
    """Places of some chains among those of all rigs of a group."""
    names = [(ob.name, chain.name) for ob in group for chain in ob.ik_chains]
    return [place for place, name in enumerate(names) if name in without]


def _path(first: int, frames: Sequence[float]) -> list[float]:
    """All whole frames from the first one on, and the frames that are asked for."""
    if min(frames) < first:
        raise ValueError(f"the frames start at {min(frames):g}, before {first}")
    return sorted({float(f) for f in range(first, int(np.floor(max(frames))) + 1)} | set(map(float, frames)))


def _solve_run(
    plan: Plan,
    readings: list[Reading],
    left_out: list[int],
    bend_path: BendPath | None,
    with_places: bool,
) -> _Part:
    reading = stack(readings)
    reading.batch.settings["influence"][:, left_out] = 0.0
    solution = solve(plan.stage, reading.batch, bend_path)
    rows, changed, first = [], [], 0
    for rig in plan.rigs:
        fk = reading.fk[:, first : first + len(rig.places)]
        first += len(rig.places)
        rows.append(outcomes.solved_rows(rig, fk, solution))
        changed.append(solution.changed[:, rig.places])
    vectors = [
        [
            (outcomes.solved_vectors(channel, fk, solution), outcomes.vectors_changed(channel, solution))
            for channel, fk in zip(rig.vectors, of_rig, strict=True)
        ]
        for rig, of_rig in zip(plan.rigs, reading.fk_vectors, strict=True)
    ]
    turned = np.zeros(solution.residual.shape)
    if bend_path is not None:
        for chain, angles in bend_path.turned.items():
            turned[:, chain] = angles
    found = _places(plan, reading, solution) if with_places else {}
    return _Part(
        plan, rows, changed, vectors, solution.residual, solution.status, solution.tip, turned, found
    )


def _places(plan: Plan, reading: Reading, solution: Solution) -> dict[str, np.ndarray]:
    """What `ChainPlaces` holds, ``(F, chains, ...)`` each."""
    settings = reading.batch.settings
    kinds = np.array([chain.target.kind for chain in plan.stage.chains])
    return {
        **vars(places(plan.stage, reading.batch, solution)),
        "location": settings["target_location"],
        "kind": np.broadcast_to(kinds, settings["influence"].shape),
        "influence": settings["influence"],
        "softness": settings["softness"],
        "muted": settings["mute"],
    }


def _chain_tracks(
    ob: bpy.types.Object, number: int, parts: Sequence[_Part], frames: np.ndarray, asked: Asked
) -> Iterator[ChainTrack]:
    for i, chain in enumerate(ob.ik_chains):
        at = [part.plan.rigs[number].chains.start + i for part in parts]
        found = list(zip(parts, at, strict=True))
        yield ChainTrack(
            armature=ob.name,
            chain=chain.name,
            solver=chain.solver,
            frames=frames,
            residual=np.concatenate([p.residual[:, k] for p, k in found])[asked],
            status=np.concatenate([p.status[:, k] for p, k in found])[asked],
            tip=np.concatenate([p.tip[:, k] for p, k in found])[asked],
            turned=np.concatenate([p.turned[:, k] for p, k in found])[asked],
            message=next((p.plan.stage.chains[k].broken for p, k in found), ""),
            places=_chain_places(found, asked) if parts and parts[0].places else None,
        )


def _chain_places(found: Sequence[tuple[_Part, int]], asked: Asked) -> ChainPlaces:
    names = found[0][0].places
    return ChainPlaces(
        **{name: np.concatenate([part.places[name][:, k] for part, k in found])[asked] for name in names}
    )


def _bone_tracks(ob: bpy.types.Object, number: int, parts: Sequence[_Part], asked: Asked) -> list[BoneTrack]:
    """Tracks of the channels that are held in every part (a keyed solver or Use Tail changes them)."""
    by_bone: dict[tuple[str, str], list[tuple[_Part, int, np.ndarray, np.ndarray]]] = {}
    for part in parts:
        rig = part.plan.rigs[number]
        for place, (pose_place, mode) in enumerate(zip(rig.pose_places.tolist(), rig.modes, strict=True)):
            rows, changed = part.rows[number][:, place], part.changed[number][:, place]
            item = (part, int(rig.places[place]), rows, changed)
            by_bone.setdefault((ob.pose.bones[pose_place].name, mode), []).append(item)
        for channel, (all_rows, all_changed) in zip(rig.vectors, part.vectors[number], strict=True):
            for place, pose_place in enumerate(channel.pose_places.tolist()):
                item = (part, int(channel.places[place]), all_rows[:, place], all_changed[:, place])
                key = (ob.pose.bones[pose_place].name, channel.prop.upper())
                by_bone.setdefault(key, []).append(item)
    owners: dict[tuple[str, int], list[str]] = {}
    for plan in {id(part.plan): part.plan for part in parts}.values():
        for written, names in _owners(number, plan, ob).items():
            owners[written] = list(dict.fromkeys([*owners.get(written, ()), *names]))
    tracks = []
    for (name, mode), found in by_bone.items():
        if len(found) != len(parts):
            continue
        part, place, _, _ = found[0]
        index = int(part.plan.stage.posed[place])
        kind = mode if mode in VECTORS else "ROTATION"
        tracks.append(
            BoneTrack(
                bone=name,
                mode=mode,
                rows=np.concatenate([rows for *_, rows, _ in found])[asked],
                changed=np.concatenate([changed for *_, changed in found])[asked],
                chains=tuple(owners.get((kind, index), ())),
            )
        )
    return tracks


def _owners(number: int, plan: Plan, ob: bpy.types.Object) -> dict[tuple[str, int], list[str]]:
    """Names of the chains of a rig by channel, and the bones of the stage where they write it."""
    owners: dict[tuple[str, int], list[str]] = {}
    for chain, compiled in zip(ob.ik_chains, plan.stage.chains[plan.rigs[number].chains], strict=True):
        written = {("ROTATION", bone) for bone in compiled.written}
        if compiled.handling == "MOVE_ROOT":
            written.add(("LOCATION", compiled.move_bone))
        if compiled.handling == "STRETCH":
            grown = stretched_bones(plan.stage.skeleton, compiled.bones, compiled.end)
            written.update(("SCALE", bone) for bone in grown)
        for key in written:
            owners.setdefault(key, []).append(chain.name)
    return owners
