# SPDX-License-Identifier: GPL-3.0-or-later
"""The plane that a limb bends in.

It goes through the root-target line u, with the middle on the side Y and the normal
N = u x Y. A pole sets Y; without one (AUTO) N is the FK pose's hinge, carried by the
shortest turn from the FK tip direction to u.

Where the answer cannot be continuous (a direction at right angles to u that is smooth
for all u does not exist, hairy ball theorem):

- AUTO jumps where the target lies exactly opposite the FK tip direction; there the plane
  is kept. At a small angle e from that line the plane turns 2 / e times as fast as the
  target: a middle joint of two equal bones stays below 25 times the target's path from 5
  degrees on for targets beyond 0.43 of the limb's length, from 7.5 degrees on beyond 0.3.
- With a pole, the plane turns 1 / sin(e) times as fast as the target at an angle e from
  the pole's line (from 5 degrees on at most 25 times, beyond 0.3 of the length). Within
  `CONE` of that line the pole's side is blended with the AUTO side, which rules alone
  within `ALIGNED` (status POLE_ALIGNED). So a target that crosses the line turns the bend
  step by step, also to the opposite side. One direction stays singular at each end of the
  line: where the pole's side lies 120 degrees left-handed about u from the AUTO side, two
  thirds of the blend toward the pole. The way round is the same for a limb and for its
  mirror image.
- With the target on the root there is no line.

Arrays have the batch last, ``(3, n)``: NumPy is several times faster along a long last
axis than along one of three. A plane is ``(2, 3, n)``: N, and `away` = u x N = -Y.
"""

from __future__ import annotations

import numpy as np

from .transforms import TINY, perpendicular

# Half angle of the cone around the root-target line in which pole and AUTO are blended.
CONE = np.radians(5.0)
# Half angle of the cone in which the pole does not determine the bend plane at all.
ALIGNED = np.radians(0.1)

SIN_CONE, SIN_ALIGNED = float(np.sin(CONE)), float(np.sin(ALIGNED))
# Sine of the angle to a bone below which a hinge is taken as parallel to it.
PARALLEL = 1e-6
# Length of the sum of two unit vectors below which they are taken as opposite.
OPPOSITE = 1e-6
# Sines of the FK bend between which the rest hinge gives way to the FK plane's normal.
STRAIGHT, BENT = 1e-4, 8e-4
# How far the blend of two bend sides swings out; sets the singular 120 degrees.
DETOUR = float(np.sqrt(3.0))


def hinge_frames(bones: np.ndarray, hinge: np.ndarray) -> np.ndarray:
    """Frames (bone, hinge, bone x hinge) of the unit ``bones`` ``(k, 3, n)``.

    The hinge ``(3, n)``, unit, is made orthogonal to each bone. One that is parallel to a
    bone is replaced by the normal of the first and last one's plane, by `perpendicular`
    where these are parallel. Returns ``(3, k, 3, n)``.
    """
    frames = np.empty((3, *bones.shape))
    normals = hinge - dot(bones, hinge)[:, None] * bones
    squares = dot(normals, normals)
    parallel = squares < PARALLEL**2
    if parallel.any():
        first = np.where(dot(bones[0], bones[0]) > 0.5, bones[0], bones[-1])
        plane = cross(bones[-1], bones[0])
        straight = dot(plane, plane) < PARALLEL**2
        plane = np.where(straight, perpendicular(first.T).T, plane)
        normals = np.where(parallel.any(axis=0), plane, hinge)
        normals = normals - dot(bones, normals)[:, None] * bones
        squares = np.maximum(dot(normals, normals), TINY)
    frames[0] = bones
    np.multiply(normals, (1.0 / np.sqrt(squares))[:, None], out=frames[1])
    frames[2] = cross(bones, frames[1])
    return frames


def carried_plane(tip: np.ndarray, plane: np.ndarray, line: np.ndarray) -> np.ndarray:
    """The FK bend plane ``(2, 3, n)`` after the shortest turn of ``tip`` onto ``line``.

    For vectors at right angles to ``tip`` that turn is the reflection that swaps tip and
    -line, which needs no angle.
    """
    middle = tip + line
    square = dot(middle, middle)
    opposite = square < OPPOSITE**2
    ratio = 2.0 * dot(plane, middle) / np.maximum(square, TINY)
    carried = plane - ratio[:, None] * middle
    if opposite.any():
        normal = plane[0] - dot(plane[0], line) * line
        normal /= np.maximum(np.sqrt(dot(normal, normal)), TINY)
        carried = np.where(opposite, np.stack([normal, cross(line, normal)]), carried)
    return carried


def pole_turn(
    pole: np.ndarray, plane: np.ndarray, mask: np.ndarray | None, on_root: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Turn about the line from the AUTO side to the pole's.

    Returns cosine and sine ``(n,)``, and where the pole does not determine the plane.
    """
    sine, away = dot(pole, plane)
    off_line = np.sqrt(sine * sine + away * away)
    if on_root is not None:
        off_line = np.where(on_root, 0.0, off_line)
    safe = np.maximum(off_line, TINY)
    cosine, sine = -away / safe, sine / safe
    near = np.flatnonzero(off_line < SIN_CONE)
    aligned = None
    if near.size:
        weight = smooth_step(off_line[near], SIN_ALIGNED, SIN_CONE)
        cosine[near], sine[near] = blend_sides(weight, cosine[near], sine[near])
        aligned = off_line < SIN_ALIGNED
    if mask is not None:
        cosine, sine = np.where(mask, cosine, 1.0), np.where(mask, sine, 0.0)
        aligned = None if aligned is None else aligned & mask
    return cosine, sine, aligned


def blend_sides(weight: np.ndarray, cosine: np.ndarray, sine: np.ndarray) -> np.ndarray:
    """Cosine and sine ``(2, n)`` of part of a turn: none at weight 0, all of it at 1.

    A plain mean of both directions would be singular for opposite ones, which is what a
    limb that stays in its plane meets. The detour moves that place to where the cosine
    is -1/2, the sine -sqrt(3)/2 and the weight 2/3; it vanishes where both agree.
    """
    rest = 1.0 - weight
    mean = np.stack([rest + weight * cosine, weight * (sine + DETOUR * rest * (1.0 - cosine))])
    size = np.sqrt(mean[0] * mean[0] + mean[1] * mean[1])
    mean[0] += size == 0.0
    return mean / (size + (size == 0.0))


def turned_plane(plane: np.ndarray, cosine: np.ndarray, sine: np.ndarray) -> np.ndarray:
    """The plane ``(2, 3, n)`` turned about the line."""
    turned = cosine * plane
    turned[0] += sine * plane[1]
    turned[1] -= sine * plane[0]
    return turned


def smooth_step(x: np.ndarray, low: float, high: float) -> np.ndarray:
    """From 0 at ``low`` to 1 at ``high``, with no slope at both ends."""
    t = np.minimum(np.maximum((x - low) / (high - low), 0.0), 1.0)
    return t * t * (3.0 - 2.0 * t)


def dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Dot product, ``(..., 3, n) -> (..., n)``; the order of the sum never depends on n."""
    products = a * b
    return products[..., 0, :] + products[..., 1, :] + products[..., 2, :]


def cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Cross product of ``(..., 3, n)``, over the components x, y, z, x, y."""
    a = np.concatenate((a, a[..., :2, :]), axis=-2)
    b = np.concatenate((b, b[..., :2, :]), axis=-2)
    return a[..., 1:4, :] * b[..., 2:5, :] - a[..., 2:5, :] * b[..., 1:4, :]
