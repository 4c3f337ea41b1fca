# SPDX-License-Identifier: GPL-3.0-or-later
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from limbs import X, Y, Z, angle_between, bone_lengths, check_sound, unit

from ik_addon.core import planar, two_bone
from ik_addon.core.job import ChainJob, Status
from ik_addon.core.transforms import axis_angle_to_matrix
from ik_addon.core.two_bone_few import FEW, few_planar

# The table's limb: a = 150 along x, b = 125 at a right angle.
LIMB = np.array([[10.0, 20.0, 0.0], [160.0, 20.0, 0.0], [160.0, 145.0, 0.0]])
ROOT = LIMB[0]
SIGNS = [1.0, -1.0]


def at(distance, phi=0.7):
    return ROOT + distance * np.array([np.cos(phi), np.sin(phi), 0.0])


def solve(target, sign=1.0, joints=LIMB):
    return planar.solve(ChainJob(joints, target, np.zeros(3)), 2, sign)


def angles(joints):
    """Direction of the upper bone and turn from it to the lower one, degrees about z."""
    upper, lower = np.moveaxis(np.diff(joints, axis=-2), -2, 0)
    first = np.arctan2(upper[..., 1], upper[..., 0])
    second = np.arctan2(lower[..., 1], lower[..., 0])
    return np.degrees(first), np.degrees((second - first + np.pi) % (2.0 * np.pi) - np.pi)


@pytest.mark.parametrize("sign", SIGNS)
def test_row_300(sign):
    result = solve(at(300.0), sign)
    assert result.residual == pytest.approx(25.0, abs=1e-9)
    assert result.status == Status.TARGET_FAR
    assert np.abs(result.joints[1] - at(150.0)).max() <= 1e-9
    assert np.abs(result.joints[2] - at(275.0)).max() <= 1e-9


@pytest.mark.parametrize("sign", SIGNS)
def test_row_200(sign):
    result = solve(at(200.0), sign)
    first, second = angles(result.joints)
    assert 180.0 - abs(second) == pytest.approx(92.87, abs=0.005)
    assert first - np.degrees(0.7) == pytest.approx(sign * 38.62, abs=0.005)
    assert np.sign(second) == -sign
    assert result.residual <= 1e-9
    assert result.status == Status.OK


def test_row_200_mirror_solutions():
    one, other = (solve(at(200.0, 0.0), sign).joints for sign in SIGNS)
    assert np.abs((one - ROOT) * [1.0, -1.0, 1.0] - (other - ROOT)).max() <= 1e-9


@pytest.mark.parametrize("sign", SIGNS)
def test_row_25(sign):
    direction = np.array([0.6, 0.8, 0.0])
    target = ROOT + np.array([15.0, 20.0, 0.0])
    result = solve(target, sign)
    assert result.residual <= 1e-9
    assert result.status == Status.OK
    assert np.abs(result.joints[1] - (ROOT + 150.0 * direction)).max() <= 1e-9
    near = [solve(target + e * direction, sign).joints for e in (-1e-9, 0.0, 1e-9)]
    # The elbow's height is a square root of the distance past the fold.
    assert np.abs(np.diff(near, axis=0)).max() <= 5e-3


@pytest.mark.parametrize("sign", SIGNS)
def test_row_0(sign):
    result = solve(ROOT, sign)
    assert result.residual == pytest.approx(25.0, abs=1e-9)
    assert result.status == Status.TARGET_NEAR
    assert np.abs(result.joints - [ROOT, ROOT + 150.0 * X, ROOT + 25.0 * X]).max() <= 1e-9


@pytest.mark.parametrize("sign", SIGNS)
def test_row_target_crosses_the_bone_line(sign):
    phi = np.linspace(-np.pi, np.pi, 20_001)
    targets = np.stack([ROOT[0] + 200.0 * np.cos(phi), ROOT[1] + 200.0 * np.sin(phi), 0.0 * phi], axis=-1)
    job = ChainJob(np.broadcast_to(LIMB, (len(phi), 3, 3)), targets, Z)
    result = planar.solve(job, 2, sign)
    check_sound(job, result)
    assert (np.sign(angles(result.joints)[1]) == -sign).all()
    step = np.linalg.norm(np.diff(targets, axis=0), axis=-1)
    assert (np.linalg.norm(np.diff(result.joints[:, 1], axis=0), axis=-1) <= step).all()


@pytest.mark.parametrize("sign", SIGNS)
def test_a_target_through_the_reachable_ring_never_flips_the_elbow(sign):
    offset = np.linspace(-300.0, 300.0, 60_001)
    targets = ROOT + offset[:, None] * X + 30.0 * Y
    job = ChainJob(np.broadcast_to(LIMB, (len(offset), 3, 3)), targets, Z)
    middle = planar.solve(job, 2, sign).joints[:, 1]
    assert np.linalg.norm(np.diff(middle, axis=0), axis=-1).max() <= 2.0


@pytest.mark.parametrize("sign", SIGNS)
def test_the_bones_only_turn_about_the_axis(sign):
    for turn in solve(at(200.0), sign).rotations:
        assert np.abs(turn @ Z - Z).max() <= 1e-12


def test_the_residual_counts_the_distance_to_the_plane():
    result = solve(at(200.0) + 7.0 * Z)
    assert result.residual == pytest.approx(7.0, abs=1e-9)
    assert np.abs(result.joints - solve(at(200.0)).joints).max() <= 1e-9
    beyond = solve(at(275.0 + 24.0) + 7.0 * Z)
    assert beyond.residual == pytest.approx(25.0, abs=1e-9)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_axes_by_number_and_by_vector(axis):
    order = np.roll(np.eye(3), axis - 2, axis=1)
    joints, target = LIMB @ order, at(200.0) @ order
    job = ChainJob(joints, target, np.zeros(3))
    by_number = planar.solve(job, axis, -1.0)
    by_vector = planar.solve(job, 5.0 * np.eye(3)[axis], -1.0)
    assert np.abs(by_number.joints - solve(at(200.0), -1.0).joints @ order).max() <= 1e-9
    assert np.abs(by_number.joints - by_vector.joints).max() <= 1e-12


def test_a_bone_out_of_the_plane_is_swung_into_it():
    joints = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 1.0], [1.0, 1.0, 1.5]])
    job = ChainJob(joints, np.array([1.0, 0.5, 0.0]), Z)
    result = planar.solve(job, 2, 1.0)
    assert np.abs(result.joints[:, 2]).max() <= 1e-12
    assert result.residual <= 1e-12
    assert np.abs(bone_lengths(result.joints) - bone_lengths(joints)).max() <= 1e-12


@pytest.mark.parametrize("sign", SIGNS)
def test_equals_the_solve_in_space_with_the_elbow_toward_the_pole(sign):
    target = at(180.0, 2.5)
    pole = sign * np.cross(Z, target - ROOT)
    space = two_bone.solve(ChainJob(LIMB, target, sign * Z, pole))
    plane = solve(target, sign)
    assert np.abs(space.joints - plane.joints).max() <= 1e-9
    assert np.abs(space.rotations - plane.rotations).max() <= 1e-9


DEGENERATE = {
    "upper bone along the axis": {"joints": [(0, 0, 0), (0, 0, 1), (1, 0, 1)]},
    "upper bone along the axis, on the root": {
        "joints": [(0, 0, 0), (0, 0, 1), (1, 0, 1)],
        "target": (0, 0, 5),
    },
    "all along the axis": {"joints": [(0, 0, 0), (0, 0, 1), (0, 0, 2)]},
    "straight": {"joints": [(0, 0, 0), (1, 0, 0), (2, 0, 0)]},
    "folded": {"joints": [(0, 0, 0), (1, 0, 0), (0, 0, 0)]},
    "no upper bone": {"joints": [(0, 0, 0), (0, 0, 0), (1, 0, 0)]},
    "no upper bone, on the root": {"joints": [(0, 0, 0), (0, 0, 0), (1, 0, 0)], "target": (0, 0, 0)},
    "no lower bone": {"joints": [(0, 0, 0), (1, 0, 0), (1, 0, 0)]},
    "no bone": {"joints": [(0, 0, 0), (0, 0, 0), (0, 0, 0)]},
    "tiny distance": {"target": (1e-13, 0, 0)},
}


@pytest.mark.parametrize("name", DEGENERATE)
@pytest.mark.parametrize("sign", [1.0, 0.0, -1.0])
def test_degenerate_input_gives_the_nearest_pose(name, sign):
    case = {"joints": [(0, 0, 0), (1, 0, 0), (1, 1, 0)], "target": (0.5, 0.8, 0)} | DEGENERATE[name]
    joints, target = np.array(case["joints"], float), np.array(case["target"], float)
    job = ChainJob(joints, target, Z)
    with np.errstate(all="raise", under="ignore"):
        result, again = planar.solve(job, 2, sign), planar.solve(job, 2, sign)
    upper, lower = bone_lengths(joints)
    distance = np.linalg.norm(target[:2])
    short = max(distance - upper - lower, abs(upper - lower) - distance, 0.0)
    check_sound(job, result, gap=np.hypot(short, target[2]))
    assert (result.rotations == again.rotations).all()
    assert np.abs(result.joints[:, 2]).max() <= 1e-12


def test_without_an_upper_bone_the_lower_one_keeps_its_direction_on_the_root():
    joints = np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.6, 0.8, 0.0]])
    assert np.abs(solve(np.zeros(3), joints=joints).joints - joints).max() <= 1e-12


coordinates = st.tuples(*[st.floats(-2.0, 2.0)] * 3).map(np.array)


@given(coordinates, coordinates, coordinates, coordinates, coordinates, st.sampled_from(SIGNS))
def test_property_sound_in_any_plane(root, middle, tip, target, axis, sign):
    joints = np.stack([root, middle, tip])
    assume(bone_lengths(joints).min() > 1e-2)
    assume(np.linalg.norm(axis) > 0.1)
    axis = unit(axis)
    job = ChainJob(joints, target, np.zeros(3))
    result = planar.solve(job, axis, sign)
    height = (target - root) @ axis
    distance = np.linalg.norm(target - root - height * axis)
    upper, lower = bone_lengths(joints)
    short = max(distance - upper - lower, abs(upper - lower) - distance, 0.0)
    check_sound(job, result, gap=np.hypot(short, height))
    assert np.abs((result.joints - root) @ axis).max() <= 1e-9
    turned = axis_angle_to_matrix(axis, 0.7)
    moved = planar.solve(ChainJob(joints @ turned.T, turned @ target, np.zeros(3)), axis, sign)
    if distance > 1e-3:
        assert np.abs(moved.joints - result.joints @ turned.T).max() <= 1e-6


def test_a_batch_is_one_by_one_to_the_bit():
    rng = np.random.default_rng(1)
    joints, target = rng.normal(size=(60, 3, 3)), rng.normal(size=(60, 3))
    target[::7] = joints[::7, 0]
    joints[::11, 2] = joints[::11, 1]
    sign = rng.choice(SIGNS, 60)
    whole = planar.solve(ChainJob(joints, target, Z), 1, sign)
    for i in range(60):
        one = planar.solve(ChainJob(joints[i], target[i], Z), 1, sign[i])
        assert np.array_equal(one.rotations, whole.rotations[i])
        assert np.array_equal(one.joints, whole.joints[i])
        assert np.array_equal(one.residual, whole.residual[i])
        assert np.array_equal(one.status, whole.status[i])


def test_bend_signs_in_a_batch_pick_the_side():
    both = solve(np.stack([at(200.0)] * 2), np.array(SIGNS))
    assert angles(both.joints)[1][0] == pytest.approx(-angles(both.joints)[1][1], abs=1e-9)
    assert angle_between(both.joints[0, 1] - ROOT, both.joints[1, 1] - ROOT) > 1.0


@pytest.mark.parametrize(
    ("joints", "axis", "words"),
    [
        (LIMB, np.zeros(3), "axis: expected 0, 1, 2"),
        (LIMB, np.ones(2), "axis: expected 0, 1, 2"),
        (LIMB, np.array([np.nan, 0, 0]), "axis: expected 0, 1, 2"),
        (np.zeros((4, 3)), 2, "joints: a two-bone chain has 3 joints, got 4"),
    ],
)
def test_bad_input_names_the_field(joints, axis, words):
    with pytest.raises(ValueError, match=words):
        planar.solve(ChainJob(joints, X, Z), axis, 1.0)


def test_few_limbs_in_plain_floats_equal_the_arrays():
    rng = np.random.default_rng(21)
    for _ in range(300):
        count = int(rng.integers(1, FEW + 1))
        joints, target = rng.normal(size=(count, 3, 3)), 1.5 * rng.normal(size=(count, 3))
        job = ChainJob(joints, target, np.array([0.0, 0.0, 1.0])).validated()
        normals = unit(rng.normal(size=(count, 3)))
        few, many = few_planar(job, normals), planar._solve_all(job, normals)
        for found, expected in zip(few, many, strict=True):
            assert np.array_equal(found, expected)
    many = ChainJob(rng.normal(size=(FEW + 1, 3, 3)), target[0], np.ones(3)).validated()
    assert few_planar(many, unit(rng.normal(size=(FEW + 1, 3)))) is None
    gone = ChainJob(joints[0], joints[0, 0], np.ones(3)).validated()
    assert few_planar(gone, normals[:1]) is None, "the target is on the root"
