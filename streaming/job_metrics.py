"""Metrics of the job, from the progress of its micro-batches and the facts in it."""

import math
import time
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from sinks.metrics.http_server_and_probes import (
    MOST_CLUSTERS,
    BoundedLabel,
    Liveness,
    code_of,
    remove_cluster,
    set_all,
)
from strategies.cluster.intent_records_and_states import LASTING
from strategies.states_and_advice_of_codes import STATES
from streaming.outputs.counts_of_micro_batch import (
    BatchFacts,
    ClusterCounts,
    RoundFigures,
    StateFigures,
)
from streaming.progress import BatchProgress

#: Longest time between two turns of a loop that works: Spark starts, or its topics do not answer.
STILL_S = 300.0

_BATCH_SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


#: Field → name, description and labels of a metric of rounds, in the order of the page.
_COUNTERS = {
    "rounds": ("pulsar_rebalancer_rounds_total", "Published rounds", ["cluster"]),
    "commands": ("pulsar_rebalancer_commands_total", "Published commands", ["cluster", "action"]),
    "skips": (
        "pulsar_rebalancer_skips_total",
        "Entries in `skips` of the published rounds",
        ["cluster", "code"],
    ),
}
_GAUGES = {
    "last_round": (
        "pulsar_rebalancer_last_round_timestamp_seconds",
        "Time of the last round, by the cluster's clock",
        ["cluster"],
    ),
    "newest_report": (
        "pulsar_rebalancer_newest_report_timestamp_seconds",
        "Time of the newest load report",
        ["cluster"],
    ),
    "lead": (
        "pulsar_rebalancer_newest_report_lead_seconds",
        "Time of the newest load report minus the time of this machine when it was processed",
        ["cluster"],
    ),
    "spread": (
        "pulsar_rebalancer_spread_ratio",
        "Highest minus lowest usage in the last round",
        ["cluster"],
    ),
    "spread_after": (
        "pulsar_rebalancer_spread_after_ratio",
        "The same, as estimated after the commands of the round",
        ["cluster"],
    ),
    "usage": (
        "pulsar_rebalancer_broker_usage_ratio",
        "Usage of a broker in the last round; only with metrics.per_broker",
        ["cluster", "broker"],
    ),
    "intents": (
        "pulsar_rebalancer_intents",
        "Drains and rolls in the last round that have not ended",
        ["cluster", "state"],
    ),
    "state": (
        "pulsar_rebalancer_round_state",
        "1 for the state of the last round, 0 for all other states",
        ["cluster", "state"],
    ),
    "since": (
        "pulsar_rebalancer_round_state_since_timestamp_seconds",
        "Time of the first round since which all rounds have this state",
        ["cluster"],
    ),
}
#: Field of a forecast → its metric.
_FORECASTS = {
    "error": (
        "pulsar_rebalancer_prediction_error_ratio",
        "Mean difference between predicted and seen usage, where the strategy predicts",
        ["cluster"],
    ),
    "useless_rounds": (
        "pulsar_rebalancer_useless_rounds",
        "Rounds of moves in a row that brought less than a tenth of what they predicted",
        ["cluster"],
    ),
    "useless_moves": (
        "pulsar_rebalancer_useless_moves",
        "Moves of these rounds",
        ["cluster"],
    ),
    "returns": (
        "pulsar_rebalancer_returns",
        "Moves within the rest time that took a bundle back to a former broker",
        ["cluster"],
    ),
}


class RoundMetrics:
    """Figures of rounds, per cluster, and of rejected records."""

    def __init__(
        self, registry: CollectorRegistry, clock: Callable[[], float], label: BoundedLabel
    ) -> None:
        """`clock`: seconds since the epoch, by this machine's clock. `label`: of clusters."""
        self._clock, self._cluster = clock, label
        self._rejected = Counter(
            "pulsar_rebalancer_rejected_records_total",
            "Published rejected records",
            ["code"],
            registry=registry,
        )
        self._counters = {
            field: Counter(*metric, registry=registry) for field, metric in _COUNTERS.items()
        }
        self._gauges = {
            field: Gauge(*metric, registry=registry) for field, metric in _GAUGES.items()
        }
        self._counters["set_aside"] = Counter(
            "pulsar_rebalancer_set_aside_records_total",
            "Records that are not used because they are beyond the cluster's quota",
            ["cluster"],
            registry=registry,
        )
        self._forecasts = {
            field: Gauge(*metric, registry=registry) for field, metric in _FORECASTS.items()
        }
        #: Cluster → its brokers with a usage, and the code of its state.
        self._brokers: dict[str, list[str]] = {}
        self._codes: dict[str, str] = {}

    def take(self, facts: BatchFacts) -> None:
        """Takes the facts of one task of a micro-batch."""
        for code, number in facts.rejected.items():
            self._rejected.labels(code_of(code)).inc(number)
        for counts in facts.clusters:
            self._count(counts)
        for cluster in facts.vanished:
            self._forget(cluster)

    def _count(self, facts: ClusterCounts) -> None:
        cluster, counters = self._cluster(facts.cluster), self._counters
        counters["rounds"].labels(cluster).inc(facts.rounds)
        for action, number in facts.commands.items():
            counters["commands"].labels(cluster, action).inc(number)
        for code, number in facts.skips.items():
            counters["skips"].labels(cluster, code_of(code)).inc(number)
        counters["set_aside"].labels(cluster).inc(facts.set_aside)
        if cluster != facts.cluster:  # figures of different clusters would replace each other
            return
        if facts.newest_report_ms is not None:
            newest_s = facts.newest_report_ms / 1000
            self._set(cluster, newest_report=newest_s, lead=newest_s - self._clock())
        if facts.newest_round is not None:
            self._show(cluster, facts.newest_round)

    def _set(self, cluster: str, **figures: float) -> None:
        for field, figure in figures.items():
            self._gauges[field].labels(cluster).set(figure)

    def _show(self, cluster: str, newest: RoundFigures) -> None:
        """Shows the newest round of a cluster: its spread and usage, the errors of its strategy's
        predictions, its state, and when that state began.
        """
        self._set(
            cluster,
            last_round=newest.ts / 1000,
            spread=newest.spread,
            spread_after=newest.spread_after,
        )
        for field, gauge in self._forecasts.items():
            figure = getattr(newest.forecast, field, None)
            if figure is not None:
                gauge.labels(cluster).set(figure)
        if newest.state is not None:
            self._show_state(cluster, newest.state)
        for code in LASTING:
            self._gauges["intents"].labels(cluster, code).set(newest.intents.get(code, 0))
        self._brokers[cluster] = set_all(
            self._gauges["usage"], cluster, newest.usage.items(), self._brokers.get(cluster, ())
        )

    def _show_state(self, cluster: str, state: StateFigures) -> None:
        for code in STATES:
            self._gauges["state"].labels(cluster, code).set(code == state.code)
        if state.changed or self._codes.get(cluster) != state.code:
            self._set(cluster, since=state.since / 1000)
        self._codes[cluster] = state.code

    def _forget(self, cluster: str) -> None:
        if self._cluster.release(cluster):
            for families in (self._counters, self._gauges, self._forecasts):
                remove_cluster(families.values(), cluster)
            self._brokers.pop(cluster, None)
            self._codes.pop(cluster, None)


class JobMetrics:
    """Figures of each committed micro-batch: its duration, records, backlog and state, and its
    rounds.
    """

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
        label = BoundedLabel(MOST_CLUSTERS, lambda first: warn(_too_many(first)))
        self._rounds = RoundMetrics(registry, clock, label)
        self.liveness = liveness

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
        for facts in batch.facts:
            self._rounds.take(facts)
        self.liveness.succeeded()


def _too_many(first: str) -> str:
    return (
        f"metrics: {MOST_CLUSTERS:,} clusters have series; {first} and later ones share the label "
        "other, without gauges and alerts: distribute them over several jobs"
    )
