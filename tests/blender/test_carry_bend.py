# SPDX-License-Identifier: GPL-3.0-or-later
"""Baked with carried bend sides no knee flips; live and without the option all stays as it was."""

from pathlib import Path
from typing import Any

import bpy
import numpy as np
import pytest
from bake_rig import LENGTH, make_walker, poses, rows

from ik_addon.blender import bake, chains, ranges
from ik_addon.blender.ranges import run, solve_range
from ik_addon.cli.arguments import parse
from ik_addon.cli.work import work

FRAMES = np.arange(1, 41)
# A step of the knee over one of the target that is a flip: over to the other side, and that it never is.
FLIP, SMOOTH = 8.0, 3.0


@pytest.fixture
def kicker(fresh: Any) -> Any:
    """A leg whose target swings in 40 frames through the line of its pole, to the front."""
    ob = make_walker(limbs=("a",), frames=40)
    ob.animation_data_clear()
    bpy.context.scene.frame_set(1)
    hip = np.array(ob.pose.bones["thigh.a"].head)
    chain = chains.add(
        *(ob, "thigh.a", "foot.a"),
        name="leg",
        use_tail=False,
        target_space="ARMATURE",
        pole_mode="DIRECTION",
        pole_location=(0.0, -1.0, 0.0),
    )
    for frame in range(1, 41):
        # From straight down to 60 degrees above the pole's line.
        angle = np.radians(-90.0 + 150.0 * (frame - 1) / 39.0)
        chain.target_location = hip + 0.75 * LENGTH * np.array([0.0, -np.cos(angle), np.sin(angle)])
        chain.keyframe_insert("target_location", frame=frame)
    return ob


def baked(ob: Any, frames: tuple[int, int] = (1, 40), step: int = 1, carry: bool = True) -> bake.BakeReport:
    return run(bake.bake(bpy.context.scene, [ob], bake.BakeOptions(frames, step, None, carry)))


def knee_steps(ob: Any) -> float:
    """Largest step of the knee from frame to frame, over that of the target."""
    shin = ob.pose.bones.find("shin.a")
    knee = poses(ob, FRAMES)[:, shin, :3, 3]
    step = 0.75 * LENGTH * np.radians(150.0 / 39.0)
    return float(np.linalg.norm(np.diff(knee, axis=0), axis=1).max() / step)


def off_target(ob: Any) -> float:
    foot = ob.pose.bones.find("foot.a")
    now = poses(ob, FRAMES)[:, foot, :3, 3]
    wanted = []
    for frame in FRAMES:
        bpy.context.scene.frame_set(int(frame))
        wanted.append(np.array(ob.ik_chains[0].target_location))
    return float(np.linalg.norm(now - np.array(wanted), axis=1).max())


def test_the_knee_does_not_flip_and_the_foot_stays_on_its_target(kicker: Any) -> None:
    live, live_knee = poses(kicker, FRAMES), knee_steps(kicker)
    assert live_knee > FLIP, "otherwise there is nothing to carry"
    report = baked(kicker)
    assert knee_steps(kicker) < SMOOTH
    assert off_target(kicker) <= 2e-6 * LENGTH
    now = poses(kicker, FRAMES)
    same = np.abs(now - live).max(axis=(1, 2, 3)) <= 2e-6
    assert same[:18].all() and not same[30:].any(), "as live up to the line, bent to the other side after it"
    assert [note.split(" keeps ")[0] for note in report.notes] == ["'leg'"]
    assert "frames from" in report.notes[0] and "to 40" in report.notes[0]


def test_without_the_option_a_bake_is_what_the_live_chain_shows(kicker: Any) -> None:
    live = poses(kicker, FRAMES)
    assert baked(kicker, carry=False).notes == []
    assert np.abs(poses(kicker, FRAMES) - live).max() <= 2e-6


def test_step_and_second_bake_give_the_same_keys(kicker: Any) -> None:
    every, again, fifth = [], [], []
    for found, step in ((every, 1), (again, 1), (fifth, 5)):
        baked(kicker, step=step)
        found.extend(rows(kicker, bone)[1] for bone in ("thigh.a", "shin.a"))
        bake.unbake([kicker])
    for a, b, c in zip(every, again, fifth, strict=True):
        assert np.array_equal(a, b)
        assert np.abs(np.abs(a[::5]) - np.abs(c[:-1])).max() <= 1e-6, (
            "a quaternion and its negative are one turn"
        )


def test_a_range_solved_in_pieces_is_the_range_in_one(kicker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def solved() -> list[np.ndarray]:
        steps = solve_range(bpy.context.scene, [kicker], FRAMES.tolist(), carry_from=1)
        return [track.rows for track in run(steps).bones["Walker"]]

    whole = solved()
    monkeypatch.setattr(ranges, "CHUNK", 7)
    for a, b in zip(whole, solved(), strict=True):
        assert np.abs(a - b).max() <= 1e-12


def test_the_frames_asked_for_are_handed_out_alone(kicker: Any) -> None:
    asked = [10.5, 35.0, 40.0]
    every = run(solve_range(bpy.context.scene, [kicker], FRAMES.tolist(), carry_from=1)).chains[0]
    some = run(solve_range(bpy.context.scene, [kicker], asked, carry_from=1)).chains[0]
    assert some.frames.tolist() == asked and len(some.residual) == len(some.turned) == 3
    assert np.array_equal(some.turned[1:], every.turned[[34, 39]]) and some.turned[2] > 3.0
    with pytest.raises(ValueError, match="start at 10.5, before 20"):
        run(solve_range(bpy.context.scene, [kicker], asked, carry_from=20))


def test_a_stepped_solver_in_between_starts_the_limb_anew(kicker: Any) -> None:
    """A keyed discrete setting makes another plan for some frames; the limb does not bend there."""
    chain = kicker.ik_chains[0]
    for frame, planar in ((1, False), (36, True), (38, False)):
        chain.use_planar = planar
        chain.keyframe_insert("use_planar", frame=frame)
    track = run(solve_range(bpy.context.scene, [kicker], FRAMES.tolist(), carry_from=1)).chains[0]
    assert (track.turned[30:35] > 3.0).all() and (track.turned[35:] == 0.0).all()


def test_the_operator_takes_it_and_has_it_off_by_default(kicker: Any) -> None:
    for settings, flips in (({}, True), ({"carry_bend": True}, False)):
        assert bpy.ops.ik_chain.bake(**settings) == {"FINISHED"}
        assert (knee_steps(kicker) > FLIP) == flips
        assert bpy.ops.ik_chain.unbake() == {"FINISHED"}


def test_the_command_line_takes_it_for_check_and_bake(kicker: Any, tmp_path: Path) -> None:
    file = str(tmp_path / "kick.blend")
    bpy.ops.wm.save_as_mainfile(filepath=file)
    for verb, extra, words in (
        ("bake", (), 0),
        ("bake", ("--carry-bend",), 1),
        ("check", ("--carry-bend", "--frames=30:40"), 0),
    ):
        output = () if verb == "check" else ("--output", str(tmp_path / "out"))
        result = work(file, parse([verb, *extra, *output, file], "ik_addon"))
        assert result.error is None and result.status == 0
        assert len([w for w in result.warnings if "keeps the bend side" in w]) == words
        if verb == "bake":
            bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "out" / "kick.blend"))
            assert (knee_steps(bpy.data.objects["Walker"]) > FLIP) == (not extra)
        assert result.chains[0]["residual_max"] < 2e-6
