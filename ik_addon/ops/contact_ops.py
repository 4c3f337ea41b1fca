# SPDX-License-Identifier: GPL-3.0-or-later
"""Check where tips slide that are meant to rest, and plant them."""

from collections.abc import Generator, Sequence
from typing import Any

import bpy

from ..blender import contact_check, findings, planting, ranges
from ..blender.chain_bones import ChainError
from ..blender.contact_check import Checked, ContactReport
from ..core.report import length_text
from .common import ScopeOperator
from .range_job import RangeJob, draw_frames


class ContactOperator(RangeJob, ScopeOperator):
    """What both have in common."""

    def tell_contacts(self, name: str, contacts: Sequence[ContactReport]) -> None:
        """Report the contacts of a chain: how many hold, and each that slides with its cause."""
        sliding = [contact for contact in contacts if contact.why]
        count = f"{len(contacts)} contact{'' if len(contacts) == 1 else 's'}"
        holds = "all hold" if not sliding else f"{len(sliding)} of them slide{'s' * (len(sliding) == 1)}"
        largest = length_text(max(contact.slide for contact in contacts))
        self.report({"INFO"}, f"'{name}': {count}, {holds}: the largest slide is {largest}")
        for contact in sliding:
            self.report({"WARNING"}, contact.message[0].upper() + contact.message[1:])

    def draw(self, _context: bpy.types.Context) -> None:
        """Scope and range, to be adjusted."""
        self.layout.use_property_split = True
        self.layout.use_property_decorate = False
        draw_settings(self.layout, self.properties)


class IKCHAIN_OT_check(ContactOperator, bpy.types.Operator):
    """Tell where the tip of an IK chain is meant to rest, how far it slides there, and why"""

    bl_idname = "ik_chain.check"
    bl_label = "Check Contacts"
    # It writes nothing, so there is nothing to undo.
    bl_options = {"REGISTER"}

    doing = "Checking contacts"
    cancelled = "The check was cancelled"

    def steps(self, context: bpy.types.Context) -> Generator[float, None, list[ranges.ChainTrack]]:
        """Check, and keep what was found for the panel."""
        ob, scene = self.rig(context, edits=False), context.scene
        checked, tracks = yield from contact_check.check(scene, ob, self.frames(scene), self.pattern(ob))
        findings.remember(ob, checked)
        self.contacts = checked.contacts
        return tracks

    def tell(self, tracks: Sequence[ranges.ChainTrack]) -> None:
        """Report the contacts of each chain, and chains that are muted or broken."""
        for track in tracks:
            contacts = self.contacts[track.chain]
            if track.message:
                self.report({"WARNING"}, track.message)
            elif contacts:
                self.tell_contacts(track.chain, contacts)
            else:
                self.report({"INFO"}, f"'{track.chain}': its tip rests nowhere in these frames")
            muted = contact_check.muted_frames(track)
            if muted:
                self.report({"WARNING"}, f"'{track.chain}' is muted on {muted} of {len(track.frames)} frames")


class IKCHAIN_OT_plant(ContactOperator, bpy.types.Operator):
    """Key the target of an IK chain in the world such that its tip rests in each contact of its FK motion"""

    bl_idname = "ik_chain.plant"
    bl_label = "Plant Contacts"

    doing = "Planting contacts"
    cancelled = "Planting was cancelled and has changed nothing"

    def steps(self, context: bpy.types.Context) -> Generator[float, None, planting.PlantReport]:
        """Plant, and keep what the contacts are like then for the panel."""
        ob, scene = self.rig(context), context.scene
        options = planting.PlantOptions(self.frames(scene), self.pattern(ob))
        report = yield from planting.plant(scene, [ob], options)
        if report.chains:
            found = {chain.chain: chain.contacts for chain in report.chains}
            findings.remember(ob, Checked(options.frames, found))
        return report

    def tell(self, report: planting.PlantReport) -> None:
        """Report what was planted; raises `ChainError` when nothing was."""
        skipped = [f"'{chain.chain}' was not planted: {chain.reason}" for chain in report.skipped]
        if not report.chains:
            raise ChainError("; ".join(skipped))
        for text in skipped:
            self.report({"INFO"}, text)
        for chain in report.chains:
            self.tell_contacts(chain.chain, chain.contacts)
            for text in chain.notes:
                self.report({"INFO"}, text)


def draw_settings(layout: Any, settings: Any) -> None:
    """Scope and range of a check, or of planting."""
    layout.row().prop(settings, "scope", expand=True)
    draw_frames(layout, settings)


CLASSES = (IKCHAIN_OT_check, IKCHAIN_OT_plant)
