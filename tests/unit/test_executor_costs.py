"""What a move costs is measured with few calls, whatever the size of its namespace."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import islice

import pytest

from sinks.executor.costs import WaveFigures
from sinks.pulsar_api.access import PulsarSettings
from sinks.pulsar_api.admin import PulsarAdmin
from strategies.cluster.move_cost import NOT_MEASURED
from tests.control_topic import Control, command
from tests.pulsar_fake.model import Answer, Request
from tests.pulsar_fake.server import FakePulsar, Fault
from tests.unit.executor_lives import BUNDLES, FOUR, ONE, THREE, TWO, executor, run
from tests.unit.test_executor_guard import calls, guarded, topic_names


@pytest.mark.parametrize("status", [200, 500])
def test_a_wave_is_measured_by_one_call_to_each_broker_and_lists_no_namespace(
    pulsar: FakePulsar, control: Control, status: int
) -> None:
    """Also a call that fails, for which each move would wait."""
    one, two, _ = pulsar.cluster.brokers
    pulsar.cluster.owners.update(dict.fromkeys(BUNDLES, one))
    topics = [next(topic_names(bundle)) for bundle in (ONE, TWO, THREE)]
    pulsar.cluster.topics["t/ns"] = topics
    pulsar.cluster.figures.update((topic, {"msgRateIn": 0.0}) for topic in topics)
    asked = partial(calls, pulsar, _asks_for_loaded_topics)
    pulsar.faults = lambda request: (
        Fault(instead=Answer(status))
        if status != 200 and _asks_for_loaded_topics(request)
        else None
    )
    control.send(*(command(bundle, one, two) for bundle in (ONE, TWO, THREE)))
    with executor(pulsar, control, guarded(measure_ms=1)) as running:
        assert running.step(0) == 3
        assert asked() == 1
        control.send(command(FOUR, one, two))
        running.step(0)
        assert asked() == 2, "topics may be new in the next wave"
    known = [1, 1, 1, None] if status == 200 else [None] * 4
    assert [one.cost.topics for one in control.outcomes()] == known
    assert calls(pulsar, _lists_a_namespace) == 0


def _asks_for_loaded_topics(request: Request) -> bool:
    return request.path == "/admin/v2/broker-stats/topics"


def _lists_a_namespace(request: Request) -> bool:
    return request.path in ("/admin/v2/persistent/t/ns", "/admin/v2/namespaces/t/ns/topics")


@pytest.mark.parametrize(
    ("figures", "has_clients"),
    [
        ({"publishers": [{"producerId": 1}]}, True),
        ({"producerCount": 1, "publishers": []}, True),
        ({"subscriptions": {"s": {"consumers": [{"consumerName": "c"}]}}}, True),
        ({"subscriptions": {"s": {"consumers": []}}, "producerCount": 0}, False),
        ({}, False),
    ],
)
def test_a_bundle_has_clients_if_one_of_its_topics_has(
    pulsar: FakePulsar, figures: dict[str, object], has_clients: bool
) -> None:
    one = pulsar.cluster.brokers[0]
    idle, used = islice(topic_names(ONE), 2)
    pulsar.cluster.figures.update({idle: {}, used: {"msgRateIn": 0.5, **figures}})
    with closing(PulsarAdmin(PulsarSettings("c", pulsar.admin_urls))) as admin:
        use = WaveFigures(admin).of_bundle(ONE, one)

    assert (use.topics, use.had_clients, use.busiest) == (2, has_clients, None)


def test_what_a_move_costs_is_in_its_outcome(pulsar: FakePulsar, control: Control) -> None:
    one, two, _ = pulsar.cluster.brokers
    busy, idle = islice(topic_names(ONE), 2)
    pulsar.cluster.figures[busy] = {"publishers": [{}], "msgRateIn": 30.0, "msgInCounter": 17}
    pulsar.cluster.figures[idle] = {"publishers": [], "msgRateIn": 0.0}
    control.send(command(ONE, one, two), command(TWO, two, one))

    assert run(pulsar, control, replace(guarded(measure_ms=3_000), at_once=1))[0] == ("applied", "")

    moved, other = control.outcomes()
    cost = moved.cost
    assert (cost.topics, cost.unloads, cost.manager) == (2, 1, pulsar.cluster.manager)
    assert cost.unowned_ms is not None
    assert cost.first_message_ms is not None
    assert (other.status, other.cost) == ("already-done", NOT_MEASURED)
