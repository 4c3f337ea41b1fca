# SPDX-License-Identifier: GPL-3.0-or-later
"""Read characters from files and write them, without ever touching what was read.

.blend files are opened; .glb, .gltf, .vrm, .fbx and .bvh are imported into an empty file
whose frame range becomes that of the animation. Files are written under a temporary name
beside the final one and moved into place, so that no half file ever has the final name.
"""

from __future__ import annotations

import math
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import addon_utils
import bpy

from . import compat, parts

LONGEST_CAUSE = 200


class FileError(ValueError):
    """What is wrong with a file, in one sentence that begins with its name."""


def load(path: Path, use_scripts: bool = False) -> list[str]:
    """Open or import a file in place of the open one.

    Args:
        use_scripts: let the scripts and scripted drivers of a .blend file run.

    Returns:
        warnings, a sentence each: the file was read, but its poses may not be what its
        author saw.

    Raises:
        FileError: when it is missing, of an unknown kind, cannot be read, or holds no armature.
    """
    if path.is_dir():
        raise FileError(f"{path}: is a folder, not a file")
    if not path.is_file():
        raise FileError(f"{path}: does not exist")
    suffix = path.suffix.lower()
    if suffix == ".blend":
        _call(path, bpy.ops.wm.open_mainfile, use_scripts=use_scripts, load_ui=False)
    elif suffix in IMPORTERS:
        bpy.ops.wm.read_homefile(use_empty=True, use_factory_startup=True, load_ui=False)
        IMPORTERS[suffix](path)
    else:
        known = ", ".join([".blend", *IMPORTERS])
        raise FileError(f"{path}: unknown kind of file '{path.suffix}'; known are {known}")
    check_content(path)
    if suffix != ".blend":
        _fit_frame_range()
    return list(_warnings())


def check_content(path: Path | str) -> None:
    """Raise a FileError that names `path` when the open file has nothing to work on."""
    if not any(ob.type == "ARMATURE" for ob in bpy.data.objects):
        raise FileError(f"{path}: holds no armature")


def _call(path: Path, operator: Callable[..., set[str]], **options: object) -> None:
    """Run one of Blender's operators on a file; its failure becomes a FileError of one line."""
    try:
        result = operator(filepath=str(path), **options)
    except RuntimeError as error:
        raise FileError(f"{path}: Blender cannot read it: {_cause(str(error))}") from error
    if "FINISHED" not in result:
        raise FileError(f"{path}: Blender cannot read it")


def _cause(text: str) -> str:
    """The sentence in an operator's error; of a fault in an importer, its last line."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("Location:")]
    if "Traceback" in text:
        found = [line for line in lines if re.match(r"\w*(Error|Exception): ", line)]
        return f"its importer failed ({found[-1]})" if found else "its importer failed"
    cause = lines[0].removeprefix("Error: ") if lines else "no reason given"
    return cause if len(cause) <= LONGEST_CAUSE else cause[:LONGEST_CAUSE] + "..."


def _import_gltf(path: Path) -> None:
    _enable("io_scene_gltf2", bpy.ops.import_scene, "gltf", path)
    _call(path, bpy.ops.import_scene.gltf)


def _import_vrm(path: Path) -> None:
    """With the VRM add-on where it is enabled; else as the glTF file that a VRM file is."""
    if compat.has_operator(bpy.ops.import_scene, "vrm"):
        _call(path, bpy.ops.import_scene.vrm)
    else:
        _import_gltf(path)


def _import_fbx(path: Path) -> None:
    if compat.has_operator(bpy.ops.wm, "fbx_import"):
        _call(path, bpy.ops.wm.fbx_import)
    else:
        _enable("io_scene_fbx", bpy.ops.import_scene, "fbx", path)
        _call(path, bpy.ops.import_scene.fbx)


def _import_bvh(path: Path) -> None:
    """One frame a sample, at the clip's own rate."""
    _enable("io_anim_bvh", bpy.ops.import_anim, "bvh", path)
    _call(path, bpy.ops.import_anim.bvh, use_fps_scale=False, update_scene_fps=True)
    promised = re.search(r"^\s*Frames:\s*(\d+)", path.read_text("utf-8", errors="replace"), re.MULTILINE)
    first, last = _animated_range() or (0, -1)
    if promised and int(promised[1]) != round(last - first) + 1:
        # The importer takes a clip that was cut off for a shorter one.
        raise FileError(f"{path}: is cut off: {round(last - first) + 1} of {promised[1]} frames are there")


IMPORTERS: dict[str, Callable[[Path], None]] = {
    ".glb": _import_gltf,
    ".gltf": _import_gltf,
    ".vrm": _import_vrm,
    ".fbx": _import_fbx,
    ".bvh": _import_bvh,
}


def _enable(module: str, category: object, operator: str, path: Path) -> None:
    """Make sure that an importer of Blender's own is there: users may have it switched off."""
    if not compat.has_operator(category, operator):
        addon_utils.enable(module)
    if not compat.has_operator(category, operator):
        raise FileError(f"{path}: this Blender has no importer for it (add-on '{module}')")


def _animated_range() -> tuple[float, float] | None:
    """First and last key of the actions that the armatures play."""
    actions = [
        ob.animation_data and ob.animation_data.action for ob in bpy.data.objects if ob.type == "ARMATURE"
    ]
    ranges = [action.frame_range for action in actions if action]
    return (min(r[0] for r in ranges), max(r[1] for r in ranges)) if ranges else None


def _fit_frame_range() -> None:
    """Give the scene the frames of the imported animation, and go to the first of them."""
    scene = bpy.context.scene
    first, last = _animated_range() or (scene.frame_start, scene.frame_start)
    scene.frame_start, scene.frame_end = math.floor(first), math.ceil(last)
    scene.frame_set(scene.frame_start)


def _warnings() -> Iterator[str]:
    newer = compat.newer_release_of_file()
    if newer:
        saved, here = newer
        yield f"saved by Blender {saved}: what this {here} does not know is lost when the file is written"
    if bpy.app.autoexec_fail:
        yield f"scripts were not run, poses may differ from what was saved ({bpy.app.autoexec_fail_message})"
    for library in bpy.data.libraries:
        linked = Path(bpy.path.abspath(library.filepath))
        if not linked.is_file():
            yield f"linked file {linked} does not exist"


def save(path: Path) -> None:
    """Write the open file to `path`, whole or not at all.

    The open file keeps its own name. Relative paths in it are adapted to the new folder.

    Raises:
        FileError: when it cannot be written; `path` is as it was then.
    """
    part = parts.temporary(path, os.getpid())
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        parts.sweep(path)
        bpy.ops.wm.save_as_mainfile(filepath=str(part), copy=True, check_existing=False)
        if path.exists():
            shutil.copymode(path, part)
        os.replace(part, path)
    except OSError as error:
        raise FileError(f"{path}: cannot be written: {error.strerror or error}") from error
    except RuntimeError as error:
        raise FileError(f"{path}: cannot be written: {_cause(str(error))}") from error
    finally:
        parts.discard(path, os.getpid())
