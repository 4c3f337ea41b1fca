# SPDX-License-Identifier: GPL-3.0-or-later
"""The examples run as they are, and what they save is what they promise."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import bpy
import numpy as np
import pytest
from bone_rigs import bone_world, evaluated, go_to, head, world
from bpy_extras.object_utils import world_to_camera_view
from mathutils import Vector

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def made(addon: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], str]]:
    """Runs an example, opens the file that it saved, and hands out what it printed."""
    folder = tmp_path_factory.mktemp("examples") / "not there yet"
    printed: dict[str, str] = {}

    def open_made(name: str) -> str:
        if name not in printed:
            printed[name] = run_example(name, folder)
        bpy.ops.wm.open_mainfile(filepath=str(folder / f"{name}.blend"))
        return printed[name]

    yield open_made
    bpy.ops.wm.read_factory_settings(use_empty=True)


def run_example(name: str, folder: Path) -> str:
    script = [sys.executable, str(ROOT / "examples" / f"{name}.py"), str(folder)]
    done = subprocess.run(script, capture_output=True, text=True, timeout=120)
    # The bpy module of 4.2 crashes when its process ends, after all its work.
    if bpy.app.version >= (4, 3):
        assert done.returncode == 0, done.stderr
    assert "Saved" in done.stdout, done.stderr
    for text in (done.stdout, done.stderr):
        assert "Error" not in text and "Traceback" not in text, text
    return done.stdout


# All examples: what whoever opens one of them sees

EXAMPLES = ("walk", "door", "hip", "foot")
each_example = pytest.mark.parametrize("name", EXAMPLES)


def rig_of_scene() -> bpy.types.Object:
    (ob,) = [ob for ob in bpy.context.scene.objects if ob.type == "ARMATURE"]
    return ob


def body_points(rig: bpy.types.Object) -> np.ndarray:
    """``(n, 3)`` the evaluated skin of the character, in the world."""
    body = evaluated(bpy.data.objects[f"{rig.name} Body"])
    points = np.empty(3 * len(body.data.vertices), np.float32)
    body.data.vertices.foreach_get("co", points)
    return points.reshape(-1, 3) @ world(rig)[:3, :3].T + world(rig)[:3, 3]


def all_frames(step: int = 1) -> range:
    scene = bpy.context.scene
    return range(scene.frame_start, scene.frame_end + 1, step)


def test_every_script_of_the_folder_is_run_here() -> None:
    scripts = {
        path.stem for path in (ROOT / "examples").glob("*.py") if "__main__" in path.read_text("utf-8")
    }
    assert scripts == set(EXAMPLES)
    readme = (ROOT / "README.md").read_text("utf-8")
    assert [name for name in EXAMPLES if f"(examples/{name}.py)" not in readme] == []


@each_example
def test_the_camera_sees_the_whole_character(made: Callable[[str], str], name: str) -> None:
    """On every frame, more than half as tall as the picture, and with nothing before it."""
    made(name)
    scene, rig = bpy.context.scene, rig_of_scene()
    for frame in all_frames(6):
        go_to(frame)
        points = body_points(rig)
        seen = np.array([world_to_camera_view(scene, scene.camera, Vector(p)) for p in points[::5].tolist()])
        assert seen[:, :2].min() > 0.01 and seen[:, :2].max() < 0.99 and seen[:, 2].min() > 0.0
        squats = name == "foot"
        assert np.ptp(seen[:, 1]) > (0.4 if squats else 0.6)
        assert hits(points[::97], rig) > 0.4, "about half of a body faces the camera"


def hits(points: np.ndarray, rig: bpy.types.Object) -> float:
    """The part of some points of the skin that a ray from the camera meets first."""
    scene, depsgraph = bpy.context.scene, bpy.context.evaluated_depsgraph_get()
    eye, met = scene.camera.matrix_world.translation, 0
    for point in points.tolist():
        way = Vector(point) - eye
        found, place, _, _, ob, _ = scene.ray_cast(depsgraph, eye, way.normalized())
        met += found and ob.name == f"{rig.name} Body" and (place - Vector(point)).length < 0.25
    return met / len(points)


@each_example
def test_feet_stand_on_the_ground_and_not_in_it(made: Callable[[str], str], name: str) -> None:
    made(name)
    rig = rig_of_scene()
    lowest = []
    for frame in all_frames():
        go_to(frame)
        lowest.append(body_points(rig)[:, 2].min())
    assert min(lowest) > -0.003 and max(lowest) < 0.003


@each_example
def test_a_file_opens_on_its_subject(made: Callable[[str], str], name: str) -> None:
    made(name)
    scene, rig = bpy.context.scene, rig_of_scene()
    assert bpy.context.view_layer.objects.active == rig and rig.mode == "POSE"
    assert 0 <= rig.ik_chains_index < len(rig.ik_chains)
    assert f"examples/{name}.py" in bpy.data.texts["Read Me"].as_string()
    assert scene.frame_current == scene.frame_start
    areas = [area for screen in bpy.data.screens for area in screen.areas if area.type == "VIEW_3D"]
    assert areas and all(a.spaces.active.region_3d.view_perspective == "CAMERA" for a in areas)


# A hand on a door

HOLD = range(30, 88)


@pytest.fixture
def door(made: Callable[[str], str]) -> bpy.types.Object:
    made("door")
    return bpy.data.objects["Figure"]


def place_of(name: str) -> np.ndarray:
    return np.array(evaluated(bpy.data.objects[name]).matrix_world, np.float64)


def test_the_hand_holds_the_handle_while_the_door_opens(door: bpy.types.Object) -> None:
    handle, misses, turns = [], [], []
    for frame in HOLD:
        go_to(frame)
        grip, hand = place_of("Grip"), bone_world(door, "hand.R")
        handle.append(place_of("Handle"))
        misses.append(np.linalg.norm(hand[:3, 3] - grip[:3, 3]))
        turns.append(np.linalg.inv(grip)[:3, :3] @ hand[:3, :3])
        assert door.ik_chains["hand.R"].target_space == "CUSTOM"
    assert max(misses) < 1e-4
    assert np.ptp(np.array(turns), axis=0).max() < 1e-4, "the hand turns with the handle"
    assert np.linalg.norm(handle[-1][:3, 3] - handle[0][:3, 3]) > 0.3
    assert np.ptp([m[:3, :3] for m in handle], axis=0).max() > 0.3


@pytest.mark.parametrize(
    ("frame", "before", "after"), [(30, "ARMATURE", "CUSTOM"), (88, "CUSTOM", "ARMATURE")]
)
def test_nothing_jumps_where_the_hand_takes_the_handle_or_lets_go(
    door: bpy.types.Object, frame: int, before: str, after: str
) -> None:
    spaces, hands = [], {}
    for at in (frame - 2, frame - 1, frame - 0.01, frame, frame + 1):
        go_to(at)
        spaces.append(door.ik_chains["hand.R"].target_space)
        hands[at] = bone_world(door, "hand.R")
    assert spaces == [before, before, before, after, after]
    across = np.abs(hands[frame] - hands[frame - 0.01]).max()
    usual = max(np.abs(hands[a] - hands[b]).max() for a, b in ((frame - 2, frame - 1), (frame, frame + 1)))
    assert across < 1e-3 and np.abs(hands[frame] - hands[frame - 1]).max() < 2.0 * usual + 1e-3


def test_the_hand_comes_and_goes_with_the_character(door: bpy.types.Object) -> None:
    """Hanging at its side before and after, where the body has taken it."""
    spots = []
    for frame in (1, 132):
        go_to(frame)
        spots.append(np.linalg.inv(world(door)) @ bone_world(door, "hand.R"))
    assert np.abs(spots[0] - spots[1]).max() < 1e-3
    assert np.linalg.norm(world(door)[:3, 3] - np.array((-0.1, -0.1, 0.0))) > 0.3


# A hand on a hip


@pytest.fixture
def hip(made: Callable[[str], str]) -> bpy.types.Object:
    made("hip")
    return bpy.data.objects["Walker"]


def test_the_hand_stays_on_the_hip_of_a_character_that_turns(hip: bpy.types.Object) -> None:
    inside, pelvis, sways = [], [], []
    for frame in all_frames():
        go_to(frame)
        pelvis.append(bone_world(hip, "hips"))
        inside.append(np.linalg.inv(pelvis[-1]) @ bone_world(hip, "hand.L"))
        sways.append(np.linalg.inv(world(hip)) @ bone_world(hip, "hand.L"))
    assert np.ptp(np.array(inside), axis=0).max() < 1e-4
    assert np.ptp(np.array(sways)[:, :3, 3], axis=0).max() > 0.03, "it goes along with the hips"
    assert np.linalg.norm(pelvis[-1][:3, 3] - pelvis[0][:3, 3]) > 2.0
    turned = np.arccos((np.trace(pelvis[0][:3, :3].T @ pelvis[-1][:3, :3]) - 1.0) / 2.0)
    assert np.degrees(turned) > 90.0


@pytest.mark.parametrize("side", ["L", "R"])
def test_its_feet_are_planted_too(hip: bpy.types.Object, side: str) -> None:
    first = 25 if side == "L" else 37
    spots = []
    for frame in range(first + 3, first + 11):
        go_to(frame)
        spots.append(bone_world(hip, f"foot.{side}"))
    assert np.ptp(np.array(spots), axis=0).max() < 1e-4


# A planted foot


@pytest.fixture
def foot(made: Callable[[str], str]) -> bpy.types.Object:
    made("foot")
    return bpy.data.objects["Figure"]


def test_feet_stay_under_a_body_that_moves(foot: bpy.types.Object) -> None:
    left, right, hips, statuses = [], [], [], []
    for frame in all_frames():
        go_to(frame)
        left.append(bone_world(foot, "foot.L"))
        right.append(bone_world(foot, "foot.R"))
        hips.append(bone_world(foot, "hips")[:3, 3])
        statuses.append(foot.ik_chains["leg.R"].status)
        assert foot.ik_chains["leg.L"].status == "OK"
    assert np.ptp(hips, axis=0)[[0, 2]].min() > 0.35, "aside and down"
    assert np.ptp(np.array(left), axis=0).max() < 1e-4
    reached = np.array([status == "OK" for status in statuses])
    assert np.ptp(np.array(right)[reached], axis=0).max() < 1e-4
    assert set(statuses) == {"OK", "TARGET_FAR"} and 4 <= np.count_nonzero(~reached) <= 12


def test_its_note_names_the_frames_that_are_out_of_reach(foot: bpy.types.Object) -> None:
    told = re.search(r"frame (\d+) to (\d+)", bpy.data.texts["Read Me"].as_string())
    far = []
    for frame in all_frames():
        go_to(frame)
        far += [frame] if foot.ik_chains["leg.R"].status == "TARGET_FAR" else []
    assert [int(number) for number in told.groups()] == [far[0], far[-1]]


# The walk


@pytest.fixture
def walk(made: Callable[[str], str]) -> tuple[str, bpy.types.Object]:
    """What the example printed, and the character of the file that it saved, which is open."""
    return made("walk"), bpy.data.objects["Walker"]


def test_the_report_names_every_chain_and_its_residual(walk: tuple[str, Any]) -> None:
    printed, _ = walk
    lines = {line.split()[0]: line for line in printed.splitlines() if line.strip()}
    for chain in ("leg.L", "leg.R", "arm.L", "look"):
        found = re.search(r"([\d.]+) mm +\d+ +([\d.]+) mm +OK 97$", lines[chain])
        assert found, lines[chain]
        assert float(found[1]) < 0.001


def test_the_saved_character_needs_no_chain_any_more(walk: tuple[str, Any]) -> None:
    _, ob = walk
    assert [chain.name for chain in ob.ik_chains if not chain.mute] == []
    go_to(7)
    muted = bone_world(ob, "foot.L")
    ob.ik_chains["leg.L"].target_location = (5, 5, 5)
    go_to(7)
    assert np.array_equal(bone_world(ob, "foot.L"), muted)


def test_planted_feet_stand_still(walk: tuple[str, Any]) -> None:
    """On whole frames and between them, while the body moves 42 mm a frame."""
    _, ob = walk
    for side, contact in (("L", 25), ("R", 37), ("L", 49)):
        spots = []
        for frame in np.arange(contact + 3, contact + 10.1, 0.5):
            go_to(float(frame))
            spots.append(bone_world(ob, f"foot.{side}"))
        whole = np.array(spots[::2])
        assert np.ptp(whole[:, :3, 3], axis=0).max() < 1e-5
        assert np.ptp(whole[:, :3, :3], axis=0).max() < 1e-5
        assert np.ptp(np.array(spots)[:, :3, 3], axis=0).max() < 1e-3
    go_to(28)
    before = head(ob, "hips")
    go_to(35)
    assert np.linalg.norm(head(ob, "hips") - before) > 0.25


def test_the_hand_stays_on_the_hip(walk: tuple[str, Any]) -> None:
    _, ob = walk
    spots = []
    for frame in range(1, 98, 6):
        go_to(frame)
        spots.append(np.linalg.inv(world(ob)) @ bone_world(ob, "hand.L"))
    assert np.ptp(np.array(spots), axis=0).max() < 1e-5
    assert np.linalg.norm(spots[0][:3, 3] - (0.2, 0.03, 1.02)) < 1e-5


def test_the_head_looks_at_the_bird(walk: tuple[str, Any]) -> None:
    _, ob = walk
    bird = bpy.data.objects["Bird"]
    for frame in range(1, 98, 6):
        go_to(frame)
        seen = bone_world(ob, "head")
        way = np.array(bird.matrix_world.translation) - seen[:3, 3]
        ahead = seen[:3, 2] / np.linalg.norm(seen[:3, 2])
        assert np.linalg.norm(np.cross(ahead, way / np.linalg.norm(way))) < 1e-5
        assert ahead @ way > 0.0 and seen[2, 1] > 0.5, "ahead, with the crown up"
