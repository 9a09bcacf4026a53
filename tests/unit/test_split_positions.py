"""Where bundles are cut: the positions of the four algorithms, and what fixed mode does
otherwise.
"""

from __future__ import annotations

import pytest

from strategies.bundles.ranges import (
    FULL,
    KeyRange,
    bundle_of,
    divided,
    hexadecimal,
    initial_boundaries,
    parse_bundle,
    topic_hash,
)
from strategies.settings import Mode
from strategies.splitting.boundaries import (
    Algorithm,
    Cuts,
    FlowSettings,
    SplitFault,
    SplitRequest,
    TopicFlow,
    applied,
    cuts,
)
from tests.world.splits import topic_of

WHOLE = KeyRange(0, FULL)
FOUR = initial_boundaries(4)


def cut(algorithm: Algorithm, request: SplitRequest, mode: Mode = "parity") -> Cuts:
    found = cuts(algorithm, request, mode)
    assert not isinstance(found, SplitFault)
    return found


def topics(*hashes: int) -> list[str]:
    return [topic_of(hash_) for hash_ in hashes]


def by_flow(
    flows: dict[int, tuple[float, float]], settings: FlowSettings, mode: Mode = "parity"
) -> Cuts:
    """The cuts of a whole namespace with topics of these hashes, messages/s and MiB/s."""
    known = {topic_of(hash_): TopicFlow(rate, mib * 2**20) for hash_, (rate, mib) in flows.items()}
    return cut(
        "flow_or_qps_equally_divide",
        SplitRequest(WHOLE, list(known), known, flow_settings=settings),
        mode,
    )


def test_the_hash_is_crc32() -> None:
    assert topic_hash("123456789") == 0xCBF43926


@pytest.mark.parametrize(
    ("topic", "hash_", "bundle"),
    [
        ("persistent://public/default/my-topic", 0x2BAD45F7, "0x00000000_0x40000000"),
        ("persistent://public/default/orders-partition-0", 0x5AF6C8D5, "0x40000000_0x80000000"),
        ("persistent://public/default/orders-partition-1", 0x2DF1F843, "0x00000000_0x40000000"),
        ("persistent://public/default/orders-partition-2", 0xB4F8A9F9, "0x80000000_0xc0000000"),
        ("persistent://public/default/orders-partition-3", 0xC3FF996F, "0xc0000000_0xffffffff"),
        ("non-persistent://public/default/my-topic", 0x831E214A, "0x80000000_0xc0000000"),
    ],
)
def test_topics_fall_into_bundles(topic: str, hash_: int, bundle: str) -> None:
    assert topic_hash(topic) == hash_
    assert str(bundle_of(hash_, FOUR, "parity")) == bundle


def test_a_new_namespace_ends_at_the_largest_hash() -> None:
    assert [hexadecimal(boundary) for boundary in initial_boundaries(3)] == [
        "0x00000000",
        "0x55555555",
        "0xaaaaaaaa",
        "0xffffffff",
    ]
    assert initial_boundaries(6)[1:6] == (
        0x2AAAAAAA,
        0x55555554,
        0x7FFFFFFE,
        0xAAAAAAA8,
        0xD5555552,
    )
    assert initial_boundaries(1) == (0, FULL)


def test_the_largest_hash_has_a_bundle_in_fixed_mode_only() -> None:
    assert bundle_of(FULL, FOUR, "parity") is None
    assert bundle_of(FULL, FOUR, "fixed") == KeyRange(0xC0000000, FULL)
    assert FULL in KeyRange(0xC0000000, FULL)


def test_names_of_bundles_are_read() -> None:
    assert parse_bundle("t/ns/0xC0000000_0xffffffff") == ("t/ns", KeyRange(0xC0000000, FULL))
    assert parse_bundle("t/ns/LARGEST") is None


@pytest.mark.parametrize(
    ("bundle", "expected"),
    [
        (WHOLE, 0x7FFFFFFF),
        (KeyRange(0xC0000000, FULL), 0xDFFFFFFF),
        (KeyRange(0x7FFFFFFF, FULL), 0xBFFFFFFF),
        (KeyRange(5, 7), 6),
        (KeyRange(5, 6), 5),
    ],
)
def test_ranges_are_cut_in_the_middle(bundle: KeyRange, expected: int) -> None:
    assert cut("range_equally_divide", SplitRequest(bundle)) == (expected,)


def test_a_range_of_one_hash_is_not_cut() -> None:
    request = SplitRequest(KeyRange(5, 6))
    assert isinstance(
        applied((0, 5, 6, FULL), request.bundle, cut("range_equally_divide", request) or ()),
        SplitFault,
    )
    assert cut("range_equally_divide", request, "fixed") is None


@pytest.mark.parametrize(
    ("hashes", "expected"),
    [
        ((0, 5, 0x10, 0x15, 0x20, 0x25), 0x12),
        (tuple(index * 0x10000000 for index in range(1, 6)), 0x28000000),
        ((0x10000000, 0x20000000, 0x35000000, 0x65000000, 0x70000000, 0x75000000), 0x4D000000),
        ((0x10, 0x11), 0x10),
    ],
)
def test_topics_are_counted(hashes: tuple[int, ...], expected: int) -> None:
    assert cut("topic_count_equally_divide", SplitRequest(WHOLE, topics(*hashes))) == (expected,)


def test_neighbouring_topics_part_in_fixed_mode() -> None:
    assert cut("topic_count_equally_divide", SplitRequest(WHOLE, topics(0x10, 0x11)), "fixed") == (
        0x11,
    )
    assert cut("topic_count_equally_divide", SplitRequest(WHOLE, topics(0, 1)), "parity") == (0,)
    assert cut("topic_count_equally_divide", SplitRequest(WHOLE, topics(0, 1)), "fixed") == (1,)


@pytest.mark.parametrize("algorithm", ["topic_count_equally_divide", "flow_or_qps_equally_divide"])
@pytest.mark.parametrize("known", [None, [], ["persistent://t/ns/alone"]])
def test_one_topic_is_not_parted(algorithm: Algorithm, known: list[str] | None) -> None:
    assert cut(algorithm, SplitRequest(WHOLE, known)) is None


def test_positions_are_taken_in_order_where_they_are_inside() -> None:
    bundle = KeyRange(0x10, 0x40)
    request = SplitRequest(bundle, topics(0x11, 0x12), positions=(0x30, 0x10, 0x20, 0x30, 0x40))
    assert cut("specified_positions_divide", request) == (0x20, 0x30, 0x30)
    assert cut("specified_positions_divide", request, "fixed") == (0x20, 0x30)
    assert (
        cut(
            "specified_positions_divide",
            SplitRequest(bundle, topics(0x11, 0x12), positions=(0x40,)),
        )
        is None
    )
    assert cut("specified_positions_divide", SplitRequest(bundle, None, positions=(0x20,))) is None
    assert cut(
        "specified_positions_divide", SplitRequest(bundle, None, positions=(0x20,), force=True)
    ) == (0x20,)


def test_what_java_throws_is_a_value() -> None:
    nothing = cuts("specified_positions_divide", SplitRequest(WHOLE), "parity")
    assert isinstance(nothing, SplitFault)
    assert nothing.code == "no-positions"
    other = cuts(
        "flow_or_qps_equally_divide",
        SplitRequest(WHOLE, default_algorithm="range_equally_divide"),
        "parity",
    )
    assert isinstance(other, SplitFault)
    assert other.java == "java.lang.ClassCastException"
    assert (
        cuts(
            "flow_or_qps_equally_divide",
            SplitRequest(WHOLE, default_algorithm="range_equally_divide"),
            "fixed",
        )
        is None
    )


SIX = dict(
    zip(
        (0x10000000, 0x15000000, 0x24000000, 0x39000000, 0x58000000, 0x76000000),
        ((100.0, 10.0), (200.0, 20.0), (300.0, 30.0), (400.0, 40.0), (500.0, 50.0), (600.0, 60.0)),
        strict=True,
    )
)


@pytest.mark.parametrize("mode", ["parity", "fixed"])
@pytest.mark.parametrize(
    ("rate", "mib", "expected"),
    [
        (450, 200, (0x1C800001, 0x2E800001, 0x48800001, 0x67000001)),
        (1900, 90, (0x2E800001, 0x67000001)),
        (1100, 110, (0x48800001,)),
    ],
)
def test_six_topics_by_flow(rate: int, mib: int, expected: tuple[int, ...], mode: Mode) -> None:
    assert by_flow(SIX, FlowSettings(rate, mib), mode) == expected


@pytest.mark.parametrize(
    ("rates", "limit", "expected"),
    [
        ({10: 100, 20: 200, 80: 300, 90: 400, 100: 500, 110: 50}, 1100, (96,)),
        ({10: 55, 20: 55}, 100, None),
        ({10: 60, 20: 55}, 100, (16,)),
        ({10: 150, 20: 5, 30: 5}, 100, (16,)),
        ({10: 111, 20: 0}, 100, None),
    ],
)
def test_small_flows(rates: dict[int, float], limit: int, expected: Cuts) -> None:
    assert (
        by_flow({hash_: (rate, 0.0) for hash_, rate in rates.items()}, FlowSettings(limit, 100))
        == expected
    )


def test_topics_of_one_hash_count_once_in_fixed_mode() -> None:
    """Java counts both with the figures of the later one: 90 + 90 instead of 10 + 90, which is
    above the limit.
    """
    first, twin = topic_of(50), topic_of(50, "persistent://t/ns/twin-")
    known = {
        first: TopicFlow(10.0, 0.0),
        twin: TopicFlow(90.0, 0.0),
        topic_of(90): TopicFlow(15.0, 0.0),
    }
    request = SplitRequest(WHOLE, list(known), known, flow_settings=FlowSettings(100, 100))
    assert cut("flow_or_qps_equally_divide", request, "parity") == (51, 71)
    assert cut("flow_or_qps_equally_divide", request, "fixed") == (71,)


def test_a_cut_changes_the_boundaries_of_the_namespace() -> None:
    assert divided((0, 100, 200), KeyRange(100, 200), (120, 150)) == (0, 100, 120, 150, 200)
    assert divided((0, 100, 200), KeyRange(0, 200), (120,)) is None
    assert applied((0, 100, 200), KeyRange(0, 100), (50,)) == (0, 50, 100, 200)
    outside = applied((0, 100, 200), KeyRange(0, 100), (100,))
    assert isinstance(outside, SplitFault)
    assert outside.text == "0x00000064 is not strictly inside 0x00000000_0x00000064"
    assert [str(part) for part in KeyRange(0, 100).parts((50,))] == [
        "0x00000000_0x00000032",
        "0x00000032_0x00000064",
    ]
