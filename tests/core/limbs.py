# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests of the two-bone solvers share: independent forward kinematics and checks."""

import numpy as np

from ik_addon.core.job import ChainJob, ChainResult

X, Y, Z = np.eye(3)


def unit(v):
    v = np.asarray(v, float)
    return v / np.maximum(np.linalg.norm(v, axis=-1, keepdims=True), 1e-150)


def angle_between(a, b):
    return np.arctan2(np.linalg.norm(np.cross(a, b), axis=-1), np.sum(a * b, axis=-1))


def bone_lengths(joints):
    return np.linalg.norm(np.diff(joints, axis=-2), axis=-1)


def forward(joints, rotations):
    """Joint positions after each bone of the FK pose was turned by its own rotation."""
    steps = np.einsum("...nij,...nj->...ni", rotations, np.diff(joints, axis=-2))
    return np.concatenate([joints[..., :1, :], joints[..., :1, :] + np.cumsum(steps, axis=-2)], axis=-2)


def least_gap(joints, target):
    """How far geometry keeps the tip from the target: the distance to the reachable shell."""
    upper, lower = np.moveaxis(bone_lengths(joints), -1, 0)
    distance = np.linalg.norm(target - joints[..., 0, :], axis=-1)
    return np.maximum(np.maximum(distance - (upper + lower), np.abs(upper - lower) - distance), 0.0)


def check_sound(job: ChainJob, result: ChainResult, gap=None, tolerance=1e-9):
    """Finite, rigid, lengths kept, as near to the target as geometry allows, rotations agree."""
    size = np.maximum(bone_lengths(job.joints).sum(axis=-1), 1e-300)
    for name in ("rotations", "joints", "residual", "status"):
        assert np.isfinite(getattr(result, name)).all(), name
    gram = np.swapaxes(result.rotations, -1, -2) @ result.rotations
    assert np.abs(gram - np.eye(3)).max(initial=0.0) <= tolerance
    assert (np.linalg.det(result.rotations) > 0.0).all()
    stretch = np.abs(bone_lengths(result.joints) - bone_lengths(job.joints))
    drift = np.linalg.norm(forward(job.joints, result.rotations) - result.joints, axis=-1)
    # Positions far from the origin carry the rounding of their own magnitude.
    far = np.maximum(np.abs(job.joints).max(axis=(-1, -2)), np.abs(job.target).max(axis=-1))
    allowed = tolerance * size + 1e-14 * far
    assert (stretch <= allowed[..., None]).all()
    assert (drift <= allowed[..., None]).all()
    missed = np.linalg.norm(result.joints[..., -1, :] - job.target, axis=-1)
    assert (np.abs(missed - result.residual) <= allowed).all()
    wanted = least_gap(job.joints, job.target) if gap is None else gap
    assert (np.abs(missed - wanted) <= allowed).all()
