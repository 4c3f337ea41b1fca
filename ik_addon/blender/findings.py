# SPDX-License-Identifier: GPL-3.0-or-later
"""What the last check of a rig found, kept for the panel until the rig is edited.

It lives in the session, not in the file. What Blender tells of an update does not tell an edit
from a bone that was selected. So what a motion rests on is looked at on every frame that is
shown, and compared after each update of the same frame; an update of an action is an edit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import bpy
import numpy as np

from . import animation, live, memory
from .chain_values import INTEGERS, SETTINGS
from .plan import DISCRETE, groups_of_rigs
from .state import STATE
from .structure import hangs_on, structure

if TYPE_CHECKING:
    from .contact_check import Checked

# Nearer values are the same: what hangs on solved bones carries the rounding of Blender's poses.
SAME = 1e-5
_NAMES = (
    "name",
    "mute",
    "root_bone",
    "end_bone",
    "subtarget",
    "pole_subtarget",
    "move_bone",
    "smooth_frames",
    "move_smooth",
    *DISCRETE,
)


@dataclass
class _Finding:
    """What was found, and what it rests on at the frame that was shown last."""

    checked: Checked
    frame: float
    numbers: np.ndarray
    names: tuple


def remember(ob: bpy.types.Object, checked: Checked) -> None:
    """Keep what a check of `ob` found."""
    bpy.context.view_layer.update()
    depsgraph = bpy.context.evaluated_depsgraph_get()
    frame = bpy.context.scene.frame_current_final
    STATE.checked[ob.session_uid] = _Finding(checked, frame, *_foundation(ob, depsgraph))


def remembered(ob: bpy.types.Object) -> Checked | None:
    """What the last check of a rig found, when nothing was edited since."""
    found = STATE.checked.get(ob.session_uid)
    return found.checked if isinstance(found, _Finding) else None


def follow(depsgraph: bpy.types.Depsgraph, fresh: bool) -> None:
    """Look at what the findings rest on, and drop those of rigs that were edited.

    Args:
        fresh: the frame has just changed.
    """
    rigs = {ob.session_uid: ob for group in live.rig_groups() for ob in group}
    actions = {u.id.original.session_uid for u in depsgraph.updates if isinstance(u.id, bpy.types.Action)}
    for uid, finding in list(STATE.checked.items()):
        if uid not in rigs or (not fresh and actions.intersection(_actions(rigs[uid]))):
            del STATE.checked[uid]
            continue
        frame = depsgraph.scene.frame_current_final
        numbers, names = _foundation(rigs[uid], depsgraph)
        if not fresh and frame == finding.frame and not _is_same(finding, numbers, names):
            del STATE.checked[uid]
        finding.frame, finding.numbers, finding.names = frame, numbers, names


def _is_same(finding: _Finding, numbers: np.ndarray, names: tuple) -> bool:
    same_shape = finding.names == names and finding.numbers.shape == numbers.shape
    return same_shape and np.allclose(finding.numbers, numbers, rtol=SAME, atol=SAME, equal_nan=True)


def _group(ob: bpy.types.Object) -> list[bpy.types.Object]:
    return next(group for group in groups_of_rigs([ob]) if ob in group)


def _actions(ob: bpy.types.Object) -> Iterator[int]:
    """Session uids of the actions that move a rig and what its chains hang on."""
    rigs = _group(ob)
    for item in (*rigs, *hangs_on(rigs)):
        data = item.animation_data
        if data is not None:
            actions = (data.action, *(strip.action for strip in animation.all_strips(item)))
            yield from (action.session_uid for action in actions if action is not None)


def _foundation(ob: bpy.types.Object, depsgraph: bpy.types.Depsgraph) -> tuple[np.ndarray, tuple]:
    """Numbers and names that the motion of a rig and its chains rests on at the frame that is shown."""
    rigs = _group(ob)
    numbers = [part for rig in rigs for part in (*_fk(rig), *_settings(rig))]
    numbers += [
        np.array(item.evaluated_get(depsgraph).matrix_world, np.float64).ravel()
        for item in (*rigs, *hangs_on(rigs))
    ]
    names = tuple(tuple(getattr(c, name) for name in _NAMES) for rig in rigs for c in rig.ik_chains)
    return np.concatenate(numbers), (names, structure([rigs]))


def _fk(rig: bpy.types.Object) -> Iterator[np.ndarray]:
    """FK channels of all bones; of those that chains turn the rotation that is kept beside them."""
    bones = rig.pose.bones
    records = memory.read_records(bones, "rotation")
    held = records[:, -1]
    yield held
    yield records[:, : memory.WIDTHS["rotation"]].ravel()
    for prop, width in (("location", 3), ("scale", 3)):
        yield memory.read_vectors(bones, prop, width).ravel()
    for prop, width in (("rotation_quaternion", 4), ("rotation_euler", 3), ("rotation_axis_angle", 4)):
        rows = memory.read_vectors(bones, prop, width)
        rows[held != 0] = 0.0
        yield rows.ravel()


def _settings(rig: bpy.types.Object) -> Iterator[np.ndarray]:
    for name, width in SETTINGS.items():
        dtype = np.int32 if name in INTEGERS else np.float32
        values = np.empty(len(rig.ik_chains) * width, dtype)
        rig.ik_chains.foreach_get(name, values)
        yield values
