# SPDX-License-Identifier: GPL-3.0-or-later
"""Vectors of three plain floats, and the bend plane in them.

A NumPy call takes half a microsecond however small its array, and a solve takes hundreds of
them: live playback of one character would spend its time there. Formulas and order of
operations are those of `bend_plane`, where they are explained.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from .bend_plane import DETOUR, OPPOSITE, PARALLEL, SIN_ALIGNED, SIN_CONE
from .transforms import TINY

Vector = tuple[float, float, float]
# A unit vector, a normal at right angles to it, their cross product.
Frame = tuple[Vector, Vector, Vector]


def dot(a: Vector, b: Vector) -> float:
    """Dot product."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def cross(a: Vector, b: Vector) -> Vector:
    """Cross product."""
    (x, y, z), (u, v, w) = a, b
    return y * w - z * v, z * u - x * w, x * v - y * u


def length(a: Vector) -> float:
    """Euclidean length."""
    x, y, z = a
    return sqrt(x * x + y * y + z * z)


def over(a: Vector, size: float) -> Vector:
    """a / size."""
    inverse = 1.0 / size
    return a[0] * inverse, a[1] * inverse, a[2] * inverse


def less(a: Vector, factor: float, b: Vector) -> Vector:
    """a - factor * b."""
    return a[0] - factor * b[0], a[1] - factor * b[1], a[2] - factor * b[2]


def hinge_frame(bone: Vector, hinge: Vector) -> Frame | None:
    """As `bend_plane.hinge_frames`, of unit vectors; None where they are parallel."""
    normal = less(hinge, dot(bone, hinge), bone)
    square = dot(normal, normal)
    if square < PARALLEL**2:
        return None
    normal = over(normal, sqrt(square))
    return bone, normal, cross(bone, normal)


def carried(frame: Frame, line: Vector) -> Frame | None:
    """A bend plane as `bend_plane.carried_plane` turns it; None for opposite directions."""
    tip, normal, away = frame
    middle = (tip[0] + line[0], tip[1] + line[1], tip[2] + line[2])
    square = dot(middle, middle)
    if square < OPPOSITE**2:
        return None
    normal = less(normal, 2.0 * dot(normal, middle) / square, middle)
    away = less(away, 2.0 * dot(away, middle) / square, middle)
    return line, normal, away


def turned_to_pole(frame: Frame, pole: Vector) -> tuple[Frame, bool]:
    """A bend plane turned to its pole's side as by `bend_plane.pole_turn`, and if that is aligned."""
    size = max(length(pole), TINY)
    pole = over(pole, size)
    _, normal, away = frame
    sine, back = dot(pole, normal), dot(pole, away)
    off_line = sqrt(sine * sine + back * back)
    safe = max(off_line, TINY)
    cosine, sine = -back / safe, sine / safe
    if off_line < SIN_CONE:
        cosine, sine = blend_sides(smooth_step(off_line, SIN_ALIGNED, SIN_CONE), cosine, sine)
    return turned(frame, cosine, sine), off_line < SIN_ALIGNED


def smooth_step(x: float, low: float, high: float) -> float:
    """As `bend_plane.smooth_step`."""
    t = min(max((x - low) / (high - low), 0.0), 1.0)
    return t * t * (3.0 - 2.0 * t)


def blend_sides(weight: float, cosine: float, sine: float) -> tuple[float, float]:
    """As `bend_plane.blend_sides`."""
    rest = 1.0 - weight
    mean = rest + weight * cosine
    aside = weight * (sine + DETOUR * rest * (1.0 - cosine))
    size = sqrt(mean * mean + aside * aside)
    return (mean / size, aside / size) if size else (1.0, 0.0)


def turned_by(frame: Frame, angle: float) -> Frame:
    """A bend plane turned about its line."""
    # NumPy's cosine: the one of `math` may differ from it in the last digit.
    return turned(frame, float(np.cos(angle)), float(np.sin(angle)))


def turned(frame: Frame, cosine: float, sine: float) -> Frame:
    """As `bend_plane.turned_plane`."""
    line, (n0, n1, n2), (w0, w1, w2) = frame
    return (
        line,
        (cosine * n0 + sine * w0, cosine * n1 + sine * w1, cosine * n2 + sine * w2),
        (cosine * w0 - sine * n0, cosine * w1 - sine * n1, cosine * w2 - sine * n2),
    )


def frame_turn(before: Frame, after: Frame) -> tuple[float, float, float, float]:
    """The unit quaternion, w first, of the turn from one frame to another.

    As in `transforms.matrix_to_quaternion` the largest of its parts is found first.
    """
    (a, b, c), (u, v, w) = before, after
    xx, xy, xz = (u[0] * a[j] + v[0] * b[j] + w[0] * c[j] for j in range(3))
    yx, yy, yz = (u[1] * a[j] + v[1] * b[j] + w[1] * c[j] for j in range(3))
    zx, zy, zz = (u[2] * a[j] + v[2] * b[j] + w[2] * c[j] for j in range(3))
    largest = max(xx + yy + zz, xx - yy - zz, yy - xx - zz, zz - xx - yy)
    if largest == xx + yy + zz:
        row = 1.0 + largest, zy - yz, xz - zx, yx - xy
    elif largest == xx - yy - zz:
        row = zy - yz, 1.0 + largest, xy + yx, xz + zx
    elif largest == yy - xx - zz:
        row = xz - zx, xy + yx, 1.0 + largest, yz + zy
    else:
        row = yx - xy, xz + zx, yz + zy, 1.0 + largest
    size = sqrt(row[0] * row[0] + row[1] * row[1] + row[2] * row[2] + row[3] * row[3])
    return row[0] / size, row[1] / size, row[2] / size, row[3] / size
