# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the limbs of a character and make their chains."""

# mypy: disable-error-code="valid-type"

import bpy
from bpy.props import EnumProperty

from ..blender import setup
from .common import RigOperator, armature_exists

PARTS = (
    ("AUTO", "All Limbs", "Arms, legs, spine and tails, as far as they are found"),
    (
        "ARMS",
        "Arms",
        "From the upper arm to the head of the hand, whose place is kept in the character's space",
    ),
    ("LEGS", "Legs", "From the thigh to the head of the foot, whose place is kept in the world"),
    (
        "SPINE",
        "Spine",
        "From the first bone behind the hips to the neck: a head that leans pulls it sideways",
    ),
    ("TAILS", "Tails", "All bones of a tail, whose tip goes with the bone that carries it"),
)


class IKCHAIN_OT_setup(RigOperator, bpy.types.Operator):
    """Find the limbs of a character by the names of its bones and add their IK chains without moving them"""

    bl_idname = "ik_chain.setup"
    bl_label = "Set Up Limbs"

    preset: EnumProperty(
        name="Preset",
        description="Which parts of the body get chains",
        items=PARTS,
        default="AUTO",
        options={"SKIP_SAVE"},
    )

    @classmethod
    def poll(cls, context: bpy.types.Context) -> bool:
        """There is an armature to add chains to: which one, only the properties say."""
        return armature_exists(cls)

    def run(self, context: bpy.types.Context) -> None:
        """Add the chains; tell which, and what was left out and why."""
        report = setup.add(self.rig(context), self.preset)
        for text in report.notes:
            self.report({"WARNING"}, text)
        count = f"{len(report.chains)} chain{'' if len(report.chains) == 1 else 's'}"
        told = [f"Added {count}: {', '.join(report.chains)}"]
        if report.animated:
            told.append(setup.HOLD_STILL)
        if report.left_out:
            told.append(f"left out, see the Info editor: {', '.join(report.left_out)}")
        # The status bar shows what is told last.
        self.report({"WARNING"} if len(told) > 1 else {"INFO"}, "; ".join(told))


CLASSES = (IKCHAIN_OT_setup,)
