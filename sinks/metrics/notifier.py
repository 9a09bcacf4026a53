"""Metrics of the notifier: deliveries by result, and notices that wait."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge

from sinks.metrics.labels import BoundedLabel
from sinks.metrics.server import Liveness
from sinks.notices.delivery import Attempt


class NotifierMetrics:
    """Takes each delivery. No label contains a part of the webhook's address."""

    def __init__(self, registry: CollectorRegistry, liveness: Liveness) -> None:
        self.liveness = liveness
        self._kinds, self._codes = BoundedLabel(), BoundedLabel()
        self._delivered = Counter(
            "pulsar_rebalancer_notices_delivered_total",
            "Delivered notices",
            ["kind"],
            registry=registry,
        )
        self._given_up = Counter(
            "pulsar_rebalancer_notices_given_up_total",
            "Notices that were not delivered",
            ["kind", "code"],
            registry=registry,
        )
        self._failed = Counter(
            "pulsar_rebalancer_notice_deliveries_failed_total",
            "Deliveries that failed, repeated ones too",
            ["code"],
            registry=registry,
        )
        self._waiting = Gauge(
            "pulsar_rebalancer_notices_waiting",
            "Notices that are decided and not delivered",
            registry=registry,
        )

    def follow(self, waiting: Callable[[], int]) -> None:
        """Reads the number of waiting notices at every request from now on."""
        self._waiting.set_function(waiting)

    def stepped(self) -> None:
        """Records a step of the loop that did not fail."""
        self.liveness.turned()
        self.liveness.succeeded()

    def attempted(self, attempt: Attempt) -> None:
        """Takes one delivery."""
        kind, code = self._kinds(attempt.notice.kind), self._codes(attempt.reply.code)
        self.liveness.turned()
        if attempt.fate == "delivered":
            self._delivered.labels(kind).inc()
            return
        self._failed.labels(code).inc()
        if attempt.fate == "given-up":
            self._given_up.labels(kind, code).inc()
