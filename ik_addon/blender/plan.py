# SPDX-License-Identifier: GPL-3.0-or-later
"""Compile the chains of armature objects into a `Stage`, and remember where its parts come from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import bpy
import numpy as np

from ..core import stage as core
from . import animation, chains, handling, joint_limits, memory, relations, rest
from .chain_bones import ChainBones, ChainError, resolve, uses_pole
from .dependencies import Dependencies
from .obstacles import obstacles
from .rest_bend import rest_hinge

POLE_MODES = {"AUTO": core.AUTO, "DIRECTION": core.DIRECTION, "POINT": core.POINT}
# Settings that decide how a chain is solved. When one is animated, each of its values has
# a plan of its own.
DISCRETE = (
    "solver", "use_tail", "target_space", "use_rotation", "pole_mode", "pole_space", "use_planar",
    "planar_axis", "use_limits", "limb_mode", "aim_mode", "aim_axis", "up_axis", "use_lean", "iterations",
    "tolerance", "limit_mode",
)  # fmt: skip


@dataclass(frozen=True)
class VectorChannel:
    """A location or scale channel of k bones of a rig that chains write.

    Attributes:
        prop: "location" or "scale".
        places: ``(k,)`` places in `Stage.posed`; pose_places: in `pose.bones`.
        animated: ``(k, 3)`` components that curves set.
    """

    prop: str
    places: np.ndarray
    pose_places: np.ndarray
    animated: np.ndarray


@dataclass(frozen=True)
class Rig:
    """One armature object of a plan.

    Attributes:
        order: ``(n,)`` place in `pose.bones` of each of its bones in the skeleton.
        bones: slice of its bones in the skeleton of the stage.
        places: ``(k,)`` places in `Stage.posed` of the bones that chains turn.
        pose_places: ``(k,)`` places in `pose.bones` of these bones.
        posed_places, posed_pose_places: the same of all its bones in `Stage.posed`.
        looked_at, looked_at_bones: places of `Stage.looked_at` in `pose.bones`, and in the skeleton.
        follow_places, follow_pose_places, follow_modes: the same of the bones that only follow.
        modes, codes: rotation modes of these bones, as names and as `memory.MODE_CODES`.
        animated: ``(k, 4)`` rotation components of these bones that curves set.
        vectors: the location and scale channels that chains write.
        chains: slice of its chains in the stage.
    """

    order: np.ndarray
    bones: slice
    places: np.ndarray
    pose_places: np.ndarray
    posed_places: np.ndarray
    posed_pose_places: np.ndarray
    looked_at: np.ndarray
    looked_at_bones: np.ndarray
    follow_places: np.ndarray
    follow_pose_places: np.ndarray
    follow_modes: tuple[str, ...]
    modes: tuple[str, ...]
    codes: np.ndarray
    animated: np.ndarray
    is_animated: bool
    vectors: tuple[VectorChannel, ...]
    chains: slice


@dataclass(frozen=True)
class Link:
    """How to find an object again: through the chain that points to it.

    The evaluated object is ``rig.ik_chains[chain].<prop>`` of the evaluated rig.
    """

    rig: int
    chain: int
    prop: str


@dataclass(frozen=True)
class Plan:
    """A stage, and where to read and write what belongs to it.

    Attributes:
        links: for each object of the stage after the rigs' own.
        object_rows: where these objects stand in the view layers that were read (`raw`).
        serial: of no other plan of the session.
    """

    stage: core.Stage
    rigs: tuple[Rig, ...]
    links: tuple[Link, ...]
    object_rows: dict[tuple, Any] = field(default_factory=dict)
    serial: int = field(default_factory=count().__next__)


def fingerprint(ob: bpy.types.Object) -> tuple:
    """What a plan of the object rests on, joint limits aside: it holds while this does."""
    codes = np.empty(len(ob.pose.bones), np.int32)
    ob.pose.bones.foreach_get("rotation_mode", codes)
    return (ob.name, len(ob.ik_chains), codes.tobytes(), animation.signature(ob))


def animated_discrete(rigs: Sequence[bpy.types.Object]) -> tuple[tuple[str, ...], ...]:
    """For each rig the discrete settings that anything animates, on any of its chains."""
    return tuple(
        tuple(name for name in DISCRETE if name in animation.animated_chain_settings(ob)) for ob in rigs
    )


def discrete_values(names: Sequence[Sequence[str]], seen: Sequence[bpy.types.Object]) -> tuple:
    """The evaluated values of the discrete settings `names` of each rig."""
    return tuple(
        tuple(tuple(getattr(chain, name) for name in wanted) for chain in ob.ik_chains) if wanted else ()
        for wanted, ob in zip(names, seen, strict=True)
    )


def groups_of_rigs(rigs: Iterable[bpy.types.Object]) -> list[list[bpy.types.Object]]:
    """Gather armature objects that must be solved together: one holds a target of the other."""
    groups: list[list[bpy.types.Object]] = []
    for ob in rigs:
        members = [ob, *_armatures_behind(ob)]
        joined = [group for group in groups if any(member in group for member in members)]
        merged = list(dict.fromkeys([*(rig for group in joined for rig in group), *members]))
        groups = [group for group in groups if group not in joined] + [merged]
    return groups


def _armatures_behind(ob: bpy.types.Object) -> list[bpy.types.Object]:
    found: list[bpy.types.Object] = []
    pending = [ob, *(target for chain in ob.ik_chains for target in _custom_objects(chain))]
    visited = set()
    while pending:
        item = pending.pop()
        if item.session_uid in visited:
            continue
        visited.add(item.session_uid)
        if item.type == "ARMATURE" and item != ob:
            found.append(item)
        held_by = relations.holder(item)
        if held_by:
            pending.append(held_by[0])
    return found


def _custom_objects(chain: bpy.types.PropertyGroup) -> list[bpy.types.Object]:
    # A space that is animated may be CUSTOM on another frame.
    animated = animation.animated_chain_settings(chain.id_data)
    targets = []
    if chain.target and (chain.target_space == "CUSTOM" or "target_space" in animated):
        targets.append(chain.target)
    has_pole = chain.pole_mode != "AUTO" or "pole_mode" in animated
    if has_pole and chain.pole_target and (chain.pole_space == "CUSTOM" or "pole_space" in animated):
        targets.append(chain.pole_target)
    return targets


def compile_plan(rigs: Sequence[bpy.types.Object], seen: Sequence[bpy.types.Object]) -> Plan:
    """Compile the chains of a group of rigs.

    Args:
        rigs: the original armature objects.
        seen: the same as evaluated, for discrete settings that are animated.
    """
    return _Compiler(rigs, seen).run()


class _AsSeen:
    """A chain with the settings that may be animated as evaluated. Names are the original's: a bone that
    was just renamed still has its old one in the evaluated copy."""

    def __init__(self, original: bpy.types.PropertyGroup, evaluated: bpy.types.PropertyGroup) -> None:
        self._original, self._evaluated = original, evaluated

    def __getattr__(self, key: str) -> Any:
        return getattr(self._evaluated if key in DISCRETE else self._original, key)


class _Compiler:
    def __init__(self, rigs: Sequence[bpy.types.Object], seen: Sequence[bpy.types.Object]) -> None:
        self.rigs = list(rigs)
        self.seen = list(seen)
        self.first: list[int] = []
        self.orders = [rest.bone_order(ob) for ob in rigs]
        self.index: dict[tuple[int, str], int] = {}
        self.objects: list[bpy.types.Object] = list(rigs)
        self.links: list[Link] = []
        self.in_the_way = [obstacles(ob) for ob in rigs]

    def run(self) -> Plan:
        skeleton = rest.skeleton_of(self.rigs, self.orders)
        counts = [len(order) for order in self.orders]
        self.first = [sum(counts[:rig]) for rig in range(len(counts))]
        for bone, name in enumerate(skeleton.names):
            rig_name, _, bone_name = name.partition("/")
            self.index[int(rig_name), bone_name] = bone
        rig_of_bone = np.repeat(np.arange(len(counts)), counts)
        self.skeleton = skeleton
        built = [self._chain(rig, i) for rig, ob in enumerate(self.rigs) for i in range(len(ob.ik_chains))]
        carriers = np.array([self._carrier(ob) for ob in self.objects], int)
        stage_chains, waves = Dependencies(self.rigs, self.objects, self.first, skeleton).ordered(built)
        held = self._held_bones()
        written = held["rotation"] | held["location"] | held["scale"]
        posed = self._posed(written, stage_chains, carriers)
        stage = core.Stage(
            skeleton=skeleton,
            rig_of_bone=rig_of_bone,
            carriers=carriers,
            chains=tuple(stage_chains),
            waves=waves,
            posed=posed,
            turned=np.isin(posed, sorted(held["rotation"])),
            constrained=self._constrained(posed, held["rotation"], rig_of_bone),
        )
        rigs = tuple(self._rig(rig, stage, held) for rig in range(len(self.rigs)))
        return Plan(stage, rigs, tuple(self.links))

    # Chains

    def _settings(self, rig: int, i: int) -> Any:
        evaluated, original = self.seen[rig].ik_chains, self.rigs[rig].ik_chains
        return _AsSeen(original[i], evaluated[i]) if len(evaluated) == len(original) else original[i]

    def _chain(self, rig: int, i: int) -> core.Chain:
        ob, chain = self.rigs[rig], self.rigs[rig].ik_chains[i]
        name = f"{ob.name}: {chain.name}"
        # As evaluated: while a bake or a render reads a frame, the original may hold another one.
        value = self._settings(rig, i)
        text = chains.problem(ob, value, self.in_the_way[rig]) or self._not_posed(rig, i, value)
        try:
            bones = resolve(ob, value)
        except ChainError:
            return core.Chain(name=name, rig=rig, solver=value.solver, bones=(), broken=text)
        by_pole = uses_pole(value)
        takes_rotation = value.use_rotation and bool(bones.end)
        written = (*bones.turned, bones.end) if takes_rotation else bones.turned
        return core.Chain(
            name=name,
            rig=rig,
            solver=value.solver,
            bones=tuple(self.index[rig, bone] for bone in bones.turned),
            end=self.index[rig, bones.end] if bones.end else -1,
            use_rotation=takes_rotation,
            limits=joint_limits.chain_limits(ob, self.seen[rig], written) if value.use_limits else (),
            target=core.Space() if text else self._space(rig, i, value, "target"),
            pole=self._space(rig, i, value, "pole_target") if by_pole and not text else core.Space(),
            pole_mode=POLE_MODES[value.pole_mode] if by_pole else core.AUTO,
            hinge=rest_hinge(ob, bones, value.limb_mode if value.solver == "THREE_BONE" else ""),
            planar_axis="XYZ".index(value.planar_axis) if value.use_planar else -1,
            limb_mode=value.limb_mode,
            aim_mode=value.aim_mode,
            aim_axis=value.aim_axis,
            up_axis=value.up_axis,
            use_lean=value.use_lean and value.solver in ("FABRIK", "CCD"),
            limit_mode=value.limit_mode,
            move_bone=-1 if text else self._moved_bone(rig, value, bones),
            iterations=value.iterations,
            tolerance=value.tolerance,
            broken=text,
        )

    def _moved_bone(self, rig: int, value: Any, bones: ChainBones) -> int:
        if value.limit_mode != "MOVE_ROOT" or value.solver == "AIM":
            return -1
        return self.index[rig, handling.moved_bone(self.rigs[rig], value, bones, self.in_the_way[rig])]

    def _not_posed(self, rig: int, i: int, value: Any) -> str:
        """Words for a target or pole bone whose armature is left alone now (see `live.solve_group`)."""
        chain = self.rigs[rig].ik_chains[i]
        for label, is_used, ob, bone in (
            ("target", value.target_space == "CUSTOM", chain.target, chain.subtarget),
            ("pole", value.pole_space == "CUSTOM" and uses_pole(value), chain.pole_target,
             chain.pole_subtarget),
        ):  # fmt: skip
            if is_used and bone and ob not in self.rigs:
                return (
                    f"{self.rigs[rig].name}: chain '{chain.name}': the armature of its {label} bone,"
                    f" '{ob.name}', shows no pose: it is in edit mode or in its rest position"
                )
        return ""

    def _space(self, rig: int, i: int, value: Any, prop: str) -> core.Space:
        kind = value.target_space if prop == "target" else value.pole_space
        original = self.rigs[rig].ik_chains[i]
        ob = getattr(original, prop)
        bone = original.subtarget if prop == "target" else original.pole_subtarget
        if kind == "WORLD":
            return core.Space(core.WORLD)
        if kind == "ARMATURE" or (ob == self.rigs[rig] and not bone):
            return core.Space(core.ARMATURE)
        if bone:
            return core.Space(core.BONE, self.index[self.rigs.index(ob), bone])
        return core.Space(core.OBJECT, self._object(ob, Link(rig, i, prop)))

    def _object(self, ob: bpy.types.Object, link: Link) -> int:
        if ob not in self.objects:
            self.objects.append(ob)
            self.links.append(link)
        return self.objects.index(ob)

    def _carrier(self, ob: bpy.types.Object) -> int:
        """The bone of the stage that `ob` is fixed to, directly or through other objects, or -1."""
        seen: set[int] = set()
        place = relations.holder(ob)
        while place and place[0].session_uid not in seen:
            held_by, bone = place
            seen.add(held_by.session_uid)
            if bone and held_by in self.rigs:
                return self.index.get((self.rigs.index(held_by), bone), -1)
            place = relations.holder(held_by)
        return -1

    # Order

    def _held_bones(self) -> dict[str, set[int]]:
        """The bones whose channels chains write; those of chains that are broken now hold still."""
        held: dict[str, set[int]] = {"rotation": set(), "location": set(), "scale": set()}
        for rig, ob in enumerate(self.rigs):
            as_seen = [self._settings(rig, i) for i in range(len(ob.ik_chains))]
            for chain in (*ob.ik_chains, *as_seen):
                try:
                    channels = handling.held_channels(ob, chain, self.in_the_way[rig])
                except ChainError:
                    continue
                for prop, found in held.items():
                    found.update(self.index[rig, name] for name in getattr(channels, prop))
        return held

    def _constrained(self, posed: np.ndarray, held: set[int], rig_of_bone: np.ndarray) -> np.ndarray:
        """Places in `posed` of the followers that constraints pose."""
        found = []
        for place, bone in enumerate(posed.tolist()):
            rig = int(rig_of_bone[bone])
            pose_bone = self.rigs[rig].pose.bones[int(self.orders[rig][bone - self.first[rig]])]
            if bone not in held and any(relations.is_active(c) for c in pose_bone.constraints):
                found.append(place)
        return np.array(found, int)

    def _posed(self, written: set[int], built: Sequence[core.Chain], carriers: np.ndarray) -> np.ndarray:
        wanted = set(written)
        looked_at = [bone for chain in built for bone in (*chain.bones, chain.end)]
        looked_at += [s.index for chain in built for s in (chain.target, chain.pole) if s.kind == core.BONE]
        looked_at += carriers.tolist()
        for bone in looked_at:
            path = []
            while bone >= 0:
                path.append(bone)
                if bone in written:
                    wanted.update(path)
                bone = int(self.skeleton.parents[bone])
        return np.array(sorted(wanted), int)

    # Rigs

    def _rig(self, rig: int, stage: core.Stage, held: dict[str, set[int]]) -> Rig:
        ob, first, order = self.rigs[rig], self.first[rig], self.orders[rig]
        own = stage.rig_of_bone[stage.posed] == rig
        places, follow = np.flatnonzero(own & stage.turned), np.flatnonzero(own & ~stage.turned)
        pose_places, follow_pose = (order[stage.posed[at] - first] for at in (places, follow))
        pose_bones = [ob.pose.bones[int(i)] for i in pose_places]
        animated = animation.animated_rotation_components(ob)
        nothing = np.zeros(4, bool)
        rows = [animated.get(bone.name, nothing) for bone in pose_bones]
        before = sum(len(other.ik_chains) for other in self.rigs[:rig])
        looked_at = stage.looked_at[stage.rig_of_bone[stage.looked_at] == rig]
        return Rig(
            order=order,
            bones=slice(first, first + len(order)),
            places=places,
            pose_places=pose_places,
            posed_places=np.flatnonzero(own),
            posed_pose_places=order[stage.posed[own] - first],
            looked_at=order[looked_at - first],
            looked_at_bones=looked_at,
            follow_places=follow,
            follow_pose_places=follow_pose,
            follow_modes=tuple(ob.pose.bones[int(i)].rotation_mode for i in follow_pose),
            modes=tuple(bone.rotation_mode for bone in pose_bones),
            codes=np.array([memory.MODE_CODES[bone.rotation_mode] for bone in pose_bones], np.float32),
            animated=np.array(rows, bool).reshape(-1, 4),
            is_animated=bool(np.any(rows)),
            vectors=tuple(
                self._vectors(rig, stage, prop, held[prop]) for prop in ("location", "scale") if held[prop]
            ),
            chains=slice(before, before + len(ob.ik_chains)),
        )

    def _vectors(self, rig: int, stage: core.Stage, prop: str, held: set[int]) -> VectorChannel:
        ob = self.rigs[rig]
        own = (stage.rig_of_bone[stage.posed] == rig) & np.isin(stage.posed, sorted(held))
        places = np.flatnonzero(own)
        pose_places = self.orders[rig][stage.posed[places] - self.first[rig]]
        animated = animation.animated_vector_components(ob, prop)
        nothing = np.zeros(3, bool)
        rows = [animated.get(ob.pose.bones[int(i)].name, nothing) for i in pose_places]
        return VectorChannel(prop, places, pose_places, np.array(rows, bool).reshape(-1, 3))
