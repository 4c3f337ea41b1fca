# SPDX-License-Identifier: GPL-3.0-or-later
"""Smoothed targets while something is edited, and in files."""

import json
from pathlib import Path
from typing import Any

import bpy
import numpy as np
import pytest
from bone_rigs import (
    action_curves,
    armature,
    empty,
    go_to,
    head,
    pose,
    update,
)
from smoothed import (
    CARRIERS,
    FRAMES,
    INSIDE,
    OFFSET,
    START,
    WIDTH,
    assert_at,
    bone_world_at,
    expected,
    leg,
    shake,
    wide_scene,
)

from ik_addon.blender import config

pytestmark = pytest.mark.usefixtures("fresh")


@pytest.fixture(params=CARRIERS)
def carried(request: pytest.FixtureRequest, fresh: Any) -> tuple[Any, Any, str, str]:
    wide_scene()
    return CARRIERS[request.param]()


# Edits


def test_an_edit_without_a_key_moves_the_target(carried: tuple[Any, Any, str, str]) -> None:
    chain, owner, place, _ = carried
    ob = chain.id_data
    go_to(15)
    before, unsmoothed = head(ob, "foot"), expected(carried, 15, 0)[:3, 3]
    go_to(15)
    setattr(owner, place, np.array(getattr(owner, place)) + (0.01, -0.02, 0.03))
    update()
    moved = head(ob, "foot") - before
    chain.smooth_frames = 0
    update()
    assert np.linalg.norm(moved) > 0.01
    assert np.abs(moved - (head(ob, "foot") - unsmoothed)).max() < OFFSET
    chain.smooth_frames = WIDTH
    go_to(15)
    assert np.abs(head(ob, "foot") - before).max() < OFFSET


def test_a_key_in_the_window_that_is_edited_counts_at_once(carried: tuple[Any, Any, str, str]) -> None:
    chain, owner, place, _ = carried
    ob = chain.id_data
    go_to(15)
    before = head(ob, "foot")
    curve = next(c for c in action_curves(owner.id_data) if c.data_path.endswith(place))
    point = next(p for p in curve.keyframe_points if p.co[0] == 17)
    point.co[1] += 0.05
    curve.update()
    owner.id_data.animation_data.action.update_tag()
    update()
    after = head(ob, "foot")
    assert np.abs(after - before).max() > 0.001
    go_to(15)
    assert np.abs(head(ob, "foot") - after).max() < 1e-7


def test_a_curve_that_comes_or_goes_counts(carried: tuple[Any, Any, str, str]) -> None:
    chain, owner, place, _ = carried
    curves = action_curves(owner.id_data)
    for muted in (True, False):
        for curve in curves:
            if curve.data_path.endswith(place):
                curve.mute = muted
        assert_at(bone_world_at(chain, 20), expected(carried, 20))
    for curve in [c for c in curves if c.data_path.endswith(place)]:
        curves.remove(curve)
    assert_at(bone_world_at(chain, 20), expected(carried, 20))
    shake(owner, place, 0.01, seed=4)
    assert_at(bone_world_at(chain, 20), expected(carried, 20))


def test_the_width_may_be_keyed() -> None:
    carried = CARRIERS["empty, euler"]()
    chain = carried[0]
    for frame, width in ((1, 0), (20, 5)):
        chain.smooth_frames = width
        chain.keyframe_insert("smooth_frames", frame=frame)
    for curve in action_curves(chain.id_data):
        for key in curve.keyframe_points:
            key.interpolation = "CONSTANT"
    for frame, width in ((12, 0), (20, 5), (30, 5), (19, 0)):
        assert_at(bone_world_at(chain, frame), expected(carried, frame, width))


def test_each_chain_has_its_own_width() -> None:
    goal = empty("Goal", START)
    shake(goal, "location", 0.01)
    found = {}
    for width in (0, 2, 7):
        ob = armature(f"Rig{width}")
        chain = leg(ob, width, target_space="CUSTOM", target=goal, target_location=(0, 0, 0))
        found[width] = (chain, goal, "location", "rotation_euler")
    for width, carried in found.items():
        assert_at(bone_world_at(carried[0], 20), expected(carried, 20, width))


def test_one_number_that_is_keyed_is_smoothed_alone() -> None:
    ob, goal = armature(), empty("Goal", START)
    goal.rotation_euler = (0.2, 0.3, 0.4)
    chain = leg(ob, target_space="CUSTOM", target=goal, target_location=(0, 0, 0))
    rng = np.random.default_rng(1)
    for frame in FRAMES:
        goal.location.x, goal.rotation_euler.z = START[0] + 0.01 * rng.normal(), 0.4 + 0.1 * rng.normal()
        goal.keyframe_insert("location", index=0, frame=frame)
        goal.keyframe_insert("rotation_euler", index=2, frame=frame)
    for frame in INSIDE:
        assert_at(bone_world_at(chain, frame), expected((chain, goal, "location", "rotation_euler"), frame))


# Files


def test_it_is_a_setting_of_a_configuration() -> None:
    ob = armature()
    leg(ob, 6)
    found = config.dump([ob])["armatures"]["Rig"][0]
    assert found["smooth_frames"] == 6
    ob.ik_chains["leg"].smooth_frames = 0
    assert "smooth_frames" not in config.dump([ob])["armatures"]["Rig"][0]
    with pytest.raises(
        config.ConfigError, match="key 'smooth_frames': expected a whole number from 0 to 100"
    ):
        config.parse(text(smooth_frames=-1), "rig.json")


def text(**settings: Any) -> str:
    """A configuration of a leg."""
    leg = {"name": "leg", "root_bone": "thigh", "end_bone": "foot", "use_tail": False, **settings}
    return json.dumps({"version": 1, "armatures": {"Rig": [leg]}})


def test_adding_a_smoothed_chain_moves_nothing() -> None:
    ob, goal = armature(), empty("Goal", START)
    shake(goal, "location", 0.05)
    shake(goal, "rotation_euler", 0.3)
    go_to(20)
    before = pose(ob)
    leg(ob, target_space="CUSTOM", target=goal)
    assert np.abs(pose(ob) - before).max() < OFFSET
    given = {"use_rotation": True, "target_space": "CUSTOM", "target": "Goal", "smooth_frames": 4}
    for more in ({}, {"target_frame": 20}):
        config.apply(config.parse(text(**given, **more), "rig.json"))
        update()
        assert np.abs(pose(ob) - before).max() < OFFSET


def test_an_override_of_a_linked_rig_keeps_its_width(tmp_path: Path) -> None:
    carried = CARRIERS["empty, euler"]()
    library, shot = str(tmp_path / "library.blend"), str(tmp_path / "shot.blend")
    raw = head_at(carried[0].id_data, 20, 0)
    smooth = head_at(carried[0].id_data, 20, WIDTH)
    assert np.abs(raw - smooth).max() > 1e-3
    carried[0].smooth_frames = 0
    bpy.ops.wm.save_as_mainfile(filepath=library)
    bpy.ops.wm.read_factory_settings(use_empty=True)
    with bpy.data.libraries.load(library, link=True) as (_, loaded):
        loaded.objects = ["Rig", "Goal", "Cart"]
    for item in loaded.objects:
        bpy.context.scene.collection.objects.link(item)
    ob = bpy.data.objects["Rig"].override_create(remap_local_usages=True)
    ob.ik_chains["leg"].smooth_frames = WIDTH
    assert np.abs(head_at(ob, 20) - smooth).max() < OFFSET
    bpy.ops.wm.save_as_mainfile(filepath=shot)
    bpy.ops.wm.open_mainfile(filepath=shot)
    ob = bpy.data.objects["Rig", None]
    assert ob.ik_chains["leg"].smooth_frames == WIDTH
    assert np.abs(head_at(ob, 20) - smooth).max() < OFFSET


def head_at(ob: bpy.types.Object, frame: float, width: int | None = None) -> np.ndarray:
    if width is not None:
        ob.ik_chains["leg"].smooth_frames = width
    go_to(frame)
    return head(ob, "foot")
