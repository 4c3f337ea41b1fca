# SPDX-License-Identifier: GPL-3.0-or-later
"""The examples run as they are, and what they save is what they promise."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bpy
import numpy as np
import pytest
from bone_rigs import bone_world, go_to, head, world

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def walk(addon: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, bpy.types.Object]]:
    """What the example printed, and the character of the file that it saved, which is open."""
    folder = tmp_path_factory.mktemp("walk") / "not there yet"
    script = [sys.executable, str(ROOT / "examples" / "walk.py"), str(folder)]
    done = subprocess.run(script, capture_output=True, text=True, timeout=120)
    # The bpy module of 4.2 crashes when its process ends, after all its work.
    if bpy.app.version >= (4, 3):
        assert done.returncode == 0, done.stderr
    assert "Saved" in done.stdout, done.stderr
    assert "Error" not in done.stderr and "Traceback" not in done.stderr
    bpy.ops.wm.open_mainfile(filepath=str(folder / "walk.blend"))
    yield done.stdout, bpy.data.objects["Walker"]
    bpy.ops.wm.read_factory_settings(use_empty=True)


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
    """On whole frames and between them, while the body moves 46 mm a frame."""
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
    assert np.linalg.norm(head(ob, "hips") - before) > 0.3


def test_the_hand_stays_on_the_hip(walk: tuple[str, Any]) -> None:
    _, ob = walk
    spots = []
    for frame in range(1, 98, 6):
        go_to(frame)
        spots.append(np.linalg.inv(world(ob)) @ bone_world(ob, "hand.L"))
    assert np.ptp(np.array(spots), axis=0).max() < 1e-5
    assert np.linalg.norm(spots[0][:3, 3] - (0.18, 0.0, 1.0)) < 1e-5


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
