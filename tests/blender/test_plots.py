# SPDX-License-Identifier: GPL-3.0-or-later
"""The residual over frames in Blender: what is measured, kept, drawn and saved."""

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import bpy
import numpy as np
import pytest
from rig_state import dump, make_rig

from ik_addon.blender import bake, handlers, plots, ranges
from ik_addon.core.job import Status
from ik_addon.core.plot_pixels import color, residual_pixels

pytestmark = pytest.mark.usefixtures("fresh")
FRAMES = (1, 12)


@pytest.fixture
def rig(fresh: Any) -> bpy.types.Object:
    """A leg that is planted while its hips rise out of reach, and a bone that looks at a place."""
    ob = make_rig()
    scene = bpy.context.scene
    scene.frame_start, scene.frame_end = FRAMES
    for frame, height in ((1, -0.1), (12, 0.3)):
        ob.pose.bones["hips"].location = (0.0, height, 0.0)
        ob.pose.bones["hips"].keyframe_insert("location", frame=frame)
    bpy.ops.ik_chain.add(object="Rig", end_bone="foot", use_tail=False, name="leg")
    bpy.ops.ik_chain.add(object="Rig", end_bone="control", root_bone="control", name="look")
    scene.frame_set(1)
    return ob


def test_what_is_measured_is_what_each_frame_shows(rig: bpy.types.Object) -> None:
    assert bpy.ops.ik_chain.plot_residual(object="Rig") == {"FINISHED"}
    seen: set[str] = set()
    for chain in rig.ik_chains:
        track = plots.track_of(rig, chain)
        assert track.frames.tolist() == list(range(1, 13))
        for frame, residual, status in zip(track.frames, track.residual, track.status, strict=True):
            bpy.context.scene.frame_set(int(frame))
            assert chain.residual == pytest.approx(residual, abs=2e-6)
            assert chain.status == Status(status).name
            seen.add(chain.status)
    assert seen >= {"OK", "TARGET_FAR"}


def test_measuring_changes_nothing(rig: bpy.types.Object) -> None:
    bpy.context.scene.frame_set(5)
    before = dump()
    bpy.ops.ik_chain.plot_residual(object="Rig")
    assert dump() == before and bpy.context.scene.frame_current == 5


def test_frames_and_chain_can_be_given(rig: bpy.types.Object) -> None:
    bpy.ops.ik_chain.plot_residual(object="Rig", chain="leg", frame_start=3, frame_end=5)
    leg, look = rig.ik_chains
    assert plots.track_of(rig, leg).frames.tolist() == [3.0, 4.0, 5.0]
    assert plots.track_of(rig, look) is None
    scene = bpy.context.scene
    scene.use_preview_range, scene.frame_preview_start, scene.frame_preview_end = True, 7, 8
    bpy.ops.ik_chain.plot_residual(object="Rig")
    assert [track.frames.tolist() for track in plots.tracks_of(rig)] == [[7.0, 8.0], [7.0, 8.0]]


@pytest.mark.parametrize(
    ("given", "cause"),
    [
        (
            {"frame_range": "CUSTOM", "frame_start": 9, "frame_end": 2},
            "The last frame, 2, is before the first",
        ),
        ({"chain": "arm"}, "'Rig' has no IK chain 'arm'"),
        ({"object": "Nobody"}, "There is no object 'Nobody'"),
    ],
)
def test_what_cannot_be_measured_is_said(rig: bpy.types.Object, given: dict[str, Any], cause: str) -> None:
    with pytest.raises(RuntimeError, match=cause):
        bpy.ops.ik_chain.plot_residual(**{"object": "Rig", **given})
    assert plots.tracks_of(rig) == []


def test_the_message_names_the_largest_residual(rig: bpy.types.Object, capfd: Any) -> None:
    bpy.ops.ik_chain.plot_residual(object="Rig")
    worst = plots.track_of(rig, rig.ik_chains["leg"]).residual.max()
    told = f"1 of 2 chains not OK on some frame, largest residual {1000 * worst:.3f} mm ('leg', frame 12)"
    assert told in capfd.readouterr().out


def test_a_broken_chain_says_why(rig: bpy.types.Object, capfd: Any) -> None:
    rig.ik_chains["leg"].root_bone = "nose"
    bpy.ops.ik_chain.plot_residual()
    assert "Warning: Rig: chain 'leg': root bone 'nose' does not exist" in capfd.readouterr().out


def test_a_linked_rig_can_be_measured(rig: bpy.types.Object, tmp_path: Path) -> None:
    path = tmp_path / "rig.blend"
    bpy.ops.wm.save_as_mainfile(filepath=str(path))
    bpy.ops.wm.read_factory_settings(use_empty=True)
    with bpy.data.libraries.load(str(path), link=True) as (_, wanted):
        wanted.objects = ["Rig"]
    ob = wanted.objects[0]
    bpy.context.scene.collection.objects.link(ob)
    assert bpy.ops.ik_chain.plot_residual(object="Rig", frame_start=1, frame_end=12) == {"FINISHED"}
    assert Status.TARGET_FAR in plots.track_of(ob, ob.ik_chains["leg"]).status


def test_a_bake_leaves_its_residuals(rig: bpy.types.Object) -> None:
    bpy.ops.ik_chain.bake(object="Rig", chain="leg")
    leg, look = rig.ik_chains
    track = plots.track_of(rig, leg)
    assert track.frames.tolist() == list(range(1, 13)) and Status.TARGET_FAR in track.status
    assert plots.track_of(rig, look) is None
    # What the keys left is what was solved.
    bpy.context.scene.frame_set(12)
    assert not plots.is_outdated(rig, leg, 12.0)


def test_a_refused_or_cancelled_bake_leaves_the_measurement(rig: bpy.types.Object) -> None:
    bpy.ops.ik_chain.plot_residual(object="Rig")
    before = plots.track_of(rig, rig.ik_chains["leg"])
    options = bake.BakeOptions(FRAMES, 1, "leg")
    steps = bake.bake(bpy.context.scene, [rig], options)
    next(steps)
    steps.close()
    with pytest.raises(RuntimeError):
        bpy.ops.ik_chain.bake(object="Rig", chain="leg", frame_range="CUSTOM", frame_start=9, frame_end=1)
    assert plots.track_of(rig, rig.ik_chains["leg"]) is before


def test_a_chain_that_changed_is_told_from_one_that_did_not(rig: bpy.types.Object) -> None:
    leg, scene = rig.ik_chains["leg"], bpy.context.scene
    assert not plots.is_outdated(rig, leg, 1.0), "nothing was measured"
    bpy.ops.ik_chain.plot_residual(object="Rig")
    for frame in (1, 6, 12):
        scene.frame_set(frame)
        assert not plots.is_outdated(rig, leg, frame)
    leg.target_location.z -= 0.01
    bpy.context.view_layer.update()
    assert plots.is_outdated(rig, leg, 12.0)
    assert not plots.is_outdated(rig, leg, 40.0), "no such frame was measured"


def test_a_measurement_ends_with_the_file(rig: bpy.types.Object, tmp_path: Path) -> None:
    bpy.ops.ik_chain.plot_residual(object="Rig")
    path = tmp_path / "rig.blend"
    bpy.ops.wm.save_as_mainfile(filepath=str(path))
    assert len(plots.tracks_of(rig)) == 2, "saving is no reason to forget it"
    bpy.ops.wm.open_mainfile(filepath=str(path))
    assert plots.tracks_of(bpy.data.objects["Rig"]) == []


# Pictures


def test_the_picture_is_the_measurement(rig: bpy.types.Object) -> None:
    bpy.ops.ik_chain.plot_residual(object="Rig")
    leg, look = rig.ik_chains
    track = plots.track_of(rig, leg)
    assert not plots._pictures, "without a window there is nobody to see it"
    plots.make_picture(rig, track)
    assert not plots.picture(rig, look)
    preview = plots._pictures[rig.session_uid, "leg"]
    # Without a window icons have no number.
    assert plots.picture(rig, leg) == preview.icon_id
    assert tuple(preview.image_size) == (plots.SIZE, plots.SIZE)
    shown = np.array(preview.image_pixels_float).reshape(plots.SIZE, plots.SIZE, 4)
    assert np.abs(shown - residual_pixels(track, plots.SIZE)).max() < 0.01
    for status in Status:
        shown = np.array(plots._pictures[status].icon_pixels_float).reshape(plots.SWATCH, plots.SWATCH, 4)
        assert np.abs(shown[plots.SWATCH // 2, plots.SWATCH // 2] - color(status)).max() < 0.01
    bpy.ops.ik_chain.plot_residual(object="Rig", frame_start=1, frame_end=3)
    plots.make_picture(rig, plots.track_of(rig, leg))
    assert plots._pictures[rig.session_uid, "leg"] is preview, "measured again, it is drawn in its place"


def test_pictures_end_with_the_handlers(rig: bpy.types.Object) -> None:
    bpy.ops.ik_chain.plot_residual(object="Rig")
    plots.make_picture(rig, plots.tracks_of(rig)[0])
    handlers.register()
    assert not plots._pictures and plots._previews is None and plots.tracks_of(rig) == []


# Files


def test_a_saved_plot_shows_every_measured_chain(rig: bpy.types.Object, tmp_path: Path) -> None:
    bpy.ops.ik_chain.plot_residual(object="Rig")
    assert bpy.ops.ik_chain.save_plot(object="Rig", filepath=str(tmp_path / "shot")) == {"FINISHED"}
    (path,) = tmp_path.iterdir()
    assert path.name == "shot.svg"
    text = "".join(ElementTree.parse(path).getroot().itertext())
    assert "Rig / leg" in text and "Rig / look" in text and "TARGET_FAR" in text


def test_saving_says_what_is_missing(rig: bpy.types.Object, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="Nothing was measured of 'Rig': plot the residual first"):
        bpy.ops.ik_chain.save_plot(object="Rig", filepath=str(tmp_path / "a.svg"))
    bpy.ops.ik_chain.plot_residual(object="Rig")
    with pytest.raises(RuntimeError, match="Give a file"):
        bpy.ops.ik_chain.save_plot(object="Rig")
    with pytest.raises(RuntimeError, match=r"none.a\.svg: cannot be written"):
        bpy.ops.ik_chain.save_plot(object="Rig", filepath=str(tmp_path / "none" / "a.svg"))
    assert list(tmp_path.iterdir()) == []


def test_a_plot_of_frames_that_were_solved_elsewhere_can_be_kept(rig: bpy.types.Object) -> None:
    """What a script has solved is shown as well."""
    solved = ranges.run(ranges.solve_range(bpy.context.scene, [rig], [2.0, 2.5, 9.0]))
    plots.remember(rig, solved.chains)
    assert [track.chain for track in plots.tracks_of(rig)] == ["leg", "look"]
