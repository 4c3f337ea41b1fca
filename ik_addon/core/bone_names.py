# SPDX-License-Identifier: GPL-3.0-or-later
"""What the name of a bone tells: its words, the side of the body, and its place in a limb.

Riggers and exporters name bones in many ways: `upper_arm.L`, `DEF-forearm.R.001`,
`mixamorig:LeftUpLeg`, `calf_l`, `J_Bip_L_Hand`, `Bip01 R Thigh`, `lShldrBend`. All of them are words
with a side, prefixes and digits around them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from functools import cache

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_SIDES = {"l": "L", "r": "R", "left": "L", "right": "R"}


class Place(Enum):
    """Where in a limb a bone is, from the body outward."""

    SHOULDER = "shoulder"
    UPPER = "upper"
    LOWER = "lower"
    # An "arm" or a "leg" may be the whole limb, its upper or its lower bone: its neighbours decide.
    SOME = "some"
    HOCK = "hock"
    END = "end"
    TOE = "toe"


@dataclass(frozen=True)
class Joint:
    """A bone of a limb by its name.

    Attributes:
        place: where in the limb.
        is_arm: its word is one of arms; no: one of legs.
    """

    place: Place
    is_arm: bool


_ARM_WORDS: dict[str, Place] = {
    **dict.fromkeys(("shoulder", "clavicle", "collar", "collarbone", "scapula", "shldr"), Place.SHOULDER),
    **dict.fromkeys(("humerus", "bicep", "biceps"), Place.UPPER),
    **dict.fromkeys(("elbow", "radius", "ulna"), Place.LOWER),
    **dict.fromkeys(("hand", "wrist", "palm"), Place.END),
}
_LEG_WORDS: dict[str, Place] = {
    **dict.fromkeys(("hip", "pelvis"), Place.SHOULDER),
    **dict.fromkeys(("thigh", "femur"), Place.UPPER),
    **dict.fromkeys(("shin", "calf", "knee", "tibia"), Place.LOWER),
    **dict.fromkeys(("hock", "cannon", "metatarsus", "metacarpus"), Place.HOCK),
    **dict.fromkeys(("foot", "ankle", "paw"), Place.END),
    **dict.fromkeys(("toe", "toes", "ball", "hoof"), Place.TOE),
}
# Of several words in one name the one furthest out counts: "LeftLegFoot", "FootToe".
_OUTWARD = (Place.TOE, Place.END, Place.HOCK, Place.LOWER, Place.UPPER, Place.SHOULDER)
_LIMB_WORDS = {*_ARM_WORDS, *_LEG_WORDS, "arm", "leg"}
_UPPER, _LOWER = {"upper", "up"}, {"lower", "low", "lo"}
# What may stand before a word of a limb without a separator: "forearm", "upleg", "lhand".
_PREFIXES = (
    "upper", "lower", "left", "right", "front", "hind", "back", "rear", "fore", "mid", "up", "low", "l", "r"
)  # fmt: skip

# Bones that steer others, and bones that hang beside the joints of a limb.
_CONTROLS = {
    "ik", "fk", "mch", "vis", "wgt", "ctrl", "ctl", "cnt", "con", "control", "controller", "pole", "target",
    "tgt", "tweak", "orient", "parent", "widget", "master", "spin",
}  # fmt: skip
_HELPERS = {
    "twist", "roll", "part", "segment", "seg", "share", "helper", "corrective",
    "volume", "muscle", "socket", "slot", "weapon", "attach", "prop",
    "grip", "pad", "guard", "armor", "cuff", "sleeve", "tops", "sec", "skirt", "coat", "cloth", "hair",
    "jiggle", "end", "nub", "tip", "dummy",
}  # fmt: skip
# The hock of 3ds Max.
_HORSE_LINK = {"horse", "link"}
_FINGERS = {"thumb", "index", "middle", "ring", "pinky", "little", "finger", "fingers"}
_NO_TAILS = {"hair", "pony", "pig", "twin", "braid", "coat", "feather", "fin", "shirt", "skirt"}
# Prefixes of one limb that a rig has several times, to deform and to be steered.
_LAYERS = {"def", "org", "mch"}


@cache
def words(name: str) -> tuple[str, ...]:
    """The words of a name in lower case, without digits; "LForearm" is l, fore, arm."""
    found: list[str] = []
    for word in _WORD.findall(name):
        found += _split(word.lower())
    return tuple(found)


def _split(word: str) -> list[str]:
    """A word and the prefixes that stand before it without a separator."""
    if word in _LIMB_WORDS:
        return [word]
    for prefix in _PREFIXES:
        rest = _split(word[len(prefix) :]) if word.startswith(prefix) else []
        if rest and rest[-1] in _LIMB_WORDS:
            return [prefix, *rest]
    return [word]


def side(name: str) -> str:
    """L, R, or an empty string: in the middle, or not told.

    A whole word comes before a letter, and a letter at the end before others: the r of "r_toe.L" is none.
    """
    found = [word for word in words(name) if word in _SIDES]
    whole = [word for word in found if len(word) > 1]
    if not found:
        return ""
    named = words(name)
    letter = found[-1] if named[-1] in _SIDES else found[0]
    return _SIDES[whole[0] if whole else letter]


def is_control(name: str) -> bool:
    """Whether a bone steers others: it is no part of a body."""
    return not _CONTROLS.isdisjoint(words(name))


def is_helper(name: str) -> bool:
    """Whether a bone hangs beside a body: a muscle, a piece of clothing, hair."""
    return not _HELPERS.isdisjoint(words(name))


@cache
def joint(name: str) -> Joint | None:
    """The joint of a limb that a name tells of; None for all other bones, also those beside a limb."""
    named = set(words(name))
    if not named.isdisjoint(_CONTROLS | _HELPERS):
        return None
    places = {(place, True) for word, place in _ARM_WORDS.items() if word in named}
    places |= {(place, False) for word, place in _LEG_WORDS.items() if word in named}
    for word, is_arm in (("arm", True), ("leg", False)):
        if word in named:
            places.add((_level(named, is_arm), is_arm))
    if named >= _HORSE_LINK:
        places.add((Place.HOCK, False))
    if not places:
        return None
    place, is_arm = min(places, key=lambda found: (_rank(found[0]), found[1]))
    if place in (Place.END, Place.TOE) and not named.isdisjoint(_FINGERS):
        return None
    return Joint(place, is_arm)


def _rank(place: Place) -> int:
    return _OUTWARD.index(place) if place in _OUTWARD else len(_OUTWARD)


def _level(named: set[str], is_arm: bool) -> Place:
    """The place of an "arm" or a "leg". A forearm is a lower arm; a foreleg is a leg in front."""
    if not named.isdisjoint(_LOWER) or (is_arm and "fore" in named):
        return Place.LOWER
    return Place.UPPER if not named.isdisjoint(_UPPER) else Place.SOME


def is_in_front(name: str) -> bool:
    """Whether a leg is called one of the front."""
    return not {"front", "fore"}.isdisjoint(words(name))


def is_behind(name: str) -> bool:
    """Whether a leg is called one of the back."""
    return not {"back", "hind", "rear"}.isdisjoint(words(name))


def is_tail(name: str) -> bool:
    """Whether a name tells of a tail of an animal."""
    named = set(words(name))
    return "tail" in named and named.isdisjoint(_NO_TAILS | _CONTROLS | _HELPERS)


def is_layer(name: str) -> bool:
    """Whether a name has the prefix of a bone that follows the controls of a generated rig."""
    first, *_ = (*words(name), "")
    return first in _LAYERS


def own_words(name: str) -> tuple[str, ...]:
    """The words of a name without its side and without prefixes as DEF."""
    return tuple(word for word in words(name) if word not in _SIDES and word not in _LAYERS)


def without_layer(name: str) -> tuple[str, ...]:
    """Equal for the bones that a rig has of one joint: `thigh.L`, `DEF-thigh.L`, `ORG-thigh.L`."""
    return (*own_words(name), side(name), *re.findall(r"\d+", name))
