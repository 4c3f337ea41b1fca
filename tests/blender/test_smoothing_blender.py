# SPDX-License-Identifier: GPL-3.0-or-later
"""Smoothed targets: where they are, that a frame is a frame, and what is left as it moves.

Where a smoothed target has to be is computed from what Blender evaluates on the other frames, by the
formula of the window and nothing of the add-on.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import bpy
import numpy as np
import pytest
from bone_rigs import (
    LEG,
    action_curves,
    armature,
    bone_world,
    edit_mode,
    empty,
    evaluated,
    go_to,
    head,
    pose,
    poses,
    update,
    world,
)

from ik_addon.blender import chains, config, raw
from ik_addon.blender.own_curves import OwnCurves
from ik_addon.blender.ranges import run, solve_range
from ik_addon.core.transforms import rotation_part

pytestmark = pytest.mark.usefixtures("fresh")

FRAMES = range(1, 41)
INSIDE = (8, 15, 20, 27.25, 32)
WIDTH = 3
# Metres and radians: Blender keeps channels and poses in float32.
OFFSET, ANGLE = 5e-6, 1e-5
START = (0.13, -0.12, 0.32)
WITH_CONTROL = (
    *LEG,
    ("root", "", (0.0, 0.0, 0.0), (0.0, 0.3, 0.0)),
    ("control", "root", START, (0.13, 0.1, 0.4)),
)


def shake(owner: Any, prop: str, size: float, seed: int = 0, frames: Iterable[int] = FRAMES) -> None:
    """Key noise on each frame, on top of a slow motion."""
    rng = np.random.default_rng(seed)
    start = np.array(getattr(owner, prop), float)
    for frame in frames:
        slow = 0.5 * size * np.sin(0.1 * frame + np.arange(len(start)))
        setattr(owner, prop, start + slow + size * rng.normal(size=len(start)))
        owner.keyframe_insert(prop, frame=frame)


def leg(ob: bpy.types.Object, smooth_frames: int = WIDTH, **settings: Any) -> Any:
    """A chain whose foot takes the target's rotation, too."""
    defaults = {"name": "leg", "use_tail": False, "use_rotation": True, "smooth_frames": smooth_frames}
    chain = chains.add(ob, "thigh", "foot", **{**defaults, **settings})
    update()
    return chain


def wide_scene() -> None:
    scene = bpy.context.scene
    scene.frame_start, scene.frame_end = FRAMES[0], FRAMES[-1]


# What carries the motion: each makes a chain, and tells its chain, the owner and the names of the channels


def by_offset(space: str) -> Callable[[], tuple[Any, Any, str, str]]:
    def make() -> tuple[Any, Any, str, str]:
        ob = armature()
        ob.location, ob.rotation_euler = (0.2, 0.1, 0.0), (0.1, 0.2, 0.5)
        inverse = np.linalg.inv(world(ob)) if space == "ARMATURE" else np.eye(4)
        update()
        place = np.array(head(ob, "foot")) + (0.0, -0.1, 0.15)
        local = inverse[:3, :3] @ place + inverse[:3, 3]
        chain = leg(ob, target_space=space, target_location=local, target_rotation=(0.9, 0.1, 0.3, 0.2))
        shake(chain, "target_location", 0.01)
        shake(chain, "target_rotation", 0.05)
        return chain, chain, "target_location", "target_rotation"

    return make


def by_empty(
    mode: str,
    scale: Sequence[float] = (1.0, 1.0, 1.0),
    offset: Sequence[float] = (0.0, 0.0, 0.0),
    deltas: bool = False,
) -> Callable[[], tuple[Any, Any, str, str]]:
    def make() -> tuple[Any, Any, str, str]:
        ob, goal, cart = armature(), empty("Goal", START), empty("Cart", (0.02, 0.01, 0.0))
        ob.rotation_euler = (0.05, 0.1, 0.3)
        goal.parent, goal.scale, goal.rotation_mode = cart, scale, mode
        cart.rotation_euler, cart.scale = (0.1, 0.05, -0.2), (1.1, 1.1, 1.1)
        if deltas:
            goal.delta_location, goal.delta_scale = (0.02, -0.01, 0.03), (0.8, 1.2, 1.0)
            goal.delta_rotation_euler = goal.delta_rotation_quaternion.to_euler()
            goal.delta_rotation_quaternion, goal.delta_rotation_euler = (
                (0.9, 0.1, 0.3, -0.2),
                (0.4, -0.3, 0.2),
            )
        name = {"QUATERNION": "rotation_quaternion", "AXIS_ANGLE": "rotation_axis_angle"}.get(
            mode, "rotation_euler"
        )
        setattr(
            goal,
            name,
            {"QUATERNION": (0.9, 0.2, 0.1, 0.3), "AXIS_ANGLE": (0.6, 0.2, 1.0, 0.3)}.get(
                mode, (0.3, -0.4, 0.6)
            ),
        )
        chain = leg(
            ob,
            target_space="CUSTOM",
            target=goal,
            target_location=offset,
            target_rotation=(0.9, 0.3, 0.1, 0.2),
        )
        shake(goal, "location", 0.01)
        shake(goal, name, 0.05)
        return chain, goal, "location", name

    return make


def by_bone(mode: str) -> Callable[[], tuple[Any, Any, str, str]]:
    def make() -> tuple[Any, Any, str, str]:
        ob = armature(bones=WITH_CONTROL)
        ob.scale, ob.rotation_euler = (0.5, 0.5, 0.5), (0.1, 0.2, 0.3)
        bone = ob.pose.bones["control"]
        bone.rotation_mode = mode
        ob.pose.bones["root"].rotation_quaternion = (1.0, 0.02, 0.05, 0.03)
        name = {"QUATERNION": "rotation_quaternion", "AXIS_ANGLE": "rotation_axis_angle"}.get(
            mode, "rotation_euler"
        )
        chain = leg(
            ob,
            target_space="CUSTOM",
            target=ob,
            subtarget="control",
            target_location=(0, 0, 0),
            target_rotation=(0.9, 0.3, 0.1, 0.2),
        )
        shake(bone, "location", 0.01)
        shake(bone, name, 0.05)
        return chain, bone, "location", name

    return make


CARRIERS = {
    "world": by_offset("WORLD"),
    "armature": by_offset("ARMATURE"),
    "empty, quaternion": by_empty("QUATERNION"),
    "empty, euler": by_empty("ZXY", (2.0, 2.0, 2.0), (0.01, 0.005, -0.01)),
    "empty, axis and angle": by_empty("AXIS_ANGLE", (0.5, 0.5, 0.5), (0.02, 0.0, 0.0)),
    "empty, uneven": by_empty("XYZ", (2.0, 0.5, 1.0), (0.01, 0.02, -0.01)),
    "empty, mirrored": by_empty("XYZ", (-1.0, 1.5, 1.0), (0.01, 0.02, -0.01)),
    "empty, with deltas": by_empty("QUATERNION", (1.0, 2.0, 1.0), (0.01, 0.02, -0.01), deltas=True),
    "bone, quaternion": by_bone("QUATERNION"),
    "bone, euler": by_bone("YXZ"),
}


@pytest.fixture(params=CARRIERS)
def carried(request: pytest.FixtureRequest, fresh: Any) -> tuple[Any, Any, str, str]:
    wide_scene()
    return CARRIERS[request.param]()


def channels(owner: Any, place: str, turn: str) -> tuple[np.ndarray, np.ndarray]:
    """Location and unit quaternion of evaluated channels."""
    seen = evaluated(owner.id_data)
    seen = seen.path_resolve(owner.path_from_id()) if owner != owner.id_data else seen
    value = getattr(seen, turn)
    if turn == "rotation_axis_angle":
        quaternion = np.array(
            [np.cos(value[0] / 2), *(np.sin(value[0] / 2) * np.array(value[1:]) / np.linalg.norm(value[1:]))]
        )
    elif turn == "rotation_euler":
        quaternion = np.array(value.to_quaternion())
    else:
        quaternion = np.array(value) / np.linalg.norm(value)
    return np.array(getattr(seen, place), float), quaternion


def expected(carrier: tuple[Any, Any, str, str], frame: float, half_width: int = WIDTH) -> np.ndarray:
    """World matrix ``(4, 4)`` of the foot on a frame: its place, and its rotation as the solve takes it."""
    chain, owner, place, turn = carrier
    k = np.arange(-half_width, half_width + 1)
    weights = np.cos(np.pi * k / (2 * half_width + 2)) ** 2
    weights /= weights.sum()
    samples = []
    for step in k:
        go_to(frame + step)
        samples.append(channels(owner, place, turn))
    location = weights @ np.array([sample[0] for sample in samples])
    turns = np.array([sample[1] for sample in samples])
    turns *= np.where(turns @ turns[half_width] < 0.0, -1.0, 1.0)[:, None]
    quaternion = weights @ turns
    go_to(frame)
    ob = chain.id_data
    if owner == chain:
        space, offset, own_turn = (
            (np.eye(4) if chain.target_space == "WORLD" else world(ob)),
            location,
            quaternion,
        )
    else:
        space, offset, own_turn = (
            smoothed_matrix(owner, location, quaternion),
            chain.target_location,
            chain.target_rotation,
        )
    own = np.linalg.inv(world(ob)) @ space
    out = world(ob).copy()
    out[:3, :3] = out[:3, :3] @ rotation_part(own) @ matrix_of(own_turn)
    out[:3, 3] = space[:3, :3] @ np.array(offset, float) + space[:3, 3]
    return out


def matrix_of(quaternion: Any) -> np.ndarray:
    from mathutils import Quaternion

    return np.array(Quaternion(quaternion).normalized().to_matrix(), float)


def smoothed_matrix(owner: Any, location: np.ndarray, quaternion: np.ndarray) -> np.ndarray:
    """World matrix of an object or bone with these channels, as Blender composes it."""
    seen = evaluated(owner.id_data)
    if owner != owner.id_data:
        bone = seen.pose.bones[owner.name]
        rest = np.linalg.inv(np.array(bone.parent.bone.matrix_local)) @ np.array(bone.bone.matrix_local)
        above = world(owner.id_data) @ np.array(bone.parent.matrix, float) @ rest
        return above @ affine(location, matrix_of(quaternion) * np.array(bone.scale))
    delta = (
        owner.delta_rotation_quaternion
        if owner.rotation_mode == "QUATERNION"
        else owner.delta_rotation_euler.to_quaternion()
    )
    turn = matrix_of(delta) @ matrix_of(quaternion)
    scale = np.array(owner.scale) * np.array(owner.delta_scale)
    above = world(owner.parent) @ np.array(owner.matrix_parent_inverse, float) if owner.parent else np.eye(4)
    return above @ affine(location + np.array(owner.delta_location), turn * scale)


def affine(location: np.ndarray, linear: np.ndarray) -> np.ndarray:
    out = np.eye(4)
    out[:3, :3], out[:3, 3] = linear, location
    return out


def apart(found: np.ndarray, wanted: np.ndarray) -> tuple[float, float]:
    """Distance, and largest sine between axes."""
    a, b = (m[:3, :3] / np.linalg.norm(m[:3, :3], axis=0) for m in (found, wanted))
    return float(np.linalg.norm(found[:3, 3] - wanted[:3, 3])), float(
        np.linalg.norm(np.cross(a.T, b.T), axis=1).max()
    )


def assert_at(found: np.ndarray, wanted: np.ndarray) -> None:
    moved, turned = apart(found, wanted)
    assert moved < OFFSET
    assert turned < ANGLE


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


def bone_world_at(chain: Any, frame: float) -> np.ndarray:
    go_to(frame)
    return bone_world(chain.id_data, "foot")


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


# What is left as it moves


def assert_unsmoothed(carried: tuple[Any, Any, str, str]) -> None:
    for frame in INSIDE:
        assert_at(bone_world_at(carried[0], frame), expected(carried, frame, 0))


def shaken_empty(**settings: Any) -> tuple[Any, Any, str, str]:
    ob, goal = armature(), empty("Goal", START)
    shake(goal, "location", 0.01)
    chain = leg(ob, target_space="CUSTOM", target=goal, **{"target_location": (0, 0, 0), **settings})
    return chain, goal, "location", "rotation_euler"


def test_an_empty_with_a_constraint_is_left() -> None:
    carried = shaken_empty()
    constraint = carried[1].constraints.new("LIMIT_LOCATION")
    for frame in INSIDE:
        go_to(frame)
        assert np.abs(head(carried[0].id_data, "foot") - world(carried[1])[:3, 3]).max() < OFFSET
    constraint.mute = True
    assert_at(bone_world_at(carried[0], 20), expected(carried, 20))


def test_a_driven_location_is_left_and_the_rotation_is_not() -> None:
    carried = shaken_empty()
    goal = carried[1]
    shake(goal, "rotation_euler", 0.1)
    curve = goal.driver_add("location", 0)
    curve.driver.type, curve.driver.expression = "SCRIPTED", "0.13 + 0.01 * (frame % 2)"
    for frame in INSIDE:
        place = expected(carried, frame, 0)[:3, 3]
        assert np.abs(bone_world_at(carried[0], frame)[:3, 3] - place).max() < OFFSET
        turned = apart(bone_world_at(carried[0], frame), expected(carried, frame))[1]
        assert turned < ANGLE


def test_strips_are_left_and_an_action_on_top_of_them_is_not() -> None:
    carried = shaken_empty()
    goal = carried[1]
    data = goal.animation_data
    action, slot = data.action, getattr(data, "action_slot", None)
    strip = data.nla_tracks.new().strips.new("shake", 1, action)
    if slot is not None:
        strip.action_slot = slot
    data.action = None
    assert_unsmoothed(carried)
    data.action = action
    if slot is not None:
        data.action_slot = slot
    assert_at(bone_world_at(carried[0], 20), expected(carried, 20))
    data.action_influence = 0.5
    assert_unsmoothed(carried)
    data.action_influence, data.action_blend_type = 1.0, "ADD"
    go_to(20)
    # Far away, it is what the residual is measured to.
    gap = np.linalg.norm(head(carried[0].id_data, "foot") - world(goal)[:3, 3])
    assert carried[0].residual == pytest.approx(gap, abs=1e-5)


def test_an_action_that_is_tweaked_inside_a_strip_is_left() -> None:
    """Its frames are those of the strip, which may be stretched."""
    carried = shaken_empty()
    data = carried[1].animation_data
    track = data.nla_tracks.new()
    strip = track.strips.new("shake", 1, data.action)
    if hasattr(data, "action_slot"):
        strip.action_slot = data.action_slot
    data.action = None
    strip.scale, strip.select, track.select = 2.0, True, True
    data.nla_tracks.active = track
    data.use_tweak_mode = True
    assert data.use_tweak_mode and data.action is not None
    assert_unsmoothed(carried)


def test_a_curve_that_was_given_another_path_is_not_taken_for_the_old_one() -> None:
    """Also where no update came between: the places of curves are remembered."""
    goal = empty("Goal", START)
    shake(goal, "location", 0.01)
    assert [curve.array_index for curve in OwnCurves(goal).find(("location",), 3)] == [0, 1, 2]
    action_curves(goal)[1].data_path = "scale"
    before = [curve.data_path for curve in action_curves(goal)]
    found = OwnCurves(goal).find(("location",), 3)
    assert before == ["location", "scale", "location"]
    assert [curve and curve.data_path for curve in found] == ["location", None, "location"]
    assert [curve and curve.data_path for curve in OwnCurves(goal).find(("scale",), 3)] == [
        None,
        "scale",
        None,
    ]


def test_a_parent_is_left() -> None:
    """Its motion is that of the space: the target is at the same place in it."""
    carried = shaken_empty()
    cart = empty("Cart")
    carried[1].parent = cart
    shake(cart, "location", 0.02, seed=8)
    for frame in INSIDE:
        assert_at(bone_world_at(carried[0], frame), expected(carried, frame))


def test_a_foot_that_is_planted_in_the_world_stays_under_a_moving_body() -> None:
    ob = armature()
    leg(ob, 8, target_location=START)
    shake(ob.pose.bones["hips"], "location", 0.02)
    shake(ob, "location", 0.02, seed=2)
    for frame in INSIDE:
        go_to(frame)
        assert np.abs(head(ob, "foot") - START).max() < OFFSET


def test_a_hand_stays_on_the_hip_of_a_moving_character() -> None:
    """In the space of the armature, and in that of the bone."""
    ob = armature(bones=WITH_CONTROL)
    chain = leg(ob, 8, target_space="ARMATURE", target_location=START)
    shake(ob, "location", 0.05)
    shake(ob, "rotation_euler", 0.1)
    shake(ob.pose.bones["root"], "location", 0.02)
    for space in ("ARMATURE", "CUSTOM"):
        chain.target_space, chain.target, chain.subtarget = space, ob, "root"
        update()
        inverse = np.linalg.inv(bone_world(ob, "root") if space == "CUSTOM" else world(ob))
        place = head(ob, "foot")
        chain.target_location = inverse[:3, :3] @ place + inverse[:3, 3]
        for frame in INSIDE:
            go_to(frame)
            held = bone_world(ob, "root") if space == "CUSTOM" else world(ob)
            wanted = held[:3, :3] @ np.array(chain.target_location) + held[:3, 3]
            assert np.abs(head(ob, "foot") - wanted).max() < OFFSET
        assert chain.status == "OK"


@pytest.mark.parametrize("kind", ["mesh", "empty with children"])
def test_a_hand_stays_on_a_moving_door(kind: str) -> None:
    ob = armature()
    door = bpy.data.objects.new("Door", bpy.data.meshes.new("Door") if kind == "mesh" else None)
    bpy.context.scene.collection.objects.link(door)
    if kind != "mesh":
        empty("Leaf").parent = door
    chain = leg(ob, 8, target_space="CUSTOM", target=door, target_location=START)
    shake(door, "location", 0.02)
    shake(door, "rotation_euler", 0.05)
    # What the target does on the door is smoothed.
    shake(chain, "target_location", 0.01, seed=3)
    for frame in INSIDE:
        wanted = expected((chain, chain, "target_location", "target_rotation"), frame, 8)
        on_door = world(door)[:3, :3] @ wanted[:3, 3] + world(door)[:3, 3]
        assert np.abs(bone_world_at(chain, frame)[:3, 3] - on_door).max() < OFFSET


def test_a_thing_that_is_the_target_is_smoothed() -> None:
    """A ball that is reached for: the target has no offset in it."""
    ob, ball = armature(), bpy.data.objects.new("Ball", bpy.data.meshes.new("Ball"))
    bpy.context.scene.collection.objects.link(ball)
    ball.location = START
    chain = leg(ob, target_space="CUSTOM", target=ball, target_location=(0, 0, 0))
    shake(ball, "location", 0.01)
    carried = (chain, ball, "location", "rotation_euler")
    assert_at(bone_world_at(chain, 20), expected(carried, 20))
    chain.target_location = (0.0, 0.0, 0.01)
    assert_unsmoothed(carried)


@pytest.mark.parametrize(
    "what", ["deforms", "has a child", "inherits no rotation", "has a constraint", "is connected"]
)
def test_which_bones_are_smoothed(what: str) -> None:
    """With an offset in them."""
    ob = armature(bones=WITH_CONTROL)
    bone = ob.pose.bones["control"]
    shake(bone, "location", 0.01)
    chain = leg(ob, target_space="CUSTOM", target=ob, subtarget="control", target_location=(0.01, 0.0, 0.0))
    carried = (chain, bone, "location", "rotation_quaternion")
    ob.data.bones["control"].use_deform = False
    assert_at(bone_world_at(chain, 20), expected(carried, 20))
    if what == "deforms":
        ob.data.bones["control"].use_deform = True
    elif what == "has a child":
        held = empty("Held")
        held.parent, held.parent_type, held.parent_bone = ob, "BONE", "control"
    elif what == "inherits no rotation":
        ob.data.bones["control"].use_inherit_rotation = False
    elif what == "has a constraint":
        bone.constraints.new("LIMIT_SCALE")
    elif what == "is connected":
        with edit_mode(ob) as bones:
            bones["root"].tail = bones["control"].head
            bones["control"].use_connect = True
    for frame in INSIDE:
        go_to(frame)
        matrix = bone_world(ob, "control")
        wanted = matrix[:3, :3] @ np.array((0.01, 0.0, 0.0)) + matrix[:3, 3]
        assert np.abs(head(ob, "foot") - wanted).max() < OFFSET


def test_a_control_bone_that_a_chain_turns_is_left() -> None:
    ob = armature(bones=WITH_CONTROL)
    bone = ob.pose.bones["control"]
    shake(bone, "location", 0.01)
    look = chains.add(ob, "control", "control", name="look", solver="AIM", target_location=(0.0, -3.0, 0.3))
    chain = leg(
        ob,
        target_space="CUSTOM",
        target=ob,
        subtarget="control",
        target_location=(0, 0, 0),
        use_rotation=False,
    )
    for frame in INSIDE:
        go_to(frame)
        assert np.abs(head(ob, "foot") - head(ob, "control")).max() < OFFSET
    chains.remove(ob, ob.ik_chains.find(look.name))
    carried = (ob.ik_chains["leg"], bone, "location", "rotation_quaternion")
    wanted = expected(carried, 20)[:3, 3]
    assert np.abs(bone_world_at(ob.ik_chains["leg"], 20)[:3, 3] - wanted).max() < OFFSET
    assert chain is not None


@pytest.mark.parametrize("scale", [(0.0, 0.0, 0.0), (1.0, 0.0, 1.0)])
def test_an_empty_without_size_is_left(scale: tuple[float, float, float]) -> None:
    carried = shaken_empty()
    carried[1].scale = scale
    for frame in INSIDE:
        go_to(frame)
        assert np.abs(head(carried[0].id_data, "foot") - world(carried[1])[:3, 3]).max() < OFFSET


def test_the_window_does_not_reach_over_a_switch_of_space() -> None:
    """Beside a switch it is narrower, and on its frames the target is where it is."""
    ob = armature()
    ob.location = (3.0, 0.0, 0.0)
    update()
    chain = leg(ob, 5)
    here = head(ob, "foot") + (0.0, -0.1, 0.1)
    items = {"WORLD": here, "ARMATURE": here - (3.0, 0.0, 0.0)}
    rng = np.random.default_rng(6)
    for frame in FRAMES:
        space = "WORLD" if frame < 20 else "ARMATURE"
        chain.target_space, chain.target_location = space, items[space] + 0.01 * rng.normal(size=3)
        chain.keyframe_insert("target_space", frame=frame)
        chain.keyframe_insert("target_location", frame=frame)
    carried = (chain, chain, "target_location", "target_rotation")
    for frame, width in (
        (10, 5),
        (14, 5),
        (15, 4),
        (18, 1),
        (19, 0),
        (20, 0),
        (21, 1),
        (24, 4),
        (25, 5),
        (30, 5),
    ):
        assert_at(bone_world_at(chain, frame), expected(carried, frame, width))


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
