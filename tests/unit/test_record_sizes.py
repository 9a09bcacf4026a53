"""Records of ours stay small: their size follows from brokers and commands, and topics take
them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace

import pytest

from pulsar_rebalancer.lab.plain_loop import PlainLoop
from sinks.wire.codec import (
    decode_rejected,
    decode_round,
    encode_command,
    encode_round,
    read_command,
)
from sinks.wire.origin import OutputRow, Position
from sinks.wire.output_rows import LARGEST_ROUND, encode_fitting
from strategies.cluster.model import Skip
from strategies.errors import WireError
from strategies.filters.isolation import isolated
from strategies.filters.policies import read_policies
from strategies.fold.engine import EngineSettings
from strategies.round.round_record import bounded
from tests.hostile_records import hostile
from tests.telemetry_lines import line, load_report, sweep
from tests.unit.test_wire_encoding import COMMAND, ROUND


def policies(count: int) -> dict[str, dict[str, int]]:
    """A snapshot of which nothing can be read."""
    return {"topic_counts": {f"{number:x}": -1 for number in range(count)}}


def rows(records: Iterable[bytes], kind: str) -> list[bytes]:
    loop = PlainLoop(EngineSettings())
    found: list[OutputRow] = [
        row
        for offset, record in enumerate(records)
        for row in loop.feed(Position("t", 0, offset), record)
    ]
    return [row.value for row in found if row.kind == kind]


@pytest.mark.heavy
def test_complaints_about_450000_entries_are_counted_and_the_first_ones_spelled_out() -> None:
    view = read_policies(json.dumps(policies(450_000)))
    assert len(view.complaints) == 11
    assert view.complaints[0] == "policies.topic_counts.0: must be a number of topics, got -1"
    assert view.complaints[-1] == "policies: 449990 more parts cannot be read"


def test_ten_complaints_are_all_spelled_out() -> None:
    view = read_policies(json.dumps({"topic_counts": dict.fromkeys(map(str, range(10)), -1)}))
    assert view.complaints[-1] == "policies.topic_counts.9: must be a number of topics, got -1"


def test_a_round_over_unreadable_policies_is_small() -> None:
    (done,) = rows(
        [
            line("policies", report=policies(20_000)),
            load_report("b1:8080", 1),
            load_report("b2:8080", 2),
            sweep(3, "b1:8080", "b2:8080"),
        ],
        "rounds",
    )
    assert len(done) < 10_000
    assert b"19990 more parts" in done


def test_a_reason_of_any_length_for_a_missing_broker_is_cut() -> None:
    why = {"b2:8080": "x" * 1_000_000}
    reports = [load_report("b1:8080", 1), load_report("b2:8080", 2)]
    passes = [
        record
        for at in (300, 600)
        for record in (load_report("b1:8080", at - 1), sweep(at, "b1:8080", missing=why))
    ]
    done = rows([*reports, *passes], "rounds")[-1]
    assert decode_round(done).stale["b2:8080"].endswith("x)")
    assert len(done) < 10_000


def test_names_of_policies_are_cut_where_they_are_quoted() -> None:
    view = read_policies(
        json.dumps({"isolation": {"p" * 1_000_000: {"namespaces": ["n" * 1_000_000 + "("]}}})
    )
    (refusal,) = isolated(view, "t/ns", ["b1:8080"]).values()
    assert len(refusal.text) < 1_000
    assert len(view.complaints[0]) < 1_000


def test_bundles_left_alone_are_named_up_to_a_bound_and_counted_beyond() -> None:
    names = tuple(f"t/ns/{number}" for number in range(1_000))
    skips = [
        Skip("bundle", names, "cooling", "rests", "b1:8080"),
        Skip("bundle", names, "cooling", "rests", "b2:8080"),
    ]
    skips += [Skip("bundle", (name,), "stays", "stays", "b3:8080") for name in names]
    first, second, last = bounded(skips, "c", brokers=3)
    assert first == skips[0]
    assert (second.names, second.evidence) == (names[:60], {"unnamed": 940})
    assert (last.code, last.evidence, last.names) == ("more-left-alone", {"stays": 1_000}, ("c",))


def test_few_skips_stay_as_they_are() -> None:
    skips = (
        Skip("bundle", ("t/ns/1",), "cooling", "rests", "b1:8080"),
        Skip("broker", ("b1:8080",), "idle", "is idle"),
    )
    assert bounded(skips, "c", brokers=1) == skips


def brokers(count: int, letters: int) -> dict[str, float]:
    return {f"{number:05d}-{'x' * letters}:8080": 0.5 for number in range(count)}


def test_a_round_of_5000_brokers_is_written_whole_and_fits_everywhere() -> None:
    usage = brokers(5_000, 40)
    done = replace(ROUND, brokers=tuple(usage), usage=usage, usage_after=usage, stale={})
    assert encode_fitting(done) == encode_round(done)
    assert len(encode_fitting(done)) < 1_048_576


@pytest.mark.heavy
def test_a_round_that_is_too_large_names_fewer_brokers_and_says_so() -> None:
    usage = brokers(20_000, 500)
    done = replace(
        ROUND,
        brokers=tuple(usage),
        usage=usage,
        usage_after=usage,
        stale=dict.fromkeys(usage, "old"),
    )
    value = encode_fitting(done)
    read = decode_round(value)
    assert LARGEST_ROUND / 4 < len(value) <= LARGEST_ROUND
    assert set(read.usage) == set(read.brokers) == set(list(usage)[: len(read.brokers)])
    assert (read.skips[0].code, read.skips[0].evidence) == (
        "round-shortened",
        {"brokers": 20_000, "stale": 20_000},
    )
    assert (read.round, read.epoch, read.digest, read.spread) == (
        done.round,
        done.epoch,
        done.digest,
        done.spread,
    )


def test_a_rejected_row_fits_a_topic_of_a_megabyte_and_says_that_its_original_was_cut() -> None:
    record = hostile("long-string", "later-version", 7 * 2**20)
    (value,) = rows([record], "rejected")
    row = decode_rejected(value)
    assert len(value) < 1_000_000
    assert (row.offset, row.size, row.truncated, row.original) == (
        0,
        len(record),
        True,
        record[: len(row.original)],
    )


def test_an_id_of_any_length_is_no_command() -> None:
    """It would come back in the outcome, twice."""
    with pytest.raises(WireError, match=r"\$\.id is 1000000 characters long"):
        read_command(encode_command(replace(COMMAND, id="x" * 1_000_000)))
