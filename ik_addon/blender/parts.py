# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of files that are being written. Knows no bpy: who watches over a writing process uses it too."""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from pathlib import Path

# A save takes seconds: what is older was left by a run that was killed.
LEFTOVER_SECONDS = 3600.0


def temporary(path: Path, pid: int) -> Path:
    """The name under which process `pid` writes `path` before it moves it into place."""
    return path.with_name(f".{path.name}.{pid}.part")


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all.

    Raises:
        OSError: when it cannot be written; `path` is as it was then.
    """
    part = temporary(path, os.getpid())
    try:
        sweep(path)
        part.write_text(text, "utf-8")
        os.replace(part, path)
    finally:
        discard(path, os.getpid())


def discard(path: Path, pid: int) -> None:
    """Remove what process `pid` left of its work on `path`."""
    part = temporary(path, pid)
    # Blender itself writes to NAME@ first.
    _remove([part, part.with_name(part.name + "@")])


def sweep(path: Path) -> None:
    """Remove what killed runs left of their work on `path`."""
    pattern = re.compile(re.escape(f".{path.name}.") + r"\d+\.part@?")
    _remove([part for part in path.parent.iterdir() if pattern.fullmatch(part.name) and _is_old(part)])


def _is_old(path: Path) -> bool:
    with suppress(OSError):
        return time.time() - path.stat().st_mtime > LEFTOVER_SECONDS
    return False


def _remove(paths: list[Path]) -> None:
    for path in paths:
        with suppress(OSError):
            path.unlink()
