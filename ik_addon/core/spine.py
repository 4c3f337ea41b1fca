# SPDX-License-Identifier: GPL-3.0-or-later
"""A target derived for a spine: a head that leans pulls the spine after it, sideways only."""

from __future__ import annotations

import numpy as np

from .transforms import dot, length, normalize, reject


def lean_target(joints: np.ndarray, target: np.ndarray, lean: np.ndarray | float) -> np.ndarray:
    """Where the tip of a spine shall go when its target, the head, drifts off the spine's line.

    With root R, FK tip P, target T and u the direction from R to P:

        S = P + lean * ((T - P) - ((T - P) . u) u)

    so that the part of the drift along the spine, which would only stretch or squash it, has no
    effect. A spine of length L whose S is beyond reach takes R + L (S - R) / |S - R|. A target
    at the FK tip, or a lean of 0, gives the FK tip: nothing moves. An FK tip on the root has no
    line; all of the drift counts then.

    Args:
        joints: ``(..., n + 1, 3)`` FK positions from root to tip, any frame and unit.
        target: ``(..., 3)`` in the same frame.
        lean: ``(...)`` share of the offset that the spine takes, 0 to 1.

    Returns:
        ``(..., 3)`` the target to solve for; a residual is measured to it.
    """
    root, tip = joints[..., 0, :], joints[..., -1, :]
    line = tip - root
    offset = reject(target - tip, normalize(line)) * np.asarray(lean, float)[..., None]
    way = line + offset
    outer = length(joints[..., 1:, :] - joints[..., :-1, :]).sum(axis=-1)
    distance = np.sqrt(dot(way, way))
    beyond = distance > outer
    held = way * (outer / np.where(beyond, distance, 1.0))[..., None]
    return np.where(beyond[..., None], root + held, tip + offset)
