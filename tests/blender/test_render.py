# SPDX-License-Identifier: GPL-3.0-or-later
"""Cycles renders the solved pose of each frame, in whatever order the frames come."""

from pathlib import Path
from typing import Any

import bpy
import numpy as np
import pytest
from bone_rigs import armature, empty

from ik_addon.blender import chains

SIZE = 24
# The picture shows X and Z from -0.6 to 0.6 about the point (0.1, 0.5).
WIDTH = 1.2
CENTRE = (0.1, 0.5)
HEIGHTS = {1: 0.15, 2: 0.45, 3: 0.3}


@pytest.fixture
def scene(fresh: Any, tmp_path: Path) -> bpy.types.Scene:
    """A lamp on the foot of a leg that a keyed target lifts, seen from the front without perspective."""
    import addon_utils

    addon_utils.enable("cycles", default_set=True)
    scene = bpy.context.scene
    ob = armature()
    goal = empty("Goal")
    for frame, z in HEIGHTS.items():
        goal.location = (0.1, -0.15, z)
        goal.keyframe_insert("location", frame=frame)
    goal.hide_viewport = goal.hide_render = True
    chains.add(
        ob,
        "thigh",
        "foot",
        name="leg",
        use_tail=False,
        target_space="CUSTOM",
        target=goal,
        target_location=(0, 0, 0),
    )
    lamp = bpy.data.objects.new("Lamp", ball(0.06))
    scene.collection.objects.link(lamp)
    lamp.parent, lamp.parent_type, lamp.parent_bone = ob, "BONE", "foot"
    # A bone's children stand at its tail.
    lamp.location = (0.0, -ob.data.bones["foot"].length, 0.0)
    camera = bpy.data.objects.new("Camera", bpy.data.cameras.new("Camera"))
    camera.data.type, camera.data.ortho_scale = "ORTHO", WIDTH
    camera.location, camera.rotation_euler = (CENTRE[0], -5.0, CENTRE[1]), (np.pi / 2.0, 0.0, 0.0)
    scene.collection.objects.link(camera)
    scene.camera = camera
    scene.world = None  # black
    render = scene.render
    render.engine = "CYCLES"
    scene.cycles.device, scene.cycles.samples = "CPU", 1
    scene.cycles.use_denoising = scene.cycles.use_adaptive_sampling = False
    render.resolution_x = render.resolution_y = SIZE
    render.image_settings.file_format = "OPEN_EXR"
    render.image_settings.color_depth = "32"
    render.use_persistent_data = False
    return scene


def ball(radius: float) -> bpy.types.Mesh:
    """A glowing octahedron."""
    mesh = bpy.data.meshes.new("Ball")
    r = radius
    points = [(r, 0, 0), (-r, 0, 0), (0, r, 0), (0, -r, 0), (0, 0, r), (0, 0, -r)]
    faces = [(x, y, z) for x in (0, 1) for y in (2, 3) for z in (4, 5)]
    mesh.from_pydata(points, [], faces)
    material = bpy.data.materials.new("Glow")
    if material.node_tree is None:
        material.use_nodes = True
    nodes = material.node_tree.nodes
    nodes.clear()
    glow, output = nodes.new("ShaderNodeEmission"), nodes.new("ShaderNodeOutputMaterial")
    material.node_tree.links.new(glow.outputs[0], output.inputs[0])
    mesh.materials.append(material)
    return mesh


def picture(scene: bpy.types.Scene, frame: int, path: Path) -> np.ndarray:
    """Brightness ``(SIZE, SIZE)``, from the lowest row up."""
    scene.frame_set(frame)
    scene.render.filepath = str(path / f"{frame}.exr")
    bpy.ops.render.render(write_still=True)
    image = bpy.data.images.load(scene.render.filepath)
    pixels = np.empty(SIZE * SIZE * 4, np.float32)
    image.pixels.foreach_get(pixels)
    bpy.data.images.remove(image)
    return pixels.reshape(SIZE, SIZE, 4)[..., 0]


def height(light: np.ndarray) -> float:
    """World Z of the middle of the light in a picture."""
    assert light.sum() > 0.0, "the lamp is in the picture"
    rows = (light.sum(axis=1) * (np.arange(SIZE) + 0.5)).sum() / light.sum()
    return CENTRE[1] + (rows / SIZE - 0.5) * WIDTH


def test_frames_rendered_out_of_order_show_their_own_pose(scene: bpy.types.Scene, tmp_path: Path) -> None:
    pixel = WIDTH / SIZE
    first = {frame: picture(scene, frame, tmp_path) for frame in (3, 1, 2)}
    for frame, light in first.items():
        assert abs(height(light) - HEIGHTS[frame]) < 0.5 * pixel, frame
    again = picture(scene, 3, tmp_path)
    assert np.array_equal(again, first[3])


def test_an_animation_shows_each_frame(scene: bpy.types.Scene, tmp_path: Path) -> None:
    scene.frame_start, scene.frame_end = 1, 3
    scene.render.filepath = str(tmp_path / "shot_")
    bpy.ops.render.render(animation=True)
    for frame in HEIGHTS:
        image = bpy.data.images.load(str(tmp_path / f"shot_{frame:04d}.exr"))
        pixels = np.empty(SIZE * SIZE * 4, np.float32)
        image.pixels.foreach_get(pixels)
        assert abs(height(pixels.reshape(SIZE, SIZE, 4)[..., 0]) - HEIGHTS[frame]) < 0.5 * WIDTH / SIZE, frame


def test_motion_blur_sees_the_poses_between_the_frames(scene: bpy.types.Scene, tmp_path: Path) -> None:
    """Half a frame before and after frame 2 the foot is lower: a blurred lamp is wider than a still one."""
    for curve in curves_of(bpy.data.objects["Goal"]):
        for key in curve.keyframe_points:
            key.interpolation = "LINEAR"
    still = picture(scene, 2, tmp_path)
    scene.render.use_motion_blur = True
    scene.render.motion_blur_shutter = 1.0
    scene.cycles.samples = 32
    blurred = picture(scene, 2, tmp_path)
    # From 0.3 up to 0.45 and down to 0.375: the mean lies below the still one.
    assert height(blurred) == pytest.approx((0.375 + 0.4125) / 2.0, abs=0.5 * WIDTH / SIZE)
    assert rows_lit(blurred) > rows_lit(still)
    scene.render.use_motion_blur = False
    scene.cycles.samples = 1
    assert np.array_equal(picture(scene, 2, tmp_path), still)


@pytest.mark.parametrize("mode", ["MOVE_ROOT", "STRETCH"])
def test_rendered_legs_that_are_too_short_reach(scene: bpy.types.Scene, tmp_path: Path, mode: str) -> None:
    """On frames 1 and 3 the target is out of reach by 4 and 2 pixels, were nothing to move or stretch."""
    rig = next(ob for ob in bpy.data.objects if ob.type == "ARMATURE")
    for curve in curves_of(bpy.data.objects["Goal"]):
        for key in curve.keyframe_points:
            key.co.y += {0: 0.5, 1: 0.0, 2: -0.2}[curve.array_index]
        curve.update()
    chain = rig.ik_chains["leg"]
    chain.limit_mode, chain.move_max, chain.stretch_max = mode, 2.0, 1.0
    for frame in (3, 1, 2, 1):
        light = picture(scene, frame, tmp_path)
        assert abs(height(light) - (HEIGHTS[frame] - 0.2)) < 0.5 * WIDTH / SIZE, frame


def rows_lit(light: np.ndarray) -> int:
    return int((light.sum(axis=1) > 0.02 * light.sum()).sum())


def curves_of(ob: bpy.types.Object) -> Any:
    from bone_rigs import action_curves

    return action_curves(ob)


def test_a_rendered_animation_moves_the_whole_rig(scene: bpy.types.Scene, tmp_path: Path) -> None:
    """Also what no chain turns: keyed hips, and the keyed armature object."""
    rig = next(ob for ob in bpy.data.objects if ob.type == "ARMATURE")
    lamp = bpy.data.objects["Lamp"]
    lamp.parent_bone, lamp.location = "hips", (0.1, -0.5, 0.0)
    for frame, z in ((1, 0.0), (2, 0.1), (3, 0.2)):
        rig.pose.bones["hips"].location.y = -z
        rig.pose.bones["hips"].keyframe_insert("location", frame=frame)
        rig.location.z = z / 2
        rig.keyframe_insert("location", frame=frame)
    scene.frame_start, scene.frame_end = 1, 3
    scene.render.filepath = str(tmp_path / "body_")
    scene.frame_set(1)
    bpy.ops.render.render(animation=True)
    heights = []
    for frame in (1, 2, 3):
        image = bpy.data.images.load(str(tmp_path / f"body_{frame:04d}.exr"))
        pixels = np.empty(SIZE * SIZE * 4, np.float32)
        image.pixels.foreach_get(pixels)
        heights.append(float(height(pixels.reshape(SIZE, SIZE, 4)[..., 0])))
    assert heights[0] - heights[1] > 0.02 and heights[1] - heights[2] > 0.02, heights
