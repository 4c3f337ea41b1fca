# SPDX-License-Identifier: GPL-3.0-or-later
"""One line of a report for each chain."""

import json
from types import SimpleNamespace

import numpy as np

from ik_addon.core.job import Status
from ik_addon.core.report import frame_number, length_text, summary


def track(frames: list[float], residual: list[float], status: list[Status]) -> SimpleNamespace:
    arrays = {"frames": np.array(frames), "residual": np.array(residual), "status": np.array(status, np.int8)}
    return SimpleNamespace(armature="Rig", chain="leg", solver="TWO_BONE", **arrays)


def test_summary() -> None:
    entry = summary(
        track(
            [1.0, 2.0, 3.0, 4.0],
            [0.0, 0.5, 0.25, 0.5],
            [Status.OK, Status.TARGET_FAR, Status.LIMIT, Status.OK],
        )
    )
    assert entry == {
        "armature": "Rig",
        "chain": "leg",
        "solver": "TWO_BONE",
        "frames": [1, 4],
        "residual_max": 0.5,
        "residual_max_frame": 2,
        "residual_mean": 0.3125,
        "status_frames": {"OK": 2, "TARGET_FAR": 1, "LIMIT": 1},
    }
    assert json.loads(json.dumps(entry)) == entry


def test_single_broken_frame() -> None:
    entry = summary(track([2.5], [0.0], [Status.BROKEN]))
    assert entry["frames"] == [2.5, 2.5] and entry["residual_max_frame"] == 2.5
    assert entry["status_frames"] == {"BROKEN": 1}


def test_frame_numbers() -> None:
    assert [repr(frame_number(f)) for f in (3.0, -2.0, 0.5)] == ["3", "-2", "0.5"]


def test_lengths_are_millimetres_below_a_metre() -> None:
    lengths = (0.0, 1e-9, 4e-7, 6e-7, 0.0123456, 0.9999, 1.0, 12.34567, 1e38)
    assert [length_text(length) for length in lengths] == [
        "0 mm",
        "<0.001 mm",
        "<0.001 mm",
        "0.001 mm",
        "12.346 mm",
        "999.900 mm",
        "1.0000 m",
        "12.3457 m",
        "1e+38 m",
    ]
