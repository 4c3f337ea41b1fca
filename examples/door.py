# SPDX-License-Identifier: GPL-3.0-or-later
"""A hand on a door: it takes the handle, holds it while the door opens, and lets go.

    python examples/door.py [FOLDER]
    blender -b --python examples/door.py -- [FOLDER]

FOLDER is where door.blend goes, `examples/out` without it. The chains stay live. The target of
the hand is in the character's space, in that of the handle while it holds it, and in the
character's again: two switches, neither of which moves anything.
"""

import sys
from math import radians, sin
from pathlib import Path
from types import ModuleType

import bpy
from mathutils import Matrix, Quaternion, Vector

sys.path.insert(0, str(Path(__file__).resolve().parent))
import figure  # noqa: E402 - Blender looks for modules elsewhere

FIRST, LAST = 1, 132
# The hand leaves its place, takes the handle, lets go, is back.
LEAVE, TAKE, RELEASE, BACK = 10, 30, 88, 110
# The door: its hinge, the way from there to the handle, and how far it opens.
HINGE, WIDTH, HEIGHT, THICKNESS = Vector((0.62, -0.62, 0)), 0.86, 2.02, 0.045
HANDLE = Vector((-0.78, 0.075, 1.06))
OPENED, SWUNG_OPEN = 38, 47
# Wrist and fingers, as they hold the lever: from above and behind.
WRIST, FINGERS = Vector((0, 0.1, 0.03)), Vector((0.12, -1, -0.3))
# Where the character stands at first, and where it has stepped back to when it lets go.
START, END = Vector((-0.1, -0.1, 0)), Vector((0.08, 0.24, 0))
# leg: frames of its steps back, and the part of the whole way that each ends at
STEPS = {"leg.R": ((42, 54, 0.55), (68, 80, 1.0)), "leg.L": ((55, 67, 0.9), (81, 90, 1.0))}
STEP_HEIGHT = 0.06
NOTE = """\
A hand on a door

Press N in the viewport and open the tab IK Chains. The chain hand.R has its target in the space of
the character at first. On frame 30 it takes the handle: Switch Space has put the target into the
space of the object Grip, which hangs on the handle. On frame 88 it lets go: back to the character.
Nothing jumps on either frame.

- Play it, and look at the hand while the handle turns and the door opens.
- Between frames 30 and 88, turn the door (object Door): the hand goes along.
- On a frame in between, press Switch Space > World: the hand stays where it is, and the door goes on
  without it. Undo.
- Open the door too far and look at the list: the arm is out of reach. Plot Residual shows where.

The script that made it: examples/door.py
"""


def make(_addon: ModuleType) -> None:
    scene = bpy.context.scene
    scene.frame_start, scene.frame_end = FIRST, LAST
    rig = figure.build_character("Figure")
    rig.location = START
    bpy.context.view_layer.update()
    figure.build_set((-3.5, 0.9, 1.45), (0.12, -0.22, 0.9), 36)
    grip = build_door()
    animate_door()
    # While the character still stands on them: the feet stay where they are when its hips go down.
    for leg, steps in STEPS.items():
        figure.add_leg(rig, leg[-1])
        step_back(rig.ik_chains[leg], steps)
    animate_body(rig)
    scene.frame_set(FIRST)
    add_hand(rig)
    take_and_release(rig, grip)
    figure.present(rig, "hand.R", NOTE)


# The door


def build_door() -> bpy.types.Object:
    """Wall, door and handle; returns the empty at the handle where a wrist goes."""
    left, right = HINGE.x - WIDTH, HINGE.x
    near, far = HINGE.y - 0.05, HINGE.y + 0.07
    wall = [
        ("wall", *figure.box((left - 0.35, near, 0), (left - 0.08, far, 2.3))),
        ("wall", *figure.box((right + 0.08, near, 0), (right + 0.35, far, 2.3))),
        ("wall", *figure.box((left - 0.08, near, HEIGHT + 0.08), (right + 0.08, far, 2.3))),
        ("frame", *figure.box((left - 0.08, near - 0.01, 0), (left, far + 0.01, HEIGHT + 0.08))),
        ("frame", *figure.box((right, near - 0.01, 0), (right + 0.08, far + 0.01, HEIGHT + 0.08))),
        ("frame", *figure.box((left, near - 0.01, HEIGHT), (right, far + 0.01, HEIGHT + 0.08))),
    ]
    figure.mesh_object("Wall", wall, smooth=False).hide_select = True

    half = THICKNESS / 2
    panels = [
        ("wood", *figure.box((-WIDTH + 0.14, half, low), (-0.14, half + 0.008, high)))
        for low, high in ((0.2, 0.9), (1.2, 1.85))
    ]
    leaf = ("wood", *figure.box((-WIDTH + 0.004, -half, 0.008), (-0.004, half, HEIGHT - 0.004)))
    door = figure.mesh_object("Door", [leaf, *panels], smooth=False)
    door.location = HINGE

    lever = figure.mesh_object(
        "Handle", [*rod((0, -0.055, 0), (0, 0.01, 0)), *rod((-0.01, 0, 0), (0.115, 0, 0))]
    )
    lever.parent, lever.location = door, HANDLE
    grip = bpy.data.objects.new("Grip", None)
    grip.empty_display_type, grip.empty_display_size = "ARROWS", 0.06
    figure.link(grip)
    grip.parent, grip.location = lever, Vector((0.06, 0, 0)) + WRIST
    return grip


def rod(start: tuple[float, float, float], end: tuple[float, float, float]) -> list[figure.Shape]:
    """A round bar of metal."""
    way = Vector(end) - Vector(start)
    points, faces = figure.loft([(0, 0.022, 0.022), (way.length, 0.022, 0.022)])
    place = Matrix.Translation(start) @ way.to_track_quat("Y", "Z").to_matrix().to_4x4()
    return [("metal", [place @ point for point in points], faces)]


def animate_door() -> None:
    """The handle goes down and up again, the door opens, and swings on when it is let go."""
    handle, door = bpy.data.objects["Handle"], bpy.data.objects["Door"]
    for frame, down in ((TAKE, 0), (TAKE + 8, 28), (46, 28), (54, 0)):
        handle.rotation_euler.y = radians(down)
        handle.keyframe_insert("rotation_euler", frame=frame)
    for frame, opened in ((TAKE + 8, 0), (RELEASE, OPENED), (RELEASE + 24, SWUNG_OPEN)):
        door.rotation_euler.z = -radians(opened)
        door.keyframe_insert("rotation_euler", frame=frame)


# The character


def animate_body(rig: bpy.types.Object) -> None:
    """FK keys: it leans to the door, and steps back with it."""
    for frame, share in ((TAKE + 8, 0.0), (RELEASE, 1.0)):
        rig.location = START.lerp(END, share)
        rig.keyframe_insert("location", frame=frame)
    hips = rig.pose.bones["hips"]
    for frame, lean, twist, low in ((LEAVE, 1, 0, -0.03), (TAKE, 9, 8, -0.05), (60, 5, 0, -0.06),
                                    (RELEASE, 3, -6, -0.05), (BACK, 1, 0, -0.03)):  # fmt: skip
        hips.location = (0, low, 0)
        hips.keyframe_insert("location", frame=frame)
        figure.key_bones(rig, frame, {"spine": ((1, 0, 0), lean), "chest": ((0, 1, 0), twist),
                                      "head": ((1, 0, 0), lean)})  # fmt: skip
        figure.key_bones(rig, frame, {"forearm.L": ((1, 0, 0), -14), "forearm.R": ((1, 0, 0), -14)})
        for side, sign in (("L", 1), ("R", -1)):
            figure.key_arm(rig, frame, side, 0, sign * 7)


def step_back(chain: bpy.types.PropertyGroup, steps: tuple[tuple[int, int, float], ...]) -> None:
    """Keys of a foot, in the world: it stands, and steps back with the body."""
    start = chain.target_location.copy()
    before = start
    chain.keyframe_insert("target_location", frame=FIRST)
    for first, last, share in steps:
        after = start + (END - START) * share
        for frame in range(first, last + 1):
            part = (frame - first) / (last - first)
            chain.target_location = before.lerp(after, part * part * (3 - 2 * part))
            chain.target_location.z += STEP_HEIGHT * sin(part * 3.14159265)
            chain.keyframe_insert("target_location", frame=frame)
        before = after


def add_hand(rig: bpy.types.Object) -> None:
    """The right hand, in the space of the character, where its FK pose has it."""
    bpy.ops.ik_chain.add(
        object=rig.name,
        name="hand.R",
        root_bone="upper_arm.R",
        end_bone="hand.R",
        use_tail=False,
        target_space="ARMATURE",
    )
    chain = rig.ik_chains["hand.R"]
    chain.use_rotation = True
    # The target takes place and rotation of the hand.
    bpy.ops.ik_chain.snap_ik(object=rig.name, chain="hand.R")
    chain.pole_mode, chain.pole_location = "DIRECTION", (-0.8, 1, -0.5)


def take_and_release(rig: bpy.types.Object, grip: bpy.types.Object) -> None:
    """Reach for the handle, hold it in its own space, and go back."""
    scene, chain = bpy.context.scene, rig.ik_chains["hand.R"]
    scene.frame_set(LEAVE)
    rest = chain.target_location.copy(), chain.target_rotation.copy()
    key_hand(chain, LEAVE, *rest)

    scene.frame_set(TAKE)
    inside = rig.matrix_world.inverted() @ grip.matrix_world
    hold = inside.to_translation(), inside.to_quaternion() @ FINGERS.to_track_quat("Y", "X")
    key_hand(
        chain,
        (LEAVE + TAKE) / 2,
        rest[0].lerp(hold[0], 0.5) + Vector((-0.03, -0.04, 0)),
        rest[1].slerp(hold[1], 0.5),
    )
    # It is there a little before, so that it rests while its space changes.
    for frame in (TAKE - 3, TAKE):
        key_hand(chain, frame, *hold)
    bpy.ops.ik_chain.switch_space(object=rig.name, chain="hand.R", space="CUSTOM", target=grip.name)

    scene.frame_set(RELEASE)
    bpy.ops.ik_chain.switch_space(object=rig.name, chain="hand.R", space="ARMATURE")
    away = chain.target_location + Vector((-0.02, 0.1, 0.03))
    key_hand(chain, RELEASE + 6, away, chain.target_rotation)
    key_hand(chain, BACK, *rest)
    scene.frame_set(FIRST)


def key_hand(chain: bpy.types.PropertyGroup, frame: float, location: Vector, rotation: Quaternion) -> None:
    chain.target_location, chain.target_rotation = location, rotation
    chain.keyframe_insert("target_location", frame=frame)
    chain.keyframe_insert("target_rotation", frame=frame)


if __name__ == "__main__":
    figure.run(make, "door")
