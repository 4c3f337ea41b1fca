# SPDX-License-Identifier: GPL-3.0-or-later
"""Scenes that both solvers are measured on, in the same run on the same machine."""

from __future__ import annotations

import contextlib
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import bpy
from mathutils import Vector

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import ik_addon  # noqa: E402
from ik_addon.blender import chains  # noqa: E402

BONE = 0.5


@contextlib.contextmanager
def addon() -> Iterator[None]:
    """The add-on, registered while the block runs."""
    ik_addon.register()
    try:
        yield
    finally:
        ik_addon.unregister()


def place(i: int) -> tuple[float, float]:
    """Where chain `i` stands: near the origin, since float32 loses digits far from it."""
    return (i % 20) * 0.1 - 1.0, (i // 20) * 0.1 - 0.5


def _near(shuffle: random.Random, length: float) -> Vector:
    """A way from the root that shortens the chain, in the direction of its tip or a little beside it."""
    x, y = shuffle.uniform(-0.2, 0.2), shuffle.uniform(-0.3, 0.3)
    return Vector((x, y, -length * shuffle.uniform(0.6, 0.85)))


def _far(shuffle: random.Random, length: float) -> Vector:
    """A way from the root in any direction, of 0.3 to 0.95 of the chain's length."""
    direction = Vector((shuffle.gauss(0.0, 1.0), shuffle.gauss(0.0, 1.0), shuffle.gauss(0.0, 1.0)))
    return direction.normalized() * length * shuffle.uniform(0.3, 0.95)


MOTIONS = {"near": _near, "far": _far}


def legs(
    count: int, bones: int = 2, frames: int = 60, *, motion: str = "near"
) -> tuple[bpy.types.Object, list[bpy.types.Object]]:
    """An armature of `count` separate chains with keyed targets that all stay in reach.

    Args:
        motion: of the targets: "near" the tips in FK, or "far" and wide, see `_near` and `_far`.
    """
    bpy.ops.wm.read_factory_settings(use_empty=True)
    scene = bpy.context.scene
    armature = bpy.data.armatures.new("Legs")
    ob = bpy.data.objects.new("Legs", armature)
    scene.collection.objects.link(ob)
    bpy.context.view_layer.objects.active = ob
    bpy.ops.object.mode_set(mode="EDIT")
    for i in range(count):
        parent = None
        for k in range(bones):
            bone = armature.edit_bones.new(f"leg{i}.{k}")
            x, y = place(i)
            bone.head = (x, y - (0.1 if k % 2 else 0.0), (bones - k) * BONE)
            bone.tail = (x, y - (0.0 if k % 2 else 0.1), (bones - k - 1) * BONE)
            bone.parent, bone.use_connect = parent, parent is not None
            parent = bone
    bpy.ops.object.mode_set(mode="OBJECT")
    shuffle = random.Random(1)
    targets = []
    for i in range(count):
        target = bpy.data.objects.new(f"Target{i}", None)
        scene.collection.objects.link(target)
        for frame in range(1, frames + 1, 10):
            way = MOTIONS[motion](shuffle, bones * BONE)
            target.location = Vector((*place(i), bones * BONE)) + way
            target.keyframe_insert("location", frame=frame)
        targets.append(target)
    scene.frame_end = frames
    return ob, targets


def ends(count: int, bones: int) -> list[tuple[str, str]]:
    """Names of the first and last bone of each chain of `legs`."""
    return [(f"leg{i}.0", f"leg{i}.{bones - 1}") for i in range(count)]


def add_blender_ik(ob: bpy.types.Object, targets: list, bones: int = 2) -> None:
    for (_, end), target in zip(ends(len(targets), bones), targets, strict=True):
        constraint = ob.pose.bones[end].constraints.new("IK")
        constraint.target, constraint.chain_count = target, bones


def remove_blender_ik(ob: bpy.types.Object) -> None:
    for bone in ob.pose.bones:
        for constraint in list(bone.constraints):
            bone.constraints.remove(constraint)


def add_chains(ob: bpy.types.Object, targets: list, bones: int = 2, solver: str = "TWO_BONE") -> None:
    for (root, end), target in zip(ends(len(targets), bones), targets, strict=True):
        chains.add(
            ob,
            root,
            end,
            solver=solver,
            target_space="CUSTOM",
            target=target,
            target_location=(0.0, 0.0, 0.0),
        )


def frame_time(frames: int = 50, repeats: int = 5, before: Callable[[], None] = lambda: None) -> float:
    """Milliseconds of one `frame_set`: the best mean of some passes over the frames.

    Args:
        before: called ahead of each pass.
    """
    scene = bpy.context.scene
    best = []
    for _ in range(repeats):
        scene.frame_set(1)
        before()
        start = time.perf_counter()
        for frame in range(2, 2 + frames):
            scene.frame_set(frame)
        best.append((time.perf_counter() - start) / frames * 1e3)
    return min(best)


def twice_time(ob: bpy.types.Object, frames: int = 50) -> float:
    """`frame_time` with a handler that only has Blender evaluate the object a second time."""

    def tag(_scene: bpy.types.Scene, _depsgraph: bpy.types.Depsgraph) -> None:
        ob.update_tag(refresh={"DATA"})

    bpy.app.handlers.frame_change_post.append(tag)
    try:
        return frame_time(frames)
    finally:
        bpy.app.handlers.frame_change_post.remove(tag)


def largest_residual(ob: bpy.types.Object, targets: list, bones: int, frames: int = 50) -> float:
    """Largest distance of an evaluated tip from its target, as a fraction of the chain's length."""
    scene, worst = bpy.context.scene, 0.0
    for frame in range(1, 1 + frames):
        scene.frame_set(frame)
        depsgraph = bpy.context.evaluated_depsgraph_get()
        seen = ob.evaluated_get(depsgraph)
        for (_, end), target in zip(ends(len(targets), bones), targets, strict=True):
            length = sum(ob.data.bones[end].parent_recursive[i].length for i in range(bones - 1))
            length += ob.data.bones[end].length
            tip = seen.matrix_world @ seen.pose.bones[end].tail
            goal = target.evaluated_get(depsgraph).matrix_world.translation
            worst = max(worst, (tip - goal).length / length)
    return worst


def median_time(work: Callable[[], None], repeats: int = 3) -> float:
    """Milliseconds that `work` takes: the median of some runs."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)
