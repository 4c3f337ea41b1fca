# SPDX-License-Identifier: GPL-3.0-or-later
"""Rotations and affine matrices over leading batch dimensions.

Rotation matrices are ``(..., 3, 3)``, affine matrices ``(..., 4, 4)``,
quaternions ``(..., 4)`` in the order w, x, y, z, angles radians.
"""

from __future__ import annotations

import numpy as np

# Below this length a float64 vector carries no direction: its square underflows.
TINY = 1e-150

# Up to so many chains the number of calls counts, not that of products.
FEW_CHAINS = 4
# Up to so many matrices plain floats are quicker than arrays.
FEW_INVERSES = 4
# Up to so many matrices LAPACK is the quicker one to invert them.
FEW_MATRICES = 24

# Two directions closer than this angle do not span a plane: half of the digits of
# what is left of one at right angles to the other are rounding.
PARALLEL = 1e-8

# Blender's Euler orders as (first axis, second axis, third axis, odd permutation).
# The first named axis is applied first: "XYZ" is Rz @ Ry @ Rx.
EULER_ORDERS = {
    "XYZ": (0, 1, 2, False),
    "XZY": (0, 2, 1, True),
    "YXZ": (1, 0, 2, True),
    "YZX": (1, 2, 0, False),
    "ZXY": (2, 0, 1, False),
    "ZYX": (2, 1, 0, True),
}

# The quaternion of no turn.
NO_TURN = np.array([1.0, 0.0, 0.0, 0.0])

_DIAGONAL = np.arange(4)
_UNIT_COLUMNS = np.eye(3)[..., None]


def _bilinear(table: tuple[tuple[tuple[int, int, int], ...], ...]) -> np.ndarray:
    """The matrix ``(16, outputs)`` of sums of products of components: (sign, i, j) each."""
    out = np.zeros((16, len(table)))
    for column, terms in enumerate(table):
        for sign, i, j in terms:
            out[4 * i + j, column] += sign
    return out


# Products of two quaternions and the matrix of one are sums of products of components;
# one matrix product is quicker than naming each term, for one turn and for a million.
_PRODUCT = _bilinear(
    (
        ((1, 0, 0), (-1, 1, 1), (-1, 2, 2), (-1, 3, 3)),
        ((1, 0, 1), (1, 1, 0), (1, 2, 3), (-1, 3, 2)),
        ((1, 0, 2), (1, 2, 0), (1, 3, 1), (-1, 1, 3)),
        ((1, 0, 3), (1, 3, 0), (1, 1, 2), (-1, 2, 1)),
    )
)
_TO_MATRIX = _bilinear(
    (
        ((1, 0, 0), (1, 1, 1), (-1, 2, 2), (-1, 3, 3)),
        ((2, 1, 2), (-2, 0, 3)),
        ((2, 1, 3), (2, 0, 2)),
        ((2, 1, 2), (2, 0, 3)),
        ((1, 0, 0), (-1, 1, 1), (1, 2, 2), (-1, 3, 3)),
        ((2, 2, 3), (-2, 0, 1)),
        ((2, 1, 3), (-2, 0, 2)),
        ((2, 2, 3), (2, 0, 1)),
        ((1, 0, 0), (-1, 1, 1), (-1, 2, 2), (1, 3, 3)),
    )
)
# 4 q q^T of a rotation matrix, flattened: a constant and a sum of its elements, per entry.
_ROWS_OF_NO_MATRIX = np.eye(4).ravel()
_TO_ROWS: np.ndarray = np.zeros((9, 4, 4))
for _row, _signs in enumerate(((1, 1, 1), (1, -1, -1), (-1, 1, -1), (-1, -1, 1))):
    _TO_ROWS[(0, 4, 8), _row, _row] = _signs
for _i, _j, _plus, _minus, _sign in (
    (0, 1, 7, 5, -1), (0, 2, 2, 6, -1), (0, 3, 3, 1, -1), (1, 2, 3, 1, 1), (1, 3, 2, 6, 1), (2, 3, 7, 5, 1)
):  # fmt: skip
    _TO_ROWS[_plus, [_i, _j], [_j, _i]] = 1
    _TO_ROWS[_minus, [_i, _j], [_j, _i]] = _sign
_TO_ROWS = _TO_ROWS.reshape(9, 16)


def dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Dot product over the last axis, ``(..., 3), (..., 3) -> (...)``."""
    return np.einsum("...i,...i->...", a, b)


def cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Cross product over the last axis; a third of the overhead of `numpy.cross`."""
    a, b = np.broadcast_arrays(a, b)
    out = np.empty(a.shape, np.result_type(a, b))
    a0, a1, a2 = a[..., 0], a[..., 1], a[..., 2]
    b0, b1, b2 = b[..., 0], b[..., 1], b[..., 2]
    out[..., 0] = a1 * b2 - a2 * b1
    out[..., 1] = a2 * b0 - a0 * b2
    out[..., 2] = a0 * b1 - a1 * b0
    return out


def length(v: np.ndarray) -> np.ndarray:
    """Euclidean length over the last axis, ``(..., k) -> (...)``."""
    return np.sqrt(np.einsum("...i,...i->...", v, v))


def normalize(v: np.ndarray, fallback: np.ndarray | None = None) -> np.ndarray:
    """Unit vectors, ``(..., k) -> (..., k)``.

    A vector shorter than `TINY` becomes `fallback` (broadcast), or zero without one.
    """
    size = length(v)[..., None]
    safe = size > TINY
    if safe.all():
        return v / size
    unit = v / np.where(safe, size, 1.0)
    return np.where(safe, unit, 0.0 if fallback is None else fallback)


def perpendicular(v: np.ndarray) -> np.ndarray:
    """A unit vector at right angles to each unit vector ``v`` ``(..., 3)``.

    The same input always gives the same output; no choice is continuous everywhere
    (hairy ball theorem): this one jumps where the smallest component of v changes.
    """
    axis = np.zeros(v.shape)
    np.put_along_axis(axis, np.argmin(np.abs(v), axis=-1)[..., None], 1.0, axis=-1)
    return normalize(cross(v, axis))


def reject(v: np.ndarray, unit: np.ndarray) -> np.ndarray:
    """The part of ``v`` at right angles to the unit vector ``unit``, ``(..., 3)``."""
    return v - dot(v, unit)[..., None] * unit


def frame(direction: np.ndarray, normal: np.ndarray) -> np.ndarray:
    """Orthonormal frames with columns (direction, normal, direction x normal).

    ``direction`` ``(..., 3)`` is a unit vector and kept; ``normal`` is made orthogonal
    to it (and replaced by `perpendicular` where it is parallel). Returns ``(..., 3, 3)``.
    """
    n = reject(normal, direction)
    flat = length(n) <= PARALLEL * length(normal)
    if np.any(flat):
        n = np.where(flat[..., None], perpendicular(direction), n)
    n = normalize(n)
    return np.stack(np.broadcast_arrays(direction, n, cross(direction, n)), axis=-1)


def axis_angle_to_matrix(axis: np.ndarray, angle: np.ndarray) -> np.ndarray:
    """Rotation by ``angle`` ``(...)`` about the unit ``axis`` ``(..., 3)`` (Rodrigues)."""
    axis, angle = np.asarray(axis, float), np.asarray(angle, float)
    return quaternion_to_matrix(axis_angle_to_quaternion(axis, angle))


def axis_angle_to_quaternion(axis: np.ndarray, angle: np.ndarray) -> np.ndarray:
    """Quaternion of a turn by ``angle`` ``(...)`` about the unit ``axis`` ``(..., 3)``."""
    half = np.asarray(angle, float)[..., None] * 0.5
    shape = np.broadcast_shapes(half.shape[:-1], np.shape(axis)[:-1])
    q = np.empty((*shape, 4))
    q[..., :1] = np.cos(half)
    q[..., 1:] = np.sin(half) * axis
    return q


def quaternion_to_axis_angle(q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Unit axis ``(..., 3)`` and angle in [0, pi] ``(...)``; no turn has the axis Y."""
    q = np.where(q[..., :1] < 0.0, -q, q)
    size = length(q[..., 1:])
    axis = normalize(q[..., 1:], np.array([0.0, 1.0, 0.0]))
    return axis, 2.0 * np.arctan2(size, q[..., 0])


def quaternion_multiply(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Hamilton product ``(..., 4)``: the turn b first, then a."""
    pairs = np.asarray(a, float)[..., :, None] * np.asarray(b, float)[..., None, :]
    return pairs.reshape(*pairs.shape[:-2], 16) @ _PRODUCT


def quaternion_conjugate(q: np.ndarray) -> np.ndarray:
    """The inverse turn of unit quaternions ``(..., 4)``."""
    return q * np.array([1.0, -1.0, -1.0, -1.0])


def quaternion_to_matrix(q: np.ndarray) -> np.ndarray:
    """Rotation matrices ``(..., 3, 3)`` of quaternions of any length but zero."""
    q = np.asarray(q, float)
    pairs = q[..., :, None] * q[..., None, :]
    pairs = pairs.reshape(*q.shape[:-1], 16)
    square = np.maximum(pairs[..., 0] + pairs[..., 5] + pairs[..., 10] + pairs[..., 15], TINY)
    return ((pairs / square[..., None]) @ _TO_MATRIX).reshape(*q.shape[:-1], 3, 3)


def matrix_to_quaternion(m: np.ndarray) -> np.ndarray:
    """Unit quaternions ``(..., 4)`` of rotation matrices, with w >= 0.

    Of the symmetric matrix 4 q q^T, which is linear in m, the row with the largest
    diagonal element is taken (Shepperd 1978), so no digit is lost for any turn.
    """
    m = np.asarray(m, float)
    shape = m.shape[:-2]
    rows = (m.reshape(*shape, 9) @ _TO_ROWS + _ROWS_OF_NO_MATRIX).reshape(-1, 4, 4)
    pivot = rows[:, _DIAGONAL, _DIAGONAL].argmax(axis=-1)
    q = rows[np.arange(len(rows)), pivot]
    q = q / np.sqrt(np.einsum("...i,...i->...", q, q))[:, None]
    return np.where(q[:, :1] < 0.0, -q, q).reshape(*shape, 4)


def slerp(a: np.ndarray, b: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Spherical blend of unit quaternions from a to b by the shorter way.

    ``a, b`` ``(..., 4)``, ``t`` ``(...)``. The angle comes from atan2 of the chord and
    the sum of the two, which keeps its digits for tiny turns (Kahan).
    """
    b = np.where(np.einsum("...i,...i->...", a, b)[..., None] < 0.0, -b, b)
    t = np.asarray(t, float)[..., None]
    angle = 2.0 * np.arctan2(length(a - b), length(a + b))[..., None]
    sine = np.sin(angle)
    flat = sine < 1e-9
    safe = np.where(flat, 1.0, sine)
    wa = np.where(flat, 1.0 - t, np.sin((1.0 - t) * angle) / safe)
    wb = np.where(flat, t, np.sin(t * angle) / safe)
    return normalize(wa * a + wb * b)


def rotation_arc(a: np.ndarray, b: np.ndarray, axis: np.ndarray | None = None) -> np.ndarray:
    """The shortest rotation that carries the unit vector a onto the unit vector b.

    For opposite vectors the turn is by 180 degrees about ``axis`` (its part at right
    angles to a), or about `perpendicular(a)` without one. ``(..., 3) -> (..., 3, 3)``.
    """
    a, b = np.broadcast_arrays(a, b)
    middle = a + b
    size = length(middle)
    opposite = size < 1e-9
    # Half-way quaternion: cos(half) = |a + b| / 2, axis sin(half) = a x b / |a + b|.
    q = np.empty((*a.shape[:-1], 4))
    q[..., 0] = 0.5 * size
    q[..., 1:] = cross(a, b) / np.where(opposite, 1.0, size)[..., None]
    if np.any(opposite):
        turn = perpendicular(a)
        if axis is not None:
            side = reject(np.broadcast_to(axis, a.shape), a)
            turn = np.where(length(side)[..., None] > 1e-9, normalize(side, turn), turn)
        q = np.where(opposite[..., None], np.concatenate([np.zeros_like(turn[..., :1]), turn], -1), q)
    return quaternion_to_matrix(q)


def euler_to_matrix(euler: np.ndarray, order: str) -> np.ndarray:
    """Rotation matrices of Blender Euler angles ``(..., 3)`` (stored x, y, z) in ``order``."""
    i, j, k, _ = EULER_ORDERS[order]
    basis = np.eye(3)
    euler = np.asarray(euler, float)
    first, second, third = (axis_angle_to_matrix(basis[a], euler[..., a]) for a in (i, j, k))
    return third @ second @ first


def matrix_to_euler(m: np.ndarray, order: str) -> np.ndarray:
    """Blender Euler angles ``(..., 3)`` of rotation matrices; at gimbal lock the third is 0."""
    i, j, k, odd = EULER_ORDERS[order]
    m = np.asarray(m, float)
    cosine = np.hypot(m[..., i, i], m[..., j, i])
    free = cosine > 1e-9
    out = np.empty(m.shape[:-1])
    out[..., i] = np.where(
        free, np.arctan2(m[..., k, j], m[..., k, k]), np.arctan2(-m[..., j, k], m[..., j, j])
    )
    out[..., j] = np.arctan2(-m[..., k, i], cosine)
    out[..., k] = np.where(free, np.arctan2(m[..., j, i], m[..., i, i]), 0.0)
    return -out if odd else out


def compose(location: np.ndarray, rotation: np.ndarray, scale: np.ndarray | float = 1.0) -> np.ndarray:
    """Affine matrices from location ``(..., 3)``, rotation ``(..., 3, 3)``, scale ``(..., 3)``."""
    location, rotation = np.asarray(location, float), np.asarray(rotation, float)
    linear = rotation * np.asarray(scale, float)[..., None, :] if np.ndim(scale) else rotation * scale
    shape = np.broadcast_shapes(location.shape[:-1], linear.shape[:-2])
    m = np.zeros((*shape, 4, 4))
    m[..., :3, :3] = linear
    m[..., :3, 3] = location
    m[..., 3, 3] = 1.0
    return m


def affine_inverse(m: np.ndarray) -> np.ndarray:
    """Inverse of affine matrices; a singular one (zero scale) gives the zero map, finite."""
    if m.size <= 16 * FEW_INVERSES:
        return np.array([_inverse_of(row) for row in m.reshape(-1, 16).tolist()]).reshape(m.shape)
    inverse = linear_inverse(m[..., :3, :3])
    out = np.zeros(m.shape)
    out[..., :3, :3] = inverse
    out[..., :3, 3] = -np.einsum("...ij,...j->...i", inverse, m[..., :3, 3])
    out[..., 3, 3] = 1.0
    return out


def _inverse_of(m: list[float]) -> list[float]:
    """`affine_inverse` of the 16 numbers of one matrix, row by row."""
    a, b, c, x, d, e, f, y, g, h, i, z = m[:12]
    # Cofactors, of which the inverse's columns are made.
    u, v, w = e * i - f * h, f * g - d * i, d * h - e * g
    determinant = a * u + b * v + c * w
    if abs(determinant) <= TINY:
        return [0.0] * 15 + [1.0]
    s = 1.0 / determinant
    j = (
        (u * s, (c * h - b * i) * s, (b * f - c * e) * s),
        (v * s, (a * i - c * g) * s, (c * d - a * f) * s),
        (w * s, (b * g - a * h) * s, (a * e - b * d) * s),
    )
    rows = [(k, m, n, -(k * x + m * y + n * z)) for k, m, n in j]
    return [*rows[0], *rows[1], *rows[2], 0.0, 0.0, 0.0, 1.0]


def linear_inverse(linear: np.ndarray) -> np.ndarray:
    """Inverse of matrices ``(..., 3, 3)``; a singular one gives zeros."""
    if linear[..., 0, 0].size <= FEW_MATRICES:
        try:
            # One right-hand side at a time: with three, as for `inv`, OpenBLAS starts threads.
            unit = _UNIT_COLUMNS.reshape((1,) * (linear.ndim - 2) + (3, 3, 1))
            columns = np.linalg.solve(linear[..., None, :, :], unit)
            return np.swapaxes(columns[..., 0], -1, -2)
        except np.linalg.LinAlgError:
            pass
    # Cramer's rule, which takes a call for each of its terms, but not for each matrix.
    cofactors = cross(linear[..., (1, 2, 0), :], linear[..., (2, 0, 1), :])
    determinant = dot(linear[..., 0, :], cofactors[..., 0, :])[..., None, None]
    regular = np.abs(determinant) > TINY
    if regular.all():
        return np.swapaxes(cofactors, -1, -2) / determinant
    inverse = np.swapaxes(cofactors, -1, -2) / np.where(regular, determinant, 1.0)
    return np.where(regular, inverse, 0.0)


def chain_products(steps: np.ndarray) -> np.ndarray:
    """Products of the matrices of chains from the first one to each.

    Args:
        steps: ``(..., n, d, d)`` matrices of n bones, each in the frame of the one before.

    Returns:
        ``(..., n, d, d)`` of each bone in the frame that the first one stands in.
    """
    count = steps.shape[-3]
    if steps[..., 0, 0, 0].size > FEW_CHAINS:
        out = np.empty_like(steps)
        out[..., 0, :, :] = steps[..., 0, :, :]
        for bone in range(1, count):
            np.matmul(out[..., bone - 1, :, :], steps[..., bone, :, :], out=out[..., bone, :, :])
        return out
    # Few chains: doubling the reach of each product takes fewer calls, though more products.
    out, reach = steps, 1
    while reach < count:
        longer = out[..., :-reach, :, :] @ out[..., reach:, :, :]
        out = np.concatenate([out[..., :reach, :, :], longer], axis=-3)
        reach *= 2
    return out


def transform_point(m: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Points ``(..., 3)`` carried by affine matrices ``(..., 4, 4)``."""
    return np.einsum("...ij,...j->...i", m[..., :3, :3], p) + m[..., :3, 3]


def transform_vector(m: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Vectors ``(..., 3)`` carried by the linear part of ``(..., 3|4, 3|4)`` matrices."""
    return np.einsum("...ij,...j->...i", m[..., :3, :3], v)


def rotation_part(m: np.ndarray) -> np.ndarray:
    """Rotation of affine or linear matrices without scale, shear and reflection.

    The Y column keeps its direction (the bone's axis), X is made orthogonal to it, Z
    completes a right-handed frame. ``(..., 3|4, 3|4) -> (..., 3, 3)``.
    """
    y = normalize(m[..., :3, 1], np.array([0.0, 1.0, 0.0]))
    x = reject(m[..., :3, 0], y)
    flat = length(x) <= PARALLEL * length(m[..., :3, 0])
    x = np.where(flat[..., None], perpendicular(y), normalize(x, perpendicular(y)))
    if np.any(np.linalg.det(m[..., :3, :3]) < 0.0):
        # Reflected frames have no rotation; turning X keeps Y and Z as they are.
        mirrored = (np.linalg.det(m[..., :3, :3]) < 0.0)[..., None]
        x = np.where(mirrored, -x, x)
    return np.stack([x, y, cross(x, y)], axis=-1)


def make_compatible(q: np.ndarray, before: np.ndarray | None = None) -> np.ndarray:
    """Signs of quaternions ``(frames, ..., 4)`` such that neighbours have a dot product >= 0.

    ``before`` ``(..., 4)`` is the quaternion that comes ahead of the first one.
    """
    first = q[:1] if before is None else np.asarray(before, float)[None]
    chain = np.concatenate([first, q], axis=0)
    flips = np.einsum("...i,...i->...", chain[1:], chain[:-1]) < 0.0
    sign = np.where(np.cumsum(flips, axis=0) % 2 == 1, -1.0, 1.0)
    return q * sign[..., None]
