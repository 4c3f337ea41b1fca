# SPDX-License-Identifier: GPL-3.0-or-later
"""Smooth the motion of a target by a window that is centred on the frame.

A window of half-width n looks at the 2n + 1 samples of the frames -n to n about the present
one. Only samples of the motion itself go in, no earlier result, so a frame is the same in
whatever order frames are asked for; and since the window is symmetric, motion is damped but
never shifted in time.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from .transforms import (
    TINY,
    affine_inverse,
    compose,
    matrix_to_quaternion,
    normalize,
    quaternion_conjugate,
    quaternion_multiply,
    quaternion_to_matrix,
    rotation_part,
    transform_vector,
)


@lru_cache(maxsize=128)
def window(half_width: int) -> np.ndarray:
    """Weights ``(2n + 1,)`` of the frames -n to n, with the sum 1.

    The Hann window w_k = cos^2(pi k / (2 (n + 1))) / (n + 1), whose ends would be 0 one frame
    further out (Harris 1978, "On the use of windows for harmonic analysis with the discrete
    Fourier transform"). It keeps half of the amplitude of a motion with a period of
    2 (n + 1) frames, and less than 3 % where the period is n + 1 frames or shorter; of noise
    that is new on each frame it leaves sqrt(3 / (4 (n + 1))).
    """
    k = np.arange(-half_width, half_width + 1)
    weights = np.cos(np.pi * k / (2.0 * (half_width + 1))) ** 2 / (half_width + 1)
    weights.flags.writeable = False
    return weights


def location_change(samples: np.ndarray) -> np.ndarray:
    """What smoothing adds to locations: weighted mean less present value.

    Args:
        samples: ``(..., 2n + 1, 3)`` on the frames -n to n, any length unit.

    Returns:
        ``(..., 3)``: exactly 0 where nothing moves, 0 to rounding where the motion is linear.
    """
    count = samples.shape[-2]
    offsets = samples - samples[..., count // 2, :][..., None, :]
    return np.einsum("k,...ki->...i", window(count // 2), offsets)


def rotation_change(samples: np.ndarray) -> np.ndarray:
    """The turn that smoothing adds to rotations, in their own frames: q becomes q * turn.

    The smoothed rotation is the weighted mean of the quaternions, each with the sign that is
    nearer to the present one, normalised (the barycentric mean of Gramkow 2001, "On averaging
    rotations"). With these signs no sample takes away from the present one, so the mean is
    never 0. A turn about one axis at a constant rate is left as it is.

    Args:
        samples: ``(..., 2n + 1, 4)`` unit quaternions on the frames -n to n.

    Returns:
        ``(..., 4)`` unit quaternions.
    """
    count = samples.shape[-2]
    centre = samples[..., count // 2, :]
    far = np.einsum("...ki,...i->...k", samples, centre) < 0.0
    offsets = np.where(far[..., None], -samples, samples) - centre[..., None, :]
    mean = centre + np.einsum("k,...ki->...i", window(count // 2), offsets)
    return normalize(quaternion_multiply(quaternion_conjugate(centre), mean))


def location_step(samples: np.ndarray) -> np.ndarray:
    """What leads from a location to a smoothed one on another frame.

    Args:
        samples: ``(..., 1 + 2n + 1, 3)`` the present one, and those on the frames -n to n about the other.
    """
    there = samples[..., 1:, :]
    centre = there[..., there.shape[-2] // 2, :]
    return centre - samples[..., 0, :] + location_change(there)


def rotation_step(samples: np.ndarray) -> np.ndarray:
    """The turn that leads from a rotation to a smoothed one on another frame, in the frame of the first.

    Args:
        samples: ``(..., 1 + 2n + 1, 4)`` unit quaternions as in `location_step`.
    """
    there = samples[..., 1:, :]
    centre = quaternion_multiply(
        quaternion_conjugate(samples[..., 0, :]), there[..., there.shape[-2] // 2, :]
    )
    return quaternion_multiply(centre, rotation_change(there))


def inner_change(basis: np.ndarray, scale: np.ndarray, move: np.ndarray, turn: np.ndarray) -> np.ndarray:
    """The change of a smoothed object or bone as seen from inside it.

    Its matrix is M = P B, with the matrix P of what it hangs on and the basis
    B = T(location) R S of its own channels. Smoothed it is P B' = M C, and what stands here is
    C = B^-1 B' = [S^-1 R(turn) S, B^-1 move], whatever P is. The scale stays.

    Args:
        basis: ``(..., 3, 3)`` the linear part of B.
        scale: ``(..., 3)`` the diagonal of S.
        move: ``(..., 3)`` added to the location; turn: ``(..., 4)`` added to the rotation.

    Returns:
        ``(..., 4, 4)``; the identity where a scale of 0 leaves nothing inside.
    """
    flat = np.any(scale == 0.0, axis=-1) | (np.abs(np.linalg.det(basis)) <= TINY)
    scale = np.where(flat[..., None], 1.0, scale)
    basis = np.where(flat[..., None, None], np.eye(3), basis)
    linear = quaternion_to_matrix(turn) * scale[..., None, :] / scale[..., :, None]
    inside = transform_vector(affine_inverse(compose(move, basis)), move)
    return np.where(flat[..., None, None], np.eye(4), compose(inside, linear))


def orientation_change(space: np.ndarray, change: np.ndarray) -> np.ndarray:
    """The turn that a change inside a space makes of the rotation that a solve takes off it.

    A solve turns a target q in the space M as ``rotation_part(M) @ R(q)``. With M C in place
    of M it would be ``rotation_part(M C) @ R(q)``: the same as M with this turn before q.

    Args:
        space: ``(..., 4, 4)`` to armature space; change: ``(..., 4, 4)`` as `inner_change` has it.

    Returns:
        ``(..., 4)`` unit quaternions.
    """
    before, after = rotation_part(space), rotation_part(space @ change)
    return matrix_to_quaternion(np.swapaxes(before, -1, -2) @ after)
