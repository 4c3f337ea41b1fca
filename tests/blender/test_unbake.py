# SPDX-License-Identifier: GPL-3.0-or-later
"""A bake can be taken back."""

from pathlib import Path
from typing import Any

import bpy
import numpy as np
import pytest
from bake_rig import (
    FRAMES,
    LIMBS,
    SAME,
    animation_state,
    bake_now,
    poses,
    rotation_curves,
)

from ik_addon.blender import bake, chains


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
