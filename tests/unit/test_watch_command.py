"""`rebalancer watch` in parts; tests/servers/test_watch_command.py runs it on real brokers."""

import json
import socket
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from io import StringIO
from itertools import count
from pathlib import Path
from threading import Event

import pytest

from pulsar_rebalancer.cli.own_shedder_warning import OwnShedder, own_shedders
from pulsar_rebalancer.lab.demo.plan import CLUSTER
from pulsar_rebalancer.lab.demo.run import DemoTopics, modelled_cluster
from pulsar_rebalancer.lab.plain_loop import PlainLoop
from pulsar_rebalancer.lab.simulation.clock import PERIOD_MS
from pulsar_rebalancer.settings.merge_sources import load
from pulsar_rebalancer.watch.watch_folder import (
    check_same_clusters,
    opened_folder,
    settings_of,
    write_settings,
)
from pulsar_rebalancer.watch.watch_loop import DryRuns, Processes, WatchScreen, follow
from sinks.collector.open_cluster import DiscoveredCluster, discovered
from sinks.collector.settings import CollectorSettings
from sinks.pulsar_api.broker_facts import LeaderFacts
from sinks.pulsar_api.connection_tls_and_token import PulsarSettings
from sinks.topics.open_topics import open_consumer
from sinks.topics.topic_settings import file_topic
from sinks.wire.record_decoding import decode_round
from strategies.cluster.intent_records_and_states import IntentStateCode, IntentStatus
from strategies.cluster.model import Round
from strategies.errors import Refused, SettingsError
from tests.control_topic import TOPICS, Control, command, now_ms
from tests.live_topics import MadeUpCluster
from tests.pulsar_fake.model import Cluster
from tests.pulsar_fake.server import FakePulsar, answered
from tests.unit.command_line import rebalancer
from tools.processes.set_words import set_words

BUNDLE = "t/ns/0x00000000_0x80000000"
#: A watch of the developer may have the usual port.
ANY_PORT = ("--listen", "127.0.0.1:0")
FOUND = DiscoveredCluster(PulsarSettings("c", "http://a:8080"), "extensible", ("a:8080", "b:8080"))


def test_the_settings_file_names_the_cluster_and_places_in_the_folder(tmp_path: Path) -> None:
    given = load(flags=["shedding.strategy=avg", "pulsar.token_file=/etc/token"])
    with opened_folder(tmp_path / "watch") as folder:
        write_settings(folder, given, settings_of(FOUND), named=False)
        read = load(folder.settings_file)
        check_same_clusters(folder, ["c"])
        with pytest.raises(SettingsError, match=r"is the watch of c, not of d; name another"):
            check_same_clusters(folder, ["d"])
    assert read.engine.strategy == "avg"
    assert read.connections.pulsar == PulsarSettings("c", "http://a:8080", "/etc/token")
    assert read.value("filters.load_manager") == "extensible"
    places = [*read.connections.topics.named()]
    assert all(uri.folder.is_relative_to(tmp_path / "watch") for _, uri in places)
    assert Path(read.job.checkpoint).is_relative_to(tmp_path / "watch")


def test_several_clusters_keep_their_tables(tmp_path: Path) -> None:
    file = tmp_path / "fleet.toml"
    file.write_text(
        '[pulsar]\ntoken_file = "/etc/token"\n[clusters.east]\nadmin_urls = "http://a:1"\n'
        '[clusters."we.st"]\nadmin_urls = "http://b:1"\ntls_port = 8443\n'
    )
    given = load(file)
    with opened_folder(tmp_path / "watch") as folder:
        write_settings(folder, given, {}, named=True)
        assert load(folder.settings_file).clusters == given.clusters


def test_a_folder_has_one_watch_and_a_demo_begins_with_an_empty_one(tmp_path: Path) -> None:
    with opened_folder(tmp_path / "watch") as folder:
        with pytest.raises(SettingsError, match="another watch uses"), opened_folder(folder.path):
            pass
        (folder.path / "checkpoint").mkdir()
        folder.log("run").write_text("old")
    with opened_folder(tmp_path / "watch", empty=True) as folder:
        assert not (folder.path / "checkpoint").exists()
        assert not folder.log("run").exists()


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with (
        pytest.raises(SettingsError, match="files that no watch has written"),
        opened_folder(tmp_path, empty=True),
    ):
        pass
    assert (tmp_path / "mine.txt").read_text() == "mine"


def test_a_broker_names_its_cluster(tmp_path: Path) -> None:
    with FakePulsar(Cluster(name="east", manager="extensible")) as pulsar:
        cluster = discovered(PulsarSettings(admin_urls=pulsar.admin_urls), lambda _: True)
        assert (cluster.pulsar.cluster, cluster.load_manager) == ("east", "extensible")
        assert sorted(cluster.brokers) == sorted(pulsar.cluster.brokers)
        given = discovered(PulsarSettings("east", pulsar.admin_urls), lambda _: True)
        assert given == cluster
    assert {request.method for request, _ in pulsar.calls} == {"GET"}


def test_a_broker_without_a_name_is_an_error() -> None:
    with (
        FakePulsar(Cluster(name="")) as pulsar,
        pytest.raises(Refused, match=r"set pulsar\.cluster"),
    ):
        discovered(PulsarSettings(admin_urls=pulsar.admin_urls), lambda _: True)


def test_every_command_is_answered_once_with_a_dry_run(tmp_path: Path) -> None:
    control = Control(tmp_path)
    first, second = command(BUNDLE, "a:1", "b:1"), command(BUNDLE, "a:1")

    topics = load(flags=[f"topics.{name}={control.uri(name)}" for name in TOPICS])

    def answered() -> list[str]:
        with closing(DryRuns(topics.connections.topics, tmp_path / "w", now_ms)) as answers:
            return [one.id for one in answers.step()]

    control.send(first)
    assert answered() == [first.id]
    control.send(second)
    assert answered() == [second.id]  # after a restart
    assert control.verdicts() == [("dry-run", "dry-run"), ("dry-run", "dry-run")]
    fed_back = [json.loads(value) for value in control.read("telemetry")]
    assert [one["report"]["command_id"] for one in fed_back] == [first.id, second.id]


def a_screen() -> tuple[WatchScreen, StringIO]:
    """At noon."""
    said = StringIO()
    return WatchScreen(said, lambda: datetime(2026, 1, 1, 12, tzinfo=UTC)), said


@pytest.mark.heavy
def test_the_modelled_cluster_catches_up_and_the_screen_has_a_line_per_change(
    tmp_path: Path,
) -> None:
    """With the plain loop as the job, and a clock that stands still."""
    topics, now = {name: file_topic(tmp_path / name) for name in TOPICS}, 1_800_000_000_000
    model = modelled_cluster(topics, 1, lambda: now)
    job, loop = DemoTopics(topics, model.cluster), PlainLoop(load().engine)
    screen, said = a_screen()
    rounds, moved = list[Round](), 0
    for _ in range(200):
        commands = {one.id: one for one in model.step()}
        moved += len(commands)
        for record in job.read("telemetry"):
            job.publish_rows(loop.feed(record.position, record.value, record.size))
        new = [decode_round(one.value) for one in job.read("rounds")]
        screen.rounds(new, commands)
        rounds += new
    model.close()
    job.close()
    assert moved > 0
    assert {one.cluster for one in rounds} == {CLUSTER}
    assert now - PERIOD_MS < rounds[-1].ts <= now + 1000  # no pass of the future
    assert rounds[-1].spread.range < rounds[0].spread.range / 4
    lines = said.getvalue().splitlines()
    heads = [line for line in lines if "round" in line and line.startswith("12:00:00  demo")]
    assert len(heads) < len(rounds)
    assert "waiting: it is too early to move anything" in heads[0]
    assert any("balanced: nothing has to move" in line for line in heads)


def test_the_screen_names_a_drain_whenever_its_state_changes() -> None:
    *_, (done, _, _) = MadeUpCluster(1_800_000_000_000, cluster="c", waits=False).made()
    asked = IntentStatus(
        "d", "drain", "asked", "the next round begins with it", "", "anna", "x", 1, 2, "a:1"
    )
    states: list[tuple[IntentStateCode, str]] = [
        ("asked", asked.text),
        ("draining", "2 of 9 bundles are left"),
        ("draining", "1 of 9 bundles is left"),
        ("drained", "no bundle is left that could move"),
    ]
    rounds = [
        replace(done, round=number, intents=(replace(asked, state=state, text=text),))
        for number, (state, text) in enumerate(states, 1)
    ]
    screen, said = a_screen()
    screen.rounds([*rounds, replace(done, round=5)], {})
    assert [line for line in said.getvalue().splitlines() if "a:1" in line] == [
        "12:00:00  c, drain a:1: asked: the next round begins with it",
        "12:00:00  c, drain a:1: draining: 2 of 9 bundles are left",
        "12:00:00  c, drain a:1: drained: no bundle is left that could move",
    ]


class Turns(Event):
    """Set after some turns."""

    def __init__(self, turns: int) -> None:
        super().__init__()
        self._left = turns

    def wait(self, timeout: float | None = None) -> bool:
        self._left -= 1
        return self._left < 0


def followed(
    folder: Path,
    turns: int,
    starting: Callable[[], Sequence[str]] = list,
    shedders: Sequence[OwnShedder] = (),
) -> list[str]:
    """What is printed in some turns without processes and records."""
    screen, said = a_screen()
    with closing(open_consumer(file_topic(folder / "rounds"), "w", folder)) as rounds:
        follow(
            Processes([]),
            list,
            rounds,
            screen,
            Turns(turns),
            telemetry=folder,
            clock_ms=now_ms,
            starting=starting,
            shedders=shedders,
        )
    return said.getvalue().splitlines()


def test_each_attempt_of_a_job_that_starts_is_a_line(tmp_path: Path) -> None:
    lines = iter([["Spark starts"], [], ["attempt 1", "attempt 1 failed after 14 s"], []])
    said = followed(tmp_path, 4, starting=lambda: next(lines))
    assert {one.partition(": ")[0] for one in said} == {"12:00:00  the Spark job"}
    told = ["Spark starts", "attempt 1", "attempt 1 failed after 14 s"]
    assert [one.partition(": ")[2] for one in said] == told


def test_a_cluster_that_does_not_answer_is_one_sentence(tmp_path: Path) -> None:
    words = ("--admin-url", "http://127.0.0.1:1", *ANY_PORT, "--folder", tmp_path / "watch")
    answer = rebalancer("watch", *words)
    assert answer.code == 1
    assert "127.0.0.1:1" in answer.words
    assert "Traceback" not in answer.words


def test_a_page_needs_a_port_of_its_own(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        where = ("--listen", f"127.0.0.1:{port}", "--folder", tmp_path / "watch")
        answer = rebalancer("watch", "--demo", *where)
    assert answer.code == 1
    assert f"serve.listen: 127.0.0.1:{port} cannot be used (Address already in use)" in answer.words
    assert "--listen 127.0.0.1:8086" in answer.words
    assert not (tmp_path / "watch" / "watch.toml").exists()


@pytest.mark.heavy
def test_without_java_it_says_so_before_anything_is_written(tmp_path: Path) -> None:
    environment = {"JAVA_HOME": "", "PATH": str(tmp_path)}
    answer = rebalancer("watch", "--demo", "--folder", tmp_path / "watch", env=environment)
    assert answer.code == 2
    assert "java: not found" in answer.words
    assert not (tmp_path / "watch").exists()


IS_ON = "Pulsar's own shedder is on at the leader"
ON = {"loadBalancerSheddingEnabled": "true"}
OFF = {"loadBalancerSheddingEnabled": "false"}
NOT_BALANCING = {**ON, "loadBalancerEnabled": "false"}


def test_it_is_said_at_once_again_every_ten_minutes_and_when_it_ends() -> None:
    on, off = LeaderFacts("a:1", True), LeaderFacts("b:1", False)
    states = [on] * 12 + [LeaderFacts(), LeaderFacts("a:1"), on, off, off, on]
    minutes, looks = count(), iter(states)
    shedder = OwnShedder(lambda: next(looks), "both move", clock=lambda: 60.0 * next(minutes))
    said = [[line.text.split(":")[0] for line in shedder.news()] for _ in states]
    at = {minute: line[0] for minute, line in enumerate(said) if line}
    assert at == dict.fromkeys((0, 10, 17), f"{IS_ON} a") | {15: "Pulsar's own shedder is off now"}


def test_the_leader_is_asked_once_a_minute() -> None:
    asked, seconds = list[int](), iter([1.0, 2.0, 60.9, 61.0, 61.1])

    def look() -> LeaderFacts:
        asked.append(1)
        return LeaderFacts()

    shedder = OwnShedder(look, "", clock=lambda: next(seconds))
    seen = [(list(shedder.news()), len(asked)) for _ in range(5)]
    assert seen == [([], looks) for looks in (1, 1, 1, 2, 2)]


@pytest.mark.parametrize(
    ("apply", "configuration", "said"),
    [
        (True, ON, True),
        (True, OFF, False),
        (True, NOT_BALANCING, False),
        (True, {}, False),
        (False, ON, False),
    ],
    ids=["on", "off", "not-balancing", "not-said", "dry-run"],
)
def test_an_executor_that_applies_says_it(
    pulsar: FakePulsar, control: Control, apply: bool, configuration: dict[str, str], said: bool
) -> None:
    pulsar.cluster.configuration.update(configuration)
    given = set_words(control.settings(pulsar__admin_urls=pulsar.admin_urls))
    answer = rebalancer("execute", "--once", *(["--apply"] if apply else []), *given)
    assert answer.code == 0
    warning = f"warning: {IS_ON} {pulsar.cluster.leader()}: it and this executor"
    assert (warning in answer.err) == said
    assert ("--config loadBalancerSheddingEnabled --value false" in answer.err) == said


def test_an_executor_starts_although_nobody_says_it(pulsar: FakePulsar, control: Control) -> None:
    pulsar.fail("leaderBroker", answered(403))
    test_an_executor_that_applies_says_it(pulsar, control, True, ON, False)


def test_a_watch_says_it_for_each_cluster(pulsar: FakePulsar, tmp_path: Path) -> None:
    pulsar.cluster.configuration.update(ON)
    with FakePulsar(Cluster(name="west", configuration=dict(OFF))) as west:
        clusters = [PulsarSettings("c", pulsar.admin_urls), PulsarSettings("west", west.admin_urls)]
        with own_shedders(clusters, CollectorSettings(), "it moves") as own:
            (line,) = followed(tmp_path, 3, shedders=own)
    assert line.startswith(f"12:00:00  c: warning: {IS_ON} {pulsar.cluster.leader()}: it moves;")
