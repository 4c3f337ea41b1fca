# SPDX-License-Identifier: GPL-3.0-or-later
"""The shift that several chains share: its stated properties, and a search of its own."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ik_addon.core.reach import soft_distance
from ik_addon.core.shift import EASE_IN, EASE_OUT, STIFF, balanced_shift, hull, limited_shift
from ik_addon.core.transforms import length, normalize

number = st.floats(-2.0, 2.0)
chain = st.tuples(number, number, number, st.floats(0.05, 2.0), st.floats(0.0, 0.3), st.floats(0.0, 1.0))


def shared(rng, count, frames=200, spare=0.9):
    """Chains that one place serves: vectors from roots to targets, and reaches."""
    common = rng.normal(size=(frames, 1, 3))
    outer = rng.uniform(0.3, 1.5, (frames, count))
    away = (
        normalize(rng.normal(size=(frames, count, 3)))
        * (outer * rng.uniform(0.0, spare, (frames, count)))[..., None]
    )
    return common + away, outer


def shift_of(centers, outer, softness=0.0, weight=1.0):
    shape = outer.shape
    return balanced_shift(centers, outer, np.full(shape, softness), np.full(shape, weight))


def test_one_chain_moves_its_root_by_just_what_is_missing():
    rng = np.random.default_rng(0)
    center, outer = rng.normal(size=(200, 1, 3)) * 3.0, rng.uniform(0.5, 2.0, (200, 1))
    for softness in (0.0, 0.1):
        shift = shift_of(center, outer, softness)
        distance = length(center[:, 0])
        missing = distance - soft_distance(distance, outer[:, 0], max(softness, EASE_IN))
        np.testing.assert_allclose(shift, normalize(center[:, 0]) * missing[:, None], atol=1e-12)


def test_a_second_chain_without_a_say_changes_nothing():
    rng = np.random.default_rng(1)
    center, outer = rng.normal(size=(200, 1, 3)) * 3.0, rng.uniform(0.5, 2.0, (200, 1))
    alone = shift_of(center, outer)
    idle = np.concatenate([center, np.full((200, 1, 3), 50.0)], axis=1)
    weight = np.tile([1.0, 0.0], (200, 1))
    both = balanced_shift(idle, np.repeat(outer, 2, axis=1), np.zeros((200, 2)), weight)
    assert length(both - alone).max() < 2e-6 * outer.max()


@pytest.mark.parametrize("count", [2, 3, 4, 6])
def test_all_targets_come_within_reach_where_one_place_serves_all(count):
    centers, outer = shared(np.random.default_rng(count), count)
    shift = shift_of(centers, outer)
    left = length(centers - shift[:, None])
    assert (left <= outer * (1.0 + 1e-6)).all()
    still = (length(centers) <= outer * (1.0 - EASE_IN)).all(axis=1)
    assert (shift[still] == 0.0).all()


@settings(deadline=None)
@given(st.lists(chain, min_size=2, max_size=5), st.randoms())
def test_the_order_of_the_chains_does_not_matter(chains, random):
    shuffled = list(chains)
    random.shuffle(shuffled)
    found = []
    for order in (chains, shuffled):
        rows = np.array(order, float)[None]
        found.append(balanced_shift(rows[..., :3], rows[..., 3], rows[..., 4], rows[..., 5]))
    assert np.isfinite(found[0]).all()
    np.testing.assert_allclose(found[0], found[1], atol=1e-8)


@pytest.mark.parametrize("served", [True, False])
def test_the_pulls_balance(served):
    rng = np.random.default_rng(4)
    centers, outer = (
        shared(rng, 3) if served else (rng.normal(size=(200, 3, 3)) * 3.0, rng.uniform(0.1, 0.5, (200, 3)))
    )
    softness = np.full(outer.shape, 0.1)
    shift = balanced_shift(centers, outer, softness, np.ones(outer.shape))
    way = centers - shift[:, None]
    left = length(way)
    # The pull as the docstring has it, and the line that it goes on as.
    zone = 0.1 * outer
    short = np.clip(outer - left, STIFF * zone, zone)
    pull = zone * np.log(zone / short) - zone + short
    pull += np.maximum(left - outer + STIFF * zone, 0.0) * (1.0 / STIFF - 1.0)
    total = (pull[..., None] * normalize(way)).sum(axis=1)
    # What is out of balance, as a distance: divided by how stiff the chains are there.
    assert (length(total - shift) / (1.0 + (zone / short).max(axis=1))).max() < 1e-7
    if not served:
        cost = (np.maximum(left - outer, 0.0) ** 2).sum(axis=1)
        for _ in range(100):
            near = shift + rng.normal(size=shift.shape) * 1e-2
            other = (np.maximum(length(centers - near[:, None]) - outer, 0.0) ** 2).sum(axis=1)
            assert (other >= cost - 1e-5).all()


def test_where_no_place_serves_all_the_gaps_are_shared_evenly():
    centers = np.array([[[2.0, 0.0, 0.0], [-2.0, 0.0, 0.0]]])
    shift = shift_of(centers, np.array([[1.0, 0.5]]))
    # Gaps of (2 - v) - 1 and (2 + v) - 0.5 have the least sum of squares where they are equal.
    np.testing.assert_allclose(shift, [[-0.25, 0.0, 0.0]], atol=1e-5)


def test_joint_limits_get_their_gap_closed():
    gap = np.array([[[0.3, -0.1, 0.2]]])
    np.testing.assert_array_equal(shift_of(gap, np.zeros((1, 1))), gap[:, 0])
    two = np.concatenate([gap, np.zeros((1, 1, 3))], axis=1)
    shift = shift_of(two, np.array([[0.0, 5.0]]))
    np.testing.assert_allclose(shift, gap[:, 0], atol=1e-6)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_moving_target_moves_the_shift_without_jump_or_kink(count):
    rng = np.random.default_rng(30 + count)
    (start, outer), (end, _) = (shared(rng, count, 1, 0.7) for _ in range(2))
    outer = np.repeat(outer, 8001, axis=0)
    t = np.linspace(0.0, 1.0, 8001)[:, None, None]
    centers = (1.0 - t) * start + t * end
    shift = shift_of(centers, outer)
    step = length(np.diff(centers, axis=0)).max()
    speed = np.diff(shift, axis=0) / step
    served = (length(centers - shift[:, None]) <= outer * (1.0 + 1e-6)).all(axis=1)
    gentle = served[1:-1] & served[2:] & served[:-2]
    assert gentle.mean() > 0.05
    change = length(np.diff(speed, axis=0))[gentle]
    # The shift turns within the soft zone, whose width bounds how sharply.
    assert change.max() < 60.0 * step / (EASE_IN * outer.min())


def test_the_shift_starts_and_ends_without_a_jolt():
    largest = 0.3
    distance = np.linspace(0.9, 2.0, 20001)
    ones = np.ones((len(distance), 1))
    shift = shift_of(distance[:, None, None] * [1.0, 0.0, 0.0], ones)
    shift = limited_shift(shift, np.full(distance.shape, largest))[:, 0]
    step = distance[1] - distance[0]
    slope = np.diff(shift) / step
    # Value and slope are continuous: no change of slope beyond what the tightest bend has.
    assert np.abs(np.diff(slope)).max() < 2.0 * step / EASE_IN
    assert (slope > -1e-9).all()
    assert shift.max() <= largest
    # Far from both ends it is just what is needed.
    wanted = distance - 1.0
    middle = (wanted > 6.0 * EASE_IN) & (wanted < (1.0 - EASE_OUT) * largest)
    assert middle.sum() > 100
    np.testing.assert_allclose(shift[middle], wanted[middle], atol=EASE_IN * np.exp(-5.0))


@pytest.mark.parametrize("count", [1, 2, 5, 8])
def test_an_early_shift_is_smooth_and_nowhere_too_short(count):
    needed = np.maximum(np.sin(np.arange(120) * 0.15), 0.0) ** 2 * 0.3
    padded = np.pad(needed, count)
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * count + 1)
    found = hull(windows[..., None] * [0.6, 0.0, 0.8])
    np.testing.assert_allclose(found[:, 0] * 4.0, found[:, 2] * 3.0, atol=1e-12)
    size = length(found)
    assert (size >= needed - 1e-12).all()
    assert np.abs(np.diff(size, n=2)).max() <= np.abs(np.diff(needed, n=2)).max() * (
        1.0 if count > 1 else 2.0
    )
    backward = hull(windows[::-1, ::-1, None] * [0.6, 0.0, 0.8])
    np.testing.assert_allclose(backward[::-1], found, atol=1e-12)


def test_an_early_shift_that_is_the_same_on_all_frames_is_that_shift():
    same = np.tile([0.1, -0.2, 0.3], (4, 11, 1))
    np.testing.assert_allclose(hull(same), same[:, 0], atol=1e-15)
