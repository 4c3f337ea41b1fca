# SPDX-License-Identifier: GPL-3.0-or-later
"""What cannot be baked is refused before anything is changed."""

from pathlib import Path
from typing import Any

import bpy
import pytest
from bake_rig import (
    animation_state,
    bake_now,
    make_walker,
    refused,
    rotation_curves,
)


def test_refusals_come_before_any_change(walker: Any) -> None:
    refused(walker, "no chain is called 'arm.*'; there are leg.a", chains=["leg.a", "arm.*"])
    refused(walker, "last frame, 1, is before the first, 20", frames=(20, 1))
    refused(walker, "step of 1 frame or more, got 0", step=0)
    walker.data.pose_position = "REST"
    refused(walker, "rest position")
    walker.data.pose_position = "POSE"
    plain = make_walker("Plain")
    refused(plain, "no IK chains on Plain")


def test_linked_rigs_are_refused(walker: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "library.blend")
    bpy.ops.wm.save_as_mainfile(filepath=path)
    bpy.ops.wm.read_factory_settings(use_empty=True)
    with bpy.data.libraries.load(path, link=True) as (_, into):
        into.objects = ["Walker"]
    linked = into.objects[0]
    bpy.context.scene.collection.objects.link(linked)
    refused(linked, "library override")


def test_what_is_left_out_is_named(walker: Any) -> None:
    for chain, name in zip(walker.ik_chains, ("broken", "muted", "locked", "driven"), strict=True):
        chain.name = name
    walker.ik_chains["broken"].end_bone = "nobody"
    walker.ik_chains["muted"].mute = True
    rotation_curves(walker, "thigh.c")[1].lock = True
    walker.pose.bones["shin.d"].driver_add("rotation_axis_angle", 0)
    before = animation_state(walker)
    report = bake_now(walker, 1, 20)
    assert report.chains == [] and report.keys == 0
    reasons = {skipped.chain: skipped.reason for skipped in report.skipped}
    assert "'nobody' does not exist" in reasons["broken"]
    assert reasons["muted"] == "it is muted"
    assert reasons["locked"] == "a rotation curve of bone 'thigh.c' is locked"
    assert "the rotation of bone 'shin.d' has a driver" in reasons["driven"]
    assert animation_state(walker) == before


@pytest.mark.parametrize("spoil", ["mute", "modifier", "influence", "driver"])
def test_chains_that_keys_cannot_stand_in_for(walker: Any, spoil: str) -> None:
    if spoil == "mute":
        rotation_curves(walker, "thigh.a")[0].mute = True
    elif spoil == "modifier":
        rotation_curves(walker, "thigh.a")[0].modifiers.new("NOISE")
    elif spoil == "driver":
        walker.driver_add('ik_chains["leg.a"].mute').driver.expression = "frame > 10"
    else:
        walker.ik_chains["leg.a"].influence = 0.0
    report = bake_now(walker, 1, 20)
    (skipped,) = report.skipped
    words = {
        "mute": "is muted",
        "modifier": "modifier Noise",
        "influence": "its influence is 0",
        "driver": "mute is driven",
    }
    assert skipped.chain == "leg.a" and words[spoil] in skipped.reason
    assert len(report.chains) == 3 and len(rotation_curves(walker, "shin.a")) == 0
