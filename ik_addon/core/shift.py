# SPDX-License-Identifier: GPL-3.0-or-later
"""How far a bone above some chains moves so that their targets come within reach."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from .reach import soft_distance
from .transforms import cross, dot, length, normalize, reject

# Last part of the largest shift, and of a hard chain's reach, in which the shift eases: without
# it the moved bone would start and stop with a jolt.
EASE_OUT, EASE_IN = 0.25, 0.02
# A place counts as in reach when it is outside by less than this fraction of the distances.
TOUCHING = 1e-11
# Passes of averaged projections where no shift serves all chains.
PASSES = 300


def reach_for_shift(
    distance: np.ndarray, outer: np.ndarray, softness: np.ndarray | float
) -> tuple[np.ndarray, np.ndarray]:
    """The distance that a target shall have from a chain's root after a shift.

    It is what softness lets the chain reach (`reach.soft_distance`), at a softness of at least
    `EASE_IN`; so the root begins to move before the chain is straight, without a jolt. The gap
    that softness leaves is closed by the shift, and the knee stays soft.

    Args:
        distance: ``(...)`` from root to target; outer: ``(...)`` the chain's full reach.
        softness: ``(...)`` as in `soft_distance`.

    Returns:
        ``(...)`` radius of the ball around the target in which the root shall be, and where the
        root is outside of it now.
    """
    soft = np.maximum(softness, EASE_IN)
    onset = (1.0 - np.clip(soft, 0.0, 1.0)) * outer
    return np.maximum(soft_distance(distance, outer, soft), onset), distance > onset


def limited_shift(shift: np.ndarray, largest: np.ndarray) -> np.ndarray:
    """A shift ``(..., 3)`` eased over the last part of the way to its largest length ``(...)``."""
    size = length(shift)
    allowed = np.minimum(soft_distance(size, largest, EASE_OUT), largest)
    return shift * (allowed / np.where(size > 0.0, size, 1.0))[..., None]


def smallest_shift(centers: np.ndarray, radii: np.ndarray) -> np.ndarray:
    """The smallest shift that lies in all of some balls, or is as near to all as can be.

    A root that moves by v has its target within a distance r when v lies in the ball of radius
    r around the vector from root to target. The shift is the point of the intersection of all
    balls that is nearest to 0; of an empty intersection the point with the least sum of squared
    distances to the balls. Both are unique, do not depend on the order of the chains, and are
    continuous where the balls overlap.

    The nearest point lies on at most three of the spheres: on one, on the circle of two, or
    on the points that three have in common; so all of these are tried. The least squares come
    from averaged projections (Auslender 1969; Combettes 1994 shows that they converge there).

    Args:
        centers: ``(..., n, 3)`` from each root to its target.
        radii: ``(..., n)`` distances that are reached; infinite for a chain without a say.

    Returns:
        ``(..., 3)`` the shift, in the unit and frame of the centers.
    """
    centers, radii = np.asarray(centers, float), np.asarray(radii, float)
    if centers.shape[-2] == 1:
        return _onto_ball(np.zeros(centers.shape[:-2] + (3,)), centers[..., 0, :], radii[..., 0])
    batch = centers.shape[:-2]
    flat_centers = centers.reshape(-1, *centers.shape[-2:])
    flat_radii = radii.reshape(-1, radii.shape[-1])
    shift = np.zeros((len(flat_centers), 3))
    pulled = np.flatnonzero((length(flat_centers) > flat_radii).any(axis=-1))
    if len(pulled):
        shift[pulled] = _inside_all(flat_centers[pulled], flat_radii[pulled])
    return shift.reshape(*batch, 3)


def _inside_all(centers: np.ndarray, radii: np.ndarray) -> np.ndarray:
    """`smallest_shift` of ``(F, n, 3)`` centers where some ball does not hold 0."""
    scale = length(centers).max(axis=-1)
    finite = np.where(np.isfinite(radii), radii, 4.0 * scale[:, None])
    with np.errstate(invalid="ignore"):
        shift, empty = _nearest_common_point(centers, finite, scale)
    if len(empty):
        shift[empty] = _between_balls(centers[empty], finite[empty])
    return shift


def _nearest_common_point(
    centers: np.ndarray, finite: np.ndarray, scale: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Of the points that may be nearest those that lie in all balls; and where there are none."""
    count = centers.shape[1]
    candidates = [_onto_ball(np.zeros((len(centers), 3)), centers[:, i], finite[:, i]) for i in range(count)]
    for i, j in combinations(range(count), 2):
        candidates.append(_onto_circle(centers[:, [i, j]], finite[:, [i, j]]))
    for at in combinations(range(count), 3):
        candidates.extend(_common_points(centers[:, at], finite[:, at]))
    found = np.stack(candidates, axis=1)
    outside = length(found[:, :, None] - centers[:, None]) - finite[:, None]
    fits = (outside <= TOUCHING * (scale + finite.max(axis=-1))[:, None, None]).all(axis=-1)
    size = np.where(fits, length(found), np.inf)
    best = np.argmin(size, axis=1)
    return found[np.arange(len(found)), best], np.flatnonzero(~fits.any(axis=1))


def _onto_ball(point: np.ndarray, center: np.ndarray, radius: np.ndarray) -> np.ndarray:
    """The point of a ball that is nearest to a point."""
    away = point - center
    distance = length(away)
    inside = distance <= radius
    ratio = np.where(inside, 0.0, radius) / np.where(distance > 0.0, distance, 1.0)
    return np.where(inside[..., None], point, center + away * ratio[..., None])


def _onto_circle(centers: np.ndarray, radii: np.ndarray) -> np.ndarray:
    """The point nearest to 0 of the circle in which two spheres meet; NaN where they do not."""
    apart = centers[:, 1] - centers[:, 0]
    distance = _or_nan(length(apart), radii)
    axis = apart / distance[:, None]
    along = (distance**2 + radii[:, 0] ** 2 - radii[:, 1] ** 2) / (2.0 * distance)
    height = radii[:, 0] ** 2 - along**2
    middle = centers[:, 0] + axis * along[:, None]
    side = normalize(reject(-middle, axis), _beside(axis))
    return middle + side * np.sqrt(np.where(height >= 0.0, height, np.nan))[:, None]


def _common_points(centers: np.ndarray, radii: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The two points that three spheres have in common; NaN where there are none."""
    one, two = centers[:, 1] - centers[:, 0], centers[:, 2] - centers[:, 0]
    distance = _or_nan(length(one), radii)
    x_axis = one / distance[:, None]
    i = dot(x_axis, two)
    rest = reject(two, x_axis)
    j = _or_nan(length(rest), radii)
    y_axis = rest / j[:, None]
    x = (radii[:, 0] ** 2 - radii[:, 1] ** 2 + distance**2) / (2.0 * distance)
    y = (radii[:, 0] ** 2 - radii[:, 2] ** 2 + i**2 + j**2 - 2.0 * i * x) / (2.0 * j)
    height = radii[:, 0] ** 2 - x**2 - y**2
    up = cross(x_axis, y_axis) * np.sqrt(np.where(height >= 0.0, height, np.nan))[:, None]
    middle = centers[:, 0] + x_axis * x[:, None] + y_axis * y[:, None]
    return middle + up, middle - up


def _or_nan(distance: np.ndarray, radii: np.ndarray) -> np.ndarray:
    """Distances, but NaN where they are too small beside the radii to tell a direction."""
    return np.where(distance > 1e-9 * radii.max(axis=-1), distance, np.nan)


def _beside(axis: np.ndarray) -> np.ndarray:
    """Some unit vectors at right angles to unit vectors ``(F, 3)``."""
    least = np.eye(3)[np.argmin(np.abs(axis), axis=-1)]
    return normalize(reject(least, axis))


def _between_balls(centers: np.ndarray, radii: np.ndarray) -> np.ndarray:
    point = np.zeros((len(centers), 3))
    for _ in range(PASSES):
        point = _onto_ball(point[:, None], centers, radii).mean(axis=1)
    return point
