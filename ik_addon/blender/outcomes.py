# SPDX-License-Identifier: GPL-3.0-or-later
"""What a solve found, as the channels of pose bones and the results of chains that Blender stores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core.channels import from_quaternion
from ..core.work import Solution
from .plan import Plan, Rig, VectorChannel
from .reading import Reading

LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Outcome:
    """One frame of one rig.

    Attributes:
        rotation: ``(k, 4)`` float32 channel rows of the bones that chains turn.
        vectors: ``(k, 3)`` float32 rows of each of the rig's `vectors`.
        residual, status: ``(chains,)`` float32 and int32.
    """

    rotation: np.ndarray
    vectors: tuple[np.ndarray, ...]
    residual: np.ndarray
    status: np.ndarray

    @property
    def bytes(self) -> int:
        """Memory that the arrays take."""
        arrays = (self.rotation, *self.vectors, self.residual, self.status)
        return sum(array.nbytes for array in arrays)


def outcomes(plan: Plan, reading: Reading, solution: Solution) -> tuple[Outcome, ...]:
    """What the solve of a single frame found, for each rig of the plan."""
    found, first = [], 0
    for rig, fk_vectors in zip(plan.rigs, reading.fk_vectors, strict=True):
        rows = slice(first, first + len(rig.places))
        first = rows.stop
        vectors = zip(rig.vectors, fk_vectors, strict=True)
        found.append(
            Outcome(
                rotation=solved_rows(rig, reading.fk[:, rows], solution)[0],
                vectors=tuple(solved_vectors(channel, fk, solution)[0] for channel, fk in vectors),
                residual=np.minimum(solution.residual[0, rig.chains], LARGEST).astype(np.float32),
                status=solution.status[0, rig.chains].astype(np.int32),
            )
        )
    return tuple(found)


def solved_rows(rig: Rig, fk: np.ndarray, solution: Solution) -> np.ndarray:
    """Channel rows ``(F, k, 4)`` float32 of a solution; unchanged bones keep their FK row to the bit."""
    rows = from_quaternion(solution.rotation[:, rig.places], rig.modes, fk).astype(np.float32)
    changed = solution.changed[:, rig.places]
    return rows if changed.all() else np.where(changed[..., None], rows, fk)


def solved_vectors(channel: VectorChannel, fk: np.ndarray, solution: Solution) -> np.ndarray:
    """Rows ``(F, k, 3)`` float32 of a solved location or scale channel."""
    is_location = channel.prop == "location"
    rows = solution.location if is_location else solution.scale
    changed = vectors_changed(channel, solution)
    return np.where(changed[..., None], rows[:, channel.places].astype(np.float32), fk)


def vectors_changed(channel: VectorChannel, solution: Solution) -> np.ndarray:
    """``(F, k)`` where chains write a location or scale channel."""
    changed = solution.moved if channel.prop == "location" else solution.scaled
    return changed[:, channel.places]
