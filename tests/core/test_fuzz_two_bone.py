# SPDX-License-Identifier: GPL-3.0-or-later
"""A seeded sweep over the hard cases of the two-bone solve, freely combined."""

import numpy as np
from limbs import bone_lengths, check_sound, least_gap, unit

from ik_addon.core import planar, two_bone
from ik_addon.core.job import ChainJob, Status

CHUNK = 20_000


def choose(rng, count, *options):
    """For each case one of the options, arrays ``(count, ...)``."""
    pick = rng.integers(len(options), size=count)
    stacked = np.stack([np.broadcast_to(o, (count, *np.shape(options[0])[1:])) for o in options])
    return stacked[pick, np.arange(count)]


def noisy(rng, direction):
    """The direction, exactly, or off by 1e-16 to 0.1."""
    count = len(direction)
    noise = 10.0 ** rng.uniform(-16.0, -1.0, count) * (rng.random(count) < 0.7)
    return direction + noise[:, None] * rng.normal(size=direction.shape)


def hard_jobs(rng, count):
    first, across, anywhere = unit(rng.normal(size=(3, count, 3)))
    across = unit(np.cross(first, across))
    angle = rng.uniform(0.0, np.pi, count)[:, None]
    second = choose(
        rng,
        count,
        np.cos(angle) * first + np.sin(angle) * across,
        noisy(rng, first),
        noisy(rng, -first),
        across,
    )
    ratio = choose(
        rng,
        count,
        np.ones(count),
        10.0 ** rng.uniform(-1.0, 1.0, count),
        10.0 ** rng.uniform(-6.0, 6.0, count),
        10.0 ** rng.choice([-16.0, -13.0, -12.0, -11.0, 11.0, 12.0, 13.0, 16.0], count),
    )
    lengths = np.stack([ratio, np.ones(count)]) / np.maximum(ratio, 1.0)
    lengths[0, rng.random(count) < 0.03] = 0.0
    lengths[1, rng.random(count) < 0.03] = 0.0
    inner, outer = np.abs(lengths[0] - lengths[1]), lengths.sum(axis=0)
    ulps = 1.0 + rng.integers(-4, 5, count) * 2.2e-16
    close = 10.0 ** rng.uniform(-16.0, -1.0, count) * rng.choice([-1.0, 1.0], count) * lengths.min(axis=0)
    distance = choose(
        rng,
        count,
        inner + rng.random(count) * (outer - inner),
        rng.uniform(0.0, 2.0, count),
        outer * ulps,
        inner * ulps,
        outer + close,
        inner + close,
        np.zeros(count),
        10.0 ** rng.uniform(-16.0, -8.0, count),
        10.0 ** rng.uniform(1.0, 9.0, count),
    )
    distance = np.abs(distance)
    tip = lengths[0][:, None] * first + lengths[1][:, None] * second
    toward = choose(rng, count, anywhere, noisy(rng, tip), noisy(rng, -tip), noisy(rng, first), across)
    line = unit(toward)
    pole = choose(rng, count, rng.normal(size=(count, 3)), noisy(rng, line), noisy(rng, -line), 0.0 * line)
    hinge = choose(
        rng,
        count,
        rng.normal(size=(count, 3)),
        np.cross(second, first),
        noisy(rng, first),
        noisy(rng, second),
        noisy(rng, tip),
        0.0 * first,
    )
    scale = 10.0 ** choose(rng, count, np.zeros(count), rng.uniform(-30.0, 30.0, count))[:, None]
    root = choose(rng, count, 0.0 * first, rng.normal(size=(count, 3)), 1e6 * first)
    joints = np.stack([root, root + lengths[0][:, None] * first, root + tip], axis=1)
    pole_angle = choose(rng, count, np.zeros(count), rng.uniform(-7.0, 7.0, count))
    mask = rng.random(count) < 0.8
    target = root + distance[:, None] * line
    return ChainJob(scale[:, None] * joints, scale * target, hinge, scale * pole, mask, pole_angle)


def test_hard_cases_in_space(fuzz_cases):
    rng = np.random.default_rng(20240229)
    for start in range(0, fuzz_cases, CHUNK):
        job = hard_jobs(rng, min(CHUNK, fuzz_cases - start))
        with np.errstate(all="raise", under="ignore"):
            result = two_bone.solve(job)
        check_sound(job, result)
        size = bone_lengths(job.joints).sum(axis=-1)
        gap = least_gap(job.joints, job.target)
        missed = np.isin(result.status, [Status.TARGET_FAR, Status.TARGET_NEAR])
        assert (missed[gap > 2e-9 * size]).all()
        assert not (missed[gap < 0.5e-9 * size]).any()
        assert job.pole_mask[result.status == Status.POLE_ALIGNED].all()


def test_hard_cases_in_the_plane(fuzz_cases):
    rng = np.random.default_rng(20240301)
    for start in range(0, fuzz_cases, CHUNK):
        job = hard_jobs(rng, min(CHUNK, fuzz_cases - start))
        axis = unit(noisy(rng, unit(rng.normal(size=job.target.shape))))
        sign = rng.choice([-1.0, 1.0], len(axis))
        with np.errstate(all="raise", under="ignore"):
            result = planar.solve(job, axis, sign)
        offset = job.target - job.joints[:, 0]
        height = np.sum(offset * axis, axis=-1)
        flat = job.joints[:, 0] + offset - height[:, None] * axis
        check_sound(job, result, gap=np.hypot(least_gap(job.joints, flat), height))


def test_hard_cases_of_the_fk_hinge(fuzz_cases):
    rng = np.random.default_rng(20240302)
    for start in range(0, fuzz_cases, CHUNK):
        job = hard_jobs(rng, min(CHUNK, fuzz_cases - start))
        with np.errstate(all="raise", under="ignore"):
            normals = two_bone.bend_normal(job.joints, job.hinge)
        assert np.isfinite(normals).all()
        upper = np.diff(job.joints, axis=-2)[:, 0]
        long = np.linalg.norm(upper, axis=-1) > 1e-9 * np.abs(job.joints).max(axis=(1, 2))
        assert (np.abs(np.linalg.norm(normals, axis=-1) - 1.0) <= 1e-12)[long].all()
        assert (np.abs(np.sum(normals * unit(upper), axis=-1)) <= 1e-9)[long].all()
