# SPDX-License-Identifier: GPL-3.0-or-later
"""Chains that hang on what other chains turn, solved in one update; cycles, named and held still."""

from collections.abc import Callable
from typing import Any

import bpy
import numpy as np
import pytest
from bone_rigs import (
    ARM_LENGTH,
    LEG,
    TORSO,
    armature,
    bone_world,
    empty,
    evaluated,
    go_to,
    head,
    pose,
    tail,
    update,
)
from mathutils import Matrix

from ik_addon.blender import chain_bones, chains

pytestmark = pytest.mark.usefixtures("fresh")

ON_TARGET = 2e-6
HAND = (0.5, -0.3, 1.6)
TOP = (0.25, -0.1, 1.7)


def torso(name: str = "Rig", offset: tuple[float, float, float] = (0.0, 0.0, 0.0)) -> bpy.types.Object:
    ob = armature(name, TORSO)
    ob.location = offset
    update()
    return ob


def bend_spine(ob: bpy.types.Object, **settings: Any) -> bpy.types.PropertyGroup:
    """A chain on the whole spine whose tip is the tail of the chest."""
    settings = {"target_space": "ARMATURE", "target_location": TOP, **settings}
    return chains.add(ob, "spine1", "chest", name="spine", solver="FABRIK", **settings)


def reach(ob: bpy.types.Object, **settings: Any) -> bpy.types.PropertyGroup:
    settings = {"target_location": HAND, **settings}
    return chains.add(ob, "upper_arm", "hand", name="arm", use_tail=False, **settings)


def gap(point: np.ndarray, target: Any) -> float:
    return float(np.linalg.norm(point - np.array(target, float)))


def world_of(ob: bpy.types.Object) -> np.ndarray:
    return np.array(evaluated(ob).matrix_world.translation)


def at_rest(ob: bpy.types.Object, *bones: str) -> bool:
    """The bones stand to their parents as at rest, which is the FK pose of these rigs."""
    for name in bones:
        bone = ob.data.bones[name]
        rest = np.linalg.inv(np.array(bone.parent.matrix_local, float)) @ np.array(bone.matrix_local, float)
        parent = np.array(evaluated(ob).pose.bones[bone.parent.name].matrix, float)
        now = np.linalg.inv(parent) @ np.array(evaluated(ob).pose.bones[name].matrix, float)
        if np.abs(now - rest).max() > 4e-6:
            return False
    return True


# An arm on a spine


@pytest.mark.parametrize("first", ["spine", "arm"])
def test_an_arm_on_a_bent_spine(first: str) -> None:
    """In whichever order they stand in the list."""
    ob = torso()
    for add in (bend_spine, reach) if first == "spine" else (reach, bend_spine):
        add(ob)
    update()
    assert gap(tail(ob, "chest"), TOP) <= 1e-5
    assert gap(head(ob, "hand"), HAND) <= ON_TARGET * ARM_LENGTH * 2
    ob.ik_chains["spine"].target_location = (-0.2, -0.2, 1.72)
    update()
    assert gap(tail(ob, "chest"), (-0.2, -0.2, 1.72)) <= 1e-5
    assert gap(head(ob, "hand"), HAND) <= ON_TARGET * ARM_LENGTH * 2


def test_an_arm_on_a_moving_spine_over_frames_in_any_order() -> None:
    ob = torso()
    spine = bend_spine(ob)
    reach(ob)
    for frame, x in ((1, -0.2), (11, 0.2)):
        spine.target_location = (x, -0.1, 1.72)
        spine.keyframe_insert("target_location", frame=frame)
    found = {}
    for frame in (1, 4, 11, 7, 2, 4, 11, 1):
        go_to(frame)
        assert gap(head(ob, "hand"), HAND) <= ON_TARGET * ARM_LENGTH * 2, frame
        assert np.array_equal(found.setdefault(frame, pose(ob)), pose(ob)), frame


def test_the_end_bone_of_one_chain_is_the_root_of_another() -> None:
    """Three chains on one arm: the hand is aimed where the arm that a spine carries puts it."""
    ob = torso()
    reach(ob)
    chains.add(ob, "hand", "hand", name="palm", solver="AIM", target_location=(2.0, 0.5, 1.0))
    bend_spine(ob)
    update()
    assert gap(head(ob, "hand"), HAND) <= 2e-6
    way = np.array((2.0, 0.5, 1.0)) - head(ob, "hand")
    axis = bone_world(ob, "hand")[:3, 1]
    assert np.linalg.norm(np.cross(axis / np.linalg.norm(axis), way / np.linalg.norm(way))) <= 2e-6


# Targets that solved bones carry


def child_object(ob: bpy.types.Object, goal: bpy.types.Object, bone: str) -> None:
    goal.parent, goal.parent_type, goal.parent_bone = ob, "BONE", bone


def child_of(ob: bpy.types.Object, goal: bpy.types.Object, bone: str) -> None:
    constraint = goal.constraints.new("CHILD_OF")
    constraint.target, constraint.subtarget = ob, bone
    # Blender sets the inverse that keeps the object in place.
    constraint.set_inverse_pending = False
    constraint.inverse_matrix = Matrix.Identity(4)


def child_of_child(ob: bpy.types.Object, goal: bpy.types.Object, bone: str) -> None:
    holder = empty("Holder", (0.05, 0.1, 0.0))
    holder.rotation_euler = (0.3, -0.2, 0.5)
    child_object(ob, holder, bone)
    goal.parent = holder


CARRYING: dict[str, Callable[..., None]] = {
    "bone parent": child_object,
    "Child Of": child_of,
    "child of a child": child_of_child,
}


@pytest.mark.parametrize("how", CARRYING)
def test_a_target_that_a_solved_bone_carries(how: str) -> None:
    """A hand that rests on the other side's chest: the spine carries the target of the arm."""
    ob = torso()
    # A bone's children stand at its tail, what a Child Of constraint holds at its head.
    goal = empty("Goal", (0.2, 0.05 if how == "Child Of" else -0.15, -0.1))
    CARRYING[how](ob, goal, "chest")
    reach(ob, target_space="CUSTOM", target=goal, target_location=(0, 0, 0))
    spine = bend_spine(ob)
    for top in (TOP, (-0.2, -0.1, 1.72), (0.0, -0.25, 1.7)):
        spine.target_location = top
        update()
        assert gap(tail(ob, "chest"), top) <= 1e-5
        wanted = world_of(goal)
        reachable = gap(head(ob, "upper_arm"), wanted) < ARM_LENGTH
        assert reachable and gap(head(ob, "hand"), wanted) <= 4e-6
        assert ob.ik_chains["arm"].residual <= 4e-6


def test_a_bone_target_below_a_solved_bone() -> None:
    """The target bone is a child of the chest, with an offset in its space."""
    ob = armature(bones=(*TORSO, ("pocket", "chest", (0.3, -0.2, 1.6), (0.3, -0.2, 1.7))))
    reach(ob, target_space="CUSTOM", target=ob, subtarget="pocket", target_location=(0.02, 0.01, 0.0))
    bend_spine(ob)
    update()
    wanted = bone_world(ob, "pocket") @ (0.02, 0.01, 0.0, 1.0)
    assert gap(head(ob, "hand"), wanted[:3]) <= 4e-6


def test_a_pole_that_a_solved_bone_carries() -> None:
    ob = torso()
    pole = empty("Pole", (0.3, 0.5, -0.6))
    child_object(ob, pole, "chest")
    reach(ob, pole_mode="POINT", pole_space="CUSTOM", pole_target=pole, pole_location=(0, 0, 0))
    bend_spine(ob)
    update()
    root, tip = head(ob, "upper_arm"), head(ob, "hand")
    line = (tip - root) / np.linalg.norm(tip - root)
    sides = []
    for point in (head(ob, "forearm"), world_of(pole)):
        side = (point - root) - ((point - root) @ line) * line
        sides.append(side / np.linalg.norm(side))
    assert gap(sides[0], sides[1]) <= 1e-5


# Across armatures


def test_a_target_on_a_solved_bone_of_another_armature() -> None:
    """Two people hold hands: one reaches for the hand that the other one's chain moves."""
    one, two = torso("One"), torso("Two", (1.2, -0.2, 0.0))
    reach(two, target_location=(1.0, -0.5, 1.5))
    two.ik_chains["arm"].name = "lead"
    reach(one, target_space="CUSTOM", target=two, subtarget="hand", target_location=(0, 0, 0))
    bend_spine(two)
    update()
    for goal in ((1.3, -0.5, 1.5), (1.4, -0.4, 1.7)):
        two.ik_chains["lead"].target_location = goal
        update()
        wanted = head(two, "hand")
        d = gap(head(one, "upper_arm"), wanted)
        assert gap(head(one, "hand"), wanted) <= max(d - ARM_LENGTH, 0.0) + 4e-6
        assert one.ik_chains["arm"].residual == pytest.approx(max(d - ARM_LENGTH, 0.0), abs=4e-6)


def test_an_armature_that_a_solved_bone_of_another_carries() -> None:
    """A rider on a horse: the whole rig moves with the other one's chest, its target stays in the world."""
    horse, rider = torso("Horse"), torso("Rider")
    rider.parent, rider.parent_type, rider.parent_bone = horse, "BONE", "chest"
    rider.location = (0.0, -1.7, 0.0)
    update()
    goal = tuple(head(rider, "hand") + np.array((-0.2, 0.15, -0.05)))
    reach(rider, target_location=goal)
    bend_spine(horse)
    for top in ((0.03, 0.0, 1.79), (-0.02, -0.02, 1.78)):
        horse.ik_chains["spine"].target_location = top
        update()
        d = gap(head(rider, "upper_arm"), goal)
        assert d < ARM_LENGTH
        assert gap(head(rider, "hand"), goal) <= 1e-5


def test_two_rigs_that_look_at_each_other_both_ways() -> None:
    """Chains of two armatures cross: each carries a target of the other, without a cycle."""
    one, two = torso("One"), torso("Two", (0.9, -0.3, 0.0))
    bend_spine(one)
    bend_spine(two, target_location=(-0.2, -0.1, 1.72))
    for ob, other in ((one, two), (two, one)):
        reach(ob, target_space="CUSTOM", target=other, subtarget="chest", target_location=(0.0, 0.1, 0.0))
    update()
    for ob, other in ((one, two), (two, one)):
        wanted = (bone_world(other, "chest") @ (0.0, 0.1, 0.0, 1.0))[:3]
        d = gap(head(ob, "upper_arm"), wanted)
        assert gap(head(ob, "hand"), wanted) == pytest.approx(max(d - ARM_LENGTH, 0.0), abs=1e-5)
        assert ob.ik_chains["arm"].status in ("OK", "TARGET_FAR")


def test_a_rig_that_is_only_looked_at_needs_no_chain() -> None:
    one, two = torso("One"), torso("Two", (0.6, -0.3, 0.0))
    reach(one, target_space="CUSTOM", target=two, subtarget="chest", target_location=(0, 0, 0))
    two.pose.bones["spine1"].rotation_quaternion = (0.99, 0.1, 0.0, 0.05)
    update()
    wanted = head(two, "chest")
    d = gap(head(one, "upper_arm"), wanted)
    assert gap(head(one, "hand"), wanted) == pytest.approx(max(d - ARM_LENGTH, 0.0), abs=4e-6)


# Cycles


def test_a_target_on_the_chain_itself_is_named_and_held_still() -> None:
    ob = torso()
    fk = pose(ob)
    goal = empty("Goal", (0.0, 0.1, 0.0))
    child_object(ob, goal, "forearm")
    reach(ob, target_space="CUSTOM", target=goal, target_location=(0, 0, 0))
    go_to(3)
    chain = ob.ik_chains["arm"]
    assert chain.status == "BROKEN"
    assert "arm" in chain.message and "forearm" in chain.message
    assert np.array_equal(pose(ob), fk)


def test_a_target_below_the_end_bone_is_a_cycle_too() -> None:
    ob = torso()
    fk = pose(ob)
    reach(ob, target_space="CUSTOM", target=ob, subtarget="hand", target_location=(0, 0.1, 0))
    update()
    assert ob.ik_chains["arm"].status == "BROKEN" and "forearm" in ob.ik_chains["arm"].message
    assert np.array_equal(pose(ob), fk)


def test_a_cycle_of_two_chains_is_named_and_others_go_on() -> None:
    ob = armature(bones=(*TORSO, *((f"L_{n}", "L_" + p if p in ("upper_arm", "forearm") else "chest",
                                   (-h[0], h[1], h[2]), (-t[0], t[1], t[2]))
                                  for n, p, h, t in TORSO[4:])))  # fmt: skip
    left = ("L_upper_arm", "L_hand")
    chains.add(ob, *left, name="left", use_tail=False, target_space="CUSTOM", target=ob, subtarget="hand")
    reach(ob, target_space="CUSTOM", target=ob, subtarget="L_hand")
    bend_spine(ob)
    update()
    for name in ("left", "arm"):
        chain = ob.ik_chains[name]
        assert chain.status == "BROKEN", name
        assert "left" in chain.message and "arm" in chain.message
    assert at_rest(ob, "upper_arm", "forearm", "L_upper_arm", "L_forearm")
    assert gap(tail(ob, "chest"), TOP) <= 1e-5
    ob.ik_chains["left"].target_space = "WORLD"
    update()
    assert ob.ik_chains["left"].status != "BROKEN" and ob.ik_chains["arm"].status != "BROKEN"


def test_a_cycle_across_armatures() -> None:
    one, two = torso("One"), torso("Two", (0.9, -0.3, 0.0))
    reach(one, target_space="CUSTOM", target=two, subtarget="hand")
    reach(two, target_space="CUSTOM", target=one, subtarget="hand")
    fk = pose(one), pose(two)
    update()
    for ob in (one, two):
        message = ob.ik_chains["arm"].message
        assert ob.ik_chains["arm"].status == "BROKEN" and "One" in message and "Two" in message
    go_to(5)
    assert np.array_equal(pose(one), fk[0]) and np.array_equal(pose(two), fk[1])


def test_a_cycle_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    ob = torso()
    reach(ob, target_space="CUSTOM", target=ob, subtarget="hand")
    for frame in range(2, 8):
        go_to(frame)
    assert capsys.readouterr().out.count("IK Chains") == 1


def test_a_cycle_is_found_on_load(tmp_path: Any) -> None:
    ob = torso()
    reach(ob, target_space="CUSTOM", target=ob, subtarget="hand")
    update()
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "cycle.blend"))
    ob.ik_chains["arm"].target_space = "WORLD"
    bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "cycle.blend"))
    chain = bpy.data.objects["Rig"].ik_chains["arm"]
    assert chain.status == "BROKEN" and "forearm" in chain.message


@pytest.mark.parametrize("kind", ["COPY_LOCATION", "CHILD_OF"])
@pytest.mark.parametrize("owner", ["object", "bone"])
def test_a_target_that_hangs_on_a_vertex_group(kind: str, owner: str) -> None:
    """A subtarget is the name of a bone on armatures alone."""
    ob = armature(bones=(*TORSO, ("control", "", HAND, (0.5, -0.3, 1.7))))
    mesh = bpy.data.meshes.new("Prop")
    mesh.from_pydata([HAND], [], [])
    prop = bpy.data.objects.new("Prop", mesh)
    bpy.context.scene.collection.objects.link(prop)
    prop.vertex_groups.new(name="chest").add([0], 1.0, "REPLACE")
    goal = empty("Goal", HAND)
    held = goal if owner == "object" else ob.pose.bones["control"]
    constraint = held.constraints.new(kind)
    constraint.target, constraint.subtarget = prop, "chest"
    subtarget = "control" if owner == "bone" else ""
    target = ob if owner == "bone" else goal
    update()
    bend_spine(ob)
    reach(ob, target_space="CUSTOM", target=target, subtarget=subtarget, target_location=(0, 0, 0))
    update()
    assert ob.ik_chains["arm"].status in {"OK", "TARGET_FAR"}, ob.ik_chains["arm"].message
    wanted = bone_world(ob, "control")[:3, 3] if owner == "bone" else world_of(goal)
    assert abs(gap(head(ob, "hand"), wanted) - ob.ik_chains["arm"].residual) <= 1e-5


# What cannot be computed in the same update


@pytest.mark.parametrize("kind", ["COPY_LOCATION", "DAMPED_TRACK"])
def test_a_target_that_follows_a_solved_bone_by_constraint_is_refused_with_words(kind: str) -> None:
    ob = torso()
    bend_spine(ob)
    goal = empty("Goal", (0.5, -0.3, 1.5))
    constraint = goal.constraints.new(kind)
    constraint.name = "Follow"
    constraint.target, constraint.subtarget = ob, "chest"
    reach(ob, target_space="CUSTOM", target=goal, target_location=(0, 0, 0))
    update()
    chain = ob.ik_chains["arm"]
    assert chain.status == "BROKEN"
    assert "arm" in chain.message and "chest" in chain.message and "Follow" in chain.message
    assert at_rest(ob, "upper_arm", "forearm")
    assert gap(tail(ob, "chest"), TOP) <= 1e-5


def without_rotation(_ob: bpy.types.Object, goal: bpy.types.Object) -> None:
    goal.constraints[0].use_rotation_x = False


def keyed_influence(_ob: bpy.types.Object, goal: bpy.types.Object) -> None:
    """From one space to the other: off at frame 1, on from frame 10."""
    for frame, influence in ((1, 0.0), (10, 1.0)):
        goal.constraints[0].influence = influence
        goal.constraints[0].keyframe_insert("influence", frame=frame)


def keyed_mute(_ob: bpy.types.Object, goal: bpy.types.Object) -> None:
    for frame, off in ((1, True), (10, False)):
        goal.constraints[0].mute = off
        goal.constraints[0].keyframe_insert("mute", frame=frame)


def below_another(_ob: bpy.types.Object, goal: bpy.types.Object) -> None:
    goal.constraints.new("CHILD_OF").target = empty("Other")


def parented_below_another(ob: bpy.types.Object, goal: bpy.types.Object) -> None:
    child_object(ob, goal, "chest")
    goal.constraints[0].target = empty("Other")


def offset_of_a_copy(ob: bpy.types.Object, goal: bpy.types.Object) -> None:
    goal.constraints.remove(goal.constraints[0])
    constraint = goal.constraints.new("COPY_TRANSFORMS")
    constraint.target, constraint.subtarget, constraint.mix_mode = ob, "chest", "AFTER_FULL"


@pytest.mark.parametrize("first", [1, 12])
@pytest.mark.parametrize(
    "loosen",
    [without_rotation, keyed_influence, keyed_mute, below_another, parented_below_another, offset_of_a_copy],
)
def test_a_target_that_a_solved_bone_carries_in_part_is_refused_with_words(
    loosen: Callable[..., None], first: int
) -> None:
    """On every frame alike, from whichever the chain was seen first."""
    ob = torso()
    bend_spine(ob)
    goal = empty("Goal", (0.1, -0.1, -0.1))
    child_of(ob, goal, "chest")
    loosen(ob, goal)
    go_to(first)
    reach(ob, target_space="CUSTOM", target=goal, target_location=(0, 0, 0))
    for frame in (first, 1, 12):
        go_to(frame)
        chain = ob.ik_chains["arm"]
        assert chain.status == "BROKEN" and "chest" in chain.message and "arm" in chain.message
        assert at_rest(ob, "upper_arm", "forearm")


def let_go_by_mute(goal: bpy.types.Object) -> None:
    goal.constraints[0].mute = True


def let_go_by_influence(goal: bpy.types.Object) -> None:
    goal.constraints[0].influence = 0.0


def let_go_by_removal(goal: bpy.types.Object) -> None:
    goal.constraints.remove(goal.constraints[0])


@pytest.mark.parametrize("let_go", [let_go_by_mute, let_go_by_influence, let_go_by_removal])
@pytest.mark.parametrize("kind", ["COPY_LOCATION", "CHILD_OF"])
def test_a_constraint_that_lets_the_target_go(kind: str, let_go: Callable[..., None]) -> None:
    """From then on the target stands in the world, and the chain reaches for it there."""
    ob = torso()
    bend_spine(ob)
    goal = empty("Goal", (0.5, -0.3, 1.5))
    constraint = goal.constraints.new(kind)
    constraint.target, constraint.subtarget = ob, "chest"
    reach(ob, target_space="CUSTOM", target=goal, target_location=(0, 0, 0))
    update()
    let_go(goal)
    update()
    ob.ik_chains["spine"].target_location = (-0.1, -0.1, 1.75)
    update()
    assert ob.ik_chains["arm"].status == "OK", ob.ik_chains["arm"].message
    assert gap(head(ob, "hand"), (0.5, -0.3, 1.5)) <= 4e-6


def test_a_target_that_is_parented_and_let_go_while_the_chain_lives() -> None:
    ob = torso()
    bend_spine(ob)
    goal = empty("Goal", (0.5, -0.3, 1.5))
    reach(ob, target_space="CUSTOM", target=goal, target_location=(0, 0, 0))
    update()
    child_object(ob, goal, "chest")
    goal.location = (0.2, -0.15, -0.1)
    update()
    ob.ik_chains["spine"].target_location = (-0.1, -0.1, 1.75)
    update()
    assert gap(head(ob, "hand"), world_of(goal)) <= 4e-6
    goal.parent = None
    goal.location = (0.5, -0.3, 1.5)
    update()
    ob.ik_chains["spine"].target_location = TOP
    update()
    assert gap(head(ob, "hand"), (0.5, -0.3, 1.5)) <= 4e-6


def test_a_driver_that_reads_a_solved_bone_is_refused_with_words() -> None:
    ob = torso()
    bend_spine(ob)
    goal = empty("Goal", (0.5, -0.3, 1.5))
    curve = goal.driver_add("location", 2)
    variable = curve.driver.variables.new()
    curve.driver.type, variable.type = "SUM", "TRANSFORMS"
    variable.targets[0].id, variable.targets[0].bone_target = ob, "chest"
    variable.targets[0].transform_type = "LOC_Z"
    reach(ob, target_space="CUSTOM", target=goal, target_location=(0, 0, 0))
    update()
    chain = ob.ik_chains["arm"]
    assert chain.status == "BROKEN" and "chest" in chain.message and "driver" in chain.message


def test_a_target_that_follows_an_unsolved_bone_by_constraint_is_fine() -> None:
    ob = armature(bones=(*TORSO, ("control", "", (0.5, -0.3, 1.5), (0.5, -0.3, 1.7))))
    bend_spine(ob)
    goal = empty("Goal")
    constraint = goal.constraints.new("COPY_LOCATION")
    constraint.target, constraint.subtarget = ob, "control"
    reach(ob, target_space="CUSTOM", target=goal, target_location=(0, 0, 0))
    ob.pose.bones["control"].location = (0.02, 0.05, 0.03)
    update()
    assert gap(head(ob, "hand"), head(ob, "control")) <= 4e-6


def test_no_setup_makes_blender_report_a_cycle(capfd: pytest.CaptureFixture[str]) -> None:
    """The driver that holds the names adds no dependency cycle of Blender's own."""
    ob = torso()
    bend_spine(ob)
    goal = empty("Goal", (0.2, -0.15, -0.1))
    child_object(ob, goal, "chest")
    reach(ob, target_space="CUSTOM", target=goal, target_location=(0, 0, 0))
    update()
    go_to(3)
    assert "cycle" not in "".join(capfd.readouterr()).lower()


def test_a_constraint_that_acts_after_a_chain_breaks_it_with_words() -> None:
    """Blender's own IK on the same limb would undo the solve: muted, the chain works."""
    ob = armature(bones=(*LEG, ("control", "", (0.1, 0.3, 0.4), (0.1, 0.3, 0.6))))
    chain = chains.add(ob, "thigh", "foot", name="leg", use_tail=False, target_location=(0.1, -0.3, 0.3))
    native = ob.pose.bones["shin"].constraints.new("IK")
    native.target, native.subtarget, native.chain_count = ob, "control", 2
    go_to(2)
    assert chain.status == "BROKEN" and "'IK'" in chain.message and "shin" in chain.message
    with pytest.raises(chain_bones.ChainError, match="'IK'.*mute it"):
        chains.add(ob, "thigh", "foot", name="second", use_tail=False)
    assert len(ob.ik_chains) == 1
    native.mute = True
    go_to(3)
    assert chain.status == "OK"
    assert gap(head(ob, "foot"), (0.1, -0.3, 0.3)) < 1e-6


@pytest.mark.parametrize(("prop", "off", "on"), [("influence", 0.0, 1.0), ("mute", True, False)])
def test_a_constraint_that_acts_on_some_frames_breaks_the_chain_on_all(prop: str, off: Any, on: Any) -> None:
    """A pose must not depend on the frame at which the chain was seen first."""
    ob = armature(bones=(*LEG, ("control", "", (0.1, 0.3, 0.4), (0.4, 0.3, 0.6))))
    chain = chains.add(ob, "thigh", "foot", name="leg", use_tail=False, target_location=(0.1, -0.3, 0.3))
    copy = ob.pose.bones["shin"].constraints.new("COPY_ROTATION")
    copy.target, copy.subtarget = ob, "control"
    for frame, value in ((1, off), (10, on)):
        setattr(copy, prop, value)
        copy.keyframe_insert(prop, frame=frame)
    for frame in (1, 10, 1):
        go_to(frame)
        assert chain.status == "BROKEN" and "Copy Rotation" in chain.message
