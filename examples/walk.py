# SPDX-License-Identifier: GPL-3.0-or-later
"""A character walks: planted feet, a hand on its hip, a head that follows a bird; baked and saved.

    python examples/walk.py [FOLDER]
    blender -b --python examples/walk.py -- [FOLDER]

FOLDER is where walk.blend goes, `examples/out` without it. The script is how the add-on is used
from Python: a character with plain FK animation gets its chains, the targets get their keys, and
one call bakes all of it.
"""

import importlib
import sys
from math import cos, pi, radians, sin
from pathlib import Path
from types import ModuleType
from typing import Any

import bpy
from mathutils import Quaternion, Vector

HERE = Path(__file__).resolve().parent

# The gait. The character looks and walks along -Y; a cycle is a step of either foot.
CYCLE = 24
CYCLES = 4
FIRST, LAST = 1, 1 + CYCLE * CYCLES
STRIDE = 1.1
STEP_AHEAD = 0.25

# bone, parent, head, tail; right limbs are the left ones mirrored.
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
    ("foot.L", "shin.L", (0.1, 0.01, 0.085), (0.1, -0.16, 0.03)),
)
# bone: width and depth at its head, width and depth at its tail, how far it begins before and ends
# behind its joints, color
BOXES = {
    "hips": ((0.3, 0.2), (0.26, 0.17), 0.09, 0.02, "trousers"),
    "spine": ((0.24, 0.16), (0.27, 0.17), 0.03, 0.04, "shirt"),
    "chest": ((0.29, 0.18), (0.34, 0.2), 0.0, 0.02, "shirt"),
    "neck": ((0.1, 0.1), (0.09, 0.09), 0.02, 0.02, "skin"),
    "head": ((0.14, 0.16), (0.17, 0.21), 0.01, 0.0, "skin"),
    "upper_arm": ((0.1, 0.1), (0.08, 0.08), 0.03, 0.02, "shirt"),
    "forearm": ((0.08, 0.08), (0.055, 0.05), 0.0, 0.0, "skin"),
    "hand": ((0.045, 0.08), (0.03, 0.08), 0.0, 0.0, "skin"),
    "thigh": ((0.15, 0.16), (0.11, 0.12), 0.02, 0.03, "trousers"),
    "shin": ((0.11, 0.12), (0.07, 0.08), 0.0, 0.02, "trousers"),
    "foot": ((0.085, 0.09), (0.095, 0.05), 0.05, 0.05, "shoes"),
}
COLORS = {
    "skin": (0.72, 0.42, 0.29, 1),
    "shirt": (0.1, 0.33, 0.42, 1),
    "trousers": (0.07, 0.08, 0.12, 1),
    "shoes": (0.5, 0.12, 0.05, 1),
    "ground": (0.35, 0.35, 0.33, 1),
}


def main(folder: Path) -> None:
    """Make the scene, bake it, print the report, save it."""
    addon, ours = enabled_addon()
    try:
        make(addon, folder)
    finally:
        # The bpy module of some releases does not end while a Python function is among its handlers.
        if ours:
            addon.unregister()


def make(addon: ModuleType, folder: Path) -> None:
    scene = new_scene()
    rig = build_character(scene)
    bird = build_set(scene)
    animate_body(addon, rig, bird)
    add_chains(addon, rig, bird)
    for side, first in (("L", FIRST), ("R", FIRST - CYCLE // 2)):
        animate_foot(rig, side, first)
    scene.frame_set(FIRST)

    bake = addon.blender.bake
    report = addon.blender.ranges.run(bake.bake(scene, [rig], bake.BakeOptions((FIRST, LAST))))
    print_report(report)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "walk.blend"
    bpy.ops.wm.save_as_mainfile(filepath=str(path), check_existing=False)
    print(f"Saved {path}")


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


def new_scene() -> bpy.types.Scene:
    bpy.ops.wm.read_homefile(use_empty=True, use_factory_startup=True)
    scene = bpy.context.scene
    scene.frame_start, scene.frame_end = FIRST, LAST
    scene.render.fps = 24
    return scene


# The character: nothing here knows of the add-on


def mirrored(name: str) -> str:
    return name[:-1] + "R" if name.endswith(".L") else name


def build_character(scene: bpy.types.Scene) -> bpy.types.Object:
    """An armature with a box on each bone."""
    rig = bpy.data.objects.new("Walker", bpy.data.armatures.new("Walker"))
    scene.collection.objects.link(rig)
    bpy.context.view_layer.objects.active = rig
    bpy.ops.object.mode_set(mode="EDIT")
    for name, parent, head, tail in BONES:
        for bone_name, flip in ((name, 1), (mirrored(name), -1)):
            bones = rig.data.edit_bones
            if bone_name not in bones:
                bone = bones.new(bone_name)
                bone.head, bone.tail = (flip * head[0], *head[1:]), (flip * tail[0], *tail[1:])
                bone.parent = bones.get(parent if flip == 1 else mirrored(parent))
    bpy.ops.object.mode_set(mode="OBJECT")

    mesh = bpy.data.meshes.new("Walker Body")
    body = bpy.data.objects.new("Walker Body", mesh)
    points: list[Vector] = []
    faces: list[list[int]] = []
    looks: list[int] = []
    names = list(COLORS)
    for bone in rig.data.bones:
        near, far, before, behind, color = BOXES[bone.name.partition(".")[0]]
        first = len(points)
        for (width, depth), y in ((near, -before), (far, bone.length + behind)):
            corners = ((-1, -1), (1, -1), (1, 1), (-1, 1))
            points += [bone.matrix_local @ Vector((x * width / 2, y, z * depth / 2)) for x, z in corners]
        sides = [[i, (i + 1) % 4, 4 + (i + 1) % 4, 4 + i] for i in range(4)]
        for face in ([3, 2, 1, 0], [4, 5, 6, 7], *sides):
            faces.append([first + corner for corner in face])
            looks.append(names.index(color))
        body.vertex_groups.new(name=bone.name)
    mesh.from_pydata(points, [], faces)
    for place, bone in enumerate(rig.data.bones):
        body.vertex_groups[bone.name].add(list(range(8 * place, 8 * place + 8)), 1.0, "REPLACE")
    for name in names:
        mesh.materials.append(material(name))
    mesh.polygons.foreach_set("material_index", looks)
    mesh.validate()
    bevel = body.modifiers.new("Bevel", "BEVEL")
    bevel.width, bevel.segments = 0.018, 3
    body.modifiers.new("Armature", "ARMATURE").object = rig
    body.parent = rig
    scene.collection.objects.link(body)
    return rig


def material(name: str) -> bpy.types.Material:
    found = bpy.data.materials.get(name) or bpy.data.materials.new(name)
    found.diffuse_color = COLORS[name]
    if found.node_tree is None:
        found.use_nodes = True
    found.node_tree.nodes["Principled BSDF"].inputs["Base Color"].default_value = COLORS[name]
    return found


def build_set(scene: bpy.types.Scene) -> bpy.types.Object:
    """Ground, sun, camera, and the bird: an empty. Returns the bird."""
    ground = bpy.data.objects.new("Ground", bpy.data.meshes.new("Ground"))
    ground.data.from_pydata([(-9, 9, 0), (-9, -14, 0), (9, -14, 0), (9, 9, 0)], [], [(0, 1, 2, 3)])
    ground.data.materials.append(material("ground"))
    sun = bpy.data.objects.new("Sun", bpy.data.lights.new("Sun", "SUN"))
    sun.data.energy, sun.data.angle = 3.0, 0.1
    sun.rotation_euler = (0.7, 0.25, 0.4)
    camera = bpy.data.objects.new("Camera", bpy.data.cameras.new("Camera"))
    camera.location, camera.rotation_euler = (4.6, -6.6, 1.5), (radians(85), 0, radians(45))
    camera.data.lens = 32
    bird = bpy.data.objects.new("Bird", None)
    bird.empty_display_type, bird.empty_display_size = "SPHERE", 0.06
    for ob in (ground, sun, camera, bird):
        scene.collection.objects.link(ob)
    scene.camera = camera
    scene.world = bpy.data.worlds.new("World")
    return bird


def travelled(frame: float) -> float:
    """How far the character has come along -Y."""
    return STRIDE * (frame - FIRST) / CYCLE


def animate_body(addon: ModuleType, rig: bpy.types.Object, bird: bpy.types.Object) -> None:
    """FK keys: the way, hips, spine, and the arm that swings; and the flight of the bird."""
    for frame in (FIRST, LAST):
        rig.location = (0, -travelled(frame), 0)
        rig.keyframe_insert("location", frame=frame)
    for curve in addon.blender.compat.assigned_curves(rig):
        for key in curve.keyframe_points:
            key.interpolation = "LINEAR"

    for frame in range(FIRST, LAST + 1, 3):
        turn = 2 * pi * (frame - FIRST) / CYCLE
        # Low with both feet on the ground, high over one of them; aside over the foot that stands.
        rig.pose.bones["hips"].location = (0.018 * sin(turn), -0.035 - 0.013 * cos(2 * turn), 0)
        turns: dict[str, Any] = {
            "hips": ((0, 1, 0), 6 * cos(turn)),
            "chest": ((0, 1, 0), -10 * cos(turn)),
            "spine": ((1, 0, 0), 3),
            "upper_arm.R": ((1, 0, 0), -24 * cos(turn)),
            "forearm.R": ((1, 0, 0), -24 - 10 * cos(turn)),
        }
        for name, (axis, degrees) in turns.items():
            bone = rig.pose.bones[name]
            bone.rotation_quaternion = Quaternion(axis, radians(degrees))
            bone.keyframe_insert("rotation_quaternion", frame=frame)
        rig.pose.bones["hips"].keyframe_insert("location", frame=frame)

    for frame, place in ((FIRST, (1.5, -3, 1.5)), (LAST // 2, (-1.2, -5, 2.3)), (LAST, (1.2, -8.5, 1.6))):
        bird.location = place
        bird.keyframe_insert("location", frame=frame)


# The chains


def add_chains(addon: ModuleType, rig: bpy.types.Object, bird: bpy.types.Object) -> None:
    """Legs to the ground, a hand to the hip, the head to the bird."""
    add = addon.blender.chains.add
    for side in "LR":
        # WORLD, the default: the foot stays where it is planted, the body moves on.
        add(rig, f"thigh.{side}", f"foot.{side}", name=f"leg.{side}", use_tail=False, use_rotation=True)
    add(
        rig,
        "upper_arm.L",
        "hand.L",
        name="arm.L",
        use_tail=False,
        # ARMATURE: the hand goes where the character goes.
        target_space="ARMATURE",
        target_location=(0.18, 0.0, 1.0),
        # The fingers lie forward and down on the hip, the thumb behind.
        use_rotation=True,
        target_rotation=Vector((-0.25, -0.8, -0.55)).to_track_quat("Y", "X"),
        # The elbow points out and back.
        pole_mode="DIRECTION",
        pole_location=(1, 0.7, 0),
    )
    add(
        rig,
        "head",
        "head",
        name="look",
        solver="AIM",
        aim_mode="LOOK_AT",
        aim_axis="Z",
        # CUSTOM: an object to look at.
        target_space="CUSTOM",
        target=bird,
        target_location=(0, 0, 0),
        # The crown stays up.
        up_axis="Y",
        pole_mode="DIRECTION",
        pole_location=(0, 0, 1),
    )


def animate_foot(rig: bpy.types.Object, side: str, first: int) -> None:
    """Key the target of a leg, step by step: it stands, rolls off its ball, swings to the next place."""
    chain = rig.ik_chains[f"leg.{side}"]
    bone = rig.data.bones[f"foot.{side}"]
    ankle, rest = bone.head_local, bone.matrix_local.to_quaternion()
    heel, ball = Vector((ankle.x, 0.07, 0)), Vector((ankle.x, -0.13, 0))

    def key(frame: float, plant: float, pitch: float, pivot: Vector, lift: float = 0.0) -> None:
        """The foot pitched about a point of its sole, in place `plant` along Y."""
        turn = Quaternion((1, 0, 0), radians(pitch))
        place = pivot + turn @ (ankle - pivot)
        chain.target_location = place + Vector((0, plant, lift))
        chain.target_rotation = turn @ rest
        for setting in ("target_location", "target_rotation"):
            chain.keyframe_insert(setting, frame=frame)

    for contact in range(first, LAST + 1, CYCLE):
        plant = -travelled(contact) - STEP_AHEAD
        key(contact, plant, -16, heel)
        key(contact + 3, plant, 0, ball)
        key(contact + 10, plant, 0, ball)
        key(contact + 13, plant, 18, ball)
        key(contact + 15, plant, 38, ball)
        key(contact + 19, plant - 0.42 * STRIDE, 22, ball, lift=0.07)
    key(contact + CYCLE, plant - STRIDE, -16, heel)


def print_report(report: Any) -> None:
    """What the bake tells of each chain: how far its tip was from the target, and why."""
    print(f"{'chain':8} {'solver':9} {'frames':>9} {'largest residual':>17} {'at':>4} {'mean':>10}  status")
    for entry in report.chains:
        frames = "{}-{}".format(*entry["frames"])
        status = ", ".join(f"{name} {count}" for name, count in entry["status_frames"].items())
        print(
            f"{entry['chain']:8} {entry['solver']:9} {frames:>9} {1000 * entry['residual_max']:14.6f} mm"
            f" {entry['residual_max_frame']:4} {1000 * entry['residual_mean']:7.4f} mm  {status}"
        )
    for skipped in report.skipped:
        print(f"{skipped.chain}: not baked: {skipped}")


def arguments() -> list[str]:
    """Those of this script: behind its own name, or in Blender behind two dashes."""
    if Path(sys.argv[0]).name == Path(__file__).name:
        return sys.argv[1:]
    return sys.argv[sys.argv.index("--") + 1 :] if "--" in sys.argv else []


if __name__ == "__main__":
    main(Path(arguments()[0]) if arguments() else HERE / "out")
