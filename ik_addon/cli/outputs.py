# SPDX-License-Identifier: GPL-3.0-or-later
"""Where each file's output and plot go, and which outputs would hurt: never an input, never another."""

from __future__ import annotations

import os
from pathlib import Path

from .arguments import Options


def destination(file: str, options: Options) -> Path | None:
    """The file to write for an input, or None: nothing is written."""
    if not options.writes:
        return None
    if options.output is None:
        # Through links, so that a link stays one.
        return Path(os.path.realpath(file))
    return options.output / (Path(file).stem + ".blend")


def plot_paths(options: Options) -> list[Path | None]:
    """The file for the plot of each input, or None: no plot is asked for.

    It lies beside the report and has its name, ending in .svg: report.json, report.svg. With
    several inputs their names stand between: report.walk.svg.
    """
    report = options.report
    if options.plot is not None:
        return [Path(options.plot) if options.plot else None] * len(options.files)
    # A report may also go to a pipe or a device, which has nothing beside it.
    if report is None or not options.plots or (report.exists() and not report.is_file()):
        return [None] * len(options.files)
    stem = report.name if report.suffix.lower() == ".svg" else report.stem
    if len(options.files) == 1:
        return [report.with_name(f"{stem}.svg")]
    names: list[str] = []
    for file in options.files:
        name, count = Path(file).stem, 1
        while name.lower() in map(str.lower, names):
            count += 1
            name = f"{Path(file).stem}-{count}"
        names.append(name)
    return [report.with_name(f"{stem}.{name}.svg") for name in names]


def refusals(options: Options) -> dict[int, str]:
    """Why some of the files must not be worked on, by their place on the command line."""
    if not options.writes:
        return {}
    inputs = {_identity(Path(file)): file for file in options.files}
    taken: dict[str, str] = {}
    refused: dict[int, str] = {}
    for place, file in enumerate(options.files):
        output = destination(file, options)
        assert output is not None
        key = _identity(output)
        if options.in_place and output.suffix.lower() != ".blend":
            refused[place] = f"{file}: only a .blend file can be written in place; give --output DIR"
        elif key in taken:
            refused[place] = f"{file}: {output} is the output of {taken[key]} already"
        elif key in inputs and not options.in_place:
            refused[place] = f"{file}: the output {output} would overwrite the input {inputs[key]}"
        else:
            taken[key] = file
    return refused


def _identity(path: Path) -> str:
    return os.path.normcase(os.path.realpath(path))
