# SPDX-License-Identifier: GPL-3.0-or-later
"""Paths of planted targets: still in contacts, smooth beside them, FK far from them."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ik_addon.core.contacts import Contact
from ik_addon.core.planting import EASE, MARGIN, ROOM, Ease, Hold, eased, place_of, plant, plant_rotation
from ik_addon.core.transforms import (
    axis_angle_to_quaternion,
    normalize,
    quaternion_conjugate,
    quaternion_multiply,
    quaternion_to_axis_angle,
)

RATE = 120.0
FRAMES = 240


def motion(seed, scale=0.05):
    """A smooth random path ``(F, 3)``: some waves of up to 2 Hz."""
    rng = np.random.default_rng(seed)
    time = np.arange(FRAMES) / RATE
    waves = [rng.normal(size=(1, 3)) * np.sin(2 * np.pi * (f * time + rng.uniform()))[:, None]
             for f in (0.3, 0.8, 2.0)]  # fmt: skip
    return scale * sum(waves)


def acceleration(path):
    """Lengths of the second differences, a second squared."""
    return np.linalg.norm(np.diff(path, n=2, axis=0), axis=-1) * RATE**2


seeds = st.integers(0, 2**32 - 1)
# Contacts of at least 4 frames, at least 4 frames apart.
contact_lists = st.lists(st.integers(4, 60), min_size=2, max_size=9).map(
    lambda lengths: [
        Contact(int(a), int(b) - 1)
        for a, b in zip(np.cumsum(lengths)[::2], np.cumsum(lengths)[1::2], strict=False)
        if b < FRAMES
    ]
)


# The place


def ball_case(seed, frames=30):
    rng = np.random.default_rng(seed)
    root = np.cumsum(rng.normal(scale=0.01, size=(frames, 3)), axis=0) + np.linspace(0, 0.3, frames)[:, None]
    reach = rng.uniform(0.9, 1.0, frames)
    tip = root + normalize(rng.normal(size=3) + [0.0, 0.0, -3.0]) * reach[:, None] * rng.uniform(0.95, 1.0)
    return tip, root, reach


def test_a_place_in_reach_is_the_mean():
    tip = motion(1)
    place = place_of(tip, np.array([0.0, 0.0, 0.5]) + np.zeros_like(tip), np.full(FRAMES, 5.0))
    assert np.allclose(place, tip.mean(axis=0), atol=1e-15)


@given(seeds)
def test_a_place_is_in_reach_on_all_frames(seed):
    tip, root, reach = ball_case(seed)
    place = place_of(tip, root, reach)
    assert (np.linalg.norm(place - root, axis=1) <= reach * (1.0 - ROOM) + 1e-8).all()


@given(seeds)
def test_no_place_in_reach_is_nearer_to_the_mean(seed):
    """Searched for at random: between the place and the mean, and around the place."""
    tip, root, reach = ball_case(seed)
    mean, place = tip.mean(axis=0), place_of(tip, root, reach)
    rng = np.random.default_rng(seed + 1)
    size = np.linalg.norm(place - mean)
    around = place + rng.normal(size=(4000, 3)) * size * rng.uniform(0.0, 1.0, (4000, 1))
    others = np.concatenate([around, mean + (place - mean) * np.linspace(0, 1, 50)[:, None]])
    away = np.linalg.norm(others[:, None] - root, axis=-1)
    fits = (away <= reach * (1.0 - ROOM)).all(axis=1)
    nearest = np.linalg.norm(others[fits] - mean, axis=1).min(initial=np.inf)
    assert size <= nearest + 1e-8


def test_where_no_place_is_in_reach_it_is_between():
    root = np.array([[-2.0, 0.0, 0.0], [2.0, 0.0, 0.0]])
    place = place_of(np.array([[-1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]), root, np.ones(2))
    assert np.abs(place).max() < 1e-6


# The way between


@given(seeds, contact_lists)
def test_offsets_are_held_in_contacts_and_nothing_far_from_them(seed, found):
    assume(found)
    holds = [Hold(contact, motion(seed + number)) for number, contact in enumerate(found)]
    out = eased(holds, RATE)
    far = np.ones(FRAMES, bool)
    for hold in holds:
        contact = hold.contact
        assert np.array_equal(out[contact.frames], hold.offset[contact.frames])
        reach = int(np.ceil(2 * EASE.value * RATE))
        far[max(contact.first - reach, 0) : contact.last + reach + 1] = False
    assert not out[far].any()


@given(seeds, contact_lists)
def test_offsets_are_smooth(seed, found):
    """No step of the slope is larger than the curvature of cubics of these values and slopes allows."""
    assume(found)
    holds = [Hold(contact, motion(seed + number)) for number, contact in enumerate(found)]
    out = eased(holds, RATE)
    ends = [(h, frame) for h in holds for frame in (h.contact.first, h.contact.last)]
    gaps = np.diff([FRAMES * -1.0, *[f for _, f in ends], 2.0 * FRAMES])[::2] / RATE
    short = min(gaps.min(), EASE.value)
    value = max(np.linalg.norm(h.offset[frame]) for h, frame in ends)
    slope = max(np.linalg.norm(h.slope(frame)) for h, frame in ends) * RATE
    rest = min(EASE.speed, short)
    own = max(acceleration(h.offset).max() for h in holds)
    # 6 / T^2 is the curvature of a cubic step in the time T, 4 / T that of t (1 - t / T)^2.
    bound = 2.0 * (6.0 * value / short**2 + 4.0 * slope / rest) + 2.0 * own
    assert acceleration(out).max() <= bound


@given(seeds, contact_lists)
def test_offsets_are_the_same_backward_in_time(seed, found):
    assume(found)
    holds = [Hold(contact, motion(seed + number)) for number, contact in enumerate(found)]
    back = [
        Hold(Contact(FRAMES - 1 - h.contact.last, FRAMES - 1 - h.contact.first), h.offset[::-1])
        for h in reversed(holds)
    ]
    assert np.allclose(eased(back, RATE)[::-1], eased(holds, RATE), atol=1e-12)


def test_between_near_contacts_the_offset_leads_over():
    """It never is nearer to zero than where the contacts have it."""
    holds = [
        Hold(Contact(10, 40), np.full((FRAMES, 1), 1.0)),
        Hold(Contact(80, 120), np.full((FRAMES, 1), 2.0)),
    ]
    between = eased(holds, RATE)[40:81, 0]
    assert (np.diff(between) >= 0.0).all() and between[0] == 1.0 and between[-1] == 2.0


def test_far_contacts_have_fk_between_them():
    holds = [
        Hold(Contact(10, 40), np.full((FRAMES, 1), 1.0)),
        Hold(Contact(120, 200), np.full((FRAMES, 1), 2.0)),
    ]
    out = eased(holds, RATE)[:, 0]
    frames = int(EASE.value * RATE)
    assert not out[40 + frames : 121 - frames].any() and out[40 + frames - 1] > 0.0


# The path


def limb_case(seed):
    """A root that moves above a tip, in reach."""
    tip = motion(seed)
    root = np.array([0.0, 0.0, 0.9]) + motion(seed + 1)
    return tip, root, np.full(FRAMES, 1.0)


@given(seeds, contact_lists)
def test_a_planted_target_is_one_place_in_each_contact(seed, found):
    assume(found)
    path = plant(*limb_case(seed), found, RATE)
    for contact in found:
        assert not np.ptp(path.target[contact.frames], axis=0).any()
    assert np.isfinite(path.target).all() and (path.drawn_in >= 0.0).all()


@given(seeds, contact_lists)
def test_a_planted_target_stays_in_reach(seed, found):
    """Nowhere is it further away than the limb goes, unless FK is, too."""
    assume(found)
    tip, root, reach = limb_case(seed)
    distance = np.linalg.norm(plant(tip, root, reach, found, RATE).target - root, axis=1)
    own = np.linalg.norm(tip - root, axis=1)
    assert (distance <= np.maximum(own, reach * (1.0 - MARGIN)) + 1e-5).all()


@given(seeds, contact_lists)
def test_far_from_contacts_a_planted_target_is_the_tip(seed, found):
    assume(found)
    tip, root, reach = limb_case(seed)
    target = plant(tip, root, reach, found, RATE).target
    far = np.ones(FRAMES, bool)
    frames = int(np.ceil(2 * EASE.value * RATE))
    for contact in found:
        far[max(contact.first - frames, 0) : contact.last + frames + 1] = False
    assert np.array_equal(target[far], tip[far])


@given(seeds, contact_lists, st.tuples(*[st.floats(-100.0, 100.0)] * 3), st.floats(-3.0, 3.0))
def test_a_planted_path_goes_along_when_all_is_moved_and_turned(seed, found, offset, angle):
    assume(found)
    tip, root, reach = limb_case(seed)
    c, s = np.cos(angle), np.sin(angle)
    turn = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
    moved = [rows @ turn.T + offset for rows in (tip, root)]
    before = plant(tip, root, reach, found, RATE).target
    after = plant(*moved, reach, found, RATE).target
    assert np.allclose(after, before @ turn.T + offset, atol=1e-5)


def test_a_leg_that_passes_over_its_foot():
    """The hip goes on over a foot that is flat on the ground and drags a little.

    The target rests, and leaves and meets the foot's own path with no more jerk than that takes: to
    change its speed in one time, and its place in the other.
    """
    time = np.arange(FRAMES) / RATE
    root = np.column_stack([time - 1.0, np.zeros(FRAMES), np.full(FRAMES, 0.9)])
    contact = Contact(80, 160)
    inside = np.clip(time - time[120], -40.0 / RATE, 40.0 / RATE)
    tip = np.zeros((FRAMES, 3))
    tip[:, 0] = 0.05 * np.sin(np.pi * inside / 0.67)
    outside = time - np.clip(time, time[80], time[160])
    tip[:, 0] += np.sign(outside) * 3.0 * outside**2
    tip[:, 2] = 2.0 * outside**2
    path = plant(tip, root, np.full(FRAMES, 1.2), [contact], RATE)
    moved = np.linalg.norm(path.target - tip, axis=1)
    slide = np.ptp(tip[contact.frames, 0])
    assert slide > 0.09 and not path.drawn_in.any()
    assert moved.max() < slide
    speed = np.linalg.norm(np.gradient(tip, axis=0)[[80, 160]], axis=1).max() * RATE
    needed = 4.0 * speed / EASE.speed + 6.0 * 0.5 * slide / EASE.value**2
    assert acceleration(path.target).max() < acceleration(tip).max() + needed


def test_no_contact_is_eased_in_no_time():
    """At a rate so low that a frame lasts longer than the ease, the neighbours of a contact are FK."""
    tip, root, reach = limb_case(3)
    target = plant(tip, root, reach, [Contact(5, 9)], 2.0, Ease(0.25, 0.15)).target
    assert np.array_equal(target[:5], tip[:5]) and np.array_equal(target[10:], tip[10:])


# Rotation


def turning(seed):
    vector = motion(seed, scale=0.6)
    angle = np.linalg.norm(vector, axis=1)
    base = normalize(np.random.default_rng(seed).normal(size=4))
    return quaternion_multiply(axis_angle_to_quaternion(vector / angle[:, None], angle), base)


def apart(a, b):
    return quaternion_to_axis_angle(quaternion_multiply(a, quaternion_conjugate(b)))[1]


def chords(rows, one):
    """The sum of squares that a mean rotation makes smallest."""
    return np.square(np.sin(0.5 * apart(rows, one))).sum()


@given(seeds, contact_lists)
def test_a_planted_rotation_is_held_in_contacts_and_fk_far_from_them(seed, found):
    assume(found)
    own = turning(seed)
    out = plant_rotation(own, found, RATE)
    far = np.ones(FRAMES, bool)
    frames = int(np.ceil(2 * EASE.value * RATE))
    for contact in found:
        assert not np.ptp(out[contact.frames], axis=0).any()
        far[max(contact.first - frames, 0) : contact.last + frames + 1] = False
        rows = own[contact.frames]
        assert chords(rows, out[contact.first]) <= min(chords(rows, one) for one in rows) + 1e-12
    assert np.allclose(np.linalg.norm(out, axis=1), 1.0, atol=1e-12)
    assert apart(out[far], own[far]).max(initial=0.0) < 1e-7
    assert (np.einsum("fi,fi->f", out[1:], out[:-1]) > 0.0).all()


def test_a_held_rotation_is_the_mean():
    angles = np.linspace(-0.5, 0.7, 21)
    own = axis_angle_to_quaternion(np.array([0.0, 0.0, 1.0]), angles)
    out = plant_rotation(own, [Contact(0, 20)], RATE)
    assert np.allclose(out, axis_angle_to_quaternion(np.array([0.0, 0.0, 1.0]), 0.1), atol=1e-12)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_sign_of_quaternions_does_not_matter(sign):
    own = turning(7)
    found = [Contact(30, 60)]
    assert apart(plant_rotation(sign * own, found, RATE), plant_rotation(own, found, RATE)).max() < 1e-7
