# SPDX-License-Identifier: GPL-3.0-or-later
"""Frames that come again look as if they were solved anew, to the bit, whatever was changed meanwhile."""

import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import bpy
import numpy as np
import pytest
from bone_rigs import armature, edit_mode, empty, evaluated, update

from ik_addon.blender import chains, live
from ik_addon.blender.chain_values import SETTINGS
from ik_addon.blender.recall import Recall
from ik_addon.blender.state import STATE

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.remembering]

FRAMES = range(1, 13)
# Settings that name or mark things, and results.
NO_SETTINGS = {"rna_type", "name", "uid", "root_bone", "end_bone", "target", "pole_target"}


@pytest.fixture
def solves(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    seen: list[str] = []
    solve = live.solve

    def counted(stage: Any, batch: Any) -> Any:
        seen.append(stage.chains[0].name)
        return solve(stage, batch)

    monkeypatch.setattr(live, "solve", counted)
    yield seen


@pytest.fixture
def walker() -> bpy.types.Object:
    """A rig with moving hips, and a leg whose target and influence move, too."""
    ob = armature()
    goal = empty("Goal")
    for frame, place in ((1, (0.15, -0.2, 0.2)), (6, (0.1, 0.2, 0.1)), (12, (0.3, -0.4, -0.1))):
        goal.location = place
        goal.keyframe_insert("location", frame=frame)
    root = next(bone for bone in ob.pose.bones if bone.parent is None)
    for frame, height in ((1, 0.0), (12, 0.1)):
        root.location = (0.0, height, 0.0)
        root.keyframe_insert("location", frame=frame)
    chains.add(
        ob, "thigh", "foot", name="leg", use_tail=False, target_space="CUSTOM", target=goal,
        target_location=(0.0, 0.0, 0.0), pole_location=(0.1, -1.0, 0.3),
    )  # fmt: skip
    chain = ob.ik_chains["leg"]
    for frame, influence in ((1, 1.0), (9, 1.0), (12, 0.4)):
        chain.influence = influence
        chain.keyframe_insert("influence", frame=frame)
    update()
    return ob


def frame(ob: bpy.types.Object, number: int) -> np.ndarray:
    bpy.context.scene.frame_set(number)
    chain = ob.ik_chains[0]
    pose = [np.array(bone.matrix, dtype=np.float64).ravel() for bone in evaluated(ob).pose.bones]
    return np.concatenate([*pose, [chain.residual, chain.last_status]])


def played(ob: bpy.types.Object, numbers: Any = FRAMES) -> np.ndarray:
    return np.array([frame(ob, number) for number in numbers])


def anew(ob: bpy.types.Object, numbers: Any = FRAMES) -> np.ndarray:
    """The frames with nothing remembered."""
    rows = []
    for number in numbers:
        STATE.recall.clear()
        rows.append(frame(ob, number))
    return np.array(rows)


def test_a_loop_is_solved_once_and_is_the_same_to_the_bit(
    walker: bpy.types.Object, solves: list[str]
) -> None:
    played(walker)
    first = played(walker)
    solves.clear()
    assert np.array_equal(played(walker), first)
    backward = played(walker, reversed(FRAMES))[::-1]
    assert not solves
    assert np.array_equal(backward, first)
    assert np.array_equal(anew(walker), first)
    assert len(solves) == len(FRAMES)


def test_edits_between_frames_are_not_remembered(walker: bpy.types.Object) -> None:
    """While a target is dragged no frame comes again: that would fill the memory for nothing."""
    frame(walker, 3)
    before = len(STATE.recall)
    for height in np.linspace(0.0, 0.2, 5):
        bpy.data.objects["Goal"].delta_location.z = height
        update()
    assert len(STATE.recall) == before


def settings() -> list[str]:
    known = bpy.types.Object.bl_rna.properties.get("ik_chains")
    properties = known.fixed_type.properties if known else ()
    return [p.identifier for p in properties if p.identifier not in NO_SETTINGS and not p.is_readonly]


def other_value(chain: Any, name: str) -> Any:
    """A value of a setting that is not its present one."""
    prop = chain.bl_rna.properties[name]
    now = getattr(chain, name)
    if prop.type == "BOOLEAN":
        return not now
    if name == "bend_sign":
        return -now
    if prop.type == "ENUM":
        return next(item.identifier for item in prop.enum_items if item.identifier != now)
    if prop.type == "STRING":
        return "shin"
    if getattr(prop, "is_array", False):
        return [value + 0.2 for value in now]
    most = min(prop.soft_max, now + 1)
    return most if most != now else (0.5 * now if prop.type == "FLOAT" else now - 1)


@pytest.mark.parametrize("solver", ["TWO_BONE", "FABRIK"])
@pytest.mark.parametrize("limit_mode", ["ACCEPT", "MOVE_ROOT", "STRETCH"])
def test_no_setting_is_missed(walker: bpy.types.Object, solver: str, limit_mode: str) -> None:
    chain = walker.ik_chains["leg"]
    chain.solver, chain.limit_mode = solver, limit_mode
    chain.move_bone = next(bone.name for bone in walker.pose.bones if bone.parent is None)
    chain.pole_mode = "POINT"
    played(walker)
    names = settings()
    assert len(names) > 40
    for name in names:
        before = getattr(chain, name)
        before = tuple(before) if hasattr(before, "__len__") and not isinstance(before, str) else before
        setattr(chain, name, other_value(chain, name))
        at = (4, 10)
        remembered = played(walker, at)
        assert np.array_equal(remembered, anew(walker, at), equal_nan=True), name
        setattr(chain, name, before)
        assert np.array_equal(played(walker, at), anew(walker, at), equal_nan=True), name


FOOT = {"root_bone": "foot", "solver": "AIM"}
LIMB = {"root_bone": "hips", "solver": "THREE_BONE", "limb_mode": "CLAVICLE", "share": 0.5, "share_max": 0.2}
FAR = {"target_location": (0.5, -1.0, -0.5), "move_max": 0.01, "stretch_max": 0.01}
# For each number that may change from frame to frame, what lets it show.
NUMBERS: dict[str, dict[str, Any]] = {
    "influence": {},
    "target_location": {},
    "target_rotation": {"use_rotation": True},
    "pole_location": {"pole_mode": "POINT"},
    "pole_angle": {"pole_mode": "POINT"},
    "bend_sign": {"use_planar": True},
    "offset_yaw": {**FOOT, "aim_mode": "MATCH_ROTATION"},
    "softness": FAR,
    "share": LIMB,
    "share_max": LIMB,
    "lean": {"solver": "FABRIK", "use_lean": True},
    "aim_offset": FOOT,
    "aim_limit": {**FOOT, "aim_limit": 0.2},
    "aim_damping": {**FOOT, "aim_limit": 0.2},
    "move_max": {**FAR, "limit_mode": "MOVE_ROOT", "move_bone": "hips"},
    "stretch_max": {**FAR, "limit_mode": "STRETCH"},
    "smooth_frames": {},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_each_number_counts(walker: bpy.types.Object, name: str) -> None:
    """Also where nothing else is another one, and no plan is compiled anew."""
    chain = walker.ik_chains["leg"]
    walker.animation_data.action = None
    chain.influence = 0.9
    for setting, value in NUMBERS[name].items():
        setattr(chain, setting, value)
    for _ in range(2):
        update()
        played(walker)
    first, kept = played(walker), len(STATE.recall)
    setattr(chain, name, other_value(chain, name))
    frame(walker, 1)
    assert len(STATE.recall) > kept, "what is remembered was not dropped"
    again = played(walker)
    assert not np.array_equal(again, first), "the number shows"
    assert np.array_equal(again, anew(walker))


def move_root(ob: bpy.types.Object) -> None:
    ob.location.x += 0.05


def move_target(_ob: bpy.types.Object) -> None:
    bpy.data.objects["Goal"].delta_location.y += 0.05


def pose_above(ob: bpy.types.Object) -> None:
    root = next(bone for bone in ob.pose.bones if bone.parent is None)
    root.rotation_quaternion = (1.0, 0.1, 0.05, 0.0)


def pose_limb(ob: bpy.types.Object) -> None:
    ob.pose.bones["shin"].rotation_quaternion = (1.0, 0.4, 0.1, 0.2)


def scale_limb(ob: bpy.types.Object) -> None:
    ob.pose.bones["thigh"].scale = (1.1, 1.1, 1.1)


def shift_limb(ob: bpy.types.Object) -> None:
    ob.pose.bones["thigh"].location = (0.02, 0.03, 0.0)


def limit_limb(ob: bpy.types.Object) -> None:
    bone = ob.pose.bones["shin"]
    bone.use_ik_limit_x, bone.ik_min_x, bone.ik_max_x = True, 0.0, 0.3


def change_mode(ob: bpy.types.Object) -> None:
    ob.pose.bones["thigh"].rotation_mode = "XYZ"


def key_limb(ob: bpy.types.Object) -> None:
    ob.pose.bones["shin"].rotation_quaternion = (1.0, 0.2, 0.0, 0.1)
    ob.pose.bones["shin"].keyframe_insert("rotation_quaternion", frame=2)


def edit_key(_ob: bpy.types.Object) -> None:
    bpy.data.objects["Goal"].location = (0.2, -0.1, 0.25)
    bpy.data.objects["Goal"].keyframe_insert("location", frame=6)


def edit_rest(ob: bpy.types.Object) -> None:
    bpy.context.view_layer.objects.active = ob
    bpy.ops.object.mode_set(mode="EDIT")
    ob.data.edit_bones["shin"].roll += 0.3
    bpy.ops.object.mode_set(mode="OBJECT")


@pytest.mark.parametrize(
    "edit",
    [
        move_root, move_target, pose_above, pose_limb, scale_limb, shift_limb, limit_limb, change_mode,
        key_limb, edit_key, edit_rest,
    ],
)  # fmt: skip
def test_no_edit_is_missed(walker: bpy.types.Object, edit: Callable[[bpy.types.Object], None]) -> None:
    first = played(walker)
    edit(walker)
    again = played(walker)
    assert not np.array_equal(again, first), "the edit shows"
    assert np.array_equal(again, anew(walker))


def test_a_bone_between_the_moved_one_and_the_limb_counts(walker: bpy.types.Object) -> None:
    """It is posed along with them, without a chain that turns it."""
    with edit_mode(walker) as bones:
        bone = bones.new("socket")
        bone.head, bone.tail, bone.parent = (0.0, 0.0, 1.0), (0.1, 0.0, 1.0), bones["hips"]
        bones["thigh"].parent = bone
    chain = walker.ik_chains["leg"]
    chain.limit_mode, chain.move_bone, chain.target_location = "MOVE_ROOT", "hips", (0.5, -1.0, -0.5)
    for _ in range(2):
        update()
        played(walker)
    first, kept = played(walker), len(STATE.recall)
    walker.pose.bones["socket"].rotation_quaternion = (1.0, 0.0, 0.2, 0.1)
    frame(walker, 1)
    assert len(STATE.recall) > kept, "what is remembered was not dropped"
    again = played(walker)
    assert not np.array_equal(again, first)
    assert np.array_equal(again, anew(walker))


def test_fk_is_what_it_was_where_frames_are_remembered(walker: bpy.types.Object) -> None:
    before = np.array([bone.ik_held_rotation[:4] for bone in walker.pose.bones])
    fk = {bone.name: (1.0, 0.0, 0.0, 0.0) for bone in walker.pose.bones}
    played(walker)
    played(walker)
    assert np.array_equal(before, np.array([bone.ik_held_rotation[:4] for bone in walker.pose.bones]))
    bpy.ops.ik_chain.remove(object=walker.name, chain="leg")
    assert {bone.name: tuple(bone.rotation_quaternion) for bone in walker.pose.bones} == fk


def test_what_is_remembered_takes_no_more_than_is_counted(walker: bpy.types.Object) -> None:
    """Of one leg the numbers are less than what Python takes beside them."""
    played(walker)
    STATE.recall.clear()
    tracemalloc.start()
    try:
        for number in range(100):
            bpy.context.scene.frame_set(1 + number // 10, subframe=number % 10 / 10)
        taken = tracemalloc.get_traced_memory()[0]
        count, counted = len(STATE.recall), STATE.recall.bytes
        STATE.recall.clear()
        taken -= tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert count == 100
    assert 0.5 * counted < taken <= counted


class Sized:
    bytes = 900


def test_memory_is_bounded_and_what_is_used_stays() -> None:
    recall = Recall(most_bytes=20_000)
    for number in range(100):
        recall.put((0, b"x" * 100 + bytes([number])), (Sized(),))
        recall.get((0, b"x" * 100 + bytes([0])))
        assert recall.bytes <= 20_000
    assert len(recall) == 9
    assert recall.get((0, b"x" * 100 + bytes([0]))) and recall.get((0, b"x" * 100 + bytes([99])))
    assert recall.get((1, b"x" * 100 + bytes([99]))) is None
    recall.put((0, b"x" * 100 + bytes([99])), (Sized(),))
    assert len(recall) == 9
    recall.clear()
    assert recall.bytes == 0 and len(recall) == 0
