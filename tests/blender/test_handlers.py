# SPDX-License-Identifier: GPL-3.0-or-later
"""When the live solve runs, and when it keeps silent."""

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import bpy
import numpy as np
import pytest
from bone_rigs import (
    armature,
    empty,
    evaluated,
    go_to,
    head,
    update,
)
from live_leg import ON_TARGET, TARGET, leg, moving, off

from ik_addon.blender import handlers, live
from ik_addon.blender.state import STATE

pytestmark = pytest.mark.usefixtures("fresh")


@pytest.fixture
def solves(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Names of the chains that were solved, one entry for each call."""
    seen: list[str] = []
    solve = live.solve

    def counted(stage: Any, batch: Any) -> Any:
        seen.append(", ".join(chain.name for chain in stage.chains))
        return solve(stage, batch)

    monkeypatch.setattr(live, "solve", counted)
    yield seen


# Registration


def ours() -> dict[str, int]:
    return {
        name: sum(h.__module__.startswith("ik_addon") for h in getattr(bpy.app.handlers, name))
        for name, _ in handlers.HANDLERS
    }


def test_each_handler_is_there_once_whatever_happens(addon: ModuleType, tmp_path: Path) -> None:
    once = dict.fromkeys(ours(), 1)
    assert ours() == once
    for _ in range(3):
        addon.unregister()
        assert not any(ours().values()), "none is left when the add-on is off"
        addon.register()
        assert ours() == once
    handlers.register()
    assert ours() == once
    leg()
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "rig.blend"))
    for _ in range(2):
        bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "rig.blend"))
        assert ours() == once
    bpy.ops.wm.read_factory_settings(use_empty=True)
    assert ours() == once


def test_chains_outlive_switching_the_add_on_off_and_on(addon: ModuleType) -> None:
    ob = leg()
    addon.unregister()
    addon.register()
    ob.ik_chains["leg"].target_location = (0.1, -0.3, 0.3)
    update()
    assert off(ob, (0.1, -0.3, 0.3)) <= ON_TARGET


def test_a_loaded_file_is_solved_at_once(solves: list[str], tmp_path: Path) -> None:
    """Also when something else moved the target while the add-on was not there."""
    ob = leg()
    with STATE.at_work():
        ob.ik_chains["leg"].target_location = (0.1, -0.3, 0.3)
        update()
        bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "rig.blend"))
    solves.clear()
    bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "rig.blend"))
    assert off(bpy.data.objects["Rig"], (0.1, -0.3, 0.3)) <= ON_TARGET
    assert len(solves) == 1


# How often


def test_an_edit_of_one_rig_is_one_solve_of_it(solves: list[str]) -> None:
    one, two = leg("One"), leg("Two")
    solves.clear()
    one.ik_chains["leg"].target_location[2] += 0.05
    update()
    assert solves == ["One: leg"]
    assert off(one, (0.15, -0.2, 0.25)) <= ON_TARGET and off(two) <= ON_TARGET
    two.pose.bones["hips"].location.y += 0.03
    update()
    assert solves == ["One: leg", "Two: leg"]


def test_idle_solves_nothing(solves: list[str]) -> None:
    leg()
    solves.clear()
    for _ in range(3):
        update()
        bpy.context.evaluated_depsgraph_get()
    assert solves == []


@pytest.mark.parametrize("what", ["another object", "a rig without chains", "the scene"])
def test_what_concerns_no_chain_solves_nothing(solves: list[str], what: str) -> None:
    leg()
    other, free = empty("Other"), armature("Free")
    update()
    solves.clear()
    if what == "another object":
        other.location.x += 1.0
    elif what == "a rig without chains":
        free.pose.bones["thigh"].rotation_quaternion.x = 0.3
    else:
        bpy.context.scene.render.fps = 30
    update()
    assert solves == []


def test_a_frame_change_solves_each_rig_once(solves: list[str]) -> None:
    leg("One"), leg("Two")
    solves.clear()
    go_to(5)
    assert sorted(solves) == ["One: leg", "Two: leg"]


def test_a_moved_target_solves_the_rig_that_points_at_it(solves: list[str]) -> None:
    goal = empty("Goal", TARGET)
    one = leg("One", target_space="CUSTOM", target=goal, target_location=(0, 0, 0))
    leg("Two")
    solves.clear()
    goal.location.z += 0.1
    update()
    assert solves == ["One: leg"]
    assert off(one, (0.15, -0.2, 0.3)) <= ON_TARGET


def test_a_file_without_chains_costs_no_solve(solves: list[str]) -> None:
    ob = armature()
    go_to(3)
    ob.pose.bones["thigh"].rotation_quaternion.x = 0.2
    update()
    assert solves == []


def test_the_handler_does_not_call_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else's handler asks for an update inside an update."""
    depth: list[int] = [0, 0]
    solve_group = live.solve_group

    def nested(*arguments: Any, **options: Any) -> None:
        depth[0] += 1
        depth[1] = max(depth)
        solve_group(*arguments, **options)
        bpy.context.view_layer.update()
        depth[0] -= 1

    ob = leg()
    monkeypatch.setattr(live, "solve_group", nested)
    ob.ik_chains["leg"].target_location[2] += 0.1
    update()
    go_to(4)
    assert depth == [0, 1]
    assert off(ob, (0.15, -0.2, 0.3)) <= ON_TARGET


def test_a_fault_is_told_once_and_the_next_edit_solves_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ob = leg()
    calls = []

    def broken(*_: Any) -> None:
        calls.append(1)
        raise ArithmeticError("made for a test")

    with monkeypatch.context() as patch:
        patch.setattr(live, "solve", broken)
        for frame in (2, 3, 4):
            go_to(frame)
    assert len(calls) == 3
    assert capsys.readouterr().out.count("the solve failed") == 1
    ob.ik_chains["leg"].target_location[2] += 0.1
    update()
    assert off(ob, (0.15, -0.2, 0.3)) <= ON_TARGET


# Evaluated again


@pytest.fixture
def asked_again() -> Iterator[list[bool]]:
    """For each frame change whether Blender is asked to evaluate the armature once more."""
    seen: list[bool] = []

    def look(_scene: bpy.types.Scene, depsgraph: bpy.types.Depsgraph) -> None:
        seen.append(depsgraph.id_type_updated("ARMATURE"))

    bpy.app.handlers.frame_change_post.append(look)
    yield seen
    bpy.app.handlers.frame_change_post.remove(look)


@pytest.mark.parametrize("limit_mode", ["ACCEPT", "STRETCH"])
def test_a_pose_that_is_there_already_is_not_evaluated_again(
    asked_again: list[bool], limit_mode: str
) -> None:
    ob = leg(limit_mode=limit_mode, stretch_max=1.0, target_location=(0.1, -0.4, -0.3))
    goal = empty("Goal")
    moving(goal)
    go_to(2)
    asked_again.clear()
    for frame in (3, 4):
        go_to(frame)
        assert ob.ik_chains["leg"].status == "OK" or limit_mode == "ACCEPT"
    assert asked_again == [False, False]
    # A curve of a bone puts the FK value back on each frame, also where it holds still.
    ob.pose.bones["thigh"].rotation_quaternion = (1.0, 0.2, 0.0, 0.0)
    ob.pose.bones["thigh"].keyframe_insert("rotation_quaternion", frame=1)
    for frame in (5, 6):
        go_to(frame)
        assert off(ob, ob.ik_chains["leg"].target_location) == pytest.approx(
            ob.ik_chains["leg"].residual, abs=ON_TARGET
        )
    assert asked_again == [False, False, True, True]


def test_a_result_that_changes_is_told_where_the_pose_stays(asked_again: list[bool]) -> None:
    """A target that goes further away along its line: drivers may look at the residual."""
    ob = leg()
    chain = ob.ik_chains["leg"]
    root = head(ob, "thigh")
    for frame, way in ((1, 2.0), (11, 3.0)):
        chain.target_location = root + way * np.array((0.0, 0.0, -1.0))
        chain.keyframe_insert("target_location", frame=frame)
    go_to(1)
    for frame in range(2, 12):
        go_to(frame)
        assert evaluated(ob).ik_chains["leg"].last_residual == chain.last_residual
        assert chain.residual == pytest.approx(float(off(ob, chain.target_location)), rel=1e-5)
    assert all(asked_again[-10:])
