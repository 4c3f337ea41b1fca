# SPDX-License-Identifier: GPL-3.0-or-later
import numpy as np
import pytest
from chains import twist
from hypothesis import given
from hypothesis import strategies as st
from limbs import X, Y, Z, angle_between, unit

from ik_addon.core import aim
from ik_addon.core.aim_few import FEW, few_aims
from ik_addon.core.job import Status
from ik_addon.core.transforms import axis_angle_to_matrix, quaternion_to_matrix, rotation_arc

COUNT = 2_000
HALF = 0.5**0.5
NAMES = {"X": X, "Y": Y, "Z": Z, "-X": -X, "-Y": -Y, "-Z": -Z}
STILL = np.eye(3)


def turn(axis, degrees):
    return axis_angle_to_matrix(axis, np.radians(degrees))


def orientations(rng, count=COUNT):
    return quaternion_to_matrix(rng.normal(size=(count, 4)))


def look(orientation, head, target, aim_axis="X", up_axis="Y", **fields):
    """Aims, and checks that the result is a rotation with the residual of its own ray."""
    with np.errstate(all="raise", under="ignore"):
        result = aim.look_at(orientation, head, target, aim_axis, up_axis, **fields)
    gram = np.swapaxes(result.rotation, -1, -2) @ result.rotation
    assert np.abs(gram - np.eye(3)).max() < 1e-12
    assert (np.linalg.det(result.rotation) > 0.0).all()
    axis = aim.axis_vector(aim_axis)
    ray = np.einsum("...ij,...j->...i", result.rotation, np.broadcast_to(axis, result.rotation.shape[:-1]))
    offset = np.broadcast_to(fields.get("offset", 0.0), result.rotation.shape[:-1])
    way = target - head - np.einsum("...ij,...j->...i", result.rotation, offset)
    ahead = np.maximum(np.sum(way * ray, axis=-1, keepdims=True), 0.0)
    distance = np.linalg.norm(way - ahead * ray, axis=-1)
    size = 1.0 + np.abs(way).max()
    assert np.abs(distance - result.residual).max() < 1e-12 * size
    return result


@pytest.mark.parametrize(
    ("target", "offset", "wanted"),
    [
        (X, 0.0, STILL),
        (-X, 0.0, turn(Y, 180.0)),
        (Z, 0.0, turn(Y, -90.0)),
        (-Z, 0.0, turn(Y, 90.0)),
        (X, [0.0, HALF, 0.0], turn(Z, -45.0)),
        (X, [0.5, 0.5, 0.0], turn(Z, -30.0)),
        (X, [-0.5, 0.5, 0.0], turn(Z, -30.0)),
        (X, [0.5, 0.0, 0.5], turn(Y, 30.0)),
        (X, [0.0, 1.0, 0.0], turn(Z, -90.0)),
    ],
)
def test_forward_x_up_y_looks_at_its_target(target, offset, wanted):
    result = look(STILL, np.zeros(3), target, pole=Y, offset=offset)
    assert np.abs(result.rotation - wanted).max() < 1e-9
    assert result.residual < 1e-9
    assert result.status in (Status.OK, Status.POLE_ALIGNED)


def test_an_offset_beyond_the_target_is_told_and_passes_as_near_as_it_can():
    result = look(STILL, np.zeros(3), X, pole=Y, offset=[0.0, 2.0, 0.0])
    assert result.status == Status.TARGET_NEAR
    assert result.residual == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("fields", [{"up_axis": 1e-9 * Y, "pole": 1e-9 * Y}, {"pole": 1e9 * Y}])
def test_the_length_of_up_and_pole_does_not_matter(fields):
    assert np.abs(look(STILL, np.zeros(3), Z, **fields).rotation - turn(Y, -90.0)).max() < 1e-9


@pytest.mark.parametrize("fields", [{"up_axis": 0.0 * Y, "pole": Y}, {"pole": 0.0 * Y}])
def test_no_up_and_no_pole_do_not_roll(fields):
    result = look(STILL, np.zeros(3), X, **fields)
    assert (result.rotation == STILL).all() and result.status == Status.OK
    assert np.abs(look(turn(X, 30.0), np.zeros(3), X, **fields).rotation - turn(X, 30.0)).max() < 1e-12


@pytest.mark.parametrize("fields", [{}, {"pole": Y}, {"offset": [0.0, 0.3, 0.0]}])
def test_a_target_on_the_head_turns_nothing(fields):
    now = turn(unit(X + Y), 50.0)
    for head in (np.zeros(3), np.array([1e6, -3.0, 0.1])):
        result = look(now, head, head, **fields)
        assert (result.rotation == now).all()
        assert result.residual == pytest.approx(np.linalg.norm(fields.get("offset", 0.0)), abs=1e-12)


@pytest.mark.parametrize("up_axis", NAMES)
@pytest.mark.parametrize("aim_axis", NAMES)
def test_every_pair_of_axes_points_and_keeps_up(aim_axis, up_axis):
    rng = np.random.default_rng(1)
    now, (head, target, pole) = orientations(rng), rng.normal(size=(3, COUNT, 3))
    result = look(now, head, target, aim_axis, up_axis, pole=pole)
    line = unit(target - head)
    assert angle_between(result.rotation @ NAMES[aim_axis], line).max() < 1e-9
    assert (result.residual < 1e-12).all()
    if aim_axis[-1] != up_axis[-1]:
        across = pole - np.sum(pole * line, axis=-1, keepdims=True) * line
        clear = np.linalg.norm(across, axis=-1) > np.sin(np.radians(5.1)) * np.linalg.norm(pole, axis=-1)
        assert angle_between(result.rotation @ NAMES[up_axis], across)[clear].max() < 1e-9


def test_axes_may_be_vectors_of_each_bone():
    rng = np.random.default_rng(2)
    now, (head, target, pole, axis, up) = orientations(rng), rng.normal(size=(5, COUNT, 3))
    result = look(now, head, target, axis, up, pole=pole)
    ray = np.einsum("mij,mj->mi", result.rotation, unit(axis))
    assert angle_between(ray, target - head).max() < 1e-9


def test_aim_and_up_along_each_other_take_another_up():
    for name, other in {"X": Z, "-Y": Z, "Z": Y}.items():
        result = look(turn(X, 20.0), np.zeros(3), Z + X, name, name, pole=Y)
        up = result.rotation @ other
        line = unit(X + Z)
        assert angle_between(up, Y - (Y @ line) * line) < 1e-9


def test_without_a_pole_the_bone_swings_by_the_shortest_way():
    rng = np.random.default_rng(3)
    now, (head, target) = orientations(rng), rng.normal(size=(2, COUNT, 3))
    result = look(now, head, target)
    swing = rotation_arc(now @ X, unit(target - head))
    assert np.abs(result.rotation - swing @ now).max() < 1e-9
    assert np.abs(twist(result.rotation @ np.swapaxes(now, -1, -2), now @ X)).max() < 1e-9


def test_a_bone_that_is_aimed_stays():
    rng = np.random.default_rng(4)
    now, head = orientations(rng), rng.normal(size=(COUNT, 3))
    offset = rng.normal(size=(COUNT, 3))
    ahead = np.maximum(-offset[:, :1], 0.0) + rng.uniform(0.1, 3.0, (COUNT, 1))
    target = head + np.einsum("mij,mj->mi", now, offset + ahead * X)
    result = look(now, head, target, offset=offset)
    assert np.abs(result.rotation - now).max() < 1e-9


def test_the_ray_of_an_offset_point_meets_the_target_or_comes_nearest():
    rng = np.random.default_rng(5)
    now, (head, target, offset, pole) = orientations(rng), rng.normal(size=(4, COUNT, 3))
    result = look(now, head, target, offset=offset, pole=pole)
    distance = np.linalg.norm(target - head, axis=-1)
    # The point of the ray that is nearest to the head.
    nearest = offset - np.minimum(offset[:, :1], 0.0) * X
    wanted = np.maximum(np.linalg.norm(nearest, axis=-1) - distance, 0.0)
    assert np.abs(result.residual - wanted).max() < 1e-12
    assert ((result.status == Status.TARGET_NEAR) == (wanted > 0.0)).all()


@pytest.mark.parametrize("up_axis", ["Y", "Z", "-Y"])
def test_a_target_straight_behind_turns_about_the_up_axis(up_axis):
    rng = np.random.default_rng(6)
    now, head = orientations(rng), rng.normal(size=(COUNT, 3))
    result = look(now, head, head - 2.0 * now @ X, up_axis=up_axis)
    assert np.abs(result.rotation @ NAMES[up_axis] - now @ NAMES[up_axis]).max() < 1e-7
    assert (result.residual < 1e-9).all()


def test_a_target_almost_behind_loses_no_digit():
    for angle in 10.0 ** np.arange(-12.0, -1.0):
        result = look(STILL, np.zeros(3), np.array([-np.cos(angle), 0.0, np.sin(angle)]))
        assert result.residual < 1e-14


def test_a_pole_on_the_line_does_not_roll_and_is_told():
    now = turn(X, 33.0)
    for pole in (X, -X, X + 1e-4 * Z):
        result = look(now, np.zeros(3), 2.0 * X, pole=pole)
        assert result.status == Status.POLE_ALIGNED
        assert np.abs(result.rotation - now).max() < 1e-12
    assert look(now, np.zeros(3), X, pole=X, pole_mask=np.array(False)).status == Status.OK


def test_the_roll_fades_inside_the_cone_of_the_pole():
    """Within 120 degrees of the pole's side the roll is continuous all the way to the line."""
    angle = np.radians(np.linspace(0.0, 10.0, 4_001))
    pole = np.stack([np.cos(angle), np.cos(1.0) * np.sin(angle), np.sin(1.0) * np.sin(angle)], axis=-1)
    result = look(STILL, np.zeros(3), X, pole=pole)
    up = result.rotation @ Y
    assert angle_between(up[1:], up[:-1]).max() < 0.01
    assert angle_between(up[0], Y) < 1e-12
    assert angle_between(up[-1], np.cos(1.0) * Y + np.sin(1.0) * Z) < 1e-9


def test_a_target_along_the_up_axis_is_reached():
    rng = np.random.default_rng(7)
    now, head = orientations(rng), rng.normal(size=(COUNT, 3))
    for pole in (None, rng.normal(size=(COUNT, 3)), now @ Y):
        result = look(now, head, head + now @ Y, pole=pole)
        assert (result.residual < 1e-12).all()


@given(
    seed=st.integers(0, 10_000),
    spin=st.lists(st.floats(-1.0, 1.0), min_size=4, max_size=4).map(np.array),
    scale=st.floats(1e-3, 1e3),
)
def test_the_frame_does_not_matter(seed, spin, scale):
    rng = np.random.default_rng(seed)
    now, (head, target, pole, offset) = orientations(rng, 10), rng.normal(size=(4, 10, 3))
    rotation = quaternion_to_matrix(spin) if np.linalg.norm(spin) > 0.1 else np.eye(3)
    offset *= 0.1
    one = look(now, head, target, pole=pole, offset=offset)
    there = [scale * v @ rotation.T for v in (head, target)]
    two = look(rotation @ now, *there, pole=pole @ rotation.T, offset=scale * offset)
    assert np.abs(two.rotation - rotation @ one.rotation).max() < 1e-6
    assert (one.status == two.status).all()


def test_a_batch_is_its_bones_one_by_one():
    rng = np.random.default_rng(8)
    now, (head, target, pole, offset) = orientations(rng, 40), rng.normal(size=(4, 40, 3))
    mask = np.arange(40) % 3 != 0
    batch = look(
        now.reshape(4, 10, 3, 3),
        head.reshape(4, 10, 3),
        target.reshape(4, 10, 3),
        pole=pole.reshape(4, 10, 3),
        pole_mask=mask.reshape(4, 10),
        offset=offset.reshape(4, 10, 3),
    )
    assert batch.rotation.shape == (4, 10, 3, 3) and batch.residual.shape == (4, 10)
    assert batch.status.dtype == np.int8
    for i in range(40):
        alone = look(now[i], head[i], target[i], pole=pole[i], pole_mask=mask[i], offset=offset[i])
        assert np.abs(alone.rotation - batch.rotation[i // 10, i % 10]).max() < 1e-13
        assert alone.status == batch.status[i // 10, i % 10]


def test_few_bones_in_plain_floats_are_those_of_the_arrays():
    rng = np.random.default_rng(12)
    taken = 0
    for seed in range(300):
        count = int(rng.integers(1, FEW + 1))
        now, (head, target, pole) = orientations(rng, count), rng.normal(size=(3, count, 3))
        offset = rng.normal(size=(count, 3)) * (seed % 2)
        if seed % 3 == 0:
            line = target - head
            pole = line + 10.0 ** rng.uniform(-4.0, -1.0, (count, 1)) * pole
        axes = [X if seed % 5 else rng.normal(size=(count, 3)), Y]
        vectors = [head, target, *axes, offset] + ([pole] if seed % 4 else [])
        mask = rng.random(count) < 0.7 if seed % 7 == 0 else None
        few = few_aims(now, vectors, (count,), mask)
        if few is None:
            continue
        taken += 1
        for found, expected in zip(few, aim._look_at_all(now, vectors, (count,), mask), strict=True):
            assert found.shape == expected.shape and found.dtype == expected.dtype
            assert np.abs(found - expected).max() <= 1e-13
    assert taken > 200


@pytest.mark.parametrize(
    "fields", [{"target": 0.0 * X}, {"target": -X}, {"up": X}, {"up": X + 1e-4 * Y, "pole": Z}]
)
def test_singular_bones_are_left_to_the_arrays(fields):
    given = {"head": 0.0 * X, "target": Z, "aim": X, "up": Y, "offset": 0.0 * X} | fields
    assert few_aims(STILL[None], list(given.values()), (1,), None) is None
    many = [np.tile(STILL, (FEW + 1, 1, 1)), [0.0 * X, Z, X, Y, 0.0 * X], (FEW + 1,), None]
    assert few_aims(*many) is None


def test_hard_cases(fuzz_cases):
    rng = np.random.default_rng(9)
    now, head = orientations(rng, fuzz_cases), rng.normal(size=(fuzz_cases, 3))

    def hard():
        """Along an axis of the bone, or near it, or anywhere, of any length, or none."""
        size = 10.0 ** rng.uniform(-12.0, 6.0, (fuzz_cases, 1)) * (rng.random((fuzz_cases, 1)) > 0.03)
        axes = np.moveaxis(now, -1, 0)[rng.integers(3, size=fuzz_cases), np.arange(fuzz_cases)]
        noise = 10.0 ** rng.uniform(-17.0, 1.0, (fuzz_cases, 1)) * rng.normal(size=(fuzz_cases, 3))
        return size * (rng.choice([-1.0, 1.0], (fuzz_cases, 1)) * axes + noise)

    axes = np.array(list(NAMES.values()))[rng.integers(6, size=(2, fuzz_cases))]
    offset = hard() * (rng.random((fuzz_cases, 1)) < 0.5)
    result = look(
        now,
        head,
        head + hard(),
        axes[0],
        axes[1],
        pole=hard(),
        offset=offset,
        pole_mask=rng.random(fuzz_cases) < 0.8,
    )
    assert np.isfinite(result.rotation).all() and np.isfinite(result.residual).all()


@pytest.mark.parametrize("yaw", [0.0, 0.7, -np.pi])
def test_match_rotation_turns_about_the_bones_own_y(yaw):
    rng = np.random.default_rng(10)
    target = orientations(rng).reshape(20, 100, 3, 3)
    result = aim.match_rotation(target, np.full((20, 100), yaw))
    assert np.abs(result @ Y - target @ Y).max() < 1e-12
    c, s = np.cos(yaw), np.sin(yaw)
    assert np.abs(result @ X - (c * target @ X - s * target @ Z)).max() < 1e-12


@pytest.mark.parametrize("axis", ["W", "", "+X", "XY", [1.0, 2.0], 3.0, [np.nan, 0.0, 0.0]])
def test_what_is_no_axis_is_refused(axis):
    with pytest.raises(ValueError, match="axis"):
        aim.look_at(STILL, np.zeros(3), X, axis, "Y")
