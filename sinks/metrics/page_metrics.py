"""Metrics of `rebalancer serve`: requests, viewers, and how far its topics are read."""

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge

from sinks.metrics.http_server_and_probes import MOST_CLUSTERS, BoundedLabel, Liveness, register

#: Longest time between two snapshots of a live page, s.
STILL_S = 60.0
_METRICS = (
    (
        Counter,
        "page_requests",
        "Requests to the live page, by route and class of the status",
        ("route", "status"),
    ),
    (Gauge, "page_viewers", "Browsers that follow the page", ()),
    (Gauge, "page_records", "Records that the page has read since its start", ("topic",)),
    (
        Gauge,
        "page_last_round_timestamp_seconds",
        "Time of the newest round that the page has read, by the cluster's clock",
        ("cluster",),
    ),
    (Gauge, "page_topic_lost", "1 while the page cannot read the topic", ("topic",)),
)


class PageMetrics:
    """Metrics of the live page. Threads may share it."""

    def __init__(self, registry: CollectorRegistry, liveness: Liveness) -> None:
        self.liveness = liveness
        self._route = BoundedLabel(50)
        self._cluster = BoundedLabel(MOST_CLUSTERS)
        self._families = register(registry, *_METRICS)

    def answered(self, route: str, status: int) -> None:
        """Counts a request. `route`: its template; `status`: 0 if the client went away."""
        group = f"{status // 100}xx" if status else "none"
        self._families["page_requests"].labels(self._route(route), group).inc()

    def turned(
        self,
        viewers: int,
        topics: Iterable[tuple[str, int, bool]],
        rounds: Iterable[tuple[str, int]] = (),
    ) -> None:
        """Notes a turn of the loop. `topics`: name, records read, whether it cannot be read;
        `rounds`: cluster, and time of its newest round (ms since the epoch).
        """
        self.liveness.turned()
        self._families["page_viewers"].set(viewers)
        for name, records, lost in topics:
            self._families["page_records"].labels(name).set(records)
            self._families["page_topic_lost"].labels(name).set(lost)
        for cluster, ts in rounds:
            if self._cluster(cluster) == cluster:
                self._families["page_last_round_timestamp_seconds"].labels(cluster).set(ts / 1000)
