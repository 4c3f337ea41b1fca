# SPDX-License-Identifier: GPL-3.0-or-later
"""The plot as pixels, read back from the pixels."""

from types import SimpleNamespace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from test_plot import track, tracks

from ik_addon.core import plot
from ik_addon.core.job import Status
from ik_addon.core.plot_pixels import GAP, LANE, MARK, color, residual_pixels

sizes = st.integers(90, 200)


def is_color(pixels: np.ndarray, status: Status) -> np.ndarray:
    return (pixels == color(status)).all(axis=-1)


def pixel_of(one: SimpleNamespace, place: int, size: int) -> int:
    """The column of pixels in the middle of a frame."""
    edges = plot.edges(one.frames)
    middle = edges[place : place + 2].mean()
    return min(int(size * (middle - edges[0]) / (edges[-1] - edges[0])), size - 1)


def foot_of(one: SimpleNamespace, size: int) -> int:
    return round(LANE * size) * len(plot.lanes(one))


@given(tracks(most=20), sizes)
def test_pictures_are_square_opaque_and_inside_their_range(one: SimpleNamespace, size: int) -> None:
    picture = residual_pixels(one, size)
    assert picture.shape == (size, size, 4) and picture.dtype == np.float32
    assert picture.min() >= 0.0 and picture.max() <= 1.0 and (picture[..., 3] == 1.0).all()


@given(
    st.lists(st.tuples(st.floats(0.0, 2.0), st.sampled_from(list(Status))), min_size=1, max_size=20), sizes
)
def test_every_frame_has_its_height_and_colour(drawn: list[tuple[float, Status]], size: int) -> None:
    one = track([r for r, _ in drawn], [s for _, s in drawn])
    picture, foot = residual_pixels(one, size), foot_of(one, size)
    mark = 2 * round(MARK * size) + 2
    for place, (residual, status) in enumerate(drawn):
        x = pixel_of(one, place, size)
        height = (size - foot - 1) * residual / plot.axis_top(one)
        bar = is_color(picture[foot:, x], status)
        # The mark of the largest may cover what lies beside it.
        assert np.count_nonzero(bar) <= height + mark + 1
        if height > mark + 1:
            assert bar[: int(height) - mark].all()


@given(tracks(most=40), sizes)
def test_lanes_show_each_status_at_its_frames(one: SimpleNamespace, size: int) -> None:
    picture, shown = residual_pixels(one, size), plot.lanes(one)
    lane, gap = round(LANE * size), round(GAP * size)
    for row, status in enumerate(shown):
        y = lane * (len(shown) - row - 1) + (lane - gap) // 2
        filled = is_color(picture[y], status)
        for place in np.flatnonzero(one.status == status):
            x = pixel_of(one, int(place), size)
            assert filled[max(x - 1, 0) : x + 2].any()
        assert not filled.all() or set(one.status.tolist()) == {status} or len(one.frames) > size // 4


def test_one_bad_frame_of_many_has_a_pixel() -> None:
    status = np.zeros(10_000, np.int8)
    status[777] = Status.LIMIT
    picture = residual_pixels(track(np.zeros(10_000), status), 200)
    found = is_color(picture[:8], Status.LIMIT)
    assert np.count_nonzero(found.any(axis=0)) == 1
    assert np.flatnonzero(found.any(axis=0))[0] == 200 * 777 // 10_000


def test_colours_are_seen_on_the_dark_ground() -> None:
    for status in Status:
        assert color(status)[:3] @ (0.2126, 0.7152, 0.0722) > 0.25
