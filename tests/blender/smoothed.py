# SPDX-License-Identifier: GPL-3.0-or-later
"""Shaken targets, and where smoothed ones have to be.

That is computed from what Blender evaluates on the other frames, by the formula of the window and nothing
of the add-on.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import bpy
import numpy as np
from bone_rigs import (
    LEG,
    armature,
    bone_world,
    empty,
    evaluated,
    go_to,
    head,
    update,
    world,
)

from ik_addon.blender import chains
from ik_addon.core.transforms import rotation_part

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


def bone_world_at(chain: Any, frame: float) -> np.ndarray:
    go_to(frame)
    return bone_world(chain.id_data, "foot")


def assert_unsmoothed(carried: tuple[Any, Any, str, str]) -> None:
    for frame in INSIDE:
        assert_at(bone_world_at(carried[0], frame), expected(carried, frame, 0))
