# SPDX-License-Identifier: GPL-3.0-or-later
"""Operators on a given object and chain, without a window: what they do, and how they refuse."""

from types import SimpleNamespace
from typing import Any

import bpy
import pytest
from rig_state import dump, make_empty, make_rig, pose, pose_difference, select_bones

from ik_addon.blender import bake, chains
from ik_addon.ops import bake_ops, range_job

pytestmark = pytest.mark.usefixtures("fresh")

# Blender's float32 poses of a leg of a metre.
STILL = 2e-6


@pytest.fixture
def rig(fresh: Any) -> bpy.types.Object:
    return make_rig()


def settings(chain: Any) -> tuple[str, str, str, bool]:
    return chain.solver, chain.root_bone, chain.end_bone, chain.use_tail


def out_of_sight(ob: bpy.types.Object) -> None:
    """Hidden, not selected, not active: nothing in the context leads to the object."""
    bpy.context.view_layer.objects.active = None
    ob.select_set(False)
    ob.hide_set(True)


def refused(operator: Any, **properties: Any) -> str:
    """The message with which an operator is cancelled; nothing may have changed."""
    before = dump()
    with pytest.raises(RuntimeError) as caught:
        operator(**properties)
    assert dump() == before
    return str(caught.value)


# Adding


@pytest.mark.parametrize(
    ("selected", "active", "properties", "expected"),
    [
        (["thigh", "shin"], "shin", {}, ("TWO_BONE", "thigh", "shin", True)),
        (["shin", "thigh"], "thigh", {}, ("TWO_BONE", "thigh", "shin", True)),
        (["shin"], "shin", {}, ("TWO_BONE", "thigh", "shin", True)),
        (["foot"], "foot", {"use_tail": False}, ("TWO_BONE", "thigh", "foot", False)),
        (["thigh", "shin", "foot"], "foot", {"use_tail": False}, ("TWO_BONE", "thigh", "foot", False)),
        (["thigh", "foot"], "foot", {}, ("FABRIK", "thigh", "foot", True)),
        (["hips", "foot"], "foot", {"use_tail": False}, ("FABRIK", "hips", "foot", False)),
        (["hips"], "hips", {}, ("AIM", "hips", "hips", True)),
        (["foot"], "foot", {"solver": "AIM"}, ("AIM", "foot", "foot", True)),
        (["thigh", "shin"], "shin", {"solver": "FABRIK"}, ("FABRIK", "thigh", "shin", True)),
    ],
)
def test_add_takes_the_selected_path(
    rig: bpy.types.Object, selected: list[str], active: str, properties: dict[str, Any], expected: tuple
) -> None:
    select_bones(rig, selected, active)
    before = pose(rig)
    assert bpy.ops.ik_chain.add(**properties) == {"FINISHED"}
    (chain,) = rig.ik_chains
    assert settings(chain) == expected
    assert (chain.name, chain.target_space, chain.target) == (expected[2], "WORLD", None)
    assert pose_difference(pose(rig), before) < STILL


def test_add_takes_a_selected_object_as_target(rig: bpy.types.Object) -> None:
    empty = make_empty("Door", (3.0, -2.0, 1.0))
    select_bones(rig, ["shin", "thigh"], "shin")
    empty.select_set(True)
    before = pose(rig)
    bpy.ops.ik_chain.add()
    chain = rig.ik_chains[0]
    assert (chain.target_space, chain.target, chain.subtarget) == ("CUSTOM", empty, "")
    assert pose_difference(pose(rig), before) < STILL
    empty.location.z += 0.1
    assert abs(pose(rig)["foot"][2][3] - before["foot"][2][3] - 0.1) < 1e-5


@pytest.mark.parametrize("active", ["shin", "control"])
def test_add_takes_a_selected_bone_beside_the_chain_as_target(rig: bpy.types.Object, active: str) -> None:
    select_bones(rig, ["control", "thigh", "shin"], active)
    before = pose(rig)
    bpy.ops.ik_chain.add()
    chain = rig.ik_chains[0]
    assert settings(chain) == ("TWO_BONE", "thigh", "shin", True)
    assert (chain.target_space, chain.target, chain.subtarget) == ("CUSTOM", rig, "control")
    assert pose_difference(pose(rig), before) < STILL


def test_add_takes_a_bone_of_another_armature_as_target(rig: bpy.types.Object) -> None:
    other = make_rig("Prop")
    select_bones(other, ["hips"])
    bpy.ops.object.mode_set(mode="OBJECT")
    other.select_set(True)
    rig.select_set(True)
    select_bones(rig, ["thigh", "shin"])
    assert other.mode == "POSE"
    bpy.ops.ik_chain.add()
    assert (rig.ik_chains[0].target, rig.ik_chains[0].subtarget) == (other, "hips")
    assert len(other.ik_chains) == 0


def test_the_active_bone_decides_between_a_chain_and_its_target(rig: bpy.types.Object) -> None:
    select_bones(rig, ["control", "shin"], "shin")
    bpy.ops.ik_chain.add()
    assert settings(rig.ik_chains[0]) == ("TWO_BONE", "thigh", "shin", True)
    assert rig.ik_chains[0].subtarget == "control"


def test_a_mesh_that_the_rig_deforms_is_no_target(rig: bpy.types.Object) -> None:
    body = bpy.data.objects.new("Body", bpy.data.meshes.new("Body"))
    bpy.context.scene.collection.objects.link(body)
    body.modifiers.new("Armature", "ARMATURE").object = rig
    select_bones(rig, ["thigh", "shin"])
    body.select_set(True)
    bpy.ops.ik_chain.add()
    assert rig.ik_chains[0].target is None


def test_add_with_everything_given_looks_at_no_selection(rig: bpy.types.Object) -> None:
    empty, door = make_empty("Selected", (1.0, 0.0, 0.0)), make_empty("Door", (0.0, 1.0, 0.0))
    select_bones(rig, ["foot"])
    empty.select_set(True)
    out_of_sight(rig)
    done = bpy.ops.ik_chain.add(
        object="Rig",
        name="left leg",
        solver="FABRIK",
        root_bone="hips",
        end_bone="foot",
        use_tail=False,
        target="Door",
    )
    assert done == {"FINISHED"}
    chain = rig.ik_chains[0]
    assert settings(chain) == ("FABRIK", "hips", "foot", False)
    assert (chain.name, chain.target_space, chain.target) == ("left leg", "CUSTOM", door)
    assert bpy.ops.ik_chain.add(object="Rig", end_bone="shin") == {"FINISHED"}
    assert settings(rig.ik_chains[1]) == ("TWO_BONE", "thigh", "shin", True)
    assert rig.ik_chains[1].target is None


def test_add_tells_of_bones_that_another_chain_turns(rig: bpy.types.Object, capfd: Any) -> None:
    """The later chain in the list counts, as the message says, wherever they are moved."""
    bpy.ops.ik_chain.add(object="Rig", end_bone="shin", name="one")
    assert "too" not in capfd.readouterr().out
    bpy.ops.ik_chain.add(object="Rig", end_bone="shin", name="two")
    told = capfd.readouterr().out
    assert "'one' turns bones of 'two', too: the later one in the list counts" in told
    one, two = rig.ik_chains
    one.target_location[0] += 0.1
    two.target_location[1] += 0.1
    for later in ("two", "one"):
        bpy.context.view_layer.update()
        assert {c.name for c in rig.ik_chains if c.status == "OK"} == {later}
        bpy.ops.ik_chain.move(object="Rig", chain=rig.ik_chains[0].name, direction="DOWN")


def test_add_tells_that_a_bone_alone_aims(rig: bpy.types.Object, capfd: Any) -> None:
    bpy.ops.ik_chain.add(object="Rig", end_bone="hips", name="eye")
    assert rig.ik_chains[0].solver == "AIM"
    assert "'eye' has one bone: it aims at its target" in capfd.readouterr().out
    bpy.ops.ik_chain.add(object="Rig", end_bone="hips", solver="AIM", name="again")
    assert "it aims" not in capfd.readouterr().out


@pytest.mark.parametrize("hidden", ["eye", "screen", "excluded", "unlinked"])
def test_add_puts_the_target_of_a_hidden_rig_at_its_tip(rig: bpy.types.Object, hidden: str) -> None:
    scene = bpy.context.scene
    rig.location = (1.0, 2.0, 3.0)
    rig.pose.bones["thigh"].rotation_quaternion = (0.9, 0.3, 0.1, 0.2)
    before = pose(rig)
    tip = rig.matrix_world @ rig.pose.bones["shin"].tail
    rig.pose.bones["thigh"].rotation_quaternion = (0.9, 0.3, 0.1, 0.5)
    assert pose_difference(pose(rig), before) > 0.01
    out_of_sight(rig)
    if hidden == "screen":
        rig.hide_viewport = True
    elif hidden == "excluded":
        collection = bpy.data.collections.new("Away")
        scene.collection.children.link(collection)
        collection.objects.link(rig)
        bpy.context.view_layer.layer_collection.children["Away"].exclude = True
    if hidden in ("excluded", "unlinked"):
        scene.collection.objects.unlink(rig)
    bpy.context.view_layer.update()
    rig.pose.bones["thigh"].rotation_quaternion = (0.9, 0.3, 0.1, 0.2)
    assert bpy.ops.ik_chain.add(object="Rig", end_bone="shin") == {"FINISHED"}
    assert (rig.ik_chains[0].target_location - tip).length < STILL
    if hidden in ("excluded", "unlinked"):
        scene.collection.objects.link(rig)
    rig.hide_viewport = False
    rig.hide_set(False)
    assert pose_difference(pose(rig), before) < 3 * STILL


@pytest.mark.parametrize("scale", [(1.0, 1.0, 1.0), (-1.0, 1.0, 1.0), (-2.0, -2.0, -2.0), (1.0, 2.0, 1.0)])
@pytest.mark.parametrize("space", ["WORLD", "ARMATURE", "CUSTOM"])
def test_a_foot_that_takes_the_rotation_stays_in_mirrored_and_uneven_spaces(
    rig: bpy.types.Object, space: str, scale: tuple[float, float, float]
) -> None:
    door = make_empty("Door", (1.0, 2.0, 3.0))
    door.rotation_euler, door.scale = (1.0, 2.0, 0.3), (2.0, 2.0, -2.0)
    rig.rotation_euler, rig.scale = (0.3, 0.2, 0.1), scale
    for bone in ("shin", "foot"):
        rig.pose.bones[bone].rotation_quaternion = (0.9, 0.3, -0.1, 0.2)
    target = {"target": door} if space == "CUSTOM" else {}
    before = pose(rig)
    foot = {"solver": "TWO_BONE", "use_tail": False, "use_rotation": True, "target_space": space}
    chains.add(rig, "thigh", "foot", **foot, **target)
    assert pose_difference(pose(rig), before) < 2 * STILL


def test_add_keeps_a_target_space_that_is_given(rig: bpy.types.Object) -> None:
    bpy.ops.ik_chain.add(object="Rig", end_bone="shin", target_space="ARMATURE")
    assert rig.ik_chains[0].target_space == "ARMATURE"


def test_names_are_unique_and_the_new_chain_is_active(rig: bpy.types.Object) -> None:
    for _ in range(2):
        bpy.ops.ik_chain.add(object="Rig", end_bone="shin", name="leg")
    assert [chain.name for chain in rig.ik_chains] == ["leg", "leg.001"]
    assert rig.ik_chains_index == 1


@pytest.mark.parametrize(
    ("selected", "properties", "words"),
    [
        ([], {}, "Select bones of 'Rig'"),
        (["shin"], {"object": "Nobody"}, "no object 'Nobody'"),
        (["shin"], {"object": "Door"}, "'Door' is not an armature"),
        ([], {"end_bone": "shine"}, "'Rig' has no bone 'shine'"),
        ([], {"end_bone": "shin", "root_bone": "foot"}, "not below root bone 'foot'"),
        ([], {"end_bone": "foot", "root_bone": "hips", "solver": "TWO_BONE"}, "two bones, not 4"),
        ([], {"end_bone": "shin", "target": "Nobody"}, "no object 'Nobody'"),
        ([], {"end_bone": "shin", "target": "Rig", "subtarget": "tail"}, "'tail' does not exist"),
        ([], {"end_bone": "shin", "target_space": "CUSTOM"}, "no target object"),
        ([], {"end_bone": "control", "use_tail": False, "solver": "FABRIK"}, "no bone is left to turn"),
    ],
)
def test_add_refuses(
    rig: bpy.types.Object, selected: list[str], properties: dict[str, Any], words: str
) -> None:
    make_empty("Door", (0.0, 0.0, 0.0))
    select_bones(rig, selected)
    assert words in refused(bpy.ops.ik_chain.add, **properties)


def test_add_refuses_a_selection_with_several_readings(rig: bpy.types.Object) -> None:
    select_bones(rig, ["shin", "control"], "shin")
    rig.data.bones.active = None
    assert "make the end bone of the chain active" in refused(bpy.ops.ik_chain.add)
    select_bones(rig, ["thigh", "shin"])
    make_empty("Door", (0.0, 0.0, 0.0)).select_set(True)
    make_empty("Chair", (0.0, 0.0, 0.0)).select_set(True)
    message = refused(bpy.ops.ik_chain.add)
    assert "Only one object" in message and "'Chair'" in message and "'Door'" in message


def test_add_refuses_in_object_and_edit_mode(rig: bpy.types.Object) -> None:
    select_bones(rig, ["shin"])
    bpy.ops.object.mode_set(mode="OBJECT")
    assert "in Pose Mode" in refused(bpy.ops.ik_chain.add)
    bpy.ops.object.mode_set(mode="EDIT")
    assert "Edit Mode" in refused(bpy.ops.ik_chain.add, object="Rig", end_bone="shin")


# Removing and moving


@pytest.fixture
def three(rig: bpy.types.Object) -> bpy.types.Object:
    for name, end in (("leg", "shin"), ("aim", "hips"), ("toe", "foot")):
        bpy.ops.ik_chain.add(object="Rig", name=name, end_bone=end, solver="AIM" if name != "leg" else "AUTO")
    return rig


def names(ob: bpy.types.Object) -> list[str]:
    return [chain.name for chain in ob.ik_chains]


def test_remove_gives_the_fk_pose_back(rig: bpy.types.Object) -> None:
    before = pose(rig)
    bpy.ops.ik_chain.add(object="Rig", end_bone="shin")
    rig.ik_chains[0].target_location.z += 0.2
    assert pose_difference(pose(rig), before) > 0.1
    out_of_sight(rig)
    assert bpy.ops.ik_chain.remove(object="Rig", chain="shin") == {"FINISHED"}
    assert names(rig) == []
    rig.hide_set(False)
    assert pose(rig) == before


def test_remove_takes_the_active_chain_and_leaves_a_neighbour_active(three: bpy.types.Object) -> None:
    three.ik_chains_index = 1
    bpy.ops.ik_chain.remove()
    assert (names(three), three.ik_chains_index) == (["leg", "toe"], 1)
    bpy.ops.ik_chain.remove()
    assert (names(three), three.ik_chains_index) == (["leg"], 0)


def test_move_keeps_curves_and_drivers_on_their_chain(three: bpy.types.Object) -> None:
    three.ik_chains["leg"].influence = 0.25
    three.ik_chains["leg"].keyframe_insert("influence", frame=1)
    driver = three.driver_add("ik_chains[2].softness").driver
    driver.type, driver.expression = "SCRIPTED", "0.125"
    assert bpy.ops.ik_chain.move(object="Rig", chain="leg", direction="DOWN") == {"FINISHED"}
    assert bpy.ops.ik_chain.move(object="Rig", chain="toe", direction="UP") == {"FINISHED"}
    assert names(three) == ["aim", "toe", "leg"]
    assert three.ik_chains_index == 1
    for chain in three.ik_chains:
        chain.influence, chain.softness = 1.0, 0.0
    bpy.context.scene.frame_set(5)
    seen = three.evaluated_get(bpy.context.evaluated_depsgraph_get()).ik_chains
    assert {c.name: (c.influence, c.softness) for c in seen} == {
        "aim": (1.0, 0.0), "toe": (1.0, 0.125), "leg": (0.25, 0.0)
    }  # fmt: skip


@pytest.mark.parametrize("operator", ["move", "remove"])
def test_another_rig_that_plays_the_same_action_keeps_its_curves(
    three: bpy.types.Object, operator: str
) -> None:
    """As after duplicating a rig: its chains stand as they stood, so their curves must stay, too."""
    three.ik_chains["toe"].influence = 0.25
    three.ik_chains["toe"].keyframe_insert("influence", frame=1)
    other = three.copy()
    bpy.context.scene.collection.objects.link(other)
    assert other.animation_data.action == three.animation_data.action
    if operator == "move":
        bpy.ops.ik_chain.move(object="Rig", chain="toe", direction="UP")
    else:
        bpy.ops.ik_chain.remove(object="Rig", chain="leg")
    for ob in (three, other):
        for chain in ob.ik_chains:
            chain.influence = 1.0
    bpy.context.scene.frame_set(5)
    graph = bpy.context.evaluated_depsgraph_get()
    for ob in (three, other):
        influences = {chain.name: chain.influence for chain in ob.evaluated_get(graph).ik_chains}
        assert influences == {name: 0.25 if name == "toe" else 1.0 for name in names(ob)}


@pytest.mark.parametrize(
    ("operator", "properties", "words"),
    [
        ("remove", {"object": "Rig", "chain": "arm"}, "no IK chain 'arm'"),
        ("remove", {"object": "Nobody"}, "no object 'Nobody'"),
        ("remove", {"object": "Bare"}, "'Bare' has no IK chain"),
        ("move", {"object": "Rig", "chain": "leg", "direction": "UP"}, "'leg' is the first IK chain"),
        ("move", {"object": "Rig", "chain": "toe", "direction": "DOWN"}, "'toe' is the last IK chain"),
    ],
)
def test_remove_and_move_refuse(
    three: bpy.types.Object, operator: str, properties: dict[str, Any], words: str
) -> None:
    make_rig("Bare")
    assert words in refused(getattr(bpy.ops.ik_chain, operator), **properties)


def test_no_active_object_and_no_active_chain(three: bpy.types.Object) -> None:
    three.ik_chains_index = 7
    assert "no active IK chain" in refused(bpy.ops.ik_chain.remove)
    bpy.context.view_layer.objects.active = None
    assert "There is no active object" in refused(bpy.ops.ik_chain.remove)


def test_a_linked_rig_is_refused(three: bpy.types.Object, tmp_path: Any) -> None:
    path = str(tmp_path / "library.blend")
    bpy.ops.wm.save_as_mainfile(filepath=path)
    bpy.ops.wm.read_factory_settings(use_empty=True)
    with bpy.data.libraries.load(path, link=True) as (_, loaded):
        loaded.objects = ["Rig"]
    bpy.context.scene.collection.objects.link(loaded.objects[0])
    assert "'Rig' is linked" in refused(bpy.ops.ik_chain.remove, object="Rig")


@pytest.fixture
def override(three: bpy.types.Object, tmp_path: Any) -> bpy.types.Object:
    """A library override of a rig with three chains, with a fourth chain of its own."""
    path = str(tmp_path / "library.blend")
    bpy.ops.wm.save_as_mainfile(filepath=path)
    bpy.ops.wm.read_factory_settings(use_empty=True)
    with bpy.data.libraries.load(path, link=True) as (_, loaded):
        loaded.objects = ["Rig"]
    bpy.context.scene.collection.objects.link(loaded.objects[0])
    ob = loaded.objects[0].override_create(remap_local_usages=True)
    assert bpy.ops.ik_chain.add(object="Rig", name="own", end_bone="control") == {"FINISHED"}
    return ob


def reload(path: Any) -> bpy.types.Object:
    """The overridden rig after the file was saved and loaded again."""
    bpy.ops.wm.save_as_mainfile(filepath=str(path))
    bpy.ops.wm.open_mainfile(filepath=str(path))
    return bpy.data.objects["Rig", None]


def test_an_override_keeps_the_chains_of_its_library(override: bpy.types.Object, tmp_path: Any) -> None:
    assert "comes from the rig's library" in refused(bpy.ops.ik_chain.remove, object="Rig", chain="leg")
    override.ik_chains["leg"].name = "renamed"
    override.ik_chains["own"].name = "mine"
    expected = ["leg", "aim", "toe", "mine"]
    assert names(override) == expected
    assert names(reload(tmp_path / "shot.blend")) == expected


def test_own_chains_of_an_override_move_and_go(override: bpy.types.Object, tmp_path: Any) -> None:
    bpy.ops.ik_chain.move(object="Rig", chain="own", direction="UP")
    assert names(reload(tmp_path / "shot.blend")) == ["leg", "aim", "own", "toe"]
    bpy.ops.ik_chain.remove(object="Rig", chain="own")
    assert names(reload(tmp_path / "shot.blend")) == ["leg", "aim", "toe"]


def test_a_chain_that_the_library_gets_later_stays_apart_from_own_ones(
    override: bpy.types.Object, tmp_path: Any
) -> None:
    """Both got their driver variables without knowing of each other."""
    shot, library = str(tmp_path / "shot.blend"), str(tmp_path / "library.blend")
    bpy.ops.wm.save_as_mainfile(filepath=shot)
    bpy.ops.wm.open_mainfile(filepath=library)
    bpy.ops.ik_chain.add(object="Rig", name="late", end_bone="foot", solver="AIM")
    bpy.ops.wm.save_as_mainfile(filepath=library)
    bpy.ops.wm.open_mainfile(filepath=shot)
    bpy.context.scene.frame_set(2)
    ob = bpy.data.objects["Rig", None]
    ends = {chain.name: chain.end_bone for chain in ob.ik_chains}
    assert ends == {"leg": "shin", "aim": "hips", "toe": "foot", "own": "control", "late": "foot"}
    assert len({chain.uid for chain in ob.ik_chains}) == len(ob.ik_chains)


# Baking


@pytest.fixture
def walk(rig: bpy.types.Object) -> bpy.types.Object:
    """Two chains on targets of their own, of which one moves; ten frames, nothing selected, hidden."""
    scene = bpy.context.scene
    scene.frame_start, scene.frame_end = 1, 10
    door = make_empty("Door", (0.2, -0.1, 0.3))
    for frame, height in ((1, 0.3), (10, 0.5)):
        door.location.z = height
        door.keyframe_insert("location", frame=frame)
    bpy.ops.ik_chain.add(object="Rig", name="leg[1]", end_bone="shin", target="Door")
    rig.ik_chains[0].target_location = (0.0, 0.0, 0.0)
    bpy.ops.ik_chain.add(object="Rig", name="prop", end_bone="control")
    rig.ik_chains[1].target_location = (0.3, 0.2, 0.1)
    scene.frame_set(1)
    out_of_sight(rig)
    return rig


def keyed(ob: bpy.types.Object) -> dict[str, list[float]]:
    """Frames of the keys of each bone."""
    actions = dump()["actions"]
    curves = actions[ob.animation_data.action.name] if ob.animation_data.action else []
    return {
        path.split('"')[1]: [frame for frame, _ in points]
        for _, path, index, _, points in curves
        if path.startswith("pose") and index == 0
    }


ALL_FRAMES = [float(frame) for frame in range(1, 11)]


@pytest.mark.parametrize(
    ("properties", "frames"),
    [
        ({"chain": "leg[1]"}, {"thigh": ALL_FRAMES, "shin": ALL_FRAMES}),
        ({}, {"control": ALL_FRAMES}),
        ({"scope": "ALL"}, dict.fromkeys(("thigh", "shin", "control"), ALL_FRAMES)),
        ({"step": 4}, {"control": [1.0, 5.0, 9.0, 10.0]}),
        ({"frame_range": "CUSTOM", "frame_start": 1, "frame_end": 12, "step": 11}, {"control": [1.0, 12.0]}),
        ({"frame_start": 1, "frame_end": 12, "step": 11}, {"control": [1.0, 12.0]}),
        ({"frame_end": 11, "step": 10}, {"control": [1.0, 11.0]}),
        ({"frame_range": "SCENE", "frame_end": 99, "step": 9}, {"control": [1.0, 10.0]}),
    ],
    ids=["named", "active", "all", "step", "custom range", "range as given", "end as given", "scene range"],
)
def test_bake_keys_the_chosen_chains_in_the_range(
    walk: bpy.types.Object, properties: dict[str, Any], frames: dict[str, list[float]]
) -> None:
    assert bpy.ops.ik_chain.bake(object="Rig", **properties) == {"FINISHED"}
    assert keyed(walk) == frames


def test_bake_takes_the_preview_range(walk: bpy.types.Object) -> None:
    scene = bpy.context.scene
    scene.use_preview_range = True
    scene.frame_preview_start, scene.frame_preview_end = 3, 5
    bpy.ops.ik_chain.bake(object="Rig")
    assert [frame for frame in keyed(walk)["control"] if 3 <= frame <= 5] == [3.0, 4.0, 5.0]
    assert not {1.0, 7.0} & set(keyed(walk)["control"])


def test_bake_and_unbake_bring_everything_back(walk: bpy.types.Object, capfd: Any) -> None:
    walk.hide_set(False)
    before = {}
    for frame in (1, 6, 10):
        bpy.context.scene.frame_set(frame)
        before[frame] = pose(walk)
    bpy.context.scene.frame_set(1)
    bpy.ops.ik_chain.bake(object="Rig", scope="ALL")
    assert "largest residual" in capfd.readouterr().out
    assert all(chain.mute for chain in walk.ik_chains)
    for frame in (6, 10, 1):
        bpy.context.scene.frame_set(frame)
        assert pose_difference(pose(walk), before[frame]) < 2 * STILL
    bpy.ops.ik_chain.unbake(object="Rig", chain="leg[1]")
    assert [chain.mute for chain in walk.ik_chains] == [False, True]
    bpy.ops.ik_chain.unbake(object="Rig", scope="ALL")
    assert not any(chain.mute for chain in walk.ik_chains)
    assert keyed(walk) == {}
    bpy.context.scene.frame_set(6)
    assert pose_difference(pose(walk), before[6]) < 2 * STILL


def test_a_new_chain_does_not_inherit_the_bake_of_a_removed_one(walk: bpy.types.Object) -> None:
    bpy.ops.ik_chain.bake(object="Rig", chain="prop")
    bpy.ops.ik_chain.remove(object="Rig", chain="prop")
    assert set(keyed(walk)) == {"control"}
    bpy.ops.ik_chain.add(object="Rig", name="prop", end_bone="control")
    assert "nothing is baked" in refused(bpy.ops.ik_chain.unbake, object="Rig", chain="prop")


@pytest.mark.parametrize(
    ("operator", "properties", "words"),
    [
        ("bake", {"chain": "arm"}, "no IK chain 'arm'"),
        ("bake", {"frame_start": 10, "frame_end": 5}, "is before the first"),
        ("bake", {"chain": "broken"}, "'broken' was not baked: "),
        ("bake", {"object": "Bare"}, "'Bare' has no IK chain"),
        ("unbake", {}, "nothing is baked"),
    ],
)
def test_bake_and_unbake_refuse(
    walk: bpy.types.Object, operator: str, properties: dict[str, Any], words: str
) -> None:
    make_rig("Bare")
    bpy.ops.ik_chain.add(object="Rig", name="broken", end_bone="hips")
    walk.ik_chains["broken"].end_bone = "gone"
    assert words in refused(getattr(bpy.ops.ik_chain, operator), **{"object": "Rig", **properties})


def test_a_chain_that_cannot_be_baked_is_told_and_the_others_are_baked(
    walk: bpy.types.Object, capfd: Any
) -> None:
    walk.ik_chains["prop"].mute = True
    assert bpy.ops.ik_chain.bake(object="Rig", scope="ALL") == {"FINISHED"}
    assert "'prop' was not baked: it is muted" in capfd.readouterr().out
    assert set(keyed(walk)) == {"thigh", "shin"}


class Job:
    """Stands in for the operator of a bake in a window, with what the window does for it."""

    def __init__(self, ob: bpy.types.Object) -> None:
        options = bake.BakeOptions((1, 10), 1, None)
        self.job = bake.bake(bpy.context.scene, [ob], options)
        next(self.job)
        self.timer, self.shown, self.reports = "timer", [], []
        self.context = SimpleNamespace(
            window_manager=SimpleNamespace(
                event_timer_remove=lambda timer: self.shown.append(timer),
                progress_update=lambda percent: self.shown.append(percent),
                progress_end=lambda: self.shown.append("end"),
            ),
            workspace=SimpleNamespace(status_text_set=lambda text: self.shown.append(text)),
        )

    def __getattr__(self, name: str) -> Any:
        found = getattr(bake_ops.IKCHAIN_OT_bake, name)
        return found.__get__(self) if callable(found) else found

    def report(self, _kind: set[str], text: str) -> None:
        self.reports.append(text)

    def press(self, key: str) -> set[str]:
        return self.modal(self.context, SimpleNamespace(type=key))


def test_a_bake_in_a_window_shows_progress_and_ends(
    walk: bpy.types.Object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(range_job, "SLICE", 0.0001)
    job = Job(walk)
    assert job.press("MOUSEMOVE") == {"RUNNING_MODAL"}
    states = []
    while not states or states[-1] == {"RUNNING_MODAL"}:
        states.append(job.press("TIMER"))
    assert states[-1] == {"FINISHED"}
    percents = [item for item in job.shown if isinstance(item, float)]
    assert len(percents) > 2 and percents == sorted(percents) and percents[-1] <= 100.0
    assert any("Esc: Cancel" in item for item in job.shown if isinstance(item, str))
    assert job.shown[-3:] == ["timer", "end", None]
    assert "Baked" in job.reports[-1]
    assert keyed(walk)["thigh"] == ALL_FRAMES


@pytest.mark.parametrize("key", ["ESC", "closed"])
def test_a_bake_that_is_cancelled_has_changed_nothing(
    walk: bpy.types.Object, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setattr(range_job, "SLICE", 0.0001)
    before = dump()
    job = Job(walk)
    assert job.press("TIMER") == {"RUNNING_MODAL"}
    if key == "ESC":
        assert job.press(key) == {"CANCELLED"}
        assert job.reports == ["The bake was cancelled and has changed nothing"]
    else:
        job.cancel(job.context)
    assert job.shown[-3:] == ["timer", "end", None]
    assert dump() == before
    bpy.context.scene.frame_set(5)
    assert walk.ik_chains["leg[1]"].status == "OK"


# Polling

CHAIN_OPERATORS = ("remove", "move", "snap_fk", "snap_ik", "bake", "unbake", "plot_residual")


@pytest.mark.parametrize("name", CHAIN_OPERATORS)
def test_poll_says_that_there_is_no_chain(rig: bpy.types.Object, name: str) -> None:
    assert not getattr(bpy.ops.ik_chain, name).poll()
    assert "No armature object has an IK chain" in refused(getattr(bpy.ops.ik_chain, name))


def test_poll_says_that_there_is_no_armature() -> None:
    make_empty("Door", (0.0, 0.0, 0.0))
    assert not bpy.ops.ik_chain.add.poll()
    assert "no armature" in refused(bpy.ops.ik_chain.add, object="Door")


@pytest.mark.parametrize("name", CHAIN_OPERATORS)
def test_poll_leaves_the_choice_of_the_rig_to_the_properties(three: bpy.types.Object, name: str) -> None:
    before = dump()
    bpy.context.view_layer.objects.active = None
    assert getattr(bpy.ops.ik_chain, name).poll()
    assert dump() == before
