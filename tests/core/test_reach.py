# SPDX-License-Identifier: GPL-3.0-or-later
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from limbs import bone_lengths

from ik_addon.core.job import ChainJob
from ik_addon.core.reach import ease_target, hard_distance, reach_range, soft_distance
from ik_addon.core.two_bone import solve

softnesses = st.floats(1e-3, 1.0)
distances = st.floats(0.0, 5.0)


@pytest.mark.parametrize(
    ("lengths", "inner", "outer"),
    [
        ([150.0, 125.0], 25.0, 275.0),
        ([125.0, 150.0], 25.0, 275.0),
        ([1.0, 1.0], 0.0, 2.0),
        ([5.0, 1.0, 1.0], 3.0, 7.0),
        ([2.0, 2.0, 3.0], 0.0, 7.0),
        ([0.0, 0.0], 0.0, 0.0),
        ([4.0], 4.0, 4.0),
    ],
)
def test_reach_range(lengths, inner, outer):
    assert reach_range(np.array(lengths)) == (inner, outer)


def test_reach_range_takes_batches():
    inner, outer = reach_range(np.array([[[1.0, 3.0], [2.0, 2.0]]]))
    assert inner.tolist() == [[2.0, 0.0]]
    assert outer.tolist() == [[4.0, 4.0]]


@given(distances, softnesses, st.floats(0.1, 100.0))
def test_the_formula(distance, softness, outer):
    distance, s = distance * outer, softness * outer
    expected = distance if distance < outer - s else outer - s * np.exp(-(distance - (outer - s)) / s)
    assert abs(soft_distance(distance, outer, softness) - expected) <= 1e-12 * outer


@given(distances, softnesses)
def test_never_above_the_distance_and_never_at_full_reach(distance, softness):
    eased = soft_distance(distance, 1.0, softness)
    assert eased <= distance
    assert eased < 1.0


def test_rounding_just_after_the_onset_never_lengthens():
    rng = np.random.default_rng(2)
    outer, distance = rng.uniform(0.1, 10.0, 10_000), 10.0 ** rng.uniform(-18.0, -12.0, 10_000)
    assert (soft_distance(distance, outer, 1.0) <= distance).all()


def test_full_reach_is_not_touched_from_afar():
    assert soft_distance(np.array([10.0, 1e3, 1e150]), 1.0, 0.05).max() < 1.0


@given(softnesses)
def test_value_and_slope_are_continuous_at_the_onset(softness):
    onset, h = 1.0 - softness, 1e-7 * softness
    at = onset + np.array([-h, 0.0, h])
    below, here, above = soft_distance(at, 1.0, softness)
    assert abs(here - onset) <= 1e-12
    assert abs((above - here) / (at[2] - at[1]) - (here - below) / (at[1] - at[0])) <= 1e-6


@given(softnesses)
def test_at_full_reach_the_tip_stays_short_by_s_over_e(softness):
    assert abs(soft_distance(1.0, 1.0, softness) - (1.0 - softness / np.e)) <= 1e-12


def test_no_softness_changes_nothing():
    distance = np.array([0.0, 0.3, 1.0, 7.0])
    assert (soft_distance(distance, 1.0, 0.0) == distance).all()
    assert (soft_distance(distance, 0.0, 0.5) == distance).all()


def test_softness_is_kept_between_0_and_1():
    distance = np.array([0.2, 0.9, 1.5])
    assert (soft_distance(distance, 1.0, 3.0) == soft_distance(distance, 1.0, 1.0)).all()
    assert (soft_distance(distance, 1.0, -1.0) == distance).all()


def test_a_tiny_softness_gives_no_warning():
    with np.errstate(all="raise", under="ignore"):
        assert soft_distance(2.0, 1.0, 1e-300) == pytest.approx(1.0, abs=1e-12)


def test_an_eased_target_stays_on_its_line():
    root, target = np.array([1.0, 2.0, 3.0]), np.array([4.0, 6.0, 3.0])
    eased = ease_target(root, target, np.array(5.0), 0.1)
    assert np.linalg.norm(eased - root) == pytest.approx(soft_distance(5.0, 5.0, 0.1), abs=1e-12)
    assert np.abs(np.cross(eased - root, target - root)).max() <= 1e-12


def test_a_target_below_the_soft_zone_is_the_same_to_the_bit():
    rng = np.random.default_rng(1)
    root, target = rng.normal(size=(2, 100, 3))
    assert (ease_target(root, target, np.full(100, 50.0), 0.05) == target).all()
    assert (ease_target(root, target, np.full(100, 0.1), 0.0) == target).all()


def test_a_target_on_the_root_stays():
    assert (ease_target(np.ones(3), np.ones(3), np.array(1.0), 1.0) == 1.0).all()


def _knee_angles(distances, softness):
    """Interior angle in degrees of a leg of 0.45 + 0.45 for targets below its hip."""
    joints = np.array([[0.0, 0.0, 0.0], [0.0, -0.1, -0.4388], [0.0, 0.0, -0.8776]])
    joints[1] *= 0.45 / np.linalg.norm(joints[1])
    joints[2] = joints[1] * [0.0, 0.0, 2.0]
    target = np.stack([0.0 * distances, 0.0 * distances, -distances], axis=-1)
    eased = ease_target(np.zeros(3), target, bone_lengths(joints).sum(), softness)
    solved = solve(ChainJob(joints, eased, np.array([1.0, 0.0, 0.0]))).joints
    upper, lower = solved[:, 1] - solved[:, 0], solved[:, 2] - solved[:, 1]
    return 180.0 - np.degrees(np.arccos(np.clip((upper * lower).sum(-1) / 0.45**2, -1.0, 1.0)))


def test_the_knee_does_not_pop_near_full_reach():
    soft = np.diff(_knee_angles(np.linspace(0.80, 0.95, 31), 0.05))
    assert np.abs(soft).max() <= 2.1
    assert np.abs(np.diff(soft)).max() <= 0.2
    hard = np.diff(_knee_angles(np.linspace(0.80, 0.95, 31), 0.0))
    assert np.abs(hard).max() > 5.0


def test_softness_tames_a_trembling_target():
    around_full = 0.9 * (1.0 + np.array([-0.001, 0.001]))
    assert abs(np.diff(_knee_angles(around_full, 0.0))[0]) > 3.0
    assert abs(np.diff(_knee_angles(around_full, 0.05))[0]) < 0.5


@given(distances, st.floats(0.1, 3.0), softnesses)
def test_hard_distance_leads_back_to_the_eased_one(distance, outer, softness):
    eased = soft_distance(distance, outer, softness)
    back = soft_distance(hard_distance(eased, outer, softness), outer, softness)
    assert abs(back - eased) <= 1.01e-9 * outer


def test_hard_distance_is_the_distance_below_the_soft_zone_and_without_one():
    assert hard_distance(0.9, 1.0, 0.1) == 0.9
    assert hard_distance(1.2, 1.0, 0.0) == 1.2
    assert hard_distance(1.0, 1.0, 0.05) == pytest.approx(0.95 + 0.05 * np.log(0.05 / 1e-9))
