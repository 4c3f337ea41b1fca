# SPDX-License-Identifier: GPL-3.0-or-later
import numpy as np
import pytest
from limbs import unit

from ik_addon.core.closing import bow, close, directions, leave_line, project, spinors

COUNT = 500


def start(rng, n, spread=1.0):
    """Points of chains, lengths of sum 1, distances between inner radius and full reach."""
    points = spread * (rng.normal(size=(n, COUNT)) + 1j * rng.normal(size=(n, COUNT)))
    lengths = rng.uniform(0.2, 1.0, (n, COUNT))
    lengths /= lengths.sum(axis=0)
    inner = np.maximum(2.0 * lengths.max(axis=0) - 1.0, 0.0)
    return points, lengths, inner + (0.999 - inner) * rng.uniform(0.01, 1.0, COUNT)


def solve(points, lengths, distance, tolerance=1e-13):
    """Directions along and off the line, what is missed, and the number of steps."""
    closed, missed, steps = close(points, lengths, distance, np.ones(COUNT, bool), 100, tolerance)
    return *directions(closed), missed, steps


@pytest.mark.parametrize("n", [2, 3, 7, 30])
def test_the_tip_comes_to_its_place_on_the_line(n):
    rng = np.random.default_rng(n)
    points, lengths, distance = start(rng, n)
    along, off, missed, _ = solve(points, lengths, distance)
    assert not missed.any()
    assert np.abs((lengths * along).sum(axis=0) - distance).max() < 1e-12
    assert np.abs((lengths * off).sum(axis=0)).max() < 1e-12
    assert np.abs(along**2 + np.abs(off) ** 2 - 1.0).max() < 1e-14


@pytest.mark.parametrize("n", [2, 3, 7, 30])
def test_there_is_one_such_pose_whatever_leads_to_it(n):
    rng = np.random.default_rng(n)
    points, lengths, distance = start(rng, n)
    scale = 10.0 ** rng.uniform(-2.0, 2.0, COUNT)
    shift = rng.normal(size=COUNT) + 1j * rng.normal(size=COUNT)
    one, two = solve(points, lengths, distance), solve((points + shift) * scale, lengths, distance)
    assert np.abs(one[0] - two[0]).max() < 1e-7 and np.abs(one[1] - two[1]).max() < 1e-7


def test_a_small_step_is_the_smallest_of_bones_and_line_together():
    rng = np.random.default_rng(0)
    points, lengths, distance = start(rng, 5)
    distance = np.clip(distance, 0.3, 0.9)
    along, off, _, _ = solve(points, lengths, distance)
    moved_along, moved_off, _, _ = solve(off / (1.0 + along), lengths, distance + 1e-6)
    for i in range(20):
        bones, moved = (
            np.stack(
                [np.append(x[:, i], -1.0), np.append(y[:, i].real, 0.0), np.append(y[:, i].imag, 0.0)], -1
            )
            for x, y in ((along, off), (moved_along, moved_off))
        )
        # Least change for a given sum of lengths times directions: w - (w b) b, and a turn of all.
        pulls = np.eye(3) - bones[:, :, None] * bones[:, None, :]
        spins = np.cross(np.eye(3)[None], bones[:, None], axis=-1).swapaxes(1, 2)
        terms = np.concatenate([pulls, spins], axis=-1).reshape(-1, 6)
        change = ((moved - bones) / 1e-6).ravel()
        fit = np.linalg.lstsq(terms, change, rcond=None)[0]
        assert np.abs(terms @ fit - change).max() < 1e-4 * np.abs(change).max()


def test_converged_chains_of_a_batch_stand_still():
    rng = np.random.default_rng(1)
    points, lengths, distance = start(rng, 6)
    first = solve(points, lengths, distance, 1e-6)
    mixed = np.where(np.arange(COUNT) % 2 == 0, distance, 0.999)
    second = solve(points, lengths, mixed, 1e-6)
    assert (first[0][:, ::2] == second[0][:, ::2]).all() and (first[1][:, ::2] == second[1][:, ::2]).all()


@pytest.mark.parametrize("n", [3, 10, 30])
def test_few_steps_are_enough(n):
    rng = np.random.default_rng(n)
    points, lengths, distance = start(rng, n, 0.3)
    assert solve(points, lengths, distance, 1e-6)[3] <= 8


def test_projection_and_back():
    rng = np.random.default_rng(2)
    bones = unit(rng.normal(size=(8, COUNT, 3)))
    along, off = bones[..., 0], bones[..., 1] + 1j * bones[..., 2]
    again = directions(project(*spinors(along, off), np.ones(along.shape), np.ones(COUNT)))
    assert np.abs(again[0] - along).max() < 1e-14 and np.abs(again[1] - off).max() < 1e-14


@pytest.mark.parametrize("angle", [1e-3, 1e-5, 2e-6])
def test_directions_straight_back_keep_their_digits(angle):
    along, off = np.full((1, 1), -np.cos(angle)), np.full((1, 1), np.sin(angle) * np.exp(2j))
    again = directions(project(*spinors(along, off), np.ones((1, 1)), np.ones(1)))
    assert np.abs(again[1] / off - 1.0).max() < 1e-9


def test_a_bone_straight_back_leaves_the_line_to_its_own_side():
    along, off = np.full((2, 1), -1.0), np.zeros((2, 1), complex)
    points = project(*spinors(along, off), np.array([[0.5], [-0.5]]), np.array([1j]))
    assert points[0, 0].imag > 1e5 and points[1, 0].imag < -1e5


def test_a_chain_that_has_not_to_fold_keeps_its_shape():
    lengths = np.full((4, 1), 0.25)
    points, arc, side = np.zeros((4, 1), complex), bow(lengths), np.ones(1, complex)
    assert (leave_line(points, arc, side, np.array([0.9]), np.array([0.95])) == points).all()
    bent = leave_line(points, arc, side, np.array([1.0]), np.array([0.5]))
    assert (np.diff(bent[:, 0].real) < 0.0).all()
    assert abs((lengths * bent).sum()) < 1e-15
