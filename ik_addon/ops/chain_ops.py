# SPDX-License-Identifier: GPL-3.0-or-later
"""Add, remove and reorder chains."""

# mypy: disable-error-code="valid-type"

import bpy
from bpy.props import BoolProperty, EnumProperty, StringProperty

from ..blender import chains, paths, spines
from ..blender.chain_bones import ChainError, resolve
from ..blender.properties import SOLVERS, SPACES
from .common import ChainOperator, RigOperator, armature_exists, named_object
from .selection import pick

PRESETS = (
    ("NONE", "None", "A chain as the settings below say"),
    (
        "SPINE",
        "Spine",
        "The spine of the selected bone, up to the neck: a head that leans pulls it sideways after it",
    ),
)
AUTOMATIC = ("AUTO", "Automatic", "Two-Bone for two bones, Aim for one, FABRIK for more", 100)


class IKCHAIN_OT_add(RigOperator, bpy.types.Operator):
    """Add an IK chain along the selected pose bones without moving them, \
with a selected object or bone beside them as its target"""

    bl_idname = "ik_chain.add"
    bl_label = "Add IK Chain"

    name: StringProperty(
        name="Name", description="Name of the new chain; empty: that of its end bone", options={"SKIP_SAVE"}
    )
    preset: EnumProperty(
        name="Preset",
        description="Bones and settings of a part of the body",
        items=PRESETS,
        default="NONE",
        options={"SKIP_SAVE"},
    )
    solver: EnumProperty(
        name="Solver", description="How the chain is solved", items=(AUTOMATIC, *SOLVERS), default="AUTO"
    )
    root_bone: StringProperty(
        name="Root",
        description="First bone of the chain; empty: the end bone and its parent are solved, "
        "or with Use Tail off the two bones above it",
        options={"SKIP_SAVE"},
    )
    end_bone: StringProperty(
        name="End", description="Last bone of the chain; empty: by the selection", options={"SKIP_SAVE"}
    )
    use_tail: BoolProperty(
        name="Use Tail",
        description="The tip is the tail of the end bone; off: its head (a hand, a foot)",
        default=True,
    )
    target_space: EnumProperty(
        name="Target Space",
        description="The space that the target is stored in; Custom when a target is given",
        items=SPACES,
        default="WORLD",
        options={"SKIP_SAVE"},
    )
    target: StringProperty(
        name="Target", description="Object whose space the target is stored in", options={"SKIP_SAVE"}
    )
    subtarget: StringProperty(
        name="Target Bone",
        description="Bone of the target armature whose space the target is stored in",
        options={"SKIP_SAVE"},
    )

    @classmethod
    def poll(cls, context: bpy.types.Context) -> bool:
        """There is an armature to add a chain to: which one, only the properties say."""
        return armature_exists(cls)

    def run(self, context: bpy.types.Context) -> None:
        """Take from the selection what is not given, and add the chain."""
        ob = self.rig(context)
        if self.preset == "SPINE":
            self._add_spine(context, ob)
            return
        if not self.end_bone:
            self._take_selection(context, ob)
        if self.target and not self.properties.is_property_set("target_space"):
            self.target_space = "CUSTOM"
        end = ob.data.bones.get(self.end_bone)
        if end is None:
            raise ChainError(f"'{ob.name}' has no bone '{self.end_bone}'")
        root = self.root_bone or self._usual_root(end)
        solver = self._fitting_solver(end, root) if self.solver == "AUTO" else self.solver
        chain = chains.add(
            ob,
            root,
            self.end_bone,
            name=self.name,
            solver=solver,
            use_tail=self.use_tail,
            target_space=self.target_space,
            target=named_object(self.target) if self.target else None,
            subtarget=self.subtarget,
        )
        self._tell_of(ob, chain)

    def _tell_of(self, ob: bpy.types.Object, chain: bpy.types.PropertyGroup) -> None:
        """What may not be what was meant."""
        turned = resolve(ob, chain).turned
        others = [other.name for other in chains.that_turn(ob, turned) if other.name != chain.name]
        if others:
            also = " and ".join(f"'{name}'" for name in others)
            verb = "turn" if len(others) > 1 else "turns"
            self.report(
                {"WARNING"}, f"{also} {verb} bones of '{chain.name}', too: the later one in the list counts"
            )
        if self.solver == "AUTO" and chain.solver == "AIM":
            self.report({"INFO"}, f"'{chain.name}' has one bone: it aims at its target")

    def _add_spine(self, context: bpy.types.Context, ob: bpy.types.Object) -> None:
        spine = self._spine(context, ob)
        given = bool(self.target)
        space = {"target_space": self.target_space} if self.properties.is_property_set("target_space") else {}
        target = named_object(self.target) if given else None
        chain = spines.add_spine(ob, spine, name=self.name, target=target, subtarget=self.subtarget, **space)
        # The panel of the last operation shows what was found.
        self.root_bone, self.end_bone = chain.root_bone, chain.end_bone
        self.target_space, self.subtarget = chain.target_space, chain.subtarget
        self.target = chain.target.name if chain.target else ""
        if spine.carried_head and not spine.head and not given:
            self.report(
                {"INFO"},
                f"Head '{spine.carried_head}' hangs on the spine and cannot lead it:"
                " drag the target, or make it a control with Add Bone",
            )

    def _spine(self, context: bpy.types.Context, ob: bpy.types.Object) -> spines.Spine:
        """The spine that is named, or selected by one of its bones, or by its first and last."""
        if not self.root_bone and not self.end_bone:
            self._take_selection(context, ob)
        if self.root_bone and self.end_bone:
            return spines.between(ob, self.root_bone, self.end_bone)
        return spines.spine_at(ob, self.root_bone or self.end_bone)

    def _take_selection(self, context: bpy.types.Context, ob: bpy.types.Object) -> None:
        picked = pick(context, ob)
        self.end_bone = picked.end
        if not self.root_bone:
            self.root_bone = picked.root
        if picked.target is not None and not self.target:
            self.target, self.subtarget = picked.target.name, picked.subtarget

    def _usual_root(self, end: bpy.types.Bone) -> str:
        """The root of a limb of two bones, or of three for their solver, as far as the end has parents."""
        if self.solver == "AIM":
            return end.name
        turned = 3 if self.solver == "THREE_BONE" else 2
        path = [end, *end.parent_recursive][: turned if self.use_tail else turned + 1]
        return path[-1].name

    def _fitting_solver(self, end: bpy.types.Bone, root: str) -> str:
        if root == end.name:
            return "AIM"
        above = [bone.name for bone in end.parent_recursive]
        turned = above.index(root) + 1 + self.use_tail if root in above else 0
        return "TWO_BONE" if turned == 2 else "FABRIK"

    def draw(self, context: bpy.types.Context) -> None:
        """The settings that a rigger adjusts after adding."""
        layout = self.layout
        layout.use_property_split = True
        ob = bpy.data.objects.get(self.object) if self.object else context.object
        layout.prop(self, "preset")
        layout.prop(self, "name")
        if self.preset == "NONE":
            layout.prop(self, "solver")
        for prop in ("root_bone", "end_bone"):
            if ob is not None and ob.type == "ARMATURE":
                layout.prop_search(self, prop, ob.data, "bones")
        if self.preset == "NONE":
            layout.prop(self, "use_tail")
        layout.prop(self, "target_space")
        if self.target_space == "CUSTOM":
            layout.prop_search(self, "target", bpy.data, "objects")
            target = bpy.data.objects.get(self.target)
            if target is not None and target.type == "ARMATURE":
                layout.prop_search(self, "subtarget", target.data, "bones")


class IKCHAIN_OT_remove(ChainOperator, bpy.types.Operator):
    """Remove an IK chain and give its bones their FK pose back"""

    bl_idname = "ik_chain.remove"
    bl_label = "Remove IK Chain"

    def run(self, context: bpy.types.Context) -> None:
        """Remove the chain."""
        ob = self.rig(context)
        index = self.index(ob)
        left_alone = paths.doubtful_actions(ob, range(index, len(ob.ik_chains)))
        chains.remove(ob, index)
        _tell_left_alone(self, left_alone)


class IKCHAIN_OT_move(ChainOperator, bpy.types.Operator):
    """Move an IK chain up or down in the list"""

    bl_idname = "ik_chain.move"
    bl_label = "Move IK Chain"

    direction: EnumProperty(
        name="Direction",
        description="Where the chain goes in the list",
        items=(
            ("UP", "Up", "One place toward the top of the list"),
            ("DOWN", "Down", "One place toward the bottom of the list"),
        ),
        default="UP",
    )

    def run(self, context: bpy.types.Context) -> None:
        """Swap the chain with its neighbour."""
        ob = self.rig(context)
        index = self.index(ob)
        to = index + (1 if self.direction == "DOWN" else -1)
        if not 0 <= to < len(ob.ik_chains):
            edge = "last" if self.direction == "DOWN" else "first"
            raise ChainError(f"'{ob.ik_chains[index].name}' is the {edge} IK chain already")
        left_alone = paths.doubtful_actions(ob, (index, to))
        chains.move(ob, index, to)
        _tell_left_alone(self, left_alone)


def _tell_left_alone(operator: bpy.types.Operator, actions: list[str]) -> None:
    """Name the actions whose curves of chains still stand for the places before."""
    if actions:
        names = ", ".join(f"'{name}'" for name in actions)
        operator.report(
            {"WARNING"},
            f"Nothing plays {names} now, and it may be another rig's: its curves were left as they are",
        )


CLASSES = (IKCHAIN_OT_add, IKCHAIN_OT_remove, IKCHAIN_OT_move)
