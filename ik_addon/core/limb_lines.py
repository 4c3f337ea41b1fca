# SPDX-License-Identifier: GPL-3.0-or-later
"""Read lines of bones as limbs: which of them turn, and what the tip is.

A line goes from the outermost bone that is named as one of a limb up to the body. The bones between
those that are named count: a solver turns all bones from root to tip, so a twist bone in between
makes another limb of it than its names tell.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from .body import RestBone
from .bone_names import Joint, Place, joint, side


@dataclass(frozen=True)
class Line:
    """A line of bones that is read as a limb.

    Attributes:
        turned: the bones from root to tip, root first.
        end: the bone whose head is the tip, or an empty string: the tail of the last one is.
        is_arm: the root is named as one of an arm.
        on_foot: the end is named as one of a leg.
        toe: where the end is a foot, the bone of the limb that follows, else an empty string.
        solver: for what is turned.
        reason: why it is no limb, or an empty string.
    """

    turned: tuple[str, ...]
    end: str
    is_arm: bool
    on_foot: bool = False
    toe: str = ""
    solver: str = ""
    reason: str = ""


_LETTERS = {
    Place.SHOULDER: "H", Place.UPPER: "U", Place.LOWER: "L", Place.SOME: "S", Place.HOCK: "K",
    Place.END: "E", Place.TOE: "T",
}  # fmt: skip
# What turns, and who solves it. Three bones that are called alike are segments, as of a spider's leg.
_SHAPES = ((r"[US][LS]|HL", "TWO_BONE"), (r"[US][LS]K|HLK", "THREE_BONE"), (r"S{3,}", "FABRIK"))


def lines(bones: Mapping[str, RestBone]) -> Iterator[Line]:
    """All lines of a body that are limbs, or would be but for a reason."""
    named = {name: found for name in bones if (found := joint(name)) is not None}
    inner = {above for name in named for above in _above(bones, name) if side(above) == side(name)}
    for name in named:
        if name not in inner:
            line = _read(_path(bones, named, name), named)
            if line is not None:
                yield line


def _above(bones: Mapping[str, RestBone], name: str) -> Iterator[str]:
    """The ancestors of a bone, nearest first."""
    while name := bones[name].parent:
        yield name


def _path(bones: Mapping[str, RestBone], named: Mapping[str, Joint], last: str) -> list[RestBone]:
    """The bones from the uppermost one of the limb to the last, with all in between."""
    path = [last, *_above(bones, last)]
    own = [i for i, name in enumerate(path) if name in named and side(name) == side(last)]
    return [bones[name] for name in reversed(path[: own[-1] + 1])]


def _read(path: Sequence[RestBone], named: Mapping[str, Joint]) -> Line | None:
    here = side(path[-1].name)
    letters = "".join(
        _LETTERS[named[bone.name].place] if bone.name in named and side(bone.name) == here else "."
        for bone in path
    )
    tip = next((letters.index(letter) for letter in "ET" if letter in letters), None)
    body = letters if tip is None else letters[:tip]
    root = _root(body)
    if root is None:
        return None
    turned, end = [bone.name for bone in path[root:tip]], "" if tip is None else path[tip].name
    shape = body[root:]
    if len(shape) == 1 and (tip is None or shape == "H"):
        return None
    if tip is None and not path[-1].connected and shape.endswith("K"):
        # A hock without a foot below: its head is a place that is known, its tail may be none.
        end, turned, shape = turned[-1], turned[:-1], shape[:-1]
    is_arm = named[turned[0]].is_arm
    solver = next((name for pattern, name in _SHAPES if re.fullmatch(pattern, shape)), "")
    reason = ""
    if not solver:
        reason = _wrong_count(turned, end, shape)
    elif not end and not path[-1].connected:
        reason = (
            f"no bone at the end is named as a {'hand' if is_arm else 'foot'}, and the tail of a bone that is"
            " not connected to its parent may be anywhere"
        )
    on_foot = bool(end) and end in named and not named[end].is_arm
    follows = tip is not None and on_foot and re.match(r"E[ET]", letters[tip:])
    toe = path[tip + 1].name if follows and tip is not None else ""
    return Line(tuple(turned), end, is_arm, on_foot, toe, solver, reason)


def _root(body: str) -> int | None:
    """The place of the root: the first upper bone, else the first arm or leg, else a shoulder or hip."""
    for letter in "US":
        if letter in body:
            return body.index(letter)
    # "LeftShoulder" above "LeftElbow" is an upper arm.
    last = body.rfind("H", 0, max(body.find("L"), 0))
    return last if last >= 0 else None


def _wrong_count(turned: Sequence[str], end: str, shape: str) -> str:
    to = f"the head of '{end}'" if end else f"the tail of '{turned[-1]}'"
    if len(turned) == 1:
        return f"'{turned[0]}' alone leads to {to}, and a limb has two bones"
    between = ", ".join(f"'{name}'" for name in turned[1:])
    return (
        f"{len(turned)} bones turn from '{turned[0]}' to {to} ({between} below the first):"
        f" twist or helper bones within a limb would bend with it"
    )
