# SPDX-License-Identifier: GPL-3.0-or-later
"""Exact solve of a limb whose lower bone is a hinge with a range, an everyday knee or elbow.

The hinge may stand anyhow in the limb. The distance from root to tip is a sine of its angle,
a range of angles makes the distance an interval, and out of the two angles for a distance in
reach the one nearer to the free solution is taken. The upper bone then turns the tip onto the
line to the target: by the shortest way from where the free solution has it, and with a pole
about the line until the middle joint is in the plane where the free solution has it.

With the middle on the line the pole has no say; between bends of `STRAIGHT` and `BENT` it is
blended in. The shortest way has no continuous answer for opposite directions.

Arrays have the batch last, see `limited_chain`; angles are those of order XYZ.
"""

from __future__ import annotations

import numpy as np

from .bend_plane import (
    BENT,
    STRAIGHT,
    blend_sides,
    carried_plane,
    dot,
    hinge_frames,
    smooth_step,
    turned_plane,
)
from .job import ZERO
from .limited_chain import Chains, turns
from .transforms import TINY

# Ranges narrower than this are held in place.
HELD = 1e-9


def hinged(chains: Chains) -> np.ndarray:
    """``(m,)`` True for limbs of two bones whose lower one has exactly one axis to turn about."""
    if len(chains.step) != 2:
        return np.zeros(chains.target.shape[-1], bool)
    return (chains.upper[1] - chains.lower[1] > HELD).sum(axis=0) == 1


def solve_hinge(chains: Chains, start: np.ndarray, has_pole: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The limbs with the upper bone free, as near to their targets as the hinges let them.

    Args:
        chains: limbs for which `hinged` is True.
        start: ``(2, 3, m)`` angles of the free solution, of which the lower bone's may be outside.
        has_pole: ``(m,)`` True where the middle joint is to stay on its side of the line.

    Returns:
        ``(3, 3, m)`` the upper bone's rotation from its rest orientation, and ``(3, m)`` the
        lower bone's angles, inside their ranges.
    """
    size = start.shape[-1]
    rows = np.arange(size)
    axis = np.argmax(chains.upper[1] - chains.lower[1], axis=0)
    sine = _tip_of_angle(chains, axis)
    distance = np.sqrt(dot(chains.target, chains.target))
    wanted, low, high = (of[1, axis, rows] for of in (start, chains.lower, chains.upper))
    angle = _hinge_angle(chains.step[0], sine, distance, wanted, low, high)
    lower = np.clip(start[1], chains.lower[1], chains.upper[1])
    lower[axis, rows] = angle
    tip = chains.step[0] + sine[0] + np.cos(angle) * sine[1] + np.sin(angle) * sine[2]

    above = np.einsum("ijm,jkm->ikm", chains.base, chains.rest[0])
    wanted = np.einsum("ijm,jkm->ikm", above, turns(start[:1])[0]) if start[0].any() else above
    bend_axis = chains.rest[1][:, axis, rows]
    upper = _upper_frame(chains, tip, bend_axis, wanted, distance, has_pole)
    return np.einsum("jim,jkm->ikm", above, upper), lower


def _tip_of_angle(chains: Chains, axis: np.ndarray) -> np.ndarray:
    """The lower bone in the upper bone's frame as k + cos(angle) m + sin(angle) l: k, m, l ``(3, 3, m)``."""
    rows = np.arange(len(axis))
    # Equal bounds are angles; the hinge's own are replaced by three that tell the circle.
    held = np.repeat(chains.lower[1][None], 3, axis=0)
    held[:, axis, rows] = np.array([[0.0], [0.5 * np.pi], [np.pi]])
    bone = np.einsum("aijm,jm->aim", turns(held), chains.step[1])
    ahead, aside, behind = np.einsum("ijm,ajm->aim", chains.rest[1], bone)
    middle = 0.5 * (ahead + behind)
    return np.stack([middle, ahead - middle, aside - middle])


def _hinge_angle(
    upper_bone: np.ndarray,
    sine: np.ndarray,
    distance: np.ndarray,
    wanted: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
) -> np.ndarray:
    """The angle ``(m,)`` in range with the tip's distance nearest to ``distance``.

    The square of the distance is mean + swing cos(angle - peak).
    """
    along, ahead, aside = 2.0 * dot(sine, upper_bone)
    mean = dot(upper_bone, upper_bone) + dot(sine[0], sine[0]) + dot(sine[1], sine[1]) + along
    swing, peak = np.hypot(ahead, aside), np.arctan2(aside, ahead)
    cosine = (distance * distance - mean) / np.maximum(swing, TINY)
    bend = np.arccos(np.clip(cosine, -1.0, 1.0))
    free = np.isinf(low)
    low, high = np.where(free, wanted - np.pi, low), np.where(free, wanted + np.pi, high)
    choices = np.stack([peak + bend, peak - bend, low, high, wanted])
    turn = 2.0 * np.pi
    choices[:2] -= turn * np.round((choices[:2] - 0.5 * (low + high)) / turn)
    choices = np.clip(choices, low, high)
    reached = np.sqrt(np.maximum(mean + swing * np.cos(choices - peak), 0.0))
    gap = np.abs(reached - distance)
    as_near = gap <= gap.min(axis=0) + ZERO
    away = np.where(as_near, np.abs(choices - wanted), np.inf)
    return np.take_along_axis(choices, away.argmin(axis=0)[None], axis=0)[0]


def _upper_frame(
    chains: Chains,
    tip: np.ndarray,
    bend_axis: np.ndarray,
    wanted: np.ndarray,
    distance: np.ndarray,
    has_pole: np.ndarray,
) -> np.ndarray:
    """Orientation ``(3, 3, m)`` of the upper bone with the tip, ``(3, m)`` in its frame, on the line."""
    bone = chains.step[0]
    size = np.sqrt(dot(tip, tip))
    bone_size = np.sqrt(dot(bone, bone))
    direction = np.where(size > ZERO, tip / np.maximum(size, TINY), bone / np.maximum(bone_size, TINY))
    own = hinge_frames(direction[None], bend_axis)[:, 0]
    posed = np.einsum("ijm,ajm->aim", wanted, own)
    line = np.where(distance > ZERO, chains.target / np.maximum(distance, TINY), posed[0])
    plane = carried_plane(posed[0], posed[1:], line)
    if has_pole.any():
        plane = _kept_side(plane, own, bone, np.einsum("ijm,jm->im", wanted, bone), has_pole)
    return np.einsum("aim,ajm->ijm", np.stack([line, *plane]), own)


def _kept_side(
    plane: np.ndarray, own: np.ndarray, bone: np.ndarray, wanted: np.ndarray, has_pole: np.ndarray
) -> np.ndarray:
    """The plane turned about the line until the middle joint is beside where it is wanted."""
    now, to = dot(own[1:], bone), dot(plane, wanted)
    size = np.sqrt(dot(bone, bone))
    sizes = np.sqrt(now[0] ** 2 + now[1] ** 2), np.sqrt(to[0] ** 2 + to[1] ** 2)
    least = np.minimum(*sizes) / np.maximum(size, TINY)
    weight = np.where(has_pole, smooth_step(least, STRAIGHT, BENT), 0.0)
    both = np.maximum(sizes[0] * sizes[1], TINY)
    cosine = (now[0] * to[0] + now[1] * to[1]) / both
    sine = (now[0] * to[1] - now[1] * to[0]) / both
    turn = blend_sides(weight, cosine, sine)
    return turned_plane(plane, *turn)
