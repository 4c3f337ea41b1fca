# SPDX-License-Identifier: GPL-3.0-or-later
"""Smooth the targets of chains about a frame, by their curves alone: no other frame is evaluated.

What smoothing adds is put on top of the evaluated values, so that an edit without a key still
moves the target. What a target hangs on moves it as before (see `target_motion`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import bpy
import numpy as np

from ..core.channels import to_quaternion
from ..core.smoothing import (
    inner_change,
    location_change,
    location_step,
    orientation_change,
    rotation_change,
    rotation_step,
)
from ..core.transforms import affine_inverse, quaternion_conjugate, quaternion_multiply, transform_point
from . import animation
from .target_motion import (
    AT_ORIGIN,
    STILL,
    Carrier,
    Frame,
    Motion,
    carries_targets_only,
    of_carrier,
    of_offset,
)


class _Target(NamedTuple):
    """A target to smooth, and the place of its chain among those that were read."""

    place: int
    offset: Motion
    carrier: Carrier | None
    half_width: int = 0
    smooth_frames: int = 0


@dataclass(frozen=True)
class Change:
    """What smoothing does to m targets on a frame.

    Attributes:
        move, turn: ``(m, 3)``, ``(m, 4)`` added to the offset in the space.
        inside: ``(m, 4, 4)`` the change of the object or bone, as seen from inside it.
        orient: ``(m, 4)`` the turn that `inside` gives to the target.
    """

    move: np.ndarray
    turn: np.ndarray
    inside: np.ndarray
    orient: np.ndarray

    def smoothed(self, location: np.ndarray, rotation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The offsets ``(m, 3)``, ``(m, 4)`` that bring a solve to the smoothed targets."""
        turned = quaternion_multiply(self.orient, quaternion_multiply(rotation, self.turn))
        return transform_point(self.inside, location + self.move), turned

    def of_space(self) -> Change:
        """The change without that of the offset: for an offset that gets a key here."""
        return Change(
            np.zeros_like(self.move), np.tile(STILL.row, (len(self.turn), 1)), self.inside, self.orient
        )

    def raw(self, location: np.ndarray, rotation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The inverse of `smoothed`: the offsets to store."""
        turned = quaternion_multiply(quaternion_conjugate(self.orient), rotation)
        turned = quaternion_multiply(turned, quaternion_conjugate(self.turn))
        return transform_point(affine_inverse(self.inside), location) - self.move, turned


def smooth_targets(
    rigs: Sequence[bpy.types.Object],
    seen: Sequence[bpy.types.Object],
    depsgraph: bpy.types.Depsgraph,
    settings: dict[str, np.ndarray],
) -> None:
    """Smooth the targets in evaluated settings ``(1, chains, ...)``, in place.

    Args:
        rigs, seen: the original and the evaluated armature objects, whose chains stand in a row.
    """
    if not settings["smooth_frames"].any():
        return
    at = Frame(depsgraph)
    found = list(_targets(rigs, seen, settings, ("smooth_frames",), at))
    if found:
        places = np.array([target.place for target in found])
        change = _change(found, at.now)
        values = [settings[name][0, places] for name in ("target_location", "target_rotation")]
        settings["target_location"][0, places], settings["target_rotation"][0, places] = change.smoothed(
            *values
        )


def neighbouring_locations(
    rigs: Sequence[bpy.types.Object],
    seen: Sequence[bpy.types.Object],
    depsgraph: bpy.types.Depsgraph,
    settings: dict[str, np.ndarray],
    moves_bone: Sequence[bool],
) -> dict[str, np.ndarray]:
    """Where smoothed targets are on the frames around, as Move Smooth asks for, in the space of the
    present frame.

    Args:
        rigs, seen, depsgraph, settings: as in `smooth_targets`, not smoothed yet.
        moves_bone: ``(chains,)`` which of them move a bone.

    Returns:
        `move_location` ``(1, chains, 2N + 1, 3)`` on the frames -N to N, and `move_frames`
        ``(1, chains)``: how many of them count; nothing where none moves.
    """
    at = Frame(depsgraph)
    found = [t for t in _targets(rigs, seen, settings, ("move_smooth",), at) if moves_bone[t.place]]
    if not found:
        return {}
    half_width = max(target.half_width for target in found)
    places = np.array([target.place for target in found])
    counts = np.zeros((1, len(moves_bone)), int)
    counts[0, places] = [target.half_width for target in found]
    location, rotation = (settings[name][0, places] for name in ("target_location", "target_rotation"))
    smooth = [target.smooth_frames for target in found]
    out = np.repeat(settings["target_location"][:, :, None], 2 * half_width + 1, axis=2)
    for k in range(2 * half_width + 1):
        change = _change(found, at.now, k - half_width, smooth)
        out[0, places, k] = change.smoothed(location, rotation)[0]
    return {"move_location": out, "move_frames": counts}


def at_present(
    ob: bpy.types.Object, chain: Any, depsgraph: bpy.types.Depsgraph | None = None
) -> Change | None:
    """What smoothing does to the target of one chain (m = 1); None where it does nothing.

    Args:
        chain: of the original armature object `ob`.
        depsgraph: read from this one, as it is; without it the present one is brought up to date.
    """
    if not chain.smooth_frames:
        return None
    at = Frame(depsgraph or bpy.context.evaluated_depsgraph_get())
    offset = np.array(chain.target_location), np.array(chain.target_rotation)
    index = ob.ik_chains.find(chain.name)
    evaluated = ob.evaluated_get(at.depsgraph)
    target = _target(ob, evaluated, index, chain, *offset, chain.smooth_frames, at)
    return _change([target], at.now) if target is not None else None


def in_space(
    ob: bpy.types.Object, half_width: int, target: bpy.types.Object | None, bone: str = ""
) -> Change | None:
    """What smoothing would do to a target with an offset in an object or bone (m = 1)."""
    if not half_width:
        return None
    at = Frame(bpy.context.evaluated_depsgraph_get())
    carrier = of_carrier(ob.evaluated_get(at.depsgraph), target, bone, half_width, True, at)
    return _change([_Target(0, STILL, carrier)], at.now) if carrier is not None else None


def keyed_offset(
    ob: bpy.types.Object, chain: Any, location: np.ndarray, rotation: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """The offset to key, ``(3,)`` and ``(4,)``, for one that a solve shall take; None where it is the same.

    What smoothing makes of the key itself is not taken off: that rests on the other keys, too.
    """
    change = at_present(ob, chain)
    if change is None or chain.target_space != "CUSTOM":
        return None
    (at,), (turn,) = change.of_space().raw(location[None], rotation[None])
    # With an offset in it, what something else hangs on is the target no more.
    is_target = np.abs(at).max() <= AT_ORIGIN or carries_targets_only(chain.target, chain.subtarget)
    return (at, turn) if is_target else None


def may_smooth(ob: bpy.types.Object, chain: Any) -> bool:
    """Whether a chain is smoothed, on this frame or on others."""
    return bool(chain.smooth_frames or "smooth_frames" in animation.animated_chain_settings(ob))


def smooths_carrier(ob: bpy.types.Object, chain: Any) -> bool:
    """Whether the motion of a chain's target object or bone is smoothed, on this frame or on others."""
    if chain.target_space != "CUSTOM" or not may_smooth(ob, chain):
        return False
    at = Frame(bpy.context.evaluated_depsgraph_get())
    has_offset = bool(np.abs(chain.target_location).max() > AT_ORIGIN)
    evaluated = ob.evaluated_get(at.depsgraph)
    return of_carrier(evaluated, chain.target, chain.subtarget, 1, has_offset, at) is not None


def _targets(
    rigs: Sequence[bpy.types.Object],
    seen: Sequence[bpy.types.Object],
    settings: dict[str, np.ndarray],
    widths: Sequence[str],
    at: Frame,
) -> Iterator[_Target]:
    """The targets of chains that are smoothed and move.

    Args:
        widths: settings that make up the half width of the window together.
    """
    locations, rotations = settings["target_location"][0], settings["target_rotation"][0]
    first = 0
    for ob, evaluated in zip(rigs, seen, strict=True):
        # A chain that was just added is not evaluated yet.
        same = len(evaluated.ik_chains) == len(ob.ik_chains)
        chains: Any = evaluated.ik_chains if same else ob.ik_chains
        half_widths = np.zeros(len(chains), np.int32)
        for name in widths:
            part = np.empty(len(chains), np.int32)
            chains.foreach_get(name, part)
            half_widths += part
        for i in np.flatnonzero(half_widths).tolist():
            place, width = first + i, int(half_widths[i])
            target = _target(ob, evaluated, i, chains[i], locations[place], rotations[place], width, at)
            if target is not None:
                yield target._replace(place=place)
        first += len(chains)


def _target(
    ob: bpy.types.Object,
    evaluated: bpy.types.Object,
    index: int,
    chain: Any,
    location: np.ndarray,
    rotation: np.ndarray,
    half_width: int,
    at: Frame,
) -> _Target | None:
    """A target to smooth, None where none of its own curves move it.

    Args:
        chain: its chain, as evaluated.
        location, rotation: ``(3,)``, ``(4,)`` its evaluated offset.
    """
    offset = of_offset(ob, index, rotation.tolist(), half_width, at)
    carrier = None
    if chain.target_space == "CUSTOM":
        has_offset = offset.moves or bool(np.abs(location).max() > AT_ORIGIN)
        # Names are the original's: a renamed bone has its old one in the evaluated copy.
        named = ob.ik_chains[index]
        carrier = of_carrier(evaluated, named.target, named.subtarget, half_width, has_offset, at)
    if carrier is None and offset is STILL:
        return None
    return _Target(index, offset, carrier, half_width, chain.smooth_frames)


def _change(
    targets: Sequence[_Target], now: float, step: int | None = None, smooth: Sequence[int] = ()
) -> Change:
    """What smoothing does to targets.

    Args:
        step: instead, what brings them to where they are so many frames later, smoothed by `smooth`
            frames to each side.
    """
    widths = smooth or [0] * len(targets)
    move, turn = _moved([target.offset for target in targets], now, step, widths)
    count = len(targets)
    inside, orient = np.tile(np.eye(4), (count, 1, 1)), np.tile(STILL.row, (count, 1))
    carried = [(place, target.carrier) for place, target in enumerate(targets) if target.carrier]
    if carried:
        places = [place for place, _ in carried]
        carriers = [carrier for _, carrier in carried]
        names = ("basis", "scale", "world", "armature")
        basis, scale, world, armature = (
            np.array([getattr(carrier, name) for carrier in carriers]) for name in names
        )
        motions, narrow = [c.motion for c in carriers], [widths[place] for place in places]
        inside[places] = inner_change(basis, scale, *_moved(motions, now, step, narrow))
        orient[places] = orientation_change(affine_inverse(armature) @ world, inside[places])
    return Change(move, turn, inside, orient)


def _moved(
    motions: Sequence[Motion], now: float, step: int | None, smooth: Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:
    """What smoothing, or a step to another frame, adds to locations ``(m, 3)`` and rotations ``(m, 4)``."""
    move, turn = np.zeros((len(motions), 3)), np.tile(STILL.row, (len(motions), 1))
    widths = [(motion.half_width, width) for motion, width in zip(motions, smooth, strict=True)]
    for half_width, width in {pair for pair in widths if pair[0]}:
        same = [place for place, pair in enumerate(widths) if pair == (half_width, width)]
        frames = [now + k for k in range(-half_width, half_width + 1)]
        if step is not None:
            there = now + min(max(step, -half_width), half_width)
            frames = [now, *(there + k for k in range(-width, width + 1))]
        moving = [place for place in same if motions[place].moves]
        if moving:
            samples = [_sampled(motions[place].location, (0.0, 0.0, 0.0), frames) for place in moving]
            move[moving] = (location_change if step is None else location_step)(np.array(samples))
        turning = [place for place in same if motions[place].turns]
        if turning:
            rows = [_sampled(motions[place].rotation, motions[place].row, frames) for place in turning]
            modes = [motions[place].mode for place in turning]
            turns = to_quaternion(np.array(rows).swapaxes(0, 1), modes)
            turn[turning] = (rotation_change if step is None else rotation_step)(turns.swapaxes(0, 1))
    return move, turn


def _sampled(
    curves: Sequence[bpy.types.FCurve | None], still: Sequence[float], frames: Sequence[float]
) -> np.ndarray:
    """Values ``(frames, w)`` of curves, and of numbers without a curve."""
    columns = np.empty((len(still), len(frames)))
    columns[:] = np.array(still)[:, None]
    for column, curve in zip(columns, curves, strict=False):
        if curve is not None:
            column[:] = [curve.evaluate(frame) for frame in frames]
    return columns.T
