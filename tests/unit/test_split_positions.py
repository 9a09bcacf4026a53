"""Where Pulsar cuts bundles: the positions of its four algorithms."""

from pulsar_rebalancer.lab.simulation.demand import initial_boundaries
from strategies.bundles import FULL, KeyRange, hexadecimal, parse_bundle


def test_a_new_namespace_ends_at_the_largest_hash() -> None:
    six = ["0x00000000", "0x2aaaaaaa", "0x55555554", "0x7ffffffe", "0xaaaaaaa8", "0xd5555552"]
    assert [*map(hexadecimal, initial_boundaries(6))] == [*six, "0xffffffff"]
    assert initial_boundaries(1) == (0, FULL)


def test_the_largest_hash_is_in_the_last_bundle() -> None:
    assert FULL in KeyRange(0xC0000000, FULL)


def test_names_of_bundles_are_read() -> None:
    assert parse_bundle("t/ns/0xC0000000_0xffffffff") == ("t/ns", KeyRange(0xC0000000, FULL))
    assert parse_bundle("t/ns/LARGEST") is None
