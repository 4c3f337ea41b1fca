# SPDX-License-Identifier: GPL-3.0-or-later
"""A hand on a hip: it stays there while the character walks and turns, and its hips sway.

    python examples/hip.py [FOLDER]
    blender -b --python examples/hip.py -- [FOLDER]

FOLDER is where hip.blend goes, `examples/out` without it. The chains stay live.
"""

import sys
from math import radians
from pathlib import Path
from types import ModuleType

import bpy
import numpy as np
from mathutils import Matrix, Vector

sys.path.insert(0, str(Path(__file__).resolve().parent))
import figure  # noqa: E402 - Blender looks for modules elsewhere
import gait  # noqa: E402

FIRST, LAST = 1, 1 + 5 * gait.CYCLE
# The character walks ahead, then turns right by this many degrees between two frames.
TURN, TURN_FIRST, TURN_LAST = 135, 20, 92
# Wrist, fingers and elbow, as the character stands at rest: the fingers lie forward and down on the hip,
# the thumb behind, and the elbow points out and back.
WRIST, FINGERS, ELBOW = Vector((0.2, 0.03, 1.02)), Vector((-0.25, -0.8, -0.55)), (1, 0.7, 0)
NOTE = """\
A hand on a hip

Press N in the viewport and open the tab IK Chains. The target of the chain hand.L is stored in the
space of the bone hips: walk, turn or sway, the hand stays where it is.

- Play it, and look at the hand.
- Turn or move the hips on any frame: the hand goes along, and the feet stay in the world.
- Drag the target with its gizmo: it has another place on the hip from then on.
- Press Switch Space > World on some frame: from then on the hand stays where it is in the world, and
  the character walks away from it. The list tells when it is out of reach. Undo.

The script that made it: examples/hip.py
"""


def make(_addon: ModuleType) -> None:
    scene = bpy.context.scene
    scene.frame_start, scene.frame_end = FIRST, LAST
    rig = figure.build_character("Walker")
    camera = figure.build_set((1.6, -3.9, 1.35), (0, 0, 0.88), 40)
    gait.follow(camera, path, FIRST, LAST)

    gait.animate_root(rig, path, FIRST, LAST)
    gait.animate_body(rig, FIRST, LAST, arms="R")
    scene.frame_set(FIRST)
    for side in "LR":
        # WORLD, the default: the foot stays where it is planted, the body moves on.
        figure.add_leg(rig, side)
        gait.animate_foot(rig, side, path, FIRST, LAST)
    hold_hip(rig)
    figure.present(rig, "hand.L", NOTE)


def hold_hip(rig: bpy.types.Object) -> None:
    """The hand in the space of the pelvis."""
    bpy.ops.ik_chain.add(
        object=rig.name,
        name="hand.L",
        root_bone="upper_arm.L",
        end_bone="hand.L",
        use_tail=False,
        target=rig.name,
        subtarget="hips",
    )
    chain = rig.ik_chains["hand.L"]
    inside = rig.data.bones["hips"].matrix_local.inverted()
    chain.target_location = inside @ WRIST
    chain.use_rotation = True
    chain.target_rotation = inside.to_quaternion() @ FINGERS.to_track_quat("Y", "X")
    chain.pole_mode, chain.pole_location = "DIRECTION", ELBOW


def path(frame: float) -> Matrix:
    """Ahead along -Y, and round a bend to the right."""
    heading = float(np.interp(frame, _FRAMES, _HEADINGS))
    place = [np.interp(frame, _FRAMES, _PLACES[:, axis]) for axis in (0, 1)]
    return Matrix.Translation((*place, 0)) @ Matrix.Rotation(heading, 4, "Z")


def _places(frames: np.ndarray, headings: np.ndarray) -> np.ndarray:
    """The way of one stride a cycle, always ahead; through the origin on the first frame."""
    steps = np.stack([np.sin(headings), -np.cos(headings)], axis=1) * gait.STRIDE / gait.CYCLE
    way = np.cumsum(steps, axis=0)
    return way - way[np.searchsorted(frames, FIRST)]


_FRAMES = np.arange(FIRST - 2 * gait.CYCLE, LAST + 2 * gait.CYCLE + 1)
_SHARE = np.clip((_FRAMES - TURN_FIRST) / (TURN_LAST - TURN_FIRST), 0.0, 1.0)
_HEADINGS = -radians(TURN) * _SHARE**2 * (3.0 - 2.0 * _SHARE)
_PLACES = _places(_FRAMES, _HEADINGS)

if __name__ == "__main__":
    figure.run(make, "hip")
