# SPDX-License-Identifier: GPL-3.0-or-later
"""The smoothing window: centred, exact for steady motion, and as strong as its formula says."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ik_addon.core import smoothing
from ik_addon.core.transforms import (
    affine_inverse,
    axis_angle_to_quaternion,
    compose,
    quaternion_multiply,
    quaternion_to_matrix,
    rotation_part,
)

WIDTHS = (1, 2, 3, 5, 12, 100)
widths = st.integers(1, 100)


def frames(half_width: int) -> np.ndarray:
    return np.arange(-half_width, half_width + 1)


def smoothed(signal: np.ndarray, half_width: int) -> np.ndarray:
    """A signal ``(F,)`` by the window, where the window fits."""
    samples = np.lib.stride_tricks.sliding_window_view(signal, 2 * half_width + 1)
    change = smoothing.location_change(np.stack([samples] * 3, axis=-1))
    return samples[:, half_width] + change[:, 0]


@given(widths)
def test_weights_are_symmetric_fall_off_and_sum_to_one(half_width: int) -> None:
    weights = smoothing.window(half_width)
    assert weights.shape == (2 * half_width + 1,)
    assert weights.sum() == pytest.approx(1.0, abs=1e-14)
    assert np.array_equal(weights, weights[::-1])
    assert (weights > 0.0).all() and (np.diff(weights[half_width:]) < 0.0).all()


def test_the_window_of_none_is_the_frame_itself() -> None:
    assert smoothing.window(0).tolist() == [1.0]


@given(widths, st.lists(st.floats(-1e3, 1e3), min_size=6, max_size=6))
def test_linear_motion_stays(half_width: int, numbers: list[float]) -> None:
    start, speed = np.array(numbers[:3]), np.array(numbers[3:])
    samples = start + frames(half_width)[:, None] * speed
    assert np.abs(smoothing.location_change(samples)).max() <= 1e-13 * (np.abs(samples).max() + 1.0)


@given(widths, st.lists(st.floats(-1e3, 1e3), min_size=3, max_size=3))
def test_what_stands_still_stays_to_the_bit(half_width: int, place: list[float]) -> None:
    samples = np.tile(np.array(place), (2 * half_width + 1, 1))
    assert not smoothing.location_change(samples).any()


@pytest.mark.parametrize("half_width", WIDTHS)
def test_a_symmetric_bump_stays_symmetric_about_its_frame(half_width: int) -> None:
    t = np.arange(-400, 401)
    out = smoothed(np.exp(-0.5 * (t / 6.0) ** 2) + 0.3 * (np.abs(t) < 9), half_width)
    assert np.allclose(out, out[::-1], rtol=0.0, atol=1e-15)
    assert out.argmax() == len(out) // 2


@pytest.mark.parametrize("half_width", [width for width in WIDTHS if width < 50])
def test_motion_is_not_shifted(half_width: int) -> None:
    """The cross-correlation of what came out with what went in has its peak at no lag."""
    rng = np.random.default_rng(half_width)
    signal = rng.normal(size=4000)
    out = smoothed(signal, half_width)
    lags = range(-half_width - 5, half_width + 6)
    middle = out[200:-200]
    correlation = [
        np.dot(middle, signal[half_width + 200 + lag : half_width + 200 + lag + len(middle)]) for lag in lags
    ]
    assert lags[int(np.argmax(correlation))] == 0


def response(half_width: int, frequency: np.ndarray) -> np.ndarray:
    """The transform of the Hann window: three Dirichlet kernels (Harris 1978), in cycles a frame."""
    n = 2 * (half_width + 1)

    def kernel(f: np.ndarray) -> np.ndarray:
        whole = np.abs(np.sin(np.pi * f)) < 1e-12
        safe = np.where(whole, 0.25, f)
        # A period of n frames, its first and last sample halved: they stand for one.
        return np.where(whole, n, np.sin(np.pi * n * safe) / np.tan(np.pi * safe))

    total = 0.5 * kernel(frequency) + 0.25 * (kernel(frequency - 1.0 / n) + kernel(frequency + 1.0 / n))
    return total / (0.5 * n)


@pytest.mark.parametrize("half_width", WIDTHS)
def test_each_frequency_is_damped_as_the_formula_foretells(half_width: int) -> None:
    t = np.arange(2000)
    for frequency in (0.003, 0.011, 0.05, 0.13, 0.25, 0.37, 0.5):
        phase = 0.4
        out = smoothed(np.cos(2.0 * np.pi * frequency * t + phase), half_width)
        gain = response(half_width, np.array([frequency]))[0]
        expected = gain * np.cos(2.0 * np.pi * frequency * t[half_width:-half_width] + phase)
        assert np.abs(out - expected).max() < 1e-11, frequency


@pytest.mark.parametrize("half_width", WIDTHS)
def test_what_the_documentation_says_of_periods_and_noise(half_width: int) -> None:
    assert response(half_width, np.array([0.5 / (half_width + 1)]))[0] == pytest.approx(0.5, abs=1e-12)
    shorter = np.linspace(1.0 / (half_width + 1), 0.5, 500)
    assert np.abs(response(half_width, shorter)).max() < 0.03
    # What changes its sign on each frame is gone.
    assert abs(response(half_width, np.array([0.5]))[0]) < 1e-12
    left = np.sqrt((smoothing.window(half_width) ** 2).sum())
    assert left == pytest.approx(np.sqrt(0.75 / (half_width + 1)), rel=1e-12)


# Rotations


def turn(axis: np.ndarray, angle: np.ndarray) -> np.ndarray:
    return axis_angle_to_quaternion(axis / np.linalg.norm(axis), angle)


def as_smoothed(samples: np.ndarray) -> np.ndarray:
    centre = samples[..., samples.shape[-2] // 2, :]
    return quaternion_multiply(centre, smoothing.rotation_change(samples))


def assert_same_turns(a: np.ndarray, b: np.ndarray, tolerance: float) -> None:
    assert np.abs(quaternion_to_matrix(a) - quaternion_to_matrix(b)).max() <= tolerance


@given(widths, st.floats(-0.5, 0.5), st.integers(0, 2**32 - 1))
def test_a_steady_turn_stays(half_width: int, rate: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    start = turn(rng.normal(size=3), np.array(rng.uniform(-3.0, 3.0)))
    samples = quaternion_multiply(start, turn(rng.normal(size=3), rate * frames(half_width)))
    assert_same_turns(as_smoothed(samples), start, 1e-12)


@given(widths, st.integers(0, 2**32 - 1))
def test_signs_of_quaternions_say_nothing(half_width: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    samples = turn(np.array([0.3, 0.2, 0.9]), 0.1 * np.cumsum(rng.normal(size=2 * half_width + 1)))
    flipped = samples * rng.choice([-1.0, 1.0], size=(len(samples), 1))
    assert_same_turns(as_smoothed(flipped), as_smoothed(samples), 1e-12)


@given(widths, st.integers(0, 2**32 - 1))
def test_the_frame_of_reference_says_nothing(half_width: int, seed: int) -> None:
    """Turned as a whole, in the world or in its own frame, a motion is smoothed alike."""
    rng = np.random.default_rng(seed)
    samples = turn(np.array([0.3, 0.2, 0.9]), 0.1 * np.cumsum(rng.normal(size=2 * half_width + 1)))
    before, after = (turn(rng.normal(size=3), np.array(1.7)) for _ in range(2))
    moved = quaternion_multiply(quaternion_multiply(before, samples), after)
    expected = quaternion_multiply(quaternion_multiply(before, as_smoothed(samples)), after)
    assert_same_turns(as_smoothed(moved), expected, 1e-12)


@pytest.mark.parametrize("half_width", WIDTHS)
def test_small_turns_are_damped_as_locations_are(half_width: int) -> None:
    rng = np.random.default_rng(half_width)
    angles = 1e-4 * rng.normal(size=(2 * half_width + 1, 3))
    samples = turn(np.array([1.0, 0.0, 0.0]), angles[:, 0])
    expected = turn(np.array([1.0, 0.0, 0.0]), smoothing.window(half_width) @ angles[:, 0])
    assert_same_turns(as_smoothed(samples), expected, 1e-10)


def test_the_mean_of_turns_in_all_directions_is_a_turn() -> None:
    """Half a turn each frame: no sample but the present one has a say, and nothing is 0."""
    for half_width in WIDTHS:
        samples = turn(np.array([0.0, 0.0, 1.0]), np.pi * frames(half_width))
        change = smoothing.rotation_change(samples)
        assert np.linalg.norm(change) == pytest.approx(1.0, abs=1e-12)
        assert abs(change[0]) == pytest.approx(1.0, abs=1e-9)


@given(widths, st.integers(0, 2**32 - 1))
def test_batches_are_smoothed_one_by_one(half_width: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    samples = rng.normal(size=(3, 2, 2 * half_width + 1, 4))
    samples /= np.linalg.norm(samples, axis=-1, keepdims=True)
    whole = smoothing.rotation_change(samples)
    for i, j in np.ndindex(3, 2):
        assert np.allclose(whole[i, j], smoothing.rotation_change(samples[i, j]), rtol=0.0, atol=1e-15)


# As seen from inside what is smoothed


def random_affine(rng: np.random.Generator, scale: np.ndarray) -> np.ndarray:
    rotation = quaternion_to_matrix(rng.normal(size=4))
    return compose(rng.normal(size=3), rotation, scale)


scales = st.sampled_from(
    [(1.0, 1.0, 1.0), (0.01, 0.01, 0.01), (2.0, 0.5, 3.0), (-1.0, 2.0, 1.0), (1.0, 1.0, -3.0)]
)


@given(scales, scales, st.integers(0, 2**32 - 1))
def test_a_point_inside_goes_where_the_smoothed_thing_carries_it(
    scale: tuple[float, ...], above: tuple[float, ...], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    location, q, move = rng.normal(size=3), rng.normal(size=4), 0.1 * rng.normal(size=3)
    by = turn(rng.normal(size=3), np.array(rng.uniform(-1.0, 1.0)))
    delta = quaternion_to_matrix(rng.normal(size=4))
    basis = delta @ quaternion_to_matrix(q) * np.array(scale)
    change = smoothing.inner_change(basis, np.array(scale), move, by)
    # The whole way: parent, and the channels with location and rotation smoothed.
    parent = random_affine(rng, np.array(above)) @ random_affine(rng, np.array(above))
    turned = delta @ quaternion_to_matrix(quaternion_multiply(q, by)) * np.array(scale)
    wanted = parent @ compose(location + move, turned)
    found = parent @ compose(location, basis) @ change
    assert np.abs(found - wanted).max() < 1e-9 * (1.0 + np.abs(wanted).max())
    # And the rotation that a solve takes off it.
    space = parent @ compose(location, basis)
    target = quaternion_to_matrix(rng.normal(size=4))
    orient = quaternion_to_matrix(smoothing.orientation_change(space, change))
    assert np.abs(rotation_part(space) @ orient @ target - rotation_part(wanted) @ target).max() < 1e-8


@pytest.mark.parametrize("scale", [(0.0, 0.0, 0.0), (1.0, 0.0, 1.0)])
def test_nothing_is_smoothed_inside_a_scale_of_nothing(scale: tuple[float, ...]) -> None:
    basis = np.eye(3) * np.array(scale)
    change = smoothing.inner_change(basis, np.array(scale), np.ones(3), turn(np.ones(3), np.array(0.3)))
    assert np.array_equal(change, np.eye(4))


def test_nothing_to_smooth_is_the_identity_to_the_bit() -> None:
    rng = np.random.default_rng(1)
    matrix = random_affine(rng, np.array([2.0, 0.5, 3.0]))
    no_turn = np.array([1.0, 0.0, 0.0, 0.0])
    change = smoothing.inner_change(matrix[:3, :3], np.array([2.0, 0.5, 3.0]), np.zeros(3), no_turn)
    assert np.array_equal(change, np.eye(4))
    assert np.allclose(affine_inverse(change), np.eye(4), rtol=0.0, atol=0.0)
