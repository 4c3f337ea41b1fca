# SPDX-License-Identifier: GPL-3.0-or-later
"""The picture of a residual, read back from what was drawn."""

import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ik_addon.core import plot, plot_svg
from ik_addon.core.job import Status
from ik_addon.core.plot_svg import HEAD, INNER, LEFT, PLOT, residual_svg

SVG = "{http://www.w3.org/2000/svg}"


def track(
    residual: Any, status: Any, frames: Any = None, armature: str = "Rig", chain: str = "leg"
) -> SimpleNamespace:
    residual = np.asarray(residual, float)
    frames = np.arange(1.0, len(residual) + 1) if frames is None else np.asarray(frames, float)
    status = np.broadcast_to(np.asarray(status, np.int8), residual.shape)
    return SimpleNamespace(
        armature=armature, chain=chain, solver="TWO_BONE", frames=frames, residual=residual, status=status
    )


@st.composite
def tracks(draw: st.DrawFn, most: int = 60) -> SimpleNamespace:
    """Any frames in order, whole or not, with gaps; residuals of all sizes."""
    count = draw(st.integers(1, most))
    steps = draw(st.lists(st.sampled_from([0.25, 1.0, 2.0, 7.0]), min_size=count, max_size=count))
    sizes = st.sampled_from([0.0, 1e-9, 3e-6, 0.004, 0.25, 0.99999, 1.0, 40.0, 1e30]) | st.floats(0.0, 2.0)
    return track(
        draw(st.lists(sizes, min_size=count, max_size=count)),
        draw(st.lists(st.sampled_from(list(Status)), min_size=count, max_size=count)),
        draw(st.integers(-100, 100)) + np.cumsum(steps),
    )


# Columns


@given(tracks(), st.integers(1, 80))
def test_columns_lose_no_peak_and_no_status(one: SimpleNamespace, most: int) -> None:
    found = plot.columns(one, most)
    assert len(found.residual) == min(most, len(one.frames)) == len(found.edges) - 1
    assert (np.diff(found.edges) > 0.0).all()
    place = np.searchsorted(found.edges, one.frames) - 1
    assert place.min() == 0 and place.max() == len(found.residual) - 1
    for column in range(len(found.residual)):
        inside = place == column
        assert found.residual[column] == one.residual[inside].max()
        worst = one.status[inside][one.residual[inside].argmax()]
        assert found.status[column] == worst
        assert set(np.flatnonzero(found.seen[column])) == set(one.status[inside].tolist())


@given(st.lists(st.booleans(), max_size=30))
def test_runs_cover_what_holds(mask: list[bool]) -> None:
    covered = np.zeros(len(mask), bool)
    ends = [-1]
    for first, last in plot.runs(np.array(mask, bool)):
        assert first > ends[-1], "neighbouring runs are one"
        ends.append(last)
        covered[first:last] = True
    assert covered.tolist() == mask


@given(tracks())
def test_the_axis_is_round_and_holds_every_residual(one: SimpleNamespace) -> None:
    top = plot.axis_top(one)
    assert top >= one.residual.max() * (1.0 - 1e-8) and top >= plot.SMALLEST_AXIS * (1.0 - 1e-9)
    assert top <= max(2.0 * one.residual.max(), plot.SMALLEST_AXIS) * (1.0 + 1e-9)
    assert float(f"{top:.0e}") == pytest.approx(top, rel=1e-9)


@given(st.floats(-1000.0, 1000.0), st.floats(1.0, 1e5), st.integers(3, 20))
def test_ticks_are_whole_frames_inside_the_range(first: float, span: float, most: int) -> None:
    ticks = plot.frame_ticks(first, first + span, most)
    assert 1 <= len(ticks) <= most + 1
    assert all(tick == round(tick) and first <= tick <= first + span for tick in ticks)
    assert len({round(step) for step in np.diff(ticks)}) <= 1


def test_every_status_has_a_colour_of_its_own() -> None:
    assert plot.COLORS.keys() == set(Status)
    assert len(set(plot.COLORS.values())) == len(Status)


# The picture, read back


def rows(document: str) -> list[ElementTree.Element]:
    """The group of each chain."""
    return ElementTree.fromstring(document).findall(f"{SVG}g")


def words(element: ElementTree.Element) -> list[str]:
    return ["".join(text.itertext()) for text in element.iter(f"{SVG}text")]


def corners(path: str) -> Iterator[list[tuple[float, float]]]:
    """The polygons of a path of M, H, V, h, v and z."""
    points: list[tuple[float, float]] = []
    for command, numbers in re.findall(r"([MHVhvz])([^MHVhvz]*)", path):
        values = [float(n) for n in numbers.split()]
        if command == "M":
            points = [(values[0], values[1])]
        elif command == "z":
            yield points
        else:
            x, y = points[-1]
            step = values[0]
            points.append({"H": (step, y), "V": (x, step), "h": (x + step, y), "v": (x, y + step)}[command])


def area_at(row: ElementTree.Element, x: float) -> dict[Status, float]:
    """By status, how high the area of the plot stands above its foot at x."""
    found = {}
    bottom = HEAD + PLOT
    for path in row.findall(f"{SVG}path"):
        name = path.get("class", "")
        if not name.startswith("s") or path.find(f"{SVG}title") is not None:
            continue
        for points in corners(path.get("d", "")):
            for (x1, y1), (x2, _) in zip(points, points[1:], strict=False):
                if x1 < x < x2 and y1 < bottom:
                    found[Status(int(name[1:]))] = bottom - y1
    return found


def lanes_at(row: ElementTree.Element, x: float) -> set[Status]:
    """The statuses whose lanes are filled at x."""
    found = set()
    for path in row.findall(f"{SVG}path"):
        if path.find(f"{SVG}title") is None:
            continue
        for points in corners(path.get("d", "")):
            if points[0][0] - 0.06 <= x <= points[1][0] + 0.06:
                found.add(Status(int(path.get("class", "")[1:])))
    return found


@given(tracks())
def test_height_and_colour_of_every_frame_are_its_residual_and_status(one: SimpleNamespace) -> None:
    (row,) = rows(residual_svg([one], "shot"))
    edges, top = plot.edges(one.frames), plot.axis_top(one)
    for place, status in enumerate(one.status.tolist()):
        x = LEFT + INNER * (edges[place : place + 2].mean() - edges[0]) / (edges[-1] - edges[0])
        height = PLOT * one.residual[place] / top
        drawn = area_at(row, x)
        if height >= 0.1:
            assert drawn == {Status(status): pytest.approx(height, abs=0.11)}
        assert set(drawn) <= {Status(status)}
        assert lanes_at(row, x) == ({Status(status)} - {Status.OK})


@given(tracks(), tracks())
def test_the_largest_residual_is_marked_with_its_frame(one: SimpleNamespace, two: SimpleNamespace) -> None:
    document = residual_svg([one, two], "shot")
    for row, shown in zip(rows(document), (one, two), strict=True):
        worst = shown.residual.argmax()
        frame = shown.frames[worst]
        marks = row.findall(f"{SVG}circle")
        assert len(marks) == (shown.residual[worst] > 0.0)
        assert any(f"at frame {frame:g}, mean" in word for word in words(row))
        if marks:
            assert f"frame {frame:g}" in words(row)
            height = HEAD + PLOT - float(marks[0].get("cy", 0))
            assert height == pytest.approx(PLOT * shown.residual[worst] / plot.axis_top(shown), abs=0.06)


def test_legend_names_the_statuses_and_lanes_name_theirs() -> None:
    document = residual_svg([track([0.1, 0.2, 0.0], [1, 3, 0]), track([0.0], [7])], "shot.blend")
    top = ElementTree.fromstring(document)
    legend = ["".join(text.itertext()) for text in top.findall(f"{SVG}text")]
    assert legend == ["shot.blend", "OK", "TARGET_FAR", "LIMIT", "BROKEN"]
    first, second = (words(row) for row in rows(document))
    assert {"TARGET_FAR", "LIMIT"} <= set(first) and "BROKEN" not in first
    assert "BROKEN" in second and "LIMIT" not in second


@pytest.mark.parametrize(
    ("largest", "labels"),
    [
        (0.0, ("0 mm", "0.005 mm", "0.01 mm")),
        (0.0042, ("0 mm", "2.5 mm", "5 mm")),
        (0.31, ("0 mm", "200 mm", "400 mm")),
        (1.7, ("0 m", "1 m", "2 m")),
    ],
)
def test_axes_have_units_chosen_by_size(largest: float, labels: tuple[str, ...]) -> None:
    (row,) = rows(residual_svg([track([0.0, largest], 0)], "shot"))
    shown = words(row)
    assert [word for word in shown if re.fullmatch(r"[\d.]+ m?m", word)] == list(labels)
    assert "frame" in shown


@given(st.text(max_size=200), st.text(max_size=20))
def test_any_name_makes_a_valid_document(name: str, title: str) -> None:
    document = residual_svg([track([0.1], 1, armature=name, chain=name)], title)
    document.encode("utf-8")
    (row,) = rows(document)
    full = row.find(f".//{SVG}title").text
    lost = sum(full.count(c) for c in "\ufffd")
    assert len(full) == len(f"{name} / {name}, TWO_BONE") and lost >= name.count("\ufffd")


def test_long_names_leave_room_for_the_figures() -> None:
    (row,) = rows(residual_svg([track([0.1], 1, chain="x" * 200)], ""))
    shown = row.find(f"{SVG}text")
    assert shown.find(f"{SVG}title").tail.endswith("…") and len(shown.find(f"{SVG}title").tail) == 64


def test_many_frames_stay_small() -> None:
    noise = np.random.default_rng(5).random(10_000)
    still = residual_svg([track(np.full(10_000, 0.1), 1)], "")
    assert len(still) < 4_000
    assert len(residual_svg([track(noise, 1)], "")) < 25_000
    mixed = residual_svg([track(noise, np.arange(10_000) % len(Status))] * 20, "")
    assert len(mixed) < 20 * 40_000


def test_a_single_bad_frame_of_many_is_seen() -> None:
    status = np.zeros(10_000, np.int8)
    status[6543] = Status.POLE_ALIGNED
    (row,) = rows(residual_svg([track(np.zeros(10_000), status)], ""))
    (lane,) = [path for path in row.findall(f"{SVG}path") if path.find(f"{SVG}title") is not None]
    (points,) = corners(lane.get("d", ""))
    assert points[1][0] - points[0][0] >= plot_svg.SMALLEST_MARK
    assert lane.find(f"{SVG}title").text == "POLE_ALIGNED: 1 of 10000 frames"
