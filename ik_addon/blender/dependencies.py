# SPDX-License-Identifier: GPL-3.0-or-later
"""What the chains of a plan depend on, the order that follows, and what cannot be followed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import bpy
import numpy as np

from ..core import stage as core
from ..core.graph import solve_order
from ..core.skeleton import Skeleton
from . import relations


@dataclass
class Behind:
    """The bones that something depends on.

    Attributes:
        hard: through parents, or whatever else carries rigidly.
        soft: in another way, each with words for it.
    """

    hard: set[int] = field(default_factory=set)
    soft: dict[int, str] = field(default_factory=dict)


class Dependencies:
    """Who depends on whom among the chains of some rigs.

    Args:
        rigs, objects: the armature objects, and all objects of the stage, these first.
        first: index in the skeleton of each rig's first bone.
        skeleton: the bones of all rigs, named ``rig/bone``.
    """

    def __init__(
        self,
        rigs: Sequence[bpy.types.Object],
        objects: Sequence[bpy.types.Object],
        first: Sequence[int],
        skeleton: Skeleton,
    ) -> None:
        self.rigs, self.objects, self.first = list(rigs), list(objects), list(first)
        self.skeleton = skeleton
        self.index = {tuple(name.split("/", 1)): i for i, name in enumerate(skeleton.names)}

    def ordered(self, built: list[core.Chain]) -> tuple[list[core.Chain], tuple[tuple[int, ...], ...]]:
        """The chains, those marked as broken that cannot be followed, and the waves of their order."""
        writes = [frozenset(chain.written) for chain in built]
        shifts = [chain.move_bone if chain.handling == "MOVE_ROOT" else None for chain in built]
        writers = {bone: chain for chain in built for bone in chain.written}
        writers.update({bone: c for bone, c in zip(shifts, built, strict=True) if bone is not None})
        reads = []
        out = []
        for chain in built:
            own, of_target = self._bones_behind(chain), self._bones_behind_target(chain)
            reads.append(frozenset(own.hard | of_target.hard))
            out.append(replace(chain, broken=chain.broken or self._blocked(chain, own, of_target, writers)))
        order = solve_order(reads, writes, shifts)
        for cycle in order.cycles:
            names = [built[i].name for i in cycle]
            text = f"{names[0]}: the chain depends on itself: {' > '.join([*names, names[0]])}"
            text += self._movers({built[i].name: shifts[i] for i in cycle})
            for i in cycle:
                out[i] = replace(out[i], broken=out[i].broken or text)
        return out, order.waves

    def _blocked(
        self, chain: core.Chain, own: Behind, of_target: Behind, writers: dict[int, core.Chain]
    ) -> str:
        looped = of_target.hard & set(chain.written)
        if looped:
            bone = self._bone_name(max(looped))
            return f"{chain.name}: its target or pole hangs on bone '{bone}', which the chain itself turns"
        if chain.handling == "MOVE_ROOT" and chain.move_bone in of_target.hard:
            bone = self._bone_name(chain.move_bone)
            return f"{chain.name}: its target or pole hangs on bone '{bone}', which the chain itself moves"
        for behind in (own, of_target):
            for index, through in behind.soft.items():
                if index in writers:
                    return (
                        f"{chain.name}: it follows bone '{self._bone_name(index)}' of chain"
                        f" '{writers[index].name}' through {through}, which cannot be solved in the same"
                        " update; use a parent, or one Child Of constraint on all axes at a fixed influence"
                    )
        return ""

    def _movers(self, shifts: dict[str, int | None]) -> str:
        """The end of a sentence about a cycle: the chains in it that move bones, and what helps."""
        moving = [f"'{n}' moves bone '{self._bone_name(b)}'" for n, b in shifts.items() if b is not None]
        if not moving:
            return ""
        whose = "it" if len(moving) == 1 else "one of these"
        return f"; {' and '.join(moving)} above them: set Out of Reach of {whose} to Accept or Stretch"

    def _bone_name(self, index: int) -> str:
        return self.skeleton.names[index].partition("/")[2]

    def _bones_behind(self, chain: core.Chain) -> Behind:
        if not chain.bones:
            return Behind()
        # The chain's own bones count as read; their constraints act after the solve. The head
        # of an end bone that is not turned hangs on the bone before it alone.
        own = set(chain.written)
        parent = int(self.skeleton.parents[chain.bones[0]])
        start = (self.rigs[chain.rig], self._bone_name(parent) if parent >= 0 else "")
        behind = self._walk([start])
        behind.hard.update(own)
        return behind

    def _bones_behind_target(self, chain: core.Chain) -> Behind:
        starts = []
        for space in (chain.target, chain.pole):
            if space.kind == core.OBJECT:
                starts.append((self.objects[space.index], ""))
            elif space.kind == core.BONE:
                rig = int(np.searchsorted(self.first, space.index, side="right")) - 1
                starts.append((self.rigs[rig], self._bone_name(space.index)))
        return self._walk(starts)

    def _walk(self, starts: list[relations.Place]) -> Behind:
        """Everything that places hang on: up the holders, and across other dependencies."""
        behind = Behind()
        visited: set[tuple[int, str, bool]] = set()
        pending: list[tuple[relations.Place, str]] = [(place, "") for place in starts]
        while pending:
            (ob, bone), through = pending.pop()
            if (ob.session_uid, bone, bool(through)) in visited:
                continue
            visited.add((ob.session_uid, bone, bool(through)))
            index = self._index_of(ob, bone)
            if index is not None:
                if through:
                    behind.soft.setdefault(index, through)
                else:
                    behind.hard.add(index)
            held_by = self._above(ob, bone)
            if held_by:
                pending.append((held_by, through))
            for place, words in relations.sources(ob, bone):
                pending.append((place, through or words))
        return behind

    def _index_of(self, ob: bpy.types.Object, bone: str) -> int | None:
        if not bone or ob not in self.rigs:
            return None
        return self.index.get((str(self.rigs.index(ob)), bone))

    def _above(self, ob: bpy.types.Object, bone: str) -> relations.Place | None:
        if not bone:
            return relations.holder(ob)
        if ob.type != "ARMATURE" or bone not in ob.data.bones:
            return None
        parent = ob.data.bones[bone].parent
        return (ob, parent.name if parent else "")
