# SPDX-License-Identifier: GPL-3.0-or-later
"""Moved and stretched bones through the life of a file: undo, copies, overrides, NLA, renders."""

from pathlib import Path

import bpy
import numpy as np
import pytest
from bake_rig import bake_now
from bone_rigs import evaluated, go_to, poses, update
from test_limit_modes import FRAMES, body, leg, swing, world_head

pytestmark = pytest.mark.usefixtures("fresh")
MODES = ("MOVE_ROOT", "STRETCH")


def reaching(mode, name="Body"):
    """A body whose left foot is out of reach."""
    ob = body(name)
    far = world_head(ob, "foot.l") + [0.35, 0.0, -0.15]
    leg(ob, "l", far, limit_mode=mode, move_bone="hips", stretch_max=1.0)
    return ob, far


def channels(ob):
    rows = [(*bone.location, *bone.scale, *bone.rotation_quaternion) for bone in ob.pose.bones]
    return np.array(rows)


@pytest.mark.parametrize("mode", MODES)
def test_undo_and_redo(mode):
    ob, far = reaching(mode)
    bpy.ops.ed.undo_push(message="before")
    before = channels(ob)
    ob.ik_chains[0].target_location = far + [0.0, 0.1, -0.1]
    update()
    bpy.ops.ed.undo_push(message="target")
    after = channels(bpy.data.objects["Body"])
    assert np.abs(after - before).max() > 1e-2
    bpy.ops.ed.undo()
    update()
    np.testing.assert_allclose(channels(bpy.data.objects["Body"]), before, atol=1e-6)
    bpy.ops.ed.redo()
    update()
    np.testing.assert_allclose(channels(bpy.data.objects["Body"]), after, atol=1e-6)
    bpy.data.objects["Body"].ik_chains[0].mute = True
    update()
    ob = bpy.data.objects["Body"]
    assert np.abs([bone.location[:] for bone in ob.pose.bones]).max() == 0.0
    assert np.abs(np.array([bone.scale[:] for bone in ob.pose.bones]) - 1.0).max() == 0.0


@pytest.mark.parametrize("mode", MODES)
def test_a_copy_has_its_own_solve(mode):
    ob, far = reaching(mode)
    other = ob.copy()
    bpy.context.scene.collection.objects.link(other)
    other.ik_chains[0].target_location = far + [0.1, 0.0, 0.0]
    update()
    assert np.linalg.norm(world_head(ob, "foot.l") - far) < 1e-4
    assert np.linalg.norm(world_head(other, "foot.l") - far - [0.1, 0.0, 0.0]) < 1e-4
    other.ik_chains[0].mute = True
    update()
    assert tuple(other.pose.bones["hips"].location) == (0.0, 0.0, 0.0)
    assert np.linalg.norm(world_head(ob, "foot.l") - far) < 1e-4


@pytest.mark.parametrize("mode", MODES)
def test_a_library_override_solves_and_survives(mode, tmp_path: Path):
    _, far = reaching(mode)
    library = tmp_path / "library.blend"
    bpy.ops.wm.save_as_mainfile(filepath=str(library))
    bpy.ops.wm.read_factory_settings(use_empty=True)
    with bpy.data.libraries.load(str(library), link=True) as (_, into):
        into.objects = ["Body"]
    linked = bpy.data.objects["Body"]
    bpy.context.scene.collection.objects.link(linked)
    ob = linked.override_create(remap_local_usages=True)
    update()
    ob.ik_chains[0].move_max = 1.5
    ob.ik_chains[0].target_location = far + [0.0, 0.05, 0.0]
    go_to(2)
    assert np.linalg.norm(world_head(ob, "foot.l") - far - [0.0, 0.05, 0.0]) < 1e-4
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "shot.blend"))
    bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "shot.blend"))
    ob = next(o for o in bpy.data.objects if o.override_library)
    assert ob.ik_chains[0].move_max == pytest.approx(1.5)
    assert np.linalg.norm(world_head(ob, "foot.l") - far - [0.0, 0.05, 0.0]) < 1e-4
    ob.ik_chains[0].influence = 0.0
    go_to(3)
    np.testing.assert_allclose(ob.pose.bones["hips"].location, (0.0, 0.0, 0.0), atol=1e-7)
    np.testing.assert_allclose(ob.pose.bones["thigh.l"].scale, (1.0, 1.0, 1.0), atol=1e-7)


@pytest.mark.parametrize("mode", MODES)
def test_nla_strips_move_the_hips(mode):
    ob = body()
    swing(ob)
    plain = poses(ob, FRAMES)
    data = ob.animation_data
    action, slot = data.action, getattr(data, "action_slot", None)
    data.action = None
    strip = data.nla_tracks.new().strips.new("swing", 1, action)
    if slot is not None:
        strip.action_slot = slot
    assert np.abs(poses(ob, FRAMES) - plain).max() < 1e-6
    far = world_head(ob, "foot.l") + [0.3, 0.0, -0.1]
    leg(ob, "l", far, limit_mode=mode, move_bone="hips", stretch_max=2.0)
    live = poses(ob, FRAMES)
    assert np.array_equal(poses(ob, list(FRAMES)[::-1])[::-1], live)
    assert not bake_now(ob, FRAMES[0], FRAMES[-1]).notes
    assert np.abs(poses(ob, FRAMES)[..., :3, 3] - live[..., :3, 3]).max() < 1e-4


def test_a_part_of_a_bake_over_strips_names_a_bone_that_only_moves():
    ob = body()
    hips = ob.pose.bones["hips"]
    for frame, height in ((FRAMES[0], 0.0), (FRAMES[-1], 0.1)):
        hips.location[2] = height
        hips.keyframe_insert("location", frame=frame)
    data = ob.animation_data
    action, slot = data.action, getattr(data, "action_slot", None)
    data.action = None
    strip = data.nla_tracks.new().strips.new("bob", 1, action)
    if slot is not None:
        strip.action_slot = slot
    far = world_head(ob, "foot.l") + [0.3, 0.0, -0.1]
    leg(ob, "l", far, limit_mode="MOVE_ROOT", move_bone="hips")
    (note,) = bake_now(ob, FRAMES[2], FRAMES[4]).notes
    assert "the new curves of hips hide the NLA strips" in note


@pytest.mark.parametrize("bone", ["hips", ""])
def test_the_mode_can_be_keyed(bone):
    ob = body()
    far = world_head(ob, "foot.l") + [0.3, 0.0, -0.1]
    chain = leg(ob, "l", far, move_bone=bone, stretch_max=1.0)
    for frame, mode in ((1, "ACCEPT"), (5, "MOVE_ROOT"), (9, "STRETCH")):
        chain.limit_mode = mode
        chain.keyframe_insert("limit_mode", frame=frame)
    seen = {}
    for frame in (1, 5, 9, 5, 1, 9):
        go_to(frame)
        moved = tuple(ob.pose.bones["hips"].location) != (0.0, 0.0, 0.0)
        grown = tuple(ob.pose.bones["thigh.l"].scale) != (1.0, 1.0, 1.0)
        assert (moved, grown) == {1: (False, False), 5: (True, False), 9: (False, True)}[frame]
        gap = np.linalg.norm(world_head(ob, "foot.l") - far)
        assert (gap > 0.05) == (frame == 1)
        assert seen.setdefault(frame, gap) == gap
    live = poses(ob, range(1, 12))
    bake_now(ob, 1, 12)
    assert np.abs(poses(ob, range(1, 12))[..., :3, 3] - live[..., :3, 3]).max() < 1e-4


@pytest.mark.parametrize("mode", MODES)
def test_keyed_fk_of_the_written_channel(mode):
    """The channel that the chain writes has keys of its own: they are FK on every frame."""
    ob = body()
    bone, prop = ("hips", "location") if mode == "MOVE_ROOT" else ("thigh.l", "scale")
    for frame, value in ((1, 1.0), (12, 1.1)):
        setattr(ob.pose.bones[bone], prop, [value - (prop == "location")] * 3)
        ob.pose.bones[bone].keyframe_insert(prop, frame=frame)
    fk = poses(ob, FRAMES)
    far = world_head(ob, "foot.l") + [0.4, 0.0, -0.2]
    chain = leg(ob, "l", far, limit_mode=mode, move_bone="hips", stretch_max=2.0)
    live = poses(ob, FRAMES)
    assert chain.status == "OK"
    assert np.abs(live - fk).max() > 0.05
    assert np.array_equal(poses(ob, list(FRAMES)[::-1])[::-1], live)
    chain.mute = True
    update()
    assert np.array_equal(poses(ob, FRAMES), fk)
    chain.mute = False
    bake_now(ob, 3, 9)
    # Between the first key of FK and the first baked one the FK pose leads from one to the other.
    kept = [frame - 1 for frame in (1, 3, 4, 5, 6, 7, 8, 9, 12)]
    assert np.abs(poses(ob, FRAMES)[kept, :, :3, 3] - live[kept, :, :3, 3]).max() < 1e-4


@pytest.mark.parametrize("now", ["ACCEPT", "MOVE_ROOT", "STRETCH"])
@pytest.mark.parametrize("before", MODES)
def test_another_mode_is_solved_right_in_the_same_update(before, now):
    """What the mode before has written is no FK of the mode that is chosen."""
    ob, far = reaching(before)
    chain = ob.ik_chains[0]
    chain.move_max, chain.stretch_max = 0.01, 0.002
    update()
    chain.limit_mode = now
    update()
    tip = world_head(ob, "foot.l")
    gap = np.linalg.norm(tip - far)
    assert chain.residual == pytest.approx(gap, abs=1e-5)
    assert chain.status == "TARGET_FAR"
    here = np.array([np.array(bone.matrix, float) for bone in evaluated(ob).pose.bones])
    go_to(2)
    there = np.array([np.array(bone.matrix, float) for bone in evaluated(ob).pose.bones])
    np.testing.assert_allclose(here, there, atol=1e-6)
