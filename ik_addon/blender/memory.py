# SPDX-License-Identifier: GPL-3.0-or-later
"""The FK values of channels that chains write, kept on the pose bones.

Rotation rows are those of `core.channels`: four numbers in the bone's rotation mode.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import bpy
import numpy as np

from ..core.channels import MODES, from_quaternion, to_quaternion

MODE_CODES = {mode: code for code, mode in enumerate(MODES, start=1)}
# Rotation property and number of values of each mode.
CHANNELS = {
    "QUATERNION": ("rotation_quaternion", 4),
    "AXIS_ANGLE": ("rotation_axis_angle", 4),
}
EULER_CHANNEL = ("rotation_euler", 3)
# Of fewer bones than one in so many of a rig's, values are set one by one: that is quicker then than a
# `foreach_set` over all bones, and gives a property of its own to none that needs none.
FEW = 4
# The channels that chains write, and the numbers in a row of each.
WIDTHS = {"rotation": 4, "location": 3, "scale": 3}
VECTORS = ("location", "scale")
# Properties of pose bones with what solves left.
NAMES = tuple(f"ik_held_{channel}" for channel in WIDTHS)


@dataclass(frozen=True)
class Held:
    """What k pose bones hold in a channel that chains write.

    Attributes:
        channels: ``(k, w)`` float32 rows of the channel.
        record: ``(k, 2 w + 1)`` float32, the memory: the row in FK, the row as chains last wrote it, and
            a mark, 0 where the bone has no memory. For rotations it is the code of the mode (see
            `MODE_CODES`) that both rows are in.
    """

    channels: np.ndarray
    record: np.ndarray

    @property
    def fk(self) -> np.ndarray:
        """``(k, w)`` rows in FK."""
        return self.record[:, : self.channels.shape[1]]

    @property
    def solved(self) -> np.ndarray:
        """``(k, w)`` rows as last written."""
        return self.record[:, self.channels.shape[1] : -1]

    def is_as_written(self, marks: np.ndarray) -> bool:
        """All bones still hold what chains wrote, with these marks."""
        return same(self.channels, self.solved) and same(self.marks, marks)

    @property
    def marks(self) -> np.ndarray:
        """``(k,)`` see `record`."""
        return self.record[:, -1]


def read_held(bones: Any, channel: str, places: np.ndarray, channels: np.ndarray) -> Held:
    """The memory of the bones at `places` beside the rows that their channels hold."""
    return Held(channels, read_records(bones, channel)[places])


def read_records(bones: Any, channel: str) -> np.ndarray:
    """The memory ``(bones, 2 w + 1)`` of all bones, see `Held.record`."""
    return read_vectors(bones, f"ik_held_{channel}", 2 * WIDTHS[channel] + 1)


def record(fk: np.ndarray, solved: np.ndarray, marks: np.ndarray | float) -> np.ndarray:
    """A memory ``(k, 2 w + 1)`` of rows ``(k, w)``, see `Held.record`."""
    width = fk.shape[1]
    out = np.empty((len(fk), 2 * width + 1), np.float32)
    out[:, :width], out[:, width:-1], out[:, -1] = fk, solved, marks
    return out


def channel(mode: str) -> tuple[str, int]:
    """Property name and number of values of a rotation mode."""
    return CHANNELS.get(mode, EULER_CHANNEL)


def read_vectors(bones: Any, prop: str, width: int, dtype: type = np.float32) -> np.ndarray:
    """A vector property of all bones, ``(bones, width)``."""
    flat: np.ndarray = np.empty(len(bones) * width, dtype)
    bones.foreach_get(prop, flat)
    return flat.reshape(-1, width)


@lru_cache(maxsize=256)
def _by_channel(modes: tuple[str, ...]) -> tuple[tuple[str, int, np.ndarray | slice], ...]:
    """The rotation properties that modes use: name, number of values, places of its bones."""
    kinds = [channel(mode) for mode in modes]
    different = dict.fromkeys(kinds)
    if len(different) == 1:
        return ((*kinds[0], slice(None)),)
    at = {kind: np.array([i for i, other in enumerate(kinds) if other == kind]) for kind in different}
    return tuple((*kind, places) for kind, places in at.items())


def read_rows(bones: Any, modes: tuple[str, ...], places: np.ndarray) -> np.ndarray:
    """Rotation rows ``(k, 4)`` float32 of the bones at `places`, whose modes are `modes`."""
    rows = np.zeros((len(places), 4), np.float32)
    for prop, width, at in _by_channel(modes):
        rows[at, :width] = read_vectors(bones, prop, width)[places[at]]
    return rows


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether arrays of one shape hold the same numbers: `np.array_equal` takes four times as long."""
    return bool((a == b).all())


def takes_arrays(items: Any, prop: str) -> bool:
    """Whether `foreach_set` sets a property: it leaves linked items, and those of an override that is not
    to be edited, as they are and says nothing. One by one they can be set."""
    owner = items.id_data
    if owner.library is None and owner.override_library is None:
        return True
    return not len(items) or not items[0].is_property_readonly(prop)


def write_vectors(bones: Any, prop: str, places: np.ndarray, values: np.ndarray) -> None:
    """Set a vector property of the bones at `places` to the rows of `values`."""
    if len(places) * FEW < len(bones) or not takes_arrays(bones, prop):
        for place, value in zip(places.tolist(), values.tolist(), strict=True):
            setattr(bones[place], prop, value)
        return
    if len(places) < len(bones):
        everything = read_vectors(bones, prop, values.shape[1])
    else:
        everything = np.empty_like(values)
    everything[places] = values
    bones.foreach_set(prop, everything.ravel())


def write_rows(bones: Any, modes: tuple[str, ...], places: np.ndarray, rows: np.ndarray) -> None:
    """Set the rotation channels of the bones at `places`, whose modes are `modes`."""
    for prop, width, at in _by_channel(modes):
        write_vectors(bones, prop, places[at], rows[at, :width])


def fk_rows(
    current: np.ndarray,
    held: np.ndarray,
    fk: np.ndarray,
    solved: np.ndarray,
    animated: np.ndarray,
    fresh: bool,
) -> np.ndarray:
    """The FK rows behind channels that may hold what a chain wrote.

    Args:
        current: ``(k, 4)`` what the channels hold.
        held: ``(k,)`` bones that have a memory in their present rotation mode.
        fk, solved: ``(k, 4)`` the memory: the FK row, and the row that was written.
        animated: ``(k, 4)`` components that curves set.
        fresh: the curves have just set them: they are FK whatever they are.

    A bone that still holds the written row has its FK row in memory; one that does not
    was edited, and what it holds is FK. Components that curves set change without an edit,
    also when only a curve was edited: they say nothing of the others.
    """
    same = current == solved
    untouched = held & np.all(same | animated, axis=1)
    taken = animated if fresh else animated & ~np.all(same, axis=1)[:, None]
    return np.where(untouched[:, None] & ~taken, fk, current)


def change_mode(rows: np.ndarray, before: Sequence[str], after: Sequence[str]) -> np.ndarray:
    """Rows rewritten for bones whose rotation mode was changed, as Blender does."""
    q = to_quaternion(rows.astype(np.float64), before)
    return from_quaternion(q, after, np.zeros(rows.shape)).astype(np.float32)


def release(ob: bpy.types.Object, names: Iterable[str]) -> None:
    """Give bones their FK rotation back and forget it."""
    from .animation import animated_rotation_components  # builds on this module

    held = [name for name in names if name in ob.pose.bones and ob.pose.bones[name].ik_held_rotation[-1]]
    animated = animated_rotation_components(ob) if held else {}
    for name in held:
        bone = ob.pose.bones[name]
        mode = bone.rotation_mode
        prop, width = channel(mode)
        current = np.array([getattr(bone, prop)], np.float32)
        fk, solved, code = _rows_of(bone, "rotation")
        if code != MODE_CODES[mode]:
            old = [MODES[code - 1]]
            fk, solved = change_mode(fk, old, [mode]), change_mode(solved, old, [mode])
            if np.allclose(current, solved[:, :width], atol=1e-5):
                solved[:, :width] = current
        rows = (current, fk[:, :width], solved[:, :width])
        _give_back(bone, prop, rows, animated.get(name, np.zeros(4, bool))[:width])
        bone.property_unset("ik_held_rotation")


def release_vectors(ob: bpy.types.Object, prop: str, names: Iterable[str]) -> None:
    """Give bones their FK location or scale back and forget it."""
    from .animation import animated_vector_components

    memory = f"ik_held_{prop}"
    held = [name for name in names if name in ob.pose.bones and getattr(ob.pose.bones[name], memory)[-1]]
    animated = animated_vector_components(ob, prop) if held else {}
    for name in held:
        bone = ob.pose.bones[name]
        fk, solved, _ = _rows_of(bone, prop)
        rows = (np.array([getattr(bone, prop)], np.float32), fk, solved)
        _give_back(bone, prop, rows, animated.get(name, np.zeros(3, bool)))
        bone.property_unset(memory)


def _rows_of(bone: Any, channel: str) -> tuple[np.ndarray, np.ndarray, int]:
    """The FK row ``(1, w)`` of a bone, the one last written, and the mark."""
    row = np.array([getattr(bone, f"ik_held_{channel}")], np.float32)
    width = WIDTHS[channel]
    return row[:, :width], row[:, width:-1], int(row[0, -1])


def hold(bone: Any, channel: str, row: np.ndarray) -> None:
    """Make a row ``(w,)`` the FK value of a bone that has a memory, as a chain has just written it."""
    setattr(bone, f"ik_held_{channel}", (*row, *row, getattr(bone, f"ik_held_{channel}")[-1]))


def _give_back(bone: Any, prop: str, rows: tuple[np.ndarray, ...], animated: np.ndarray) -> None:
    """Set a channel to its FK value. Its curves may have set components since, as after a frame change:
    these are FK already, and say nothing of the others.

    Args:
        rows: ``(1, w)`` what the channel holds, its FK value and what was written last.
        animated: ``(w,)`` components that curves set.
    """
    current, fk, solved = rows
    row = fk_rows(current, np.ones(1, bool), fk, solved, animated[None], fresh=False)
    if not np.array_equal(row, current):
        setattr(bone, prop, row[0])


def release_all(ob: bpy.types.Object, names: Iterable[str]) -> None:
    """Give bones their FK pose back in all channels, and forget it."""
    wanted = list(names)
    release(ob, wanted)
    for prop in VECTORS:
        release_vectors(ob, prop, wanted)


def held_bones(ob: bpy.types.Object, prop: str = "rotation") -> list[str]:
    """Names of the bones that have a memory of a channel."""
    bones = ob.pose.bones
    return [bones[int(place)].name for place in np.flatnonzero(read_records(bones, prop)[:, -1])]


def has_held(ob: bpy.types.Object) -> bool:
    """Some bone has a memory."""
    return any(held_bones(ob, prop) for prop in WIDTHS)


def release_unused(ob: bpy.types.Object) -> None:
    """Give those bones their FK pose back that no chain of `ob` writes any more."""
    if not has_held(ob):
        return
    from .chain_bones import ChainError
    from .handling import held_channels  # builds on this module
    from .obstacles import obstacles

    reasons = obstacles(ob)
    used: dict[str, set[str]] = {prop: set() for prop in WIDTHS}
    for chain in ob.ik_chains:
        try:
            channels = held_channels(ob, chain, reasons)
        except ChainError:
            continue
        for prop, names in used.items():
            names.update(getattr(channels, prop))
    release(ob, [name for name in held_bones(ob) if name not in used["rotation"]])
    for prop in VECTORS:
        release_vectors(ob, prop, [name for name in held_bones(ob, prop) if name not in used[prop]])
