# SPDX-License-Identifier: GPL-3.0-or-later
"""The limbs of characters made by others, read off their hierarchies by hand."""

from pathlib import Path
from typing import Any

import bpy
import numpy as np
import pytest
from bone_rigs import head, update
from figures import assert_set_up_in_place, by_name, refusal
from rig_state import pose as pose_by_bone

from ik_addon.blender import files, setup
from ik_addon.blender.chain_bones import ChainError

pytestmark = pytest.mark.usefixtures("fresh")


Limbs = dict[str, tuple[str, str, str]]


def two_bone(name: str, root: str, end: str, *sides: str) -> Limbs:
    """A limb of two bones on both sides: the words for left and right stand for {}."""
    return {
        f"{name}.{letter}": (root.format(side), end.format(side), "TWO_BONE")
        for letter, side in zip("LR", sides, strict=True)
    }


KAYKIT = {
    "Spine": ("spine", "head", "FABRIK"),
    **two_bone("Arm", "upperarm.{}", "wrist.{}", "l", "r"),
    **two_bone("Leg", "upperleg.{}", "foot.{}", "l", "r"),
}
MOTION = {
    **two_bone("Arm", "{}Arm", "{}Hand", "Left", "Right"),
    **two_bone("Leg", "{}UpLeg", "{}Foot", "Left", "Right"),
}
VRM = {
    "Spine": ("spine", "neck", "FABRIK"),
    **two_bone("Arm", "upper_arm.{}", "hand.{}", "L", "R"),
    **two_bone("Leg", "upper_leg.{}", "foot.{}", "L", "R"),
}
REAL: dict[str, Limbs] = {
    "bvh_cmu/02_01.bvh": {"Spine": ("LowerBack", "Neck", "FABRIK"), **MOTION},
    "bvh_cmu/cmu_12_01_walk.bvh": {"Spine": ("LowerBack", "Neck", "FABRIK"), **MOTION},
    "bvh_cmu/jumping_jacks.bvh": {
        "Spine": ("lowerback", "Neck", "FABRIK"),
        **two_bone("Arm", "{}Shoulder", "{}Wrist", "Left", "Right"),
        **two_bone("Leg", "{}Hip", "{}Ankle", "Left", "Right"),
    },
    "bvh_fair1/dab.bvh": {"Spine": ("Spine", "Neck", "FABRIK"), **MOTION},
    "fox/Fox.glb": {
        "Spine": ("b_Spine01_02", "b_Neck_04", "FABRIK"),
        "Foreleg.L": ("b_LeftUpperArm_09", "b_LeftHand_011", "TWO_BONE"),
        "Foreleg.R": ("b_RightUpperArm_06", "b_RightHand_08", "TWO_BONE"),
        "Hindleg.L": ("b_LeftLeg01_015", "b_LeftFoot02_018", "THREE_BONE"),
        "Hindleg.R": ("b_RightLeg01_019", "b_RightFoot02_022", "THREE_BONE"),
        "Tail": ("b_Tail01_012", "b_Tail03_014", "FABRIK"),
    },
    "godot_player/player.glb": {
        "Spine": ("waist", "neck", "FABRIK"),
        **two_bone("Leg", "{}-thigh", "{}-foot", "l", "r"),
    },
    "kaykit/Med_General.glb": KAYKIT,
    "kaykit/manny_med_mod.gltf": KAYKIT,
    "mannequiny/mannequiny.glb": {
        "Spine": ("spine_01", "neck_01", "FABRIK"),
        **two_bone("Arm", "upperarm.{}", "hand.{}", "l", "r"),
        **two_bone("Leg", "thigh.{}", "foot.{}", "l", "r"),
    },
    "quaternius_glb/Apatosaurus.glb": {
        "Spine": ("Torso", "Neck", "FABRIK"),
        "Tail": ("Tail1", "Tail5", "FABRIK"),
    },
    "quaternius_glb/Snake.glb": {"Tail": ("Tail", "Tail3", "FABRIK")},
    "quaternius_blend/Snake.blend": {"Tail": ("Tail", "Tail3", "FABRIK")},
    "quaternius_blend/Horse.blend": {"Tail": ("Tail1", "Tail4", "FABRIK")},
    "robot_expressive/RobotExpressive.blend": {
        "Spine": ("Abdomen", "Neck", "FABRIK"),
        **two_bone("Arm", "UpperArm.{}", "Palm1.{}", "L", "R"),
    },
    "vrm_addon_blend/armature_transform.blend": VRM,
    "vrm_addon_blend/blender_2_40_to_2_93_unknown_constraint.blend": VRM,
    "vrm_addon_blend/hips_translation.blend": VRM,
    "vrm_addon_blend/multi_root_armature_vrm1.blend": VRM,
    "vrm_addon_blend/rest_a_pose_t_position_pose.blend": VRM,
}
# Their limbs that cannot be solved, and a word of the reason.
NOT_SOLVED = {
    "godot_player/player.glb": {"Arm.L": "named as a hand", "Arm.R": "named as a hand"},
    "quaternius_glb/Apatosaurus.glb": dict.fromkeys(
        ("Foreleg.L", "Foreleg.R", "Hindleg.L", "Hindleg.R"), "named as a foot"
    ),
    "quaternius_blend/Horse.blend": dict.fromkeys(
        ("Foreleg.L", "Foreleg.R", "Hindleg.L", "Hindleg.R"), "the constraint 'IK'"
    ),
    "robot_expressive/RobotExpressive.blend": dict.fromkeys(("Leg.L", "Leg.R"), "the constraint 'IK'"),
    "quaternius_blend/Snake.blend": {"Spine": "one bone does not bend"},
    "quaternius_glb/Snake.glb": {"Spine": "one bone does not bend"},
}


@pytest.mark.parametrize("file", REAL)
def test_characters_made_by_others(file: str, shared_data: Path) -> None:
    files.load(shared_data / file)
    (ob,) = (ob for ob in bpy.data.objects if ob.type == "ARMATURE")
    bpy.context.scene.frame_set(bpy.context.scene.frame_start + 5)
    before = pose_by_bone(ob)
    left_out = {item.name: item.reason for item in setup.plan(ob).left_out}
    bpy.ops.ik_chain.setup(object=ob.name)
    assert {name: chain[:3] for name, chain in by_name(ob).items()} == REAL[file]
    assert left_out.keys() == NOT_SOLVED.get(file, {}).keys()
    for name, words in NOT_SOLVED.get(file, {}).items():
        assert words in left_out[name]
    assert_set_up_in_place(ob, before)
    with pytest.raises(ChainError, match="nothing to add|is set up already"):
        setup.add(ob)
    assert len(ob.ik_chains) == len(REAL[file])


NO_LIMBS = {
    "cesium_man/cesium_man.gltf": "has no bones whose names tell of arms, legs, a spine or a tail",
    "godot_hand/LeftHandHumanoid.gltf": "has no bones whose names tell of",
    "morse_kuka/kuka_lwr.blend": "has no bones whose names tell of",
    "quaternius_blend/Dog.blend": "has no bones whose names tell of",
    "quaternius_blend/Spider.blend": "; and for other reasons BackLeg.R, FrontLeg.L, FrontLeg.R,",
    "quaternius_glb/Spider.glb": "MidFrontLeg.L, MidFrontLeg.R: no bone at the end is named as a foot",
    "rigged_simple/rigged_simple.gltf": "has no bones whose names tell of",
}


@pytest.mark.parametrize("file", NO_LIMBS)
def test_rigs_without_limbs_that_can_be_found(file: str, shared_data: Path) -> None:
    files.load(shared_data / file)
    (ob,) = (ob for ob in bpy.data.objects if ob.type == "ARMATURE")
    assert NO_LIMBS[file] in refusal(object=ob.name)


def test_legs_whose_own_ik_is_muted(shared_data: Path) -> None:
    """Connected bones: the tips are their tails. The FK pose is what the chains start from."""
    files.load(shared_data / "quaternius_blend/Spider.blend")
    ob = bpy.data.objects["SpiderArmature"]
    for bone in ob.pose.bones:
        for constraint in bone.constraints:
            constraint.mute = True
    before = pose_by_bone(ob)
    setup.add(ob, "LEGS")
    assert by_name(ob)["MidBackLeg.R"] == ("MidBackLeg.R", "MidBackLeg3.R", "FABRIK", True, "WORLD")
    assert len(ob.ik_chains) == 8
    assert_set_up_in_place(ob, before)


def test_the_limb_modes_of_a_fox(shared_data: Path) -> None:
    files.load(shared_data / "fox/Fox.glb")
    ob = bpy.data.objects["root"]
    setup.add(ob)
    assert {c.limb_mode for c in ob.ik_chains if c.solver == "THREE_BONE"} == {"HOCK_PARALLEL"}
    assert {c.name for c in ob.ik_chains if c.target_space == "WORLD"} == {
        "Foreleg.L", "Foreleg.R", "Hindleg.L", "Hindleg.R"
    }  # fmt: skip
    update()
    paw = head(ob, "b_LeftFoot02_018")
    ob.ik_chains["Hindleg.L"].target_location[2] += 6.0
    update()
    assert np.allclose(head(ob, "b_LeftFoot02_018") - paw, (0.0, 0.0, 6.0), atol=1e-3)
    assert ob.ik_chains["Hindleg.L"].status == "OK"


@pytest.fixture(scope="module")
def rigify(addon: Any) -> Any:
    import addon_utils  # a module of bpy's own, found once that is imported

    def make(operator: str, generate: bool) -> bpy.types.Object:
        bpy.ops.wm.read_factory_settings(use_empty=True)
        if addon_utils.enable("rigify", default_set=True) is None:
            pytest.skip("this Blender comes without Rigify")
        getattr(bpy.ops.object, f"armature_{operator}_metarig_add")()
        if generate:
            bpy.ops.pose.rigify_generate()
        bpy.context.scene.frame_set(1)
        return bpy.context.object

    yield make
    addon_utils.disable("rigify", default_set=True)
    bpy.ops.wm.read_factory_settings(use_empty=True)


def test_the_metarig_of_a_human(rigify: Any) -> None:
    ob = rigify("basic_human", generate=False)
    before = pose_by_bone(ob)
    setup.add(ob)
    assert {name: chain[:3] for name, chain in by_name(ob).items()} == {
        "Spine": ("spine.001", "spine.004", "FABRIK"),
        **two_bone("Arm", "upper_arm.{}", "hand.{}", "L", "R"),
        **two_bone("Leg", "thigh.{}", "foot.{}", "L", "R"),
    }
    assert_set_up_in_place(ob, before)


def test_the_metarig_of_a_horse(rigify: Any) -> None:
    ob = rigify("horse", generate=False)
    before = pose_by_bone(ob)
    setup.add(ob)
    hooves = {"Foreleg": ("upper_arm", "f_toe"), "Hindleg": ("thigh", "r_toe")}
    assert {name: chain[:3] for name, chain in by_name(ob).items()} == {
        "Spine": ("spine.003", "neck.001", "FABRIK"),
        **{
            f"{name}.{side}": (f"{root}.{side}", f"{end}.{side}", "THREE_BONE")
            for name, (root, end) in hooves.items()
            for side in "LR"
        },
        "Tail": ("tail.001", "tail.005", "FABRIK"),
    }
    modes = {c.name.partition(".")[0]: c.limb_mode for c in ob.ik_chains if c.solver == "THREE_BONE"}
    assert modes == {"Foreleg": "HOCK_RATIO", "Hindleg": "HOCK_PARALLEL"}
    assert_set_up_in_place(ob, before)


def test_a_generated_rig_is_left_alone(rigify: Any) -> None:
    ob = rigify("basic_human", generate=True)
    assert "Spine, Arm.L, Arm.R, Leg.L, Leg.R: these bones follow the controls of the rig" in refusal(
        object=ob.name
    )
