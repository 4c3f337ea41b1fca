# SPDX-License-Identifier: GPL-3.0-or-later
"""The angle limit of an aimed bone, and how it is eased."""

import numpy as np
import pytest
from limbs import X, Y, Z, unit

from ik_addon.core.aim import limit_swing
from ik_addon.core.transforms import (
    axis_angle_to_matrix,
    matrix_to_quaternion,
    quaternion_to_axis_angle,
    quaternion_to_matrix,
)


def turns(rng, count):
    return quaternion_to_matrix(unit(rng.normal(size=(count, 4))))


def turn_between(before, after):
    return quaternion_to_axis_angle(matrix_to_quaternion(after @ np.swapaxes(before, -1, -2)))


def turned(degrees, limit, damping=0.0):
    """Degrees left of a turn about z."""
    angle = np.radians(np.asarray(degrees, float))
    found, limited = limit_swing(np.eye(3), axis_angle_to_matrix(Z, angle), np.radians(limit), damping)
    return np.degrees(turn_between(np.eye(3), found)[1]), limited


def test_the_turn_is_cut_at_the_limit():
    assert np.abs(turned([10.0, 30.0, 30.1, 170.0], 30.0)[0] - [10.0, 30.0, 30.0, 30.0]).max() <= 1e-9
    assert turned([10.0, 30.0, 30.1, 170.0], 30.0)[1].tolist() == [False, False, True, True]


def test_damping_eases_the_last_part_and_keeps_value_and_slope():
    """With a limit of 40 degrees and a damping of 0.25 the last 10 degrees are eased."""
    angles = np.linspace(0.0, 175.0, 100_001)
    found, limited = turned(angles, 40.0, 0.25)
    expected = np.where(angles <= 30.0, angles, 40.0 - 10.0 * np.exp(-(angles - 30.0) / 10.0))
    assert np.abs(found - expected).max() <= 1e-9
    assert found.max() < 40.0
    slope = np.diff(found) / np.diff(angles)
    assert (slope >= -1e-9).all() and (slope <= 1.0 + 1e-9).all()
    assert np.abs(np.diff(slope)).max() <= 1e-3
    assert not limited[angles <= 30.0].any() and limited[angles > 30.1].all()


def test_within_the_limit_the_wanted_orientation_stays_to_the_bit():
    rng = np.random.default_rng(1)
    before, wanted = turns(rng, 1000), turns(rng, 1000)
    _, angle = turn_between(before, wanted)
    found, limited = limit_swing(before, wanted, 0.5 * np.pi, 0.2)
    inside = angle <= 0.4 * np.pi
    assert 0.05 < inside.mean() < 0.95
    assert np.array_equal(found[inside], wanted[inside])
    assert not limited[inside].any() and limited[angle > 0.41 * np.pi].all()


def test_the_turn_keeps_its_axis_and_never_exceeds_the_limit():
    rng = np.random.default_rng(2)
    before, wanted = turns(rng, 5000), turns(rng, 5000)
    limit, damping = rng.uniform(0.01, 3.1, 5000), rng.choice([0.0, 0.3, 1.0], 5000)
    found, limited = limit_swing(before, wanted, limit, damping)
    axis, angle = turn_between(before, wanted)
    left_axis, left = turn_between(before, found)
    assert (left <= limit + 1e-12).all()
    clear = left > 1e-3
    assert np.abs(left_axis - axis)[clear].max() <= 1e-9
    assert np.array_equal(limited, left < angle - 1e-9)
    gram = np.swapaxes(found, -1, -2) @ found
    assert np.abs(gram - np.eye(3)).max() <= 1e-12


@pytest.mark.parametrize("damping", [0.0, 0.5])
@pytest.mark.parametrize("limit", [np.pi, float(np.float32(np.pi)), 4.0])
def test_180_degrees_are_no_limit(limit, damping):
    rng = np.random.default_rng(3)
    before, wanted = turns(rng, 1000), turns(rng, 1000)
    found, limited = limit_swing(before, wanted, limit, damping)
    assert np.array_equal(found, wanted)
    assert not limited.any()


@pytest.mark.parametrize("damping", [0.0, 0.5, 1.0])
def test_a_limit_of_nothing_keeps_fk(damping):
    rng = np.random.default_rng(4)
    before, wanted = turns(rng, 100), turns(rng, 100)
    for limit in (0.0, -1.0):
        found, limited = limit_swing(before, wanted, limit, damping)
        assert np.abs(found - before).max() <= 1e-15
        assert limited.all()


def test_half_a_turn_is_limited_to_one_side():
    found, limited = limit_swing(np.eye(3), np.diag([-1.0, -1.0, 1.0]), 1.0)
    axis, angle = turn_between(np.eye(3), found)
    assert limited and abs(angle - 1.0) <= 1e-12
    assert abs(abs(axis @ Z) - 1.0) <= 1e-12
    assert np.isfinite(found).all()


def test_batches_of_any_shape():
    rng = np.random.default_rng(5)
    before, wanted = turns(rng, 6), turns(rng, 6)
    whole, limited = limit_swing(before, wanted, np.full(6, 0.7), 0.1)
    folded, flags = limit_swing(
        before.reshape(2, 3, 3, 3), wanted.reshape(2, 3, 3, 3), np.full((2, 3), 0.7), np.full((2, 3), 0.1)
    )
    # Not to the bit: BLAS may round a product by the shape of the whole.
    assert np.abs(folded.reshape(6, 3, 3) - whole).max() <= 1e-15
    assert np.array_equal(flags.reshape(6), limited)
    one, flag = limit_swing(np.eye(3), axis_angle_to_matrix(X, np.array(1.0)), 0.5)
    assert one.shape == (3, 3) and flag.shape == ()
    assert np.abs(one @ Y - axis_angle_to_matrix(X, np.array(0.5)) @ Y).max() <= 1e-12
