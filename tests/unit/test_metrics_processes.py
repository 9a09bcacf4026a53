"""What the metrics of collector, executor and job say after steps, outcomes and micro-batches."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from sinks.collector.broker_poll import Pass
from sinks.collector.collector import StepResult
from sinks.metrics.exposition import MOST_CLUSTERS, Liveness
from sinks.metrics.services import CollectorMetrics, ExecutorMetrics
from sinks.wire.origin import OutputRow
from strategies.cluster.intent_contract import LASTING
from strategies.reason_codes import STATES
from streaming.job_metrics import JobMetrics
from streaming.outputs.facts import (
    BatchFacts,
    BatchTally,
    ClusterCounts,
    ForecastFigures,
    RoundFigures,
    StateFigures,
    Written,
    read_facts,
)
from streaming.progress import BatchProgress
from tests.control_topic import Control, command
from tests.pulsar_fake.model import Request
from tests.pulsar_fake.server import FakePulsar
from tests.unit.executor_lives import APPLY, FOUR, ONE, THREE, TWO, executor
from tests.unit.metric_samples import samples
from tests.unit.plan_builders import APPROVALS_KEY, approval, give

A, B, C = "a:8080", "b:8080", "c:8080"


def text_of(registry: CollectorRegistry) -> str:
    return generate_latest(registry).decode()


def patient() -> Liveness:
    return Liveness(60, "its first success")


class TestCollector:
    """Passes of two clusters."""

    def test_passes_are_counted_per_cluster(self) -> None:
        registry, liveness = CollectorRegistry(), patient()
        metrics = CollectorMetrics(registry, ["east", "west"], liveness)
        assert samples(registry, "passes_total") == {("east",): 0, ("west",): 0}

        metrics.stepped("west", StepResult(None, False, ("unreachable",)), 9.0)
        assert liveness.not_ready() != ""
        metrics.stepped("east", StepResult(a_pass({B: "x", C: "x"}), True, ("late",)), 2.0)
        metrics.stepped("east", StepResult(a_pass({C: "y"}), False, ()), 3.0)

        assert liveness.not_ready() == ""
        assert samples(registry, "passes_total") == {("east",): 2, ("west",): 0}
        assert samples(registry, "complaints_total") == {("east",): 1, ("west",): 1}
        assert samples(registry, "policies_published_total") == {("east",): 1, ("west",): 0}
        assert samples(registry, "pass_duration_seconds_sum") == {("east",): 5.0}
        assert samples(registry, "last_pass_timestamp_seconds") == {("east",): 1_000.5}
        assert samples(registry, "brokers_answered") == {("east",): 2}
        assert samples(registry, "brokers_missing") == {("east", "y"): 1}


def a_pass(codes: Mapping[str, str]) -> Pass:
    answered = tuple(broker for broker in (A, B, C) if broker not in codes)
    why = dict.fromkeys(codes, "a sentence")
    return Pass(1, 1_000_500, (), answered, why, missing_codes=codes)


class TestExecutor:
    """Commands on a fake cluster."""

    def test_outcomes_are_those_on_the_topic(self, pulsar: FakePulsar, control: Control) -> None:
        one, two, three = pulsar.cluster.brokers
        control.send(
            command(ONE, one, two),
            command(TWO, one),
            command(THREE, two, three),
            command(FOUR, one, two, action="throttle"),
            command(FOUR, one, "gone:8080"),
        )
        control.write("commands", [b"no command", b"{}"])
        registry = CollectorRegistry()
        metrics = ExecutorMetrics(registry, "c", patient())
        with executor(pulsar, control, metrics=metrics) as running:
            while running.step(0):
                metrics.stepped()

        published = control.outcomes()
        assert len(published) == 5
        assert samples(registry, "outcomes_total") == Counter(
            ("c", one.status, (one.reason or "").partition(":")[0]) for one in published
        )
        assert samples(registry, "move_duration_seconds_count") == {("c",): 2}
        assert samples(registry, "move_duration_seconds_sum") == {
            ("c",): pytest.approx(sum(one.took_ms for one in published) / 1000)
        }
        assert samples(registry, "unreadable_commands_total") == Counter(
            ("c", json.loads(value)["code"]) for value in control.read("rejected")
        )
        assert samples(registry, "moves_came_back_total") == {("c",): 0}

    def test_answers_and_held_commands_are_those_of_the_topics(
        self, pulsar: FakePulsar, control: Control
    ) -> None:
        one, two, _ = pulsar.cluster.brokers
        asks = replace(APPLY, approvals_key=APPROVALS_KEY, approval_required=True)
        control.send(first := command(ONE, one, two), second := command(TWO, one, two, round=2))
        registry = CollectorRegistry()
        metrics = ExecutorMetrics(registry, "c", patient())
        with executor(pulsar, control, asks, metrics=metrics) as running:
            metrics.follow(
                lambda: len(running.applying),
                lambda: running.is_paused,
                lambda: 0,
                lambda: running.held,
            )
            running.step(0)
            assert samples(registry, "commands_held") == {("c",): 2}
            give(control, approval(second), key=None)
            give(control, approval(first), approval(first, action="deny"))
            running.step(0)
            assert samples(registry, "commands_held") == {("c",): 1}
            give(control, approval(action="pause"))
            running.step(0)

        assert samples(registry, "paused") == {("c",): 1}
        answers = control.answers()
        assert samples(registry, "approvals_total") == Counter(
            ("c", one.action, one.status, (one.reason or "").partition(":")[0]) for one in answers
        )
        assert len(answers) == 4

    def test_the_state_is_read_at_each_request(self, pulsar: FakePulsar, control: Control) -> None:
        one, two, _ = pulsar.cluster.brokers
        control.send(command(ONE, one, two))
        registry = CollectorRegistry()
        metrics = ExecutorMetrics(registry, "c", patient())
        paused, seen = [True], []
        with executor(pulsar, control) as running:

            def note(request: Request) -> None:
                if request.method == "PUT":
                    seen.append(samples(registry, "commands_in_flight"))

            pulsar.faults = note
            metrics.follow(lambda: len(running.applying), lambda: paused[0], lambda: 4096)
            running.step(0)

        assert seen == [{("c",): 1}] * len(seen)
        assert seen
        assert samples(registry, "commands_in_flight") == {("c",): 0}
        assert samples(registry, "paused") == {("c",): 1}
        paused[0] = False
        assert samples(registry, "paused") == {("c",): 0}
        assert samples(registry, "journal_bytes") == {("c",): 4096}


RECORD = {"range": 0.5, "std": 0.1, "max_over_mean": 1.5}


def a_round(ts: int, codes: list[str], **more: Any) -> OutputRow:
    record = {
        "v": 1,
        "ts": ts,
        "spread": RECORD,
        "spread_after": {**RECORD, "range": 0.25},
        "usage": {A: 0.75, B: 0.25},
        "skips": [{"code": code, "names": ["x"], "text": "…"} for code in codes],
        **more,
    }
    return OutputRow("rounds", "c", json.dumps(record).encode())


def a_command(action: str) -> OutputRow:
    return OutputRow("commands", "c", json.dumps({"action": action, "code": "x"}).encode())


def a_rejection(code: str) -> OutputRow:
    return OutputRow("rejected", "", json.dumps({"code": code, "cluster": None}).encode())


class TestFacts:
    """Facts are read off the rows that are published."""

    def test_rows_become_counts_and_the_newest_round(self) -> None:
        tally = BatchTally(per_broker=False)
        rounds = [a_round(1_000, ["p", "q", "p"]), a_round(2_000, ["q"], forecast={"error": 0.125})]
        tally.add("c", [a_command("unload"), *rounds, a_rejection("late")], 1_900)
        tally.add("", [a_rejection("late"), a_rejection("not-json")], None)

        assert read_facts(tally.value().decode()) == BatchFacts(
            {"late": 2, "not-json": 1},
            [
                ClusterCounts(
                    "c",
                    2,
                    {"unload": 1},
                    {"p": 2, "q": 2},
                    1_900,
                    RoundFigures(2_000, 0.5, 0.25, {}, ForecastFigures(0.125)),
                )
            ],
        )

    def test_brokers_are_named_only_on_request(self) -> None:
        tally = BatchTally(per_broker=True)
        tally.add("c", [a_round(1_000, [], forecast={"error": None})], None)
        (facts,) = read_facts(tally.value().decode()).clusters
        assert facts.newest_round == RoundFigures(
            1_000, 0.5, 0.25, {A: 0.75, B: 0.25}, ForecastFigures()
        )

    @pytest.mark.parametrize(
        ("codes", "state"),
        [
            (["waiting"], StateFigures("waiting", 1_000)),
            (["waiting", "waiting"], StateFigures("waiting", 1_000)),
            (["waiting", "acting", "acting"], StateFigures("acting", 2_000, changed=True)),
            (["acting", "waiting", "acting"], StateFigures("acting", 3_000, changed=True)),
        ],
    )
    def test_a_state_begins_with_the_first_round_that_has_it(
        self, codes: list[str], state: StateFigures
    ) -> None:
        tally = BatchTally(per_broker=False)
        rounds = [
            a_round(1_000 * number, [], state={"code": code, "text": "…"})
            for number, code in enumerate(codes, 1)
        ]
        tally.add("c", rounds, None)
        (facts,) = read_facts(tally.value().decode()).clusters
        assert facts.newest_round is not None
        assert facts.newest_round.state == state

    def test_a_cluster_that_only_rejected_records_name_is_left_out(self) -> None:
        tally = BatchTally(per_broker=False)
        tally.add("made-up", [a_rejection("late")], None)
        assert tally.value() == b'{"rejected":{"late":1}}'


def a_batch(*facts: BatchFacts, took_ms: int = 500, behind: int | None = 7) -> BatchProgress:
    phases = {"addBatch": 400, "walCommit": 50}
    return BatchProgress(1, "", 10, behind, took_ms, phases, 3, Written(), 2048, facts)


def a_newest(**usage: float) -> BatchFacts:
    newest = RoundFigures(60_000, 0.5, 0.25, usage)
    return BatchFacts({}, [ClusterCounts("c", 1, newest_round=newest)])


def a_state(code: str, since: int, *, changed: bool = False) -> BatchFacts:
    newest = RoundFigures(since, 0.5, 0.25, state=StateFigures(code, since, changed))
    return BatchFacts({}, [ClusterCounts("c", 1, newest_round=newest)])


class TestJob:
    """Micro-batches."""

    def test_exactly_one_state_is_1_and_it_lasts_since_its_first_round(self) -> None:
        registry = CollectorRegistry()
        metrics = JobMetrics(registry, 0, patient())
        story = [
            (a_state("waiting", 60_000), "waiting", 60),
            (a_state("waiting", 120_000), "waiting", 60),
            (a_state("acting", 180_000), "acting", 180),
            (a_state("acting", 300_000, changed=True), "acting", 300),
        ]
        for facts, code, since in story:
            metrics.take(a_batch(facts))
            assert samples(registry, "round_state") == {
                ("c", state): state == code for state in STATES
            }
            assert samples(registry, "round_state_since_timestamp_seconds") == {("c",): since}

    def test_drains_and_rolls_are_counted_by_state(self) -> None:
        registry = CollectorRegistry()
        metrics = JobMetrics(registry, 0, patient())
        for intents in ({"blocked": 1, "draining": 2}, {"rolling": 1}, {}):
            newest = RoundFigures(60_000, 0.5, 0.25, intents=intents)
            metrics.take(a_batch(BatchFacts({}, [ClusterCounts("c", 1, newest_round=newest)])))
            assert samples(registry, "intents") == {
                ("c", state): intents.get(state, 0) for state in LASTING
            }

    def test_useless_moves_and_returns_are_those_of_the_newest_round(self) -> None:
        registry = CollectorRegistry()
        metrics = JobMetrics(registry, 0, patient())
        metrics.take(a_batch(a_newest(a=0.5)))
        assert samples(registry, "useless_rounds") == {}
        for forecast in (ForecastFigures(0.25, 2, 1, 5), ForecastFigures(None, 0, 3, 0)):
            newest = RoundFigures(60_000, 0.5, 0.25, forecast=forecast)
            metrics.take(a_batch(BatchFacts({}, [ClusterCounts("c", 1, newest_round=newest)])))
            assert samples(registry, "useless_rounds") == {("c",): forecast.useless_rounds}
            assert samples(registry, "useless_moves") == {("c",): forecast.useless_moves}
            assert samples(registry, "returns") == {("c",): forecast.returns}
            assert samples(registry, "prediction_error_ratio") == {("c",): 0.25}

    def test_a_report_from_the_future_leads_this_machines_clock(self) -> None:
        registry = CollectorRegistry()
        metrics = JobMetrics(registry, 0, patient(), clock=lambda: 100.0)
        facts = BatchFacts({}, [ClusterCounts("c", newest_report_ms=160_500)])
        metrics.take(a_batch(facts))
        assert samples(registry, "newest_report_lead_seconds") == {("c",): 60.5}

    def test_a_batch_has_its_durations_records_and_state(self) -> None:
        registry, liveness = CollectorRegistry(), patient()
        metrics = JobMetrics(registry, 1_000, liveness)
        assert math.isnan(samples(registry, "records_behind")[()])
        metrics.take(a_batch())
        metrics.take(a_batch(took_ms=1_500, behind=None))

        assert liveness.not_ready() == ""
        assert samples(registry, "batch_duration_seconds_sum") == {(): 2.0}
        assert samples(registry, "batch_duration_seconds_count") == {(): 2}
        assert samples(registry, "batch_phase_seconds_total") == {
            ("addBatch",): pytest.approx(0.8),
            ("walCommit",): pytest.approx(0.1),
        }
        assert samples(registry, "trigger_ratio") == {(): 1.5}
        assert samples(registry, "records_total") == {(): 20}
        assert math.isnan(samples(registry, "records_behind")[()])
        assert samples(registry, "state_rows") == {(): 3}
        assert samples(registry, "state_memory_bytes") == {(): 2048}

    def test_without_an_interval_there_is_no_trigger_ratio(self) -> None:
        registry = CollectorRegistry()
        JobMetrics(registry, 0, patient()).take(a_batch())
        assert math.isnan(samples(registry, "trigger_ratio")[()])

    def test_counts_of_all_tasks_are_added(self) -> None:
        registry = CollectorRegistry()
        metrics = JobMetrics(registry, 0, patient())
        one = BatchFacts({"late": 2}, [ClusterCounts("c", 1, {"unload": 3}, {"p": 4})])
        other = BatchFacts({"late": 1, "Not A Code": 1}, [ClusterCounts("d", 2)])
        for batch in (a_batch(one, other), a_batch(one), a_batch()):
            metrics.take(batch)

        assert samples(registry, "rejected_records_total") == {("late",): 5, ("other",): 1}
        assert samples(registry, "rounds_total") == {("c",): 2, ("d",): 2}
        assert samples(registry, "commands_total") == {("c", "unload"): 6}
        assert samples(registry, "skips_total") == {("c", "p"): 8}

    def test_a_broker_that_left_has_no_usage_any_more(self) -> None:
        registry = CollectorRegistry()
        metrics = JobMetrics(registry, 0, patient())
        metrics.take(a_batch(a_newest(a=0.75, b=0.25)))
        metrics.take(a_batch(a_newest(b=0.5)))
        assert samples(registry, "broker_usage_ratio") == {("c", "b"): 0.5}
        assert samples(registry, "last_round_timestamp_seconds") == {("c",): 60}

    @pytest.mark.heavy
    def test_a_cluster_whose_rows_left_has_no_series_and_makes_room_for_another(self) -> None:
        registry = CollectorRegistry()
        metrics = JobMetrics(registry, 0, patient())
        newest = RoundFigures(
            60_000,
            0.5,
            0.25,
            {"b": 0.5},
            ForecastFigures(0.1),
            StateFigures("balanced", 60_000),
            {"draining": 1},
        )

        def of(cluster: str) -> ClusterCounts:
            return ClusterCounts(cluster, 1, {"unload": 1}, {"p": 1}, 60_000, newest)

        many = [of(f"c{i}") for i in range(MOST_CLUSTERS)]
        metrics.take(a_batch(BatchFacts({}, many)))
        before = text_of(registry)
        metrics.take(a_batch(BatchFacts({}, [], ["c7", "never-seen"])))
        assert 'cluster="c7"' in before
        assert 'cluster="c7"' not in text_of(registry)
        metrics.take(a_batch(BatchFacts({}, [of("new")])))
        assert samples(registry, "rounds_total")["new",] == 1
        assert text_of(registry).count("cluster=") == before.count("cluster=")

    @pytest.mark.heavy
    def test_clusters_above_the_limit_share_their_counts_and_one_warning_says_so(self) -> None:
        registry, warnings = CollectorRegistry(), list[str]()
        metrics = JobMetrics(registry, 0, patient(), warn=warnings.append)
        newest = RoundFigures(60_000, 0.5, 0.25)
        many = [ClusterCounts(f"c{i}", 1, newest_round=newest) for i in range(MOST_CLUSTERS + 3)]
        metrics.take(a_batch(BatchFacts({}, many)))
        metrics.take(a_batch(BatchFacts({}, many[-1:])))
        assert samples(registry, "rounds_total")["other",] == 4
        assert len(samples(registry, "rounds_total")) == MOST_CLUSTERS + 1
        assert len(samples(registry, "spread_ratio")) == MOST_CLUSTERS
        (warning,) = warnings
        assert f"c{MOST_CLUSTERS} and later ones share the label other" in warning

    def test_the_progress_file_has_the_fields_it_had(self) -> None:
        assert json.loads(a_batch(a_newest(a=1.0)).json()).keys() == {
            "v",
            "batch",
            "started_at",
            "records",
            "behind_records",
            "took_ms",
            "phases_ms",
            "state_rows",
            "written",
        }
