# SPDX-License-Identifier: GPL-3.0-or-later
"""The hierarchy formulas against Blender's own evaluation of armatures."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import bpy
import numpy as np
import pytest
from mathutils import Matrix, Vector

from ik_addon.core.skeleton import InheritScale, Skeleton, basis_from_pose, forward, pose_from_basis
from ik_addon.core.transforms import (
    EULER_ORDERS,
    axis_angle_to_matrix,
    compose,
    dot,
    euler_to_matrix,
    normalize,
    quaternion_to_matrix,
)

# inherit rotation, inherit scale, local location, connected
Setting = tuple[bool, str, bool, bool]

MODES = [mode.name for mode in InheritScale]
SETTINGS = list(product((True, False), MODES, (True, False), (True, False)))
ROTATION_MODES = ["QUATERNION", "AXIS_ANGLE", *EULER_ORDERS]
# Blender computes in float32; a few matrix products and one arc cosine leave about 1e-6.
RELATIVE = 1e-5
FLAT = ("bone005", "bone006")


@pytest.fixture(autouse=True)
def empty_file() -> None:
    bpy.ops.wm.read_factory_settings(use_empty=True)


def build_armature(parents: list[int], settings: list[Setting], rng: np.random.Generator) -> bpy.types.Object:
    """An armature object with bones of random place, roll and length."""
    armature = bpy.data.armatures.new("rig")
    ob = bpy.data.objects.new("rig", armature)
    bpy.context.scene.collection.objects.link(ob)
    bpy.context.view_layer.objects.active = ob
    bpy.ops.object.mode_set(mode="EDIT")
    made = []
    for i, (parent, (rotation, scale, local, connected)) in enumerate(zip(parents, settings, strict=True)):
        bone = armature.edit_bones.new(f"bone{i:03d}")
        origin = np.zeros(3) if parent < 0 else np.array(made[parent].tail)
        head = origin + (0.0 if connected else rng.uniform(-0.5, 0.5, 3))
        bone.head = Vector(head)
        bone.tail = Vector(head + normalize(rng.normal(size=3)) * rng.uniform(0.3, 1.5))
        bone.roll = rng.uniform(-np.pi, np.pi)
        bone.parent = made[parent] if parent >= 0 else None
        bone.use_connect = connected
        bone.use_inherit_rotation = rotation
        bone.inherit_scale = scale
        bone.use_local_location = local
        made.append(bone)
    bpy.ops.object.mode_set(mode="OBJECT")
    return ob


def read_skeleton(armature: bpy.types.Armature) -> Skeleton:
    bones = armature.bones
    index = {bone.name: i for i, bone in enumerate(bones)}

    def read(name: str, dtype: type) -> np.ndarray:
        values = np.empty(len(bones), dtype)
        bones.foreach_get(name, values)
        return values

    return Skeleton(
        names=tuple(index),
        parents=np.array([index[b.parent.name] if b.parent else -1 for b in bones]),
        rest=np.array([b.matrix_local for b in bones], dtype=np.float64),
        lengths=read("length", np.float32),
        inherit_rotation=read("use_inherit_rotation", np.bool_),
        inherit_scale=read("inherit_scale", np.int32),
        local_location=read("use_local_location", np.bool_),
        connected=read("use_connect", np.bool_),
    )


def pose_randomly(
    ob: bpy.types.Object, rng: np.random.Generator, signs: tuple[float, ...] = (1.0, 1.0, 1.0)
) -> np.ndarray:
    """Random channels in all rotation modes; returns the basis matrices they stand for."""
    basis = []
    for i, bone in enumerate(ob.pose.bones):
        bone.location = Vector(rng.uniform(-0.5, 0.5, 3))
        bone.scale = Vector(rng.uniform(0.6, 1.5, 3) * signs)
        bone.rotation_mode = ROTATION_MODES[i % len(ROTATION_MODES)]
        if bone.rotation_mode == "QUATERNION":
            bone.rotation_quaternion = rng.normal(size=4)
            rotation = quaternion_to_matrix(np.array(bone.rotation_quaternion, dtype=np.float64))
        elif bone.rotation_mode == "AXIS_ANGLE":
            bone.rotation_axis_angle = [rng.uniform(-3.0, 3.0), *normalize(rng.normal(size=3))]
            angle, *axis = bone.rotation_axis_angle
            rotation = axis_angle_to_matrix(normalize(np.array(axis)), np.array(angle))
        else:
            bone.rotation_euler = rng.uniform(-np.pi, np.pi, 3)
            euler = np.array(bone.rotation_euler, dtype=np.float64)
            rotation = euler_to_matrix(euler, bone.rotation_mode)
        basis.append(
            compose(np.array(bone.location, dtype=float), rotation, np.array(bone.scale, dtype=float))
        )
    return np.stack(basis)


def evaluated_pose(ob: bpy.types.Object) -> np.ndarray:
    bpy.context.view_layer.update()
    bones = ob.evaluated_get(bpy.context.evaluated_depsgraph_get()).pose.bones
    return np.array([bone.matrix for bone in bones], dtype=np.float64)


def relative_error(actual: np.ndarray, expected: np.ndarray) -> float:
    size = np.abs(expected).max(axis=(-1, -2))
    return (np.abs(actual - expected).max(axis=(-1, -2)) / size).max()


def blenders_conversion(
    ob: bpy.types.Object, skeleton: Skeleton, parent_pose: np.ndarray, matrices: np.ndarray, invert: bool
) -> np.ndarray:
    out = []
    for bone, parent, pose, matrix in zip(
        ob.data.bones, skeleton.parents, parent_pose, matrices, strict=True
    ):
        related = (
            {}
            if parent < 0
            else {"parent_matrix": Matrix(pose), "parent_matrix_local": ob.data.bones[parent].matrix_local}
        )
        out.append(bone.convert_local_to_pose(Matrix(matrix), bone.matrix_local, invert=invert, **related))
    return np.array(out, dtype=np.float64)


def family(rng: np.random.Generator) -> bpy.types.Object:
    """Roots of all settings that matter there, four sheared parents, all settings below each."""
    parents = [-1, -1, -1, -1, 0, 0, 4, 5]
    settings = [(True, "FULL", True, False), (False, "NONE", True, False), (True, "ALIGNED", False, False)]
    settings += [(True, "FULL", True, True)] + [(True, "FULL", True, False)] * 4
    for parent in (0, 2, 5, 6, 7):
        parents += [parent] * len(SETTINGS)
        settings += SETTINGS
    return build_armature(parents, settings, rng)


def random_tree(rng: np.random.Generator) -> bpy.types.Object:
    """80 bones with random parents and settings: chains, branches, several roots."""
    parents = [
        -1 if i == 0 or rng.random() < 0.05 else int(rng.integers(max(0, i - 12), i)) for i in range(80)
    ]
    settings = [SETTINGS[k] for k in rng.integers(len(SETTINGS), size=80)]
    return build_armature(parents, settings, rng)


def test_inherit_scale_has_blenders_integers() -> None:
    items = bpy.types.Bone.bl_rna.properties["inherit_scale"].enum_items
    assert {item.identifier: item.value for item in items} == {mode.name: mode.value for mode in InheritScale}


@pytest.mark.parametrize("signs", [(1, 1, 1), (-1, 1, 1), (1, -1, 1), (-1, -1, -1)], ids=str)
def test_forward_is_blenders_pose_for_every_setting(signs: tuple[int, ...]) -> None:
    rng = np.random.default_rng(4 + sum(signs))
    ob = family(rng)
    skeleton = read_skeleton(ob.data)
    basis = pose_randomly(ob, rng, signs)
    assert relative_error(forward(skeleton, basis), evaluated_pose(ob)) < RELATIVE


@pytest.mark.parametrize("seed", range(6))
def test_forward_is_blenders_pose_for_random_trees(seed: int) -> None:
    rng = np.random.default_rng(seed)
    ob = random_tree(rng)
    skeleton = read_skeleton(ob.data)
    assert skeleton.depth.max() >= 8
    basis = pose_randomly(ob, rng, tuple(rng.choice([-1.0, 1.0], 3)))
    assert relative_error(forward(skeleton, basis), evaluated_pose(ob)) < RELATIVE


def test_forward_is_blenders_pose_under_strong_shear() -> None:
    """Two flattened bones in a row leave X and Z of the second some 20 degrees apart."""
    rng = np.random.default_rng(26)
    ob = family(rng)
    skeleton = read_skeleton(ob.data)
    basis = pose_randomly(ob, rng)
    scale = np.array([0.1, 1.0, 5.0])
    for name in ("bone004", "bone006"):
        rotation = basis[skeleton.index[name], :3, :3] / np.array(ob.pose.bones[name].scale)
        basis[skeleton.index[name], :3, :3] = rotation * scale
        ob.pose.bones[name].scale = Vector(scale)
    pose = forward(skeleton, basis)
    x, _, z = normalize(pose[skeleton.index["bone006"], :3, :3].T)
    assert np.abs(dot(x, z)) > 0.9
    # Flattened to a fiftieth, float32 has that much less to say.
    assert relative_error(pose, evaluated_pose(ob)) < 10 * RELATIVE


@pytest.mark.parametrize("build", [family, random_tree])
def test_channels_come_back_from_blenders_pose(
    build: Callable[[np.random.Generator], bpy.types.Object],
) -> None:
    rng = np.random.default_rng(17)
    ob = build(rng)
    skeleton = read_skeleton(ob.data)
    basis = pose_randomly(ob, rng)
    pose = evaluated_pose(ob)
    back = basis_from_pose(skeleton, np.arange(len(pose)), pose[skeleton.parents], pose)
    basis[skeleton.connected, :3, 3] = 0.0
    assert relative_error(back, basis) < RELATIVE


@pytest.mark.parametrize("axis", range(3))
def test_a_flat_parent_stays_near_blenders_pose(axis: int) -> None:
    """Blender takes cube roots of volumes that are zero but for float32 noise: about (1e-8)^(1/3)."""
    rng = np.random.default_rng(5)
    ob = family(rng)
    skeleton = read_skeleton(ob.data)
    basis = pose_randomly(ob, rng)
    for name in FLAT:
        ob.pose.bones[name].scale[axis] = 0.0
        basis[skeleton.index[name], :3, axis] = 0.0
    pose = forward(skeleton, basis)
    np.testing.assert_allclose(pose, evaluated_pose(ob), atol=0.01)

    flat_parents = [skeleton.index[name] for name in FLAT]
    below = np.flatnonzero(np.isin(skeleton.parents, flat_parents))
    assert np.isfinite(basis_from_pose(skeleton, below, pose[skeleton.parents[below]], pose[below])).all()


@pytest.mark.parametrize("seed", range(3))
def test_both_ways_are_those_of_convert_local_to_pose(seed: int) -> None:
    rng = np.random.default_rng(100 + seed)
    ob = family(rng)
    skeleton = read_skeleton(ob.data)
    bones = np.arange(len(skeleton.names))
    parent_pose, given = (
        compose(
            rng.uniform(-2, 2, (len(bones), 3)),
            quaternion_to_matrix(rng.normal(size=(len(bones), 4)))
            @ (np.eye(3) + rng.uniform(-0.2, 0.2, (3, 3))),
            rng.uniform(0.5, 2, (len(bones), 3)) * rng.choice([-1.0, 1.0], (len(bones), 3)),
        )
        for _ in range(2)
    )
    # Blender's function leaves it to its callers to drop the location of connected bones.
    given[skeleton.connected, :3, 3] = 0.0
    theirs = blenders_conversion(ob, skeleton, parent_pose, given, invert=False)
    ours = pose_from_basis(skeleton, bones, parent_pose, given)
    assert relative_error(ours, theirs) < RELATIVE

    theirs = blenders_conversion(ob, skeleton, parent_pose, given, invert=True)
    theirs[skeleton.connected, :3, 3] = 0.0
    assert relative_error(basis_from_pose(skeleton, bones, parent_pose, given), theirs) < RELATIVE
