# SPDX-License-Identifier: GPL-3.0-or-later
"""What a gap leads to, on rigs in Blender: a bone above moves, or the chain grows; live and baked."""

import json
from pathlib import Path

import bpy
import numpy as np
import pytest
from bake_rig import bake_now, new_armature
from bone_rigs import evaluated, go_to, poses, update

from ik_addon.blender import bake, chain_bones, chains, config, snap
from ik_addon.blender.handling import nearest_free_bone

pytestmark = pytest.mark.usefixtures("fresh")

PLACES = {"l": 0.15, "r": -0.15}
FRAMES = range(1, 13)


def body(name="Body", connected=False, inherit="FULL"):
    """Root, hips and two legs with feet and toes; the hips swing and drop, the legs are posed in FK."""
    bones = [
        ("root", "", (0, 0, 0), (0, 0.3, 0)),
        ("hips", "root", (0, 0, 1.0), (0, 0, 1.2)),
        ("spine", "hips", (0, 0, 1.2), (0, 0, 1.5)),
    ]
    for side, x in PLACES.items():
        bones += [
            (f"thigh.{side}", "hips", (x, 0, 1.0), (x, -0.05, 0.55)),
            (f"shin.{side}", f"thigh.{side}", (x, -0.05, 0.55), (x, 0, 0.1)),
            (f"foot.{side}", f"shin.{side}", (x, 0, 0.1), (x, -0.15, 0.02)),
            (f"toe.{side}", f"foot.{side}", (x, -0.15, 0.02), (x, -0.22, 0.02)),
        ]
    ob = new_armature(name, bones)
    bpy.ops.object.mode_set(mode="EDIT")
    for bone in ob.data.edit_bones:
        bone.use_connect = bone.name == "spine" or (connected and bone.name[:4] in ("shin", "foot", "toe."))
        if bone.name[:4] in ("shin", "foot", "toe."):
            bone.inherit_scale = inherit
    bpy.ops.object.mode_set(mode="OBJECT")
    scene = bpy.context.scene
    scene.frame_start, scene.frame_end = FRAMES[0], FRAMES[-1]
    for side in PLACES:
        for part, angle in (("thigh", 0.3), ("shin", -0.6)):
            ob.pose.bones[f"{part}.{side}"].rotation_quaternion = (np.cos(angle / 2), np.sin(angle / 2), 0, 0)
    update()
    return ob


def leg(ob, side, where, **settings):
    chain = chains.add(
        ob, f"thigh.{side}", f"foot.{side}", name=f"leg.{side}", use_tail=False,
        **{"target_location": where, "move_max": 2.0, **settings},
    )  # fmt: skip
    update()
    return chain


def world_head(ob, bone):
    seen = evaluated(ob)
    return np.array(seen.matrix_world @ seen.pose.bones[bone].head)


def shear_and_size(ob, bone):
    linear = np.array(evaluated(ob).pose.bones[bone].matrix, float)[:3, :3]
    size = np.linalg.norm(linear, axis=0)
    unit = linear / size
    return np.abs(unit.T @ unit - np.eye(3)).max(), size


def swing(ob):
    """Keys that swing the hips sideways and up, so that planted feet go out of reach."""
    hips = ob.pose.bones["hips"]
    for frame in (1, 4, 8, 12):
        hips.location = (0.1 * np.sin(0.4 * frame), 0.1 * np.cos(0.3 * frame), 0.05 * np.sin(0.3 * frame))
        hips.keyframe_insert("location", frame=frame)
    go_to(1)


# Move root


def test_the_hips_follow_a_foot_and_the_other_foot_stays_planted():
    ob = body()
    planted = world_head(ob, "foot.r") + [0.0, 0.0, 0.01]
    leg(ob, "r", planted)
    before = world_head(ob, "hips")
    far = world_head(ob, "foot.l") + [0.6, 0.0, -0.1]
    chain = leg(ob, "l", far, limit_mode="MOVE_ROOT", move_bone="hips")
    assert np.linalg.norm(world_head(ob, "foot.l") - far) < 1e-4
    assert chain.status == "OK"
    assert chain.residual < 1e-5
    assert np.linalg.norm(world_head(ob, "foot.r") - planted) < 1e-4
    moved = np.linalg.norm(world_head(ob, "hips") - before)
    assert moved > 0.05
    chain.influence = 0.0
    update()
    assert np.array_equal(world_head(ob, "hips"), before), "influence 0 is the FK pose to the bit"
    assert tuple(ob.pose.bones["hips"].location) == (0.0, 0.0, 0.0)


def shared_hips(order):
    ob = body()
    goals = {
        "l": world_head(ob, "foot.l") + [0.5, 0.1, -0.05],
        "r": world_head(ob, "foot.r") + [-0.1, 0.4, 0.0],
    }
    for side in order:
        leg(ob, side, goals[side], limit_mode="MOVE_ROOT", move_bone="hips")
    for side in order:
        assert np.linalg.norm(world_head(ob, f"foot.{side}") - goals[side]) < 1e-4
    return world_head(ob, "hips")


def test_two_feet_share_the_hips_in_any_order():
    assert np.abs(shared_hips("lr") - shared_hips("rl")).max() < 1e-6


@pytest.mark.parametrize("scale", [0.01, 1.0, 3.0])
def test_the_largest_move_is_in_metres_of_the_world(scale):
    ob = body()
    ob.scale = (scale,) * 3
    ob.rotation_euler = (0.3, 0.2, 0.5)
    update()
    before = world_head(ob, "hips")
    far = world_head(ob, "foot.l") + np.array([0.0, 0.0, -5.0]) * scale
    chain = leg(ob, "l", far, limit_mode="MOVE_ROOT", move_max=0.1 * scale)
    moved = np.linalg.norm(world_head(ob, "hips") - before)
    assert 0.099 * scale < moved <= 0.1 * scale * (1 + 1e-5)
    assert chain.status == "TARGET_FAR"
    gap = np.linalg.norm(world_head(ob, "foot.l") - far)
    assert chain.residual == pytest.approx(gap, rel=1e-4)


def test_without_a_name_the_nearest_free_bone_moves():
    ob = body()
    far = world_head(ob, "foot.l") + [0.5, 0.0, 0.0]
    leg(ob, "l", far, limit_mode="MOVE_ROOT")
    assert tuple(ob.pose.bones["hips"].location) != (0.0, 0.0, 0.0)
    assert tuple(ob.pose.bones["root"].location) == (0.0, 0.0, 0.0)


def refuse_locked(ob):
    ob.pose.bones["hips"].lock_location[1] = True


def refuse_driven(ob):
    ob.pose.bones["hips"].driver_add("location", 0).driver.expression = "0"


def refuse_constrained(ob):
    ob.pose.bones["hips"].constraints.new("COPY_LOCATION").target = ob


def refuse_connected(ob):
    bpy.ops.object.mode_set(mode="EDIT")
    ob.data.edit_bones["root"].tail = ob.data.edit_bones["hips"].head
    ob.data.edit_bones["hips"].use_connect = True
    bpy.ops.object.mode_set(mode="OBJECT")


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (refuse_locked, "location is locked"),
        (refuse_driven, "location has a driver"),
        (refuse_constrained, "constraint"),
        (refuse_connected, "connected"),
    ],
)
def test_a_bone_that_cannot_move_is_refused_with_those_that_can(make, why):
    ob = body()
    make(ob)
    update()
    with pytest.raises(chain_bones.ChainError, match=f"Body.*leg.*'hips'.*{why}.*'root' would do"):
        leg(ob, "l", (0, 0, 0), limit_mode="MOVE_ROOT", move_bone="hips")
    assert not len(ob.ik_chains)
    leg(ob, "l", world_head(ob, "foot.l") + [0.4, 0, 0], limit_mode="MOVE_ROOT", move_bone="")
    assert tuple(ob.pose.bones["root"].location) != (0.0, 0.0, 0.0)


@pytest.mark.parametrize(("name", "why"), [("spine", "not above"), ("nose", "does not exist")])
def test_a_bone_beside_the_chain_is_refused(name, why):
    ob = body()
    with pytest.raises(chain_bones.ChainError, match=f"'{name}'.*{why}.*'hips' or 'root' would do"):
        leg(ob, "l", (0, 0, 0), limit_mode="MOVE_ROOT", move_bone=name)


def test_a_bone_that_gets_locked_later_breaks_the_chain_with_words():
    ob = body()
    chain = leg(ob, "l", world_head(ob, "foot.l") + [0.5, 0, 0], limit_mode="MOVE_ROOT", move_bone="hips")
    rest = (0.0, 0.0, 0.0)
    ob.pose.bones["hips"].lock_location[0] = True
    update()
    assert chain.status == "BROKEN"
    assert "locked" in chain.message
    assert tuple(ob.pose.bones["hips"].location) == rest
    ob.pose.bones["hips"].lock_location[0] = False
    update()
    assert chain.status == "OK"


@pytest.mark.parametrize("make", [refuse_locked, refuse_driven, refuse_constrained, refuse_connected])
@pytest.mark.parametrize("name", ["hips", ""])
def test_a_bone_that_cannot_move_any_more_gets_its_fk_value_back(make, name):
    ob = body()
    chain = leg(ob, "l", world_head(ob, "foot.l") + [0.5, 0, 0], limit_mode="MOVE_ROOT", move_bone=name)
    assert ob.pose.bones["hips"].location.length > 0.1
    make(ob)
    update()
    go_to(2)
    assert ob.pose.bones["hips"].location.length == 0.0
    assert (ob.pose.bones["root"].location.length > 0.1) == (name == "")
    assert chain.status == ("BROKEN" if name else "OK")
    assert nearest_free_bone(ob, chain) == ("" if name else "root")
    chain.mute = True
    go_to(3)
    assert {bone.location.length for bone in ob.pose.bones} == {0.0}


def test_a_target_that_hangs_on_the_moved_bone_is_refused_with_words():
    ob = body()
    chain = leg(
        ob, "l", (0.5, 0, 0), limit_mode="MOVE_ROOT", move_bone="hips",
        target_space="CUSTOM", target=ob, subtarget="spine",
    )  # fmt: skip
    assert chain.status == "BROKEN"
    assert "hangs on bone 'hips', which the chain itself moves" in chain.message


@pytest.mark.parametrize("bones", [("hips", "root"), ("root", "hips"), ("root", "")])
def test_a_circle_of_moved_bones_is_named_with_what_ends_it(bones):
    ob = body()
    first, second = bones
    chain = leg(ob, "l", world_head(ob, "foot.l") + [0.4, 0, 0], limit_mode="MOVE_ROOT", move_bone=first)
    if second:
        leg(ob, "r", world_head(ob, "foot.r"), limit_mode="MOVE_ROOT", move_bone=second)
    else:
        # It turns a bone between the leg and the bone that the leg moves.
        chains.add(ob, "hips", "hips", solver="AIM", target_location=(1.0, -2.0, 1.5))
    update()
    message = chain.message
    for side, bone in zip("lr", bones, strict=True):
        assert not bone or f"'Body: leg.{side}' moves bone '{bone}'" in message
    whose = "one of these" if second else "it"
    assert message.endswith(f"above them: set Out of Reach of {whose} to Accept or Stretch")
    chain.limit_mode = "ACCEPT"
    update()
    assert {each.message for each in ob.ik_chains} == {""}


def test_a_renamed_bone_still_moves():
    ob = body()
    far = world_head(ob, "foot.l") + [0.5, 0.0, 0.0]
    chain = leg(ob, "l", far, limit_mode="MOVE_ROOT", move_bone="hips")
    ob.data.bones["hips"].name = "pelvis"
    update()
    go_to(2)
    assert chain.move_bone == "pelvis"
    assert np.linalg.norm(world_head(ob, "foot.l") - far) < 1e-4


def test_an_edit_of_the_moved_bone_is_its_new_fk_value():
    ob = body()
    chain = leg(ob, "l", world_head(ob, "foot.l") + [0.5, 0.0, 0.0], limit_mode="MOVE_ROOT", move_bone="hips")
    ob.pose.bones["hips"].location = (0.05, 0.0, 0.02)
    update()
    assert chain.status == "OK"
    chain.mute = True
    update()
    np.testing.assert_allclose(ob.pose.bones["hips"].location, (0.05, 0.0, 0.02), atol=1e-7)


@pytest.mark.parametrize("how", ["remove", "accept", "reload"])
def test_the_moved_bone_gets_its_fk_value_back(how, tmp_path):
    ob = body()
    ob.pose.bones["hips"].location = (0.01, 0.02, 0.03)
    chain = leg(ob, "l", world_head(ob, "foot.l") + [0.5, 0.0, 0.0], limit_mode="MOVE_ROOT", move_bone="hips")
    assert ob.pose.bones["hips"].location[0] != pytest.approx(0.01)
    if how == "remove":
        chains.remove(ob, 0)
    elif how == "accept":
        chain.limit_mode = "ACCEPT"
    else:
        bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "rig.blend"))
        bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "rig.blend"))
        ob = bpy.data.objects["Body"]
        assert np.linalg.norm(ob.pose.bones["hips"].location) > 0.1
        ob.ik_chains[0].influence = 0.0
    update()
    go_to(3)
    np.testing.assert_allclose(ob.pose.bones["hips"].location, (0.01, 0.02, 0.03), atol=1e-7)


@pytest.mark.parametrize("mode", ["MOVE_ROOT", "STRETCH"])
def test_a_frame_is_a_frame(mode):
    ob = body()
    swing(ob)
    for side in PLACES:
        leg(ob, side, world_head(ob, f"foot.{side}"), limit_mode=mode, move_bone="hips", stretch_max=1.0)
    forward = poses(ob, FRAMES)
    order = list(FRAMES)[::-1]
    assert np.array_equal(poses(ob, order)[::-1], forward)
    shuffled = list(np.random.default_rng(0).permutation(list(FRAMES)))
    assert np.array_equal(poses(ob, shuffled)[np.argsort(shuffled)], forward)
    seen = {chain.status for chain in ob.ik_chains}
    assert seen == {"OK"}


@pytest.mark.parametrize("mode", ["MOVE_ROOT", "STRETCH"])
@pytest.mark.parametrize("keyed", [True, False])
def test_baked_motion_is_the_live_one_and_unbake_brings_all_back(mode, keyed):
    ob = body()
    if keyed:
        swing(ob)
    target = bpy.data.objects.new("Target", None)
    bpy.context.scene.collection.objects.link(target)
    for frame in (1, 6, 12):
        target.location = world_head(ob, "foot.l") + [0.01 * frame, 0.008 * frame, -0.15]
        target.keyframe_insert("location", frame=frame)
    leg(
        ob, "l", (0, 0, 0), limit_mode=mode, move_bone="hips", stretch_max=2.0,
        target_space="CUSTOM", target=target, softness=0.05,
    )  # fmt: skip
    leg(ob, "r", world_head(ob, "foot.r"), limit_mode=mode, move_bone="hips", stretch_max=2.0, softness=0.05)
    between = np.arange(FRAMES[0], FRAMES[-1] + 0.01, 0.25)
    live = poses(ob, between)
    report = bake_now(ob, FRAMES[0], FRAMES[-1])
    assert not report.skipped
    assert {entry["chain"] for entry in report.chains} == {"leg.l", "leg.r"}
    baked = poses(ob, between)
    assert np.abs(baked[::4, :, :3, 3] - live[::4, :, :3, 3]).max() < 1e-5, "on keys"
    assert np.abs(baked[::2, :, :3, 3] - live[::2, :, :3, 3]).max() < 1e-4, "half-way between keys"
    assert np.abs(baked[..., :3, 3] - live[..., :3, 3]).max() < 1e-3, "between keys"
    assert np.abs(np.diff(live[::4], axis=0)[..., :3, 3]).max() > 0.01
    assert all(chain.mute for chain in ob.ik_chains)
    bake.unbake([ob])
    update()
    assert np.abs(poses(ob, between) - live).max() < 1e-6
    for chain in ob.ik_chains:
        chain.influence = 0.0
    go_to(5)
    scales = [tuple(bone.scale) for bone in ob.pose.bones]
    assert set(scales) == {(1.0, 1.0, 1.0)}


def test_baking_part_of_the_range_leaves_the_rest_as_it_was():
    ob = body()
    leg(ob, "l", world_head(ob, "foot.l") + [0.5, 0, 0], limit_mode="MOVE_ROOT", move_bone="hips")
    live = poses(ob, FRAMES)
    bake_now(ob, 4, 8)
    assert np.abs(poses(ob, FRAMES)[..., :3, 3] - live[..., :3, 3]).max() < 1e-5


def test_chains_that_move_one_bone_are_baked_together():
    ob = body()
    for side in PLACES:
        far = world_head(ob, f"foot.{side}") + [0.4, 0.0, 0.0]
        leg(ob, side, far, limit_mode="MOVE_ROOT", move_bone="hips")
    report = bake_now(ob, 1, 5, only="leg.l")
    assert not report.chains
    assert "moves bone 'hips' together with it: bake both" in report.skipped[0].reason


# Stretch


@pytest.mark.parametrize("connected", [False, True])
@pytest.mark.parametrize("inherit", ["FULL", "FIX_SHEAR", "ALIGNED", "AVERAGE", "NONE", "NONE_LEGACY"])
def test_a_leg_grows_without_shear_and_its_foot_keeps_its_size(connected, inherit):
    ob = body(connected=connected, inherit=inherit)
    rest = np.array([0.4528, 0.4528])
    hip = world_head(ob, "thigh.l")
    far = hip + np.array([0.3, -0.4, -0.84]) / np.linalg.norm([0.3, -0.4, -0.84]) * 0.96
    chain = leg(ob, "l", far, limit_mode="STRETCH", softness=0.04)
    assert np.linalg.norm(world_head(ob, "foot.l") - far) < 2e-5
    assert chain.status == "OK"
    joints = np.array([world_head(ob, f"{part}.l") for part in ("thigh", "shin", "foot")])
    grown = np.linalg.norm(np.diff(joints, axis=0), axis=1) / rest
    assert grown.min() > 1.05
    assert grown.max() < 1.1
    assert abs(grown[0] - grown[1]) < 1e-3
    for part in ("thigh", "shin", "foot", "toe"):
        shear, size = shear_and_size(ob, f"{part}.l")
        assert shear < 1e-5
        if part in ("foot", "toe"):
            assert np.abs(size - 1.0).max() < 1e-5
    chain.influence = 0.0
    update()
    assert all(tuple(bone.scale) == (1.0, 1.0, 1.0) for bone in ob.pose.bones)


def test_a_leg_whose_tip_is_a_tail_keeps_the_scale_from_what_hangs_on_it():
    ob = body()
    chain = chains.add(ob, "thigh.l", "shin.l", limit_mode="STRETCH", target_location=(0.15, -0.3, 0.1))
    update()
    assert chain.status == "OK"
    _, size = shear_and_size(ob, "foot.l")
    assert np.abs(size - 1.0).max() < 1e-5
    assert shear_and_size(ob, "shin.l")[1].max() > 1.01


def test_growth_keeps_a_scale_that_is_there():
    ob = body()
    ob.pose.bones["thigh.l"].scale = (1.2, 1.2, 1.2)
    update()
    hip = world_head(ob, "thigh.l")
    far = hip + np.array([0.3, 0.0, -1.0]) / np.linalg.norm([0.3, 0.0, -1.0]) * (0.9056 * 1.2 * 1.05)
    chain = leg(ob, "l", far, limit_mode="STRETCH")
    assert chain.status == "OK"
    np.testing.assert_allclose(ob.pose.bones["thigh.l"].scale, (1.26,) * 3, rtol=1e-3)
    chain.mute = True
    update()
    np.testing.assert_allclose(ob.pose.bones["thigh.l"].scale, (1.2,) * 3, rtol=1e-6)


@pytest.mark.parametrize("mode", ["MOVE_ROOT", "STRETCH"])
def test_fk_takes_the_pose_with_location_and_scale(mode):
    ob = body()
    far = world_head(ob, "foot.l") + [0.4, 0.0, -0.2]
    leg(ob, "l", far, limit_mode=mode, move_bone="hips", stretch_max=1.0)
    before = poses(ob, [1])
    done = snap.fk_to_ik(ob, 0, bpy.context.scene)
    ob.ik_chains[0].mute = True
    update()
    assert np.abs(poses(ob, [1]) - before).max() < 1e-5
    # What the chain would add on top is told.
    ob.ik_chains[0].mute = False
    update()
    after = poses(ob, [1])
    joints = [ob.pose.bones.find(f"{part}.l") for part in ("thigh", "shin", "foot")]
    moved = np.linalg.norm(after[0, joints, :3, 3] - before[0, joints, :3, 3], axis=1).max()
    assert done.offset == pytest.approx(moved, abs=2e-5)


@pytest.mark.parametrize("mode", ["MOVE_ROOT", "STRETCH"])
def test_the_target_takes_the_fk_tip_with_softness_too(mode):
    ob = body()
    leg(ob, "l", (0, 0, 0), limit_mode=mode, move_bone="hips", stretch_max=1.0, softness=0.05)
    before = world_head(ob, "foot.l")
    ob.ik_chains[0].mute = True
    update()
    tip = world_head(ob, "foot.l")
    assert np.linalg.norm(before - tip) > 0.1
    ob.ik_chains[0].mute = False
    snap.ik_to_fk(ob, 0, bpy.context.scene)
    np.testing.assert_allclose(ob.ik_chains[0].target_location, tip, atol=1e-5)


def test_the_settings_take_part_in_the_configuration(tmp_path: Path):
    ob = body()
    leg(ob, "l", world_head(ob, "foot.l"), limit_mode="MOVE_ROOT", move_bone="hips", move_max=0.4)
    leg(ob, "r", world_head(ob, "foot.r"), limit_mode="STRETCH", stretch_max=0.25)
    data = config.dump([ob])
    text = json.dumps(data)
    assert '"move_bone": "hips"' in text
    assert '"stretch_max": 0.25' in text


def test_a_smooth_move_starts_early_and_the_tip_stays_on_its_target():
    ob = body()
    start, far = world_head(ob, "foot.l"), world_head(ob, "foot.l") + [0.4, 0.0, -0.1]
    chain = leg(ob, "l", start, limit_mode="MOVE_ROOT", move_bone="hips")
    # The target leaves the reach of the leg, and the hips follow from then on.
    for frame, place in ((1, start), (10, start), (22, far), (40, far)):
        chain.target_location = place
        chain.keyframe_insert("target_location", frame=frame)
    frames = range(1, 33)

    def run():
        place, gap = [], []
        for frame in frames:
            go_to(frame)
            place.append(world_head(ob, "hips"))
            gap.append(chain.residual)
        return np.array(place), np.array(gap)

    hard, gap = run()
    assert gap.max() < 1e-5
    chain.move_smooth = 5
    soft, gap = run()
    assert gap.max() < 1e-5
    assert np.abs(soft[:4] - hard[:4]).max() < 1e-6, "far from the step nothing is averaged"
    assert np.linalg.norm(soft[9] - soft[0]) > 1e-3 > np.linalg.norm(hard[9] - hard[0]), "it starts before"

    def jolt(path):
        return np.linalg.norm(np.diff(path, n=2, axis=0), axis=1).max()

    assert jolt(soft) < 0.75 * jolt(hard)
    assert (np.linalg.norm(soft - soft[0], axis=1) >= np.linalg.norm(hard - hard[0], axis=1) - 1e-4).all()
    live = poses(ob, frames)
    assert np.array_equal(poses(ob, list(frames)[::-1])[::-1], live)
    bake_now(ob, frames[0], frames[-1])
    assert np.abs(poses(ob, frames)[..., :3, 3] - live[..., :3, 3]).max() < 1e-5


def test_a_keyed_smooth_move_is_baked_as_it_is_live():
    ob = body()
    start = world_head(ob, "foot.l")
    chain = leg(ob, "l", start, limit_mode="MOVE_ROOT", move_bone="hips")
    for frame, place in ((1, start), (6, start + [0.4, 0.0, -0.1]), (12, start)):
        chain.target_location = place
        chain.keyframe_insert("target_location", frame=frame)
    for frame, width in ((1, 0), (4, 3), (9, 6)):
        chain.move_smooth = width
        chain.keyframe_insert("move_smooth", frame=frame)
    live = poses(ob, FRAMES)
    assert np.array_equal(poses(ob, list(FRAMES)[::-1])[::-1], live)
    bake_now(ob, FRAMES[0], FRAMES[-1])
    assert np.abs(poses(ob, FRAMES)[..., :3, 3] - live[..., :3, 3]).max() < 1e-5
