# SPDX-License-Identifier: GPL-3.0-or-later
"""The box of a joint: Euler angles in all orders, ranges of any kind, locks."""

import numpy as np
import pytest
from joints import ORDERS, inside, outside, quaternion, rotation

from ik_addon.core.limits import JointLimits

DEGREE = np.pi / 180.0


def box_of(*ranges, order="XYZ"):
    """One bone with ranges in degrees for x, y, z."""
    lower, upper = np.array(ranges, float).T * DEGREE
    return JointLimits(lower[None], upper[None], order=np.array(order)).box()


def turned(*degrees, order="XYZ"):
    return quaternion(rotation(np.array([degrees], float) * DEGREE, order))


def degrees(box, q):
    return (box.angles(q)[0] / DEGREE).round(9).tolist()


@pytest.mark.parametrize("order", ORDERS)
def test_angles_name_the_rotation_in_every_order(order):
    rng = np.random.default_rng(3)
    lower = rng.uniform(-4.0, 2.0, (200, 3, 3))
    upper = lower + rng.uniform(0.0, 4.0, lower.shape)
    q = rng.normal(size=(200, 3, 4))
    q /= np.linalg.norm(q, axis=-1, keepdims=True)
    box = JointLimits(lower, upper, order=np.array(order)).box()
    again = quaternion(rotation(box.angles(q), order))
    assert np.abs(np.abs((again * q).sum(-1)) - 1.0).max() <= 1e-12
    # Of both names one is taken by the sum of squares, one by the worst angle.
    least, found = outside(q, lower, upper, order), box.violation(q)
    assert (found >= least - 1e-9).all()
    assert (found <= np.sqrt(3.0) * least + 1e-9).all()


@pytest.mark.parametrize("order", ORDERS)
def test_angles_inside_come_back_as_they_were(order):
    rng = np.random.default_rng(4)
    lower = rng.uniform(-80.0, 40.0, (300, 2, 3)) * DEGREE
    upper = lower + rng.uniform(5.0, 40.0, lower.shape) * DEGREE
    wanted = inside(rng, lower, upper)
    box = JointLimits(lower, upper, order=np.array(order)).box()
    q = quaternion(rotation(wanted, order))
    assert np.abs(box.angles(q) - wanted).max() <= 1e-9
    assert not box.exceeded(q).any()
    assert np.array_equal(box.clamp(q), q)


def test_orders_may_differ_from_bone_to_bone():
    limits = JointLimits(np.full((2, 3), -0.5), np.full((2, 3), 0.5), order=np.array(["ZXY", "XYZ"]))
    angles = np.array([[0.4, -0.3, 0.2], [0.4, -0.3, 0.2]])
    q = np.stack([quaternion(rotation(angles[0], "ZXY")), quaternion(rotation(angles[1], "XYZ"))])
    assert np.abs(limits.box().angles(q) - angles).max() <= 1e-12


def test_minimum_above_zero_and_sign():
    box = box_of((20, 150), (0, 0), (0, 0))
    assert degrees(box, box.clamp(turned(5, 0, 0))) == [20, 0, 0]
    assert degrees(box, box.clamp(turned(-40, 0, 0))) == [20, 0, 0]
    assert degrees(box, box.clamp(turned(170, 0, 0))) == [150, 0, 0]
    assert degrees(box_of((-150, -20), (0, 0), (0, 0)), turned(-30, 0, 0)) == [-30, 0, 0]


def test_ranges_across_half_a_turn():
    box = box_of((160, 200), (0, 0), (0, 0))
    assert degrees(box, turned(-170, 0, 0)) == [190, 0, 0]
    assert degrees(box, box.clamp(turned(-150, 0, 0))) == [200, 0, 0]
    assert degrees(box, box.clamp(turned(120, 0, 0))) == [160, 0, 0]
    assert box_of((-380, -340), (0, 0), (0, 0)).violation(turned(10, 0, 0))[0] <= 1e-15


def test_middle_axis_beyond_a_right_angle():
    """A twist joint: no decomposition with the middle axis within 90 degrees knows its range."""
    box = box_of((0, 0), (-170, 170), (0, 0))
    for angle in (-169.0, -100.0, -90.0, 89.999, 90.0, 120.0, 170.0):
        assert degrees(box, turned(0, angle, 0)) == pytest.approx([0, angle, 0], abs=1e-6)
        assert box.violation(turned(0, angle, 0))[0] <= 1e-9
    assert degrees(box, box.clamp(turned(0, 175, 0))) == [0, 170, 0]


def test_gimbal_lock_is_split_as_the_box_allows():
    box = box_of((-5, 5), (-120, 120), (30, 40))
    for y in (90.0, -90.0):
        assert box.violation(turned(3, y, 35))[0] <= 1e-9
        assert box.violation(turned(-5, y, 40))[0] <= 1e-9
    assert box.violation(turned(20, 90, 0))[0] > 0.1


def test_clamped_rotations_are_inside():
    rng = np.random.default_rng(5)
    lower = rng.uniform(-np.pi, 1.0, (2000, 1, 3))
    upper = lower + rng.choice([0.0, 0.3, 2.0], lower.shape)
    q = rng.normal(size=(2000, 1, 4))
    q /= np.linalg.norm(q, axis=-1, keepdims=True)
    box = JointLimits(lower, upper).box()
    clamped = box.clamp(q)
    away = np.abs(np.cos(box.angles(clamped)[..., 1])).min(-1) > 1e-3
    assert outside(clamped, lower, upper)[away].max() <= 1e-12
    assert outside(clamped, lower, upper).max() <= 1e-7


def test_full_turns_and_infinite_ranges_are_free():
    limits = JointLimits([[-np.inf, -np.pi, 0.0]], [[np.inf, np.pi, 7.0]])
    assert np.isinf(limits.lower).all()
    assert np.isinf(limits.upper).all()
    assert not limits.box().exceeded(turned(170, 80, -170))
    half = JointLimits([[0.5, -np.inf, -np.inf]], [[np.inf, np.inf, np.inf]])
    assert not half.box().exceeded(turned(-90, 0, 0)), "an angle of a circle is always above a minimum"


def test_locked_axes_keep_their_fk_angle():
    limits = JointLimits([[-1.0, -np.inf, -np.inf]], [[1.0, np.inf, np.inf]], [[False, True, True]])
    fk = turned(20, 12, -7)
    box = limits.box(fk)
    assert box.lower[0, 1:] / DEGREE == pytest.approx([12, -7])
    assert np.array_equal(box.lower[0, 1:], box.upper[0, 1:])
    assert degrees(box, turned(50, 12, -7)) == pytest.approx([50, 12, -7])
    assert degrees(box, box.clamp(turned(50, 20, 0)))[1:] == pytest.approx([12, -7])


def test_a_twist_joint_turned_past_a_right_angle_is_not_locked_upside_down():
    """Its FK rotation is also (180, 80, 180): locked there its range would be mirrored."""
    limits = JointLimits([[-9.0, -170 * DEGREE, -9.0]], [[9.0, 170 * DEGREE, 9.0]], [[True, False, True]])
    box = limits.box(turned(0, 100, 0))
    assert box.lower[0, [0, 2]] == pytest.approx([0, 0], abs=1e-12)
    assert box.violation(turned(0, -165, 0))[0] <= 1e-9
    assert box.violation(turned(0, 178, 0))[0] == pytest.approx(8 * DEGREE)


@pytest.mark.parametrize("order", ORDERS)
def test_locks_in_every_order(order):
    locked = np.array([[True, False, True]])
    limits = JointLimits(np.full((1, 3), -3.0), np.full((1, 3), 3.0), locked, np.array(order))
    box = limits.box(turned(10, 20, 30, order=order))
    q = turned(10, -50, 30, order=order)
    assert not box.exceeded(q)
    assert degrees(box, q) == pytest.approx([10, -50, 30])
    assert box.exceeded(turned(10.1, -50, 30, order=order))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"lower": [[0.2, 0, 0]], "upper": [[0.1, 0, 0]]},
            "lower: expected at most upper, got 0.2 to 0.1 for axis x",
        ),
        ({"lower": [[0, np.nan, 0]], "upper": [[0, 0, 0]]}, "got nan to 0 for axis y of bone 0"),
        ({"lower": [[0, 0]], "upper": [[0, 0]]}, "expected one shape"),
        ({"lower": [[0, 0, 0]], "upper": [[0, 0, 0], [0, 0, 0]]}, "expected one shape"),
        ({"lower": [[0, 0, 0]], "upper": [[0, 0, 0]], "order": np.array("XYX")}, "order: expected one of"),
    ],
)
def test_what_is_no_box_is_refused_in_one_sentence(change, words):
    with pytest.raises(ValueError, match=words):
        JointLimits(**change)


def test_locks_without_a_fk_pose_are_refused():
    limits = JointLimits([[0, 0, 0]], [[0, 0, 0]], [[True, False, False]])
    with pytest.raises(ValueError, match="fk"):
        limits.box()


def test_equal_bounds_hold_an_axis():
    box = box_of((30, 30), (-10, 10), (0, 0))
    assert degrees(box, box.clamp(turned(0, 0, 0))) == [30, 0, 0]
