# SPDX-License-Identifier: GPL-3.0-or-later
"""Chains that are set up by one name: a spine is found, leans after a head, and nothing moves."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import bpy
import numpy as np
import pytest
from bone_rigs import armature, empty, head, pose, update
from mathutils import Vector
from rig_state import select_bones

from ik_addon.blender import chains, files, setup, spines
from ik_addon.blender.chain_bones import ChainError
from ik_addon.cli import arguments
from ik_addon.cli.work import work
from ik_addon.ops import chain_ops, setup_op

pytestmark = pytest.mark.usefixtures("fresh")

STILL = 2e-6
# Names of hips, three bones of a spine, neck, head; shoulder and thigh with {} for the side.
NAMES = {
    "plain": ("hips", "spine", "chest", "upper_chest", "neck", "head", "shoulder.{}", "thigh.{}"),
    "mixamo": (
        "mixamorig:Hips", "mixamorig:Spine", "mixamorig:Spine1", "mixamorig:Spine2", "mixamorig:Neck",
        "mixamorig:Head", "mixamorig:{}Shoulder", "mixamorig:{}UpLeg",
    ),
    "vrm": (
        "J_Bip_C_Hips", "J_Bip_C_Spine", "J_Bip_C_Chest", "J_Bip_C_UpperChest", "J_Bip_C_Neck",
        "J_Bip_C_Head", "J_Bip_{}_Shoulder", "J_Bip_{}_UpperLeg",
    ),
    "unreal": ("pelvis", "spine_01", "spine_02", "spine_03", "neck_01", "head", "clavicle_{}", "thigh_{}"),
    "biped": (
        "Bip01 Pelvis", "Bip01 Spine", "Bip01 Spine1", "Bip01 Spine2", "Bip01 Neck", "Bip01 Head",
        "Bip01 {} Clavicle", "Bip01 {} Thigh",
    ),
    "numbers": (
        "spine", "spine.001", "spine.002", "spine.003", "spine.004", "spine.005", "shoulder.{}", "thigh.{}"
    ),
    "upper case": ("ROOT", "SPINE_A", "SPINE_B", "CHEST", "NECK", "HEAD", "{}_CLAVICLE", "{}_THIGH"),
}  # fmt: skip
SIDES = {
    "plain": "LR", "mixamo": ("Left", "Right"), "vrm": "LR", "unreal": "lr", "biped": "LR", "numbers": "LR",
    "upper case": "LR",
}  # fmt: skip


def figure(kind: str = "plain", control: bool = False) -> bpy.types.Object:
    """Hips with thighs, a bent spine, shoulders, neck and head; and a head control that hangs on the hips."""
    hips, low, middle, high, neck, top, shoulder, thigh = NAMES[kind]
    bones = [
        (hips, "", (0, 0, 1.0), (0, 0, 1.1)),
        (low, hips, (0, 0, 1.1), (0, 0.03, 1.25)),
        (middle, low, (0, 0.03, 1.25), (0, 0.04, 1.4)),
        (high, middle, (0, 0.04, 1.4), (0, 0.02, 1.55)),
        (neck, high, (0, 0.02, 1.55), (0, 0, 1.62)),
        (top, neck, (0, 0, 1.62), (0, 0, 1.8)),
    ]
    for x, side in zip((0.1, -0.1), SIDES[kind], strict=True):
        bones.append((thigh.format(side), hips, (x, 0, 1.0), (x, 0, 0.5)))
        bones.append((shoulder.format(side), high, (0.2 * x, 0.02, 1.5), (2 * x, 0.02, 1.5)))
    if control:
        bones.append(("head_control", hips, (0, 0, 1.62), (0, -0.2, 1.62)))
    return armature("Figure", bones)


@pytest.mark.parametrize("kind", NAMES)
def test_a_spine_is_found_from_any_bone_of_its_line(kind: str) -> None:
    ob = figure(kind)
    hips, low, *_, neck, top, shoulder, _ = NAMES[kind]
    wanted = (low, neck, False)
    found = spines.find_spine(ob)
    assert (found.root, found.end, found.use_tail) == wanted
    for bone in NAMES[kind][:6]:
        found = spines.spine_at(ob, bone)
        assert (found.root, found.end, found.use_tail) == wanted, bone
    side = SIDES[kind][0]
    with pytest.raises(ChainError, match="is on one side of the body"):
        spines.spine_at(ob, shoulder.format(side))
    assert found.carried_head == ("" if kind == "numbers" else top)


@pytest.mark.parametrize("kind", NAMES)
def test_adding_a_spine_moves_nothing_whatever_is_posed(kind: str) -> None:
    ob = figure(kind)
    ob.rotation_euler, ob.location, ob.scale = (0.2, 0.5, 1.0), (1, 2, 3), (2, 2, 2)
    for number, name in enumerate(NAMES[kind][:6]):
        ob.pose.bones[name].rotation_quaternion = (1.0, 0.05 * number, 0.1, -0.04 * number)
    update()
    before = pose(ob)
    select_bones(ob, [NAMES[kind][2]])
    assert bpy.ops.ik_chain.add(preset="SPINE") == {"FINISHED"}
    (chain,) = ob.ik_chains
    update()
    assert np.abs(pose(ob) - before).max() <= 5.0 * STILL
    assert (chain.name, chain.solver, chain.use_lean, chain.use_tail) == ("Spine", "FABRIK", True, False)
    assert (chain.root_bone, chain.end_bone) == (NAMES[kind][1], NAMES[kind][4])
    assert (chain.target_space, chain.target, chain.subtarget) == ("CUSTOM", ob, NAMES[kind][0])
    assert chain.status == "OK"


def test_a_head_control_leads_the_spine_sideways() -> None:
    ob = figure(control=True)
    select_bones(ob, ["chest"])
    assert bpy.ops.ik_chain.add(preset="SPINE") == {"FINISHED"}
    (chain,) = ob.ik_chains
    assert (chain.target_space, chain.target, chain.subtarget) == ("CUSTOM", ob, "head_control")
    update()
    root, tip = head(ob, "spine"), head(ob, "neck")
    line = (tip - root) / np.linalg.norm(tip - root)
    control = ob.pose.bones["head_control"]
    for drift in ((0.03, 0.0, 0.0), (0.0, -0.02, 0.05), (0.0, 0.0, 0.3)):
        control.location = control.bone.matrix_local.to_3x3().inverted() @ Vector(drift)
        update()
        wanted = tip + (np.array(drift) - np.dot(drift, line) * line)
        assert np.linalg.norm(head(ob, "neck") - wanted) <= 1e-5
        assert chain.status == "OK"


def test_the_carried_head_is_told_and_the_spine_goes_with_the_hips(capfd: pytest.CaptureFixture) -> None:
    ob = figure()
    select_bones(ob, ["chest"])
    bpy.ops.ik_chain.add(preset="SPINE")
    assert "Head 'head' hangs on the spine and cannot lead it" in capfd.readouterr().out
    update()
    before = head(ob, "neck") - head(ob, "spine")
    ob.pose.bones["hips"].location = (0.5, 0.3, -2.0)
    update()
    assert np.abs(head(ob, "neck") - head(ob, "spine") - before).max() <= 5.0 * STILL
    assert bpy.ops.ik_chain.add_target_bone() == {"FINISHED"}
    assert ob.ik_chains[0].subtarget == "Spine Target"
    update()
    assert np.abs(head(ob, "neck") - head(ob, "spine") - before).max() <= 5.0 * STILL
    assert ob.ik_chains[0].status == "OK"


def test_a_selected_object_or_bone_leads_the_spine() -> None:
    ob = figure()
    headset = empty("Headset", (0.1, -0.3, 1.7))
    select_bones(ob, ["chest"])
    headset.select_set(True)
    bpy.ops.ik_chain.add(preset="SPINE")
    assert (ob.ik_chains[0].target, ob.ik_chains[0].subtarget) == (headset, "")
    before = head(ob, "neck")
    headset.location.x += 0.05
    update()
    assert head(ob, "neck")[0] - before[0] == pytest.approx(0.05, abs=5e-3)
    chains.remove(ob, 0)
    select_bones(ob, ["chest", "thigh.L"], "chest")
    headset.select_set(False)
    bpy.ops.ik_chain.add(preset="SPINE")
    assert (ob.ik_chains[0].target, ob.ik_chains[0].subtarget) == (ob, "thigh.L")


@pytest.mark.parametrize(
    ("selected", "expected"),
    [
        (["spine", "upper_chest"], ("spine", "neck", False)),
        (["chest", "upper_chest"], ("chest", "neck", False)),
        (["spine", "chest"], ("spine", "chest", True)),
        (["spine", "chest", "upper_chest", "neck"], ("spine", "neck", False)),
        (["chest", "head"], ("chest", "head", False)),
    ],
)
def test_selected_ends_count(selected: list[str], expected: tuple[str, str, bool]) -> None:
    ob = figure()
    select_bones(ob, selected)
    before = pose(ob)
    bpy.ops.ik_chain.add(preset="SPINE")
    (chain,) = ob.ik_chains
    assert (chain.root_bone, chain.end_bone, chain.use_tail) == expected
    update()
    assert np.abs(pose(ob) - before).max() <= 5.0 * STILL


def test_named_ends_need_no_selection_and_other_settings_stay() -> None:
    ob = figure(control=True)
    assert bpy.ops.ik_chain.add(
        object="Figure", preset="SPINE", root_bone="chest", end_bone="neck", name="Back",
        target_space="ARMATURE",
    ) == {"FINISHED"}  # fmt: skip
    (chain,) = ob.ik_chains
    assert (chain.name, chain.root_bone, chain.end_bone) == ("Back", "chest", "neck")
    assert (chain.target_space, chain.target) == ("ARMATURE", None)
    assert bpy.ops.ik_chain.add(object="Figure", preset="SPINE", end_bone="chest") == {"FINISHED"}
    assert (ob.ik_chains[1].root_bone, ob.ik_chains[1].name) == ("spine", "Spine")


def test_a_preset_is_not_remembered_for_the_next_chain() -> None:
    ob = figure()
    select_bones(ob, ["chest"])
    bpy.ops.ik_chain.add(preset="SPINE")
    select_bones(ob, ["thigh.L"])
    bpy.ops.ik_chain.add(end_bone="head")
    assert ob.ik_chains[1].use_tail and not ob.ik_chains[1].use_lean
    assert bpy.ops.ik_chain.add.get_rna_type().properties["preset"].is_skip_save


REFUSALS: dict[str, tuple[dict[str, Any], str]] = {
    "a limb": ({"end_bone": "thigh.L"}, "is on one side of the body: select one of the spine"),
    "no bone": ({"end_bone": "tail"}, "'Figure' has no bone 'tail'"),
    "a head that hangs on it": (
        {"end_bone": "chest", "target": "Figure", "subtarget": "head"},
        "target bone 'head' hangs on 'spine', which the spine turns",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_refusal_says_why_and_changes_nothing(case: str) -> None:
    ob = figure()
    properties, words = REFUSALS[case]
    with pytest.raises(RuntimeError, match=words):
        bpy.ops.ik_chain.add(object="Figure", preset="SPINE", **properties)
    assert len(ob.ik_chains) == 0


def test_a_rig_whose_names_tell_nothing_is_refused() -> None:
    ob = armature("Rig", [("a", "", (0, 0, 0), (0, 0, 1)), ("b", "a", (0, 0, 1), (0, 0, 2))])
    with pytest.raises(ChainError, match="no bone whose name tells of a spine"):
        spines.find_spine(ob)
    with pytest.raises(ChainError, match="select its first and its last bone, or name them"):
        spines.spine_at(ob, "b")
    chain = spines.add_spine(ob, spines.between(ob, "a", "b"))
    update()
    assert chain.use_tail and chain.use_lean and chain.status == "OK"
    assert (chain.target_space, chain.target) == ("ARMATURE", None)


REAL = {
    "fox/Fox.glb": ("b_Spine01_02", "b_Neck_04"),
    "kaykit/Med_General.glb": ("spine", "head"),
    "mannequiny/mannequiny.glb": ("spine_01", "neck_01"),
    "quaternius_glb/Apatosaurus.glb": ("Torso", "Neck"),
    "bvh_cmu/cmu_12_01_walk.bvh": ("LowerBack", "Neck"),
    "bvh_fair1/wave_hello.bvh": ("Spine", "Neck"),
    "robot_expressive/RobotExpressive.blend": ("Abdomen", "Neck"),
    "vrm_addon_blend/hips_translation.blend": ("spine", "neck"),
}


@pytest.mark.parametrize("file", REAL)
def test_spines_of_characters_made_by_others(file: str, shared_data: Path) -> None:
    files.load(shared_data / file)
    ob = next(ob for ob in bpy.data.objects if ob.type == "ARMATURE")
    bpy.context.scene.frame_set(7)
    before = pose(ob)
    assert setup.add(ob, "SPINE").chains == ["Spine"]
    (chain,) = ob.ik_chains
    assert (chain.root_bone, chain.end_bone) == REAL[file]
    bpy.context.scene.frame_set(7)
    size = np.abs(before[:, :3, 3]).max()
    assert np.abs(pose(ob)[:, :3, :3] - before[:, :3, :3]).max() <= 1e-4
    assert np.abs(pose(ob)[:, :3, 3] - before[:, :3, 3]).max() <= 1e-5 * size
    assert chain.status == "OK"
    with pytest.raises(ChainError, match="is set up already: Spine"):
        setup.add(ob, "SPINE")


@pytest.mark.parametrize("name", ["back_leg", "hair_back", "coat_back", "spine_twist"])
def test_what_only_sounds_like_a_trunk_is_no_spine(name: str, fresh: Any) -> None:
    ob = armature("Rig", [(name, "", (0, 0, 0), (0, 0, 1)), ("neck", name, (0, 0, 1), (0, 0, 2))])
    with pytest.raises(ChainError, match="has no bone whose name tells of a spine"):
        spines.find_spine(ob)


def test_presets_have_the_same_names_everywhere() -> None:
    known = [setup.AUTO, *setup.PARTS]
    assert [preset.upper() for preset in arguments.PRESETS] == known
    assert [item[0] for item in setup_op.PARTS] == known
    assert {item[0] for item in chain_ops.PRESETS} <= {"NONE", *known}


@pytest.fixture
def do() -> Callable[..., Any]:
    def run(*argv: object) -> Any:
        options = arguments.parse([str(argument) for argument in argv], "test")
        return work(options.files[0], options)

    return run


def test_setup_adds_a_preset_by_name(do: Callable[..., Any], tmp_path: Path) -> None:
    figure()
    armature("Prop", [("handle", "", (0, 0, 0), (0, 0, 1))])
    file = tmp_path / "figure.blend"
    bpy.ops.wm.save_as_mainfile(filepath=str(file))
    result = do("setup", file, "--preset", "spine", "--output", tmp_path / "out")
    assert (result.status, result.error) == (0, None)
    (told,) = result.chains
    assert (told["chain"], told["solver"], told["status_frames"]) == ("Spine", "FABRIK", {"OK": 1})
    assert any("'Prop' has no bone whose name tells of a spine" in warning for warning in result.warnings)
    bpy.ops.wm.open_mainfile(filepath=result.output)
    assert bpy.data.objects["Figure"].ik_chains[0].use_lean
    again = do("setup", result.output, "--preset", "spine", "--in-place")
    assert again.status == 0
    assert "'Figure' is set up already: Spine" in again.warnings


@pytest.mark.parametrize("more", [[], ["--config", "rig.json", "--preset", "spine"], ["--preset", "wings"]])
def test_setup_wants_a_configuration_or_a_preset(more: list[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        arguments.parse(["setup", "a.blend", "--output", "out", *more], "test")
    assert stop.value.code == 2


def test_a_process_of_its_own_gets_the_preset() -> None:
    options = arguments.parse(["setup", "a.blend", "--output", "out", "--preset", "spine"], "test")
    again = arguments.parse(options.arguments("a.blend", Path("r"), None), "test")
    assert again.preset == "spine"
