# SPDX-License-Identifier: GPL-3.0-or-later
"""A leg that takes two steps in FK, with a foot that slides a little wherever it stands."""

from typing import Any

import bpy
import numpy as np
from bone_rigs import LEG, armature, evaluated, go_to, head, pose

from ik_addon.blender import bake, chains, ranges

FRAMES = range(1, 61)
# Frames in which the ankle stands, and how far it slides there, metres.
STANCES = ((1, 17), (25, 41), (49, 60))
SLIDE = 0.02
HEIGHT = 0.06


def ankle_at(frame: float) -> np.ndarray:
    """Where the ankle is in FK: three stances with two steps of 0.3 m between them, along -Y."""

    def slid(number: int, at: float) -> float:
        first, last = STANCES[number]
        return 0.3 * number - SLIDE * (np.clip(at, first, last) - first) / (last - first)

    for number, (_, last) in enumerate(STANCES):
        if frame <= last:
            return np.array([0.1, -slid(number, frame), HEIGHT])
        after = STANCES[number + 1][0]
        if frame < after:
            at = (frame - last) / (after - last)
            start, end = slid(number, last), slid(number + 1, after)
            way = start + at * at * (3.0 - 2.0 * at) * (end - start)
            return np.array([0.1, -way, HEIGHT + 0.1 * np.sin(np.pi * at) ** 2])
    raise ValueError(f"no frame {frame}")


def walker(name: str = "Rig") -> bpy.types.Object:
    """The rig, with keys on hips, thigh and shin on each frame, without chains. 24 frames a second."""
    ob = armature(name, LEG)
    scene = bpy.context.scene
    scene.frame_start, scene.frame_end = FRAMES[0], FRAMES[-1]
    hips = ob.pose.bones["hips"]
    chain = chains.add(ob, "thigh", "foot", name="draft", use_tail=False)
    for frame in FRAMES:
        # A bone's Y axis is the world's Z here.
        hips.location = (0.0, -0.08, 0.6 * frame / FRAMES[-1])
        hips.keyframe_insert("location", frame=frame)
        chain.target_location = ankle_at(frame)
        chain.keyframe_insert("target_location", frame=frame)
    ranges.run(bake.bake(scene, [ob], bake.BakeOptions((FRAMES[0], FRAMES[-1]))))
    chains.remove(ob, 0)
    go_to(FRAMES[0])
    return ob


def leg(ob: bpy.types.Object, **settings: Any) -> Any:
    """The leg's chain."""
    return chains.add(ob, "thigh", "foot", **{"name": "leg", "use_tail": False, **settings})


def ankle_path(ob: bpy.types.Object, frames: Any = FRAMES) -> np.ndarray:
    """Where Blender has the ankle ``(F, 3)``, in the world."""
    found = []
    for frame in frames:
        go_to(frame)
        found.append(head(ob, "foot"))
    return np.array(found)


def motion(ob: bpy.types.Object, frames: Any = FRAMES) -> np.ndarray:
    """Pose matrices ``(F, n, 4, 4)`` in armature space."""
    found = []
    for frame in frames:
        go_to(frame)
        found.append(pose(ob))
    return np.array(found)


def channels(ob: bpy.types.Object, bone: str) -> tuple[tuple[float, ...], ...]:
    """The evaluated channels of a bone at the present frame."""
    found = evaluated(ob).pose.bones[bone]
    return tuple(found.location), tuple(found.rotation_quaternion), tuple(found.scale)


def slides(path: np.ndarray, stances: Any, frames: Any = FRAMES) -> list[float]:
    """The largest distance between two places of a path in each stance."""
    rows = [path[[f - frames[0] for f in range(first, last + 1)]] for first, last in stances]
    return [float(np.linalg.norm(p[:, None] - p[None], axis=-1).max()) for p in rows]
