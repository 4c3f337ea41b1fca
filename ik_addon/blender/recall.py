# SPDX-License-Identifier: GPL-3.0-or-later
"""Frames that were solved before: playing a shot in a loop meets them again, scrubbing does too.

A solve is a function of what was read and of nothing else. So what it gave for the same numbers, to
the last bit, is what it would give: no frame can look different because it was remembered.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

# Memory for what is remembered, at 24 frames a second: half a minute of 200 limbs, 15 minutes of four.
MOST_BYTES = 64 * 2**20
# What Python takes for a frame, and for each rig in it, beside their numbers: more than those of one leg.
FRAME_BYTES = 500

# The plan's serial, and all numbers that were read.
Key = tuple[int, bytes]


class Recall:
    """What solves gave by what was read; those that were not used for the longest time make room."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self.most_bytes = most_bytes
        self.bytes = 0
        self._found: OrderedDict[Key, tuple[Any, ...]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._found)

    def get(self, key: Key) -> tuple[Any, ...] | None:
        """What the solve gave, one for each rig; None where it is not remembered."""
        found = self._found.get(key)
        if found is not None:
            self._found.move_to_end(key)
        return found

    def put(self, key: Key, found: tuple[Any, ...]) -> None:
        """Remember what a solve gave."""
        if key not in self._found:
            self.bytes += _size(key, found)
        self._found[key] = found
        while self.bytes > self.most_bytes and self._found:
            self.bytes -= _size(*self._found.popitem(last=False))

    def clear(self) -> None:
        """Forget everything."""
        self._found.clear()
        self.bytes = 0


def _size(key: Key, found: tuple[Any, ...]) -> int:
    return FRAME_BYTES + len(key[1]) + sum(FRAME_BYTES + outcome.bytes for outcome in found)
