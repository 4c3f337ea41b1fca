# SPDX-License-Identifier: GPL-3.0-or-later
"""Edit mode, rest position, other scenes, keyed settings, libraries: the live solve in each."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import bpy
import numpy as np
import pytest
from bone_rigs import (
    LEG,
    LEG_LENGTH,
    armature,
    bone_world,
    edit_mode,
    empty,
    evaluated,
    go_to,
    head,
    pose,
    update,
)
from live_leg import ON_TARGET, TARGET, leg, moving, off

from ik_addon.blender import chains, live, ranges
from ik_addon.blender.chain_values import SETTINGS
from ik_addon.blender.state import STATE
from ik_addon.core import stage

pytestmark = pytest.mark.usefixtures("fresh")


def test_edit_mode_shows_the_rest_bones_and_leaves_them_alone() -> None:
    ob = leg()
    before = {bone.name: np.array(bone.matrix_local) for bone in ob.data.bones}
    with edit_mode(ob) as bones:
        go_to(5)
        bones["foot"].tail = (0.1, -0.25, 0.0)
        update()
    update()
    assert off(ob) <= ON_TARGET
    for name in ("thigh", "shin"):
        assert np.array_equal(np.array(ob.data.bones[name].matrix_local), before[name])


def test_an_edited_rest_pose_is_solved_anew() -> None:
    ob = leg()
    with edit_mode(ob) as bones:
        bones["shin"].head = bones["thigh"].tail = (0.1, -0.1, 0.45)
    update()
    assert off(ob) <= ON_TARGET


def pose_hips(ob: bpy.types.Object) -> None:
    ob.pose.bones["hips"].location.x += 0.01


def pose_limb(ob: bpy.types.Object) -> None:
    ob.pose.bones["shin"].rotation_quaternion = (1.0, 0.2, 0.1, 0.0)


def drag_target(ob: bpy.types.Object) -> None:
    ob.ik_chains["leg"].target_location.z += 0.01


def fade(ob: bpy.types.Object) -> None:
    ob.ik_chains["leg"].influence -= 0.1


@pytest.mark.parametrize("edit", [pose_hips, pose_limb, drag_target, fade])
def test_an_edit_of_numbers_compiles_nothing_anew(
    monkeypatch: pytest.MonkeyPatch, edit: Callable[[bpy.types.Object], None]
) -> None:
    compiled: list[int] = []
    compile_plan = live.compile_plan

    def counted(*rigs: Any) -> Any:
        compiled.append(len(compiled))
        return compile_plan(*rigs)

    monkeypatch.setattr(live, "compile_plan", counted)
    ob = leg()
    edit(ob)
    update()
    assert compiled, "the chain was new"
    compiled.clear()
    for _ in range(3):
        edit(ob)
        update()
        edit(ob)
        go_to(bpy.context.scene.frame_current + 1)
    assert not compiled


def test_a_bone_with_another_parent_alone_is_compiled_anew() -> None:
    ob = leg()
    for _ in range(2):
        pose_hips(ob)
        update()
    with edit_mode(ob) as bones:
        bones["shin"].parent = bones["hips"]
    update()
    assert ob.ik_chains["leg"].status == "BROKEN"
    with edit_mode(ob) as bones:
        bones["shin"].parent = bones["thigh"]
    update()
    assert off(ob) <= ON_TARGET


def test_a_bone_that_is_added_while_chains_live() -> None:
    ob = leg()
    with edit_mode(ob) as bones:
        bone = bones.new("a first bone")
        bone.head, bone.tail = (0, 0, 0), (0, 0, 0.1)
        bones["hips"].parent = bone
    update()
    assert off(ob) <= ON_TARGET
    ob.pose.bones["a first bone"].location.x = 0.05
    update()
    assert off(ob) <= ON_TARGET


def test_the_rest_position_shows_the_rest_pose() -> None:
    ob = leg()
    ob.data.pose_position = "REST"
    update()
    go_to(4)
    rest = np.array([np.array(bone.matrix_local) for bone in ob.data.bones], np.float32)
    assert np.abs(pose(ob) - rest).max() <= 1e-6
    ob.data.pose_position = "POSE"
    update()
    assert off(ob) <= ON_TARGET


def test_a_chain_on_a_hidden_rig_is_right_when_it_is_shown() -> None:
    ob = leg()
    ob.hide_viewport = True
    update()
    ob.ik_chains["leg"].target_location[2] += 0.1
    go_to(3)
    ob.hide_viewport = False
    update()
    assert off(ob, (0.15, -0.2, 0.3)) <= ON_TARGET


def test_a_second_scene_is_solved_at_its_own_frame() -> None:
    """The same rig in two scenes: the one that changes its frame shows its own pose."""
    goal = empty("Goal", TARGET)
    moving(goal)
    ob = leg(target_space="CUSTOM", target=goal, target_location=(0, 0, 0))
    other = bpy.data.scenes.new("Other")
    other.collection.objects.link(ob)
    other.frame_set(11)
    seen = ob.evaluated_get(other.view_layers[0].depsgraph)
    foot = np.array(seen.matrix_world @ seen.pose.bones["foot"].head)
    assert np.linalg.norm(foot - (TARGET[0], TARGET[1], TARGET[2] + 0.2)) <= ON_TARGET
    go_to(1)
    assert off(ob) <= ON_TARGET


def test_the_settings_are_read_as_evaluated() -> None:
    ob = leg()
    chain = ob.ik_chains["leg"]
    for frame, z in ((1, 0.2), (11, 0.4)):
        chain.target_location[2] = z
        chain.keyframe_insert("target_location", frame=frame)
    for frame, z in ((11, 0.4), (1, 0.2)):
        go_to(frame)
        assert off(ob, (0.15, -0.2, z)) <= ON_TARGET


def test_keyed_solver_and_use_tail() -> None:
    """Discrete settings that are keyed count at their frame."""
    ob = leg(solver="FABRIK")
    chain = ob.ik_chains["leg"]
    for frame, use_tail in ((1, False), (6, True)):
        chain.use_tail = use_tail
        chain.keyframe_insert("use_tail", frame=frame)
    toe = ob.data.bones["foot"].length
    for frame in (1, 8, 2, 7):
        go_to(frame)
        tip = (
            head(ob, "foot") if frame < 6 else bone_world(ob, "foot")[:3, :3] @ (0, toe, 0) + head(ob, "foot")
        )
        assert np.linalg.norm(tip - TARGET) <= 2.0 * ON_TARGET, frame


def test_the_shown_result_is_that_of_the_frame() -> None:
    ob = leg()
    chain = ob.ik_chains["leg"]
    for frame, z in ((1, 0.2), (11, -5.0)):
        chain.target_location[2] = z
        chain.keyframe_insert("target_location", frame=frame)
    go_to(11)
    assert chain.status == "TARGET_FAR"
    distance = np.linalg.norm(np.array((0.15, -0.2, -5.0)) - head(ob, "thigh"))
    assert chain.residual == pytest.approx(distance - LEG_LENGTH, rel=1e-5)
    go_to(1)
    assert chain.status == "OK" and chain.residual <= ON_TARGET
    assert evaluated(ob).ik_chains["leg"].influence == 1.0


def test_a_chain_within_its_tolerance_is_on_target() -> None:
    """The tolerance is the user's word for near enough: no frame within it is a failed one."""
    ob = leg(solver="FABRIK", tolerance=1e-2)
    chain = ob.ik_chains["leg"]
    off_target = 0.0
    for step in range(20):
        chain.target_location = (0.1 + 0.01 * step, -0.3 + 0.02 * step, 0.2 + 0.01 * step)
        update()
        assert chain.residual <= 1e-2 * LEG_LENGTH + ON_TARGET
        assert chain.status == "OK", (step, chain.residual)
        off_target = max(off_target, chain.residual)
    assert off_target > 1e-5 * LEG_LENGTH, "the tolerance was used"


@pytest.mark.parametrize("role", ["target", "pole"])
def test_a_bone_of_a_rig_that_shows_no_pose_breaks_the_chain_with_words(
    role: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The other rig is in its rest position or in edit mode: FK, and no traceback."""
    other = armature("Other")
    ob = leg(pole_mode="POINT", pole_location=(0.1, -1.0, 0.5))
    chain = ob.ik_chains["leg"]
    setattr(chain, f"{role}_space", "CUSTOM")
    chain.target, chain.subtarget = (other, "shin") if role == "target" else (None, "")
    chain.pole_target, chain.pole_subtarget = (other, "shin") if role == "pole" else (None, "")
    other.data.pose_position = "REST"
    update()
    assert chain.status == "BROKEN" and "'Other'" in chain.message and role in chain.message
    other.data.pose_position = "POSE"
    update()
    assert chain.status != "BROKEN"
    with edit_mode(other):
        go_to(3)
        assert chain.status == "BROKEN" and "'Other'" in chain.message
    update()
    assert chain.status != "BROKEN"
    assert "Traceback" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("prop", "first", "second"),
    [("use_tail", False, True), ("solver", "FABRIK", "TWO_BONE"), ("target_space", "WORLD", "ARMATURE")],
)
def test_a_range_does_not_depend_on_the_frame_that_is_shown(prop: str, first: Any, second: Any) -> None:
    ob = leg(solver="FABRIK")
    ob.location.x = 0.05
    for frame, value in ((1, first), (10, second)):
        setattr(ob.ik_chains["leg"], prop, value)
        ob.ik_chains["leg"].keyframe_insert(prop, frame=frame)
    tips = []
    for shown in (1, 10):
        go_to(shown)
        solution = ranges.run(ranges.solve_range(bpy.context.scene, [ob], [1.0, 10.0]))
        tips.append(solution.chains[0].tip)
    assert np.array_equal(*tips)


@pytest.mark.parametrize(
    ("prop", "value"),
    [("use_inherit_rotation", False), ("use_local_location", False), ("inherit_scale", "NONE")],
)
def test_another_way_of_inheriting_is_solved_at_once(prop: str, value: Any) -> None:
    ob = leg()
    go_to(2)
    hips = ob.pose.bones["hips"]
    hips.rotation_mode, hips.rotation_euler, hips.scale = "XYZ", (0.2, 0.3, 0.1), (1.1, 1.1, 1.1)
    ob.pose.bones["thigh"].location = (0.02, 0.01, 0.03)
    update()
    for setting in (value, not value if isinstance(value, bool) else "FULL"):
        setattr(ob.data.bones["thigh"], prop, setting)
        update()
        assert off(ob) <= 2.0 * ON_TARGET


def test_the_message_is_that_of_the_frame() -> None:
    ob = leg(solver="FABRIK")
    chain = ob.ik_chains["leg"]
    for frame, solver in ((1, "FABRIK"), (10, "AIM")):
        chain.solver = solver
        chain.keyframe_insert("solver", frame=frame)
    for frame in (1, 10, 1, 10):
        go_to(frame)
        assert bool(chain.message) == (chain.status == "BROKEN") == (frame == 10)


@pytest.mark.parametrize("kind", ["linked", "override not to be edited", "override"])
@pytest.mark.parametrize("extra", [0, 30])
@pytest.mark.parametrize("limit_mode", ["ACCEPT", "STRETCH", "MOVE_ROOT"])
def test_a_rig_of_a_library_is_posed_however_many_bones_its_chains_write(
    kind: str, extra: int, limit_mode: str, tmp_path: Path
) -> None:
    bones = [*LEG, *((f"more{i}", "hips", (1.0, 0.0, i), (1.0, 0.0, i + 1.0)) for i in range(extra))]
    ob = armature(bones=bones)
    goal = empty("Goal")
    moving(goal)
    chains.add(
        ob, "thigh", "foot", name="leg", use_tail=False, target_space="CUSTOM", target=goal,
        target_location=(0.4, 0.0, -0.3), limit_mode=limit_mode,
    )  # fmt: skip
    frames = (2, 9, 5)

    def played(ob: bpy.types.Object) -> list[Any]:
        rows = []
        for frame in frames:
            go_to(frame)
            chain = ob.ik_chains["leg"]
            rows.append((*pose(ob).ravel().tolist(), chain.residual, chain.status))
        return rows

    wanted = played(ob)
    go_to(1)
    library = str(tmp_path / "library.blend")
    bpy.ops.wm.save_as_mainfile(filepath=library)
    bpy.ops.wm.read_factory_settings(use_empty=True)
    with bpy.data.libraries.load(library, link=True) as (_, into):
        into.objects = ["Rig", "Goal"]
    for linked in into.objects:
        bpy.context.scene.collection.objects.link(linked)
    ob = into.objects[0]
    if kind != "linked":
        ob = ob.override_create(remap_local_usages=True)
        ob.override_library.is_system_override = kind != "override"
    update()
    for found, row in zip(played(ob), wanted, strict=True):
        assert found[:-1] == pytest.approx(row[:-1], abs=1e-6)
        assert found[-1] == row[-1]


def test_the_muted_driver_stands_on_a_property_of_its_own() -> None:
    """On one that Blender knows by name, it makes other drivers of the rig late now and then."""
    ob = leg()
    (curve,) = ob.animation_data.drivers
    assert curve.mute and curve.data_path == '["ik_anchor"]' and curve.is_valid
    # Blender's panel of custom properties leaves out what an add-on has registered.
    assert "ik_anchor" in ob.bl_rna.properties
    chains.remove(ob, 0)
    assert "ik_anchor" not in ob and not ob.animation_data.drivers


@pytest.mark.slow
def test_a_driven_bone_is_never_late() -> None:
    """Without the handler: what Blender evaluates by itself. One frame in 5,000 was late once."""
    ob = leg()
    hips = next(bone for bone in ob.pose.bones if bone.parent is None)
    hips.rotation_mode = "XYZ"
    hips.driver_add("rotation_euler", 0).driver.expression = "0.05 * frame"
    update()
    with STATE.at_work():
        for _ in range(1_000):
            for frame in (1, 2, 7, 12, 11, 6, 3, 9):
                bpy.context.scene.frame_set(frame)
                angle = evaluated(ob).pose.bones[hips.name].rotation_euler[0]
                assert angle == pytest.approx(0.05 * frame, abs=1e-5)


@pytest.mark.parametrize("others", [0, 200])
def test_a_limb_follows_the_bone_that_carries_it_in_a_rig_of_any_size(others: int) -> None:
    """Of a rig with many bones the few that a solve looks at are read one by one."""
    bones = [(f"other.{i}", "hips", (0.0, 0.0, 1.0 + i), (0.3, 0.0, 1.0 + i)) for i in range(others)]
    ob = armature("Rig", (*LEG, *bones))
    chains.add(ob, "thigh", "foot", name="leg", use_tail=False, target_location=TARGET)
    ob.pose.bones["hips"].rotation_mode = "XYZ"
    for turn in ((0.2, 0.1, -0.3), (-0.1, 0.3, 0.2)):
        ob.pose.bones["hips"].rotation_euler = turn
        ob.pose.bones["hips"].location = (0.02, -0.01, 0.03)
        update()
        assert off(ob) <= ON_TARGET
        assert ob.ik_chains["leg"].status == "OK"


def test_all_settings_are_read_where_they_matter_and_no_others_are_asked_for() -> None:
    asked = set[str]()
    for solver in ("TWO_BONE", "THREE_BONE", "AIM", "FABRIK", "CCD"):
        for mode in ("MOVE_ROOT", "STRETCH"):
            asked |= stage.Chain(
                "leg", 0, solver, (0, 1), pole_mode=stage.POINT, planar_axis=0, use_lean=True, limit_mode=mode
            ).settings
    assert asked == set(SETTINGS)
