"""Pulsar's own shedder is on beside ours: executor and watch say so at the start, and as long as it
lasts.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pulsar_rebalancer.cli.own_shedder import OwnShedder, own_shedders
from sinks.collector.leader import NO_FACTS, LeaderFacts
from sinks.collector.settings import CollectorSettings
from sinks.pulsar_api.settings import PulsarSettings
from tests.control_topic import TOPICS, Control
from tests.pulsar_fake.model import Cluster
from tests.pulsar_fake.server import FakePulsar, answered
from tests.set_words import set_words
from tests.unit.command_line import rebalancer
from tests.unit.test_watch_command import followed

IS_ON = "Pulsar's own shedder is on at the leader"
ON = {"loadBalancerSheddingEnabled": "true"}
OFF = {"loadBalancerSheddingEnabled": "false"}
NOT_BALANCING = {**ON, "loadBalancerEnabled": "false"}


@pytest.fixture(params=["modular", "extensible"])
def pulsar(request: pytest.FixtureRequest) -> Iterator[FakePulsar]:
    with FakePulsar(Cluster(manager=request.param)) as running:
        yield running


def test_it_is_said_at_once_again_every_ten_minutes_and_when_it_ends() -> None:
    on, off = LeaderFacts("a:1", True), LeaderFacts("b:1", False)
    states = [on] * 12 + [NO_FACTS, LeaderFacts("a:1"), on, off, off, on]
    minutes = iter(range(100))
    looks = iter(states)
    shedder = OwnShedder(lambda: next(looks), "both move", clock=lambda: 60.0 * next(minutes))
    said = [[line.text.split(":")[0] for line in shedder.news()] for _ in states]
    at = {minute: line[0] for minute, line in enumerate(said) if line}
    assert at == {
        0: f"{IS_ON} a",
        10: f"{IS_ON} a",
        15: "Pulsar's own shedder is off now",
        17: at[0],
    }


def test_the_leader_is_asked_once_a_minute() -> None:
    asked, seconds = list[int](), iter([1.0, 2.0, 60.9, 61.0, 61.1])

    def look() -> LeaderFacts:
        asked.append(1)
        return NO_FACTS

    shedder = OwnShedder(look, "", clock=lambda: next(seconds))
    assert [(list(shedder.news()), len(asked)) for _ in range(5)] == [
        ([], 1),
        ([], 1),
        ([], 1),
        ([], 2),
        ([], 2),
    ]


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
    pulsar: FakePulsar, tmp_path: Path, apply: bool, configuration: dict[str, str], said: bool
) -> None:
    pulsar.cluster.configuration.update(configuration)
    control = Control(tmp_path)
    given = {
        **{f"topics.{topic}": control.uri(topic) for topic in TOPICS},
        "pulsar.cluster": "c",
        "pulsar.admin_urls": pulsar.admin_urls,
        "executor.state": tmp_path / "executor",
    }
    answer = rebalancer("execute", "--once", *(["--apply"] if apply else []), *set_words(given))
    assert answer.code == 0
    assert (f"warning: {IS_ON} {pulsar.cluster.leader()}: it and this executor" in answer.err) == (
        said
    )
    assert ("--config loadBalancerSheddingEnabled --value false" in answer.err) == said


def test_an_executor_starts_although_nobody_says_it(pulsar: FakePulsar, tmp_path: Path) -> None:
    pulsar.fail("leaderBroker", answered(403))
    test_an_executor_that_applies_says_it(pulsar, tmp_path, True, ON, False)


def test_a_watch_says_it_for_each_cluster(pulsar: FakePulsar, tmp_path: Path) -> None:
    pulsar.cluster.configuration.update(ON)
    with FakePulsar(Cluster(name="west", configuration=dict(OFF))) as west:
        clusters = [
            PulsarSettings("c", pulsar.admin_urls),
            PulsarSettings("west", west.admin_urls),
        ]
        with own_shedders(clusters, CollectorSettings(), "it moves") as own:
            (line,) = followed(tmp_path, 3, shedders=own)
    assert line.startswith(f"12:00:00  c: warning: {IS_ON} {pulsar.cluster.leader()}: it moves;")
