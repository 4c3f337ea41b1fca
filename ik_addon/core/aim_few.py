# SPDX-License-Identifier: GPL-3.0-or-later
"""`aim.look_at` of a few bones in plain floats, equal to it up to rounding; see `float_vectors`.

Two eyes and a head are the everyday case, in live playback. Formulas are explained where the arrays
are computed; a test compares both. Singular input is left to the arrays.
"""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np

from .bend_plane import OPPOSITE, SIN_CONE
from .float_vectors import Vector, cross, dot, length, less, over, turned_to_pole
from .job import REACHED, ZERO, Status
from .transforms import TINY

# With more bones than this the arrays are faster.
FEW = 8
# Sine from the aim axis below which an up axis has lost digits when it is put at right angles to it.
OBLIQUE = 1e-3
Rows = tuple[Vector, Vector, Vector]


def few_aims(
    bones: np.ndarray, vectors: list[np.ndarray], batch: tuple[int, ...], mask: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Rotations ``(m, 3, 3)``, residual and status ``(m,)``.

    Args:
        bones: ``(m, 3, 3)``.
        vectors: head, target, aim axis, up axis, offset, and the pole if there is one, of shapes
            that spread to ``(*batch, 3)``.
        mask: ``(m,)`` True where the pole counts, or None.

    Returns:
        None for more than `FEW` bones, or where one of them is singular.
    """
    if not 0 < len(bones) <= FEW:
        return None
    counts = [True] * len(bones) if mask is None else mask.tolist()
    rows: list[Any] = [bones.tolist(), *(_rows(v, batch) for v in vectors)]
    solved = []
    for bone, head, target, aim, up, offset, *pole, counted in zip(*rows, counts, strict=True):
        one = _look_at(bone, head, target, aim, up, offset, pole[0] if pole and counted else None)
        if one is None:
            return None
        solved.append(one)
    rotation, residual, status = zip(*solved, strict=True)
    return np.array(rotation), np.array(residual), np.array(status, np.int8)


def _rows(vectors: np.ndarray, batch: tuple[int, ...]) -> list[Any]:
    if vectors.shape[:-1] != batch:
        vectors = np.broadcast_to(vectors, (*batch, 3))
    return vectors.reshape(-1, 3).tolist()


def _look_at(
    bone: Rows, head: Vector, target: Vector, aim: Vector, up: Vector, offset: Vector, pole: Vector | None
) -> tuple[list[list[float]], float, int] | None:
    """Rotation by rows, residual and status of one bone; None where it is singular."""
    way = target[0] - head[0], target[1] - head[1], target[2] - head[2]
    distance, reach = length(way), length(offset)
    if distance <= ZERO * (length(head) + length(target)) + TINY:
        return None
    meeting = _meeting(aim, offset, distance) if reach else aim
    now, side, line = _carried(bone, meeting), _carried(bone, up), over(way, distance)
    flat = less(side, dot(side, now), now)
    off_line = length(flat)
    if off_line < (OBLIQUE if pole is None else SIN_CONE):
        return None
    flat = over(flat, off_line)
    middle = now[0] + line[0], now[1] + line[1], now[2] + line[2]
    square = dot(middle, middle)
    if square < OPPOSITE**2:
        return None
    turned = less(flat, 2.0 * dot(flat, middle) / square, middle)
    turned = less(turned, dot(turned, line), line)
    turned = over(turned, length(turned))
    across, aligned = cross(line, turned), False
    if pole is not None and length(pole) > TINY:
        # The side of the up axis is -w of the bend plane n, w.
        (_, across, away), aligned = turned_to_pole((line, across, over(turned, -1.0)), pole)
        turned = over(away, -1.0)
    columns = list(zip(*bone, strict=True))
    beside = cross(now, flat)
    parts = [(dot(axis, now), dot(axis, flat), dot(axis, beside)) for axis in columns]
    rotation = [
        [u * ahead + t * up_part + c * rest for ahead, up_part, rest in parts]
        for u, t, c in zip(line, turned, across, strict=True)
    ]
    residual = _distance_to_ray(rotation, way, aim, offset)
    near = residual > REACHED * (distance + reach)
    status = Status.TARGET_NEAR if near else Status.POLE_ALIGNED if aligned else Status.OK
    return rotation, residual, status


def _meeting(aim: Vector, offset: Vector, distance: float) -> Vector:
    along = dot(offset, aim)
    aside = less(offset, along, aim)
    reach = sqrt(max(distance * distance - dot(aside, aside), 0.0))
    point = less(aside, -max(reach, along), aim)
    size = length(point)
    return over(point, size) if size > TINY else aim


def _carried(rows: Rows, v: Vector) -> Vector:
    return dot(rows[0], v), dot(rows[1], v), dot(rows[2], v)


def _distance_to_ray(rotation: list[list[float]], way: Vector, aim: Vector, offset: Vector) -> float:
    x, y, z = (dot(axis, way) for axis in zip(*rotation, strict=True))
    local = x - offset[0], y - offset[1], z - offset[2]
    return length(less(local, max(dot(local, aim), 0.0), aim))
