# SPDX-License-Identifier: GPL-3.0-or-later
"""Bring the FK and the IK pose of a chain together."""

import math

import bpy

from ..blender import fk_keys, snap
from ..core.report import length_text
from .common import ChainOperator

# Beyond these, in metres and radians, the poses are seen to differ.
OFFSET, ANGLE = 1e-4, math.radians(0.05)


class IKCHAIN_OT_snap_fk(ChainOperator, bpy.types.Operator):
    """Give the bones of an IK chain its solved pose as their FK pose, \
keyed where they are animated or with auto-keying on"""

    bl_idname = "ik_chain.snap_fk"
    bl_label = "Snap FK to IK"

    def run(self, context: bpy.types.Context) -> None:
        """Snap at the current frame."""
        ob = self.rig(context)
        done = snap.fk_to_ik(ob, self.index(ob), context.scene)
        if not done.changed:
            self.report({"INFO"}, "FK is at the solved pose already")
        elif done.offset > OFFSET or done.angle > ANGLE:
            apart = f"{length_text(done.offset)} and {math.degrees(done.angle):.2f}°"
            text = f"FK is at the solved pose; the chain moves it on by {apart}: mute it to keep the pose"
            self.report({"WARNING"}, text)


class IKCHAIN_OT_snap_ik(ChainOperator, bpy.types.Operator):
    """Put target and pole of an IK chain where its FK pose is, in their own spaces, \
keyed where they are animated"""

    bl_idname = "ik_chain.snap_ik"
    bl_label = "Snap IK to FK"

    def run(self, context: bpy.types.Context) -> None:
        """Snap at the current frame."""
        ob = self.rig(context)
        done = snap.ik_to_fk(ob, self.index(ob), context.scene)
        if done.offset > OFFSET or done.angle > ANGLE:
            apart = f"{length_text(done.offset)} and {math.degrees(done.angle):.2f}°"
            text = f"The settings of the chain allow no pose nearer to FK than {apart}"
            if done.is_smoothed:
                text = f"The target is at the FK pose, but Smooth Frames keeps the limb {apart} away from it"
            self.report({"WARNING"}, text)


class IKCHAIN_OT_key_fk(ChainOperator, bpy.types.Operator):
    """Key the FK pose of the bones of an IK chain at the current frame, whatever its influence; \
a key set on the bones themselves holds the solved pose that they show"""

    bl_idname = "ik_chain.key_fk"
    bl_label = "Key FK Pose"

    def run(self, context: bpy.types.Context) -> None:
        """Key at the current frame."""
        ob = self.rig(context)
        fk_keys.key_fk(ob, self.index(ob))


CLASSES = (IKCHAIN_OT_snap_fk, IKCHAIN_OT_snap_ik, IKCHAIN_OT_key_fk)
