# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests of the chain solvers share: chains of many kinds, targets, and checks."""

import numpy as np
from limbs import bone_lengths, check_sound, unit

from ik_addon.core.job import ChainJob, ChainResult

LENGTHS = {
    "equal": lambda rng, m, n: np.ones((m, n)),
    "random": lambda rng, m, n: rng.uniform(0.3, 1.7, (m, n)),
    "wide": lambda rng, m, n: 10.0 ** rng.uniform(-3.0, 0.0, (m, n)),
    "one long": lambda rng, m, n: _one_long(rng, m, n, 1.05, 3.0),
    "one half": lambda rng, m, n: _one_long(rng, m, n, 0.5, 0.98),
}


def _one_long(rng, m, n, low, high):
    """One bone is so many times as long as all others together."""
    lengths, one = rng.uniform(0.3, 1.0, (m, n)), (np.arange(m), rng.integers(n, size=m))
    lengths[one] = (lengths.sum(axis=1) - lengths[one]) * rng.uniform(low, high, m)
    return lengths


def _straight(rng, m, n):
    return np.tile(rng.normal(size=(m, 1, 3)), (1, n, 1))


def _wobbly(rng, m, n):
    return unit(_straight(rng, m, n)) + 1e-3 * rng.normal(size=(m, n, 3))


def _in_plane(rng, m, n):
    """In one plane, to both sides."""
    angle = np.cumsum(rng.normal(0.0, 0.5, (m, n)), axis=1)
    return np.stack([np.sin(angle), 0.0 * angle, np.cos(angle)], axis=-1)


def _arc(rng, m, n):
    angle = rng.uniform(0.1, 1.5, (m, 1)) * np.linspace(1.0, -1.0, n)
    return np.stack([np.sin(angle), 0.0 * angle, np.cos(angle)], axis=-1)


def _winding(rng, m, n):
    return [0.0, 0.0, 1.0] + np.cumsum(rng.normal(0.0, 0.35, (m, n, 3)), axis=1)


def _tangled(rng, m, n):
    return rng.normal(size=(m, n, 3))


SHAPES = {
    "straight": _straight,
    "wobbly": _wobbly,
    "in plane": _in_plane,
    "arc": _arc,
    "winding": _winding,
    "tangled": _tangled,
}


def chains(rng, m, n, lengths="equal", shape="winding"):
    """FK joints ``(m, n + 1, 3)`` of m chains, the roots near the origin."""
    steps = unit(SHAPES[shape](rng, m, n)) * LENGTHS[lengths](rng, m, n)[..., None]
    joints = np.concatenate([np.zeros((m, 1, 3)), np.cumsum(steps, axis=1)], axis=1)
    return joints + rng.normal(size=(m, 1, 3))


def radii(joints):
    """Inner radius and full reach."""
    lengths = bone_lengths(joints)
    outer = lengths.sum(axis=-1)
    return np.maximum(2.0 * lengths.max(axis=-1) - outer, 0.0), outer


def reachable(rng, joints, low=0.0, high=0.999):
    """Targets between the inner radius and 0.999 of the reach, dense at both ends."""
    inner, outer = radii(joints)
    share = rng.random(len(joints))
    share[::4], share[1::4] = share[::4] ** 4, 1.0 - share[1::4] ** 4
    distance = inner + (low + (high - low) * share) * (high * outer - inner)
    return joints[:, 0] + distance[:, None] * unit(rng.normal(size=(len(joints), 3)))


def least_gap_of_chain(job):
    """How far geometry keeps the tip from the target."""
    inner, outer = radii(job.joints)
    distance = np.linalg.norm(job.target - job.joints[..., 0, :], axis=-1)
    return np.maximum(np.maximum(distance - outer, inner - distance), 0.0)


def check_chain(job: ChainJob, result: ChainResult, tolerance=1e-6):
    """Sound to 1e-9, and no further off than geometry and ``tolerance`` together."""
    job = job.validated()
    missed = np.linalg.norm(result.joints[..., -1, :] - job.target, axis=-1)
    check_sound(job, result, gap=missed)
    far = np.maximum(np.abs(job.joints).max(axis=(-1, -2)), np.abs(job.target).max(axis=-1))
    assert (missed <= least_gap_of_chain(job) + 1.001 * tolerance * radii(job.joints)[1] + 1e-14 * far).all()


def moves(solve, joints, targets, **fields):
    """How many times as far as the target the joint that moves most moves, for each step of a path."""
    hinge = fields.pop("hinge", np.array([0.0, 1.0, 0.0]))
    result = solve(ChainJob(joints, targets, hinge, **fields), tolerance=1e-9)
    travelled = np.linalg.norm(np.diff(result.joints, axis=0), axis=-1).max(axis=-1)
    return travelled / np.linalg.norm(np.diff(targets, axis=0), axis=-1)


def off_line(joints):
    """Offsets of the joints from the line from root to tip, ``(..., n + 1, 3)``."""
    way = joints - joints[..., :1, :]
    line = unit(way[..., -1:, :])
    return way - np.sum(way * line, axis=-1, keepdims=True) * line


def mean_offset(joints):
    """Mean of the offset from the line over all points of a chain, ``(..., 3)``."""
    offset, lengths = off_line(joints), bone_lengths(joints)[..., None]
    middle = 0.5 * (offset[..., 1:, :] + offset[..., :-1, :])
    return (lengths * middle).sum(axis=-2) / lengths.sum(axis=-2)


def twist(turns, bones):
    """Sine of half the twist of each turn ``(..., 3, 3)`` about the unit ``bones`` ``(..., 3)``."""
    skew = np.stack(
        [
            turns[..., 2, 1] - turns[..., 1, 2],
            turns[..., 0, 2] - turns[..., 2, 0],
            turns[..., 1, 0] - turns[..., 0, 1],
        ],
        axis=-1,
    )
    return np.sum(skew * bones, axis=-1)
