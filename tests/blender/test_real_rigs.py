# SPDX-License-Identifier: GPL-3.0-or-later
"""Feet and hands of characters made by others, planted in the world over their clips."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import bpy
import numpy as np
import pytest
from real_rigs import CONFIGS, REAL_RIGS, RealRig, Recording, geometric_gap, open_rig, path_of, record

from ik_addon.blender import chains, config, ranges
from ik_addon.blender.bake import BakeOptions, BakeReport, bake, unbake

# Of the limb's length.
TIP = 1e-4
# Blender's float32 poses.
ROUNDING = 2e-6


@dataclass(frozen=True)
class Limb:
    """One chain over the F frames of a clip.

    Attributes:
        target: ``(3,)`` where the FK tip is at the frame that the configuration names.
        lengths: ``(F, n)`` of the bones, joint to joint, in world space, as FK has them; of a
            clip that scales bones unevenly, as the solved pose has them.
        gap: ``(F,)`` what geometry leaves between tip and target.
        near_limit: ``(F,)`` within rounding of the border of what can be reached.
        inside: ``(F,)`` the target is nearer to the root than the chain can fold.
    """

    name: str
    bones: list[str]
    end: str
    target: np.ndarray
    lengths: np.ndarray
    gap: np.ndarray
    near_limit: np.ndarray
    inside: np.ndarray

    @property
    def total(self) -> np.ndarray:
        return self.lengths.sum(axis=1)

    @property
    def reachable(self) -> np.ndarray:
        return self.gap == 0.0

    def tips(self, recording: Recording) -> np.ndarray:
        return recording.joints(self.bones, self.end)[:, -1]


@dataclass(frozen=True)
class Shot:
    """A clip as Blender evaluated it without chains, with them, and so on."""

    frames: list[float]
    limbs: list[Limb]
    fk: Recording
    live: Recording
    shuffled: Recording
    order: np.ndarray
    sampled: ranges.RangeSolution
    channels: dict[str, np.ndarray]
    bake_report: BakeReport
    baked_at: list[int]
    baked: Recording
    unbaked: Recording
    without_influence: Recording
    removed: Recording


@pytest.fixture(scope="module", params=REAL_RIGS, ids=lambda rig: rig.name)
def shot(request: pytest.FixtureRequest, shared_data: Path) -> Shot:
    rig: RealRig = request.param
    ob, frames = open_rig(rig, shared_data)
    fk = record(ob, frames)
    added = config.read(CONFIGS / f"{rig.config}.json")
    planted = {item.name: record(ob, [item.target_frame]) for item in added}
    config.apply(added)
    live = record(ob, frames)
    measured = live if rig.sheared else fk
    limbs = [_limb(ob, measured, planted[chain.name], chain) for chain in ob.ik_chains]
    channels = _channels(ob, frames)
    order = np.random.default_rng(0).permutation(len(frames))[:12]
    shuffled = record(ob, [frames[i] for i in order])
    sampled = ranges.run(ranges.solve_range(bpy.context.scene, [ob], frames))
    whole = [i for i, frame in enumerate(frames) if frame == int(frame)]
    first, last = int(frames[whole[0]]), int(frames[whole[-1]])
    report = ranges.run(bake(bpy.context.scene, [ob], BakeOptions((first, last))))
    baked = record(ob, [frames[i] for i in whole])
    unbake([ob])
    unbaked = record(ob, frames)
    for chain in ob.ik_chains:
        chain.influence = 0.0
    without_influence = record(ob, frames)
    for chain in ob.ik_chains:
        chain.influence = 1.0
    record(ob, frames[:2])
    while len(ob.ik_chains):
        chains.remove(ob, 0)
    removed = record(ob, frames)
    return Shot(
        frames=frames,
        limbs=limbs,
        fk=fk,
        live=live,
        shuffled=shuffled,
        order=order,
        sampled=sampled,
        channels=channels,
        bake_report=report,
        baked_at=whole,
        baked=baked,
        unbaked=unbaked,
        without_influence=without_influence,
        removed=removed,
    )


def _limb(
    ob: bpy.types.Object, measured: Recording, planted: Recording, chain: bpy.types.PropertyGroup
) -> Limb:
    bones, end = path_of(ob, chain.root_bone, chain.end_bone, chain.use_tail)
    target = planted.joints(bones, end)[0, -1]
    joints = measured.joints(bones, end)
    lengths = np.linalg.norm(np.diff(joints, axis=1), axis=2)
    distance = np.linalg.norm(target - joints[:, 0], axis=1)
    total = lengths.sum(axis=1)
    inner = np.maximum(2.0 * lengths.max(axis=1) - total, 0.0)
    border = np.minimum(np.abs(distance - total), np.abs(distance - inner))
    return Limb(
        name=chain.name,
        bones=bones,
        end=end,
        target=target,
        lengths=lengths,
        gap=geometric_gap(distance, lengths),
        near_limit=border < 2.0 * ROUNDING * total,
        inside=distance < inner,
    )


def _channels(ob: bpy.types.Object, frames: list[float]) -> dict[str, np.ndarray]:
    """The rotation channels that the live solve leaves on the bones, ``(F, 3 or 4)`` by bone."""
    rows: dict[str, list] = {bone.name: [] for bone in ob.pose.bones}
    props = {
        bone.name: {"QUATERNION": "rotation_quaternion", "AXIS_ANGLE": "rotation_axis_angle"}.get(
            bone.rotation_mode, "rotation_euler"
        )
        for bone in ob.pose.bones
    }
    for frame in frames:
        bpy.context.scene.frame_set(int(np.floor(frame)), subframe=frame - np.floor(frame))
        for bone in ob.pose.bones:
            rows[bone.name].append(tuple(getattr(bone, props[bone.name])))
    return {name: np.array(values, np.float32) for name, values in rows.items()}


def by_limb(shot: Shot) -> Iterator[tuple[int, Limb]]:
    return enumerate(shot.limbs)


def test_the_clip_has_something_to_reach(shot: Shot) -> None:
    assert all(limb.reachable.any() for limb in shot.limbs)
    moved = [np.ptp(limb.tips(shot.fk), axis=0).max() for limb in shot.limbs]
    assert max(moved) > 0.01 * shot.limbs[int(np.argmax(moved))].total[0], "no limb of the clip moves"


def test_the_tip_is_on_its_target_wherever_it_can_be(shot: Shot) -> None:
    missed = {}
    for _, limb in by_limb(shot):
        off = np.linalg.norm(limb.tips(shot.live) - limb.target, axis=1) / limb.total
        worst = off[limb.reachable].max()
        if worst > TIP:
            missed[limb.name] = (worst, shot.frames[int(np.argmax(np.where(limb.reachable, off, 0)))])
    assert missed == {}


def test_the_tip_is_no_further_off_than_geometry_demands(shot: Shot) -> None:
    for _, limb in by_limb(shot):
        off = np.linalg.norm(limb.tips(shot.live) - limb.target, axis=1)
        assert np.all(np.abs(off - limb.gap) <= TIP * limb.total), limb.name


def test_the_residual_is_the_geometric_distance(shot: Shot) -> None:
    for i, limb in by_limb(shot):
        allowed = 1e-4 * limb.gap + ROUNDING * limb.total
        assert np.all(np.abs(shot.live.residual[:, i] - limb.gap) <= allowed), limb.name


def test_the_residual_is_what_is_seen(shot: Shot) -> None:
    for i, limb in by_limb(shot):
        seen = np.linalg.norm(limb.tips(shot.live) - limb.target, axis=1)
        assert np.all(np.abs(shot.live.residual[:, i] - seen) <= ROUNDING * limb.total), limb.name


def test_the_status_says_why(shot: Shot) -> None:
    for i, limb in by_limb(shot):
        expected = np.where(limb.reachable, "OK", np.where(limb.inside, "TARGET_NEAR", "TARGET_FAR"))
        clear = ~limb.near_limit
        assert (shot.live.status[clear, i] == expected[clear]).all(), limb.name


def test_lengths_are_kept(shot: Shot) -> None:
    for _, limb in by_limb(shot):
        steps = np.diff(shot.live.joints(limb.bones, limb.end), axis=1)
        lengths = np.linalg.norm(steps, axis=2)
        assert np.all(np.abs(lengths - limb.lengths) <= ROUNDING * limb.total[:, None]), limb.name


def test_the_order_of_frames_does_not_matter(shot: Shot) -> None:
    assert np.array_equal(shot.shuffled.matrices, shot.live.matrices[shot.order])


def test_sampled_frames_are_the_live_ones(shot: Shot) -> None:
    (tracks,) = shot.sampled.bones.values()
    assert {track.bone for track in tracks} == {bone for limb in shot.limbs for bone in limb.bones}
    for track in tracks:
        live = shot.channels[track.bone]
        # Near full reach a hair's breadth of the tip is a degree of the elbow.
        assert np.abs(track.rows[:, : live.shape[1]] - live).max() <= 10.0 * ROUNDING, track.bone
    for i, (limb, track) in enumerate(zip(shot.limbs, shot.sampled.chains, strict=True)):
        off = np.linalg.norm(track.tip - limb.tips(shot.live), axis=1)
        assert np.all(off <= ROUNDING * limb.total), limb.name
        assert np.all(np.abs(track.residual - shot.live.residual[:, i]) <= ROUNDING * limb.total), limb.name


def test_the_bake_is_the_live_pose(shot: Shot) -> None:
    assert shot.bake_report.skipped == []
    for limb in shot.limbs:
        live = shot.live.joints(limb.bones, limb.end)[shot.baked_at]
        off = np.linalg.norm(shot.baked.joints(limb.bones, limb.end) - live, axis=2)
        assert np.all(off <= ROUNDING * limb.total[shot.baked_at, None]), limb.name


def test_the_report_of_the_bake_tells_the_residual(shot: Shot) -> None:
    for limb, told in zip(shot.limbs, shot.bake_report.chains, strict=True):
        seen = np.linalg.norm(limb.tips(shot.baked) - limb.target, axis=1)
        rounding = ROUNDING * limb.total.max()
        assert told["residual_max"] >= seen.max() - rounding, limb.name
        if len(seen) == sum(told["status_frames"].values()):
            assert told["residual_max"] <= seen.max() + rounding, limb.name


def test_unbaking_brings_the_live_pose_back_to_the_bit(shot: Shot) -> None:
    assert np.array_equal(shot.unbaked.matrices, shot.live.matrices)


def test_influence_zero_is_fk_to_the_bit(shot: Shot) -> None:
    assert np.array_equal(shot.without_influence.matrices, shot.fk.matrices)


def test_removing_the_chains_gives_fk_back_to_the_bit(shot: Shot) -> None:
    assert np.array_equal(shot.removed.matrices, shot.fk.matrices)
