# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests of joint limits share: independent Euler angles and kinematics, chains at random."""

import numpy as np

from ik_addon.core.job import ChainJob
from ik_addon.core.limited import JointChain
from ik_addon.core.two_bone import bend_normal

ORDERS = {"XYZ": "xyz", "XZY": "xzy", "YXZ": "yxz", "YZX": "yzx", "ZXY": "zxy", "ZYX": "zyx"}


def about(axis, angle):
    """Rotation matrices about a main axis; written out, and not shared with the code under test."""
    c, s = np.cos(angle), np.sin(angle)
    i, j = [k for k in range(3) if k != axis]
    sign = -1.0 if axis == 1 else 1.0
    m = np.zeros((*np.shape(angle), 3, 3))
    m[..., axis, axis] = 1.0
    m[..., i, i] = m[..., j, j] = c
    m[..., i, j], m[..., j, i] = -sign * s, sign * s
    return m


def rotation(angles, order="XYZ"):
    """Matrices of Euler angles stored x, y, z; the first letter of the order is applied first."""
    first, second, third = ("XYZ".index(letter) for letter in order)
    angles = np.asarray(angles, float)
    m = about(second, angles[..., second]) @ about(first, angles[..., first])
    return about(third, angles[..., third]) @ m


def quaternion(m):
    """Unit quaternions of rotation matrices, from the eigenvector of Bar-Itzhack's matrix."""
    k = np.zeros((*m.shape[:-2], 4, 4))
    k[..., 0, 0] = m[..., 0, 0] + m[..., 1, 1] + m[..., 2, 2]
    for a, (i, j) in enumerate(((2, 1), (0, 2), (1, 0)), start=1):
        k[..., 0, a] = k[..., a, 0] = m[..., i, j] - m[..., j, i]
    k[..., 1:, 1:] = m + np.swapaxes(m, -1, -2) - k[..., :1, :1] * np.eye(3)
    return np.linalg.eigh(k)[1][..., -1]


def matrix(q):
    """Rotation matrices of unit quaternions."""
    w, x, y, z = np.moveaxis(q, -1, 0)
    v = np.stack([x, y, z], -1)
    skew = np.zeros((*w.shape, 3, 3))
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        skew[..., i, j], skew[..., j, i] = -v[..., k], v[..., k]
    outer = v[..., :, None] * v[..., None, :]
    return (
        (w * w - (v * v).sum(-1))[..., None, None] * np.eye(3) + 2.0 * outer + 2.0 * w[..., None, None] * skew
    )


def outside(q, lower, upper, order="XYZ"):
    """By how much rotations violate ranges: of both names and all turns the least, (..., n).

    At gimbal lock, where only one of the outer angles with the other says anything, these pass.
    """
    m = matrix(q)
    i, j, k = ("XYZ".index(letter) for letter in order)
    odd = -1.0 if (j - i) % 3 == 2 else 1.0
    middle = np.arctan2(-odd * m[..., k, i], np.hypot(m[..., i, i], m[..., j, i]))
    first = np.arctan2(odd * m[..., k, j], m[..., k, k])
    third = np.arctan2(odd * m[..., j, i], m[..., i, i])
    worst = []
    for a, b, c in ((first, middle, third), (first + np.pi, np.pi - middle, third + np.pi)):
        angles = np.empty((*first.shape, 3))
        angles[..., i], angles[..., j], angles[..., k] = a, b, c
        spun = angles[..., None] + 2.0 * np.pi * np.arange(-3, 4)
        past = np.maximum(lower[..., None] - spun, spun - upper[..., None]).min(-1)
        locked = np.abs(np.cos(middle)) < 1e-9
        past[..., i], past[..., k] = (np.where(locked, 0.0, past[..., axis]) for axis in (i, k))
        worst.append(past.max(-1))
    return np.maximum(np.minimum(*worst), 0.0)


def forward(chain, q):
    """Joint positions (..., n + 1, 3), bone by bone."""
    frame, at = chain.base, chain.root
    joints = [np.broadcast_to(at, (*q.shape[:-2], 3))]
    for bone in range(q.shape[-2]):
        frame = frame @ chain.rest[..., bone, :, :] @ matrix(q[..., bone, :])
        at = at + (frame @ chain.step[..., bone, :, None])[..., 0]
        joints.append(at)
    return np.stack(joints, -2)


def total(chain):
    return np.linalg.norm(chain.step, axis=-1).sum(-1)


def turns(rng, *shape):
    """Rotation matrices spread evenly."""
    q = rng.normal(size=(*shape, 4))
    return matrix(q / np.linalg.norm(q, axis=-1, keepdims=True))


def chains(rng, size, bones, straight=False):
    """Chains in any frame, their bones along Y; straight ones are straight at rest."""
    rest = np.broadcast_to(np.eye(3), (size, bones, 3, 3)) if straight else turns(rng, size, bones)
    step = np.zeros((size, bones, 3))
    step[..., 1] = rng.uniform(0.5, 1.5, (size, bones))
    return JointChain(turns(rng, size), rng.normal(size=(size, 3)), rest, step)


def inside(rng, lower, upper, *shape):
    """Angles evenly out of finite ranges."""
    return lower + (upper - lower) * rng.uniform(size=(*shape, *lower.shape[-2:]))


def some(chain, rows):
    return JointChain(chain.base[rows], chain.root[rows], chain.rest[rows], chain.step[rows])


def channels(chain, frames):
    """Channel rotations of bones whose orientations are known, (..., n, 3, 3) to (..., n, 4)."""
    parents = np.concatenate(
        [np.broadcast_to(chain.base, frames[..., 0, :, :].shape)[..., None, :, :], frames[..., :-1, :, :]], -3
    )
    return quaternion(np.swapaxes(parents @ chain.rest, -1, -2) @ frames)


def orientations(chain, q):
    """Orientations of the bones in the chain's frame, (..., n, 3, 3)."""
    frame, frames = chain.base, []
    for bone in range(q.shape[-2]):
        frame = frame @ chain.rest[..., bone, :, :] @ matrix(q[..., bone, :])
        frames.append(np.broadcast_to(frame, (*q.shape[:-2], 3, 3)))
    return np.stack(frames, -3)


def freely(chain, fk, target, solver, pole=None):
    """Channel rotations that a solver without limits wants."""
    frames = orientations(chain, fk)
    joints = forward(chain, fk)
    hinge = frames[..., 0, :, 0]
    if fk.shape[-2] == 2:
        hinge = bend_normal(joints, frames[..., 1, :, 0])
    result = solver.solve(ChainJob(joints, target, hinge, pole=pole))
    return channels(chain, result.rotations @ frames)
