# SPDX-License-Identifier: GPL-3.0-or-later
"""What the operators share: the rig and chain they are given, and how they fail."""

# mypy: disable-error-code="valid-type"

import glob
from typing import TYPE_CHECKING

import bpy
from bpy.props import EnumProperty, StringProperty

from ..blender.bake_checks import BakeError
from ..blender.chain_bones import ChainError

# Blender reads the properties of a mix-in only when it is no type of Blender's.
if TYPE_CHECKING:
    from bpy.types import Operator as _Base
else:
    _Base = object


class RigOperator(_Base):
    """An operator on one armature object.

    `run` raises `ChainError` or `BakeError` before it has changed anything; the message is
    reported and the operator is cancelled.
    """

    bl_options = {"REGISTER", "UNDO"}

    object: StringProperty(
        name="Object",
        description="Armature object; empty: the active object",
        options={"HIDDEN", "SKIP_SAVE"},
    )

    def run(self, context: bpy.types.Context) -> None:
        """Do the work."""
        raise NotImplementedError

    def execute(self, context: bpy.types.Context) -> set[str]:
        """Run, and report what is wrong in one sentence."""
        try:
            self.run(context)
        except (ChainError, BakeError) as error:
            self.report({"ERROR"}, str(error))
            return {"CANCELLED"}
        return {"FINISHED"}

    def rig(self, context: bpy.types.Context, edits: bool = True) -> bpy.types.Object:
        """The armature object to work on.

        Args:
            edits: it is going to be changed, which a linked one cannot.

        Raises:
            ChainError: when there is none, or it cannot be worked on now.
        """
        ob = named_object(self.object) if self.object else context.object
        if ob is None:
            raise ChainError("There is no active object")
        if ob.type != "ARMATURE":
            raise ChainError(f"'{ob.name}' is not an armature object")
        if ob.mode == "EDIT":
            raise ChainError(f"'{ob.name}' is in Edit Mode, where bones have no pose: leave it first")
        if edits and not ob.is_editable:
            raise ChainError(f"'{ob.name}' is linked: make a library override to edit its chains")
        return ob


class ChainOperator(RigOperator):
    """An operator on one chain of one armature object."""

    chain: StringProperty(
        name="Chain",
        description="Name of the chain; empty: the active chain of the object",
        options={"HIDDEN", "SKIP_SAVE"},
    )

    @classmethod
    def poll(cls, context: bpy.types.Context) -> bool:
        """Some rig of the file has a chain: which one is meant, only the properties say."""
        if _has_chains(context.object) or any(map(_has_chains, bpy.data.objects)):
            return True
        cls.poll_message_set("No armature object has an IK chain yet")
        return False

    def index(self, ob: bpy.types.Object) -> int:
        """Place of the chain to work on in the list of its object.

        Raises:
            ChainError: when there is no such chain.
        """
        if self.chain:
            place = ob.ik_chains.find(self.chain)
            if place < 0:
                raise ChainError(f"'{ob.name}' has no IK chain '{self.chain}'")
            return place
        if not ob.ik_chains:
            raise ChainError(f"'{ob.name}' has no IK chain")
        if not 0 <= ob.ik_chains_index < len(ob.ik_chains):
            raise ChainError(f"'{ob.name}' has no active IK chain: select one or give its name")
        return ob.ik_chains_index


class ScopeOperator(ChainOperator):
    """An operator on one chain, or on all chains, of one armature object."""

    scope: EnumProperty(
        name="Chains",
        description="Which chains are meant when none is given by name",
        items=(
            ("ACTIVE", "Active", "The active chain of the object"),
            ("ALL", "All", "All chains of the object"),
        ),
        default="ACTIVE",
    )

    def pattern(self, ob: bpy.types.Object) -> str | None:
        """What `bake` takes for the chosen chains."""
        if self.scope == "ALL" and not self.chain:
            return None
        return glob.escape(ob.ik_chains[self.index(ob)].name)


def armature_exists(operator: type[bpy.types.Operator]) -> bool:
    """Whether the file has an armature at all, for `poll` of an operator that adds chains."""
    if len(bpy.data.armatures):
        return True
    operator.poll_message_set("There is no armature to add a chain to")
    return False


def named_object(name: str) -> bpy.types.Object:
    """The object of this name; an override comes before the linked object that it stands for.

    Raises:
        ChainError: when there is none.
    """
    objects = bpy.data.objects
    ob = objects.get((name, None)) or objects.get(name)
    if ob is None:
        raise ChainError(f"There is no object '{name}'")
    return ob


def _has_chains(ob: bpy.types.Object | None) -> bool:
    return ob is not None and ob.type == "ARMATURE" and len(ob.ik_chains) > 0
