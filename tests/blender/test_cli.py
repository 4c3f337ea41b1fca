# SPDX-License-Identifier: GPL-3.0-or-later
"""The program as pipelines use it: exit status, result lines, files."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import bpy
import numpy as np
import pytest
import walking

from ik_addon.blender import config, files, parts
from ik_addon.cli import arguments, jobs, outputs, results
from ik_addon.cli.work import work
from ik_addon.core.report import length_text

ROOT = Path(__file__).parents[2]
LEG = {"name": "leg", "root_bone": "thigh", "end_bone": "foot", "use_tail": False}
KEYS = {"file", "output", "status", "error", "warnings", "blender", "seconds", "chains", "plot"}
SVG_TEXT = "{http://www.w3.org/2000/svg}text"
CHAIN_KEYS = {
    "armature",
    "chain",
    "solver",
    "frames",
    "residual_max",
    "residual_max_frame",
    "residual_mean",
    "status_frames",
}


def make_character(path: Path, frames: int = 12) -> Path:
    """A .blend file of a leg on hips that move 0.4 m sideways over the frames."""
    bpy.ops.wm.read_homefile(use_empty=True, use_factory_startup=True)
    ob = bpy.data.objects.new("Figure", bpy.data.armatures.new("Figure"))
    bpy.context.collection.objects.link(ob)
    bpy.context.view_layer.objects.active = ob
    bpy.ops.object.mode_set(mode="EDIT")
    parent = None
    joints = [("hips", 1.2), ("thigh", 1.0), ("shin", 0.55), ("foot", 0.1), ("end", 0.0)]
    for (name, z), (_, below) in zip(joints, joints[1:], strict=False):
        bone = ob.data.edit_bones.new(name)
        bone.head, bone.tail, bone.parent = (0.0, -0.05 * (name == "shin"), z), (0, 0, below), parent
        parent = bone
    bpy.ops.object.mode_set(mode="OBJECT")
    scene = bpy.context.scene
    scene.frame_start, scene.frame_end = 1, frames
    for frame, x in ((1, 0.0), (frames, 0.4)):
        ob.pose.bones["hips"].location = (x, 0, 0)
        ob.pose.bones["hips"].keyframe_insert("location", frame=frame)
    scene.frame_set(1)
    files.save(path)
    return path


@pytest.fixture
def character(tmp_path: Path, fresh: Any) -> Path:
    return make_character(tmp_path / "figure.blend")


@pytest.fixture
def rig_json(tmp_path: Path) -> Path:
    path = tmp_path / "rig.json"
    path.write_text(json.dumps({"version": 1, "armatures": {"Figure": [{**LEG, "target_frame": 4}]}}))
    return path


def options(*argv: object) -> arguments.Options:
    return arguments.parse([str(word) for word in argv], "test")


def do(*argv: object) -> results.Result:
    """A verb on one file, in this process."""
    asked = options(*argv)
    return work(asked.files[0], asked)


def program(*argv: object, **kwargs: Any) -> subprocess.CompletedProcess:
    """The program in its own process."""
    command = [sys.executable, "-m", "ik_addon", *map(str, argv)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, **kwargs)


def lines(run: subprocess.CompletedProcess) -> list[dict[str, Any]]:
    """Standard output, all of it as result lines."""
    return [json.loads(line) for line in run.stdout.splitlines()]


# The verbs.


def test_setup_writes_the_chains_and_leaves_the_input(
    character: Path, rig_json: Path, tmp_path: Path
) -> None:
    before = character.read_bytes()
    result = do("setup", character, "--config", rig_json, "--output", tmp_path / "out")
    assert (result.status, result.error) == (0, None)
    assert result.output == str(tmp_path / "out" / "figure.blend")
    assert character.read_bytes() == before
    files.load(tmp_path / "out" / "figure.blend")
    (chain,) = bpy.data.objects["Figure"].ik_chains
    assert (chain.name, chain.end_bone, chain.use_tail) == ("leg", "foot", False)


def test_a_file_that_was_set_up_opens_in_its_solved_pose(
    character: Path, rig_json: Path, tmp_path: Path
) -> None:
    do("setup", character, "--config", rig_json, "--output", tmp_path / "out")
    bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "out" / "figure.blend"), load_ui=False)
    rig = bpy.data.objects["Figure"]
    seen = rig.evaluated_get(bpy.context.evaluated_depsgraph_get())
    assert (seen.pose.bones["foot"].head - rig.ik_chains["leg"].target_location).length < 1e-5


def test_inspect_prints_what_config_reads(character: Path, rig_json: Path, tmp_path: Path) -> None:
    do("setup", character, "--config", rig_json, "--in-place")
    shown = do("inspect", character).config
    again = tmp_path / "again.json"
    again.write_text(json.dumps(shown))
    other = make_character(tmp_path / "other.blend")
    assert do("setup", other, "--config", again, "--in-place").status == 0
    assert do("inspect", other).config == shown


def test_inspect_of_a_rig_without_chains(character: Path) -> None:
    result = do("inspect", character)
    assert (result.status, result.chains) == (0, [])
    assert result.config == {"version": 1, "armatures": {"Figure": []}}


def test_check_reports_each_chain_and_writes_nothing(character: Path, rig_json: Path, tmp_path: Path) -> None:
    names = sorted(os.listdir(tmp_path))
    result = do("check", character, "--config", rig_json)
    (chain,) = result.chains
    assert set(chain) == {*CHAIN_KEYS, "muted_frames", "contacts"}
    assert chain["frames"] == [1, 12] and sum(chain["status_frames"].values()) == 12
    assert chain["muted_frames"] == 0
    # The leg is 0.90 m long and nearly straight: planted at frame 4 it cannot follow the hips to the end.
    assert chain["residual_max_frame"] == 12 and 0.01 < chain["residual_max"] < 0.3
    assert chain["status_frames"]["TARGET_FAR"] > 0
    assert sorted(os.listdir(tmp_path)) == names
    assert len(bpy.data.scenes) == 1


@pytest.fixture
def walk_blend(tmp_path: Path, fresh: Any) -> Path:
    """A leg that walks in FK, with a chain whose target goes along with the character."""
    ob = walking.walker("Figure")
    walking.leg(ob, target_space="ARMATURE")
    files.save(tmp_path / "walk.blend")
    return tmp_path / "walk.blend"


def test_check_reports_contacts(walk_blend: Path) -> None:
    """The character does not move as an object: the target of its chain stays, until it is out of reach."""
    result = do("check", walk_blend)
    (chain,) = result.chains
    assert [set(c) for c in chain["contacts"]] == [{"frames", "slide", "slide_fk", "cause", "message"}] * 3
    assert [tuple(c["frames"]) for c in chain["contacts"]] == list(walking.STANCES)
    assert [c["slide_fk"] for c in chain["contacts"]] == pytest.approx([walking.SLIDE] * 3, abs=1e-6)
    assert [c["cause"] for c in chain["contacts"]] == ["OK", "OK", "TARGET_FAR"]
    shown = results.text(result)
    assert (
        "  contacts of 'leg' of 'Figure': 3, of which 2 hold and 1 slide\n    frames 49 to 60: the tip"
        in shown
    )
    assert results.Result.from_line(result.line()) == result


def test_check_of_every_second_frame_finds_the_same_contacts(walk_blend: Path) -> None:
    (chain,) = do("check", walk_blend, "--step", 2).chains
    found = [c["frames"] for c in chain["contacts"]]
    assert len(found) == 3
    for (first, last), (start, end) in zip(found, walking.STANCES, strict=True):
        assert abs(first - start) <= 2 and abs(last - end) <= 2


def test_check_says_that_a_chain_is_muted(walk_blend: Path) -> None:
    files.load(walk_blend)
    chain = bpy.data.objects["Figure"].ik_chains["leg"]
    chain.mute = True
    files.save(walk_blend)
    result = do("check", walk_blend)
    assert result.chains[0]["muted_frames"] == 60
    assert {c["cause"] for c in result.chains[0]["contacts"]} == {"MUTED"}
    assert "  note: 'leg' of 'Figure' is muted on 60 of 60 frames, and in FK there" in results.text(result)


def test_a_file_without_chains_gets_a_hint(character: Path, capfd: pytest.CaptureFixture) -> None:
    hint = "no chain on Figure: add some with setup, or for one run with --config RIG.json"
    result = do("check", character)
    assert (result.status, result.error) == (results.BAD_INPUT, f"{character}: {hint}")
    result = do("inspect", character)
    assert (result.status, result.warnings) == (0, [hint])
    run = program("inspect", character)
    assert json.loads(run.stdout) == {"version": 1, "armatures": {"Figure": []}}
    assert f"warning: {hint}" in run.stderr


@pytest.mark.parametrize("verb", ["setup", "bake"])
def test_contacts_are_planted_on_the_way(verb: str, tmp_path: Path, fresh: Any) -> None:
    walking.walker("Figure")
    source, rig = tmp_path / "walk.blend", tmp_path / "rig.json"
    files.save(source)
    rig.write_text(json.dumps({"version": 1, "armatures": {"Figure": [LEG]}}))
    result = do(verb, source, "--config", rig, "--plant", "--output", tmp_path / "out")
    assert (result.status, result.warnings) == (0, [])
    files.load(Path(result.output))
    ob = bpy.data.objects["Figure"]
    assert ob.ik_chains["leg"].mute == (verb == "bake")
    assert max(walking.slides(walking.ankle_path(ob), walking.STANCES)) < 1e-6


def test_a_chain_that_cannot_be_planted_is_a_warning(character: Path, rig_json: Path, tmp_path: Path) -> None:
    base = ("setup", character, "--config", rig_json, "--plant", "--output", tmp_path / "out")
    files.load(character)
    (warning,) = do(*base).warnings
    assert warning.startswith(
        "chain 'leg' of 'Figure' was not planted: its tip rests nowhere in frames 1 to 12"
    )


@pytest.mark.parametrize(("limit", "status"), [(0.001, results.ABOVE), (0.5, results.DONE)])
def test_fail_above(character: Path, rig_json: Path, limit: float, status: int) -> None:
    result = do("check", character, "--config", rig_json, "--fail-above", limit)
    assert result.status == status
    if status:
        assert result.error == f"{character}: above {limit} m: 'leg' of 'Figure'"
    assert do("check", character, "--config", rig_json, "--fail-above", limit, "--frames", "4:4").status == 0


def test_a_broken_chain_is_above_any_limit(character: Path, rig_json: Path) -> None:
    do("setup", character, "--config", rig_json, "--in-place")
    files.load(character)
    bpy.data.objects["Figure"].ik_chains["leg"].end_bone = "none"
    files.save(character)
    (chain,) = do("check", character).chains
    assert chain["status_frames"] == {"BROKEN": 12} and "'none' does not exist" in chain["message"]
    assert do("check", character, "--fail-above", 100).status == results.ABOVE


def foot_path(path: Path, frames: range) -> np.ndarray:
    """Where the foot is on each frame of a file, as Blender shows it."""
    files.load(path)
    rig, scene = bpy.data.objects["Figure"], bpy.context.scene
    found = []
    for frame in frames:
        scene.frame_set(frame)
        seen = rig.evaluated_get(bpy.context.evaluated_depsgraph_get())
        found.append(seen.matrix_world @ seen.pose.bones["foot"].head)
    return np.array(found)


def test_bake_writes_the_solved_motion_as_keys(character: Path, rig_json: Path, tmp_path: Path) -> None:
    before = character.read_bytes()
    result = do("bake", character, "--config", rig_json, "--output", tmp_path / "baked")
    (chain,) = result.chains
    assert (result.status, result.warnings) == (0, [])
    assert set(chain) == CHAIN_KEYS and chain["frames"] == [1, 12]
    assert character.read_bytes() == before
    do("setup", character, "--config", rig_json, "--output", tmp_path / "live")
    live = foot_path(tmp_path / "live" / "figure.blend", range(1, 13))
    baked = foot_path(tmp_path / "baked" / "figure.blend", range(1, 13))
    assert np.abs(live - baked).max() < 2e-6
    assert bpy.data.objects["Figure"].ik_chains["leg"].mute


def test_bake_takes_frames_and_fails_above(character: Path, rig_json: Path, tmp_path: Path) -> None:
    base = ("bake", character, "--config", rig_json, "--output", tmp_path / "out", "--fail-above", 0.001)
    result = do(*base, "--frames", "3:5", "--step", 2)
    assert (result.status, result.chains[0]["frames"]) == (0, [3, 5])
    result = do(*base)
    assert result.status == results.ABOVE and Path(result.output).is_file()


def test_bake_of_chains_that_cannot_be_baked(character: Path, rig_json: Path, tmp_path: Path) -> None:
    do("setup", character, "--config", rig_json, "--in-place")
    files.load(character)
    rig = bpy.data.objects["Figure"]
    other = rig.ik_chains.add()
    other.name, other.root_bone, other.end_bone = "other", "none", "none"
    files.save(character)
    base = ("bake", character, "--output", tmp_path / "out")
    result = do(*base)
    assert result.status == 0 and [c["chain"] for c in result.chains] == ["leg"]
    (warning,) = result.warnings
    assert warning.startswith("chain 'other' of 'Figure' was not baked: ") and "'none'" in warning
    result = do(*base, "--fail-above", 100)
    assert result.status == results.ABOVE and "'other' of 'Figure', which is broken" in result.error
    result = do(*base, "--chains", "other", "--output", tmp_path / "none")
    assert result.status == results.BAD_INPUT and "'other' of 'Figure' was not baked" in result.error
    assert not (tmp_path / "none").exists()


def test_frames_step_and_choice_of_chains(character: Path, rig_json: Path) -> None:
    base = ("check", character, "--config", rig_json)
    (chain,) = do(*base, "--frames", "-2:9", "--step", 5).chains
    assert chain["frames"] == [-2, 8] and sum(chain["status_frames"].values()) == 3
    assert len(do(*base, "--chains", "l?g", "--armature", "Figure").chains) == 1
    for choice, cause in (
        (("--chains", "arm*"), "no chain matches 'arm*'"),
        (("--armature", "Other"), "no armature 'Other' in scene 'Scene'"),
    ):
        result = do(*base, *choice)
        assert (result.status, result.error) == (results.BAD_INPUT, f"{character}: {cause}")


def test_a_file_without_chains_has_nothing_to_check(character: Path) -> None:
    result = do("check", character)
    assert result.status == results.BAD_INPUT and "no chain on Figure" in result.error


def test_a_wrong_configuration_is_named_with_the_file(character: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.json"
    wrong.write_text(json.dumps({"version": 1, "armatures": {"Figure": [{**LEG, "end_bone": "fot"}]}}))
    result = do("setup", character, "--config", wrong, "--output", tmp_path / "out")
    assert result.status == results.BAD_INPUT and result.output is None
    for name in (character, wrong, "armature 'Figure'", "chain 'leg'", "key 'end_bone'", "'fot'"):
        assert str(name) in result.error
    assert not (tmp_path / "out").exists()


def test_chains_in_another_scene_are_said(character: Path, rig_json: Path) -> None:
    do("setup", character, "--config", rig_json, "--in-place")
    files.load(character)
    scene = bpy.data.scenes.new("Empty")
    bpy.context.window.scene = scene
    files.save(character)
    result = do("inspect", character)
    assert result.warnings == ["armature 'Figure' is not in scene 'Empty': left out"]


def test_an_internal_fault_is_status_1_and_one_line(
    character: Path, rig_json: Path, monkeypatch: Any, capsys: Any
) -> None:
    def break_down(*_: object) -> None:
        raise ZeroDivisionError("two\nlines")

    monkeypatch.setattr(config, "apply", break_down)
    result = do("check", character, "--config", rig_json)
    assert result.status == results.FAULT
    assert result.error == f"{character}: internal fault: ZeroDivisionError: two lines"
    assert "Traceback" in capsys.readouterr().err


# The command line.


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["play", "a.blend"],
        ["check"],
        ["check", "a.blend", "--frames", "5"],
        ["check", "a.blend", "--frames", "9:1"],
        ["check", "a.blend", "--frames", "1:b"],
        ["check", "a.blend", "--step", "0"],
        ["check", "a.blend", "--jobs", "-1"],
        ["check", "a.blend", "--fail-above", "nan"],
        ["check", "a.blend", "--fail-above", "-1"],
        ["check", "a.blend", "--js"],
        ["setup", "a.blend", "--output", "out"],
        ["setup", "a.blend", "--config", "rig.json"],
        ["setup", "a.blend", "--config", "rig.json", "--output", "out", "--in-place"],
        ["inspect", "a.blend", "--fail-above", "1"],
    ],
)
def test_wrong_usage_ends_with_2(argv: list[str], capsys: Any) -> None:
    with pytest.raises(SystemExit) as stop:
        options(*argv)
    assert stop.value.code == 2
    shown = capsys.readouterr()
    assert shown.out == "" and "error: " in shown.err


def test_a_worker_is_asked_the_same() -> None:
    """The command line of one file's process says all that the whole one did."""
    asked = options(
        *(
            "check",
            "--config",
            "rig.json",
            "--frames",
            "-7:3",
            "--step",
            2,
            "--chains",
            "l*",
            "--armature",
            "A B",
        ),
        *("--fail-above", 0.25, "--enable-autoexec", "--carry-bend", "--jobs", 3),
        *("--json", "--", "-a.blend", "b.blend"),
    )
    assert asked.files == ("-a.blend", "b.blend") and asked.frames == (-7, 3)
    one = options(*asked.arguments("-a.blend", Path("line"), Path("plot.svg")))
    kept = ("verb", "config", "frames", "step", "carry_bend", "chains", "armature", "fail_above")
    kept += ("enable_autoexec",)
    assert one.carry_bend
    assert {key: getattr(one, key) for key in kept} == {key: getattr(asked, key) for key in kept}
    assert (one.files, one.report, one.in_process) == (("-a.blend",), Path("line"), True)
    assert outputs.plot_paths(one) == [Path("plot.svg")]
    without = options(*asked.arguments("-a.blend", Path("line"), None))
    assert outputs.plot_paths(without) == [None]


def test_no_output_hurts_an_input_or_another_output(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    for folder in (a, b):
        folder.mkdir()
    base = ("setup", "--config", "rig.json")

    def refused(*argv: object) -> list[int]:
        return sorted(outputs.refusals(options(*base, *argv)))

    assert refused(a / "x.blend", "--output", a) == [0]
    assert refused(a / "x.blend", "--output", tmp_path / "b" / ".." / "a") == [0]
    assert refused(a / "x.blend", b / "x.blend", "--output", b) == [0, 1]
    assert refused(a / "x.blend", a / "x.glb", a / "y.glb", "--output", b) == [1]
    assert refused(a / "x.glb", "--output", a) == []
    assert refused(a / "x.blend", a / "x.glb", a / "x.blend", "--in-place") == [1, 2]
    (b / "link.blend").symlink_to(a / "x.blend")
    assert refused(a / "x.blend", b / "link.blend", "--in-place") == [1]
    assert outputs.destination(str(b / "link.blend"), options(*base, "x", "--in-place")) == a / "x.blend"


@pytest.mark.parametrize(
    ("statuses", "status"), [([], 0), ([0, 0], 0), ([0, 3], 3), ([3, 2, 0], 2), ([3, 2, 1, 0], 1)]
)
def test_the_worst_status_counts(statuses: list[int], status: int) -> None:
    assert results.worst(statuses) == status


def test_text_for_people(character: Path, rig_json: Path) -> None:
    text = results.text(do("check", character, "--config", rig_json)).splitlines()
    assert text[0].startswith(f"{character}: 1 chain, ")
    assert text[1].split()[:4] == ["armature", "chain", "solver", "frames"]
    assert text[2].split()[:4] == ["Figure", "leg", "TWO_BONE", "1-12"] and "TARGET_FAR" in text[2]
    assert results.text(do("check", "no.blend")) == "no.blend: error: does not exist"


# The plot beside the report.


def plots(*argv: object) -> list[str | None]:
    return [path and path.as_posix() for path in outputs.plot_paths(options(*argv))]


def test_a_plot_lies_beside_the_report_and_has_its_name() -> None:
    assert plots("check", "a/walk.blend", "--report", "out/report.json") == ["out/report.svg"]
    assert plots("check", "walk.blend", "--report", "out/v1.2.jsonl") == ["out/v1.2.svg"]
    assert plots("check", "walk.blend", "--report", "lines") == ["lines.svg"]
    assert plots("check", "walk.blend", "--report", "odd.svg") == ["odd.svg.svg"]
    several = ("a/walk.blend", "b/Walk.fbx", "walk-2.bvh", "run.blend")
    assert plots("bake", *several, "--output", "o", "--report", "r.json") == [
        "r.walk.svg",
        "r.Walk-2.svg",
        "r.walk-2-2.svg",
        "r.run.svg",
    ]


def test_no_plot_without_a_range_or_a_report_that_is_a_file() -> None:
    assert plots("check", "a.blend") == plots("bake", "a.blend", "--output", "o") == [None]
    assert plots("check", "a.blend", "--report", os.devnull) == [None]
    assert plots("inspect", "a.blend", "--report", "r.json") == [None]
    assert plots("setup", "a.blend", "--config", "r", "--output", "o", "--report", "r.json") == [None]


@pytest.mark.parametrize("verb", ["check", "bake"])
@pytest.mark.parametrize("way", [(), ("--in-process",)])
def test_check_and_bake_plot_beside_the_report(
    character: Path, rig_json: Path, tmp_path: Path, verb: str, way: tuple[str, ...]
) -> None:
    out = ("--output", tmp_path / "out") if verb == "bake" else ()
    report, plot = tmp_path / "report.json", tmp_path / "report.svg"
    run = program(verb, character, "--config", rig_json, *out, "--report", report, "--json", *way)
    (line,) = lines(run)
    assert (run.returncode, line["plot"]) == (0, str(plot))
    assert report.read_text() == run.stdout
    shown = ["".join(text.itertext()) for text in ElementTree.parse(plot).iter(SVG_TEXT)]
    assert shown[0] == "figure.blend: residual, frames 1 to 12"
    (chain,) = line["chains"]
    assert f"max {length_text(chain['residual_max'])} at frame 12, mean" in " ".join(shown)
    assert "Figure / leg" in shown[3] and {"OK", "TARGET_FAR"} <= set(shown)
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix in (".svg", ".part")) == [
        "report.svg"
    ]


def test_files_that_fail_have_no_plot_also_not_that_of_the_last_run(
    character: Path, rig_json: Path, tmp_path: Path
) -> None:
    report = tmp_path / "report.json"
    base = ("--config", rig_json, "--report", report, "--json")
    found = lines(program("check", character, tmp_path / "none.blend", *base))
    assert [line["plot"] for line in found] == [str(tmp_path / "report.figure.svg"), None]
    (tmp_path / "report.svg").write_text("of the run before")
    (line,) = lines(program("check", tmp_path / "none.blend", *base))
    assert line["plot"] is None and not (tmp_path / "report.svg").exists()


def test_a_plot_that_cannot_be_written_is_an_error_and_leaves_nothing(
    character: Path, rig_json: Path, tmp_path: Path
) -> None:
    (tmp_path / "report.svg").mkdir()
    asked = options("bake", character, "--config", rig_json, "--output", tmp_path / "out")
    result = work(asked.files[0], asked, plot=tmp_path / "report.svg")
    assert result.status == results.BAD_INPUT and result.plot is None
    assert result.error.startswith(f"{character}: {tmp_path / 'report.svg'}: cannot be written: ")
    assert not (tmp_path / "out").exists()
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".part")]


def test_text_shows_lengths_as_people_read_them(character: Path, rig_json: Path, tmp_path: Path) -> None:
    asked = options("check", character, "--config", rig_json, "--frames", "4:6")
    result = work(asked.files[0], asked, plot=tmp_path / "report.svg")
    text = results.text(result).splitlines()
    assert " mm " in text[2] and "0.000000 m" not in text[2]
    assert text[3] == f"  plot: {tmp_path / 'report.svg'}"


# One process a file.


def test_each_file_has_its_line_in_order(
    character: Path, rig_json: Path, tmp_path: Path, shared_data: Path
) -> None:
    """Two good, three bad; whichever ends first, and whatever Blender prints."""
    broken = tmp_path / "broken.glb"
    broken.write_bytes(b"glTF")
    report = tmp_path / "report.jsonl"
    named = [
        shared_data / "bvh_cmu" / "cmu_12_01_walk.bvh",
        character,
        broken,
        tmp_path / "none.blend",
        character,
    ]
    run = program(
        *("setup", *named, "--config", rig_json, "--output", tmp_path / "out"),
        *("--jobs", 3, "--json", "--report", report),
    )
    found = lines(run)
    assert [line["file"] for line in found] == [str(name) for name in named]
    assert [line["status"] for line in found] == [2, 0, 2, 2, 2]
    assert run.returncode == 2
    assert all(set(line) == KEYS for line in found)
    assert "unknown armature 'Figure'" in found[0]["error"]
    assert "is the output of" in found[4]["error"]
    assert report.read_text() == run.stdout
    assert sorted(os.listdir(tmp_path / "out")) == ["figure.blend"]
    assert run.stderr == ""


def test_inspect_on_standard_output_is_a_configuration(
    character: Path, rig_json: Path, tmp_path: Path
) -> None:
    assert program("setup", character, "--config", rig_json, "--in-place").returncode == 0
    run = program("inspect", character)
    assert run.returncode == 0
    config.parse(run.stdout, "standard output")
    assert json.loads(run.stdout)["armatures"]["Figure"][0]["name"] == "leg"
    run = program("inspect", tmp_path / "none.blend")
    assert (run.returncode, run.stdout) == (2, "") and "does not exist" in run.stderr


def test_only_our_lines_on_standard_output_without_a_process_a_file(character: Path, rig_json: Path) -> None:
    """What Blender prints goes to standard error, also what its C library held back."""
    run = program("check", character, "--config", rig_json, "--json", "--in-process", "--fail-above", 0)
    assert run.returncode == results.ABOVE
    (line,) = lines(run)
    assert line["file"] == str(character)
    assert "Read blend" in run.stderr


def test_help_without_blender_and_one_sentence_where_it_is_needed() -> None:
    run = subprocess.run([sys.executable, "-c", HIDE_BPY, "--help"], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0 and "exit status" in run.stdout
    run = subprocess.run(
        [sys.executable, "-c", HIDE_BPY, "check", "a.blend"], cwd=ROOT, capture_output=True, text=True
    )
    assert run.returncode == 2 and len(run.stderr.splitlines()) == 1 and "pip install bpy" in run.stderr


HIDE_BPY = """
import importlib.util, runpy, sys
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name == "bpy" else find(name, package)
sys.modules["bpy"] = None
runpy.run_module("ik_addon", run_name="__main__", alter_sys=True)
"""


def worker(body: str) -> list[str]:
    """A command in place of the program, for how it may end. It knows its file, report, output and plot."""
    return [sys.executable, "-c", WORKER + body]


WORKER = """
import os, pathlib, signal, sys, time
file, report = sys.argv[-1], next(word for word in sys.argv if word.startswith("--report="))[9:]
folder = pathlib.Path(next(word for word in sys.argv if word.startswith("--output="))[9:])
name = pathlib.Path(file).stem + ".blend"
half = folder / f".{name}.{os.getpid()}.part@"
plot = pathlib.Path(next(word for word in sys.argv if word.startswith("--plot="))[7:])
half_plot = plot.parent / f".{plot.name}.{os.getpid()}.part"
line = '{"file": "%s", "status": 0}' % file
"""
DIES_HALFWAY = """
if file == "b.blend":
    half.write_text("half")
    half_plot.write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
pathlib.Path(report).write_text(line)
"""


@pytest.fixture
def out(tmp_path: Path) -> Path:
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "b.blend").write_text("old")
    return folder


def batch(out: Path) -> arguments.Options:
    report = out / "report.json"
    return options("bake", "a.blend", "b.blend", "c.blend", "--output", out, "--jobs", 2, "--report", report)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no such signal on this system")
def test_a_crash_is_that_files_fault_alone_and_leaves_nothing(out: Path) -> None:
    found = list(jobs.results_of_all(batch(out), worker(DIES_HALFWAY)))
    assert [(line.file, line.status) for line in found] == [("a.blend", 0), ("b.blend", 1), ("c.blend", 0)]
    assert found[1].error == "b.blend: its process was ended by signal SIGKILL"
    assert os.listdir(out) == ["b.blend"] and (out / "b.blend").read_text() == "old"


def test_a_process_that_only_ends_badly_has_done_its_work(out: Path) -> None:
    body = "pathlib.Path(report).write_text(line); os._exit(5)"
    assert [line.status for line in jobs.results_of_all(batch(out), worker(body))] == [0, 0, 0]


def test_the_log_of_a_fault_is_shown(out: Path, capsys: Any) -> None:
    found = list(jobs.results_of_all(batch(out), worker("print('so it was'); sys.exit(7)")))
    assert found[0].error == "a.blend: its process ended with status 7 and no report"
    assert capsys.readouterr().err.count("so it was") == 3


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "nothing happened in a minute"
        time.sleep(0.01)


def test_results_come_as_soon_as_their_turn_has_come(out: Path) -> None:
    body = "pathlib.Path(report).write_text(line) if file == 'a.blend' else time.sleep(600)"
    running = jobs.results_of_all(batch(out), worker(body))
    assert next(running).file == "a.blend"
    running.close()


@pytest.mark.skipif(os.name == "nt", reason="no such signal on this system")
def test_a_run_that_is_ended_takes_its_processes_and_half_files_along(out: Path) -> None:
    argv = ["bake", "a.blend", "b.blend", "--output", str(out), "--jobs", "2", "--report", str(out / "r")]
    body = "half.write_text('half'); half_plot.write_text('half'); time.sleep(600)"
    script = f"""
import signal, sys
from ik_addon.cli import arguments, jobs, program
signal.signal(signal.SIGTERM, program._terminated)
asked = arguments.parse({argv!r}, "test")
list(jobs.results_of_all(asked, {worker(body)!r}))
"""
    run = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT)
    wait_for(lambda: len(os.listdir(out)) == 5)
    run.terminate()
    assert run.wait(60) == 128 + signal.SIGTERM
    assert os.listdir(out) == ["b.blend"]
    assert parts.temporary(out / "b.blend", 1).name == ".b.blend.1.part"
