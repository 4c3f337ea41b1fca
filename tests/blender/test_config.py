# SPDX-License-Identifier: GPL-3.0-or-later
"""Rig configurations: what is written is read back, what is wrong is named, nothing is done by halves."""

import json
from pathlib import Path
from typing import Any

import bpy
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mathutils import Matrix, Vector

from ik_addon.blender import config, settings

BONES = {"hips": None, "thigh": "hips", "shin": "thigh", "foot": "shin", "head": "hips"}
LEG = {"name": "leg", "root_bone": "thigh", "end_bone": "foot", "use_tail": False}


@pytest.fixture
def rig(fresh: Any) -> Any:
    """A figure with a bent leg, moved, turned and scaled, whose hips are keyed."""
    places = {
        "hips": ((0, 0, 1), (0, 0, 1.2)),
        "thigh": ((0.1, 0, 0.95), (0.1, -0.25, 0.5)),
        "shin": ((0.1, -0.25, 0.5), (0.1, 0, 0.08)),
        "foot": ((0.1, 0, 0.08), (0.1, -0.15, 0.02)),
        "head": ((0, 0, 1.6), (0, 0, 1.8)),
    }
    ob = bpy.data.objects.new("Figure", bpy.data.armatures.new("Figure"))
    fresh.collection.objects.link(ob)
    bpy.context.view_layer.objects.active = ob
    bpy.ops.object.mode_set(mode="EDIT")
    for name, parent in BONES.items():
        bone = ob.data.edit_bones.new(name)
        bone.head, bone.tail = places[name]
        bone.parent = ob.data.edit_bones.get(parent) if parent else None
    bpy.ops.object.mode_set(mode="OBJECT")
    ob.matrix_world = Matrix.LocRotScale(Vector((1, 2, 0)), Matrix.Rotation(0.5, 3, "Z"), Vector((2, 2, 2)))
    for frame, x in ((1, 0.0), (11, 0.5)):
        ob.pose.bones["hips"].location = (x, 0, 0)
        ob.pose.bones["hips"].keyframe_insert("location", frame=frame)
    door = bpy.data.objects.new("Door", None)
    fresh.collection.objects.link(door)
    door.matrix_world = Matrix.LocRotScale(Vector((0, 1, 0)), Matrix.Rotation(0.7, 3, "X"), None)
    fresh.frame_set(1)
    return ob


def text_of(*items: Any, armature: str = "Figure") -> str:
    return json.dumps({"version": 1, "armatures": {armature: list(items)}})


def apply(*items: Any) -> list:
    return config.apply(config.parse(text_of(*items), "rig.json"))


def heads(ob: Any) -> np.ndarray:
    bpy.context.view_layer.update()
    seen = ob.evaluated_get(bpy.context.evaluated_depsgraph_get())
    return np.array([[*(seen.matrix_world @ b.head), *(seen.matrix_world @ b.tail)] for b in seen.pose.bones])


def foot(ob: Any) -> Vector:
    seen = ob.evaluated_get(bpy.context.evaluated_depsgraph_get())
    return seen.matrix_world @ seen.pose.bones["foot"].head


@pytest.mark.parametrize("space", ["WORLD", "ARMATURE", "CUSTOM"])
@pytest.mark.parametrize("pole_mode", ["AUTO", "POINT"])
def test_adding_moves_nothing(rig: Any, space: str, pole_mode: str) -> None:
    rig.pose.bones["shin"].rotation_quaternion = (0.97, 0.2, 0.05, 0.0)
    before = heads(rig)
    extra = {"target": "Door"} if space == "CUSTOM" else {}
    apply({**LEG, "target_space": space, "pole_mode": pole_mode, **extra})
    assert rig.ik_chains["leg"].residual < 1e-5
    assert np.abs(heads(rig) - before).max() < 1e-5


def test_left_out_settings_have_their_defaults(rig: Any) -> None:
    apply(LEG)
    chain = rig.ik_chains["leg"]
    known = settings.definitions()
    for key in known.keys() - LEG.keys() - {"target_location", "target_rotation"}:
        assert settings.plain(chain, known[key]) == settings.default(known[key]), key


def test_target_frame_plants_the_foot_where_it_is_then(rig: Any) -> None:
    scene = bpy.context.scene
    scene.frame_set(7, subframe=0.5)
    planted = foot(rig)
    scene.frame_set(3)
    apply({**LEG, "target_frame": 7.5})
    assert scene.frame_current_final == 3
    assert (rig.ik_chains["leg"].target_location - planted).length < 1e-5
    scene.frame_set(6)
    assert (foot(rig) - planted).length < 1e-4


def test_target_frame_in_the_space_of_a_moving_object(rig: Any) -> None:
    door = bpy.data.objects["Door"]
    for frame, x in ((1, 0.0), (11, 0.4)):
        door.location.x = x
        door.keyframe_insert("location", frame=frame)
    bpy.context.scene.frame_set(7)
    wanted = door.evaluated_get(bpy.context.evaluated_depsgraph_get()).matrix_world.inverted() @ foot(rig)
    bpy.context.scene.frame_set(1)
    apply({**LEG, "target_space": "CUSTOM", "target": "Door", "target_frame": 7})
    assert (rig.ik_chains["leg"].target_location - wanted).length < 1e-5


def test_same_name_takes_all_settings_and_keeps_place_and_curves(rig: Any) -> None:
    head = {"name": "head", "solver": "AIM", "root_bone": "head", "end_bone": "head"}
    apply({**LEG, "softness": 0.1}, head)
    chain = rig.ik_chains["leg"]
    chain.influence = 0.5
    chain.keyframe_insert("influence", frame=1)
    apply({**LEG, "pole_angle": 0.25})
    assert [c.name for c in rig.ik_chains] == ["leg", "head"]
    assert (rig.ik_chains["leg"].softness, rig.ik_chains["leg"].pole_angle) == (0.0, 0.25)
    bpy.context.scene.frame_set(1)
    assert rig.ik_chains["leg"].influence == 0.5


def test_same_name_with_other_bones_gives_fk_back(rig: Any) -> None:
    before = heads(rig)
    apply({**LEG, "target_location": [0, 0, 0]})
    bpy.context.view_layer.update()
    assert np.abs(heads(rig) - before).max() > 0.1
    apply({"name": "leg", "solver": "AIM", "root_bone": "head", "end_bone": "head"})
    assert np.array_equal(heads(rig), before)


def random_value(prop: Any) -> st.SearchStrategy:
    if prop.type == "POINTER":
        return st.sampled_from(["Door", "Figure"])
    if prop.type == "STRING":
        return st.sampled_from(sorted(BONES))
    if prop.type == "ENUM":
        return st.sampled_from(prop.enum_items.keys())
    if prop.type == "BOOLEAN":
        return st.booleans()
    if prop.type == "INT":
        return st.integers(prop.hard_min, prop.hard_max)
    low, high = max(prop.hard_min, -1e6), min(prop.hard_max, 1e6)
    number = st.floats(low, high, width=32)
    return (
        st.lists(number, min_size=prop.array_length, max_size=prop.array_length) if prop.is_array else number
    )


@given(data=st.data())
def test_what_is_written_is_read_back(addon: Any, data: st.DataObject) -> None:
    """Any settings of a chain that can be solved: written, read and applied they are the same."""
    if "Figure" not in bpy.data.objects:
        rig.__wrapped__(bpy.context.scene)  # a fixture cannot be drawn anew for each example
    figure = bpy.data.objects["Figure"]
    figure.ik_chains.clear()
    free = {
        key: prop
        for key, prop in settings.definitions().items()
        if key not in {*LEG, "solver", "subtarget", "pole_subtarget", "move_bone"}
    }
    chosen = data.draw(st.sets(st.sampled_from(sorted(free))))
    item = {**LEG, **{key: data.draw(random_value(free[key]), key) for key in sorted(chosen)}}
    for prefix in ("", "pole_"):
        if item.get(prefix + "target") == "Figure":
            item[prefix + "subtarget"] = data.draw(st.sampled_from(["hips", "head"]))
        elif item.get(prefix + ("space" if prefix else "target_space")) == "CUSTOM":
            item[prefix + "target"] = "Door"
    if item.get("limit_mode") == "MOVE_ROOT":
        item["move_bone"] = data.draw(st.sampled_from(["", "hips"]))
    apply(item)
    written = config.dump([figure])
    (stored,) = written["armatures"]["Figure"]
    for key, value in item.items():
        found = stored.get(key, settings.default(settings.definitions()[key]))
        same = (
            found == value if isinstance(value, str) else np.array_equal(np.float32(found), np.float32(value))
        )
        assert same, (key, value, found)
    figure.ik_chains.clear()
    config.apply(config.parse(json.dumps(written), "again.json"))
    assert config.dump([figure]) == written


WRONG = {
    "unknown key": ({"softnes": 0.1}, "key 'softnes'; did you mean 'softness'?"),
    "a result is no setting": ({"residual": 0.1}, "unknown key 'residual'"),
    "storage is no setting": ({"anchor": 0.1}, "unknown key 'anchor'"),
    "boolean for a number": ({"softness": True}, "key 'softness': expected a number, got True"),
    "number for a boolean": ({"mute": 1}, "key 'mute': expected true or false, got 1"),
    "text for a number": ({"softness": "0.1"}, "key 'softness': expected a number, got '0.1'"),
    "number for a text": ({"pole_subtarget": 3}, "key 'pole_subtarget': expected a text, got 3"),
    "null": ({"softness": None}, "key 'softness': expected a number, got None"),
    "fraction for an integer": ({"iterations": 2.5}, "key 'iterations': expected a whole number, got 2.5"),
    "out of range": ({"softness": 1.5}, "key 'softness': expected a number from 0 to 1, got 1.5"),
    "integer out of range": ({"iterations": 0}, "key 'iterations': expected a whole number from 1 to"),
    "not a number": ({"pole_angle": float("nan")}, "key 'pole_angle': expected a finite number, got nan"),
    "infinite": ({"pole_angle": float("-inf")}, "key 'pole_angle': expected a finite number, got -inf"),
    "too large to store": ({"pole_angle": 1e39}, "key 'pole_angle': expected a finite number, got 1e+39"),
    "unknown item": (
        {"target_space": "LOCAL"},
        "key 'target_space': expected one of WORLD, ARMATURE, CUSTOM",
    ),
    "wrong length": ({"target_location": [0, 1]}, "key 'target_location': expected a list of 3 numbers"),
    "wrong item": ({"target_location": [0, 1, "z"]}, "key 'target_location': expected a number, got 'z'"),
    "frame and place": (
        {"target_frame": 2, "target_location": [0, 0, 0]},
        "key 'target_frame': 'target_location' says already where",
    ),
    "frame of no number": ({"target_frame": "first"}, "key 'target_frame': expected a number, got 'first'"),
    "unknown object": ({"target": "Dor"}, "key 'target': unknown object 'Dor'; did you mean 'Door'?"),
    "unknown bone": ({"root_bone": "thig"}, "key 'root_bone': unknown bone 'thig'; did you mean 'thigh'?"),
    "bone of no armature": (
        {"target": "Door", "subtarget": "x"},
        "key 'subtarget': 'Door' is not an armature",
    ),
    "bone of nothing": (
        {"pole_subtarget": "hips"},
        "key 'pole_subtarget': needs an armature in 'pole_target'",
    ),
    "unknown target bone": ({"target": "Figure", "subtarget": "toe"}, "key 'subtarget': unknown bone 'toe'"),
    "custom space of nothing": ({"target_space": "CUSTOM"}, "custom space but no target object"),
    "end above root": ({"root_bone": "foot", "end_bone": "thigh"}, "is not below root bone 'foot'"),
    "no end": ({"end_bone": ""}, "key 'end_bone' is missing"),
    "empty name": ({"name": ""}, "key 'name': is empty"),
}


@pytest.mark.parametrize(("changes", "cause"), WRONG.values(), ids=WRONG.keys())
def test_wrong_chains_are_named_and_nothing_changes(rig: Any, changes: dict, cause: str) -> None:
    """One sentence with file, armature, chain, key and cause; the good chain beside it is not added."""
    with pytest.raises(config.ConfigError) as caught:
        apply({**LEG, "name": "good"}, {**LEG, **changes})
    text = str(caught.value)
    assert cause in text
    assert text.startswith("rig.json: ") and "Figure" in text and ("chain '" in text or "chain 2" in text)
    assert "\n" not in text
    assert len(rig.ik_chains) == 0


BROKEN = {
    "no JSON": ("{", "is not JSON"),
    "a list": ("[]", "expected an object"),
    "no version": ('{"armatures": {}}', "key 'version': expected 1, got None"),
    "later version": ('{"version": 2, "armatures": {}}', "key 'version': expected 1, got 2"),
    "true is not 1": ('{"version": true, "armatures": {}}', "key 'version': expected 1, got True"),
    "unknown key": ('{"version": 1, "armature": {}}', "unknown key 'armature'; did you mean 'armatures'?"),
    "list of armatures": ('{"version": 1, "armatures": []}', "key 'armatures': expected an object"),
    "chain instead of list": ('{"version": 1, "armatures": {"A": {}}}', "armature 'A': expected a list"),
    "text as chain": (
        '{"version": 1, "armatures": {"A": ["x"]}}',
        "armature 'A': chain 1: expected an object",
    ),
    "key twice": ('{"version": 1, "version": 1, "armatures": {}}', "key 'version' stands twice"),
    "nested without end": ("[" * 100_000, "is not JSON"),
    "name twice": (text_of(LEG, LEG), "chain 'leg': key 'name': another chain"),
    "unknown armature": (text_of(LEG, armature="Figur"), "unknown armature 'Figur'; did you mean 'Figure'?"),
    "not an armature": (text_of(LEG, armature="Door"), "unknown armature 'Door'"),
}


@pytest.mark.parametrize(("text", "cause"), BROKEN.values(), ids=BROKEN.keys())
def test_wrong_files_are_named(rig: Any, text: str, cause: str) -> None:
    with pytest.raises(config.ConfigError, match="^rig.json: ") as caught:
        config.apply(config.parse(text, "rig.json"))
    assert cause in str(caught.value)


def test_files_are_read_with_and_without_byte_order_mark(rig: Any, tmp_path: Path) -> None:
    path = tmp_path / "rig.json"
    for encoding in ("utf-8", "utf-8-sig"):
        path.write_text(text_of({**LEG, "name": "Bein – links"}), encoding)
        assert [c.name for c in config.read(path)] == ["Bein – links"]
    path.write_bytes(b"\xff\xfe{}")
    with pytest.raises(config.ConfigError, match="UTF-8"):
        config.read(path)
    with pytest.raises(config.ConfigError, match=r"none\.json: cannot be read"):
        config.read(tmp_path / "none.json")
