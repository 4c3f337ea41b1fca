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

from ..blender import bake, config, contact_check, files, parts, planting, ranges, setup
from ..blender.bake_checks import BakeError
from ..blender.chain_bones import ChainError
from ..core.plot_svg import residual_svg
from ..core.report import frame_number, summary
from . import results
from .arguments import Options
from .outputs import destination
from .results import Result

# What a verb found on each of its frames, for a plot; empty where it looked at one frame only.
Tracks = Sequence[ranges.ChainTrack]
# Frames that a warning lists.
FEW = 5


class WorkError(ValueError):
    """Why a verb cannot be done on a file, in one sentence."""


BAD_INPUT = (files.FileError, config.ConfigError, ChainError, BakeError, WorkError)


def work(file: str, options: Options, is_open: bool = False, plot: Path | None = None) -> Result:
    """Do a verb on one file; never raises.

    Args:
        file: its name; is_open: Blender has opened it already.
        plot: the file for a plot of the residuals of `check` and `bake`, if any.
    """
    started = time.perf_counter()
    result = Result(file, blender=bpy.app.version_string)
    try:
        _prepare(result, options, is_open)
        tracks = VERBS[options.verb](result, options)
        if plot is not None and tracks:
            _plot(result, tracks, plot)
        if options.writes:
            _write(result, options)
    except BAD_INPUT as error:
        result.status, result.error = results.BAD_INPUT, _with_file(file, str(error))
    except Exception as error:  # noqa: BLE001 - a fault in one file must not end the others
        traceback.print_exc()
        result.status = results.FAULT
        result.error = f"{file}: internal fault: {type(error).__name__}: {' '.join(str(error).split())}"
    result.seconds = round(time.perf_counter() - started, 3)
    return result


def _with_file(file: str, sentence: str) -> str:
    return sentence if sentence.startswith(f"{file}: ") else f"{file}: {sentence}"


def _prepare(result: Result, options: Options, is_open: bool) -> None:
    """Open the file and give it the chains of the configuration."""
    wanted = config.read(options.config) if options.config else []
    if is_open:
        files.check_content(result.file)
    else:
        result.warnings += files.load(Path(result.file), options.enable_autoexec)
    config.apply(wanted)
    here = set(bpy.context.scene.objects)
    for ob in bpy.data.objects:
        if ob.type == "ARMATURE" and len(ob.ik_chains) and ob not in here:
            result.warnings.append(
                f"armature '{ob.name}' is not in scene '{bpy.context.scene.name}': left out"
            )


def _setup(result: Result, options: Options) -> Tracks:
    animated = _add_preset(result, options.preset.upper()) if options.preset else set()
    if options.plant:
        planted = _plant(result, options, [ob for ob in _armatures("") if len(ob.ik_chains)])
        _mute(result, animated - planted)
    elif animated:
        result.warnings.append(f"{setup.HOLD_STILL}: {', '.join(chain for _, chain in sorted(animated))}")
    _report_now(result)
    return ()


def _mute(result: Result, chains: set[tuple[str, str]]) -> None:
    """Mute new chains, by armature and name, whose targets would hide what is animated."""
    for armature, chain in sorted(chains):
        bpy.data.objects[armature].ik_chains[chain].mute = True
        result.warnings.append(
            f"chain '{chain}' of '{armature}' is muted: its limb is animated and its target is not"
        )


def _add_preset(result: Result, preset: str) -> set[tuple[str, str]]:
    """Add the chains of a preset to all armatures that have such parts; what is left out is a warning.

    Returns:
        armature and chain of the new ones whose limbs are animated.
    """
    refused, notes, animated = [], [], set()
    rigs = _armatures("")
    for ob in rigs:
        try:
            report = setup.add(ob, preset)
        except setup.AlreadySetUp as error:
            notes.append(str(error))
        except ChainError as error:
            refused.append(str(error))
        else:
            notes += report.notes
            animated |= {(ob.name, chain) for chain in report.animated}
    if len(refused) == len(rigs):
        raise WorkError("; ".join(refused) or f"no armature in scene '{bpy.context.scene.name}'")
    result.warnings += [*notes, *refused]
    return animated


def _inspect(result: Result, options: Options) -> Tracks:
    rigs = _armatures("")
    result.config = config.dump(rigs)
    _report_now(result)
    if rigs and not any(len(ob.ik_chains) for ob in rigs):
        result.warnings.append(_no_chains(rigs))
    return ()


def _check(result: Result, options: Options) -> Tracks:
    first, last = _frames(options)
    frames = [float(frame) for frame in range(first, last + 1, options.step)]
    carry_from = first if options.carry_bend else None
    tracks = _solved(_chosen(options), frames, carry_from, with_places=True)
    chosen = [track for track in tracks if fnmatchcase(track.chain, options.chains)]
    result.chains = [_checked_line(track, options.step) for track in chosen]
    _judge(result, options, [track for track in chosen if track.message])
    return chosen


def _bake(result: Result, options: Options) -> Tracks:
    rigs, frames = _chosen(options), _frames(options)
    if options.plant:
        _plant(result, options, rigs)
    wanted = bake.BakeOptions(frames, options.step, options.chains, options.carry_bend)
    report = ranges.run(bake.bake(bpy.context.scene, rigs, wanted))
    skipped = [f"chain '{s.chain}' of '{s.armature}' was not baked: {s.reason}" for s in report.skipped]
    if not report.chains:
        raise WorkError("; ".join(skipped))
    result.chains = report.chains
    result.warnings += [*skipped, *report.notes, *map(_gimbal_lock, report.gimbal_lock)]
    left = {(s.armature, s.chain) for s in report.skipped}
    now = _solved(rigs, [float(frames[0])]) if left else []
    _judge(result, options, [t for t in now if t.message and (t.armature, t.chain) in left])
    return report.tracks


def _plant(result: Result, options: Options, rigs: Sequence[bpy.types.Object]) -> set[tuple[str, str]]:
    """Plant the contacts of chains; those that slide all the same, and chains without any, are warnings.

    Returns:
        armature and chain of those that were planted.
    """
    wanted = planting.PlantOptions(_frames(options), options.chains)
    report = ranges.run(planting.plant(bpy.context.scene, rigs, wanted))
    result.warnings += [
        f"chain '{skipped.chain}' of '{skipped.armature}' was not planted: {skipped.reason}"
        for skipped in report.skipped
    ]
    for chain in report.chains:
        result.warnings += [contact.message for contact in chain.contacts if contact.why]
        result.warnings += chain.notes
    return {(chain.armature, chain.chain) for chain in report.chains}


def _gimbal_lock(lock: bake.GimbalLock) -> str:
    where = ", ".join(map(str, lock.frames[:FEW])) + (", ..." if len(lock.frames) > FEW else "")
    return (
        f"bone '{lock.bone}' of '{lock.armature}' leaves the solved motion between keys"
        f" by up to {lock.degrees:.1f} degrees (after frame {where})"
    )


def _frames(options: Options) -> tuple[int, int]:
    scene = bpy.context.scene
    return options.frames or (scene.frame_start, scene.frame_end)


def _armatures(name: str) -> list[bpy.types.Object]:
    """The armature objects of the scene, or the one of that name."""
    found = [ob for ob in bpy.context.scene.objects if ob.type == "ARMATURE"]
    return [ob for ob in found if ob.name == name] if name else found


def _no_chains(rigs: Sequence[bpy.types.Object]) -> str:
    names = " or ".join(ob.name for ob in rigs)
    return f"no chain on {names}: add some with setup, or for one run with --config RIG.json"


def _chosen(options: Options) -> list[bpy.types.Object]:
    """The armatures with a chain that the command line asks for."""
    rigs = _armatures(options.armature)
    if not rigs:
        wanted = f"armature '{options.armature}'" if options.armature else "armature"
        raise WorkError(f"no {wanted} in scene '{bpy.context.scene.name}'")
    if not any(len(ob.ik_chains) for ob in rigs):
        raise WorkError(_no_chains(rigs))
    rigs = [ob for ob in rigs if any(fnmatchcase(c.name, options.chains) for c in ob.ik_chains)]
    if not rigs:
        raise WorkError(f"no chain matches '{options.chains}'")
    return rigs


def _solved(
    rigs: Sequence[bpy.types.Object],
    frames: list[float],
    carry_from: int | None = None,
    with_places: bool = False,
) -> list[ranges.ChainTrack]:
    steps = ranges.solve_range(
        bpy.context.scene, rigs, frames, carry_from=carry_from, with_places=with_places
    )
    return ranges.run(steps).chains


def _report_now(result: Result) -> None:
    """The residuals of all chains at the current frame."""
    rigs = [ob for ob in _armatures("") if len(ob.ik_chains)]
    if rigs:
        tracks = _solved(rigs, [bpy.context.scene.frame_current_final])
        result.chains = [_chain_line(track) for track in tracks]


def _judge(result: Result, options: Options, broken: Sequence[ranges.ChainTrack]) -> None:
    """Whether a chain is above the limit; a broken one, which has no target to miss, always is."""
    if options.fail_above is None:
        return
    above = [
        f"'{c['chain']}' of '{c['armature']}'"
        for c in result.chains
        if c["residual_max"] > options.fail_above
    ]
    above += [f"'{track.chain}' of '{track.armature}', which is broken" for track in broken]
    if above:
        result.status = results.ABOVE
        result.error = f"{result.file}: above {options.fail_above:g} m: {', '.join(above)}"


def _plot(result: Result, tracks: Tracks, path: Path) -> None:
    first, last = (frame_number(frame) for frame in tracks[0].frames[[0, -1]])
    frames = f"frames {first} to {last}" if first != last else f"frame {first}"
    try:
        parts.write_text(path, residual_svg(tracks, f"{Path(result.file).name}: residual, {frames}"))
    except OSError as error:
        raise files.FileError(f"{path}: cannot be written: {error.strerror or error}") from error
    result.plot = str(path)


def _write(result: Result, options: Options) -> None:
    output = destination(result.file, options)
    assert output is not None
    files.save(output)
    result.output = str(output)


def _chain_line(track: ranges.ChainTrack) -> dict[str, Any]:
    """The report of a chain; of a broken one with the reason."""
    line = summary(track)
    return {**line, "message": track.message} if track.message else line


def _checked_line(track: ranges.ChainTrack, step: int) -> dict[str, Any]:
    """The report of a chain that was checked."""
    rate = contact_check.frame_rate(bpy.context.scene) / step
    found = contact_check.reports(bpy.data.objects[track.armature], track, rate)
    return {
        **_chain_line(track),
        "muted_frames": contact_check.muted_frames(track),
        "contacts": [contact.as_json() for contact in found],
    }


VERBS = {"setup": _setup, "inspect": _inspect, "check": _check, "bake": _bake}
