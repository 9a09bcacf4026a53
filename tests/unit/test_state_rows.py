"""A broker that lies in Spark's state comes back with everything that is known of it."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from strategies.bundles import TableSummary
from strategies.cluster.memory import BrokerMemory
from strategies.cluster.model import Figures, Resource, Traffic
from strategies.cluster.store import BrokerState
from streaming.state.compacted_log import LogEntry
from streaming.state.rows import (
    Head,
    pack,
    pack_entry,
    row_name,
    unpack_brokers,
    unpack_bytes,
    unpack_head,
)


def a_broker(memory: BrokerMemory) -> BrokerState:
    resources = [Resource(1.5 * i, 100.0 + i) for i in range(5)]
    figures = Figures(*resources, Traffic(1.0, 2.0, 3.0, 4.0), 64, 0.5, 7.0, 13)  # type: ignore[arg-type, call-arg]
    table = TableSummary(1.5, 2.5, 3, 4, 5, 6.5, 7.5)
    return BrokerState(
        "b:1", 3, 10, 2, 11, 12, 3, 14, "digest", "of bundles", figures, memory, table
    )


def test_brokers_come_back_as_they_were_and_those_that_are_gone_stand_beside() -> None:
    bare = replace(a_broker(BrokerMemory()), figures=Figures())
    entry: LogEntry[BrokerState] = {
        "c": {"b:1": a_broker(BrokerMemory()), "b:3": None},
        "d": {"b:1": a_broker(BrokerMemory(0.1, 0.5, 3, 0, 1e6, 12))},
        "a/b": {"b:4": bare},
    }
    removed: LogEntry[BrokerState] = {"c": {"b:3": None}}
    for some in ({}, removed, entry):
        assert unpack_brokers(pack_entry(some)) == some


def test_values_stand_under_their_names_so_that_any_reader_of_messagepack_finds_them() -> None:
    read = msgspec.msgpack.decode(pack_entry({"c": {"b:1": a_broker(BrokerMemory(ewma=0.25))}}))
    broker = read["c"]["b:1"]
    assert (broker["memory"]["ewma"], broker["figures"]["traffic"]["msg_rate_in"]) == (0.25, 1.0)


def test_numbers_that_lost_their_point_are_kept_as_doubles() -> None:
    """A usage of 5 must read 5.0 after a restart too, or the bytes of a round would differ."""
    broker = BrokerState("b:1", 0, 1, 1, 1, 1, 1, 1, "", "", Figures(cpu=Resource(5, 100)))
    assert str(unpack_brokers(pack_entry({"c": {"b:1": broker}}))["c"]["b:1"]) == str(
        replace(broker, figures=Figures(cpu=Resource(5.0, 100.0)))
    )


def test_heads_clusters_and_tables_come_back() -> None:
    head = Head((2**63 - 1, 0), (), (5,))
    assert unpack_head(pack(head)) == head
    fields: LogEntry[bytes] = {"c": {"clock": b"state"}, "a/b": {"clock": None}}
    assert unpack_bytes(pack_entry(fields)) == fields
    tables: LogEntry[bytes] = {"c": {"b:1": b"table", "b:1/owned": b"all"}, "a/b": {"b:1": None}}
    assert unpack_bytes(pack_entry(tables)) == tables


def test_a_large_row_is_compressed_and_comes_back_as_a_plain_one_does() -> None:
    text = b"tenant/namespace/0x00000000_0x00100000" * 30_000
    tables = {"c": {"b:1": text}}
    assert len(pack_entry(tables)) < 2**18
    assert unpack_bytes(pack_entry(tables)) == tables
    assert unpack_bytes(msgspec.msgpack.encode(tables)) == tables


def test_the_names_of_rows_are_part_of_the_format_of_a_checkpoint() -> None:
    assert (row_name("head"), row_name("tables", 7)) == ("head/0", "tables/7")
