# SPDX-License-Identifier: GPL-3.0-or-later
"""The sidebar tab: the list of chains, and the settings that the active one uses.

`draw` only reads. Keyed and driven settings show the value of the current frame: Blender
brings it back to the data that is drawn.
"""

from __future__ import annotations

import textwrap
from typing import Any

import bpy
from bl_ui.generic_ui_list import draw_ui_list  # type: ignore[import-not-found]

from .. import ops
from ..blender.chain_bones import uses_pole
from ..blender.chains import is_from_library
from ..blender.handling import nearest_free_bone

# Widths of a character and of the panel's margins, in pixels at a resolution scale of 1.
CHARACTER, MARGIN = 6.5, 70


def active_chain(context: bpy.types.Context) -> Any:
    """The chain whose settings are shown, or None."""
    ob = context.object
    index = ob.ik_chains_index
    return ob.ik_chains[index] if 0 <= index < len(ob.ik_chains) else None


def status_icon(chain: Any) -> dict[str, int]:
    """The icon argument for the status of a chain."""
    return {"icon_value": bpy.types.UILayout.enum_item_icon(chain, "status", chain.status)}


class IKCHAIN_UL_chains(bpy.types.UIList):
    """Chains by name, with what their last solve said."""

    def draw_item(
        self, _context: Any, layout: Any, data: Any, item: Any, _icon: int, _active_data: Any, _active: str
    ) -> None:
        """One row: status, name, influence, mute."""
        row = layout.row(align=True)
        state = row.row(align=True)
        state.active = not item.mute
        state.label(text="", **status_icon(item))
        if is_from_library(data, item):
            row.label(text=item.name)
        else:
            row.prop(item, "name", text="", emboss=False)
        value = row.row(align=True)
        value.active = not item.mute
        value.ui_units_x = 3.5
        value.prop(item, "influence", text="", slider=True, emboss=True)
        row.prop(item, "mute", text="", icon="HIDE_ON" if item.mute else "HIDE_OFF", emboss=False)


class ChainPanel:
    """A panel of the tab, shown while an armature object is active."""

    bl_space_type = "VIEW_3D"
    bl_region_type = "UI"
    bl_category = "IK Chains"

    @classmethod
    def poll(cls, context: bpy.types.Context) -> bool:
        """An armature object is active and its bones have a pose."""
        ob = context.object
        return ob is not None and ob.type == "ARMATURE" and ob.mode != "EDIT"


class ChainSubPanel(ChainPanel):
    """A section of settings of the active chain."""

    bl_parent_id = "IKCHAIN_PT_main"

    @classmethod
    def poll(cls, context: bpy.types.Context) -> bool:
        """There is an active chain."""
        return super().poll(context) and active_chain(context) is not None


class IKCHAIN_PT_main(ChainPanel, bpy.types.Panel):
    """The list of chains."""

    bl_label = "IK Chains"

    def draw(self, context: bpy.types.Context) -> None:
        """List, list buttons, and what is used most on the active chain."""
        layout = self.layout
        ob = context.object
        buttons = draw_ui_list(
            layout,
            context,
            class_name="IKCHAIN_UL_chains",
            unique_id="ik_chains",
            list_path="object.ik_chains",
            active_index_path="object.ik_chains_index",
            insertion_operators=False,
            move_operators=False,
        )
        _draw_list_buttons(buttons, ob)
        chain = active_chain(context)
        if not len(ob.ik_chains):
            layout.operator("ik_chain.setup", icon="ARMATURE_DATA")
        if chain is None:
            return
        layout.use_property_split = True
        value = layout.row()
        value.active = not chain.mute
        value.prop(chain, "influence")
        row = layout.row(align=True)
        row.operator("ik_chain.snap_fk")
        row.operator("ik_chain.snap_ik")
        layout.operator("ik_chain.key_fk", icon="KEY_HLT")


def _draw_list_buttons(column: Any, ob: bpy.types.Object) -> None:
    column.operator("ik_chain.add", text="", icon="ADD")
    row = column.row()
    active = ob.ik_chains[ob.ik_chains_index] if 0 <= ob.ik_chains_index < len(ob.ik_chains) else None
    row.enabled = active is not None and not is_from_library(ob, active)
    row.operator("ik_chain.remove", text="", icon="REMOVE")
    column.separator()
    column.menu("IKCHAIN_MT_presets", text="", icon="DOWNARROW_HLT")
    if len(ob.ik_chains) < 2:
        return
    column.separator()
    for direction, icon, edge in (("UP", "TRIA_UP", 0), ("DOWN", "TRIA_DOWN", len(ob.ik_chains) - 1)):
        row = column.row()
        row.enabled = ob.ik_chains_index != edge
        row.operator("ik_chain.move", text="", icon=icon).direction = direction


class IKCHAIN_MT_presets(bpy.types.Menu):
    """Add the chains of parts of the body"""

    bl_label = "Add from Preset"

    def draw(self, context: bpy.types.Context) -> None:
        """An entry for each part that is found by names, and for each that is selected."""
        for item in ops.PARTS:
            self.layout.operator("ik_chain.setup", text=item[1]).preset = item[0]
        self.layout.separator()
        for item in ops.PRESETS[1:]:
            self.layout.operator("ik_chain.add", text=f"Selected {item[1]}").preset = item[0]


class IKCHAIN_PT_result(ChainSubPanel, bpy.types.Panel):
    """What the last solve left."""

    bl_label = "Result"

    def draw(self, context: bpy.types.Context) -> None:
        """Status and residual as text; what is wrong with a broken chain."""
        chain = active_chain(context)
        status = bpy.types.UILayout.enum_item_name(chain, "status", chain.status)
        draw_field(self.layout, "Status", status, **status_icon(chain))
        if chain.status == "BROKEN":
            _draw_message(self.layout, context, chain.message)
        else:
            draw_field(self.layout, "Residual", length_text(context.scene, chain.residual))


def _draw_message(layout: Any, context: bpy.types.Context, message: str) -> None:
    """A message that is an error, in a box."""
    box = layout.box().column(align=True)
    box.alert = True
    draw_lines(box, context, message, "ERROR")


def draw_lines(column: Any, context: bpy.types.Context, text: str, icon: str) -> None:
    """A text in as many lines as the width of the sidebar asks for."""
    scale = context.preferences.system.ui_scale
    width = (context.region.width / scale - MARGIN) / CHARACTER
    for number, line in enumerate(textwrap.wrap(text, max(20, int(width)))):
        column.label(text=line, icon="BLANK1" if number else icon)


def draw_field(layout: Any, label: str, text: str, **icon: int) -> None:
    """A label and a text where `use_property_split` would put a name and its value."""
    split = layout.split(factor=0.4)
    name = split.row()
    name.alignment = "RIGHT"
    name.label(text=label)
    split.label(text=text, **icon)


def length_text(scene: bpy.types.Scene, metres: float) -> str:
    """A length in the units of the scene."""
    units = scene.unit_settings
    return bpy.utils.units.to_string(units.system, "LENGTH", metres * units.scale_length, precision=6)


class IKCHAIN_PT_solver(ChainSubPanel, bpy.types.Panel):
    """Bones of the chain, and how they are solved."""

    bl_label = "Solver"

    def draw(self, context: bpy.types.Context) -> None:
        """The settings that the chosen solver uses."""
        layout = self.layout
        layout.use_property_split = True
        chain, ob = active_chain(context), context.object
        layout.prop(chain, "solver")
        column = layout.column()
        if chain.solver == "AIM":
            column.prop_search(chain, "end_bone", ob.data, "bones", text="Bone")
            _draw_aim(layout.column(), chain)
            layout.prop(chain, "use_limits")
            return
        column.prop_search(chain, "root_bone", ob.data, "bones")
        column.prop_search(chain, "end_bone", ob.data, "bones")
        column.prop(chain, "use_tail")
        column = layout.column()
        if chain.solver == "THREE_BONE":
            column.prop(chain, "limb_mode")
            if chain.limb_mode != "HOCK_PARALLEL":
                column.prop(chain, "share")
            if chain.limb_mode == "CLAVICLE":
                column.prop(chain, "share_max")
        column.prop(chain, "use_limits")
        column.prop(chain, "softness")
        _draw_limit_mode(column, chain, ob)
        if chain.solver == "TWO_BONE":
            column.prop(chain, "use_planar")
            if chain.use_planar:
                column.row().prop(chain, "planar_axis", expand=True)
                column.prop(chain, "bend_sign")
        elif chain.solver != "THREE_BONE":
            _draw_iterative(column, chain)


def _draw_limit_mode(column: Any, chain: Any, ob: bpy.types.Object) -> None:
    column.prop(chain, "limit_mode")
    if chain.limit_mode == "MOVE_ROOT":
        column.prop_search(chain, "move_bone", ob.data, "bones", text="Bone")
        chosen = "" if chain.move_bone else nearest_free_bone(ob, chain)
        if chosen:
            draw_field(column, "", f"moves '{chosen}'")
        column.prop(chain, "move_max", text="Largest")
        column.prop(chain, "move_smooth", text="Smooth")
    elif chain.limit_mode == "STRETCH":
        column.prop(chain, "stretch_max", text="Largest")


def _draw_iterative(column: Any, chain: Any) -> None:
    row = column.row(heading="Lean")
    row.prop(chain, "use_lean", text="")
    factor = row.row()
    factor.active = chain.use_lean
    factor.prop(chain, "lean", text="")
    column.prop(chain, "iterations")
    column.prop(chain, "tolerance")


def _draw_aim(column: Any, chain: Any) -> None:
    column.prop(chain, "aim_mode")
    if chain.aim_mode == "LOOK_AT":
        column.prop(chain, "aim_axis")
        column.prop(chain, "up_axis")
        column.prop(chain, "aim_offset")
        column.prop(chain, "aim_limit")
        column.prop(chain, "aim_damping")
    else:
        column.prop(chain, "offset_yaw")


class IKCHAIN_PT_target(ChainSubPanel, bpy.types.Panel):
    """Where the tip shall be."""

    bl_label = "Target"

    def draw(self, context: bpy.types.Context) -> None:
        """Space of the target, and the target inside it."""
        layout = self.layout
        layout.use_property_split = True
        chain = active_chain(context)
        _draw_space(layout.column(), chain, "target_space", "target", "subtarget")
        column = layout.column()
        copies_rotation = chain.solver == "AIM" and chain.aim_mode == "MATCH_ROTATION"
        if not copies_rotation:
            column.prop(chain, "target_location", text="Location")
        if chain.solver != "AIM" and not chain.use_tail:
            layout.prop(chain, "use_rotation")
            copies_rotation = chain.use_rotation
        if copies_rotation:
            layout.column().prop(chain, "target_rotation", text="Rotation")
        layout.prop(chain, "smooth_frames", text="Smooth")
        _draw_part_buttons(layout, "TARGET")


class IKCHAIN_PT_pole(ChainSubPanel, bpy.types.Panel):
    """To which side the chain bends."""

    bl_label = "Pole"

    @classmethod
    def poll(cls, context: bpy.types.Context) -> bool:
        """The solver of the active chain looks at a pole."""
        if not super().poll(context):
            return False
        chain = active_chain(context)
        if chain.solver == "AIM":
            return chain.aim_mode == "LOOK_AT"
        return not (chain.solver == "TWO_BONE" and chain.use_planar)

    def draw(self, context: bpy.types.Context) -> None:
        """Mode of the pole; its space and place when it has any."""
        layout = self.layout
        layout.use_property_split = True
        chain = active_chain(context)
        layout.prop(chain, "pole_mode", text="Mode")
        if uses_pole(chain):
            _draw_space(layout.column(), chain, "pole_space", "pole_target", "pole_subtarget")
            label = "Direction" if chain.pole_mode == "DIRECTION" else "Location"
            layout.column().prop(chain, "pole_location", text=label)
        if chain.solver != "AIM":
            layout.prop(chain, "pole_angle", text="Angle")
        if not uses_pole(chain):
            row = layout.row(align=True)
            for mode, text in (("POINT", "Place Point"), ("DIRECTION", "Place Direction")):
                row.operator("ik_chain.place_pole", text=text).mode = mode
            return
        column = layout.column(align=True)
        if not any(chain.pole_location):
            column.label(text="The pole is not placed yet", icon="INFO")
        column.operator("ik_chain.place_pole", text="Place at Bend")
        _draw_part_buttons(column, "POLE")


def _draw_part_buttons(layout: Any, part: str) -> None:
    """What changes the space of a target or pole, or makes it an object, without moving it."""
    column = layout.column(align=True)
    column.operator_menu_enum("ik_chain.switch_space", "space", text="Switch Space").part = part
    row = column.row(align=True)
    row.operator("ik_chain.add_target_empty", text="Add Empty", icon="EMPTY_DATA").part = part
    row.operator("ik_chain.add_target_bone", text="Add Bone", icon="BONE_DATA").part = part


def _draw_space(column: Any, chain: Any, space: str, target: str, bone: str) -> None:
    column.prop(chain, space, text="Space")
    if getattr(chain, space) != "CUSTOM":
        return
    column.prop(chain, target, text="Object")
    ob = getattr(chain, target)
    if ob is not None and ob.type == "ARMATURE":
        column.prop_search(chain, bone, ob.data, "bones", text="Bone")


class IKCHAIN_PT_bake(ChainSubPanel, bpy.types.Panel):
    """Turn the solved poses into keys."""

    bl_label = "Bake"
    bl_options = {"DEFAULT_CLOSED"}

    def draw(self, context: bpy.types.Context) -> None:
        """The settings of the next bake, and its buttons."""
        layout = self.layout
        layout.use_property_split = True
        layout.use_property_decorate = False
        ops.draw_bake_settings(layout, context.window_manager.operator_properties_last("ik_chain.bake"))
        layout.operator("ik_chain.bake")
        layout.operator("ik_chain.unbake")


CLASSES = (
    IKCHAIN_UL_chains,
    IKCHAIN_MT_presets,
    IKCHAIN_PT_main,
    IKCHAIN_PT_result,
    IKCHAIN_PT_target,
    IKCHAIN_PT_pole,
    IKCHAIN_PT_solver,
    IKCHAIN_PT_bake,
)
