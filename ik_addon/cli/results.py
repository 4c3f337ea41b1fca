# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run says about each file: a JSON line, or text for people."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ..core.report import length_text

DONE, FAULT, BAD_INPUT, ABOVE = range(4)
# The worst first: a file that could not be worked on is worse than a chain that misses.
SEVERITY = (FAULT, BAD_INPUT, ABOVE, DONE)


@dataclass
class Result:
    """One file's result line.

    Attributes:
        file: as it was given; output: the file that was written.
        status: the exit status that this file alone gives; error: why, in one sentence.
        warnings: sentences on what was read but may not be as its author saw it.
        blender: version; seconds: time that the file took.
        chains: report of each chain: armature, chain, solver, frames, residual_max, ...; of a check also
            muted_frames and contacts.
        plot: the picture of the residuals that was written.
        config: the rig configuration that `inspect` prints.
    """

    file: str
    output: str | None = None
    status: int = DONE
    error: str | None = None
    warnings: list[str] = field(default_factory=list)
    blender: str | None = None
    seconds: float = 0.0
    chains: list[dict[str, Any]] = field(default_factory=list)
    plot: str | None = None
    config: dict[str, Any] | None = None

    def line(self) -> str:
        """The result as one line of JSON; `config` is there for `inspect` alone."""
        values = asdict(self)
        if self.config is None:
            del values["config"]
        return json.dumps(values, allow_nan=False)

    @staticmethod
    def from_line(text: str) -> Result:
        """The result that `line` wrote."""
        return Result(**json.loads(text))


def worst(statuses: Iterable[int]) -> int:
    """The exit status of a run over many files."""
    return min(statuses, key=SEVERITY.index, default=DONE)


def totals(statuses: Sequence[int]) -> str:
    """How many files ended how, for people."""
    words = {DONE: "done", ABOVE: "above the limit", BAD_INPUT: "with errors", FAULT: "failed"}
    counts = [f"{statuses.count(status)} {word}" for status, word in words.items() if status in statuses]
    return f"{len(statuses)} files: {', '.join(counts)}"


def text(result: Result) -> str:
    """The result for people: a line on the file, and a table of its chains."""
    if result.status in (FAULT, BAD_INPUT):
        cause = (result.error or "").removeprefix(f"{result.file}: ")
        return f"{result.file}: {'failed' if result.status == FAULT else 'error'}: {cause}"
    count = len(result.chains)
    said = f"{count} chain{'' if count == 1 else 's'}, {result.seconds:.2f} s"
    head = f"{result.file}: {said}" + (f", written to {result.output}" if result.output else "")
    notes = [f"  plot: {result.plot}"] if result.plot else []
    notes += [f"  warning: {warning}" for warning in result.warnings]
    if result.status == ABOVE:
        notes.append(f"  failed: {result.error}".replace(f"{result.file}: ", ""))
    return "\n".join([head, *_table(result.chains), *_checked(result.chains), *notes])


def _checked(chains: list[dict[str, Any]]) -> Iterator[str]:
    """What a check found beside the residuals: muted chains, and contacts."""
    for chain in chains:
        name = f"'{chain['chain']}' of '{chain['armature']}'"
        muted = chain.get("muted_frames", 0)
        if muted:
            count = sum(chain["status_frames"].values())
            yield f"  note: {name} is muted on {muted} of {count} frames, and in FK there"
        contacts = chain.get("contacts", [])
        if contacts:
            sliding = [contact for contact in contacts if contact["cause"] != "OK"]
            holding = len(contacts) - len(sliding)
            yield f"  contacts of {name}: {len(contacts)}, of which {holding} hold and {len(sliding)} slide"
            yield from (f"    {contact['message']}" for contact in sliding)


def _table(chains: list[dict[str, Any]]) -> list[str]:
    rows = [("  armature", "chain", "solver", "frames", "max residual", "at", "mean", "status")]
    for chain in chains:
        first, last = chain["frames"]
        statuses = chain["status_frames"].items()
        rows.append(
            (
                f"  {chain['armature']}",
                chain["chain"],
                chain["solver"],
                f"{first:g}" if first == last else f"{first:g}-{last:g}",
                length_text(chain["residual_max"]),
                f"{chain['residual_max_frame']:g}",
                length_text(chain["residual_mean"]),
                ", ".join(name if len(statuses) == 1 else f"{name} {count}" for name, count in statuses),
            )
        )
    if len(rows) == 1:
        return []
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
