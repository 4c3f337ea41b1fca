# SPDX-License-Identifier: GPL-3.0-or-later
"""Exact solve of a limb of two bones in space.

The triangle of root, middle and tip has three known sides, so all that is free is the
plane it lies in: the bend plane through the root-target line u, with the middle on the
side Y and the normal N = u x Y. A pole sets Y; without one (AUTO) N is the FK pose's
hinge, carried by the shortest turn from the FK tip direction to u.

Where the answer cannot be continuous (a direction at right angles to u that is smooth
for all u does not exist, hairy ball theorem):

- AUTO jumps where the target lies exactly opposite the FK tip direction; there the plane
  is kept. At a small angle e from that line the plane turns 2 / e times as fast as the
  target does.
- With a pole, the plane turns 1 / sin(e) times as fast as the target at an angle e from
  the pole's line. Within `CONE` of that line the pole's side is therefore blended with
  the AUTO side, which rules alone within `ALIGNED` (status POLE_ALIGNED). So a target
  that crosses the line turns the bend step by step, also to the opposite side. One
  direction stays singular at each end of the line: where the pole's side lies 120
  degrees left-handed about u from the AUTO side, two thirds of the blend toward the pole.
  The way round is the same for a limb and for its mirror image.
- With the target on the root there is no line; the upper bone keeps its FK direction.

Arrays inside this module have the batch last, ``(3, n)``: NumPy is several times faster
along a long last axis than along one of three. `away` is u x N = -Y.
"""

from __future__ import annotations

import numpy as np

from .job import ChainJob, ChainResult, Status
from .transforms import TINY, perpendicular

# Half angle of the cone around the root-target line in which pole and AUTO are blended.
CONE = np.radians(5.0)
# Half angle of the cone in which the pole does not determine the bend plane at all.
ALIGNED = np.radians(0.1)
# A distance or bone below this share of the chain's length has no direction.
ZERO = 1e-12
# The tip counts as on its target within this share of the chain's length.
REACHED = 1e-9
# Temporaries of this many solves stay in the processor's cache.
BLOCK = 768

_OK, _FAR, _NEAR = np.int8(Status.OK), np.int8(Status.TARGET_FAR), np.int8(Status.TARGET_NEAR)
_ALIGNED = np.int8(Status.POLE_ALIGNED)
_SIN_CONE, _SIN_ALIGNED = float(np.sin(CONE)), float(np.sin(ALIGNED))
# Sine of the angle to a bone below which a hinge is taken as parallel to it.
_PARALLEL = 1e-6
# Length of the sum of two unit vectors below which they are taken as opposite.
_OPPOSITE = 1e-6
# Sines of the FK bend between which the rest hinge gives way to the FK plane's normal.
_STRAIGHT, _BENT = 1e-4, 8e-4
# How far the blend of two bend sides swings out; sets the singular 120 degrees.
_DETOUR = float(np.sqrt(3.0))


def solve(job: ChainJob) -> ChainResult:
    """Put the tip on the target, or as near as geometry allows.

    Args:
        job: ``joints`` ``(..., 3, 3)``; any frame and unit, magnitudes up to 1e150.

    Returns:
        Turns, positions, residual and status in the job's frame and unit. Lengths are
        kept, the hinge of both bones lies along the bend plane's normal. A bone of
        length zero gets the other bone's turn.

    Raises:
        ValueError: for wrong shapes or numbers that are not finite.
    """
    job = job.validated()
    if job.joints.shape[-2] != 3:
        raise ValueError(f"joints: a two-bone chain has 3 joints, got {job.joints.shape[-2]}")
    return solve_valid(job)


def solve_valid(job: ChainJob) -> ChainResult:
    """`solve` without checks: all arrays of the job are float64 and share its batch shape."""
    batch = job.joints.shape[:-2]
    angle = job.pole_angle
    arrays = (
        job.joints.reshape(-1, 3, 3).transpose(1, 2, 0),
        job.target.reshape(-1, 3).T,
        job.hinge.reshape(-1, 3).T,
        None if job.pole is None else job.pole.reshape(-1, 3).T,
        None if job.pole_mask is None else job.pole_mask.reshape(-1),
        (angle if isinstance(angle, np.ndarray) else np.full(batch, angle)).reshape(-1),
    )
    count = arrays[0].shape[-1]
    if count <= BLOCK:
        turns, joints, residual, status = _solve_block(*arrays)
    else:
        blocks = [
            _solve_block(*(a if a is None else a[..., i : i + BLOCK] for a in arrays))
            for i in range(0, count, BLOCK)
        ]
        turns, joints, residual, status = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    return ChainResult(
        rotations=turns.reshape(*batch, 2, 3, 3),
        joints=joints.reshape(*batch, 3, 3),
        residual=residual.reshape(batch),
        status=status.reshape(batch),
    )


def bend_normal(joints: np.ndarray, rest_hinge: np.ndarray) -> np.ndarray:
    """The hinge of a FK pose that keeps the pose's own bend side, for `ChainJob.hinge`.

    It is the normal u x Y of the plane that the pose bends in. An exactly straight (or
    folded) pose has none and takes the rest hinge; between bends of 1e-4 and 8e-4 radians
    both are blended, since Blender's float32 poses carry a noise of 1e-7. Inside that
    band one direction of the bend stays singular, as inside `CONE`.

    Args:
        joints: ``(..., 3, 3)`` FK positions of root, middle, tip, any frame and unit.
        rest_hinge: ``(..., 3)`` the bones' own bend axis as the FK pose carries it.

    Returns:
        ``(..., 3)`` unit vectors at right angles to the upper bone.
    """
    joints, rest_hinge = np.asarray(joints, float), np.asarray(rest_hinge, float)
    batch = np.broadcast_shapes(joints.shape[:-2], rest_hinge.shape[:-1])
    rows = np.broadcast_to(joints, (*batch, 3, 3)).reshape(-1, 3, 3).transpose(1, 2, 0)
    bones = rows[1:] - rows[:2]
    bones /= np.maximum(np.sqrt(dot(bones, bones)), TINY)[:, None]
    normal = cross(bones[1], bones[0])
    bend = np.sqrt(dot(normal, normal))
    normal /= np.maximum(bend, TINY)
    straight = bend < _BENT
    if straight.any():
        axis = np.where(dot(bones[0], bones[0]) > 0.5, bones[0], bones[1])
        rest = np.broadcast_to(rest_hinge, (*batch, 3)).reshape(-1, 3).T
        rest = rest / np.maximum(np.sqrt(dot(rest, rest)), TINY)
        _, rest, across = hinge_frames(axis[None], rest)[:, 0]
        weight = smooth_step(bend, _STRAIGHT, _BENT)
        cosine, sine = blend_sides(weight, dot(normal, rest), dot(normal, across))
        normal = np.where(straight, cosine * rest + sine * across, normal)
    return normal.T.reshape(*batch, 3)


def _solve_block(
    joints: np.ndarray,
    target: np.ndarray,
    hinge: np.ndarray,
    pole: np.ndarray | None,
    mask: np.ndarray | None,
    angle: np.ndarray,
) -> tuple[np.ndarray, ...]:
    """The solve of n limbs: joints ``(3, 3, n)``, vectors ``(3, n)``, mask and angle ``(n,)``.

    Returns what `place` does, and the status ``(n,)``.
    """
    # Upper bone, lower bone, root to tip, root to target, hinge, pole.
    vectors = np.empty((5 if pole is None else 6, *target.shape))
    np.subtract(joints[1:], joints[:2], out=vectors[:2])
    np.subtract(joints[2], joints[0], out=vectors[2])
    np.subtract(target, joints[0], out=vectors[3])
    vectors[4] = hinge
    if pole is not None:
        vectors[5] = pole
    sizes = np.sqrt(dot(vectors, vectors))
    vectors /= np.maximum(sizes, TINY)[:, None]
    lengths, distance, line = sizes[:2], sizes[3], vectors[3]

    zero = on_root = None
    small = sizes[:4] <= ZERO * (sizes[0] + sizes[1])
    if small.any():
        zero, on_root = small[:2], small[3]
        onward = np.where(zero[0], -vectors[1], vectors[0])
        vectors[2] = np.where(small[2] | on_root, onward, vectors[2])
        vectors[3] = np.where(on_root, onward, vectors[3])
        angle = np.where(on_root, 0.0, angle)

    frames = hinge_frames(vectors[:3], vectors[4])
    plane = carried_plane(vectors[2], frames[1:, 2], line)
    angles, status = triangle(lengths, distance, on_root)
    if pole is not None:
        cosine, sine, aligned = pole_turn(vectors[5], plane, mask, on_root)
        plane = turned_plane(plane, cosine, sine)
        if aligned is not None:
            status[aligned & (status == _OK)] = _ALIGNED
    if angle.any():
        plane = turned_plane(plane, np.cos(angle), np.sin(angle))
    return *place(frames[:, :2], zero, line, plane, angles, joints[0], lengths, target), status


def hinge_frames(bones: np.ndarray, hinge: np.ndarray) -> np.ndarray:
    """Frames (bone, hinge, bone x hinge) of the unit ``bones`` ``(k, 3, n)``.

    The hinge ``(3, n)``, unit, is made orthogonal to each bone. One that is parallel to a
    bone is replaced by the normal of the first two bones' plane, in a straight chain by
    `perpendicular`. Returns ``(3, k, 3, n)``.
    """
    frames = np.empty((3, *bones.shape))
    normals = hinge - dot(bones, hinge)[:, None] * bones
    squares = dot(normals, normals)
    parallel = squares < _PARALLEL**2
    if parallel.any():
        first = np.where(dot(bones[0], bones[0]) > 0.5, bones[0], bones[1 % len(bones)])
        plane = cross(bones[1 % len(bones)], bones[0])
        straight = dot(plane, plane) < _PARALLEL**2
        plane = np.where(straight, perpendicular(first.T).T, plane)
        normals = np.where(parallel.any(axis=0), plane, hinge)
        normals = normals - dot(bones, normals)[:, None] * bones
        squares = np.maximum(dot(normals, normals), TINY)
    frames[0] = bones
    np.divide(normals, np.sqrt(squares)[:, None], out=frames[1])
    frames[2] = cross(bones, frames[1])
    return frames


def triangle(
    lengths: np.ndarray, distance: np.ndarray, on_root: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Directions of both bones in the bend plane, from the three sides of the triangle.

    The height comes from the area in Heron's formula with the factors in Kahan's order
    (nearly equal lengths are subtracted first), so that no digit is lost near full reach
    and full fold, where acos of the law of cosines loses half of them.

    Args:
        lengths: ``(2, n)`` of upper and lower bone.
        distance: ``(n,)`` from root to target; out of reach the nearest within counts.
        on_root: ``(n,)`` True where the lower bone shall be folded back on the upper one.

    Returns:
        angles: ``(2, 2, n)`` cosines and sines of upper and lower bone, from the line to
            the target toward the bend side.
        status: ``(n,)`` int8, OK, TARGET_FAR or TARGET_NEAR.
    """
    upper, lower = lengths
    outer, excess = upper + lower, upper - lower
    inner = np.abs(excess)
    reached = np.minimum(np.maximum(distance, inner), outer)
    longer, shorter = np.maximum(upper, lower), np.minimum(upper, lower)
    past_fold = np.minimum(shorter, distance) - (longer - np.maximum(shorter, distance))
    before_full = shorter + (longer - distance)
    safe = np.maximum(reached, TINY)
    # Height over the line and the bones' parts along it, both times two.
    height = np.sqrt(np.maximum(past_fold, 0.0) * (reached + inner))
    height *= np.sqrt(np.maximum(before_full, 0.0) * (reached + outer))
    height /= safe
    skew = excess * outer / safe
    angles = np.empty((2, *lengths.shape))
    np.add(reached, skew, out=angles[0, 0])
    np.subtract(reached, skew, out=angles[0, 1])
    angles[1, 0] = height
    np.negative(height, out=angles[1, 1])
    squares = angles * angles
    angles /= np.maximum(np.sqrt(squares[0] + squares[1]), TINY)
    if on_root is not None:
        folded = np.array([[[1.0], [-1.0]], [[0.0], [0.0]]])
        angles = np.where(on_root, folded, angles)
    miss, slack = distance - reached, REACHED * outer
    status = (miss > slack) * _FAR + (miss < -slack) * _NEAR
    return angles, status


def place(
    frames: np.ndarray,
    zero: np.ndarray | None,
    line: np.ndarray,
    plane: np.ndarray,
    angles: np.ndarray,
    root: np.ndarray,
    lengths: np.ndarray,
    target: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Both bones at the given angles in the bend plane.

    Args:
        frames: ``(3, 2, 3, n)`` of the bones in the FK pose, from `hinge_frames`.
        zero: ``(2, n)`` True for a bone without length; None where all have one.
        line, plane: ``(3, n)`` unit vector to the target, ``(2, 3, n)`` normal and away.
        angles: from `triangle`.
        root, lengths, target: ``(3, n)``, ``(2, n)``, ``(3, n)``.

    Returns:
        Turns ``(n, 18)``, joints ``(n, 9)``, residual ``(n,)``.
    """
    normal, away = plane
    cosines, sines = angles[:, :, None]
    posed = cosines * line - sines * away
    across = sines * line + cosines * away
    bones, hinges, thirds = frames[:, :, None]
    turns = posed[:, :, None] * bones
    turns += normal[:, None] * hinges
    turns += across[:, :, None] * thirds
    if zero is not None:
        turns = np.where(zero[:, None, None], turns[::-1], turns)
        turns = np.where(zero.all(axis=0), np.eye(3)[..., None], turns)
    joints = np.empty((3, *root.shape))
    joints[0] = root
    posed *= lengths[:, None]
    np.add(root, posed[0], out=joints[1])
    np.add(joints[1], posed[1], out=joints[2])
    gap = joints[2] - target
    count = len(gap[0])
    return turns.reshape(18, count).T, joints.reshape(9, count).T, np.sqrt(dot(gap, gap))


def carried_plane(tip: np.ndarray, plane: np.ndarray, line: np.ndarray) -> np.ndarray:
    """The FK bend plane ``(2, 3, n)`` after the shortest turn of ``tip`` onto ``line``.

    For vectors at right angles to ``tip`` that turn is the reflection that swaps tip and
    -line, which needs no angle.
    """
    middle = tip + line
    square = dot(middle, middle)
    opposite = square < _OPPOSITE**2
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
    near = off_line < _SIN_CONE
    aligned = None
    if near.any():
        part = blend_sides(smooth_step(off_line, _SIN_ALIGNED, _SIN_CONE), cosine, sine)
        cosine, sine = np.where(near, part[0], cosine), np.where(near, part[1], sine)
        aligned = off_line < _SIN_ALIGNED
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
    mean = np.stack([rest + weight * cosine, weight * (sine + _DETOUR * rest * (1.0 - cosine))])
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
