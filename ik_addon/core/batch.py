# SPDX-License-Identifier: GPL-3.0-or-later
"""What a solve is given: frames as they were read from Blender."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Batch:
    """What was read from Blender for F frames.

    Attributes:
        pose: ``(F, n, 4, 4)`` evaluated pose matrices, each in its armature's space; of bones that are
            not among `Stage.looked_at` they may be anything.
        objects: ``(F, objects, 4, 4)`` evaluated world matrices, the rigs first.
        location, scale: ``(F, k, 3)`` FK channels of the bones in `Stage.posed`.
        rotation: ``(F, k, 4)`` FK rotation channels of these bones as quaternions; those of
            bones that no chain turns are their evaluated ones.
        settings: per chain, ``(F, chains, ...)``, at least those of `Stage.settings`: influence (0 when
            muted), target_location, target_rotation, pole_location, pole_angle, bend_sign,
            offset_yaw, softness, share, share_max, lean, aim_offset, aim_limit, aim_damping,
            move_max, stretch_max, smooth_frames (the target is smoothed already). Where bones start
            to move early also move_location ``(F, chains, 2N + 1, 3)``, target_location on the frames
            -N to N around each, and move_frames ``(F, chains)``: how many to each side count, at most N.
    """

    pose: np.ndarray
    objects: np.ndarray
    location: np.ndarray
    rotation: np.ndarray
    scale: np.ndarray
    settings: dict[str, np.ndarray]
