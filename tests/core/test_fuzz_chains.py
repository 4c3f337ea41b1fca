# SPDX-License-Identifier: GPL-3.0-or-later
"""A seeded sweep over the hard cases of the chain solvers, freely combined."""

import numpy as np
import pytest
from chains import check_chain, least_gap_of_chain, radii
from limbs import unit
from test_fuzz_two_bone import choose, noisy

from ik_addon.core import ccd, fabrik
from ik_addon.core.job import ChainJob, Status

CHUNK = 500
BONES = [1, 2, 3, 4, 5, 8, 13, 20, 50]


def hard_lengths(rng, m, n):
    lengths = choose(
        rng,
        m,
        np.ones((m, n)),
        rng.uniform(0.3, 1.7, (m, n)),
        10.0 ** rng.uniform(-3.0, 0.0, (m, n)),
        10.0 ** rng.uniform(-13.0, 0.0, (m, n)),
    )
    one = (np.arange(m), rng.integers(n, size=m))
    others = lengths.sum(axis=1) - lengths[one]
    factor = rng.choice([0.5, 0.9, 1.0 - 1e-9, 1.0, 1.0 + 1e-9, 1.1, 2.0, 10.0], m)
    lengths[one] = np.where(rng.random(m) < 0.2, others * factor, lengths[one])
    lengths *= (rng.random((m, n)) > 0.05) | (rng.random((m, 1)) > 0.3)
    lengths[rng.random(m) < 0.01] = 0.0
    return lengths


def hard_jobs(rng, m, n):
    base, across = unit(rng.normal(size=(2, m, 3)))
    across = unit(np.cross(base, across))

    def in_plane(angle):
        return np.cos(angle)[..., None] * base[:, None] + np.sin(angle)[..., None] * across[:, None]

    def wobbly(bones):
        return noisy(rng, bones.reshape(m, -1)).reshape(m, n, 3)

    straight = in_plane(np.zeros((m, n)))
    folded = straight * rng.choice([-1.0, 1.0], (m, n, 1))
    ring = in_plane(np.broadcast_to(np.linspace(0.0, 2.0 * np.pi, n, endpoint=False), (m, n)))
    waves = in_plane(np.cumsum(rng.normal(0.0, 0.6, (m, n)), axis=1))
    anyhow = rng.normal(size=(m, n, 3))
    bones = choose(
        rng,
        m,
        anyhow,
        straight,
        folded,
        ring,
        waves,
        wobbly(straight),
        wobbly(folded),
        wobbly(ring),
        wobbly(waves),
    )
    lengths = hard_lengths(rng, m, n)
    joints = np.concatenate(
        [np.zeros((m, 1, 3)), np.cumsum(unit(bones) * lengths[..., None], axis=1)], axis=1
    )
    inner, outer = radii(joints)
    tip = joints[:, -1]
    start = np.linalg.norm(tip, axis=-1)
    close = 10.0 ** rng.uniform(-16.0, -1.0, m) * rng.choice([-1.0, 1.0], m) * outer
    distance = choose(
        rng,
        m,
        inner + rng.random(m) * (outer - inner),
        rng.uniform(0.0, 2.0, m) * outer,
        outer,
        inner,
        start,
        np.zeros(m),
        outer + close,
        np.abs(inner + close),
        np.abs(start + close),
        np.abs(close),
    )
    way = choose(
        rng,
        m,
        rng.normal(size=(m, 3)),
        noisy(rng, tip),
        noisy(rng, -tip),
        noisy(rng, base),
        bones[:, 0],
        across,
    )
    target = distance[:, None] * unit(way)
    hinge = choose(
        rng, m, across, np.cross(base, across), rng.normal(size=(m, 3)), noisy(rng, tip), 0.0 * tip
    )
    pole = choose(rng, m, rng.normal(size=(m, 3)), noisy(rng, target), noisy(rng, -target), across, 0.0 * tip)
    scale = (
        10.0 ** choose(rng, m, np.zeros(m), rng.uniform(-6.0, 6.0, m), rng.uniform(-60.0, 60.0, m))[:, None]
    )
    root = choose(rng, m, 0.0 * tip, rng.normal(size=(m, 3)))
    angle = choose(rng, m, np.zeros(m), rng.uniform(-7.0, 7.0, m))
    joints, target = (joints + root[:, None]) * scale[:, None], (target + root) * scale
    return ChainJob(joints, target, hinge, pole * scale, rng.random(m) < 0.6, angle)


@pytest.mark.parametrize("solver", [fabrik, ccd])
def test_hard_cases(solver, fuzz_cases):
    for start in range(0, fuzz_cases, CHUNK):
        rng = np.random.default_rng([20240303, start])
        job = hard_jobs(rng, min(CHUNK, fuzz_cases - start), int(rng.choice(BONES)))
        with np.errstate(all="raise", under="ignore"):
            result = solver.solve(job)
        check_chain(job, result)
        outer = radii(job.joints)[1]
        gap = least_gap_of_chain(job)
        out = np.isin(result.status, [Status.TARGET_FAR, Status.TARGET_NEAR])
        far_from_origin = 1e-14 * np.abs(job.target).max(axis=-1)
        assert out[gap > 2e-9 * outer + far_from_origin].all()
        assert not out[gap + far_from_origin < 0.5e-9 * outer].any()
        assert job.pole_mask[result.status == Status.POLE_ALIGNED].all()
        assert (result.status != Status.NOT_CONVERGED).all()
