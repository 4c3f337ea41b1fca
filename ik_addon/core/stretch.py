# SPDX-License-Identifier: GPL-3.0-or-later
"""How a chain grows: which bones are scaled, along which axes, and by how much.

Under Blender's default way to inherit scale, a bone that is scaled along its length alone shears
the bones below it that point elsewhere. A uniform scale never does. So a chain grows uniformly
from its root, and what hangs on its tip takes the scale back; where all bones below inherit in a
way that passes no shear, the bones grow along their length alone and keep their width.
"""

from __future__ import annotations

import numpy as np

from .reach import soft_distance
from .skeleton import InheritScale, Skeleton
from .transforms import dot

# These pass on nothing of the parent's scale.
STOPS = (InheritScale.NONE, InheritScale.NONE_LEGACY)
# These pass on a scale along the parent's length without shear.
CLEAN = (*STOPS, InheritScale.ALIGNED)
# Bones whose head is this near to the tip, as a fraction of the last bone, hang on it.
AT_TIP = 0.1
# Heads this near to the tail of their parent lie on it.
ON_TAIL = 1e-4

UNIFORM = (1.0, 1.0, 1.0)
ALONG = (0.0, 1.0, 0.0)


def stretched_bones(
    skeleton: Skeleton, bones: tuple[int, ...], end: int = -1
) -> dict[int, tuple[float, float, float]]:
    """The bones whose scale channels stretch a chain.

    Args:
        bones: of the chain, root first; end: the bone whose head is the tip, or -1.

    Returns:
        bone -> powers of the ratio ``(x, y, z)`` by which its scale channels are multiplied: for a
        ratio s, 1 / s where it takes the scale of its parent back.
    """
    own = set(bones)
    children = {bone: np.flatnonzero(skeleton.parents == bone).tolist() for bone in bones}
    below = [child for bone in bones for child in children[bone] if child not in own]
    hanging = [c for c in children[bones[-1]] if _hangs_on_tip(skeleton, bones[-1], end, c)]
    inherited = [*bones[1:], *below]
    joints = (*bones, end) if end >= 0 else bones
    axis = ALONG if _grows_along(skeleton, inherited) and _in_line(skeleton, joints) else UNIFORM
    powers = {bones[0]: axis}
    for bone in bones[1:]:
        if skeleton.inherit_scale[bone] in STOPS:
            powers[bone] = axis
    for bone in hanging:
        if skeleton.inherit_scale[bone] not in STOPS:
            powers[bone] = (-axis[0], -axis[1], -axis[2])
    return powers


def _hangs_on_tip(skeleton: Skeleton, last: int, end: int, child: int) -> bool:
    """A child of the last bone starts at the tip, the head of the end bone or the last bone's tail."""
    if end < 0:
        return _apart(skeleton, last, child) <= AT_TIP
    apart = np.linalg.norm(skeleton.rest[child, :3, 3] - skeleton.rest[end, :3, 3])
    size = np.linalg.norm(skeleton.rest[end, :3, 3] - skeleton.rest[last, :3, 3])
    return bool(apart <= AT_TIP * size)


def _grows_along(skeleton: Skeleton, inherited: list[int]) -> bool:
    """All bones that inherit from the chain's do so without shear."""
    at = np.array(inherited, int)
    clean = np.isin(skeleton.inherit_scale[at], CLEAN) & skeleton.inherit_rotation[at]
    return bool(clean.all())


def _in_line(skeleton: Skeleton, joints: tuple[int, ...]) -> bool:
    """Each bone starts at the tail of the one before and cannot leave it."""
    pairs = list(zip(joints, joints[1:], strict=False))
    fixed = all(skeleton.connected[bone] for _, bone in pairs)
    return fixed and all(_apart(skeleton, before, bone) <= ON_TAIL for before, bone in pairs)


def _apart(skeleton: Skeleton, bone: int, child: int) -> float:
    """From a bone's tail to the head of its child in rest, as a fraction of the bone."""
    tail = skeleton.rest[bone, :3, 3] + skeleton.rest[bone, :3, 1] * skeleton.lengths[bone]
    return float(np.linalg.norm(skeleton.rest[child, :3, 3] - tail) / skeleton.lengths[bone])


def ratio(distance: np.ndarray, reached: np.ndarray) -> np.ndarray:
    """By how much a chain grows: the distance of its target over what it reaches, never below 1.

    With softness the chain reaches less than the distance from the start of its soft zone on, and
    the growth closes that gap: the tip stays on the target, the knee stays soft.

    Args:
        distance, reached: ``(...)`` from the chain's root, same unit.
    """
    wanted = distance / np.where(reached > 0.0, reached, 1.0)
    return np.maximum(np.where(reached > 0.0, wanted, 1.0), 1.0)


def stretched_reach(largest: np.ndarray, softness: np.ndarray) -> np.ndarray:
    """The furthest distance of a target that a chain of length 1 still reaches by growing ``(...)``.

    Growth closes the gap that softness leaves, too: it is the d with d / soft(d) = 1 + largest, found
    by bisection. Both arguments are fractions of the length.
    """
    low, high = np.full(largest.shape, 1e-3), 1.0 + largest
    for _ in range(60):
        middle = 0.5 * (low + high)
        within = middle <= (1.0 + largest) * soft_distance(middle, np.ones(middle.shape), softness)
        low, high = np.where(within, middle, low), np.where(within, high, middle)
    return low


def ratio_from(way: np.ndarray, first: np.ndarray, part: np.ndarray) -> np.ndarray:
    """The smallest s > 0 with ``|way - s first| = s part``; infinite where there is none.

    Args:
        way, first: ``(..., 3)``; part: ``(...)``, same unit.
    """
    a = dot(first, first) - part**2
    b, c = dot(way, first), dot(way, way)
    inside = b**2 - a * c
    bottom = b + np.sqrt(np.maximum(inside, 0.0))
    fits = (inside >= 0.0) & (bottom > 0.0)
    return np.where(fits, c / np.where(fits, bottom, 1.0), np.inf)
