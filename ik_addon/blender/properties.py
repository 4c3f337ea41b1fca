# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings of a chain, stored on the armature object as `Object.ik_chains`.

Everything here is public and can be keyed, driven and overridden on a linked rig.
What the solve leaves behind (`residual`, `status`, `message`) is read-only.
"""

# No postponed annotations here: Blender reads the properties from the annotations.
# mypy: disable-error-code="valid-type"

import math
from typing import Any

import bpy
from bpy.props import (
    BoolProperty,
    CollectionProperty,
    EnumProperty,
    FloatProperty,
    FloatVectorProperty,
    IntProperty,
    PointerProperty,
    StringProperty,
)

from . import anchors, state

OVERRIDE = {"LIBRARY_OVERRIDABLE"}

# Numbers as files store them: a solver keeps its own.
SOLVERS = (
    ("TWO_BONE", "Two-Bone", "Exact solve of a limb of two bones: arm, leg", 0),
    ("THREE_BONE", "Three-Bone", "Exact solve of a limb of three bones: arm with clavicle, dog leg", 4),
    ("AIM", "Aim", "Turn one bone: copy the target's rotation or look at it", 1),
    (
        "FABRIK",
        "FABRIK",
        "Chain of any length that bends evenly and keeps its look: spine, tail, tentacle",
        2,
    ),
    ("CCD", "CCD", "Chain of any length that bends from its tip first", 3),
)
SPACES = (
    ("WORLD", "World", "The world: a planted foot"),
    ("ARMATURE", "Armature", "The character's own space: a hand on a hip"),
    ("CUSTOM", "Custom", "The space of an object or a bone: a hand on a door"),
)
POLE_MODES = (
    ("AUTO", "Auto", "Bend as the FK pose does; a straight chain by its rest bend axis"),
    ("DIRECTION", "Direction", "Bend toward a direction"),
    ("POINT", "Point", "Bend toward a point"),
)
LIMB_MODES = (
    (
        "CLAVICLE",
        "Clavicle",
        "Clavicle, upper arm, forearm: the clavicle takes a share of the rise of the arm, and helps with"
        " targets out of reach",
    ),
    (
        "HOCK_PARALLEL",
        "Parallel Hock",
        "Thigh, shin, hock: the hock turns as the thigh does and keeps its FK angle to it",
    ),
    (
        "HOCK_RATIO",
        "Hock by Ratio",
        "Thigh, shin, hock: the hock turns by a share of the turn of the line from root to target,"
        " further only where the target needs it",
    ),
)
AIM_MODES = (
    ("MATCH_ROTATION", "Match Rotation", "Take the rotation of the target"),
    ("LOOK_AT", "Look At", "Point at the target"),
)
LIMIT_MODES = (
    ("ACCEPT", "Accept", "The tip stops short at the nearest point; nothing else moves"),
    (
        "MOVE_ROOT",
        "Move Root",
        "A bone above the chain moves toward the target by just what is needed",
    ),
    ("STRETCH", "Stretch", "The bones grow by just what is needed; hand and foot keep their size"),
)
PLANE_AXES = tuple((axis, axis, f"The plane normal to the armature's {axis} axis") for axis in "XYZ")
BONE_AXES = tuple((axis, axis, f"The {axis} axis of the bone") for axis in ("X", "Y", "Z", "-X", "-Y", "-Z"))
STATUSES = (
    ("OK", "On Target", "The tip is on its target", "CHECKMARK", 0),
    ("TARGET_FAR", "Out of Reach", "The target is further away than the chain is long", "ERROR", 1),
    ("TARGET_NEAR", "Too Near", "The target is nearer to the root than the chain can fold", "ERROR", 2),
    ("LIMIT", "Joint Limit", "A joint limit keeps the tip off its target", "ERROR", 3),
    ("INFLUENCE", "Influence", "The influence leaves the chain between FK and its target", "INFO", 4),
    ("NOT_CONVERGED", "Not Converged", "The solver ran out of iterations", "ERROR", 5),
    ("POLE_ALIGNED", "Pole Aligned", "The pole lies on the line from root to target", "INFO", 6),
    ("BROKEN", "Broken", "The chain cannot be solved and holds still", "CANCEL", 7),
)


def _value_changed(self: "IKChain", _context: bpy.types.Context) -> None:
    """A number was edited: solve again."""
    self.id_data.update_tag()


def _make_changed(self: "IKChain", _context: bpy.types.Context) -> None:
    """A setting that decides how the chain is solved was edited: compile and solve again.

    Channels that the chain writes no more get their FK values back at once: the next solve reads
    what Blender evaluates before it.
    """
    from .memory import release_unused  # builds on the properties

    state.STATE.forget_plans()
    if self.id_data.pose:
        release_unused(self.id_data)
    self.id_data.update_tag()


def _link_changed(self: "IKChain", context: bpy.types.Context) -> None:
    """A bone or object name was edited: hold on to the new one."""
    anchors.hold_names(self.id_data, self)
    _make_changed(self, context)


def _name_changed(self: "IKChain", context: bpy.types.Context) -> None:
    override = self.id_data.override_library
    if override and override.reference:
        # Blender finds the chain of the library by its name: one that is lost comes back twice.
        lost = set(override.reference.ik_chains.keys()) - set(self.id_data.ik_chains.keys())
        if lost:
            self.name = lost.pop()
            return
    taken = {other.name for other in self.id_data.ik_chains if other != self}
    unique = unique_name(self.name or "Chain", taken)
    if unique != self.name:
        self.name = unique  # calls this function again, with nothing left to change
        return
    _make_changed(self, context)


def unique_name(wanted: str, taken: set[str]) -> str:
    """``wanted``, or with Blender's ``.001`` suffix, so that it is not in ``taken``."""
    stem, _, digits = wanted.rpartition(".")
    stem = stem if stem and digits.isdigit() and len(digits) == 3 else wanted
    name, count = wanted, 0
    while name in taken:
        count += 1
        name = f"{stem}.{count:03d}"
    return name


def _space(label: str, default: str) -> Any:
    return EnumProperty(
        name=label,
        description=f"The space that the {label.split()[0].lower()} is stored in and moves with",
        items=SPACES,
        default=default,
        update=_make_changed,
        override=OVERRIDE,
    )


def _object(label: str, text: str) -> Any:
    return PointerProperty(
        name=label, description=text, type=bpy.types.Object, update=_link_changed, override=OVERRIDE
    )


def _bone(label: str, text: str) -> Any:
    return StringProperty(name=label, description=text, update=_link_changed, override=OVERRIDE)


def _enum(label: str, text: str, items: tuple, default: str) -> Any:
    return EnumProperty(
        name=label, description=text, items=items, default=default, update=_make_changed, override=OVERRIDE
    )


def _bool(label: str, text: str, default: bool) -> Any:
    return BoolProperty(
        name=label, description=text, default=default, update=_make_changed, override=OVERRIDE
    )


def _float(label: str, text: str, **options: Any) -> Any:
    return FloatProperty(name=label, description=text, update=_value_changed, override=OVERRIDE, **options)


def _location(label: str, text: str) -> Any:
    return FloatVectorProperty(
        name=label,
        description=text,
        subtype="TRANSLATION",
        size=3,
        update=_value_changed,
        override=OVERRIDE,
    )


class IKChain(bpy.types.PropertyGroup):
    """One inverse kinematics chain of an armature object."""

    name: StringProperty(
        name="Name",
        description="Name of the chain, unique on the object",
        default="Chain",
        update=_name_changed,
        override=OVERRIDE,
    )
    mute: _bool("Mute", "Leave the bones in their FK pose", False)
    influence: _float(
        "Influence",
        "0 is the FK pose, 1 the full solve; between them each bone's rotation is blended",
        default=1.0,
        min=0.0,
        max=1.0,
        subtype="FACTOR",
    )
    solver: _enum("Solver", "How the chain is solved", SOLVERS, "TWO_BONE")
    root_bone: _bone("Root", "First bone of the chain")
    end_bone: _bone("End", "Last bone of the chain")
    use_tail: _bool("Use Tail", "The tip is the tail of the end bone; off: its head (a hand, a foot)", True)

    target_space: _space("Target Space", "WORLD")
    target: _object("Target", "Object whose space the target is stored in")
    subtarget: _bone("Target Bone", "Bone of the target armature whose space the target is stored in")
    target_location: _location("Target Location", "Where the tip shall be, in the target space")
    target_rotation: FloatVectorProperty(
        name="Target Rotation",
        description="Rotation of the target in the target space",
        subtype="QUATERNION",
        size=4,
        default=(1.0, 0.0, 0.0, 0.0),
        update=_value_changed,
        override=OVERRIDE,
    )
    use_rotation: _bool(
        "Rotation", "The end bone also takes the target's rotation, when Use Tail is off", False
    )

    smooth_frames: IntProperty(
        name="Smooth Frames",
        description="Frames to each side over which the target's own motion is smoothed, centred on the"
        " frame; not that of what it hangs on",
        default=0,
        min=0,
        max=100,
        soft_max=20,
        update=_value_changed,
        override=OVERRIDE,
    )

    pole_mode: _enum("Pole", "What decides to which side the chain bends", POLE_MODES, "AUTO")
    pole_space: _space("Pole Space", "ARMATURE")
    pole_target: _object("Pole Target", "Object whose space the pole is stored in")
    pole_subtarget: _bone("Pole Bone", "Bone of the pole armature whose space the pole is stored in")
    pole_location: _location("Pole Location", "Point or direction of the pole, in the pole space")
    pole_angle: _float("Pole Angle", "Turn of the bend plane about the line to the target", subtype="ANGLE")

    use_planar: _bool("Planar", "Solve in a plane of the armature, with a stored bend side", False)
    planar_axis: _enum("Plane Normal", "Axis of the armature that the plane is normal to", PLANE_AXES, "X")
    bend_sign: IntProperty(
        name="Bend Side",
        description="Side of the plane to which the elbow goes: +1 counter-clockwise, -1 clockwise",
        default=1,
        min=-1,
        max=1,
        update=_value_changed,
        override=OVERRIDE,
    )

    limb_mode: _enum("Limb", "What the lone bone of the three does", LIMB_MODES, "CLAVICLE")
    share: _float(
        "Share",
        "Part of the turn from FK to the target that the clavicle or the hock takes over; at 0 the clavicle"
        " stays in FK",
        default=0.3,
        min=0.0,
        max=1.0,
        subtype="FACTOR",
    )
    share_max: _float(
        "Largest Swing",
        "Most that the clavicle turns from FK, also to help with a target out of the arm's reach",
        default=math.radians(30.0),
        min=0.0,
        max=math.radians(90.0),
        subtype="ANGLE",
    )

    aim_mode: _enum("Aim Mode", "What the bone does", AIM_MODES, "LOOK_AT")
    aim_axis: _enum("Aim Axis", "Axis of the bone that points at the target", BONE_AXES, "Y")
    up_axis: _enum("Up Axis", "Axis of the bone that is kept toward the pole", BONE_AXES, "Z")
    offset_yaw: _float("Yaw Offset", "Turn about the bone's Y axis after the copy", subtype="ANGLE")

    aim_offset: _location(
        "Aim Offset", "Where the aim ray starts, in the space of the bone: an eye, a muzzle"
    )
    aim_limit: _float(
        "Aim Limit",
        "Most that the bone turns from FK, roll included; 180° is no limit",
        default=math.pi,
        min=0.0,
        max=math.pi,
        subtype="ANGLE",
    )
    aim_damping: _float(
        "Damping",
        "Last part of the limit, as a fraction of it, in which the turn eases out",
        default=0.0,
        min=0.0,
        max=1.0,
        subtype="FACTOR",
    )

    use_lean: _bool(
        "Lean",
        "The target, a head, pulls the tip only sideways: what it drifts from the FK tip at right angles to"
        " the FK line from root to tip; the residual is measured to the target derived so",
        False,
    )
    lean: _float(
        "Lean Factor",
        "Part of the target's sideways drift that the tip follows",
        default=1.0,
        min=0.0,
        max=1.0,
        subtype="FACTOR",
    )

    softness: _float(
        "Softness",
        "Zone before full reach, as a fraction of the chain's length, in which the limb eases out",
        default=0.0,
        min=0.0,
        max=1.0,
        soft_max=0.2,
        subtype="FACTOR",
        precision=3,
    )
    use_limits: _bool(
        "Limits", "Keep the bones' IK limits and locks, and Limit Rotation constraints in local space", True
    )
    limit_mode: _enum(
        "Out of Reach",
        "What happens when reach or joint limits keep the tip off its target",
        LIMIT_MODES,
        "ACCEPT",
    )
    move_bone: _bone(
        "Bone to Move",
        "Bone above the chain that moves; empty: the nearest one that is neither connected nor locked",
    )
    move_max: _float(
        "Largest Move",
        "Most that the bone moves; it eases out over the last quarter",
        default=0.2,
        min=0.0,
        soft_max=1.0,
        unit="LENGTH",
    )
    move_smooth: IntProperty(
        name="Move Smooth",
        description="Frames to each side whose targets move the bone, too: it starts early and stops late",
        default=0,
        min=0,
        max=100,
        soft_max=20,
        update=_value_changed,
        override=OVERRIDE,
    )
    stretch_max: _float(
        "Largest Stretch",
        "Most that the chain grows, as a fraction of its length",
        default=0.1,
        min=0.0,
        soft_max=1.0,
        subtype="FACTOR",
    )
    iterations: IntProperty(
        name="Iterations",
        description="Most passes of an iterative solver",
        default=100,
        min=1,
        max=10000,
        update=_make_changed,
        override=OVERRIDE,
    )
    tolerance: FloatProperty(
        name="Tolerance",
        description="Distance at which an iterative solver stops, as a fraction of the chain's length",
        default=1e-6,
        min=1e-12,
        max=0.1,
        precision=7,
        update=_make_changed,
        override=OVERRIDE,
    )

    # What the last solve left. The public names read what the handler stored.
    last_residual: FloatProperty(description="Storage of the residual", options={"HIDDEN"}, override=OVERRIDE)
    last_status: IntProperty(description="Storage of the status", options={"HIDDEN"}, override=OVERRIDE)
    message: StringProperty(
        name="Message", description="Why the chain is broken", options={"HIDDEN"}, override=OVERRIDE
    )
    residual: FloatProperty(
        name="Residual",
        description="Distance from tip to target after the solve, in world space",
        unit="LENGTH",
        precision=6,
        get=lambda self: self.last_residual,
    )
    status: EnumProperty(
        name="Status",
        description="On target, or why the residual is not zero",
        items=STATUSES,
        get=lambda self: self.last_status,
    )

    # Names the chain in the driver that holds its bones and targets (see `anchors`).
    uid: IntProperty(description="Number of the chain on its object", options={"HIDDEN"}, override=OVERRIDE)


# The FK values of channels that chains write: what nothing animates has no other memory of them, and
# they must survive undo, save and load with the file. One property for each channel, since Blender
# copies them all on every frame (see `memory.Held` for what they hold).
POSE_BONE_MEMORY = {
    f"ik_held_{channel}": FloatVectorProperty(
        name=f"Held {channel.title()}",
        description=f"{channel.title()} without chains, as chains last wrote it, and whether it is held",
        size=size,
        options={"HIDDEN"},
        override=OVERRIDE,
    )
    for channel, size in (("rotation", 9), ("location", 7), ("scale", 7))
}


def register() -> None:
    """Add the chains to objects, and the memory to pose bones."""
    bpy.utils.register_class(IKChain)
    bpy.types.Object.ik_chains = CollectionProperty(
        name="IK Chains",
        description="Inverse kinematics chains of the armature",
        type=IKChain,
        override={"LIBRARY_OVERRIDABLE", "USE_INSERTION"},
    )
    bpy.types.Object.ik_chains_index = IntProperty(
        name="Active IK Chain", description="The chain shown in the panel", override=OVERRIDE
    )
    bpy.types.Object.ik_anchor = FloatProperty(
        name="IK Anchor",
        description="Carries the driver that holds on to the bones and targets of the chains",
        options={"HIDDEN", "ANIMATABLE"},
        override=OVERRIDE,
    )
    for name, memory in POSE_BONE_MEMORY.items():
        setattr(bpy.types.PoseBone, name, memory)


def unregister() -> None:
    """Take both away; what files have stored stays in them."""
    for name in POSE_BONE_MEMORY:
        delattr(bpy.types.PoseBone, name)
    del bpy.types.Object.ik_anchor
    del bpy.types.Object.ik_chains_index
    del bpy.types.Object.ik_chains
    bpy.utils.unregister_class(IKChain)
