# SPDX-License-Identifier: GPL-3.0-or-later
"""Joint limits on pose bones, judged by the evaluated pose: kept, told, and with a pole."""

from math import pi, radians

import bpy
import numpy as np
import pytest
from bone_rigs import armature, evaluated, go_to, head, pose_matrix, update
from limited_rigs import outside, quaternion_matrix
from mathutils import Euler

from ik_addon.blender import chains

LIMB = (
    ("upper", "", (0, 0, 2), (0, 0, 1)),
    ("lower", "upper", (0, 0, 1), (0, 0, 0)),
    ("hand", "lower", (0, 0, 0), (0, 0, -0.3)),
)


def limit_rotation(bone: bpy.types.PoseBone, **ranges: tuple[float, float]) -> bpy.types.Constraint:
    """A Limit Rotation constraint in local space; ranges in degrees, by axis."""
    constraint = bone.constraints.new("LIMIT_ROTATION")
    constraint.owner_space = "LOCAL"
    for axis, (low, high) in ranges.items():
        setattr(constraint, f"use_limit_{axis}", True)
        setattr(constraint, f"min_{axis}", radians(low))
        setattr(constraint, f"max_{axis}", radians(high))
    return constraint


def limit_ik(bone: bpy.types.PoseBone, **ranges: tuple[float, float]) -> None:
    for axis, (low, high) in ranges.items():
        setattr(bone, f"use_ik_limit_{axis}", True)
        setattr(bone, f"ik_min_{axis}", radians(low))
        setattr(bone, f"ik_max_{axis}", radians(high))


def channel_angles(ob: bpy.types.Object, name: str) -> np.ndarray:
    """XYZ Euler angles (degrees) of the bone relative to its rest pose, from evaluated matrices."""
    seen = ob.evaluated_get(bpy.context.evaluated_depsgraph_get()).pose.bones[name]
    local = seen.bone.convert_local_to_pose(
        seen.matrix,
        seen.bone.matrix_local,
        parent_matrix=seen.parent.matrix if seen.parent else seen.matrix.Identity(4),
        parent_matrix_local=seen.bone.parent.matrix_local if seen.parent else seen.matrix.Identity(4),
        invert=True,
    )
    return np.degrees(np.array(local.to_euler("XYZ")))


def limb(**settings: object) -> tuple[bpy.types.Object, bpy.types.PropertyGroup]:
    ob = armature(bones=LIMB)
    return ob, chains.add(ob, "upper", "hand", name="limb", use_tail=False, **settings)


@pytest.mark.parametrize("side", [(1, 0, 0), (0, 0, 1), (-1, 0, 0), (0, 1, 0), (0, -1, 0)])
def test_a_limit_is_kept_with_a_pole_on_any_side(fresh: bpy.types.Scene, side: tuple) -> None:
    """Where Blender's own IK leaves a limit of 10 degrees at 90 and 180."""
    ob, chain = limb(pole_mode="DIRECTION", pole_location=side, target_location=(0.2, 0.3, 0.7))
    limit_ik(ob.pose.bones["upper"], x=(-10, 10), y=(-10, 10), z=(-10, 10))
    update()
    assert np.abs(channel_angles(ob, "upper")).max() <= 10.0 + 1e-4
    gap = np.linalg.norm(np.array(head(ob, "hand")) - (0.2, 0.3, 0.7))
    assert chain.residual == pytest.approx(gap, abs=1e-5)
    assert (chain.status == "LIMIT") == (gap > 1e-5)


SIDES = {"+x": (1, 0, 0), "+z": (0, 0, 1), "-x": (-1, 0, 0)}
BODY = (
    ("body", "", (0, 0.2, 2), (0, 0.2, 2.3)),
    ("shoulder", "body", (-0.1, 0, 2.2), (0, 0, 2)),
    ("upper", "shoulder", (0, 0, 2), (0, 0, 1)),
    ("lower", "upper", (0, 0, 1), (0, 0, 0)),
    ("hand", "lower", (0, 0, 0), (0, 0, -0.3)),
)
TEN = radians(10.0)


@pytest.mark.parametrize("mode", ["ACCEPT", "MOVE_ROOT", "STRETCH"])
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("solver", ["TWO_BONE", "THREE_BONE", "FABRIK", "CCD"])
def test_ten_degrees_are_kept_with_a_pole_by_all_solvers_however_a_gap_is_handled(
    fresh: bpy.types.Scene, solver: str, side: str, mode: str
) -> None:
    """Blender's own IK ends at 10, 90.4 and 180 degrees."""
    ob = armature(bones=BODY)
    limit_ik(ob.pose.bones["upper"], x=(-10, 10), y=(-10, 10), z=(-10, 10))
    root = "shoulder" if solver == "THREE_BONE" else "upper"
    chain = chains.add(
        ob, root, "hand", solver=solver, use_tail=False, pole_mode="DIRECTION", pole_location=SIDES[side],
        limit_mode=mode, move_bone="body" if mode == "MOVE_ROOT" else "", move_max=0.05, stretch_max=0.1,
    )  # fmt: skip
    statuses = set()
    for target in ((0.2, 0.3, 0.7), (0.6, -0.3, 1.0), (-0.4, 0.1, 0.2), (0.0, 0.0, -0.15), (1.2, 0.9, 1.9)):
        chain.target_location = target
        go_to(bpy.context.scene.frame_current + 1)
        upper = evaluated(ob).pose.bones["upper"]
        turned = quaternion_matrix(np.array(upper.rotation_quaternion, np.float64))
        assert outside(turned, np.full(3, -TEN), np.full(3, TEN)) <= 1e-6
        assert np.abs(channel_angles(ob, "upper")).max() <= 10.0 + 1e-4
        gap = np.linalg.norm(head(ob, "hand") - target)
        assert chain.residual == pytest.approx(gap, abs=1e-5)
        assert (chain.status in {"OK", "POLE_ALIGNED"}) == (gap <= 1e-5)
        statuses.add(chain.status)
    assert statuses <= {"OK", "POLE_ALIGNED", "LIMIT", "TARGET_FAR"} and "LIMIT" in statuses


@pytest.mark.parametrize(("share", "most"), [(0.0, 0.0), (0.01, 0.02), (0.3, radians(30.0))])
def test_a_clavicle_turns_no_further_than_it_may_when_the_arm_is_limited(
    fresh: bpy.types.Scene, share: float, most: float
) -> None:
    ob = armature(bones=BODY)
    chain = chains.add(ob, "shoulder", "hand", solver="THREE_BONE", use_tail=False, share=share)
    fk = pose_matrix(ob, "shoulder")[:3, :3]

    def turned() -> float:
        turn = pose_matrix(ob, "shoulder")[:3, :3] @ fk.T
        return float(np.arccos(np.clip((np.trace(turn) - 1.0) / 2.0, -1.0, 1.0)))

    for target in ((0.2, 0.3, 0.7), (0.6, -0.3, 1.0), (-0.4, 0.1, 0.2), (1.2, 0.9, 1.9)):
        chain.target_location = target
        chain.use_limits = False
        update()
        free = turned()
        chain.use_limits = True
        limit_ik(ob.pose.bones["upper"], x=(-10, 10), y=(-10, 10), z=(-10, 10))
        go_to(bpy.context.scene.frame_current + 1)
        assert turned() <= max(most, free) + 1e-3
        assert np.abs(channel_angles(ob, "upper")).max() <= 10.0 + 1e-4
        assert chain.residual == pytest.approx(np.linalg.norm(head(ob, "hand") - target), abs=1e-5)


@pytest.mark.parametrize("side", SIDES)
def test_ten_degrees_are_kept_by_an_aim_with_a_pole(fresh: bpy.types.Scene, side: str) -> None:
    ob = armature(bones=BODY)
    limit_ik(ob.pose.bones["upper"], x=(-10, 10), y=(-10, 10), z=(-10, 10))
    chain = chains.add(
        ob, "upper", "upper", solver="AIM", pole_mode="DIRECTION", pole_location=SIDES[side],
        target_location=(0.5, 0.4, 0.0),
    )  # fmt: skip
    update()
    assert np.abs(channel_angles(ob, "upper")).max() <= 10.0 + 1e-4
    assert chain.status == "LIMIT" and chain.residual > 0.1


@pytest.mark.parametrize("softness", [0.0, 0.05])
@pytest.mark.parametrize("mode", ["ACCEPT", "STRETCH"])
def test_out_of_reach_is_told_before_limits(fresh: bpy.types.Scene, mode: str, softness: float) -> None:
    """A limit that is widened does not help where the limb is too short; once the target is near, it does."""
    ob, chain = limb(limit_mode=mode, softness=softness, stretch_max=0.05)
    limit_ik(ob.pose.bones["upper"], x=(-10, 10), y=(-10, 10), z=(-10, 10))
    limit_ik(ob.pose.bones["lower"], x=(-10, 10), y=(-10, 10), z=(-10, 10))
    way = np.array((0.6, 0.0, -0.8))
    for distance, status in ((2.2, "TARGET_FAR"), (1.5, "LIMIT")):
        chain.target_location = np.array((0.0, 0.0, 2.0)) + distance * way
        update()
        assert chain.status == status
        gap = np.linalg.norm(head(ob, "hand") - np.array(chain.target_location))
        assert chain.residual == pytest.approx(gap, abs=1e-5)
        assert gap > max(distance - 2.1, 0.0) + 0.05, "the limits add to it"


@pytest.mark.parametrize("scale", [(1.0, 1.1, 0.9), (1.0, 1.5, 0.7), (2.0, 1.0, 0.5)])
@pytest.mark.parametrize("solver", ["TWO_BONE", "FABRIK", "CCD"])
def test_limits_under_a_parent_that_is_scaled_unevenly(
    fresh: bpy.types.Scene, solver: str, scale: tuple[float, float, float]
) -> None:
    """Posed lengths change with the pose, and so does what can be reached: targets are taken from poses."""
    ob = armature(bones=BODY)
    ob.pose.bones["body"].scale = scale
    upper, lower = ob.pose.bones["upper"], ob.pose.bones["lower"]
    limit_ik(upper, x=(-60, 60), y=(-60, 60), z=(-60, 60))
    limit_ik(lower, x=(-150, 150))
    lower.lock_ik_y = lower.lock_ik_z = True
    upper.rotation_mode = lower.rotation_mode = "XYZ"
    rng = np.random.default_rng(1)
    targets = []
    for _ in range(25):
        upper.rotation_euler = np.radians(rng.uniform(-55, 55, 3))
        lower.rotation_euler = np.radians((rng.uniform(-120, 120), 0, 0))
        update()
        targets.append(head(ob, "hand"))
    upper.rotation_euler, lower.rotation_euler = (0.1, 0, 0), (-0.3, 0, 0)
    update()
    chain = chains.add(ob, "upper", "hand", solver=solver, use_tail=False)
    for target in targets:
        chain.target_location = target
        update()
        assert np.linalg.norm(head(ob, "hand") - target) <= 1e-5
        assert chain.status == "OK"
        assert np.abs(channel_angles(ob, "upper")).max() <= 60.0 + 1e-3
        assert np.abs(channel_angles(ob, "lower")[1:]).max() <= 1e-3


@pytest.mark.parametrize("target", [(0.0, 0.0, 1.25), (0.0, -0.4, 0.6), (0.3, 0.2, 0.9)])
def test_a_knee_keeps_a_minimum_bend_above_zero(fresh: bpy.types.Scene, target: tuple) -> None:
    ob, chain = limb(target_location=target)
    limit_rotation(ob.pose.bones["lower"], x=(20, 140), y=(0, 0), z=(0, 0))
    for frame in range(3):
        go_to(frame)
        angles = channel_angles(ob, "lower")
        assert 20.0 - 1e-4 <= angles[0] <= 140.0 + 1e-4
        assert np.abs(angles[1:]).max() <= 1e-3
    assert np.linalg.norm(np.array(head(ob, "hand")) - target) < 1e-5, "reachable with the knee bent"
    assert chain.status == "OK"
    chain.target_location = (0.0, 0.0, -0.2)  # a straight leg would reach 0, this one cannot
    update()
    assert channel_angles(ob, "lower")[0] == pytest.approx(20.0, abs=1e-3)
    shortest = 2.0 - 2.0 * np.cos(radians(10.0))
    assert chain.residual == pytest.approx(0.2 + shortest, abs=1e-5)


def test_a_range_across_180_degrees_is_kept(fresh: bpy.types.Scene) -> None:
    ob, chain = limb(target_location=(0.0, 0.3, 1.2))
    ob.pose.bones["lower"].rotation_mode = "XYZ"
    ob.pose.bones["lower"].rotation_euler = (pi * 0.95, 0, 0)
    limit_rotation(ob.pose.bones["lower"], x=(150, 210), y=(0, 0), z=(0, 0))
    update()
    angle = channel_angles(ob, "lower")
    wrapped = Euler(np.radians(angle), "XYZ")
    wrapped.make_compatible(Euler((pi, 0, 0), "XYZ"))
    assert 150.0 - 1e-3 <= np.degrees(wrapped.x) <= 210.0 + 1e-3
    assert chain.status in {"LIMIT", "OK"}


def test_a_locked_axis_keeps_its_fk_angle(fresh: bpy.types.Scene) -> None:
    ob = armature(bones=LIMB)
    lower = ob.pose.bones["lower"]
    lower.rotation_mode = "XYZ"
    lower.rotation_euler = (radians(40), radians(15), radians(-5))
    lower.lock_ik_y = lower.lock_ik_z = True
    update()
    chain = chains.add(ob, "upper", "hand", name="limb", use_tail=False)
    for target in ((0.2, -0.4, 0.9), (0.5, 0.1, 1.1), (0.0, -0.9, 1.8)):
        chain.target_location = target
        update()
        assert channel_angles(ob, "lower")[1:] == pytest.approx([15.0, -5.0], abs=1e-3)
        assert np.linalg.norm(np.array(head(ob, "hand")) - target) < 1e-4


@pytest.mark.parametrize("solver", ["TWO_BONE", "FABRIK", "CCD"])
def test_every_solver_keeps_the_limits(fresh: bpy.types.Scene, solver: str) -> None:
    ob, chain = limb(solver=solver, target_location=(0.7, 0.5, 1.0))
    limit_ik(ob.pose.bones["upper"], x=(-20, 30), y=(-5, 5), z=(-30, 20))
    limit_ik(ob.pose.bones["lower"], x=(-60, 60), y=(-5, 5), z=(-60, 60))
    rng = np.random.default_rng(5)
    for target in rng.uniform((-1, -1, 0.2), (1, 1, 1.8), (12, 3)):
        chain.target_location = target
        update()
        x, y, z = channel_angles(ob, "upper")
        assert -20 - 1e-3 <= x <= 30 + 1e-3 and abs(y) <= 5 + 1e-3 and -30 - 1e-3 <= z <= 20 + 1e-3
        gap = np.linalg.norm(np.array(head(ob, "hand")) - target)
        assert chain.residual == pytest.approx(gap, abs=1e-5)


def test_switching_limits_off_frees_the_joints_and_names_what_still_holds(fresh: bpy.types.Scene) -> None:
    ob, chain = limb(target_location=(0.0, -0.6, 1.0))
    limit_ik(ob.pose.bones["upper"], x=(-1, 1), y=(-1, 1), z=(-1, 1))
    update()
    assert chain.status == "LIMIT"
    chain.use_limits = False
    update()
    assert chain.status == "OK"
    limit_rotation(ob.pose.bones["upper"], x=(-1, 1))
    update()
    assert chain.status == "BROKEN" and "Limit Rotation" in chain.message


def test_editing_a_limit_is_seen_at_once(fresh: bpy.types.Scene) -> None:
    ob, chain = limb(target_location=(0.0, -0.6, 1.0))
    constraint = limit_rotation(ob.pose.bones["upper"], x=(-5, 5), y=(-5, 5), z=(-5, 5))
    go_to(2)
    assert np.abs(channel_angles(ob, "upper")).max() <= 5.0 + 1e-3
    for axis in "xyz":
        setattr(constraint, f"min_{axis}", radians(-12))
        setattr(constraint, f"max_{axis}", radians(12))
    go_to(3)
    assert 5.5 <= np.abs(channel_angles(ob, "upper")).max() <= 12.0 + 1e-3


@pytest.mark.parametrize("flag", ["use_ik_limit_x", "lock_ik_x"])
def test_a_limit_that_is_keyed_counts_from_the_frame_on_which_it_comes(
    fresh: bpy.types.Scene, flag: str
) -> None:
    """No bone has a limit before, and Blender tells of no edit."""
    ob, _ = limb(target_location=(0.0, -0.6, 1.0))
    bone = ob.pose.bones["upper"]
    bone.ik_min_x, bone.ik_max_x = -0.01, 0.01
    for frame, held in ((1, False), (5, True), (9, False)):
        setattr(bone, flag, held)
        bone.keyframe_insert(flag, frame=frame)
    for frame in (1, 2, 5, 6, 9, 7, 3):
        go_to(frame)
        angle = abs(channel_angles(ob, "upper")[0])
        assert angle <= 0.6 if 5 <= frame < 9 else angle > 10.0, frame


@pytest.mark.parametrize("keyed", ["use_ik_limit_x", "ik_max_x", "constraint"])
def test_keyed_limits_are_baked_as_they_play(fresh: bpy.types.Scene, keyed: str) -> None:
    """A bake reads frames that the window does not show."""
    ob, _ = limb(target_location=(0.0, -0.6, 1.0))
    bone = ob.pose.bones["upper"]
    owner, prop = bone, keyed
    bone.ik_min_x, bone.ik_max_x, bone.use_ik_limit_x = -0.01, 0.01, keyed == "ik_max_x"
    values = (False, True)
    if keyed == "constraint":
        owner, prop = bone.constraints.new("LIMIT_ROTATION"), "use_limit_x"
        owner.owner_space, owner.min_x, owner.max_x = "LOCAL", -0.01, 0.01
    elif keyed == "ik_max_x":
        values = (1.5, 0.01)
    for frame, value in zip((1, 5), values, strict=True):
        setattr(owner, prop, value)
        owner.keyframe_insert(prop, frame=frame)

    def played() -> np.ndarray:
        rows = []
        for frame in range(1, 9):
            go_to(frame)
            rows.append([np.array(bone.matrix) for bone in evaluated(ob).pose.bones])
        return np.array(rows)

    live = played()
    assert np.abs(live[-1] - live[0]).max() > 0.1
    go_to(1)
    fresh.frame_start, fresh.frame_end = 1, 8
    assert bpy.ops.ik_chain.bake(object=ob.name) == {"FINISHED"}
    assert np.abs(played() - live).max() < 1e-4


@pytest.mark.parametrize("flag", ["use_ik_limit_x", "lock_ik_x"])
def test_a_limit_that_a_driver_switches_on_counts(fresh: bpy.types.Scene, flag: str) -> None:
    ob, _ = limb(target_location=(0.0, -0.6, 1.0))
    bone = ob.pose.bones["upper"]
    bone.ik_min_x, bone.ik_max_x = -0.01, 0.01
    bone.driver_add(flag).driver.expression = "5 <= frame < 9"
    for frame in (1, 2, 5, 6, 9, 7, 3):
        go_to(frame)
        angle = abs(channel_angles(ob, "upper")[0])
        assert angle <= 0.6 if 5 <= frame < 9 else angle > 10.0, frame


@pytest.mark.parametrize("kind", ["use_ik_limit", "lock_ik"])
@pytest.mark.parametrize("axis", "xyz")
def test_the_first_limit_of_a_rig_may_be_keyed(fresh: bpy.types.Scene, kind: str, axis: str) -> None:
    ob, _ = limb(target_location=(0.4, -0.5, 1.2), pole_mode="POINT", pole_location=(-1.0, -0.4, 1.0))
    bone = ob.pose.bones["upper"]
    for other in "xyz":
        setattr(bone, f"ik_min_{other}", radians(-1.0))
        setattr(bone, f"ik_max_{other}", radians(1.0))
    for frame, value in ((1, False), (5, True)):
        setattr(bone, f"{kind}_{axis}", value)
        bone.keyframe_insert(f"{kind}_{axis}", frame=frame)
    place = "xyz".index(axis)
    for frame in (1, 3, 5, 7, 3):
        go_to(frame)
        assert (abs(channel_angles(ob, "upper")[place]) > 1.01) == (frame < 5), frame


def test_an_aimed_bone_stops_at_its_limit(fresh: bpy.types.Scene) -> None:
    ob = armature(bones=LIMB)
    chain = chains.add(ob, "hand", "hand", name="look", solver="AIM", aim_axis="Y", target_location=(1, 0, 0))
    limit_ik(ob.pose.bones["hand"], x=(-15, 15), y=(-15, 15), z=(-15, 15))
    update()
    assert np.abs(channel_angles(ob, "hand")).max() <= 15.0 + 1e-3
    assert chain.status == "LIMIT" and chain.residual > 0.1
