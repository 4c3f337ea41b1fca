# SPDX-License-Identifier: GPL-3.0-or-later
"""An end bone that constraints pose: the tip is where the bones above lead its head."""

from typing import Any

import bpy
import numpy as np
import pytest
from bake_rig import bake_now
from bone_rigs import edit_mode, evaluated, go_to, poses, update
from mathutils import Vector
from test_limit_modes import FRAMES, body, swing, world_head

from ik_addon.blender import bake, chains

pytestmark = pytest.mark.usefixtures("fresh")

KINDS = (
    "ARMATURE", "CHILD_OF", "COPY_LOCATION", "COPY_ROTATION", "COPY_SCALE", "COPY_TRANSFORMS",
    "DAMPED_TRACK", "LIMIT_LOCATION", "STRETCH_TO",
)  # fmt: skip
MODES = ("ACCEPT", "MOVE_ROOT", "STRETCH")


def rig(kind: str, connected: bool = False) -> bpy.types.Object:
    """A body whose left foot follows a control bone by a constraint; the control moves away and back."""
    ob = body()
    with edit_mode(ob) as bones:
        control = bones.new("control")
        control.head, control.tail = bones["foot.l"].head, bones["foot.l"].tail
        bones["foot.l"].use_connect = connected
    constraint: Any = ob.pose.bones["foot.l"].constraints.new(kind)
    if kind == "ARMATURE":
        held = constraint.targets.new()
        held.target, held.subtarget = ob, "control"
    elif kind == "LIMIT_LOCATION":
        constraint.use_max_z, constraint.max_z = True, -0.3
    else:
        # To look at what it stands on is no direction.
        looks = kind in ("DAMPED_TRACK", "STRETCH_TO")
        constraint.target, constraint.subtarget = ob, "root" if looks else "control"
    swing(ob)
    control = ob.pose.bones["control"]
    to_bone = control.bone.matrix_local.to_3x3().transposed()
    for frame, way in ((1, (0.0, 0.0, 0.2)), (6, (0.3, -0.2, 0.0)), (12, (0.0, 0.1, 0.3))):
        control.location = to_bone @ Vector(way)
        control.keyframe_insert("location", frame=frame)
    go_to(3)
    return ob


def led(ob: bpy.types.Object) -> np.ndarray:
    """Where the shin ends: there the foot's head would be."""
    seen = evaluated(ob)
    return np.array(seen.matrix_world @ seen.pose.bones["shin.l"].tail)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", KINDS)
def test_the_limb_reaches_what_its_end_follows(kind: str, mode: str) -> None:
    ob = rig(kind, connected=kind in ("COPY_ROTATION", "DAMPED_TRACK"))
    before = poses(ob, FRAMES)
    # Where nothing says otherwise, the target is where the tip is.
    go_to(3)
    chains.add(ob, "thigh.l", "foot.l", name="leg", use_tail=False)
    go_to(3)
    assert np.abs(poses(ob, [3])[0] - before[2]).max() < 2e-6, "adding a chain moves nothing"
    chains.remove(ob, 0)
    chain = chains.add(
        ob, "thigh.l", "foot.l", name="leg", use_tail=False, target_space="CUSTOM", target=ob,
        subtarget="control", target_location=(0.0, 0.0, 0.0), limit_mode=mode, move_bone="hips",
        move_max=2.0, stretch_max=2.0,
    )  # fmt: skip
    update()
    gaps = []
    for frame in FRAMES:
        go_to(frame)
        gaps.append(np.linalg.norm(led(ob) - world_head(ob, "control")))
        assert chain.residual == pytest.approx(gaps[-1], abs=2e-6)
        assert chain.status == ("OK" if gaps[-1] < 1e-5 else "TARGET_FAR")
    assert min(gaps) < 1e-5
    assert mode == "ACCEPT" or max(gaps) < 1e-5
    live = poses(ob, FRAMES)
    shuffled = list(np.random.default_rng(0).permutation(list(FRAMES)))
    assert np.abs(poses(ob, shuffled)[np.argsort(shuffled)] - live).max() < 1e-6
    bake_now(ob, FRAMES[0], FRAMES[-1])
    assert np.abs(poses(ob, FRAMES)[..., :3, 3] - live[..., :3, 3]).max() < 1e-4
    bake.unbake([ob])
    chain.influence = 0.0
    assert np.array_equal(poses(ob, FRAMES), before)
