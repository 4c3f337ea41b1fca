# SPDX-License-Identifier: GPL-3.0-or-later
"""Change the space of a target or a pole while it stays where it is.

A switch is a step in the keys: up to the frame before, space and offset are held as they
were; from its frame on the offset is that in the new space. Keys of the offset that come
later, up to the next key of the space, are carried over into the new space: on their
frames the target is where it was, and between them it goes from one to the other in its
new space. Over a range, the offset gets a key on each frame, and the target moves as before.

The object and the bone of a CUSTOM space take no key: a chain has one of them for all frames.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import bpy
import numpy as np

from ..core.transforms import make_compatible, quaternion_multiply
from . import bake_checks, chains, edits, keys, offsets, smoothing, tracks
from .chain_bones import ChainError
from .key_shapes import NEAR
from .keys import CONSTANT, FRAME, INTERPOLATION
from .offsets import Columns
from .paths import setting_paths
from .plan import compile_plan, groups_of_rigs
from .space_samples import PARTS, Part, Samples, Space, custom_of, present, sample, space_of
from .state import STATE
from .tracks import Track


@dataclass(frozen=True)
class Span:
    """The frames ``first <= frame < end`` that get the new space."""

    first: float = -math.inf
    end: float = math.inf

    @property
    def hold(self) -> float:
        """The frame before, on which what was there is held."""
        return math.ceil(self.first) - 1.0

    def inside(self, frames: np.ndarray) -> np.ndarray:
        """Which frames lie in the span ``(F,)``."""
        return (frames > self.first - NEAR) & (frames < self.end - NEAR)


ALWAYS = Span()


@dataclass(frozen=True)
class Switch:
    """What a switch did.

    Attributes:
        span: the frames that got the new space.
        later: frames after the first whose keys were carried over.
    """

    span: Span
    later: list[float]


@dataclass(frozen=True)
class _Switching:
    """What is to be switched; `tracks` holds its location and, but for a pole, its rotation."""

    ob: bpy.types.Object
    index: int
    scene: bpy.types.Scene
    part: Part
    to: Space
    span: Span
    space: Track
    tracks: dict[str, Track]

    @property
    def chain(self) -> Any:
        return self.ob.ik_chains[self.index]

    @property
    def now(self) -> float:
        return float(self.scene.frame_current_final)

    def present(self) -> Samples:
        # Keys that are carried over on all frames are those of the target itself.
        keyed = bool(len(offsets.key_frames(self.tracks)))
        smoothed = self.span != ALWAYS or not keyed
        return present(self.scene, self.ob, self.index, self.part, self.to, smoothed)

    def seen(self) -> dict[str, np.ndarray]:
        """Present location and rotation by setting, smoothed: beside a switch the target is not."""
        values = {name: track.values for name, track in self.tracks.items()}
        change = smoothing.at_present(self.ob, self.chain) if self.part.rotation else None
        if change is None:
            return values
        location, rotation = self.part.location, self.part.rotation
        return {
            location: values[location] + change.move[0],
            rotation: quaternion_multiply(values[rotation], change.turn[0]),
        }

    def sample(self, frames: np.ndarray) -> Samples:
        return sample(self.scene, self.ob, self.index, self.part, self.to, frames.tolist())


def switch(
    ob: bpy.types.Object,
    index: int,
    scene: bpy.types.Scene,
    to: Space,
    part: str = "TARGET",
    *,
    key: bool = True,
    frames: tuple[int, int] | None = None,
) -> Switch:
    """Put a target or a pole into another space; it stays where it is.

    Args:
        to: the new space; CUSTOM without an object is the one that the chain names.
        part: TARGET or POLE.
        key: key the switch as a step. Without, the new space holds on all frames, and all
            keys of the offset are carried over.
        frames: first and last frame: the new space holds on them alone, with a key on each,
            so that the target moves as before.

    Raises:
        ChainError, BakeError: before anything is changed.
    """
    chain, names = ob.ik_chains[index], PARTS[part]
    if to.kind == "CUSTOM" and to.target is None:
        to = custom_of(chain, names)
    _check(ob, chain, names, to)
    space = tracks.read(ob, setting_paths(chain, index, names.space), item(chain, names))
    span = _span(ob, chain, names, space, scene, key, frames)
    if frames is None and space_of(chain, names) == to:
        raise ChainError(f"{_who(ob, chain)}: its {names.label} is in that space already")
    _check_single_object(ob, chain, names, to, space, span)
    check_solvable(ob, index, names, to)
    work = _Switching(ob, index, scene, names, to, span, space, _offset_tracks(ob, index, names))
    values: dict[str, np.ndarray] = {}
    later: list[float] = []
    if frames is not None:
        columns = _range_keys(work)
    elif key:
        columns, later = _step_keys(work)
    else:
        columns, values = offsets.whole_keys(work.tracks, work.sample, work.present())
    _write(work, columns, values)
    return Switch(span, later)


def _offset_tracks(ob: bpy.types.Object, index: int, part: Part) -> dict[str, Track]:
    chain = ob.ik_chains[index]
    names = filter(None, (part.location, part.rotation))
    return {n: tracks.read(ob, setting_paths(chain, index, n), getattr(chain, n)) for n in names}


@dataclass(frozen=True)
class WorldPath:
    """A target that is about to get keys of its own in the world, over a range of frames.

    Where the range is that of the scene, and nothing is keyed beside it, no key holds what was
    there before and after.
    """

    _work: _Switching

    def write(self, columns: Columns) -> None:
        """Replace the keys of the range by these, by setting; the target is in the world there."""
        work = self._work
        if work.span != ALWAYS:
            ends = [work.span.hold, work.span.end]
            old = {name: work.tracks[name].cut(ends) for name in columns}
            columns = {n: _joined(work.span, old[n], new, hold_last=True) for n, new in columns.items()}
        is_there = not len(work.space.frames) and space_of(work.chain, work.part) == work.to
        _write(work, columns, {}, step=not is_there)


def world_path(
    ob: bpy.types.Object, index: int, scene: bpy.types.Scene, frames: tuple[int, int]
) -> WorldPath:
    """Get ready to put the target of a chain on a path in the world.

    Raises:
        ChainError, BakeError: when that cannot be done; nothing is changed here.
    """
    chain, names, to = ob.ik_chains[index], PARTS["TARGET"], Space("WORLD")
    _check(ob, chain, names, to)
    space = tracks.read(ob, setting_paths(chain, index, names.space), item(chain, names))
    span = _span(ob, chain, names, space, scene, True, frames)
    check_solvable(ob, index, names, to)
    found = _offset_tracks(ob, index, names)
    keyed = offsets.key_frames({**found, names.space: space})
    whole = frames[0] <= scene.frame_start and scene.frame_end <= frames[1]
    if whole and not len(space.frames) and span.inside(keyed).all():
        span = ALWAYS
    return WorldPath(_Switching(ob, index, scene, names, to, span, space, found))


def _who(ob: bpy.types.Object, chain: Any) -> str:
    return f"{ob.name}: chain '{chain.name}'"


def item(chain: Any, part: Part, kind: str = "") -> int:
    """The number of a space, by default the present one, as curves hold it."""
    items = chain.bl_rna.properties[part.space].enum_items
    return int(items[kind or getattr(chain, part.space)].value)


# What can be switched


def _check(ob: bpy.types.Object, chain: Any, part: Part, to: Space) -> None:
    bake_checks.refuse_locked(ob)
    text = chains.problem(ob, chain)
    if text:
        raise ChainError(text)
    for space in (space_of(chain, part), to):
        if space.kind == "CUSTOM" and space.target is None:
            raise ChainError(f"{_who(ob, chain)}: a {part.label} in custom space needs an object")
    target = to.target
    if target is not None and to.bone and (target.type != "ARMATURE" or to.bone not in target.data.bones):
        raise ChainError(f"{_who(ob, chain)}: '{target.name}' has no bone '{to.bone}'")


def _span(
    ob: bpy.types.Object,
    chain: Any,
    part: Part,
    space: Track,
    scene: bpy.types.Scene,
    key: bool,
    frames: tuple[int, int] | None,
) -> Span:
    if frames is not None:
        if frames[1] < frames[0]:
            raise ChainError(f"The last frame, {frames[1]}, is before the first, {frames[0]}")
        span = Span(float(frames[0]), frames[1] + 1.0)
    elif key:
        now = float(scene.frame_current_final)
        span = Span(now, _next_change(space, now))
    elif len(space.frames):
        raise ChainError(f"{_who(ob, chain)}: the space of its {part.label} has keys: key this switch, too")
    else:
        return ALWAYS
    bake_checks.refuse_hidden(ob, span.hold, span.end if span.end < math.inf else span.first)
    return span


def _next_change(space: Track, now: float) -> float:
    """The frame of the first key after now that gives another space than the present one."""
    (steps,) = space.keys
    changes = (steps[:, FRAME] > now + NEAR) & (np.rint(steps[:, keys.VALUE]) != space.values[0])
    return float(steps[changes, FRAME][0]) if changes.any() else math.inf


def _check_single_object(
    ob: bpy.types.Object, chain: Any, part: Part, to: Space, space: Track, span: Span
) -> None:
    """Another object may be named only where no frame outside of the span needs the one before."""
    before = custom_of(chain, part)
    if to.kind != "CUSTOM" or before == to or before.target is None:
        return
    if _is_used_outside(space, span, item(chain, part, "CUSTOM")):
        place = f"'{before.target.name}'" + (f", bone '{before.bone}'," if before.bone else "")
        raise ChainError(
            f"{_who(ob, chain)}: its {part.label} is in the space of {place} on other frames, and the object"
            " of a space takes no key: switch to World or Armature here, or first put those frames into World"
            " with a range"
        )


def _is_used_outside(space: Track, span: Span, item: int) -> bool:
    (steps,) = space.keys
    if not len(steps):
        return bool(span != ALWAYS and space.values[0] == item)
    changes = steps[1:, FRAME]
    starts, ends = np.concatenate([[-math.inf], changes]), np.concatenate([changes, [math.inf]])
    outside = (starts < span.first) | (ends > span.end)
    return bool(np.any(outside & (np.rint(steps[:, keys.VALUE]) == item)))


def check_solvable(ob: bpy.types.Object, index: int, part: Part, to: Space) -> None:
    """The chain must not come to hang on itself."""
    with _as_if(ob.ik_chains[index], part, to):
        group = next(group for group in groups_of_rigs([ob]) if ob in group)
        plan = compile_plan(group, group)
    before = sum(len(rig.ik_chains) for rig in group[: group.index(ob)])
    if plan.stage.chains[before + index].broken:
        raise ChainError(plan.stage.chains[before + index].broken)


@contextmanager
def _as_if(chain: Any, part: Part, to: Space) -> Iterator[None]:
    """The chain with another space for a moment, unseen by the handler."""
    names = (part.space, part.object, part.bone)
    before = [getattr(chain, name) for name in names]
    with STATE.at_work():
        try:
            _name_space(chain, part, to)
            yield
        finally:
            for name, value in zip(names, before, strict=True):
                setattr(chain, name, value)
            STATE.forget_plans()


def _name_space(chain: Any, part: Part, to: Space) -> None:
    setattr(chain, part.space, to.kind)
    if to.kind == "CUSTOM" and custom_of(chain, part) != to:
        setattr(chain, part.object, to.target)
        setattr(chain, part.bone, to.bone)


# New keys


def _step_keys(work: _Switching) -> tuple[Columns, list[float]]:
    """Keys that step into the new space now, with those in the span carried over.

    Returns:
        keys by setting, and the frames after now that were carried over.
    """
    frames, cut = _cut(work)
    here = offsets.relation(work.present())
    later = frames[1:].tolist()
    at = before = after = here
    if later:
        at, before, after = offsets.relations(work.sample, frames)
        at = at.with_one(0, here)
    columns = {}
    for name, values in work.seen().items():
        # As it is now, also where that has no key.
        inside = [curve[work.span.inside(curve[:, FRAME])] for curve in cut[name]]
        for curve, value in zip(inside, values, strict=True):
            offsets.set_value(curve, 0, value)
        new = offsets.carry(inside, at, before, after)
        columns[name] = _joined(work.span, cut[name], new, hold_last=not later)
    return columns, later


def _cut(work: _Switching) -> tuple[np.ndarray, Columns]:
    """The frames in the span that get a key, the present one first, and all keys cut there."""
    span = work.span
    found = offsets.key_frames(work.tracks)
    frames = np.append(work.now, found[span.inside(found) & (found > work.now + NEAR)])
    if span.end < math.inf and frames[-1] < span.end - 1.0 - NEAR and not _rests(work, frames[-1]):
        frames = np.append(frames, span.end - 1.0)
    ends = [span.hold, *([span.end] if span.end < math.inf else [])]
    return offsets.cut_alike(work.tracks, frames, ends, span.inside)


def _rests(work: _Switching, frame: float) -> bool:
    """Whether nothing moves the offset from the last key up to a frame on."""
    curves = [curve for track in work.tracks.values() for curve in track.keys]
    leading = [curve[curve[:, FRAME] < frame + NEAR] for curve in curves]
    return all(not len(some) or some[-1, INTERPOLATION] == CONSTANT for some in leading)


def _range_keys(work: _Switching) -> Columns:
    """A key on each frame of the span, so that the target moves as before."""
    frames = np.arange(work.span.first, work.span.end)
    samples = work.sample(frames)
    found = offsets.relation(samples)
    if work.part.rotation and smoothing.may_smooth(work.ob, work.chain) and not found.is_still:
        raise ChainError(
            f"{_who(work.ob, work.chain)}: Smooth Frames would smooth the keys that make up for the motion of"
            " the spaces: set it to 0 first"
        )
    values = {work.part.location: found.locations(samples.location)}
    if work.part.rotation:
        values[work.part.rotation] = make_compatible(found.rotations(samples.rotation))
    columns = {}
    for name, track in work.tracks.items():
        new = [keys.make(frames, column) for column in values[name].T]
        columns[name] = _joined(work.span, track.cut([work.span.hold, work.span.end]), new, hold_last=True)
    return columns


def _joined(
    span: Span, old: Sequence[np.ndarray], new: Sequence[np.ndarray], hold_last: bool
) -> list[np.ndarray]:
    """The old keys outside of the span, the new ones in it, with a step at both of its ends."""
    out = []
    for before, inside in zip(old, new, strict=True):
        held = before[before[:, FRAME] < span.hold + NEAR].copy()
        held[-1, INTERPOLATION] = CONSTANT
        inside = inside.copy()
        if hold_last or span.end < math.inf:
            inside[-1, INTERPOLATION] = CONSTANT
        out.append(np.concatenate([held, inside, before[before[:, FRAME] > span.end - NEAR]]))
    return out


def _space_keys(work: _Switching) -> np.ndarray:
    """Keys of the space itself: held before, the new one, and what was there after the span."""
    span = work.span
    ends = [span.end] if span.end < math.inf else []
    steps = work.space.keys[0].copy()
    # Blender steps from item to item, whatever the keys say.
    steps[:, INTERPOLATION] = CONSTANT
    (old,) = replace(work.space, keys=[steps]).cut([span.hold, *ends])
    new = keys.steps([span.first], [item(work.chain, work.part, work.to.kind)])
    return _joined(span, [old], [new], hold_last=True)[0]


def _write(work: _Switching, columns: Columns, values: dict[str, np.ndarray], *, step: bool = True) -> None:
    """Write keys and values; the space gets keys, but with `step` off or when it holds on all frames."""
    chain, part, now = work.chain, work.part, np.array([work.now])
    steps = _space_keys(work) if step and work.span != ALWAYS else None
    paths = {path for track in (work.space, *work.tracks.values()) for path in track.paths}
    with STATE.at_work(), edits.kept(work.ob, paths):
        before = getattr(chain, part.space)
        _name_space(chain, part, work.to)
        if steps is not None:
            tracks.write(work.ob, work.space.paths, [steps])
            if not work.span.inside(now)[0]:
                setattr(chain, part.space, before)
        for name, curves in columns.items():
            tracks.write(work.ob, work.tracks[name].paths, curves)
            if name not in values and work.span.inside(now)[0]:
                values[name] = np.array(tracks.value_at(work.ob, work.tracks[name].paths, work.now))
        for name, value in values.items():
            setattr(chain, name, value)
    STATE.forget_plans()
    work.ob.update_tag()
