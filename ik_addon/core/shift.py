# SPDX-License-Identifier: GPL-3.0-or-later
"""How far a bone above some chains moves so that their targets come within reach.

A chain of length L with softness s (at least `EASE_IN`, in units of L below) lets its tip reach
d' = soft(d) of a target at distance d (`reach.soft_distance`). To have the tip on the target its
root must come nearer by d - d'. Read the other way round, a chain whose root is at the distance
d' pulls with

    pull(d') = hard(d') - d' = s ln(s / (L - d')) - s + (L - d')        beyond the onset L - s

and not at all before. A bone moves to where the pulls of all chains balance its way:

    v = sum of pull_i(|c_i - v|) * direction of (c_i - v),      c_i from root i to target i

For one chain that is v = d - soft(d), just what is needed. For several it is the minimum of a
strictly convex function, so there is one such place; it does not depend on the order of the
chains and moves without jump or kink when they or their targets do. A chain that is within reach
pulls as soon as the others would take it out of reach. Where no place serves all, the pulls go on
almost like stiff springs: the sum of the squared gaps is the least.
"""

from __future__ import annotations

import numpy as np

from .reach import soft_distance
from .smoothing import window
from .transforms import dot, length

# Last part of the largest shift, and of a hard chain's reach, in which the shift eases: without
# it the moved bone would start and stop with a jolt.
EASE_OUT, EASE_IN = 0.25, 0.02
# The pull grows without end toward full reach. From this share of the soft zone on it goes on as
# a line, so that a tip is off by less than 1e-7 of the shift for it.
STIFF = float(np.exp(-18.0))
# The lines are made steep step by step, each time from the place found before: Newton's method
# is lost where they are steep at once.
STAGES = (float(np.exp(-4.0)), float(np.exp(-8.0)), float(np.exp(-13.0)), STIFF)
STEPS = 20
# The place is found when it moves by less than this fraction of the distances.
SETTLED = 1e-11


def limited_shift(shift: np.ndarray, largest: np.ndarray) -> np.ndarray:
    """A shift ``(..., 3)`` eased over the last part of the way to its largest length ``(...)``."""
    size = length(shift)
    allowed = np.minimum(soft_distance(size, largest, EASE_OUT), largest)
    return shift * (allowed / np.where(size > 0.0, size, 1.0))[..., None]


def hull(shifts: np.ndarray) -> np.ndarray:
    """A smooth shift that is nowhere smaller than what each frame asks for.

    Of the frames around each frame the largest shift counts, and the mean of these is taken over a
    window that is no wider. So it starts early, stops late, and is centred: where the shifts are the
    same on all frames it is that same shift.

    Args:
        shifts: ``(F, 2n + 1, 3)`` asked for on the frames -n to n around each frame.

    Returns:
        ``(F, 3)``
    """
    count = shifts.shape[1] // 2
    smooth = count // 2
    widest = count - smooth
    size = length(shifts)
    largest = []
    for middle in range(count - smooth, count + smooth + 1):
        around = slice(middle - widest, middle + widest + 1)
        best = np.argmax(size[:, around], axis=1)
        largest.append(shifts[np.arange(len(shifts)), around.start + best])
    return np.einsum("k,kfi->fi", window(smooth), np.array(largest))


def balanced_shift(
    centers: np.ndarray, outer: np.ndarray, softness: np.ndarray, weight: np.ndarray
) -> np.ndarray:
    """Where the pulls of some chains on one bone balance.

    Args:
        centers: ``(F, n, 3)`` from each root to its target, any unit.
        outer: ``(F, n)`` full reach of each chain; 0 for one that wants its root to move all the
            way, whose joint limits have left it a gap.
        softness: ``(F, n)``, 0..1; below `EASE_IN` that counts.
        weight: ``(F, n)`` 0..1, by which each pull is multiplied.

    Returns:
        ``(F, 3)`` the shift, in the unit and frame of the centers.
    """
    zone = np.clip(np.maximum(softness, EASE_IN), 0.0, 1.0) * outer
    distance = length(centers)
    shift = np.zeros((len(centers), 3))
    pulled = np.flatnonzero(((distance > outer - zone) & (weight > 0.0)).any(axis=1))
    if not len(pulled):
        return shift
    chains = (centers[pulled], outer[pulled], zone[pulled], weight[pulled])
    shift[pulled], is_alone = _of_one(*chains, np.maximum(softness[pulled], EASE_IN))
    together = np.flatnonzero(~is_alone)
    if len(together):
        shift[pulled[together]] = _minimum(*(values[together] for values in chains))
    return shift


def _of_one(
    centers: np.ndarray, outer: np.ndarray, zone: np.ndarray, weight: np.ndarray, softness: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The shift for one chain where no other one pulls then, in closed form; and where that is so."""
    distance = length(centers)
    left = np.where(outer > 0.0, soft_distance(distance, outer, softness), 0.0)
    alone = centers * (1.0 - left / np.where(distance > 0.0, distance, 1.0))[..., None]
    # [row, one that pulls, other]: how far the other's target is then.
    apart = length(centers[:, None] - alone[:, :, None])
    quiet = (apart <= (outer - zone)[:, None]) | (weight == 0.0)[:, None]
    own = np.eye(centers.shape[1], dtype=bool)
    pulls = (weight == 1.0) & (distance > outer - zone)
    fits = (quiet | own).all(axis=2) & pulls
    first = np.argmax(fits, axis=1)
    return alone[np.arange(len(alone)), first], fits.any(axis=1)


def _minimum(centers: np.ndarray, outer: np.ndarray, zone: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The minimum of |v|^2 / 2 + sum of weight * energy, by Newton's method with shorter steps."""
    shift = np.zeros((len(centers), 3))
    for stiff in STAGES:
        shift = _newton(shift, centers, outer, zone, weight, stiff)
    return shift


def _newton(
    shift: np.ndarray,
    centers: np.ndarray,
    outer: np.ndarray,
    zone: np.ndarray,
    weight: np.ndarray,
    stiff: float,
) -> np.ndarray:
    scale = length(centers).max(axis=1)
    chains = (centers, outer, zone, weight, stiff)
    cost, gradient, curvature = _derivatives(shift, *chains)
    for _ in range(STEPS):
        step = -np.linalg.solve(curvature, gradient[..., None])[..., 0]
        if (length(step) <= SETTLED * scale).all():
            break
        slope = dot(gradient, step)
        share = np.ones(len(shift))
        for _ in range(40):
            there = _derivatives(shift + step * share[:, None], *chains)
            # Near the minimum costs differ by less than their rounding: there the slope decides.
            longer = there[0] > cost + 1e-4 * share * slope
            longer &= np.abs(dot(there[1], step)) > 0.9 * np.abs(slope)
            if not longer.any():
                break
            share = np.where(longer, 0.5 * share, share)
        shift = shift + step * share[:, None]
        cost, gradient, curvature = there
    return shift


def _derivatives(
    shift: np.ndarray,
    centers: np.ndarray,
    outer: np.ndarray,
    zone: np.ndarray,
    weight: np.ndarray,
    stiff: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cost ``(F,)``, its gradient ``(F, 3)`` and second derivatives ``(F, 3, 3)``."""
    way = centers - shift[:, None]
    distance = length(way)
    direction = way / np.where(distance > 0.0, distance, 1.0)[..., None]
    energy, pull, stiffness = (weight * part for part in _pull(distance, outer, zone, stiff))
    across = np.where(distance > 0.0, pull / np.where(distance > 0.0, distance, 1.0), stiffness)
    cost = 0.5 * dot(shift, shift) + energy.sum(axis=1)
    gradient = shift - (pull[..., None] * direction).sum(axis=1)
    outward = direction[..., :, None] * direction[..., None, :]
    parts = across[..., None, None] * np.eye(3) + (stiffness - across)[..., None, None] * outward
    return cost, gradient, np.eye(3) + parts.sum(axis=1)


def _pull(
    distance: np.ndarray, outer: np.ndarray, zone: np.ndarray, stiff: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Energy, pull and stiffness ``(F, n)`` of chains whose roots are at these distances."""
    left = outer - distance
    least = stiff * zone
    beyond = np.maximum(least - left, 0.0)
    inside = np.clip(left, least, zone)
    safe = np.where(zone > 0.0, inside, 1.0)
    width = np.where(zone > 0.0, zone, 1.0)
    log = np.log(width / safe)
    pull = np.where(zone > 0.0, zone * log - zone + inside, 0.0)
    energy = np.where(zone > 0.0, 0.5 * (zone**2 - inside**2) - zone * inside * log, 0.0)
    steep = 1.0 / stiff - 1.0
    stiffness = np.where(beyond > 0.0, steep, np.where(left < zone, width / safe - 1.0, 0.0))
    return energy + pull * beyond + 0.5 * steep * beyond**2, pull + steep * beyond, stiffness
