# SPDX-License-Identifier: GPL-3.0-or-later
"""Bake of our chains and Blender's `nla.bake` of IK constraints, on the same rig in one run.

    python benchmarks/bake.py [--chains N] [--frames N]

Prints one table: seconds, their ratio, and the largest scene residual of the baked pose.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import bpy
import rigs

from ik_addon.blender import bake, ranges


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def blender_bake(ob: bpy.types.Object, last: int) -> None:
    bpy.context.view_layer.objects.active = ob
    bpy.ops.object.mode_set(mode="POSE")
    bpy.ops.pose.select_all(action="SELECT")
    bpy.ops.nla.bake(
        frame_start=1, frame_end=last, only_selected=True, visual_keying=True, bake_types={"POSE"}
    )
    bpy.ops.object.mode_set(mode="OBJECT")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chains", type=int, default=100)
    parser.add_argument("--frames", type=int, default=100)
    options = parser.parse_args()
    count, last = options.chains, options.frames
    with rigs.addon():
        ob, targets = rigs.legs(count, frames=last)
        rigs.add_blender_ik(ob, targets)
        theirs = seconds(lambda: blender_bake(ob, last))
        ob, targets = rigs.legs(count, frames=last)
        rigs.add_chains(ob, targets)
        scene = bpy.context.scene
        ours = seconds(lambda: ranges.run(bake.bake(scene, [ob], bake.BakeOptions((1, last)))))
        residual = rigs.largest_residual(ob, targets, 2, last)
    print(f"Blender {bpy.app.version_string}: {count} chains of 2 bones, {last} frames, a key a frame")
    print("| nla.bake | IK Chains | ratio (aim 0.2) | residual of the baked pose |")
    print("|---|---|---|---|")
    print(f"| {theirs:.3f} s | {ours:.3f} s | {ours / theirs:.2f} | {residual:.1e} |")


if __name__ == "__main__":
    main()
