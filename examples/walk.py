# SPDX-License-Identifier: GPL-3.0-or-later
"""A character walks: planted feet, a hand on its hip, a head that follows a bird; baked and saved.

    python examples/walk.py [FOLDER]
    blender -b --python examples/walk.py -- [FOLDER]

FOLDER is where walk.blend goes, `examples/out` without it. The script is how the add-on is used
from Python: a character with plain FK animation gets its chains, the targets get their keys, and
one call bakes all of it.
"""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import bpy
from mathutils import Matrix, Vector

sys.path.insert(0, str(Path(__file__).resolve().parent))
import figure  # noqa: E402 - Blender looks for modules elsewhere
import gait  # noqa: E402

FIRST, LAST = 1, 1 + 4 * gait.CYCLE
NOTE = """\
Walk

All chains of the character are baked: the file plays with and without the add-on. With it, press N
in the viewport, open the tab IK Chains, and

- press Plot Residual: every tip is on its target, on every frame;
- choose leg.L and press Unbake: the chain is live again, and its target can be dragged;
- move the hips up until the legs are too short, and look at the list of chains.

The script that made it: examples/walk.py
"""


def make(addon: ModuleType) -> None:
    scene = bpy.context.scene
    scene.frame_start, scene.frame_end = FIRST, LAST
    rig = figure.build_character("Walker")
    bird = build_bird()
    camera = figure.build_set((2.2, -3.5, 1.4), (0, -0.3, 1.0), 38)
    gait.follow(camera, path, FIRST, LAST)

    gait.animate_root(rig, path, FIRST, LAST)
    gait.animate_body(rig, FIRST, LAST, arms="R")
    add_chains(addon, rig, bird)
    for side in "LR":
        gait.animate_foot(rig, side, path, FIRST, LAST)
    scene.frame_set(FIRST)

    bake = addon.blender.bake
    report = addon.blender.ranges.run(bake.bake(scene, [rig], bake.BakeOptions((FIRST, LAST))))
    print_report(report)
    figure.present(rig, "leg.L", NOTE)


def path(frame: float) -> Matrix:
    """Straight ahead, along -Y."""
    return Matrix.Translation((0, -gait.STRIDE * (frame - FIRST) / gait.CYCLE, 0))


def build_bird() -> bpy.types.Object:
    """The bird flies ahead of the character, from side to side."""
    points, faces = figure.loft([(-0.09, 0.03, 0.03), (-0.02, 0.08, 0.07), (0.07, 0.05, 0.05)])
    wings = [
        Vector((side * x, y, 0.02)) for side in (-1, 1) for x, y in ((0.02, -0.04), (0.2, 0.0), (0.02, 0.05))
    ]
    bird = figure.mesh_object(
        "Bird", [("bird", points, faces), ("bird", wings, [[0, 1, 2], [5, 4, 3]])], smooth=True
    )
    for frame, aside, height in ((FIRST, 0.9, 1.6), (30, -0.5, 1.75), (62, 0.5, 1.75), (LAST, -0.3, 1.6)):
        bird.location = path(frame) @ Vector((aside, -1.1, height))
        bird.keyframe_insert("location", frame=frame)
    return bird


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
        target_location=(0.2, 0.03, 1.02),
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


if __name__ == "__main__":
    figure.run(make, "walk")
