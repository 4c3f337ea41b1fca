# SPDX-License-Identifier: GPL-3.0-or-later
"""What stays the same while frames go by: the rigs' bones, the chains, who depends on whom.

A `Stage` holds all armatures that are solved together as one skeleton, bone indices of
the later rigs following those of the earlier ones. Chains of equal make are gathered in
groups, so that one array operation serves all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from . import limb, stretch
from .job import Status
from .limits import JointLimit, JointLimits
from .skeleton import Skeleton

# Blender's rest matrices are float32: most are orthogonal to 1e-7, some to 1e-5 only.
SQUARE = 1e-6

# Of the settings that may change from frame to frame, those that matter to all chains.
EVERY_CHAINS_SETTINGS = frozenset(
    ("influence", "target_location", "target_rotation", "pole_angle", "softness", "smooth_frames")
)

WORLD, ARMATURE, OBJECT, BONE = range(4)
AUTO, DIRECTION, POINT = range(3)


@dataclass(frozen=True)
class Space:
    """The space that a target or pole is stored in.

    Attributes:
        kind: WORLD, ARMATURE (the chain's own), OBJECT or BONE.
        index: index of the object, or of the bone in the stage's skeleton.
    """

    kind: int = WORLD
    index: int = -1


@dataclass(frozen=True)
class Chain:
    """The settings of one chain that decide *how* it is solved; numbers that may change
    from frame to frame come with the `Batch`.

    Attributes:
        name: ``armature: chain``, for messages.
        rig: index of its armature.
        solver: TWO_BONE, THREE_BONE, AIM, FABRIK or CCD.
        bones: the bones that are turned to bring the tip to the target, root first.
        end: the bone whose head is the tip, or -1: the tip is the tail of the last bone.
        use_rotation: `end` takes the target's rotation.
        target, pole: their spaces.
        pole_mode: AUTO, DIRECTION or POINT.
        hinge: ``(3,)`` rest bend axis in the space of the bone `bend_root`.
        planar_axis: 0, 1, 2 to solve in the plane normal to that armature axis, or -1.
        limb_mode, aim_mode, aim_axis, up_axis: as the settings of the same names.
        use_lean: the target is derived, see `spine.lean_target`.
        limit_mode: ACCEPT, MOVE_ROOT or STRETCH: what a gap between tip and target leads to.
        move_bone: the bone that MOVE_ROOT shifts, an ancestor of the chain, or -1.
        iterations, tolerance: of the iterative solvers.
        limits: `limits.JointLimit` of each bone of `written`, or () where none is kept.
        broken: why the chain cannot be solved, or an empty string.
    """

    name: str
    rig: int
    solver: str
    bones: tuple[int, ...]
    end: int = -1
    use_rotation: bool = False
    target: Space = Space()
    pole: Space = Space()
    pole_mode: int = AUTO
    hinge: tuple[float, float, float] = (1.0, 0.0, 0.0)
    planar_axis: int = -1
    limb_mode: str = "CLAVICLE"
    aim_mode: str = "LOOK_AT"
    aim_axis: str = "Y"
    up_axis: str = "Z"
    use_lean: bool = False
    limit_mode: str = "ACCEPT"
    move_bone: int = -1
    iterations: int = 100
    tolerance: float = 1e-6
    limits: tuple[JointLimit, ...] = ()
    broken: str = ""

    @property
    def written(self) -> tuple[int, ...]:
        """The bones whose rotation the chain writes."""
        return (*self.bones, self.end) if self.use_rotation and self.end >= 0 else self.bones

    @property
    def bends_freely(self) -> bool:
        """Two bones that turn about the line to their target."""
        return self.solver == "TWO_BONE" and self.planar_axis < 0

    @property
    def bend_root(self) -> int:
        """Place in `bones` of the first one that bends in the plane that the pole turns."""
        return limb.bend_root(self.limb_mode) if self.solver == "THREE_BONE" else 0

    @property
    def allowed_gap(self) -> float:
        """Distance, as a fraction of the length, at which an iterative solver may stop."""
        return self.tolerance if self.solver in ("FABRIK", "CCD") else 0.0

    @property
    def settings(self) -> frozenset[str]:
        """Those of `Batch.settings` that matter to it."""
        matter = {
            "pole_location": self.pole_mode != AUTO,
            "bend_sign": self.planar_axis >= 0,
            "share": self.solver == "THREE_BONE",
            "share_max": self.solver == "THREE_BONE",
            "lean": self.use_lean,
            "move_max": self.limit_mode == "MOVE_ROOT",
            "stretch_max": self.limit_mode == "STRETCH",
            **dict.fromkeys(("offset_yaw", "aim_offset", "aim_limit", "aim_damping"), self.solver == "AIM"),
        }
        return EVERY_CHAINS_SETTINGS.union(name for name, is_used in matter.items() if is_used)

    @property
    def make(self) -> tuple:
        """Chains of one make are solved in one call."""
        special: tuple = ()
        if self.solver == "AIM":
            special = (self.aim_mode, self.aim_axis, self.up_axis)
        elif self.solver == "THREE_BONE":
            special = (self.limb_mode,)
        elif self.solver in ("FABRIK", "CCD"):
            special = (self.iterations, self.tolerance, self.use_lean)
        size = (len(self.bones), self.end >= 0, self.use_rotation)
        return (self.solver, *size, self.planar_axis, bool(self.limits), self.handling, special)

    @property
    def handling(self) -> str:
        """What a gap leads to: the limit mode, where it has an effect."""
        without = self.broken or self.solver == "AIM"
        return (
            "ACCEPT" if without or (self.limit_mode, self.move_bone) == ("MOVE_ROOT", -1) else self.limit_mode
        )


class SpaceTable:
    """Where the spaces of a group's targets (or poles) come from, sorted by kind."""

    def __init__(self, spaces: Sequence[Space], rigs: np.ndarray, stage: Stage) -> None:
        kinds = np.array([space.kind for space in spaces])
        index = np.array([space.index for space in spaces])
        self.count = len(spaces)
        self.armature = np.flatnonzero(kinds == ARMATURE)
        self.world = np.flatnonzero(kinds == WORLD)
        self.object = np.flatnonzero(kinds == OBJECT)
        self.object_index = index[self.object]
        bone = kinds == BONE
        near = bone & (stage.rig_of_bone[np.where(bone, index, 0)] == rigs)
        self.near = np.flatnonzero(near)
        self.near_bone = index[self.near]
        self.far = np.flatnonzero(bone & ~near)
        self.far_bone = index[self.far]
        self.far_rig = stage.rig_of_bone[self.far_bone]


@dataclass(frozen=True)
class Group:
    """Chains of one make in one wave, as index arrays.

    Attributes:
        chains: ``(m,)`` their indices in `Stage.chains`; `example` is the first of them.
        bones: ``(m, b)`` turned bones, root first; with an end bone it is the last column.
        pick: `chains`, or a slice where they are all chains of the stage in order.
        parents: ``(m, b)`` parents of `bones`; a root's is the world, see `Stage.parents`.
        slots: ``(m, b)`` places of `bones` in `Stage.posed`.
        solved: number of columns of `bones` that the position solver turns.
        plain: all its bones inherit rotation and scale in full and have local location.
        limits: of the bones that are turned, the end bone included; None: all are free.
        growth: the scale channels that stretch the chains, or None.
        square: the rest matrices of its bones are orthogonal, but for the rounding of float32.
        from_world: all its chains start at bones without parents.
    """

    example: Chain
    chains: np.ndarray
    pick: np.ndarray | slice
    rig: np.ndarray
    bones: np.ndarray
    parents: np.ndarray
    slots: np.ndarray
    solved: int
    plain: bool
    hinge: np.ndarray
    target: SpaceTable
    pole: SpaceTable
    pole_mode: np.ndarray
    limits: JointLimits | None
    growth: Growth | None
    square: bool
    from_world: bool

    @cached_property
    def written(self) -> np.ndarray:
        """``(m, b)`` of `slots`, those whose rotation is written."""
        return self.slots[:, : self.solved + int(self.example.use_rotation and self.example.end >= 0)]

    @cached_property
    def has_pole(self) -> bool:
        return bool(np.any(self.pole_mode != AUTO))


@dataclass(frozen=True)
class Growth:
    """Scale channels that grow with the chains of a group.

    Attributes:
        slots: ``(q,)`` places in `Stage.posed`; rows: ``(q,)`` places of their chains in the group.
        powers: ``(q, 3)`` of the ratio, see `stretch.stretched_bones`.
    """

    slots: np.ndarray
    rows: np.ndarray
    powers: np.ndarray


@dataclass(frozen=True)
class Pull:
    """The chains of a wave that shift the same bone, by group and column.

    Attributes:
        slot: place of the bone in `Stage.posed`.
        chains: ``(group, columns)`` of each group of the wave that has some.
    """

    slot: int
    chains: tuple[tuple[Group, np.ndarray], ...]


@dataclass(frozen=True)
class Run:
    """Paths of bones that are posed together, ``(m, n)`` each: n = 1 unless all are `plain`.

    `places` in `Stage.posed`, the `bones` there and their `parents`; `from_world`: no path has a bone
    above it.
    """

    places: np.ndarray
    bones: np.ndarray
    parents: np.ndarray
    plain: bool
    from_world: bool

    def goes_on_with(self, other: Run) -> bool:
        """The bones of another run are the only children of these paths' last bones, in order."""
        return self.plain and other.plain and np.array_equal(other.parents[:, 0], self.bones[:, -1])

    def followed_by(self, other: Run) -> Run:
        """These paths with one more bone each."""
        return Run(
            places=np.concatenate([self.places, other.places], axis=1),
            bones=np.concatenate([self.bones, other.bones], axis=1),
            parents=np.concatenate([self.parents, other.parents], axis=1),
            plain=True,
            from_world=self.from_world,
        )


@dataclass(frozen=True)
class Stage:
    """Rigs, objects and chains that are solved together.

    Attributes:
        skeleton: the bones of all rigs.
        rig_of_bone: ``(n,)`` index of each bone's armature.
        carriers: ``(objects,)`` the bone that each object is fixed to, through parents, or
            -1. The first objects are the armature objects of the rigs, in their order.
        chains: all chains; waves: their order, see `graph.solve_order`.
        posed: ``(k,)`` bones whose pose is computed here, parents first: those that chains
            turn, and those below them that a chain looks at.
        turned: ``(k,)`` which of `posed` chains turn; the others follow their parents.
        constrained: places in `posed` of followers that constraints pose, too: their channels
            do not tell where they are, so what was evaluated is carried along. But for the heads
            of `tips`: a tip is where the bones above lead, not where a constraint puts the hand.
    """

    skeleton: Skeleton
    rig_of_bone: np.ndarray
    carriers: np.ndarray
    chains: tuple[Chain, ...]
    waves: tuple[tuple[int, ...], ...]
    posed: np.ndarray
    turned: np.ndarray
    constrained: np.ndarray

    @cached_property
    def parents(self) -> np.ndarray:
        """``(n,)`` parents of all bones; roots have n: an identity that stands after the poses."""
        return np.where(self.skeleton.parents < 0, len(self.skeleton.names), self.skeleton.parents)

    @cached_property
    def offset(self) -> np.ndarray:
        """``(k, 4, 4)`` rest matrices of `posed` in their parents' rest frames."""
        return self.skeleton.offset[self.posed]

    @cached_property
    def moves_by_location(self) -> np.ndarray:
        """``(k, 1)`` 1, or 0 for connected bones: their location channel has no effect."""
        return (~self.skeleton.connected[self.posed]).astype(float)[:, None]

    @cached_property
    def has_connected(self) -> bool:
        """Some of `posed` are connected."""
        return bool(self.skeleton.connected[self.posed].any())

    @cached_property
    def first_status(self) -> np.ndarray:
        """``(chains,)`` int8 status before a solve: OK, or BROKEN for those that cannot be solved."""
        broken = np.array([bool(chain.broken) for chain in self.chains], bool)
        return np.where(broken, Status.BROKEN, Status.OK).astype(np.int8)

    @cached_property
    def settings(self) -> frozenset[str]:
        """Those of `Batch.settings` that matter to its chains."""
        return EVERY_CHAINS_SETTINGS.union(*(chain.settings for chain in self.chains))

    @cached_property
    def rig_count(self) -> int:
        """Number of armatures."""
        return int(self.rig_of_bone.max(initial=-1)) + 1

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        """`posed`, level by level: parents stand in an earlier run, or earlier on their path."""
        depth = self.skeleton.depth[self.posed]
        found: list[Run] = []
        for level in np.unique(depth):
            run = self._run(np.flatnonzero(depth == level))
            if found and found[-1].goes_on_with(run):
                found[-1] = found[-1].followed_by(run)
            else:
                found.append(run)
        return tuple(found)

    def _run(self, places: np.ndarray) -> Run:
        bones = self.posed[places]
        plain = bool(self.skeleton.plain[bones].all())
        from_world = bool((self.skeleton.parents[bones] < 0).all())
        return Run(places[:, None], bones[:, None], self.parents[bones][:, None], plain, from_world)

    @cached_property
    def groups(self) -> tuple[tuple[Group, ...], ...]:
        """For each wave the chains that can be solved, gathered by make."""
        return tuple(tuple(self._gather(wave)) for wave in self.waves)

    @cached_property
    def pulls(self) -> tuple[tuple[Pull, ...], ...]:
        """For each wave the bones that its chains shift, ancestors first."""
        return tuple(self._pulls(groups) for groups in self.groups)

    def _pulls(self, groups: tuple[Group, ...]) -> tuple[Pull, ...]:
        found: dict[int, list[tuple[Group, np.ndarray]]] = {}
        for group in groups:
            bones = np.array([self.chains[i].move_bone for i in group.chains])
            if group.example.handling == "MOVE_ROOT":
                for bone in np.unique(bones).tolist():
                    found.setdefault(bone, []).append((group, np.flatnonzero(bones == bone)))
        place = {int(bone): slot for slot, bone in enumerate(self.posed)}
        return tuple(Pull(place[bone], tuple(found[bone])) for bone in sorted(found))

    @cached_property
    def tips(self) -> np.ndarray:
        """Those of `constrained` whose head is the tip of a chain."""
        ends = [chain.end for chain in self.chains]
        return self.constrained[np.isin(self.posed[self.constrained], ends)]

    @cached_property
    def moves(self) -> bool:
        """Some chain shifts a bone."""
        return any(self.pulls)

    @cached_property
    def is_single(self) -> bool:
        """No chain looks at what another one poses, and nothing is posed but by turns."""
        return len(self.waves) == 1 and not (self.moves or self.stretches or len(self.carried))

    @cached_property
    def looked_at(self) -> np.ndarray:
        """Bones whose evaluated pose a solve rests on; all others it computes, or leaves alone."""
        every = np.arange(len(self.skeleton.names))
        if len(self.constrained) or len(self.carried):
            return every
        spaces = [s.index for c in self.chains for s in (c.target, c.pole) if s.kind == BONE]
        found = {*self.skeleton.parents[self.posed].tolist(), *spaces}
        return every[np.isin(every, list(found)) & ~np.isin(every, self.posed)]

    @cached_property
    def last_steps(self) -> dict[str, Any]:
        """Where `fk_steps` keeps what it computed last."""
        return {}

    @cached_property
    def stretches(self) -> bool:
        """Some chain grows."""
        return any(chain.handling == "STRETCH" for chain in self.chains)

    @cached_property
    def carried(self) -> np.ndarray:
        """Objects that move when chains turn their bones, carriers' own objects first."""
        posed = set(self.posed.tolist())
        moved: list[int] = []
        pending = [o for o, bone in enumerate(self.carriers) if bone >= 0]
        while pending:
            found = [
                o for o in pending if self.carriers[o] in posed or self.rig_of_bone[self.carriers[o]] in moved
            ]
            if not found:
                break
            moved.extend(found)
            pending = [o for o in pending if o not in found]
        return np.array(moved, int)

    def _gather(self, wave: Iterable[int]) -> Iterable[Group]:
        by_make: dict[tuple, list[int]] = {}
        for index in wave:
            if not self.chains[index].broken:
                by_make.setdefault(self.chains[index].make, []).append(index)
        return [self._group(indices) for indices in by_make.values()]

    def _group(self, indices: list[int]) -> Group:
        chains = [self.chains[i] for i in indices]
        rows = [(*c.bones, c.end) if c.end >= 0 else c.bones for c in chains]
        bones = np.array(rows, int)
        place = np.full(len(self.skeleton.names), -1)
        place[self.posed] = np.arange(len(self.posed))
        rig = np.array([c.rig for c in chains])
        return Group(
            example=chains[0],
            chains=np.array(indices),
            pick=slice(None) if indices == list(range(len(self.chains))) else np.array(indices),
            rig=rig,
            bones=bones,
            parents=self.parents[bones],
            slots=place[bones],
            solved=len(chains[0].bones),
            plain=bool(self.skeleton.plain[bones].all()),
            hinge=np.array([c.hinge for c in chains], float),
            target=SpaceTable([c.target for c in chains], rig, self),
            pole=SpaceTable([c.pole for c in chains], rig, self),
            pole_mode=np.array([c.pole_mode for c in chains]),
            limits=JointLimits.of([c.limits for c in chains]) if chains[0].limits else None,
            growth=self._growth(chains, place) if chains[0].handling == "STRETCH" else None,
            square=bool(self._is_square(self.skeleton.offset[bones, :3, :3])),
            from_world=bool((self.skeleton.parents[bones[:, 0]] < 0).all()),
        )

    @staticmethod
    def _is_square(linear: np.ndarray) -> bool:
        gram = np.swapaxes(linear, -1, -2) @ linear
        return bool((np.abs(gram - np.eye(3)) <= SQUARE).all())

    def _growth(self, chains: list[Chain], place: np.ndarray) -> Growth:
        found = [
            (place[bone], row, power)
            for row, chain in enumerate(chains)
            for bone, power in stretch.stretched_bones(self.skeleton, chain.bones, chain.end).items()
        ]
        slots, rows, powers = zip(*found, strict=True)
        return Growth(np.array(slots), np.array(rows), np.array(powers))
