# SPDX-License-Identifier: GPL-3.0-or-later
"""Rotation channels: round trips in every mode, and the nearest of equal rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ik_addon.core import channels
from ik_addon.core.transforms import EULER_ORDERS, euler_to_matrix, normalize, quaternion_to_matrix

angle = st.floats(-10.0, 10.0)


def random_quaternions(*shape, seed=0):
    return normalize(np.random.default_rng(seed).normal(size=(*shape, 4)))


@pytest.mark.parametrize("mode", channels.MODES)
def test_a_quaternion_survives_the_channels_of_every_mode(mode):
    q = random_quaternions(200, 1)
    rows = channels.from_quaternion(q, [mode], np.zeros((1, 4)))
    back = channels.to_quaternion(rows, [mode])
    assert np.allclose(np.abs(np.einsum("fki,fki->fk", q, back)), 1.0, atol=1e-14)


def test_bones_of_different_modes_keep_to_themselves():
    q = random_quaternions(5, len(channels.MODES))
    near = np.zeros((len(channels.MODES), 4))
    rows = channels.from_quaternion(q, channels.MODES, near)
    for place, mode in enumerate(channels.MODES):
        alone = channels.from_quaternion(q[:, place : place + 1], [mode], near[:1])
        assert np.array_equal(rows[:, place], alone[:, 0])


def test_zero_rows_mean_what_they_mean_in_blender():
    still = channels.to_quaternion(np.zeros((3, 4)), ["QUATERNION", "XYZ", "AXIS_ANGLE"])
    assert np.array_equal(still, np.tile([1.0, 0.0, 0.0, 0.0], (3, 1)))


@pytest.mark.parametrize("order", EULER_ORDERS)
@given(euler=st.tuples(angle, angle, angle), near=st.tuples(angle, angle, angle))
@settings(max_examples=60)
def test_the_nearest_euler_is_the_same_turn_and_no_equal_triple_is_nearer(order, euler, near):
    euler, near = np.array(euler), np.array(near)
    found = channels.nearest_euler(euler, near, order)
    assert np.allclose(euler_to_matrix(found, order), euler_to_matrix(euler, order), atol=1e-12)
    middle = EULER_ORDERS[order][1]
    flipped = found + np.pi
    flipped[middle] = np.pi - found[middle]
    turns = np.stack(np.meshgrid(*[[-1, 0, 1]] * 3), -1).reshape(-1, 3) * 2.0 * np.pi
    for family in (found, flipped):
        others = np.abs(family + turns - near).sum(axis=1)
        assert others.min() >= np.abs(found - near).sum() - 1e-9


@pytest.mark.parametrize("mode", channels.MODES)
def test_a_full_turn_in_small_steps_never_jumps(mode):
    steps = np.linspace(0.1, 0.1 + 4.0 * np.pi, 73)  # no turn at all would have no axis
    axis = normalize(np.array([0.3, 0.5, -0.8])) if mode in ("QUATERNION", "AXIS_ANGLE") else np.eye(3)[2]
    q = np.concatenate([np.cos(steps / 2)[:, None], np.sin(steps / 2)[:, None] * axis], axis=1)[:, None]
    q = np.where(q[..., :1] < 0, -q, q)  # as if each frame had been solved by itself
    rows = channels.from_quaternion(q, [mode], np.zeros((1, 4)))
    rows = channels.continuous(rows, [mode])
    step = np.abs(np.diff(rows[:, 0], axis=0)).max()
    assert step <= np.radians(10.01)
    turned = quaternion_to_matrix(channels.to_quaternion(rows, [mode]))
    assert np.allclose(turned, quaternion_to_matrix(q), atol=1e-12)


def test_the_first_row_follows_the_key_before():
    q = random_quaternions(4, 2, seed=3)
    modes = ["QUATERNION", "XYZ"]
    before = np.array([-q[0, 0], [20.0, -15.0, 9.0, 0.0]])
    rows = channels.continuous(channels.from_quaternion(q, modes, np.zeros((2, 4))), modes, before)
    assert np.dot(rows[0, 0], before[0]) > 0.0
    assert np.abs(rows[0, 1, :3] - before[1, :3]).max() <= np.pi + 1e-9
