"""The documents of the live page are in live_page.txt: of a cluster before its first round, well,
with a plan, paused, late, with drains and a roll; and the answers to searches.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from pulsar_rebalancer.decisions.live import charts, page_views
from pulsar_rebalancer.decisions.live.plans_and_search import PlanSettings, answer, plans
from pulsar_rebalancer.decisions.live.snapshot_fold import (
    LiveCluster,
    LiveFold,
    LiveSnapshot,
    TopicHealth,
)
from pulsar_rebalancer.decisions.read_status import TelemetryHead
from strategies.cluster.intent_records_and_states import IntentStatus
from strategies.executor.objections_to_approvals import ApprovalOutcome
from tests.golden.printed import compare, titled
from tests.live_topics import MadeUpCluster
from tests.unit.test_live_views import NOW, SETTINGS, folded

SMALL = MadeUpCluster(NOW, cluster="c", brokers=4, rounds=16, moves=2)
STARTS = "attempt 2 failed after 14 s"
SWEEP = TelemetryHead("c", NOW, "sweep", ["a:1"], {"b:1": "timed out"})


def only(fold: LiveFold, now_ms: int = NOW) -> LiveCluster:
    (found,) = fold.clusters(now_ms).values()
    return found


def overview(
    one: LiveCluster, executor: bool | None = False, starting: str = ""
) -> Mapping[str, object]:
    return page_views.overview(one, SETTINGS, executor, starting)


def before_the_first_round() -> Iterator[Mapping[str, object]]:
    fold = LiveFold()
    fold.add_telemetry(SWEEP)
    one = only(fold)
    yield overview(one, None)
    yield overview(one, starting=STARTS)
    yield page_views.brokers(one)
    yield charts.usage_over_time(one)
    yield charts.bundles_over_time(one)
    yield page_views.clusters(LiveSnapshot(topics=(TopicHealth("rounds", "file:///x"),)), SETTINGS)
    yield page_views.clusters(LiveSnapshot(starting=STARTS), SETTINGS)


def in_order() -> Iterator[Mapping[str, object]]:
    one = only(folded(replace(SMALL, waits=False)))
    yield overview(one)
    yield overview(one, starting=STARTS)
    yield page_views.brokers(one)
    yield page_views.history(one)
    yield page_views.history(one, one.decisions.version)


def with_a_plan() -> Iterator[Mapping[str, object]]:
    one, late = only(folded(SMALL)), only(folded(SMALL), NOW + 400_000)
    yield plans(one, PlanSettings(required=True))
    yield overview(late)
    yield plans(late, PlanSettings())
    (waiting,) = plans(one, PlanSettings(required=True))["open"]
    yield answer(one, waiting["commands"][0]["bundle"], approval_required=True)


def paused() -> Iterator[Mapping[str, object]]:
    fold = folded(SMALL)
    fold.add_answer(ApprovalOutcome("1", "c", "pause", None, "Grace", "accepted", None, NOW))
    yield overview(only(fold))
    yield plans(only(fold), PlanSettings())["pause"]


def drains_and_rolls() -> Iterator[Mapping[str, object]]:
    drain = IntentStatus(
        "d", "drain", "blocked", "none may move [budget]", "Wait.", "anna", "disks", 1, 2, "a:1",
        until_ms=9, left=3, total=9,
    )  # fmt: skip
    roll = IntentStatus(
        "r", "roll", "rolling", "0 of 2 brokers are restarted", "Nothing to do.", "bo", "4.2.5",
        1, 2, phases={"b:1": "waiting", "a:1": "draining"},
    )  # fmt: skip
    *_, (newest, _, _) = SMALL.made()
    fold = LiveFold()
    fold.add_round(replace(newest, intents=(roll, drain)))
    yield {"intents": overview(only(fold), None)["intents"]}


def searches() -> Iterator[Mapping[str, object]]:
    one = only(folded(SMALL))
    command = next(iter(one.decisions.log.commands))
    for word in (command.bundle, command.source, "16", "", "no-such-broker:1"):
        yield answer(one, word)


STORIES: tuple[Callable[[], Iterator[Mapping[str, object]]], ...] = (
    before_the_first_round, in_order, with_a_plan, paused, drains_and_rolls, searches,
)  # fmt: skip


@pytest.mark.heavy
def test_documents_say_what_the_file_says(rewrite: bool) -> None:
    parts: list[str] = []
    for story in STORIES:
        parts.append(titled(story))
        for document in story():
            fields = (f"{key}: {orjson.dumps(value).decode()}\n" for key, value in document.items())
            parts += [*fields, "\n"]
    compare(Path(__file__).with_name("live_page.txt"), parts, rewrite)
