# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings of chains that may change from frame to frame, as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import bpy
import numpy as np

# The settings, with their number of values.
SETTINGS = {
    "influence": 1,
    "target_location": 3,
    "target_rotation": 4,
    "pole_location": 3,
    "pole_angle": 1,
    "bend_sign": 1,
    "offset_yaw": 1,
    "softness": 1,
    "share": 1,
    "share_max": 1,
    "lean": 1,
    "aim_offset": 3,
    "aim_limit": 1,
    "aim_damping": 1,
    "move_max": 1,
    "stretch_max": 1,
    "smooth_frames": 1,
}
INTEGERS = {"bend_sign", "smooth_frames"}


def read_values(
    rigs: Sequence[bpy.types.Object], seen: Sequence[bpy.types.Object], names: frozenset[str]
) -> dict[str, np.ndarray]:
    """Evaluated settings ``(1, chains, ...)`` of rigs, and `mute`. A muted chain has no influence.

    Args:
        names: those of `SETTINGS` to read, the influence among them.
    """
    parts = [_settings_of(ob, evaluated, names) for ob, evaluated in zip(rigs, seen, strict=True)]
    if len(parts) == 1:
        return parts[0]
    return {name: np.concatenate([part[name] for part in parts], axis=1) for name in parts[0]}


def _settings_of(
    ob: bpy.types.Object, evaluated: bpy.types.Object, names: frozenset[str]
) -> dict[str, np.ndarray]:
    # A chain that was just added is not evaluated yet.
    chains: Any = evaluated.ik_chains
    count = len(chains)
    if count != len(ob.ik_chains):
        chains = ob.ik_chains
        count = len(chains)
    # One array for all: each further one costs as much as reading it.
    layout, size = _layout(count, names)
    flat = np.empty(size, np.float32)
    whole = np.empty(count, np.int32)
    for name, at, _ in layout:
        if name in INTEGERS:
            chains.foreach_get(name, whole)
            flat[at] = whole
        else:
            chains.foreach_get(name, flat[at])
    exact = flat.astype(np.float64)
    settings = {name: exact[at].reshape(shape) for name, at, shape in layout}
    muted = np.empty(count, bool)
    chains.foreach_get("mute", muted)
    if muted.any():
        settings["influence"][0, muted] = 0.0
    settings["mute"] = muted[None]
    return settings


@lru_cache(maxsize=64)
def _layout(count: int, names: frozenset[str]) -> tuple[tuple[tuple[str, slice, tuple[int, ...]], ...], int]:
    """Where the settings of so many chains stand in one array, and their shapes; the size of the array."""
    found, first = [], 0
    for name in filter(names.__contains__, SETTINGS):
        width = SETTINGS[name]
        at = slice(first, first + width * count)
        found.append((name, at, (1, count, width) if width > 1 else (1, count)))
        first = at.stop
    return tuple(found), first
