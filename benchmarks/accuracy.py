# SPDX-License-Identifier: GPL-3.0-or-later
"""How exact our chains are, beside Blender's own IK constraint, on the same rigs in one run.

    python benchmarks/accuracy.py [--count N] [--write]

Needs `bpy`. Prints the tables of docs/accuracy.md; with --write they take the place of those there.
"""

from __future__ import annotations

import argparse
import platform
from collections.abc import Iterable, Iterator
from pathlib import Path

import bpy
import core_figures
import rigs
import scene_figures

PAGE = Path(__file__).resolve().parent.parent / "docs" / "accuracy.md"
BEGIN, END = "<!-- figures of benchmarks/accuracy.py -->", "<!-- end of figures -->"


def tables(count: int) -> Iterator[str]:
    """All lines of both tables; ``count`` targets a rig in Blender, 500 times as many without."""
    machine = f"{platform.system()} {platform.machine()}"
    yield f"Blender {bpy.app.version_string}, {machine}, {count} targets a line."
    with rigs.addon():
        yield from scene_figures.lines(count)
    yield from scene_figures.head("the solvers alone, in float64", "aim, at most", "measured, max", "met")
    for figure in core_figures.figures(500 * count):
        yield figure.row


def printed(lines: Iterable[str]) -> str:
    """The lines as one text, printed as they come: a run takes two minutes."""
    kept = []
    for line in lines:
        print(line, flush=True)
        kept.append(line)
    return "\n".join(kept)


def write(text: str) -> None:
    """Put the tables between the marks of the page."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        raise SystemExit(f"{PAGE}: expected the marks {BEGIN} and {END}")
    PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=200, help="targets on each rig (default: 200)")
    parser.add_argument("--write", action="store_true", help=f"write the tables to {PAGE.name}")
    options = parser.parse_args()
    text = printed(tables(options.count))
    if options.write:
        write(text)


if __name__ == "__main__":
    main()
