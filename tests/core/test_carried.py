# SPDX-License-Identifier: GPL-3.0-or-later
"""Carried bend sides: no flip on any path, and nothing else changed."""

from dataclasses import replace

import numpy as np
import pytest
from limbs import X, Y, Z, angle_between, check_sound, unit

from ik_addon.core import carried, two_bone
from ik_addon.core.job import ChainJob
from ik_addon.core.transforms import axis_angle_to_matrix

ELBOW = np.array([[0, 0, 0], [0, 1, 0], [1, 1, 0]], float)
# The middle joint's step over the target's (or the FK tip's), for targets beyond 0.3 of the limb's length.
LIMIT = 16.0


def make_job(joints, target, pole=None, rest_hinge=Z, **fields):
    """The job of one limb over F frames, as the pipeline makes it, batch ``(F, 1)``."""
    target = np.atleast_2d(target)
    joints, rest_hinge, pole = (
        None if a is None else np.broadcast_to(a, (len(target), *np.shape(a)[-k:]))
        for a, k in ((joints, 2), (rest_hinge, 1), (pole, 1))
    )
    hinge = two_bone.fold_hinge(joints, rest_hinge, target)
    pole = None if pole is None else pole[:, None]
    return ChainJob(joints[:, None], target[:, None], hinge[:, None], pole, **fields).validated()


def carry(job, frames=None, bone=None, weight=None, memory=None):
    count = len(job.target)
    path = carried.BendPath(np.arange(count, dtype=float) if frames is None else frames, memory or {})
    bone = np.broadcast_to(np.eye(3), (count, 1, 3, 3)) if bone is None else bone
    return carried.carry(job, path, [7], bone, np.ones((count, 1)) if weight is None else weight), path


def middle_steps(result, by):
    """Largest step of the middle joint over the step of ``by`` ``(F, m, 3)`` beside it."""
    moved = np.linalg.norm(np.diff(result.joints[:, :, 1], axis=0), axis=-1)
    return (moved / np.maximum(np.linalg.norm(np.diff(by, axis=0), axis=-1), 1e-12)).max()


def roll_steps(result):
    """Largest turn of the upper bone from frame to frame, degrees."""
    turns = result.rotations[:, :, 0]
    step = np.swapaxes(turns[:-1], -1, -2) @ turns[1:]
    return np.degrees(np.arccos(np.clip((np.trace(step, axis1=-2, axis2=-1) - 1) / 2, -1, 1)).max())


def swing(past, miss, azimuth, distance, count=241, reach=60.0):
    """Targets on an arc that passes the direction ``past`` at an angle of ``miss`` degrees."""
    past = unit(past)
    side = unit(np.cross(past, X + 0.3 * Y - 0.7 * Z))
    along = np.cos(azimuth) * side + np.sin(azimuth) * np.cross(past, side)
    nearest = np.cos(np.radians(miss)) * past + np.sin(np.radians(miss)) * np.cross(past, along)
    angles = np.radians(np.linspace(-reach, reach, count))[:, None]
    return distance * (np.cos(angles) * nearest + np.sin(angles) * along)


@pytest.mark.parametrize("pole", [None, X])
def test_no_flip_past_the_singular_direction(pole):
    past = -ELBOW[2] if pole is None else pole
    cases = [
        (miss, azimuth, distance)
        for miss in (0.0, 1e-6, 0.01, 0.3, 1.0, 2.0, 3.0, 4.5, 6.0, 8.0, 10.0, 14.0, 20.0, 30.0)
        for azimuth in np.arange(0.0, 6.2, 0.7)
        for distance in (0.6, 1.3, 1.98)
    ]
    target = np.stack([swing(past, *case) for case in cases], axis=1)
    joints = np.broadcast_to(ELBOW, (*target.shape[:2], 3, 3))
    hinge = two_bone.fold_hinge(joints, np.broadcast_to(Z, target.shape), target)
    job = ChainJob(joints, target, hinge, pole).validated()
    bone, weight = np.broadcast_to(np.eye(3), joints.shape), np.ones(target.shape[:2])
    path = carried.BendPath(np.arange(float(len(target))))
    result = two_bone.solve(carried.carry(job, path, range(len(cases)), bone, weight))
    check_sound(job, result)
    assert middle_steps(result, target) <= LIMIT
    assert roll_steps(result) <= LIMIT * 0.5
    assert middle_steps(two_bone.solve(job), target) > 100.0


@pytest.mark.parametrize("pole", [None, Y])
@pytest.mark.parametrize("sideways", [0.0, 0.5, 3.0])
@pytest.mark.parametrize("amplitude", [0.5, 3.0, 8.0, 15.0, 40.0])
def test_no_flip_where_fk_passes_straight(amplitude, sideways, pole):
    bend = np.radians(amplitude * np.cos(np.linspace(0.0, 3.0 * np.pi, 181)))
    joints = np.zeros((181, 3, 3))
    joints[:, 1] = Y
    aside = np.radians(sideways)
    joints[:, 2] = Y + np.stack([np.sin(bend), np.cos(bend) * np.cos(aside), np.cos(bend) * np.sin(aside)], 1)
    target = np.broadcast_to([0.3, 1.2, 0.1], (181, 3))
    job = make_job(joints, target, pole)
    found, path = carry(job)
    assert ((path.turned[7] > 0.0) >= (found.hinge != job.hinge).any(axis=(1, 2))).all()
    result = two_bone.solve(found)
    assert middle_steps(result, joints[:, None, 2]) <= 8.0
    assert roll_steps(result) <= 1.2 * amplitude
    check_sound(job, result)
    own = two_bone.solve(job)
    sides = [np.sign(np.cross(r.joints[:, 0, 1], target)[:, 2]) for r in (result, own)]
    assert (sides[0] == sides[0][0]).all(), "the side of the first frame"
    if amplitude > 12.0 and pole is None:
        assert (sides[1] != sides[1][0]).any()


def test_the_first_frame_and_all_before_a_singular_place_are_the_own_ones_to_the_bit():
    target = swing(X, 0.0, 0.4, 1.3)
    job = make_job(ELBOW, target, X)
    found, path = carry(job)
    assert found.pole_angle[0] == 0.0
    far = angle_between(target, X) > np.radians(20.0)
    before = np.arange(len(target)) < np.argmin(far)
    assert before.sum() > 50
    assert (found.pole_angle[before] == 0.0).all() and (found.hinge == job.hinge).all()
    assert np.isclose(np.abs(found.pole_angle[far & ~before]), np.pi, atol=1e-12).all(), "the other side"
    assert (path.turned[7] == np.abs(found.pole_angle[:, 0])).all()


def test_a_path_that_comes_back_ends_as_it_began():
    there = swing(X, 0.0, 0.4, 1.3)
    target = np.concatenate([there, there[::-1]])
    found, _ = carry(make_job(ELBOW, target, X))
    assert (found.pole_angle[-100:] == 0.0).all()


def test_once_round_through_both_ends_of_the_pole_is_no_turn():
    angles = np.linspace(0.4, 0.9 + 2.0 * np.pi, 720)[:, None]
    target = 1.2 * (np.cos(angles) * X + np.sin(angles) * unit(Y + Z))
    found, _ = carry(make_job(ELBOW, target, X))
    assert np.abs(found.pole_angle[360]) == pytest.approx(np.pi, abs=1e-12)
    assert (found.pole_angle[-30:] == 0.0).all()


def test_past_the_opposite_of_fk_a_limb_goes_back_to_its_own_side():
    for miss in (3.0, 5.0, 8.0, 11.0):
        there = swing(-ELBOW[2], miss, 0.4, 1.3, reach=150.0, count=601)
        found, _ = carry(make_job(ELBOW, there))
        assert np.abs(found.pole_angle).max() > 1.0 and (found.pole_angle[-50:] == 0.0).all(), miss


def test_an_fk_pose_that_wobbles_about_straight_and_is_on_its_target_stays_as_it_is():
    angles = np.linspace(0.0, 8.0 * np.pi, 200)
    joints = np.zeros((200, 3, 3))
    joints[:, 1] = Y
    wobble = np.radians(2.0) * np.stack([np.sin(angles), 0.0 * angles, np.cos(1.7 * angles)], axis=1)
    joints[:, 2] = Y + unit(Y + wobble)
    job = make_job(joints, joints[:, 2])
    found, _ = carry(job)
    assert (found.pole_angle == 0.0).all() and (found.hinge == job.hinge).all()
    assert np.abs(two_bone.solve(found).joints[:, 0] - joints).max() <= 1e-12


def test_a_limb_with_a_pole_that_is_almost_straight_does_not_roll_over():
    """Its middle stays where it is, but a hinge that flips would turn the bones by half a turn."""
    bend = np.radians(30.0 * np.cos(np.linspace(0.0, np.pi, 121)))
    joints = np.zeros((121, 3, 3))
    joints[:, 1] = Y
    joints[:, 2] = Y + np.stack([np.sin(bend), np.cos(bend), 0.0 * bend], axis=1)
    job = make_job(joints, np.broadcast_to([0.02, 1.9999, 0.0], (121, 3)), -X)
    steps = [roll_steps(two_bone.solve(j)) for j in (job, carry(job)[0])]
    assert steps[0] > 20.0 and steps[1] < 8.0


def test_a_path_without_singular_places_stays_as_it_is_to_the_bit():
    rng = np.random.default_rng(3)
    times = np.linspace(0.0, 1.0, 120)[:, None]
    for pole in (None, Z):
        waves = sum(np.sin(2 * np.pi * k * times + rng.uniform(0, 6, 3)) * 0.15 / k for k in (1, 2, 3))
        job = make_job(ELBOW, [1.1, 0.4, 0.0] + waves, pole)
        found, path = carry(job)
        assert (found.pole_angle == job.pole_angle).all() and (found.hinge == job.hinge).all()
        assert (path.turned[7] == 0.0).all()


def test_a_pass_beside_the_pole_ends_in_the_plane_of_the_pole():
    for miss in np.linspace(0.0, 12.0, 25):
        found, _ = carry(make_job(ELBOW, swing(X, miss, 1.0, 1.3), X))
        half_turns = found.pole_angle[-1, 0] / np.pi
        assert half_turns == pytest.approx(np.rint(half_turns), abs=1e-12)


def test_an_fk_pose_that_turns_under_a_still_target_holds_nothing_back():
    """The frames that bends are seen in go with the FK limb: a body that turns on the spot, a twist."""
    angles = np.linspace(0.0, 2.0 * np.pi, 49)
    body = axis_angle_to_matrix(Y, angles)
    joints = np.einsum("fij,nj->fni", body, np.array([[0, 0, 0], [0.02, 0.5, 0], [0, 1, 0]]))
    target = np.broadcast_to([0.0, 0.8, 0.0], (49, 3))
    job = make_job(joints, target, rest_hinge=body[:, :, 2])
    found, _ = carry(job, bone=body[:, None])
    assert (found.pole_angle == 0.0).all() and (found.hinge == job.hinge).all()


def test_a_pole_that_leaps_and_a_pole_angle_that_is_keyed_are_followed():
    target = np.broadcast_to([1.2, 0.3, 0.1], (20, 3))
    pole = np.where(np.arange(20)[:, None] < 10, Z, -Z)
    assert (carry(make_job(ELBOW, target, pole))[0].pole_angle == 0.0).all()
    keyed = np.linspace(0.0, 3.0, 20)[:, None]
    assert (carry(make_job(ELBOW, target, Z, pole_angle=keyed))[0].pole_angle == keyed).all()


def test_after_a_leap_of_the_target_a_limb_starts_anew():
    target = np.concatenate([swing(X, 0.0, 0.4, 1.3), np.broadcast_to([-1.0, 0.6, 0.0], (10, 3))])
    found, _ = carry(make_job(ELBOW, target, X))
    assert (found.pole_angle[-11] != 0.0).all() and (found.pole_angle[-10:] == 0.0).all()


def test_after_a_frame_without_influence_a_limb_starts_anew():
    job = make_job(ELBOW, swing(X, 0.0, 0.4, 1.3), X)
    weight = np.ones((241, 1))
    weight[180] = 0.0
    found, _ = carry(job, weight=weight)
    assert (found.pole_angle[140:181] != 0.0).all() and (found.pole_angle[181:] == 0.0).all()


def test_batches_of_a_path_are_the_whole_path_to_the_bit():
    job = make_job(ELBOW, swing(X, 1.0, 0.4, 1.3), X)
    whole, _ = carry(job)
    memory, parts = {}, []
    for cut in (np.s_[:1], np.s_[1:100], np.s_[100:130], np.s_[130:]):
        part = replace(
            job,
            joints=job.joints[cut],
            target=job.target[cut],
            hinge=job.hinge[cut],
            pole=job.pole[cut],
            pole_angle=job.pole_angle[cut],
        )
        path = carried.BendPath(np.arange(241.0)[cut], memory)
        bone = np.broadcast_to(np.eye(3), (len(part.target), 1, 3, 3))
        parts.append(carried.carry(part, path, [7], bone, np.ones((len(part.target), 1))).pole_angle)
    assert (np.concatenate(parts) == whole.pole_angle).all()
    assert (whole.pole_angle == carry(job)[0].pole_angle).all(), "the same twice"


def test_a_batch_that_does_not_go_on_where_the_last_one_ended_starts_anew():
    job = make_job(ELBOW, swing(X, 0.0, 0.4, 1.3)[150:], X)
    memory = {}
    carried_on = carried.BendPath(np.arange(150.0), memory)
    first = make_job(ELBOW, swing(X, 0.0, 0.4, 1.3)[:150], X)
    carried.carry(first, carried_on, [7], np.broadcast_to(np.eye(3), (150, 1, 3, 3)), np.ones((150, 1)))
    ones, bone = np.ones((91, 1)), np.broadcast_to(np.eye(3), (91, 1, 3, 3))
    gap = carried.carry(job, carried.BendPath(np.arange(152.0, 243.0), dict(memory)), [7], bone, ones)
    goes_on = carried.carry(job, carried.BendPath(np.arange(150.0, 241.0), dict(memory)), [7], bone, ones)
    assert (gap.pole_angle == 0.0).all() and (goes_on.pole_angle != 0.0).all()


def test_frames_between_whole_ones_change_no_whole_one():
    fine = make_job(ELBOW, swing(X, 1.0, 0.4, 1.3), X)
    frames = np.arange(241) / 2.0
    found, _ = carry(fine, frames)
    coarse, _ = carry(make_job(ELBOW, swing(X, 1.0, 0.4, 1.3)[::2], X))
    assert (found.pole_angle[::2] == coarse.pole_angle).all()
    result = two_bone.solve(found)
    assert middle_steps(result, fine.target) <= 2.0 * LIMIT


def test_the_sampling_decides_no_side():
    for miss in (0.0, 1.0, 2.0, 5.0, 7.0):
        ends = [
            carry(make_job(ELBOW, swing(X, miss, 0.4, 1.3, count), X))[0].pole_angle[-1, 0]
            for count in (61, 121, 241, 961)
        ]
        assert np.ptp(np.cos(ends)) <= 1e-9, miss


def test_limbs_do_not_know_of_each_other():
    job = make_job(ELBOW, swing(X, 1.0, 0.4, 1.3), X)
    other = make_job(ELBOW, swing(-ELBOW[2], 0.5, 0.4, 1.3), X)
    both = ChainJob(
        *(
            np.concatenate([getattr(a, f) for a in (job, other)], axis=1)
            for f in ("joints", "target", "hinge")
        ),
        np.concatenate([job.pole, other.pole], axis=1),
        np.tile([True, False], (241, 1)),
    ).validated()
    bone = np.broadcast_to(np.eye(3), (241, 2, 3, 3))
    found = carried.carry(both, carried.BendPath(np.arange(241.0)), [1, 4], bone, np.ones((241, 2)))
    alone = [carry(job)[0], carry(replace(other, pole=None))[0]]
    for place, one in enumerate(alone):
        assert np.abs(found.pole_angle[:, place] - one.pole_angle[:, 0]).max() <= 1e-12


def test_hard_cases_are_finite():
    """Targets on the root, bones without length, FK folded onto the root, poles without length."""
    rng = np.random.default_rng(5)
    count, limbs = 400, 60
    joints = rng.normal(size=(count, limbs, 3, 3)) * rng.choice([1e-9, 1.0], (1, limbs, 1, 1))
    joints[:, :10, 1] = joints[:, :10, 0]
    joints[:, 5:20, 2] = joints[:, 5:20, 0]
    target = joints[..., 0, :] + rng.normal(size=(count, limbs, 3)) * rng.choice(
        [0.0, 1e-13, 0.1, 3.0], (count, limbs, 1)
    )
    pole = rng.normal(size=(count, limbs, 3)) * rng.choice([0.0, 1.0], (count, limbs, 1))
    hinge = two_bone.fold_hinge(joints, rng.normal(size=(count, limbs, 3)), target)
    job = ChainJob(joints, target, hinge, pole, rng.random((count, limbs)) < 0.5).validated()
    bone = np.broadcast_to(np.eye(3), (count, limbs, 3, 3))
    with np.errstate(all="raise", under="ignore"):
        found = carried.carry(
            job, carried.BendPath(np.arange(float(count))), range(limbs), bone, np.ones((count, limbs))
        )
        result = two_bone.solve(found)
    check_sound(job, result, tolerance=1e-8)
