# SPDX-License-Identifier: GPL-3.0-or-later
"""The one interface of all position solvers: a job in, a result out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np

from .transforms import matrix_to_quaternion, quaternion_to_matrix

# The tip counts as on its target within this share of the chain's length.
REACHED = 1e-9
# A distance or bone below this share of the chain's length has no direction.
ZERO = 1e-12


class Status(IntEnum):
    """Why the tip is not on its target, in the order of the `status` property of a chain."""

    OK = 0
    TARGET_FAR = 1
    TARGET_NEAR = 2
    LIMIT = 3
    INFLUENCE = 4
    NOT_CONVERGED = 5
    POLE_ALIGNED = 6
    BROKEN = 7


@dataclass(frozen=True)
class ChainJob:
    """A chain of n bones in its FK pose, and where its tip shall go.

    All positions share one frame (the add-on uses armature space), any unit of length.

    Attributes:
        joints: ``(..., n + 1, 3)`` positions in the FK pose, from root to tip.
        target: ``(..., 3)`` where the tip shall be.
        hinge: ``(..., 3)`` the bend axis in the FK pose, need not be unit: the normal
            u x Y of the bend plane, u from root to tip, Y from that line to the side
            where the middle stands. Turning the root bone about it, right-handed, leads
            the middle to that side; the bones after the bend turn the other way round.
            It is carried by the bones: after the solve it is the posed plane's normal.
        pole: ``(..., 3)`` vector from the root toward which the middle bends, or None.
        pole_mask: ``(...)`` True where `pole` counts; None: everywhere.
        pole_angle: ``(...)`` turn of the bend plane about the root-target line, radians.
    """

    joints: np.ndarray
    target: np.ndarray
    hinge: np.ndarray
    pole: np.ndarray | None = None
    pole_mask: np.ndarray | None = None
    pole_angle: np.ndarray | float = 0.0

    def validated(self) -> ChainJob:
        """This job with float64 arrays of one common batch shape.

        Raises:
            ValueError: naming the field, for a wrong shape or a value that is not finite.
        """
        joints = _finite("joints", self.joints, (2, 3))
        fields = {"target": (3,), "hinge": (3,), "pole": (3,), "pole_angle": ()}
        arrays = {
            name: _finite(name, getattr(self, name), tail)
            for name, tail in fields.items()
            if getattr(self, name) is not None
        }
        shapes = [a.shape[: a.ndim - len(fields[n])] for n, a in arrays.items()]
        if self.pole_mask is not None:
            arrays["pole_mask"] = np.asarray(self.pole_mask, bool)
            fields["pole_mask"] = ()
            shapes.append(arrays["pole_mask"].shape)
        batch = np.broadcast_shapes(joints.shape[:-2], *shapes)
        spread = {n: np.broadcast_to(a, batch + fields[n]) for n, a in arrays.items()}
        return replace(self, joints=np.broadcast_to(joints, batch + joints.shape[-2:]), **spread)


@dataclass(frozen=True)
class ChainResult:
    """What a solver did to a chain.

    Attributes:
        turns: of each bone's FK orientation, in the job's frame: rotation matrices ``(..., n, 3, 3)``
            or unit quaternions ``(..., n, 4)``, whichever the solver finds.
        joints: ``(..., n + 1, 3)`` positions after the solve.
        residual: ``(...)`` distance from tip to target, in the job's unit.
        status: ``(...)`` int8, values of `Status`.
    """

    turns: np.ndarray
    joints: np.ndarray
    residual: np.ndarray
    status: np.ndarray

    @property
    def rotations(self) -> np.ndarray:
        """The turns as rotation matrices ``(..., n, 3, 3)``."""
        return quaternion_to_matrix(self.turns) if self.turns.shape[-1] == 4 else self.turns

    @property
    def quaternions(self) -> np.ndarray:
        """The turns as unit quaternions ``(..., n, 4)``."""
        return self.turns if self.turns.shape[-1] == 4 else matrix_to_quaternion(self.turns)


def _finite(name: str, value: object, tail: tuple[int, ...]) -> np.ndarray:
    array = np.asarray(value, dtype=np.float64)
    fits = array.ndim >= len(tail) and (len(tail) == 0 or array.shape[-1] == tail[-1])
    if not fits or (len(tail) == 2 and array.shape[-2] < tail[0]):
        raise ValueError(f"{name}: expected shape (..., {', '.join(map(str, tail))}), got {array.shape}")
    if not np.isfinite(array).all():
        bad = array[~np.isfinite(array)].flat[0]
        raise ValueError(f"{name}: expected finite numbers, got {bad}")
    return array
