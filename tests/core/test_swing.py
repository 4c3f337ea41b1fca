# SPDX-License-Identifier: GPL-3.0-or-later
import numpy as np
import pytest
from limbs import unit

from ik_addon.core.closing import spinors
from ik_addon.core.swing import swings
from ik_addon.core.transforms import axis_angle_to_matrix, quaternion_to_matrix, rotation_arc


def turns(before, after):
    """Matrices ``(n, m, 3, 3)`` that lead from the directions ``(n, m, 3)`` before to those after."""
    parts = [spinors(b[..., 0], b[..., 1] + 1j * b[..., 2]) for b in (before, after)]
    return quaternion_to_matrix(np.moveaxis(swings(*parts), 0, -1))


def one_by_one(before, after):
    """The parent's turn, then the shortest swing."""
    turn, result = np.eye(3), []
    for start, end in zip(before, after, strict=True):
        turn = rotation_arc(np.einsum("...ij,...j->...i", turn, start), end) @ turn
        result.append(turn)
    return np.array(result)


@pytest.mark.parametrize("m", [1, 300])
@pytest.mark.parametrize("n", [1, 2, 9])
def test_each_bone_takes_its_parents_turn_and_swings(n, m):
    rng = np.random.default_rng([n, m])
    before, after = unit(rng.normal(size=(2, n, m, 3)))
    result = turns(before, after)
    assert np.abs(np.einsum("nmij,nmj->nmi", result, before) - after).max() < 1e-13
    assert np.abs(result - one_by_one(before, after)).max() < 1e-9


@pytest.mark.parametrize("m", [1, 4])
def test_no_change_is_no_turn(m):
    rng = np.random.default_rng(0)
    bones = unit(rng.normal(size=(6, m, 3)))
    bones[2] = -bones[1]
    assert np.abs(turns(bones, bones) - np.eye(3)).max() < 1e-14


@pytest.mark.parametrize("m", [1, 3])
def test_opposite_directions_in_the_bend_plane_turn_about_its_normal(m):
    ahead, back = np.array([1.0, 0.0, 0.0]), np.array([-1.0, 0.0, 0.0])
    before = np.tile(ahead, (3, m, 1))
    after = np.tile(np.array([ahead, back, ahead])[:, None], (1, m, 1))
    half = axis_angle_to_matrix(np.array([0.0, 0.0, 1.0]), np.pi)
    assert np.abs(turns(before, after) - np.array([np.eye(3), half, np.eye(3)])[:, None]).max() < 1e-12
    assert np.abs(turns(before[:1], -before[:1]) - half).max() < 1e-12


@pytest.mark.parametrize("angle", [1e-3, 1e-6, 1e-8])
def test_almost_opposite_directions_lose_no_digit(angle):
    before = np.array([[[1.0, 0.0, 0.0]], [[0.0, 0.6, 0.8]]])
    after = np.array([[[-np.cos(angle), 0.0, np.sin(angle)]], [[0.0, 1.0, 0.0]]])
    result = turns(before, after)
    assert np.abs(np.einsum("nmij,nmj->nmi", result, before) - after).max() < 1e-13
    # The swing's axis is at right angles to both.
    assert np.abs(result[0, 0] @ np.array([0.0, 1.0, 0.0]) - np.array([0.0, -1.0, 0.0])).max() > 1.0
