"""What the metrics of collector, executor and job say after steps, outcomes and micro-batches."""

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from sinks.collector.broker_poll import Pass
from sinks.collector.collector import StepResult
from sinks.metrics.http_server_and_probes import MOST_CLUSTERS, Liveness
from sinks.metrics.service_metrics import CollectorMetrics, ExecutorMetrics
from sinks.wire.event_to_topic_rows import OutputRow
from strategies.cluster.intent_records_and_states import LASTING
from strategies.cluster.round_figures import Forecast
from strategies.states_and_advice_of_codes import STATES
from streaming.job_metrics import JobMetrics
from streaming.outputs.counts_of_micro_batch import (
    BatchFacts,
    BatchTally,
    ClusterCounts,
    RoundFigures,
    StateFigures,
    Written,
    read_facts,
)
from streaming.progress import BatchProgress
from tests.pulsar_fake.model import Request
from tests.pulsar_fake.server import is_put
from tests.unit.executor_lives import APPLY, FOUR, THREE, TWO, executor
from tests.unit.metric_samples import samples
from tests.unit.plan_builders import APPROVALS_KEY, approval
from tests.world.services import Scene

A, B, C = "a:8080", "b:8080", "c:8080"
#: Values of a metric by its labels.
Shown = Callable[[str], dict[tuple[str, ...], float]]


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def shown(registry: CollectorRegistry) -> Shown:
    return partial(samples, registry)


@pytest.fixture
def liveness() -> Liveness:
    return Liveness(60, "its first success")


@pytest.fixture
def of_executor(registry: CollectorRegistry, liveness: Liveness) -> ExecutorMetrics:
    return ExecutorMetrics(registry, "c", liveness)


@pytest.fixture
def job(registry: CollectorRegistry, liveness: Liveness) -> JobMetrics:
    return JobMetrics(registry, 1_000, liveness, clock=lambda: 100.0)


def test_passes_of_a_collector_are_counted_per_cluster(
    registry: CollectorRegistry, shown: Shown, liveness: Liveness
) -> None:
    metrics = CollectorMetrics(registry, ["east", "west"], liveness)
    assert shown("passes_total") == {("east",): 0, ("west",): 0}
    metrics.stepped("west", StepResult(None, False, ("unreachable",)), 9.0)
    assert liveness.not_ready() != ""
    metrics.stepped("east", StepResult(a_pass({B: "x", C: "x"}), True, ("late",)), 2.0)
    metrics.stepped("east", StepResult(a_pass({C: "y"}), False, ()), 3.0)
    assert liveness.not_ready() == ""
    assert shown("passes_total") == {("east",): 2, ("west",): 0}
    assert shown("complaints_total") == {("east",): 1, ("west",): 1}
    assert shown("policies_published_total") == {("east",): 1, ("west",): 0}
    assert shown("pass_duration_seconds_sum") == {("east",): 5.0}
    assert shown("last_pass_timestamp_seconds") == {("east",): 1_000.5}
    assert shown("brokers_answered") == {("east",): 2}
    assert shown("brokers_missing") == {("east", "y"): 1}


def a_pass(codes: Mapping[str, str]) -> Pass:
    answered = tuple(broker for broker in (A, B, C) if broker not in codes)
    why = dict.fromkeys(codes, "a sentence")
    return Pass(1, 1_000_500, (), answered, why, missing_codes=codes)


class TestExecutor:
    def test_outcomes_are_those_on_the_topic(
        self, scene: Scene, shown: Shown, of_executor: ExecutorMetrics
    ) -> None:
        scene.send(
            scene.move(),
            scene.release(TWO),
            scene.move(THREE, scene.three, source=scene.two),
            scene.move(FOUR, action="throttle"),
            scene.move(FOUR, "gone:8080"),
        )
        scene.control.write("commands", [b"no command", b"{}"])
        with executor(scene.pulsar, scene.control, metrics=of_executor) as running:
            while running.step(0):
                of_executor.stepped()
        published = scene.outcomes
        assert len(published) == 5
        assert shown("outcomes_total") == Counter(
            ("c", one.status, (one.reason or "").partition(":")[0]) for one in published
        )
        took_s = sum(one.took_ms for one in published) / 1000
        assert shown("move_duration_seconds_count") == {("c",): 2}
        assert shown("move_duration_seconds_sum") == {("c",): pytest.approx(took_s)}
        unreadable = Counter(("c", code) for code in scene.rejected)
        assert shown("unreadable_commands_total") == unreadable
        assert shown("moves_came_back_total") == {("c",): 0}

    def test_answers_and_held_commands_are_those_of_the_topics(
        self, scene: Scene, shown: Shown, of_executor: ExecutorMetrics
    ) -> None:
        asks = replace(APPLY, approvals_key=APPROVALS_KEY, approval_required=True)
        scene.send(first := scene.move(), second := scene.move(TWO, round=2))
        with executor(scene.pulsar, scene.control, asks, metrics=of_executor) as running:
            of_executor.follow(
                lambda: 0, lambda: running.is_paused, lambda: 0, lambda: running.held
            )
            running.step(0)
            assert shown("commands_held") == {("c",): 2}
            scene.give(approval(second), key=None)
            scene.give(approval(first), approval(first, action="deny"))
            running.step(0)
            assert shown("commands_held") == {("c",): 1}
            scene.give(approval(action="pause"))
            running.step(0)
        assert shown("paused") == {("c",): 1}
        given = scene.control.answers()
        assert shown("approvals_total") == Counter(
            ("c", one.action, one.status, (one.reason or "").partition(":")[0]) for one in given
        )
        assert len(given) == 4

    def test_the_state_is_read_at_each_request(
        self, scene: Scene, shown: Shown, of_executor: ExecutorMetrics
    ) -> None:
        paused, seen = [True], []

        def note(request: Request) -> None:
            if is_put(request):
                seen.append(shown("commands_in_flight"))

        scene.send_move()
        scene.pulsar.faults = note
        with executor(scene.pulsar, scene.control) as running:
            of_executor.follow(lambda: len(running.applying), lambda: paused[0], lambda: 4096)
            running.step(0)
        assert seen == [{("c",): 1}] * len(seen)
        assert seen
        assert shown("commands_in_flight") == {("c",): 0}
        assert shown("paused") == {("c",): 1}
        paused[0] = False
        assert shown("paused") == {("c",): 0}
        assert shown("journal_bytes") == {("c",): 4096}


def a_round(ts: int, codes: list[str], **more: Any) -> OutputRow:
    spread = {"range": 0.5, "std": 0.1, "max_over_mean": 1.5}
    record = {
        "v": 1,
        "ts": ts,
        "spread": spread,
        "spread_after": {**spread, "range": 0.25},
        "usage": {A: 0.75, B: 0.25},
        "skips": [{"code": code, "names": ["x"], "text": "…"} for code in codes],
        **more,
    }
    return OutputRow("rounds", "c", json.dumps(record).encode())


def a_command(action: str) -> OutputRow:
    return OutputRow("commands", "c", json.dumps({"action": action, "code": "x"}).encode())


def a_rejection(code: str) -> OutputRow:
    return OutputRow("rejected", "", json.dumps({"code": code, "cluster": None}).encode())


def newest(rounds: list[OutputRow], *, per_broker: bool = False) -> RoundFigures:
    tally = BatchTally(per_broker=per_broker)
    tally.add("c", rounds, None)
    (facts,) = read_facts(tally.value().decode()).clusters
    assert facts.newest_round is not None
    return facts.newest_round


class TestFacts:
    def test_rows_become_counts_and_the_newest_round(self) -> None:
        tally = BatchTally(per_broker=False)
        rounds = [a_round(1_000, ["p", "q", "p"]), a_round(2_000, ["q"], forecast={"error": 0.125})]
        tally.add("c", [a_command("unload"), *rounds, a_rejection("late")], 1_900)
        tally.add("", [a_rejection("late"), a_rejection("not-json")], None)
        last = RoundFigures(2_000, 0.5, 0.25, {}, Forecast(0.125))
        counts = ClusterCounts("c", 2, {"unload": 1}, {"p": 2, "q": 2}, 1_900, last)
        rejected = {"late": 2, "not-json": 1}
        assert read_facts(tally.value().decode()) == BatchFacts(rejected, [counts])

    def test_brokers_are_named_only_on_request(self) -> None:
        usage = {A: 0.75, B: 0.25}
        found = newest([a_round(1_000, [], forecast={"error": None})], per_broker=True)
        assert found == RoundFigures(1_000, 0.5, 0.25, usage, Forecast())

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
        states = [{"code": code, "text": "…"} for code in codes]
        rounds = [a_round(1_000 * number, [], state=one) for number, one in enumerate(states, 1)]
        assert newest(rounds).state == state

    def test_a_cluster_that_only_rejected_records_name_is_left_out(self) -> None:
        tally = BatchTally(per_broker=False)
        tally.add("made-up", [a_rejection("late")], None)
        assert tally.value() == b'{"rejected":{"late":1}}'


def a_batch(*facts: BatchFacts, took_ms: int = 500, behind: int | None = 7) -> BatchProgress:
    phases = {"addBatch": 400, "walCommit": 50}
    return BatchProgress(1, "", 10, behind, took_ms, phases, 3, Written(), 2048, facts)


def with_round(since: int = 60_000, usage: Mapping[str, float] = {}, **more: Any) -> BatchFacts:
    newest = RoundFigures(since, 0.5, 0.25, dict(usage), **more)
    return BatchFacts({}, [ClusterCounts("c", 1, newest_round=newest)])


class TestJob:
    def test_exactly_one_state_is_1_and_it_lasts_since_its_first_round(
        self, shown: Shown, job: JobMetrics
    ) -> None:
        story = [("waiting", 60, 60), ("waiting", 120, 60), ("acting", 180, 180)]
        for code, first, since in (*story, ("acting", 300, 300)):
            state = StateFigures(code, 1_000 * first, changed=first == 300)
            job.take(a_batch(with_round(1_000 * first, state=state)))
            wanted = {("c", one): one == code for one in STATES}
            assert shown("round_state") == wanted
            assert shown("round_state_since_timestamp_seconds") == {("c",): since}

    def test_drains_and_rolls_are_counted_by_state(self, shown: Shown, job: JobMetrics) -> None:
        for intents in ({"blocked": 1, "draining": 2}, {"rolling": 1}, {}):
            job.take(a_batch(with_round(intents=intents)))
            wanted = {("c", state): intents.get(state, 0) for state in LASTING}
            assert shown("intents") == wanted

    def test_useless_moves_and_returns_are_those_of_the_newest_round(
        self, shown: Shown, job: JobMetrics
    ) -> None:
        job.take(a_batch(with_round(usage={"a": 0.5})))
        assert shown("useless_rounds") == {}
        for forecast in (Forecast(0.25, 2, 1, 5), Forecast(None, 0, 3, 0)):
            job.take(a_batch(with_round(forecast=forecast)))
            assert shown("useless_rounds") == {("c",): forecast.useless_rounds}
            assert shown("useless_moves") == {("c",): forecast.useless_moves}
            assert shown("returns") == {("c",): forecast.returns}
            assert shown("prediction_error_ratio") == {("c",): 0.25}

    def test_a_report_from_the_future_leads_this_machines_clock(
        self, shown: Shown, job: JobMetrics
    ) -> None:
        job.take(a_batch(BatchFacts({}, [ClusterCounts("c", newest_report_ms=160_500)])))
        assert shown("newest_report_lead_seconds") == {("c",): 60.5}

    def test_a_batch_has_its_durations_records_and_state(
        self, shown: Shown, liveness: Liveness, job: JobMetrics
    ) -> None:
        assert math.isnan(shown("records_behind")[()])
        job.take(a_batch())
        job.take(a_batch(took_ms=1_500, behind=None))
        assert liveness.not_ready() == ""
        assert shown("batch_duration_seconds_sum") == {(): 2.0}
        assert shown("batch_duration_seconds_count") == {(): 2}
        phases = {("addBatch",): pytest.approx(0.8), ("walCommit",): pytest.approx(0.1)}
        assert shown("batch_phase_seconds_total") == phases
        assert shown("trigger_ratio") == {(): 1.5}
        assert shown("records_total") == {(): 20}
        assert math.isnan(shown("records_behind")[()])
        assert shown("state_rows") == {(): 3}
        assert shown("state_memory_bytes") == {(): 2048}

    def test_without_an_interval_there_is_no_trigger_ratio(
        self, registry: CollectorRegistry, shown: Shown, liveness: Liveness
    ) -> None:
        JobMetrics(registry, 0, liveness).take(a_batch())
        assert math.isnan(shown("trigger_ratio")[()])

    def test_counts_of_all_tasks_are_added(self, shown: Shown, job: JobMetrics) -> None:
        one = BatchFacts({"late": 2}, [ClusterCounts("c", 1, {"unload": 3}, {"p": 4})])
        other = BatchFacts({"late": 1, "Not A Code": 1}, [ClusterCounts("d", 2)])
        for batch in (a_batch(one, other), a_batch(one), a_batch()):
            job.take(batch)
        assert shown("rejected_records_total") == {("late",): 5, ("other",): 1}
        assert shown("rounds_total") == {("c",): 2, ("d",): 2}
        assert shown("commands_total") == {("c", "unload"): 6}
        assert shown("skips_total") == {("c", "p"): 8}

    def test_a_broker_that_left_has_no_usage_any_more(self, shown: Shown, job: JobMetrics) -> None:
        job.take(a_batch(with_round(usage={"a": 0.75, "b": 0.25})))
        job.take(a_batch(with_round(usage={"b": 0.5})))
        assert shown("broker_usage_ratio") == {("c", "b"): 0.5}
        assert shown("last_round_timestamp_seconds") == {("c",): 60}

    @pytest.mark.heavy
    def test_a_cluster_whose_rows_left_has_no_series_and_makes_room_for_another(
        self, registry: CollectorRegistry, shown: Shown, job: JobMetrics
    ) -> None:
        forecast, state = Forecast(0.1), StateFigures("balanced", 60_000)
        newest = RoundFigures(60_000, 0.5, 0.25, {"b": 0.5}, forecast, state, {"draining": 1})

        def of(cluster: str) -> ClusterCounts:
            return ClusterCounts(cluster, 1, {"unload": 1}, {"p": 1}, 60_000, newest)

        def text() -> str:
            return generate_latest(registry).decode()

        job.take(a_batch(BatchFacts({}, [of(f"c{i}") for i in range(MOST_CLUSTERS)])))
        before = text()
        job.take(a_batch(BatchFacts({}, [], ["c7", "never-seen"])))
        assert 'cluster="c7"' in before
        assert 'cluster="c7"' not in text()
        job.take(a_batch(BatchFacts({}, [of("new")])))
        assert shown("rounds_total")["new",] == 1
        assert text().count("cluster=") == before.count("cluster=")

    @pytest.mark.heavy
    def test_clusters_above_the_limit_share_their_counts_and_one_warning_says_so(
        self, registry: CollectorRegistry, shown: Shown, liveness: Liveness
    ) -> None:
        warnings = list[str]()
        metrics = JobMetrics(registry, 0, liveness, warn=warnings.append)
        newest = RoundFigures(60_000, 0.5, 0.25)
        many = [ClusterCounts(f"c{i}", 1, newest_round=newest) for i in range(MOST_CLUSTERS + 3)]
        metrics.take(a_batch(BatchFacts({}, many)))
        metrics.take(a_batch(BatchFacts({}, many[-1:])))
        assert shown("rounds_total")["other",] == 4
        assert len(shown("rounds_total")) == MOST_CLUSTERS + 1
        assert len(shown("spread_ratio")) == MOST_CLUSTERS
        (warning,) = warnings
        assert f"c{MOST_CLUSTERS} and later ones share the label other" in warning

    def test_the_progress_file_has_the_fields_it_had(self) -> None:
        fields = "v batch started_at records behind_records took_ms phases_ms state_rows written"
        assert {*json.loads(a_batch(with_round(usage={"a": 1.0})).json())} == {*fields.split()}
