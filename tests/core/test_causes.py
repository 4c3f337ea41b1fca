# SPDX-License-Identifier: GPL-3.0-or-later
"""What a slide is put down to, from what was measured in a contact."""

from dataclasses import replace

import numpy as np
import pytest

from ik_addon.core.causes import Cause, Evidence, Finding, explain, likely_cause
from ik_addon.core.job import Status
from ik_addon.core.stage import ARMATURE, BONE, OBJECT, WORLD

FRAMES = 10
STILL = 1e-4
ALONG = np.outer(np.linspace(0.0, 1.0, FRAMES), [1.0, 0.0, 0.0])


def seen(**changed):
    """A tip that rests on a target that rests in the world, but for what is changed."""
    zeros = np.zeros((FRAMES, 3))
    still = Evidence(
        tip=zeros,
        target=zeros,
        space=np.tile(np.eye(4), (FRAMES, 1, 1)),
        location=zeros,
        kind=np.full(FRAMES, WORLD),
        residual=np.zeros(FRAMES),
        status=np.zeros(FRAMES, np.int8),
        extension=np.full(FRAMES, 0.9),
        influence=np.ones(FRAMES),
        softness=np.zeros(FRAMES),
        muted=np.zeros(FRAMES, bool),
    )
    return replace(still, **changed)


def off(distance, status, frames=slice(None), **changed):
    """A tip that is off its resting target on some frames, as far as on none of the others."""
    tip, residual, codes = np.zeros((FRAMES, 3)), np.zeros(FRAMES), np.zeros(FRAMES, np.int8)
    tip[frames, 0] = distance * np.linspace(0.5, 1.0, FRAMES)[frames]
    residual[:], codes[frames] = tip[:, 0], status
    return seen(tip=tip, residual=residual, status=codes, **changed)


def carried(distance, kind, by_keys=0.0):
    """A tip on a target that its space carries along, and its keys in that space, too."""
    space = np.tile(np.eye(4), (FRAMES, 1, 1))
    space[:, :3, 3] = distance * ALONG
    location = np.array([0.3, 0.0, 0.0]) + by_keys * ALONG
    target = location + space[:, :3, 3]
    return seen(tip=target, target=target, space=space, location=location, kind=np.full(FRAMES, kind))


def test_a_tip_that_rests_holds_its_place():
    assert likely_cause(seen(tip=0.9 * STILL * ALONG), STILL) == Finding(Cause.OK, 0.9 * STILL, FRAMES)


@pytest.mark.parametrize("kind", [ARMATURE, OBJECT, BONE])
def test_a_space_that_moves(kind):
    assert likely_cause(carried(0.05, kind), STILL) == Finding(
        Cause.TARGET_SPACE, pytest.approx(0.05), FRAMES, kind
    )


@pytest.mark.parametrize("kind", [WORLD, ARMATURE, BONE])
def test_keys_that_move_the_target_in_a_space_that_rests(kind):
    found = likely_cause(carried(0.0, kind, by_keys=0.05), STILL)
    assert (found.cause, found.distance) == (Cause.TARGET_KEYS, pytest.approx(0.05))


@pytest.mark.parametrize(
    ("space", "keys", "cause"), [(0.05, 0.02, Cause.TARGET_SPACE), (0.02, 0.05, Cause.TARGET_KEYS)]
)
def test_what_moves_the_target_further_counts(space, keys, cause):
    assert likely_cause(carried(space, ARMATURE, by_keys=keys), STILL).cause is cause


def test_keys_that_hold_the_target_against_its_space_are_no_cause():
    assert likely_cause(carried(0.05, ARMATURE, by_keys=-0.05), STILL).cause is Cause.OK


@pytest.mark.parametrize(
    ("status", "cause"),
    [
        (Status.TARGET_FAR, Cause.TARGET_FAR),
        (Status.TARGET_NEAR, Cause.TARGET_NEAR),
        (Status.LIMIT, Cause.LIMIT),
        (Status.INFLUENCE, Cause.INFLUENCE),
        (Status.NOT_CONVERGED, Cause.NOT_CONVERGED),
    ],
)
def test_a_tip_off_its_target(status, cause):
    found = likely_cause(off(0.02, status, slice(7, 10), extension=np.full(FRAMES, 1.1)), STILL)
    assert found == Finding(cause, pytest.approx(0.02), 3)


@pytest.mark.parametrize(
    ("extension", "softness", "cause"),
    [
        (0.99, 0.05, Cause.SOFTNESS),
        (1.0, 0.05, Cause.SOFTNESS),
        (1.001, 0.05, Cause.TARGET_FAR),
        (0.99, 0.0, Cause.TARGET_FAR),
    ],
)
def test_softness_keeps_a_tip_off_a_target_that_is_in_reach(extension, softness, cause):
    case = off(
        0.02,
        Status.TARGET_FAR,
        extension=np.full(FRAMES, extension),
        softness=np.full(FRAMES, softness),
    )
    assert likely_cause(case, STILL).cause is cause


@pytest.mark.parametrize(("muted", "cause"), [(True, Cause.MUTED), (False, Cause.INFLUENCE)])
def test_a_chain_that_does_nothing(muted, cause):
    """Also where the target, which nobody asks for, moves further than the tip is off it."""
    case = off(0.02, Status.INFLUENCE, target=9.0 * ALONG)
    idle = replace(case, influence=np.zeros(FRAMES), muted=np.full(FRAMES, muted))
    assert likely_cause(idle, STILL) == Finding(cause, pytest.approx(0.02), FRAMES)


def test_a_chain_without_influence_whose_target_goes_along_with_fk():
    idle = seen(tip=ALONG, target=ALONG, influence=np.zeros(FRAMES), muted=np.ones(FRAMES, bool))
    assert likely_cause(idle, STILL).cause is Cause.MUTED


def test_a_target_that_jumps_where_it_changes_its_space():
    """Before and after it rests, in two spaces that rest."""
    late = np.arange(FRAMES) >= 5
    target = np.where(late[:, None], [0.1, 0.0, 0.0], [0.0, 0.0, 0.0])
    case = seen(tip=target, target=target, location=target, kind=np.where(late, WORLD, ARMATURE))
    found = likely_cause(case, STILL)
    assert (found.cause, found.distance) == (Cause.TARGET_KEYS, pytest.approx(0.1))


def test_the_larger_of_two_causes_counts():
    both = replace(
        carried(0.05, ARMATURE), residual=np.full(FRAMES, 0.02), status=np.full(FRAMES, Status.LIMIT)
    )
    assert likely_cause(both, STILL).cause is Cause.TARGET_SPACE
    both = replace(both, residual=np.full(FRAMES, 0.2))
    assert likely_cause(both, STILL).cause is Cause.LIMIT


def test_a_broken_chain_is_that_before_all_else():
    broken = replace(carried(0.05, ARMATURE), status=np.array([Status.BROKEN] * 2 + [Status.OK] * 8))
    assert likely_cause(broken, STILL) == Finding(Cause.BROKEN, pytest.approx(0.05), 2)


def test_every_cause_has_its_words():
    texts = {
        cause: explain(Finding(cause, 0.0123, 3), 10, "'Door'", "no bone")
        for cause in Cause
        if cause != Cause.OK
    }
    assert len(set(texts.values())) == len(texts)
    assert all(text[0].islower() and not text.endswith(".") for text in texts.values())
    assert texts[Cause.TARGET_SPACE] == (
        "its target moves 12.300 mm in the world with the space it is stored in, 'Door'"
    )
    assert texts[Cause.TARGET_FAR] == "its target is out of reach on 3 of 10 frames, by up to 12.300 mm"
    assert texts[Cause.BROKEN] == "the chain is broken: no bone"
