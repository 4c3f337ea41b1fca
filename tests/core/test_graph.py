# SPDX-License-Identifier: GPL-3.0-or-later
"""The order of chains: sources first, list order on shared bones, cycles named."""

from hypothesis import given
from hypothesis import strategies as st

from ik_addon.core.graph import solve_order


def order_of(*chains):
    reads = [frozenset(reads) for reads, _ in chains]
    writes = [frozenset(writes) for _, writes in chains]
    return solve_order(reads, writes)


def test_a_chain_comes_after_those_whose_bones_it_reads():
    arm, spine, head = (
        ({"arm", "chest"}, {"arm"}),
        ({"chest", "hips"}, {"chest"}),
        ({"head", "arm"}, {"head"}),
    )
    order = order_of(arm, spine, head)
    assert order.waves == ((1,), (0,), (2,))
    assert order.cycles == ()


def test_independent_chains_share_a_wave():
    order = order_of(({"a"}, {"a"}), ({"b"}, {"b"}), ({"c"}, {"c"}))
    assert order.waves == ((0, 1, 2),)


def test_chains_that_write_the_same_bone_are_solved_in_list_order():
    neck, head = ({"neck", "head"}, {"neck", "head"}), ({"head"}, {"head"})
    assert order_of(neck, head).waves == ((0,), (1,))
    assert order_of(head, neck).waves == ((0,), (1,))


def test_a_cycle_is_named_in_the_order_of_its_dependency_and_others_go_on():
    left, right = ({"l", "r"}, {"l"}), ({"r", "l"}, {"r"})
    after, free = ({"x", "l"}, {"x"}), ({"y"}, {"y"})
    order = order_of(left, right, after, free)
    assert [set(cycle) for cycle in order.cycles] == [{0, 1}]
    assert sorted(i for wave in order.waves for i in wave) == [2, 3]


def test_two_separate_cycles_are_both_found():
    chains = [({"a", "b"}, {"a"}), ({"b", "a"}, {"b"}), ({"c", "d"}, {"c"}), ({"d", "c"}, {"d"})]
    order = order_of(*chains)
    assert sorted(map(sorted, order.cycles)) == [[0, 1], [2, 3]]
    assert order.waves == ()


bones = st.sets(st.integers(0, 8), max_size=4)


@given(st.lists(st.tuples(bones, bones), max_size=8))
def test_every_chain_is_in_one_wave_or_one_cycle_and_sources_come_first(chains):
    order = order_of(*chains)
    placed = [i for wave in order.waves for i in wave] + [i for cycle in order.cycles for i in cycle]
    assert sorted(placed) == list(range(len(chains)))
    wave_of = {i: number for number, wave in enumerate(order.waves) for i in wave}
    for i in wave_of:
        for j in wave_of:
            shares = chains[i][1] & chains[j][1]
            if i != j and not shares and chains[i][0] & chains[j][1]:
                assert wave_of[j] < wave_of[i]
            if i < j and shares:
                assert wave_of[i] < wave_of[j]
