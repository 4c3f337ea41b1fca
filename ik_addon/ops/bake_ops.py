# SPDX-License-Identifier: GPL-3.0-or-later
"""Bake chains to keys and back; with a window as a job that shows its progress and can be cancelled."""

# mypy: disable-error-code="valid-type"

import glob
import time
from collections.abc import Generator
from typing import Any

import bpy
from bpy.props import BoolProperty, EnumProperty, IntProperty

from ..blender import bake, ranges
from ..blender.bake_checks import BakeError
from ..blender.chain_bones import ChainError
from .common import ChainOperator

# Seconds of work between two looks at the keyboard.
SLICE = 0.05
# Frames named in a message; the rest is counted.
NAMED = 5


class ScopeOperator(ChainOperator):
    """An operator on one chain, or on all chains, of one armature object."""

    scope: EnumProperty(
        name="Chains",
        description="Which chains are meant when none is given by name",
        items=(
            ("ACTIVE", "Active", "The active chain of the object"),
            ("ALL", "All", "All chains of the object"),
        ),
        default="ACTIVE",
    )

    def pattern(self, ob: bpy.types.Object) -> str | None:
        """What `bake` takes for the chosen chains."""
        if self.scope == "ALL" and not self.chain:
            return None
        return glob.escape(ob.ik_chains[self.index(ob)].name)


class IKCHAIN_OT_bake(ScopeOperator, bpy.types.Operator):
    """Turn the solved pose of IK chains into keys of their bones and mute the chains for that range"""

    bl_idname = "ik_chain.bake"
    bl_label = "Bake IK Chains"

    frame_range: EnumProperty(
        name="Range",
        description="Frames that are baked",
        items=(
            ("SCENE", "Scene", "The preview range where there is one, else the frame range of the scene"),
            ("CUSTOM", "Custom", "From start to end"),
        ),
        default="SCENE",
    )
    frame_start: IntProperty(name="Start", description="First frame of a custom range", default=1)
    frame_end: IntProperty(name="End", description="Last frame of a custom range", default=250)
    step: IntProperty(name="Step", description="Frames from key to key", default=1, min=1)
    carry_bend: BoolProperty(
        name="Carry Bend",
        description=(
            "Carry the bend side of two-bone chains along the frames, from the first one on: no knee flips, "
            "also where the live chain, which looks at one frame alone, cannot know the side"
        ),
        default=False,
    )

    def run(self, context: bpy.types.Context) -> None:
        """Bake at once."""
        self._tell(ranges.run(self._steps(context)))

    def _steps(self, context: bpy.types.Context) -> Generator[float, None, bake.BakeReport]:
        ob, scene = self.rig(context), context.scene
        options = bake.BakeOptions(self._frames(scene), self.step, self.pattern(ob), self.carry_bend)
        return bake.bake(scene, [ob], options)

    def _frames(self, scene: bpy.types.Scene) -> tuple[int, int]:
        if self.frame_range == "CUSTOM":
            return self.frame_start, self.frame_end
        first, last = scene.frame_start, scene.frame_end
        if scene.use_preview_range:
            first, last = scene.frame_preview_start, scene.frame_preview_end
        is_given = self.properties.is_property_set
        if not is_given("frame_range"):
            first = self.frame_start if is_given("frame_start") else first
            last = self.frame_end if is_given("frame_end") else last
        return first, last

    def _tell(self, report: bake.BakeReport) -> None:
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
        largest = f"{worst['residual_max']:.3g} m ('{worst['chain']}', frame {worst['residual_max_frame']:g})"
        self.report({"INFO"}, f"Baked {names}: {report.keys} keys, largest residual {largest}")

    # With a window

    def invoke(self, context: bpy.types.Context, _event: bpy.types.Event) -> set[str]:
        """Start the job; what it refuses, it refuses here."""
        if bpy.app.background:
            return self.execute(context)
        try:
            self.job = self._steps(context)
            next(self.job)
        except StopIteration as stop:
            return self._end(context, stop.value)
        except (ChainError, BakeError) as error:
            self.report({"ERROR"}, str(error))
            return {"CANCELLED"}
        manager = context.window_manager
        self.timer = manager.event_timer_add(SLICE, window=context.window)
        manager.progress_begin(0, 100)
        manager.modal_handler_add(self)
        return {"RUNNING_MODAL"}

    def modal(self, context: bpy.types.Context, event: bpy.types.Event) -> set[str]:
        """Work for a moment at each tick of the timer, until done or Esc."""
        if event.type == "ESC":
            self.cancel(context)
            self.report({"INFO"}, "The bake was cancelled and has changed nothing")
            return {"CANCELLED"}
        if event.type != "TIMER":
            return {"RUNNING_MODAL"}
        until = time.monotonic() + SLICE
        try:
            while time.monotonic() < until:
                done = next(self.job)
        except StopIteration as stop:
            self._close(context)
            return self._end(context, stop.value)
        except BakeError as error:
            self._close(context)
            self.report({"ERROR"}, str(error))
            return {"CANCELLED"}
        except Exception:
            # Blender drops the operator with a fault: it must not keep the timer.
            self._close(context)
            raise
        context.window_manager.progress_update(100.0 * done)
        context.workspace.status_text_set(f"Baking IK chains: {done:.0%}  |  Esc: Cancel")
        return {"RUNNING_MODAL"}

    def cancel(self, context: bpy.types.Context) -> None:
        """Stop the job, which has written nothing yet."""
        self.job.close()
        self._close(context)

    def _close(self, context: bpy.types.Context) -> None:
        context.window_manager.event_timer_remove(self.timer)
        context.window_manager.progress_end()
        context.workspace.status_text_set(None)

    def _end(self, context: bpy.types.Context, report: bake.BakeReport) -> set[str]:
        try:
            self._tell(report)
        except ChainError as error:
            self.report({"ERROR"}, str(error))
            return {"CANCELLED"}
        return {"FINISHED"}

    def draw(self, _context: bpy.types.Context) -> None:
        """The settings of the last bake, to be adjusted."""
        self.layout.use_property_split = True
        self.layout.use_property_decorate = False
        draw_settings(self.layout, self.properties)


def draw_settings(layout: Any, settings: Any) -> None:
    """Scope, range and step of a bake, and whether bend sides are carried."""
    layout.row().prop(settings, "scope", expand=True)
    layout.row().prop(settings, "frame_range", expand=True)
    column = layout.column(align=True)
    if settings.frame_range == "CUSTOM":
        column.prop(settings, "frame_start")
        column.prop(settings, "frame_end")
    column.prop(settings, "step")
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
