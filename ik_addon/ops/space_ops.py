# SPDX-License-Identifier: GPL-3.0-or-later
"""Change the space of a target or a pole, and make them objects."""

# mypy: disable-error-code="valid-type"

import math

import bpy
from bpy.props import EnumProperty, IntProperty, StringProperty

from ..blender import snap, spaces, target_objects
from ..blender.chain_bones import ChainError
from ..blender.properties import POLE_MODES, SPACES
from ..blender.space_samples import PARTS, Space, custom_of
from ..core.report import length_text
from .common import ChainOperator, named_object
from .snap_ops import ANGLE, OFFSET

PART_ITEMS = (
    ("TARGET", "Target", "The target of the chain"),
    ("POLE", "Pole", "The pole of the chain"),
)


class PartOperator(ChainOperator):
    """An operator on the target or the pole of one chain."""

    part: EnumProperty(
        name="Part",
        description="What of the chain is meant",
        items=PART_ITEMS,
        default="TARGET",
        options={"SKIP_SAVE"},
    )


class IKCHAIN_OT_switch_space(PartOperator, bpy.types.Operator):
    """Put the target or the pole of an IK chain into another space without moving it, keyed as a step"""

    bl_idname = "ik_chain.switch_space"
    bl_label = "Switch Space"

    space: EnumProperty(
        name="Space", description="The new space", items=SPACES, default="WORLD", options={"SKIP_SAVE"}
    )
    target: StringProperty(
        name="Object",
        description="Object of the custom space; empty: the one that the chain names",
        options={"SKIP_SAVE"},
    )
    subtarget: StringProperty(
        name="Bone", description="Bone of the custom space, if any", options={"SKIP_SAVE"}
    )
    method: EnumProperty(
        name="Frames",
        description="The frames on which the new space holds",
        items=(
            ("STEP", "From Now On", "From the current frame on, up to the next key of the space"),
            ("RANGE", "Range", "A range, with a key on each of its frames, so that the motion stays"),
            ("ALWAYS", "All", "All frames: the space gets no key, and the keys of the offset are converted"),
        ),
        default="STEP",
        options={"SKIP_SAVE"},
    )
    frame_start: IntProperty(name="Start", description="First frame of the range", default=1)
    frame_end: IntProperty(name="End", description="Last frame of the range", default=250)

    def invoke(self, context: bpy.types.Context, event: bpy.types.Event) -> set[str]:
        """Ask for the object of a custom space; go ahead with the others."""
        if self._range() is None:
            # A range to start from, should it be asked for in the dialog; it is not yet.
            self.method = self.method
            self.frame_start, self.frame_end = context.scene.frame_start, context.scene.frame_end
        if self.space != "CUSTOM" or self.target:
            return self.execute(context)
        try:
            ob = self.rig(context)
            named = custom_of(ob.ik_chains[self.index(ob)], PARTS[self.part])
        except ChainError as error:
            self.report({"ERROR"}, str(error))
            return {"CANCELLED"}
        if named.target is not None:
            self.target, self.subtarget = named.target.name, named.bone
        return context.window_manager.invoke_props_dialog(self)

    def run(self, context: bpy.types.Context) -> None:
        """Switch, and tell what became of keys that come later."""
        ob = self.rig(context)
        index = self.index(ob)
        if self.target and not self.properties.is_property_set("space"):
            self.space = "CUSTOM"
        target = named_object(self.target) if self.target and self.space == "CUSTOM" else None
        done = spaces.switch(
            ob,
            index,
            context.scene,
            Space(self.space, target, self.subtarget if target else ""),
            self.part,
            key=self.method != "ALWAYS",
            frames=self._range(),
        )
        label = self.part.title()
        if done.later:
            keys = "1 later key" if len(done.later) == 1 else f"{len(done.later)} later keys"
            self.report(
                {"INFO"},
                f"{label} switched, and {keys} converted: it is where it was on their "
                "frames, and moves in its new space between them",
            )

    def _range(self) -> tuple[int, int] | None:
        given = self.properties.is_property_set
        asked = given("frame_start") or given("frame_end")
        if self.method == "RANGE" or (asked and not given("method")):
            return self.frame_start, self.frame_end
        return None

    def draw(self, _context: bpy.types.Context) -> None:
        """Space, its object, and the frames."""
        layout = self.layout
        layout.use_property_split = True
        layout.use_property_decorate = False
        layout.row().prop(self, "space", expand=True)
        if self.space == "CUSTOM":
            layout.prop_search(self, "target", bpy.data, "objects")
            target = bpy.data.objects.get(self.target)
            if target is not None and target.type == "ARMATURE":
                layout.prop_search(self, "subtarget", target.data, "bones")
        layout.prop(self, "method")
        if self.method == "RANGE":
            column = layout.column(align=True)
            column.prop(self, "frame_start")
            column.prop(self, "frame_end")


class IKCHAIN_OT_place_pole(ChainOperator, bpy.types.Operator):
    """Put the pole of an IK chain where the limb bends now, so that nothing moves"""

    bl_idname = "ik_chain.place_pole"
    bl_label = "Place Pole"

    mode: EnumProperty(
        name="Mode",
        description="What the pole is from then on; by default what it is, or a point",
        items=tuple(item for item in POLE_MODES if item[0] != "AUTO"),
        default="POINT",
        options={"SKIP_SAVE"},
    )

    def run(self, context: bpy.types.Context) -> None:
        """Place it, and tell when the limb could not stay."""
        ob = self.rig(context)
        index = self.index(ob)
        mode = ob.ik_chains[index].pole_mode
        if mode == "AUTO" or self.properties.is_property_set("mode"):
            mode = self.mode
        done = snap.pole_to_bend(ob, index, context.scene, mode)
        if done.offset > OFFSET or done.angle > ANGLE:
            self.report(
                {"WARNING"},
                f"No pole holds the limb nearer to where it was than {length_text(done.offset)} and "
                f"{math.degrees(done.angle):.2f}°",
            )


class IKCHAIN_OT_add_target_empty(PartOperator, bpy.types.Operator):
    """Make the target or the pole of an IK chain an empty that can be dragged, without moving it"""

    bl_idname = "ik_chain.add_target_empty"
    bl_label = "Add Target Empty"

    def run(self, context: bpy.types.Context) -> None:
        """Add the empty, with the keys of the offset."""
        ob = self.rig(context)
        empty = target_objects.add_empty(ob, self.index(ob), context.scene, self.part)
        self.report({"INFO"}, f"The {self.part.lower()} follows '{empty.name}'")


class IKCHAIN_OT_add_target_bone(PartOperator, bpy.types.Operator):
    """Make the target or the pole of an IK chain a control bone of the rig, without moving it"""

    bl_idname = "ik_chain.add_target_bone"
    bl_label = "Add Target Bone"

    parent_bone: StringProperty(
        name="Parent",
        description="Parent of the new bone; empty: the bone of the rig that it was in the space of, or none",
        options={"SKIP_SAVE"},
    )

    def run(self, context: bpy.types.Context) -> None:
        """Add the bone, with the keys of the offset."""
        ob = self.rig(context)
        bone = target_objects.add_bone(ob, self.index(ob), context.scene, self.part, self.parent_bone)
        self.report({"INFO"}, f"The {self.part.lower()} follows bone '{bone}'")


CLASSES = (
    IKCHAIN_OT_switch_space,
    IKCHAIN_OT_place_pole,
    IKCHAIN_OT_add_target_empty,
    IKCHAIN_OT_add_target_bone,
)
