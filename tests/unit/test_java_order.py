"""Java's hash order, against a node-by-node imitation of its two maps; and its sums, in which
figures are added one after the other.
"""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from strategies.java.hash_order import (
    concurrent_hash_map_order,
    copied_order,
    double_keys,
    hash_map_order,
    java_hash,
)
from strategies.ordered_sum import ordered_sum


def colliding(count: int) -> list[str]:
    """Names with one and the same hash: `Aa` and `BB` are equal to Java."""
    return ["".join(("Aa", "BB")[index >> bit & 1] for bit in range(6)) for index in range(count)]


#: Half of the names collide heavily, the others are what brokers and bundles are called.
names = st.lists(
    st.sampled_from(colliding(8))
    | st.builds("b{}:{}".format, st.integers(0, 400), st.integers(0, 3))
    | st.text(max_size=4),
    unique=True,
    max_size=260,
)


def nodes(keys: list[str]) -> list[tuple[int, int]]:
    """(spread hash, position) of every key."""
    return [
        (java_hash(key) ^ (java_hash(key) >> 16), position) for position, key in enumerate(keys)
    ]


def walk_of_a_hash_map(keys: list[str], size: int = 16) -> tuple[list[int], int]:
    """HashMap.putVal and resize, one node at a time."""
    table: list[list[tuple[int, int]]] = [[] for _ in range(size)]
    for count, node in enumerate(nodes(keys), start=1):
        chain = table[node[0] & (len(table) - 1)]
        chain.append(node)
        if len(chain) > 8 and len(table) < 64:
            table = split(table)
        if count > 0.75 * len(table):
            table = split(table)
    return [position for chain in table for _, position in chain], len(table)


def split(table: list[list[tuple[int, int]]]) -> list[list[tuple[int, int]]]:
    size = len(table)
    low = [[node for node in chain if not node[0] & size] for chain in table]
    return low + [[node for node in chain if node[0] & size] for chain in table]


def walk_of_a_concurrent_hash_map(keys: list[str]) -> list[int]:
    """ConcurrentHashMap.putVal, treeifyBin, tryPresize, addCount and transfer, one node at a
    time.
    """
    table: list[list[tuple[int, int]]] = [[] for _ in range(16)]
    for count, node in enumerate(nodes(keys), start=1):
        chain = table[node[0] & (len(table) - 1)]
        chain.append(node)
        if len(chain) > 8 and len(table) < 64:
            enough = 4 * len(table)
            while 0.75 * len(table) < enough:
                table = transfer(table)
        while count >= 0.75 * len(table):
            table = transfer(table)
    return [position for chain in table for _, position in chain]


def transfer(table: list[list[tuple[int, int]]]) -> list[list[tuple[int, int]]]:
    size = len(table)
    result: list[list[tuple[int, int]]] = [[] for _ in range(2 * size)]
    for index, chain in enumerate(table):
        last_run = len(chain)
        while last_run > 0 and chain[last_run - 1][0] & size == chain[-1][0] & size:
            last_run -= 1
        if chain:
            result[index + (chain[-1][0] & size)] = chain[last_run:]
        for node in chain[:last_run]:
            result[index + (node[0] & size)].insert(0, node)
    return result


@given(names, st.sampled_from([16, 32, 64, 128]))
@example(colliding(8), 16)
def test_a_hash_map_walks_as_node_by_node(keys: list[str], table_size: int) -> None:
    order, size = hash_map_order(keys, table_size)
    assert (order.tolist(), size) == walk_of_a_hash_map(keys, table_size)


@given(names)
def test_a_concurrent_hash_map_walks_as_node_by_node(keys: list[str]) -> None:
    assert concurrent_hash_map_order(keys).tolist() == walk_of_a_concurrent_hash_map(keys)


@given(st.lists(st.sampled_from(colliding(12)), unique=True, max_size=12), st.integers(0, 60))
def test_crowded_buckets_double_small_tables(crowd: list[str], others: int) -> None:
    before = [f"b{number}:1" for number in range(others // 2)]
    keys = [*before, *crowd, *(f"c{number}:1" for number in range(others))]
    assert concurrent_hash_map_order(keys).tolist() == walk_of_a_concurrent_hash_map(keys)
    assert hash_map_order(keys)[0].tolist() == walk_of_a_hash_map(keys)[0]


@given(names, st.sets(st.integers(0, 40)), st.sampled_from([16, 64]))
def test_a_copy_is_filled_in_the_order_of_the_original(
    keys: list[str], left_out: set[int], table_size: int
) -> None:
    left_out = {index for index in left_out if index < len(keys)}
    copied = [keys[index] for index in walk_of_a_concurrent_hash_map(keys) if index not in left_out]
    walked, grown = walk_of_a_hash_map(copied, table_size)
    order, size = copied_order(keys, table_size, left_out)
    assert [keys[index] for index in order.tolist()] == [copied[position] for position in walked]
    assert size == grown


@given(st.lists(st.floats(), min_size=1))
def test_doubles_order_as_double_compare(values: list[float]) -> None:
    order = np.argsort(double_keys(np.array(values)), kind="stable")
    ordinary = [index for index in range(len(values)) if values[index] == values[index]]
    wanted = sorted(ordinary, key=lambda at: (values[at], np.copysign(1, values[at])))
    assert [index for index in order.tolist() if values[index] == values[index]] == wanted
    assert len({*double_keys(np.array([float("nan"), -float("nan")])).tolist()}) == 1


def test_each_addition_rounds_as_in_java() -> None:
    """`sum` gives 1.0 and 2.0 here since Python 3.12."""
    assert ordered_sum([0.1] * 10) == 0.9999999999999999
    assert ordered_sum([1.0, 1e100, 1.0, -1e100]) == 0.0


@pytest.mark.parametrize("whole", [[], [3, 4], [True, False, True]])
def test_whole_numbers_stay_whole(whole: list[int]) -> None:
    found = ordered_sum(whole)
    assert (found, type(found)) == (sum(whole), int)
