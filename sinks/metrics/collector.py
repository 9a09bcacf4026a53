"""Metrics of the collector: passes, and the brokers that answered or did not."""

from __future__ import annotations

from collections import Counter as Count
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from sinks.collector.collector import StepResult
from sinks.metrics.labels import set_all
from sinks.metrics.server import Liveness

_PASS_SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 60, 120)


class CollectorMetrics:
    """Takes the result of each step, of several clusters in a thread each."""

    def __init__(
        self, registry: CollectorRegistry, clusters: Iterable[str], liveness: Liveness
    ) -> None:
        """`clusters`: all of the process; their figures begin at 0."""
        by = ["cluster"]
        self.liveness = liveness
        self._passes = Counter(
            "pulsar_rebalancer_passes_total", "Complete passes", by, registry=registry
        )
        self._seconds = Histogram(
            "pulsar_rebalancer_pass_duration_seconds",
            "Duration of complete passes",
            by,
            buckets=_PASS_SECONDS,
            registry=registry,
        )
        self._ended = Gauge(
            "pulsar_rebalancer_last_pass_timestamp_seconds",
            "End of the last pass",
            by,
            registry=registry,
        )
        self._answered = Gauge(
            "pulsar_rebalancer_brokers_answered",
            "Brokers with figures in the last pass",
            by,
            registry=registry,
        )
        self._missing = Gauge(
            "pulsar_rebalancer_brokers_missing",
            "Brokers without figures in the last pass",
            [*by, "code"],
            registry=registry,
        )
        self._policies = Counter(
            "pulsar_rebalancer_policies_published_total",
            "Published snapshots of policies that had changed",
            by,
            registry=registry,
        )
        self._complaints = Counter(
            "pulsar_rebalancer_complaints_total",
            "Failures to read the cluster: its brokers or its policies",
            by,
            registry=registry,
        )
        self._codes: dict[str, list[str]] = {}
        for cluster in clusters:
            for counter in (self._passes, self._policies, self._complaints):
                counter.labels(cluster)

    def stepped(self, cluster: str, result: StepResult, took_s: float) -> None:
        """Takes a step. `took_s`: its duration in seconds."""
        self.liveness.turned(cluster)
        self._complaints.labels(cluster).inc(len(result.complaints))
        done = result.done
        if done is None:
            return
        self._passes.labels(cluster).inc()
        self._seconds.labels(cluster).observe(took_s)
        self._ended.labels(cluster).set(done.ts / 1000)
        self._answered.labels(cluster).set(len(done.answered))
        codes = Count(done.missing_codes.get(broker, "other") for broker in done.missing)
        self._codes[cluster] = set_all(
            self._missing, cluster, codes.items(), self._codes.get(cluster, ())
        )
        self._policies.labels(cluster).inc(result.policies)
        self.liveness.succeeded()
