# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a chain and its target off what is selected, as a rigger selects them."""

from __future__ import annotations

from dataclasses import dataclass

import bpy

from ..blender.chain_bones import ChainError


@dataclass(frozen=True)
class Picked:
    """A chain as it was selected.

    Attributes:
        root: first bone, or an empty string: one bone alone was selected.
        end: last bone.
        target: the object that the target shall follow, or None.
        subtarget: its bone, or an empty string.
    """

    root: str
    end: str
    target: bpy.types.Object | None = None
    subtarget: str = ""


def pick(context: bpy.types.Context, ob: bpy.types.Object) -> Picked:
    """The chain and the target that are selected in Pose Mode.

    The chain is the longest path of selected bones, of equally long ones the one with the
    active bone. A selected bone beside it is the target, or else a selected object.

    Raises:
        ChainError: when the selection can be read in no way, or in several.
    """
    selected = context.selected_pose_bones or ()
    own = [bone for bone in selected if bone.id_data == ob]
    if not own:
        raise ChainError(f"Select bones of '{ob.name}' in Pose Mode, or give the end bone by name")
    line = _line(own, context.active_pose_bone)
    beside = [bone for bone in selected if bone not in line]
    root = line[0].name if len(line) > 1 else ""
    if len(beside) > 1:
        names = ", ".join(f"'{bone.name}'" for bone in beside)
        raise ChainError(f"Only one bone beside the chain can be its target, but {names} are selected")
    if beside:
        return Picked(root, line[-1].name, beside[0].id_data, beside[0].name)
    return Picked(root, line[-1].name, _other_object(context, ob))


def _line(bones: list[bpy.types.PoseBone], active: bpy.types.PoseBone | None) -> list[bpy.types.PoseBone]:
    """The selected bones, root first, that lie on one path through the hierarchy."""
    lines = [[other for other in bones if other == tip or other in tip.parent_recursive] for tip in bones]
    longest = max(map(len, lines))
    found = [line for line in lines if len(line) == longest]
    if len(found) > 1:
        found = [line for line in found if active in line]
    if len(found) != 1:
        raise ChainError("The selected bones lie on several paths: make the end bone of the chain active")
    return sorted(found[0], key=lambda bone: len(bone.parent_recursive))


def _other_object(context: bpy.types.Context, ob: bpy.types.Object) -> bpy.types.Object | None:
    """The one selected object beside the rig; meshes that the rig deforms do not count."""
    others = [o for o in context.selected_objects if o != ob and o.find_armature() != ob]
    if len(others) > 1:
        names = ", ".join(f"'{other.name}'" for other in others)
        raise ChainError(f"Only one object beside the rig can be the target, but {names} are selected")
    return others[0] if others else None
