# SPDX-License-Identifier: GPL-3.0-or-later
from dataclasses import replace

import numpy as np
import pytest
from bodies import STYLES, bone, both_sides, human, line, names_of, quadruped
from hypothesis import given, settings
from hypothesis import strategies as st

from ik_addon.core.body import ARMS, LEGS, TAILS
from ik_addon.core.limb_finder import find_limbs
from ik_addon.core.transforms import quaternion_to_matrix


def found_in(bones):
    """Bones from root to tip, and the solver, by name; and the reasons by name."""
    found = find_limbs(bones)
    limbs = {limb.name: (*limb.turned, limb.end, limb.solver) for limb in found.limbs}
    return limbs, {item.name: item.reason for item in found.left_out}


def of_human(style):
    expected = {}
    for number, letter in enumerate("LR"):
        names = names_of(style, number)
        for limb, parts in (("Arm", ("upper_arm", "forearm", "hand")), ("Leg", ("thigh", "shin", "foot"))):
            expected[f"{limb}.{letter}"] = (*(names[part] for part in parts), "TWO_BONE")
    return expected


@pytest.mark.parametrize("style", STYLES)
def test_the_limbs_of_a_human_under_many_names(style):
    limbs, left_out = found_in(human(style))
    assert (limbs, left_out) == (of_human(style), {})


@given(
    style=st.sampled_from(sorted(STYLES)),
    order=st.randoms(use_true_random=False),
    turn=st.tuples(*[st.floats(-1.0, 1.0)] * 4).filter(lambda q: np.linalg.norm(q) > 0.1),
    scale=st.sampled_from([1e-3, 0.01, 1.0, 100.0]),
    prefix=st.sampled_from(["", "Armature_", "rig01:", "Skel "]),
    suffix=st.sampled_from(["", "_07", ".002"]),
)
@settings(deadline=None, max_examples=200)
def test_neither_order_nor_axes_nor_size_nor_prefixes_matter(style, order, turn, scale, prefix, suffix):
    matrix = quaternion_to_matrix(np.array(turn) / np.linalg.norm(turn)) * scale

    def moved(point):
        return tuple((matrix @ point + 5.0 * scale).tolist())

    def renamed(name):
        return f"{prefix}{name}{suffix}" if name else ""

    bones = [
        replace(
            item,
            name=renamed(item.name),
            parent=renamed(item.parent),
            head=moved(item.head),
            tail=moved(item.tail),
        )
        for item in human(style)
    ]
    order.shuffle(bones)
    limbs, left_out = found_in(bones)
    expected = {
        name: (*(renamed(part) for part in parts), solver)
        for name, (*parts, solver) in of_human(style).items()
    }
    assert (limbs, left_out) == (expected, {})


def test_parts_and_carriers():
    found = find_limbs(human("Mixamo"))
    assert [(limb.part, limb.carrier) for limb in found.limbs] == [
        (ARMS, "mixamorig:LeftShoulder"), (ARMS, "mixamorig:RightShoulder"),
        (LEGS, "mixamorig:Hips"), (LEGS, "mixamorig:Hips"),
    ]  # fmt: skip
    assert not found.on_four_feet


def test_one_side_alone_is_told():
    bones = [item for item in human("Blender") if not item.name.endswith(("arm.R", "hand.R", ".01.R"))]
    limbs, left_out = found_in(bones)
    assert set(limbs) == {"Arm.L", "Leg.L", "Leg.R"}
    assert left_out == {"Arm.R": "no bones are named as those of 'Arm.L' on the other side"}


def test_names_without_sides():
    bones = line(("thigh", (0, 0, 1)), ("shin", (0, -0.1, 0.5)), ("foot", (0, 0, 0)))
    limbs, left_out = found_in([bone("body", "", (0, 0, 1)), *bones])
    assert (limbs, left_out) == ({"Leg": ("thigh", "shin", "foot", "TWO_BONE")}, {})


# Bones in between and beside


def inserted(bones, name, below):
    """A bone between another one and its children that are part of the limb."""
    at = next(item for item in bones if item.name == below)
    moved = [replace(item, parent=name) if item.parent == below else item for item in bones]
    return [*moved, bone(name, below, at.head)]


@pytest.mark.parametrize("name", ["upper_arm_twist.L", "DEF-upper_arm.L.001", "Bone.017", "elbow_helper"])
def test_a_bone_within_the_line_leaves_the_limb_out(name):
    limbs, left_out = found_in(inserted(human("Blender"), name, "upper_arm.L"))
    assert set(limbs) == {"Arm.R", "Leg.L", "Leg.R"}
    assert set(left_out) == {"Arm.L"}
    assert (
        f"3 bones turn from 'upper_arm.L' to the head of 'hand.L' ('{name}', 'forearm.L'" in left_out["Arm.L"]
    )
    assert "twist or helper bones" in left_out["Arm.L"]


def test_bones_above_and_beside_the_line_do_not_matter():
    beside = [
        bone("upper_arm_twist.L", "upper_arm.L", (0.3, 0, 1.45)),
        bone("forearm_roll.L", "forearm.L", (0.6, 0, 1.45)),
        bone("knee_pad.L", "thigh.L", (0.1, 0, 0.5)), bone("sleeve_arm.L", "upper_arm.L", (0.2, 0, 1.45)),
        bone("weapon.L", "hand.L", (0.8, 0, 1.45)), bone("hair_tail", "spine", (0, 0, 1.8)),
    ]  # fmt: skip
    bones = inserted([*human("Blender"), *beside], "shoulder_helper.L", "shoulder.L")
    assert found_in(bones) == (of_human("Blender"), {})


def test_of_two_lines_from_one_root_the_one_that_is_a_limb_counts():
    beside = [bone("elbow_bone.L", "upper_arm.L", (0.5, 0.1, 1.45)), bone("knee.R", "shin.R", (-0.1, 0, 0.5))]
    assert found_in([*beside, *human("Blender")]) == (of_human("Blender"), {})


def test_a_bone_that_may_be_part_of_two_limbs_turns_in_one():
    bones = line(
        ("tail_leg.L", (0, 0, 1)),
        ("tail_leg2.L", (0, 0.1, 0.5)),
        ("tail_foot.L", (0, 0, 0)),
        ("tail4.L", (0, 0, -1)),
    )
    limbs, left_out = found_in([bone("body", "", (0, 0, 1)), *bones])
    assert set(limbs) == {"Leg.L"}
    assert left_out["Tail.L"] == "'Leg.L' turns bone 'tail_leg.L' already"


def test_a_limb_of_one_bone_is_left_out():
    bones = [item for item in human("Blender") if item.name != "forearm.L"]
    bones = [replace(item, parent="upper_arm.L") if item.parent == "forearm.L" else item for item in bones]
    _, left_out = found_in(bones)
    assert left_out["Arm.L"] == "'upper_arm.L' alone leads to the head of 'hand.L', and a limb has two bones"


def test_a_hand_without_an_arm_is_nothing():
    bones = line(("hand.L", (0, 0, 0)), ("f_index.01.L", (0.1, 0, 0)), ("f_index.02.L", (0.2, 0, 0)))
    assert found_in([bone("body", "", (0, 0, 0)), *bones]) == ({}, {})


def test_of_several_palms_the_one_where_the_arm_ends_counts():
    hands = ("hand.L", "hand.R")
    bones = [item for item in human("Blender") if not {item.name, item.parent} & {*hands}]
    bones = [replace(item, tail=(0.7, 0.0, 1.45)) if item.name == "forearm.L" else item for item in bones]
    bones = [replace(item, tail=(-0.7, 0.0, 1.45)) if item.name == "forearm.R" else item for item in bones]
    palms = [bone(f"Palm{i}.L", "forearm.L", (0.72 - 0.02 * (i == 2), 0, 1.4 + 0.025 * i)) for i in (1, 2, 3)]
    limbs, left_out = found_in([*bones, *both_sides(palms)])
    assert limbs["Arm.L"] == ("upper_arm.L", "forearm.L", "Palm2.L", "TWO_BONE")
    assert left_out == {}


LINES = [
    # Shoulders above elbows: the last one is the upper arm, but for parts of it.
    (("Scapula_L", "Shoulder_L", "Elbow_L", "Wrist_L"), "Shoulder_L", ""),
    (
        ("Scapula_L", "Shoulder_L", "ShoulderPart1_L", "Elbow_L", "Wrist_L"),
        "",
        "3 bones turn from 'Shoulder_L'",
    ),
    (("mCollarLeft", "mShoulderLeft", "mElbowLeft", "mWristLeft"), "mShoulderLeft", ""),
    (
        ("L_arm_clavicle_JNT", "L_arm_shoulder_JNT", "L_arm_elbow_JNT", "L_arm_wrist_JNT"),
        "L_arm_shoulder_JNT",
        "",
    ),
    (("L_leg_hip_JNT", "L_leg_knee_JNT", "L_leg_ankle_JNT"), "L_leg_hip_JNT", ""),
    # A leg or an arm by what is above and below it.
    (("Leg_L", "Knee_L", "Foot_L"), "Leg_L", ""),
    (("LeftUpLeg", "LeftLeg", "LeftFoot"), "LeftUpLeg", ""),
    (("leg.L", "leg.L.001", "foot.L"), "leg.L", ""),
    (("FrontLeg.L", "FrontUpLeg.L", "FrontLowLeg.L", "FrontFoot.L"), "FrontUpLeg.L", ""),
    (("bip_hip_L", "bip_knee_L", "bip_foot_L"), "bip_hip_L", ""),
    # Segments.
    (("upperarm01.L", "upperarm02.L", "lowerarm01.L", "lowerarm02.L", "wrist.L"), "", "4 bones turn"),
    (("lShldrBend", "lShldrTwist", "lForearmBend", "lForearmTwist", "lHand"), "", "4 bones turn"),
    # A shin without anything above it is no limb.
    (("shin.L", "foot.L"), None, None),
]


@pytest.mark.parametrize(("names", "root", "reason"), LINES, ids=lambda value: value[0] if value else "")
def test_lines_as_they_are_named_elsewhere(names, root, reason):
    bones = line(*((name, (0.1, -0.1 * (i % 2), 1.0 - 0.3 * i)) for i, name in enumerate(names)))
    found = find_limbs([bone("body", "", (0, 0, 1)), *bones])
    assert [limb.turned[0] for limb in found.limbs] == ([root] if root else [])
    if root is None:
        assert found.left_out == ()
    elif root:
        turned = found.limbs[0].turned
        assert turned == names[names.index(root) : names.index(root) + 2]
    else:
        assert found.left_out[0].reason.startswith(reason)


def test_the_hock_of_3ds_max():
    joints = ((0.1, 0.5, 0.9), (0.1, 0.4, 0.6), (0.1, 0.6, 0.3), (0.1, 0.55, 0.03))
    names = ("Bip01 L Thigh", "Bip01 L Calf", "Bip01 L HorseLink", "Bip01 L Foot")
    limbs, _ = found_in([bone("body", "", (0, 0, 1)), *line(*zip(names, joints, strict=True))])
    assert limbs == {"Leg.L": (*names, "THREE_BONE")}


# Where a limb ends


def without_feet(connected):
    bones = [item for item in human("Blender") if item.name[:3] not in ("foo", "toe")]
    return [replace(item, connected=connected and item.name.startswith("shin")) for item in bones]


def test_the_tail_of_a_connected_bone_is_a_tip():
    limbs, left_out = found_in(without_feet(connected=True))
    assert limbs["Leg.L"] == ("thigh.L", "shin.L", "", "TWO_BONE")
    assert left_out == {}


def test_the_tail_of_any_other_bone_is_none():
    limbs, left_out = found_in(without_feet(connected=False))
    assert set(limbs) == {"Arm.L", "Arm.R"}
    assert set(left_out) == {"Leg.L", "Leg.R"}
    assert "no bone at the end is named as a foot" in left_out["Leg.L"]


# Controls and layers


def test_controls_are_no_limbs():
    controls = [
        replace(item, name=f"{item.name.replace('.', f'_{kind}.')}", parent=item.parent and f"{kind}_parent")
        for kind in ("ik", "fk", "tweak")
        for item in human("Blender")
    ]
    roots = [bone(f"{kind}_parent", "", (0, 0, 0)) for kind in ("ik", "fk", "tweak")]
    assert found_in([*human("Blender"), *controls, *roots]) == (of_human("Blender"), {})


def layered(prefix, **more):
    return [
        replace(item, name=f"{prefix}{item.name}", parent=item.parent and f"{prefix}{item.parent}", **more)
        for item in human("Blender")
    ]


def test_of_layers_the_one_that_may_turn_counts_and_then_the_one_that_deforms():
    for first in (layered("ORG-", deforms=False), layered("ORG-", blocked="it is held"), []):
        limbs, left_out = found_in([*first, *layered("DEF-")])
        assert {name: bones[0] for name, bones in limbs.items()} == {
            "Arm.L": "DEF-upper_arm.L", "Arm.R": "DEF-upper_arm.R",
            "Leg.L": "DEF-thigh.L", "Leg.R": "DEF-thigh.R",
        }  # fmt: skip
        assert left_out == {}


def test_blocked_bones_are_told_once_for_all_layers():
    limbs, left_out = found_in(
        [*layered("ORG-", blocked="it is held"), *layered("DEF-", blocked="it is held")]
    )
    assert limbs == {}
    assert left_out == dict.fromkeys(("Arm.L", "Arm.R", "Leg.L", "Leg.R"), "it is held")


def test_more_limbs_than_usual_are_named_after_their_bones():
    second = [
        replace(
            item,
            name=item.name.replace("_arm", "_arm2").replace("forearm", "forearm2").replace("hand", "hand2"),
        )
        for item in human("Blender")
        if item.name[:4] in ("uppe", "fore", "hand")
    ]
    renamed = {"upper_arm": "upper_arm2", "forearm": "forearm2"}
    second = [
        replace(item, parent=renamed.get(item.parent[:-2], item.parent[:-2]) + item.parent[-2:])
        for item in second
    ]
    found = find_limbs([*human("Blender"), *second])
    assert found.left_out == ()
    assert {limb.name: limb.turned[0] for limb in found.limbs} == {
        "UpperArm.L": "upper_arm.L",
        "UpperArm2.L": "upper_arm2.L",
        "UpperArm.R": "upper_arm.R",
        "UpperArm2.R": "upper_arm2.R",
        "Leg.L": "thigh.L",
        "Leg.R": "thigh.R",
    }


def test_no_two_limbs_have_one_name():
    tails = [
        item
        for way in ("a", "b")
        for item in line(*((f"tail_{way}{i}", (0.0, 0.1 * i, 1.0 + (way == "b"))) for i in range(4)))
    ]
    found = find_limbs([bone("body", "", (0, 0, 0)), *tails])
    assert [limb.name for limb in found.limbs] == ["Tail", "Tail.001"]


def test_a_parent_that_is_no_bone_is_named():
    with pytest.raises(ValueError, match="parents are not among the bones: nobody"):
        find_limbs([bone("thigh.L", "nobody", (0, 0, 1))])


def test_a_limb_that_is_left_out_does_not_change_the_names_of_others():
    cape = line(("cape_arm.L", (0.2, 0, 1.5)), ("cape.L", (0.2, 0.1, 1.2)), ("cape_hand.L", (0.2, 0.1, 1.0)))
    limbs, left_out = found_in([*human("Blender"), bone("body", "", (0, 0, 1)), *cape])
    assert limbs == of_human("Blender")
    assert set(left_out) == {"CapeArm.L"}


# Animals


def test_an_animal_on_its_toes():
    found = find_limbs(quadruped())
    assert [
        (limb.name, limb.turned[0], limb.turned[-1], limb.end, limb.solver, limb.limb_mode)
        for limb in found.limbs
    ] == [
        ("Foreleg.L", "front_thigh.L", "front_foot.L", "front_toe.L", "THREE_BONE", "HOCK_RATIO"),
        ("Foreleg.R", "front_thigh.R", "front_foot.R", "front_toe.R", "THREE_BONE", "HOCK_RATIO"),
        ("Hindleg.L", "thigh.L", "foot.L", "toe.L", "THREE_BONE", "HOCK_PARALLEL"),
        ("Hindleg.R", "thigh.R", "foot.R", "toe.R", "THREE_BONE", "HOCK_PARALLEL"),
        ("Tail", "tail", "tail.001", "tail.002", "FABRIK", ""),
    ]  # fmt: skip
    assert found.on_four_feet and found.left_out == ()
    assert [limb.in_front for limb in found.limbs] == [True, True, False, False, False]


def test_a_bird_on_its_toes_and_a_toy_on_its_soles():
    """Two legs alone: the foot of a toy is steep, too, so it takes more to be a hock."""
    bird = [item for item in quadruped() if "front" not in item.name]
    assert found_in(bird)[0]["Leg.L"] == ("thigh.L", "shin.L", "foot.L", "toe.L", "THREE_BONE")
    steep = [
        replace(item, head=(item.head[0], 0.42, 0.03)) if item.name.startswith("toe") else item
        for item in bird
    ]
    assert found_in(steep)[0]["Leg.L"] == ("thigh.L", "shin.L", "foot.L", "TWO_BONE")


def test_a_foot_on_its_sole_does_not_turn():
    flat = {
        "foot.L": (0.1, 0.5, 0.06),
        "foot.R": (-0.1, 0.5, 0.06),
        "toe.L": (0.1, 0.3, 0.03),
        "toe.R": (-0.1, 0.3, 0.03),
    }
    limbs, _ = found_in([replace(item, head=flat.get(item.name, item.head)) for item in quadruped()])
    assert limbs["Hindleg.L"] == ("thigh.L", "shin.L", "foot.L", "TWO_BONE")
    assert limbs["Foreleg.L"][-1] == "THREE_BONE"


def test_a_foreleg_that_is_named_as_an_arm_with_a_foot():
    """As Rigify's horse, here without hind legs to compare with."""
    names = ("upper_arm.L", "forearm.L", "forefoot.L", "f_toe.L")
    places = [(0.1, -0.5, 0.9), (0.1, -0.45, 0.6), (0.1, -0.5, 0.25), (0.1, -0.52, 0.04)]
    limbs, _ = found_in([bone("body", "", (0, 0, 1)), *line(*zip(names, places, strict=True))])
    assert limbs == {"Foreleg.L": (*names, "THREE_BONE")}


def test_a_bone_between_foot_and_toes_is_no_toe():
    bones = [
        replace(item, parent=f"pivot{item.name[-2:]}") if item.name.startswith("toe") else item
        for item in quadruped()
    ]
    pivots = [bone(f"pivot{side}", f"foot{side}", (x, 0.55, 0.03)) for side, x in ((".L", 0.1), (".R", -0.1))]
    limbs, _ = found_in([*bones, *pivots])
    assert limbs["Hindleg.L"] == ("thigh.L", "shin.L", "foot.L", "TWO_BONE")


def test_both_sides_are_read_alike():
    flat = {"foot.R": (-0.1, 0.5, 0.06), "toe.R": (-0.1, 0.3, 0.03)}
    limbs, _ = found_in([replace(item, head=flat.get(item.name, item.head)) for item in quadruped()])
    assert limbs["Hindleg.L"] == ("thigh.L", "shin.L", "foot.L", "TWO_BONE")
    assert limbs["Hindleg.R"] == ("thigh.R", "shin.R", "foot.R", "TWO_BONE")


def test_a_hock_that_is_named_needs_no_look_at_its_direction():
    bones = [
        replace(item, name=item.name.replace("foot", "hock"), parent=item.parent.replace("foot", "hock"))
        for item in quadruped()
    ]
    limbs, _ = found_in([bone for bone in bones if "front" not in bone.name])
    assert limbs["Leg.L"] == ("thigh.L", "shin.L", "hock.L", "toe.L", "THREE_BONE")
    limbs, _ = found_in([bone for bone in bones if "front" not in bone.name and "toe" not in bone.name])
    assert limbs["Leg.L"] == ("thigh.L", "shin.L", "hock.L", "TWO_BONE")


@pytest.mark.parametrize(
    ("height", "name"), [(0.08, "Foreleg"), (0.3, "Foreleg"), (0.5, "Arm"), (1.45, "Arm")]
)
def test_an_arm_that_stands_is_a_foreleg(height, name):
    """The hip is at 0.95, the foot at 0.08: 70 % of the way down is at 0.34."""
    places = {"forearm": 0.6 + 0.4 * height, "hand": height}
    bones = [
        replace(item, head=(0.2 * np.sign(item.head[0]), -0.4, places[item.name[:-2]]))
        if item.name[:-2] in places
        else item
        for item in human("Blender")
    ]
    limbs, _ = found_in(bones)
    assert f"{name}.L" in limbs and f"{name}.R" in limbs
    assert ("Hindleg.L" in limbs) == (name == "Foreleg")


def test_the_legs_of_a_spider():
    legs = []
    for number, which in enumerate(("Front", "MidFront", "MidBack", "Back")):
        y = 0.5 * number
        legs += line(
            (f"{which}Leg.L", (0.2, y, 0.5)),
            (f"{which}Leg2.L", (0.8, y, 1.0)),
            (f"{which}Leg3.L", (1.4, y, 0.6)),
        )
    legs = [replace(item, connected=item.name[-3] in "23") for item in legs]
    limbs, left_out = found_in([bone("body", "", (0, 0, 0.5)), *both_sides(legs)])
    assert len(limbs) == 8 and left_out == {}
    assert limbs["MidFrontLeg.R"] == ("MidFrontLeg.R", "MidFrontLeg2.R", "MidFrontLeg3.R", "", "FABRIK")


# Tails


def tail_of(count, connected=False):
    bones = line(*((f"Tail{i}", (0.0, 0.2 * i, 1.0)) for i in range(1, count + 1)))
    return [bone("body", "", (0, 0, 1)), *(replace(item, connected=connected) for item in bones)]


def test_tails():
    (limb,) = find_limbs(tail_of(4)).limbs
    assert (limb.part, limb.turned, limb.end) == (TAILS, ("Tail1", "Tail2", "Tail3"), "Tail4")
    assert (limb.name, limb.solver, limb.carrier) == ("Tail", "FABRIK", "body")
    (limb,) = find_limbs(tail_of(2, connected=True)).limbs
    assert (limb.turned, limb.end) == (("Tail1", "Tail2"), "")


@pytest.mark.parametrize(
    ("count", "words"), [(1, "a tail of 1 bone leaves"), (2, "a tail of 2 bones leaves")]
)
def test_a_short_tail_is_left_out(count, words):
    limbs, left_out = found_in(tail_of(count))
    assert limbs == {} and left_out["Tail"].startswith(words)


def test_a_tail_ends_where_it_branches():
    bones = [*tail_of(4, connected=True), bone("Tail4b", "Tail3", (0, 0, 0), connected=True)]
    (limb,) = find_limbs(bones).limbs
    assert (limb.turned, limb.end) == (("Tail1", "Tail2", "Tail3"), "")


# Nothing to find


def test_no_bones_and_names_that_tell_nothing():
    assert found_in([]) == ({}, {})
    assert found_in(line(*((f"Bone.{i:03}", (0, 0, i)) for i in range(9)), parent="")) == ({}, {})


@given(
    st.lists(
        st.sampled_from(["arm.L", "leg.L", "hand.L", "foot.L", "thigh.L", "knee", "tail", "x"]), max_size=8
    ),
    st.data(),
)
@settings(deadline=None, max_examples=300)
def test_whatever_hangs_together_limbs_are_lines_and_share_no_bones(kinds, data):
    bones: list = []
    for number, kind in enumerate(kinds):
        parent = data.draw(st.sampled_from(["", *(item.name for item in bones)]))
        head = data.draw(st.tuples(*[st.integers(-2, 2)] * 3))
        bones.append(bone(kind.replace(".", f"{number}."), parent, head, connected=data.draw(st.booleans())))
        if kind in ("knee", "tail", "x"):
            bones[-1] = replace(bones[-1], name=f"{kind}{number}")
    parents = {item.name: item.parent for item in bones}
    turned = [limb.turned for limb in find_limbs(bones).limbs]
    for limb in find_limbs(bones).limbs:
        path = [*limb.turned, *([limb.end] if limb.end else [])]
        assert [parents[name] for name in path[1:]] == path[:-1]
        assert len(limb.turned) == {"TWO_BONE": 2, "THREE_BONE": 3}.get(limb.solver, len(limb.turned)) > 1
    assert len(set(sum(turned, ()))) == len(sum(turned, ()))
