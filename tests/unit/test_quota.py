"""A cluster's quota: what is folded, what is set aside, and how it comes back."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from pulsar_rebalancer.lab.plain_loop import PlainLoop
from sinks.wire.event_to_topic_rows import OutputRow
from sinks.wire.record_decoding import Position, decode_rejected, decode_round
from strategies.cluster.model import Round
from strategies.cluster.quota import EMPTY, Bulkhead, OverQuota, UnreadRecord, admit
from strategies.fold.engine import EngineSettings
from strategies.settings import BulkheadSettings
from tests.telemetry_lines import T0, line, load_report, sweep

SMALL = BulkheadSettings(
    records=3, records_per_broker=2, bytes=1_000, bytes_per_broker=100, first_bytes=1_000
)
MINUTE = 60_000
START = T0 - T0 % MINUTE


def arrival(minute: float, size: int = 10, offset: int = 0) -> UnreadRecord:
    return UnreadRecord(START + int(minute * MINUTE), size, ("t", 0, offset))


def judged(
    arrivals: Iterable[UnreadRecord],
    brokers: int = 0,
    bulkhead: Bulkhead = EMPTY,
    settings: BulkheadSettings = SMALL,
) -> tuple[list[bool], list[OverQuota], Bulkhead]:
    admitted, told = [], []
    for one in arrivals:
        bulkhead, yes, aside = admit(bulkhead, one, brokers, settings)
        admitted.append(yes)
        if aside is not None:
            told.append(aside)
    return admitted, told, bulkhead


def test_records_beyond_the_quota_are_set_aside_until_the_next_minute() -> None:
    flood = [arrival(0.1, offset=i) for i in range(5)]
    admitted, told, bulkhead = judged(flood)
    assert admitted == [True] * 3 + [False] * 2
    assert told == []
    assert bulkhead.left_out == 2
    admitted, told, bulkhead = judged([arrival(1, offset=5)], bulkhead=bulkhead)
    assert admitted == [True]
    (aside,) = told
    assert (aside.records, aside.bytes) == (2, 20)
    assert (aside.first, aside.last) == (("t", 0, 3), ("t", 0, 4))
    assert bulkhead.aside is None


def test_a_larger_cluster_has_a_larger_quota() -> None:
    assert sum(judged([arrival(0)] * 20, brokers=4)[0]) == 8
    assert sum(judged([arrival(0, 600)] * 20, brokers=4)[0]) == 1
    assert sum(judged([arrival(0, 600)] * 20, brokers=12)[0]) == 2


def test_a_cluster_that_no_round_knows_yet_has_more_bytes() -> None:
    settings = replace(SMALL, records=10, first_bytes=3_000)
    five = [arrival(0, 1_000)] * 5
    admitted = [judged(five, brokers, settings=settings)[0] for brokers in (0, 1, 20)]
    assert [*map(sum, admitted)] == [3, 1, 2]


def test_the_first_record_of_a_minute_is_folded_whatever_its_size() -> None:
    assert judged([arrival(0, 5_000), arrival(0.2), arrival(1, 5_000)])[0] == [True, False, True]


def test_of_the_largest_records_one_is_folded_a_minute_and_what_brokers_send_all() -> None:
    """Such a record holds up all other clusters; real reports, and the sweeps, do not wait."""
    largest, mib = 8 * 2**20, 2**20

    def admitted(*sizes: int) -> list[bool]:
        arrivals = [arrival(0.4, size) for size in sizes]
        return judged(arrivals, brokers=4, settings=BulkheadSettings())[0]

    assert admitted(largest, largest, 500) == [True, False, True]
    assert admitted(500, largest, mib, 500) == [True] * 4
    assert admitted(*[mib] * 32) == [True] * 32
    assert admitted(*[4 * mib] * 3) == [True] * 3


def test_a_wrong_clock_neither_uses_up_nor_renews_the_quota_of_the_others() -> None:
    ours, wrong = [arrival(0)] * 6, [arrival(600)] * 6
    mixed = [one for pair in zip(ours, wrong, strict=True) for one in pair]
    admitted, _, bulkhead = judged(mixed)
    assert admitted[::2] == admitted[1::2] == [True] * 3 + [False] * 3
    assert judged([arrival(1)], bulkhead=bulkhead)[0] == [True]


def test_a_log_whose_time_jumps_has_its_quota_at_once() -> None:
    _, _, bulkhead = judged([arrival(0)] * 9)
    assert judged([arrival(60)] * 4, bulkhead=bulkhead)[0] == [True] * 3 + [False]
    assert judged([arrival(-60)] * 4, bulkhead=bulkhead)[0] == [True] * 3 + [False]


class Cluster:
    """A cluster in the plain loop, whose quota leaves room for its own three records a minute."""

    def __init__(self, settings: BulkheadSettings = replace(SMALL, records=6, bytes=2**20)) -> None:
        self.loop = PlainLoop(EngineSettings(bulkhead=settings))
        self.fed = 0

    def feed(self, *values: bytes) -> list[OutputRow]:
        rows = list[OutputRow]()
        for value in values:
            rows += self.loop.feed(Position("t", 0, self.fed), value)
            self.fed += 1
        return rows

    def minute(self, number: int, *more: bytes) -> list[OutputRow]:
        """Two reports, then `more`, and the sweep of the pass, in whose minute it begins."""
        at = 60 * number
        reports = [load_report("a:1", at), load_report("b:1", at + 1)]
        return self.feed(*reports, *more, sweep(at + 5, "a:1", "b:1"))


def rounds(rows: Iterable[OutputRow]) -> list[Round]:
    return [decode_round(row.value) for row in rows if row.kind == "rounds"]


def test_a_flooded_cluster_says_so_in_its_next_round_and_comes_back() -> None:
    cluster = Cluster()
    assert [one.state and one.state.code for one in rounds(cluster.minute(0))] == ["waiting"]
    flood = [load_report("a:1", 62 + i / 1000) for i in range(20)]
    assert cluster.minute(1, *flood) == [], "the sweep is beyond the quota too"
    rows = cluster.minute(2)
    (row,) = [one for one in rows if one.kind == "rejected"]
    rejected = decode_rejected(row.value)
    assert (rejected.code, rejected.cluster) == ("over-quota", "c")
    assert (rejected.topic, rejected.partition, rejected.offset) == ("t", 0, 9)
    assert (rejected.original, rejected.truncated) == (b"", True)
    assert "17 records" in rejected.text
    assert "0/9 to 0/25" in rejected.text
    (first,) = rounds(rows)
    assert first.state is not None
    assert (first.state.code, first.commands) == ("set-aside", ())
    assert "[over-quota]" in first.state.text
    (after,) = rounds(cluster.minute(3))
    assert after.round == first.round + 1
    assert after.state is not None
    assert after.state.code == "balanced"


def test_a_record_that_cannot_be_decoded_uses_the_quota_too() -> None:
    cluster = Cluster()
    cluster.minute(0)
    poison = [line("load-report", 61, report=[i]) for i in range(30)]
    codes = [decode_rejected(row.value).code for row in cluster.feed(*poison)]
    assert len(codes) == 6
    assert "over-quota" not in codes
    assert {decode_rejected(row.value).code for row in cluster.minute(2)[:1]} == {"over-quota"}


@pytest.mark.heavy
def test_a_cluster_whose_every_record_is_large_and_wrong_has_a_quota() -> None:
    """Such a cluster never gets a clock, and its first bytes are those of any other."""
    cluster, first = Cluster(BulkheadSettings()), (START - T0) // 1_000
    rest = b',"x":"' + b"x" * 8_000_000 + b'"}'
    opened = sum(
        len(rest) * len(cluster.feed(line("load-report", first + i, report=5)[:-1] + rest))
        for i in range(60)
    )
    assert 0 < opened <= 64 * 2**20
    rows = cluster.feed(line("load-report", first + 60, report=5))
    assert [decode_rejected(row.value).code for row in rows] == ["over-quota", "wrong-type"]


def test_a_record_that_names_a_second_cluster_is_rejected() -> None:
    (row,) = Cluster().feed(load_report()[:-1] + b',"cluster":"d"}')
    assert decode_rejected(row.value).code == "cluster-twice"


def test_a_large_cluster_that_its_quota_does_not_know_yet_has_room_after_one_round() -> None:
    """A round that is set aside still counts the brokers for the next quota."""
    cluster = Cluster(replace(SMALL, records=6, records_per_broker=6, bytes=2**20))
    names = [f"b{i}:1" for i in range(12)]

    done = list[Round]()
    for at in range(0, 300, 60):
        reports = [load_report(name, at + i / 10) for i, name in enumerate(names)]
        done += rounds(cluster.feed(*reports, sweep(at + 5, *names)))
    states = [one.state.code for one in done if one.state is not None]
    assert states[0] == "set-aside"
    assert "set-aside" not in states[-2:]
    assert len(done[-1].brokers) == 12
