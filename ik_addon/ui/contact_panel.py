# SPDX-License-Identifier: GPL-3.0-or-later
"""The contacts of the active chain, in the sidebar."""

from __future__ import annotations

from typing import Any

import bpy

from .. import ops
from ..blender import findings
from ..blender.contact_check import ContactReport
from .panels import ChainSubPanel, active_chain, draw_lines, length_text

# What planting takes over from the settings of the check.
SETTINGS = ("scope", "frame_range", "frame_start", "frame_end")


class IKCHAIN_PT_contacts(ChainSubPanel, bpy.types.Panel):
    """Where the tip is meant to rest, and whether it does."""

    bl_label = "Contacts"
    bl_options = {"DEFAULT_CLOSED"}

    def draw(self, context: bpy.types.Context) -> None:
        """Range, buttons, and what the last check of the active chain found."""
        layout = self.layout
        layout.use_property_split = True
        layout.use_property_decorate = False
        settings = context.window_manager.operator_properties_last("ik_chain.check")
        ops.draw_contact_settings(layout, settings)
        layout.operator("ik_chain.check")
        plant = layout.operator("ik_chain.plant")
        for name in SETTINGS:
            setattr(plant, name, getattr(settings, name))
        checked = findings.remembered(context.object)
        chain = active_chain(context)
        if checked is None or chain.name not in checked.contacts:
            return
        contacts = checked.contacts[chain.name]
        first, last = checked.frames
        if not contacts:
            draw_lines(layout.column(), context, f"It rests nowhere in frames {first} to {last}", "INFO")
        for contact in contacts:
            _draw_contact(layout.column(align=True), context, contact)


def _draw_contact(column: Any, context: bpy.types.Context, contact: ContactReport) -> None:
    """Frames of a contact, which lead there, its slide, and what causes it."""
    row = column.split(factor=0.5, align=True)
    go = row.operator("wm.context_set_int", text=f"{contact.frames[0]:g} \u2013 {contact.frames[1]:g}")
    go.data_path, go.value = "scene.frame_current", int(contact.frames[0])
    slide = length_text(context.scene, contact.slide)
    row.label(text=slide, icon="ERROR" if contact.why else "CHECKMARK")
    if contact.why:
        draw_lines(column, context, contact.why[:1].upper() + contact.why[1:], "BLANK1")


CLASSES = (IKCHAIN_PT_contacts,)
