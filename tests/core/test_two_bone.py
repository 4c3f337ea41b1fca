# SPDX-License-Identifier: GPL-3.0-or-later
import decimal

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from limbs import X, Y, Z, angle_between, bone_lengths, check_sound, forward, least_gap, unit

from ik_addon.core import bend_plane, two_bone
from ik_addon.core.job import ChainJob, Status
from ik_addon.core.transforms import (
    affine_inverse,
    axis_angle_to_matrix,
    axis_angle_to_quaternion,
    compose,
    matrix_to_quaternion,
    rotation_part,
    slerp,
    transform_point,
    transform_vector,
)
from ik_addon.core.two_bone import CLEAR, bend_normal, fold_hinge, solve
from ik_addon.core.two_bone_few import FEW, few_limbs

ELBOW = np.array([[0.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 1.0, 0.0]])
ROOT2 = np.sqrt(2.0)
NO_TURN = (Y, 0.0)


def turn(axis, degrees):
    return axis_angle_to_matrix(np.asarray(axis, float), np.radians(degrees))


# The cases that peers test. Corrections of the first and second bone in their own local frames.

PARENTS = {
    "identity": compose(np.zeros(3), np.eye(3)),
    "moved along y": compose(Y, np.eye(3)),
    "60 degrees about x": compose(np.zeros(3), turn(X, 60.0)),
    "scale 2": compose(np.zeros(3), np.eye(3), 2.0),
    "scale 1 2 1": compose(np.zeros(3), np.eye(3), np.array([1.0, 2.0, 1.0])),
    "scale -3": compose(np.zeros(3), np.eye(3), -3.0),
}
# The second bone's rest frame: the chain is built with a right angle about z.
SECOND_FRAME = turn(Z, 90.0)


def nearly_aligned():
    """Corrections about z for the target (0.001, 1.41421, 0), by the law of cosines."""
    distance = np.hypot(0.001, 1.41421)
    offset = np.arccos(distance / 2.0)
    first = np.arctan2(1.41421, 0.001) + offset - np.pi / 2.0
    return np.degrees(first), 90.0 - np.degrees(2.0 * offset)


FIRST, SECOND = nearly_aligned()
PEERS = {
    "start as it is": ({"target": (1, 1, 0)}, NO_TURN, NO_TURN),
    "start to z": ({"target": (0, 1, 1)}, (Y, -90.0), NO_TURN),
    "start to -z": ({"target": (0, 1, -1)}, (Y, 90.0), NO_TURN),
    "pole y": ({"target": (1, 1, 0), "pole": Y}, NO_TURN, NO_TURN),
    "pole z": ({"target": (1, 0, 1), "pole": Z}, (X, 90.0), NO_TURN),
    "pole -z": ({"target": (1, 0, -1), "pole": -Z}, (X, -90.0), NO_TURN),
    "pole x": ({"target": (1, -1, 0), "pole": X}, (Z, -90.0), NO_TURN),
    "pole -x": ({"target": (-1, 1, 0), "pole": -X}, (Z, 90.0), NO_TURN),
    "full reach": ({"target": (2, 0, 0)}, (Z, -90.0), (Z, 90.0)),
    "twist 0": ({"target": (1, 1, 0), "pole_angle": 0.0}, NO_TURN, NO_TURN),
    "twist 90": ({"target": (1, 1, 0), "pole_angle": 0.5 * np.pi}, ((X + Y) / ROOT2, 90.0), NO_TURN),
    "twist 180": ({"target": (1, 1, 0), "pole_angle": np.pi}, ((X + Y) / ROOT2, 180.0), NO_TURN),
    "twist 360": ({"target": (1, 1, 0), "pole_angle": 2.0 * np.pi}, NO_TURN, NO_TURN),
    "pole aligned": ({"target": (0, ROOT2, 0)}, (Z, 45.0), NO_TURN),
    "pole nearly aligned": ({"target": (0.001, 1.41421, 0)}, (Z, FIRST), (Z, SECOND)),
    "pole aligned, too far": ({"target": (0, 3, 0)}, NO_TURN, (Z, 90.0)),
    "opposite hinge": ({"target": (1, 1, 0), "hinge": -Z}, (Y, 180.0), (Z, 180.0)),
    "straight start": (
        {"target": (1, 1, 0), "joints": [(0, 0, 0), (0, 1, 0), (0, 2, 0)]},
        NO_TURN,
        (Z, -90.0),
    ),
    "target on the root": ({"target": (0, 0, 0)}, NO_TURN, (Z, -90.0)),
}


def peer_job(case, parent=PARENTS["identity"], to_local=True):
    """The case with its data posed under the parent, given in the parent's frame or the outer one."""
    joints = np.asarray(case.get("joints", ELBOW), float)
    hinge = np.asarray(case.get("hinge", Z), float)
    points = {"joints": joints, "target": np.asarray(case["target"], float)}
    posed = {name: transform_point(parent, p) for name, p in points.items()}
    pole = transform_vector(parent, np.asarray(case.get("pole", Y), float))
    if to_local:
        inverse = affine_inverse(parent)
        posed = {name: transform_point(inverse, p) for name, p in posed.items()}
        pole = transform_vector(inverse, pole)
    else:
        hinge = rotation_part(parent) @ hinge
    return ChainJob(**posed, hinge=hinge, pole=pole, pole_angle=case.get("pole_angle", 0.0))


def corrections(rotations, second_frame=SECOND_FRAME):
    """Turns of both bones as local rotations, taken after the bones' own ones."""
    first, second = rotations
    return first, second_frame.T @ first.T @ second @ second_frame


@pytest.mark.parametrize("parent", PARENTS.values(), ids=PARENTS.keys())
@pytest.mark.parametrize("name", PEERS)
def test_cases_of_peers(name, parent):
    case, first, second = PEERS[name]
    job = peer_job(case, parent)
    result = solve(job)
    frame = np.eye(3) if "joints" in case else SECOND_FRAME
    found = corrections(result.rotations, frame)
    assert np.abs(found[0] - turn(*first)).max() <= 1e-9
    assert np.abs(found[1] - turn(*second)).max() <= 1e-9
    reached = transform_point(parent, forward(job.joints, result.rotations)[-1])
    gap = np.linalg.norm(reached - transform_point(parent, np.asarray(case["target"], float)))
    if name != "pole aligned, too far":
        assert gap <= 1e-9
        assert result.residual <= 1e-9
    else:
        assert result.residual == pytest.approx(1.0, abs=1e-9)
        assert result.status == Status.TARGET_FAR


@pytest.mark.parametrize("name", PEERS)
@pytest.mark.parametrize("parent", ["identity", "moved along y", "60 degrees about x", "scale 2"])
def test_cases_of_peers_solved_in_the_outer_frame(name, parent):
    case, first, second = PEERS[name]
    result = solve(peer_job(case, PARENTS[parent], to_local=False))
    outer = rotation_part(PARENTS[parent])
    local = outer.T @ result.rotations @ outer
    frame = np.eye(3) if "joints" in case else SECOND_FRAME
    found = corrections(local, frame)
    assert np.abs(found[0] - turn(*first)).max() <= 1e-9
    assert np.abs(found[1] - turn(*second)).max() <= 1e-9


@pytest.mark.parametrize("name", PEERS)
def test_cases_of_peers_say_what_keeps_the_pole_from_counting(name):
    aligned = name in ("pole aligned", "pole nearly aligned", "target on the root")
    status = solve(peer_job(PEERS[name][0])).status
    if name == "pole aligned, too far":
        assert status == Status.TARGET_FAR
    else:
        assert status == (Status.POLE_ALIGNED if aligned else Status.OK)


@pytest.mark.parametrize(
    ("weight", "first", "second"),
    [(1.0, -90.0, 90.0), (2.0, -90.0, 90.0), (0.0, 0.0, 0.0), (-0.5, 0.0, 0.0), (0.5, -45.0, 45.0)],
)
def test_weight_blends_local_rotations(weight, first, second):
    found = corrections(solve(peer_job({"target": (2, 0, 0)})).rotations)
    at_rest = np.array([1.0, 0.0, 0.0, 0.0])
    for matrix, degrees in zip(found, (first, second), strict=True):
        blended = slerp(at_rest, matrix_to_quaternion(matrix), np.clip(weight, 0.0, 1.0))
        expected = axis_angle_to_quaternion(Z, np.radians(degrees))
        assert abs(abs(blended @ expected) - 1.0) <= 1e-12


def test_a_chain_without_length_is_not_reached():
    result = solve(ChainJob(np.zeros((3, 3)), X + Y, Z, Y))
    assert (result.rotations == np.eye(3)).all()
    assert (result.joints == 0.0).all()
    assert result.residual == pytest.approx(ROOT2, abs=1e-12)
    assert result.status == Status.TARGET_FAR


def test_zero_scale_of_a_parent_is_not_reached():
    parent = compose(np.zeros(3), np.eye(3), 0.0)
    joints = transform_point(parent, ELBOW)
    result = solve(ChainJob(joints, X + Y, transform_vector(parent, Z), transform_vector(parent, Y)))
    assert np.isfinite(result.rotations).all()
    assert result.residual == pytest.approx(ROOT2, abs=1e-12)
    assert result.status == Status.TARGET_FAR


# Figures.


def test_interior_angle_and_offset_of_a_known_triangle():
    joints = np.array([[0.0, 0.0, 0.0], [150.0, 0.0, 0.0], [275.0, 0.0, 0.0]])
    solved = solve(ChainJob(joints, np.array([0.0, 200.0, 0.0]), Z, X)).joints
    back, onward = solved[0] - solved[1], solved[2] - solved[1]
    assert np.degrees(angle_between(back, onward)) == pytest.approx(92.87, abs=0.005)
    assert np.degrees(angle_between(-back, Y)) == pytest.approx(38.62, abs=0.005)


@pytest.mark.parametrize("side", [1.0, -1.0])
def test_a_straight_leg_bends_to_its_chosen_side(side):
    leg = np.array([[0.0, 0.0, 0.9], [0.0, 0.0, 0.45], [0.0, 0.0, 0.0]])
    for lean in np.radians([0.0, 30.0, 60.0, 90.0, 150.0]):
        down = np.array([0.0, np.sin(lean), -np.cos(lean)])
        front = side * np.array([0.0, -np.cos(lean), -np.sin(lean)])
        solved = solve(ChainJob(leg, leg[0] + 0.85 * down, side * np.array([-1.0, 0, 0]))).joints
        assert (solved[1] - solved[0]) @ front == pytest.approx(0.1479, abs=5e-5)
        back, onward = solved[0] - solved[1], solved[2] - solved[1]
        assert np.degrees(angle_between(back, onward)) == pytest.approx(141.62, abs=0.005)


def limbs_and_targets(count, seed, low=0.3, high=0.999, inner=0.2, pole=True):
    """Seeded limbs of length 1 with targets at a share of it, hinges at right angles to the FK plane."""
    rng = np.random.default_rng(seed)
    upper = 0.5 + 0.5 * rng.uniform(-inner, inner, count)
    first, second = unit(rng.normal(size=(2, count, 3)))
    root = rng.normal(size=(count, 3))
    middle = root + upper[:, None] * first
    joints = np.stack([root, middle, middle + (1.0 - upper)[:, None] * second], axis=1)
    target = root + rng.uniform(low, high, count)[:, None] * unit(rng.normal(size=(count, 3)))
    return ChainJob(
        joints,
        target,
        bend_normal(joints, rng.normal(size=(count, 3))),
        rng.normal(size=(count, 3)) if pole else None,
    )


def bend_side(job):
    """Unit bend direction that the pole asks for, and its angle to the root-target line."""
    line = unit(job.target - job.joints[:, 0])
    pole = unit(job.pole)
    across = np.cross(np.cross(line, pole), line)
    angle = angle_between(line, pole)
    return unit(across), np.minimum(angle, np.pi - angle)


def posed_hinges(job, result):
    """Where each bone carries the part of its FK hinge that is at right angles to it."""
    bones = unit(np.diff(job.joints, axis=1))
    hinges = job.hinge[:, None] - np.sum(bones * job.hinge[:, None], axis=-1, keepdims=True) * bones
    return np.einsum("nbij,nbj->nbi", result.rotations, hinges)


def test_reachable_targets_are_reached_in_the_plane_of_the_pole():
    job = limbs_and_targets(20_000, seed=2)
    result = solve(job)
    assert result.residual.max() <= 1e-9
    check_sound(job, result)
    side, angle = bend_side(job)
    wide = angle > bend_plane.CONE
    normal = np.cross(unit(job.target - job.joints[:, 0]), side)
    bent = result.joints[:, 1] - result.joints[:, 0]
    height = np.abs(np.sum(bent * side, axis=-1))
    assert (np.abs(np.sum(bent * normal, axis=-1)) <= 1e-9 * height)[wide].all()
    assert (np.sum(bent * side, axis=-1) > 0.0)[wide].all()
    assert (angle_between(posed_hinges(job, result), normal[:, None]) <= 1e-9)[wide].all()


def test_without_a_pole_the_plane_is_carried_by_the_shortest_turn():
    job = limbs_and_targets(20_000, seed=3, pole=False)
    result = solve(job)
    assert result.residual.max() <= 1e-9
    tip, line = unit(job.joints[:, 2] - job.joints[:, 0]), unit(job.target - job.joints[:, 0])
    angle = angle_between(tip, line)
    carried = axis_angle_to_matrix(unit(np.cross(tip, line)), angle) @ job.hinge[..., None]
    wide = angle < np.radians(179.0)
    assert (angle_between(posed_hinges(job, result), carried[..., 0][:, None]) <= 1e-9)[wide].all()


def test_an_fk_pose_on_its_target_is_kept():
    job = limbs_and_targets(1_000, seed=4, pole=False)
    result = solve(ChainJob(job.joints, job.joints[:, 2], job.hinge))
    assert np.abs(result.rotations - np.eye(3)).max() <= 1e-7  # near full reach an angle is a square root
    assert np.abs(result.joints - job.joints).max() <= 1e-7
    assert result.residual.max() <= 1e-12


def shares_near(edge):
    steps = np.logspace(-16.0, -1.0, 61)
    return edge + np.concatenate([-steps[::-1], [0.0], steps])


@pytest.mark.parametrize("ratio", [1.0, 2.0, 1e3, 1e6, 1e-3, 1e-6])
@pytest.mark.parametrize("edge", ["full reach", "full fold"])
def test_near_full_reach_and_full_fold(ratio, edge):
    upper, lower = ratio / (1.0 + ratio), 1.0 / (1.0 + ratio)
    span = min(upper, lower)
    share = 1.0 + span * (shares_near(0.0)) if edge == "full reach" else None
    if share is None:
        share = np.abs(upper - lower) + span * shares_near(0.0)
        share = share[share >= 0.0]
    joints = np.array([[0.0, 0.0, 0.0], [0.0, upper, 0.0], [lower, upper, 0.0]])
    target = share[:, None] * unit(np.array([1.0, 2.0, 3.0]))
    job = ChainJob(np.broadcast_to(joints, (len(share), 3, 3)), target, Z, Y)
    result = solve(job)
    check_sound(job, result)


@given(st.floats(-6.0, 6.0), st.floats(-12.0, 0.0), st.booleans())
def test_sines_keep_their_digits(exponent, nearness, fold):
    upper, lower = 1.0, 10.0**exponent
    part = min(upper, lower) * 10.0**nearness
    distance = abs(upper - lower) + part if fold else upper + lower - part
    assume(abs(upper - lower) < distance < upper + lower)
    lengths = np.array([[upper], [lower]])
    (cosines, sines), _ = two_bone.triangle(lengths, np.array([distance]), None)
    with decimal.localcontext() as context:
        context.prec = 60
        a, b, d = (decimal.Decimal(float(v)) for v in (upper, lower, distance))
        area = ((a + b + d) * (a + b - d) * (d + a - b) * (d - a + b)).sqrt() / 4
        height = 2 * area / d
        along = (d * d + a * a - b * b) / (2 * d)
        exact = [height / a, -height / b], [along / a, (d - along) / b]
    for found, wanted in ((sines, exact[0]), (cosines, exact[1])):
        for i in range(2):
            # The larger bone's length drowns the smaller one's digits in the sum.
            tolerance = 4e-15 * max(1.0, 10.0 ** abs(exponent))
            assert abs(found[i, 0] - float(wanted[i])) <= tolerance
    larger = 0 if upper >= lower else 1
    assert abs(sines[larger, 0] / float(exact[0][larger]) - 1.0) <= 1e-9


@pytest.mark.parametrize(
    ("share", "status", "gap"),
    [
        (1.2, Status.TARGET_FAR, 0.2),
        (1.0 + 1e-6, Status.TARGET_FAR, 1e-6),
        (1.0, Status.OK, 0.0),
        (0.5, Status.OK, 0.0),
        (0.2, Status.OK, 0.0),
        (0.2 - 1e-6, Status.TARGET_NEAR, 1e-6),
        (0.0, Status.TARGET_NEAR, 0.2),
    ],
)
@pytest.mark.parametrize("lengths", [(0.6, 0.4), (0.4, 0.6)])
def test_status_and_residual(lengths, share, status, gap):
    joints = np.array([[0.0, 0.0, 0.0], [0.0, lengths[0], 0.0], [lengths[1], lengths[0], 0.0]])
    result = solve(ChainJob(joints, share * X, Z))
    assert result.status == status
    assert result.residual == pytest.approx(gap, abs=1e-9)


def test_beyond_reach_the_limb_is_exactly_straight_toward_the_target():
    target = np.array([3.0, -2.0, 5.0])
    solved = solve(ChainJob(ELBOW, target, Z, Y)).joints
    assert np.abs(solved[1] - unit(target)).max() <= 1e-15
    assert np.abs(solved[2] - 2.0 * unit(target)).max() <= 1e-15


# Singular places.


def steps_and_ratio(job, moved):
    """Path of the middle joint over that of the target, for two jobs that differ by a small step."""
    before, after = solve(job).joints[:, 1], solve(moved).joints[:, 1]
    step = np.linalg.norm(moved.target - job.target, axis=-1)
    return np.linalg.norm(after - before, axis=-1) / step


def stepped(job, size, seed):
    step = size * unit(np.random.default_rng(seed).normal(size=job.target.shape))
    moved = ChainJob(job.joints, job.target + step, job.hinge, job.pole)
    root = job.joints[:, 0]
    inside = np.linalg.norm(moved.target - root, axis=-1) <= 0.999
    inside &= np.linalg.norm(moved.target - root, axis=-1) >= 0.3
    return moved, inside


def test_continuity_with_a_pole():
    job = limbs_and_targets(200_000, seed=5)
    moved, inside = stepped(job, 1e-6, seed=6)
    wide = inside & (bend_side(job)[1] > bend_plane.CONE) & (bend_side(moved)[1] > bend_plane.CONE)
    assert steps_and_ratio(job, moved)[wide].max() <= 25.0


def opposite_angle(job):
    tip, line = job.joints[:, 2] - job.joints[:, 0], job.target - job.joints[:, 0]
    return np.pi - angle_between(tip, line)


def near_opposite(count, seed, low):
    """Limbs whose target is 5 to 12 degrees off the opposite of the FK tip direction."""
    rng = np.random.default_rng(seed)
    job = limbs_and_targets(count, seed, low=low, pole=False)
    tip = unit(job.joints[:, 2] - job.joints[:, 0])
    aside = unit(np.cross(tip, rng.normal(size=tip.shape)))
    angle = np.radians(rng.uniform(5.0, 12.0, count))[:, None]
    distance = np.linalg.norm(job.target - job.joints[:, 0], axis=-1, keepdims=True)
    target = job.joints[:, 0] + distance * (np.sin(angle) * aside - np.cos(angle) * tip)
    return ChainJob(job.joints, target, job.hinge)


@pytest.mark.parametrize(("low", "cone"), [(0.3, 7.5), (0.43, 5.0)])
def test_continuity_without_a_pole(low, cone):
    for job in (
        limbs_and_targets(100_000, seed=7, low=low, pole=False),
        near_opposite(100_000, seed=8, low=low),
    ):
        moved, inside = stepped(job, 1e-6, seed=9)
        cones = np.minimum(opposite_angle(job), opposite_angle(moved)) > np.radians(cone)
        assert steps_and_ratio(job, moved)[inside & cones].max() <= 25.0


def side_across_the_pole(azimuth):
    """Bend sides while the target kicks through the pole's direction, in steps of 0.025 degrees."""
    angles = np.radians(np.linspace(-10.0, 10.0, 801))
    aside = turn(X, azimuth) @ Y
    target = 1.5 * (np.cos(angles)[:, None] * X + np.sin(angles)[:, None] * aside)
    bent = solve(ChainJob(np.broadcast_to(ELBOW, (801, 3, 3)), target, Z, X)).joints[:, 1]
    line = unit(target)
    return unit(bent - np.sum(bent * line, axis=-1, keepdims=True) * line)


@pytest.mark.parametrize("azimuth", [a for a in range(0, 360, 15) if a % 180 != 60])
def test_a_kick_through_the_pole_turns_the_bend_step_by_step(azimuth):
    side = side_across_the_pole(azimuth)
    assert angle_between(side[1:], side[:-1]).max() < np.radians(4.5)
    assert angle_between(side[0], side[-1]) > np.radians(159.0)


def test_the_direction_that_stays_singular_is_where_the_docstring_says():
    side = side_across_the_pole(60.0)
    assert angle_between(side[1:], side[:-1]).max() > np.radians(30.0)


def test_in_the_middle_of_the_cone_the_fk_side_rules():
    job = ChainJob(ELBOW, np.array([1.2, 0.9, 0.0]), Z)
    auto = solve(job)
    for angle in (0.0, 1e-9, np.radians(0.09)):
        pole = turn(Z, np.degrees(angle)) @ job.target
        for sign in (1.0, -1.0):
            result = solve(ChainJob(job.joints, job.target, Z, sign * pole))
            assert result.status == Status.POLE_ALIGNED
            assert np.abs(result.joints - auto.joints).max() <= 1e-12
    off = solve(ChainJob(job.joints, job.target, Z, turn(Z, -0.11) @ job.target))
    assert off.status == Status.OK


def test_the_cone_ends_without_a_step():
    target = np.array([1.5, 0.0, 0.0])
    at = [
        solve(ChainJob(ELBOW, target, Z, turn(unit([0, 1, 2]), np.degrees(bend_plane.CONE) + e) @ X)).joints
        for e in (-1e-6, 1e-6)
    ]
    assert np.abs(at[0] - at[1]).max() <= 1e-6


def test_the_cone_ends_without_a_kink():
    target = np.array([1.5, 0.0, 0.0])
    angles = np.degrees(bend_plane.CONE) + np.array([-2e-3, -1e-3, 0.0, 1e-3, 2e-3])
    poles = np.array([turn(unit([0, 1, 2]), a) @ X for a in angles])
    at = solve(ChainJob(np.broadcast_to(ELBOW, (5, 3, 3)), target, Z, poles)).joints[:, 1]
    speed = np.diff(at, axis=0) / 1e-3
    assert np.linalg.norm(speed[2] - speed[1]) <= 1e-3


def test_where_no_side_is_left_the_blend_still_gives_one():
    weight = np.array([2.0 / 3.0])
    cosine = (weight - 1.0) / weight
    sine = -np.sqrt(3.0) * (1.0 - weight) * (1.0 - cosine)
    assert np.linalg.norm(bend_plane.blend_sides(weight, cosine, sine)) == pytest.approx(1.0, abs=1e-15)


def test_an_fk_pose_opposite_to_its_target_keeps_its_plane():
    result = solve(ChainJob(ELBOW, -ELBOW[2], Z))
    assert np.abs(result.joints - np.array([[0, 0, 0], [0, -1, 0], [-1, -1, 0]])).max() <= 1e-12
    assert result.residual <= 1e-12


@pytest.mark.parametrize("lengths", [(1.0, 1.0), (0.7, 0.3), (0.3, 0.7)])
@pytest.mark.parametrize("pole", [None, X, Z])
@pytest.mark.parametrize("pole_angle", [0.0, 1.0])
def test_target_on_the_root_folds_the_lower_bone_back(lengths, pole, pole_angle):
    joints = np.array([[1.0, 2.0, 3.0]] * 3)
    joints[1:] += lengths[0] * unit(np.array([1.0, 1.0, 0.0]))
    joints[2] += lengths[1] * X
    job = ChainJob(joints, joints[0], Z, pole, pole_angle=pole_angle)
    result = solve(job)
    check_sound(job, result)
    assert np.abs(result.rotations[0] - np.eye(3)).max() <= 1e-12
    assert np.abs(result.rotations[1] @ Z - Z).max() <= 1e-12


DEGENERATE = {
    "straight": {"joints": [(0, 0, 0), (0, 1, 0), (0, 2, 0)]},
    "straight, target along it": {"joints": [(0, 0, 0), (0, 1, 0), (0, 2, 0)], "target": (0, 1.5, 0)},
    "straight, target opposite": {"joints": [(0, 0, 0), (0, 1, 0), (0, 2, 0)], "target": (0, -1.5, 0)},
    "folded": {"joints": [(0, 0, 0), (0, 1, 0), (0, 0, 0)]},
    "folded, target on the root": {"joints": [(0, 0, 0), (0, 1, 0), (0, 0, 0)], "target": (0, 0, 0)},
    "no upper bone": {"joints": [(0, 0, 0), (0, 0, 0), (1, 0, 0)]},
    "no lower bone": {"joints": [(0, 0, 0), (0, 1, 0), (0, 1, 0)]},
    "no upper bone, target on the root": {"joints": [(0, 0, 0), (0, 0, 0), (1, 0, 0)], "target": (0, 0, 0)},
    "no bone": {"joints": [(0, 0, 0), (0, 0, 0), (0, 0, 0)]},
    "no bone, target on the root": {"joints": [(0, 0, 0), (0, 0, 0), (0, 0, 0)], "target": (0, 0, 0)},
    "hinge along the upper bone": {"hinge": (0, 1, 0)},
    "hinge along the lower bone": {"hinge": (1, 0, 0)},
    "hinge along the tip": {"hinge": (1, 1, 0)},
    "hinge along a straight chain": {"joints": [(0, 0, 0), (0, 1, 0), (0, 2, 0)], "hinge": (0, 1, 0)},
    "no hinge": {"hinge": (0, 0, 0)},
    "no pole": {"pole": (0, 0, 0)},
    "tiny pole": {"pole": (0, 1e-9, 0)},
    "pole behind the target": {"pole": (-1, 0, 0)},
    "tiny distance": {"target": (1e-13, 0, 0)},
    "tiny limb": {"joints": [(0, 0, 0), (0, 1e-12, 0), (1e-12, 1e-12, 0)]},
}


@pytest.mark.parametrize("name", DEGENERATE)
@pytest.mark.parametrize("use_pole", [True, False])
def test_degenerate_input_gives_the_nearest_pose(name, use_pole):
    case = {"joints": ELBOW, "target": (0.5, 0, 0), "hinge": Z, "pole": Y} | DEGENERATE[name]
    job = ChainJob(**{k: np.array(v, float) for k, v in case.items() if use_pole or k != "pole"})
    with np.errstate(all="raise", under="ignore"):
        result = solve(job)
        again = solve(job)
    check_sound(job, result)
    assert (result.rotations == again.rotations).all()


def test_a_pole_scaled_down_counts_as_before():
    whole, small = (solve(ChainJob(ELBOW, X, Z, s * (Y + Z))) for s in (1.0, 1e-9))
    assert np.abs(whole.joints - small.joints).max() <= 1e-12


def test_a_bone_without_length_takes_the_other_ones_turn():
    for joints in ([(0, 0, 0), (0, 0, 0), (1, 0, 0)], [(0, 0, 0), (1, 0, 0), (1, 0, 0)]):
        result = solve(ChainJob(np.array(joints, float), np.array([0.0, 0.0, 1.0]), Y, Y))
        assert (result.rotations[0] == result.rotations[1]).all()
        assert np.abs(result.rotations[0] @ X - Z).max() <= 1e-12


def test_the_mask_says_where_the_pole_counts():
    job = limbs_and_targets(50, seed=10)
    mask = np.arange(50) % 2 == 0
    mixed = solve(ChainJob(job.joints, job.target, job.hinge, job.pole, mask)).joints
    poled = solve(job).joints
    auto = solve(ChainJob(job.joints, job.target, job.hinge)).joints
    assert (mixed[mask] == poled[mask]).all()
    assert (mixed[~mask] == auto[~mask]).all()
    assert (poled != auto).any(axis=(1, 2)).all()


def test_a_masked_pole_on_the_line_is_not_reported():
    job = ChainJob(ELBOW, X, Z, X, np.array(False))
    assert solve(job).status == Status.OK


# Bend normal of the FK pose.


def test_bend_normal_of_a_bent_pose_is_that_of_its_plane():
    assert np.abs(bend_normal(ELBOW, X) - Z).max() <= 1e-15
    assert np.abs(bend_normal(ELBOW * [-1.0, 1.0, 1.0], Z) + Z).max() <= 1e-15


def test_bend_normal_of_a_straight_or_folded_pose_is_the_rest_hinge():
    for end in (2.0, 0.0):
        pose = np.array([[0.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, end, 0.0]])
        assert np.abs(bend_normal(pose, 3.0 * Z + 5.0 * Y) - Z).max() <= 1e-15


def bent_by(angle, toward):
    """Limbs along y with the given bends (radians) whose middle stands toward a direction."""
    onward = np.cos(angle)[..., None] * Y - np.sin(angle)[..., None] * toward
    first = np.broadcast_to(Y, onward.shape)
    return np.stack([0.0 * first, first, first + onward], axis=-2)


@pytest.mark.parametrize("degrees", [0.0, 45.0, 90.0, 180.0, 300.0])
def test_bend_normal_goes_over_to_the_rest_hinge_smoothly(degrees):
    toward = turn(Y, degrees) @ X
    normals = bend_normal(bent_by(np.linspace(0.0, 1e-3, 1001), toward), -Z)
    assert np.abs(normals[0] + Z).max() <= 1e-12
    assert angle_between(normals[-1], np.cross(Y, toward)) <= 1e-12
    assert angle_between(normals[1:], normals[:-1]).max() <= np.radians(2.0)


def test_noise_of_float32_does_not_turn_the_hinge_of_a_straight_pose():
    rng = np.random.default_rng(11)
    straight = np.array([[0.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 2.0, 0.0]])
    noisy = straight + 1e-7 * rng.uniform(-1.0, 1.0, (1_000, 3, 3))
    assert angle_between(bend_normal(noisy, Z), Z).max() <= 1e-6


def test_bend_normal_without_lengths_is_finite():
    with np.errstate(all="raise", under="ignore"):
        normals = bend_normal(np.zeros((2, 3, 3)), np.array([Z, 0.0 * Z]))
    assert np.isfinite(normals).all()


# The hinge of a limb that has to fold more than in FK.


def test_a_target_at_the_fk_tip_or_beyond_keeps_the_fk_plane():
    rng = np.random.default_rng(21)
    toward = unit(np.cross(Y, rng.normal(size=(200, 3))))
    poses = bent_by(rng.uniform(1e-3, np.pi - 0.1, 200), toward)
    for stretch in (1.0, 1.2):
        target = poses[:, 0] + stretch * (poses[:, 2] - poses[:, 0])
        assert angle_between(fold_hinge(poses, Z, target), bend_normal(poses, Z)).max() <= 1e-6


def test_a_clearly_bent_limb_keeps_its_plane_however_far_it_folds():
    poses = bent_by(np.linspace(CLEAR * 1.001, 3.0, 50), X)
    hinges = fold_hinge(poses, X + Y, np.broadcast_to([0.0, 0.3, 0.0], (50, 3)))
    assert angle_between(hinges, np.cross(Y, X)).max() <= 1e-12


@pytest.mark.parametrize("degrees", range(0, 360, 30))
def test_a_limb_that_wobbles_about_straight_folds_to_its_rest_side(degrees):
    """Deviations of a degree must not decide where the knee goes."""
    toward = turn(Y, float(degrees)) @ X
    pose = bent_by(np.radians(np.array([1.0])), toward)
    hinge = fold_hinge(pose, -Z, np.array([[0.0, 1.0, 0.0]]))
    # A rest hinge of -Z stands the middle toward -Z x Y = X.
    assert np.degrees(angle_between(hinge, -Z)).max() <= 15.0


def test_a_leg_that_goes_through_straight_turns_its_knee_smoothly():
    """From a bend of 20 degrees through straight to 3 degrees past it, on a planted target."""
    bends = np.radians(np.concatenate([np.linspace(20.0, 0.0, 200), np.linspace(0.0, 3.0, 30)]))
    side = np.where(np.arange(len(bends)) < 200, 1.0, -1.0)[:, None]
    wobble = np.array([turn(Y, a) @ X for a in 10.0 * np.sin(np.arange(len(bends)) * 0.5)])
    poses = bent_by(bends, side * wobble)
    target = np.broadcast_to([0.1, 1.7, 0.0], (len(bends), 3))
    middle = solve(ChainJob(poses, target, fold_hinge(poses, -Z, target))).joints[:, 1]
    steps = np.linalg.norm(np.diff(middle, axis=0), axis=-1)
    assert steps.max() <= 0.06


# Properties.

vectors = arrays(float, 3, elements=st.floats(-2.0, 2.0))
rotations = arrays(float, 4, elements=st.floats(-1.0, 1.0)).filter(lambda q: np.linalg.norm(q) > 0.1)


@st.composite
def regular_jobs(draw):
    """Jobs away from singular places, where rounding alone would be magnified."""
    joints = draw(arrays(float, (3, 3), elements=st.floats(-2.0, 2.0)))
    target, hinge = draw(vectors), draw(vectors)
    upper, lower = bone_lengths(joints)
    offset, tip = target - joints[0], joints[2] - joints[0]
    distance = np.linalg.norm(offset)
    assume(min(upper, lower, distance, np.linalg.norm(tip), np.linalg.norm(hinge)) > 0.1)
    assume(min(abs(distance - upper - lower), abs(distance - abs(upper - lower))) > 1e-2)
    assume(angle_between(offset, tip) < 3.0)
    for axis in (joints[1] - joints[0], joints[2] - joints[1], tip):
        assume(0.1 < angle_between(axis, hinge) < 3.0)
    direction = None
    if draw(st.booleans()):
        direction = draw(vectors)
        assume(np.linalg.norm(direction) > 0.1)
        assume(0.1 < angle_between(direction, offset) < 3.0)
    return ChainJob(joints, target, hinge, direction, pole_angle=draw(st.floats(-4.0, 4.0)))


@given(regular_jobs())
def test_property_sound(job):
    check_sound(job, solve(job))


@given(regular_jobs(), rotations, vectors)
def test_property_rigid_motion(job, quaternion, shift):
    moved = axis_angle_to_matrix(unit(quaternion[1:] + 1e-3), quaternion[0] * 3.0)
    carried = ChainJob(
        job.joints @ moved.T + shift,
        moved @ job.target + shift,
        moved @ job.hinge,
        None if job.pole is None else moved @ job.pole,
        pole_angle=job.pole_angle,
    )
    here, there = solve(job), solve(carried)
    assert np.abs(here.joints @ moved.T + shift - there.joints).max() <= 1e-9
    assert np.abs(moved @ here.rotations @ moved.T - there.rotations).max() <= 1e-9
    assert abs(here.residual - there.residual) <= 1e-9
    assert here.status == there.status


@given(regular_jobs(), st.floats(-12.0, 12.0))
def test_property_scale(job, exponent):
    scale = 10.0**exponent
    scaled = ChainJob(scale * job.joints, scale * job.target, job.hinge, job.pole, pole_angle=job.pole_angle)
    here, there = solve(job), solve(scaled)
    assert np.abs(here.joints * scale - there.joints).max() <= 1e-9 * scale
    assert np.abs(here.rotations - there.rotations).max() <= 1e-9
    assert abs(here.residual * scale - there.residual) <= 1e-9 * scale
    assert here.status == there.status


@given(regular_jobs())
def test_property_mirror(job):
    mirror = np.array([-1.0, 1.0, 1.0])
    # A hinge and an angle are turns: in a mirror they go the other way round.
    other = ChainJob(
        mirror * job.joints,
        mirror * job.target,
        -mirror * job.hinge,
        None if job.pole is None else mirror * job.pole,
        pole_angle=-job.pole_angle,
    )
    here, there = solve(job), solve(other)
    assert np.abs(mirror * here.joints - there.joints).max() <= 1e-9
    assert np.abs(mirror[:, None] * here.rotations * mirror - there.rotations).max() <= 1e-9


@given(regular_jobs())
def test_property_hinges_end_on_the_plane_normal(job):
    result = solve(job)
    bones, turns = np.diff(job.joints, axis=0), result.rotations
    for i in range(2):
        axis = unit(bones[i])
        hinge = turns[i] @ unit(job.hinge - (job.hinge @ axis) * axis)
        posed = np.diff(result.joints, axis=0)
        assert abs(hinge @ unit(posed[0])) <= 1e-9
        assert abs(hinge @ unit(posed[1])) <= 1e-9


@given(regular_jobs())
def test_property_solving_again_changes_nothing(job):
    first = solve(job)
    assume(first.status == Status.OK)
    bend = bend_normal(first.joints, job.hinge)
    again = solve(ChainJob(first.joints, job.target, bend))
    assert np.abs(again.joints - first.joints).max() <= 1e-7


def result_bits(result):
    return [getattr(result, name) for name in ("rotations", "joints", "residual", "status")]


@pytest.mark.parametrize("pole", [True, False])
def test_a_batch_is_one_by_one_to_the_bit(pole):
    rng = np.random.default_rng(12)
    job = limbs_and_targets(2 * two_bone.BLOCK + 50, seed=13, low=0.0, high=1.3, inner=0.9, pole=pole)
    count = len(job.target)
    angle = np.where(rng.random(count) < 0.5, 0.0, rng.normal(size=count))
    line = job.target - job.joints[:, 0]
    if pole:
        job.pole[::3] = line[::3] + 0.05 * job.pole[::3]
        job.pole[::30] = line[::30]
    job.target[::40] = job.joints[::40, 0]
    job.joints[::41, 2] = job.joints[::41, 1]
    mask = rng.random(count) < 0.8 if pole else None
    whole = solve(ChainJob(job.joints, job.target, job.hinge, job.pole, mask, angle))
    for i in range(0, count, 7):
        one = ChainJob(
            job.joints[i],
            job.target[i],
            job.hinge[i],
            job.pole[i] if pole else None,
            mask[i] if pole else None,
            angle[i],
        )
        for found, expected in zip(result_bits(solve(one)), result_bits(whole), strict=True):
            assert np.array_equal(found, expected[i]), i


def test_any_leading_shape():
    job = limbs_and_targets(24, seed=14)
    shaped = ChainJob(
        job.joints.reshape(2, 3, 4, 3, 3),
        job.target.reshape(2, 3, 4, 3),
        job.hinge.reshape(2, 3, 4, 3),
        job.pole.reshape(2, 3, 4, 3),
    )
    flat, deep = solve(job), solve(shaped)
    assert deep.rotations.shape == (2, 3, 4, 2, 3, 3)
    assert deep.joints.shape == (2, 3, 4, 3, 3)
    for found, expected in zip(result_bits(deep), result_bits(flat), strict=True):
        assert np.array_equal(found, expected.reshape(found.shape))
    one_chain = solve(ChainJob(job.joints[0], job.target, job.hinge[0], job.pole[0]))
    assert one_chain.joints.shape == (24, 3, 3)
    assert np.array_equal(one_chain.joints[0], flat.joints[0])


def test_an_empty_batch():
    result = solve(ChainJob(np.zeros((0, 3, 3)), np.zeros((0, 3)), np.zeros((0, 3))))
    assert result.rotations.shape == (0, 2, 3, 3)
    assert result.residual.shape == (0,)


def test_input_is_left_as_it_was():
    job = limbs_and_targets(10, seed=15)
    copies = [np.copy(v) for v in (job.joints, job.target, job.hinge, job.pole)]
    solve(job)
    for now, before in zip((job.joints, job.target, job.hinge, job.pole), copies, strict=True):
        assert np.array_equal(now, before)


@pytest.mark.parametrize(
    ("job", "words"),
    [
        (ChainJob(np.zeros((4, 3)), X, Z), "joints: a two-bone chain has 3 joints, got 4"),
        (ChainJob(ELBOW, np.array([np.nan, 0, 0]), Z), "target: expected finite numbers, got nan"),
        (ChainJob(ELBOW, X, np.array([0, np.inf, 0])), "hinge: expected finite numbers, got inf"),
        (ChainJob(ELBOW, X[:2], Z), "target: expected shape"),
        (ChainJob(ELBOW, X, Z, pole=np.zeros(4)), "pole: expected shape"),
    ],
)
def test_bad_input_names_the_field(job, words):
    with pytest.raises(ValueError, match="^" + words.replace("(", r"\(")):
        solve(job)


def test_least_gap_is_what_the_tests_think():
    target = np.array([3.0, 0.0, 0.0])
    assert least_gap(ELBOW, target) == pytest.approx(1.0)
    assert least_gap(ELBOW * 1.0, 0.0 * target) == pytest.approx(0.0)


def test_few_limbs_in_plain_floats_equal_the_arrays_to_the_bit():
    rng = np.random.default_rng(16)
    for seed in range(300):
        count = int(rng.integers(1, FEW + 1))
        job = limbs_and_targets(count, seed, low=0.0, high=1.3, inner=0.9, pole=seed % 3 > 0)
        pole = job.pole
        if pole is not None and seed % 5 == 0:
            # In the cone around the line, and so close to the line that it does not count.
            line = rng.choice([-1.0, 1.0], (count, 1)) * unit(job.target - job.joints[:, 0])
            pole = line + 10.0 ** rng.uniform(-4.0, -1.0, (count, 1)) * unit(pole)
        mask = rng.random(count) < 0.7 if seed % 3 == 1 else None
        angle = rng.normal(size=count) if seed % 2 else np.zeros(count)
        job = ChainJob(job.joints, job.target, job.hinge, pole, mask, angle).validated()
        for found, expected in zip(few_limbs(job), two_bone._solve_all(job), strict=True):
            assert np.array_equal(found, expected)


def test_many_or_singular_limbs_are_left_to_the_arrays():
    many = limbs_and_targets(FEW + 1, seed=17).validated()
    assert few_limbs(many) is None
    left = []
    for name, change in DEGENERATE.items():
        case = {"joints": ELBOW, "target": X, "hinge": Z} | change
        job = ChainJob(**{k: np.array(v, float) for k, v in case.items()}).validated()
        few = few_limbs(job)
        if few is None:
            left.append(name)
            continue
        for found, expected in zip(few, two_bone._solve_all(job), strict=True):
            assert np.array_equal(found, expected)
    assert {"no bone", "no upper bone", "hinge along the tip", "no hinge", "tiny distance"} <= set(left)
    assert {"no pole", "tiny pole", "pole behind the target"}.isdisjoint(left)


def test_bend_normals_of_few_poses_equal_those_of_many_to_the_bit():
    rng = np.random.default_rng(18)
    joints, rest = rng.normal(size=(40, 3, 3)), rng.normal(size=(40, 3))
    joints[::5, 2] = 2.0 * joints[::5, 1] - joints[::5, 0] + 10.0 ** rng.uniform(-5, -2, (8, 1))
    many = bend_normal(joints, rest)
    for i in range(40):
        assert np.array_equal(bend_normal(joints[i], rest[i]), many[i])
        assert np.array_equal(bend_normal(joints[i : i + 2], rest[i : i + 2]), many[i : i + 2])
