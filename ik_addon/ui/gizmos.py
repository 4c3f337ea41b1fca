# SPDX-License-Identifier: GPL-3.0-or-later
"""Gizmos for the target and the pole of the active chain, where they are stored as coordinates.

They only show and call `ik_chain.drag`: an operator makes a drag one step of undo, which
gizmos that write a property themselves do not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import bpy
from mathutils import Matrix

from ..blender import handles
from ..blender.chain_bones import ChainError

AXES = "XYZ"
# The Z axis of arrows and dials along each axis.
ALONG = {
    "X": Matrix.Rotation(1.5707963267948966, 4, "Y"),
    "Y": Matrix.Rotation(-1.5707963267948966, 4, "X"),
    "Z": Matrix.Identity(4),
}
TARGET_COLOR, POLE_COLOR, HIGHLIGHT = (1.0, 0.75, 0.2), (0.3, 0.8, 1.0), (1.0, 1.0, 1.0)


class IKCHAIN_GGT_handles(bpy.types.GizmoGroup):
    """Move and turn the target, move the pole."""

    bl_idname = "IKCHAIN_GGT_handles"
    bl_label = "IK Target and Pole"
    bl_space_type = "VIEW_3D"
    bl_region_type = "WINDOW"
    bl_options = {"3D", "PERSISTENT", "SHOW_MODAL_ALL"}

    @classmethod
    def poll(cls, context: bpy.types.Context) -> bool:
        """The active chain of the active armature object has something to drag."""
        ob = context.object
        if ob is None or ob.type != "ARMATURE" or ob.mode not in {"OBJECT", "POSE"}:
            return False
        if not context.space_data.show_gizmo_context:
            return False
        chain = active_chain(ob)
        return chain is not None and not chain.mute and any(shown(chain).values())

    def setup(self, context: bpy.types.Context) -> None:
        """One gizmo for each way to drag."""
        theme = context.preferences.themes[0].user_interface
        self.handles = []
        for part, action, axis in ways():
            kind = "GIZMO_GT_move_3d" if axis == "FREE" else _KINDS[action]
            gizmo = self.gizmos.new(kind)
            asked = gizmo.target_set_operator("ik_chain.drag")
            asked.part, asked.action, asked.axis = part, action, axis
            if axis == "FREE":
                gizmo.draw_style = "RING_2D"
                gizmo.draw_options = {"ALIGN_VIEW", "FILL_SELECT"}
                gizmo.scale_basis = 0.2
                gizmo.color = TARGET_COLOR if part == "TARGET" else POLE_COLOR
            else:
                if action == "MOVE":
                    # The middle is the ring's.
                    gizmo.length, gizmo.matrix_offset = 0.7, Matrix.Translation((0.0, 0.0, 0.3))
                gizmo.color = getattr(theme, f"axis_{axis.lower()}")
            gizmo.color_highlight = HIGHLIGHT
            gizmo.alpha, gizmo.alpha_highlight = 0.8, 1.0
            gizmo.line_width = 2.0
            gizmo.use_draw_modal = True
            self.handles.append(gizmo)

    def refresh(self, context: bpy.types.Context) -> None:
        """Put the gizmos where target and pole are."""
        self.draw_prepare(context)

    def draw_prepare(self, context: bpy.types.Context) -> None:
        """Put the gizmos where target and pole are on this frame."""
        places = place_all(context.object, context.view_layer.depsgraph)
        for gizmo, way in zip(self.handles, ways(), strict=True):
            gizmo.hide = way not in places
            if way in places:
                gizmo.matrix_basis = places[way]


_KINDS = {"MOVE": "GIZMO_GT_arrow_3d", "TURN": "GIZMO_GT_dial_3d"}
Way = tuple[str, str, str]


def ways() -> Iterator[Way]:
    """All ways to drag: part, action, axis."""
    yield "TARGET", "MOVE", "FREE"
    for action in ("MOVE", "TURN"):
        for axis in AXES:
            yield "TARGET", action, axis
    yield "POLE", "MOVE", "FREE"


def shown(chain: Any) -> dict[tuple[str, str], bool]:
    """Whether each part of a chain can be moved, or turned."""
    return {
        ("TARGET", "MOVE"): handles.moves(chain, "TARGET"),
        ("TARGET", "TURN"): handles.turns(chain),
        ("POLE", "MOVE"): handles.moves(chain, "POLE"),
    }


def place_all(ob: bpy.types.Object, depsgraph: bpy.types.Depsgraph) -> dict[Way, Matrix]:
    """World matrices of the gizmos to show; none for a chain that is broken."""
    chain = active_chain(ob)
    if chain is None:
        return {}
    can = shown(chain)
    parts = {part for (part, _), is_shown in can.items() if is_shown}
    try:
        matrices = {part: handles.matrix(ob, chain, part, depsgraph) for part in parts}
    except ChainError:
        return {}
    found = {}
    for way in ways():
        part, action, axis = way
        if can[part, action]:
            found[way] = matrices[part] if axis == "FREE" else matrices[part] @ ALONG[axis]
    return found


def active_chain(ob: bpy.types.Object) -> Any:
    """The chain that is active in the list, or None."""
    index = ob.ik_chains_index
    return ob.ik_chains[index] if 0 <= index < len(ob.ik_chains) else None


CLASSES = (IKCHAIN_GGT_handles,)
