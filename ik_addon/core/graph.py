# SPDX-License-Identifier: GPL-3.0-or-later
"""The order in which chains that depend on each other are solved."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter


@dataclass(frozen=True)
class Order:
    """The outcome of `solve_order`.

    Attributes:
        waves: indices of chains, wave by wave: those of one wave do not depend on each other.
        cycles: groups of chains that depend on themselves, in the order of the dependency;
            they are in no wave.
    """

    waves: tuple[tuple[int, ...], ...]
    cycles: tuple[tuple[int, ...], ...]


def solve_order(
    reads: Sequence[frozenset[Hashable]],
    writes: Sequence[frozenset[Hashable]],
    shifts: Sequence[Hashable | None] = (),
) -> Order:
    """Sort chains such that each is solved after those whose bones it reads.

    A chain that reads what another writes comes after it. Two chains that write the same
    bone are solved in list order, the later one on top of the earlier. Chains that shift the
    same bone are solved in one wave, and those that read it, after them; who turns the bone
    itself comes before.

    Args:
        reads: for each chain everything (bones, objects) its solve looks at, its own bones
            included.
        writes: for each chain the bones that it turns.
        shifts: for each chain the bone that it shifts, or None.
    """
    shifts = shifts or [None] * len(reads)
    writers: dict[Hashable, list[int]] = {}
    for i, written in enumerate(writes):
        for item in written:
            writers.setdefault(item, []).append(i)
    fellows = {
        i: [j for j, b in enumerate(shifts) if b == bone] for i, bone in enumerate(shifts) if bone is not None
    }
    needs: dict[int, set[int]] = {}
    for i, wanted in enumerate(reads):
        rivals = {j for item in writes[i] for j in writers[item] if j != i}
        sources = {j for item in wanted for j in writers.get(item, ()) if j != i}
        needs[i] = (sources - rivals) | {j for j in rivals if j < i}
        needs[i] |= {
            j
            for j, bone in enumerate(shifts)
            if bone is not None and bone in wanted and bone not in writes[i] and j not in fellows.get(i, [i])
        }
    # One of those that shift a bone stands for all of them.
    first = {i: min(fellows.get(i, [i])) for i in needs}
    before: dict[int, set[int]] = {i: set() for i in first.values()}
    for i, sources in needs.items():
        before[first[i]] |= {first[j] for j in sources}
    members = {node: [i for i in needs if first[i] == node] for node in before}
    cycles: list[tuple[int, ...]] = []
    while True:
        sorter = TopologicalSorter(before)
        try:
            sorter.prepare()
        except CycleError as error:
            cycle = tuple(dict.fromkeys(error.args[1]))
            cycles.append(tuple(i for node in reversed(cycle) for i in members[node]))
            before = {i: rest - set(cycle) for i, rest in before.items() if i not in cycle}
            continue
        break
    waves = []
    while sorter.is_active():
        ready = sorter.get_ready()
        waves.append(tuple(sorted(i for node in ready for i in members[node])))
        sorter.done(*ready)
    return Order(tuple(waves), tuple(cycles))
