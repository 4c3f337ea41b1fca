# SPDX-License-Identifier: GPL-3.0-or-later
"""A bake plays what the live chains showed, and touches nothing else."""

from pathlib import Path
from typing import Any

import bpy
import counted
import numpy as np
import pytest
from bake_rig import (
    FRAMES,
    LIMBS,
    SAME,
    angles,
    animation_state,
    bake_now,
    curve,
    curve_state,
    make_walker,
    new_armature,
    plant,
    poses,
    rotation_curves,
    rows,
    set_rotation,
)

from ik_addon.blender import animation, bake, chains, compat, keys

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
