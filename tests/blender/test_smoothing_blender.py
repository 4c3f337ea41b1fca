# SPDX-License-Identifier: GPL-3.0-or-later
"""Smoothed targets: where they are, and that a frame is a frame."""

from pathlib import Path
from typing import Any

import bpy
import numpy as np
import pytest
from bone_rigs import (
    action_curves,
    armature,
    bone_world,
    empty,
    go_to,
    head,
    pose,
    poses,
    update,
)
from smoothed import (
    CARRIERS,
    FRAMES,
    INSIDE,
    OFFSET,
    START,
    apart,
    assert_at,
    assert_unsmoothed,
    expected,
    leg,
    shake,
    wide_scene,
)

from ik_addon.blender import chains, raw
from ik_addon.blender.ranges import run, solve_range

pytestmark = pytest.mark.usefixtures("fresh")


@pytest.fixture(params=CARRIERS)
def carried(request: pytest.FixtureRequest, fresh: Any) -> tuple[Any, Any, str, str]:
    wide_scene()
    return CARRIERS[request.param]()


# Where it is


def test_the_foot_is_at_the_smoothed_target(carried: tuple[Any, Any, str, str]) -> None:
    chain = carried[0]
    for frame in INSIDE:
        wanted = expected(carried, frame)
        assert_at(bone_world(chain.id_data, "foot"), wanted)
        assert chain.status == "OK"
        # It is another place than that of the target itself.
        assert apart(wanted, expected(carried, frame, 0))[0] > 1e-3


def test_none_is_the_target_itself(carried: tuple[Any, Any, str, str]) -> None:
    chain = carried[0]
    chain.smooth_frames = 0
    assert_unsmoothed(carried)


def test_without_smoothing_poses_are_the_same_to_the_bit(
    carried: tuple[Any, Any, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = carried[0]
    chain.smooth_frames = 0
    with_it = poses(chain.id_data, INSIDE)
    monkeypatch.setattr(raw, "smooth_targets", lambda *_: None)
    assert np.array_equal(poses(chain.id_data, INSIDE), with_it)


def test_what_does_not_move_is_the_same_to_the_bit() -> None:
    """Also with keys, as a foot that is planted and held."""
    ob = armature()
    chain = leg(ob, 0, target_location=START, target_rotation=(0.9, 0.1, 0.3, 0.2))
    shake(ob.pose.bones["hips"], "location", 0.01)
    for keyed in (False, True):
        if keyed:
            for frame in (1, 10, 40):
                chain.keyframe_insert("target_location", frame=frame)
        chain.smooth_frames = 0
        before = poses(ob, INSIDE)
        chain.smooth_frames = 10
        assert np.array_equal(poses(ob, INSIDE), before)


def test_steady_motion_is_not_shifted() -> None:
    """Linear keys: between them nothing changes, at the corners the path is rounded, alike on both sides."""
    ob, goal = armature(), empty("Goal", START)
    chain = leg(ob, 0, target_space="CUSTOM", target=goal, target_location=(0, 0, 0))
    for frame, z in ((1, 0.2), (20, 0.4), (39, 0.2)):
        goal.location.z = z
        goal.keyframe_insert("location", frame=frame)
    for curve in action_curves(goal):
        for key in curve.keyframe_points:
            key.interpolation = "LINEAR"
    height = {}
    for width in (0, 4):
        chain.smooth_frames = width
        height[width] = {}
        for frame in range(1, 40):
            go_to(frame)
            height[width][frame] = head(ob, "foot")[2]
    for frame in range(1, 40):
        change = height[4][frame] - height[0][frame]
        if 5 <= frame <= 16 or 24 <= frame <= 35:
            assert abs(change) < 1e-6
        assert height[4][frame] == pytest.approx(height[4][40 - frame], abs=1e-6)
    assert max(height[4], key=height[4].__getitem__) == 20
    assert height[4][20] < height[0][20] - 0.005


def test_jitter_is_damped_as_the_window_foretells() -> None:
    """Of noise that is new on each frame, sqrt(3 / (4 (n + 1))) is left; the knee follows."""
    ob, goal = armature(), empty("Goal", START)
    chain = leg(ob, 0, target_space="CUSTOM", target=goal, target_location=(0, 0, 0), use_rotation=False)
    rng = np.random.default_rng(3)
    frames = range(1, 401)
    for frame in frames:
        goal.location = np.array(START) + 0.002 * rng.normal(size=3)
        goal.keyframe_insert("location", frame=frame)

    def spread(width: int) -> tuple[float, float]:
        chain.smooth_frames = width
        ankle, knee = [], []
        for frame in frames[20:-20]:
            go_to(frame)
            ankle.append(head(ob, "foot"))
            knee.append(head(ob, "shin"))
        return float(np.std(ankle, axis=0).mean()), float(np.std(knee, axis=0).mean())

    ankle, knee = spread(0)
    for width in (2, 6, 11):
        left = np.sqrt(0.75 / (width + 1))
        smoothed = spread(width)
        assert smoothed[0] / ankle == pytest.approx(left, rel=0.2)
        assert smoothed[1] / knee == pytest.approx(left, rel=0.3)


# A frame is a frame


def test_a_frame_has_one_pose_in_whatever_order(carried: tuple[Any, Any, str, str]) -> None:
    ob = carried[0].id_data
    frames = [*FRAMES, 12.5, 20.3, 33.75]
    forward = dict(zip(frames, poses(ob, frames), strict=True))
    mixed = list(frames)
    np.random.default_rng(5).shuffle(mixed)
    for order in (frames[::-1], mixed):
        for frame, found in zip(order, poses(ob, order), strict=True):
            assert np.array_equal(found, forward[frame]), frame


def test_an_update_of_the_frame_changes_nothing(carried: tuple[Any, Any, str, str]) -> None:
    ob = carried[0].id_data
    go_to(17)
    before = pose(ob)
    ob.update_tag()
    update()
    assert np.array_equal(pose(ob), before)


def test_a_batch_of_frames_is_what_is_live(carried: tuple[Any, Any, str, str]) -> None:
    ob = carried[0].id_data
    frames = [*FRAMES, 12.5, 33.75]
    go_to(3)
    solution = run(solve_range(bpy.context.scene, [ob], sorted(frames)))
    for frame, tip in zip(sorted(frames), solution.chains[0].tip, strict=True):
        go_to(frame)
        assert np.abs(tip - head(ob, "foot")).max() < OFFSET
    rows = {track.bone: track.rows for track in solution.bones[ob.name]}
    for place, frame in enumerate(sorted(frames)):
        go_to(frame)
        for name, row in rows.items():
            assert np.abs(row[place] - np.array(ob.pose.bones[name].ik_held_rotation[4:8])).max() < 1e-6


def test_baked_keys_hold_what_is_live(carried: tuple[Any, Any, str, str]) -> None:
    ob = carried[0].id_data
    live = poses(ob, FRAMES)
    bpy.context.view_layer.objects.active = ob
    assert bpy.ops.ik_chain.bake() == {"FINISHED"}
    assert carried[0].mute
    assert np.abs(poses(ob, FRAMES) - live).max() < OFFSET


@pytest.mark.parametrize("blur", [False, True], ids=["still", "motion blur"])
def test_a_render_shows_what_is_live(carried: tuple[Any, Any, str, str], tmp_path: Path, blur: bool) -> None:
    """What the handler writes for each frame, and each time between frames, that a render asks for."""
    import addon_utils

    addon_utils.enable("cycles", default_set=True)
    ob, scene = carried[0].id_data, bpy.context.scene
    camera = bpy.data.objects.new("Camera", bpy.data.cameras.new("Camera"))
    scene.collection.objects.link(camera)
    scene.camera, scene.world = camera, None
    scene.render.engine, scene.cycles.device, scene.cycles.samples = "CYCLES", "CPU", 1
    scene.render.resolution_x = scene.render.resolution_y = 4
    scene.render.use_motion_blur = blur
    scene.frame_start, scene.frame_end = 9, 11
    scene.render.filepath = str(tmp_path / "shot_")
    rendered: dict[float, list[tuple[float, ...]]] = {}

    def note(_scene: Any, depsgraph: Any) -> None:
        assert depsgraph.mode == "RENDER"
        rendered[depsgraph.scene.frame_current_final] = solved(ob)

    bpy.app.handlers.frame_change_post.append(note)
    try:
        bpy.ops.render.render(animation=True)
    finally:
        bpy.app.handlers.frame_change_post.remove(note)
    assert len(rendered) >= (9 if blur else 3)
    for frame, rows in rendered.items():
        go_to(frame)
        assert np.abs(np.array(solved(ob)) - rows).max() < 1e-6, frame


def solved(ob: bpy.types.Object) -> list[tuple[float, ...]]:
    return [tuple(ob.pose.bones[name].ik_held_rotation[4:8]) for name in ("thigh", "shin", "foot")]


def test_the_time_of_the_scene_may_be_stretched(carried: tuple[Any, Any, str, str]) -> None:
    ob, render = carried[0].id_data, bpy.context.scene.render
    before = poses(ob, (10, 16.5))
    render.frame_map_old, render.frame_map_new = 100, 200
    go_to(20), go_to(33)
    assert np.abs(poses(ob, (20, 33)) - before).max() < 1e-6


def test_paths_by_index_and_by_name_are_the_same(fresh: Any) -> None:
    """In any mixture, of two chains of which the second one moves."""
    ob = armature()
    chains.add(ob, "hips", "hips", name='say "leg"', solver="AIM")
    chain = leg(ob, target_location=START, name='my "leg"')
    shake(chain, "target_location", 0.01)
    shake(chain, "target_rotation", 0.05)
    before = poses(ob, INSIDE)
    for curve in action_curves(ob):
        curve.data_path = curve.data_path.replace("ik_chains[1]", 'ik_chains["my \\"leg\\""]')
    assert np.array_equal(poses(ob, INSIDE), before)
    for number, curve in enumerate(action_curves(ob)):
        if number % 2:
            curve.data_path = curve.data_path.replace('ik_chains["my \\"leg\\""]', "ik_chains[1]")
    assert np.array_equal(poses(ob, INSIDE), before)
    chains.move(ob, 1, 0)
    assert np.abs(poses(ob, INSIDE) - before).max() < 1e-6
