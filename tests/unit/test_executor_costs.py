"""What a move costs is measured with few calls, whatever the size of its namespace."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import pytest

from sinks.executor.costs import WaveFigures
from strategies.cluster.move_cost import NOT_MEASURED
from tests.pulsar_fake.model import Request
from tests.pulsar_fake.server import answered
from tests.unit.executor_lives import FOUR, ONE, THREE, TWO
from tests.world.services import Scene, guarded, topic_names

MEASURES = guarded(measure_ms=1)


def asks_for_loaded_topics(request: Request) -> bool:
    return request.path == "/admin/v2/broker-stats/topics"


@pytest.mark.parametrize("status", [200, 500])
def test_a_wave_is_measured_by_one_call_to_each_broker_and_lists_no_namespace(
    scene: Scene, status: int
) -> None:
    """Also a call that fails, for which each move would wait."""
    topics = [next(topic_names(bundle)) for bundle in (ONE, TWO, THREE)]
    scene.cluster.topics["t/ns"] = topics
    scene.cluster.figures.update((topic, {"msgRateIn": 0.0}) for topic in topics)
    asked = []
    if status != 200:
        scene.pulsar.fail(asks_for_loaded_topics, answered(status))

    def send_another() -> None:
        asked.append(scene.calls(asks_for_loaded_topics))
        scene.send_moves(FOUR)

    scene.work_off(lambda: scene.send_moves(ONE, TWO, THREE), send_another, config=MEASURES)
    assert [*asked, scene.calls(asks_for_loaded_topics)] == [1, 2], "topics may be new later"
    known = [1, 1, 1, None] if status == 200 else [None] * 4
    assert [one.cost.topics for one in scene.outcomes] == known
    lists = "/admin/v2/persistent/t/ns", "/admin/v2/namespaces/t/ns/topics"
    assert scene.calls(lambda request: request.path in lists) == 0


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
    scene: Scene, figures: dict[str, object], has_clients: bool
) -> None:
    idle, used = islice(topic_names(ONE), 2)
    scene.cluster.figures.update({idle: {}, used: {"msgRateIn": 0.5, **figures}})
    with scene.client() as admin:
        use = WaveFigures(admin).of_bundle(ONE, scene.one)

    assert (use.topics, use.had_clients, use.busiest) == (2, has_clients, None)


def test_what_a_move_costs_is_in_its_outcome(scene: Scene) -> None:
    busy, idle = islice(topic_names(ONE), 2)
    scene.cluster.figures[busy] = {"publishers": [{}], "msgRateIn": 30.0, "msgInCounter": 17}
    scene.cluster.figures[idle] = {"publishers": [], "msgRateIn": 0.0}
    scene.send(scene.move(), scene.move(TWO, scene.one, source=scene.two))

    told = scene.run(replace(guarded(measure_ms=3_000), at_once=1))
    assert told == ["applied", "already-done at-destination"]
    moved, other = scene.outcomes
    cost = moved.cost
    assert (cost.topics, cost.unloads, cost.manager) == (2, 1, scene.cluster.manager)
    assert cost.unowned_ms is not None
    assert cost.first_message_ms is not None
    assert other.cost == NOT_MEASURED
