# SPDX-License-Identifier: GPL-3.0-or-later
"""Properties of the rotation and matrix functions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ik_addon.core import transforms as tf

X, Y, Z = np.eye(3)
ORDERS = sorted(tf.EULER_ORDERS)
unit_interval = st.floats(-1.0, 1.0)
angles = st.floats(-np.pi, np.pi)
vectors = arrays(np.float64, 3, elements=st.floats(-100.0, 100.0))
unit_vectors = (
    arrays(np.float64, 3, elements=unit_interval).filter(lambda v: tf.length(v) > 1e-3).map(tf.normalize)
)
quaternions = (
    arrays(np.float64, 4, elements=unit_interval).filter(lambda q: tf.length(q) > 1e-3).map(tf.normalize)
)
rotations = quaternions.map(tf.quaternion_to_matrix)
scales = arrays(np.float64, 3, elements=st.floats(0.1, 10.0))
signs = arrays(np.float64, 3, elements=st.sampled_from([-1.0, 1.0]))


def assert_rotation(m: np.ndarray, tolerance: float = 1e-12) -> None:
    np.testing.assert_allclose(
        np.swapaxes(m, -1, -2) @ m, np.broadcast_to(np.eye(3), m.shape), atol=tolerance
    )
    np.testing.assert_allclose(np.linalg.det(m), 1.0, atol=tolerance)


def assert_same_turn(a: np.ndarray, b: np.ndarray, tolerance: float = 1e-12) -> None:
    np.testing.assert_allclose(np.abs(np.sum(a * b, axis=-1)), 1.0, atol=tolerance)
    np.testing.assert_allclose(tf.quaternion_to_matrix(a), tf.quaternion_to_matrix(b), atol=tolerance)


class TestVectors:
    @given(vectors, vectors)
    def test_products_are_numpys(self, a: np.ndarray, b: np.ndarray) -> None:
        assert tf.dot(a, b) == pytest.approx(np.dot(a, b), abs=1e-9)
        np.testing.assert_array_equal(tf.cross(a, b), np.cross(a, b))
        assert tf.length(a) == pytest.approx(np.linalg.norm(a))

    def test_cross_broadcasts(self) -> None:
        np.testing.assert_array_equal(tf.cross(np.tile(X, (4, 2, 1)), Y), np.tile(Z, (4, 2, 1)))

    @given(unit_vectors, st.floats(-120.0, 120.0))
    def test_normalize_keeps_the_direction_at_any_size(self, v: np.ndarray, exponent: float) -> None:
        np.testing.assert_allclose(tf.normalize(v * 10.0**exponent), v, atol=1e-14)

    @pytest.mark.parametrize("size", [0.0, 1e-160, 5e-324])
    def test_no_direction_gives_the_fallback(self, size: float) -> None:
        v = np.stack([size * X, 2.0 * Y])
        np.testing.assert_array_equal(tf.normalize(v), [[0, 0, 0], Y])
        np.testing.assert_array_equal(tf.normalize(v, Z), [Z, Y])

    @given(unit_vectors)
    @example(X)
    @example(-Z)
    @example(tf.normalize(np.ones(3)))
    def test_perpendicular(self, v: np.ndarray) -> None:
        side = tf.perpendicular(v)
        assert abs(tf.dot(side, v)) < 1e-15
        assert tf.length(side) == pytest.approx(1.0)

    @given(vectors, unit_vectors)
    def test_reject_splits_a_vector(self, v: np.ndarray, unit: np.ndarray) -> None:
        rest = tf.reject(v, unit)
        assert abs(tf.dot(rest, unit)) < 1e-12
        np.testing.assert_allclose(rest + tf.dot(v, unit) * unit, v, atol=1e-12)


class TestFrame:
    @given(unit_vectors, unit_vectors)
    def test_is_a_rotation_along_the_direction(self, direction: np.ndarray, normal: np.ndarray) -> None:
        assume(tf.length(tf.reject(normal, direction)) > 1e-6)
        m = tf.frame(direction, normal)
        assert_rotation(m, 1e-9)
        np.testing.assert_array_equal(m[:, 0], direction)
        assert tf.dot(m[:, 1], normal) > 0.0

    @given(unit_vectors, st.floats(-100.0, 100.0))
    def test_a_parallel_normal_still_gives_a_rotation(self, direction: np.ndarray, factor: float) -> None:
        assert_rotation(tf.frame(direction, factor * direction), 1e-9)

    @given(unit_vectors, st.floats(-17.0, -1.0), st.floats(-100.0, 100.0))
    def test_a_nearly_parallel_normal_of_any_length(
        self, direction: np.ndarray, exponent: float, size: float
    ) -> None:
        normal = direction + 10.0**exponent * tf.perpendicular(direction)
        assert_rotation(tf.frame(direction, normal * 10.0**size), 1e-7)

    def test_one_parallel_normal_leaves_the_others_alone(self) -> None:
        both = tf.frame(np.stack([X, X]), np.stack([X, Y]))
        np.testing.assert_array_equal(both[1], tf.frame(X, Y))
        assert_rotation(both)


class TestQuaternions:
    @given(quaternions)
    @example(np.array([0.0, 1.0, 0.0, 0.0]))
    @example(np.array([0.0, 0.0, 1.0, 0.0]))
    @example(np.array([0.0, 0.0, 0.0, 1.0]))
    @example(np.array([1e-9, 1.0, 1e-9, 0.0]))
    @example(np.full(4, 0.5))
    def test_matrix_round_trip(self, q: np.ndarray) -> None:
        m = tf.quaternion_to_matrix(q)
        assert_rotation(m)
        back = tf.matrix_to_quaternion(m)
        assert back[0] >= 0.0
        assert_same_turn(back, q)

    @given(quaternions, st.floats(1e-3, 1e3))
    def test_size_does_not_matter(self, q: np.ndarray, size: float) -> None:
        np.testing.assert_allclose(tf.quaternion_to_matrix(q * size), tf.quaternion_to_matrix(q), atol=1e-13)

    def test_a_zero_quaternion_stays_finite(self) -> None:
        assert np.isfinite(tf.quaternion_to_matrix(np.zeros(4))).all()

    @given(quaternions, quaternions)
    def test_product_turns_by_the_right_factor_first(self, a: np.ndarray, b: np.ndarray) -> None:
        np.testing.assert_allclose(
            tf.quaternion_to_matrix(tf.quaternion_multiply(a, b)),
            tf.quaternion_to_matrix(a) @ tf.quaternion_to_matrix(b),
            atol=1e-12,
        )

    @given(quaternions)
    def test_conjugate_is_the_inverse(self, q: np.ndarray) -> None:
        product = tf.quaternion_multiply(q, tf.quaternion_conjugate(q))
        np.testing.assert_allclose(product, [1.0, 0.0, 0.0, 0.0], atol=1e-14)

    @given(unit_vectors, st.floats(1e-9, np.pi - 1e-9))
    @example(Z, 1e-9)
    @example(Z, np.pi - 1e-9)
    def test_axis_and_angle_round_trip(self, axis: np.ndarray, angle: float) -> None:
        q = tf.axis_angle_to_quaternion(axis, angle)
        for same in (q, -q):
            back_axis, back_angle = tf.quaternion_to_axis_angle(same)
            np.testing.assert_allclose(back_axis, axis, atol=1e-6)
            assert back_angle == pytest.approx(angle, rel=1e-12)

    def test_no_turn_has_the_axis_y(self) -> None:
        axis, angle = tf.quaternion_to_axis_angle(np.array([[1.0, 0, 0, 0], [-1.0, 0, 0, 0]]))
        np.testing.assert_array_equal(axis, [Y, Y])
        np.testing.assert_array_equal(angle, 0.0)

    def test_a_turn_is_right_handed(self) -> None:
        np.testing.assert_allclose(tf.axis_angle_to_matrix(Z, 0.5 * np.pi) @ X, Y, atol=1e-15)

    @given(unit_vectors, angles, vectors)
    def test_axis_angle_matrix_is_rodrigues_formula(
        self, axis: np.ndarray, angle: float, v: np.ndarray
    ) -> None:
        expected = (
            v * np.cos(angle)
            + np.cross(axis, v) * np.sin(angle)
            + axis * np.dot(axis, v) * (1.0 - np.cos(angle))
        )
        np.testing.assert_allclose(tf.axis_angle_to_matrix(axis, angle) @ v, expected, atol=1e-11)


class TestSlerp:
    @given(quaternions, unit_vectors, st.floats(0.0, np.pi - 1e-3), st.floats(0.0, 1.0))
    @example(np.array([1.0, 0, 0, 0]), X, 1e-8, 0.5)
    def test_turns_at_constant_speed(self, a: np.ndarray, axis: np.ndarray, angle: float, t: float) -> None:
        b = tf.quaternion_multiply(tf.axis_angle_to_quaternion(axis, angle), a)
        part = tf.quaternion_multiply(tf.axis_angle_to_quaternion(axis, angle * t), a)
        for end in (b, -b):
            assert_same_turn(tf.slerp(a, end, t), part)

    @given(quaternions, quaternions)
    def test_reaches_both_ends(self, a: np.ndarray, b: np.ndarray) -> None:
        assert_same_turn(tf.slerp(a, b, 0.0), a)
        assert_same_turn(tf.slerp(a, b, 1.0), b)

    def test_blends_a_batch(self) -> None:
        a = np.array([1.0, 0.0, 0.0, 0.0])
        b = tf.axis_angle_to_quaternion(Z, np.array([0.0, 1.0, 2.0]))
        expected = tf.axis_angle_to_quaternion(Z, np.array([0.0, 0.25, 1.0]))
        np.testing.assert_allclose(tf.slerp(a, b, np.array([0.3, 0.25, 0.5])), expected, atol=1e-14)


class TestRotationArc:
    @given(unit_vectors, unit_vectors)
    def test_carries_a_onto_b_by_the_shortest_turn(self, a: np.ndarray, b: np.ndarray) -> None:
        m = tf.rotation_arc(a, b)
        assert_rotation(m)
        np.testing.assert_allclose(m @ a, b, atol=1e-8)
        _, angle = tf.quaternion_to_axis_angle(tf.matrix_to_quaternion(m))
        assert angle == pytest.approx(np.arctan2(tf.length(np.cross(a, b)), np.dot(a, b)), abs=1e-7)

    @given(unit_vectors, unit_vectors)
    def test_turns_opposite_vectors_about_the_given_axis(self, a: np.ndarray, axis: np.ndarray) -> None:
        assume(tf.length(tf.reject(axis, a)) > 1e-3)
        m = tf.rotation_arc(a, -a, axis)
        side = tf.normalize(tf.reject(axis, a))
        assert_rotation(m)
        np.testing.assert_allclose(m @ a, -a, atol=1e-12)
        np.testing.assert_allclose(m @ side, side, atol=1e-12)

    @given(unit_vectors)
    def test_opposite_vectors_without_a_usable_axis(self, a: np.ndarray) -> None:
        for m in (tf.rotation_arc(a, -a), tf.rotation_arc(a, -a, a)):
            assert_rotation(m)
            np.testing.assert_allclose(m @ a, -a, atol=1e-12)

    @given(unit_vectors, st.floats(-8.0, 0.0))
    def test_nearly_opposite_vectors(self, a: np.ndarray, exponent: float) -> None:
        b = tf.normalize(-a + 10.0**exponent * tf.perpendicular(a))
        m = tf.rotation_arc(a, b)
        assert_rotation(m)
        np.testing.assert_allclose(m @ a, b, atol=1e-8)


class TestEuler:
    def test_first_axis_turns_first(self) -> None:
        euler = np.array([0.3, -0.8, 1.7])
        x, y, z = (tf.axis_angle_to_matrix(axis, angle) for axis, angle in zip(np.eye(3), euler, strict=True))
        np.testing.assert_allclose(tf.euler_to_matrix(euler, "XYZ"), z @ y @ x, atol=1e-15)
        np.testing.assert_allclose(tf.euler_to_matrix(euler, "ZXY"), y @ x @ z, atol=1e-15)

    @pytest.mark.parametrize("order", ORDERS)
    @given(euler=arrays(np.float64, 3, elements=angles))
    def test_angles_give_the_matrix_back(self, order: str, euler: np.ndarray) -> None:
        m = tf.euler_to_matrix(euler, order)
        assert_rotation(m)
        back = tf.matrix_to_euler(m, order)
        assert np.abs(back[tf.EULER_ORDERS[order][1]]) <= 0.5 * np.pi
        np.testing.assert_allclose(tf.euler_to_matrix(back, order), m, atol=3e-8)

    @pytest.mark.parametrize("order", ORDERS)
    @given(euler=arrays(np.float64, 3, elements=st.floats(-1.5, 1.5)))
    def test_small_angles_come_back(self, order: str, euler: np.ndarray) -> None:
        np.testing.assert_allclose(
            tf.matrix_to_euler(tf.euler_to_matrix(euler, order), order), euler, atol=1e-12
        )

    @pytest.mark.parametrize("middle", [-0.5 * np.pi, 0.5 * np.pi])
    @pytest.mark.parametrize("order", ORDERS)
    def test_gimbal_lock(self, order: str, middle: float) -> None:
        first, second, third, _ = tf.EULER_ORDERS[order]
        euler = np.zeros(3)
        euler[[first, second, third]] = 0.4, middle, -1.1
        m = tf.euler_to_matrix(euler, order)
        back = tf.matrix_to_euler(m, order)
        assert back[third] == 0.0
        np.testing.assert_allclose(tf.euler_to_matrix(back, order), m, atol=1e-8)

    @pytest.mark.parametrize("near", [1e-2, 1e-4, 1e-8, 1e-10])
    @pytest.mark.parametrize("order", ORDERS)
    def test_near_gimbal_lock(self, order: str, near: float) -> None:
        euler = np.full(3, 0.4)
        euler[tf.EULER_ORDERS[order][1]] = 0.5 * np.pi - near
        m = tf.euler_to_matrix(euler, order)
        np.testing.assert_allclose(tf.euler_to_matrix(tf.matrix_to_euler(m, order), order), m, atol=2e-9)


class TestMatrices:
    @given(vectors, rotations, scales, signs)
    def test_compose_scales_then_turns_then_moves(
        self, location: np.ndarray, rotation: np.ndarray, scale: np.ndarray, sign: np.ndarray
    ) -> None:
        m = tf.compose(location, rotation, scale * sign)
        np.testing.assert_array_equal(m[3], [0, 0, 0, 1])
        for axis in range(3):
            moved = rotation[:, axis] * scale[axis] * sign[axis] + location
            np.testing.assert_allclose(tf.transform_point(m, np.eye(3)[axis]), moved, atol=1e-12)

    def test_compose_broadcasts_and_takes_one_scale_for_all(self) -> None:
        m = tf.compose(np.zeros((5, 1, 3)), np.broadcast_to(np.eye(3), (2, 3, 3)), 2.0)
        assert m.shape == (5, 2, 4, 4)
        np.testing.assert_array_equal(m[4, 1], np.diag([2.0, 2.0, 2.0, 1.0]))

    @given(vectors, rotations, scales, signs, vectors)
    def test_inverse(
        self, location: np.ndarray, rotation: np.ndarray, scale: np.ndarray, sign: np.ndarray, p: np.ndarray
    ) -> None:
        m = tf.compose(location, rotation, scale * sign)
        m[:3, :3] = m[:3, :3] @ (np.eye(3) + 0.3 * np.eye(3, k=1))
        inverse = tf.affine_inverse(m)
        np.testing.assert_array_equal(inverse[3], [0, 0, 0, 1])
        np.testing.assert_allclose(inverse @ m, np.eye(4), atol=1e-10)
        np.testing.assert_allclose(tf.transform_point(inverse, tf.transform_point(m, p)), p, atol=1e-9)

    def test_a_singular_matrix_gives_the_zero_map(self) -> None:
        m = tf.compose(np.ones(3), np.eye(3), np.array([[1.0, 0.0, 1.0], [1.0, 2.0, 4.0]]))
        inverse = tf.affine_inverse(m)
        np.testing.assert_array_equal(inverse[0], np.diag([0.0, 0.0, 0.0, 1.0]))
        np.testing.assert_allclose(inverse[1] @ m[1], np.eye(4), atol=1e-15)

    def test_few_matrices_are_inverted_as_many(self) -> None:
        rng = np.random.default_rng(3)
        m = tf.compose(rng.normal(size=(40, 3)), np.eye(3), rng.uniform(0.5, 2.0, (40, 3)))
        m[:, :3, :3] += rng.uniform(-0.3, 0.3, (40, 3, 3))
        m[3, :3, 0] = 0.0
        few = np.concatenate([tf.affine_inverse(m[i : i + 2]) for i in range(0, 40, 2)])
        np.testing.assert_allclose(few, tf.affine_inverse(m), rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(few[3], np.diag([0.0, 0.0, 0.0, 1.0]))
        assert tf.affine_inverse(m[:0]).shape == (0, 4, 4)

    @given(vectors, rotations, vectors, vectors)
    def test_a_vector_is_a_difference_of_points(
        self, location: np.ndarray, rotation: np.ndarray, p: np.ndarray, q: np.ndarray
    ) -> None:
        m = tf.compose(location, rotation, 2.0)
        difference = tf.transform_point(m, p) - tf.transform_point(m, q)
        np.testing.assert_allclose(tf.transform_vector(m, p - q), difference, atol=1e-10)

    @given(rotations, scales)
    def test_rotation_part_takes_scale_away(self, rotation: np.ndarray, scale: np.ndarray) -> None:
        np.testing.assert_allclose(tf.rotation_part(rotation * scale), rotation, atol=1e-12)

    @given(rotations, scales)
    def test_rotation_part_of_a_mirrored_frame_keeps_y_and_z(
        self, rotation: np.ndarray, scale: np.ndarray
    ) -> None:
        np.testing.assert_allclose(
            tf.rotation_part(rotation * scale * np.array([-1.0, 1.0, 1.0])), rotation, atol=1e-12
        )

    @given(rotations, arrays(np.float64, (3, 3), elements=st.floats(-0.4, 0.4)))
    def test_rotation_part_keeps_y_under_shear(self, rotation: np.ndarray, shear: np.ndarray) -> None:
        m = rotation @ (np.eye(3) + shear)
        part = tf.rotation_part(m)
        assert_rotation(part)
        np.testing.assert_allclose(part[:, 1], tf.normalize(m[:, 1]), atol=1e-12)

    @pytest.mark.parametrize("scale", [(0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 0), (0, 2, 0)])
    def test_rotation_part_of_a_collapsed_frame_is_a_rotation(self, scale: tuple[float, ...]) -> None:
        m = tf.axis_angle_to_matrix(tf.normalize(np.ones(3)), 0.7) * np.array(scale, float)
        assert_rotation(tf.rotation_part(m))

    @given(unit_vectors, st.floats(-17.0, -1.0))
    def test_rotation_part_where_x_nearly_lies_along_y(self, y: np.ndarray, exponent: float) -> None:
        x = y + 10.0**exponent * tf.perpendicular(y)
        assert_rotation(tf.rotation_part(np.stack([x, y, X], axis=-1)), 1e-7)

    def test_rotation_part_where_x_lies_along_y(self) -> None:
        m = np.stack([3.0 * tf.normalize(np.ones(3)), tf.normalize(np.ones(3)), X], axis=-1)
        part = tf.rotation_part(m)
        assert_rotation(part)
        np.testing.assert_allclose(part[:, 1], m[:, 1], atol=1e-15)


class TestMakeCompatible:
    @given(arrays(np.float64, (12, 2, 4), elements=unit_interval))
    def test_neighbours_agree_and_turns_stay(self, q: np.ndarray) -> None:
        out = tf.make_compatible(q)
        assert (np.sum(out[1:] * out[:-1], axis=-1) >= 0.0).all()
        np.testing.assert_array_equal(np.abs(out), np.abs(q))
        np.testing.assert_array_equal(out[0], q[0])

    def test_continues_what_comes_before(self) -> None:
        q = np.tile([1.0, 0.0, 0.0, 0.0], (3, 1))
        np.testing.assert_array_equal(tf.make_compatible(q, -q[0]), -q)


@pytest.mark.parametrize("chains", [1, 3, 5, 40])
@pytest.mark.parametrize("bones", [1, 2, 5, 8, 20])
def test_chain_products_are_the_products_from_the_first_on(chains, bones):
    steps = np.random.default_rng(bones).normal(size=(chains, bones, 4, 4))
    out = tf.chain_products(steps)
    expected = np.eye(4)
    for bone in range(bones):
        expected = expected @ steps[:, bone]
        np.testing.assert_allclose(out[:, bone], expected, rtol=1e-9, atol=1e-9)
