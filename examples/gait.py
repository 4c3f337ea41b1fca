# SPDX-License-Identifier: GPL-3.0-or-later
"""How the character of the examples walks along a path: FK keys for its body, targets for its feet."""

from collections.abc import Callable, Sequence
from math import cos, pi, radians, sin

import bpy
import numpy as np
from figure import key_bones
from mathutils import Matrix, Quaternion, Vector

# Frames of a cycle, which is a step of either foot, and metres that it covers.
CYCLE, STRIDE = 24, 1.0
# How far a foot lands ahead of the body, and for how long it then stands.
STEP_AHEAD, TOE_OFF = 0.22, 15
LIFT = 0.05
# Pitch of the foot in degrees over the frames from its landing: heel, flat, ball, swing.
PITCH = ((0, 3, 10, 13, TOE_OFF, 19, 22, CYCLE), (-16, 0, 0, 14, 34, 22, -8, -16))
# Where the foot rolls, relative to the ankle at rest: behind on the ground, and its joint with the toes.
HEEL = Vector((0, 0.05, -0.085))
BALL = Vector((0, -0.135, -0.055))
# Points of the sole that must not go into the ground, and the toes that bend up from the ball.
TOE_LENGTH = 0.075

# Where the character stands at a frame, and where it looks to (-Y of the matrix).
Path = Callable[[float], Matrix]


def animate_root(ob: bpy.types.Object, path: Path, first: int, last: int) -> None:
    """Key an object along the path."""
    for frame in range(first, last + 1, 2):
        ob.location, ob.rotation_euler = path(frame).to_translation(), path(frame).to_euler()
        ob.keyframe_insert("location", frame=frame)
        ob.keyframe_insert("rotation_euler", frame=frame)


def animate_body(rig: bpy.types.Object, first: int, last: int, arms: Sequence[str]) -> None:
    """FK keys of hips and spine, and of the arms that swing ("L", "R")."""
    hips = rig.pose.bones["hips"]
    for frame in range(first, last + 1, 3):
        turn = 2 * pi * (frame - first) / CYCLE
        # Low with both feet on the ground, high over one of them; aside over the foot that stands.
        hips.location = (0.018 * sin(turn), -0.04 - 0.013 * cos(2 * turn), 0)
        hips.keyframe_insert("location", frame=frame)
        turns = {
            "hips": ((0, 1, 0), 6 * cos(turn)),
            "chest": ((0, 1, 0), -10 * cos(turn)),
            "spine": ((1, 0, 0), 3),
        }
        for side in arms:
            swing = cos(turn) if side == "R" else -cos(turn)
            turns[f"upper_arm.{side}"] = ((1, 0, 0), -24 * swing)
            turns[f"forearm.{side}"] = ((1, 0, 0), -24 - 10 * swing)
        key_bones(rig, frame, turns)


def animate_foot(rig: bpy.types.Object, side: str, path: Path, first: int, last: int) -> None:
    """Key the target of a leg, in the world, and the toes: a foot stands, rolls, swings to its next place."""
    chain, toe = rig.ik_chains[f"leg.{side}"], rig.pose.bones[f"toe.{side}"]
    bone = rig.data.bones[f"foot.{side}"]
    ankle, rest = bone.head_local, bone.matrix_local.to_quaternion()
    landing = first if side == "L" else first - CYCLE // 2

    def standing(landed: float, phase: float) -> tuple[Vector, Quaternion]:
        """Ankle and turn from rest, in the world, of a foot that has landed."""
        pivot = HEEL if phase < PITCH[0][1] else BALL
        roll = Quaternion((1, 0, 0), radians(pitch(phase)))
        place = path(landed + CYCLE * STEP_AHEAD / STRIDE)
        return place @ (ankle + pivot - roll @ pivot), place.to_quaternion() @ roll

    for frame in range(first, last + 1):
        landed = landing + CYCLE * ((frame - landing) // CYCLE)
        phase = frame - landed
        bend = max(pitch(phase), 0.0)
        if phase <= TOE_OFF:
            place, turn = standing(landed, phase)
        else:
            share = (phase - TOE_OFF) / (CYCLE - TOE_OFF)
            here, before = standing(landed, TOE_OFF)
            there, after = standing(landed + CYCLE, 0.0)
            place = here.lerp(there, (1 - cos(pi * share)) / 2)
            place.z += LIFT * sin(pi * share)
            heading = before.slerp(after, share)
            # Of the slerp only the heading counts: the pitch has a course of its own.
            heading = Quaternion((0, 0, 1), heading.to_euler("ZYX").z)
            turn = heading @ Quaternion((1, 0, 0), radians(pitch(phase)))
            bend *= max(0.0, 1.0 - 2.0 * share)
        place.z -= min(0.0, lowest(place, turn, bend))
        chain.target_location, chain.target_rotation = place, turn @ rest
        chain.keyframe_insert("target_location", frame=frame)
        chain.keyframe_insert("target_rotation", frame=frame)
        toe.rotation_quaternion = Quaternion((1, 0, 0), radians(bend))
        toe.keyframe_insert("rotation_quaternion", frame=frame)


def pitch(phase: float) -> float:
    return float(np.interp(phase, *PITCH))


def lowest(ankle: Vector, turn: Quaternion, bend: float) -> float:
    """Height of the lowest point of a sole."""
    ball = BALL + Vector((0, 0, -0.03))
    toes = Quaternion((1, 0, 0), radians(-bend)) @ Vector((0, -TOE_LENGTH, -0.03))
    return min((ankle + turn @ point).z for point in (HEEL, ball, BALL + toes))


def follow(ob: bpy.types.Object, path: Path, first: int, last: int) -> None:
    """Key an object that keeps its distance to the character, but does not turn with it."""
    start = ob.location - path(first).to_translation()
    for frame in range(first, last + 1, 4):
        ob.location = start + path(frame).to_translation()
        ob.keyframe_insert("location", frame=frame)
