# SPDX-License-Identifier: GPL-3.0-or-later
"""The bend side of two-bone limbs, carried along the frames of a range so that no limb flips.

A pose that knows of no other frame has places where its bend cannot be continuous: a target
opposite the FK direction, a pole on the line to the target, an FK pose that is straight (see
`bend_plane`). Near them the limb's own bend turns many times as fast as what it depends on,
and on them it flips. A bake knows the frames before, and can carry the bend over.

From frame to frame, the own turn of the bend about its line is compared with the steps of
what it depends on:

- Up to `FREE` times as fast it is followed. A range that passes no such place is left as it
  is, to the bit.
- From twice that on it is held back: the bend goes with its line by the shortest turn.
- As soon as the own turn is slow again, the limb goes back to its own bend plane, by at most
  `BACK` of what it is free to turn; where a half turn is nearer, to the other side of that
  plane, which then is the side that it came from (not for a target that came past the
  opposite of the FK direction: there both ways round lead to one side).

This is done twice, each time in a frame where only what matters moves: for the FK hinge about
the upper bone, as that bone sees it, and for the bend plane about the line from the root to
the target, as the FK limb sees it. A body that turns, and FK rotation that is keyed, carry
the bend along and hold nothing back.

A frame takes its side from the last whole frame before it, so it never matters which frames
between are asked for. The first frame, one after a frame without influence, and one after a
leap of more than `LEAP` are solved as if there were no other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from . import two_bone
from .bend_plane import smooth_step
from .job import ChainJob, ChainResult
from .transforms import (
    TINY,
    axis_angle_to_matrix,
    cross,
    dot,
    frame,
    length,
    normalize,
    reject,
    transform_vector,
)

# How many times as fast as what it depends on a bend may turn.
FREE = 5.0
# Share of this by which a bend that was held back may go back.
BACK = 0.4
# Steps, in radians or shares of the limb's length, that are no motion but another pose.
LEAP = 1.0
# Steps that are the rounding of Blender's float32 poses.
NOISE = 1e-5


@dataclass(frozen=True)
class _Bend:
    """A direction in which limbs bend, and what it depends on, over F frames.

    Attributes:
        line: ``(F, m, 3)`` unit axis that it turns about; normal: ``(F, m, 3)`` unit, across it.
        movers: ``(F, m, k, 3)`` what it depends on; it may turn as they move.
        lever: ``(F, m)`` what a turn by one radian counts beside a step of the movers.
        period: ``(F, m)`` a turn that was held back ends at a multiple of this.
    """

    line: np.ndarray
    normal: np.ndarray
    movers: np.ndarray
    lever: np.ndarray
    period: np.ndarray


@dataclass(frozen=True)
class _Last:
    """A bend at a whole frame: line, normal and movers, what it was turned, whether it was solved."""

    frame: float
    vectors: np.ndarray
    turn: float
    solved: bool


@dataclass(frozen=True)
class BendPath:
    """Frames of a range, and what the frames before them have left.

    Attributes:
        frames: ``(F,)`` in ascending order, with no whole frame left out; they go on where the
            batch before has ended.
        memory: by kind of bend and chain; a solve reads and renews it.
        at_start: the memory before these frames.
        turned: by chain ``(F,)`` radians by which a solve turned the bend away from the limb's own.
    """

    frames: np.ndarray
    memory: dict[tuple[str, int], _Last] = field(default_factory=dict)
    turned: dict[int, np.ndarray] = field(default_factory=dict)
    at_start: dict[tuple[str, int], _Last] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "at_start", dict(self.memory))

    def rewind(self, chains: Iterable[int]) -> None:
        """Forget what these frames have left of some chains, which are solved once more."""
        again = set(chains)
        for key in [key for key in self.memory if key[1] in again]:
            del self.memory[key]
        self.memory.update({key: last for key, last in self.at_start.items() if key[1] in again})

    @cached_property
    def last_whole(self) -> np.ndarray:
        """``(F + 1,)`` the last whole frame before each and, last, before the next batch.

        Frames count from 1; 0 is the one in memory.
        """
        count = np.arange(1, len(self.frames) + 1)
        whole = np.where(self.frames == np.floor(self.frames), count, 0)
        return np.concatenate([[0], np.maximum.accumulate(whole)])


def carry(
    job: ChainJob, path: BendPath, chains: Sequence[int], bone: np.ndarray, weight: np.ndarray
) -> ChainJob:
    """The job with the hinge and the pole angle that carry the bend sides.

    Args:
        job: a valid one, ``joints`` ``(F, m, 3, 3)``; its hinge across the upper bone.
        chains: ``(m,)`` numbers that tell the limbs apart in the path's memory.
        bone: ``(F, m, 3, 3)`` FK orientation of the upper bone, in the job's frame.
        weight: ``(F, m)`` influence.
    """
    root = job.joints[..., 0, :]
    bones = np.diff(job.joints, axis=-2)
    size = np.maximum(length(bones).sum(axis=-1), TINY)[..., None]
    upper = normalize(bones[..., 0, :], bone[..., 1])
    line = normalize(job.target - root, upper)
    has_pole = np.full(weight.shape, job.pole is not None)
    if job.pole_mask is not None:
        has_pole &= job.pole_mask

    own = _own_plane(job)
    height = length(reject(own.joints[..., 1, :] - root, line)) / size[..., 0]
    hinge = _Bend(
        line=_seen(bone, upper),
        normal=_seen(bone, job.hinge),
        movers=_stacked(_seen(bone, (job.target - root) / size), _seen(bone, bones[..., 1, :] / size)),
        # Without a pole the hinge turns the middle joint about the line; with one it rolls the bones.
        lever=np.where(has_pole, 1.0, height),
        period=np.full(weight.shape, np.pi),
    )
    turn = _turns(hinge, path, "hinge", chains, weight)
    if turn.any():
        turned = transform_vector(axis_angle_to_matrix(upper, turn), job.hinge)
        job = replace(job, hinge=np.where((turn != 0.0)[..., None], turned, job.hinge))
        own = _own_plane(job)

    limb = frame(normalize(job.joints[..., 2, :] - root, upper), job.hinge)
    normal = normalize(reject(transform_vector(own.rotations[..., 0, :, :], job.hinge), line))
    pole = np.zeros(line.shape) if job.pole is None else np.where(has_pole[..., None], job.pole, 0.0)
    plane = _Bend(
        line=_seen(limb, line),
        normal=_seen(limb, normal),
        movers=_stacked(_seen(limb, line), _seen(limb, normalize(pole))),
        lever=np.ones(weight.shape),
        period=np.where(has_pole, np.pi, 2.0 * np.pi),
    )
    turned = np.abs(turn)
    turn = _turns(plane, path, "plane", chains, weight)
    path.turned.update(zip(chains, np.maximum(turned, np.abs(turn)).T, strict=True))
    return replace(job, pole_angle=job.pole_angle + turn)


def _own_plane(job: ChainJob) -> ChainResult:
    # The pole angle is the animator's own turn: it is added at the end, held back by nothing.
    return two_bone.solve_valid(replace(job, pole_angle=np.zeros(job.joints.shape[:-2])))


def _seen(axes: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """A vector ``(..., 3)`` in frames ``(..., 3, 3)`` given by their axes, the columns."""
    return np.einsum("...ji,...j->...i", axes, vector)


def _stacked(*vectors: np.ndarray) -> np.ndarray:
    return np.stack(vectors, axis=-2)


def _turns(bend: _Bend, path: BendPath, kind: str, chains: Sequence[int], weight: np.ndarray) -> np.ndarray:
    """Turns ``(F, m)`` about the lines, from the own bends to the carried ones."""
    vectors = np.concatenate([_stacked(bend.line, bend.normal), bend.movers], axis=-2)
    left = [_left(path, (kind, chain), vectors[0, i]) for i, chain in enumerate(chains)]
    vectors = np.concatenate([[[last.vectors for last in left]], vectors])
    solved = np.concatenate([[[last.solved for last in left]], weight > 0.0])
    before = path.last_whole[:-1]

    now, was = vectors[1:], vectors[before]
    step = length(now[..., 2:, :] - was[..., 2:, :]).sum(axis=-1)
    anew = ~solved[before] | (step > LEAP)
    own = _own_turn(was[..., 0, :], was[..., 1, :], bend.line, bend.normal)
    free = (FREE * step + NOISE) / np.maximum(bend.lever, NOISE)
    held = smooth_step(np.abs(own) / free, 1.0, 2.0)

    turns = np.empty((len(vectors), len(chains)))
    turns[0] = [last.turn for last in left]
    for i, (source, back) in enumerate(zip(before, BACK * (1.0 - held) * free, strict=True)):
        kept = np.where(anew[i], 0.0, turns[source] - held[i] * own[i])
        kept -= 2.0 * np.pi * np.rint(kept / (2.0 * np.pi))
        end = bend.period[i] * np.rint(kept / bend.period[i])
        turns[i + 1] = end + np.sign(kept - end) * np.maximum(np.abs(kept - end) - back, 0.0)
    end = path.last_whole[-1]
    for i, (chain, last) in enumerate(zip(chains, left, strict=True)):
        at = float(path.frames[end - 1]) if end else last.frame
        path.memory[kind, chain] = _Last(at, vectors[end, i], float(turns[end, i]), bool(solved[end, i]))
    return turns[1:]


def _left(path: BendPath, key: tuple[str, int], first: np.ndarray) -> _Last:
    """What the batch before has left of a bend; where it has not bent there, nothing."""
    last = path.memory.get(key)
    if last is None or path.frames[0] - last.frame > 1.0:
        return _Last(-np.inf, first, 0.0, False)
    return last


def _own_turn(
    line_before: np.ndarray, before: np.ndarray, line: np.ndarray, normal: np.ndarray
) -> np.ndarray:
    """Angles ``(...)`` about ``line`` by which normals turn beyond the shortest turn of their lines."""
    middle = line_before + line
    ratio = 2.0 * dot(before, middle) / np.maximum(dot(middle, middle), TINY)
    carried = before - ratio[..., None] * middle
    return np.arctan2(dot(cross(carried, normal), line), dot(carried, normal))
