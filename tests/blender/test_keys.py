# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys as arrays: nothing of a key is lost, and they land where they play."""

from typing import Any

import bpy
import counted
import numpy as np
import pytest
from bake_rig import curve_state, new_armature

from ik_addon.blender import animation, bake_curves, compat, keys


@pytest.fixture
def ob(fresh: Any) -> Any:
    """An object with location curves on which every kind of key stands."""
    ob = bpy.data.objects.new("Object", None)
    bpy.context.scene.collection.objects.link(ob)
    rng = np.random.default_rng(5)
    for frame in (1, 5, 9.5, 20, 31):
        ob.location = rng.normal(size=3)
        ob.keyframe_insert("location", frame=frame)
    curve = curves(ob)[0]
    points = curve.keyframe_points
    points[1].handle_left_type, points[1].handle_left = "FREE", (3.2, 1.1)
    points[1].interpolation, points[1].easing, points[1].amplitude = "ELASTIC", "EASE_IN", 1.5
    points[2].type, points[2].interpolation = "EXTREME", "CONSTANT"
    points[3].handle_right_type, points[3].interpolation, points[3].back = "VECTOR", "BACK", 2.5
    points[3].select_control_point = points[3].select_left_handle = False
    curve.update()
    return ob


def curves(ob: Any) -> list[Any]:
    return list(compat.assigned_curves(ob))


def everything(point: Any) -> list[Any]:
    """All properties of a key, as Blender shows them."""
    return [
        tuple(getattr(point, p.identifier)) if getattr(p, "is_array", False) else getattr(point, p.identifier)
        for p in point.bl_rna.properties
        if p.identifier not in ("rna_type", "co_ui")
    ]


def test_reading_and_writing_lose_nothing(ob: Any) -> None:
    before = [everything(point) for point in curves(ob)[0].keyframe_points]
    (rows, others) = keys.read(curves(ob)[0]), curve_state(curves(ob)[1:])
    assert rows.shape == (5, keys.WIDTH)
    curves(ob)[0].keyframe_points.clear()
    keys.write([(curves(ob)[0], rows)])
    assert [everything(point) for point in curves(ob)[0].keyframe_points] == before
    assert curve_state(curves(ob)[1:]) == others


def test_every_property_of_a_key_has_a_column(ob: Any) -> None:
    """A new Blender may add one; `co_ui` is `co` that moves its handles."""
    known = {p.identifier for p in bpy.types.Keyframe.bl_rna.properties} - {"rna_type", "co_ui"}
    assert known == set(keys.COLUMNS)
    columns = [first + i for first, width, _ in keys.COLUMNS.values() for i in range(width)]
    assert columns == list(range(keys.WIDTH))


def test_new_keys_do_not_depend_on_the_preferences(ob: Any) -> None:
    edit = bpy.context.preferences.edit
    seen = []
    for interpolation, handle in (("BEZIER", "AUTO_CLAMPED"), ("CONSTANT", "VECTOR")):
        edit.keyframe_new_interpolation_type, edit.keyframe_new_handle_type = interpolation, handle
        keys.write([(curves(ob)[1], keys.make([2.0, 4.0], [1.0, 3.0]))])
        seen.append([everything(point) for point in curves(ob)[1].keyframe_points])
    edit.keyframe_new_interpolation_type, edit.keyframe_new_handle_type = "BEZIER", "AUTO_CLAMPED"
    assert seen[0] == seen[1]
    point = curves(ob)[1].keyframe_points[1]
    assert (point.interpolation, point.handle_left_type, point.co.to_tuple()) == (
        "BEZIER",
        "FREE",
        (4.0, 3.0),
    )


def test_replaced_keys(ob: Any) -> None:
    """Only inside the range; the last new key goes on as the old key did that led out of it."""
    old = keys.read(curves(ob)[0])
    new = keys.make([4.0, 7.0, 10.0], [1.0, 2.0, 3.0])
    result = keys.replaced(old, new)
    assert result[:, keys.FRAME].tolist() == [1.0, 4.0, 7.0, 10.0, 20.0, 31.0]
    assert np.array_equal(result[[0, 4, 5]], old[[0, 3, 4]])
    assert np.array_equal(result[2], new[1])
    assert result[1, keys.LEFT] == pytest.approx(new[0, :2] + (old[0, :2] - new[0, :2]) / 3.0)
    assert result[3, keys.RIGHT] == pytest.approx(new[2, :2] + (old[3, :2] - new[2, :2]) / 3.0)
    assert result[3, keys.INTERPOLATION] == keys.CONSTANT
    assert np.array_equal(result[3, [0, 1, 2, 3]], new[2, [0, 1, 2, 3]])
    assert np.array_equal(keys.replaced(old[:0], new), new)


def test_ranges_include_their_ends() -> None:
    rows = keys.make([1.0, 2.0, 2.5, 3.0, 8.0, 9.0], [0.0] * 6)
    ranges = np.array([[2.0, 3.0], [8.5, 9.0]])
    assert keys.inside(rows, ranges).tolist() == [False, True, True, True, False, True]
    assert not keys.inside(rows, np.zeros((0, 2))).any()


def test_free_handles_play_as_they_are_written(ob: Any) -> None:
    """A parabola through 0, 0.75 and 1: Blender evaluates it to single precision."""
    rows = keys.make([10.0, 13.0], [0.0, 1.0])
    rows[0, keys.RIGHT], rows[1, keys.LEFT] = (11.0, 2.0 / 3.0), (12.0, 1.0)
    keys.write([(curves(ob)[0], rows)])
    ob.animation_data.action.update_tag()
    for t in np.linspace(0.0, 1.0, 13):
        frame = 10.0 + 3.0 * t
        bpy.context.scene.frame_set(int(frame), subframe=frame % 1.0)
        assert ob.location.x == pytest.approx(2.0 * t - t * t, abs=2e-6)


def test_new_curves_come_with_their_group_and_play(fresh: Any) -> None:
    """On an armature that nothing animates yet: action, slot, layer and strip are made."""
    ob = new_armature("Rig", [("bone", "", (0, 0, 0), (0, 1, 0))])
    ob.animation_data_clear()
    target = bake_curves.ensure_target(ob)
    path = animation.bone_path("bone", "XYZ")
    made = []
    for index in range(3):
        curve, made_group = compat.new_curve(target.action, target.slot, path, index, "bone")
        made.append(made_group)
        keys.write([(curve, keys.make([1.0, 11.0], [0.0, 1.0 + index]))])
    assert made == [True, False, False]
    ob.pose.bones["bone"].rotation_mode = "XYZ"
    bpy.context.scene.frame_set(11)
    assert tuple(ob.pose.bones["bone"].rotation_euler) == pytest.approx((1.0, 2.0, 3.0))
    groups = compat.curve_groups(target.action, target.slot)
    assert [(group.name, len(group.channels)) for group in groups] == [("bone", 3)]
    again = bake_curves.ensure_target(ob)
    assert again == target, "what is there is used again"
    by_hand = new_armature("Other", [("bone", "", (0, 0, 0), (0, 1, 0))])
    by_hand.pose.bones["bone"].keyframe_insert("rotation_quaternion", frame=1, group="bone")
    theirs, ours = structure(by_hand), structure(ob)
    assert theirs == ours, "as Blender's own keys make it"


def structure(ob: Any) -> Any:
    """What an action consists of, without the names."""
    action = ob.animation_data.action
    if not hasattr(action, "slots"):
        return len(action.groups), action.id_root
    strips = [[strip.type for strip in layer.strips] for layer in action.layers]
    return strips, [(slot.target_id_type, slot.name_display == ob.name) for slot in action.slots]


def test_who_else_plays_the_curves(ob: Any) -> None:
    action = ob.animation_data.action
    slot = getattr(ob.animation_data, "action_slot", None)
    assert not compat.plays_elsewhere(ob)
    action.use_fake_user = True
    assert not compat.plays_elsewhere(ob), "a fake user plays nothing"
    other = bpy.data.objects.new("Other", bpy.data.armatures.new("Other"))
    bpy.context.scene.collection.objects.link(other)
    bpy.context.view_layer.update()
    constraint = other.constraints.new("ACTION")
    constraint.action = action
    if slot is not None:
        constraint.action_slot = slot
    assert compat.plays_elsewhere(ob)
    other.constraints.remove(constraint)
    assert not compat.plays_elsewhere(ob)
    strip = ob.animation_data.nla_tracks.new().strips.new("strip", 40, action)
    if slot is not None:
        strip.action_slot = slot
    assert compat.plays_elsewhere(ob)


def test_a_shared_action_is_asked_for_where_an_armature_was_never_evaluated(ob: Any) -> None:
    """Blender 4.5 crashes there when it is asked for the users of a slot."""
    other = bpy.data.objects.new("Other", bpy.data.armatures.new("Other"))
    other.animation_data_create().action = ob.animation_data.action
    assert other.pose is None
    compat.plays_elsewhere(ob)


def test_the_keys_of_a_curve_are_written_at_once(fresh: Any) -> None:
    ob = new_armature("Rig", [("bone", "", (0, 0, 0), (0, 1, 0))])
    target = bake_curves.ensure_target(ob)

    def work(count: int) -> int:
        rows = keys.make(np.arange(float(count)), np.sin(np.arange(float(count))))
        made = [
            compat.new_curve(target.action, target.slot, f"try_{count}_{i}", 0, "group")[0] for i in range(40)
        ]
        return counted.steps(lambda: keys.write((curve, rows) for curve in made))

    assert work(1500) == work(15)
