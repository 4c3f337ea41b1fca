# SPDX-License-Identifier: GPL-3.0-or-later
"""Cut curves between keys without changing their shape, and carry them into other spaces.

Keys are the arrays of `keys`. A vector property is a list of such arrays, one a component.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import bpy
import numpy as np

from . import keys
from .keys import BEZIER, CONSTANT, FRAME, FREE, INTERPOLATION, LEFT, RIGHT, VALUE

# Blender takes keys that are nearer to each other than this for one, in frames.
NEAR = 0.01
BISECTIONS = 60


def _enum(prop: str, item: str) -> int:
    return bpy.types.Keyframe.bl_rna.properties[prop].enum_items[item].value


LINEAR = _enum("interpolation", "LINEAR")
ALIGNED = _enum("handle_left_type", "ALIGNED")
VECTOR = _enum("handle_left_type", "VECTOR")
AUTOMATIC = (_enum("handle_left_type", "AUTO"), _enum("handle_left_type", "AUTO_CLAMPED"))
LEFT_TYPE, RIGHT_TYPE = range(keys.HANDLE_TYPES.start, keys.HANDLE_TYPES.stop)


def flat(frames: Sequence[float], value: float) -> np.ndarray:
    """Smooth keys ``(n, WIDTH)`` of one value, with handles at a third of the way."""
    out = keys.make(frames, np.full(len(frames), value))
    gaps = np.diff(out[:, FRAME]) / 3.0
    out[:-1, RIGHT.start] += gaps
    out[1:, LEFT.start] -= gaps
    return out


def at(curve: np.ndarray, frame: float) -> int:
    """The place of the key at a frame, or -1."""
    near = np.flatnonzero(np.abs(curve[:, FRAME] - frame) < NEAR)
    return int(near[0]) if len(near) else -1


def cut(curve: np.ndarray, frame: float, evaluate: Callable[[float], float]) -> np.ndarray:
    """The keys of a curve with one more at `frame`; the curve runs as before.

    Args:
        curve: ``(n, WIDTH)`` with n >= 1.
        evaluate: the curve's value at a frame, asked for where its interpolation cannot be
            cut (elastic, bounce and the like): there keys on all whole frames take its place.
    """
    if at(curve, frame) >= 0:
        return curve
    after = int(np.searchsorted(curve[:, FRAME], frame))
    if after in (0, len(curve)):
        return _extended(curve, frame, at_start=after == 0)
    before = curve[after - 1]
    if before[INTERPOLATION] == BEZIER:
        return _cut_bezier(curve, after, frame)
    if before[INTERPOLATION] in (CONSTANT, LINEAR):
        new = keys.make([frame], [_straight(curve[after - 1 : after + 1], frame)])
        new[0, INTERPOLATION] = before[INTERPOLATION]
        return keys.merged(curve, new)
    first, last = np.floor(before[FRAME]) + 1.0, np.ceil(curve[after, FRAME]) - 1.0
    frames = np.union1d(np.arange(first, last + 1.0), [frame])
    new = keys.make(frames, [evaluate(float(f)) for f in frames])
    out = curve.copy()
    out[after - 1, INTERPOLATION] = new[:, INTERPOLATION] = LINEAR
    return keys.merged(out, new)


def _straight(pair: np.ndarray, frame: float) -> float:
    (x, y), (x_end, y_end) = pair[:, :2].astype(np.float64)
    return float(y if pair[0, INTERPOLATION] == CONSTANT else y + (y_end - y) * (frame - x) / (x_end - x))


def _extended(curve: np.ndarray, frame: float, at_start: bool) -> np.ndarray:
    """One more key beside the curve, which is flat there."""
    end = 0 if at_start else -1
    out, new = curve.copy(), keys.make([frame], [curve[end, VALUE]])
    third = (curve[end, :2] - new[0, :2]) / 3.0
    out[end, LEFT if at_start else RIGHT] = curve[end, :2] - third
    out[end, keys.HANDLE_TYPES] = FREE
    new[0, RIGHT if at_start else LEFT] = new[0, :2] + third
    if not at_start:
        out[end, INTERPOLATION] = new[0, INTERPOLATION] = BEZIER
    return keys.merged(out, new)


def _cut_bezier(curve: np.ndarray, after: int, frame: float) -> np.ndarray:
    """De Casteljau's algorithm on the segment before the key at place `after`.

    The handles of the keys at both ends are free from then on: computed anew they would
    give another curve.
    """
    out = curve.copy()
    points = np.array(
        [curve[after - 1, :2], curve[after - 1, RIGHT], curve[after, LEFT], curve[after, :2]], np.float64
    )
    width = points[3, 0] - points[0, 0]
    # As Blender does: no handle reaches beyond the other key.
    for key, handle in ((0, 1), (3, 2)):
        reach = abs(points[handle, 0] - points[key, 0])
        if reach > width:
            points[handle] = points[key] + (points[handle] - points[key]) * width / reach
    low, high = 0.0, 1.0
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _casteljau(points, middle)[-1][0][0] < frame else (low, middle)
    one, two, three = _casteljau(points, low)
    new = keys.make([frame], [three[0][1]])
    new[0, LEFT], new[0, RIGHT] = two[0], two[1]
    out[after - 1, RIGHT], out[after, LEFT] = one[0], one[2]
    out[after - 1 : after + 1, keys.HANDLE_TYPES] = FREE
    return keys.merged(out, new)


def _casteljau(points: np.ndarray, t: float) -> list[np.ndarray]:
    levels = [points]
    for _ in range(3):
        levels.append(levels[-1][:-1] + t * np.diff(levels[-1], axis=0))
    return levels[1:]


def carried(
    curves: Sequence[np.ndarray], matrix: np.ndarray, offset: np.ndarray, rates: tuple[np.ndarray, np.ndarray]
) -> list[np.ndarray]:
    """The keys of a vector property carried over by a map that differs from key to key.

    Where the map stays the same, the curves between the keys are carried over exactly;
    where it moves, they leave and meet the keys with the speed that it adds.

    Args:
        curves: w arrays ``(n, WIDTH)`` with keys on the same frames.
        matrix, offset: ``(n, w, w)``, ``(n, w)``: a value v becomes matrix v + offset.
        rates: how much these change per frame.
    """
    stack = np.array(curves, np.float64)
    value = stack[..., VALUE].T
    out = np.array(curves)
    new = np.einsum("nij,nj->ni", matrix, value) + offset
    out[..., VALUE] = new.T
    drift = np.einsum("nij,nj->ni", rates[0], value) + rates[1]
    for side, kind in ((LEFT, LEFT_TYPE), (RIGHT, RIGHT_TYPE)):
        dx, dy = (stack[..., side] - stack[..., :2]).transpose(2, 1, 0)
        slope = np.divide(dy, dx, out=np.zeros_like(dy), where=np.abs(dx) > 1e-6)
        slope = np.einsum("nij,nj->ni", matrix, slope) + drift
        out[..., side.start + 1] = (new + dx * slope).T
        types = out[..., kind]
        types[np.isin(types, AUTOMATIC)] = ALIGNED
        types[types == VECTOR] = FREE
    return list(out)
