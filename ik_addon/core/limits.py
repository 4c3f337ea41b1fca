# SPDX-License-Identifier: GPL-3.0-or-later
"""Joint limits: the box of channel rotations that a bone may take.

A bone's *channel rotation* is what its own channels make (`PoseBone.matrix_basis`), relative to
its rest orientation. It is taken apart into Euler angles x, y, z about the bone's own axes, Y the
bone itself, in Blender's order "XYZ" (x applied first: Rz @ Ry @ Rx) or, for each bone, another
one. Every angle has a range of its own, so a joint with one free axis is a hinge, one with
three a box. That is the reading of the Limit Rotation constraint, which names the order.

Blender's own IK solver (IK_QSegment.cpp) reads `PoseBone.ik_min_x` and the like as the same angle
with the same sign where one axis is free. Where X and Z are, it clamps the swing of Y to an
ellipse over sines of half angles and keeps Y, the twist, apart; no Euler order is equal to that.
It sets locked axes to zero wherever one axis of the joint is free. Here they keep their FK angle, so that
a lock never moves a bone.

Euler angles are angles of a circle with two names for each rotation, (x, y, z) and
(x + pi, pi - y, z + pi) in order XYZ. The name that violates the box least is taken, so ranges
across 180 degrees and beyond 90 degrees of the middle axis hold as they are written.

Rotations are unit quaternions ``(..., 4)``, w x y z; angles are radians.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from .transforms import EULER_ORDERS

# A joint further outside its box than this, in radians, is solved again.
KEPT = 1e-7

TAU = 2.0 * np.pi
# Angles and squares of angles that differ by less are the same.
_ROUNDING = 1e-12
# Nearer to gimbal lock than this the split between first and third angle is rounding.
_GIMBAL = 1e-9
# From w, x, y, z to sine and cosine, of unequal length, of half the difference of third and first
# Euler angle and half their sum: (z - x, w + y) and (z + x, w - y).
_PARTS = np.array([[0.0, 0.0, 1.0, 1.0], [-1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, -1.0], [1.0, 1.0, 0.0, 0.0]])
_SUMS = np.array([[-1.0, 0.0, 1.0], [1.0, 0.0, 1.0]])


class JointLimit(NamedTuple):
    """Ranges of the Euler angles of one bone, as `JointLimits` of many: radians, infinite: free."""

    lower: tuple[float, float, float] = (-np.inf, -np.inf, -np.inf)
    upper: tuple[float, float, float] = (np.inf, np.inf, np.inf)
    locked: tuple[bool, bool, bool] = (False, False, False)
    order: str = "XYZ"


@dataclass(frozen=True)
class JointLimits:
    """Ranges of the Euler angles of n bones.

    Attributes:
        lower, upper: ``(..., n, 3)`` radians, stored x, y, z; infinite: free. A range of a full turn
            or more is free. They must be equal or in order; 340 to 20 degrees is -20 to 20.
        locked: ``(..., n, 3)`` True where the axis keeps its FK angle, whatever the range.
        order: Blender's name of the Euler order, one for all or ``(..., n)``.

    Raises:
        ValueError: naming the field and the bone, for a wrong shape, nan, a minimum above its
            maximum, or an unknown order.
    """

    lower: np.ndarray
    upper: np.ndarray
    locked: np.ndarray = field(default_factory=lambda: np.zeros((), bool))
    order: np.ndarray = field(default_factory=lambda: np.array("XYZ"))

    def __post_init__(self) -> None:
        lower, upper = np.asarray(self.lower, float), np.asarray(self.upper, float)
        if lower.shape != upper.shape or lower.ndim < 2 or lower.shape[-1] != 3:
            shapes = f"{lower.shape} and {upper.shape}"
            raise ValueError(f"lower, upper: expected one shape (..., n, 3), got {shapes}")
        bad = ~(lower <= upper)
        if bad.any():
            at = tuple(np.argwhere(bad)[0].tolist())
            axis = "xyz"[at[-1]]
            raise ValueError(
                f"lower: expected at most upper, got {lower[at]:g} to {upper[at]:g} "
                f"for axis {axis} of bone {at[-2]}"
            )
        order = np.broadcast_to(np.asarray(self.order, dtype=str), lower.shape[:-1])
        unknown = [name for name in np.unique(order) if name not in EULER_ORDERS]
        if unknown:
            raise ValueError(f"order: expected one of {', '.join(EULER_ORDERS)}, got {unknown[0]!r}")
        free = ~(upper - lower < TAU)
        for name, value in (
            ("lower", np.where(free, -np.inf, lower)),
            ("upper", np.where(free, np.inf, upper)),
            ("locked", np.broadcast_to(np.asarray(self.locked, bool), lower.shape)),
            ("order", order),
        ):
            object.__setattr__(self, name, value)

    @classmethod
    def of(cls, chains: Sequence[Sequence[JointLimit]]) -> JointLimits:
        """The limits ``(m, n)`` of m chains of n bones."""
        lower, upper, locked, order = (
            np.array([[getattr(bone, name) for bone in chain] for chain in chains])
            for name in JointLimit._fields
        )
        return cls(lower, upper, locked, order)

    @cached_property
    def _naming(self) -> EulerNaming | None:
        if (self.order == "XYZ").all():
            return None
        return EulerNaming.of(self.order)

    @cached_property
    def _box(self) -> Box:
        """The box without regard to locks."""
        lower, upper = self.lower, self.upper
        if self._naming is not None:
            lower, upper = self._naming.box_to_canonical(lower, upper)
        return Box(lower, upper, self._naming)

    def box(self, fk: np.ndarray | None = None) -> Box:
        """The box of each bone in each pose, with locked axes held at their FK angles.

        Args:
            fk: ``(..., n, 4)`` channel rotations in the FK pose; only needed where axes are locked.
        """
        box = self._box
        if not self._has_locks:
            return box
        if fk is None:
            raise ValueError("fk: locked axes need the FK pose")
        locked, at_rest = self._locks
        held = at_rest.nearest(box.canonical(fk))
        return Box(np.where(locked, held, box.lower), np.where(locked, held, box.upper), self._naming)

    @cached_property
    def _locks(self) -> tuple[np.ndarray, Box]:
        """The canonical locked axes, and the box with these at rest.

        Of the names of a FK rotation the one next to it leaves the locked axes nearest to rest.
        """
        locked = self.locked if self._naming is None else self._naming.flags_to_canonical(self.locked)
        box = self._box
        return locked, Box(np.where(locked, 0.0, box.lower), np.where(locked, 0.0, box.upper), None)

    @cached_property
    def _has_locks(self) -> bool:
        return bool(self.locked.any())


@dataclass(frozen=True)
class EulerNaming:
    """How Euler angles in some order are those in the order XYZ of a turned frame.

    Rk(c) @ Rj(b) @ Ri(a), about the axes i, j, k of an order, is Rz @ Ry @ Rx of a frame whose
    x, y, z are those axes, the third one reversed where they are left-handed.

    Attributes:
        axes: ``(..., n, 3)`` the axes i, j, k; signs: ``(..., n, 3)`` 1 or -1 for each.
    """

    axes: np.ndarray
    signs: np.ndarray

    @staticmethod
    def of(order: np.ndarray) -> EulerNaming:
        names, index = np.unique(order, return_inverse=True)
        table = [EULER_ORDERS[name] for name in names]
        axes = np.array([(i, j, k) for i, j, k, _ in table])
        signs = np.array([(1.0, 1.0, -1.0 if odd else 1.0) for *_, odd in table])
        return EulerNaming(axes[index].reshape(*order.shape, 3), signs[index].reshape(*order.shape, 3))

    def vectors_to_canonical(self, values: np.ndarray) -> np.ndarray:
        """Angles or vector parts ``(..., n, 3)``, stored x, y, z, in the turned frame."""
        return np.take_along_axis(values, _like(self.axes, values), axis=-1) * self.signs

    def vectors_to_stored(self, values: np.ndarray) -> np.ndarray:
        """The inverse of `vectors_to_canonical`."""
        out = np.empty(values.shape)
        np.put_along_axis(out, _like(self.axes, values), values * self.signs, axis=-1)
        return out

    def flags_to_canonical(self, flags: np.ndarray) -> np.ndarray:
        return np.take_along_axis(flags, _like(self.axes, flags), axis=-1)

    def box_to_canonical(self, lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        one, other = self.vectors_to_canonical(lower), self.vectors_to_canonical(upper)
        return np.minimum(one, other), np.maximum(one, other)

    def matrices(self) -> np.ndarray:
        """``(..., n, 3, 3)`` rotations whose columns are the axes of the turned frame."""
        return np.swapaxes(np.eye(3)[self.axes] * self.signs[..., None], -1, -2)


@dataclass(frozen=True)
class Box:
    """Closed ranges of the Euler angles of n bones; equal bounds hold an axis in place.

    Attributes:
        lower, upper: ``(..., n, 3)`` in order XYZ of the turned frame of `naming`.
        naming: None where that is the bone's own frame.
    """

    lower: np.ndarray
    upper: np.ndarray
    naming: EulerNaming | None

    @cached_property
    def middle(self) -> np.ndarray:
        """``(..., n, 3)`` the middle of each range, 0 where it is infinite."""
        free = np.isinf(self.lower)
        low, high = np.where(free, 0.0, self.lower), np.where(free, 0.0, self.upper)
        return 0.5 * (low + high)

    def angles(self, rotation: np.ndarray) -> np.ndarray:
        """Euler angles ``(..., n, 3)``, stored x, y, z, of channel rotations ``(..., n, 4)``.

        Of all triples that name a rotation it is the one that violates the box least.
        """
        angles = self.nearest(self.canonical(rotation))
        return angles if self.naming is None else self.naming.vectors_to_stored(angles)

    def violation(self, rotation: np.ndarray) -> np.ndarray:
        """``(..., n)`` by how many radians the worst angle of each bone is outside its range."""
        angles = self.nearest(self.canonical(rotation))
        return np.maximum(self._outside(angles), 0.0).max(axis=-1)

    def exceeded(self, rotation: np.ndarray) -> np.ndarray:
        """``(...)`` True for chains of which a bone violates its box by more than `KEPT`."""
        outside = self._outside(self.nearest(self.canonical(rotation)))
        return np.logical_or.reduce(outside > KEPT, axis=(-1, -2))

    def clamp(self, rotation: np.ndarray) -> np.ndarray:
        """Rotations ``(..., n, 4)`` with each angle brought to the nearest end of its range.

        Rotations that are inside stay as they are to the bit.
        """
        angles = self.nearest(self.canonical(rotation))
        inside: np.ndarray = np.all(self._outside(angles) <= 0.0, axis=-1)
        clamped = self.stored(rotation_of(np.clip(angles, self.lower, self.upper)))
        return np.where(inside[..., None], rotation, clamped)

    def canonical(self, rotation: np.ndarray) -> np.ndarray:
        """Rotations ``(..., n, 4)`` as seen from the frame of `naming`."""
        if self.naming is None:
            return rotation
        vector = self.naming.vectors_to_canonical(rotation[..., 1:])
        return np.concatenate([rotation[..., :1], vector], axis=-1)

    def stored(self, rotation: np.ndarray) -> np.ndarray:
        """The inverse of `canonical`."""
        if self.naming is None:
            return rotation
        vector = self.naming.vectors_to_stored(rotation[..., 1:])
        return np.concatenate([rotation[..., :1], vector], axis=-1)

    def bones(self, at: slice) -> Box:
        """The boxes of some of the n bones."""
        naming = self.naming
        if naming is not None:
            naming = EulerNaming(naming.axes[..., at, :], naming.signs[..., at, :])
        return Box(self.lower[..., at, :], self.upper[..., at, :], naming)

    def holding(self, bone: int, rotation: np.ndarray) -> Box:
        """This box with one bone held at rotations ``(..., 4)``, or next to them where they are outside."""
        angles = self.nearest(self.canonical(rotation[..., None, :].repeat(self.lower.shape[-2], axis=-2)))
        held = np.clip(angles, self.lower, self.upper)
        only = (np.arange(self.lower.shape[-2]) == bone)[:, None]
        return Box(np.where(only, held, self.lower), np.where(only, held, self.upper), self.naming)

    def pick(self, at: np.ndarray | tuple, batch: tuple[int, ...] | None = None) -> Box:
        """The boxes of an index into the leading dimensions, spread to ``batch`` before."""

        def part(array: np.ndarray) -> np.ndarray:
            return (array if batch is None else np.broadcast_to(array, (*batch, *array.shape[-2:])))[at]

        naming = self.naming
        if naming is not None:
            naming = EulerNaming(part(naming.axes), part(naming.signs))
        return Box(part(self.lower), part(self.upper), naming)

    def nearest(self, rotation: np.ndarray) -> np.ndarray:
        """The canonical triple ``(..., n, 3)`` of canonical rotations that violates least."""
        first, gimbal = _first_triple(rotation)
        first -= TAU * np.rint((first - self.middle) / TAU)
        outside = self._outside(first)
        if not np.count_nonzero(gimbal) and not np.count_nonzero(outside > _ROUNDING):
            return first
        second = first + np.pi
        second[..., 1] = np.pi - first[..., 1]
        best, cost = first, _cost(outside)
        for other in (second, *self._at_gimbal(first, gimbal)):
            other -= TAU * np.rint((other - self.middle) / TAU)
            found = _cost(self._outside(other))
            better = found < cost - _ROUNDING
            best, cost = np.where(better[..., None], other, best), np.where(better, found, cost)
        return best

    def _at_gimbal(self, first: np.ndarray, gimbal: np.ndarray) -> list[np.ndarray]:
        """At gimbal lock only third - sign * first is known: splits that put either in range."""
        if not gimbal.any():
            return []
        lower, upper = np.broadcast_to(self.lower, first.shape), np.broadcast_to(self.upper, first.shape)
        sign = np.sign(np.sin(first[..., 1]))
        splits = []
        for pinned, follower in ((0, 2), (2, 0)):
            shift = np.clip(first[..., pinned], lower[..., pinned], upper[..., pinned]) - first[..., pinned]
            split = first.copy()
            split[..., pinned] += shift
            split[..., follower] += sign * shift
            splits.append(np.where(gimbal[..., None], split, first))
        return splits

    def _outside(self, angles: np.ndarray) -> np.ndarray:
        return np.maximum(self.lower - angles, angles - self.upper)


def rotation_of(angles: np.ndarray) -> np.ndarray:
    """Unit quaternions ``(..., 4)`` of Euler angles ``(..., 3)`` in order XYZ."""
    half = 0.5 * angles
    cosines, sines = np.cos(half), np.sin(half)
    (cx, cy, cz), (sx, sy, sz) = np.moveaxis(cosines, -1, 0), np.moveaxis(sines, -1, 0)
    out = np.empty((*angles.shape[:-1], 4))
    yz, zy, same, other = cy * cz, sy * sz, sy * cz, cy * sz
    out[..., 0] = cx * yz + sx * zy
    out[..., 1] = sx * yz - cx * zy
    out[..., 2] = cx * same + sx * other
    out[..., 3] = cx * other - sx * same
    return out


def _like(index: np.ndarray, values: np.ndarray) -> np.ndarray:
    return np.broadcast_to(index, values.shape)


def _cost(outside: np.ndarray) -> np.ndarray:
    return np.square(np.maximum(outside, 0.0)).sum(axis=-1)


def _first_triple(rotation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Euler angles XYZ with the middle one within 90 degrees, and where that is gimbal lock.

    From half sum and half difference of the outer angles (Bernardes and Viollet 2022,
    "Quaternion to Euler angles conversion"), which loses no digit of the middle angle.
    """
    parts = rotation @ _PARTS
    sine, cosine = parts[..., :2], parts[..., 2:]
    size = np.hypot(sine, cosine)
    out = np.arctan2(sine, cosine) @ _SUMS
    out[..., 1] = 2.0 * np.arctan2(size[..., 0], size[..., 1]) - 0.5 * np.pi
    return out, np.logical_or.reduce(size < _GIMBAL, axis=-1)
