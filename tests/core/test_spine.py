# SPDX-License-Identifier: GPL-3.0-or-later
import numpy as np
import pytest
from limbs import X, Y, Z, bone_lengths, unit

from ik_addon.core import fabrik
from ik_addon.core.job import ChainJob
from ik_addon.core.spine import lean_target
from ik_addon.core.transforms import quaternion_to_matrix

# Hips to neck, a little curved; 0.8 long.
SPINE = np.array([(0, 0, 1.0), (0, -0.04, 1.19), (0, -0.06, 1.39), (0, -0.01, 1.58), (0, 0, 1.77)])
LENGTH = bone_lengths(SPINE).sum()


def random_spines(rng, count):
    steps = unit(rng.normal(size=(count, 5, 3)) + 2.0 * Z) * rng.uniform(0.1, 0.3, (count, 5, 1))
    root = rng.normal(size=(count, 1, 3))
    return np.concatenate([root, root + np.cumsum(steps, axis=1)], axis=1)


def test_a_head_at_the_fk_tip_asks_for_nothing():
    joints = random_spines(np.random.default_rng(1), 1000)
    assert np.abs(lean_target(joints, joints[:, -1], 1.0) - joints[:, -1]).max() <= 1e-12


def test_sideways_drift_counts_and_drift_along_the_spine_does_not():
    tip = SPINE[-1]
    assert np.allclose(lean_target(SPINE, tip + 0.05 * X - 0.2 * Z, 1.0), tip + 0.05 * X, atol=1e-15)
    assert np.allclose(lean_target(SPINE, tip - 0.3 * Z, 1.0), tip, atol=1e-15)
    assert np.allclose(lean_target(SPINE, tip + (0.04, 0.08, 5.0), 0.25), tip + (0.01, 0.02, 0.0), atol=1e-15)
    assert np.array_equal(lean_target(SPINE, tip + (0.3, 0.2, 0.1), 0.0), tip)


def test_the_offset_is_at_right_angles_to_the_spine_and_its_share_of_the_drift():
    rng = np.random.default_rng(2)
    joints = random_spines(rng, 5000)
    root, tip = joints[:, 0], joints[:, -1]
    target, lean = tip + 0.3 * rng.normal(size=(5000, 3)), rng.uniform(0.0, 1.0, 5000)
    found = lean_target(joints, target, lean)
    length = bone_lengths(joints).sum(axis=-1)
    inside = np.linalg.norm(found - root, axis=-1) < length - 1e-12
    assert 0.2 < inside.mean() < 0.97
    line = unit(tip - root)
    drift = target - tip
    across = drift - np.sum(drift * line, axis=-1)[:, None] * line
    offset = found - tip
    assert np.abs(offset - lean[:, None] * across)[inside].max() <= 1e-12
    # Beyond reach: in the same direction from the root, at full reach.
    wanted = tip + lean[:, None] * across - root
    assert np.abs(found - root - length[:, None] * unit(wanted))[~inside].max() <= 1e-12
    assert (np.linalg.norm(wanted, axis=-1) >= length - 1e-12)[~inside].all()


def test_it_is_always_within_reach_of_the_spine():
    rng = np.random.default_rng(3)
    joints = random_spines(rng, 200)
    found = lean_target(joints, joints[:, -1] + rng.normal(size=(200, 3)), 1.0)
    result = fabrik.solve(ChainJob(joints, found, X))
    assert (result.residual <= 1e-6 * bone_lengths(joints).sum(axis=-1)).all()


def test_the_answer_turns_moves_and_scales_with_the_spine():
    rng = np.random.default_rng(4)
    joints = random_spines(rng, 100)
    target = joints[:, -1] + 0.4 * rng.normal(size=(100, 3))
    turn = quaternion_to_matrix(unit(rng.normal(size=4)))
    moved = lean_target(50.0 * (joints @ turn.T) + 3.0, 50.0 * (target @ turn.T) + 3.0, 0.7)
    assert np.abs(moved - (50.0 * (lean_target(joints, target, 0.7) @ turn.T) + 3.0)).max() <= 1e-11


@pytest.mark.parametrize("lean", [0.0, 0.5, 1.0])
def test_a_spine_that_closes_on_its_root_has_no_line_and_takes_all_of_the_drift(lean):
    ring = np.array([(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0), (0, 0, 0)], float)
    assert np.array_equal(lean_target(ring, 0.5 * Y, lean), lean * 0.5 * Y)
    point = np.zeros((3, 3))
    assert np.array_equal(lean_target(point, X, lean), np.zeros(3))


def test_batches_of_any_shape():
    joints = random_spines(np.random.default_rng(5), 6)
    target = joints[:, -1] + 0.1
    whole = lean_target(joints, target, 0.5)
    folded = lean_target(joints.reshape(2, 3, 6, 3), target.reshape(2, 3, 3), np.full((2, 3), 0.5))
    assert np.array_equal(folded.reshape(6, 3), whole)
