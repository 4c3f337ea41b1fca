# SPDX-License-Identifier: GPL-3.0-or-later
"""Rigs made by others whose joints have limits or locks, and their kinematics by rest matrices and channels.

Nothing here asks the add-on for an angle or a position: ranges are the bones' own settings, rotations
are taken from Blender's evaluated channels or pose matrices, tips are posed bone by bone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import bpy
import numpy as np
from bone_rigs import go_to
from real_rigs import assign, clip, mute_native_ik, take_meshes_away

from ik_addon.blender import files

TAU = 2.0 * np.pi
# How far from FK a joint without a range is posed to find targets that can be reached.
SWING = np.radians(100.0)


@dataclass(frozen=True)
class LimitedRig:
    """A rig, the clip that poses it in FK, and the chains it gets.

    Attributes:
        file: below the folder of test characters; action: empty: the rig rests.
        chains: root and end bone of each.
        controls: the file's own control bone of each chain, or none.
        ranges: X ranges in degrees that bones get on top of their own locks.
    """

    name: str
    file: str
    solver: str
    chains: tuple[tuple[str, str], ...]
    action: str = ""
    controls: tuple[str, ...] = ()
    ranges: dict[str, tuple[float, float]] = field(default_factory=dict)

    def load(self, folder: Path) -> bpy.types.Object:
        """Open the file: native IK muted, no meshes, at rest or with the clip assigned."""
        files.load(folder / self.file)
        ob = next(ob for ob in bpy.data.objects if ob.type == "ARMATURE")
        mute_native_ik(ob)
        take_meshes_away()
        if self.action:
            assign(ob, clip(self.action))
        else:
            ob.animation_data_clear()
            for bone in ob.pose.bones:
                bone.matrix_basis.identity()
        for name, (low, high) in self.ranges.items():
            bone = ob.pose.bones[name]
            bone.use_ik_limit_x = True
            bone.ik_min_x, bone.ik_max_x = np.radians(low), np.radians(high)
        bpy.context.view_layer.update()
        return ob


class Limb:
    """A chain whose tip is the tail of its end bone, by rest matrices alone.

    Attributes:
        names: of the n bones.
        offset: ``(n, 4, 4)`` rest matrix of each in its parent's frame.
        length: metres, joint to joint and to the tail.
        lower, upper: ``(n, 3)`` ranges of the Euler angles x, y, z, infinite: free; locked: ``(n, 3)``.
    """

    def __init__(self, ob: bpy.types.Object, root: str, end: str) -> None:
        bone = ob.data.bones[end]
        self.names = [bone.name]
        while bone.name != root:
            bone = bone.parent
            self.names.insert(0, bone.name)
        self.ob = ob
        self.above = bone.parent.name if bone.parent else ""
        self.offset = np.stack([rest_offset(ob.data.bones[name]) for name in self.names])
        self.tail = np.array([0.0, ob.data.bones[end].length, 0.0, 1.0])
        steps = [np.linalg.norm(m[:3, 3]) for m in self.offset[1:]]
        self.length = float(sum(steps) + self.tail[1])
        bones = [ob.pose.bones[name] for name in self.names]
        self.locked = np.array([[getattr(bone, f"lock_ik_{a}") for a in "xyz"] for bone in bones])
        limited = np.array([[getattr(bone, f"use_ik_limit_{a}") for a in "xyz"] for bone in bones])
        low, high = (
            np.array([[getattr(bone, f"ik_{end}_{a}") for a in "xyz"] for bone in bones])
            for end in ("min", "max")
        )
        self.lower, self.upper = np.where(limited, low, -np.inf), np.where(limited, high, np.inf)

    def joints(self, seat: np.ndarray, rotation: np.ndarray) -> np.ndarray:
        """World positions ``(..., n + 1, 3)`` of heads and tip.

        Args:
            seat: ``(..., 4, 4)`` from `seat`; rotation: ``(..., n, 3, 3)`` channels.
        """
        points, matrix = [], seat
        for bone, offset in enumerate(self.offset):
            turn = np.zeros((*rotation.shape[:-3], 4, 4))
            turn[..., :3, :3], turn[..., 3, 3] = rotation[..., bone, :, :], 1.0
            matrix = matrix @ (offset if bone else np.eye(4)) @ turn
            points.append(matrix[..., :3, 3])
        points.append((matrix @ self.tail)[..., :3])
        return np.stack(points, axis=-2)

    def seen_joints(self) -> np.ndarray:
        """``(n + 1, 3)`` where Blender evaluates heads and tip to, in the world."""
        seen = evaluated(self.ob)
        world = np.array(seen.matrix_world, np.float64)
        bones = [seen.pose.bones[name] for name in self.names]
        points = np.array([*(bone.head for bone in bones), bones[-1].tail], np.float64)
        return points @ world[:3, :3].T + world[:3, 3]

    def seat(self) -> np.ndarray:
        """``(4, 4)`` the root's world matrix before it is turned: its location, and all channels above."""
        seen = evaluated(self.ob)
        bones = [seen.pose.bones[name] for name in self.names]
        assert np.allclose([bone.scale for bone in bones], 1.0, rtol=0.0, atol=1e-6)
        assert all(bone.bone.use_connect for bone in bones[1:])
        matrix = np.array(seen.matrix_world, np.float64)
        if self.above:
            matrix = matrix @ posed_by_channels(self.ob, self.above)
        place = np.eye(4)
        place[:3, 3] = bones[0].location
        return matrix @ self.offset[0] @ place

    def channel_rotations(self) -> np.ndarray:
        """``(n, 3, 3)`` from the evaluated rotation channels."""
        return np.stack([channel_rotation(self.ob, name) for name in self.names])

    def matrix_rotations(self) -> np.ndarray:
        """``(n, 3, 3)`` channel rotations, taken out of the evaluated pose matrices."""
        bones = evaluated(self.ob).pose.bones
        before = np.array(bones[self.above].matrix, np.float64) if self.above else np.eye(4)
        out = []
        for name, offset in zip(self.names, self.offset, strict=True):
            matrix = np.array(bones[name].matrix, np.float64)
            out.append((np.linalg.inv(before @ offset) @ matrix)[:3, :3])
            before = matrix
        return np.stack(out)

    def boxes(self, fk: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Ranges ``(..., n, 3)`` with locked axes held at the angles of FK channels ``(..., n, 3, 3)``."""
        angles = euler_angles(fk)
        return np.where(self.locked, angles, self.lower), np.where(self.locked, angles, self.upper)


def evaluated(ob: bpy.types.Object) -> bpy.types.Object:
    return ob.evaluated_get(bpy.context.evaluated_depsgraph_get())


def rest_offset(bone: bpy.types.Bone) -> np.ndarray:
    own = np.array(bone.matrix_local, np.float64)
    return np.linalg.inv(np.array(bone.parent.matrix_local, np.float64)) @ own if bone.parent else own


def channel_rotation(ob: bpy.types.Object, name: str) -> np.ndarray:
    bone = evaluated(ob).pose.bones[name]
    assert bone.rotation_mode == "QUATERNION"
    return quaternion_matrix(np.array(bone.rotation_quaternion, np.float64))


def quaternion_matrix(q: np.ndarray) -> np.ndarray:
    """Rotations ``(..., 3, 3)`` of quaternions ``(..., 4)`` of any length, w x y z."""
    w, x, y, z = np.moveaxis(q / np.linalg.norm(q, axis=-1, keepdims=True), -1, 0)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.moveaxis(np.array(rows), (0, 1), (-2, -1))


def posed_by_channels(ob: bpy.types.Object, name: str) -> np.ndarray:
    """Pose matrix ``(4, 4)`` of a bone and those above it, all of which inherit in full."""
    bone = ob.data.bones[name]
    assert bone.inherit_scale == "FULL" and bone.use_inherit_rotation and bone.use_local_location
    channels = evaluated(ob).pose.bones[name]
    basis = np.eye(4)
    basis[:3, :3] = channel_rotation(ob, name) * np.array(channels.scale, np.float64)
    if not bone.use_connect:
        basis[:3, 3] = channels.location
    above = posed_by_channels(ob, bone.parent.name) if bone.parent else np.eye(4)
    return above @ rest_offset(bone) @ basis


# Angles


def rotation_of(angles: np.ndarray) -> np.ndarray:
    """Matrices ``(..., 3, 3)`` Rz @ Ry @ Rx of angles ``(..., 3)``, written out as three turns."""
    turns = []
    for axis, angle in enumerate(np.moveaxis(angles, -1, 0)):
        i, j = (axis + 1) % 3, (axis + 2) % 3
        turn = np.zeros((*angle.shape, 3, 3))
        turn[..., axis, axis] = 1.0
        turn[..., i, i] = turn[..., j, j] = np.cos(angle)
        turn[..., j, i] = np.sin(angle)
        turn[..., i, j] = -turn[..., j, i]
        turns.append(turn)
    return turns[2] @ turns[1] @ turns[0]


def euler_angles(m: np.ndarray) -> np.ndarray:
    """Angles x, y, z ``(..., 3)`` of order XYZ, the middle one within 90 degrees."""
    x = np.arctan2(m[..., 2, 1], m[..., 2, 2])
    y = np.arctan2(-m[..., 2, 0], np.hypot(m[..., 0, 0], m[..., 1, 0]))
    z = np.arctan2(m[..., 1, 0], m[..., 0, 0])
    return np.stack([x, y, z], axis=-1)


def outside(m: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """By how many radians rotations ``(..., 3, 3)`` leave their ranges, ``(...)``: the better name."""
    first = euler_angles(m)
    second = first + np.pi
    second[..., 1] = np.pi - first[..., 1]
    names = [_past(angles, lower, upper) for angles in (first, second)]
    return np.minimum(*names)


def _past(angles: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    spun = angles[..., None] + TAU * np.arange(-2, 3)
    past = np.maximum(lower[..., None] - spun, spun - upper[..., None]).min(axis=-1)
    return np.maximum(past.max(axis=-1), 0.0)


# Targets


def winding(limb: Limb, fk: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Angles ``(F, n, 3)`` inside the ranges that change smoothly over the frames of FK ``(F, n, 3, 3)``."""
    count = len(fk)
    lower, upper = limb.boxes(fk)
    angles = euler_angles(fk)
    free = np.isinf(lower)
    low, high = np.where(free, angles - SWING, lower), np.where(free, angles + SWING, upper)
    rate, phase = rng.uniform(0.5, 2.5, low.shape[1:]), rng.uniform(0.0, TAU, low.shape[1:])
    time = np.linspace(0.0, TAU, count)[:, None, None]
    # Held axes are held to the bit.
    return 0.5 * (low + high) + 0.475 * (high - low) * np.sin(rate * time + phase)


def least_gap(
    limb: Limb, seat: np.ndarray, lower: np.ndarray, upper: np.ndarray, target: np.ndarray
) -> float:
    """How near the tip comes to a target inside the ranges ``(n, 3)``: brute force, without derivatives.

    Poses at random all over the box, and the best of them improved by ever smaller steps at random.
    """
    rng = np.random.default_rng(0)
    free = np.isinf(lower)
    low, high = np.where(free, -np.pi, lower), np.where(free, np.pi, upper)

    def gaps(angles: np.ndarray) -> np.ndarray:
        tips = limb.joints(seat, rotation_of(angles))[..., -1, :]
        return np.linalg.norm(tips - target, axis=-1)

    tried = low + (high - low) * rng.uniform(size=(4000, *low.shape))
    best = tried[np.argsort(gaps(tried))[:16]]
    width = 0.3 * (high - low)
    for _ in range(45):
        near = best[:, None] + width * rng.normal(size=(len(best), 20, *low.shape))
        near = np.where(free, near, np.clip(near, low, high))
        near[:, 0] = best
        found = gaps(near)
        best = near[np.arange(len(near)), found.argmin(axis=1)]
        width = width * 0.75
    return float(found.min())


# Scenes


def follow(ob: bpy.types.Object, places: np.ndarray, first: int) -> bpy.types.Object:
    """An empty with a key on each frame from `first` on, at world places ``(F, 3)``."""
    empty = bpy.data.objects.new("Target", None)
    bpy.context.scene.collection.objects.link(empty)
    for frame, place in enumerate(places, start=first):
        empty.location = place
        empty.keyframe_insert("location", frame=frame)
    return empty


def at_each(limbs: Sequence[Limb], frames: Sequence[int], read: str) -> list[np.ndarray]:
    """What a method of each limb returns on each frame: ``(F, ...)`` for each limb."""
    rows: list[list[np.ndarray]] = [[] for _ in limbs]
    for frame in frames:
        go_to(frame)
        for row, limb in zip(rows, limbs, strict=True):
            row.append(getattr(limb, read)())
    return [np.stack(row) for row in rows]
