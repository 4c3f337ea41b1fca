# SPDX-License-Identifier: GPL-3.0-or-later
"""The program: parse, work on the files, print the results, hand back the exit status."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from importlib.util import find_spec
from typing import TextIO

from .. import ADDON_ID, register, unregister
from .arguments import Options, parse
from .jobs import results_of_all
from .outputs import plot_paths, refusals
from .results import BAD_INPUT, Result, text, totals, worst

PACKAGE = __package__.rpartition(".")[0]
NO_BPY = "ik_addon: needs Blender as a Python package: pip install bpy, or use blender --command ik_addon"


def module_command(argv: Sequence[str]) -> int:
    """`python -m ik_addon VERB FILE... [options]`; returns the exit status."""
    try:
        options = parse(argv, "python -m ik_addon")
    except SystemExit as stop:
        return int(stop.code or 0)
    if find_spec("bpy") is None:
        print(NO_BPY, file=sys.stderr)
        return BAD_INPUT
    with _own_output() as out:
        if not options.in_process:
            return _show(options, results_of_all(options, [sys.executable, "-m", PACKAGE]), out)
        import bpy  # noqa: F401 - before `register`, whose modules take bpy's own for granted

        register()
        try:
            return _show(options, _results_here(options), out)
        finally:
            # With a function of ours left in its handlers, Blender 4.2 and 4.5 end badly.
            unregister()
            _let_go_of_bpy()


def _let_go_of_bpy() -> None:
    """Last of all: the bpy package of 4.2 crashes at its end when the module bpy was never freed.

    It keeps the callbacks of properties for ever, these keep our modules, and those keep bpy.
    """
    for name, module in list(sys.modules.items()):
        if f"{name}.".startswith(f"{PACKAGE}."):
            vars(module).pop("bpy", None)


def blender_command(argv: Sequence[str]) -> int:
    """`blender -b [FILE] --command ik_addon VERB [FILE...] [options]`; returns the exit status."""
    import bpy

    try:
        options = parse(argv, "blender -b [FILE] --command ik_addon", file_is_open=True)
    except SystemExit as stop:
        return int(stop.code or 0)
    with _own_output() as out:
        if not options.files:
            return _show_open_file(options, bpy.data.filepath, out)
        if options.in_process:
            return _show(options, _results_here(options), out)
        command = [bpy.app.binary_path, "--background", "--addons", ADDON_ID, "--command", "ik_addon"]
        return _show(options, results_of_all(options, command), out)


def _show_open_file(options: Options, path: str, out: TextIO) -> int:
    """Work on the file that Blender has open: it starts on its start-up file when it cannot open its FILE."""
    if path:
        options = replace(options, files=(path,))
        return _show(options, _results_here(options, is_open=True), out)
    asked = [word for word in sys.argv[: sys.argv.index("ik_addon")] if word.lower().endswith(".blend")]
    if asked:
        failed = Result(asked[-1], status=BAD_INPUT, error=f"{asked[-1]}: Blender could not open it")
        return _show(options, (result for result in [failed]), out)
    print("ik_addon: no FILE was given, and Blender has none open", file=sys.stderr)
    return BAD_INPUT


def _results_here(options: Options, is_open: bool = False) -> Generator[Result, None, None]:
    """Work on the files one after another in the Blender of this process."""
    from .work import work

    refused, plots = refusals(options), plot_paths(options)
    for place, file in enumerate(options.files):
        if place in refused:
            yield Result(file, status=BAD_INPUT, error=refused[place])
        else:
            yield work(file, options, is_open, plots[place])


@contextmanager
def _own_output() -> Iterator[TextIO]:
    """Standard output for our lines alone: what Blender prints goes to standard error from here on.

    For good, since its C library may still hold lines back and write them when the process ends.
    """
    sys.stdout.flush()
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as out:
        os.dup2(2, 1)
        signal.signal(signal.SIGTERM, _terminated)
        yield out


def _terminated(number: int, _frame: object) -> None:
    """End as after an exception, so that nothing half done stays behind."""
    sys.exit(128 + number)


def _show(options: Options, found: Generator[Result, None, None], out: TextIO) -> int:
    """Print the results as they come, and return the worst status."""
    statuses: list[int] = []
    with ExitStack() as stack:
        stack.enter_context(closing(found))
        report: TextIO | None = None
        if options.report:
            try:
                report = stack.enter_context(options.report.open("w", encoding="utf-8"))
            except OSError as error:
                print(f"ik_addon: {options.report}: cannot be written: {error.strerror}", file=sys.stderr)
                return BAD_INPUT
        # A plot of the run before would pass for one of this run, should this one make none.
        for plot in filter(None, plot_paths(options)):
            with suppress(OSError):
                plot.unlink(missing_ok=True)
        for result in found:
            statuses.append(result.status)
            _print(options, result, out)
            if report:
                print(result.line(), file=report, flush=True)
    if len(statuses) > 1 and not options.json and options.verb != "inspect":
        print(totals(statuses), file=out)
    return worst(statuses)


def _print(options: Options, result: Result, out: TextIO) -> None:
    if options.json:
        print(result.line(), file=out, flush=True)
    elif options.verb != "inspect":
        print(text(result), file=out, flush=True)
    elif result.config is not None:
        print(json.dumps(result.config, indent=2, ensure_ascii=False), file=out, flush=True)
        for warning in result.warnings:
            print(f"{result.file}: warning: {warning}", file=sys.stderr)
    else:
        # Standard output is for configurations.
        print(text(result), file=sys.stderr)
