# SPDX-License-Identifier: GPL-3.0-or-later
"""The point that some balls have in common and that is nearest to a given one."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from .transforms import cross, dot, length, normalize, perpendicular, reject

# A point is in a ball when it is outside by less than this fraction of the distances.
TOUCHING = 1e-11
# Passes of averaged projections where no point is in all balls.
PASSES = 300


def nearest_in_balls(point: np.ndarray, centers: np.ndarray, radii: np.ndarray) -> np.ndarray:
    """The point of all balls that is nearest to `point`, or the one that is least outside of them.

    The nearest one is `point` itself, or it lies on at most three of the spheres: on one, on the
    circle of two, or on the points that three have in common; so all of these are tried. Where the
    balls have nothing in common, it is the point with the least sum of squared distances to them,
    found by averaged projections (Auslender 1969; Combettes 1994 shows that they converge there).

    Args:
        point: ``(3,)``; centers: ``(n, 3)``; radii: ``(n,)`` in one frame and unit.

    Returns:
        ``(3,)``.
    """
    at = centers - point
    tried = [np.zeros((1, 3)), _onto_balls(np.zeros(3), at, radii)]
    pairs = np.array(list(combinations(range(len(at)), 2)), int).reshape(-1, 2)
    triples = np.array(list(combinations(range(len(at)), 3)), int).reshape(-1, 3)
    with np.errstate(invalid="ignore"):
        tried.append(_onto_circles(at[pairs], radii[pairs]))
        tried.extend(_common_points(at[triples], radii[triples]))
        found = np.concatenate(tried)
        outside = length(found[:, None] - at) - radii
        fits = (outside <= TOUCHING * (length(at).max() + radii.max())).all(axis=1)
    if not fits.any():
        return point + _between(at, radii)
    size = np.where(fits, length(np.nan_to_num(found)), np.inf)
    return point + found[np.argmin(size)]


def _onto_balls(point: np.ndarray, centers: np.ndarray, radii: np.ndarray) -> np.ndarray:
    """The points ``(n, 3)`` of balls that are nearest to a point."""
    away = point - centers
    distance = length(away)
    ratio = np.minimum(radii / np.where(distance > 0.0, distance, 1.0), 1.0)
    return centers + away * ratio[:, None]


def _onto_circles(centers: np.ndarray, radii: np.ndarray) -> np.ndarray:
    """The points nearest to 0 of the circles in which pairs of spheres meet; NaN where they do not."""
    apart = centers[:, 1] - centers[:, 0]
    distance = _or_nan(length(apart), radii)
    axis = apart / distance[:, None]
    along = (distance**2 + radii[:, 0] ** 2 - radii[:, 1] ** 2) / (2.0 * distance)
    middle = centers[:, 0] + axis * along[:, None]
    side = normalize(reject(-middle, axis), perpendicular(axis))
    return middle + side * _root(radii[:, 0] ** 2 - along**2)[:, None]


def _common_points(centers: np.ndarray, radii: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The two points that triples of spheres have in common; NaN where there are none."""
    one, two = centers[:, 1] - centers[:, 0], centers[:, 2] - centers[:, 0]
    distance = _or_nan(length(one), radii)
    x_axis = one / distance[:, None]
    i = dot(x_axis, two)
    rest = reject(two, x_axis)
    j = _or_nan(length(rest), radii)
    y_axis = rest / j[:, None]
    x = (radii[:, 0] ** 2 - radii[:, 1] ** 2 + distance**2) / (2.0 * distance)
    y = (radii[:, 0] ** 2 - radii[:, 2] ** 2 + i**2 + j**2 - 2.0 * i * x) / (2.0 * j)
    up = cross(x_axis, y_axis) * _root(radii[:, 0] ** 2 - x**2 - y**2)[:, None]
    middle = centers[:, 0] + x_axis * x[:, None] + y_axis * y[:, None]
    return middle + up, middle - up


def _root(square: np.ndarray) -> np.ndarray:
    return np.sqrt(np.where(square >= 0.0, square, np.nan))


def _or_nan(distance: np.ndarray, radii: np.ndarray) -> np.ndarray:
    """Distances, but NaN where they are too small beside the radii to tell a direction."""
    return np.where(distance > 1e-9 * radii.max(axis=-1), distance, np.nan)


def _between(centers: np.ndarray, radii: np.ndarray) -> np.ndarray:
    point = np.zeros(3)
    for _ in range(PASSES):
        point = _onto_balls(point, centers, radii).mean(axis=0)
    return point
