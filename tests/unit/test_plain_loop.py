"""The job without Spark: two clusters apart, bad records aside, and nothing that depends on what
stands between the good ones.
"""

import pytest

from pulsar_rebalancer.lab.plain_loop import PlainLoop
from sinks.wire.codec import decode_rejected, decode_round
from sinks.wire.origin import OutputRow, Position, WireLimits
from strategies.fold.engine import EngineSettings
from tests.illegal_records import CODES, mixed
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
            loads = {
                bundle(number * 4 + index): (400.0 + seconds / 100) * cpu * (index + 1)
                for index in range(4)
            }
            lines.append(
                load_report(f"b{number}:8080", seconds + number, loads, cpu, cluster=cluster)
            )
        lines.append(
            sweep(seconds + 10, *(f"b{number}:8080" for number in range(3)), cluster=cluster)
        )
    return lines


@pytest.mark.heavy
def test_rounds_and_commands_come_out() -> None:
    rows = run(a_quarter_of_an_hour())
    rounds = [decode_round(value) for value in values(rows, "rounds")]
    assert [done.round for done in rounds] == list(range(1, len(rounds) + 1))
    assert len(rounds) >= 12
    assert values(rows, "commands")
    assert not values(rows, "rejected")


@pytest.mark.heavy
def test_two_clusters_in_one_topic_do_not_see_each_other() -> None:
    one, two = a_quarter_of_an_hour("one"), a_quarter_of_an_hour("two", heavy=60.0)
    both = run([line for pair in zip(one, two, strict=True) for line in pair])
    for alone in (one, two):
        rows = run(alone)
        assert values(both, "commands", "rounds", key=rows[0].key) == values(
            rows, "commands", "rounds"
        )


def test_a_bad_record_becomes_a_row_with_its_place_and_its_bytes() -> None:
    good, bad = (
        load_report(),
        b'{"v":1,"kind":"load-report","cluster":"c","broker":"b1:8080","ts":"noon"',
    )
    rejected = decode_rejected(run([good, bad])[0].value)
    assert (rejected.topic, rejected.partition, rejected.offset) == ("telemetry", 0, len(good) + 1)
    assert (rejected.code, rejected.cluster, rejected.original) == ("not-json", None, bad)
    assert (rejected.size, rejected.truncated) == (len(bad), False)


def test_of_a_record_that_is_too_large_only_the_beginning_is_kept() -> None:
    record = load_report(loads={bundle(index): 1.0 for index in range(20)})
    limits = WireLimits(max_record_bytes=1024, kept_bytes=10)
    [row] = run([record], limits)
    rejected = decode_rejected(row.value)
    assert rejected.code == "too-large"
    assert rejected.original == record[:10]
    assert rejected.size == len(record)
    assert rejected.truncated is True
    loop = PlainLoop(EngineSettings(), limits)
    assert loop.feed(Position("telemetry", 0, 0), record[:10], len(record)) == [row]


@pytest.mark.heavy
def test_illegal_records_change_nothing() -> None:
    legal = a_quarter_of_an_hour()
    clean, mix = run(legal), mixed(legal, 540, seed=11)
    rows = run([line for _, line in mix])
    assert values(rows, "commands", "rounds") == values(clean, "commands", "rounds")
    offset, expected = 0, {}
    for kind, line in mix:
        if kind is not None:
            expected[offset] = (kind, line)
        offset += len(line) + 1
    rejected = {one.offset: one for one in map(decode_rejected, values(rows, "rejected"))}
    assert rejected.keys() == expected.keys()
    for at, (kind, line) in expected.items():
        assert rejected[at].code in CODES[kind]
        assert rejected[at].original == line
