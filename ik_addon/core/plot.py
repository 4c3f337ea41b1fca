# SPDX-License-Identifier: GPL-3.0-or-later
"""Residual over frames, as everything that shows it sees it: columns, axis and colours.

However long the range, a plot has few columns. A column of many frames stands for the largest
residual among them, and names every status that occurs in it: neither a peak nor a single bad
frame is lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from .job import Status
from .report import Track

# Okabe and Ito's colours, which also people who see no red, green or blue tell apart. A status
# has a place of its own besides, since nobody should need them.
COLORS = {
    Status.OK: "#009e73",
    Status.TARGET_FAR: "#d55e00",
    Status.TARGET_NEAR: "#e69f00",
    Status.LIMIT: "#0072b2",
    Status.INFLUENCE: "#56b4e9",
    Status.NOT_CONVERGED: "#cc79a7",
    Status.POLE_ALIGNED: "#f0e442",
    Status.BROKEN: "#000000",
}
# The ends of an axis, but for the power of ten: their halves are round, too.
ROUND = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)
# No axis ends below this, in metres: what a pose in float32 cannot hold shall not look like a miss.
SMALLEST_AXIS = 1e-5


@dataclass(frozen=True)
class Columns:
    """n columns that together cover the range of frames.

    Attributes:
        edges: ``(n + 1,)`` frames: column i goes from edge i to edge i + 1.
        residual: ``(n,)`` metres, the largest of the column's frames.
        status: ``(n,)`` values of `Status`, of the frame with that residual.
        seen: ``(n, statuses)`` whether a status occurs among the column's frames.
    """

    edges: np.ndarray
    residual: np.ndarray
    status: np.ndarray
    seen: np.ndarray


def edges(frames: np.ndarray) -> np.ndarray:
    """``(F + 1,)`` where frames ``(F,)`` begin, half-way from the one before, and where the last ends."""
    frames = np.asarray(frames, float)
    half = np.diff(frames) / 2.0 if len(frames) > 1 else np.array([0.5])
    inner = frames[:-1] + half[: len(frames) - 1]
    return np.concatenate([[frames[0] - half[0]], inner, [frames[-1] + half[-1]]])


def columns(track: Track, most: int) -> Columns:
    """The columns of a track: one a frame, or `most` of them for more frames than that."""
    residual, status = np.asarray(track.residual), np.asarray(track.status)
    count = len(residual)
    first = np.linspace(0, count, min(most, count), endpoint=False).astype(int)
    stops = np.append(first, count)
    worst = [a + int(np.argmax(residual[a:b])) for a, b in pairwise(stops.tolist())]
    occurs = status[:, None] == np.arange(len(Status))
    return Columns(
        edges(track.frames)[stops],
        residual[worst],
        status[worst],
        np.logical_or.reduceat(occurs, first, axis=0),
    )


def runs(mask: np.ndarray) -> Iterator[tuple[int, int]]:
    """First column and end (exclusive) of each run of columns where `mask` ``(n,)`` holds."""
    steps = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8)))
    yield from zip(steps[::2].tolist(), steps[1::2].tolist(), strict=True)


def lanes(track: Track) -> list[Status]:
    """The statuses besides OK that occur in a track; each has a lane below the plot."""
    counts = np.bincount(track.status, minlength=len(Status))
    return [status for status in Status if status != Status.OK and counts[status]]


def axis_top(track: Track) -> float:
    """Where the axis of residuals ends, in metres: a round number that no residual is above."""
    largest = max(float(np.max(track.residual)), SMALLEST_AXIS)
    power = 10.0 ** np.floor(np.log10(largest))
    # A hair below a round number counts as on it.
    return next(float(m * power) for m in ROUND if m * power >= largest * (1.0 - 1e-9))


def frame_ticks(first: float, last: float, most: int) -> list[float]:
    """At most `most` round frames inside a range, evenly spaced."""
    least = max((last - first) / most, 1.0)
    power = 10.0 ** np.floor(np.log10(least))
    step = next(m * power for m in (1.0, 2.0, 5.0, 10.0) if m * power >= least)
    return [float(tick) for tick in np.arange(np.ceil(first / step), np.floor(last / step) + 1) * step]
