# SPDX-License-Identifier: GPL-3.0-or-later
"""How far a chain reaches, and the soft zone before its full reach."""

from __future__ import annotations

import numpy as np

# Beyond this many soft-zone widths exp(-x) is lost in the rounding of the chain's length.
_SPENT = 64.0


def reach_range(lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Smallest and largest distance from root to tip of a chain with free joints.

    Args:
        lengths: ``(..., n)`` bone lengths, any unit.

    Returns:
        inner: ``(...)`` what the longest bone exceeds all others by, at least 0.
        outer: ``(...)`` the sum of the lengths.
    """
    lengths = np.asarray(lengths, float)
    outer = lengths.sum(axis=-1)
    return np.maximum(2.0 * lengths.max(axis=-1) - outer, 0.0), outer


def soft_distance(distance: np.ndarray, outer: np.ndarray, softness: np.ndarray | float) -> np.ndarray:
    """Distance to solve at, eased over the last part of the reach.

    With s = softness * outer: below outer - s the distance passes unchanged, from there
    on it is outer - s * exp(-(distance - (outer - s)) / s). Value and slope are
    continuous, the result is never above ``distance`` and always below ``outer``.

    Args:
        distance: ``(...)`` from root to target.
        outer: ``(...)`` the chain's full reach, same unit.
        softness: ``(...)`` share of the reach that is eased, kept inside 0..1; where it
            is 0 the distance passes unchanged, also beyond the reach.

    Returns:
        ``(...)`` the eased distance.
    """
    distance, outer = np.asarray(distance, float), np.asarray(outer, float)
    width = np.clip(softness, 0.0, 1.0) * outer
    onset = outer - width
    beyond = np.clip(distance - onset, 0.0, _SPENT * width)
    # expm1 keeps the digits just after the onset, where exp is close to 1.
    eased = onset - width * np.expm1(-beyond / np.where(width > 0.0, width, 1.0))
    eased = np.minimum(eased, np.nextafter(outer, 0.0))
    return np.where((distance > onset) & (width > 0.0), np.minimum(eased, distance), distance)


def hard_distance(eased: np.ndarray, outer: np.ndarray, softness: np.ndarray | float) -> np.ndarray:
    """The distance that `soft_distance` eases to ``eased``: its inverse.

    Args:
        eased: ``(...)``; within 1e-9 of the reach, which no target leads to, the target
            that comes so near is meant.
        outer, softness: as in `soft_distance`.

    Returns:
        ``(...)`` distance from root to target.
    """
    eased, outer = np.asarray(eased, float), np.asarray(outer, float)
    width = np.clip(softness, 0.0, 1.0) * outer
    onset = outer - width
    short = np.maximum(outer - eased, 1e-9 * outer)
    soft = (eased > onset) & (width > short)
    beyond = np.log(np.where(soft, width, 1.0) / np.where(soft, short, 1.0))
    return np.where(soft, onset + width * beyond, eased)


def ease_target(
    root: np.ndarray, target: np.ndarray, outer: np.ndarray, softness: np.ndarray | float
) -> np.ndarray:
    """The target moved along its line from the root to the eased distance.

    Args:
        root, target: ``(..., 3)`` in one frame, unit of ``outer``.
        outer, softness: as in `soft_distance`.

    Returns:
        ``(..., 3)``; exactly ``target`` where nothing is eased.
    """
    root, target = np.asarray(root, float), np.asarray(target, float)
    offset = target - root
    distance = np.sqrt(np.einsum("...i,...i->...", offset, offset))
    eased = soft_distance(distance, outer, softness)
    ratio = eased / np.where(distance > 0.0, distance, 1.0)
    moved = root + offset * ratio[..., None]
    return np.where((eased < distance)[..., None], moved, target)
