# SPDX-License-Identifier: GPL-3.0-or-later
"""Limbs of three bones, spines that lean and aims with offset and limit, as Blender evaluates them."""

import math
from typing import Any

import bpy
import numpy as np
import pytest
from bone_rigs import armature, bone_world, edit_mode, empty, go_to, head, pose, poses, tail, update, world

from ik_addon.blender import bake, chain_bones, chains, snap
from ik_addon.blender.ranges import run

pytestmark = pytest.mark.usefixtures("fresh")

# A chest with clavicle and hanging arm; a pelvis with a dog's hind leg; a spine that is bowed forward.
ARM = (
    ("chest", "", (0.0, 0.0, 1.2), (0.0, 0.0, 1.5)),
    ("clavicle", "chest", (0.02, 0.0, 1.45), (0.18, 0.03, 1.47)),
    ("upper_arm", "clavicle", (0.18, 0.03, 1.47), (0.2, 0.05, 1.18)),
    ("forearm", "upper_arm", (0.2, 0.05, 1.18), (0.21, -0.02, 0.93)),
    ("hand", "forearm", (0.21, -0.02, 0.93), (0.21, -0.03, 0.85)),
)
DOG = (
    ("pelvis", "", (0.0, 0.3, 0.6), (0.0, 0.0, 0.6)),
    ("thigh", "pelvis", (0.0, 0.0, 0.6), (0.02, -0.1, 0.38)),
    ("shin", "thigh", (0.02, -0.1, 0.38), (0.02, 0.1, 0.2)),
    ("hock", "shin", (0.02, 0.1, 0.2), (0.02, 0.01, 0.02)),
    ("paw", "hock", (0.02, 0.01, 0.02), (0.02, -0.1, 0.0)),
)
SPINE = (
    ("hips", "", (0.0, 0.0, 0.8), (0.0, 0.0, 1.0)),
    ("spine1", "hips", (0.0, 0.0, 1.0), (0.0, -0.06, 1.2)),
    ("spine2", "spine1", (0.0, -0.06, 1.2), (0.0, -0.08, 1.4)),
    ("spine3", "spine2", (0.0, -0.08, 1.4), (0.0, -0.02, 1.6)),
    ("neck", "spine3", (0.0, -0.02, 1.6), (0.0, 0.0, 1.7)),
)
RIGS = {"CLAVICLE": ARM, "HOCK_PARALLEL": DOG, "HOCK_RATIO": DOG}
ENDS = {"CLAVICLE": ("clavicle", "hand"), "HOCK_PARALLEL": ("thigh", "paw"), "HOCK_RATIO": ("thigh", "paw")}
NEW = (
    "limb_mode", "share", "share_max", "use_lean", "lean", "aim_offset", "aim_limit", "aim_damping"
)  # fmt: skip

each_mode = pytest.mark.parametrize("mode", RIGS)


def limb(mode: str, **settings: Any) -> tuple[bpy.types.Object, Any]:
    """A rig with a three-bone chain whose tip is the head of the end bone."""
    ob = armature(mode, RIGS[mode])
    settings = {"use_tail": False, "solver": "THREE_BONE", "limb_mode": mode, **settings}
    chain = chains.add(ob, *ENDS[mode], name="limb", **settings)
    update()
    return ob, chain


def size(ob: bpy.types.Object) -> float:
    return sum(bone.length for bone in list(ob.data.bones)[1:4])


def turned(ob: bpy.types.Object, bone: str) -> np.ndarray:
    """Rotation ``(3, 3)`` in armature space from the rest pose to the evaluated one."""
    now = np.linalg.inv(world(ob)) @ bone_world(ob, bone)
    return now[:3, :3] @ np.array(ob.data.bones[bone].matrix_local, float)[:3, :3].T


def angle_of(rotation: np.ndarray) -> float:
    return math.atan2(
        np.linalg.norm(
            [
                rotation[2, 1] - rotation[1, 2],
                rotation[0, 2] - rotation[2, 0],
                rotation[1, 0] - rotation[0, 1],
            ]
        ),
        np.trace(rotation) - 1.0,
    )


def angle_between(a: np.ndarray, b: np.ndarray) -> float:
    return math.atan2(np.linalg.norm(np.cross(a, b)), a @ b)


def put(chain: Any, place: Any) -> None:
    chain.target_location = place
    update()


def far_from_home(ob: bpy.types.Object) -> None:
    """A moved, turned and scaled object with a turned FK pose."""
    ob.location, ob.rotation_euler, ob.scale = (1.0, 2.0, -0.5), (0.3, -0.4, 1.0), (1.7, 1.7, 1.7)
    rng = np.random.default_rng(3)
    for bone in ob.pose.bones:
        bone.rotation_mode = "QUATERNION"
        bone.rotation_quaternion = (1.0, *rng.normal(0.0, 0.12, 3))
    update()


# Adding moves nothing


@pytest.mark.parametrize("moved", [False, True], ids=["at home", "moved"])
@pytest.mark.parametrize("pole", ["AUTO", "DIRECTION", "POINT"])
@each_mode
def test_adding_a_limb_moves_nothing(mode: str, pole: str, moved: bool) -> None:
    ob = armature("Rig", RIGS[mode])
    if moved:
        far_from_home(ob)
    before = pose(ob)
    chain = chains.add(
        ob, *ENDS[mode], use_tail=False, solver="THREE_BONE", limb_mode=mode, pole_mode=pole, share=0.7
    )
    update()
    assert chain.status == "OK"
    assert chain.residual <= 2e-6 * size(ob)
    assert np.abs(pose(ob) - before).max() <= 2e-6


def test_the_new_settings_leave_other_chains_as_they_were_and_can_be_overridden() -> None:
    known = bpy.types.Object.bl_rna.properties["ik_chains"].fixed_type.properties
    for name in NEW:
        assert known[name].is_overridable and known[name].is_animatable, name
    ob = armature("Rig", SPINE)
    for solver, root in (("FABRIK", "spine1"), ("AIM", "neck")):
        before = pose(ob)
        chain = chains.add(ob, root, "spine3" if root != "neck" else "neck", solver=solver)
        update()
        assert not chain.use_lean and chain.aim_limit >= math.pi and not any(chain.aim_offset)
        assert np.abs(pose(ob) - before).max() <= 2e-6


@pytest.mark.parametrize(
    ("root", "end", "use_tail", "count"),
    [
        ("upper_arm", "hand", False, 2),
        ("chest", "hand", False, 4),
        ("upper_arm", "forearm", True, 2),
    ],
)
def test_another_number_of_bones_is_refused(root: str, end: str, use_tail: bool, count: int) -> None:
    ob = armature("Rig", ARM)
    with pytest.raises(
        chain_bones.ChainError, match=f"the three-bone solver turns three bones, not {count} .*use FABRIK"
    ):
        chains.add(ob, root, end, use_tail=use_tail, solver="THREE_BONE")
    assert len(ob.ik_chains) == 0
    chain = chains.add(ob, "clavicle", "forearm", solver="THREE_BONE")
    update()
    assert chain.status == "OK"
    chain.root_bone = "upper_arm"
    update()
    assert chain.status == "BROKEN" and "turns three bones" in chain.message


# On target


@pytest.mark.parametrize("moved", [False, True], ids=["at home", "moved"])
@each_mode
def test_what_blender_evaluates_is_on_target(mode: str, moved: bool) -> None:
    ob, chain = limb(mode)
    if moved:
        far_from_home(ob)
    rng = np.random.default_rng(5)
    reached = 0
    start = head(ob, ENDS[mode][0] if mode != "CLAVICLE" else "upper_arm")
    scale = ob.scale[0] * size(ob)
    for _ in range(30):
        way = rng.normal(size=3)
        target = start + way / np.linalg.norm(way) * rng.uniform(0.25, 0.65) * scale
        put(chain, target)
        missed = np.linalg.norm(head(ob, ENDS[mode][1]) - target)
        assert abs(missed - chain.residual) <= 2e-6 * scale
        if chain.status == "OK":
            reached += 1
            assert missed <= 2e-6 * scale
    assert reached >= 20


def test_the_clavicle_takes_its_share_and_stays_below_its_limit() -> None:
    ob, chain = limb("CLAVICLE", share=0.25, share_max=math.radians(20.0))
    shoulder, tip = head(ob, "upper_arm"), head(ob, "hand")
    arm = tip - shoulder
    axis = np.cross(arm, shoulder - head(ob, "clavicle"))
    axis /= np.linalg.norm(axis)
    # At right angles to the clavicle, so that all of the arm's turn is the clavicle's to share.
    along = np.cross(axis, arm)
    for rise, expected in ((40.0, 10.0), (60.0, 15.0), (80.0, 20.0), (110.0, 20.0)):
        angle = math.radians(rise)
        put(chain, shoulder + 0.8 * (math.cos(angle) * arm + math.sin(angle) * along))
        assert chain.status == "OK"
        assert angle_of(turned(ob, "clavicle")) == pytest.approx(math.radians(expected), abs=2e-6)
    chain.share = 0.0
    update()
    assert angle_of(turned(ob, "clavicle")) <= 1e-6
    assert chain.status == "OK"


def test_the_clavicle_helps_with_a_target_out_of_reach_up_to_its_limit() -> None:
    ob, chain = limb("CLAVICLE", share=0.1, share_max=math.radians(30.0))
    shoulder = head(ob, "upper_arm")
    reach = ob.data.bones["upper_arm"].length + ob.data.bones["forearm"].length
    up = shoulder + np.array((0.15, 0.0, 1.0)) / math.hypot(0.15, 1.0) * (reach + 0.06)
    put(chain, up)
    assert chain.status == "OK" and chain.residual <= 2e-6
    helped = angle_of(turned(ob, "clavicle"))
    assert 0.1 * math.pi < helped < math.radians(29.0)
    chain.share_max = 0.5 * helped
    update()
    assert chain.status == "TARGET_FAR" and chain.residual > 1e-3
    assert angle_of(turned(ob, "clavicle")) == pytest.approx(0.5 * helped, abs=2e-6)


def test_a_parallel_hock_keeps_its_angle_to_the_thigh() -> None:
    ob, chain = limb("HOCK_PARALLEL")
    for offset in ((0.05, 0.1, 0.08), (-0.1, -0.2, 0.15), (0.0, 0.15, 0.2)):
        put(chain, np.array((0.02, 0.01, 0.02)) + offset)
        assert chain.status == "OK"
        assert np.abs(turned(ob, "thigh") - turned(ob, "hock")).max() <= 2e-6
        assert angle_of(turned(ob, "thigh")) > 0.05


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_a_hock_by_ratio_turns_by_its_share_of_the_line(share: float) -> None:
    ob, chain = limb("HOCK_RATIO", share=share)
    hip, paw = head(ob, "thigh"), head(ob, "paw")
    target = paw + (0.0, -0.1, 0.06)
    put(chain, target)
    assert chain.status == "OK"
    turn = angle_between(paw - hip, target - hip)
    assert turn > 0.1
    assert angle_of(turned(ob, "hock")) == pytest.approx(share * turn, abs=2e-6)


def test_settings_are_keyed_and_driven() -> None:
    """The share by curve, the mode by stepped curve, the limit by driver: each frame by itself."""
    ob, chain = limb("HOCK_RATIO", share=0.0)
    put(chain, head(ob, "paw") + (0.0, -0.1, 0.06))
    for frame, share in ((1, 0.0), (11, 1.0)):
        chain.share = share
        chain.keyframe_insert("share", frame=frame)
    for frame, mode in ((1, "HOCK_RATIO"), (21, "HOCK_PARALLEL")):
        chain.limb_mode = mode
        chain.keyframe_insert("limb_mode", frame=frame)
    angles = []
    for frame in (1, 6, 11):
        go_to(frame)
        angles.append(angle_of(turned(ob, "hock")))
    assert angles[0] <= 1e-6 < 0.05 < angles[1] < angles[2]
    assert angles[1] == pytest.approx(0.5 * angles[2], abs=2e-3)
    go_to(21)
    assert np.abs(turned(ob, "thigh") - turned(ob, "hock")).max() <= 2e-6
    order = (21, 3, 11, 21, 3)
    visited = poses(ob, order)
    assert np.array_equal(visited[0], visited[3]) and np.array_equal(visited[1], visited[4])
    again, arm = limb("CLAVICLE", share=0.5)
    put(arm, head(again, "hand") + (0.3, -0.2, 0.4))
    driver = arm.driver_add("share_max").driver
    driver.expression = "0.1"
    update()
    assert angle_of(turned(again, "clavicle")) == pytest.approx(0.1, abs=2e-6)


@each_mode
def test_influence_0_is_fk_to_the_bit_and_between_it_blends(mode: str) -> None:
    ob, chain = limb(mode, influence=0.0)
    before = pose(ob)
    put(chain, head(ob, ENDS[mode][1]) + (0.06, -0.1, 0.08))
    assert np.array_equal(pose(ob), before)
    chain.influence = 0.5
    update()
    half = np.abs(pose(ob) - before).max()
    assert chain.status == "INFLUENCE" and chain.residual > 1e-3
    chain.influence = 1.0
    update()
    assert chain.status == "OK" and np.abs(pose(ob) - before).max() > half > 0.01
    chain.influence = 0.0
    update()
    assert np.array_equal(pose(ob), before)


@pytest.mark.parametrize("pole", ["AUTO", "POINT"])
@each_mode
def test_under_a_sheared_parent_the_tip_reaches_and_the_clavicle_takes_its_share_once(
    mode: str, pole: str
) -> None:
    settings = {"pole_mode": pole, "pole_location": (0.3, -1.0, 0.8), "share": 0.5}
    ob, chain = limb(mode, influence=0.0, share_max=math.radians(15.0), **settings)
    ob.pose.bones[0].scale = (1.0, 1.06, 0.97)
    update()
    lone, end = ENDS[mode]
    before = bone_world(ob, lone)[:3, 1]
    target = head(ob, end) + ((0.35, -0.1, 0.5) if mode == "CLAVICLE" else (0.05, -0.08, 0.1))
    chain.influence = 1.0
    put(chain, target)
    missed = np.linalg.norm(head(ob, end) - target)
    assert missed <= 1e-5 and chain.residual == pytest.approx(missed, abs=2e-6)
    if mode == "CLAVICLE":
        # Shear bends directions by a tenth of what it stretches; a second share would double the angle.
        turn = angle_between(before, bone_world(ob, lone)[:3, 1])
        assert math.radians(12.0) < turn < math.radians(18.0)
        put(chain, target + (3.0, 0.0, 3.0))
        turn = angle_between(before, bone_world(ob, lone)[:3, 1])
        assert chain.status == "TARGET_FAR"
        assert math.radians(12.0) < turn < math.radians(18.0)


@pytest.mark.parametrize("ratio", [0.93, 1.0, 1.3])
@each_mode
def test_softness_eases_the_part_that_is_solved_as_two_bones(mode: str, ratio: float) -> None:
    """Once, from the shoulder or the hip: the last tenth of what reaches from there."""
    ob, chain = limb(mode, softness=0.1, share=0.0, share_max=0.0)
    first, second, third = (np.array(bone.tail_local - bone.head_local) for bone in list(ob.data.bones)[1:4])
    long = {
        "CLAVICLE": (second, third),
        "HOCK_PARALLEL": (first + third, second),
        "HOCK_RATIO": (first, second, third),
    }
    reach = sum(np.linalg.norm(bone) for bone in long[mode])
    root, tip = head(ob, "upper_arm" if mode == "CLAVICLE" else "thigh"), head(ob, ENDS[mode][1])
    line = (tip - root) / np.linalg.norm(tip - root)
    put(chain, root + ratio * reach * line)
    eased = reach * (1.0 - 0.1 * math.exp(-(ratio - 0.9) / 0.1))
    assert np.linalg.norm(head(ob, ENDS[mode][1]) - root) == pytest.approx(eased, abs=2e-6)
    assert chain.status == "TARGET_FAR"
    assert chain.residual == pytest.approx(ratio * reach - eased, abs=3e-6)


@each_mode
def test_joint_limits_leave_the_softness_of_a_limb_in_place(mode: str) -> None:
    ob, chain = limb(mode, softness=0.1, share=0.0, share_max=0.0)
    first, end = "upper_arm" if mode == "CLAVICLE" else "thigh", ENDS[mode][1]
    root, tip = head(ob, first), head(ob, end)
    across = np.cross(tip - root, (0.0, 1.0, 0.0))
    put(chain, root + 1.1 * (tip - root) + 0.4 * across)
    twisted, soft = ob.pose.bones[first].matrix_basis.to_quaternion(), head(ob, end)
    assert chain.status == "TARGET_FAR"
    twist = twisted.to_swing_twist("Y")[1]
    assert abs(twist) > 0.02
    bone = ob.pose.bones[first]
    bone.use_ik_limit_y = True
    bone.ik_min_y, bone.ik_max_y = sorted((0.0, 0.5 * twist))
    update()
    assert np.linalg.norm(head(ob, end) - soft) <= 1e-4 * size(ob)
    assert abs(bone.matrix_basis.to_quaternion().to_swing_twist("Y")[1]) < 0.6 * abs(twist)


def test_an_eased_two_bone_limb_with_its_pole_on_the_line_is_out_of_reach_not_unconverged() -> None:
    ob = armature("Rig", ARM)
    chain = chains.add(
        ob, "upper_arm", "hand", use_tail=False, softness=0.1, pole_mode="DIRECTION", pole_location=(0, 0, -1)
    )
    shoulder = head(ob, "upper_arm")
    put(chain, shoulder - (0.0, 0.0, 0.53))
    assert chain.status == "TARGET_FAR" and chain.residual > 1e-3


# Bend sides


def test_a_straight_arm_bends_about_the_axis_of_its_upper_arm() -> None:
    """Not about that of the clavicle, whose roll is another."""
    straight = [*ARM[:2], ("upper_arm", "clavicle", (0.18, 0.03, 1.47), (0.48, 0.03, 1.47))]
    straight.append(("forearm", "upper_arm", (0.48, 0.03, 1.47), (0.74, 0.03, 1.47)))
    ob = armature("Rig", straight)
    with edit_mode(ob) as bones:
        bones["clavicle"].roll = 1.0
        bones["upper_arm"].roll = bones["forearm"].roll = -0.4
    chain = chains.add(ob, "clavicle", "forearm", solver="THREE_BONE", share=0.0)
    update()
    side = -bone_world(ob, "upper_arm")[:3, 2]
    shoulder = head(ob, "upper_arm")
    put(chain, shoulder + (0.4, 0.0, 0.0))
    elbow = head(ob, "forearm") - shoulder
    elbow[0] = 0.0
    assert angle_between(elbow, side) <= 1e-4


@pytest.mark.parametrize("pole", ["POINT", "DIRECTION"])
def test_adding_a_straight_arm_with_a_pole_does_not_roll_it(pole: str) -> None:
    straight = [*ARM[:2], ("upper_arm", "clavicle", (0.18, 0.03, 1.47), (0.48, 0.03, 1.47))]
    straight.append(("forearm", "upper_arm", (0.48, 0.03, 1.47), (0.74, 0.03, 1.47)))
    ob = armature("Rig", straight)
    with edit_mode(ob) as bones:
        bones["clavicle"].roll = 1.0
        bones["upper_arm"].roll = bones["forearm"].roll = -0.4
    before = pose(ob)
    chains.add(ob, "clavicle", "forearm", solver="THREE_BONE", pole_mode=pole)
    update()
    assert np.abs(pose(ob) - before).max() <= 1e-5


@pytest.mark.parametrize("mode", ["HOCK_PARALLEL", "HOCK_RATIO"])
def test_a_leg_posed_straight_folds_to_the_side_of_its_rest_knee(mode: str) -> None:
    """Also with a hock that is bent more than the knee at rest, the other way round."""
    bones = (
        ("pelvis", "", (0.0, 0.3, 0.8), (0.0, 0.0, 0.8)),
        ("thigh", "pelvis", (0.0, 0.0, 0.8), (0.0, -0.02, 0.5)),
        ("shin", "thigh", (0.0, -0.02, 0.5), (0.0, 0.0, 0.2)),
        ("hock", "shin", (0.0, 0.0, 0.2), (0.0, -0.19, 0.14)),
        ("paw", "hock", (0.0, -0.19, 0.14), (0.0, -0.29, 0.14)),
    )
    ob = armature("Rig", bones)
    ob.pose.bones["shin"].rotation_mode = "XYZ"
    ob.pose.bones["shin"].rotation_euler.x = -2.0 * math.atan2(0.02, 0.3)
    update()
    thigh, shin = (tail(ob, name) - head(ob, name) for name in ("thigh", "shin"))
    assert angle_between(thigh, shin) <= 1e-3
    chain = chains.add(ob, "thigh", "paw", use_tail=False, solver="THREE_BONE", limb_mode=mode, share=0.0)
    update()
    hip, paw = head(ob, "thigh"), head(ob, "paw")
    put(chain, paw + 0.25 * (hip - paw))
    assert chain.status == "OK"
    ankle = head(ob, "hock")
    off = head(ob, "shin") - hip
    off -= off @ (ankle - hip) / ((ankle - hip) @ (ankle - hip)) * (ankle - hip)
    assert off[1] < -0.05


@pytest.mark.parametrize("space", ["ARMATURE", "WORLD"])
def test_the_elbow_keeps_to_a_pole_point_when_the_shoulder_moves(space: str) -> None:
    ob, chain = limb("CLAVICLE", share=0.6, pole_mode="POINT", pole_space=space)
    pole = np.array((0.4, 0.8, 1.2))
    chain.pole_location = pole
    before = head(ob, "upper_arm")
    put(chain, before + (0.25, -0.2, 0.25))
    shoulder, elbow, hand = (head(ob, name) for name in ("upper_arm", "forearm", "hand"))
    assert np.linalg.norm(shoulder - before) > 0.05
    line = (hand - shoulder) / np.linalg.norm(hand - shoulder)
    sides = [vector - vector @ line * line for vector in (elbow - shoulder, pole - shoulder)]
    assert angle_between(*sides) <= 1e-5


# Many chains in one call


def test_limbs_of_all_modes_on_one_rig_are_solved_as_each_alone() -> None:
    both = armature("Both", (*ARM, *DOG, *((f"{n}2", p and f"{p}2", h, t) for n, p, h, t in DOG)))
    made = {"CLAVICLE": "", "HOCK_PARALLEL": "", "HOCK_RATIO": "2"}
    alone = {}
    for mode, suffix in made.items():
        ob, single = limb(mode, share=0.4)
        offset = (0.2, -0.2, 0.3) if mode == "CLAVICLE" else (0.05, -0.1, 0.1)
        place = head(ob, ENDS[mode][1]) + offset
        put(single, place)
        alone[mode] = ob
        chain = chains.add(
            both, *(f"{name}{suffix}" for name in ENDS[mode]), use_tail=False,
            solver="THREE_BONE", limb_mode=mode, share=0.4,
        )  # fmt: skip
        chain.target_location = place
    update()
    for mode, suffix in made.items():
        for bone in RIGS[mode]:
            gap = np.abs(head(both, bone[0] + suffix) - head(alone[mode], bone[0])).max()
            assert gap <= 2e-6, (mode, bone[0])


def test_a_spine_that_leans_beside_one_that_does_not() -> None:
    ob = armature("Rig", (*SPINE, *((f"{n}2", p and f"{p}2", h, t) for n, p, h, t in SPINE)))
    for suffix, use_lean in (("", True), ("2", False)):
        chain = chains.add(ob, f"spine1{suffix}", f"spine3{suffix}", solver="FABRIK", use_lean=use_lean)
        chain.target_location = (0.1, -0.02, 1.4)
    update()
    assert np.linalg.norm(tail(ob, "spine32") - (0.1, -0.02, 1.4)) <= 1e-5
    assert tail(ob, "spine3")[2] == pytest.approx(1.6, abs=1e-2)
    assert [chain.status for chain in ob.ik_chains] == ["OK", "OK"]


# Snap and bake


@pytest.mark.parametrize("pole", ["AUTO", "POINT", "DIRECTION"])
@pytest.mark.parametrize("softness", [0.0, 0.05])
@each_mode
def test_ik_snaps_to_fk(mode: str, softness: float, pole: str) -> None:
    ob, chain = limb(mode, softness=softness, pole_mode=pole)
    far_from_home(ob)
    # Two bones that lie in one plane with the lone one, as a pole can hold them.
    chain.influence = 0.0
    update()
    before = pose(ob)
    done = snap.ik_to_fk(ob, 0, bpy.context.scene)
    chain.influence = 1.0
    update()
    assert done.offset <= 1e-5 and done.angle <= 1e-4
    assert np.abs(pose(ob) - before).max() <= 1e-5


@each_mode
def test_fk_snaps_to_ik(mode: str) -> None:
    ob, chain = limb(mode)
    put(chain, head(ob, ENDS[mode][1]) + (0.06, -0.1, 0.08))
    assert chain.status == "OK"
    solved = pose(ob)
    snap.fk_to_ik(ob, 0, bpy.context.scene)
    update()
    assert np.abs(pose(ob) - solved).max() <= 2e-6
    chain.mute = True
    update()
    assert np.abs(pose(ob) - solved).max() <= 2e-6


@each_mode
def test_a_bake_plays_what_was_live(mode: str) -> None:
    ob, chain = limb(mode)
    start = head(ob, ENDS[mode][1])
    for frame, offset in ((1, (0.0, 0.0, 0.0)), (9, (0.08, -0.12, 0.15))):
        chain.target_location = start + offset
        chain.keyframe_insert("target_location", frame=frame)
    live = poses(ob, range(1, 10))
    assert np.abs(live[8] - live[0]).max() > 0.05
    run(bake.bake(bpy.context.scene, [ob], bake.BakeOptions(frames=(1, 9))))
    assert np.abs(poses(ob, range(1, 10)) - live).max() <= 5e-6


# Spines


@pytest.mark.parametrize("solver", ["FABRIK", "CCD"])
def test_a_head_that_leans_pulls_the_spine_after_it(solver: str) -> None:
    ob = armature("Rig", SPINE)
    before = pose(ob)
    chain = chains.add(ob, "spine1", "spine3", solver=solver, use_lean=True)
    update()
    assert np.abs(pose(ob) - before).max() <= 2e-6
    tip = tail(ob, "spine3")
    root = head(ob, "spine1")
    line = (tip - root) / np.linalg.norm(tip - root)
    put(chain, tip + (0.1, 0.0, 0.0) - 0.5 * line)
    assert chain.status == "OK" and chain.residual <= 1e-5
    assert np.linalg.norm(tail(ob, "spine3") - (tip + (0.1, 0.0, 0.0))) <= 1e-5
    put(chain, tip + 0.7 * line)
    assert np.abs(pose(ob) - before).max() <= 5e-6, "a drift along the spine has no effect"
    for frame, lean in ((1, 0.0), (11, 1.0)):
        chain.lean = lean
        chain.keyframe_insert("lean", frame=frame)
    put(chain, tip + (0.1, 0.0, 0.0))
    offsets = []
    for frame in (1, 6, 11):
        go_to(frame)
        assert chain.residual <= 1e-5
        offsets.append(tail(ob, "spine3")[0])
    assert offsets == pytest.approx([0.0, 0.05, 0.1], abs=1e-4)
    put(chain, tip + (0.1, 0.0, -0.1))
    for frame, use_lean in ((11, True), (12, False)):
        chain.use_lean = use_lean
        chain.keyframe_insert("use_lean", frame=frame)
    heights = []
    for frame in (11, 12):
        go_to(frame)
        heights.append(tail(ob, "spine3")[2])
    assert heights == pytest.approx([tip[2], tip[2] - 0.1], abs=1e-2)


def test_a_spine_asked_for_more_than_its_length_is_straight_and_on_its_derived_target() -> None:
    ob = armature("Rig", SPINE)
    chain = chains.add(ob, "spine1", "spine3", solver="FABRIK", use_lean=True)
    root, tip = head(ob, "spine1"), tail(ob, "spine3")
    length = sum(ob.data.bones[name].length for name in ("spine1", "spine2", "spine3"))
    put(chain, tip + (2.0, 0.0, 0.0))
    assert chain.residual <= 1e-5
    wanted = tip + (2.0, 0.0, 0.0) - root
    wanted *= length / np.linalg.norm(wanted)
    assert np.linalg.norm(tail(ob, "spine3") - root - wanted) <= 1e-5


def test_lean_counts_for_chains_of_many_bones_only() -> None:
    ob, chain = limb("CLAVICLE")
    put(chain, head(ob, "hand") + (0.1, -0.1, 0.1))
    before = pose(ob)
    chain.use_lean, chain.lean = True, 0.0
    update()
    assert np.array_equal(pose(ob), before)


# Aim


def eye(**settings: Any) -> tuple[bpy.types.Object, Any]:
    ob = armature("Rig", SPINE)
    chain = chains.add(ob, "neck", "neck", solver="AIM", **settings)
    update()
    return ob, chain


def turn_of_neck(ob: bpy.types.Object) -> float:
    return angle_of(turned(ob, "neck"))


def test_an_aim_stops_at_its_limit_and_says_so() -> None:
    ob, chain = eye()
    place, along = head(ob, "neck"), bone_world(ob, "neck")[:3, 1]
    side = np.array((1.0, 0.0, 0.0))
    chain.aim_limit = math.radians(30.0)
    for degrees, expected, status in (
        (20.0, 20.0, "OK"),
        (29.0, 29.0, "OK"),
        (50.0, 30.0, "LIMIT"),
        (150.0, 30.0, "LIMIT"),
    ):
        angle = math.radians(degrees)
        put(chain, place + 2.0 * (math.cos(angle) * along + math.sin(angle) * side))
        assert turn_of_neck(ob) == pytest.approx(math.radians(expected), abs=2e-6)
        assert chain.status == status
        if status == "LIMIT":
            left = min(angle - math.radians(30.0), 0.5 * math.pi)
            assert chain.residual == pytest.approx(2.0 * math.sin(left), abs=1e-5)
    chain.aim_damping = 0.5
    angle = math.radians(25.0)
    put(chain, place + 2.0 * (math.cos(angle) * along + math.sin(angle) * side))
    eased = 30.0 - 15.0 * math.exp(-(25.0 - 15.0) / 15.0)
    assert turn_of_neck(ob) == pytest.approx(math.radians(eased), abs=2e-6)
    assert chain.status == "LIMIT"


@pytest.mark.parametrize("moved", [False, True], ids=["at home", "moved"])
@pytest.mark.parametrize("axis", ["Y", "-Z", "X"])
def test_the_ray_of_an_offset_point_hits_the_target(axis: str, moved: bool) -> None:
    ob = armature("Rig", SPINE)
    if moved:
        far_from_home(ob)
        ob.pose.bones["neck"].scale = (1.5, 1.5, 1.5)
        update()
    before = pose(ob)
    chain = chains.add(ob, "neck", "neck", solver="AIM", aim_axis=axis, aim_offset=(0.05, 0.03, 0.08))
    update()
    assert np.abs(pose(ob) - before).max() <= 2e-6, "adding moves nothing"
    rng = np.random.default_rng(2)
    for _ in range(10):
        target = head(ob, "neck") + rng.normal(size=3) * 3.0
        put(chain, target)
        matrix = bone_world(ob, "neck")
        start = (matrix @ (0.05, 0.03, 0.08, 1.0))[:3]
        ray = matrix[:3, "XYZ".index(axis[-1])] * (-1.0 if axis[0] == "-" else 1.0)
        assert angle_between(ray, target - start) <= 1e-5
        assert chain.status == "OK" and chain.residual <= 1e-5


def test_a_target_nearer_than_the_offset_is_too_near() -> None:
    ob, chain = eye(aim_offset=(0.3, 0.0, 0.0))
    put(chain, head(ob, "neck") + (0.0, -0.1, 0.05))
    assert chain.status == "TARGET_NEAR" and chain.residual > 0.1


def test_an_aim_with_offset_and_limit_snaps() -> None:
    ob, chain = eye(aim_offset=(0.05, 0.0, 0.1), aim_limit=math.radians(20.0))
    far_from_home(ob)
    chain.influence = 0.0
    update()
    before = pose(ob)
    snap.ik_to_fk(ob, 0, bpy.context.scene)
    chain.influence = 1.0
    update()
    assert np.abs(pose(ob) - before).max() <= 1e-5
    assert chain.status == "OK"


def test_a_limited_aim_follows_a_moving_target_in_any_order_of_frames() -> None:
    ob, chain = eye(
        target_space="CUSTOM", target=empty("Target", (0.0, -2.0, 1.7)), aim_limit=0.5, aim_damping=0.3
    )
    target = bpy.data.objects["Target"]
    for frame, x in ((1, -3.0), (11, 3.0)):
        target.location.x = x
        target.keyframe_insert("location", frame=frame)
    forward = poses(ob, range(1, 12))
    backward = poses(ob, range(11, 0, -1))
    assert np.array_equal(forward, backward[::-1])
    assert not np.array_equal(forward[0], forward[-1])
    assert (chain.aim_limit, chain.aim_damping) == pytest.approx((0.5, 0.3))
