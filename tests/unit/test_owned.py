"""The collector's notes about the bundles of extensible brokers: kept for drains, and nothing
else.
"""

from typing import Any

import pytest

from sinks.collector.broker_poll import Report
from sinks.collector.collector import encode_note
from sinks.wire.record_decoding import decode
from strategies.cluster.cluster_state import InMemoryStore, StateStore, read_note
from strategies.cluster.model import Note, Owned, Round, TelemetryRecord, Tombstone
from strategies.cluster.packed_records import pack_record, unpack_record
from strategies.fold.engine import Engine, EngineSettings
from streaming.state.store import StoreCache
from tests.spark.state_variables import Spark
from tests.telemetry_lines import bundle, line
from tests.world.telemetry import T0, fold_all, report, sweep

ENGINE = Engine(EngineSettings())


def owned(seconds: float, broker: str = "a:1", *indices: int) -> Owned:
    return Owned("c", broker, T0 + int(seconds * 1000), tuple(map(bundle, indices)))


def a_pass(seconds: float, *brokers: str) -> list[TelemetryRecord]:
    return [*(report(name, seconds) for name in brokers), sweep(seconds + 1, *brokers)]


def kept(store: StateStore, broker: str = "a:1") -> tuple[str, ...] | None:
    record = read_note(broker, store)
    return None if record is None else record.bundles


def test_what_the_collector_writes_is_what_is_decoded() -> None:
    body = f'{{"{bundle(1)}":{{}},"{bundle(2)}":{{}}}}'.encode()
    record = decode(encode_note("owned-bundles", "c", Report("a:1", T0, body)), b"")
    assert record == Owned("c", "a:1", T0, (bundle(1), bundle(2)))
    assert unpack_record(pack_record(record)) == record


@pytest.mark.parametrize(
    "fields",
    [
        {"note": "owned-bundles"},
        {"note": "owned-bundles", "broker": "a:1", "report": 5},
        {"note": "owned-bundles", "broker": ["a:1"], "report": {}},
        {"note": "owned-bundles", "broker": "a", "report": {}},
        {"note": "owned-bundles", "broker": "a:1", "report": {"t/ns": {}}},
        {"note": "owned-bundles", "broker": "a:1", "report": {bundle(1): {}, "t/ns": {}}},
        {"note": {"owned-bundles": 1}, "broker": 5, "report": None},
        {"note": "event", "broker": "a:1", "report": {bundle(1): {}}},
    ],
)
def test_any_other_note_is_a_remark(fields: dict[str, Any]) -> None:
    assert isinstance(decode(line("note", **fields), b""), Note)


def test_the_newest_note_counts_until_the_broker_leaves() -> None:
    store = InMemoryStore()
    fold_all(ENGINE, [*a_pass(0, "a:1", "b:1"), owned(5, "a:1", 1, 2)], store)
    assert kept(store) == (bundle(1), bundle(2))
    fold_all(ENGINE, [owned(4, "a:1", 3), owned(5_000, "a:1", 3), owned(6, "x:1", 3)], store)
    assert kept(store) == (bundle(1), bundle(2)), "late, from the future, of an unknown broker"
    assert kept(store, "x:1") is None
    fold_all(ENGINE, [owned(7, "a:1")], store)
    assert kept(store) == ()
    fold_all(ENGINE, [Tombstone("c", "a:1", T0 + 8_000), owned(9, "a:1", 4)], store)
    assert kept(store) == (bundle(4),), "a broker withdraws its figures when a bundle moves"
    fold_all(ENGINE, a_pass(60, "a:1", "b:1"), store)
    assert kept(store) == (bundle(4),)
    fold_all(ENGINE, a_pass(120, "b:1"), store)
    assert kept(store) is None


def test_a_note_goes_with_its_broker_however_long_that_was_silent_before() -> None:
    """A broker that hangs is removed while sweeps still list it, and replaced by another name."""
    store = InMemoryStore()
    fold_all(ENGINE, [*a_pass(0, "a:1", "b:1"), owned(5, "a:1", 1)], store)
    for minute in range(1, 40):
        hangs = sweep(60 * minute + 1, "b:1", missing={"a:1": "does not answer"})
        fold_all(ENGINE, [report("b:1", 60 * minute), hangs], store)
    assert store.get_broker("a:1") is None
    assert kept(store) == (bundle(1),)
    fold_all(ENGINE, a_pass(2_400, "b:1", "c:1"), store)
    assert kept(store) is None
    fold_all(ENGINE, a_pass(2_460, "b:1", "c:1"), store)
    assert store.get_cluster().gone == {}


def test_no_note_stays_when_the_log_goes_back_in_time() -> None:
    store = InMemoryStore()
    fold_all(ENGINE, [*a_pass(10**6, "a:1", "b:1"), owned(10**6 + 5, "a:1", 1)], store)
    fold_all(ENGINE, [Tombstone("c", "a:1", T0 + 10**9 + 8_000)], store)
    fold_all(ENGINE, [one for at in range(0, 1_800, 60) for one in a_pass(at, "b:1")], store)
    clock = store.get_cluster().clock
    assert clock is not None
    assert clock.now_ms < T0 + 10**7
    assert kept(store) is None


def test_notes_from_before_the_first_round_count_after_it() -> None:
    store = InMemoryStore()
    fold_all(ENGINE, [owned(0, "a:1", 1), *a_pass(0, "a:1", "b:1")], store)
    assert kept(store) == (bundle(1),)


def test_rounds_are_the_same_without_notes() -> None:
    log = [record for minute in range(5) for record in a_pass(60 * minute, "a:1", "b:1")]
    noted = [one for record in log for one in (record, owned((record.ts - T0) / 1000, "a:1", 1, 2))]
    plain, with_notes = (fold_all(ENGINE, some, InMemoryStore()) for some in (log, noted))
    assert plain == with_notes
    assert sum(isinstance(event, Round) for event in plain) == 5


def test_spark_keeps_them_beside_the_tables() -> None:
    """And removes them with the broker, also from another worker's memory."""
    spark, worker = Spark(), StoreCache(2**20)
    for record, expected in (
        ([*a_pass(0, "a:1", "b:1"), owned(5, "a:1", 1)], (bundle(1),)),
        ([owned(6, "a:1", 2)], (bundle(2),)),
        (a_pass(60, "b:1"), None),
    ):
        spark = spark.attempt()
        shard = worker.open(0, spark.rows())
        fold_all(ENGINE, record, shard.cluster("c"))
        shard.flush(spark.rows())
        worker.keep(0, shard)
        assert kept(shard.cluster("c")) == expected
        assert kept(StoreCache(2**20).open(0, spark.rows()).cluster("c")) == expected
