# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure chains over a range of frames, show the residuals as a plot in the sidebar, and save it."""

# mypy: disable-error-code="valid-type"

import os
from collections.abc import Generator, Sequence
from pathlib import Path

import bpy
from bpy.props import BoolProperty, StringProperty

from ..blender import parts, plots, ranges
from ..blender.chain_bones import ChainError
from ..core.job import Status
from ..core.plot_svg import residual_svg
from ..core.report import frame_number, length_text
from .common import ChainOperator, RigOperator
from .range_job import RangeJob


class IKCHAIN_OT_plot_residual(RangeJob, ChainOperator, bpy.types.Operator):
    """Measure the IK chains of the armature on every frame, and plot how far each stays off its \
target, and why"""

    bl_idname = "ik_chain.plot_residual"
    bl_label = "Plot Residual"
    # It changes nothing that could be undone.
    bl_options = {"REGISTER"}

    doing = "Measuring IK chains"
    cancelled = "The plot was cancelled"

    chain: StringProperty(
        name="Chain",
        description="Name of the chain; empty: all chains of the object",
        options={"HIDDEN", "SKIP_SAVE"},
    )

    def steps(self, context: bpy.types.Context) -> Generator[float, None, list[ranges.ChainTrack]]:
        """Solve the range, and keep what was measured for the panel."""
        ob, scene = self.rig(context, edits=False), context.scene
        names = [ob.ik_chains[self.index(ob)].name] if self.chain else ob.ik_chains.keys()
        if not names:
            raise ChainError(f"'{ob.name}' has no IK chain")
        first, last = self.frames(scene)
        if last < first:
            raise ChainError(f"The last frame, {last}, is before the first, {first}")
        frames = [float(frame) for frame in range(first, last + 1)]
        solved = yield from ranges.solve_range(scene, [ob], frames)
        tracks = [track for track in solved.chains if track.armature == ob.name and track.chain in names]
        plots.remember(ob, tracks)
        return tracks

    def tell(self, tracks: Sequence[ranges.ChainTrack]) -> None:
        """Report the largest residual, how many chains are off their targets, and why some are broken."""
        for track in tracks:
            if track.message:
                self.report({"WARNING"}, track.message)
        off = [track for track in tracks if (track.status != Status.OK).any()]
        worst = max(tracks, key=lambda track: float(track.residual.max()))
        frame = frame_number(worst.frames[worst.residual.argmax()])
        largest = f"{length_text(float(worst.residual.max()))} ('{worst.chain}', frame {frame})"
        count = f"{len(tracks)} chains" if len(tracks) != 1 else "1 chain"
        self.report({"INFO"}, f"{len(off)} of {count} not OK on some frame, largest residual {largest}")


class IKCHAIN_OT_save_plot(RigOperator, bpy.types.Operator):
    """Save the plot of all measured IK chains of the armature as a picture in a file"""

    bl_idname = "ik_chain.save_plot"
    bl_label = "Save Residual Plot"
    bl_options = {"REGISTER"}

    filepath: StringProperty(
        name="File", description="SVG file to write", subtype="FILE_PATH", options={"SKIP_SAVE"}
    )
    check_existing: BoolProperty(
        name="Check Existing",
        description="Ask before an existing file is written over",
        default=True,
        options={"HIDDEN"},
    )
    filter_glob: StringProperty(
        name="Filter", description="Files that are shown", default="*.svg", options={"HIDDEN"}
    )

    @classmethod
    def poll(cls, context: bpy.types.Context) -> bool:
        """An armature object is there: whether it was measured, only `run` can say."""
        return any(ob.type == "ARMATURE" for ob in bpy.data.objects)

    def invoke(self, context: bpy.types.Context, _event: bpy.types.Event) -> set[str]:
        """Ask for the file, beside the .blend file."""
        if not self.filepath:
            stem = Path(bpy.data.filepath).stem or "untitled"
            self.filepath = os.path.join(os.path.dirname(bpy.data.filepath), f"{stem} residual.svg")
        context.window_manager.fileselect_add(self)
        return {"RUNNING_MODAL"}

    def run(self, context: bpy.types.Context) -> None:
        """Write what was measured last."""
        ob = self.rig(context, edits=False)
        tracks = plots.tracks_of(ob)
        if not tracks:
            raise ChainError(f"Nothing was measured of '{ob.name}': plot the residual first")
        if not self.filepath:
            raise ChainError("Give a file to write the plot to")
        path = Path(bpy.path.ensure_ext(bpy.path.abspath(self.filepath), ".svg"))
        try:
            parts.write_text(path, residual_svg(tracks, f"{ob.name}: residual"))
        except OSError as error:
            raise ChainError(f"{path}: cannot be written: {error.strerror or error}") from error
        self.report({"INFO"}, f"Saved {path}")


CLASSES = (IKCHAIN_OT_plot_residual, IKCHAIN_OT_save_plot)
