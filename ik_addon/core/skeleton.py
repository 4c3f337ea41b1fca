# SPDX-License-Identifier: GPL-3.0-or-later
"""Blender's bone hierarchy: from pose channels to pose matrices and back.

Frames: *rest* and *pose* matrices are in armature space, *basis* matrices are what a
bone's own channels make (`PoseBone.matrix_basis`; build them with `transforms.compose`).
Matrices are ``(..., m, 4, 4)`` for m bones, behind any leading dimensions (frames).

The formula is that of `BKE_bone_parent_transform_calc_from_matrices` in Blender, which
also stands behind `Bone.convert_local_to_pose`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import numpy as np

from .transforms import affine_inverse, dot, length, normalize, reject, transform_point

# Blender takes a smaller cosine between two axes for noise and a larger one for a
# collapsed frame; both leave the axes as they are.
SHEAR_COSINE = 1e-4
COLLAPSED_COSINE = 1.0 - float(np.finfo(np.float32).eps)


class InheritScale(IntEnum):
    """`Bone.inherit_scale`, with the integers that `foreach_get` returns."""

    FULL = 0
    FIX_SHEAR = 1
    AVERAGE = 2
    NONE = 3
    NONE_LEGACY = 4
    ALIGNED = 5


@dataclass(frozen=True, eq=False)
class Skeleton:
    """The rest state of n bones, ordered such that parents come before their children.

    The arrays are copied and read-only, so that what is derived from them stays right.

    Attributes:
        names: n bone names; those of several armatures may repeat.
        parents: ``(n,)`` index of each bone's parent, -1 for a root.
        rest: ``(n, 4, 4)`` rest matrices in armature space (`Bone.matrix_local`).
        lengths: ``(n,)`` rest lengths (`Bone.length`), in the armature's unit.
        inherit_rotation: ``(n,)`` `Bone.use_inherit_rotation`.
        inherit_scale: ``(n,)`` values of `InheritScale`.
        local_location: ``(n,)`` `Bone.use_local_location`.
        connected: ``(n,)`` `Bone.use_connect`: the location channel has no effect,
            which in Blender holds for a root with that flag too.

    Raises:
        ValueError: naming the field and the bone, for a wrong shape, a number that is
            not finite, a parent after its child or an unknown mode.
    """

    names: tuple[str, ...]
    parents: np.ndarray
    rest: np.ndarray
    lengths: np.ndarray
    inherit_rotation: np.ndarray
    inherit_scale: np.ndarray
    local_location: np.ndarray
    connected: np.ndarray

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(self.names))
        for field, dtype, tail in (
            ("parents", np.intp, ()),
            ("rest", np.float64, (4, 4)),
            ("lengths", np.float64, ()),
            ("inherit_rotation", np.bool_, ()),
            ("inherit_scale", np.intp, ()),
            ("local_location", np.bool_, ()),
            ("connected", np.bool_, ()),
        ):
            array = np.array(getattr(self, field), dtype=dtype)
            if array.shape != (len(self.names), *tail):
                expected = (len(self.names), *tail)
                raise ValueError(f"{field}: expected shape {expected}, got {array.shape}")
            array.setflags(write=False)
            object.__setattr__(self, field, array)
        self._check_values()

    def _check_values(self) -> None:
        order = np.arange(len(self.names))
        finite = np.isfinite(self.rest).all(axis=(1, 2))
        for field, good in (
            ("parents", (self.parents >= -1) & (self.parents < order)),
            ("rest", finite),
            ("lengths", np.isfinite(self.lengths)),
            ("inherit_scale", np.isin(self.inherit_scale, list(InheritScale))),
        ):
            if not good.all():
                bad = int(np.argmin(good))
                value = getattr(self, field)[bad].tolist()
                raise ValueError(f"{field}: bone {self.names[bad]!r} has {value}")

    @cached_property
    def index(self) -> dict[str, int]:
        """Bone name to its place in the arrays.

        Raises:
            ValueError: for names that repeat, since a bone cannot be found by those.
        """
        index = {name: i for i, name in enumerate(self.names)}
        for i, name in enumerate(self.names):
            if index[name] != i:
                raise ValueError(f"names: {name!r} is not unique")
        return index

    @cached_property
    def offset(self) -> np.ndarray:
        """``(n, 4, 4)`` rest matrices in the parent's rest frame; a root's is `rest`."""
        root = (self.parents < 0)[:, None, None]
        parent_rest = np.where(root, np.eye(4), self.rest[self.parents])
        return affine_inverse(parent_rest) @ self.rest

    @cached_property
    def full(self) -> np.ndarray:
        """``(n,)`` True where rotation and scale follow the parent's pose in full (roots too)."""
        whole = self.inherit_rotation & (self.inherit_scale == InheritScale.FULL)
        return whole | (self.parents < 0)

    @cached_property
    def plain(self) -> np.ndarray:
        """``(n,)`` True where pose = parent pose @ offset @ basis: `full`, with local location."""
        return self.full & self.local_location

    @cached_property
    def depth(self) -> np.ndarray:
        """``(n,)`` number of ancestors of each bone."""
        depth = np.zeros(len(self.names), np.intp)
        for bone, parent in enumerate(self.parents):
            if parent >= 0:
                depth[bone] = depth[parent] + 1
        return depth

    @cached_property
    def levels(self) -> tuple[np.ndarray, ...]:
        """The bones of each depth, from the roots downward."""
        return tuple(np.flatnonzero(self.depth == d) for d in range(self.depth.max(initial=-1) + 1))


@dataclass(frozen=True, eq=False)
class ParentTransform:
    """What a bone's parent does to its channels, in armature space.

    pose linear part = rotscale linear part @ basis linear part @ diag(post_scale)
    pose translation = location @ basis translation

    Attributes:
        rotscale: ``(..., m, 4, 4)`` for rotation and scale; its translation, which has
            no effect, is that of `location`.
        location: ``(..., m, 4, 4)`` for the location channel; its translation is where
            the bone's head is without one.
        post_scale: ``(..., m, 3)`` factors of the pose matrix's columns.
    """

    rotscale: np.ndarray
    location: np.ndarray
    post_scale: np.ndarray


def parent_transform(skeleton: Skeleton, bones: np.ndarray, parent_pose: np.ndarray) -> ParentTransform:
    """The transform that m bones inherit from the poses of their parents.

    Args:
        bones: ``(m,)`` indices into the skeleton.
        parent_pose: ``(..., m, 4, 4)`` pose of each bone's parent; that of a root is
            not looked at, so ``pose[..., skeleton.parents[bones], :, :]`` will do.
    """
    bones = np.asarray(bones)
    parent_pose = _known_parent(skeleton, bones, parent_pose)
    rotscale = parent_pose @ skeleton.offset[bones]
    location = rotscale.copy()
    post_scale = np.ones(rotscale.shape[:-1])[..., :3]

    unturned = ~skeleton.local_location[bones]
    location[..., unturned, :3, :3] = parent_pose[..., unturned, :3, :3]

    partial = ~skeleton.full[bones]
    rotation, mode = skeleton.inherit_rotation[bones], skeleton.inherit_scale[bones]
    for code in np.unique(mode[partial]):
        for turns in (False, True):
            pick = np.flatnonzero(partial & (mode == code) & (rotation == turns))
            if pick.size:
                rotscale[..., pick, :3, :3], post_scale[..., pick, :] = _partial_inheritance(
                    skeleton, bones[pick], parent_pose[..., pick, :3, :3], InheritScale(code), turns
                )
    return ParentTransform(rotscale, location, post_scale)


def pose_from_basis(
    skeleton: Skeleton, bones: np.ndarray, parent_pose: np.ndarray, basis: np.ndarray
) -> np.ndarray:
    """Pose matrices ``(..., m, 4, 4)`` of m bones from their channels.

    ``bones`` and ``parent_pose`` are those of `parent_transform`, ``basis``
    ``(..., m, 4, 4)`` has the channels. The location of connected bones is left out
    here, as Blender does: callers need not clear it.
    """
    bones = np.asarray(bones)
    location = np.where(skeleton.connected[bones, None], 0.0, basis[..., :3, 3])
    if skeleton.plain[bones].all():
        frame = _known_parent(skeleton, bones, parent_pose) @ skeleton.offset[bones]
        pose = frame @ basis
    else:
        inherited = parent_transform(skeleton, bones, parent_pose)
        frame = inherited.location
        pose = inherited.rotscale @ basis
        pose[..., :3, :3] *= inherited.post_scale[..., None, :]
    pose[..., :3, 3] = transform_point(frame, location)
    return pose


def basis_from_pose(
    skeleton: Skeleton, bones: np.ndarray, parent_pose: np.ndarray, pose: np.ndarray
) -> np.ndarray:
    """The channels ``(..., m, 4, 4)`` that give m bones these poses; inverts `pose_from_basis`.

    Arguments as there. Connected bones get no location. Where the parent's scale is
    zero on an axis there is no inverse: the result is then finite, but not the channels.
    """
    bones = np.asarray(bones)
    if skeleton.plain[bones].all():
        frame = _known_parent(skeleton, bones, parent_pose) @ skeleton.offset[bones]
        to_basis = affine_inverse(frame)
        basis = to_basis @ pose
    else:
        inherited = parent_transform(skeleton, bones, parent_pose)
        basis = affine_inverse(inherited.rotscale) @ pose
        regular = inherited.post_scale != 0.0
        unscale = np.where(regular, 1.0 / np.where(regular, inherited.post_scale, 1.0), 0.0)
        basis[..., :3, :3] *= unscale[..., None, :]
        to_basis = affine_inverse(inherited.location)
    location = transform_point(to_basis, pose[..., :3, 3])
    basis[..., :3, 3] = np.where(skeleton.connected[bones, None], 0.0, location)
    return basis


def forward(skeleton: Skeleton, basis: np.ndarray) -> np.ndarray:
    """Pose matrices ``(..., n, 4, 4)`` in armature space of all bones from their channels.

    ``basis`` ``(..., n, 4, 4)`` is in the skeleton's order; the location of connected
    bones is left out. Without constraints this is what Blender evaluates.
    """
    pose = np.zeros(basis.shape)
    for level in skeleton.levels:
        parent_pose = pose[..., skeleton.parents[level], :, :]
        pose[..., level, :, :] = pose_from_basis(skeleton, level, parent_pose, basis[..., level, :, :])
    return pose


def _known_parent(skeleton: Skeleton, bones: np.ndarray, parent_pose: np.ndarray) -> np.ndarray:
    """The parents' poses, with the identity for roots: their offset is their rest matrix."""
    root = skeleton.parents[bones] < 0
    return np.where(root[:, None, None], np.eye(4), parent_pose) if root.any() else parent_pose


def _partial_inheritance(
    skeleton: Skeleton, bones: np.ndarray, parent_pose: np.ndarray, mode: InheritScale, turns: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Linear part ``(..., m, 3, 3)`` and post scale ``(..., m, 3)`` of bones of one setting.

    ``parent_pose`` ``(..., m, 3, 3)``; ``turns`` tells whether they inherit rotation.
    """
    parent_rest = skeleton.rest[skeleton.parents[bones], :3, :3]
    post_scale = np.ones(parent_pose.shape[:-1])
    if turns:
        frame = parent_pose
        if mode in (InheritScale.NONE, InheritScale.AVERAGE):
            frame = _without_shear(parent_pose, unit=True)
        elif mode == InheritScale.ALIGNED:
            frame = _without_shear(parent_pose, unit=False)
            post_scale = _column_lengths(frame)
            frame = _unit_columns(frame)
        elif mode == InheritScale.NONE_LEGACY:
            frame = _unit_columns(parent_pose)
    else:
        frame = np.broadcast_to(parent_rest, parent_pose.shape)
        if mode == InheritScale.FULL:
            frame = frame * _column_lengths(parent_pose)[..., None, :]
        elif mode == InheritScale.FIX_SHEAR:
            frame = frame * _exact_volume_scale(parent_pose)[..., None, :]
        elif mode == InheritScale.ALIGNED:
            post_scale = _exact_volume_scale(parent_pose)

    if mode == InheritScale.AVERAGE:
        frame = frame * np.cbrt(_volume(parent_pose))[..., None, None]
    linear = frame @ skeleton.offset[bones, :3, :3]
    if mode == InheritScale.FIX_SHEAR:
        linear = _without_shear(linear, unit=False)
    return linear, post_scale


def _without_shear(linear: np.ndarray, unit: bool) -> np.ndarray:
    """Orthogonal axes that keep Y, treat X and Z alike and keep the volume, ``(..., 3, 3)``.

    With ``unit`` the columns get length 1 (zero columns stay). Formula of Blender's
    `orthogonalize_m4_stable` about Y.
    """
    x, y, z = (linear[..., axis] for axis in range(3))
    unit_y = normalize(y)
    x, z = reject(x, unit_y), reject(z, unit_y)
    unit_x, unit_z = normalize(x), normalize(z)
    cosine = dot(unit_x, unit_z)
    sheared = (np.abs(cosine) > SHEAR_COSINE) & (np.abs(cosine) < COLLAPSED_COSINE)
    angle = np.where(sheared, np.arccos(np.clip(cosine, -1.0, 1.0)), 0.5 * np.pi)[..., None]

    # X and Z each turn by half of what is missing to a right angle.
    target = 0.5 * (angle + 0.5 * np.pi)
    straight_x = np.sin(target) * normalize(reject(unit_x, unit_z)) + np.cos(target) * unit_z
    straight_z = normalize(reject(unit_z, straight_x))
    unit_x = np.where(sheared[..., None], straight_x, unit_x)
    unit_z = np.where(sheared[..., None], straight_z, unit_z)
    if unit:
        return np.stack([unit_x, unit_y, unit_z], axis=-1)
    area = np.sqrt(np.sin(angle))
    return np.stack(
        [unit_x * (length(x)[..., None] * area), y, unit_z * (length(z)[..., None] * area)], axis=-1
    )


def _column_lengths(linear: np.ndarray) -> np.ndarray:
    return length(np.swapaxes(linear, -1, -2))


def _unit_columns(linear: np.ndarray) -> np.ndarray:
    return np.swapaxes(normalize(np.swapaxes(linear, -1, -2)), -1, -2)


def _volume(linear: np.ndarray) -> np.ndarray:
    return np.abs(np.linalg.det(linear))


def _exact_volume_scale(linear: np.ndarray) -> np.ndarray:
    """Column lengths, evenly reduced such that their product is the volume under shear."""
    size = _column_lengths(linear)
    box = np.prod(size, axis=-1)
    hollow = box == 0.0
    ratio = np.where(hollow, 1.0, _volume(linear) / np.where(hollow, 1.0, box))
    return size * np.cbrt(ratio)[..., None]
