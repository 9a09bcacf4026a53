"""One settings file and one process for several clusters: none hides or delays another."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pulsar_rebalancer.cli import exit_codes
from pulsar_rebalancer.cli.collect.several_clusters import Changes, collect_all
from pulsar_rebalancer.cli.service_log import Line
from pulsar_rebalancer.settings.merge_sources import Settings, load
from sinks.collector.broker_poll import Pass, Report
from sinks.pulsar_api.connection_tls_and_token import KnownBrokers
from sinks.topics.open_topics import Publisher, open_publisher
from sinks.topics.server_outages import RetryBackoff
from sinks.wire.record_decoding import decode
from strategies.cluster.model import LoadReport, Sweep
from strategies.errors import PublishTimeout, SinkError, Unauthorized
from tests.control_topic import Control
from tests.pulsar_fake.model import Cluster
from tests.pulsar_fake.server import FakePulsar
from tests.topic_uris import topic_of
from tests.unit.command_line import rebalancer
from tests.unit.test_collector import REPORT

NOBODY = "http://127.0.0.1:1"


@pytest.fixture
def east() -> Iterator[FakePulsar]:
    with FakePulsar(Cluster(name="east", report=REPORT), 2) as running:
        yield running


@pytest.fixture
def west() -> Iterator[FakePulsar]:
    with FakePulsar(Cluster(name="west", report=REPORT), 3) as running:
        yield running


def settings_file(folder: Path, **clusters: str) -> Path:
    """[pulsar] for all, and one table for each cluster with its address."""
    file = folder / "settings.toml"
    tables = [f'[clusters.{name}]\nadmin_urls = "{urls}"\n' for name, urls in clusters.items()]
    for_all = "[pulsar]\ndeadline_ms = 5000\n[collector]\npass_interval_ms = 100\n"
    file.write_text(for_all + "".join(tables), "utf-8")
    return file


def collected(
    settings: Settings,
    topic: Publisher,
    enough: Callable[[list[str]], bool] = lambda _: False,
    outage_s: float = 0,
) -> list[str]:
    """What is said until it is enough."""
    stop, said = threading.Event(), list[str]()

    def say(told: Line | str) -> None:
        said.append(str(told))
        if enough(said):
            stop.set()

    with closing(topic):
        outage = RetryBackoff(outage_s, stop.wait, say)
        collect_all(
            settings.clusters,
            settings.collector,
            topic,
            stop,
            say,
            outage=outage,
            known=KnownBrokers,
            on_step=lambda *_: None,
        )
    return said


def telemetry(folder: Path) -> Publisher:
    return open_publisher(topic_of(Control(folder).uri("telemetry")))


def records(folder: Path) -> list[Any]:
    return [decode(value, b"") for value in Control(folder).read("telemetry")]


def test_each_cluster_has_what_is_for_all_and_its_own(tmp_path: Path) -> None:
    one, two = load(settings_file(tmp_path, east="http://a:1", west="http://b:1")).clusters
    assert (one.cluster, one.admin_urls, one.deadline_ms) == ("east", "http://a:1", 5_000)
    assert (two.cluster, two.admin_urls, two.deadline_ms) == ("west", "http://b:1", 5_000)
    alone = load(None, {}, ["pulsar.cluster=c"])
    assert alone.clusters == (alone.connections.pulsar,)


@pytest.mark.heavy
def test_an_error_that_is_a_bug_ends_the_collector_and_is_raised(
    east: FakePulsar, west: FakePulsar, tmp_path: Path
) -> None:
    def broken(said: list[str]) -> bool:
        if said[-1].startswith("east: pass"):
            raise ZeroDivisionError
        return False

    file = settings_file(tmp_path, east=east.admin_urls, west=west.admin_urls)
    with pytest.raises(ZeroDivisionError):
        collected(load(file), telemetry(tmp_path), broken)


@pytest.mark.heavy
def test_a_cluster_that_cannot_be_reached_is_told_and_tried_again_while_the_others_go_on(
    east: FakePulsar, west: FakePulsar, tmp_path: Path
) -> None:
    file = settings_file(tmp_path, dead=NOBODY, east=east.admin_urls, west=west.admin_urls)

    def enough(said: list[str]) -> bool:
        passes = [one.partition(": pass")[0] for one in said if ": pass" in one]
        return min(passes.count("east"), passes.count("west")) >= 15

    said = collected(load(file), telemetry(tmp_path), enough)

    sweeps = [record for record in records(tmp_path) if isinstance(record, Sweep)]
    assert {sweep.cluster: len(sweep.brokers) for sweep in sweeps} == {"east": 2, "west": 3}
    assert sum(sentence.startswith("dead: warning: ") for sentence in said) >= 2


@pytest.mark.heavy
def test_a_wrong_token_is_said_once_the_others_go_on_and_in_the_end_it_is_an_error(
    east: FakePulsar, west: FakePulsar, tmp_path: Path
) -> None:
    said: list[str] = []

    def enough(told: list[str]) -> bool:
        said[:] = told
        return sum("pass " in one for one in told) > 10

    with FakePulsar(Cluster(name="shut", token="another"), 1) as shut:
        urls = {"shut": shut.admin_urls, "east": east.admin_urls, "west": west.admin_urls}
        settings = load(settings_file(tmp_path, **urls))
        with pytest.raises(Unauthorized, match=r"^shut: .*token"):
            collected(settings, telemetry(tmp_path), enough)
    assert [one.partition(": ")[0] for one in said if "error" in one] == ["shut"]
    assert {record.cluster for record in records(tmp_path)} == {"east", "west"}


def test_a_token_that_is_replaced_is_taken(east: FakePulsar, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("wrong", "utf-8")

    def enough(said: list[str]) -> bool:
        if said[-1].startswith("west: error"):
            token.write_text("right", "utf-8")
        return said[-1].startswith("west: pass")

    with FakePulsar(Cluster(name="west", report=REPORT, token="right"), 1) as west:
        file = settings_file(tmp_path, east=east.admin_urls, west=west.admin_urls)
        file.write_text(file.read_text("utf-8") + f'token_file = "{token}"\n', "utf-8")
        assert collected(load(file), telemetry(tmp_path), enough)


def test_when_no_cluster_lets_us_in_the_collector_ends_with_an_error(tmp_path: Path) -> None:
    with (
        FakePulsar(Cluster(name="east", token="a"), 1) as east,
        FakePulsar(Cluster(name="west", token="b"), 1) as west,
    ):
        file = settings_file(tmp_path, east=east.admin_urls, west=west.admin_urls)
        topic = Control(tmp_path).uri("telemetry")
        ended = rebalancer("collect", "--config", file, "--telemetry", topic)
    assert ended.code == exit_codes.ERROR
    assert "east" in ended.words
    assert "Traceback" not in ended.words


class Failing:
    """A topic whose first `flush` raises, after it has taken one record."""

    def __init__(self, error: SinkError) -> None:
        self.error: SinkError | None = error
        self.records = list[bytes]()

    def publish(self, key: str, value: bytes) -> None:
        self.records.append(value)

    def flush(self) -> None:
        error, self.error = self.error, None
        if error is not None:
            del self.records[1:]
            raise error

    def close(self) -> None: ...


def test_a_topic_that_fails_ends_all(east: FakePulsar, west: FakePulsar, tmp_path: Path) -> None:
    settings = load(settings_file(tmp_path, east=east.admin_urls, west=west.admin_urls))
    with pytest.raises(SinkError, match="the disk is full"):
        collected(settings, Failing(SinkError("the disk is full")))


@pytest.mark.heavy
def test_a_pass_that_met_an_outage_is_published_again_as_a_whole(
    east: FakePulsar, tmp_path: Path
) -> None:
    settings = load(settings_file(tmp_path, east=east.admin_urls))
    topic = Failing(PublishTimeout("no answer"))
    said = collected(settings, topic, lambda said: said[-1].startswith("pass 2"), outage_s=60)
    assert "no answer; trying again for up to 60 s" in said
    stored = [decode(value, b"") for value in topic.records]
    assert [record.sweep for record in stored if isinstance(record, Sweep)] == [1, 2]
    reports = sum(isinstance(record, LoadReport) for record in stored)
    assert reports == 1 + 2 * 2, "one came before the outage, and again"


@pytest.mark.heavy
def test_one_look_at_all_of_them(east: FakePulsar, west: FakePulsar, tmp_path: Path) -> None:
    file = settings_file(tmp_path, east=east.admin_urls, dead=NOBODY, west=west.admin_urls)
    looked = rebalancer("collect", "--once", "--json", "--config", file)
    assert looked.code == 1, "one of them failed"
    told = looked.json["clusters"]
    counts = {one["cluster"]: len(one.get("brokers", ())) for one in told}
    assert list(counts.items()) == [("east", 2), ("dead", 0), ("west", 3)]
    assert "does not accept connections" in told[1]["error"]
    table = rebalancer("collect", "--once", "--config", file)
    assert all(broker in table.out for broker in [*east.cluster.brokers, *west.cluster.brokers])


@pytest.mark.heavy
def test_doctor_says_of_which_cluster_it_speaks(east: FakePulsar, tmp_path: Path) -> None:
    file = settings_file(tmp_path, east=east.admin_urls, dead=NOBODY)
    answer = rebalancer("doctor", "--no-spark-start", "--json", "--config", file)
    found = {one["check"]: one["status"] for one in answer.json["findings"]}
    assert (found["east: brokers"], found["dead: cluster"]) == ("ok", "fail")


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
        flags = ["pulsar.cluster=c", f"pulsar.admin_urls={pulsar.admin_urls}"]
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
