"""One settings file and one process for several clusters: none hides or delays another."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from pulsar_rebalancer.cli import exit_codes
from pulsar_rebalancer.cli.collect.several_clusters import collect_all
from pulsar_rebalancer.cli.log_lines import Line
from pulsar_rebalancer.settings.load import Settings, load
from sinks.topics.access import open_publisher
from sinks.topics.retry_backoff import RetryBackoff
from sinks.wire.codec import decode
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
    tables = "".join(
        f'[clusters.{name}]\nadmin_urls = "{urls}"\n' for name, urls in clusters.items()
    )
    listed = f'[collector]\nstate = "{folder}/listed"\n'
    file.write_text(
        f"[pulsar]\ndeadline_ms = 5000\n{listed}pass_interval_ms = 100\n{tables}", "utf-8"
    )
    return file


def test_each_cluster_has_what_is_for_all_and_its_own(tmp_path: Path) -> None:
    one, two = load(settings_file(tmp_path, east="http://a:1", west="http://b:1")).clusters
    assert [(each.cluster, each.admin_urls, each.deadline_ms) for each in (one, two)] == [
        ("east", "http://a:1", 5_000),
        ("west", "http://b:1", 5_000),
    ]


def test_without_names_it_is_the_one_of_pulsar() -> None:
    settings = load(None, {}, ["pulsar.cluster=c"])
    assert settings.clusters == (settings.connections.pulsar,)


def collected(settings: Settings, control: Control, until: int) -> tuple[list[Sweep], list[str]]:
    """The sweeps, and what was said, when each cluster that answers has made so many passes."""
    stop, said = threading.Event(), []

    def say(told: Line | str) -> None:
        said.append(str(told))
        if all(
            sum(one.startswith(f"{name}: pass") for one in said) >= until
            for name in ("east", "west")
        ):
            stop.set()

    with closing(open_publisher(topic_of(control.uri("telemetry")))) as publisher:
        collect_all(settings.clusters, settings.collector, publisher, stop, say)
    records = [decode(value, b"") for value in control.read("telemetry")]
    return [record for record in records if isinstance(record, Sweep)], said


@pytest.mark.heavy
def test_a_cluster_that_cannot_be_reached_is_told_and_tried_again_while_the_others_go_on(
    east: FakePulsar, west: FakePulsar, tmp_path: Path
) -> None:
    settings = load(
        settings_file(tmp_path, dead=NOBODY, east=east.admin_urls, west=west.admin_urls)
    )

    sweeps, said = collected(settings, Control(tmp_path), until=15)

    assert {sweep.cluster: len(sweep.brokers) for sweep in sweeps} == {"east": 2, "west": 3}
    assert sum(sentence.startswith("dead: warning: ") for sentence in said) >= 2


@pytest.mark.heavy
def test_a_wrong_token_is_said_once_the_others_go_on_and_in_the_end_it_is_an_error(
    west: FakePulsar, tmp_path: Path
) -> None:
    with (
        FakePulsar(Cluster(name="shut", token="another"), 1) as shut,
        FakePulsar(Cluster(name="east", report=REPORT), 2) as east,
    ):
        settings = load(
            settings_file(
                tmp_path, shut=shut.admin_urls, east=east.admin_urls, west=west.admin_urls
            )
        )
        control, said, stop = Control(tmp_path), list[str](), threading.Event()

        def say(told: Line | str) -> None:
            said.append(str(told))
            if sum("pass " in one for one in said) > 10:
                stop.set()

        with (
            closing(open_publisher(topic_of(control.uri("telemetry")))) as publisher,
            pytest.raises(Unauthorized, match=r"^shut: .*token"),
        ):
            collect_all(settings.clusters, settings.collector, publisher, stop, say)

    assert [one.partition(": ")[0] for one in said if "error" in one] == ["shut"]
    assert {
        record.cluster for record in (decode(value, b"") for value in control.read("telemetry"))
    } == {"east", "west"}


def test_a_token_that_is_replaced_is_taken(east: FakePulsar, tmp_path: Path) -> None:
    with FakePulsar(Cluster(name="west", report=REPORT, token="right"), 1) as west:
        token = tmp_path / "token"
        token.write_text("wrong", "utf-8")
        file = settings_file(tmp_path, east=east.admin_urls, west=west.admin_urls)
        file.write_text(file.read_text("utf-8") + f'token_file = "{token}"\n', "utf-8")
        settings, stop, said = load(file), threading.Event(), list[str]()

        def say(told: Line | str) -> None:
            said.append(sentence := str(told))
            if sentence.startswith("west: error"):
                token.write_text("right", "utf-8")
            if sentence.startswith("west: pass"):
                stop.set()

        with closing(open_publisher(topic_of(Control(tmp_path).uri("telemetry")))) as publisher:
            collect_all(settings.clusters, settings.collector, publisher, stop, say)


def test_when_no_cluster_lets_us_in_the_collector_ends_with_an_error(tmp_path: Path) -> None:
    with (
        FakePulsar(Cluster(name="east", token="a"), 1) as east,
        FakePulsar(Cluster(name="west", token="b"), 1) as west,
    ):
        file = settings_file(tmp_path, east=east.admin_urls, west=west.admin_urls)
        ended = rebalancer(
            "collect", "--config", file, "--telemetry", Control(tmp_path).uri("telemetry")
        )
    assert ended.code == exit_codes.ERROR
    assert "east" in ended.words
    assert "Traceback" not in ended.words


class Full:
    """A topic that takes nothing."""

    def publish(self, key: str, value: bytes) -> None: ...

    def flush(self) -> None:
        raise SinkError("the disk is full")

    def close(self) -> None: ...


def test_a_topic_that_fails_ends_all(east: FakePulsar, west: FakePulsar, tmp_path: Path) -> None:
    settings = load(settings_file(tmp_path, east=east.admin_urls, west=west.admin_urls))
    with pytest.raises(SinkError, match="the disk is full"):
        collect_all(
            settings.clusters, settings.collector, Full(), threading.Event(), lambda _: None
        )


class AwayAtFirst:
    """A topic that does not answer once, after it has taken half a pass."""

    def __init__(self) -> None:
        self.failures, self.records = 1, list[bytes]()

    def publish(self, key: str, value: bytes) -> None:
        self.records.append(value)

    def flush(self) -> None:
        if self.failures:
            self.failures -= 1
            del self.records[1:]
            raise PublishTimeout("no answer")

    def close(self) -> None: ...


@pytest.mark.heavy
def test_a_pass_that_met_an_outage_is_published_again_as_a_whole(
    east: FakePulsar, tmp_path: Path
) -> None:
    settings, topic, stop, said = (
        load(settings_file(tmp_path, east=east.admin_urls)),
        AwayAtFirst(),
        threading.Event(),
        list[str](),
    )

    def say(told: Line | str) -> None:
        said.append(sentence := str(told))
        if sentence.startswith("pass 2"):
            stop.set()

    collect_all(
        settings.clusters,
        settings.collector,
        topic,
        stop,
        say,
        outage=RetryBackoff(60, stop.wait, say),
    )

    assert "no answer; trying again for up to 60 s" in said
    records = [decode(value, b"") for value in topic.records]
    assert [record.sweep for record in records if isinstance(record, Sweep)] == [1, 2]
    assert sum(isinstance(record, LoadReport) for record in records) == 1 + 2 * 2, (
        "one came before the outage, and again"
    )


@pytest.mark.heavy
def test_one_look_at_all_of_them(east: FakePulsar, west: FakePulsar, tmp_path: Path) -> None:
    file = settings_file(tmp_path, east=east.admin_urls, dead=NOBODY, west=west.admin_urls)
    looked = rebalancer("collect", "--once", "--json", "--config", file)
    assert looked.code == 1, "one of them failed"
    told = looked.json["clusters"]
    assert [(one["cluster"], len(one.get("brokers", ()))) for one in told] == [
        ("east", 2),
        ("dead", 0),
        ("west", 3),
    ]
    assert "does not accept connections" in told[1]["error"]
    table = rebalancer("collect", "--once", "--config", file)
    assert all(broker in table.out for broker in [*east.cluster.brokers, *west.cluster.brokers])


@pytest.mark.heavy
def test_doctor_says_of_which_cluster_it_speaks(east: FakePulsar, tmp_path: Path) -> None:
    file = settings_file(tmp_path, east=east.admin_urls, dead=NOBODY)
    found = {
        one["check"]: one["status"]
        for one in rebalancer("doctor", "--no-spark-start", "--json", "--config", file).json[
            "findings"
        ]
    }
    assert (found["east: brokers"], found["dead: cluster"]) == ("ok", "fail")
