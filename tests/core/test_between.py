# SPDX-License-Identifier: GPL-3.0-or-later
"""The curves between baked keys: what is foretold, how far off it may be, what a rotation mode costs."""

import numpy as np
import pytest

from ik_addon.core import between
from ik_addon.core.channels import continuous, from_quaternion
from ik_addon.core.transforms import axis_angle_to_quaternion, length, make_compatible, quaternion_multiply

X, Z = np.array([1.0, 0.0, 0.0]), np.array([0.0, 0.0, 1.0])


def swing(t: np.ndarray, period: float = 30.0, amplitude: float = 0.5) -> np.ndarray:
    """Two turns at once, as a thigh makes them, ``(len(t), 1, 4)``."""
    w = 2.0 * np.pi / period
    first = axis_angle_to_quaternion(X, amplitude * np.sin(w * t))
    second = axis_angle_to_quaternion(Z, 0.3 * amplitude * np.cos(w * t + 0.4))
    return make_compatible(quaternion_multiply(second, first))[:, None]


def angle(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    b = make_compatible(b[None], a)[0]
    return 4.0 * np.arctan2(length(a - b), length(a + b))


@pytest.mark.parametrize("period", [12.0, 30.0, 60.0])
def test_the_pose_half_way_is_foretold_within_the_doubt(period: float) -> None:
    t = np.arange(40.0)
    middle, doubt = between.foretell(swing(t, period))
    error = angle(middle, swing(t[:-1] + 0.5, period))
    assert length(middle) == pytest.approx(1.0, abs=1e-12)
    assert np.all(error <= 1.3 * doubt + 1e-9)
    assert error[1:-1].max() > 0.2 * doubt[1:-1].max(), "and the doubt is not just a large number"


def test_a_jump_is_in_doubt_and_only_near_it() -> None:
    t = np.arange(40.0)
    q = swing(t)
    q[20:] = make_compatible(quaternion_multiply(axis_angle_to_quaternion(Z, 0.7), q[20:]), q[19])
    _, doubt = between.foretell(q)
    unsure = np.flatnonzero(doubt[:, 0] > np.radians(0.02))
    assert set(unsure) == {17, 18, 19, 20, 21}


@pytest.mark.parametrize("count", [2, 3, 4])
def test_few_keys_foretell_nothing(count: int) -> None:
    middle, doubt = between.foretell(swing(np.arange(float(count))))
    assert middle.shape == (count - 1, 1, 4) and np.isinf(doubt).all()
    assert length(middle) == pytest.approx(1.0, abs=1e-12)


def test_cubics_are_foretold_exactly() -> None:
    """Also at both ends of the range: only the normalisation is left out here."""
    t = np.arange(9.0)
    cubic = np.stack([1.0 + 0 * t, 1e-6 * t**3, -2e-6 * t**2, 1e-6 * t], axis=-1)[:, None]
    halves = t[:-1] + 0.5
    expected = np.stack([1.0 + 0 * halves, 1e-6 * halves**3, -2e-6 * halves**2, 1e-6 * halves], -1)[:, None]
    middle, doubt = between.foretell(cubic)
    assert middle / middle[..., :1] == pytest.approx(expected, abs=1e-15)
    assert doubt.max() < 1e-13


def test_handles_are_the_parabola_through_key_middle_key() -> None:
    rows, middle = np.array([[1.0], [4.0], [-2.0]]), np.array([[3.0], [0.5]])
    right, left = between.handles(rows, middle)
    for i in range(2):
        p = np.array([rows[i, 0], right[i, 0], left[i, 0], rows[i + 1, 0]])
        t = np.array([0.0, 0.25, 0.5, 1.0])
        bezier = (1 - t) ** 3 * p[0] + 3 * (1 - t) ** 2 * t * p[1] + 3 * (1 - t) * t**2 * p[2] + t**3 * p[3]
        parabola = np.polyval(np.polyfit([0.0, 0.5, 1.0], [p[0], middle[i, 0], p[3]], 2), t)
        assert bezier == pytest.approx(parabola, abs=1e-12)
        assert bezier[2] == pytest.approx(middle[i, 0], abs=1e-12)


def cost(q: np.ndarray, mode: str) -> np.ndarray:
    """The cost in degrees of keys on each second pose, the others being those half-way."""
    near = np.zeros_like(q)
    rows = continuous(from_quaternion(q[::2], [mode], near[::2]), [mode])
    middle = from_quaternion(q[1::2], [mode], 0.5 * (rows[:-1] + rows[1:]))
    return np.degrees(between.cost_of_mode(rows, middle, [mode]))[:, 0]


@pytest.mark.parametrize("mode", ["QUATERNION", "XYZ", "ZYX", "AXIS_ANGLE"])
def test_a_rotation_mode_costs_little_away_from_gimbal_lock(mode: str) -> None:
    assert cost(swing(np.arange(0.0, 20.5, 0.5)), mode).max() < 0.1


def test_gimbal_lock_costs_where_it_is_passed() -> None:
    """The Y axis swings past the pole of XYZ at 4 degrees: X and Z turn by half a turn there."""
    t = np.arange(0.0, 6.25, 0.5)
    swinging = axis_angle_to_quaternion(np.array([0.0, 1.0, 0.0]), np.radians(33.0 + 20.0 * t))
    q = quaternion_multiply(axis_angle_to_quaternion(X, np.radians(4.0)), swinging)[:, None]
    costs = cost(q, "XYZ")
    assert costs[[2, 3]].max() > 1.0 and costs[[0, 5]].max() < 0.2
    assert cost(q, "QUATERNION").max() < 1e-6
