# SPDX-License-Identifier: GPL-3.0-or-later
"""`frame_set` with our chains and with Blender's IK constraints on the same rig.

    python benchmarks/playback.py [--frames N]

Prints one table: milliseconds a frame, their ratio, and the largest scene residual of both. Ours in two
columns: frames that are solved, and frames that come again, as when a shot is played in a loop. `twice` is
what a handler costs that does nothing but ask for the rig to be evaluated again: no handler that writes
bones costs less.

Targets move `near` the tips in FK, or `far`: anywhere in reach of the root, in all directions. Blender's
solver takes the more steps the further a tip has to go; ours takes as many or few either way.
"""

from __future__ import annotations

import argparse
import itertools

import bpy
import rigs

from ik_addon.blender.state import STATE

CASES = (
    # bones, chains, solver, aim for the ratio
    (2, 1, "TWO_BONE", "1.2"),
    (2, 20, "TWO_BONE", "0.65"),
    (2, 200, "TWO_BONE", "0.6"),
    (20, 1, "FABRIK", "2"),
    (20, 20, "FABRIK", "1"),
)


def measure(bones: int, count: int, solver: str, motion: str, frames: int) -> dict[str, float]:
    ob, targets = rigs.legs(count, bones, motion=motion)
    result = {"fk": rigs.frame_time(frames)}
    result["twice"] = rigs.twice_time(ob, frames)
    rigs.add_blender_ik(ob, targets, bones)
    result["blender"] = rigs.frame_time(frames)
    result["blender_residual"] = rigs.largest_residual(ob, targets, bones)
    rigs.remove_blender_ik(ob)
    rigs.add_chains(ob, targets, bones, solver)
    result["solved"] = rigs.frame_time(frames, before=STATE.recall.clear)
    result["again"] = rigs.frame_time(frames)
    result["our_residual"] = rigs.largest_residual(ob, targets, bones)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=50)
    frames = parser.parse_args().frames
    print(f"Blender {bpy.app.version_string}, milliseconds a frame, residuals in chain lengths")
    columns = "bones x chains | FK | twice | Blender IK | solved | ratio (aim) | again | ratio"
    print(f"| {columns} | residual Blender | residual ours |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    with rigs.addon():
        for (bones, count, solver, aim), motion in itertools.product(CASES, rigs.MOTIONS):
            r = measure(bones, count, solver, motion, frames)
            solved, again = r["solved"] / r["blender"], r["again"] / r["blender"]
            print(
                f"| {bones} x {count} {solver} {motion} | {r['fk']:.3f} | {r['twice']:.3f} "
                f"| {r['blender']:.3f} | {r['solved']:.3f} | {solved:.2f} ({aim}) | {r['again']:.3f} "
                f"| {again:.2f} | {r['blender_residual']:.1e} | {r['our_residual']:.1e} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
