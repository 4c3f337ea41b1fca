# SPDX-License-Identifier: GPL-3.0-or-later
"""Where spaces are on other frames, as Blender evaluates them with all chains solved."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import bpy
import numpy as np

from ..core.pipeline import solve
from ..core.skeleton import basis_from_pose, pose_from_basis
from ..core.transforms import affine_inverse
from . import placing, relations, smoothing
from .plan import Plan, animated_discrete, compile_plan, discrete_values, groups_of_rigs
from .reading import read
from .sampling import NAME, sampling_scene
from .state import STATE


@dataclass(frozen=True)
class Part:
    """Names of the settings of a chain's target, or of its pole; a pole has no rotation."""

    label: str
    space: str
    object: str
    bone: str
    location: str
    rotation: str


PARTS = {
    "TARGET": Part("target", "target_space", "target", "subtarget", "target_location", "target_rotation"),
    "POLE": Part("pole", "pole_space", "pole_target", "pole_subtarget", "pole_location", ""),
}


class Space(NamedTuple):
    """WORLD, ARMATURE (of the chain), or CUSTOM: an object, or a bone of it."""

    kind: str
    target: bpy.types.Object | None = None
    bone: str = ""


def space_of(chain: Any, part: Part) -> Space:
    """The space that a target or pole is in now."""
    kind = getattr(chain, part.space)
    return custom_of(chain, part) if kind == "CUSTOM" else Space(kind)


def custom_of(chain: Any, part: Part) -> Space:
    """The CUSTOM space that a chain names, used or not."""
    return Space("CUSTOM", getattr(chain, part.object), getattr(chain, part.bone))


@dataclass(frozen=True)
class Samples:
    """A target or pole over F frames, all matrices ``(F, 4, 4)`` to world space.

    Attributes:
        frames: ``(F,)``.
        armature: of the chain's armature object.
        space: the space that the target was in on each frame.
        other: the space that was asked for beside it.
        location: ``(F, 3)`` in `space`; rotation: ``(F, 4)`` in `space`, identity for a pole.
        is_direction: ``(F,)`` the location is a direction.
        kinds: ``(F,)`` the space by its name.
    """

    frames: np.ndarray
    armature: np.ndarray
    space: np.ndarray
    other: np.ndarray
    location: np.ndarray
    rotation: np.ndarray
    is_direction: np.ndarray
    kinds: np.ndarray


def present(
    scene: bpy.types.Scene,
    ob: bpy.types.Object,
    index: int,
    part: Part,
    other: Space,
    smoothed: bool = False,
) -> Samples:
    """One sample: the current frame as it is, with edits that have no key.

    Of what is hidden Blender knows no such edits: it is sampled.

    Args:
        smoothed: the spaces are those that the smoothed target of a chain is in.
    """
    chain = ob.ik_chains[index]
    bpy.context.view_layer.update()
    own = space_of(chain, part)
    needed = [ob, *(space.target for space in (own, other) if space.target is not None)]
    if all(placing.evaluated(item).is_evaluated for item in needed):
        found = [placing.space_matrix(ob, *space) for space in (Space("ARMATURE"), own, other)]
    else:
        there = sample(scene, ob, index, part, other, [scene.frame_current_final])
        found = [there.armature[0], there.space[0], there.other[0]]
    if smoothed and part.rotation:
        own_change = smoothing.at_present(ob, chain)
        other_change = smoothing.in_space(ob, chain.smooth_frames, other.target, other.bone)
        for place, change in ((1, own_change), (2, other_change)):
            if change is not None:
                found[place] = np.asarray(found[place], np.float64) @ change.inside[0]
    return _stacked([(scene.frame_current_final, *found, *_values(chain, part))])


def sample(
    scene: bpy.types.Scene,
    ob: bpy.types.Object,
    index: int,
    part: Part,
    other: Space,
    frames: Sequence[float],
) -> Samples:
    """Samples at frames, in a scene that holds only the rigs; nothing of the file is changed."""
    custom = custom_of(ob.ik_chains[index], part)
    rows = []
    with solved_frames(scene, ob, [space for space in (other, custom) if space.target]) as go_to:
        for frame in frames:
            solved = go_to(frame)
            chain = solved.seen(ob).ik_chains[index]
            kind = getattr(chain, part.space)
            spaces = [Space("ARMATURE"), custom if kind == "CUSTOM" else Space(kind), other]
            matrices = [solved.space(ob, space) for space in spaces]
            rows.append((frame, *matrices, *_values(chain, part)))
    return _stacked(rows)


def _values(chain: Any, part: Part) -> tuple:
    rotation = tuple(getattr(chain, part.rotation)) if part.rotation else (1.0, 0.0, 0.0, 0.0)
    is_direction = not part.rotation and chain.pole_mode == "DIRECTION"
    return tuple(getattr(chain, part.location)), rotation, is_direction, getattr(chain, part.space)


def _stacked(rows: list[tuple]) -> Samples:
    columns = [np.array([np.asarray(row[i]) for row in rows]) for i in range(8)]
    numbers = [column.astype(np.float64) for column in columns[:6]]
    return Samples(*numbers, *columns[6:])


class SolvedFrame:
    """A frame as Blender evaluates it without the handler, and the solved pose of its rigs beside it."""

    def __init__(self, plan: Plan, rigs: Sequence[bpy.types.Object], depsgraph: bpy.types.Depsgraph) -> None:
        self.plan, self.rigs, self.depsgraph = plan, list(rigs), depsgraph
        reading = read(plan, rigs, [self.seen(ob) for ob in rigs], depsgraph, fresh=True, whole=True)
        self.fk = reading.batch.pose[0]
        self.solved = solve(plan.stage, reading.batch).pose[0]
        self.places = {name: place for place, name in enumerate(plan.stage.skeleton.names)}

    def seen(self, ob: bpy.types.Object) -> bpy.types.Object:
        """`ob` as evaluated."""
        return ob.evaluated_get(self.depsgraph)

    def space(self, ob: bpy.types.Object, space: Space) -> np.ndarray:
        """World matrix ``(4, 4)`` of a space of one of `ob`'s chains, solved."""
        if space.kind == "WORLD" or (space.kind == "CUSTOM" and space.target is None):
            return np.eye(4)
        return self._world(ob if space.kind == "ARMATURE" else space.target, space.bone, [])

    def _world(self, ob: bpy.types.Object, bone: str, above: list[bpy.types.Object]) -> np.ndarray:
        """World matrix of an object or bone; `above` are those that were asked for on the way."""
        place = self._place(ob, bone)
        if bone:
            return self._world(ob, "", above) @ (self._pose(place) if place >= 0 else self._fk_pose(ob, bone))
        matrix = np.array(self.seen(ob).matrix_world, dtype=np.float64)
        holder = relations.holder(ob)
        if holder is None or ob in above:
            return matrix
        before = np.array(self.seen(holder[0]).matrix_world, dtype=np.float64)
        if holder[1]:
            before = before @ self._fk_pose(*holder)
        return self._world(*holder, [*above, ob]) @ affine_inverse(before) @ matrix

    def _fk_pose(self, ob: bpy.types.Object, bone: str) -> np.ndarray:
        return np.array(self.seen(ob).pose.bones[bone].matrix, dtype=np.float64)

    def _place(self, ob: bpy.types.Object, bone: str) -> int:
        return self.places.get(f"{self.rigs.index(ob)}/{bone}", -1) if ob in self.rigs else -1

    def _pose(self, bone: int) -> np.ndarray:
        """Pose of a bone of the stage: solved, or hanging on the solved one above it."""
        skeleton = self.plan.stage.skeleton
        parent = int(skeleton.parents[bone])
        if parent < 0 or bone in self.plan.stage.posed:
            return self.solved[bone]
        above = self._pose(parent)
        if np.array_equal(above, self.fk[parent]):
            return self.fk[bone]
        one = np.array([bone])
        basis = basis_from_pose(skeleton, one, self.fk[parent][None], self.fk[bone][None])
        return pose_from_basis(skeleton, one, above[None], basis)[0]


@contextmanager
def solved_frames(
    scene: bpy.types.Scene, ob: bpy.types.Object, spaces: Sequence[Space]
) -> Iterator[Callable[[float], SolvedFrame]]:
    """A scene of the rigs alone, and a function that goes to a frame of it.

    The handler stays out: where a depsgraph is not that of the window, what it writes would
    take the animation of the frame away from its rigs.
    """
    behind = [space.target for space in spaces if space.target and space.target.type == "ARMATURE"]
    rigs = [rig for group in groups_of_rigs([ob, *behind]) for rig in group]
    names = animated_discrete(rigs)
    plans: dict[tuple, Plan] = {}
    # Blender evaluates what they copy, also where it is hidden.
    probes = [_probe(space) for space in spaces]
    try:
        with STATE.at_work(), sampling_scene(scene, rigs) as sampling:
            for probe in probes:
                sampling.collection.objects.link(probe)

            def go_to(frame: float) -> SolvedFrame:
                whole = int(np.floor(frame))
                sampling.frame_set(whole, subframe=frame - whole)
                depsgraph = sampling.view_layers[0].depsgraph
                seen = [rig.evaluated_get(depsgraph) for rig in rigs]
                values = discrete_values(names, seen)
                if values not in plans:
                    plans[values] = compile_plan(rigs, seen)
                return SolvedFrame(plans[values], rigs, depsgraph)

            yield go_to
    finally:
        bpy.data.batch_remove(probes)


def _probe(space: Space) -> bpy.types.Object:
    probe = bpy.data.objects.new(NAME, None)
    constraint = probe.constraints.new("COPY_TRANSFORMS")
    constraint.target, constraint.subtarget = space.target, space.bone
    return probe
