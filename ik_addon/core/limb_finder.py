# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the limbs of a character by the names of its bones, checked by how they hang together."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count

import numpy as np

from . import bone_names
from .body import ARMS, LEGS, TAILS, Found, LeftOut, Limb, RestBone
from .limb_lines import Line, lines

# A foot whose bone goes on in the direction of the leg is a hock, and its toes bear the leg. Least share of
# the line from hip to toe, and least cosine to it. Human feet have up to 0.12 and 0.75 and those of toys
# 0.28 and 0.84; hocks of animals have from 0.19 and 0.92 on. So an animal on four feet gets the benefit.
HOCK_SHARE, HOCK_COSINE, HOCK_COSINE_OF_BIPEDS = 0.15, 0.7, 0.9
# An arm that reaches so far down, as a share of the way from hip to foot, stands on the ground.
GROUND = 0.7
OTHER_SIDE = {"L": "R", "R": "L"}

Bones = Mapping[str, RestBone]


def find_limbs(skeleton: Iterable[RestBone]) -> Found:
    """The arms, legs and tails of a body.

    Arms and legs are two bones, or three for the leg of an animal that stands on its toes; their tip is
    the head of the hand or foot. A tail is all of its bones, its tip the tail of the last one where that
    is connected to its parent, else the head of the last one.

    Args:
        skeleton: all bones, parents and children in any order.

    Returns:
        limbs that share no bones, and those that were left out: with bones in between that are none of a
        limb, with bones that no chain may turn, or without one that tells where they end.

    Raises:
        ValueError: for a parent that is none of the bones.
    """
    bones = {bone.name: bone for bone in skeleton}
    unknown = sorted({bone.parent for bone in bones.values() if bone.parent} - bones.keys())
    if unknown:
        raise ValueError(f"parents are not among the bones: {', '.join(unknown)}")
    known = _one_of_each_layer(bones, _best_ends(bones, lines(bones)))
    stands = _standing(bones, known)
    on_four = any(_in_front(line) for line, up in zip(known, stands, strict=True) if up)
    limbs = _named(bones, _with_hocks(bones, known, stands, on_four), on_four)
    return _sorted_out(bones, [*limbs, *_tails(bones)], on_four)


def _best_ends(bones: Bones, found: Iterable[Line]) -> list[Line]:
    """Of lines that differ below the tip alone, the one that counts."""
    groups: dict[tuple[str, ...], list[Line]] = {}
    for line in found:
        groups.setdefault(line.turned, []).append(line)
    return [min(group, key=lambda line: _off_tail(bones, line)) for group in groups.values()]


def _off_tail(bones: Bones, line: Line) -> tuple[bool, float, str, str]:
    """How far an end is off the tail that leads to it: of several palms the middle one counts."""
    gap = np.subtract(bones[line.end].head, bones[line.turned[-1]].tail) if line.end else np.zeros(3)
    return bool(line.reason), float(np.linalg.norm(gap)), line.end, line.toe


def _one_of_each_layer(bones: Bones, found: Iterable[Line]) -> list[Line]:
    """One line for each root, also where a rig has bones to deform, bones to steer and so on of a limb."""
    groups: dict[tuple[str, ...], list[Line]] = {}
    for line in found:
        groups.setdefault(bone_names.without_layer(line.turned[0]), []).append(line)

    def order(line: Line) -> tuple[bool, bool, bool]:
        return bool(line.reason), bool(_blocked(bones, line.turned)), not _deforms(bones, line)

    return [min(group, key=order) for group in groups.values()]


def _blocked(bones: Bones, names: Iterable[str]) -> str:
    return next((bones[name].blocked for name in names if bones[name].blocked), "")


def _deforms(bones: Bones, line: Line) -> bool:
    return any(bones[name].deforms for name in line.turned)


def _with_hocks(
    bones: Bones, found: Sequence[Line], stands: Sequence[bool], on_four: bool
) -> list[tuple[Line, bool]]:
    """Each line, and whether it stands; the foot of an animal that stands on its toes turns, too."""
    least = HOCK_COSINE if on_four else HOCK_COSINE_OF_BIPEDS
    hocks = [
        up and not line.reason and _is_hock(bones, line, least)
        for line, up in zip(found, stands, strict=True)
    ]
    pairs = [_own(line) for line in found]
    # A limb is not read in one way on the left and in another on the right.
    torn = {pair for pair, hock in zip(pairs, hocks, strict=True) if not hock}
    return [
        (_on_toes(line) if hock and pair not in torn else line, up)
        for line, up, hock, pair in zip(found, stands, hocks, pairs, strict=True)
    ]


def _in_front(line: Line) -> bool:
    """Whether a limb that stands is a foreleg."""
    return line.is_arm or bone_names.is_in_front(line.turned[0])


def _own(line: Line) -> tuple[str, ...]:
    return bone_names.own_words(line.turned[0])


def _on_toes(line: Line) -> Line:
    return replace(line, turned=(*line.turned, line.end), end=line.toe, toe="", solver="THREE_BONE")


def _is_hock(bones: Bones, line: Line, least: float) -> bool:
    if not line.toe or line.solver != "TWO_BONE":
        return False
    hip, foot, toe = (np.array(bones[name].head) for name in (line.turned[0], line.end, line.toe))
    leg, hock = toe - hip, toe - foot
    along, size = hock @ leg, np.linalg.norm(leg)
    return bool(along >= HOCK_SHARE * size**2 and along >= least * size * np.linalg.norm(hock) > 0.0)


def _standing(bones: Bones, found: Sequence[Line]) -> list[bool]:
    """Which limbs stand on the ground: legs, and arms that end at a foot or are as low as the legs."""

    def tip(line: Line) -> np.ndarray:
        return np.array(bones[line.end].head if line.end else bones[line.turned[-1]].tail)

    legs = [line for line in found if not line.is_arm and not line.reason]
    hip, foot = np.zeros(3), np.zeros(3)
    if legs:
        hip = np.mean([bones[line.turned[0]].head for line in legs], axis=0)
        foot = np.mean([tip(line) for line in legs], axis=0)
    down = foot - hip
    level = GROUND * (down @ down)
    return [
        not line.is_arm
        or line.on_foot
        or bool(legs and not line.reason and (tip(line) - hip) @ down >= level > 0.0)
        for line in found
    ]


def _named(bones: Bones, found: Sequence[tuple[Line, bool]], on_four: bool) -> list[tuple[Limb, str]]:
    """The limbs with names, and why they are none."""

    def usual(line: Line, stands: bool) -> str:
        if not stands:
            return "Arm"
        if _in_front(line):
            return "Foreleg"
        return "Hindleg" if on_four or bone_names.is_behind(line.turned[0]) else "Leg"

    names = _distinct(bones, found, usual)
    limbs = []
    for (line, stands), name in zip(found, names, strict=True):
        in_front = stands and _in_front(line)
        # The hind leg of an animal folds as a whole; the cannon bone of a foreleg swings by itself.
        mode = ("HOCK_RATIO" if in_front else "HOCK_PARALLEL") if line.solver == "THREE_BONE" else ""
        carrier = bones[line.turned[0]].parent
        part = LEGS if stands else ARMS
        limbs.append(
            (Limb(part, name, line.turned, line.end, line.solver, mode, carrier, in_front), line.reason)
        )
    return limbs


def _distinct(
    bones: Bones, found: Sequence[tuple[Line, bool]], usual: Callable[[Line, bool], str]
) -> list[str]:
    """Names with sides: the usual ones, or after the root bones where a body has more limbs of a kind.

    Limbs that are left out do not change the names of the others.
    """
    sides = [bone_names.side(line.turned[0]) for line, _ in found]
    short = [usual(line, stands) for line, stands in found]
    full = [_title(line.turned[0]) for line, _ in found]
    good = [not line.reason and not _blocked(bones, line.turned) for line, _ in found]
    known = list(zip(short, sides, strict=True))
    counts = Counter(known)
    usable = Counter(key for key, ok in zip(known, good, strict=True) if ok)
    crowded = {kind for (kind, _), limbs in usable.items() if limbs > 1}
    names = [
        full[i] if key[0] in crowded or (counts[key] > 1 and not good[i]) else short[i]
        for i, key in enumerate(known)
    ]
    return [f"{name}.{side}" if side else name for name, side in zip(names, sides, strict=True)]


def _title(bone: str) -> str:
    """The words of a bone as a name, with its numbers."""
    return "".join([word.title() for word in bone_names.own_words(bone)] + re.findall(r"\d+", bone))


def _tails(bones: Bones) -> list[tuple[Limb, str]]:
    """The tails of animals: lines of bones that are named so, as far as they do not branch."""
    named = {name for name in bones if bone_names.is_tail(name)}
    below: dict[str, list[str]] = {}
    for name in named:
        below.setdefault(bones[name].parent, []).append(name)
    groups: dict[tuple[str, ...], list[tuple[Limb, str]]] = {}
    for root in (name for name in bones if name in named and bones[name].parent not in named):
        line = [root]
        while len(below.get(line[-1], ())) == 1:
            line += below[line[-1]]
        groups.setdefault(bone_names.without_layer(root), []).append(_tail(bones, line))

    def order(item: tuple[Limb, str]) -> tuple[bool, bool]:
        return bool(item[1]), bool(_blocked(bones, item[0].turned))

    return [min(group, key=order) for group in groups.values()]


def _tail(bones: Bones, line: Sequence[str]) -> tuple[Limb, str]:
    end = "" if bones[line[-1]].connected else line[-1]
    turned = tuple(line[:-1] if end else line)
    reason = ""
    if len(turned) < 2:
        reason = f"a tail of {len(line)} bone{'s'[: len(line) > 1]} leaves fewer than two to bend"
    side = bone_names.side(line[0])
    name = f"Tail.{side}" if side else "Tail"
    return Limb(TAILS, name, turned or tuple(line), end, "FABRIK", "", bones[line[0]].parent), reason


def _sorted_out(bones: Bones, found: Sequence[tuple[Limb, str]], on_four: bool) -> Found:
    """Limbs in a fixed order, and those that are none, with the reason."""
    order = {part: place for place, part in enumerate((ARMS, LEGS, TAILS))}
    limbs: list[Limb] = []
    left_out: list[LeftOut] = []
    taken: set[str] = set()
    for limb, reason in sorted(found, key=lambda item: (order[item[0].part], item[0].name)):
        limb = replace(limb, name=_free(limb.name, taken))
        taken.add(limb.name)
        why = reason or _blocked(bones, limb.turned) or _overlap(limb, limbs)
        if why:
            left_out.append(LeftOut(limb.part, limb.name, why))
        else:
            limbs.append(limb)
    left_out += _without_twin(limbs, {item.name for item in left_out})
    return Found(tuple(limbs), tuple(left_out), on_four)


def _free(name: str, taken: set[str]) -> str:
    """A name that no other limb has, numbered as Blender does."""
    names = (f"{name}.{number:03}" for number in count(1))
    return name if name not in taken else next(other for other in names if other not in taken)


def _overlap(limb: Limb, limbs: Iterable[Limb]) -> str:
    for other in limbs:
        shared = [name for name in limb.turned if name in other.turned]
        if shared:
            return f"'{other.name}' turns bone '{shared[0]}' already"
    return ""


def _without_twin(limbs: Sequence[Limb], known: set[str]) -> Iterator[LeftOut]:
    """The other sides of limbs that are found on one side alone."""
    names = known | {limb.name for limb in limbs}
    for limb in limbs:
        stem, _, side = limb.name.rpartition(".")
        twin = f"{stem}.{OTHER_SIDE[side]}" if stem and side in OTHER_SIDE else ""
        if twin and twin not in names:
            yield LeftOut(limb.part, twin, f"no bones are named as those of '{limb.name}' on the other side")
