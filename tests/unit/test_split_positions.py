"""Where Pulsar cuts bundles: the positions of its four algorithms."""

from pulsar_rebalancer.lab.conformance.split_algorithms import (
    Cuts,
    SplitFault,
    SplitRequest,
    TopicFlow,
    applied,
    cuts,
)
from pulsar_rebalancer.lab.simulation.demand import initial_boundaries
from strategies.bundles import FULL, KeyRange, hexadecimal, parse_bundle
from strategies.splitting.bundle_limits import Algorithm, SplitSettings
from tests.world.splits import topic_of

WHOLE = KeyRange(0, FULL)


def cut(algorithm: Algorithm, request: SplitRequest) -> Cuts:
    found = cuts(algorithm, request)
    assert not isinstance(found, SplitFault)
    return found


def topics(*hashes: int) -> list[str]:
    return [topic_of(hash_) for hash_ in hashes]


def test_a_new_namespace_ends_at_the_largest_hash() -> None:
    six = ["0x00000000", "0x2aaaaaaa", "0x55555554", "0x7ffffffe", "0xaaaaaaa8", "0xd5555552"]
    assert [*map(hexadecimal, initial_boundaries(6))] == [*six, "0xffffffff"]
    assert initial_boundaries(1) == (0, FULL)


def test_the_largest_hash_is_in_the_last_bundle() -> None:
    assert FULL in KeyRange(0xC0000000, FULL)


def test_names_of_bundles_are_read() -> None:
    assert parse_bundle("t/ns/0xC0000000_0xffffffff") == ("t/ns", KeyRange(0xC0000000, FULL))
    assert parse_bundle("t/ns/LARGEST") is None


def test_topics_of_adjacent_hashes_are_cut_one_too_low() -> None:
    for lower in (0, 0x10):
        request = SplitRequest(WHOLE, topics(lower, lower + 1))
        assert cut("topic_count_equally_divide", request) == (lower,)


def test_positions_are_taken_in_order_where_they_are_inside() -> None:
    bundle = KeyRange(0x10, 0x40)
    request = SplitRequest(bundle, topics(0x11, 0x12), positions=(0x30, 0x10, 0x20, 0x30, 0x40))
    assert cut("specified_positions_divide", request) == (0x20, 0x30, 0x30)
    for other, found in (
        (SplitRequest(bundle, topics(0x11, 0x12), positions=(0x40,)), None),
        (SplitRequest(bundle, None, positions=(0x20,)), None),
        (SplitRequest(bundle, None, positions=(0x20,), force=True), (0x20,)),
    ):
        assert cut("specified_positions_divide", other) == found


def test_what_java_throws_is_a_value() -> None:
    nothing = cuts("specified_positions_divide", SplitRequest(WHOLE))
    assert nothing == SplitFault("java.lang.IllegalArgumentException")
    other = SplitRequest(WHOLE, default_algorithm="range_equally_divide")
    assert cuts("flow_or_qps_equally_divide", other) == SplitFault("java.lang.ClassCastException")


def test_topics_of_one_hash_have_the_figures_of_the_later_one() -> None:
    """90 + 90 instead of 10 + 90, which is above the limit."""
    first, twin = topic_of(50), topic_of(50, "persistent://t/ns/twin-")
    known = {
        first: TopicFlow(10.0, 0.0),
        twin: TopicFlow(90.0, 0.0),
        topic_of(90): TopicFlow(15.0, 0.0),
    }
    settings = SplitSettings(max_msg_rate=100, max_bandwidth_mib=100)
    request = SplitRequest(WHOLE, list(known), known, settings=settings)
    assert cut("flow_or_qps_equally_divide", request) == (51, 71)


def test_a_cut_changes_the_boundaries_of_the_namespace() -> None:
    assert applied((0, 100, 200), KeyRange(100, 200), (120, 150)) == (0, 100, 120, 150, 200)
    assert applied((0, 100, 200), KeyRange(0, 200), (120,)) is None
    assert applied((0, 100, 200), KeyRange(0, 100), (50,)) == (0, 50, 100, 200)
    assert isinstance(applied((0, 100, 200), KeyRange(0, 100), (100,)), SplitFault)
    assert isinstance(applied((0, 100, 200), KeyRange(0, 100), (50, 50)), SplitFault)
    halves = ["0x00000000_0x00000032", "0x00000032_0x00000064"]
    assert [*map(str, KeyRange(0, 100).parts((50,)))] == halves
