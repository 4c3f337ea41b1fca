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


def solve_order(reads: Sequence[frozenset[Hashable]], writes: Sequence[frozenset[Hashable]]) -> Order:
    """Sort chains such that each is solved after those whose bones it reads.

    A chain that reads what another writes comes after it. Two chains that write the same
    bone are solved in list order, the later one on top of the earlier.

    Args:
        reads: for each chain everything (bones, objects) its solve looks at, its own bones
            included.
        writes: for each chain the bones that it turns.
    """
    writers: dict[Hashable, list[int]] = {}
    for i, written in enumerate(writes):
        for item in written:
            writers.setdefault(item, []).append(i)
    before: dict[int, set[int]] = {}
    for i, wanted in enumerate(reads):
        rivals = {j for item in writes[i] for j in writers[item] if j != i}
        sources = {j for item in wanted for j in writers.get(item, ()) if j != i}
        before[i] = (sources - rivals) | {j for j in rivals if j < i}
    cycles: list[tuple[int, ...]] = []
    while True:
        sorter = TopologicalSorter(before)
        try:
            sorter.prepare()
        except CycleError as error:
            cycle = tuple(dict.fromkeys(error.args[1]))
            cycles.append(tuple(reversed(cycle)))
            before = {i: needs - set(cycle) for i, needs in before.items() if i not in cycle}
            continue
        break
    waves = []
    while sorter.is_active():
        ready = sorter.get_ready()
        waves.append(tuple(sorted(ready)))
        sorter.done(*ready)
    return Order(tuple(waves), tuple(cycles))
