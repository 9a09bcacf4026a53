"""Metrics of the collector: passes, and the brokers that answered or did not."""

from __future__ import annotations

from collections import Counter as Count
from collections.abc import Iterable
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from sinks.collector.collector import StepResult
from sinks.metrics.exposition import Liveness, register, set_all

_BY = ("cluster",)
_METRICS = (
    (Counter, "passes_total", "Complete passes", _BY),
    (
        partial(Histogram, buckets=(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 60, 120)),
        "pass_duration_seconds",
        "Duration of complete passes",
        _BY,
    ),
    (Gauge, "last_pass_timestamp_seconds", "End of the last pass", _BY),
    (Gauge, "brokers_answered", "Brokers with figures in the last pass", _BY),
    (Gauge, "brokers_missing", "Brokers without figures in the last pass", (*_BY, "code")),
    (
        Counter,
        "policies_published_total",
        "Published snapshots of policies that had changed",
        _BY,
    ),
    (
        Counter,
        "complaints_total",
        "Failures to read the cluster: its brokers or its policies",
        _BY,
    ),
)


class CollectorMetrics:
    """Takes the result of each step, of several clusters in a thread each."""

    def __init__(
        self, registry: CollectorRegistry, clusters: Iterable[str], liveness: Liveness
    ) -> None:
        """`clusters`: all of the process; their figures begin at 0."""
        self.liveness = liveness
        self._families = register(registry, *_METRICS)
        self._codes: dict[str, list[str]] = {}
        for cluster in clusters:
            for counter in ("passes_total", "policies_published_total", "complaints_total"):
                self._families[counter].labels(cluster)

    def stepped(self, cluster: str, result: StepResult, took_s: float) -> None:
        """Takes a step. `took_s`: its duration in seconds."""
        families = self._families
        self.liveness.turned(cluster)
        families["complaints_total"].labels(cluster).inc(len(result.complaints))
        done = result.done
        if done is None:
            return
        families["passes_total"].labels(cluster).inc()
        families["pass_duration_seconds"].labels(cluster).observe(took_s)
        families["last_pass_timestamp_seconds"].labels(cluster).set(done.ts / 1000)
        families["brokers_answered"].labels(cluster).set(len(done.answered))
        codes = Count(done.missing_codes.get(broker, "other") for broker in done.missing)
        self._codes[cluster] = set_all(
            families["brokers_missing"], cluster, codes.items(), self._codes.get(cluster, ())
        )
        families["policies_published_total"].labels(cluster).inc(result.policies)
        self.liveness.succeeded()
