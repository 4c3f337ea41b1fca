# SPDX-License-Identifier: GPL-3.0-or-later
"""How far chains of any influence move a bone together."""

import numpy as np
import pytest

from ik_addon.core.moving import Say
from ik_addon.core.transforms import length

PATH = 401


def say_of(rng, count, weight, around=0):
    """Chains with the same targets on all frames of `weight` ``(F, n)``, out of reach and soft."""
    frames = len(weight)
    centers = rng.normal(size=(count, 3)) + [1.0, 0.0, 0.0]
    near = centers[:, None] + 0.3 * rng.normal(size=(count, 2 * around + 1, 3))
    near[:, around] = centers

    def repeated(values):
        return np.repeat(np.asarray(values, float)[None], frames, axis=0)

    return Say(
        centers=repeated(centers),
        around=repeated(near) if around else None,
        counts=np.full(frames, around) if around else None,
        outer=repeated(rng.uniform(0.3, 0.8, count)),
        softness=repeated(rng.uniform(0.0, 0.1, count)),
        weight=weight,
        largest=repeated(rng.uniform(0.3, 2.0, count)),
        world=np.repeat(np.eye(3)[None] * 1.7, frames, axis=0),
    )


@pytest.mark.parametrize("around", [0, 3])
@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_with_full_influence_it_is_the_balance_of_those_that_have_it(count, around):
    rng = np.random.default_rng(count)
    weight = rng.integers(0, 2, (40, count)).astype(float)
    say = say_of(rng, count, weight, around)
    shift, left = say.shared()
    wanted = say.wanted()
    np.testing.assert_array_equal(shift, say.allowed(wanted))
    expected = length(say.centers - wanted[:, None])
    np.testing.assert_allclose(left[weight > 0.0], expected[weight > 0.0], rtol=1e-12)
    assert (shift[(weight == 0.0).all(axis=1)] == 0.0).all()


@pytest.mark.parametrize("around", [0, 3])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_it_grows_in_line_with_an_influence_that_all_share(count, around):
    amount = np.linspace(0.0, 1.0, 21)
    say = say_of(np.random.default_rng(count), count, np.repeat(amount[:, None], count, axis=1), around)
    shift, left = say.shared()
    np.testing.assert_allclose(shift, amount[:, None] * shift[-1], atol=1e-12)
    np.testing.assert_allclose(left[1:], left[1:][::-1], rtol=1e-12)


@pytest.mark.parametrize("around", [0, 3])
@pytest.mark.parametrize("seed", range(8))
def test_no_way_of_fading_makes_it_jump(seed, around):
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 5))
    # From one corner or inner point of the influences to another: some fade in, some out, some cross.
    ends = np.clip(rng.uniform(-0.5, 1.5, (2, count)), 0.0, 1.0)
    t = np.linspace(0.0, 1.0, PATH)[:, None]
    say = say_of(rng, count, (1.0 - t) * ends[0] + t * ends[1], around)
    shift, _ = say.shared()
    most = 2.0 * say.largest.max() / 1.7
    assert length(np.diff(shift, axis=0)).max() <= count * most / (PATH - 1)
    assert np.isfinite(shift).all()


def test_the_order_of_the_chains_does_not_matter():
    rng = np.random.default_rng(5)
    say = say_of(rng, 4, np.repeat(rng.uniform(0.0, 1.0, (1, 4)), 3, axis=0))
    order = [2, 0, 3, 1]
    names = ("centers", "outer", "softness", "weight", "largest")
    fields = {name: getattr(say, name)[:, order] for name in names}
    shift, left = say.shared()
    other, other_left = Say(around=None, counts=None, world=say.world, **fields).shared()
    np.testing.assert_allclose(other, shift, atol=1e-9)
    np.testing.assert_allclose(other_left, left[:, order], atol=1e-9)
