# SPDX-License-Identifier: GPL-3.0-or-later
"""Bake chains to keys and back."""

# mypy: disable-error-code="valid-type"

from collections.abc import Generator
from typing import Any

import bpy
from bpy.props import BoolProperty, IntProperty

from ..blender import bake, plots
from ..blender.chain_bones import ChainError
from ..core.report import length_text
from .common import ScopeOperator
from .range_job import RangeJob, draw_frames

# Frames named in a message; the rest is counted.
NAMED = 5


class IKCHAIN_OT_bake(RangeJob, ScopeOperator, bpy.types.Operator):
    """Turn the solved pose of IK chains into keys of their bones and mute the chains for that range"""

    bl_idname = "ik_chain.bake"
    bl_label = "Bake IK Chains"

    doing = "Baking IK chains"
    cancelled = "The bake was cancelled and has changed nothing"

    step: IntProperty(name="Step", description="Frames from key to key", default=1, min=1)
    carry_bend: BoolProperty(
        name="Carry Bend",
        description=(
            "Carry the bend side of two-bone chains along the frames, from the first one on: no knee flips, "
            "also where the live chain, which looks at one frame alone, cannot know the side"
        ),
        default=False,
    )

    def steps(self, context: bpy.types.Context) -> Generator[float, None, bake.BakeReport]:
        """Bake, and keep what was measured for the panel."""
        ob, scene = self.rig(context), context.scene
        options = bake.BakeOptions(self.frames(scene), self.step, self.pattern(ob), self.carry_bend)
        report = yield from bake.bake(scene, [ob], options)
        plots.remember(ob, report.tracks)
        return report

    def tell(self, report: bake.BakeReport) -> None:
        """Report what was baked; raises `ChainError` when nothing was."""
        skipped = [f"'{chain.chain}' was not baked: {chain.reason}" for chain in report.skipped]
        if not report.chains:
            raise ChainError("; ".join(skipped))
        for text in skipped:
            self.report({"WARNING"}, text)
        for lock in report.gimbal_lock:
            self.report(
                {"WARNING"},
                f"Bone '{lock.bone}' is near gimbal lock and off by up to {lock.degrees:.1f}° "
                f"between keys, after frames {_some(lock.frames)}: use quaternions",
            )
        for text in report.notes:
            self.report({"INFO"}, text)
        names = ", ".join(chain["chain"] for chain in report.chains)
        worst = max(report.chains, key=lambda chain: chain["residual_max"])
        size, frame = length_text(worst["residual_max"]), worst["residual_max_frame"]
        largest = f"{size} ('{worst['chain']}', frame {frame:g})"
        self.report({"INFO"}, f"Baked {names}: {report.keys} keys, largest residual {largest}")

    def draw(self, _context: bpy.types.Context) -> None:
        """The settings of the last bake, to be adjusted."""
        self.layout.use_property_split = True
        self.layout.use_property_decorate = False
        draw_settings(self.layout, self.properties)


def draw_settings(layout: Any, settings: Any) -> None:
    """Scope, range and step of a bake, and whether bend sides are carried."""
    layout.row().prop(settings, "scope", expand=True)
    draw_frames(layout, settings).prop(settings, "step")
    layout.prop(settings, "carry_bend")


def _some(frames: list[Any]) -> str:
    named = ", ".join(f"{frame:g}" for frame in frames[:NAMED])
    return named if len(frames) <= NAMED else f"{named} and {len(frames) - NAMED} more"


class IKCHAIN_OT_unbake(ScopeOperator, bpy.types.Operator):
    """Bring back the keys that were there before IK chains were baked, and the live chains"""

    bl_idname = "ik_chain.unbake"
    bl_label = "Unbake IK Chains"

    def run(self, context: bpy.types.Context) -> None:
        """Unbake; chains that were baked into the same bones come back together."""
        ob = self.rig(context)
        done = bake.unbake([ob], self.pattern(ob))
        self.report({"INFO"}, f"Live again: {', '.join(chain.chain for chain in done)}")


CLASSES = (IKCHAIN_OT_bake, IKCHAIN_OT_unbake)
