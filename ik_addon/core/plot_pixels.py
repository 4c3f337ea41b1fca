# SPDX-License-Identifier: GPL-3.0-or-later
"""Residual over frames of one chain as pixels, for where text is not for the picture to draw."""

from __future__ import annotations

import numpy as np

from .job import Status
from .plot import COLORS, axis_top, columns, lanes
from .report import Track

# On dark ground, where black would not be seen.
INK = "#ffffff"
GROUND, GRID, LANE_GROUND = "#1d1d1d", "#3a3a3a", "#2b2b2b"
# Of the size of the picture: height of a lane with the gap above it, the gap alone, and half a mark.
LANE, GAP, MARK = 0.055, 0.018, 0.012


def color(status: Status) -> np.ndarray:
    """``(4,)`` red, green, blue and alpha from 0 to 1 of a status on dark ground."""
    return _rgba(INK if status is Status.BROKEN else COLORS[status])


def residual_pixels(track: Track, size: int) -> np.ndarray:
    """A square picture ``(size, size, 4)`` of RGBA from 0 to 1, the lowest row first.

    It fills the width with the range of frames. Residuals stand above the lanes, one for each
    status that occurs besides OK, in the order of `core.plot.lanes` from top to bottom.
    """
    picture = np.empty((size, size, 4), np.float32)
    picture[:] = _rgba(GROUND)
    shown = lanes(track)
    lane, gap = round(LANE * size), round(GAP * size)
    foot = lane * len(shown)
    rows = size - foot
    for y in (foot, foot + rows // 2, size - 1):
        picture[y] = _rgba(GRID)
    heights, statuses, seen = _sampled(track, size)
    tops = foot + np.ceil(np.clip(heights / axis_top(track), 0.0, 1.0) * (rows - 1)).astype(int)
    visible = tops > foot
    for status in Status:
        for x in np.flatnonzero(visible & (statuses == status)):
            picture[foot : tops[x], x] = color(status)
    for place, status in enumerate(shown):
        low = foot - lane * (place + 1)
        picture[low : low + lane - gap] = _rgba(LANE_GROUND)
        picture[low : low + lane - gap, seen[:, status.value]] = color(status)
    if visible.any():
        _mark(picture, int(np.argmax(heights)), int(tops.max()), foot, max(round(MARK * size), 1))
    return picture


def _sampled(track: Track, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each column of pixels the largest residual, its status, and the statuses that occur."""
    found = columns(track, size)
    place = (found.edges - found.edges[0]) / (found.edges[-1] - found.edges[0]) * size
    first = np.minimum(np.round(place[:-1]).astype(int), size - 1)
    # However narrow a column is, it has a pixel.
    last = np.maximum(np.round(place[1:]).astype(int), first + 1)
    heights, statuses = np.full(size, -1.0), np.zeros(size, int)
    seen = np.zeros((size, len(Status)), bool)
    for a, b, residual, status, occurs in zip(
        first, last, found.residual, found.status, found.seen, strict=True
    ):
        higher = residual > heights[a:b]
        statuses[a:b][higher] = status
        heights[a:b][higher] = residual
        seen[a:b] |= occurs
    return heights, statuses, seen


def _mark(picture: np.ndarray, x: int, top: int, foot: int, half: int) -> None:
    """A white triangle that points down at the largest residual, inside the picture."""
    size = len(picture)
    tip = min(top, size - 1 - 2 * half)
    for step in range(2 * half + 1):
        row, reach = tip + step, (step + 1) // 2
        picture[max(row, foot), max(x - reach, 0) : x + reach + 1] = _rgba(INK)


def _rgba(text: str) -> np.ndarray:
    return np.array([int(text[i : i + 2], 16) / 255.0 for i in (1, 3, 5)] + [1.0], np.float32)
