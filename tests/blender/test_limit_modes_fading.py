# SPDX-License-Identifier: GPL-3.0-or-later
"""Moved and stretched bones when a chain fades, lets go of them, or is given what is no number."""

import bpy
import numpy as np
import pytest
from bake_rig import bake_now
from bone_rigs import go_to, poses
from test_limit_modes import FRAMES, body, leg, swing, world_head

pytestmark = pytest.mark.usefixtures("fresh")
MODES = ("MOVE_ROOT", "STRETCH")


@pytest.mark.parametrize(
    ("mode", "bone", "prop"),
    [
        ("MOVE_ROOT", "hips", "location"),
        ("STRETCH", "thigh.l", "scale"),
        ("ACCEPT", "shin.l", "rotation_euler"),
        ("ACCEPT", "shin.l", "rotation_quaternion"),
    ],
)
def test_a_bone_that_is_keyed_in_part_gets_the_rest_back(mode, bone, prop):
    """A chain that lets go of a bone after the frame has changed: curves have set what is keyed."""
    ob = body()
    for each in ob.pose.bones:
        each.rotation_mode = "XYZ" if prop == "rotation_euler" else "QUATERNION"
    owner = ob.pose.bones[bone]
    for frame, more in ((1, 0.0), (12, 0.1)):
        getattr(owner, prop)[1] = (prop == "scale") + more
        owner.keyframe_insert(prop, index=1, frame=frame)
    fk = poses(ob, FRAMES)
    far = world_head(ob, "foot.l") + [0.4, 0.0, -0.1]
    chain = leg(ob, "l", far, limit_mode=mode, move_bone="hips", stretch_max=2.0)
    assert np.abs(poses(ob, [2])[0] - fk[1]).max() > 0.05
    # One bone is too few for the solver: the chain is broken, and lets go of all bones.
    chain.limit_mode, chain.root_bone = "ACCEPT", "shin.l"
    bpy.context.scene.frame_set(6)
    assert chain.status == "BROKEN"
    assert np.array_equal(poses(ob, FRAMES), fk)


@pytest.mark.parametrize("softness", [0.0, 0.06])
@pytest.mark.parametrize("limited", [False, True])
@pytest.mark.parametrize("legs", ["l", "lr", "lR"])
@pytest.mark.parametrize("mode", MODES)
def test_a_fading_influence_makes_nothing_jump(mode, legs, limited, softness):
    """`R` is a leg that stays at full influence."""
    ob = body()
    for side in "lr":
        bone = ob.pose.bones[f"shin.{side}"]
        if limited:
            limit = bone.constraints.new("LIMIT_ROTATION")
            limit.owner_space = "LOCAL"
            limit.use_limit_x = limit.use_limit_y = limit.use_limit_z = True
            limit.min_x, limit.max_x = -2.0, -0.5
    for side, way in (("l", (0.3, 0.1, -0.1)), ("r", (-0.2, -0.2, 0.0))):
        if side in legs.lower():
            where = world_head(ob, f"foot.{side}") + way
            leg(ob, side, where, limit_mode=mode, move_bone="hips", stretch_max=1.0, softness=softness)
    fading = [chain for chain in ob.ik_chains if chain.name[-1] in legs]
    # Unkeyed, so that each step is an update of its own.
    rows = []
    for influence in np.linspace(0.0, 1.0, 101):
        for chain in fading:
            chain.influence = influence
        rows.append(poses(ob, [1])[0, :, :3, 3])
    way = np.linalg.norm(np.diff(rows, axis=0), axis=-1)
    assert way.sum(axis=0).max() > 0.1
    assert way.max() < 0.02


@pytest.mark.parametrize(("setting", "value"), [("target_location", [np.nan] * 3), ("move_max", np.nan)])
def test_what_is_no_number_is_told_by_a_bake_and_leaves_the_pose(setting, value):
    ob = body()
    swing(ob)
    fk = poses(ob, FRAMES)
    far = world_head(ob, "foot.l") + [0.4, 0.0, -0.1]
    chain = leg(ob, "l", far, limit_mode="MOVE_ROOT", move_bone="hips")
    setattr(chain, setting, value)
    assert np.array_equal(poses(ob, FRAMES), fk)
    assert chain.status == "BROKEN"
    report = bake_now(ob, FRAMES[0], FRAMES[-1])
    assert not report.chains
    assert "no finite number" in report.skipped[0].reason


def test_a_growth_that_is_no_number_is_none():
    ob = body()
    chain = leg(ob, "l", world_head(ob, "foot.l") + [0.4, 0.0, -0.1], limit_mode="STRETCH")
    chain.stretch_max = np.nan
    go_to(2)
    assert chain.status == "TARGET_FAR"
    assert {tuple(bone.scale) for bone in ob.pose.bones} == {(1.0, 1.0, 1.0)}
