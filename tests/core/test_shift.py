# SPDX-License-Identifier: GPL-3.0-or-later
"""The shift that several chains share, against an optimiser of its own and its stated properties."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ik_addon.core.reach import soft_distance
from ik_addon.core.shift import EASE_IN, EASE_OUT, limited_shift, reach_for_shift, smallest_shift
from ik_addon.core.transforms import length, normalize

number = st.floats(-2.0, 2.0)
ball = st.tuples(number, number, number, st.floats(0.05, 2.0))


def overlapping(rng, count, frames=200):
    """Balls that all hold a common point."""
    common = rng.normal(size=(frames, 1, 3))
    radii = rng.uniform(0.3, 1.5, (frames, count))
    away = (
        normalize(rng.normal(size=(frames, count, 3)))
        * (radii * rng.uniform(0.0, 0.98, (frames, count)))[..., None]
    )
    return common + away, radii


def dykstra(centers, radii, passes=4000):
    """Dykstra's projections: another road to the nearest common point."""
    point = np.zeros((len(centers), 3))
    kept = np.zeros_like(centers)
    for _ in range(passes):
        for i in range(centers.shape[1]):
            start = point + kept[:, i]
            away = start - centers[:, i]
            distance = length(away)
            ratio = np.minimum(1.0, radii[:, i] / np.maximum(distance, 1e-30))
            point = centers[:, i] + away * ratio[:, None]
            kept[:, i] = start - point
    return point


def test_one_chain_moves_its_root_by_what_is_missing():
    rng = np.random.default_rng(0)
    center, radius = rng.normal(size=(50, 1, 3)) * 3.0, rng.uniform(0.5, 2.0, (50, 1))
    shift = smallest_shift(center, radius)
    missing = np.maximum(length(center[:, 0]) - radius[:, 0], 0.0)
    np.testing.assert_allclose(length(shift), missing, atol=1e-12)
    np.testing.assert_allclose(shift, normalize(center[:, 0]) * missing[:, None], atol=1e-12)


@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_the_shift_is_the_nearest_one_that_serves_all(count):
    centers, radii = overlapping(np.random.default_rng(count), count)
    shift = smallest_shift(centers, radii)
    outside = length(shift[:, None] - centers) - radii
    assert outside.max() < 1e-9
    found = dykstra(centers, radii)
    served = (length(found[:, None] - centers) - radii).max(axis=1) < 1e-7
    assert served.mean() > 0.8
    np.testing.assert_allclose(length(shift)[served], length(found)[served], atol=1e-5)


@settings(deadline=None)
@given(st.lists(ball, min_size=2, max_size=5), st.randoms())
def test_the_order_of_the_chains_does_not_matter(balls, random):
    shuffled = list(balls)
    random.shuffle(shuffled)
    one, two = (np.array(b, float)[None] for b in (balls, shuffled))
    a, b = smallest_shift(one[..., :3], one[..., 3]), smallest_shift(two[..., :3], two[..., 3])
    np.testing.assert_allclose(a, b, atol=1e-7)
    assert np.isfinite(a).all()


def test_where_no_shift_serves_all_the_gaps_are_shared_evenly():
    centers = np.array([[[2.0, 0.0, 0.0], [-2.0, 0.0, 0.0]]])
    shift = smallest_shift(centers, np.array([[1.0, 0.5]]))
    # Gaps of (2 - v) - 1 and (2 + v) - 0.5 have the least sum of squares where they are equal.
    np.testing.assert_allclose(shift, [[-0.25, 0.0, 0.0]], atol=1e-9)


def test_a_least_squares_shift_cannot_be_bettered():
    rng = np.random.default_rng(3)
    centers = rng.normal(size=(40, 3, 3)) * 3.0
    radii = rng.uniform(0.1, 0.6, (40, 3))

    def cost(shift):
        return (np.maximum(length(shift[:, None] - centers) - radii, 0.0) ** 2).sum(axis=1)

    shift = smallest_shift(centers, radii)
    best = cost(shift)
    for step in (1e-2, 1e-3):
        for _ in range(50):
            near = shift + rng.normal(size=(40, 3)) * step
            assert (cost(near) >= best - 1e-7).all()


def test_a_chain_without_a_say_changes_nothing():
    centers, radii = overlapping(np.random.default_rng(8), 3)
    with_mute = np.concatenate([centers, np.full((len(centers), 1, 3), 50.0)], axis=1)
    endless = np.concatenate([radii, np.full((len(radii), 1), np.inf)], axis=1)
    np.testing.assert_allclose(smallest_shift(with_mute, endless), smallest_shift(centers, radii), atol=1e-9)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_moving_target_moves_the_shift_without_a_jump(count):
    rng = np.random.default_rng(20 + count)
    start, end = (overlapping(rng, count, 1) for _ in range(2))
    t = np.linspace(0.0, 1.0, 4001)[:, None, None]
    # All balls hold one moving point, so there always is a shift that serves all.
    common = np.array([[0.0, 0.0, 0.0]]) + 3.0 * t[:, 0]
    radii = np.broadcast_to(start[1], (4001, count))
    away = (1.0 - t) * normalize(start[0]) + t * normalize(end[0])
    centers = common[:, None] + away * (0.6 * radii.min())
    shift = smallest_shift(centers, radii)
    step = length(np.diff(centers, axis=0)).max()
    assert length(np.diff(shift, axis=0)).max() < 20.0 * step


def test_the_shift_starts_and_ends_without_a_jolt():
    outer, largest = 1.0, 0.3
    distance = np.linspace(0.9, 2.0, 20001)
    reached, _ = reach_for_shift(distance, np.full(distance.shape, outer), 0.0)
    want = np.maximum(distance - reached, 0.0)
    shift = limited_shift(want[:, None] * [1.0, 0.0, 0.0], np.full(distance.shape, largest))[:, 0]
    step = distance[1] - distance[0]
    slope = np.diff(shift) / step
    # Value and slope are continuous: no change of slope beyond what the tightest bend has.
    assert np.abs(np.diff(slope)).max() < 2.0 * step / (EASE_IN * outer)
    assert (slope > -1e-9).all()
    assert shift.max() <= largest
    # Far from both ends it is just what is needed.
    middle = (want > 6.0 * EASE_IN) & (want < (1.0 - EASE_OUT) * largest)
    assert middle.sum() > 100
    np.testing.assert_allclose(shift[middle], distance[middle] - outer, atol=EASE_IN * np.exp(-5.0))


def test_softness_decides_how_soft_the_knee_stays():
    distance, outer = np.linspace(0.5, 2.0, 100), np.ones(100)
    reached, outside = reach_for_shift(distance, outer, 0.1)
    np.testing.assert_allclose(reached[outside], soft_distance(distance, outer, 0.1)[outside])
    assert not outside[distance <= 0.9].any()
