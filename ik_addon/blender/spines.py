# SPDX-License-Identifier: GPL-3.0-or-later
"""The spine of a character: which bones it is, and how its chain is set up.

FABRIK from the first bone of the spine to the base of the neck, with `use_lean`: a head that drifts
sideways pulls the spine after it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import bpy

from ..core.bone_names import is_control, is_helper, joint, side, words
from . import chains
from .chain_bones import ChainError

# Words in names of bones, which may have digits, prefixes and separators around them.
TRUNK = ("spine", "abdomen", "torso", "chest", "waist", "belly", "stomach", "thorax", "ribs", "back")


@dataclass(frozen=True)
class Spine:
    """The bones of a spine by name.

    Attributes:
        root: its first bone; end: its last, or with `use_tail` off the one whose head is its tip.
        head: a head that does not hang on the spine and so may lead it, or an empty string.
        carried_head: a head that hangs on the spine, or an empty string.
    """

    root: str
    end: str
    use_tail: bool
    head: str = ""
    carried_head: str = ""


def add_spine(
    ob: bpy.types.Object,
    spine: Spine,
    *,
    name: str = "",
    target: bpy.types.Object | None = None,
    subtarget: str = "",
    **settings: Any,
) -> bpy.types.PropertyGroup:
    """Add a chain that leans after a target; nothing moves.

    Args:
        target, subtarget: what leads the spine. None: its head, if that does not hang on the spine;
            else a place beside the bone that carries the spine, so that it goes where the hips go.
        settings: other settings of the chain, which come before those of the preset.

    Raises:
        ChainError: before anything is changed.
    """
    wanted = spine_settings(ob, spine, target=target, subtarget=subtarget, **settings)
    return chains.add(ob, spine.root, spine.end, **{**wanted, "name": name or "Spine"})


def spine_settings(
    ob: bpy.types.Object,
    spine: Spine,
    *,
    target: bpy.types.Object | None = None,
    subtarget: str = "",
    **settings: Any,
) -> dict[str, Any]:
    """The settings of the chain that `add_spine` adds; it raises the same."""
    root = ob.data.bones.get(spine.root)
    if target is None and "target_space" not in settings:
        carrier = root.parent.name if root is not None and root.parent else ""
        subtarget = spine.head or carrier
        target = ob if subtarget else None
    led_by = ob.data.bones.get(subtarget) if target == ob else None
    if root is not None and led_by is not None and (led_by == root or root in led_by.parent_recursive):
        raise ChainError(
            f"{ob.name}: target bone '{subtarget}' hangs on '{spine.root}', which the spine turns:"
            " choose a control that does not, or no target"
        )
    space = "CUSTOM" if target is not None else "ARMATURE"
    wanted = {"solver": "FABRIK", "use_lean": True, "use_tail": spine.use_tail, "target_space": space}
    return {**wanted, "target": target, "subtarget": subtarget, **settings}


def find_spine(ob: bpy.types.Object, hips: Collection[str] = ()) -> Spine:
    """The spine of a character, by the names of its bones.

    Args:
        hips: bones that are known to be below the spine, where it does not begin if it can help it.

    Raises:
        ChainError: when no bone is named as one of a spine, or these are no spine.
    """
    trunk = (bone for bone in ob.data.bones if _is_trunk(bone) and not is_control(bone.name))
    places = _places(ob)
    named = sorted(trunk, key=lambda bone: places[bone.name])
    if not named:
        raise ChainError(f"'{ob.name}' has no bone whose name tells of a spine")
    why: ChainError | None = None
    found: list[Spine] = []
    lines: dict[str, _Line] = {}
    tried: set[tuple[str, bool]] = set()
    leads = _leads_to_head(ob)
    for bone in named:
        if bone.name not in lines:
            line = _line_of(bone, leads)
            lines = {**{other.name: line for other in line.bones}, **lines}
        line = lines[bone.name]
        # All bones of a line, above the legs or below them, tell of one spine.
        kind = (line.bones[-1].name, line.is_above_legs(places[bone.name]))
        if kind in tried:
            continue
        tried.add(kind)
        try:
            found.append(_spine_on(ob, line, places[bone.name]))
        except ChainError as error:
            why = why or error
    best = next((spine for spine in found if spine.root not in hips), found[0] if found else None)
    if best is None:
        assert why is not None
        raise why
    return best


def spine_at(ob: bpy.types.Object, name: str) -> Spine:
    """The spine that a bone is one of.

    It begins behind the hips, which carry the legs, and ends where the neck begins. Neck and head are
    told by their names, or the neck by the shoulders that branch off before it.

    Raises:
        ChainError: when the bone does not exist, or neither names nor branches tell of a spine.
    """
    if name not in ob.data.bones:
        raise ChainError(f"'{ob.name}' has no bone '{name}'")
    if _is_sided(ob.data.bones[name]):
        raise ChainError(f"'{ob.name}': bone '{name}' is on one side of the body: select one of the spine")
    bone = ob.data.bones[name]
    return _spine_on(ob, _line_of(bone, _leads_to_head(ob)), _places(ob)[name])


def _places(ob: bpy.types.Object) -> dict[str, int]:
    """The place of each bone on its line: how many are above it."""
    places: dict[str, int] = {}
    for bone in ob.data.bones:  # parents first
        places[bone.name] = places[bone.parent.name] + 1 if bone.parent else 0
    return places


def _spine_on(ob: bpy.types.Object, on: _Line, here: int) -> Spine:
    line, name = on.bones, on.bones[here].name
    first = _first_of_trunk(on, here)
    last = _neck_base(line, first, on.branches)
    if last is None:
        raise ChainError(
            f"'{ob.name}': where the spine of bone '{name}' ends is not told by a neck, a head or shoulders:"
            " select its first and its last bone, or name them"
        )
    if last <= first:
        raise ChainError(
            f"'{ob.name}': bone '{name}' is above the spine: select a bone of it, or name its ends"
        )
    use_tail = last == len(line)
    end = line[last - 1] if use_tail else line[last]
    head, carried = _heads(ob, line[first])
    return Spine(line[first].name, end.name, use_tail, head, carried)


def between(ob: bpy.types.Object, root: str, end: str) -> Spine:
    """The spine from one bone to another.

    Its tip is where the neck begins, for tails of imported bones may be anywhere, or else the end's tail.

    Raises:
        ChainError: when a bone does not exist.
    """
    for name in (root, end):
        if name not in ob.data.bones:
            raise ChainError(f"'{ob.name}' has no bone '{name}'")
    head, carried = _heads(ob, ob.data.bones[root])
    with suppress(ChainError):
        found = spine_at(ob, root)
        neck = ob.data.bones[found.end]
        if not found.use_tail and end in (found.end, neck.parent.name if neck.parent else ""):
            return Spine(root, found.end, False, head, carried)
    return Spine(root, end, not _is_head_or_neck(ob.data.bones[end]), head, carried)


@dataclass(frozen=True)
class _Line:
    """The bones in the middle of the body, root first, and the places of those that carry limbs."""

    bones: list[bpy.types.Bone]
    branches: list[int]

    def is_above_legs(self, place: int) -> bool:
        """Whether a bone is where legs branch off, or further up: the first of several branches are legs."""
        return len(self.branches) > 1 and self.branches[0] <= place


def _line_of(bone: bpy.types.Bone, leads: Collection[str]) -> _Line:
    """The line that a bone is on, from the uppermost parent on, as far as it does not branch.

    Args:
        leads: as from `_leads_to_head`: where bones branch, the line goes on there.
    """
    line = [*reversed(bone.parent_recursive), bone]
    while True:
        middle = [child for child in line[-1].children if not _is_sided(child)]
        if len(middle) > 1:
            middle = [child for child in middle if child.name in leads]
        if len(middle) != 1:
            break
        line.append(middle[0])
    return _Line(line, [place for place, bone in enumerate(line) if _carries_limbs(bone)])


def _leads_to_head(ob: bpy.types.Object) -> set[str]:
    """Names of the heads and necks, and of all bones that carry one."""
    found: set[str] = set()
    for bone in filter(_is_head_or_neck, ob.data.bones):
        above: bpy.types.Bone | None = bone
        while above is not None and above.name not in found:
            found.add(above.name)
            above = above.parent
    return found


def _first_of_trunk(on: _Line, here: int) -> int:
    """Where a spine begins on its line: behind the legs, at the first name that tells of a trunk."""
    after = on.branches[0] + 1 if on.is_above_legs(here) else 0
    named = (place for place in range(after, len(on.bones)) if _is_trunk(on.bones[place]))
    return next(named, max(after, here))


def _neck_base(line: Sequence[bpy.types.Bone], first: int, branches: Sequence[int]) -> int | None:
    """The place behind the last bone of a spine; None where nothing tells."""
    for place in range(first, len(line)):
        if _is_head_or_neck(line[place]):
            return place
    shoulders = next((place for place in branches if place >= first), None)
    return None if shoulders is None else shoulders + 1


def _heads(ob: bpy.types.Object, root: bpy.types.Bone) -> tuple[str, str]:
    """A head that may lead a spine, and one that the spine carries."""
    heads = [bone for bone in ob.data.bones if "head" in words(bone.name) and not _is_sided(bone)]
    held = [bone.name for bone in heads if root in bone.parent_recursive]
    free = [bone.name for bone in heads if bone != root and bone.name not in held]
    return free[0] if free else "", held[0] if held else ""


def _carries_limbs(bone: bpy.types.Bone) -> bool:
    return len([child for child in bone.children if _is_sided(child)]) > 1


def _is_trunk(bone: bpy.types.Bone) -> bool:
    if _is_sided(bone) or joint(bone.name) is not None or is_helper(bone.name):
        return False
    return any(word.endswith(part) for word in words(bone.name) for part in TRUNK)


def _is_head_or_neck(bone: bpy.types.Bone) -> bool:
    return not {"neck", "head"}.isdisjoint(words(bone.name))


def _is_sided(bone: bpy.types.Bone) -> bool:
    return bool(side(bone.name))
