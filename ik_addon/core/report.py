# SPDX-License-Identifier: GPL-3.0-or-later
"""The result of a chain over a range of frames, in the few numbers that a report shows."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from .job import Status


class Track(Protocol):
    """What a summary is made of: the result of one chain over F frames.

    Frames, residual (metres) and status (values of `Status`) are ``(F,)`` each.
    """

    @property
    def armature(self) -> str: ...

    @property
    def chain(self) -> str: ...

    @property
    def solver(self) -> str: ...

    @property
    def frames(self) -> np.ndarray: ...

    @property
    def residual(self) -> np.ndarray: ...

    @property
    def status(self) -> np.ndarray: ...


def summary(track: Track) -> dict[str, Any]:
    """One chain's entry of a report, ready for JSON.

    The first frame of the largest residual counts; `status_frames` names the statuses that
    occur, with their number of frames.
    """
    worst = int(np.argmax(track.residual))
    counts = np.bincount(track.status, minlength=len(Status))
    return {
        "armature": track.armature,
        "chain": track.chain,
        "solver": track.solver,
        "frames": [frame_number(track.frames[0]), frame_number(track.frames[-1])],
        "residual_max": float(track.residual[worst]),
        "residual_max_frame": frame_number(track.frames[worst]),
        "residual_mean": float(np.mean(track.residual)),
        "status_frames": {status.name: int(counts[status]) for status in Status if counts[status]},
    }


def length_text(metres: float) -> str:
    """A length for people: millimetres to the thousandth, metres from one metre up."""
    if metres == 0.0:
        return "0 mm"
    if metres >= 1.0:
        return f"{metres:.4f} m" if metres < 1e6 else f"{metres:.4g} m"
    if metres < 0.5e-6:
        return "<0.001 mm"
    return f"{1000.0 * metres:.3f} mm"


def frame_number(frame: float) -> int | float:
    """A frame for JSON: whole ones without a decimal point."""
    return int(frame) if float(frame).is_integer() else float(frame)
