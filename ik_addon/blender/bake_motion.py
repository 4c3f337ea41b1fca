# SPDX-License-Identifier: GPL-3.0-or-later
"""The motion that a bake writes: sampled with `solve_range`, fitted with curves."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import bpy
import numpy as np

from ..core import between
from ..core.channels import continuous, from_quaternion, to_quaternion
from ..core.transforms import make_compatible
from . import animation, keys, memory
from .bake_checks import Choice
from .bake_curves import Curves as CurvesByPath
from .ranges import VECTORS, BoneTrack, ChainTrack, RangeSolution, solve_range

# The pose half-way between two keys is solved, too, where the keys around might foretell it
# worse than this (radians; of locations, in the armature's unit, and scales the same number).
DOUBT = np.radians(0.01)
# Share of the progress that the keys take; the rest is for poses between them.
SHARE = 0.6

Variant = frozenset[tuple[str, str]]


@dataclass(frozen=True)
class Motion:
    """The solved rotation of k bones of a rig.

    Attributes:
        frames: ``(S,)`` of the keys.
        bones, modes: names and rotation modes.
        owners: numbers of the chains that turn each bone.
        rows: ``(S, k, 4)`` channel rows at the keys.
        middle: ``(S - 1, k, 4)`` unit quaternions half-way between keys.
        vectors: location and scale channels.
    """

    frames: np.ndarray
    bones: list[str]
    modes: list[str]
    owners: list[frozenset[int]]
    rows: np.ndarray
    middle: np.ndarray
    vectors: VectorMotion


@dataclass(frozen=True)
class VectorMotion:
    """The solved location and scale channels of v bones: `Motion` in another kind of channel.

    Attributes:
        bones, props: names of bones and properties, "location" or "scale".
        owners: numbers of the chains that write each.
        rows: ``(S, v, 3)`` values at the keys; middle: ``(S - 1, v, 3)`` half-way.
    """

    bones: list[str]
    props: list[str]
    owners: list[frozenset[int]]
    rows: np.ndarray
    middle: np.ndarray


@dataclass(frozen=True)
class Curves:
    """Curves of k channels of a kind.

    Attributes:
        frames, rows: keys ``(S,)``, ``(S, k, 4)``; of locations and scales ``(S, k, 3)``.
        right, left: ``(S - 1, k, 4)`` values of the handles after and before the keys.
        cost: ``(S - 1, k)`` how far the rotation mode leads off the motion, radians.
        by_strips: ``(k,)`` channels that NLA strips move, and no curve of the action.
    """

    frames: np.ndarray
    rows: np.ndarray
    right: np.ndarray
    left: np.ndarray
    cost: np.ndarray
    by_strips: np.ndarray

    @cached_property
    def _pattern(self) -> np.ndarray:
        """What the keys of all curves have in common: everything but the values."""
        out = keys.make(self.frames, np.zeros(len(self.frames)))
        third = np.diff(self.frames) / 3.0
        out[:-1, keys.RIGHT.start] = self.frames[:-1] + third
        out[1:, keys.LEFT.start] = self.frames[1:] - third
        return out

    def keys(self, bone: int, component: int) -> np.ndarray:
        """The keys of one curve, see `keys`."""
        values = self.rows[:, bone, component]
        out = self._pattern.copy()
        out[:, keys.VALUE] = values
        # The first and the last handle lie on their keys.
        out[:-1, keys.RIGHT.start + 1], out[-1, keys.RIGHT.start + 1] = (
            self.right[:, bone, component],
            values[-1],
        )
        out[1:, keys.LEFT.start + 1], out[0, keys.LEFT.start + 1] = self.left[:, bone, component], values[0]
        return out


def sample(
    scene: bpy.types.Scene, choices: Sequence[Choice], frames: np.ndarray, carry_bend: bool = False
) -> Generator[float, None, tuple[list[Motion], dict[tuple[str, str], ChainTrack]]]:
    """Solve the chosen chains at the keys, and between them where the keys do not foretell it.

    Args:
        carry_bend: two-bone chains carry their bend sides from the first frame on.

    Returns:
        the motion of each choice, and the tracks of all chains by armature and chain name.
    """
    rigs = [choice.ob for choice in choices]
    variants = list(dict.fromkeys([frozenset(), *(v for choice in choices for v in choice.apart.values())]))
    carry_from = int(frames[0]) if carry_bend else None
    solutions = yield from _solve(scene, rigs, frames, variants, carry_from, 0.0, SHARE)
    chosen = [_tracks(choice, solutions) for choice in choices]
    samples = [Samples.of(choice, tracks, solutions) for choice, tracks in zip(choices, chosen, strict=True)]
    unclear = np.zeros(len(frames) - 1, bool)
    for sampled in samples:
        unclear |= sampled.unclear()
    gaps = np.diff(frames)
    if len(gaps) and gaps.max() > 1.0:
        unclear[:] = True
    places = np.flatnonzero(unclear)
    if len(places):
        halfway = frames[places] + 0.5 * gaps[places]
        solutions_between = yield from _solve(scene, rigs, halfway, variants, carry_from, SHARE, 1.0)
        for choice, tracks, sampled in zip(choices, chosen, samples, strict=True):
            sampled.correct(places, Samples.of(choice, tracks, solutions_between))
    motions = [
        _motion(choice, tracks, frames, sampled)
        for choice, tracks, sampled in zip(choices, chosen, samples, strict=True)
    ]
    tracks_of_chains = {(t.armature, t.chain): t for t in solutions[frozenset()].chains}
    return motions, tracks_of_chains


@dataclass(frozen=True)
class Tracks:
    """The tracks of a choice: of rotation channels, and of locations and scales."""

    turns: list[BoneTrack]
    vectors: list[BoneTrack]


@dataclass(frozen=True)
class Samples:
    """The channels of a choice at some frames, and half-way between them.

    Attributes:
        rows: ``(F, k, 4)`` rotation rows; q: the same as unit quaternions of neighbouring signs.
        vectors: ``(F, v, 3)``.
        middle, vector_middle: half-way, ``(F - 1, ...)``, as `between` foretells them.
        doubt, vector_doubt: ``(F - 1, ...)`` how far that may be off.
    """

    rows: np.ndarray
    q: np.ndarray
    vectors: np.ndarray
    middle: np.ndarray
    doubt: np.ndarray
    vector_middle: np.ndarray
    vector_doubt: np.ndarray

    @classmethod
    def of(cls, choice: Choice, tracks: Tracks, solutions: dict[Variant, RangeSolution]) -> Samples:
        rows = _rows(choice, tracks.turns, solutions, 4)
        q = make_compatible(to_quaternion(rows, [track.mode for track in tracks.turns]))
        vectors = _rows(choice, tracks.vectors, solutions, 3)
        if len(q) == 1:
            empty = np.zeros((0, q.shape[1])), np.zeros((0, vectors.shape[1]))
            return cls(rows, q, vectors, q[:0], empty[0], vectors[:0], empty[1])
        return cls(rows, q, vectors, *between.foretell(q), *between.foretell_vectors(vectors))

    def unclear(self) -> np.ndarray:
        """``(F - 1,)`` where the pose half-way is not foretold well."""
        return np.any(self.doubt > DOUBT, axis=1) | np.any(self.vector_doubt > DOUBT, axis=1)

    def correct(self, places: np.ndarray, exact: Samples) -> None:
        """Put solved poses in the place of foretold ones."""
        self.middle[places] = make_compatible(exact.q[None], self.q[places])[0]
        self.vector_middle[places] = exact.vectors


def _solve(
    scene: bpy.types.Scene,
    rigs: Sequence[bpy.types.Object],
    frames: np.ndarray,
    variants: Sequence[Variant],
    carry_from: int | None,
    start: float,
    end: float,
) -> Generator[float, None, dict[Variant, RangeSolution]]:
    """Solve frames once with all chains, and once for each set of chains to be left out."""
    solutions = {}
    width = (end - start) / len(variants)
    for number, variant in enumerate(variants):
        steps = solve_range(scene, rigs, frames.tolist(), variant, carry_from)
        solutions[variant] = yield from _scaled(steps, start + number * width, width)
    return solutions


def _scaled(steps: Generator[float, None, Any], start: float, width: float) -> Generator[float, None, Any]:
    """A coroutine whose progress is part of a longer one."""
    try:
        while True:
            yield start + width * next(steps)
    except StopIteration as stop:
        return stop.value
    finally:
        steps.close()


def _variant(choice: Choice, bone: str) -> Variant:
    return choice.apart.get(bone, frozenset())


def _tracks(choice: Choice, solutions: dict[Variant, RangeSolution]) -> Tracks:
    """The tracks of the channels that a chosen chain writes on any frame."""
    names = {choice.ob.ik_chains[place].name for place in choice.chains}
    found = []
    for variant, solution in solutions.items():
        for track in solution.bones[choice.ob.name]:
            own = _variant(choice, track.bone) == variant
            if own and names.intersection(track.chains) and track.changed.any():
                found.append(track)
    turns = [track for track in found if track.mode not in VECTORS]
    return Tracks(turns, [track for track in found if track.mode in VECTORS])


def _rows(
    choice: Choice, tracks: Sequence[BoneTrack], solutions: dict[Variant, RangeSolution], width: int
) -> np.ndarray:
    by_bone = {
        (variant, track.bone, track.mode): track.rows
        for variant, solution in solutions.items()
        for track in solution.bones[choice.ob.name]
    }
    count = len(solutions[frozenset()].frames)
    out = np.empty((count, len(tracks), width))
    for place, track in enumerate(tracks):
        out[:, place] = by_bone[_variant(choice, track.bone), track.bone, track.mode]
    return out


def _motion(choice: Choice, tracks: Tracks, frames: np.ndarray, samples: Samples) -> Motion:
    numbers = {choice.ob.ik_chains[place].name: choice.ob.ik_chains[place].uid for place in choice.chains}

    def owners(found: Sequence[BoneTrack]) -> list[frozenset[int]]:
        return [frozenset(numbers[name] for name in track.chains if name in numbers) for track in found]

    return Motion(
        frames=frames,
        bones=[track.bone for track in tracks.turns],
        modes=[track.mode for track in tracks.turns],
        owners=owners(tracks.turns),
        rows=samples.rows,
        middle=samples.middle,
        vectors=VectorMotion(
            bones=[track.bone for track in tracks.vectors],
            props=[track.mode.lower() for track in tracks.vectors],
            owners=owners(tracks.vectors),
            rows=samples.vectors,
            middle=samples.vector_middle,
        ),
    )


def fit_vectors(ob: bpy.types.Object, motion: Motion, existing: CurvesByPath) -> Curves:
    """Curves through the location and scale channels of a motion."""
    vectors = motion.vectors
    right, left = between.handles(vectors.rows, vectors.middle)
    by_strips = np.zeros(len(vectors.bones), bool)
    paths = {path for path, _ in existing}
    for place, (name, prop) in enumerate(zip(vectors.bones, vectors.props, strict=True)):
        animated = name in animation.animated_vector_components(ob, prop)
        by_strips[place] = animated and animation.vector_path(name, prop) not in paths
    cost = np.zeros(vectors.middle.shape[:2])
    return Curves(motion.frames, vectors.rows, right, left, cost, by_strips)


def fit(ob: bpy.types.Object, motion: Motion, existing: CurvesByPath, whole: bool) -> Curves:
    """Curves through a motion that join the keys beside it.

    Args:
        ob: with its bones in their FK pose.
        existing: the curves of the object now.
        whole: the bake covers the frames of the scene: no key stands beside a new curve.
    """
    by_strips = _moved_by_strips(ob, motion, existing)
    rows = motion.rows.copy()
    before, after = rows[0].copy(), rows[-1].copy()
    backward = np.zeros(len(motion.bones), bool)
    for place, (name, mode) in enumerate(zip(motion.bones, motion.modes, strict=True)):
        path = animation.bone_path(name, mode)
        prop, width = memory.channel(mode)
        curves = [existing.get((path, index)) for index in range(width)]
        still = np.array(getattr(ob.pose.bones[name], prop), float)
        held = not whole and not by_strips[place] and None in curves
        first = _neighbour(curves, still, motion.frames[0], -1, held)
        if first is not None:
            before[place, :width] = first
            continue
        last = _neighbour(curves, still, motion.frames[-1], 1, held)
        if last is not None:
            after[place, :width] = last
            backward[place] = True
    rows = continuous(rows, motion.modes, before)
    if backward.any():
        modes = [mode for mode, turned in zip(motion.modes, backward, strict=True) if turned]
        rows[:, backward] = continuous(rows[::-1, backward], modes, after[backward])[::-1]
    middle = from_quaternion(motion.middle, motion.modes, 0.5 * (rows[:-1] + rows[1:]))
    right, left = between.handles(rows, middle)
    cost = between.cost_of_mode(rows, middle, motion.modes)
    return Curves(motion.frames, rows, right, left, cost, by_strips)


def _moved_by_strips(ob: bpy.types.Object, motion: Motion, existing: CurvesByPath) -> np.ndarray:
    """Which bones something animates, but no curve of the assigned action."""
    animated = animation.animated_rotation_components(ob)
    paths = {path for path, _ in existing}
    return np.array(
        [
            name in animated and animation.bone_path(name, mode) not in paths
            for name, mode in zip(motion.bones, motion.modes, strict=True)
        ],
        bool,
    )


def _neighbour(
    curves: Sequence[bpy.types.FCurve | None], still: np.ndarray, end: float, side: int, held: bool
) -> np.ndarray | None:
    """The row at the last key before (`side` -1) or the first key after the baked range.

    Args:
        still: ``(w,)`` the value of components without a curve.
        end: first or last frame of the range.
        held: a curve that is new gets a key right beside the range.
    """
    frames = [end + side] if held else []
    for curve in curves:
        if curve is None:
            continue
        co = np.empty(2 * len(curve.keyframe_points), np.float32)
        curve.keyframe_points.foreach_get("co", co)
        beside = co[::2][side * (co[::2] - end) > 0.0]
        if len(beside):
            frames.append(float(beside[np.argmin(np.abs(beside - end))]))
    if not frames:
        return None
    frame = min(frames, key=lambda other: abs(other - end))
    row = still.copy()
    for index, curve in enumerate(curves):
        if curve is not None:
            row[index] = curve.evaluate(frame)
    return row
