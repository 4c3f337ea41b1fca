# SPDX-License-Identifier: GPL-3.0-or-later
"""Dragging targets and poles: where the gizmos are, and what a drag writes. Without a window."""

import math
from types import SimpleNamespace
from typing import Any

import bpy
import numpy as np
import pytest
from bone_rigs import bone_world, update, world
from mathutils import Matrix, Vector
from rig_state import differences, dump
from test_switch_space import PARENTS, SPACES, chain_keys, make, put_into, target_place

from ik_addon.blender import handles
from ik_addon.ops import drag_op
from ik_addon.ui import gizmos

pytestmark = pytest.mark.usefixtures("fresh")


def drag(**properties: Any) -> set[str]:
    return bpy.ops.ik_chain.drag(object="Rig", chain="leg", **properties)


def places(ob: bpy.types.Object) -> dict[gizmos.Way, Matrix]:
    update()
    return gizmos.place_all(ob, bpy.context.evaluated_depsgraph_get())


def shown(ob: bpy.types.Object) -> set[tuple[str, str]]:
    return {(part, action) for part, action, _ in places(ob)}


def rotation(matrix: Any) -> np.ndarray:
    """Of a matrix whose columns are at right angles; a mirrored one keeps its Y and Z."""
    columns = np.array(matrix, float)[:3, :3]
    columns = columns / np.linalg.norm(columns, axis=0)
    return columns * np.sign(np.linalg.det(columns)) ** np.array((1, 0, 0))


# What is shown, and where


@pytest.mark.parametrize("parents", PARENTS)
@pytest.mark.parametrize("space", SPACES)
def test_gizmos_are_at_the_target(space: str, parents: str) -> None:
    ob = make(parents)
    put_into(ob, space)
    found = places(ob)
    assert np.allclose(found["TARGET", "MOVE", "FREE"].translation, target_place(ob), atol=1e-5)
    for action in ("MOVE", "TURN"):
        for axis in "XYZ":
            gizmo, target = found["TARGET", action, axis], found["TARGET", "MOVE", "FREE"]
            # Arrows and dials stand along their own Z.
            assert np.allclose(gizmo.col[2], target.col["XYZ".index(axis)], atol=1e-6)
            assert gizmo.translation == target.translation
    if parents not in ("uneven", "mirrored"):
        # The foot takes the rotation that the gizmo shows.
        assert np.allclose(
            rotation(found["TARGET", "MOVE", "FREE"]), rotation(bone_world(ob, "foot")), atol=1e-4
        )


@pytest.mark.parametrize("parents", ["turning", "scaled"])
@pytest.mark.parametrize("space", SPACES)
def test_arrows_point_along_the_fields_of_a_target_without_rotation(space: str, parents: str) -> None:
    """Its stored rotation, which the chain does not take, is that of the foot."""
    ob = make(parents)
    put_into(ob, space)
    chain = ob.ik_chains["leg"]
    chain.use_rotation = False
    for axis in range(3):
        along = Vector(places(ob)["TARGET", "MOVE", "XYZ"[axis]].col[2][:3])
        before = np.array(chain.target_location)
        drag(offset=0.05 * along.normalized())
        change = np.abs(np.array(chain.target_location) - before)
        assert change[axis] > 1e-3 and np.delete(change, axis).max() < 1e-5


def test_what_is_shown_is_what_can_be_dragged() -> None:
    ob = make()
    chain = ob.ik_chains["leg"]
    assert shown(ob) == {("TARGET", "MOVE"), ("TARGET", "TURN")}
    chain.use_rotation = False
    assert shown(ob) == {("TARGET", "MOVE")}
    chain.pole_mode, chain.pole_location = "POINT", (0.0, -1.0, 0.5)
    assert shown(ob) == {("TARGET", "MOVE"), ("POLE", "MOVE")}
    assert np.allclose(places(ob)["POLE", "MOVE", "FREE"].translation, target_place(ob, "POLE"), atol=1e-6)
    chain.pole_mode = "DIRECTION"
    assert shown(ob) == {("TARGET", "MOVE"), ("POLE", "MOVE")}
    chain.pole_location = (0.0, 0.0, 0.0)
    assert shown(ob) == {("TARGET", "MOVE")}
    chain.target_space, chain.target, chain.target_location = "CUSTOM", bpy.data.objects["Door"], (0, 0, 0)
    assert shown(ob) == set()
    chain.target_location = (0.1, 0.0, 0.0)
    assert shown(ob) == {("TARGET", "MOVE")}
    chain.target = None
    assert shown(ob) == set()


def test_an_aim_that_copies_is_turned_where_its_bone_is() -> None:
    ob = make()
    bpy.ops.ik_chain.add(object="Rig", end_bone="control", solver="AIM", name="aim")
    ob.ik_chains["aim"].aim_mode = "MATCH_ROTATION"
    assert shown(ob) == {("TARGET", "TURN")}
    head = bone_world(ob, "control")[:3, 3]
    assert np.allclose(places(ob)["TARGET", "TURN", "X"].translation, head, atol=1e-6)


def test_a_broken_chain_shows_nothing() -> None:
    ob = make()
    chain = ob.ik_chains["leg"]
    chain.solver, chain.aim_mode, chain.end_bone = "AIM", "MATCH_ROTATION", "nothing"
    assert places(ob) == {}


def poll(ob: bpy.types.Object | None, show: bool = True) -> bool:
    view = SimpleNamespace(show_gizmo_context=show)
    return gizmos.IKCHAIN_GGT_handles.poll(SimpleNamespace(object=ob, space_data=view))


def test_shown_for_the_active_chain_in_object_and_pose_mode() -> None:
    ob = make()
    assert poll(ob)
    assert not poll(ob, show=False)
    assert not poll(None) and not poll(bpy.data.objects["Door"]) and not poll(bpy.data.objects["Other"])
    bpy.context.view_layer.objects.active = ob
    bpy.ops.object.mode_set(mode="POSE")
    assert poll(ob)
    bpy.ops.object.mode_set(mode="EDIT")
    assert not poll(ob)
    bpy.ops.object.mode_set(mode="OBJECT")
    ob.ik_chains["leg"].mute = True
    assert not poll(ob)
    ob.ik_chains_index = 7
    assert not poll(ob)


class Gizmo(SimpleNamespace):
    """Takes what a gizmo takes."""

    def target_set_operator(self, name: str) -> Any:
        module, operator = name.split(".")
        self.asked = SimpleNamespace()
        assert operator in dir(getattr(bpy.ops, module))
        return self.asked


def test_each_gizmo_asks_for_its_own_drag() -> None:
    ob = make()
    made: list[Gizmo] = []

    def new(kind: str) -> Gizmo:
        made.append(Gizmo(kind=kind))
        return made[-1]

    group = SimpleNamespace(gizmos=SimpleNamespace(new=new))
    context = SimpleNamespace(
        object=ob, view_layer=bpy.context.view_layer, preferences=bpy.context.preferences
    )
    gizmos.IKCHAIN_GGT_handles.setup(group, context)
    asked = [(gizmo.asked.part, gizmo.asked.action, gizmo.asked.axis) for gizmo in made]
    assert asked == list(gizmos.ways()) and len(set(asked)) == 8
    gizmos.IKCHAIN_GGT_handles.draw_prepare(group, context)
    found = places(ob)
    assert {way for way, gizmo in zip(asked, made, strict=True) if not gizmo.hide} == set(found)
    assert all(
        gizmo.matrix_basis == found[way] for way, gizmo in zip(asked, made, strict=True) if way in found
    )


# What a drag writes


@pytest.mark.parametrize("parents", PARENTS)
@pytest.mark.parametrize("space", SPACES)
def test_a_move_is_one_in_the_world(space: str, parents: str) -> None:
    ob = make(parents)
    put_into(ob, space)
    before, turn = target_place(ob), tuple(ob.ik_chains["leg"].target_rotation)
    assert drag(offset=(0.03, -0.02, 0.05)) == {"FINISHED"}
    assert np.allclose(target_place(ob) - before, (0.03, -0.02, 0.05), atol=1e-6)
    assert tuple(ob.ik_chains["leg"].target_rotation) == turn
    assert ob.ik_chains["leg"].target_space == ("CUSTOM" if space in SPACES[2:] else space)
    assert chain_keys(ob) == {}


@pytest.mark.parametrize("axis", "XYZ")
@pytest.mark.parametrize("parents", ["turning", "scaled"])
@pytest.mark.parametrize("space", SPACES)
def test_a_turn_is_one_about_its_own_axis(space: str, parents: str, axis: str) -> None:
    ob = make(parents)
    put_into(ob, space)
    update()
    before, place = rotation(bone_world(ob, "foot")), tuple(ob.ik_chains["leg"].target_location)
    assert drag(action="TURN", axis=axis, angle=0.4) == {"FINISHED"}
    update()
    wanted = before @ np.array(Matrix.Rotation(0.4, 3, axis))
    assert np.allclose(rotation(bone_world(ob, "foot")), wanted, atol=1e-4)
    assert tuple(ob.ik_chains["leg"].target_location) == place


@pytest.mark.parametrize("parents", ["uneven", "mirrored"])
def test_no_turn_is_none_under_any_scale(parents: str) -> None:
    ob = make(parents)
    update()
    before = bone_world(ob, "foot")
    drag(action="TURN", axis="X", angle=0.0)
    update()
    assert np.allclose(bone_world(ob, "foot"), before, atol=1e-5)


def test_an_aim_is_turned_before_its_yaw() -> None:
    ob = make()
    bpy.ops.ik_chain.add(object="Rig", end_bone="control", solver="AIM", name="leg 2")
    chain = ob.ik_chains["leg 2"]
    chain.aim_mode, chain.offset_yaw = "MATCH_ROTATION", 0.5
    before = chain.target_rotation.copy()
    assert bpy.ops.ik_chain.drag(object="Rig", chain="leg 2", action="TURN", axis="Z", angle=0.3) == {
        "FINISHED"
    }
    turn = before.rotation_difference(chain.target_rotation)
    assert np.allclose(turn.axis * turn.angle, (0.0, 0.0, 0.3), atol=1e-5)


def test_a_pole_is_dragged_in_its_space() -> None:
    ob = make("turning")
    chain = ob.ik_chains["leg"]
    chain.pole_mode, chain.pole_location = "POINT", (0.4, -0.8, 0.3)
    before = target_place(ob, "POLE")
    assert drag(part="POLE", offset=(0.1, 0.0, -0.2)) == {"FINISHED"}
    assert np.allclose(target_place(ob, "POLE") - before, (0.1, 0.0, -0.2), atol=1e-6)
    assert chain.pole_space == "ARMATURE"
    assert not np.allclose(chain.pole_location, np.array((0.5, -0.8, 0.1)), atol=1e-3)
    assert np.abs(world(ob)[:3, :3] - np.eye(3)).max() > 0.01


@pytest.mark.parametrize("parents", PARENTS)
def test_a_direction_is_dragged_by_the_point_it_leads_to(parents: str) -> None:
    ob = make(parents)
    chain = ob.ik_chains["leg"]
    chain.pole_mode, chain.pole_location = "DIRECTION", (0.4, -0.8, 0.3)
    update()
    root, before = bone_world(ob, "thigh")[:3, 3], places(ob)["POLE", "MOVE", "FREE"].translation
    leads = world(ob)[:3, :3] @ np.array((0.4, -0.8, 0.3))
    assert np.allclose(np.cross(np.array(before) - root, leads), 0.0, atol=1e-5)
    assert np.dot(np.array(before) - root, leads) > 0.0
    move = Vector((0.2, 0.1, -0.1))
    assert drag(part="POLE", offset=move) == {"FINISHED"}
    leads = world(ob)[:3, :3] @ np.array(chain.pole_location)
    assert np.allclose(np.cross(np.array(before + move) - root, leads), 0.0, atol=1e-5)
    assert np.linalg.norm(chain.pole_location) == pytest.approx(np.linalg.norm((0.4, -0.8, 0.3)), rel=1e-5)


@pytest.mark.parametrize("animated", [True, False])
@pytest.mark.parametrize("auto_key", [True, False])
def test_a_drag_is_keyed_with_auto_keying_on(auto_key: bool, animated: bool) -> None:
    ob = make()
    bpy.context.scene.tool_settings.use_keyframe_insert_auto = auto_key
    if animated:
        ob.ik_chains["leg"].keyframe_insert("target_location", frame=3)
    drag(offset=(0.1, 0.0, 0.0))
    frames = [key[0] for key in chain_keys(ob).get("target_location", [[]])[0]]
    now = [bpy.context.scene.frame_current] if auto_key else []
    assert frames == ([3] if animated else []) + now
    assert "target_rotation" not in chain_keys(ob)


def test_refusals() -> None:
    ob = make()
    before = dump()
    ob.ik_chains["leg"].pole_mode = "AUTO"
    for properties, text in (
        ({"part": "POLE"}, "cannot be dragged so: it has no place of its own, place the pole first"),
        ({"part": "POLE", "action": "TURN", "axis": "X"}, "cannot be dragged so: it has no place"),
        ({"action": "TURN"}, "needs an axis"),
    ):
        with pytest.raises(RuntimeError, match=text):
            drag(**properties)
    chain = ob.ik_chains["leg"]
    space, chain.use_rotation = chain.target_space, False
    with pytest.raises(RuntimeError, match="dragged so: the chain takes no rotation from it"):
        drag(action="TURN", axis="X")
    place, chain.target_space = tuple(chain.target_location), "CUSTOM"
    chain.target_location = (0.0, 0.0, 0.0)
    with pytest.raises(RuntimeError, match="dragged so: it is where its object or bone is, drag that"):
        drag(offset=(1.0, 0.0, 0.0))
    chain.target_space, chain.target_location, chain.use_rotation = space, place, True
    curve = ob.driver_add("ik_chains[0].target_location", 0)
    curve.driver.type, curve.driver.expression = "SCRIPTED", "0.1"
    with pytest.raises(RuntimeError, match="driver"):
        drag(offset=(1.0, 0.0, 0.0))
    ob.driver_remove("ik_chains[0].target_location", 0)
    assert differences(before["actions"], dump()["actions"]) == []


def test_a_drag_is_one_step_of_undo() -> None:
    make("turning")
    before = dump()
    bpy.ops.ed.undo_push(message="before")
    bpy.ops.ik_chain.drag("EXEC_DEFAULT", True, object="Rig", chain="leg", offset=(0.1, 0.0, 0.0))
    after = dump()
    assert differences(before, after)
    bpy.ops.ed.undo()
    assert differences(before, dump()) == []
    bpy.ops.ed.redo()
    assert differences(after, dump()) == []


# Following the mouse


def view(eye: Vector, centre: Vector, perspective: bool) -> tuple[Any, Any]:
    """A region of 800 x 600 pixels that looks from `eye` to `centre`, and its view."""
    turn = (centre - eye).to_track_quat("-Z", "Y")
    view_matrix = (Matrix.Translation(eye) @ turn.to_matrix().to_4x4()).inverted()
    near, far, x, y = 0.1, 100.0, 0.4, 0.3
    if perspective:
        window = Matrix(
            (
                (near / (x * near), 0, 0, 0),
                (0, near / (y * near), 0, 0),
                (0, 0, -(far + near) / (far - near), -2 * far * near / (far - near)),
                (0, 0, -1, 0),
            )
        )
    else:
        depth = -2.0 / (far - near)
        window = Matrix(
            ((0.5, 0, 0, 0), (0, 2.0 / 3.0, 0, 0), (0, 0, depth, -(far + near) / (far - near)), (0, 0, 0, 1))
        )
    region = SimpleNamespace(width=800, height=600)
    looking = SimpleNamespace(
        view_matrix=view_matrix,
        window_matrix=window,
        perspective_matrix=window @ view_matrix,
        is_perspective=perspective,
        view_perspective="PERSP" if perspective else "ORTHO",
        view_rotation=turn,
        view_distance=(centre - eye).length,
    )
    return region, looking


START = Matrix.Translation((0.3, 0.2, 1.0)) @ Matrix.Rotation(0.5, 4, "X") @ Matrix.Rotation(0.4, 4, "Z")


@pytest.mark.parametrize("perspective", [True, False])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_the_mouse_moves_along_an_axis(axis: int, perspective: bool) -> None:
    region, looking = view(Vector((4.0, -3.0, 2.0)), Vector((0.2, 0.1, 1.0)), perspective)
    wanted = START.col[axis].to_3d() * 0.25
    there = START.translation + wanted
    pixel = drag_op.view3d_utils.location_3d_to_region_2d(region, looking, there)
    assert np.allclose(drag_op.shifted(region, looking, START, axis, pixel), wanted, atol=1e-4)


@pytest.mark.parametrize("perspective", [True, False])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_the_mouse_turns_the_way_it_goes_round(axis: int, perspective: bool) -> None:
    """A point of the dial in front follows the mouse, from whichever side it is seen."""
    for eye in (Vector((4.0, -3.0, 2.0)), Vector((-4.0, 3.0, -1.0))):
        region, looking = view(eye, START.translation, perspective)
        across = START.col[(axis + 1) % 3].to_3d() * 0.05
        turn = Matrix.Rotation(0.02, 3, START.col[axis].to_3d())
        before, after = (
            drag_op.view3d_utils.location_3d_to_region_2d(region, looking, START.translation + arm)
            for arm in (across, turn @ across)
        )
        assert drag_op.turned(region, looking, START, axis, before, after) > 0.0
        assert drag_op.turned(region, looking, START, axis, after, before) < 0.0


def test_a_full_circle_of_the_mouse_is_a_full_turn() -> None:
    region, looking = view(Vector((4.0, -3.0, 2.0)), START.translation, True)
    centre = drag_op.view3d_utils.location_3d_to_region_2d(region, looking, START.translation)
    ring = [centre + 80.0 * Vector((math.cos(t), math.sin(t))) for t in np.linspace(0.0, 2.0 * math.pi, 25)]
    steps = [drag_op.turned(region, looking, START, 2, a, b) for a, b in zip(ring, ring[1:], strict=False)]
    assert sum(steps) == pytest.approx(2.0 * math.pi, abs=1e-4) or sum(steps) == pytest.approx(
        -2.0 * math.pi, abs=1e-4
    )
    assert drag_op.turned(region, looking, START, 2, centre, ring[0]) == 0.0


def test_the_target_of_a_look_at_has_a_place_alone() -> None:
    ob = make()
    bpy.ops.ik_chain.add(object="Rig", end_bone="control", solver="AIM", name="aim")
    assert handles.moves(ob.ik_chains["aim"], "TARGET") and not handles.turns(ob.ik_chains["aim"])
