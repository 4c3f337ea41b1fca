# SPDX-License-Identifier: GPL-3.0-or-later
"""Drag a target or a pole in the viewport: what the gizmos call."""

# mypy: disable-error-code="valid-type"

import math
from typing import Any

import bpy
from bpy.props import EnumProperty, FloatProperty, FloatVectorProperty
from bpy_extras import view3d_utils
from mathutils import Matrix, Vector
from mathutils.geometry import intersect_line_line

from ..blender import handles, keying
from ..blender.chain_bones import ChainError
from ..blender.paths import setting_paths
from ..blender.space_samples import PARTS, space_of
from .space_ops import PartOperator

AXES = {"X": 0, "Y": 1, "Z": 2}
# What the mouse does with Shift held.
PRECISION = 0.1


class IKCHAIN_OT_drag(PartOperator, bpy.types.Operator):
    """Move or turn the target or the pole of an IK chain; what is written is the offset in its own space"""

    bl_idname = "ik_chain.drag"
    bl_label = "Drag IK Target"
    bl_options = {"REGISTER", "UNDO", "GRAB_CURSOR", "BLOCKING"}

    action: EnumProperty(
        name="Action",
        description="Move it or turn it",
        items=(("MOVE", "Move", "By the offset"), ("TURN", "Turn", "By the angle about one of its axes")),
        default="MOVE",
        options={"SKIP_SAVE"},
    )
    axis: EnumProperty(
        name="Axis",
        description="Axis of the target that it is turned about, or moved along with the mouse",
        items=(
            ("FREE", "Free", "In the plane of the view"),
            ("X", "X", "Its X axis"),
            ("Y", "Y", "Its Y axis"),
            ("Z", "Z", "Its Z axis"),
        ),
        default="FREE",
        options={"SKIP_SAVE"},
    )
    offset: FloatVectorProperty(
        name="Offset",
        description="Move in the world",
        subtype="TRANSLATION",
        unit="LENGTH",
        options={"SKIP_SAVE"},
    )
    angle: FloatProperty(
        name="Angle",
        description="Turn about the axis",
        subtype="ANGLE",
        unit="ROTATION",
        options={"SKIP_SAVE"},
    )

    def run(self, context: bpy.types.Context) -> None:
        """Move or turn by what is given."""
        self._begin(context)
        self._apply(context)
        self._key(context)

    def _why_not(self, chain: bpy.types.PropertyGroup) -> str:
        space = space_of(chain, PARTS[self.part])
        if space.kind == "CUSTOM" and not any(getattr(chain, PARTS[self.part].location)):
            return "it is where its object or bone is, drag that"
        if self.part == "POLE":
            is_placed = handles.moves(chain, "POLE")
            return "it has no rotation" if is_placed else "it has no place of its own, place the pole first"
        if self.action == "TURN":
            return "the chain takes no rotation from it"
        return "the chain takes nothing but its rotation"

    def _begin(self, context: bpy.types.Context) -> None:
        """Raises `ChainError` when there is nothing to drag."""
        ob, chain = self._chain(context)
        if self.action == "TURN":
            can = self.part == "TARGET" and handles.turns(chain)
        else:
            can = handles.moves(chain, self.part)
        if not can:
            raise ChainError(
                f"'{ob.name}': the {self.part.lower()} of chain '{chain.name}' cannot be dragged so:"
                f" {self._why_not(chain)}"
            )
        if self.action == "TURN" and self.axis == "FREE":
            raise ChainError("A turn needs an axis: X, Y or Z")
        keying.keyable_curves(ob, self._paths(ob))
        self.start = handles.matrix(ob, chain, self.part)
        self.before = tuple(getattr(chain, self._setting()))

    def _chain(self, context: bpy.types.Context) -> tuple[bpy.types.Object, Any]:
        ob = self.rig(context)
        return ob, ob.ik_chains[self.index(ob)]

    def _setting(self) -> str:
        names = PARTS[self.part]
        return names.rotation if self.action == "TURN" else names.location

    def _paths(self, ob: bpy.types.Object) -> tuple[str, ...]:
        index = self.index(ob)
        return setting_paths(ob.ik_chains[index], index, self._setting())

    def _apply(self, context: bpy.types.Context) -> None:
        ob, chain = self._chain(context)
        world = self.start.copy()
        if self.action == "TURN":
            place = world.translation.copy()
            world = world @ Matrix.Rotation(self.angle, 4, self.axis)
            world.translation = place
        else:
            world.translation += self.offset
        handles.put(ob, chain, self.part, world, self.action)

    def _key(self, context: bpy.types.Context) -> None:
        """As Blender keys what is dragged: with auto-keying on."""
        if not context.scene.tool_settings.use_keyframe_insert_auto:
            return
        ob, chain = self._chain(context)
        paths = self._paths(ob)
        curves = keying.keyable_curves(ob, paths)
        if curves:
            keying.insert(curves, context.scene.frame_current_final, list(getattr(chain, self._setting())))
        else:
            ob.keyframe_insert(paths[0])

    # With a window

    def invoke(self, context: bpy.types.Context, event: bpy.types.Event) -> set[str]:
        """Follow the mouse until it is released."""
        if context.region_data is None:
            return self.execute(context)
        try:
            self._begin(context)
        except ChainError as error:
            self.report({"ERROR"}, str(error))
            return {"CANCELLED"}
        self.mouse = self.last = self.first = Vector((event.mouse_region_x, event.mouse_region_y))
        context.window_manager.modal_handler_add(self)
        return {"RUNNING_MODAL"}

    def modal(self, context: bpy.types.Context, event: bpy.types.Event) -> set[str]:
        """Write where the mouse is; Esc puts back what was there."""
        if event.type in {"ESC", "RIGHTMOUSE"}:
            self.cancel(context)
            return {"CANCELLED"}
        if event.type == "MOUSEMOVE":
            self._follow(context, event)
            self._apply(context)
            context.area.header_text_set(self._text(context.scene))
            context.area.tag_redraw()
        elif (event.type == "LEFTMOUSE" and event.value == "RELEASE") or event.type in {
            "RET",
            "NUMPAD_ENTER",
        }:
            context.area.header_text_set(None)
            if not self.angle and not any(self.offset):
                return {"CANCELLED"}
            self._key(context)
            return {"FINISHED"}
        return {"RUNNING_MODAL"}

    def cancel(self, context: bpy.types.Context) -> None:
        """Put back what was there."""
        _, chain = self._chain(context)
        setattr(chain, self._setting(), self.before)
        context.area.header_text_set(None)

    def _follow(self, context: bpy.types.Context, event: bpy.types.Event) -> None:
        now = Vector((event.mouse_region_x, event.mouse_region_y))
        before = self.mouse
        self.mouse = before + (now - self.last) * (PRECISION if event.shift else 1.0)
        self.last = now
        view = context.region, context.region_data
        if self.action == "TURN":
            self.angle += turned(*view, self.start, AXES[self.axis], before, self.mouse)
        elif self.axis == "FREE":
            place = self.start.translation
            points = [
                view3d_utils.region_2d_to_location_3d(*view, at, place) for at in (self.first, self.mouse)
            ]
            self.offset = points[1] - points[0]
        else:
            along = [shifted(*view, self.start, AXES[self.axis], at) for at in (self.first, self.mouse)]
            self.offset = along[1] - along[0]

    def _text(self, scene: bpy.types.Scene) -> str:
        if self.action == "TURN":
            return f"{self.axis}: {math.degrees(self.angle):.2f}°"
        units = scene.unit_settings
        size = Vector(self.offset).length * units.scale_length
        return f"Moved by {bpy.utils.units.to_string(units.system, 'LENGTH', size, precision=4)}"

    def draw(self, _context: bpy.types.Context) -> None:
        """What was done, to be adjusted."""
        self.layout.use_property_split = True
        self.layout.use_property_decorate = False
        if self.action == "TURN":
            self.layout.prop(self, "axis")
            self.layout.prop(self, "angle")
        else:
            self.layout.prop(self, "offset")


def shifted(region: Any, view: Any, start: Matrix, axis: int, at: Vector) -> Vector:
    """The vector from the place of `start` along one of its axes to where the mouse points at."""
    place, direction = start.translation, start.col[axis].to_3d()
    eye = view3d_utils.region_2d_to_origin_3d(region, view, at)
    ray = view3d_utils.region_2d_to_vector_3d(region, view, at)
    nearest = intersect_line_line(place, place + direction, eye, eye + ray)
    return nearest[0] - place if nearest else Vector()


def turned(region: Any, view: Any, start: Matrix, axis: int, before: Vector, after: Vector) -> float:
    """The angle about an axis of `start` by which the mouse went round its place on the screen."""
    centre = view3d_utils.location_3d_to_region_2d(region, view, start.translation)
    if centre is None or (before - centre).length < 1.0 or (after - centre).length < 1.0:
        return 0.0
    away = view3d_utils.region_2d_to_vector_3d(region, view, centre)
    # `angle_signed` counts clockwise.
    angle = -float((before - centre).angle_signed(after - centre))
    return -angle if start.col[axis].to_3d().dot(away) > 0.0 else angle


CLASSES = (IKCHAIN_OT_drag,)
