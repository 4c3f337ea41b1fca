# SPDX-License-Identifier: GPL-3.0-or-later
"""One process a file: Blender works on one file at a time, and a crash ends that file alone."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from ..blender import parts
from .arguments import Options
from .outputs import destination, plot_paths, refusals
from .results import BAD_INPUT, FAULT, Result

POLL_SECONDS = 0.02


class _Worker:
    """The process of one file, its report and its log, both in `folder`."""

    def __init__(
        self, file: str, options: Options, command: Sequence[str], folder: Path, plot: Path | None
    ) -> None:
        self.file = file
        self.written = [path for path in (destination(file, options), plot) if path is not None]
        self.report = folder / "report"
        self.log = folder / "log"
        folder.mkdir()
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, *options.arguments(file, self.report, plot)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def is_done(self) -> bool:
        return self.process.poll() is not None

    def result(self) -> Result:
        """What the process reported, or how it ended; the log of a fault goes to standard error."""
        lines = self.report.read_text("utf-8").splitlines() if self.report.exists() else []
        if lines:
            result = Result.from_line(lines[0])
        else:
            cause = _ending(self.process.returncode)
            result = Result(self.file, status=FAULT, error=f"{self.file}: its process {cause}")
            self.clean()
        if result.status == FAULT:
            sys.stderr.write(self.log.read_text("utf-8", errors="replace"))
        return result

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        self.clean()

    def clean(self) -> None:
        for path in self.written:
            parts.discard(path, self.process.pid)


def _ending(code: int) -> str:
    if code < 0:
        return f"was ended by signal {signal.Signals(-code).name}"
    return f"ended with status {code} and no report"


def results_of_all(options: Options, command: Sequence[str]) -> Generator[Result, None, None]:
    """Work on all files, `options.jobs` at a time; results come in the order of the files.

    Args:
        command: starts this same program in a process of its own.
    """
    refused, plots = refusals(options), plot_paths(options)
    done = {
        place: Result(options.files[place], status=BAD_INPUT, error=why) for place, why in refused.items()
    }
    waiting = [place for place in range(len(options.files)) if place not in refused]
    running: dict[int, _Worker] = {}
    shown = 0
    with TemporaryDirectory(prefix="ik_addon_") as folder:
        try:
            while shown < len(options.files):
                while waiting and len(running) < options.jobs:
                    place = waiting.pop(0)
                    running[place] = _Worker(
                        options.files[place], options, command, Path(folder) / str(place), plots[place]
                    )
                for place in [place for place, worker in running.items() if worker.is_done()]:
                    done[place] = running.pop(place).result()
                while shown in done:
                    yield done[shown]
                    shown += 1
                time.sleep(POLL_SECONDS if running else 0.0)
        finally:
            for worker in running.values():
                worker.stop()
