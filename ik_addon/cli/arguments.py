# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be asked for on the command line."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PRESETS = ("auto", "arms", "legs", "spine", "tails")
EPILOG = """exit status:
  0  all done
  1  an internal fault
  2  bad input or usage
  3  done, but a chain is above --fail-above
With many files every file is tried and has its result; the worst status counts: 1, then 2, then 3.
"""


@dataclass(frozen=True)
class Options:
    """The parsed command line; what a verb does not take has the default of its kind.

    Attributes:
        verb: setup, inspect, check or bake.
        files: as they were given.
        config: rig configuration whose chains are added first; preset: of `PRESETS`, what setup adds.
        frames: first and last frame, or None: the scene's; step: every how many of them.
        carry_bend: two-bone chains carry their bend sides from the first frame on.
        plant: plant the contacts of the chains first.
        chains: pattern that names of chains must match; armature: name of the object, or empty: all.
        output: folder to write to; in_place: write over the input.
        jobs: how many files are worked on at a time.
        json: result lines instead of text on standard output; report: file for result lines.
        plot: file for the plot of the only input, an empty string for none; None: beside the report.
        fail_above: largest residual in metres that is no failure, or None.
        enable_autoexec: let the scripts in .blend files run.
        in_process: work in this process, not in one process a file.
    """

    verb: str
    files: tuple[str, ...]
    config: Path | None = None
    preset: str | None = None
    frames: tuple[int, int] | None = None
    step: int = 1
    carry_bend: bool = False
    plant: bool = False
    chains: str = "*"
    armature: str = ""
    output: Path | None = None
    in_place: bool = False
    jobs: int = 1
    json: bool = False
    report: Path | None = None
    plot: str | None = None
    fail_above: float | None = None
    enable_autoexec: bool = False
    in_process: bool = False

    @property
    def writes(self) -> bool:
        """Whether the verb writes files."""
        return self.verb in ("setup", "bake")

    @property
    def plots(self) -> bool:
        """Whether the verb solves a range of frames, and plots it beside its report."""
        return self.verb in ("check", "bake")

    def arguments(self, file: str, report: Path, plot: Path | None) -> list[str]:
        """The command line that does the same to one file, in its own process, with a report."""
        values: dict[str, object] = {
            "config": self.config,
            "preset": self.preset,
            "frames": self.frames and f"{self.frames[0]}:{self.frames[1]}",
            "step": self.step if self.step != 1 else None,
            "chains": self.chains if self.chains != "*" else None,
            "armature": self.armature or None,
            "output": self.output,
            "fail-above": self.fail_above,
            "report": report,
            "plot": plot or "",
        }
        switches = {
            "in-place": self.in_place,
            "carry-bend": self.carry_bend,
            "plant": self.plant,
            "enable-autoexec": self.enable_autoexec,
            "in-process": True,
        }
        given = [f"--{name}={value}" for name, value in values.items() if value is not None]
        return [self.verb, *given, *(f"--{name}" for name, on in switches.items() if on), "--", file]


def parse(argv: Sequence[str], program: str, file_is_open: bool = False) -> Options:
    """The options of a command line.

    Args:
        argv: the arguments after the program's name.
        program: how the program was called, for its help.
        file_is_open: a file is open in Blender already, so none need be given.

    Raises:
        SystemExit: after printing help (0) or what is wrong with the usage (2).
    """
    parser = _parser(program, file_is_open)
    found = vars(parser.parse_args(_joined(argv)))
    options = Options(**{**found, "files": tuple(found["files"])})
    if options.verb == "setup" and not (options.config or options.preset or options.plant):
        parser.error("setup: give --config RIG.json, --preset NAME, or --plant for the chains that are there")
    if options.writes and not (options.output or options.in_place):
        parser.error(f"{options.verb} writes files: give --output DIR, or --in-place to write over the input")
    return options


def _parser(program: str, file_is_open: bool) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program,
        description="Add IK chains to characters, check them and bake them, file by file.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "files",
        metavar="FILE",
        nargs="*" if file_is_open else "+",
        help=".blend, .glb, .gltf, .vrm, .fbx or .bvh; none: the file that Blender has opened",
    )
    common.add_argument("--jobs", metavar="N", type=_positive, default=1, help="files worked on at a time")
    common.add_argument("--json", action="store_true", help="print one JSON object a file, a line each")
    common.add_argument(
        "--report",
        metavar="FILE",
        type=Path,
        help="write these lines to FILE as well; check and bake plot the residuals beside it",
    )
    common.add_argument("--plot", help=argparse.SUPPRESS)
    common.add_argument(
        "--enable-autoexec", action="store_true", help="let scripts and scripted drivers of .blend files run"
    )
    common.add_argument(
        "--in-process", action="store_true", help="work in this process, not in one process a file"
    )
    config = argparse.ArgumentParser(add_help=False)
    config.add_argument(
        "--config", metavar="RIG.json", type=Path, help="rig configuration: chains to add first"
    )
    writing = argparse.ArgumentParser(add_help=False)
    where = writing.add_mutually_exclusive_group()
    where.add_argument("--output", metavar="DIR", type=Path, help="folder for the files that are written")
    where.add_argument("--in-place", action="store_true", help="write over the input, which must be a .blend")
    writing.add_argument(
        "--plant", action="store_true", help="plant the contacts of the chains first: targets get keys"
    )
    frames = argparse.ArgumentParser(add_help=False)
    frames.add_argument(
        "--frames", metavar="A:B", type=_frames, help="first and last frame; default: the scene's"
    )
    frames.add_argument("--step", metavar="N", type=_positive, default=1, help="every Nth frame")
    frames.add_argument(
        "--carry-bend", action="store_true", help="carry the bend side of two-bone chains along the frames"
    )
    frames.add_argument("--chains", metavar="PATTERN", default="*", help="chains by name, as in 'leg*'")
    frames.add_argument("--armature", metavar="NAME", default="", help="this armature object only")
    frames.add_argument(
        "--fail-above", metavar="METRES", type=_metres, help="status 3 if a tip is further off its target"
    )
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    setup = argparse.ArgumentParser(add_help=False)
    what = setup.add_mutually_exclusive_group()
    what.add_argument("--config", metavar="RIG.json", type=Path, help="rig configuration")
    what.add_argument(
        "--preset",
        choices=PRESETS,
        help="parts of the body, whose bones are told by their names; auto: all of them",
    )
    for name, parents, text in (
        ("setup", [common, setup, writing], "add chains"),
        ("inspect", [common], "print the chains and their settings as a rig configuration"),
        (
            "check",
            [common, config, frames],
            "report residuals and contacts over the frames; write nothing",
        ),
        ("bake", [common, config, frames, writing], "bake the chains to keys"),
    ):
        verbs.add_parser(name, parents=parents, help=text, description=text, allow_abbrev=False)
    return parser


def _joined(argv: Sequence[str]) -> list[str]:
    """The arguments with ``--frames -10:20`` as ``--frames=-10:20``: argparse takes -10:20 for an option."""
    arguments = list(argv)
    for place in range(len(arguments) - 2, -1, -1):
        if arguments[place] == "--frames":
            arguments[place : place + 2] = [f"--frames={arguments[place + 1]}"]
    return arguments


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1 up, got '{text}'")
    return int(text)


def _frames(text: str) -> tuple[int, int]:
    first, colon, last = text.partition(":")
    try:
        frames = int(first), int(last)
    except ValueError:
        colon = ""
    if not colon:
        raise argparse.ArgumentTypeError(f"expected A:B, two whole numbers, got '{text}'")
    if frames[0] > frames[1]:
        raise argparse.ArgumentTypeError(f"the first frame lies after the last in '{text}'")
    return frames


def _metres(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0.0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"expected a distance in metres, got '{text}'")
    return value
