# SPDX-License-Identifier: GPL-3.0-or-later
"""Bakes of rigs with NLA strips."""

from typing import Any

import bpy
import numpy as np
from bake_rig import (
    FRAMES,
    SAME,
    animation_state,
    bake_now,
    nla_state,
    poses,
    refused,
)

from ik_addon.blender import bake


def push_down(ob: Any) -> Any:
    """The action of `ob` as a strip on a new track."""
    data = ob.animation_data
    action, slot = data.action, getattr(data, "action_slot", None)
    data.action = None
    strip = data.nla_tracks.new().strips.new("walk", 1, action)
    if slot is not None and strip.action_slot is None:
        strip.action_slot = slot
    strip.frame_end = 20
    return strip


def test_over_nla_strips(walker: Any) -> None:
    strip = push_down(walker)
    strip.influence = 0.8
    before, live, strips = animation_state(walker), poses(walker, FRAMES), nla_state(walker)
    bake_now(walker, 1, 20)
    assert nla_state(walker) == strips
    assert np.abs(poses(walker, FRAMES) - live).max() <= SAME
    bake.unbake([walker])
    assert animation_state(walker) == before
    assert np.abs(poses(walker, FRAMES) - live).max() <= SAME


def test_a_mute_that_a_strip_keys_is_keyed_over_it(stander: Any) -> None:
    """Setting the property would be undone by the strip."""
    chain = stander.ik_chains[0]
    for frame, mute in ((1, False), (12, True)):
        chain.mute = mute
        chain.keyframe_insert("mute", frame=frame)
    push_down(stander)
    before, live = animation_state(stander), poses(stander, FRAMES)
    bake_now(stander, 1, 20)
    assert np.abs(poses(stander, FRAMES) - live).max() <= SAME
    for frame in (3, 18):
        bpy.context.scene.frame_set(frame)
        assert chain.mute
    bake.unbake([stander])
    now = animation_state(stander)
    assert {**now, "mutes": 0} == {**before, "mutes": 0}
    assert np.abs(poses(stander, FRAMES) - live).max() <= SAME


def test_a_part_over_nla_strips_says_what_happens_beside_it(walker: Any) -> None:
    push_down(walker)
    live = poses(walker, FRAMES)
    report = bake_now(walker, 8, 13)
    assert np.abs(poses(walker, FRAMES) - live)[7:13].max() <= SAME
    (note,) = report.notes
    assert "thigh.a, thigh.c" in note and "thigh.b" not in note
    outside = poses(walker, FRAMES)[13:]
    legs = [i for i, bone in enumerate(walker.pose.bones) if bone.name.startswith("foot")]
    assert np.abs(outside[:, legs, :3, 3] - live[13:, legs, :3, 3]).max() < 1e-5, "the chains go on"


def test_the_action_of_a_strip_is_not_written_to(walker: Any) -> None:
    """The same action on a strip and on top of it: the strip plays what it played."""
    data = walker.animation_data
    action, slot = data.action, getattr(data, "action_slot", None)
    push_down(walker)
    data.action = action
    if slot is not None:
        data.action_slot = slot
    strips, live = nla_state(walker), poses(walker, FRAMES)
    bake_now(walker, 1, 20)
    assert nla_state(walker) == strips
    assert np.abs(poses(walker, FRAMES) - live).max() <= SAME


def test_blended_actions_and_solo_tracks_are_refused(walker: Any) -> None:
    push_down(walker)
    data = walker.animation_data
    data.action_influence = 0.5
    refused(walker, "influence 0.5 over the NLA strips")
    data.action_influence = 1.0
    data.action_blend_type = "ADD"
    refused(walker, "Add at influence 1")
    data.action_blend_type = "REPLACE"
    data.nla_tracks[0].is_solo = True
    refused(walker, "solo")
