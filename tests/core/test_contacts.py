# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a tip rests: paths whose contacts are known because they were made so, and what must not matter."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ik_addon.core.contacts import RULE, Contact, find, slide

RATE = 100.0
LIMB = 0.8
# A step of the swing that is faster than any threshold, in lengths of the limb a frame.
STRIDE = 0.04


def rest(frames, rise=0.0, speed=0.0):
    """A stance: steps ``(frames, 3)`` in lengths of the limb; it climbs by `rise` over all of it."""
    return np.tile([speed / RATE, 0.0, rise / max(frames, 1)], (frames, 1))


def swing(frames, lift=0.2):
    """Steps of a foot that is lifted, moved on and put down."""
    height = lift * np.sin(np.linspace(0.0, np.pi, frames + 1))
    return np.column_stack([np.full(frames, STRIDE), np.zeros(frames), np.diff(height)])


def walk(*steps):
    """A path ``(F, 3)`` from steps, one frame more than there are steps."""
    return LIMB * np.concatenate([np.zeros((1, 3)), np.cumsum(np.concatenate(steps), axis=0)])


def contacts(path, limb=LIMB, rate=RATE, rule=RULE):
    return [(c.first, c.last) for c in find(path, limb, rate, rule)]


# Known answers


def test_a_tip_that_stands_still_rests_all_the_time():
    assert contacts(walk(rest(49))) == [(0, 49)]


def test_a_walk_rests_between_its_steps():
    """The first and last frame beside a step have half of its speed, which is too fast."""
    path = walk(rest(30), swing(20), rest(30), swing(20), rest(30))
    assert contacts(path) == [(0, 29), (51, 79), (101, 130)]


def test_what_slides_slowly_rests_and_slides():
    path = walk(swing(20), rest(40, speed=0.2), swing(20))
    (contact,) = find(path, LIMB, RATE)
    assert (contact.first, contact.last, contact.count) == (21, 59, 39)
    assert slide(path[contact.frames]) == pytest.approx(38 * 0.2 / RATE * LIMB)


def test_what_slides_fast_does_not_rest():
    assert contacts(walk(swing(20), rest(40, speed=0.6), swing(20))) == []


def test_a_heel_that_rises_ends_the_contact():
    """From a frame on the tip climbs; 1.5 % of the limb above its lowest level it rests no more."""
    path = walk(swing(20), rest(40), rest(40, rise=0.04), swing(20))
    ((first, last),) = contacts(path)
    assert first == 21
    climbed = (path[last, 2] - path[40, 2]) / LIMB
    assert climbed < RULE.rise <= climbed + 0.04 / 40 + 1e-9


def test_a_tip_that_trembles_between_the_thresholds_rests_once():
    """Now faster, now slower than a speed that is enough to enter, never too fast to stay."""
    speeds = np.tile([0.2, 0.2, 0.45, 0.45], 10)
    steps = np.column_stack([speeds / RATE, np.zeros((len(speeds), 2))])
    path = walk(swing(20), steps, swing(20))
    ((first, last),) = contacts(path)
    assert (first, last) == (21, 59)


def test_never_slow_enough_to_enter_is_no_contact():
    assert contacts(walk(swing(20), rest(40, speed=0.4), swing(20))) == []


@pytest.mark.parametrize(("frames", "count"), [(4, 1), (12, 2)], ids=["short", "long"])
def test_a_short_hop_does_not_part_a_contact(frames, count):
    """The frames beside a hop are too fast, too: it takes two frames more than its steps."""
    found = contacts(walk(rest(30), swing(frames, lift=0.001), rest(30)))
    assert len(found) == count
    assert (found[0][0], found[-1][1]) == (0, 60 + frames)


@pytest.mark.parametrize(("frames", "count"), [(10, 0), (12, 1)])
def test_a_contact_lasts_a_while(frames, count):
    assert len(contacts(walk(swing(20), rest(frames), swing(20)))) == count


def test_what_rests_high_up_touches_nothing():
    up = np.tile([STRIDE, 0.0, 0.01], (20, 1))
    assert contacts(walk(rest(30), up, rest(30))) == [(0, 29)]


def test_a_stray_far_below_the_floor_does_not_lower_it():
    path = walk(rest(60), swing(20), rest(60))
    path[70, 2] -= LIMB
    assert contacts(path) == [(0, 59), (81, 140)]


def test_the_rate_counts_seconds():
    """Half as many frames a second: the same path is half as fast, and lasts twice as long."""
    path = walk(swing(20), rest(40, speed=0.6), swing(20))
    assert contacts(path) == []
    assert contacts(path, rate=RATE / 2) == [(21, 59)]


@pytest.mark.parametrize(
    ("path", "limb"),
    [
        (np.zeros((1, 3)), LIMB),
        (np.zeros((0, 3)), LIMB),
        (np.zeros((50, 3)), 0.0),
        (np.zeros((50, 3)), np.nan),
        (np.full((50, 3), np.nan), LIMB),
        (np.where(np.arange(50)[:, None] == 7, np.inf, np.zeros((50, 3))), LIMB),
    ],
    ids=["one frame", "no frame", "no limb", "limb is no number", "no numbers", "one that is infinite"],
)
def test_nothing_to_find(path, limb):
    assert find(path, limb, RATE) == []


# What must not matter

speeds = st.floats(0.0, 1.5)
parts = st.lists(
    st.one_of(
        st.builds(rest, st.integers(3, 40), st.floats(-0.03, 0.03), speeds),
        st.builds(swing, st.integers(3, 25), st.floats(0.0, 0.4)),
    ),
    min_size=1,
    max_size=7,
)
paths = st.builds(lambda found: walk(*found), parts)


@given(paths)
def test_backward_in_time(path):
    last = len(path) - 1
    assert contacts(path[::-1]) == [(last - b, last - a) for a, b in reversed(contacts(path))]


@given(paths, st.lists(st.integers(-64, 64), min_size=3, max_size=3))
def test_moved_elsewhere(path, offset):
    """By whole numbers: the path is a multiple of 2^-20 before, so that nothing is rounded."""
    path = np.round(path * 2.0**20) / 2.0**20
    assert contacts(path + np.array(offset, float)) == contacts(path)


@given(paths, st.integers(-6, 10))
def test_of_another_size(path, power):
    assert contacts(path * 2.0**power, LIMB * 2.0**power) == contacts(path)


@given(paths, st.sampled_from([(0, 1), (-1, 0), (0, -1), (0.6, 0.8), (-0.28, 0.96)]))
def test_turned_about_the_vertical(path, direction):
    c, s = direction
    turned = path @ np.array([[c, s, 0.0], [-s, c, 0.0], [0.0, 0.0, 1.0]])
    assert contacts(turned) == contacts(path)


@given(paths)
def test_contacts_are_apart_and_in_order(path):
    found = find(path, LIMB, RATE)
    assert all(0 <= c.first <= c.last < len(path) and c.count >= RULE.shortest * RATE for c in found)
    assert all(b.first - a.last - 1 > RULE.gap * RATE for a, b in zip(found, found[1:], strict=False))


# Slides

points = st.lists(st.tuples(*[st.floats(-10.0, 10.0)] * 3), min_size=1, max_size=40).map(np.array)


@given(points)
def test_a_slide_is_the_largest_distance_of_all_pairs(found):
    pairs = np.linalg.norm(found[:, None] - found[None], axis=-1)
    assert slide(found) == pytest.approx(pairs.max(), abs=1e-12)


def test_a_slide_of_many_frames_looks_at_few_pairs():
    """A character that stands for a minute: the slide is that of the two places that are far apart."""
    rng = np.random.default_rng(0)
    found = rng.normal(scale=1e-3, size=(7200, 3))
    found[100], found[7000] = (1.0, 0.0, 0.0), (-1.0, 0.0, 0.0)
    assert slide(found) == 2.0


def test_a_contact_has_a_slice_of_its_frames():
    contact = Contact(3, 5)
    assert contact.count == 3 and list(range(10))[contact.frames] == [3, 4, 5]
