# SPDX-License-Identifier: GPL-3.0-or-later
"""Bake chains to keys, and unbake them.

A bake solves first, and yields its progress while it does; then it writes everything at
once, in the action and slot that the armature object has. Closed before, it has changed
nothing. Outside the baked range the pose stays what it was: chains are muted by keys inside
the range alone, and curves that the bake makes hold the FK value beside it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import bpy
import numpy as np

from ..core.job import Status
from ..core.report import frame_number, summary
from . import animation, bake_checks, bake_curves, bake_motion, compat, keys, memory
from . import bake_store as store
from .bake_checks import BakeError, Choice, Skipped
from .bake_motion import Motion
from .ranges import ChainTrack
from .state import STATE


@dataclass(frozen=True)
class BakeOptions:
    """What to bake.

    Attributes:
        frames: first and last frame, both baked.
        step: frames from key to key; the last frame gets a key in any case.
        chains: a pattern for the names of chains (``*``, ``?``), several of them, or None: all.
        carry_bend: two-bone chains carry their bend sides from the first frame on and do not flip,
            where live chains, which know of no other frame, do (see `core.carried`).
    """

    frames: tuple[int, int]
    step: int = 1
    chains: str | Sequence[str] | None = None
    carry_bend: bool = False


@dataclass(frozen=True)
class GimbalLock:
    """A bone whose curves leave its motion by more than 1 degree after each of some keys.

    Its rotation mode cannot follow between these keys: a quaternion would.
    """

    armature: str
    bone: str
    frames: list[int | float]
    degrees: float


@dataclass
class BakeReport:
    """What was baked.

    Attributes:
        chains: of each baked chain what `core.report.summary` tells.
        skipped: chains that were asked for and left as they are.
        gimbal_lock: bones with frames that want another rotation mode.
        keys: number of keys that were set on bones.
        notes: what else a user should know, in sentences.
        tracks: results of the baked chains over the key frames, as they were solved.
    """

    chains: list[dict[str, Any]] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    gimbal_lock: list[GimbalLock] = field(default_factory=list)
    keys: int = 0
    notes: list[str] = field(default_factory=list)
    tracks: list[ChainTrack] = field(default_factory=list)


def key_frames(options: BakeOptions) -> np.ndarray:
    """The frames that get a key.

    Raises:
        BakeError: for a range that runs backward or a step below 1.
    """
    first, last = options.frames
    if last < first:
        raise BakeError(f"the last frame, {last}, is before the first, {first}")
    if options.step < 1:
        raise BakeError(f"expected a step of 1 frame or more, got {options.step}")
    frames = np.arange(first, last + 1, options.step, dtype=float)
    return frames if frames[-1] == last else np.append(frames, float(last))


def bake(
    scene: bpy.types.Scene, rigs: Sequence[bpy.types.Object], options: BakeOptions
) -> Generator[float, None, BakeReport]:
    """Bake chains of some armature objects to keys of their bones' rotation.

    A coroutine: it yields the progress from 0 to 1 and returns a `BakeReport`. The chains
    are muted for the range; where it covers the frame range of the scene, for good.

    Raises:
        BakeError: before anything is changed.
    """
    frames = key_frames(options)
    for ob in rigs:
        bake_checks.refuse_locked(ob)
        bake_checks.refuse_hidden(ob, frames[0], frames[-1])
    report = BakeReport()
    choices = []
    for ob, places in bake_checks.matching(rigs, options.chains):
        choice, skipped = bake_checks.choose(ob, places)
        report.skipped.extend(skipped)
        if choice.chains:
            choices.append(choice)
    if not choices:
        return report
    motions, tracks = yield from bake_motion.sample(scene, choices, frames, options.carry_bend)
    whole = frames[0] <= scene.frame_start and scene.frame_end <= frames[-1]
    with STATE.at_work():
        for choice, motion in zip(choices, motions, strict=True):
            baked = _baked_chains(choice, motion, tracks, report)
            if baked:
                _write(choice.ob, motion, baked, whole, report)
    STATE.forget_plans()
    return report


def _baked_chains(
    choice: Choice, motion: Motion, tracks: dict[tuple[str, str], ChainTrack], report: BakeReport
) -> list[int]:
    """The chosen chains that did something in the range; the others are reported as skipped."""
    ob, baked = choice.ob, []
    idle = "it is muted or without influence in the range"
    lost = "its target, a setting of it or the FK pose is no finite number in the range"
    for place in choice.chains:
        chain = ob.ik_chains[place]
        track = tracks[ob.name, chain.name]
        if track.message:
            report.skipped.append(Skipped(ob.name, chain.name, track.message))
        elif not any(chain.uid in owners for owners in motion.owners):
            is_lost = (track.status == Status.BROKEN).any()
            report.skipped.append(Skipped(ob.name, chain.name, lost if is_lost else idle))
        else:
            report.chains.append(summary(track))
            report.tracks.append(track)
            report.notes.extend(_carried(track))
            baked.append(place)
    return baked


def _carried(track: ChainTrack) -> Iterator[str]:
    """Where a chain bends otherwise than the live one."""
    frames = track.frames[track.turned > np.radians(1.0)]
    if len(frames):
        yield (
            f"'{track.chain}' keeps the bend side that it came with on {len(frames)} frames from "
            f"{frame_number(frames[0])} to {frame_number(frames[-1])}, where the live chain turns or flips"
        )


def _write(ob: bpy.types.Object, motion: Motion, baked: list[int], whole: bool, report: BakeReport) -> None:
    """Key the bones of one rig and mute its baked chains."""
    memory.release_all(ob, [*motion.bones, *motion.vectors.bones])
    existing = bake_curves.by_path(compat.assigned_curves(ob))
    numbers = {ob.ik_chains[place].uid for place in baked}
    curves = bake_motion.fit(ob, motion, existing, whole)
    vector_curves = bake_motion.fit_vectors(ob, motion, existing)
    target = bake_curves.ensure_target(ob)
    # The action may be a copy now.
    existing = bake_curves.by_path(compat.assigned_curves(ob))
    turns, vectors = _channels(ob, motion)
    items = [
        *_items(ob, turns, curves, numbers, whole),
        *_items(ob, vectors, vector_curves, numbers, whole),
    ]
    by_strips = [*curves.by_strips, *vector_curves.by_strips]
    hidden = dict.fromkeys(c.bone for c, found in zip((*turns, *vectors), by_strips, strict=True) if found)
    if hidden and not whole:
        report.notes.append(
            f"{ob.name}: outside the range the new curves of {', '.join(hidden)} hide the NLA strips"
            " that moved them: bake the whole range of the scene to avoid it"
        )
    mutes = [_mute_item(ob, place, motion.frames, existing) for place in baked]
    for place, mute in zip(baked, mutes, strict=True):
        if whole and not bake_checks.is_animated(ob, place, "mute"):
            _mute_for_good(ob, place, target, mute)
        else:
            items.append(mute)
    keys.write(pair for item in items for pair in bake_curves.replace(ob, target, existing, item))
    report.keys += sum(len(new) for item in items for new in item.keys if item.owner != ob)
    target.action.update_tag()
    ob.update_tag()
    for place, bone in enumerate(motion.bones):
        late = np.flatnonzero(curves.cost[:, place] > np.radians(1.0))
        if len(late):
            where = [frame_number(motion.frames[i]) for i in late]
            worst = float(np.degrees(curves.cost[:, place].max()))
            report.gimbal_lock.append(GimbalLock(ob.name, bone, where, worst))


@dataclass(frozen=True)
class _Channel:
    """A channel of a bone that is baked."""

    bone: str
    prop: str
    path: str
    width: int
    owners: frozenset[int]


def _channels(ob: bpy.types.Object, motion: Motion) -> tuple[list[_Channel], list[_Channel]]:
    """The rotations, and the locations and scales."""
    turns = zip(motion.bones, motion.modes, motion.owners, strict=True)
    vectors = zip(motion.vectors.bones, motion.vectors.props, motion.vectors.owners, strict=True)
    return (
        [
            _Channel(b, memory.channel(m)[0], animation.bone_path(b, m), memory.channel(m)[1], o)
            for b, m, o in turns
        ],
        [_Channel(b, prop, animation.vector_path(b, prop), 3, o) for b, prop, o in vectors],
    )


def _items(
    ob: bpy.types.Object,
    channels: Sequence[_Channel],
    curves: bake_motion.Curves,
    numbers: set[int],
    whole: bool,
) -> Iterator[bake_curves.BakedProperty]:
    for place, channel in enumerate(channels):
        bone = ob.pose.bones[channel.bone]
        yield bake_curves.BakedProperty(
            owner=bone,
            name=channel.prop,
            path=channel.path,
            group=channel.bone,
            chains=channel.owners & numbers,
            values=np.array(getattr(bone, channel.prop), float),
            keys=[curves.keys(place, component) for component in range(channel.width)],
            hold_outside="NONE" if whole or curves.by_strips[place] else "NEW",
        )


def _mute_item(
    ob: bpy.types.Object, place: int, frames: np.ndarray, existing: bake_curves.Curves
) -> bake_curves.BakedProperty:
    chain = ob.ik_chains[place]
    by_index, by_name = bake_checks.chain_paths(ob, place, "mute")
    ends = sorted({float(frames[0]), float(frames[-1])})
    return bake_curves.BakedProperty(
        owner=ob,
        name="mute",
        path=by_name if (by_name, 0) in existing else by_index,
        group="",
        chains=frozenset({chain.uid}),
        values=np.array([float(chain.mute)]),
        keys=[keys.steps(ends, [1.0] * len(ends))],
        hold_outside="ALL",
    )


def _mute_for_good(
    ob: bpy.types.Object, place: int, target: bake_curves.Target, mute: bake_curves.BakedProperty
) -> None:
    channel = bake_curves.channel_of(ob, target, mute)
    bake_curves.saved_curve(channel, 0, mute.values[0], existed=False)
    ob.ik_chains[place].mute = True


@dataclass(frozen=True)
class Unbaked:
    """A chain that is live again, as it was before its first bake."""

    armature: str
    chain: str


def unbake(rigs: Sequence[bpy.types.Object], chains: str | Sequence[str] | None = None) -> list[Unbaked]:
    """Bring back what the bakes of some chains replaced.

    Keys outside the baked ranges stay as they are now. Chains that were baked into the same
    bones come back together, for their keys are the same.

    Raises:
        BakeError: before anything is changed.
    """
    for ob in rigs:
        bake_checks.refuse_locked(ob)
    wanted = []
    for ob, places in bake_checks.matching(rigs, chains):
        numbers = {ob.ik_chains[place].uid for place in places} & store.baked_chains(ob)
        if numbers:
            wanted.append((ob, _with_shared(ob, numbers)))
    if not wanted:
        raise BakeError(f"nothing is baked on {', '.join(ob.name for ob in rigs)}")
    unbaked: list[Unbaked] = []
    with STATE.at_work():
        for ob, numbers in wanted:
            _restore(ob, numbers)
            unbaked.extend(Unbaked(ob.name, c.name) for c in ob.ik_chains if c.uid in numbers)
    STATE.forget_plans()
    return unbaked


def _with_shared(ob: bpy.types.Object, numbers: set[int]) -> set[int]:
    """Numbers of chains, and of those that were baked into the same bones as one of them."""
    groups = [store.chains(channel) for owner in store.owners(ob) for channel in owner.ik_baked]
    found = set(numbers)
    while True:
        more = found.union(*(group for group in groups if group & found))
        if more == found:
            return found
        found = more


def _restore(ob: bpy.types.Object, numbers: set[int]) -> None:
    places = {chain.uid: place for place, chain in enumerate(ob.ik_chains)}
    memory.release_all(ob, [owner.name for owner in store.owners(ob) if owner != ob])
    for owner in store.owners(ob):
        for index in reversed(range(len(owner.ik_baked))):
            channel = owner.ik_baked[index]
            if not store.chains(channel) & numbers:
                continue
            if owner == ob:
                _restore_mute(ob, channel, places)
            else:
                path = f'pose.bones["{bpy.utils.escape_identifier(owner.name)}"].{channel.path}'
                for component, value in bake_curves.restore(ob, channel, [path], owner.name).items():
                    getattr(owner, channel.path)[component] = value
            owner.ik_baked.remove(index)
    bake_curves.return_actions(ob)
    ob.update_tag()


def _restore_mute(ob: bpy.types.Object, channel: store.IKBakedChannel, places: dict[int, int]) -> None:
    for number in store.chains(channel) & places.keys():
        paths = bake_checks.chain_paths(ob, places[number], "mute")
        for value in bake_curves.restore(ob, channel, paths, "").values():
            ob.ik_chains[places[number]].mute = bool(value)
