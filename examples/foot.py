# SPDX-License-Identifier: GPL-3.0-or-later
"""Planted feet: the body shifts, squats and lunges over feet that stay where they are.

    python examples/foot.py [FOLDER]
    blender -b --python examples/foot.py -- [FOLDER]

FOLDER is where foot.blend goes, `examples/out` without it. The chains stay live. On a few frames
the lunge is longer than the right leg: there the add-on tells what remains, and why.
"""

import sys
from pathlib import Path
from types import ModuleType

import bpy

sys.path.insert(0, str(Path(__file__).resolve().parent))
import figure  # noqa: E402 - Blender looks for modules elsewhere

FIRST, LAST = 1, 132
# How far aside of its place at rest the right foot stands.
STANCE = 0.25
# frame: hips to the left, up and ahead in metres; lean of the back ahead and to the left, and how far the
# arms are raised ahead and aside, in degrees
MOVES = {
    FIRST: ((-0.12, -0.05, 0), (2, 0), (0, 8)),
    22: ((0.06, -0.06, 0), (3, -3), (8, 12)),
    44: ((0.02, -0.42, -0.16), (38, 0), (85, 8)),
    54: ((0.02, -0.44, -0.16), (40, 0), (88, 8)),
    74: ((-0.2, -0.08, 0), (3, 4), (5, 14)),
    96: ((0.36, -0.24, 0.02), (8, -8), (10, 55)),
    100: ((0.36, -0.24, 0.02), (8, -8), (10, 58)),
    LAST: ((-0.12, -0.05, 0), (2, 0), (0, 8)),
}
NOTE = """\
Planted feet

Press N in the viewport and open the tab IK Chains. The targets of both legs are stored in the world:
the body moves, the feet stay.

- Play it: the left foot does not move at all.
- From frame 94 to 105 the lunge is longer than the right leg. The icon in the list says so,
  and Result tells by how much. Press Plot Residual to see it over all frames.
- Move the hips on any frame: the knees follow, the feet stay.
- On a frame of the lunge, lower the hips or raise the target of leg.R: the leg reaches again.

The script that made it: examples/foot.py
"""


def make(_addon: ModuleType) -> None:
    scene = bpy.context.scene
    scene.frame_start, scene.frame_end = FIRST, LAST
    rig = figure.build_character("Figure")
    figure.build_set((0.9, -4.0, 1.25), (-0.02, 0, 0.86), 40)
    for side in "LR":
        # WORLD, the default: the foot stays where it is planted, whatever the body does.
        figure.add_leg(rig, side)
    rig.ik_chains["leg.R"].target_location.x -= STANCE
    animate_body(rig)
    figure.present(rig, "leg.R", NOTE)


def animate_body(rig: bpy.types.Object) -> None:
    """FK keys of everything above the legs."""
    hips = rig.pose.bones["hips"]
    for frame, ((left, up, ahead), (lean, aside), (raised, spread)) in MOVES.items():
        hips.location = (left, up, ahead)
        hips.keyframe_insert("location", frame=frame)
        turns = {
            "hips": ((1, 0, 0), lean / 2),
            "spine": ((1, 0, 0), lean / 2),
            "chest": ((0, 0, 1), aside),
            "head": ((1, 0, 0), -lean / 2),
            "forearm.L": ((1, 0, 0), -12),
            "forearm.R": ((1, 0, 0), -12),
        }
        figure.key_bones(rig, frame, turns)
        for side, sign in (("L", 1), ("R", -1)):
            figure.key_arm(rig, frame, side, raised, sign * spread)


if __name__ == "__main__":
    figure.run(make, "foot")
