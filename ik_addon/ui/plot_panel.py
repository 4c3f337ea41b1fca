# SPDX-License-Identifier: GPL-3.0-or-later
"""The plot of the active chain's residual over frames, in the sidebar."""

from __future__ import annotations

from typing import Any

import bpy
import numpy as np

from ..blender import plots
from ..core.job import Status
from ..core.plot import SMALLEST_AXIS, axis_top, lanes
from .panels import ChainSubPanel, active_chain, draw_field, length_text

# Of a plot: what the panel takes of the width of the sidebar; a button's height, by which Blender sizes
# an icon; and the largest plot in such heights.
PLOT_MARGIN, UNIT, LARGEST_PLOT = 46, 20, 20.0


class IKCHAIN_PT_plot(ChainSubPanel, bpy.types.Panel):
    """The residual over frames, as it was last measured."""

    bl_label = "Over Frames"
    bl_parent_id = "IKCHAIN_PT_result"

    def draw(self, context: bpy.types.Context) -> None:
        """What measures it; of a chain that was measured its plot, the largest residual, the causes."""
        layout, ob, chain = self.layout, context.object, active_chain(context)
        row = layout.row(align=True)
        row.operator("ik_chain.plot_residual")
        track = plots.track_of(ob, chain)
        if track is None:
            return
        row.operator("ik_chain.save_plot", text="", icon="EXPORT")
        if plots.is_outdated(ob, chain, context.scene.frame_current_final):
            layout.label(text="Changed since: plot again", icon="INFO")
        if (track.status == Status.OK).all() and track.residual.max() <= SMALLEST_AXIS:
            _draw_causes(layout, chain, track)
            return
        _draw_plot(layout, context, track, plots.picture(ob, chain))
        _draw_causes(layout, chain, track)
        worst = int(track.residual.argmax())
        size, frame = float(track.residual[worst]), int(track.frames[worst])
        jump = layout.operator("wm.context_set_int", text=f"Go to Largest: Frame {frame}")
        jump.data_path, jump.value = "scene.frame_current", frame
        draw_field(layout, "Largest", length_text(context.scene, size))
        draw_field(layout, "Mean", length_text(context.scene, float(track.residual.mean())))


def _draw_plot(layout: Any, context: bpy.types.Context, track: Any, picture: int) -> None:
    """The picture between the ends of its axes."""
    if not picture:
        return
    column = layout.column(align=True)
    column.label(text=length_text(context.scene, axis_top(track)))
    width = context.region.width / context.preferences.system.ui_scale - PLOT_MARGIN
    column.template_icon(icon_value=picture, scale=min(max(width / UNIT, 4.0), LARGEST_PLOT))
    ends = column.row()
    ends.label(text=f"{track.frames[0]:g}")
    last = ends.row()
    last.alignment = "RIGHT"
    last.label(text=f"{track.frames[-1]:g}")


def _draw_causes(layout: Any, chain: Any, track: Any) -> None:
    """The statuses with their colours and numbers of frames: lanes from top to bottom, then OK."""
    column = layout.column(align=True)
    counts = np.bincount(track.status, minlength=len(Status))
    for status in (*lanes(track), Status.OK):
        if not counts[status]:
            continue
        split = column.split(factor=0.75)
        name = bpy.types.UILayout.enum_item_name(chain, "status", status.name)
        split.label(text=name, icon_value=plots.swatch(status))
        number = split.row()
        number.alignment = "RIGHT"
        number.label(text=str(counts[status]))


CLASSES = (IKCHAIN_PT_plot,)
