# SPDX-License-Identifier: GPL-3.0-or-later
"""Operators on a range of frames: with a window a job that shows its progress and can be cancelled."""

# mypy: disable-error-code="valid-type"

import time
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import bpy
from bpy.props import EnumProperty, IntProperty

from ..blender import ranges
from ..blender.bake_checks import BakeError
from ..blender.chain_bones import ChainError

if TYPE_CHECKING:
    from .common import RigOperator as _Base
else:
    _Base = object

# Seconds of work between two looks at the keyboard.
SLICE = 0.05


class RangeJob(_Base):
    """Work on a range of frames, which stands before the base class of the operator.

    `steps` does the work: a coroutine that yields its progress from 0 to 1 and has changed
    nothing before it returns its result. `tell` reports that result. Both may raise
    `ChainError` or `BakeError`.
    """

    # What the status bar says while it works, and what was done when it is cancelled.
    doing = ""
    cancelled = ""

    frame_range: EnumProperty(
        name="Range",
        description="Frames that are worked on",
        items=(
            ("SCENE", "Scene", "The preview range where there is one, else the frame range of the scene"),
            ("CUSTOM", "Custom", "From start to end"),
        ),
        default="SCENE",
    )
    frame_start: IntProperty(name="Start", description="First frame of a custom range", default=1)
    frame_end: IntProperty(name="End", description="Last frame of a custom range", default=250)

    def steps(self, context: bpy.types.Context) -> Generator[float, None, Any]:
        """Do the work."""
        raise NotImplementedError

    def tell(self, result: Any) -> None:
        """Report what `steps` returned."""
        raise NotImplementedError

    def run(self, context: bpy.types.Context) -> None:
        """Work at once."""
        self.tell(ranges.run(self.steps(context)))

    def frames(self, scene: bpy.types.Scene) -> tuple[int, int]:
        """First and last frame that are asked for."""
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

    # With a window

    def invoke(self, context: bpy.types.Context, _event: bpy.types.Event) -> set[str]:
        """Start the job; what it refuses, it refuses here."""
        if bpy.app.background:
            return self.execute(context)
        try:
            self.job = self.steps(context)
            next(self.job)
        except StopIteration as stop:
            return self._end(stop.value)
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
            self.report({"INFO"}, self.cancelled)
            return {"CANCELLED"}
        if event.type != "TIMER":
            return {"RUNNING_MODAL"}
        until = time.monotonic() + SLICE
        try:
            while time.monotonic() < until:
                done = next(self.job)
        except StopIteration as stop:
            self._close(context)
            return self._end(stop.value)
        except (ChainError, BakeError) as error:
            self._close(context)
            self.report({"ERROR"}, str(error))
            return {"CANCELLED"}
        except Exception:
            # Blender drops the operator with a fault: it must not keep the timer.
            self._close(context)
            raise
        context.window_manager.progress_update(100.0 * done)
        context.workspace.status_text_set(f"{self.doing}: {done:.0%}  |  Esc: Cancel")
        return {"RUNNING_MODAL"}

    def cancel(self, context: bpy.types.Context) -> None:
        """Stop the job, which has written nothing yet."""
        self.job.close()
        self._close(context)

    def _close(self, context: bpy.types.Context) -> None:
        context.window_manager.event_timer_remove(self.timer)
        context.window_manager.progress_end()
        context.workspace.status_text_set(None)

    def _end(self, result: Any) -> set[str]:
        try:
            self.tell(result)
        except (ChainError, BakeError) as error:
            self.report({"ERROR"}, str(error))
            return {"CANCELLED"}
        return {"FINISHED"}


def draw_frames(layout: Any, settings: Any) -> Any:
    """The range; returns the column of its ends, for what belongs with them."""
    layout.row().prop(settings, "frame_range", expand=True)
    column = layout.column(align=True)
    if settings.frame_range == "CUSTOM":
        column.prop(settings, "frame_start")
        column.prop(settings, "frame_end")
    return column
