# SPDX-License-Identifier: GPL-3.0-or-later
"""Residual over frames as an SVG picture: one plot for each chain, one below the other."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

import numpy as np

from .job import Status
from .plot import COLORS, Columns, axis_top, columns, edges, frame_ticks, lanes, runs
from .report import Track, frame_number, length_text

# Pixels.
WIDTH, LEFT, RIGHT = 960, 120, 24
INNER = WIDTH - LEFT - RIGHT
TITLE, LEGEND_LINE = 34, 18
HEAD, PLOT, LANES, LANE, LANE_GAP, FOOT = 26, 72, 9, 9, 3, 30
# Narrower columns could not be seen.
COLUMN = 1
SMALLEST_MARK = 1.5
# Of the font's usual width, to tell what fits.
CHARACTER, LONGEST_NAME = 8.5, 64
# What XML cannot hold.
UNFIT = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
STYLE = """\
text{font:12px 'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif;fill:#222}
.t{font-size:15px;font-weight:600}.n{font-weight:600}.a{font-size:10px;fill:#555}.e{text-anchor:end}
.m{text-anchor:middle}.g{stroke:#e4e4e4;fill:none}.x{stroke:#888;fill:none}.k{fill:#222}.l{fill:#f5f5f5}
"""


def residual_svg(tracks: Sequence[Track], title: str) -> str:
    """An SVG document that plots the residuals of some chains, at least one, over their frames.

    Each plot has an axis of its own, since a chain that misses by centimetres would hide one
    that misses by tenths of a millimetre; the axis of frames is common. Its colour says what
    keeps the tip off its target, as do the lanes below it: one for each status, with its name.
    """
    low, high = _frame_range(tracks)
    across = _Scale(low, high)
    present = [status for status in Status if any(status in track.status for track in tracks)]
    body = [f'<text class="t" x="{LEFT}" y="22">{_text(title)}</text>', *_legend(present)]
    top = TITLE + LEGEND_LINE * _legend_lines(present) + 8
    for track in tracks:
        drawn, height = _row(track, across)
        body.append(f'<g transform="translate(0 {top})">{drawn}</g>')
        top += height
    style = STYLE + "".join(f".s{status.value}{{fill:{COLORS[status]}}}" for status in present)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{top}" viewBox="0 0 {WIDTH} {top}"'
        f' role="img"><title>{_text(title)}</title>\n<style>{style}</style>\n'
        f'<rect width="100%" height="100%" fill="#fff"/>\n' + "\n".join(body) + "\n</svg>\n"
    )


@dataclass(frozen=True)
class _Scale:
    """Where frames stand between the left and the right end of the plots."""

    low: float
    high: float

    def x(self, frame: float) -> float:
        return LEFT + INNER * (frame - self.low) / (self.high - self.low)


def _frame_range(tracks: Sequence[Track]) -> tuple[float, float]:
    ends = [edges(track.frames)[[0, -1]].tolist() for track in tracks]
    return min(first for first, _ in ends), max(last for _, last in ends)


def _text(text: str) -> str:
    return escape(UNFIT.sub("\ufffd", text))


def _number(value: float) -> str:
    """A coordinate to a tenth of a pixel."""
    return f"{value:.1f}".removesuffix(".0")


def _legend_places(present: Sequence[Status]) -> Iterator[tuple[Status, float, int]]:
    x, line = float(LEFT), 0
    for status in present:
        width = 18 + CHARACTER * len(status.name) + 18
        if x + width > WIDTH - RIGHT + 18:
            x, line = float(LEFT), line + 1
        yield status, x, line
        x += width


def _legend_lines(present: Sequence[Status]) -> int:
    return 1 + max(line for _, _, line in _legend_places(present))


def _legend(present: Sequence[Status]) -> Iterator[str]:
    for status, x, line in _legend_places(present):
        y = TITLE + LEGEND_LINE * line
        yield (
            f'<rect class="s{status.value}" x="{_number(x)}" y="{y}" width="12" height="12"/>'
            f'<text x="{_number(x + 18)}" y="{y + 10}">{status.name}</text>'
        )


def _row(track: Track, across: _Scale) -> tuple[str, int]:
    """The plot of one chain, with its own origin, and its height."""
    shown = lanes(track)
    found = columns(track, INNER // COLUMN)
    bottom = HEAD + PLOT
    low = bottom + LANES + len(shown) * (LANE + LANE_GAP)
    parts = [
        _heading(track),
        *_axes(axis_top(track), across, bottom, low),
        *_areas(found, axis_top(track), across, bottom),
        *_largest(track, across, bottom),
    ]
    for place, status in enumerate(shown):
        top = bottom + LANES + place * (LANE + LANE_GAP)
        parts.append(_lane(track, found, status, across, top))
    return "".join(parts), low + FOOT


def _heading(track: Track) -> str:
    name = f"{track.armature} / {track.chain}"
    short = name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"
    worst = int(np.argmax(track.residual))
    largest = length_text(float(track.residual[worst]))
    mean = length_text(float(np.mean(track.residual)))
    figures = f"max {largest} at frame {frame_number(track.frames[worst])}, mean {mean}"
    return (
        f'<text class="n" x="{LEFT}" y="{HEAD - 8}"><title>{_text(f"{name}, {track.solver}")}</title>'
        f'{_text(short)}</text><text class="e" x="{WIDTH - RIGHT}" y="{HEAD - 8}">{_text(figures)}</text>'
    )


def _axes(top: float, across: _Scale, bottom: int, low: int) -> Iterator[str]:
    """Lines and numbers of both axes."""
    unit, scale = ("m", 1.0) if top >= 1.0 else ("mm", 1000.0)
    grid = []
    for share in (0.0, 0.5, 1.0):
        y = bottom - share * PLOT
        grid.append(f"M{LEFT} {_number(y)}h{INNER}")
        label = f"{share * top * scale:g} {unit}"
        yield f'<text class="a e" x="{LEFT - 6}" y="{_number(y + 3.5)}">{label}</text>'
    for frame in frame_ticks(across.low, across.high, 12):
        x = _number(across.x(frame))
        grid.append(f"M{x} {HEAD}V{low}")
        yield f'<text class="a m" x="{x}" y="{low + 11}">{frame_number(frame)}</text>'
    yield f'<text class="a e" x="{LEFT - 6}" y="{low + 11}">frame</text>'
    yield f'<path class="g" d="{"".join(grid)}"/><path class="x" d="M{LEFT} {bottom}h{INNER}"/>'


def _areas(found: Columns, top: float, across: _Scale, bottom: int) -> Iterator[str]:
    """For each status one path: the area under the residuals of its columns."""
    heights = np.round(np.clip(found.residual / top, 0.0, 1.0) * PLOT, 1)
    for status in Status:
        path = []
        for first, last in runs((found.status == status) & (heights > 0.0)):
            path.append(f"M{_number(across.x(found.edges[first]))} {bottom}")
            place = first
            while place < last:
                # Columns of the same height become one.
                end = next((i for i in range(place, last) if heights[i] != heights[place]), last)
                path.append(f"V{_number(bottom - heights[place])}H{_number(across.x(found.edges[end]))}")
                place = end
            path.append(f"V{bottom}z")
        if path:
            yield f'<path class="s{status.value}" d="{"".join(path)}"/>'


def _largest(track: Track, across: _Scale, bottom: int) -> Iterator[str]:
    """A mark at the largest residual, and its frame."""
    worst = int(np.argmax(track.residual))
    residual, frame = float(track.residual[worst]), float(track.frames[worst])
    if residual <= 0.0:
        return
    x, y = across.x(frame), bottom - PLOT * residual / axis_top(track)
    anchor, shift = ("e", -7) if frame > (across.low + across.high) / 2.0 else ("", 7)
    yield (
        f'<circle class="k" cx="{_number(x)}" cy="{_number(y)}" r="3"/>'
        f'<text class="a {anchor}" x="{_number(x + shift)}" y="{_number(y - 3 if y > HEAD + 8 else y + 9)}">'
        f"frame {frame_number(frame)}</text>"
    )


def _lane(track: Track, found: Columns, status: Status, across: _Scale, top: int) -> str:
    """On which frames a chain has a status."""
    path = []
    for first, last in runs(found.seen[:, status.value]):
        left = across.x(found.edges[first])
        width = max(across.x(found.edges[last]) - left, SMALLEST_MARK)
        path.append(f"M{_number(left)} {top}h{_number(width)}v{LANE}h-{_number(width)}z")
    count = int(np.count_nonzero(track.status == status))
    label = f"{status.name}: {count} of {len(track.frames)} frames"
    return (
        f'<rect class="l" x="{LEFT}" y="{top}" width="{INNER}" height="{LANE}"/>'
        f'<text class="a e" x="{LEFT - 6}" y="{top + LANE - 1}">{status.name}</text>'
        f'<path class="s{status.value}" d="{"".join(path)}"><title>{label}</title></path>'
    )
