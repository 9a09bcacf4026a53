"""The quota under random floods: the same bytes however records are divided, nothing lost, and no
effect on who stays within it.
"""

import json
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import Row

from pulsar_rebalancer.lab.plain_loop import PlainLoop
from sinks.wire.event_to_topic_rows import OutputRow
from sinks.wire.record_decoding import Position, WireLimits
from strategies.cluster.cluster_state import InMemoryStore
from strategies.cluster.quota import EMPTY, UnreadRecord, admit
from strategies.fold.engine import Engine, EngineSettings
from strategies.settings import BulkheadSettings
from streaming.pack_and_decode_records import reading
from streaming.processor import by_cluster, fold
from streaming.state.state_to_bytes import from_bytes, to_bytes
from tests.telemetry_lines import line, load_report, sweep

QUOTA = BulkheadSettings(
    records=8, records_per_broker=1, bytes=40_000, bytes_per_broker=0, first_bytes=100_000
)
ENGINE = EngineSettings(bulkhead=QUOTA)

#: Seconds, and which of the records.
Sent = tuple[int, int]
SENT = st.lists(st.tuples(st.integers(0, 400), st.integers(0, 6)), max_size=120)


def value(sent: Sent) -> bytes:
    at, kind = sent
    return (
        load_report("a:1", at),
        load_report("b:1", at),
        sweep(at, "a:1", "b:1"),
        line("load-report", at, report=[]),
        line("note", at, note="x" * 30_000),
        load_report("a:1", at + 86_400),
        line("note", at, note="x" * 70_000),
    )[kind]


def rows(values: Sequence[bytes], first: int) -> list[Row]:
    return [
        Row(topic="t", partition=0, offset=first + i, value=one, size=len(one))
        for i, one in enumerate(values)
    ]


def in_batches(values: Sequence[bytes], cuts: Sequence[int]) -> list[OutputRow]:
    """As the stateful task does, with the cluster's state as bytes between two micro-batches."""
    engine, store, read = Engine(ENGINE), InMemoryStore(), reading(WireLimits())
    found: list[OutputRow] = []
    for first, end in pairwise([0, *cuts, len(values)]):
        store.put_cluster(from_bytes(to_bytes(store.get_cluster())))
        batch = by_cluster(read(rows(values[first:end], first)))
        found += fold(engine, batch.get("c", []), store)
    return found


@pytest.mark.heavy
@given(SENT, st.lists(st.integers(0, 120), max_size=6))
def test_any_division_has_the_bytes_of_the_plain_loop(sent: list[Sent], cuts: list[int]) -> None:
    values = [value(one) for one in sorted(sent)]
    loop = PlainLoop(ENGINE)
    whole = [row for i, one in enumerate(values) for row in loop.feed(Position("t", 0, i), one)]
    assert in_batches(values, sorted(min(cut, len(values)) for cut in cuts)) == whole
    aside = [json.loads(row.value) for row in whole if b'"over-quota"' in row.value]
    assert all(one["cluster"] == "c" for one in aside)


ARRIVALS = st.lists(
    st.tuples(st.integers(0, 40) | st.integers(10**6, 10**6 + 9), st.integers(1, 20_000)),
    max_size=300,
)


@given(ARRIVALS)
def test_every_record_is_folded_or_told(arrivals: list[tuple[int, int]]) -> None:
    """What is told, what is kept to be told, and what is admitted are all records together."""
    bulkhead, admitted, told, places = EMPTY, 0, 0, list[int]()
    for offset, (minute, size) in enumerate(arrivals):
        one = UnreadRecord(60_000 * minute, size, ("t", 0, offset))
        bulkhead, yes, aside = admit(bulkhead, one, 0, QUOTA)
        admitted += yes
        if aside is not None:
            told += aside.records
            places += [aside.first[2], aside.last[2]]
    waiting = 0 if bulkhead.aside is None else bulkhead.aside.records
    assert admitted + told + waiting == len(arrivals)
    assert bulkhead.left_out == told + waiting
    assert places == sorted(places)
    assert len(bulkhead.windows) <= 8


@given(st.lists(st.integers(0, 30), max_size=300))
def test_a_minute_never_has_more_than_its_quota(minutes: list[int]) -> None:
    """Whatever order its records come in: a late one counts in the minute that has begun."""
    bulkhead, folded = EMPTY, list[int]()
    for offset, minute in enumerate(sorted(minutes)):
        one = UnreadRecord(60_000 * minute, 10, ("t", 0, offset))
        bulkhead, yes, _ = admit(bulkhead, one, 0, QUOTA)
        folded += [minute] * yes
    assert all(
        folded.count(minute) == min(QUOTA.records, minutes.count(minute)) for minute in {*minutes}
    )
