# SPDX-License-Identifier: GPL-3.0-or-later
"""What is said to animate an object is exactly what moves it."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import bpy
import counted
import pytest
from bake_rig import new_armature

from ik_addon.blender import animation, chains, compat


@pytest.fixture
def ob(fresh: Any) -> Any:
    """Two bones with names that need escaping, one keyed in part, and a chain."""
    ob = new_armature(
        "Rig", [('up "per', "", (0, 0, 0), (0, 0.1, -1)), ("low\\er", 'up "per', (0, 0.1, -1), (0, 0, -2))]
    )
    upper = ob.pose.bones['up "per']
    upper.rotation_mode = "XYZ"
    upper.keyframe_insert("rotation_euler", index=1, frame=1)
    upper.keyframe_insert("location", frame=1)
    chains.add(ob, 'up "per', "low\\er", name='the "leg"')
    return ob


def components(ob: Any) -> dict[str, list[bool]]:
    return {name: flags.tolist() for name, flags in animation.animated_rotation_components(ob).items()}


UPPER = {'up "per': [False, True, False, False]}


def test_components_of_the_present_mode(ob: Any) -> None:
    assert components(ob) == UPPER
    upper, lower = ob.pose.bones
    lower.rotation_mode = "AXIS_ANGLE"
    lower.keyframe_insert("rotation_axis_angle", index=3, frame=1)
    upper.keyframe_insert("rotation_quaternion", frame=1)
    assert components(ob) == {**UPPER, "low\\er": [False, False, False, True]}
    upper.rotation_mode = "QUATERNION"
    assert components(ob)['up "per'] == [True] * 4
    upper.rotation_mode = "ZYX"
    assert components(ob)['up "per'] == UPPER['up "per']


def rotation_curve(ob: Any) -> Any:
    return next(c for c in compat.assigned_curves(ob) if c.data_path.endswith("rotation_euler"))


def test_what_is_switched_off_does_not_count(ob: Any) -> None:
    curve = rotation_curve(ob)
    curve.mute = True
    assert components(ob) == {}
    curve.mute = False
    curve.keyframe_points.clear()
    assert components(ob) == {}


def moves(ob: Any) -> bool:
    """Whether evaluation sets the Y rotation of the upper bone back to its key."""
    upper = ob.pose.bones['up "per']
    ob.animation_data.action.update_tag()
    for frame in (2, 1):
        upper.rotation_euler.y = 1.0
        bpy.context.scene.frame_set(frame)
    return ob.evaluated_get(bpy.context.evaluated_depsgraph_get()).pose.bones[0].rotation_euler.y != 1.0


@pytest.mark.parametrize("nla", [False, True])
@pytest.mark.parametrize("how", ["curve", "group", "disabled"])
def test_muted_as_blender_takes_it(ob: Any, how: str, nla: bool) -> None:
    """A muted group and a disabled curve play on in slots, but not beside NLA strips."""
    ob.ik_chains[0].mute = True
    curve = rotation_curve(ob)
    if curve.group is None:
        curve.group = ob.animation_data.action.groups.new("group")
    if nla:
        other = bpy.data.actions.new("Strip")
        if hasattr(other, "slots"):
            other.slots.new(id_type="OBJECT", name="Rig")
        ob.animation_data.nla_tracks.new().strips.new("strip", 1, other)
    assert moves(ob) and components(ob) == UPPER
    if how == "curve":
        curve.mute = True
    elif how == "group":
        curve.group.mute = True
    else:
        curve.is_valid = False
    assert (components(ob) == UPPER) == moves(ob)


def strip_of(ob: Any) -> Any:
    data = ob.animation_data
    action, slot = data.action, getattr(data, "action_slot", None)
    data.action = None
    strip = data.nla_tracks.new().strips.new("strip", 1, action)
    if slot is not None:
        strip.action_slot = slot
    return strip


def test_strips(ob: Any) -> None:
    strip_of(ob)
    data = ob.animation_data
    track = data.nla_tracks[0]
    assert components(ob) == UPPER
    track.strips[0].mute = True
    assert components(ob) == {}
    track.strips[0].mute = False
    track.mute = True
    assert components(ob) == {}
    track.mute = False
    data.use_nla = False
    assert components(ob) == {}
    data.use_nla = True
    track.is_solo = True
    ob.pose.bones["low\\er"].keyframe_insert("rotation_quaternion", frame=1)
    assert components(ob) == UPPER, "a track on solo keeps the action out"
    track.is_solo = False
    assert components(ob) == {**UPPER, "low\\er": [True] * 4}


def test_drivers(ob: Any) -> None:
    curve = ob.pose.bones["low\\er"].driver_add("rotation_quaternion", 2)
    curve.driver.expression = "0.25"
    assert components(ob) == {**UPPER, "low\\er": [False, False, True, False]}
    curve.mute = True
    assert components(ob) == UPPER


def test_settings_of_chains(ob: Any) -> None:
    assert animation.animated_chain_settings(ob) == set(), "the muted driver that holds names does not count"
    chain = ob.ik_chains[0]
    chain.keyframe_insert("influence", frame=1)
    assert animation.animated_chain_settings(ob) == {"influence"}
    chain.driver_add("target_location", 1)
    driver = ob.driver_add('ik_chains["the \\"leg\\""].softness')
    assert animation.animated_chain_settings(ob) == {"influence", "target_location", "softness"}
    driver.mute = True
    strip_of(ob)
    assert animation.animated_chain_settings(ob) == {"influence", "target_location"}
    ob.animation_data.nla_tracks[0].mute = True
    assert animation.animated_chain_settings(ob) == {"target_location"}


CHANGES: dict[str, Callable[[Any], Any]] = {
    "curve added": lambda ob: ob.keyframe_insert("scale", frame=1),
    "curve removed": lambda ob: compat.assigned_curves(ob).remove(rotation_curve(ob)),
    "curve muted": lambda ob: setattr(rotation_curve(ob), "mute", True),
    "driver added": lambda ob: ob.driver_add("location", 0),
    "driver muted": lambda ob: setattr(ob.animation_data.drivers[0], "mute", False),
    "action reassigned": lambda ob: setattr(ob.animation_data, "action", bpy.data.actions.new("Other")),
    "action unassigned": lambda ob: setattr(ob.animation_data, "action", None),
    "pushed down": strip_of,
    "NLA off": lambda ob: setattr(ob.animation_data, "use_nla", False),
    "animation gone": lambda ob: ob.animation_data_clear(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_signature_changes(ob: Any, change: str) -> None:
    before = animation.signature(ob)
    assert animation.signature(ob) == before and hash(before) is not None
    bpy.context.scene.frame_set(7)
    ob.pose.bones[0].rotation_euler.x = 1.0
    assert animation.signature(ob) == before, "poses and frames are nothing to it"
    CHANGES[change](ob)
    assert animation.signature(ob) != before


def test_signature_changes_with_strips(ob: Any) -> None:
    strip = strip_of(ob)
    seen = {animation.signature(ob)}
    track, curve = ob.animation_data.nla_tracks[0], compat.strip_curves(strip)[0]
    for owner, prop in ((strip, "mute"), (track, "mute"), (track, "is_solo"), (curve, "mute")):
        setattr(owner, prop, True)
        seen.add(animation.signature(ob))
    track.strips.remove(strip)
    seen.add(animation.signature(ob))
    assert len(seen) == 6


def test_thousands_of_curves(fresh: Any) -> None:
    def work(count: int, ask: Callable[[Any], Any]) -> int:
        ob = new_armature(f"Rig {count}", [(f"bone.{i}", "", (i, 0, 0), (i, 1, 0)) for i in range(count)])
        for bone in ob.pose.bones:
            for prop in ("location", "rotation_quaternion"):
                bone.keyframe_insert(prop, frame=1)
        assert len(compat.assigned_curves(ob)) == 7 * count
        ask(ob)
        return counted.steps(lambda: ask(ob))

    for unchanged in (animation.signature, animation.animated_chain_settings):
        assert work(200, unchanged) == work(5, unchanged)
    assert work(200, animation.animated_rotation_components) < 42 * work(
        5, animation.animated_rotation_components
    )


def test_all_strips_are_found_inside_meta_strips_and_muted_ones_too() -> None:
    """Made by hand: no function of Blender makes meta strips without a window."""
    inner, muted = SimpleNamespace(strips=()), SimpleNamespace(strips=(), mute=True)
    meta = SimpleNamespace(strips=(inner,))
    data = SimpleNamespace(nla_tracks=[SimpleNamespace(strips=(meta, muted))])
    found = animation.all_strips(SimpleNamespace(animation_data=data))
    assert {id(strip) for strip in found} == {id(inner), id(muted), id(meta)}
    assert not list(animation.all_strips(SimpleNamespace(animation_data=None)))
