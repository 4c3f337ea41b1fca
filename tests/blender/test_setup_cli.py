# SPDX-License-Identifier: GPL-3.0-or-later
"""Setting up and planting from the command line."""

import json
from pathlib import Path
from typing import Any

import bpy
import numpy as np
import pytest
from bone_rigs import armature, poses, world
from figures import (
    ALL,
    figure,
)

from ik_addon.blender import files, setup
from ik_addon.cli import arguments
from ik_addon.cli.work import work

pytestmark = pytest.mark.usefixtures("fresh")


def do(*argv: object) -> Any:
    options = arguments.parse([str(argument) for argument in argv], "test")
    return work(options.files[0], options)


def test_a_blend_file_with_a_character_and_a_prop(tmp_path: Path) -> None:
    figure(left_out=("hand.R",))
    armature("Prop", [("lid", "", (0, 0, 0), (0, 0, 1))])
    file = tmp_path / "figure.blend"
    bpy.ops.wm.save_as_mainfile(filepath=str(file))
    result = do("setup", file, "--preset", "auto", "--output", tmp_path / "out")
    assert (result.status, result.error) == (0, None)
    assert {chain["chain"]: chain["status_frames"] for chain in result.chains} == dict.fromkeys(
        ALL - {"Arm.R"}, {"OK": 1}
    )
    assert [text.partition(", and")[0] for text in result.warnings] == [
        "'Figure': left out Arm.R: no bone at the end is named as a hand",
        "'Prop' has no bones whose names tell of arms, legs, a spine or a tail",
    ]
    json.loads(result.line())
    bpy.ops.wm.open_mainfile(filepath=result.output)
    assert len(bpy.data.objects["Figure"].ik_chains) == 5
    again = do("setup", result.output, "--preset", "auto", "--in-place")
    assert (again.status, again.error) == (0, None)
    assert "'Figure' is set up already: Spine, Arm.L, Leg.L, Leg.R, Tail" in again.warnings


@pytest.mark.parametrize(
    ("file", "preset", "names"),
    [
        ("bvh_cmu/02_01.bvh", "legs", {"Leg.L", "Leg.R"}),
        ("fox/Fox.glb", "auto", {"Spine", "Foreleg.L", "Foreleg.R", "Hindleg.L", "Hindleg.R", "Tail"}),
        ("fox/Fox.glb", "tails", {"Tail"}),
        ("kaykit/Med_General.glb", "arms", {"Arm.L", "Arm.R"}),
    ],
)
def test_imported_files(file: str, preset: str, names: set[str], shared_data: Path, tmp_path: Path) -> None:
    result = do("setup", shared_data / file, "--preset", preset, "--output", tmp_path)
    (animated,) = result.warnings
    assert result.status == 0 and animated == f"{setup.HOLD_STILL}: {', '.join(sorted(names))}"
    assert {chain["chain"] for chain in result.chains} == names
    assert all(chain["status_frames"] == {"OK": 1} for chain in result.chains)
    bpy.ops.wm.open_mainfile(filepath=result.output)
    (ob,) = (ob for ob in bpy.data.objects if ob.type == "ARMATURE")
    assert set(ob.ik_chains.keys()) == names


def test_a_file_without_limbs_is_an_error(shared_data: Path, tmp_path: Path) -> None:
    file = shared_data / "rigged_simple/rigged_simple.gltf"
    result = do("setup", file, "--preset", "auto", "--output", tmp_path)
    assert result.status == 2
    assert (
        result.error == f"{file}: 'Armature' has no bones whose names tell of arms, legs, a spine or a tail"
    )
    assert list(tmp_path.iterdir()) == []


def test_motion_capture_is_set_up_and_planted_in_one_run(shared_data: Path, tmp_path: Path) -> None:
    """The feet of the recorded walk slide by some 4 % of the leg; planted they stand."""
    result = do(
        "setup", shared_data / "bvh_cmu/02_01.bvh", "--preset", "legs", "--plant", "--output", tmp_path
    )
    assert result.status == 0
    checked = do("check", result.output, "--frames", "1:200")
    contacts = [contact for chain in checked.chains for contact in chain["contacts"]]
    assert len(contacts) >= 2
    leg = leg_length()
    assert max(contact["slide"] for contact in contacts) < 1e-4 * leg
    assert max(contact["slide_fk"] for contact in contacts) > 0.01 * leg


def test_what_is_not_planted_plays_on_as_it_is_animated(shared_data: Path, tmp_path: Path) -> None:
    file = shared_data / "bvh_cmu/02_01.bvh"
    files.load(file)
    fk = poses(bpy.data.objects["02_01"], (1, 60, 200))
    result = do("setup", file, "--preset", "auto", "--plant", "--output", tmp_path)
    assert result.status == 0
    muted = [text.partition("'")[2].partition("'")[0] for text in result.warnings if "is muted" in text]
    assert muted == ["Arm.L", "Arm.R", "Spine"]
    bpy.ops.wm.open_mainfile(filepath=result.output)
    ob = bpy.data.objects["02_01"]
    assert {chain.name for chain in ob.ik_chains if chain.mute} == set(muted)
    moved = np.abs(poses(ob, (1, 60, 200)) - fk).max(axis=(0, 2, 3))
    changed = {ob.pose.bones[place].name for place in np.flatnonzero(moved > 1e-4)}
    assert changed and changed <= {
        bone.name
        for root in ("LeftUpLeg", "RightUpLeg")
        for bone in (ob.data.bones[root], *ob.data.bones[root].children_recursive)
    }


def leg_length() -> float:
    """In the world, of the left leg."""
    (ob,) = (ob for ob in bpy.data.objects if ob.type == "ARMATURE")
    heads = [np.array(ob.data.bones[name].head_local) for name in ("LeftUpLeg", "LeftLeg", "LeftFoot")]
    return float(np.linalg.norm(np.diff(heads, axis=0), axis=1).sum() * world(ob)[0, 0])
