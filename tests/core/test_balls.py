# SPDX-License-Identifier: GPL-3.0-or-later
"""The nearest point that balls have in common, against Dykstra's projections and its stated properties."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ik_addon.core.balls import nearest_in_balls
from ik_addon.core.transforms import length, normalize

number = st.floats(-2.0, 2.0)
ball = st.tuples(number, number, number, st.floats(0.05, 2.0))
balls = st.lists(ball, min_size=1, max_size=6).map(np.array)


def overlapping(seed, count):
    """Balls that all hold a common point."""
    rng = np.random.default_rng(seed)
    radii = rng.uniform(0.3, 1.5, count)
    away = normalize(rng.normal(size=(count, 3))) * (radii * rng.uniform(0.0, 0.98, count))[:, None]
    return rng.normal(size=3) + away, radii


def dykstra(point, centers, radii, passes=4000):
    """Dykstra's projections: another road to the nearest common point."""
    kept = np.zeros_like(centers)
    for _ in range(passes):
        for i, (center, radius) in enumerate(zip(centers, radii, strict=True)):
            start = point + kept[i]
            away = start - center
            point = center + away * min(1.0, radius / max(float(length(away)), 1e-30))
            kept[i] = start - point
    return point


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("seed", range(6))
def test_the_nearest_common_point(seed, count):
    centers, radii = overlapping(seed, count)
    point = np.random.default_rng(seed + 99).normal(size=3) * 3.0
    found, other = nearest_in_balls(point, centers, radii), dykstra(point, centers, radii)
    assert (length(found - centers) - radii).max() < 1e-9
    assert length(found - point) <= length(other - point) + 1e-6
    if (length(other - centers) - radii).max() < 1e-9:
        assert np.allclose(found, other, atol=1e-4)


@given(balls, st.tuples(number, number, number).map(np.array))
def test_a_point_in_all_balls_stays(found, point):
    radii = found[:, 3] + length(point - found[:, :3])
    assert np.array_equal(nearest_in_balls(point, found[:, :3], radii), point)


@given(balls, st.permutations(range(6)))
def test_the_order_does_not_matter(found, order):
    shuffled = found[[i for i in order if i < len(found)]]
    one, two = (nearest_in_balls(np.ones(3), rows[:, :3], rows[:, 3]) for rows in (found, shuffled))
    assert np.isfinite(one).all()
    assert np.allclose(one, two, atol=1e-7)


def test_balls_apart_share_what_is_missing():
    centers = np.array([[2.0, 0.0, 0.0], [-2.0, 0.0, 0.0]])
    found = nearest_in_balls(np.zeros(3), centers, np.array([1.0, 0.5]))
    # Gaps of (2 - v) - 1 and (2 + v) - 0.5 have the least sum of squares where they are equal.
    assert np.allclose(found, [-0.25, 0.0, 0.0], atol=1e-9)


def test_balls_about_one_center():
    found = nearest_in_balls(np.array([3.0, 0.0, 0.0]), np.zeros((3, 3)), np.array([1.0, 0.5, 2.0]))
    assert np.allclose(found, [0.5, 0.0, 0.0])
