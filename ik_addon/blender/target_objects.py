# SPDX-License-Identifier: GPL-3.0-or-later
"""Make a target or a pole a thing to drag: an empty, or a control bone of the rig. Nothing moves.

The empty is a child of the space that the target was in, the bone stands in the armature, or
below the bone that the target was in. Keys of the offset become keys of the new thing. Where
its parent moves against the space that the target was in, it gets a key on each frame of the
scene instead.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import bpy
import numpy as np
from mathutils import Matrix

from ..core.transforms import (
    affine_inverse,
    compose,
    make_compatible,
    quaternion_to_matrix,
    rotation_part,
    transform_point,
)
from . import bake_checks, chains, compat, edits, keys, offsets, smoothing, snap, spaces, tracks
from .chain_bones import ChainError, resolve
from .offsets import Columns
from .paths import setting_paths
from .space_samples import PARTS, Part, Samples, Space, present, sample, space_of
from .state import STATE
from .tracks import Track
from .visibility import shown

# Sizes of what is made, as fractions of the limb's length.
EMPTY_SIZE, BONE_SIZE = 0.1, 0.35
# By number of values.
CHANNELS = {3: "location", 4: "rotation_quaternion"}
SHAPES = {"TARGET": "CUBE", "POLE": "SPHERE"}
# A side at the end of a name stays there, for tools that mirror by names.
_SIDE = re.compile(r"^(.+?)([._\- ](?:[lLrR]|[lL]eft|[rR]ight))$")


@dataclass(frozen=True)
class _Making:
    """What is made a thing.

    Attributes:
        parent: the space that it will move with.
        inside: ``(4, 4)`` its rest matrix in there; its channels come on top.
        tracks: of the space, the location and, but for a pole, the rotation of the part.
    """

    ob: bpy.types.Object
    index: int
    scene: bpy.types.Scene
    part: Part
    parent: Space
    inside: np.ndarray
    space: Track
    tracks: dict[str, Track]

    @property
    def chain(self) -> Any:
        return self.ob.ik_chains[self.index]

    def present(self) -> Samples:
        here = present(self.scene, self.ob, self.index, self.part, self.parent)
        return replace(here, other=here.other @ self.inside)

    def sample(self, frames: np.ndarray) -> Samples:
        found = sample(self.scene, self.ob, self.index, self.part, self.parent, frames.tolist())
        return replace(found, other=found.other @ self.inside)


def add_empty(
    ob: bpy.types.Object, index: int, scene: bpy.types.Scene, part: str = "TARGET"
) -> bpy.types.Object:
    """Make a target or pole an empty, in a collection of the armature object.

    Raises:
        ChainError, BakeError: before anything is changed.
    """
    work = _start(ob, index, scene, part)
    parent = space_of(work.chain, work.part)
    bone = parent.target.data.bones[parent.bone] if parent.target and parent.bone else None
    if len(work.space.frames) or (bone is not None and bone.use_relative_parent):
        parent = Space("WORLD")
    work = replace(work, parent=parent)
    _refuse_to_smooth_spaces(work)
    columns, values = _channels(work)
    empty = bpy.data.objects.new(_name(work, part), None)
    _collection(ob, scene).objects.link(empty)
    empty.empty_display_type = SHAPES[part]
    size = np.cbrt(abs(np.linalg.det(work.present().other[0, :3, :3])))
    empty.empty_display_size = EMPTY_SIZE * _limb_length(ob, work.chain, in_world=True) / size
    empty.rotation_mode = "QUATERNION"
    _hang(empty, ob, parent)
    _fill(empty, empty, "", columns, values)
    _point_to(work, empty, "")
    return empty


def add_bone(
    ob: bpy.types.Object, index: int, scene: bpy.types.Scene, part: str = "TARGET", parent_bone: str = ""
) -> str:
    """Make a target or pole a control bone of its armature; returns the bone's name.

    In the rest position of the rig it stands to the limb as it does now. It is selected.

    Args:
        parent_bone: its parent. Without one it is the bone of the rig that the target was in,
            or none.

    Raises:
        ChainError, BakeError: before anything is changed.
    """
    if not ob.data.is_editable:
        raise ChainError(
            f"'{ob.name}': bones cannot be added to the linked armature '{ob.data.name}': add an empty"
        )
    if parent_bone and parent_bone not in ob.data.bones:
        raise ChainError(f"'{ob.name}' has no bone '{parent_bone}'")
    with shown(ob):
        return _add_bone(ob, index, scene, part, parent_bone)


def _add_bone(ob: bpy.types.Object, index: int, scene: bpy.types.Scene, part: str, parent_bone: str) -> str:
    work = _start(ob, index, scene, part)
    before = space_of(work.chain, work.part)
    if not parent_bone and before.target == ob and not len(work.space.frames):
        parent_bone = before.bone
    parent = Space("CUSTOM", ob, parent_bone) if parent_bone else Space("ARMATURE")
    spaces.check_solvable(ob, index, work.part, parent)
    work = replace(work, parent=parent)
    _refuse_to_smooth_spaces(work)
    offsets.relation(work.present(), by_matrix=True)
    with edits.kept(ob):
        length = BONE_SIZE * _limb_length(ob, work.chain, in_world=False)
        name = _new_bone(ob, _name(work, part), _rest(work, part), length, parent_bone)
    rest = np.array(ob.data.bones[name].matrix_local, dtype=np.float64)
    if parent_bone:
        rest = affine_inverse(np.array(ob.data.bones[parent_bone].matrix_local, dtype=np.float64)) @ rest
    work = replace(work, inside=rest)
    columns, values = _channels(work)
    path = f'pose.bones["{bpy.utils.escape_identifier(name)}"].'
    with edits.kept(ob, {path + channel for channel in CHANNELS.values()}):
        _fill(ob, ob.pose.bones[name], path, columns, values)
    _point_to(work, ob, name)
    for bone in ob.pose.bones:
        compat.select_bone(bone, bone.name == name)
    ob.data.bones.active = ob.data.bones[name]
    return name


def _start(ob: bpy.types.Object, index: int, scene: bpy.types.Scene, part: str) -> _Making:
    """Check, and read the keys that there are; a pole becomes a point."""
    chain, names = ob.ik_chains[index], PARTS[part]
    who = f"{ob.name}: chain '{chain.name}'"
    bake_checks.refuse_locked(ob)
    text = chains.problem(ob, chain)
    if text:
        raise ChainError(text)
    wanted = (names.space, names.location, names.rotation)
    values = {name: getattr(chain, name) for name in wanted if name}
    values[names.space] = spaces.item(chain, names)
    found = {n: tracks.read(ob, setting_paths(chain, index, n), v) for n, v in values.items()}
    space = found.pop(names.space)
    if part == "POLE" and chain.pole_mode != "POINT":
        if len(offsets.key_frames(found)) or len(space.frames):
            raise ChainError(f"{who}: its pole has keys, but is no point: set its mode to Point first")
        snap.pole_to_bend(ob, index, scene, "POINT")
        found[names.location] = replace(found[names.location], values=np.array(chain.pole_location, float))
    now = space_of(chain, names)
    still = not len(offsets.key_frames(found)) and not len(space.frames)
    at_origin = not any(getattr(chain, names.location))
    if now.target is not None and still and at_origin:
        raise ChainError(f"{who}: its {names.label} is '{now.bone or now.target.name}' already")
    if part == "TARGET" and now.target is not None and smoothing.smooths_carrier(ob, chain):
        raise ChainError(
            f"{who}: Smooth Frames smooths the motion of '{now.bone or now.target.name}', which what is added"
            " would follow as it is: set it to 0 first"
        )
    return _Making(ob, index, scene, names, now, np.eye(4), space, found)


# Where it goes


def _refuse_to_smooth_spaces(work: _Making) -> None:
    """A smoothed target must not get keys that make up for the motion of what it hangs on."""
    if not work.part.rotation or not smoothing.may_smooth(work.ob, work.chain):
        return
    if not offsets.relation(_shot(work), by_matrix=True).is_still:
        raise ChainError(
            f"{work.ob.name}: chain '{work.chain.name}': what its target is in moves against what is added"
            " to, and Smooth Frames would smooth the keys that make up for it: set it to 0 first"
        )


def _shot(work: _Making) -> Samples:
    """All frames of the scene, and of keys."""
    keyed = offsets.key_frames(work.tracks)
    now = float(work.scene.frame_current_final)
    first = min([work.scene.frame_start, math.floor(now), *keyed])
    last = max([work.scene.frame_end, math.ceil(now), *keyed])
    return work.sample(np.arange(math.floor(first), math.ceil(last) + 1.0))


def _channels(work: _Making) -> tuple[Columns, dict[str, np.ndarray]]:
    """Keys and present values of location and rotation, by the settings that they come from."""
    here = work.present()
    now = float(here.frames[0])
    samples = _shot(work)
    found = offsets.relation(samples, by_matrix=True)
    if found.is_still:
        return offsets.whole_keys(work.tracks, work.sample, here, by_matrix=True)
    at_once = offsets.relation(here, by_matrix=True)
    columns, values = {}, {}
    for name, track in work.tracks.items():
        if len(track.values) == 3:
            rows, values[name] = found.locations(samples.location), at_once.locations(here.location)[0]
        else:
            rows = make_compatible(found.rotations(samples.rotation))
            values[name] = make_compatible(at_once.rotations(here.rotation), rows[_nearest(samples, now)])[0]
        columns[name] = [keys.make(samples.frames, column) for column in rows.T]
    return columns, values


def _nearest(samples: Samples, frame: float) -> int:
    return int(np.argmin(np.abs(samples.frames - frame)))


def _rest(work: _Making, part: str) -> np.ndarray:
    """Rest matrix ``(4, 4)`` of a control bone: it stands to its limb as the target does now."""
    here = work.present()
    into = affine_inverse(here.armature)[0] @ here.space[0]
    turn = rotation_part(into) @ quaternion_to_matrix(here.rotation[0])
    bones = resolve(work.ob, work.chain)
    bone = bones.end or bones.turned[-1]
    if part == "POLE":
        bone, turn = bones.turned[len(bones.turned) // 2], np.eye(3)
    pose = np.array(work.ob.pose.bones[bone].matrix, dtype=np.float64)
    rest = np.array(work.ob.data.bones[bone].matrix_local, dtype=np.float64)
    there = rest @ affine_inverse(pose) @ compose(transform_point(into, here.location[0]), turn)
    if part == "POLE":
        there[:3, :3] = turn
    return compose(there[:3, 3], rotation_part(there))


def _limb_length(ob: bpy.types.Object, chain: Any, in_world: bool) -> float:
    length = sum(ob.data.bones[name].length for name in resolve(ob, chain).turned)
    scale = np.cbrt(abs(ob.matrix_world.to_3x3().determinant())) if in_world else 1.0
    return float(length * scale)


def _name(work: _Making, part: str) -> str:
    label = part.title()
    side = _SIDE.match(work.chain.name)
    return f"{side[1]} {label}{side[2]}" if side else f"{work.chain.name} {label}"


# Making it


def _collection(ob: bpy.types.Object, scene: bpy.types.Scene) -> bpy.types.Collection:
    """The first collection of `ob` that takes objects."""
    own = [c for c in ob.users_collection if c.is_editable and c.override_library is None]
    return own[0] if own else scene.collection


def _hang(empty: bpy.types.Object, ob: bpy.types.Object, parent: Space) -> None:
    if parent.kind == "WORLD":
        return
    empty.parent = ob if parent.kind == "ARMATURE" else parent.target
    if parent.bone:
        empty.parent_type, empty.parent_bone = "BONE", parent.bone
        # The children of a bone stand at its tail.
        length = empty.parent.data.bones[parent.bone].length
        empty.matrix_parent_inverse = Matrix.Translation((0.0, -length, 0.0))


def _fill(
    ob: bpy.types.Object, owner: Any, path: str, columns: Columns, values: dict[str, np.ndarray]
) -> None:
    """Give an empty or a pose bone its channels and their keys."""
    for name, value in values.items():
        channel = CHANNELS[len(value)]
        setattr(owner, channel, value)
        if name in columns:
            tracks.write(ob, (path + channel,), columns[name], owner.name if path else "")


def _point_to(work: _Making, target: bpy.types.Object, bone: str) -> None:
    """The chain follows the new thing, without an offset."""
    chain, part = work.chain, work.part
    found = (work.space, *work.tracks.values())
    with STATE.at_work(), edits.kept(work.ob, {path for track in found for path in track.paths}):
        for track in found:
            tracks.remove(work.ob, track.paths)
        setattr(chain, part.object, target)
        setattr(chain, part.bone, bone)
        setattr(chain, part.space, "CUSTOM")
        setattr(chain, part.location, (0.0, 0.0, 0.0))
        if part.rotation:
            setattr(chain, part.rotation, (1.0, 0.0, 0.0, 0.0))
    STATE.forget_plans()
    work.ob.update_tag()


def _new_bone(ob: bpy.types.Object, name: str, rest: np.ndarray, length: float, parent: str) -> str:
    with STATE.at_work(), _edit_mode(ob) as bones:
        bone = bones.new(name)
        bone.tail = (0.0, length, 0.0)
        bone.matrix = Matrix(rest)
        bone.parent = bones.get(parent)
        bone.use_deform = False
        return str(bone.name)


@contextmanager
def _edit_mode(ob: bpy.types.Object) -> Iterator[Any]:
    """Edit Mode of an armature object; afterwards all is active and in the mode that it was in."""
    layer = bpy.context.view_layer
    active, mode = layer.objects.active, ob.mode
    other_mode = active.mode if active is not None and active != ob else "OBJECT"
    try:
        if other_mode != "OBJECT":
            bpy.ops.object.mode_set(mode="OBJECT")
        layer.objects.active = ob
        bpy.ops.object.mode_set(mode="EDIT")
        yield ob.data.edit_bones
    finally:
        bpy.ops.object.mode_set(mode=mode)
        layer.objects.active = active
        if other_mode != "OBJECT":
            bpy.ops.object.mode_set(mode=other_mode)
