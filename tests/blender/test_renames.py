# SPDX-License-Identifier: GPL-3.0-or-later
"""Chains hold on to their bones and objects under new names."""

from collections.abc import Callable
from pathlib import Path

import bpy
import pytest
from bone_rigs import (
    LEG,
    armature,
    edit_mode,
    empty,
    go_to,
    update,
)
from live_leg import ON_TARGET, TARGET, leg, off

from ik_addon.blender import chains

pytestmark = pytest.mark.usefixtures("fresh")


def rename_by_script(ob: bpy.types.Object, names: dict[str, str]) -> None:
    for old, new in names.items():
        ob.data.bones[old].name = new


def rename_in_edit_mode(ob: bpy.types.Object, names: dict[str, str]) -> None:
    with edit_mode(ob) as bones:
        for old, new in names.items():
            bones[old].name = new


@pytest.mark.parametrize("rename", [rename_by_script, rename_in_edit_mode])
@pytest.mark.parametrize(
    "names",
    [
        {"thigh": "upper"},
        {"foot": "ankle"},
        {"shin": "lower"},
        {"thigh": "a", "shin": "b", "foot": "c"},
        {"thigh": "tmp", "foot": "thigh", "tmp": "foot"},
    ],
    ids=["root", "end", "middle", "all", "root and end swapped"],
)
def test_renamed_bones_stay_in_the_chain(rename: Callable[..., None], names: dict[str, str]) -> None:
    ob = leg()
    ankle = {**{old: old for old in ("thigh", "shin", "foot")}}
    for old, new in names.items():
        ankle = {first: new if now == old else now for first, now in ankle.items()}
    rename(ob, names)
    ob.ik_chains["leg"].target_location[2] += 0.1
    update()
    assert ob.ik_chains["leg"].status == "OK"
    assert off(ob, (0.15, -0.2, 0.3), bone=ankle["foot"]) <= ON_TARGET
    assert (ob.ik_chains["leg"].root_bone, ob.ik_chains["leg"].end_bone) == (ankle["thigh"], ankle["foot"])


@pytest.mark.parametrize("rename", [rename_by_script, rename_in_edit_mode])
def test_a_renamed_target_bone_is_followed(rename: Callable[..., None]) -> None:
    ob = armature(bones=(*LEG, ("control", "", TARGET, (0.15, -0.2, 0.4))))
    chains.add(
        ob, "thigh", "foot", name="leg", use_tail=False,
        target_space="CUSTOM", target=ob, subtarget="control", target_location=(0, 0, 0),
    )  # fmt: skip
    update()
    rename(ob, {"control": "grip"})
    ob.pose.bones["grip"].location = (0.0, 0.1, 0.0)
    update()
    assert ob.ik_chains["leg"].subtarget == "grip"
    assert off(ob, (0.15, -0.2, 0.3)) <= ON_TARGET


def test_names_hold_over_save_and_load(tmp_path: Path) -> None:
    ob = leg()
    rename_by_script(ob, {"thigh": "a", "shin": "b", "foot": "c"})
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "rig.blend"))
    bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "rig.blend"))
    ob = bpy.data.objects["Rig"]
    assert (ob.ik_chains["leg"].root_bone, ob.ik_chains["leg"].end_bone) == ("a", "c")
    assert off(ob, bone="c") <= ON_TARGET


def test_renamed_objects_are_followed() -> None:
    goal = empty("Goal", TARGET)
    ob = leg(target_space="CUSTOM", target=goal, target_location=(0, 0, 0))
    ob.name, goal.name, ob.data.name = "Hero", "Aim", "HeroBones"
    update()
    goal.location.z += 0.1
    update()
    assert off(ob, (0.15, -0.2, 0.3)) <= ON_TARGET
    go_to(9)
    assert ob.ik_chains["leg"].status == "OK"


def test_two_rigs_that_swap_their_names() -> None:
    one, two = leg("One"), leg("Two")
    one.name, two.name, one.name = "Tmp", "One", "Two"
    one.ik_chains["leg"].target_location = (0.1, -0.3, 0.3)
    update()
    assert off(one, (0.1, -0.3, 0.3)) <= ON_TARGET and off(two) <= ON_TARGET
