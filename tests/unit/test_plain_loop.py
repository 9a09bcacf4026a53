"""The job without Spark: two clusters apart, and bad records aside."""

import pytest

from pulsar_rebalancer.lab.plain_loop import PlainLoop
from sinks.wire.event_to_topic_rows import OutputRow
from sinks.wire.record_decoding import Position, WireLimits, decode_rejected
from strategies.fold.engine import EngineSettings
from tests.telemetry_lines import bundle, load_report, sweep


def run(lines: list[bytes], limits: WireLimits | None = None) -> list[OutputRow]:
    loop = PlainLoop(EngineSettings(), limits or WireLimits())
    rows, offset = [], 0
    for line in lines:
        rows += loop.feed(Position("telemetry", 0, offset), line)
        offset += len(line) + 1
    return rows


def values(rows: list[OutputRow], *kinds: str, key: str | None = None) -> list[bytes]:
    return [row.value for row in rows if row.kind in kinds and key in (None, row.key)]


def a_quarter_of_an_hour(cluster: str = "c", heavy: float = 90.0) -> list[bytes]:
    """Three brokers, one of them hot, a sweep every 20 s."""
    lines = []
    for seconds in range(0, 900, 20):
        for number, cpu in enumerate((heavy, 30.0, 20.0)):
            rate = (400.0 + seconds / 100) * cpu
            loads = {bundle(number * 4 + index): rate * (index + 1) for index in range(4)}
            name = f"b{number}:8080"
            lines.append(load_report(name, seconds + number, loads, cpu, cluster=cluster))
        lines.append(sweep(seconds + 10, "b0:8080", "b1:8080", "b2:8080", cluster=cluster))
    return lines


@pytest.mark.heavy
def test_two_clusters_in_one_topic_do_not_see_each_other() -> None:
    one, two = a_quarter_of_an_hour("one"), a_quarter_of_an_hour("two", heavy=60.0)
    both = run([line for pair in zip(one, two, strict=True) for line in pair])
    for alone in (one, two):
        rows = run(alone)
        expected = values(rows, "commands", "rounds")
        assert values(both, "commands", "rounds", key=rows[0].key) == expected
        assert values(rows, "commands")


def test_a_bad_record_becomes_a_row_with_its_place_and_its_bytes() -> None:
    good, bad = load_report(), b'{"v":1,"kind":"load-report","cluster":"c","ts":"noon"'
    rejected = decode_rejected(run([good, bad])[0].value)
    assert (rejected.topic, rejected.partition, rejected.offset) == ("telemetry", 0, len(good) + 1)
    assert (rejected.code, rejected.cluster, rejected.original) == ("not-json", None, bad)
    assert (rejected.size, rejected.truncated) == (len(bad), False)


def test_of_a_record_that_is_too_large_only_the_beginning_is_kept() -> None:
    record = load_report(loads={bundle(index): 1.0 for index in range(20)})
    limits = WireLimits(max_record_bytes=1024, kept_bytes=10)
    [row] = run([record], limits)
    rejected = decode_rejected(row.value)
    assert (rejected.code, rejected.original) == ("too-large", record[:10])
    assert (rejected.size, rejected.truncated) == (len(record), True)
    loop = PlainLoop(EngineSettings(), limits)
    assert loop.feed(Position("telemetry", 0, 0), record[:10], len(record)) == [row]
