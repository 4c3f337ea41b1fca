# SPDX-License-Identifier: GPL-3.0-or-later
"""Inheritance between bones: what each setting promises, both ways, in any batch."""

from __future__ import annotations

from dataclasses import fields
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ik_addon.core.skeleton import (
    InheritScale,
    Skeleton,
    basis_from_pose,
    forward,
    parent_transform,
    pose_from_basis,
)
from ik_addon.core.transforms import compose, length, normalize, quaternion_to_matrix, transform_vector

SETTINGS = list(product((True, False), InheritScale, (True, False), (True, False)))
SHEARLESS = [InheritScale.FIX_SHEAR, InheritScale.AVERAGE, InheritScale.NONE, InheritScale.ALIGNED]
FIELDS = [field.name for field in fields(Skeleton)]
Y = np.array([0.0, 1.0, 0.0])


def random_rotations(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return quaternion_to_matrix(normalize(rng.normal(size=(*shape, 4))))


def random_affine(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Location, rotation and scale of either sign."""
    scale = rng.uniform(0.5, 2.0, (*shape, 3)) * rng.choice([-1.0, 1.0], (*shape, 3))
    return compose(rng.uniform(-2.0, 2.0, (*shape, 3)), random_rotations(rng, *shape), scale)


def make(parents: list[int] | np.ndarray, rng: np.random.Generator, **changes: Any) -> Skeleton:
    """A skeleton with random rest matrices; fields default to those of a new bone."""
    n = len(parents)
    defaults = {
        "names": [f"bone{i}" for i in range(n)],
        "parents": parents,
        "rest": compose(rng.uniform(-2.0, 2.0, (n, 3)), random_rotations(rng, n)),
        "lengths": np.ones(n),
        "inherit_rotation": np.ones(n, bool),
        "inherit_scale": np.zeros(n, int),
        "local_location": np.ones(n, bool),
        "connected": np.zeros(n, bool),
    }
    return Skeleton(**(defaults | changes))


def every_setting(rng: np.random.Generator) -> Skeleton:
    """Two roots and a sheared bone, each with children of all settings."""
    settings = [(True, InheritScale.FULL, True, False)] * 3 + SETTINGS * 3
    rotation, scale, local, connected = (np.array(column) for column in zip(*settings, strict=True))
    parents = [-1, -1, 0] + [parent for parent in range(3) for _ in SETTINGS]
    return make(
        parents,
        rng,
        inherit_rotation=rotation,
        inherit_scale=scale,
        local_location=local,
        connected=connected,
    )


def pair(
    rng: np.random.Generator,
    rotation: bool = True,
    scale: InheritScale = InheritScale.FULL,
    local: bool = True,
) -> Skeleton:
    """A root and one child of the given setting."""
    return make(
        [-1, 0], rng,
        inherit_rotation=[True, rotation],
        inherit_scale=[InheritScale.FULL, scale],
        local_location=[True, local],
    )  # fmt: skip


def sheared(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Affine matrices with scale, shear and perhaps a mirror."""
    m = random_affine(rng, *shape)
    m[..., :3, :3] = m[..., :3, :3] @ (np.eye(3) + rng.uniform(-0.3, 0.3, (*shape, 3, 3)))
    return m


def child_frame(skeleton: Skeleton, parent_pose: np.ndarray) -> np.ndarray:
    """Linear part ``(..., 3, 3)`` of bone 1 of a `pair` whose channels are at rest."""
    bones = np.array([1])
    return pose_from_basis(skeleton, bones, parent_pose[..., None, :, :], np.eye(4))[..., 0, :3, :3]


class TestSkeleton:
    def test_offsets_lead_from_rest_to_rest(self) -> None:
        skeleton = make([-1, 0, 1, 0, -1], np.random.default_rng(0))
        for bone, parent in enumerate(skeleton.parents):
            above = np.eye(4) if parent < 0 else skeleton.rest[parent]
            np.testing.assert_allclose(above @ skeleton.offset[bone], skeleton.rest[bone], atol=1e-14)

    def test_order(self) -> None:
        skeleton = make([-1, 0, 1, 0, -1, 4, 2], np.random.default_rng(0))
        np.testing.assert_array_equal(skeleton.depth, [0, 1, 2, 1, 0, 1, 3])
        assert [level.tolist() for level in skeleton.levels] == [[0, 4], [1, 3, 5], [2], [6]]
        assert skeleton.index["bone5"] == 5

    def test_plain_is_full_inheritance_with_local_location(self) -> None:
        skeleton = make(
            [-1, -1, 0, 0, 0, 0], np.random.default_rng(0),
            inherit_rotation=[False, True, True, False, True, True],
            inherit_scale=[InheritScale.NONE, 0, 0, 0, InheritScale.ALIGNED, 0],
            local_location=[True, False, True, True, True, False],
        )  # fmt: skip
        np.testing.assert_array_equal(skeleton.plain, [True, False, True, False, False, False])

    def test_no_bones(self) -> None:
        skeleton = make([], np.random.default_rng(0))
        assert forward(skeleton, np.zeros((7, 0, 4, 4))).shape == (7, 0, 4, 4)

    def test_keeps_its_own_arrays(self) -> None:
        parents = np.array([-1, 0])
        skeleton = make(parents, np.random.default_rng(0))
        parents[1] = -1
        assert skeleton.parents[1] == 0
        with pytest.raises(ValueError, match="read-only"):
            skeleton.rest[0] = 0.0

    @pytest.mark.parametrize(
        ("field", "value", "message"),
        [
            ("parents", [-1, 1], r"parents: bone 'bone1' has 1"),
            ("parents", [-2, 0], r"parents: bone 'bone0' has -2"),
            ("parents", [-1], r"parents: expected shape \(2,\), got \(1,\)"),
            ("rest", np.eye(4), r"rest: expected shape \(2, 4, 4\), got \(4, 4\)"),
            ("rest", np.full((2, 4, 4), np.nan), r"rest: bone 'bone0' has \[\[nan"),
            ("lengths", [1.0, np.inf], r"lengths: bone 'bone1' has inf"),
            ("inherit_scale", [0, 6], r"inherit_scale: bone 'bone1' has 6"),
        ],
    )
    def test_refuses_wrong_values_by_name(self, field: str, value: Any, message: str) -> None:
        good = vars(make([-1, 0], np.random.default_rng(0)))
        values = {name: good[name] for name in FIELDS} | {field: value}
        with pytest.raises(ValueError, match=message):
            Skeleton(**values)

    def test_repeated_names_cannot_be_looked_up(self) -> None:
        skeleton = make([-1, -1], np.random.default_rng(0), names=["hand", "hand"])
        with pytest.raises(ValueError, match="names: 'hand' is not unique"):
            skeleton.index  # noqa: B018


class TestBothWays:
    def test_channels_at_rest_give_the_rest_pose(self) -> None:
        skeleton = every_setting(np.random.default_rng(1))
        identity = np.broadcast_to(np.eye(4), skeleton.rest.shape)
        np.testing.assert_allclose(forward(skeleton, identity), skeleton.rest, atol=1e-13)

    def test_a_plain_chain_is_the_product_of_its_matrices(self) -> None:
        rng = np.random.default_rng(2)
        skeleton = make([-1, 0, 1, 2], rng)
        basis, expected = random_affine(rng, 4), np.eye(4)
        for bone, pose in enumerate(forward(skeleton, basis)):
            expected = expected @ skeleton.offset[bone] @ basis[bone]
            np.testing.assert_allclose(pose, expected, atol=1e-13)

    @given(st.integers(0, 2**32 - 1))
    def test_channels_come_back_for_every_setting(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        skeleton = every_setting(rng)
        bones = np.arange(len(skeleton.names))
        basis = random_affine(rng, 3, len(bones))
        pose = forward(skeleton, basis)
        back = basis_from_pose(skeleton, bones, pose[:, skeleton.parents], pose)
        basis[:, skeleton.connected, :3, 3] = 0.0
        np.testing.assert_allclose(back, basis, atol=1e-10)

    @given(st.integers(0, 2**32 - 1))
    def test_poses_come_back_for_every_setting(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        skeleton = every_setting(rng)
        bones = np.flatnonzero(~skeleton.connected)
        parent_pose, pose = sheared(rng, len(bones)), sheared(rng, len(bones))
        basis = basis_from_pose(skeleton, bones, parent_pose, pose)
        np.testing.assert_allclose(pose_from_basis(skeleton, bones, parent_pose, basis), pose, atol=1e-9)

    def test_plain_bones_do_not_depend_on_their_company(self) -> None:
        """The fast road, taken where all bones are plain, gives what the long one gives."""
        rng = np.random.default_rng(3)
        skeleton = every_setting(rng)
        bones = np.arange(len(skeleton.names))
        parent_pose, given_basis = sheared(rng, len(bones)), random_affine(rng, len(bones))
        plain = np.flatnonzero(skeleton.plain)
        for function in (pose_from_basis, basis_from_pose):
            together = function(skeleton, bones, parent_pose, given_basis)
            alone = function(skeleton, plain, parent_pose[plain], given_basis[plain])
            np.testing.assert_allclose(alone, together[plain], atol=1e-12)

    def test_a_batch_is_its_frames_and_bones_one_by_one(self) -> None:
        rng = np.random.default_rng(4)
        skeleton = every_setting(rng)
        bones = rng.permutation(len(skeleton.names))
        parent_pose, given_basis = sheared(rng, 2, 3, len(bones)), random_affine(rng, 2, 3, len(bones))
        for function in (pose_from_basis, basis_from_pose):
            batch = function(skeleton, bones, parent_pose, given_basis)
            for place, bone in enumerate(bones):
                one = function(
                    skeleton, [bone], parent_pose[1, 2, place, None], given_basis[1, 2, place, None]
                )
                np.testing.assert_allclose(batch[1, 2, place], one[0], atol=1e-12)

    def test_the_last_row_stays_that_of_an_affine_matrix(self) -> None:
        rng = np.random.default_rng(5)
        skeleton = every_setting(rng)
        bones = np.arange(len(skeleton.names))
        pose = forward(skeleton, random_affine(rng, len(bones)))
        basis = basis_from_pose(skeleton, bones, pose[skeleton.parents], pose)
        for matrices in (pose, basis):
            np.testing.assert_array_equal(matrices[:, 3], np.tile([0.0, 0.0, 0.0, 1.0], (len(bones), 1)))

    def test_the_pose_above_a_root_is_not_looked_at(self) -> None:
        rng = np.random.default_rng(6)
        skeleton = make([-1, -1], rng, local_location=[True, False])
        nothing, basis = np.full((2, 4, 4), np.nan), random_affine(rng, 2)
        pose = pose_from_basis(skeleton, np.arange(2), nothing, basis)
        np.testing.assert_allclose(pose, forward(skeleton, basis))
        np.testing.assert_allclose(basis_from_pose(skeleton, np.arange(2), nothing, pose), basis, atol=1e-13)

    def test_inputs_are_left_alone(self) -> None:
        rng = np.random.default_rng(7)
        skeleton = every_setting(rng)
        bones = np.arange(len(skeleton.names))
        arrays = [sheared(rng, len(bones)), random_affine(rng, len(bones))]
        before = [array.copy() for array in arrays]
        for function in (pose_from_basis, basis_from_pose):
            function(skeleton, bones, *arrays)
        parent_transform(skeleton, bones, arrays[0])
        np.testing.assert_array_equal(arrays, before)

    @pytest.mark.parametrize("scale", [(0, 1, 1), (1, 0, 1), (1, 1, 0), (0, 0, 0)])
    def test_a_collapsed_parent_gives_finite_matrices(self, scale: tuple[int, ...]) -> None:
        rng = np.random.default_rng(8)
        skeleton = every_setting(rng)
        bones = np.arange(len(skeleton.names))
        basis = random_affine(rng, len(bones))
        basis[:3, :3, :3] *= np.array(scale, float)
        pose = forward(skeleton, basis)
        assert np.isfinite(pose).all()
        assert np.isfinite(basis_from_pose(skeleton, bones, pose[skeleton.parents], pose)).all()


class TestLocation:
    @pytest.mark.parametrize("flags", SETTINGS, ids=str)
    def test_the_head_follows_the_parent_whatever_is_inherited(
        self, flags: tuple[bool, InheritScale, bool, bool]
    ) -> None:
        rng = np.random.default_rng(9)
        skeleton = pair(rng, *flags[:3])
        parent = sheared(rng)
        inherited = parent_transform(skeleton, np.array([1]), parent[None])
        head = (parent @ skeleton.offset[1])[:3, 3]
        np.testing.assert_allclose(inherited.location[0, :3, 3], head, atol=1e-14)
        np.testing.assert_allclose(inherited.rotscale[0, :3, 3], head, atol=1e-14)

    @pytest.mark.parametrize("plain", [True, False])
    def test_a_connected_bone_has_no_location(self, plain: bool) -> None:
        rng = np.random.default_rng(10)
        mode = InheritScale.FULL if plain else InheritScale.ALIGNED
        skeleton = make([-1, 0, 0], rng, connected=[True, True, False], inherit_scale=[0, mode, mode])
        basis = random_affine(rng, 3)
        pose = forward(skeleton, basis)
        still = basis.copy()
        still[:2, :3, 3] = 0.0
        np.testing.assert_array_equal(pose, forward(skeleton, still))
        assert length(pose[2, :3, 3] - (pose[0] @ skeleton.offset[2])[:3, 3]) > 0.1

        pose[:, :3, 3] += 1.0
        back = basis_from_pose(skeleton, np.arange(3), pose[skeleton.parents], pose)
        np.testing.assert_array_equal(back[:2, :3, 3], 0.0)
        assert length(back[2, :3, 3]) > 0.1

    def test_without_local_location_it_is_along_the_parents_axes(self) -> None:
        rng = np.random.default_rng(11)
        skeleton = pair(rng, local=False)
        parent, location = sheared(rng), rng.normal(size=3)
        pose = pose_from_basis(skeleton, np.array([1]), parent[None], compose(location, np.eye(3))[None])[0]
        moved = pose[:3, 3] - (parent @ skeleton.offset[1])[:3, 3]
        np.testing.assert_allclose(moved, transform_vector(parent, location), atol=1e-13)

    def test_without_local_location_a_root_moves_along_the_armatures_axes(self) -> None:
        rng = np.random.default_rng(12)
        skeleton = make([-1], rng, local_location=[False])
        location = rng.normal(size=3)
        pose = forward(skeleton, compose(location, np.eye(3))[None])[0]
        np.testing.assert_allclose(pose[:3, 3], skeleton.rest[0, :3, 3] + location, atol=1e-14)


class TestScale:
    @pytest.mark.parametrize("mode", SHEARLESS)
    @pytest.mark.parametrize("rotation", [True, False])
    @given(seed=st.integers(0, 2**32 - 1))
    def test_no_shear_is_inherited(self, rotation: bool, mode: InheritScale, seed: int) -> None:
        rng = np.random.default_rng(seed)
        frame = child_frame(pair(rng, rotation, mode), sheared(rng))
        unit = frame / length(np.swapaxes(frame, -1, -2))
        # Without rotation, FIX_SHEAR straightens the child's axes and leaves what is below the threshold.
        np.testing.assert_allclose(unit.T @ unit, np.eye(3), atol=2e-4)

    @pytest.mark.parametrize("mode", [InheritScale.FULL, *SHEARLESS])
    @pytest.mark.parametrize("rotation", [True, False])
    @given(seed=st.integers(0, 2**32 - 1))
    def test_the_parents_volume_is_inherited_or_none(
        self, rotation: bool, mode: InheritScale, seed: int
    ) -> None:
        rng = np.random.default_rng(seed)
        parent = sheared(rng)
        volume = abs(np.linalg.det(child_frame(pair(rng, rotation, mode), parent)))
        expected = abs(np.linalg.det(parent[:3, :3]))
        if mode == InheritScale.NONE:
            expected = 1.0
        elif mode == InheritScale.FULL and not rotation:
            expected = np.prod(length(parent[:3, :3].T))
        assert volume == pytest.approx(expected, rel=1e-6)

    @pytest.mark.parametrize("rotation", [True, False])
    def test_average_is_the_same_on_all_axes(self, rotation: bool) -> None:
        rng = np.random.default_rng(13)
        parent = sheared(rng)
        frame = child_frame(pair(rng, rotation, InheritScale.AVERAGE), parent)
        size = np.cbrt(abs(np.linalg.det(parent[:3, :3])))
        np.testing.assert_allclose(length(frame.T), size, rtol=1e-12)

    @pytest.mark.parametrize("rotation", [True, False])
    def test_aligned_puts_the_parents_scale_on_the_childs_own_axes(self, rotation: bool) -> None:
        rng = np.random.default_rng(14)
        scale = np.array([0.5, 2.0, 1.5])
        parent = compose(np.zeros(3), random_rotations(rng), scale)
        frame = child_frame(pair(rng, rotation, InheritScale.ALIGNED), parent)
        np.testing.assert_allclose(length(frame.T), scale, rtol=1e-12)

    def test_legacy_drops_lengths_and_keeps_shear(self) -> None:
        rng = np.random.default_rng(15)
        parent = sheared(rng)
        skeleton = pair(rng, scale=InheritScale.NONE_LEGACY)
        unit = parent[:3, :3] / length(parent[:3, :3].T)
        expected = unit @ skeleton.offset[1, :3, :3]
        np.testing.assert_allclose(child_frame(skeleton, parent), expected, atol=1e-13)

    def test_full_scale_without_rotation_is_along_the_parents_rest_axes(self) -> None:
        rng = np.random.default_rng(16)
        skeleton, parent = pair(rng, rotation=False), sheared(rng)
        frame = child_frame(skeleton, parent)
        rest, scale = skeleton.rest[0, :3, :3], length(parent[:3, :3].T)
        np.testing.assert_allclose(
            frame, rest @ np.diag(scale) @ rest.T @ skeleton.rest[1, :3, :3], atol=1e-13
        )

    @pytest.mark.parametrize("mode", [InheritScale.AVERAGE, InheritScale.NONE, InheritScale.NONE_LEGACY])
    def test_without_rotation_the_rest_orientation_stays(self, mode: InheritScale) -> None:
        rng = np.random.default_rng(17)
        skeleton = pair(rng, rotation=False, scale=mode)
        frame = child_frame(skeleton, sheared(rng))
        np.testing.assert_allclose(frame / length(frame.T), skeleton.rest[1, :3, :3], atol=1e-12)

    def test_straightening_keeps_y_and_treats_x_and_z_alike(self) -> None:
        """A child that lies on its parent gets the parent's axes; mirrored X and Z mirror the result."""
        rng = np.random.default_rng(18)
        skeleton = make(
            [-1, 0], rng, rest=np.tile(np.eye(4), (2, 1, 1)), inherit_scale=[0, InheritScale.NONE]
        )
        parent = np.eye(4)
        parent[:3, 0], parent[:3, 2] = (1.0, 0.0, 0.4), (0.4, 0.0, 1.0)
        np.testing.assert_allclose(child_frame(skeleton, parent), np.eye(3), atol=1e-12)
        parent[:3, 0], parent[:3, 2] = (1.0, 0.0, 0.99), (0.99, 0.0, 1.0)
        np.testing.assert_allclose(child_frame(skeleton, parent), np.eye(3), atol=1e-12)

        parent = sheared(rng)
        frame = child_frame(skeleton, parent)
        np.testing.assert_allclose(frame @ Y, normalize(parent[:3, 1]), atol=1e-13)
        swapped = child_frame(skeleton, parent[:, [2, 1, 0, 3]])
        np.testing.assert_allclose(swapped, frame[:, [2, 1, 0]], atol=1e-12)
