# SPDX-License-Identifier: GPL-3.0-or-later
"""What the examples share: a character, a set around it, and a file that shows both at once.

What concerns IK chains is `run`, which finds the add-on and hands it to the example, and `add_leg`.
"""

import importlib
import sys
from collections.abc import Callable, Iterable, Sequence
from math import cos, pi, radians, sin
from pathlib import Path
from types import ModuleType

import bpy
from mathutils import Matrix, Quaternion, Vector

HERE = Path(__file__).resolve().parent

# bone, parent, head, tail; right limbs are the left ones mirrored. The character looks along -Y.
BONES = (
    ("hips", "", (0, 0, 0.93), (0, 0, 1.04)),
    ("spine", "hips", (0, 0, 1.04), (0, 0, 1.2)),
    ("chest", "spine", (0, 0, 1.2), (0, 0.01, 1.46)),
    ("neck", "chest", (0, 0.01, 1.46), (0, -0.01, 1.54)),
    ("head", "neck", (0, -0.01, 1.54), (0, -0.01, 1.76)),
    ("upper_arm.L", "chest", (0.185, 0.01, 1.42), (0.2, 0.025, 1.14)),
    ("forearm.L", "upper_arm.L", (0.2, 0.025, 1.14), (0.205, 0, 0.88)),
    ("hand.L", "forearm.L", (0.205, 0, 0.88), (0.205, -0.02, 0.75)),
    ("thigh.L", "hips", (0.1, 0, 0.93), (0.1, -0.015, 0.5)),
    ("shin.L", "thigh.L", (0.1, -0.015, 0.5), (0.1, 0.01, 0.085)),
    ("foot.L", "shin.L", (0.1, 0.01, 0.085), (0.1, -0.125, 0.03)),
    ("toe.L", "foot.L", (0.1, -0.125, 0.03), (0.1, -0.2, 0.03)),
)
# bone: colour and cross-sections: place along the bone in parts of its length, width, depth
SHAPES = {
    "hips": ("trousers", (-0.75, 0.3, 0.2), (0.2, 0.29, 0.2), (1.1, 0.25, 0.17)),
    "spine": ("shirt", (-0.4, 0.27, 0.175), (0.3, 0.25, 0.165), (1.2, 0.29, 0.18)),
    "chest": ("shirt", (-0.15, 0.27, 0.175), (0.45, 0.34, 0.21), (0.8, 0.36, 0.2), (1.02, 0.2, 0.14)),
    "neck": ("skin", (-0.5, 0.1, 0.11), (1.3, 0.09, 0.095)),
    "head": ("skin", (-0.08, 0.1, 0.13), (0.25, 0.155, 0.19), (0.65, 0.17, 0.2), (1.0, 0.13, 0.15)),
    "upper_arm": ("shirt", (-0.12, 0.115, 0.115), (0.4, 0.1, 0.1), (1.06, 0.08, 0.08)),
    "forearm": ("skin", (-0.08, 0.078, 0.078), (0.3, 0.082, 0.08), (1.02, 0.052, 0.052)),
    "hand": ("skin", (-0.12, 0.045, 0.055), (0.4, 0.04, 0.09), (1.0, 0.028, 0.07)),
    "thigh": ("trousers", (-0.12, 0.15, 0.17), (0.4, 0.15, 0.16), (1.04, 0.11, 0.12)),
    "shin": ("trousers", (-0.05, 0.11, 0.12), (0.3, 0.115, 0.125), (0.98, 0.075, 0.085)),
    "foot": ("shoes", (-0.5, 0.08, 0.09), (0.3, 0.095, 0.1), (1.04, 0.1, 0.065)),
    "toe": ("shoes", (-0.15, 0.1, 0.062), (0.6, 0.095, 0.055), (0.95, 0.075, 0.045)),
}
COLORS = {
    "skin": (0.76, 0.45, 0.31, 1),
    "shirt": (0.08, 0.36, 0.44, 1),
    "trousers": (0.06, 0.075, 0.13, 1),
    "shoes": (0.55, 0.12, 0.04, 1),
    "eyes": (0.02, 0.02, 0.025, 1),
    "bird": (0.95, 0.62, 0.05, 1),
    "ground": (0.42, 0.43, 0.42, 1),
    "wall": (0.62, 0.6, 0.55, 1),
    "frame": (0.8, 0.78, 0.72, 1),
    "wood": (0.36, 0.17, 0.07, 1),
    "metal": (0.6, 0.58, 0.5, 1),
}
SKY = (0.5, 0.55, 0.62)
CORNERS, ROUND = 16, 0.35


def run(example: Callable[[ModuleType], None], name: str) -> None:
    """Make an example in a new scene and save it in the folder that the command line names."""
    addon, ours = enabled_addon()
    try:
        bpy.ops.wm.read_homefile(use_empty=True, use_factory_startup=True)
        example(addon)
        folder = Path(arguments(f"{name}.py")[0]) if arguments(f"{name}.py") else HERE / "out"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{name}.blend"
        bpy.ops.wm.save_as_mainfile(filepath=str(path), check_existing=False)
        print(f"Saved {path}")
    finally:
        # The bpy module of some releases does not end while a Python function is among its handlers.
        if ours:
            addon.unregister()


def arguments(script: str) -> list[str]:
    """Those of the script: behind its own name, or in Blender behind two dashes."""
    if Path(sys.argv[0]).name == script:
        return sys.argv[1:]
    return sys.argv[sys.argv.index("--") + 1 :] if "--" in sys.argv else []


def enabled_addon() -> tuple[ModuleType, bool]:
    """The add-on's package, and whether it was registered here.

    It is that of the extension where it is enabled, else the one beside this folder.
    """
    for name in (enabled.module for enabled in bpy.context.preferences.addons):
        if name.rpartition(".")[2] == "ik_chains":
            package = f"{name}.ik_addon"
            break
    else:
        package = "ik_addon"
        sys.path.insert(0, str(HERE.parent))
    addon = importlib.import_module(package)
    for name in ("chains", "bake", "ranges", "compat"):
        importlib.import_module(f"{package}.blender.{name}")
    ours = package == "ik_addon"
    if ours:
        addon.register()
    return addon, ours


# The character


def build_character(name: str) -> bpy.types.Object:
    """An armature with a rounded shape on each bone, standing at the world's origin."""
    rig = bpy.data.objects.new(name, bpy.data.armatures.new(name))
    link(rig)
    bpy.context.view_layer.objects.active = rig
    bpy.ops.object.mode_set(mode="EDIT")
    bones = rig.data.edit_bones
    for bone_name, parent, head, tail in BONES:
        for side, flip in ((bone_name, 1), (mirrored(bone_name), -1)):
            if side not in bones:
                bone = bones.new(side)
                bone.head, bone.tail = (flip * head[0], *head[1:]), (flip * tail[0], *tail[1:])
                bone.parent = bones.get(parent if flip == 1 else mirrored(parent))
    bpy.ops.object.mode_set(mode="OBJECT")
    rig.data.display_type = "STICK"
    rig.show_in_front = True

    shapes = []
    for bone in rig.data.bones:
        kind = bone.name.partition(".")[0]
        color, *sections = SHAPES[kind]
        points, faces = loft([(y * bone.length, w, d) for y, w, d in sections])
        placed = [bone.matrix_local @ point for point in points]
        if kind in ("foot", "toe"):
            # Soles are flat.
            placed = [Vector((x, y, max(z, 0.0))) for x, y, z in placed]
        shapes.append((bone.name, color, placed, faces))
    for side in (-1, 1):
        points, faces = loft([(-0.008, 0.022, 0.032), (0.008, 0.022, 0.032)])
        turn = Matrix.Translation((0.035 * side, -0.098, 1.665))
        shapes.append(("head", "eyes", [turn @ point for point in points], faces))
    body = mesh_object(f"{name} Body", [shape[1:] for shape in shapes])
    first = 0
    for bone_name, _, points, _ in shapes:
        group = body.vertex_groups.get(bone_name) or body.vertex_groups.new(name=bone_name)
        group.add(list(range(first, first + len(points))), 1.0, "REPLACE")
        first += len(points)
    body.modifiers.new("Armature", "ARMATURE").object = rig
    body.parent = rig
    return rig


def mirrored(name: str) -> str:
    return name[:-1] + "R" if name.endswith(".L") else name


Shape = tuple[str, list[Vector], list[list[int]]]


def loft(sections: Sequence[tuple[float, float, float]]) -> tuple[list[Vector], list[list[int]]]:
    """Points and faces of a skin over cross-sections (y, width along X, depth along Z), with round ends."""
    turns = [pi / 2 * step / 4 for step in (1, 2, 3, 4)]
    ends = []
    for (y, width, depth), inward in ((sections[0], 1), (sections[-1], -1)):
        reach = inward * ROUND * min(width, depth)
        ends.append([(y + reach * (1 - cos(t)), width * sin(t), depth * sin(t)) for t in turns])
    profile = [*ends[0], *sections[1:-1], *reversed(ends[1])]
    points = []
    for y, width, depth in profile:
        for corner in range(CORNERS):
            turn = 2 * pi * corner / CORNERS
            x, z = cos(turn), sin(turn)
            # Between an ellipse and a box.
            size = (abs(x) ** 3 + abs(z) ** 3) ** (-1 / 3)
            points.append(Vector((x * size * width / 2, y, z * size * depth / 2)))
    faces = [list(range(CORNERS)), list(range(len(points) - 1, len(points) - CORNERS - 1, -1))]
    for ring in range(len(profile) - 1):
        for corner in range(CORNERS):
            a, b = ring * CORNERS + corner, ring * CORNERS + (corner + 1) % CORNERS
            faces.append([b, a, a + CORNERS, b + CORNERS])
    return points, faces


def box(low: Sequence[float], high: Sequence[float]) -> tuple[list[Vector], list[list[int]]]:
    """Points and faces of a box between two corners."""
    points = [
        Vector((x, y, z)) for x in (low[0], high[0]) for y in (low[1], high[1]) for z in (low[2], high[2])
    ]
    return points, [[0, 1, 3, 2], [6, 7, 5, 4], [4, 5, 1, 0], [2, 3, 7, 6], [1, 5, 7, 3], [2, 6, 4, 0]]


def mesh_object(name: str, shapes: Iterable[Shape], smooth: bool = True) -> bpy.types.Object:
    """An object of several shapes, each in its colour."""
    mesh = bpy.data.meshes.new(name)
    points: list[Vector] = []
    faces: list[list[int]] = []
    colors: list[str] = []
    for color, its_points, its_faces in shapes:
        faces += [[len(points) + corner for corner in face] for face in its_faces]
        points += its_points
        colors += [color] * len(its_faces)
    mesh.from_pydata(points, [], faces)
    used = list(dict.fromkeys(colors))
    for color in used:
        mesh.materials.append(material(color))
    mesh.polygons.foreach_set("material_index", [used.index(color) for color in colors])
    mesh.polygons.foreach_set("use_smooth", [smooth] * len(faces))
    mesh.validate()
    ob = bpy.data.objects.new(name, mesh)
    link(ob)
    return ob


def material(name: str) -> bpy.types.Material:
    found = bpy.data.materials.get(name) or bpy.data.materials.new(name)
    found.diffuse_color = COLORS[name]
    if found.node_tree is None:
        found.use_nodes = True
    shader = found.node_tree.nodes["Principled BSDF"].inputs
    shader["Base Color"].default_value = COLORS[name]
    shader["Roughness"].default_value = 0.35 if name == "metal" else 0.65
    return found


def link(ob: bpy.types.Object) -> None:
    bpy.context.scene.collection.objects.link(ob)


def key_bones(rig: bpy.types.Object, frame: float, turns: dict[str, tuple[Sequence[float], float]]) -> None:
    """FK keys: bones turned by degrees about an axis of their own."""
    for name, (axis, degrees) in turns.items():
        bone = rig.pose.bones[name]
        bone.rotation_quaternion = Quaternion(axis, radians(degrees))
        bone.keyframe_insert("rotation_quaternion", frame=frame)


def key_arm(rig: bpy.types.Object, frame: float, side: str, raised: float, spread: float) -> None:
    """FK keys of an arm that hangs, raised ahead and spread aside by degrees of the world."""
    bone = rig.pose.bones[f"upper_arm.{side}"]
    rest = bone.bone.matrix_local.to_quaternion()
    turn = Quaternion((0, 1, 0), -radians(spread)) @ Quaternion((1, 0, 0), -radians(raised))
    bone.rotation_quaternion = rest.inverted() @ turn @ rest
    bone.keyframe_insert("rotation_quaternion", frame=frame)


def add_leg(rig: bpy.types.Object, side: str) -> None:
    """An IK chain from thigh to foot, which keeps the foot as it is in the world."""
    bpy.ops.ik_chain.add(
        object=rig.name,
        name=f"leg.{side}",
        root_bone=f"thigh.{side}",
        end_bone=f"foot.{side}",
        use_tail=False,
    )
    chain = rig.ik_chains[f"leg.{side}"]
    chain.use_rotation = True
    chain.target_rotation = (
        rig.matrix_world.to_quaternion() @ rig.pose.bones[f"foot.{side}"].matrix.to_quaternion()
    )


# The set


def build_set(camera_at: Sequence[float], look_at: Sequence[float], lens: float = 50.0) -> bpy.types.Object:
    """Ground, lights, sky and a camera, which is returned."""
    scene = bpy.context.scene
    ground = mesh_object("Ground", [("ground", *box((-20, -20, -0.1), (20, 20, 0)))], smooth=False)
    ground.hide_select = True
    for name, energy, angle, turn in (
        ("Sun", 3.2, 0.08, (radians(48), radians(12), radians(35))),
        ("Fill", 0.9, 1.0, (radians(60), 0, radians(-70))),
    ):
        light = bpy.data.objects.new(name, bpy.data.lights.new(name, "SUN"))
        light.data.energy, light.data.angle, light.rotation_euler = energy, angle, turn
        link(light)
    scene.world = bpy.data.worlds.new("World")
    # What Solid and Workbench show, and what EEVEE and Cycles do.
    scene.world.color = SKY
    if scene.world.node_tree is None:
        scene.world.use_nodes = True
    background = scene.world.node_tree.nodes["Background"].inputs
    background["Color"].default_value, background["Strength"].default_value = (*SKY, 1), 0.6
    camera = bpy.data.objects.new("Camera", bpy.data.cameras.new("Camera"))
    link(camera)
    camera.location, camera.data.lens = camera_at, lens
    camera.rotation_euler = (Vector(look_at) - Vector(camera_at)).to_track_quat("-Z", "Y").to_euler()
    scene.camera = camera
    scene.render.resolution_x, scene.render.resolution_y = 1280, 720
    scene.render.fps = 24
    return camera


def present(rig: bpy.types.Object, chain: str, note: str) -> None:
    """Leave the file so that who opens it sees the character, its chain, and what to try.

    The views look through the camera, the rig is active in Pose Mode with the chain selected
    in the list, and `note` is in the text Read Me. The sidebar stays closed: opened without
    a window, it makes Blender complain about memory at its end.
    """
    scene = bpy.context.scene
    scene.frame_set(scene.frame_start)
    for screen in bpy.data.screens:
        for area in screen.areas:
            if area.type == "VIEW_3D":
                view = area.spaces.active
                view.region_3d.view_perspective = "CAMERA"
                # The picture nearly fills a view of the usual size.
                view.region_3d.view_camera_zoom = 14.0
                view.shading.type, view.shading.color_type = "SOLID", "MATERIAL"
                view.shading.show_shadows = view.shading.show_cavity = True
                view.overlay.show_floor = view.overlay.show_axis_x = view.overlay.show_axis_y = False
    bpy.data.texts.new("Read Me").write(note)
    rig.ik_chains_index = rig.ik_chains.find(chain)
    for ob in scene.objects:
        ob.select_set(ob == rig)
    bpy.context.view_layer.objects.active = rig
    bpy.ops.object.mode_set(mode="POSE")
