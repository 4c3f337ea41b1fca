# SPDX-License-Identifier: GPL-3.0-or-later
"""Chains of joints with three Euler angles each: where they put the tip, and how it moves.

Arrays have the batch last, ``(..., m)`` for m chains. Positions start at the root and are shares
of the chain's length. Angles are x, y, z in order XYZ (Rz @ Ry @ Rx), ``(n, 3, m)``.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

# Cyclic triples of axes: the rows of a cross product.
_CYCLES = ((0, 1, 2), (1, 2, 0), (2, 0, 1))


@dataclass(frozen=True)
class Chains:
    """m chains of n bones, the ranges of their angles and their targets.

    Attributes:
        base: ``(3, 3, m)`` orientation that the root's rest turn starts from.
        rest: ``(n, 3, 3, m)`` rest orientation of each bone in its parent's frame.
        step: ``(n, 3, m)`` vector to the next joint, in the bone's own posed frame.
        lower, upper: ``(n, 3, m)`` ranges; infinite: free, equal: held.
        target: ``(3, m)``.
    """

    base: np.ndarray
    rest: np.ndarray
    step: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    target: np.ndarray

    def pick(self, rows: np.ndarray) -> Chains:
        """The chains at indices."""
        return Chains(*(taken(getattr(self, f.name), rows) for f in fields(self)))

    @property
    def count(self) -> int:
        """Angles of a chain: three for each bone."""
        return 3 * len(self.step)


@dataclass
class Pose:
    """m chains in a pose.

    Attributes:
        angles: ``(n, 3, m)``.
        cosines, sines: ``(3, n, m)`` of the angles about x, y, z.
        frames: ``(n, 3, 3, m)`` orientations of the bones.
        joints: ``(n + 1, 3, m)`` from the root to the tip.
        miss: ``(3, m)`` from the tip to the target; gap: ``(m,)`` its length.
    """

    angles: np.ndarray
    cosines: np.ndarray
    sines: np.ndarray
    frames: np.ndarray
    joints: np.ndarray
    miss: np.ndarray
    gap: np.ndarray

    def pick(self, rows: np.ndarray) -> Pose:
        """The chains at indices."""
        return Pose(*(taken(getattr(self, f.name), rows) for f in fields(self)))

    def put(self, rows: np.ndarray, other: Pose) -> None:
        """Take over ``other``'s chains, at these indices."""
        for field in fields(self):
            getattr(self, field.name)[..., rows] = getattr(other, field.name)

    def where(self, other_is_better: np.ndarray, other: Pose) -> Pose:
        """Each chain from ``other`` where ``other_is_better`` ``(m,)``, else from this."""
        if other_is_better.all():
            return other
        return Pose(
            *(np.where(other_is_better, getattr(other, f.name), getattr(self, f.name)) for f in fields(self))
        )


def place(chains: Chains, angles: np.ndarray) -> Pose:
    """Forward kinematics of angles ``(n, 3, m)``."""
    parts = _circle(angles)
    frames = np.einsum("nijm,jknm->nikm", chains.rest, _rotations(parts))
    above = chains.base
    for frame in frames:
        frame[:] = np.einsum("ijm,jkm->ikm", above, frame)
        above = frame
    joints = np.zeros((len(frames) + 1, *angles.shape[1:]))
    np.cumsum(np.einsum("nijm,njm->nim", frames, chains.step), axis=0, out=joints[1:])
    miss = chains.target - joints[-1]
    return Pose(angles, parts[0], parts[1], frames, joints, miss, norm(miss))


def _circle(angles: np.ndarray) -> np.ndarray:
    """Cosines and sines ``(2, 3, n, m)`` of angles ``(n, 3, m)``."""
    parts = np.empty((2, 3, len(angles), angles.shape[-1]))
    np.cos(angles.transpose(1, 0, 2), out=parts[0])
    np.sin(angles.transpose(1, 0, 2), out=parts[1])
    return parts


def jacobian(pose: Pose) -> tuple[np.ndarray, np.ndarray]:
    """How the tip moves with each angle, and the axes it turns about.

    Returns:
        Two arrays ``(3, 3n, m)``; the angles are counted bone by bone, x, y, z.
    """
    count, _, size = pose.angles.shape
    x, y, z = pose.frames.transpose(2, 1, 0, 3)
    axes = np.empty((3, count, 3, size))
    # Rx leaves x in place; y and z are the axes before Rx, and before Ry and Rx.
    axes[:, :, 0] = x
    axes[:, :, 1] = pose.cosines[0] * y - pose.sines[0] * z
    axes[:, :, 2] = pose.cosines[1] * (pose.sines[0] * y + pose.cosines[0] * z) - pose.sines[1] * x
    arms = (pose.joints[-1] - pose.joints[:-1]).transpose(1, 0, 2)[:, :, None]
    return (
        cross(axes, arms).reshape(3, 3 * count, size),
        axes.reshape(3, 3 * count, size),
    )


def curvature(columns: np.ndarray, axes: np.ndarray, miss: np.ndarray) -> np.ndarray:
    """Second derivatives ``(3n, 3n, m)`` of the tip's position along ``miss`` ``(3, m)``.

    For two angles it is miss . (a x c) with a the axis of the outer one and c the column
    of the inner one.
    """
    count = columns.shape[1]
    across = np.empty(axes.shape)
    for i, j, k in _CYCLES:
        across[i] = miss[j] * axes[k] - miss[k] * axes[j]
    pairs = np.einsum("idm,ifm->dfm", across, columns)
    # Of a bone's axes z is the outermost.
    rank = np.arange(count).reshape(-1, 3)[:, ::-1].reshape(-1)
    outer = rank[:, None] <= rank
    return np.where(outer[..., None], pairs, pairs.transpose(1, 0, 2))


def taken(array: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Elements of the last axis. Indexing would leave them far apart in memory, and slow."""
    return np.take(array, rows, axis=-1)


def not_alone(rows: np.ndarray) -> np.ndarray:
    """A single index twice: NumPy adds up in another order along an axis that has one element."""
    return rows.repeat(2) if len(rows) == 1 else rows


def norm(v: np.ndarray) -> np.ndarray:
    """Lengths of vectors ``(3, m)``."""
    return np.sqrt(np.einsum("im,im->m", v, v))


def cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Cross product over the first axis."""
    out = np.empty(np.broadcast_shapes(a.shape, b.shape))
    for i, j, k in _CYCLES:
        np.subtract(a[j] * b[k], a[k] * b[j], out=out[i])
    return out


def turns(angles: np.ndarray) -> np.ndarray:
    """Rotations ``(n, 3, 3, m)`` Rz @ Ry @ Rx of angles ``(n, 3, m)``."""
    return _rotations(_circle(angles)).transpose(2, 0, 1, 3)


def _rotations(parts: np.ndarray) -> np.ndarray:
    """`turns`, ``(3, 3, n, m)``, of angles whose cosines and sines ``(2, 3, n, m)`` are known."""
    cosines, sines = parts
    (cx, cy, _), (sx, sy, _), about_z = cosines, sines, parts[:, 2]
    out = np.empty((3, *cosines.shape))
    np.multiply(cy, about_z, out=out[:2, 0])
    np.negative(sy, out=out[2, 0])
    np.multiply(sx, cy, out=out[2, 1])
    np.multiply(cx, cy, out=out[2, 2])
    across, away = cx * about_z, sx * about_z
    np.multiply(sx * sy, about_z, out=out[:2, 1])
    np.multiply(cx * sy, about_z, out=out[:2, 2])
    out[0, 1] -= across[1]
    out[1, 1] += across[0]
    out[0, 2] += away[1]
    out[1, 2] -= away[0]
    return out
