# SPDX-License-Identifier: GPL-3.0-or-later
"""Files are read without running them and written whole or not at all."""

import os
import shutil
import time
from pathlib import Path
from typing import Any

import bpy
import pytest

from ik_addon.blender import files, parts

FIRST_FRAMES = 20


def motion(frames: int, promised: int | None = None) -> str:
    """A BVH clip of two joints at 30 frames a second."""
    lines = [
        "HIERARCHY", "ROOT hips", "{", "OFFSET 0 0 0",
        "CHANNELS 6 Xposition Yposition Zposition Zrotation Xrotation Yrotation",
        "JOINT leg", "{", "OFFSET 0 -1 0", "CHANNELS 3 Zrotation Xrotation Yrotation",
        "End Site", "{", "OFFSET 0 -1 0", "}", "}", "}",
        "MOTION", f"Frames: {promised or frames}", "Frame Time: 0.0333333",
        *(f"0 0 0 {k} 0 0 0 {k} 0" for k in range(frames)),
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    path = tmp_path / "clip.bvh"
    path.write_text(motion(FIRST_FRAMES))
    return path


@pytest.fixture
def blend(clip: Path, tmp_path: Path, fresh: Any) -> Path:
    """A saved file with the clip in it."""
    files.load(clip)
    files.save(tmp_path / "clip.blend")
    return tmp_path / "clip.blend"


def scene_range() -> tuple[int, int, int]:
    scene = bpy.context.scene
    return scene.frame_start, scene.frame_end, scene.frame_current


def armatures() -> list[str]:
    return [ob.name for ob in bpy.data.objects if ob.type == "ARMATURE"]


@pytest.mark.parametrize(
    ("name", "frames", "rate"),
    [
        ("fox/Fox.glb", (0, 82, 0), 24),
        ("cesium_man/cesium_man.gltf", (0, 48, 0), 24),
        ("bvh_cmu/cmu_12_01_walk.bvh", (1, 524, 1), 120),
        ("bvh_cmu/jumping_jacks.bvh", (1, 125, 1), 30),
    ],
)
def test_imports_bring_their_frame_range(
    fresh: Any, shared_data: Path, name: str, frames: tuple, rate: int
) -> None:
    files.load(shared_data / name)
    render = bpy.context.scene.render
    assert scene_range() == frames
    assert round(render.fps / render.fps_base, 1) == rate
    assert len(armatures()) == 1


def test_fractional_keys_lie_inside_the_frame_range(fresh: Any, shared_data: Path) -> None:
    files.load(shared_data / "kaykit" / "Med_General.glb")
    action = bpy.data.objects[armatures()[0]].animation_data.action
    first, last, _ = scene_range()
    assert first <= action.frame_range[0] < first + 1 and last - 1 < action.frame_range[1] <= last


def test_vrm_is_read_as_the_gltf_it_is(fresh: Any, shared_data: Path, tmp_path: Path) -> None:
    shutil.copy(shared_data / "fox" / "Fox.glb", tmp_path / "fox.VRM")
    files.load(tmp_path / "fox.VRM")
    assert armatures() == ["root"]


def test_fbx(clip: Path, tmp_path: Path, fresh: Any) -> None:
    files.load(clip)
    bpy.ops.export_scene.fbx(filepath=str(tmp_path / "clip.fbx"), object_types={"ARMATURE"})
    files.load(tmp_path / "clip.fbx")
    first, last, current = scene_range()
    assert last - first == FIRST_FRAMES - 1 and current == first
    assert len(armatures()) == 1


def test_one_frame_and_no_animation(fresh: Any, tmp_path: Path) -> None:
    path = tmp_path / "pose.bvh"
    path.write_text(motion(1))
    files.load(path)
    assert scene_range() == (1, 1, 1)


def test_nothing_stays_of_the_file_before(blend: Path, clip: Path) -> None:
    bpy.data.objects.new("left over", None).use_fake_user = True
    files.load(clip)
    assert [ob.name for ob in bpy.data.objects] == ["clip"]
    files.load(blend)
    assert Path(bpy.data.filepath) == blend and armatures() == ["clip"]


def test_scripts_do_not_run_and_that_is_said(blend: Path, tmp_path: Path) -> None:
    rig = bpy.data.objects["clip"]
    curve = rig.driver_add("location", 0)
    curve.driver.expression = "__import__('os').getpid()"
    text = bpy.data.texts.new("startup.py")
    text.write(f"open({str(tmp_path / 'ran')!r}, 'w')")
    text.use_module = True
    path = tmp_path / "scripted.blend"
    files.save(path)
    (warning,) = files.load(path)
    assert warning.startswith("scripts were not run")
    assert not (tmp_path / "ran").exists()
    assert files.load(path, use_scripts=True) == []
    assert (tmp_path / "ran").exists()
    assert files.load(blend) == []


def test_missing_linked_files_are_said(blend: Path, tmp_path: Path) -> None:
    library = tmp_path / "library.blend"
    shutil.copy(blend, library)
    with bpy.data.libraries.load(str(library), link=True) as (there, here):
        here.objects = there.objects
    bpy.context.scene.collection.objects.link(here.objects[0])
    files.save(tmp_path / "linking.blend")
    library.unlink()
    assert files.load(tmp_path / "linking.blend") == [f"linked file {library} does not exist"]


def refused(path: Path) -> str:
    with pytest.raises(files.FileError) as caught:
        files.load(path)
    text = str(caught.value)
    assert text.startswith(f"{path}: ") and "\n" not in text and len(text) < len(str(path)) + 300
    return text


BAD = {
    "text.blend": b"no file of Blender",
    "header.blend": b"BLENDER-v405" + b"x" * 400,
    "empty.blend": b"",
    "text.glb": b"glTF, but no more",
    "cut.gltf": b'{"asset": {"version": "2.0"}, "nodes": [',
    "lost.gltf": b'{"asset": {"version": "2.0"}, "buffers": [{"uri": "none%s.bin", "byteLength": 9}],'
    b'"bufferViews": [{"buffer": 0, "byteLength": 9}], "images": [{"bufferView": 0}],'
    b'"textures": [{"source": 0}], "materials": [{"emissiveTexture": {"index": 0}}],'
    b'"meshes": [{"primitives": [{"attributes": {"POSITION": 0}, "material": 0}]}],'
    b'"accessors": [{"bufferView": 0, "componentType": 5126, "count": 1, "type": "VEC3"}],'
    b'"scenes": [{"nodes": [0]}], "nodes": [{"mesh": 0}]}' % (b"e" * 9000),
    "text.bvh": b"hello\n",
    "empty.bvh": b"",
    "cut.bvh": motion(9).encode()[:200],
    "text.fbx": b"Kaydara FBX Binary  \0, but no more",
}


@pytest.mark.parametrize("name", BAD)
def test_broken_files_are_refused(fresh: Any, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(BAD[name])
    assert "Blender cannot read it" in refused(tmp_path / name)


def test_files_cut_in_the_middle_are_refused(fresh: Any, shared_data: Path, tmp_path: Path) -> None:
    for source in ("fox/Fox.glb", "quaternius_blend/Dog.blend"):
        whole = (shared_data / source).read_bytes()
        half = tmp_path / Path(source).name
        half.write_bytes(whole[: len(whole) // 2])
        refused(half)
    (tmp_path / "half.bvh").write_text(motion(12, promised=20))
    assert "12 of 20 frames" in refused(tmp_path / "half.bvh")


def test_what_is_no_character_is_refused(fresh: Any, tmp_path: Path) -> None:
    files.save(tmp_path / "empty.blend")
    (tmp_path / "empty.gltf").write_text('{"asset": {"version": "2.0"}}')
    (tmp_path / "notes.txt").write_text("hello")
    assert "holds no armature" in refused(tmp_path / "empty.blend")
    assert "holds no armature" in refused(tmp_path / "empty.gltf")
    assert "unknown kind of file '.txt'; known are .blend, .glb" in refused(tmp_path / "notes.txt")
    assert "does not exist" in refused(tmp_path / "none.blend")
    assert "is a folder" in refused(tmp_path)


def listing(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_saving_makes_the_folder_and_leaves_one_file(blend: Path, tmp_path: Path) -> None:
    source = blend.read_bytes()
    files.load(blend)
    for _ in range(2):
        files.save(tmp_path / "out" / "deep" / "clip.blend")
    assert listing(tmp_path / "out" / "deep") == ["clip.blend"]
    assert Path(bpy.data.filepath) == blend and blend.read_bytes() == source


def test_relative_paths_follow_into_another_folder(blend: Path, tmp_path: Path) -> None:
    picture = tmp_path / "picture.png"
    image = bpy.data.images.new("picture", 4, 4)
    image.filepath_raw, image.file_format = str(picture), "PNG"
    image.save()
    image.use_fake_user = True
    files.load(blend)
    image = bpy.data.images.load(str(picture))
    image.use_fake_user = True
    image.filepath = "//picture.png"
    files.save(tmp_path / "out" / "clip.blend")
    files.load(tmp_path / "out" / "clip.blend")
    (image,) = bpy.data.images
    assert image.filepath.startswith("//")
    assert Path(bpy.path.abspath(image.filepath)).resolve() == picture.resolve()


def test_a_compressed_file_stays_compressed(blend: Path, tmp_path: Path) -> None:
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "small.blend"), compress=True)
    files.load(tmp_path / "small.blend")
    files.save(tmp_path / "out.blend")
    assert (tmp_path / "out.blend").read_bytes()[:4] == (tmp_path / "small.blend").read_bytes()[:4]


def test_a_failed_save_keeps_the_old_file(blend: Path, tmp_path: Path, monkeypatch: Any) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "clip.blend").write_text("old")

    def no_room(_from: Path, _to: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", no_room)
    with pytest.raises(files.FileError, match=r"clip\.blend: cannot be written: No space left"):
        files.save(folder / "clip.blend")
    assert (folder / "clip.blend").read_text() == "old"
    assert listing(folder) == ["clip.blend"]


def test_a_folder_that_is_a_file_is_named(blend: Path, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(files.FileError, match=r"clip\.blend: cannot be written"):
        files.save(tmp_path / "out" / "clip.blend")


def test_leftovers_of_killed_runs_are_removed(blend: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    old, young = (parts.temporary(folder / "clip.blend", pid) for pid in (11, 12))
    other = parts.temporary(folder / "other.blend", 11)
    for path in (old, old.with_name(old.name + "@"), young, other):
        path.write_text("half")
    for path in (old, old.with_name(old.name + "@"), other):
        os.utime(path, (time.time() - 7200,) * 2)
    files.save(folder / "clip.blend")
    assert listing(folder) == sorted([young.name, other.name, "clip.blend"])
