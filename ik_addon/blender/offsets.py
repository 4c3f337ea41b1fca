# SPDX-License-Identifier: GPL-3.0-or-later
"""How the offset of a target in one space becomes the offset in another, for values and for keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.transforms import (
    NO_TURN,
    affine_inverse,
    make_compatible,
    matrix_to_quaternion,
    normalize,
    quaternion_conjugate,
    quaternion_multiply,
    quaternion_to_matrix,
    rotation_part,
)
from . import key_shapes, keys
from .chain_bones import ChainError
from .keys import FRAME
from .space_samples import Samples
from .tracks import Track

# A space that flattens what is in it by more than this has no inverse.
FLAT = 1e-9
# Half of the time over which the speed of a space is taken, in frames.
MOMENT = 0.5
# Offsets that differ by less than this are the same, and turns: the float32 matrices of bones, which are
# not quite orthogonal, turn different rotations by slightly different amounts.
SAME, SAME_TURN = 1e-6, 4e-6
# Columns of a key that hold its value and those of its handles.
VALUES = slice(keys.VALUE, keys.RIGHT.stop, 2)

Columns = dict[str, list[np.ndarray]]


@dataclass(frozen=True)
class Relation:
    """On F frames the map from offsets in one space to offsets in another.

    Attributes:
        frames: ``(F,)``.
        matrix, offset: ``(F, 3, 3)``, ``(F, 3)``: a location p becomes matrix p + offset.
        turn: ``(F, 4)`` a rotation q becomes turn * q; signs of neighbours fit.
    """

    frames: np.ndarray
    matrix: np.ndarray
    offset: np.ndarray
    turn: np.ndarray

    def __getitem__(self, places: Any) -> Relation:
        return Relation(self.frames[places], self.matrix[places], self.offset[places], self.turn[places])

    def locations(self, values: np.ndarray) -> np.ndarray:
        """Locations ``(F, 3)`` in the other space."""
        return np.einsum("fij,fj->fi", self.matrix, values) + self.offset

    def rotations(self, values: np.ndarray) -> np.ndarray:
        """Rotations ``(F, 4)`` in the other space."""
        return quaternion_multiply(self.turn, values)

    @property
    def is_still(self) -> bool:
        """The two spaces do not move against each other."""
        parts = ((self.matrix, SAME), (self.offset, SAME), (self.turn, SAME_TURN))
        return all(bool((np.ptp(part, axis=0) < same).all()) for part, same in parts)

    def with_one(self, place: int, one: Relation) -> Relation:
        """The same with that of another at one place."""
        parts = {name: getattr(self, name).copy() for name in ("matrix", "offset", "turn")}
        for name, values in parts.items():
            values[place] = getattr(one, name)[0]
        parts["turn"] = make_compatible(parts["turn"])
        return Relation(self.frames, **parts)


def relation(samples: Samples, by_matrix: bool = False) -> Relation:
    """The map from the space that a target was in to the other one of its samples.

    Locations go through the world, whatever the scale; a direction keeps its length. The
    solve takes rotations off the matrices to armature space: the turn gives it the same.

    Args:
        by_matrix: the new offset is not a setting of the chain but the local matrix of an
            object or bone in the other space, off which the rotation will be taken.

    Raises:
        ChainError: for a space that has no inverse.
    """
    for matrices in (samples.other, samples.armature):
        if np.any(np.abs(np.linalg.det(matrices[:, :3, :3])) < FLAT**3):
            raise ChainError("A space whose scale is 0 cannot hold a target where it is")
    between = affine_inverse(samples.other) @ samples.space
    matrix, offset = between[:, :3, :3].copy(), between[:, :3, 3].copy()
    offset[samples.is_direction] = 0.0
    before = np.linalg.norm(samples.location, axis=1)
    after = np.linalg.norm(np.einsum("fij,fj->fi", matrix, samples.location), axis=1)
    kept = samples.is_direction & (after > 0.0)
    matrix[kept] *= (before[kept] / after[kept])[:, None, None]
    return Relation(samples.frames, matrix, offset, make_compatible(_turns(samples, by_matrix)))


def _turns(samples: Samples, by_matrix: bool) -> np.ndarray:
    into = affine_inverse(samples.armature)
    own, other = rotation_part(into @ samples.space), into @ samples.other
    if not by_matrix:
        return matrix_to_quaternion(np.swapaxes(rotation_part(other), -1, -2) @ own)
    orientation = own @ quaternion_to_matrix(samples.rotation)
    local = rotation_part(affine_inverse(other)[:, :3, :3] @ orientation)
    unit = normalize(samples.rotation, NO_TURN)
    return quaternion_multiply(matrix_to_quaternion(local), quaternion_conjugate(unit))


def carry(columns: Sequence[np.ndarray], at: Relation, before: Relation, after: Relation) -> list[np.ndarray]:
    """Keys of a location (3 components) or of a rotation (4) in the other space.

    Args:
        columns: ``(F, WIDTH)`` each, with keys on the frames of `at`.
        before, after: the relation a moment before and after these frames.
    """
    span = after.frames - before.frames
    per_frame = np.divide(1.0, span, out=np.zeros_like(span), where=span > 0.0)
    maps = [_as_map(r, len(columns)) for r in (before, at, after)]
    (first, first_offset), (here, offset), (last, last_offset) = maps
    rates = ((last - first) * per_frame[:, None, None], (last_offset - first_offset) * per_frame[:, None])
    return key_shapes.carried(columns, here, offset, rates)


def _as_map(at: Relation, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Matrices ``(F, w, w)`` and offsets ``(F, w)``."""
    if width == 3:
        return at.matrix, at.offset
    by_column = quaternion_multiply(at.turn[:, None], np.eye(4))
    return np.swapaxes(by_column, -1, -2), np.zeros((len(at.turn), 4))


def whole_keys(
    found: dict[str, Track], take: Callable[[np.ndarray], Samples], here: Samples, by_matrix: bool = False
) -> tuple[Columns, dict[str, np.ndarray]]:
    """All keys of an offset in another space that holds on all frames.

    Args:
        found: tracks of a location and maybe a rotation, by setting.
        take: hands out samples at frames.
        here: the sample of now.
        by_matrix: as `relation` takes it.

    Returns:
        keys by setting, for settings that need any, and the values of now.
    """
    now = relation(here, by_matrix)
    values = {}
    for name, track in found.items():
        convert = now.locations if len(track.values) == 3 else now.rotations
        values[name] = convert(track.values[None])[0]
    frames = key_frames(found)
    if not len(frames):
        return {}, values
    # Where the spaces move against each other, only a key keeps the target in its place now.
    frames, cut = cut_alike(found, np.union1d(frames, here.frames), [], lambda at: np.full(at.shape, True))
    at, before, after = relations(take, frames, by_matrix)
    place = int(np.argmin(np.abs(frames - here.frames[0])))
    if at.is_still:
        kept = np.arange(len(frames)) != place
        kept |= np.isin(frames, key_frames(found))
        cut = {name: track.cut(frames[kept].tolist()) for name, track in found.items()}
        at, before, after = at[kept], before[kept], after[kept]
    else:
        at = at.with_one(place, now)
        for name, track in found.items():
            for curve, value in zip(cut[name], track.values, strict=True):
                set_value(curve, place, value)
    columns = {name: carry(curves, at, before, after) for name, curves in cut.items()}
    for name, track in found.items():
        still = all(np.ptp(curve[:, keys.VALUE]) < SAME for curve in columns[name])
        if not len(track.frames) and still:
            del columns[name]
    return columns, values


def set_value(curve: np.ndarray, place: int, value: float) -> None:
    """Give a key another value; its handles come along."""
    curve[place, VALUES] += value - curve[place, keys.VALUE]


def key_frames(found: dict[str, Track]) -> np.ndarray:
    """Frames on which any of some tracks has a key."""
    return np.unique(np.concatenate([track.frames for track in found.values()])).astype(np.float64)


def cut_alike(
    found: dict[str, Track],
    frames: np.ndarray,
    ends: Sequence[float],
    inside: Callable[[np.ndarray], np.ndarray],
) -> tuple[np.ndarray, Columns]:
    """The keys of some tracks with a key in each on the same frames.

    Args:
        frames: where they are cut, all of them inside; ends: where they are cut beside it.
        inside: which frames count.

    Returns:
        the frames inside on which all have a key now, and their keys. They are more than
        were asked for where a curve cannot be cut in one place.
    """
    while True:
        cut = {name: track.cut([*frames.tolist(), *ends]) for name, track in found.items()}
        at = np.unique(np.concatenate([c[:, FRAME] for curves in cut.values() for c in curves]))
        at = at[inside(at)].astype(np.float64)
        if len(at) == len(frames):
            return frames, cut
        frames = at


def relations(
    take: Callable[[np.ndarray], Samples], frames: np.ndarray, by_matrix: bool = False
) -> tuple[Relation, Relation, Relation]:
    """The relation on frames, and a moment before and after each while the space is the same."""
    moments = np.concatenate([frames, frames - MOMENT, frames + MOMENT])
    order = np.argsort(moments, kind="stable")
    samples = take(moments[order])
    found = relation(samples, by_matrix)
    place = np.empty(len(order), int)
    place[order] = np.arange(len(order))
    at, before, after = place.reshape(3, -1)
    kinds = samples.kinds
    before = np.where(kinds[before] == kinds[at], before, at)
    after = np.where(kinds[after] == kinds[at], after, at)
    return found[at], found[before], found[after]
