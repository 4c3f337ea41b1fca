# SPDX-License-Identifier: GPL-3.0-or-later
"""A bake plays what the live chains showed, touches nothing else, and can be taken back."""

from pathlib import Path
from typing import Any

import bpy
import counted
import numpy as np
import pytest
from bake_rig import (
    LENGTH,
    LIMBS,
    angles,
    animation_state,
    bake_now,
    curve,
    curve_state,
    make_walker,
    new_armature,
    nla_state,
    plant,
    poses,
    rotation_curves,
    rows,
    set_rotation,
)

from ik_addon.blender import animation, bake, chains, compat, keys
from ik_addon.blender.ranges import run

FRAMES = np.arange(1, 21)
SAME = 2e-6 * LENGTH


@pytest.fixture
def walker(fresh: Any) -> Any:
    """A walker with a planted foot on each of its four legs."""
    ob = make_walker()
    plant(ob)
    return ob


@pytest.fixture
def stander(fresh: Any) -> Any:
    """The same with nothing keyed below the hips."""
    ob = make_walker(limbs=("b",))
    plant(ob, ("b",))
    return ob


# The same pose, live and baked


def test_baked_is_live_in_every_rotation_mode(walker: Any, tmp_path: Path) -> None:
    live = poses(walker, FRAMES)
    modes = [bone.rotation_mode for bone in walker.pose.bones]
    report = bake_now(walker, 1, 20)
    assert [entry["chain"] for entry in report.chains] == [f"leg.{limb}" for limb in LIMBS]
    assert report.skipped == [] and report.notes == []
    assert np.abs(poses(walker, FRAMES) - live).max() <= SAME
    assert [bone.rotation_mode for bone in walker.pose.bones] == modes
    assert all(chain.mute for chain in walker.ik_chains)
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "baked.blend"))
    bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "baked.blend"))
    assert np.abs(poses(bpy.data.objects["Walker"], FRAMES[::-1])[::-1] - live).max() <= SAME


def test_baked_curves_alone_give_the_pose(walker: Any) -> None:
    """Without any chain, as in a file that is opened where the add-on is not installed."""
    live = poses(walker, FRAMES)
    bake_now(walker, 1, 20)
    while len(walker.ik_chains):
        chains.remove(walker, 0)
    assert np.abs(poses(walker, FRAMES) - live).max() <= SAME


def test_half_way_between_keys(fresh: Any) -> None:
    """Hips that move by 25 mm a frame over planted feet, one leg close to its full length."""
    ob = make_walker(frames=40)
    hips = ob.pose.bones["hips"]
    for channel in [c for c in compat.assigned_curves(ob) if "hips" in c.data_path]:
        compat.assigned_curves(ob).remove(channel)
    for frame, y in ((1, -0.4), (21, 0.1), (22, 0.125)):
        # Bone Y is up, bone Z is the world's -Y.
        hips.location = (0.0, -0.12, -y)
        hips.keyframe_insert("location", frame=frame)
    for z in rotation_free(ob, "hips", "location"):
        for point in z.keyframe_points:
            point.interpolation = "LINEAR"
    for place, chain in enumerate(plant(ob)):
        chain.target_location = (0.3 * place, -0.15, 0.1)
    inside = np.arange(1, 22)
    halves = inside[:-1] + 0.5
    live, live_halves = poses(ob, inside), poses(ob, halves)
    step = np.linalg.norm(np.diff(live[:, 0, :3, 3], axis=0), axis=1)
    assert step.max() == pytest.approx(0.025, abs=1e-4)
    bake_now(ob, 1, 40)
    baked, baked_halves = poses(ob, inside), poses(ob, halves)
    turned = [i for i, bone in enumerate(ob.pose.bones) if bone.name[:4] in ("thig", "shin")]
    assert angles(baked_halves[:, turned], live_halves[:, turned]).max() < 0.1
    feet = [ob.pose.bones.find(f"foot.{limb}") for limb in LIMBS]
    assert np.abs(live[:, feet, :3, 3] - live[:1, feet, :3, 3]).max() < 1e-5, "the feet are planted"
    assert np.linalg.norm(baked[:, feet, :3, 3] - live[:, feet, :3, 3], axis=-1).max() < 1e-4
    assert np.linalg.norm(baked_halves[:, feet, :3, 3] - live[:-1, feet, :3, 3], axis=-1).max() < 2.5e-4


def rotation_free(ob: Any, bone: str, prop: str) -> list[Any]:
    path = f'pose.bones["{bone}"].{prop}'
    return [c for c in compat.assigned_curves(ob) if c.data_path == path]


def test_a_jump_bends_nothing_beside_it(stander: Any) -> None:
    """A target that is stepped: half-way poses before, in and after the jump are the live ones."""
    chain = stander.ik_chains[0]
    for frame, y in ((1, -0.1), (10, 0.15)):
        chain.target_location = (0.42, y, 0.2)
        chain.keyframe_insert("target_location", frame=frame)
    for channel in compat.assigned_curves(stander):
        if channel.data_path.startswith("ik_chains"):
            for point in channel.keyframe_points:
                point.interpolation = "CONSTANT"
    halves = np.arange(5, 16) + 0.5
    live = poses(stander, halves)
    assert angles(live[3], live[5]).max() > 10.0, "there is a jump"
    bake_now(stander, 1, 20)
    assert angles(poses(stander, halves), live).max() < 0.1


def test_steps_keep_the_motion_between_keys(walker: Any) -> None:
    live = poses(walker, FRAMES)
    bake_now(walker, 1, 20, step=3)
    frames, _ = rows(walker, "thigh.a")
    assert frames.tolist() == [1, 4, 7, 10, 13, 16, 19, 20]
    baked = poses(walker, FRAMES)
    keyed = frames.astype(int) - 1
    assert np.abs(baked[keyed] - live[keyed]).max() <= SAME
    assert angles(baked, live).max() < 1.0


# Nothing else is touched


def test_only_the_rotation_of_the_chosen_chain_inside_the_range(walker: Any) -> None:
    thigh = rotation_curves(walker, "thigh.a")
    thigh[0].modifiers.new("CYCLES")
    thigh[1].extrapolation = "LINEAR"
    thigh[2].keyframe_points[0].handle_left_type = "FREE"
    thigh[2].keyframe_points[0].interpolation = "BOUNCE"
    walker.pose.bones["thigh.a"].keyframe_insert("location", frame=8)
    before = curve_state(compat.assigned_curves(walker))
    bake_now(walker, 8, 13, only="leg.a")
    after = curve_state(compat.assigned_curves(walker))
    baked = {(c.data_path, c.array_index) for c in rotation_curves(walker, "thigh.a")}
    new = {(c.data_path, c.array_index) for c in rotation_curves(walker, "shin.a")}
    assert after.keys() - before.keys() == new | {("ik_chains[0].mute", 0)}
    for place, state in before.items():
        if place in baked:
            outside = [row for row in state["keys"] if not 8 <= row[0] <= 13]
            left = [row for row in after[place]["keys"] if not 8 <= row[0] <= 13]
            assert left == outside, place
            state, changed = {**state, "keys": 0}, {**after[place], "keys": 0}
            assert state == changed
        else:
            assert after[place] == state
    assert [len([k for k in after[place]["keys"] if 8 <= k[0] <= 13]) for place in baked] == [6] * 4
    assert {after[place]["group"] for place in new} == {"shin.a"}


def test_an_unkeyed_rig_keeps_its_live_pose_outside_the_range(stander: Any) -> None:
    """To the bit: the curves that the bake makes hold the FK value beside the range."""
    live = poses(stander, FRAMES)
    bake_now(stander, 8, 13)
    baked = poses(stander, FRAMES)
    outside = (FRAMES < 8) | (FRAMES > 13)
    assert np.abs(baked[outside] - live[outside]).max() <= SAME
    assert np.abs(baked - live).max() <= SAME
    muted = []
    for frame in (7, 8, 13, 14):
        bpy.context.scene.frame_set(frame)
        muted.append(stander.ik_chains[0].mute)
    assert muted == [False, True, True, False]
    for channel in rotation_curves(stander, "thigh.b"):
        assert channel.evaluate(13.75) == channel.evaluate(13.0), "the muted chain leaves the last pose"


def test_two_ranges_side_by_side(stander: Any) -> None:
    live = poses(stander, FRAMES)
    before = animation_state(stander)
    bake_now(stander, 5, 8)
    bake_now(stander, 9, 12)
    bake_now(stander, 15, 16)
    baked = poses(stander, FRAMES)
    assert np.abs(baked - live).max() <= SAME
    outside = ~(((FRAMES >= 5) & (FRAMES <= 12)) | (FRAMES == 15) | (FRAMES == 16))
    assert np.abs(baked[outside] - live[outside]).max() <= SAME
    bake.unbake([stander])
    assert animation_state(stander) == before
    assert np.abs(poses(stander, FRAMES) - live).max() <= SAME


def test_another_rig_with_the_same_action_is_untouched(fresh: Any) -> None:
    """In a slot of its own, in the same slot, or without slots: the other rig plays what it played."""
    first, second = make_walker("First"), make_walker("Second")
    data = second.animation_data
    data.action = first.animation_data.action
    if hasattr(data, "action_slot"):
        data.action_slot = first.animation_data.action_slot
    bpy.context.scene.frame_set(1)
    plant(first)
    shown, live = poses(second, FRAMES), poses(first, FRAMES)
    curves = curve_state(compat.assigned_curves(second))
    before = animation_state(first)
    bake_now(first, 1, 20)
    assert data.action.name == before["action"]
    assert curve_state(compat.assigned_curves(second)) == curves
    assert np.array_equal(poses(second, FRAMES), shown)
    assert np.abs(poses(first, FRAMES) - live).max() <= SAME
    bake.unbake([first])
    assert animation_state(first) == before
    assert np.abs(poses(first, FRAMES) - live).max() <= SAME


@pytest.mark.skipif(not hasattr(bpy.types, "ActionSlot"), reason="slots came with 4.4")
def test_another_slot_of_the_action_is_no_reason_to_copy_it(fresh: Any) -> None:
    first, second = make_walker("First"), make_walker("Second")
    action = first.animation_data.action
    second.animation_data.action = action
    second.animation_data.action_slot = action.slots.new(id_type="OBJECT", name="Second")
    second.pose.bones["thigh.b"].keyframe_insert("rotation_euler", frame=4)
    bpy.context.scene.frame_set(1)
    plant(first)
    curves = curve_state(compat.assigned_curves(second))
    bake_now(first, 1, 20)
    assert first.animation_data.action == action
    assert curve_state(compat.assigned_curves(second)) == curves


# Continuity


def held_keys(ob: Any, bone: str, values: dict[int, tuple[float, ...]]) -> None:
    """Instead of the keys of a bone's rotation: these, each held up to the next one."""
    for index, channel in enumerate(rotation_curves(ob, bone)):
        numbers = [float(value[index]) for value in values.values()]
        keys.write([(channel, keys.steps([float(frame) for frame in values], numbers))])
    ob.animation_data.action.update_tag()


def never_flips(ob: Any, bone: str) -> bool:
    _, values = rows(ob, bone)
    return bool(np.all(np.einsum("ni,ni->n", values[1:], values[:-1]) >= 0.0))


TURN = (np.cos(0.2), np.sin(0.2), 0.0, 0.0)
SAME_TURN = (-np.cos(0.2), -np.sin(0.2), 0.0, 0.0)


@pytest.mark.parametrize("first, last", [(8, 20), (1, 13), (8, 13)])
def test_quaternions_never_flip(walker: Any, first: int, last: int) -> None:
    """Also toward the keys before the range, or else after it, which have the other sign here."""
    before = {3: SAME_TURN} if first > 3 else {}
    held_keys(walker, "thigh.a", {**before, 8: TURN, 12: TURN, 18: SAME_TURN})
    live = poses(walker, FRAMES)
    bake_now(walker, first, last)
    assert never_flips(walker, "thigh.a") and never_flips(walker, "shin.a")
    assert np.abs(poses(walker, FRAMES) - live)[first - 1 : last].max() <= SAME


@pytest.mark.parametrize("first, last", [(8, 20), (1, 13), (8, 13)])
def test_eulers_join_the_keys_beside_them(walker: Any, first: int, last: int) -> None:
    """Whole turns away from where they are solved."""
    turn = 2.0 * np.pi
    turned = (0.4 - turn, 0.0, 2.0 * turn)
    before = {3: turned} if first > 3 else {}
    held_keys(walker, "thigh.c", {**before, 8: (0.4, 0.0, 0.0), 12: (0.4, 0.0, 0.0), 18: turned})
    live = poses(walker, FRAMES)
    bake_now(walker, first, last)
    _, values = rows(walker, "thigh.c")
    assert np.abs(np.diff(values, axis=0)).max() < 1.0
    assert np.abs(poses(walker, FRAMES) - live)[first - 1 : last].max() <= 2 * SAME


def turntable(order: str, turns: list[tuple[int, tuple[float, float, float]]]) -> Any:
    """A bone that copies the rotation of a keyed empty (XYZ angles in degrees)."""
    ob = new_armature("Turntable", [("bone", "", (0.0, 0.0, 0.0), (0.0, 1.0, 0.0))])
    ob.pose.bones["bone"].rotation_mode = order
    empty = bpy.data.objects.new("Hand", None)
    bpy.context.scene.collection.objects.link(empty)
    for frame, degrees in turns:
        empty.rotation_euler = np.radians(degrees)
        empty.keyframe_insert("rotation_euler", frame=frame)
    for channel in compat.assigned_curves(empty):
        for point in channel.keyframe_points:
            point.interpolation = "LINEAR"
    scene = bpy.context.scene
    scene.frame_start, scene.frame_end = turns[0][0], turns[-1][0]
    chains.add(
        ob,
        "bone",
        "bone",
        name="hand",
        solver="AIM",
        aim_mode="MATCH_ROTATION",
        target_space="CUSTOM",
        target=empty,
        target_rotation=(1.0, 0.0, 0.0, 0.0),
        target_location=(0.0, 0.0, 0.0),
    )
    return ob


@pytest.mark.parametrize("order", ["XYZ", "XZY", "YXZ", "YZX", "ZXY", "ZYX"])
def test_eulers_follow_a_full_turn(fresh: Any, order: str) -> None:
    ob = turntable(order, [(1, (20.0, 10.0, 0.0)), (37, (20.0, 10.0, 360.0))])
    live = poses(ob, range(1, 38))
    report = bake_now(ob, 1, 37)
    frames, values = rows(ob, "bone")
    if order == "XYZ":
        steps = np.degrees(np.abs(np.diff(values, axis=0)))
        assert steps.max() <= 10.01
        assert np.degrees(values[-1] - values[0]) == pytest.approx([0.0, 0.0, 360.0], abs=1e-3)
    assert angles(poses(ob, range(1, 38)), live).max() < 1e-3
    halves = np.arange(1, 37) + 0.5
    assert report.gimbal_lock == []
    baked = poses(ob, halves)
    bake.unbake([ob])
    assert angles(baked, poses(ob, halves)).max() < 0.1


def test_gimbal_lock_is_listed_where_it_costs_more_than_a_degree(fresh: Any) -> None:
    """Past the pole of the middle axis at 4 degrees: X and Z swing by half a turn in two frames."""
    ob = turntable("XYZ", [(1, (0.0, 33.0, 0.0)), (7, (0.0, 153.0, 0.0))])
    bone = ob.pose.bones["bone"]
    empty = bpy.data.objects["Hand"]
    holder = bpy.data.objects.new("Holder", None)
    bpy.context.scene.collection.objects.link(holder)
    holder.rotation_euler.x = np.radians(4.0)
    empty.parent = holder
    frames, eighths = np.arange(1, 8), np.arange(1, 7 - 1e-6, 0.125)
    live = poses(ob, eighths)
    report = bake_now(ob, 1, 7)
    error = angles(poses(ob, eighths), live)[:, 0].reshape(len(frames) - 1, 8).max(axis=1)
    assert error.max() > 1.5
    (entry,) = report.gimbal_lock
    assert (entry.armature, entry.bone) == ("Turntable", "bone")
    assert set(frames[:-1][error > 1.1]) <= set(entry.frames) <= set(frames[:-1][error > 0.9])
    assert entry.degrees == pytest.approx(error.max(), rel=0.2)
    bake.unbake([ob])
    bone.rotation_mode = "QUATERNION"
    assert bake_now(ob, 1, 7).gimbal_lock == []
    assert angles(poses(ob, eighths), live).max() < 0.1


# Back again


def test_unbake_is_exact(walker: Any) -> None:
    thigh = rotation_curves(walker, "thigh.a")
    thigh[2].keyframe_points[0].handle_left_type = "FREE"
    thigh[2].keyframe_points[0].interpolation = "BOUNCE"
    walker.ik_chains["leg.b"].keyframe_insert("mute", frame=3)
    before, live = animation_state(walker), poses(walker, FRAMES)
    for first, last in ((1, 20), (4, 9)):
        bake_now(walker, first, last)
        assert animation_state(walker) != before
        restored = bake.unbake([walker])
        assert [(u.armature, u.chain) for u in restored] == [("Walker", f"leg.{limb}") for limb in LIMBS]
        assert animation_state(walker) == before
        assert np.abs(poses(walker, FRAMES) - live).max() <= SAME


def test_unbake_gives_back_having_no_action(stander: Any) -> None:
    action = stander.animation_data.action
    stander.animation_data.action = None
    bpy.data.actions.remove(action)
    before, live = animation_state(stander), poses(stander, FRAMES)
    assert before["action"] is None
    bake_now(stander, 1, 20)
    data = stander.animation_data
    assert data.action is not None and getattr(data, "action_slot", 1) is not None
    assert np.abs(poses(stander, FRAMES) - live).max() <= SAME
    bake.unbake([stander])
    assert animation_state(stander) == before and not bpy.data.actions
    assert np.abs(poses(stander, FRAMES) - live).max() <= SAME


@pytest.mark.skipif(not hasattr(bpy.types, "ActionSlot"), reason="slots came with 4.4")
def test_unbake_gives_back_an_action_without_slot(stander: Any) -> None:
    stander.animation_data.action = bpy.data.actions.new("Empty")
    before = animation_state(stander)
    assert before["slots"] == []
    bake_now(stander, 1, 20)
    assert stander.animation_data.action_slot is not None
    bake.unbake([stander])
    assert animation_state(stander) == before


def test_baking_twice_leaves_the_first_state_to_return_to(walker: Any) -> None:
    before, live = animation_state(walker), poses(walker, FRAMES)
    for first, last in ((6, 12), (3, 9), (1, 20)):
        bake_now(walker, first, last)
        for chain in walker.ik_chains:
            chain.mute = False
    bake.unbake([walker])
    assert animation_state(walker) == before
    assert np.abs(poses(walker, FRAMES) - live).max() <= SAME


def test_keys_that_the_user_sets_outside_the_range_stay(stander: Any) -> None:
    walker = stander
    bake_now(walker, 8, 13)
    shin = walker.pose.bones["shin.b"]
    shin.rotation_euler = (0.5, 0.0, 0.0)
    shin.keyframe_insert("rotation_euler", frame=18)
    rotation_curves(walker, "shin.b")[0].keyframe_points.insert(10, 9.0)
    bake.unbake([walker])
    assert {
        c.array_index: [k.co.x for k in c.keyframe_points] for c in rotation_curves(walker, "shin.b")
    } == {
        0: [18.0],
        1: [18.0],
        2: [18.0],
    }
    assert rotation_curves(walker, "thigh.b") == []


def test_a_single_frame(walker: Any) -> None:
    before, live = animation_state(walker), poses(walker, FRAMES)
    report = bake_now(walker, 7, 7)
    assert report.keys == 2 * (4 + 3 + 3 + 4)
    assert np.abs(poses(walker, [7]) - live[6]).max() <= SAME
    bake.unbake([walker])
    assert animation_state(walker) == before


def test_unbake_after_save_and_load(walker: Any, tmp_path: Path) -> None:
    before, live = animation_state(walker), poses(walker, FRAMES)
    bake_now(walker, 4, 9)
    path = str(tmp_path / "baked.blend")
    bpy.ops.wm.save_as_mainfile(filepath=path)
    bpy.ops.wm.open_mainfile(filepath=path)
    walker = bpy.data.objects["Walker"]
    bake.unbake([walker])
    assert animation_state(walker) == before
    assert np.abs(poses(walker, FRAMES) - live).max() <= SAME


def test_bake_and_unbake_can_be_undone(walker: Any) -> None:
    states = [animation_state(walker)]
    bpy.ops.ed.undo_push(message="before")
    bake_now(walker, 4, 9)
    bpy.ops.ed.undo_push(message="bake")
    states.append(animation_state(walker))
    bake.unbake([walker])
    bpy.ops.ed.undo_push(message="unbake")

    def now() -> Any:
        return animation_state(bpy.data.objects["Walker"])

    assert now() == states[0]
    bpy.ops.ed.undo()
    assert now() == states[1]
    bake.unbake([bpy.data.objects["Walker"]])
    assert now() == states[0], "the backup came back with the undo"
    bpy.ops.ed.undo_push(message="unbake again")
    bpy.ops.ed.undo()
    bpy.ops.ed.undo()
    assert now() == states[0]
    bpy.ops.ed.redo()
    assert now() == states[1]


def test_backups_follow_renamed_bones_and_moved_chains(walker: Any) -> None:
    before = animation_state(walker)
    bake_now(walker, 4, 9)
    walker.ik_chains["leg.a"].name = "front"
    walker.data.bones["thigh.a"].name = "upper"
    chains.move(walker, 0, 3)
    bpy.context.view_layer.update()
    bake.unbake([walker], "front")
    assert len(rotation_curves(walker, "upper")[0].keyframe_points) == 4
    assert rotation_curves(walker, "shin.a") == []
    assert len(rotation_curves(walker, "thigh.c")[0].keyframe_points) > 4, "the other legs stay baked"
    bake.unbake([walker])
    chains.move(walker, 3, 0)
    walker.data.bones["upper"].name = "thigh.a"
    walker.ik_chains["front"].name = "leg.a"
    assert animation_state(walker) == before


def test_a_removed_chain_keeps_its_baked_keys(walker: Any) -> None:
    live = poses(walker, FRAMES)
    bake_now(walker, 1, 20)
    chains.remove(walker, 3)
    bake.unbake([walker])
    chains.add(walker, "thigh.d", "foot.d", name="leg.d", use_tail=False)
    with pytest.raises(bake.BakeError, match="nothing is baked"):
        bake.unbake([walker])
    walker.ik_chains["leg.d"].mute = True
    assert np.abs(poses(walker, FRAMES) - live).max() <= SAME


def test_released_fk_memory(walker: Any) -> None:
    bpy.context.scene.frame_set(5)
    assert any(bone.ik_held_rotation[-1] for bone in walker.pose.bones)
    bake_now(walker, 1, 20)
    assert not any(bone.ik_held_rotation[-1] for bone in walker.pose.bones)
    bpy.context.scene.frame_set(6)
    bake.unbake([walker])
    assert not any(bone.ik_held_rotation[-1] for bone in walker.pose.bones)


def test_closed_half_way_nothing_has_changed(walker: Any) -> None:
    bpy.context.scene.frame_set(7)
    before, scenes = animation_state(walker), bpy.data.scenes.keys()
    steps = bake.bake(bpy.context.scene, [walker], bake.BakeOptions((1, 20)))
    progress = [next(steps) for _ in range(12)]
    assert progress == sorted(progress) and 0.0 <= progress[0] < progress[-1] < 1.0
    steps.close()
    assert animation_state(walker) == before and bpy.data.scenes.keys() == scenes
    assert bpy.data.scenes[0].frame_current == 7
    assert len(walker.ik_baked) == 0


def test_progress_runs_from_0_to_1(walker: Any) -> None:
    progress = list(bake.bake(bpy.context.scene, [walker], bake.BakeOptions((1, 20))))
    assert progress == sorted(progress)
    assert 0.0 < progress[0] <= 0.1 and 0.5 < progress[-1] <= 1.0


# What cannot be baked


def refused(ob: Any, text: str, **options: Any) -> None:
    before = animation_state(ob)
    with pytest.raises(bake.BakeError, match=text):
        run(bake.bake(bpy.context.scene, [ob], bake.BakeOptions(**{"frames": (1, 20), **options})))
    assert animation_state(ob) == before


def test_refusals_come_before_any_change(walker: Any) -> None:
    refused(walker, "no chain is called 'arm.*'; there are leg.a", chains=["leg.a", "arm.*"])
    refused(walker, "last frame, 1, is before the first, 20", frames=(20, 1))
    refused(walker, "step of 1 frame or more, got 0", step=0)
    walker.data.pose_position = "REST"
    refused(walker, "rest position")
    walker.data.pose_position = "POSE"
    plain = make_walker("Plain")
    refused(plain, "no IK chains on Plain")


def test_linked_rigs_are_refused(walker: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "library.blend")
    bpy.ops.wm.save_as_mainfile(filepath=path)
    bpy.ops.wm.read_factory_settings(use_empty=True)
    with bpy.data.libraries.load(path, link=True) as (_, into):
        into.objects = ["Walker"]
    linked = into.objects[0]
    bpy.context.scene.collection.objects.link(linked)
    refused(linked, "library override")


def test_what_is_left_out_is_named(walker: Any) -> None:
    for chain, name in zip(walker.ik_chains, ("broken", "muted", "locked", "driven"), strict=True):
        chain.name = name
    walker.ik_chains["broken"].end_bone = "nobody"
    walker.ik_chains["muted"].mute = True
    rotation_curves(walker, "thigh.c")[1].lock = True
    walker.pose.bones["shin.d"].driver_add("rotation_axis_angle", 0)
    before = animation_state(walker)
    report = bake_now(walker, 1, 20)
    assert report.chains == [] and report.keys == 0
    reasons = {skipped.chain: skipped.reason for skipped in report.skipped}
    assert "'nobody' does not exist" in reasons["broken"]
    assert reasons["muted"] == "it is muted"
    assert reasons["locked"] == "a rotation curve of bone 'thigh.c' is locked"
    assert "the rotation of bone 'shin.d' has a driver" in reasons["driven"]
    assert animation_state(walker) == before


@pytest.mark.parametrize("spoil", ["mute", "modifier", "influence", "driver"])
def test_chains_that_keys_cannot_stand_in_for(walker: Any, spoil: str) -> None:
    if spoil == "mute":
        rotation_curves(walker, "thigh.a")[0].mute = True
    elif spoil == "modifier":
        rotation_curves(walker, "thigh.a")[0].modifiers.new("NOISE")
    elif spoil == "driver":
        walker.driver_add('ik_chains["leg.a"].mute').driver.expression = "frame > 10"
    else:
        walker.ik_chains["leg.a"].influence = 0.0
    report = bake_now(walker, 1, 20)
    (skipped,) = report.skipped
    words = {
        "mute": "is muted",
        "modifier": "modifier Noise",
        "influence": "its influence is 0",
        "driver": "mute is driven",
    }
    assert skipped.chain == "leg.a" and words[spoil] in skipped.reason
    assert len(report.chains) == 3 and len(rotation_curves(walker, "shin.a")) == 0


# NLA


def push_down(ob: Any) -> Any:
    """The action of `ob` as a strip on a new track."""
    data = ob.animation_data
    action, slot = data.action, getattr(data, "action_slot", None)
    data.action = None
    strip = data.nla_tracks.new().strips.new("walk", 1, action)
    if slot is not None and strip.action_slot is None:
        strip.action_slot = slot
    strip.frame_end = 20
    return strip


def test_over_nla_strips(walker: Any) -> None:
    strip = push_down(walker)
    strip.influence = 0.8
    before, live, strips = animation_state(walker), poses(walker, FRAMES), nla_state(walker)
    bake_now(walker, 1, 20)
    assert nla_state(walker) == strips
    assert np.abs(poses(walker, FRAMES) - live).max() <= SAME
    bake.unbake([walker])
    assert animation_state(walker) == before
    assert np.abs(poses(walker, FRAMES) - live).max() <= SAME


def test_a_mute_that_a_strip_keys_is_keyed_over_it(stander: Any) -> None:
    """Setting the property would be undone by the strip."""
    chain = stander.ik_chains[0]
    for frame, mute in ((1, False), (12, True)):
        chain.mute = mute
        chain.keyframe_insert("mute", frame=frame)
    push_down(stander)
    before, live = animation_state(stander), poses(stander, FRAMES)
    bake_now(stander, 1, 20)
    assert np.abs(poses(stander, FRAMES) - live).max() <= SAME
    for frame in (3, 18):
        bpy.context.scene.frame_set(frame)
        assert chain.mute
    bake.unbake([stander])
    now = animation_state(stander)
    assert {**now, "mutes": 0} == {**before, "mutes": 0}
    assert np.abs(poses(stander, FRAMES) - live).max() <= SAME


def test_a_part_over_nla_strips_says_what_happens_beside_it(walker: Any) -> None:
    push_down(walker)
    live = poses(walker, FRAMES)
    report = bake_now(walker, 8, 13)
    assert np.abs(poses(walker, FRAMES) - live)[7:13].max() <= SAME
    (note,) = report.notes
    assert "thigh.a, thigh.c" in note and "thigh.b" not in note
    outside = poses(walker, FRAMES)[13:]
    legs = [i for i, bone in enumerate(walker.pose.bones) if bone.name.startswith("foot")]
    assert np.abs(outside[:, legs, :3, 3] - live[13:, legs, :3, 3]).max() < 1e-5, "the chains go on"


def test_the_action_of_a_strip_is_not_written_to(walker: Any) -> None:
    """The same action on a strip and on top of it: the strip plays what it played."""
    data = walker.animation_data
    action, slot = data.action, getattr(data, "action_slot", None)
    push_down(walker)
    data.action = action
    if slot is not None:
        data.action_slot = slot
    strips, live = nla_state(walker), poses(walker, FRAMES)
    bake_now(walker, 1, 20)
    assert nla_state(walker) == strips
    assert np.abs(poses(walker, FRAMES) - live).max() <= SAME


def test_blended_actions_and_solo_tracks_are_refused(walker: Any) -> None:
    push_down(walker)
    data = walker.animation_data
    data.action_influence = 0.5
    refused(walker, "influence 0.5 over the NLA strips")
    data.action_influence = 1.0
    data.action_blend_type = "ADD"
    refused(walker, "Add at influence 1")
    data.action_blend_type = "REPLACE"
    data.nla_tracks[0].is_solo = True
    refused(walker, "solo")


# Chains that share bones or depend on each other


def test_a_chain_on_top_goes_on_on_top(fresh: Any) -> None:
    """Two chains on one leg, the later one with half influence: the earlier one is baked alone."""
    ob = make_walker(limbs=("a",))
    plant(ob, ("a",))
    chains.add(
        ob, "thigh.a", "foot.a", name="pull", use_tail=False, target_location=(0.1, -0.2, 0.3), influence=0.5
    )
    live = poses(ob, FRAMES)
    bake_now(ob, 1, 20, only="leg.a")
    assert [chain.mute for chain in ob.ik_chains] == [True, False]
    assert np.abs(poses(ob, FRAMES) - live).max() <= 2 * SAME
    report = bake_now(ob, 1, 20, only="pull")
    assert report.skipped == []
    assert np.abs(poses(ob, FRAMES) - live).max() <= 2 * SAME


def test_a_chain_below_that_goes_on_is_a_reason_to_refuse(fresh: Any) -> None:
    ob = make_walker(limbs=("a",))
    plant(ob, ("a",))
    chains.add(ob, "thigh.a", "foot.a", name="pull", use_tail=False, target_location=(0.1, -0.2, 0.3))
    live, before = poses(ob, FRAMES), animation_state(ob)
    (skipped,) = bake_now(ob, 1, 20, only="pull").skipped
    assert "chain 'leg.a' turns bone 'shin.a' before it" in skipped.reason
    assert animation_state(ob) == before
    report = bake_now(ob, 1, 20)
    assert len(report.chains) == 2
    assert np.abs(poses(ob, FRAMES) - live).max() <= SAME
    restored = bake.unbake([ob], "pull")
    assert [u.chain for u in restored] == ["leg.a", "pull"], "their keys are the same"
    assert animation_state(ob) == before


def test_a_chain_that_does_nothing_shares_its_bones_with_all(fresh: Any) -> None:
    ob = make_walker(limbs=("a",))
    plant(ob, ("a",), influence=0.0)
    chains.add(ob, "thigh.a", "foot.a", name="hold", use_tail=False, target_location=(0.12, -0.1, 0.2))
    chains.add(ob, "thigh.a", "foot.a", name="faded", use_tail=False, target_location=(0.1, -0.2, 0.3))
    faded = ob.ik_chains["faded"]
    for frame in (1, 20):
        faded.influence = 0.0
        faded.keyframe_insert("influence", frame=frame)
    live = poses(ob, FRAMES)
    report = bake_now(ob, 1, 20)
    assert [entry["chain"] for entry in report.chains] == ["hold", "faded"]
    assert [skipped.chain for skipped in report.skipped] == ["leg.a"]
    assert np.abs(poses(ob, FRAMES) - live).max() <= SAME


def test_a_target_on_a_baked_bone(fresh: Any) -> None:
    """A chain that hangs on the foot of another leg, live and baked, on the same and another rig."""
    ob = make_walker(limbs=("a", "b"))
    plant(ob, ("a",))
    chains.add(
        ob, "thigh.b", "foot.b", name="leg.b", use_tail=False, target_space="CUSTOM", target=ob,
        subtarget="shin.a",
    )  # fmt: skip
    live = poses(ob, FRAMES)
    for order in (("leg.a", "leg.b"), ("leg.b", "leg.a")):
        for name in order:
            bake_now(ob, 1, 20, only=name)
            assert np.abs(poses(ob, FRAMES) - live).max() <= 2 * SAME, name
        bake.unbake([ob])
        assert np.abs(poses(ob, FRAMES) - live).max() <= SAME


# Overrides, older files, renders, time


def test_on_a_library_override(walker: Any, tmp_path: Path) -> None:
    """The bake and its backup survive save and reload; unbaked, the library's action is back."""
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "library.blend"))
    bpy.ops.wm.read_factory_settings(use_empty=True)
    with bpy.data.libraries.load(str(tmp_path / "library.blend"), link=True) as (_, into):
        into.objects = ["Walker"]
    scene = bpy.context.scene
    scene.frame_start, scene.frame_end = 1, 20
    linked = into.objects[0]
    scene.collection.objects.link(linked)
    ob = linked.override_create(remap_local_usages=True)
    before, live = animation_state(ob), poses(ob, FRAMES)
    bake_now(ob, 4, 9)
    shot = str(tmp_path / "shot.blend")
    baked = poses(ob, FRAMES)
    assert np.abs(baked - live)[3:9].max() <= SAME
    bpy.ops.wm.save_as_mainfile(filepath=shot)
    bpy.ops.wm.open_mainfile(filepath=shot)
    ob = next(other for other in bpy.data.objects if other.override_library)
    assert np.array_equal(poses(ob, FRAMES), baked)
    bake.unbake([ob])
    assert animation_state(ob) == before
    assert np.abs(poses(ob, FRAMES) - live).max() <= SAME


def test_a_render_shows_the_baked_pose(stander: Any) -> None:
    """A mesh that hangs on the foot, evaluated for a render in the order 3, 1, 2."""
    live = {frame: pose[0] for frame, pose in zip((3, 1, 2), poses(stander, (3, 1, 2))[:, None], strict=True)}
    bake_now(stander, 1, 20)
    scene = bpy.context.scene
    scene.render.engine, scene.cycles.samples = "CYCLES", 1
    scene.render.resolution_x = scene.render.resolution_y = 4
    camera = bpy.data.objects.new("Camera", bpy.data.cameras.new("Camera"))
    scene.collection.objects.link(camera)
    scene.camera = camera
    seen = {}

    def look(scene: Any, depsgraph: Any) -> None:
        if depsgraph.mode == "RENDER":
            bones = stander.evaluated_get(depsgraph).pose.bones
            seen[scene.frame_current] = np.array([bone.matrix for bone in bones], dtype=np.float64)

    bpy.app.handlers.frame_change_post.append(look)
    try:
        for frame in (3, 1, 2):
            scene.frame_set(frame)
            bpy.ops.render.render()
    finally:
        bpy.app.handlers.frame_change_post.remove(look)
    assert seen.keys() == live.keys()
    for frame, pose in live.items():
        assert np.abs(seen[frame] - pose).max() <= SAME


def test_a_frame_of_a_long_bake_is_no_more_work_than_one_of_a_short(fresh: Any) -> None:
    ob = make_walker(frames=800)
    plant(ob)
    work = []
    for last in (100, 800):
        work.append(counted.steps(lambda last=last: bake_now(ob, 1, last)) / last)
        bake.unbake([ob])
    assert work[1] < 1.1 * work[0]


def test_report(walker: Any) -> None:
    walker.ik_chains["leg.b"].target_location = (3.0, 0.0, 0.0)
    report = bake_now(walker, 1, 20, only=["leg.b"])
    (entry,) = report.chains
    assert entry["armature"] == "Walker" and entry["solver"] == "TWO_BONE" and entry["frames"] == [1, 20]
    assert entry["status_frames"] == {"TARGET_FAR": 20}
    assert entry["residual_max"] > entry["residual_mean"] > 1.0
    assert report.keys == 20 * 3 * 2
    assert animation.animated_rotation_components(walker)["thigh.b"].tolist() == [True, True, True, False]
    assert keys.read(curve(walker, 'pose.bones["thigh.b"].rotation_euler')).shape == (20, keys.WIDTH)
    set_rotation(walker.pose.bones["thigh.b"], 0.0)


def test_a_baked_chain_says_that_it_is_baked(walker: Any) -> None:
    plant(walker)
    bake_now(walker, 1, 20)
    again = bake_now(walker, 1, 20)
    assert {entry.reason for entry in again.skipped} == {
        "it is baked already: unbake it first, to bake it anew"
    }
