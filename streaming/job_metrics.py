"""Metrics of the job, from the progress of its micro-batches and the facts in it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from sinks.metrics.exposition import (
    MOST_CLUSTERS,
    BoundedLabel,
    Liveness,
    code_of,
    remove_cluster,
    set_all,
)
from strategies.cluster.intent_contract import LASTING
from strategies.reason_codes import STATES
from streaming.outputs.facts import (
    BatchFacts,
    ClusterCounts,
    ForecastFigures,
    RoundFigures,
    StateFigures,
)
from streaming.progress import BatchProgress

_BATCH_SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


class BatchMetrics:
    """Figures of micro-batches: their durations, records, backlog and state."""

    def __init__(self, registry: CollectorRegistry, trigger_ms: int) -> None:
        """`trigger_ms`: `job.trigger_ms`."""
        self._trigger_ms = trigger_ms
        self._seconds = Histogram(
            "pulsar_rebalancer_batch_duration_seconds",
            "Duration of micro-batches, from trigger to commit",
            buckets=_BATCH_SECONDS,
            registry=registry,
        )
        self._phases = Counter(
            "pulsar_rebalancer_batch_phase_seconds_total",
            "Time in each phase of micro-batches, as Spark names them",
            ["phase"],
            registry=registry,
        )
        self._ratio = Gauge(
            "pulsar_rebalancer_trigger_ratio",
            "Duration of the last micro-batch divided by job.trigger_ms",
            registry=registry,
        )
        self._records = Counter(
            "pulsar_rebalancer_records_total", "Processed telemetry records", registry=registry
        )
        self._behind = Gauge(
            "pulsar_rebalancer_records_behind",
            "Telemetry records after the last micro-batch",
            registry=registry,
        )
        self._warming = Gauge(
            "pulsar_rebalancer_warming",
            "1 while the last micro-batch belongs to a warm start, of which nothing is published",
            registry=registry,
        )
        self._rows = Gauge("pulsar_rebalancer_state_rows", "Rows of the state", registry=registry)
        self._memory = Gauge(
            "pulsar_rebalancer_state_memory_bytes", "Memory of the state store", registry=registry
        )
        self._ratio.set(math.nan)
        self._behind.set(math.nan)

    def take(self, batch: BatchProgress) -> None:
        """Takes a micro-batch."""
        self._seconds.observe(batch.took_ms / 1000)
        for phase, took_ms in batch.phases_ms.items():
            self._phases.labels(phase).inc(took_ms / 1000)
        if self._trigger_ms:
            self._ratio.set(batch.took_ms / self._trigger_ms)
        self._records.inc(batch.records)
        self._behind.set(math.nan if batch.behind_records is None else batch.behind_records)
        self._warming.set(batch.warming)
        self._rows.set(batch.state_rows)
        self._memory.set(batch.state_memory_bytes)


class StateMetrics:
    """The state of each cluster's newest round, and since when it has lasted."""

    def __init__(self, registry: CollectorRegistry) -> None:
        by = ["cluster"]
        self._state = Gauge(
            "pulsar_rebalancer_round_state",
            "1 for the state of the last round, 0 for all other states",
            [*by, "state"],
            registry=registry,
        )
        self._since = Gauge(
            "pulsar_rebalancer_round_state_since_timestamp_seconds",
            "Time of the first round since which all rounds have this state",
            by,
            registry=registry,
        )
        self._set_aside = Counter(
            "pulsar_rebalancer_set_aside_records_total",
            "Records that are not used because they are beyond the cluster's quota",
            by,
            registry=registry,
        )
        self._codes: dict[str, str] = {}

    def set_aside(self, cluster: str, records: int) -> None:
        """Counts records beyond a cluster's quota."""
        self._set_aside.labels(cluster).inc(records)

    def take(self, cluster: str, state: StateFigures) -> None:
        """Takes the state of a cluster's newest round."""
        for code in STATES:
            self._state.labels(cluster, code).set(code == state.code)
        if state.changed or self._codes.get(cluster) != state.code:
            self._since.labels(cluster).set(state.since / 1000)
        self._codes[cluster] = state.code

    def forget(self, cluster: str) -> None:
        """Removes the series of a cluster."""
        remove_cluster((self._state, self._since, self._set_aside), cluster)
        self._codes.pop(cluster, None)


#: Field of a forecast → name and description of its metric.
_FORECASTS = {
    "error": (
        "pulsar_rebalancer_prediction_error_ratio",
        "Mean difference between predicted and seen usage, where the strategy predicts",
    ),
    "useless_rounds": (
        "pulsar_rebalancer_useless_rounds",
        "Rounds of moves in a row that brought less than a tenth of what they predicted",
    ),
    "useless_moves": ("pulsar_rebalancer_useless_moves", "Moves of these rounds"),
    "returns": (
        "pulsar_rebalancer_returns",
        "Moves within the rest time that took a bundle back to a former broker",
    ),
}


class ForecastMetrics:
    """How well each cluster's strategy predicts the effect of its moves."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._gauges = {
            field: Gauge(name, text, ["cluster"], registry=registry)
            for field, (name, text) in _FORECASTS.items()
        }

    def take(self, cluster: str, forecast: ForecastFigures) -> None:
        """Takes the forecast of a cluster's newest round."""
        for field, gauge in self._gauges.items():
            figure = getattr(forecast, field)
            if figure is not None:
                gauge.labels(cluster).set(figure)

    def forget(self, cluster: str) -> None:
        """Removes the series of a cluster."""
        remove_cluster(self._gauges.values(), cluster)


class RoundMetrics:
    """Figures of rounds, per cluster, and of rejected records."""

    def __init__(
        self, registry: CollectorRegistry, clock: Callable[[], float], label: BoundedLabel
    ) -> None:
        """`clock`: seconds since the epoch, by this machine's clock. `label`: of clusters."""
        by = ["cluster"]
        counter = partial(Counter, registry=registry)
        gauge = partial(Gauge, labelnames=by, registry=registry)
        self._clock = clock
        self._rejected = counter(
            "pulsar_rebalancer_rejected_records_total", "Published rejected records", ["code"]
        )
        self._rounds = counter("pulsar_rebalancer_rounds_total", "Published rounds", by)
        self._commands = counter(
            "pulsar_rebalancer_commands_total", "Published commands", [*by, "action"]
        )
        self._skips = counter(
            "pulsar_rebalancer_skips_total",
            "Entries in `skips` of the published rounds",
            [*by, "code"],
        )
        self._last_round = gauge(
            "pulsar_rebalancer_last_round_timestamp_seconds",
            "Time of the last round, by the cluster's clock",
        )
        self._newest_report = gauge(
            "pulsar_rebalancer_newest_report_timestamp_seconds", "Time of the newest load report"
        )
        self._lead = gauge(
            "pulsar_rebalancer_newest_report_lead_seconds",
            "Time of the newest load report minus the time of this machine when it was processed",
        )
        self._spread = gauge(
            "pulsar_rebalancer_spread_ratio", "Highest minus lowest usage in the last round"
        )
        self._spread_after = gauge(
            "pulsar_rebalancer_spread_after_ratio",
            "The same, as estimated after the commands of the round",
        )
        self._usage = Gauge(
            "pulsar_rebalancer_broker_usage_ratio",
            "Usage of a broker in the last round; only with metrics.per_broker",
            [*by, "broker"],
            registry=registry,
        )
        self._intents = Gauge(
            "pulsar_rebalancer_intents",
            "Drains and rolls in the last round that have not ended",
            [*by, "state"],
            registry=registry,
        )
        self._states, self._forecasts = StateMetrics(registry), ForecastMetrics(registry)
        self._cluster = label
        self._brokers: dict[str, list[str]] = {}

    def take(self, facts: BatchFacts) -> None:
        """Takes the facts of one task of a micro-batch."""
        for code, number in facts.rejected.items():
            self._rejected.labels(code_of(code)).inc(number)
        for one in facts.clusters:
            self._count(one)
        for cluster in facts.vanished:
            self._forget(cluster)

    def _count(self, facts: ClusterCounts) -> None:
        cluster = self._cluster(facts.cluster)
        self._rounds.labels(cluster).inc(facts.rounds)
        for action, number in facts.commands.items():
            self._commands.labels(cluster, action).inc(number)
        for code, number in facts.skips.items():
            self._skips.labels(cluster, code_of(code)).inc(number)
        self._states.set_aside(cluster, facts.set_aside)
        if cluster != facts.cluster:  # figures of different clusters would replace each other
            return
        if facts.newest_report_ms is not None:
            newest_s = facts.newest_report_ms / 1000
            self._newest_report.labels(cluster).set(newest_s)
            self._lead.labels(cluster).set(newest_s - self._clock())
        if facts.newest_round is not None:
            self._show(cluster, facts.newest_round)

    def _forget(self, cluster: str) -> None:
        if not self._cluster.release(cluster):
            return
        counters = (self._rounds, self._commands, self._skips)
        times = (self._last_round, self._newest_report, self._lead)
        figures = (self._spread, self._spread_after, self._usage, self._intents)
        remove_cluster((*counters, *times, *figures), cluster)
        self._states.forget(cluster)
        self._forecasts.forget(cluster)
        self._brokers.pop(cluster, None)

    def _show(self, cluster: str, newest: RoundFigures) -> None:
        self._last_round.labels(cluster).set(newest.ts / 1000)
        self._spread.labels(cluster).set(newest.spread)
        self._spread_after.labels(cluster).set(newest.spread_after)
        if newest.forecast is not None:
            self._forecasts.take(cluster, newest.forecast)
        if newest.state is not None:
            self._states.take(cluster, newest.state)
        for code in LASTING:
            self._intents.labels(cluster, code).set(newest.intents.get(code, 0))
        self._brokers[cluster] = set_all(
            self._usage, cluster, newest.usage.items(), self._brokers.get(cluster, ())
        )


class JobMetrics:
    """Takes each committed micro-batch."""

    def __init__(
        self,
        registry: CollectorRegistry,
        trigger_ms: int,
        liveness: Liveness,
        *,
        clock: Callable[[], float] = time.time,
        warn: Callable[[str], object] = lambda _: None,
    ) -> None:
        """`trigger_ms`: `job.trigger_ms`. `clock`: seconds since the epoch. `warn`: gets a sentence
        when there are more clusters than labels.
        """
        self._batches = BatchMetrics(registry, trigger_ms)
        label = BoundedLabel(MOST_CLUSTERS, lambda first: warn(_too_many(first)))
        self._rounds = RoundMetrics(registry, clock, label)
        self.liveness = liveness

    def take(self, batch: BatchProgress) -> None:
        """Takes a micro-batch."""
        self._batches.take(batch)
        for facts in batch.facts:
            self._rounds.take(facts)
        self.liveness.succeeded()


def _too_many(first: str) -> str:
    return (
        f"metrics: {MOST_CLUSTERS:,} clusters have series; {first} and later ones share the label "
        "other, without gauges and alerts: distribute them over several jobs"
    )
