# SPDX-License-Identifier: GPL-3.0-or-later
"""The verbs, on one file, in the Blender of this process."""

from __future__ import annotations

import time
import traceback
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import bpy

from ..blender import chains, config, files, ranges
from ..core.report import summary
from . import results
from .arguments import Options
from .outputs import destination
from .results import Result


class WorkError(ValueError):
    """Why a verb cannot be done on a file, in one sentence."""


BAD_INPUT = (files.FileError, config.ConfigError, chains.ChainError, WorkError)


def work(file: str, options: Options, is_open: bool = False) -> Result:
    """Do a verb on one file; never raises.

    Args:
        file: its name; is_open: Blender has opened it already.
    """
    started = time.perf_counter()
    result = Result(file, blender=bpy.app.version_string)
    try:
        _prepare(result, options, is_open)
        VERBS[options.verb](result, options)
    except BAD_INPUT as error:
        result.status, result.error = results.BAD_INPUT, str(error)
    except Exception as error:  # noqa: BLE001 - a fault in one file must not end the others
        traceback.print_exc()
        result.status = results.FAULT
        result.error = f"{file}: internal fault: {type(error).__name__}: {' '.join(str(error).split())}"
    result.seconds = round(time.perf_counter() - started, 3)
    return result


def _prepare(result: Result, options: Options, is_open: bool) -> None:
    """Open the file and give it the chains of the configuration."""
    wanted = config.read(options.config) if options.config else []
    if is_open:
        files.check_content(result.file)
    else:
        result.warnings += files.load(Path(result.file), options.enable_autoexec)
    try:
        config.apply(wanted)
    except config.ConfigError as error:
        raise WorkError(f"{result.file}: {error}") from error
    here = set(bpy.context.scene.objects)
    for ob in bpy.data.objects:
        if ob.type == "ARMATURE" and len(ob.ik_chains) and ob not in here:
            result.warnings.append(
                f"armature '{ob.name}' is not in scene '{bpy.context.scene.name}': left out"
            )


def _setup(result: Result, options: Options) -> None:
    _report_now(result)
    _write(result, options)


def _inspect(result: Result, options: Options) -> None:
    result.config = config.dump(_armatures(""))
    _report_now(result)


def _check(result: Result, options: Options) -> None:
    rigs = _chosen(result.file, options)
    _report(result, _solved(rigs, _frames(options)), options)


def _frames(options: Options) -> list[float]:
    scene = bpy.context.scene
    first, last = options.frames or (scene.frame_start, scene.frame_end)
    return [float(frame) for frame in range(first, last + 1, options.step)]


def _armatures(name: str) -> list[bpy.types.Object]:
    """The armature objects of the scene, or the one of that name."""
    found = [ob for ob in bpy.context.scene.objects if ob.type == "ARMATURE"]
    return [ob for ob in found if ob.name == name] if name else found


def _chosen(file: str, options: Options) -> list[bpy.types.Object]:
    """The armatures with a chain that the command line asks for."""
    rigs = _armatures(options.armature)
    if not rigs:
        raise WorkError(f"{file}: no armature '{options.armature}' in scene '{bpy.context.scene.name}'")
    if not any(len(ob.ik_chains) for ob in rigs):
        raise WorkError(f"{file}: no chain on {' or '.join(ob.name for ob in rigs)}; add some with --config")
    rigs = [ob for ob in rigs if any(fnmatchcase(c.name, options.chains) for c in ob.ik_chains)]
    if not rigs:
        raise WorkError(f"{file}: no chain matches '{options.chains}'")
    return rigs


def _solved(rigs: Sequence[bpy.types.Object], frames: list[float]) -> list[ranges.ChainTrack]:
    return ranges.run(ranges.solve_range(bpy.context.scene, rigs, frames)).chains


def _report_now(result: Result) -> None:
    """The residuals of all chains at the current frame."""
    rigs = [ob for ob in _armatures("") if len(ob.ik_chains)]
    if rigs:
        tracks = _solved(rigs, [bpy.context.scene.frame_current_final])
        result.chains = [_chain_line(track) for track in tracks]


def _report(result: Result, tracks: Sequence[ranges.ChainTrack], options: Options) -> None:
    """The residuals of the chosen chains, and whether one is above the limit."""
    chosen = [track for track in tracks if fnmatchcase(track.chain, options.chains)]
    result.chains = [_chain_line(track) for track in chosen]
    if options.fail_above is None:
        return
    above = [
        f"'{track.chain}' of '{track.armature}'"
        for track, line in zip(chosen, result.chains, strict=True)
        # A broken chain has no target to miss.
        if line["residual_max"] > options.fail_above or "BROKEN" in line["status_frames"]
    ]
    if above:
        result.status = results.ABOVE
        result.error = f"{result.file}: above {options.fail_above:g} m: {', '.join(above)}"


def _write(result: Result, options: Options) -> None:
    output = destination(result.file, options)
    assert output is not None
    files.save(output)
    result.output = str(output)


def _chain_line(track: ranges.ChainTrack) -> dict[str, Any]:
    """The report of a chain; of a broken one with the reason."""
    line = summary(track)
    return {**line, "message": track.message} if track.message else line


VERBS = {"setup": _setup, "inspect": _inspect, "check": _check}
