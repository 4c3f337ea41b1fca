# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys of F-curves as arrays: read, replace inside a range, write.

A curve's keys are one float32 array, a row a key and its `COLUMNS` side by side. Curves are
never asked to update: that would compute automatic handles anew, also those of keys
outside the range. Keys are written in order, which is all that an update would see to.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import bpy
import numpy as np

# Property of a key -> its first column, number of values, type for `foreach_get`.
COLUMNS = {
    "co": (0, 2, np.float32),
    "handle_left": (2, 2, np.float32),
    "handle_right": (4, 2, np.float32),
    "interpolation": (6, 1, np.int32),
    "easing": (7, 1, np.int32),
    "handle_left_type": (8, 1, np.int32),
    "handle_right_type": (9, 1, np.int32),
    "type": (10, 1, np.int32),
    "back": (11, 1, np.float32),
    "amplitude": (12, 1, np.float32),
    "period": (13, 1, np.float32),
    "select_control_point": (14, 1, bool),
    "select_left_handle": (15, 1, bool),
    "select_right_handle": (16, 1, bool),
}
WIDTH = 17
FRAME, VALUE = 0, 1
LEFT, RIGHT = slice(2, 4), slice(4, 6)
# What governs the way to the next key, but for the handles.
INTERPOLATION, EASING, EXTRAS = 6, 7, slice(11, 14)
HANDLE_TYPES = slice(8, 10)


def _enum(prop: str, item: str) -> int:
    return bpy.types.Keyframe.bl_rna.properties[prop].enum_items[item].value


CONSTANT, BEZIER = _enum("interpolation", "CONSTANT"), _enum("interpolation", "BEZIER")
FREE = _enum("handle_left_type", "FREE")
DEFAULTS = {
    "interpolation": BEZIER,
    "easing": _enum("easing", "AUTO"),
    "handle_left_type": FREE,
    "handle_right_type": FREE,
    "type": _enum("type", "KEYFRAME"),
    # Blender's own for a new key.
    "back": 1.70158,
    "amplitude": 0.8,
    "period": 4.1,
    "select_control_point": True,
    "select_left_handle": True,
    "select_right_handle": True,
}


def read(curve: bpy.types.FCurve) -> np.ndarray:
    """All keys of a curve, ``(n, WIDTH)`` float32."""
    points = curve.keyframe_points
    keys = np.empty((len(points), WIDTH), np.float32)
    for prop, (first, width, dtype) in COLUMNS.items():
        values = np.empty(len(points) * width, dtype)
        points.foreach_get(prop, values)
        keys[:, first : first + width] = values.reshape(-1, width)
    return keys


def write(curves: Iterable[tuple[bpy.types.FCurve, np.ndarray]]) -> None:
    """Replace all keys of each curve by keys ``(n, WIDTH)``, which are sorted by frame."""
    fresh = None
    for curve, keys in curves:
        points = curve.keyframe_points
        points.clear()
        if not len(keys):
            continue
        points.add(len(keys))
        if fresh is None:
            fresh = read(curve)[0]
        # What a fresh key has already need not be set; the user's preferences decide what that is.
        given = np.any(keys != fresh, axis=0).tolist()
        for prop, (first, width, dtype) in COLUMNS.items():
            if any(given[first : first + width]):
                points.foreach_set(prop, keys[:, first : first + width].astype(dtype).ravel())


def make(frames: Sequence[float] | np.ndarray, values: Sequence[float] | np.ndarray) -> np.ndarray:
    """New keys ``(n, WIDTH)``, selected as Blender's are, with free handles that lie on the keys."""
    keys = np.zeros((len(frames), WIDTH), np.float32)
    for prop, value in DEFAULTS.items():
        keys[:, COLUMNS[prop][0]] = value
    keys[:, FRAME], keys[:, VALUE] = frames, values
    keys[:, LEFT] = keys[:, RIGHT] = keys[:, :2]
    return keys


def steps(frames: Sequence[float], values: Sequence[float]) -> np.ndarray:
    """New keys that hold their value up to the next one."""
    keys = make(frames, values)
    keys[:, INTERPOLATION] = CONSTANT
    return keys


def inside(keys: np.ndarray, ranges: np.ndarray) -> np.ndarray:
    """Which keys lie in one of some ranges ``(m, 2)``, ends included: ``(n,)`` bool."""
    at = keys[:, FRAME, None]
    low, high = ranges.T
    return np.any((at >= low) & (at <= high), axis=1)


def merged(*parts: np.ndarray) -> np.ndarray:
    """Keys of several arrays, sorted by frame."""
    keys = np.concatenate(parts)
    return keys[np.argsort(keys[:, FRAME], kind="stable")]


def replaced(old: np.ndarray, new: np.ndarray) -> np.ndarray:
    """The keys `old` with those in the range of `new` replaced by `new`.

    The first and last new key meet their neighbours straight; from the last one on the
    curve goes to the next old key as it went before.

    Args:
        old, new: ``(n, WIDTH)``, ``(m, WIDTH)`` with m >= 1, sorted.
    """
    first, last = new[0, FRAME], new[-1, FRAME]
    before, after = old[old[:, FRAME] < first], old[old[:, FRAME] > last]
    new = new.copy()
    if len(before):
        new[0, LEFT] = new[0, :2] + (before[-1, :2] - new[0, :2]) / 3.0
    if len(after):
        new[-1, RIGHT] = new[-1, :2] + (after[0, :2] - new[-1, :2]) / 3.0
        leaving = old[old[:, FRAME] <= last]
        if len(leaving) and new[-1, INTERPOLATION] == BEZIER:
            for column in (INTERPOLATION, EASING, EXTRAS):
                new[-1, column] = leaving[-1, column]
    return np.concatenate([before, new, after])
