# SPDX-License-Identifier: GPL-3.0-or-later
"""Targets and poles in every space, under every object transform, and bones that inherit in every way.

What is compared is Blender's evaluation of the pose that the chains left.
"""

import itertools
from typing import Any

import bpy
import numpy as np
import pytest
from bone_rigs import (
    LEG,
    LEG_LENGTH,
    armature,
    bone_world,
    edit_mode,
    empty,
    evaluated,
    go_to,
    head,
    pose_matrix,
    update,
    world,
)

from ik_addon.blender import chains, live

pytestmark = pytest.mark.usefixtures("fresh")

# In armature space: where the ankle shall be, and a pole in front of the knee.
ANKLE = np.array((0.13, -0.15, 0.25))
KNEE = np.array((0.3, -1.0, 0.6))

# location, rotation, scale of the armature object
TRANSFORMS: dict[str, tuple[Any, Any, Any]] = {
    "none": ((0, 0, 0), (0, 0, 0), (1, 1, 1)),
    "moved and turned": ((3, -2, 1), (0.4, -0.8, 2.0), (1, 1, 1)),
    "scale 0.01": ((0.3, 0.1, 0), (1.57, 0, 0.3), (0.01, 0.01, 0.01)),
    "scale 100": ((5, 0, 0), (0, 0.2, 0), (100, 100, 100)),
    "negative scale": ((0, 1, 0), (0.1, 0, 0.5), (-1, -1, -1)),
    "mirrored": ((0, 1, 0), (0.1, 0, 0.5), (-1, 1, 1)),
    "uneven scale": ((-0.3, -2, 0.9), (-0.87, 0.57, -0.57), (1.5, 1, 1)),
}


def transformed_leg(name: str, bones: Any = LEG) -> bpy.types.Object:
    ob = armature(bones=bones)
    ob.location, ob.rotation_euler, ob.scale = TRANSFORMS[name]
    update()
    return ob


def add_leg(ob: bpy.types.Object, **settings: Any) -> bpy.types.PropertyGroup:
    chain = chains.add(ob, "thigh", "foot", name="leg", use_tail=False, **settings)
    update()
    return chain


def apply(matrix: np.ndarray, point: Any) -> np.ndarray:
    return matrix[:3, :3] @ np.asarray(point, float) + matrix[:3, 3]


def in_armature(ob: bpy.types.Object, point: np.ndarray) -> np.ndarray:
    return apply(np.linalg.inv(world(ob)), point)


def ankle(ob: bpy.types.Object) -> np.ndarray:
    """In armature space."""
    return pose_matrix(ob, "foot")[:3, 3]


def off_pole(ob: bpy.types.Object, direction: np.ndarray) -> float:
    """Sine of the angle between the knee's side and the pole's, seen along the leg, in armature space."""
    root, knee = pose_matrix(ob, "thigh")[:3, 3], pose_matrix(ob, "shin")[:3, 3]
    line = (ankle(ob) - root) / np.linalg.norm(ankle(ob) - root)
    sides = []
    for vector in (knee - root, direction):
        side = vector - (vector @ line) * line
        sides.append(side / np.linalg.norm(side))
    assert sides[0] @ sides[1] > 0.0
    return float(np.linalg.norm(np.cross(*sides)))


SPACES = ("WORLD", "ARMATURE", "object", "own bone", "bone of another", "scaled child")


def space(kind: str, ob: bpy.types.Object, prop: str) -> tuple[dict[str, Any], np.ndarray]:
    """Settings of a space for `prop` (target or pole), and its world matrix."""
    if kind in ("WORLD", "ARMATURE"):
        return {f"{prop}_space": kind}, np.eye(4) if kind == "WORLD" else world(ob)
    bone = ""
    if kind == "own bone":
        holder, bone = ob, "control"
        ob.pose.bones["control"].location = (0.05, -0.1, 0.02)
        ob.pose.bones["control"].rotation_quaternion = (0.9, 0.2, -0.1, 0.3)
    elif kind == "bone of another":
        holder, bone = armature("Other"), "shin"
        holder.location, holder.scale = (0.5, 0.2, 0.1), (0.7, 0.7, 0.7)
        holder.pose.bones["thigh"].rotation_quaternion = (0.9, 0.1, -0.2, 0.3)
    else:
        holder = empty("Holder", (0.2, -0.4, 0.3))
        holder.rotation_euler = (0.4, 0.5, -0.6)
        if kind == "scaled child":
            parent = empty("Parent", (1.0, 0.5, 0.0))
            parent.rotation_euler, parent.scale = (0.5, 0.2, 0.9), (2.0, 0.5, 1.0)
            holder.parent = parent
    update()
    settings = {f"{prop}_space": "CUSTOM", f"{prop}_target" if prop == "pole" else prop: holder}
    settings[f"{prop}_subtarget" if prop == "pole" else "subtarget"] = bone
    return settings, bone_world(holder, bone) if bone else world(holder)


WITH_CONTROL = (*LEG, ("control", "", (0.4, -0.2, 0.3), (0.4, 0.0, 0.4)))


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("kind", SPACES)
def test_the_tip_reaches_its_target_in_every_space(kind: str, transform: str) -> None:
    ob = transformed_leg(transform, WITH_CONTROL)
    settings, matrix = space(kind, ob, "target")
    inside = apply(np.linalg.inv(matrix), apply(world(ob), ANKLE))
    chain = add_leg(ob, target_location=inside, **settings)
    assert np.linalg.norm(ankle(ob) - ANKLE) <= 1e-5 * LEG_LENGTH
    wanted = apply(world(ob), ANKLE)
    assert chain.status == "OK"
    assert chain.residual <= 1e-5 * LEG_LENGTH * max(map(abs, ob.scale))
    assert np.linalg.norm(head(ob, "foot") - wanted) <= 1e-5 * LEG_LENGTH * max(map(abs, ob.scale))


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("kind", SPACES)
def test_a_pole_point_counts_in_every_space(kind: str, transform: str) -> None:
    ob = transformed_leg(transform, WITH_CONTROL)
    settings, matrix = space(kind, ob, "pole")
    inside = apply(np.linalg.inv(matrix), apply(world(ob), KNEE))
    add_leg(
        ob,
        target_space="ARMATURE",
        target_location=ANKLE,
        pole_mode="POINT",
        pole_location=inside,
        **settings,
    )
    assert np.linalg.norm(ankle(ob) - ANKLE) <= 1e-5 * LEG_LENGTH
    assert off_pole(ob, KNEE - pose_matrix(ob, "thigh")[:3, 3]) <= 2e-5


@pytest.mark.parametrize("transform", [name for name in TRANSFORMS if name != "uneven scale"])
@pytest.mark.parametrize("kind", ["WORLD", "ARMATURE", "object", "own bone"])
def test_a_pole_direction_counts_in_every_space(kind: str, transform: str) -> None:
    ob = transformed_leg(transform, WITH_CONTROL)
    settings, matrix = space(kind, ob, "pole")
    way = KNEE - pose_matrix(ob, "thigh")[:3, 3]
    inside = np.linalg.inv(matrix)[:3, :3] @ world(ob)[:3, :3] @ way
    inside /= np.linalg.norm(inside)
    add_leg(
        ob,
        target_space="ARMATURE",
        target_location=ANKLE,
        pole_mode="DIRECTION",
        pole_location=inside,
        **settings,
    )
    assert off_pole(ob, way) <= 2e-5


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_an_unreachable_target_tells_its_distance_in_world_units(transform: str) -> None:
    ob = transformed_leg(transform)
    far = ANKLE + (0.4, -3.0, -0.5)
    chain = add_leg(ob, target_space="ARMATURE", target_location=far)
    assert chain.status == "TARGET_FAR"
    seen = np.linalg.norm(head(ob, "foot") - apply(world(ob), far))
    assert chain.residual == pytest.approx(seen, rel=2e-6)
    way = far - pose_matrix(ob, "thigh")[:3, 3]
    straight = pose_matrix(ob, "thigh")[:3, 3] + LEG_LENGTH * way / np.linalg.norm(way)
    # Rest matrices are orthogonal to some 1e-6 only, so posed lengths differ from drawn ones by as much.
    assert np.linalg.norm(ankle(ob) - straight) <= 5e-6 * LEG_LENGTH


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_adding_a_chain_moves_nothing_under_any_transform(transform: str) -> None:
    ob = transformed_leg(transform, WITH_CONTROL)
    ob.pose.bones["thigh"].rotation_quaternion = (0.95, 0.2, 0.1, -0.1)
    ob.pose.bones["shin"].rotation_quaternion = (0.9, -0.4, 0.05, 0.0)
    update()
    before = [pose_matrix(ob, name) for name in ("thigh", "shin", "foot")]
    add_leg(ob, pole_mode="POINT", use_rotation=True)
    after = [pose_matrix(ob, name) for name in ("thigh", "shin", "foot")]
    assert np.abs(np.array(after) - before).max() <= 1e-5


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_the_pose_does_not_depend_on_where_the_character_stands(transform: str) -> None:
    """Target and pole that go with the character give the same pose in armature space."""
    poses = []
    for name in ("none", transform):
        bpy.ops.wm.read_factory_settings(use_empty=True)
        ob = transformed_leg(name)
        add_leg(
            ob,
            target_space="ARMATURE",
            target_location=ANKLE,
            pole_mode="POINT",
            pole_location=KNEE,
        )
        poses.append([pose_matrix(ob, bone.name) for bone in ob.pose.bones])
    assert np.abs(np.array(poses[0]) - poses[1]).max() <= 1e-5


def test_a_pole_in_armature_space_turns_with_the_body() -> None:
    ob = armature()
    add_leg(ob, target_space="ARMATURE", target_location=ANKLE, pole_mode="POINT", pole_location=KNEE)
    first = np.array([pose_matrix(ob, bone.name) for bone in ob.pose.bones])
    for turn in np.linspace(0.5, 2.0 * np.pi, 9):
        ob.rotation_euler.z = turn
        update()
        now = np.array([pose_matrix(ob, bone.name) for bone in ob.pose.bones])
        assert np.abs(now - first).max() <= 1e-5


def test_a_world_target_stays_while_the_character_moves() -> None:
    ob = armature()
    spot = np.array((0.1, -0.1, 0.15))
    add_leg(ob, target_location=spot)
    for frame, place in ((1, (0, 0, 0)), (5, (0.1, 0.1, -0.05)), (9, (-0.1, -0.15, 0.02))):
        ob.location = place
        ob.rotation_euler.z = 0.02 * frame
        ob.keyframe_insert("location", frame=frame)
        ob.keyframe_insert("rotation_euler", frame=frame)
    for frame in (1, 3, 5, 8, 9, 2):
        go_to(frame)
        assert np.linalg.norm(head(ob, "foot") - spot) <= 2e-6


# Under shear or mirroring a bone and its target have no rotation in common.
@pytest.mark.parametrize("transform", ["none", "moved and turned", "scale 0.01", "scale 100"])
@pytest.mark.parametrize("kind", [kind for kind in SPACES if kind != "scaled child"])
def test_the_end_bone_takes_the_targets_rotation(kind: str, transform: str) -> None:
    ob = transformed_leg(transform, WITH_CONTROL)
    settings, matrix = space(kind, ob, "target")
    turn = np.array((0.8, 0.3, -0.4, 0.33))
    turn /= np.linalg.norm(turn)
    add_leg(
        ob,
        use_rotation=True,
        target_location=apply(np.linalg.inv(matrix), apply(world(ob), ANKLE)),
        target_rotation=turn,
        **settings,
    )
    wanted = unit_axes(matrix) @ rotation(turn)
    assert np.abs(unit_axes(bone_world(ob, "foot")) - wanted).max() <= 5e-6
    assert np.linalg.norm(ankle(ob) - ANKLE) <= 1e-5 * LEG_LENGTH


def unit_axes(matrix: np.ndarray) -> np.ndarray:
    return matrix[:3, :3] / np.linalg.norm(matrix[:3, :3], axis=0)


def rotation(q: np.ndarray) -> np.ndarray:
    w, v = q[0], q[1:]
    skew = np.array(((0, -v[2], v[1]), (v[2], 0, -v[0]), (-v[1], v[0], 0)))
    return np.eye(3) + 2.0 * w * skew + 2.0 * skew @ skew


# How bones inherit

SCALE_MODES = ("FULL", "FIX_SHEAR", "ALIGNED", "AVERAGE", "NONE", "NONE_LEGACY")
INHERITANCE = [
    (rotation, scale, local)
    for scale, (rotation, local) in itertools.product(
        SCALE_MODES, itertools.product((True, False), (True, False))
    )
]


@pytest.fixture
def solution(monkeypatch: pytest.MonkeyPatch) -> dict[str, np.ndarray]:
    """The pose that the solver means, by bone, of the last solve."""
    meant: dict[str, np.ndarray] = {}
    solve = live.solve

    def kept(stage: Any, batch: Any) -> Any:
        result = solve(stage, batch)
        for index in stage.posed:
            meant[stage.skeleton.names[index].partition("/")[2]] = result.pose[0, index]
        return result

    monkeypatch.setattr(live, "solve", kept)
    return meant


@pytest.mark.parametrize("parent_scale", [(1, 1, 1), (1.2, 1.2, 1.2), (0.7, 1.3, 1.0)], ids=str)
@pytest.mark.parametrize("solver", ["TWO_BONE", "FABRIK"])
def test_what_blender_evaluates_is_what_was_solved(
    solution: dict[str, np.ndarray], solver: str, parent_scale: tuple[float, float, float]
) -> None:
    """Every way to inherit rotation, scale and location, on each bone of the leg, posed and scaled."""
    for number, how in enumerate(INHERITANCE):
        bpy.ops.wm.read_factory_settings(use_empty=True)
        ob = armature()
        for place, name in enumerate(("thigh", "shin", "foot")):
            bone = ob.data.bones[name]
            turns, scales, local = INHERITANCE[(number + 5 * place) % len(INHERITANCE)] if place else how
            bone.use_inherit_rotation, bone.inherit_scale, bone.use_local_location = turns, scales, local
        hips = ob.pose.bones["hips"]
        hips.rotation_quaternion, hips.scale = (0.95, 0.1, 0.25, -0.1), parent_scale
        ob.pose.bones["thigh"].location = (0.02, -0.01, 0.03)
        update()
        goal = head(ob, "thigh") + np.array((0.1, -0.25, -0.5))
        chain = add_leg(ob, solver=solver, target_location=goal)
        for name in ("thigh", "shin", "foot"):
            assert np.abs(pose_matrix(ob, name) - solution[name]).max() <= 1e-5, (how, name)
        seen = np.linalg.norm(head(ob, "foot") - goal)
        assert chain.residual == pytest.approx(seen, abs=4e-6), how
        assert seen <= 1e-3 * LEG_LENGTH or chain.status not in ("OK", "POLE_ALIGNED"), (how, seen)


def test_a_connected_chain_reaches() -> None:
    """A connected bone ignores its location channel."""
    ob = armature()
    with edit_mode(ob) as bones:
        bones["shin"].use_connect = bones["foot"].use_connect = True
    ob.pose.bones["shin"].location = (0.3, 0.2, 0.1)
    ob.pose.bones["foot"].location = (0.1, 0.2, 0.3)
    update()
    add_leg(ob, target_location=ANKLE)
    assert np.linalg.norm(ankle(ob) - ANKLE) <= 2e-6


def test_moved_joints_count_as_they_are_posed() -> None:
    """Unconnected bones with a location channel: the posed lengths are the limb's."""
    ob = armature()
    ob.pose.bones["shin"].location = (0.02, 0.05, -0.03)
    ob.pose.bones["foot"].location = (0.0, -0.04, 0.02)
    update()
    add_leg(ob, target_location=ANKLE)
    assert np.linalg.norm(ankle(ob) - ANKLE) <= 2e-6


def test_keyed_scale_of_the_bones_counts() -> None:
    ob = armature()
    for frame, size in ((1, 1.0), (9, 1.3)):
        for name in ("thigh", "shin"):
            ob.pose.bones[name].scale = (1.0, size, 1.0)
            ob.pose.bones[name].keyframe_insert("scale", frame=frame)
    for name in ("shin", "foot"):
        ob.data.bones[name].inherit_scale = "ALIGNED"
    chain = add_leg(ob, target_location=ANKLE)
    for frame in (1, 5, 9, 3):
        go_to(frame)
        assert np.linalg.norm(ankle(ob) - ANKLE) <= 1e-4
        assert chain.status == "OK"
        size = np.linalg.norm(pose_matrix(ob, "shin")[:3, 3] - pose_matrix(ob, "thigh")[:3, 3])
        assert size == pytest.approx(np.hypot(0.06, 0.5) * (1.0 + 0.3 * ease((frame - 1) / 8.0)), rel=1e-4)
        assert np.array(evaluated(ob).pose.bones["thigh"].scale)[0] == 1.0


def ease(t: float) -> float:
    """Blender's Bézier keys with automatic handles at two keys: the smooth step."""
    return t * t * (3.0 - 2.0 * t)
