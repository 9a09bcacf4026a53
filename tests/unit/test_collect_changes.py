"""The collector says what changed about the brokers from pass to pass, once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pulsar_rebalancer.cli.collect.changes import Changes
from pulsar_rebalancer.settings.load import load
from sinks.collector.broker_poll import Pass, Report
from tests.pulsar_fake.model import Cluster
from tests.pulsar_fake.server import FakePulsar
from tests.unit.test_collector import REPORT
from tests.unit.test_several_clusters import collected, telemetry

MINUTE = 60_000


def a_pass(
    minute: int,
    *answered: str,
    missing: tuple[str, ...] = (),
    written: int | None = None,
    key: str = "lastUpdate",
) -> Pass:
    """Brokers that answer have written their report in that minute, or at `written`."""
    ts = minute * MINUTE
    body = json.dumps({key: ts if written is None else written * MINUTE}).encode()
    reports = tuple(Report(broker, ts, body) for broker in answered)
    return Pass(minute, ts, reports, answered, dict.fromkeys(missing, "no answer in 3 s"))


def events(changes: Changes, done: Pass) -> list[tuple[str, object]]:
    return [(line.event, line.fields["broker"]) for line in changes.of(done)]


def test_who_came_and_who_left_is_said_once() -> None:
    changes = Changes()
    assert events(changes, a_pass(1, "a", "b")) == []
    assert events(changes, a_pass(2, "a", "c")) == [("broker-came", "c"), ("broker-left", "b")]
    assert events(changes, a_pass(3, "a", "c")) == []


def test_who_gives_no_figures_is_said_once_and_again_when_it_does() -> None:
    changes = Changes()
    assert events(changes, a_pass(1, "a", missing=("b",))) == [("broker-silent", "b")]
    assert events(changes, a_pass(2, "a", missing=("b",))) == []
    (back,) = changes.of(a_pass(3, "a", "b"))
    assert str(back) == "b reports figures again after 120 s"
    assert events(changes, a_pass(4, "a", missing=("b",))) == [("broker-silent", "b")]
    assert events(changes, a_pass(5, "a")) == [("broker-left", "b")]
    assert events(changes, a_pass(6, "a", "b")) == [("broker-came", "b")]


@pytest.mark.parametrize("key", ["lastUpdate", "updatedAt"])
def test_a_report_that_is_not_written_any_more_stands_still(key: str) -> None:
    changes = Changes(30 * MINUTE)
    for minute in (10, 25, 40):
        assert events(changes, a_pass(minute, "a", written=10, key=key)) == []
    (still,) = changes.of(a_pass(41, "a", written=10, key=key))
    assert (still.event, still.level) == ("broker-stands-still", "warning")
    assert "has not written its load report for 31 min" in still.text
    assert events(changes, a_pass(60, "a", written=10, key=key)) == []
    assert events(changes, a_pass(61, "a", written=61, key=key)) == [("broker-moves", "a")]


@pytest.mark.parametrize("body", [b"[]", b"{}", b"no JSON", b'{"lastUpdate":"now"}', b"\xff"])
def test_a_report_that_does_not_say_when_it_was_written_never_stands_still(body: bytes) -> None:
    changes = Changes(MINUTE)
    for ts in (MINUTE, 100 * MINUTE):
        done = Pass(1, ts, (Report("a", ts, body),), ("a",), {})
        assert list(changes.of(done)) == []


def test_a_broker_that_joins_and_one_that_dies_are_told_while_collecting(tmp_path: Path) -> None:
    with FakePulsar(Cluster(report=REPORT)) as pulsar:
        words = {
            "pulsar.cluster": "c",
            "pulsar.admin_urls": pulsar.admin_urls,
        }
        flags = [f"{name}={value}" for name, value in words.items()]
        first = pulsar.cluster.brokers[-1]

        def enough(said: list[str]) -> bool:
            if said[-1].startswith("pass 1:"):
                pulsar.join()
            if said[-1].endswith(" joined"):
                pulsar.kill(first)
            return " left the cluster" in said[-1]

        settings = load(flags=[*flags, "collector.pass_interval_ms=100"])
        said = collected(settings, telemetry(tmp_path), enough)
    assert f"warning: {first} left the cluster's list of brokers" in said
