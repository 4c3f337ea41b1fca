# SPDX-License-Identifier: GPL-3.0-or-later
"""What hangs on a solved rig is where the solved pose puts it, in the same evaluation."""

from collections.abc import Callable, Iterator

import bpy
import numpy as np
import pytest
from bone_rigs import LEG, LEG_LENGTH, armature, empty, evaluated, go_to, head, key_rotation, update, world

from ik_addon.blender import chains, handlers

pytestmark = pytest.mark.usefixtures("fresh")

Where = Callable[[], np.ndarray]


@pytest.fixture
def goal() -> bpy.types.Object:
    """A target that moves on each frame."""
    ob = empty("Goal")
    for frame, place in ((1, (0.15, -0.2, 0.2)), (6, (0.0, -0.4, 0.4)), (11, (0.2, 0.1, 0.1))):
        ob.location = place
        ob.keyframe_insert("location", frame=frame)
    return ob


@pytest.fixture(params=["still", "keyed", "on a mover"])
def rig(request: pytest.FixtureRequest, goal: bpy.types.Object) -> bpy.types.Object:
    """A rig whose leg follows the goal: with no key of its own, with keys, with a parent that moves."""
    ob = armature("Rig", (*LEG, ("control", "", (0.5, 0.0, 0.0), (0.5, 0.0, 0.3))))
    if request.param == "keyed":
        key_rotation(ob, "hips", {1: (1.0, 0.0, 0.0, 0.0), 11: (0.9, 0.1, 0.2, 0.0)})
        key_rotation(ob, "thigh", {1: (1.0, 0.0, 0.0, 0.0), 11: (0.9, 0.3, 0.0, 0.0)})
    if request.param == "on a mover":
        ob.parent = empty("Mover")
        for frame, x in ((1, 0.0), (11, 0.3)):
            ob.parent.location.x = x
            ob.parent.keyframe_insert("location", frame=frame)
    chains.add(ob, "thigh", "foot", name="leg", use_tail=False, target_space="CUSTOM", target=goal)
    return ob


def _points(ob: bpy.types.Object) -> np.ndarray:
    mesh = evaluated(ob).data
    flat = np.empty(3 * len(mesh.vertices), np.float32)
    mesh.vertices.foreach_get("co", flat)
    return np.concatenate([flat, world(ob).ravel()])


def _mesh(name: str) -> bpy.types.Object:
    """A few points along the leg."""
    data = bpy.data.meshes.new(name)
    data.from_pydata([(0.1, -0.05 * (k % 2), 1.0 - 0.1 * k) for k in range(10)], [], [])
    ob = bpy.data.objects.new(name, data)
    bpy.context.scene.collection.objects.link(ob)
    return ob


def _skinned(rig: bpy.types.Object) -> Where:
    ob = _mesh("Skin")
    for bone, points in (("thigh", range(5)), ("shin", range(4, 8)), ("foot", (8, 9))):
        ob.vertex_groups.new(name=bone).add(list(points), 1.0, "REPLACE")
    ob.modifiers.new("Armature", "ARMATURE").object = rig
    return lambda: _points(ob)


def _bendy(rig: bpy.types.Object) -> Where:
    for bone in rig.data.bones:
        bone.bbone_segments = 4
    return _skinned(rig)


def _hooked(rig: bpy.types.Object) -> Where:
    ob = _mesh("Hooked")
    hook = ob.modifiers.new("Hook", "HOOK")
    hook.object, hook.subtarget = rig, "foot"
    hook.vertex_indices_set(range(10))
    return lambda: _points(ob)


def _carried(rig: bpy.types.Object) -> Where:
    ob = empty("Shoe")
    ob.parent, ob.parent_type, ob.parent_bone = rig, "BONE", "foot"
    return lambda: world(ob)


def _constrained(rig: bpy.types.Object) -> Where:
    ob = empty("Follower")
    constraint = ob.constraints.new("COPY_TRANSFORMS")
    constraint.target, constraint.subtarget = rig, "shin"
    return lambda: world(ob)


def _driven(rig: bpy.types.Object) -> Where:
    ob = empty("Driven")
    driver = ob.driver_add("location", 0).driver
    driver.type = "SUM"
    variable = driver.variables.new()
    variable.type = "TRANSFORMS"
    target = variable.targets[0]
    target.id, target.bone_target, target.transform_type = rig, "foot", "LOC_Y"
    return lambda: world(ob)


def _bone_of_another(rig: bpy.types.Object) -> Where:
    other = armature("Other")
    constraint = other.pose.bones["thigh"].constraints.new("COPY_ROTATION")
    constraint.target, constraint.subtarget = rig, "shin"
    return lambda: np.array(evaluated(other).pose.bones["foot"].matrix, float)


def _constrained_bone_of_its_own(rig: bpy.types.Object) -> Where:
    constraint = rig.pose.bones["control"].constraints.new("COPY_LOCATION")
    constraint.target, constraint.subtarget = rig, "foot"
    return lambda: np.array(evaluated(rig).pose.bones["control"].matrix, float)


FOLLOWERS = (
    _skinned,
    _bendy,
    _hooked,
    _carried,
    _constrained,
    _driven,
    _bone_of_another,
    _constrained_bone_of_its_own,
)


@pytest.fixture
def everything_again() -> Iterator[Callable[[], None]]:
    """Have Blender evaluate all there is anew, without a handler of ours."""

    def again() -> None:
        handlers.unregister()
        for ob in bpy.data.objects:
            ob.update_tag()
            if ob.data is not None:
                ob.data.update_tag()
        update()
        handlers.register()

    yield again
    handlers.register()


@pytest.mark.parametrize("follower", FOLLOWERS, ids=lambda f: f.__name__.strip("_"))
def test_it_goes_where_the_solved_pose_takes_it(
    rig: bpy.types.Object,
    goal: bpy.types.Object,
    follower: Callable[[bpy.types.Object], Where],
    everything_again: Callable[[], None],
) -> None:
    where = follower(rig)
    seen = []

    def look() -> None:
        shown = where()
        target = world(goal) @ [*rig.ik_chains["leg"].target_location, 1.0]
        assert np.linalg.norm(head(rig, "foot") - target[:3]) <= 2e-6 * LEG_LENGTH
        everything_again()
        np.testing.assert_array_equal(shown, where())
        seen.append(shown)

    for frame in (1, 4, 8):
        go_to(frame)
        look()
    goal.location = (0.1, -0.1, 0.3)
    update()
    look()
    for before, after in zip(seen, seen[1:], strict=False):
        assert np.abs(before - after).max() > 1e-3
