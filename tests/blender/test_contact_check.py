# SPDX-License-Identifier: GPL-3.0-or-later
"""The check of contacts: what it says of a leg whose slide was made, and how long it stands."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bpy
import pytest
from bone_rigs import action_curves, armature, empty, go_to, head
from rig_state import dump, select_bones
from walking import FRAMES, SLIDE, STANCES, leg, walker

from ik_addon.blender import bake, chains, contact_check, findings, ranges

pytestmark = pytest.mark.usefixtures("fresh")


@pytest.fixture
def rig(fresh: Any) -> bpy.types.Object:
    return walker()


def check(**properties: Any) -> set[str]:
    return bpy.ops.ik_chain.check(object="Rig", **properties)


def found(ob: bpy.types.Object, name: str = "leg", **properties: Any) -> list[contact_check.ContactReport]:
    """What the operator keeps for the panel."""
    assert check(**properties) == {"FINISHED"}
    kept = findings.remembered(ob)
    assert kept is not None
    return kept.contacts[name]


# What is told


def test_contacts_are_the_stances_of_fk(rig: bpy.types.Object) -> None:
    """The chain holds the foot where it stands first: out of reach at last, whatever FK does."""
    leg(rig)
    contacts = found(rig)
    assert [c.frames for c in contacts] == list(STANCES)
    assert [c.slide_fk for c in contacts] == pytest.approx([SLIDE] * 3, abs=1e-6)
    assert [c.cause for c in contacts] == ["OK", "OK", "TARGET_FAR"]
    assert "its target is out of reach on 12 of 12 frames" in contacts[2].message


def test_planted_contacts_hold(rig: bpy.types.Object) -> None:
    leg(rig)
    bpy.ops.ik_chain.plant(object="Rig")
    contacts = found(rig)
    assert [(c.cause, c.why) for c in contacts] == [("OK", "")] * 3
    assert max(c.slide for c in contacts) < 1e-6
    assert contacts[0].message.startswith("frames 1 to 17: the tip of 'leg' holds its place, to ")


def glide(ob: bpy.types.Object, by: float) -> None:
    """Key a steady motion along Y."""
    start = ob.location.y
    for frame, way in ((FRAMES[0], 0.0), (FRAMES[-1], by)):
        ob.location.y = start + way
        ob.keyframe_insert("location", frame=frame)
    for curve in action_curves(ob):
        for point in curve.keyframe_points:
            point.interpolation = "LINEAR"
    go_to(FRAMES[0])


def carried(ob: bpy.types.Object) -> None:
    leg(ob, target_space="ARMATURE")
    glide(ob, 0.1)


def on_door(ob: bpy.types.Object) -> None:
    door = empty("Door", tuple(head(ob, "foot")))
    leg(ob, target_space="CUSTOM", target=door)
    glide(door, 0.1)


def on_bone(ob: bpy.types.Object) -> None:
    other = armature("Other")
    leg(ob, target_space="CUSTOM", target=other, subtarget="hips")
    glide(other, 0.1)


def keyed(ob: bpy.types.Object) -> None:
    chain = leg(ob)
    for frame, up in ((1, 0.0), (60, 0.1)):
        chain.target_location.z += up
        chain.keyframe_insert("target_location", frame=frame)


def soft(ob: bpy.types.Object) -> None:
    leg(ob, softness=0.3)


def limited(ob: bpy.types.Object) -> None:
    leg(ob)
    shin = ob.pose.bones["shin"]
    shin.lock_ik_x = shin.lock_ik_y = shin.lock_ik_z = True


def turned_on(ob: bpy.types.Object) -> None:
    """By a chain that turns the shin after the leg was solved."""
    leg(ob)
    chains.add(ob, "shin", "shin", name="look", solver="AIM", target_location=(0.1, -0.3, 0.0))


CASES: dict[str, tuple[Callable[[bpy.types.Object], Any], str, str]] = {
    "armature space": (
        carried,
        "TARGET_SPACE",
        "with the space it is stored in, the character's own ('Rig')",
    ),
    "object": (on_door, "TARGET_SPACE", "with the space it is stored in, 'Door'"),
    "bone": (on_bone, "TARGET_SPACE", "with the space it is stored in, bone 'hips' of 'Other'"),
    "keys": (keyed, "TARGET_KEYS", "by its own keys or driver"),
    "softness": (soft, "SOFTNESS", "its softness keeps it up to"),
    "limit": (limited, "LIMIT", "a joint limit keeps it up to"),
    "a chain after it": (turned_on, "NOT_CONVERGED", "its solver, or a chain after it, leaves it up to"),
    "influence": (lambda ob: leg(ob, influence=0.5), "INFLUENCE", "its influence leaves it up to"),
    "no influence": (lambda ob: leg(ob, influence=0.0), "INFLUENCE", "its influence leaves it up to"),
    "muted": (lambda ob: leg(ob, mute=True), "MUTED", "it is muted on 17 of 17 frames"),
}


@pytest.mark.parametrize("case", CASES)
def test_the_cause_of_the_first_stance(case: str) -> None:
    """Hips that go on over a foot: on the frames of the first stance its target is in reach."""
    make, cause, words = CASES[case]
    ob = walker()
    make(ob)
    first = found(ob, scope="ALL")[0]
    assert (first.cause, first.slide > 1e-4) == (cause, True), first.message
    assert words in first.message and first.why in first.message
    assert first.frames[0] == 1


@pytest.mark.parametrize("mode", ["MOVE_ROOT", "STRETCH"])
def test_with_every_setting_that_looks_at_other_frames(rig: bpy.types.Object, mode: str) -> None:
    """Hips that start early, toward targets that are smoothed: read frame by frame, checked in one go."""
    chain = leg(rig, limit_mode=mode, move_bone="hips", move_smooth=4, smooth_frames=2)
    for frame, up in ((1, 0.0), (30, 0.1), (60, 0.0)):
        chain.target_location.z += up
        chain.keyframe_insert("target_location", frame=frame)
    assert [c.frames for c in found(rig)] == list(STANCES)


def test_keys_that_are_smoothed_are_told(rig: bpy.types.Object) -> None:
    """A target that rests in each stance, and starts and ends too early and too late for its smoothing."""
    leg(rig)
    bpy.ops.ik_chain.plant(object="Rig")
    rig.ik_chains["leg"].smooth_frames = 4
    contacts = found(rig)
    assert {c.cause for c in contacts} == {"TARGET_KEYS"}
    assert all("which Smooth Frames smooths" in c.message for c in contacts)


def test_a_target_that_is_out_of_reach_on_some_frames(rig: bpy.types.Object) -> None:
    """The hips go away from a target that lies behind."""
    leg(rig).target_location.y += 0.35
    first = found(rig)[0]
    frames = re.match(r"its target is out of reach on (\d+) of 17 frames, by up to ", first.why)
    assert first.cause == "TARGET_FAR" and frames is not None and 0 < int(frames[1]) < 17


def test_without_contacts(rig: bpy.types.Object, capfd: pytest.CaptureFixture) -> None:
    leg(rig)
    bpy.ops.ik_chain.add(object="Rig", end_bone="hips", name="look")
    capfd.readouterr()
    assert found(rig, name="look", scope="ALL") == []
    assert found(rig, chain="leg", frame_start=18, frame_end=23) == []
    said = capfd.readouterr().out
    assert "'look': its tip rests nowhere in these frames" in said and "'leg': its tip rests nowhere" in said


def test_a_broken_chain_says_why(rig: bpy.types.Object, capfd: pytest.CaptureFixture) -> None:
    leg(rig).end_bone = "gone"
    bpy.context.view_layer.update()
    capfd.readouterr()
    assert found(rig) == []
    assert "'gone' does not exist" in capfd.readouterr().out


def test_a_muted_chain_is_called_that(rig: bpy.types.Object, capfd: pytest.CaptureFixture) -> None:
    """Also where it is muted on some frames alone."""
    chain = leg(rig)
    for frame, mute in ((1, False), (31, True), (41, False)):
        chain.mute = mute
        chain.keyframe_insert("mute", frame=frame)
    capfd.readouterr()
    check()
    assert "'leg' is muted on 10 of 60 frames" in capfd.readouterr().out


def test_a_baked_chain_is_muted_and_rests(rig: bpy.types.Object) -> None:
    leg(rig)
    bpy.ops.ik_chain.plant(object="Rig")
    ranges.run(bake.bake(bpy.context.scene, [rig], bake.BakeOptions((1, 60))))
    contacts = found(rig)
    assert [c.frames[0] for c in contacts] == [1, 25, 49] and {c.cause for c in contacts} == {"OK"}


def test_a_baked_chain_that_slides_is_not_told_to_be_unmuted(rig: bpy.types.Object) -> None:
    leg(rig, target_space="ARMATURE", influence=0.5)
    ranges.run(bake.bake(bpy.context.scene, [rig], bake.BakeOptions((1, 60))))
    contacts = found(rig)
    assert contacts and {c.cause for c in contacts} == {"MUTED"}
    assert all("it is baked, and moves as its keys do" in c.message for c in contacts)


def test_the_frame_rate_counts(rig: bpy.types.Object) -> None:
    """At a quarter of the rate steps are slower, and what stood for a moment stands for long."""
    leg(rig)
    assert len(found(rig)) == 3
    bpy.context.scene.render.fps = 1200
    assert found(rig) == []


@pytest.mark.parametrize(
    ("properties", "frames"),
    [
        ({}, (1, 60)),
        ({"frame_start": 20, "frame_end": 44}, (20, 44)),
        ({"frame_end": 30}, (1, 30)),
        ({"frame_range": "CUSTOM", "frame_start": 2, "frame_end": 50}, (2, 50)),
    ],
)
def test_the_range_that_is_asked_for(
    rig: bpy.types.Object, properties: dict[str, Any], frames: tuple[int, int]
) -> None:
    leg(rig)
    contacts = found(rig, **properties)
    assert findings.remembered(rig).frames == frames
    assert all(frames[0] <= c.frames[0] <= c.frames[1] <= frames[1] for c in contacts)


def test_a_range_that_runs_backward(rig: bpy.types.Object) -> None:
    leg(rig)
    with pytest.raises(RuntimeError, match="the last frame, 3, is before the first, 5"):
        check(frame_start=5, frame_end=3)


def test_a_check_changes_nothing(rig: bpy.types.Object) -> None:
    leg(rig)
    go_to(33)
    before = dump()
    check(scope="ALL")
    assert dump() == before and bpy.context.scene.frame_current == 33


def test_a_linked_rig_is_checked_but_not_planted(rig: bpy.types.Object, tmp_path: Path) -> None:
    leg(rig)
    file = str(tmp_path / "rig.blend")
    bpy.ops.wm.save_as_mainfile(filepath=file)
    bpy.ops.wm.read_factory_settings(use_empty=True)
    with bpy.data.libraries.load(file, link=True) as (_, wanted):
        wanted.objects = ["Rig"]
    bpy.context.scene.collection.objects.link(bpy.data.objects["Rig"])
    assert len(found(bpy.data.objects["Rig"], frame_start=1, frame_end=60)) == 3
    with pytest.raises(RuntimeError, match="is linked"):
        bpy.ops.ik_chain.plant(object="Rig")


# How long it stands


def unmute(ob: bpy.types.Object) -> None:
    ob.ik_chains[0].mute = not ob.ik_chains[0].mute


def pose_shin(ob: bpy.types.Object) -> None:
    ob.pose.bones["foot"].rotation_quaternion = (1.0, 0.2, 0.0, 0.0)


def edit_curve(ob: bpy.types.Object) -> None:
    curve = next(c for c in action_curves(ob) if c.data_path.endswith("location"))
    curve.keyframe_points[30].co.y += 0.1
    curve.update()


def move_door(ob: bpy.types.Object) -> None:
    bpy.data.objects["Door"].location.z += 0.1


EDITS: dict[str, Callable[[bpy.types.Object], Any]] = {
    "influence": lambda ob: setattr(ob.ik_chains[0], "influence", 0.5),
    "mute": unmute,
    "handling": lambda ob: setattr(ob.ik_chains[0], "limit_mode", "STRETCH"),
    "bone to move": lambda ob: setattr(ob.ik_chains[0], "move_bone", "hips"),
    "largest shift": lambda ob: setattr(ob.ik_chains[0], "move_max", 0.5),
    "rename": lambda ob: setattr(ob.ik_chains[0], "name", "other"),
    "space": lambda ob: setattr(ob.ik_chains[0], "target_space", "ARMATURE"),
    "pose": pose_shin,
    "key": lambda ob: ob.pose.bones["foot"].keyframe_insert("rotation_quaternion", frame=15),
    "curve": edit_curve,
    "object moved": lambda ob: setattr(ob, "location", (0.0, 0.0, 1.0)),
    "target moved": move_door,
    "bake": lambda ob: bpy.ops.ik_chain.bake(object="Rig"),
    "chain removed": lambda ob: bpy.ops.ik_chain.remove(object="Rig"),
    "bone edited": lambda ob: lengthen(ob),
}


def lengthen(ob: bpy.types.Object) -> None:
    bpy.context.view_layer.objects.active = ob
    bpy.ops.object.mode_set(mode="EDIT")
    ob.data.edit_bones["foot"].tail.z -= 0.1
    bpy.ops.object.mode_set(mode="OBJECT")


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_clears_what_was_found(rig: bpy.types.Object, edit: str) -> None:
    on_door(rig)
    check()
    assert findings.remembered(rig) is not None
    EDITS[edit](rig)
    bpy.context.view_layer.update()
    assert findings.remembered(rig) is None


def scrub(_ob: bpy.types.Object) -> None:
    for frame in (40, 7, 22, 1):
        go_to(frame)


LOOKS: dict[str, Callable[[bpy.types.Object], Any]] = {
    "nothing": lambda ob: None,
    "scrubbed": scrub,
    "bones selected": lambda ob: select_bones(ob, ["shin", "foot"]),
    "another object moved": lambda ob: setattr(bpy.data.objects["Other"], "location", (1.0, 2.0, 3.0)),
    "another object added": lambda ob: empty("New"),
    "active chain": lambda ob: setattr(ob, "ik_chains_index", 0),
}


@pytest.mark.parametrize("mode", ["ACCEPT", "MOVE_ROOT", "STRETCH"])
@pytest.mark.parametrize("look", LOOKS)
def test_to_look_around_clears_nothing(rig: bpy.types.Object, look: str, mode: str) -> None:
    empty("Other")
    on_door(rig)
    rig.ik_chains[0].limit_mode = mode
    go_to(50)
    check()
    LOOKS[look](rig)
    bpy.context.view_layer.update()
    assert findings.remembered(rig) is not None


def test_an_edit_after_scrubbing_clears(rig: bpy.types.Object) -> None:
    leg(rig)
    check()
    scrub(rig)
    pose_shin(rig)
    bpy.context.view_layer.update()
    assert findings.remembered(rig) is None


def test_an_edit_of_another_rig_leaves_what_was_found(rig: bpy.types.Object) -> None:
    other = armature("Other")
    leg(other)
    leg(rig)
    check()
    other.ik_chains[0].influence = 0.5
    bpy.context.view_layer.update()
    assert findings.remembered(rig) is not None


def test_undo_and_loading_clear_what_was_found(rig: bpy.types.Object) -> None:
    leg(rig)
    bpy.ops.ed.undo_push(message="before")
    bpy.ops.ed.undo_push(message="after")
    check()
    bpy.ops.ed.undo()
    rig = bpy.data.objects["Rig"]
    assert findings.remembered(rig) is None
    check()
    assert findings.remembered(rig) is not None
    bpy.ops.wm.read_factory_settings(use_empty=True)
    assert not any(findings.remembered(ob) for ob in bpy.data.objects)


def test_planting_shows_what_it_left(rig: bpy.types.Object) -> None:
    leg(rig)
    bpy.ops.ik_chain.plant(object="Rig")
    kept = findings.remembered(rig)
    assert [c.cause for c in kept.contacts["leg"]] == ["OK"] * 3
