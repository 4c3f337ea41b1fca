# SPDX-License-Identifier: GPL-3.0-or-later
"""Finding the limbs of a rig and adding their chains: what is added, what is left out, the operator."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import bpy
import counted
import numpy as np
import pytest
from bone_rigs import armature, empty, head, poses, update
from figures import ALL, BODY, LIMBS, SIDES, assert_set_up_in_place, by_name, figure, refusal
from rig_state import NOISE, differences, dump, pose_difference, select_bones
from rig_state import pose as pose_by_bone

from ik_addon.blender import chains, setup
from ik_addon.blender.chain_bones import ChainError

pytestmark = pytest.mark.usefixtures("fresh")


# What is added


def test_all_limbs_of_a_body() -> None:
    ob = figure()
    before = pose_by_bone(ob)
    assert bpy.ops.ik_chain.setup(object="Figure") == {"FINISHED"}
    assert by_name(ob) == {
        "Spine": ("spine", "neck", "FABRIK", False, "CUSTOM"),
        "Arm.L": ("upper_arm.L", "hand.L", "TWO_BONE", False, "ARMATURE"),
        "Arm.R": ("upper_arm.R", "hand.R", "TWO_BONE", False, "ARMATURE"),
        "Leg.L": ("thigh.L", "foot.L", "TWO_BONE", False, "WORLD"),
        "Leg.R": ("thigh.R", "foot.R", "TWO_BONE", False, "WORLD"),
        "Tail": ("tail", "tail.002", "FABRIK", False, "CUSTOM"),
    }
    for name in ("Spine", "Tail"):
        assert (ob.ik_chains[name].target, ob.ik_chains[name].subtarget) == (ob, "hips")
    assert not any(chain.use_rotation for chain in ob.ik_chains)
    assert_set_up_in_place(ob, before)
    assert pose_difference(pose_by_bone(ob), before) < 1e-5


@pytest.mark.parametrize(
    ("preset", "names"),
    [
        ("ARMS", {"Arm.L", "Arm.R"}),
        ("LEGS", {"Leg.L", "Leg.R"}),
        ("SPINE", {"Spine"}),
        ("TAILS", {"Tail"}),
        ("AUTO", ALL),
    ],
)
def test_parts_alone(preset: str, names: set[str]) -> None:
    ob = figure()
    assert bpy.ops.ik_chain.setup(object="Figure", preset=preset) == {"FINISHED"}
    assert set(ob.ik_chains.keys()) == names
    if preset not in ("SPINE", "AUTO"):
        bpy.ops.ik_chain.setup(object="Figure")
        assert set(ob.ik_chains.keys()) == ALL


def test_feet_stay_in_the_world_hands_with_the_character_and_the_tail_with_the_hips() -> None:
    ob = figure()
    bpy.ops.ik_chain.setup(object="Figure")
    update()
    hand, foot, tip = head(ob, "hand.L"), head(ob, "foot.L"), head(ob, "tail.002")
    ob.location = (0.05, -0.04, -0.1)
    update()
    assert np.linalg.norm(head(ob, "foot.L") - foot) < 1e-5
    assert np.linalg.norm(head(ob, "hand.L") - hand - ob.location) < 1e-5
    assert np.linalg.norm(head(ob, "tail.002") - tip - ob.location) < 1e-5
    ob.pose.bones["hips"].location = (0.05, 0.02, 0.05)
    update()
    assert np.linalg.norm(head(ob, "foot.R") - foot * (-1, 1, 1)) < 1e-5
    assert np.linalg.norm(head(ob, "hand.L") - hand - ob.location) < 1e-5
    assert np.linalg.norm(head(ob, "tail.002") - tip - ob.location) > 0.05


def test_whatever_is_posed_and_wherever_the_character_is() -> None:
    ob = figure()
    parent = empty("Cart", (3.0, -2.0, 1.0))
    parent.rotation_euler, parent.scale = (0.3, 0.2, 1.0), (2.0, 2.0, 2.0)
    ob.parent = parent
    ob.rotation_euler, ob.location = (0.5, -0.2, 0.1), (0.3, 0.1, 0.0)
    random = np.random.default_rng(5)
    for bone in ob.pose.bones:
        bone.rotation_quaternion = (1.0, *random.uniform(-0.15, 0.15, 3))
    update()
    before = pose_by_bone(ob)
    bpy.ops.ik_chain.setup(object="Figure")
    assert len(ob.ik_chains) == 6
    assert_set_up_in_place(ob, before)


def test_on_the_frame_of_the_setup_an_animation_stays_as_it_is() -> None:
    ob = figure()
    for frame, angle in ((1, -0.3), (20, 0.3)):
        for name in ("thigh.L", "upper_arm.R", "spine", "tail"):
            ob.pose.bones[name].rotation_quaternion = (1.0, angle, 0.2 * angle, 0.0)
            ob.pose.bones[name].keyframe_insert("rotation_quaternion", frame=frame)
    fk = poses(ob, [1, 8, 20])
    bpy.context.scene.frame_set(8)
    bpy.ops.ik_chain.setup(object="Figure")
    now = poses(ob, [1, 8, 20])
    assert np.abs(now[1] - fk[1]).max() < 1e-5
    foot = list(ob.pose.bones.keys()).index("foot.L")
    assert np.linalg.norm(now[0, foot, :3, 3] - fk[1, foot, :3, 3]) < 1e-5, "the foot stays in the world"
    for chain in ob.ik_chains:
        chain.influence = 0.0
    assert np.array_equal(poses(ob, [1, 8, 20]), fk), "FK is still there"


def test_a_chain_that_is_there_is_kept() -> None:
    ob = figure()
    chains.add(ob, "thigh.L", "foot.L", name="my leg", use_tail=False)
    report = setup.add(ob)
    assert set(ob.ik_chains.keys()) == {"my leg", *ALL - {"Leg.L"}}
    assert report.left_out == ["Leg.L"]
    assert report.notes == ["'Figure': left out Leg.L: chain 'my leg' turns its bones already"]


def test_a_second_setup_adds_nothing() -> None:
    ob = figure()
    bpy.ops.ik_chain.setup(object="Figure")
    before = dump()
    with pytest.raises(RuntimeError, match=r"is set up already: Spine, Arm\.L, Arm\.R, Leg\.L, Leg\.R, Tail"):
        bpy.ops.ik_chain.setup(object="Figure")
    assert differences(before, dump()) == []
    assert len(ob.ik_chains) == 6


def test_a_name_that_another_chain_has_is_not_taken() -> None:
    ob = figure()
    chains.add(ob, "hips", "hips", name="Leg.L", solver="AIM")
    setup.add(ob, "LEGS")
    assert ob.ik_chains["Leg.L"].solver == "AIM"
    roots = {chain.root_bone: chain.name for chain in ob.ik_chains}
    assert roots["thigh.L"] not in ("Leg.L", "") and roots["thigh.R"] == "Leg.R"


# What is left out


def reasons(ob: bpy.types.Object, preset: str = "AUTO") -> str:
    return "\n".join(f"{names}: {reason}" for names, reason in setup.plan(ob, preset).reasons().items())


def test_limbs_that_something_else_poses_are_left_out() -> None:
    ob = figure()
    ob.pose.bones["shin.L"].constraints.new("IK").target = empty("Goal")
    ob.pose.bones["shin.L"].constraints["IK"].chain_count = 2
    ob.pose.bones["hand.R"].constraints.new("COPY_ROTATION").target = empty("Wrist")
    ob.pose.bones["forearm.L"].rotation_mode = "XYZ"
    ob.pose.bones["forearm.L"].driver_add("rotation_euler", 0).driver.expression = "0.1"
    report = setup.add(ob)
    assert set(ob.ik_chains.keys()) == ALL - {"Leg.L", "Arm.L"}, "the hand itself does not turn"
    assert report.notes == [
        "'Figure': left out Arm.L: the rotation of bone 'forearm.L' has a driver, which acts after the chain",
        "'Figure': left out Leg.L: the constraint 'IK' of bone 'shin.L' turns bone 'thigh.L' after the chain;"
        " mute it",
    ]
    ob.pose.bones["shin.L"].constraints["IK"].mute = True
    assert setup.add(ob).chains == ["Leg.L"]


def test_limits_that_chains_keep_are_no_obstacle() -> None:
    ob = figure()
    for name in ("shin.L", "shin.R"):
        ob.pose.bones[name].use_ik_limit_x = True
        ob.pose.bones[name].ik_min_x, ob.pose.bones[name].ik_max_x = -2.5, 2.5
        ob.pose.bones[name].constraints.new("LIMIT_ROTATION").owner_space = "LOCAL"
    assert set(setup.add(ob).chains) == ALL


def test_a_missing_part_is_told() -> None:
    ob = figure(left_out=("upper_arm.L", "upper_arm.R", "tail", "tail.001", "tail.002", "spine", "chest"))
    report = setup.add(ob)
    assert set(ob.ik_chains.keys()) == {"Leg.L", "Leg.R"}
    assert report.notes == [
        "'Figure' has no bone whose name tells of a spine",
        "'Figure' has no bones whose names tell of arms",
    ]


def test_a_spine_of_one_bone_is_left_out() -> None:
    ob = figure(left_out=("spine",))
    assert "Spine: 'chest' alone leads to the neck" in reasons(ob)


def test_a_spine_does_not_begin_below_the_legs() -> None:
    """The root is called a spine, too, and carries the hips: as Rigify's horse."""
    bones = [("spine.root", "", (0, 0, 0.9), (0, 0, 1.0))]
    bones += [(n, p or "spine.root", h, t) for n, p, h, t in BODY[:4]]
    for side, mirror in SIDES:
        for bone, parent, *points in LIMBS[3:]:
            above = parent if parent == "hips" else f"{parent}.{side}"
            bones.append((f"{bone}.{side}", above, *((mirror * x, y, z) for x, y, z in points)))
        bones.append((f"shoulder.{side}", "chest", (0.1 * mirror, 0, 1.45), (0.2 * mirror, 0, 1.45)))
    ob = armature("Figure", bones)
    setup.add(ob, "SPINE")
    assert by_name(ob)["Spine"][:2] == ("spine", "neck")


def test_controls_are_no_spine() -> None:
    controls = [("body_ctrl", "", (0, 0, 0), (0, 0, 1))]
    for i, name in enumerate(("spine", "chest", "neck")):
        parent = "body_ctrl" if i == 0 else controls[-1][0]
        controls.append((f"{name}_ctrl", parent, (0, 0, 1.0 + 0.1 * i), (0, 0, 1.1 + 0.1 * i)))
    ob = armature("Figure", [*controls, *((n, p or "body_ctrl", h, t) for n, p, h, t in BODY)])
    setup.add(ob, "SPINE")
    assert by_name(ob)["Spine"][:2] == ("spine", "neck")


def test_a_linked_character_is_refused(tmp_path: Path) -> None:
    figure()
    library = str(tmp_path / "library.blend")
    bpy.ops.wm.save_as_mainfile(filepath=library)
    bpy.ops.wm.read_factory_settings(use_empty=True)
    with bpy.data.libraries.load(library, link=True) as (_, to):
        to.objects = ["Figure"]
    ob = bpy.data.objects["Figure"]
    bpy.context.scene.collection.objects.link(ob)
    with pytest.raises(ChainError, match="'Figure' is linked: make a library override"):
        setup.add(ob)
    assert "is linked" in refusal(object="Figure")


REFUSALS: dict[str, tuple[Callable[[], Any], dict[str, Any], str]] = {
    "a prop": (
        lambda: armature("Prop", [("lid", "", (0, 0, 0), (0, 0, 1)), ("hinge", "lid", (0, 0, 1), (0, 0, 2))]),
        {"object": "Prop"},
        "'Prop' has no bones whose names tell of arms, legs, a spine or a tail",
    ),
    "no tail": (
        lambda: figure(left_out=("tail", "tail.001", "tail.002")),
        {"object": "Figure", "preset": "TAILS"},
        "'Figure' has no bones whose names tell of a tail",
    ),
    "no spine": (
        lambda: figure(left_out=("spine", "chest")),
        {"object": "Figure", "preset": "SPINE"},
        "'Figure' has no bone whose name tells of a spine",
    ),
    "no bones": (lambda: armature("Empty", []), {"object": "Empty"}, "'Empty' has no bones whose names tell"),
    "no armature": (
        lambda: (figure(), empty("Door")),
        {"object": "Door"},
        "'Door' is not an armature object",
    ),
    "no object": (figure, {"object": "Nobody"}, "There is no object 'Nobody'"),
    "all left out": (
        lambda: figure(left_out=("hand.L", "hand.R")),
        {"object": "Figure", "preset": "ARMS"},
        "nothing to add: Arm.L, Arm.R: no bone at the end is named as a hand",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_refusal_says_why_and_changes_nothing(case: str) -> None:
    make, properties, words = REFUSALS[case]
    make()
    assert words in refusal(**properties)


def test_nothing_to_work_on() -> None:
    with pytest.raises(RuntimeError, match="no armature to add a chain to"):
        bpy.ops.ik_chain.setup()


def test_a_character_that_lies_on_its_side_is_told() -> None:
    ob = figure()
    assert not any("lead down" in note for note in setup.add(ob, "LEGS").notes)
    lying = figure("Lying")
    lying.rotation_euler.x = np.radians(90.0)
    bpy.context.view_layer.update()
    assert setup.add(lying, "LEGS").notes == [
        "'Lying': Leg.L, Leg.R do not lead down in the world: contacts take its Z axis for up;"
        " turn the character, or import it with other axes"
    ]


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda ob: setattr(ob.data, "pose_position", "REST"), "shows its rest position"),
        (lambda ob: bpy.context.scene.collection.objects.unlink(ob), ""),
    ],
)
def test_a_rig_that_shows_no_pose_is_refused(spoil: Callable[[Any], None], words: str) -> None:
    """One that was evaluated once keeps its pose where it is unlinked."""
    ob = figure()
    spoil(ob)
    if words:
        assert words in refusal(object="Figure")
    else:
        setup.add(ob)
        assert len(ob.ik_chains) == 6


def test_a_rig_that_was_never_evaluated_is_refused() -> None:
    ob = bpy.data.objects.new("Twin", figure().data)
    with pytest.raises(ChainError, match="'Twin' is in no scene that Blender has evaluated"):
        setup.add(ob)


def test_limbs_that_cannot_be_solved_with_the_others_are_left_out() -> None:
    ob = figure()
    constraint = ob.pose.bones["chest"].constraints.new("COPY_ROTATION")
    constraint.target, constraint.subtarget, constraint.influence = ob, "thigh.L", 0.3
    report = setup.add(ob)
    assert set(ob.ik_chains.keys()) == {"Leg.L", "Leg.R", "Tail"}
    assert set(report.left_out) == {"Spine", "Arm.L", "Arm.R"}
    assert any("Arm.L" in note and "thigh.L" in note for note in report.notes)
    assert {chain.status for chain in ob.ik_chains} == {"OK"}


def test_a_limb_that_its_limits_move_is_told() -> None:
    ob = figure()
    shin = ob.pose.bones["shin.R"]
    shin.use_ik_limit_x, shin.ik_min_x, shin.ik_max_x = True, 0.5, 2.0
    shin.rotation_mode = "XYZ"
    shin.rotation_euler.x = -0.3
    notes = setup.add(ob, "LEGS").notes
    assert len(notes) == 1 and notes[0].startswith("'Figure': Leg.R does not keep its pose, by ")


def test_all_chains_are_added_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    ob = figure()
    before = dump()
    add, calls = chains.add, []

    def failing(*args: Any, **settings: Any) -> Any:
        calls.append(args)
        if len(calls) == 3:
            raise ChainError("no more")
        return add(*args, **settings)

    monkeypatch.setattr(chains, "add", failing)
    with pytest.raises(ChainError, match="no more"):
        setup.add(ob)
    assert len(ob.ik_chains) == 0 and differences(before, dump()) == []


def test_a_tail_that_is_a_spine_has_one_chain() -> None:
    names = ["tail_spine.001", "tail_spine.002", "tail_spine.003", "spine.001", "spine.002", "neck", "head"]
    bones = [
        (name, parent, (0.0, 0.2 * i, 0.0), (0.0, 0.2 * (i + 1), 0.05 * (i % 2)))
        for i, (name, parent) in enumerate(zip(names, ["", *names], strict=False))
    ]
    ob = armature("Fish", bones)
    report = setup.add(ob)
    assert report.chains == ["Spine"]
    assert report.notes[0] == "'Fish': left out Tail: chain 'Spine' turns its bones already"


def test_an_unknown_preset_is_named() -> None:
    with pytest.raises(ChainError, match="expected a preset of AUTO, ARMS, LEGS, SPINE, TAILS, got 'WINGS'"):
        setup.add(figure(), "WINGS")


def test_why_a_spine_is_not_found_is_told_where_nothing_else_is() -> None:
    names = [f"spine.{i:03}" for i in range(4)]
    armature(
        "Snake",
        [
            (name, parent, (0, 0.1 * i, 0), (0, 0.1 * (i + 1), 0))
            for i, (name, parent) in enumerate(zip(names, ["", *names], strict=False))
        ],
    )
    assert "where the spine of bone 'spine.000' ends is not told" in refusal(object="Snake")


def test_planning_does_not_look_at_all_bones_again_and_again() -> None:
    def work(count: int) -> int:
        bones = [
            (f"spine.{i}", f"spine.{i - 1}" if i else "", (0, 0, i), (0, 0, i + 1)) for i in range(count)
        ]
        hair = [(f"hair.{i}", f"spine.{count - 1}", (0, i, count), (0, i, count + 1)) for i in range(count)]
        neck = [("neck", f"spine.{count - 1}", (0, 0, count), (0, 0, count + 1))]
        ob = armature(f"Snake {count}", [*bones, *neck, *hair])
        return counted.steps(lambda: setup.plan(ob))

    assert work(200) < 20 * work(20)


def test_a_limb_whose_target_goes_with_what_is_animated_is_not_animated() -> None:
    ob = figure()
    ob.pose.bones["hips"].keyframe_insert("location", frame=1)
    assert set(setup.add(ob).animated) == {"Arm.L", "Arm.R", "Leg.L", "Leg.R"}


def test_animated_limbs_are_told(capfd: pytest.CaptureFixture) -> None:
    figure("Still")
    bpy.ops.ik_chain.setup(object="Still")
    assert setup.HOLD_STILL not in capfd.readouterr().out
    ob = figure()
    ob.pose.bones["upper_arm.L"].keyframe_insert("rotation_quaternion", frame=1)
    bpy.ops.ik_chain.setup(object="Figure", preset="LEGS")
    assert setup.HOLD_STILL not in capfd.readouterr().out
    bpy.ops.ik_chain.setup(object="Figure", preset="ARMS")
    assert setup.HOLD_STILL in capfd.readouterr().out


# The operator


def test_the_active_object_or_that_of_the_context() -> None:
    ob, other = figure(), figure("Other")
    bpy.context.view_layer.objects.active = ob
    assert bpy.ops.ik_chain.setup() == {"FINISHED"}
    assert (len(ob.ik_chains), len(other.ik_chains)) == (6, 0)
    with bpy.context.temp_override(object=other):
        assert bpy.ops.ik_chain.setup() == {"FINISHED"}
    assert len(other.ik_chains) == 6


def test_in_pose_mode_hidden_and_without_selection() -> None:
    ob = figure()
    select_bones(ob, ["hand.L"])
    assert bpy.ops.ik_chain.setup(preset="LEGS") == {"FINISHED"}
    bpy.ops.object.mode_set(mode="OBJECT")
    bpy.context.view_layer.objects.active = None
    ob.hide_set(True)
    assert bpy.ops.ik_chain.setup(object="Figure", preset="ARMS") == {"FINISHED"}
    assert set(ob.ik_chains.keys()) == {"Leg.L", "Leg.R", "Arm.L", "Arm.R"}


def test_it_tells_what_it_added_and_what_not(capfd: pytest.CaptureFixture) -> None:
    figure(left_out=("hand.R",))
    bpy.ops.ik_chain.setup(object="Figure", preset="ARMS")
    told = capfd.readouterr().out
    assert "Warning: Added 1 chain: Arm.L; left out, see the Info editor: Arm.R" in told.splitlines()[-1]
    assert "Warning: 'Figure': left out Arm.R: no bone at the end is named as a hand" in told


def test_undo_and_redo_are_one_step() -> None:
    figure()
    before, pose_before = dump(), pose_by_bone(bpy.data.objects["Figure"])
    bpy.ops.ed.undo_push(message="before")
    assert bpy.ops.ik_chain.setup("EXEC_DEFAULT", True, object="Figure") == {"FINISHED"}
    after = dump()
    assert len(bpy.data.objects["Figure"].ik_chains) == 6
    for _ in range(2):
        bpy.ops.ed.undo()
        assert differences(before, dump()) == []
        assert pose_difference(pose_by_bone(bpy.data.objects["Figure"]), pose_before) < NOISE
        bpy.ops.ed.redo()
        assert differences(after, dump()) == []


def test_the_preset_is_not_remembered() -> None:
    figure()
    bpy.ops.ik_chain.setup(object="Figure", preset="TAILS")
    bpy.ops.ik_chain.setup(object="Figure")
    assert len(bpy.data.objects["Figure"].ik_chains) == 6
