# SPDX-License-Identifier: GPL-3.0-or-later
"""Contacts are planted: on walks that were recorded, and on a leg that was made for it.

What is compared is where Blender has the joints.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bpy
import numpy as np
import pytest
from bone_rigs import action_curves, armature, empty, evaluated, go_to, head, key_rotation
from real_rigs import CONFIGS, Recording, record
from rig_state import dump
from walking import FRAMES, SLIDE, STANCES, ankle_path, leg, motion, slides, walker

from ik_addon.blender import bake, config, contact_check, files, keys, ranges
from ik_addon.core.contacts import RULE, Contact, find
from ik_addon.core.planting import EASE

LEGS = {"leg.L": ("LeftUpLeg", "LeftLeg", "LeftFoot"), "leg.R": ("RightUpLeg", "RightLeg", "RightFoot")}
# What stays of a slide, metres: these characters are 14 m long.
STILL = 1e-4
# Seconds beside a contact in which its edge is looked at.
BESIDE = 0.3


@dataclass(frozen=True)
class Leg:
    """One leg: its chain, the places of its bones, its length, and its contacts in FK."""

    chain: str
    bones: list[int]
    length: float
    contacts: list[Contact]


@dataclass(frozen=True)
class Walk:
    """A recorded walk in FK, planted and live, and baked; `between` is half-way from frame to frame."""

    rate: float
    legs: list[Leg]
    fk: Recording
    live: Recording
    between: Recording
    baked: Recording
    channels: list[np.ndarray]
    target_keys: dict[str, np.ndarray]


WALKS = {"cmu_12_01_walk": "cmu_12_01", "02_01": "cmu_02_01"}


@pytest.fixture(scope="module", params=WALKS)
def walk(request: pytest.FixtureRequest, shared_data: Path) -> Walk:
    files.load(shared_data / "bvh_cmu" / f"{request.param}.bvh")
    scene = bpy.context.scene
    ob = next(ob for ob in bpy.data.objects if ob.type == "ARMATURE")
    rate = scene.render.fps / scene.render.fps_base
    frames = [float(frame) for frame in range(scene.frame_start, scene.frame_end + 1)]
    fk, before = record(ob, frames), _channels(ob, frames)
    bone_keys = _bone_keys(ob)
    items = config.read(CONFIGS / f"{WALKS[request.param]}.json")
    config.apply([item for item in items if item.name in LEGS])
    legs = [_leg(ob, chain.name, fk, rate) for chain in ob.ik_chains]
    assert bpy.ops.ik_chain.plant(object=ob.name, scope="ALL") == {"FINISHED"}
    live, after = record(ob, frames), _channels(ob, frames)
    between = record(ob, [frame + 0.5 for frame in frames[:-1]])
    target_keys = {
        chain.name: np.array([k.co[0] for k in _curve(ob, f"ik_chains[{i}].target_location").keyframe_points])
        for i, chain in enumerate(ob.ik_chains)
    }
    assert _bone_keys(ob) == bone_keys
    ranges.run(bake.bake(scene, [ob], bake.BakeOptions((scene.frame_start, scene.frame_end))))
    baked = record(ob, frames)
    return Walk(rate, legs, fk, live, between, baked, [before, after], target_keys)


def _leg(ob: bpy.types.Object, name: str, fk: Recording, rate: float) -> Leg:
    bones = [fk.names.index(bone) for bone in LEGS[name]]
    joints = fk.heads[:, bones]
    length = float(np.linalg.norm(np.diff(joints, axis=1), axis=-1).sum(axis=1).mean())
    return Leg(name, bones, length, find(joints[:, 2], length, rate))


def _channels(ob: bpy.types.Object, frames: list[float]) -> np.ndarray:
    """Rotation and location channels of all bones as evaluated, ``(F, n, 6)`` float32."""
    rows = []
    for frame in frames:
        go_to(frame)
        bones = evaluated(ob).pose.bones
        parts = []
        for prop in ("rotation_euler", "location"):
            values = np.empty(len(bones) * 3, np.float32)
            bones.foreach_get(prop, values)
            parts.append(values.reshape(-1, 3))
        rows.append(np.concatenate(parts, axis=1))
    return np.array(rows)


def _curve(ob: bpy.types.Object, path: str, index: int = 0) -> Any:
    return next(c for c in action_curves(ob) if c.data_path == path and c.array_index == index)


def _bone_keys(ob: bpy.types.Object) -> list[list[float]]:
    curves = [c for c in action_curves(ob) if c.data_path.startswith("pose.bones")]
    return [keys.read(curve).ravel().tolist() for curve in curves]


def spread(path: np.ndarray) -> float:
    return float(np.linalg.norm(path[:, None] - path[None], axis=-1).max())


def test_recorded_feet_slide_in_each_contact(walk: Walk) -> None:
    """By 1 to 7 % of the leg's length: there is something to plant."""
    assert [len(leg.contacts) for leg in walk.legs] == {524: [4, 4], 343: [2, 2]}[len(walk.fk.heads)]
    for one in walk.legs:
        for contact in one.contacts:
            part = spread(walk.fk.heads[contact.frames, one.bones[2]]) / one.length
            assert 0.01 < part < 0.07


@pytest.mark.parametrize("kind", ["live", "baked"])
def test_planted_feet_rest_in_each_contact(walk: Walk, kind: str) -> None:
    recording: Recording = getattr(walk, kind)
    for one in walk.legs:
        for contact in one.contacts:
            assert spread(recording.heads[contact.frames, one.bones[2]]) < STILL


def test_planted_feet_rest_between_the_frames_of_a_contact(walk: Walk) -> None:
    for one in walk.legs:
        for contact in one.contacts:
            inside = slice(contact.first, contact.last)
            assert spread(walk.between.heads[inside, one.bones[2]]) < STILL


def test_the_place_is_near_the_mean_of_the_contact(walk: Walk) -> None:
    """2.5 % of the leg's length at most: less than the foot slides, and what a straight leg asks for."""
    for one in walk.legs:
        for contact in one.contacts:
            place = walk.live.heads[contact.first, one.bones[2]]
            mean = walk.fk.heads[contact.frames, one.bones[2]].mean(axis=0)
            assert np.linalg.norm(place - mean) < 0.025 * one.length


def derivatives(path: np.ndarray, rate: float) -> tuple[np.ndarray, np.ndarray]:
    """Lengths of the steps, and of the accelerations ``(F - 2,)`` at the frames between the ends."""
    steps = np.linalg.norm(np.diff(path, axis=0), axis=1)
    return steps, np.linalg.norm(np.diff(path, n=2, axis=0), axis=1) * rate**2


@pytest.mark.parametrize(("joint", "room"), [(2, 10.0), (1, 40.0)], ids=["ankle", "knee"])
@pytest.mark.parametrize("kind", ["live", "baked"])
def test_nothing_jumps_where_a_contact_begins_or_ends(walk: Walk, kind: str, joint: int, room: float) -> None:
    """Beside an edge no step is a quarter larger than the largest in FK, no acceleration more than half
    as large again, and what the ease itself needs: 10 leg lengths / s^2 for the ankle, 4 times
    that for a knee that is almost straight."""
    for one in walk.legs:
        own, new = walk.fk.heads[:, one.bones[joint]], getattr(walk, kind).heads[:, one.bones[joint]]
        for contact in one.contacts:
            for edge in (contact.first, contact.last):
                near = slice(max(edge - int(BESIDE * walk.rate), 1), edge + int(BESIDE * walk.rate))
                steps, rates = derivatives(own[near] / one.length, walk.rate)
                new_steps, new_rates = derivatives(new[near] / one.length, walk.rate)
                assert new_steps.max() < 1.25 * steps.max()
                assert new_rates.max() < 1.5 * rates.max() + room


def test_no_knee_bends_to_the_other_side(walk: Walk) -> None:
    """These characters are straight at rest and, on many frames, in FK."""
    for one in walk.legs:
        hip, knee, foot = (walk.live.heads[:, bone] for bone in one.bones)
        toe = walk.live.tails[:, one.bones[2]]
        line = (foot - hip) / np.linalg.norm(foot - hip, axis=1)[:, None]
        side = (knee - hip) - np.einsum("fi,fi->f", knee - hip, line)[:, None] * line
        bent = np.linalg.norm(side, axis=1) > 0.01 * one.length
        assert np.einsum("fi,fi->f", side, toe - foot)[bent].min() > 0.0


def test_the_rest_of_the_motion_is_kept(walk: Walk) -> None:
    """All other bones have their channels to the bit, those above and beside the legs their pose, too."""
    turned = {bone for one in walk.legs for bone in one.bones[:2]}
    others = [i for i in range(len(walk.fk.names)) if i not in turned]
    assert np.array_equal(walk.channels[0][:, others], walk.channels[1][:, others])
    legs = [i for i, name in enumerate(walk.fk.names) if any(word in name for word in ("Leg", "Foot", "Toe"))]
    apart = [i for i in range(len(walk.fk.names)) if i not in legs]
    assert len(apart) > 20
    assert np.array_equal(walk.fk.matrices[:, apart], walk.live.matrices[:, apart])


def test_the_tip_goes_where_fk_takes_it_beside_the_contacts(walk: Walk) -> None:
    """Within the largest offset that a contact asks for, and not away from FK far from them."""
    for one in walk.legs:
        tip = one.bones[2]
        moved = np.linalg.norm(walk.live.heads[:, tip] - walk.fk.heads[:, tip], axis=1)
        largest = max(moved[contact.frames].max() for contact in one.contacts)
        ease = int(np.ceil(EASE.value * walk.rate))
        near = np.zeros(len(moved), bool)
        for contact in one.contacts:
            near[max(contact.first - ease, 0) : contact.last + ease + 1] = True
        gaps = [b.first - a.last for a, b in zip(one.contacts, one.contacts[1:], strict=False)]
        # What takes up the slope of the offset at an edge is its peak, on both sides of a gap.
        peak = 2.0 * 4.0 / 27.0 * EASE.speed * RULE.stay_speed * one.length
        assert moved.max() < largest + peak
        if min(gaps) > 2 * ease:
            assert (~near).any() and moved[~near].max() < STILL


def test_a_contact_has_two_keys(walk: Walk) -> None:
    for one in walk.legs:
        frames = walk.target_keys[one.chain] - 1
        for contact in one.contacts:
            inside = frames[(frames >= contact.first) & (frames <= contact.last)]
            assert inside.tolist() == [contact.first, contact.last]
        outside = len(walk.fk.heads) - sum(contact.count for contact in one.contacts)
        assert len(frames) == outside + 2 * len(one.contacts)


@pytest.mark.parametrize("mode", ["MOVE_ROOT", "STRETCH"])
def test_hips_that_go_down_or_legs_that_stretch_let_a_foot_stay_where_it_was(
    shared_data: Path, mode: str
) -> None:
    """What a gap leads to counts as reach: the place is the mean, which straight legs do not reach."""
    files.load(shared_data / "bvh_cmu" / "02_01.bvh")
    scene = bpy.context.scene
    ob = next(ob for ob in bpy.data.objects if ob.type == "ARMATURE")
    rate = scene.render.fps / scene.render.fps_base
    frames = [float(frame) for frame in range(scene.frame_start, scene.frame_end + 1)]
    fk = record(ob, frames)
    config.apply([item for item in config.read(CONFIGS / "cmu_02_01.json") if item.name in LEGS])
    for chain in ob.ik_chains:
        chain.limit_mode, chain.move_bone, chain.move_max = mode, "Hips", 3.0
    assert bpy.ops.ik_chain.plant(object=ob.name, scope="ALL") == {"FINISHED"}
    live = record(ob, frames)
    for chain in ob.ik_chains:
        one = _leg(ob, chain.name, fk, rate)
        for contact in one.contacts:
            path = live.heads[contact.frames, one.bones[2]]
            mean = fk.heads[contact.frames, one.bones[2]].mean(axis=0)
            assert spread(path) < STILL and np.abs(path - mean).max() < STILL


# What it does to a rig


@pytest.fixture
def rig(fresh: Any) -> bpy.types.Object:
    return walker()


def plant(**properties: Any) -> set[str]:
    return bpy.ops.ik_chain.plant(object="Rig", **properties)


def refused(**properties: Any) -> str:
    before = dump()
    with pytest.raises(RuntimeError) as caught:
        plant(**properties)
    assert dump() == before
    return str(caught.value)


def paths(ob: bpy.types.Object) -> set[str]:
    """The chain settings with curves."""
    return {c.data_path.rpartition(".")[2] for c in action_curves(ob) if c.data_path.startswith("ik_chains")}


@pytest.mark.parametrize("space", ["WORLD", "ARMATURE"])
def test_the_whole_range_gets_a_path_in_the_world(rig: bpy.types.Object, space: str) -> None:
    before = ankle_path(rig)
    assert slides(before, STANCES) == pytest.approx([SLIDE] * 3, abs=1e-6)
    chain = leg(rig, target_space=space)
    assert plant() == {"FINISHED"}
    after = ankle_path(rig)
    assert max(slides(after, STANCES)) < 1e-6
    assert np.abs(after - before).max() < SLIDE
    assert (chain.target_space, paths(rig)) == ("WORLD", {"target_location"})


@pytest.mark.parametrize("space", ["WORLD", "ARMATURE"])
def test_a_part_of_the_range_leaves_the_rest_as_it_was(rig: bpy.types.Object, space: str) -> None:
    """Another target before and after, that comes in one step; a key of it beside the range stays."""
    rig.location = (0.0, 0.3, 0.02)
    chain = leg(rig, target_space=space)
    chain.target_location.y += 0.05
    chain.keyframe_insert("target_location", frame=2)
    chain.target_location.z += 0.1
    chain.keyframe_insert("target_location", frame=58)
    before = motion(rig)
    assert plant(frame_start=21, frame_end=45) == {"FINISHED"}
    after = motion(rig)
    outside = [f - 1 for f in FRAMES if not 21 <= f <= 45]
    assert np.abs(after[outside] - before[outside]).max() < 1e-6
    path = ankle_path(rig, range(21, 46))
    assert max(slides(path, STANCES[1:2], range(21, 46))) < 1e-6
    go_to(50)
    assert chain.target_space == space
    assert paths(rig) == {"target_location"} | ({"target_space"} if space != "WORLD" else set())


def test_planting_again_changes_nothing(rig: bpy.types.Object) -> None:
    leg(rig)
    plant()
    before = dump()
    plant()
    assert dump() == before


def test_the_end_bone_is_held_too_where_it_takes_the_rotation(rig: bpy.types.Object) -> None:
    for frame in FRAMES[::3]:
        key_rotation(rig, "foot", {frame: (1.0, 0.1 * np.sin(frame), 0.02 * frame, 0.0)})
    fk = motion(rig)
    leg(rig, use_rotation=True)
    plant()
    assert paths(rig) == {"target_location", "target_rotation"}
    after = motion(rig)
    foot = rig.pose.bones.find("foot")
    for first, last in STANCES:
        rows = after[first - 1 : last, foot, :3, :3]
        assert np.abs(rows - rows[0]).max() < 1e-5
        assert np.abs(fk[first - 1 : last, foot, :3, :3] - fk[first - 1, foot, :3, :3]).max() > 0.05
    turns = np.linalg.norm(np.diff(after[:, foot, :3, :3], axis=0), axis=(1, 2))
    own = np.linalg.norm(np.diff(fk[:, foot, :3, :3], axis=0), axis=(1, 2))
    assert turns.max() < 2.0 * own.max()


def test_softness_is_counted_in(rig: bpy.types.Object) -> None:
    leg(rig, softness=0.1)
    plant()
    assert max(slides(ankle_path(rig), STANCES)) < 1e-6


def test_a_contact_that_no_place_is_in_reach_of_is_told(fresh: Any, capfd: pytest.CaptureFixture) -> None:
    """A body that glides away by three leg lengths, with a leg that hangs down and glides along."""
    ob = armature()
    fresh.frame_end = 300
    for frame, way in ((1, 0.0), (300, 3.0)):
        ob.location.y = way
        ob.keyframe_insert("location", frame=frame)
    for curve in action_curves(ob):
        for point in curve.keyframe_points:
            point.interpolation = "LINEAR"
    go_to(1)
    leg(ob)
    capfd.readouterr()
    assert plant() == {"FINISHED"}
    said = capfd.readouterr().out
    assert "1 contact, 1 of them slides" in said and "its target is out of reach on" in said
    path = ankle_path(ob, range(1, 301))
    assert np.isfinite(path).all() and 0.5 < np.ptp(path[:, 1]) < 2.5


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"mute": True}, "it is muted on 17 of 17 frames"),
        ({"influence": 0.5}, "its influence leaves it up to"),
        ({"influence": 0.0}, "its influence leaves it up to"),
    ],
    ids=["muted", "half", "none"],
)
def test_a_chain_that_does_not_act_is_planted_and_told(
    rig: bpy.types.Object, settings: dict[str, Any], words: str, capfd: pytest.CaptureFixture
) -> None:
    chain = leg(rig, **settings)
    capfd.readouterr()
    assert plant() == {"FINISHED"}
    assert words in capfd.readouterr().out
    chain.mute, chain.influence = False, 1.0
    assert max(slides(ankle_path(rig), STANCES)) < 1e-6


def test_all_chains_that_can_be_planted_are(rig: bpy.types.Object, capfd: pytest.CaptureFixture) -> None:
    leg(rig)
    bpy.ops.ik_chain.add(object="Rig", end_bone="hips", name="look")
    capfd.readouterr()
    assert plant(scope="ALL") == {"FINISHED"}
    assert "'look' was not planted: it aims" in capfd.readouterr().out
    assert max(slides(ankle_path(rig), STANCES)) < 1e-6


def test_a_rig_in_a_hidden_collection_is_planted(rig: bpy.types.Object) -> None:
    leg(rig)
    rig.hide_set(True)
    assert plant() == {"FINISHED"}
    rig.hide_set(False)
    assert max(slides(ankle_path(rig), STANCES)) < 1e-6


# Refusals, before anything is changed


def to_door(ob: bpy.types.Object, chain: Any) -> None:
    chain.target, chain.target_space = empty("Door", tuple(head(ob, "foot"))), "CUSTOM"


def lock(ob: bpy.types.Object, chain: Any) -> None:
    chain.keyframe_insert("target_location", frame=3)
    next(c for c in action_curves(ob) if c.data_path.endswith("target_location")).lock = True


def drive(ob: bpy.types.Object, _chain: Any) -> None:
    curve = ob.driver_add("ik_chains[0].target_location", 1)
    curve.driver.type, curve.driver.expression = "SCRIPTED", "0.5"


def lean(_ob: bpy.types.Object, chain: Any) -> None:
    chain.solver, chain.use_lean = "FABRIK", True


REFUSALS: dict[str, tuple[Any, dict[str, Any], str]] = {
    "custom space": (to_door, {}, "its target follows 'Door' on 60 frames"),
    "aim": (lambda ob, c: setattr(c, "solver", "AIM"), {}, "aim"),
    "lean": (lean, {}, "it leans"),
    "smoothed": (lambda ob, c: setattr(c, "smooth_frames", 3), {}, "Smooth Frames would smooth the keys"),
    "broken": (lambda ob, c: setattr(c, "end_bone", "gone"), {}, "'gone' does not exist"),
    "locked keys": (lock, {}, "is locked"),
    "driven target": (drive, {}, "is set by a driver"),
    "nothing rests": (None, {"frame_start": 18, "frame_end": 24}, "its tip rests nowhere in frames 18 to 24"),
    "one frame": (None, {"frame_start": 5, "frame_end": 5}, "expected a range of some frames"),
    "backward": (None, {"frame_start": 9, "frame_end": 5}, "expected a range of some frames"),
    "no such chain": (None, {"chain": "arm"}, "has no IK chain 'arm'"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_refusal_changes_nothing(rig: bpy.types.Object, case: str) -> None:
    prepare, properties, words = REFUSALS[case]
    chain = leg(rig)
    if prepare:
        prepare(rig, chain)
    bpy.context.view_layer.update()
    assert words in refused(**properties)


def test_keys_of_a_target_that_is_animated_by_itself_are_not_lost(rig: bpy.types.Object) -> None:
    chain = leg(rig)
    for frame in (10, 30, 50):
        chain.target_location.x = 0.2 + 0.01 * frame
        chain.keyframe_insert("target_location", frame=frame)
    before = dump()
    with pytest.raises(RuntimeError, match="keyed away from FK.*bake the chain first"):
        plant()
    assert dump() == before


def test_a_target_that_stood_and_held_its_foot_is_told(fresh: Any, capfd: pytest.CaptureFixture) -> None:
    """Without keys it may be that of a chain that was just added: planting follows FK."""
    ob = armature("Rig")
    still, forward = (1.0, 0.0, 0.0, 0.0), (0.9, 0.44, 0.0, 0.0)
    key_rotation(ob, "thigh", {1: still, 20: still, 32: forward, 44: still, 60: still})
    go_to(1)
    leg(ob, target_location=tuple(head(ob, "foot") + (0.0, 0.0, 0.05)))
    capfd.readouterr()
    assert plant() == {"FINISHED"}
    told = capfd.readouterr().out
    assert "its target stood still, and held the tip; now it goes where FK takes the tip" in told
    capfd.readouterr()
    plant()
    assert "stood still" not in capfd.readouterr().out


def test_planted_contacts_hold_in_the_baked_motion_too(rig: bpy.types.Object) -> None:
    """Found anew in keys that stand still: the step that leads there is not part of them."""
    leg(rig)
    plant()
    scene = bpy.context.scene
    ranges.run(bake.bake(scene, [rig], bake.BakeOptions((scene.frame_start, scene.frame_end))))
    steps = [float(frame) for frame in FRAMES]
    (track,) = ranges.run(ranges.solve_range(scene, [rig], steps, with_places=True)).chains
    reports = contact_check.reports(rig, track, contact_check.frame_rate(scene))
    assert len(reports) == len(STANCES)
    assert max(report.slide for report in reports) < 1e-4
