# SPDX-License-Identifier: GPL-3.0-or-later
import pytest
from bodies import HUMAN, STYLES, names_of

from ik_addon.core import bone_names
from ik_addon.core.bone_names import Place, joint, side, words


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mixamorig:LeftForeArm", ("mixamorig", "left", "fore", "arm")),
        ("DEF-upper_arm.L.001", ("def", "upper", "arm", "l")),
        ("lForearmBend", ("l", "fore", "arm", "bend")),
        ("LHipJoint", ("l", "hip", "joint")),
        ("IKFrontRight", ("ik", "front", "right")),
        ("leftupleg", ("left", "up", "leg")),
        ("rhand", ("r", "hand")),
        ("RIGHT_UPPERARM", ("right", "upper", "arm")),
        ("lowerback", ("lowerback",)),
        ("", ()),
        ("左腕", ()),
    ],
)
def test_words(name, expected):
    assert words(name) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("hand.L", "L"), ("hand.l.001", "L"), ("Left Hand", "L"), ("RightHand", "R"), ("Bip01 R Thigh", "R"),
        ("r_toe.L", "L"), ("r-forearm", "R"), ("J_Bip_L_Foot", "L"), ("lhand", "L"), ("R_Left_arm", "L"),
        ("spine", ""), ("Tail1", ""), ("pelvis", ""), ("Roll", ""), ("leg", ""), ("lower_lip", ""),
    ],
)  # fmt: skip
def test_side(name, expected):
    assert side(name) == expected


PLACES = {
    "clavicle": {Place.SHOULDER},
    "upper_arm": {Place.UPPER, Place.SOME, Place.SHOULDER},
    "forearm": {Place.LOWER},
    "hand": {Place.END},
    "thigh": {Place.UPPER, Place.SHOULDER},
    "shin": {Place.LOWER, Place.SOME},
    "foot": {Place.END},
    "toe": {Place.TOE},
}


@pytest.mark.parametrize("style", STYLES)
def test_joints_of_all_styles(style):
    for number in (0, 1):
        for part, name in names_of(style, number).items():
            found = joint(name)
            if part in PLACES:
                assert found.place in PLACES[part], name
                assert found.is_arm == (HUMAN.index(part) < HUMAN.index("thigh")), name
                assert side(name) == "LR"[number]
            elif part == "finger":
                assert found is None, name


@pytest.mark.parametrize(
    "name",
    [
        "upperarm_twist_01_l", "hand_ik.L", "foot_fk.R", "MCH-foot_roll.L", "VIS_thigh_ik_pole.L",
        "thigh_tweak.L.001",
        "hand_tweak.L", "LeftHandIndex1", "LeftHandMiddle4", "LeftToe_End", "handslot.l", "l-ARMCONTROL",
        "armor.L",
        "Armature", "weapon_hand.R", "knee_pad.L", "J_Sec_L_TopsUpperArmInside", "ik_hand_gun", "eyeball.L",
        "handle",
        "shoulderpad.L", "LegOrient.L", "firearm",
    ],
)  # fmt: skip
def test_helpers_controls_and_others_are_no_joints(name):
    assert joint(name) is None


def test_a_foreleg_is_a_leg_and_a_forearm_a_lower_arm():
    assert joint("foreleg.L") == bone_names.Joint(Place.SOME, False)
    assert joint("forearm.L") == bone_names.Joint(Place.LOWER, True)
    assert joint("forefoot.L") == bone_names.Joint(Place.END, False)
    assert bone_names.is_in_front("foreleg.L") and not bone_names.is_in_front("thigh.L")
    assert bone_names.is_behind("hind_foot.L") and not bone_names.is_behind("front_foot.L")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("tail", True), ("b_Tail01_012", True), ("DEF-tail.003", True), ("ponytail", False),
        ("pony_tail", False),
        ("HairTail1", False), ("tail_feather.L", False), ("tail_ik", False), ("CoatTail", False),
        ("detail", False),
    ],
)  # fmt: skip
def test_tails(name, expected):
    assert bone_names.is_tail(name) == expected


def test_layers_of_one_joint():
    assert len({bone_names.without_layer(f"{layer}thigh.L") for layer in ("", "DEF-", "ORG-")}) == 1
    different = ("thigh.L", "thigh.R", "thigh.L.001", "thigh2.L", "front_thigh.L")
    assert len({bone_names.without_layer(name) for name in different}) == len(different)
