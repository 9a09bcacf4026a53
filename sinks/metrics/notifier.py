"""Metrics of the notifier: deliveries by result, and notices that wait."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge

from sinks.metrics.exposition import BoundedLabel, Liveness, register
from sinks.notices.delivery import Attempt

_METRICS = (
    (Counter, "notices_delivered_total", "Delivered notices", ("kind",)),
    (Counter, "notices_given_up_total", "Notices that were not delivered", ("kind", "code")),
    (
        Counter,
        "notice_deliveries_failed_total",
        "Deliveries that failed, repeated ones too",
        ("code",),
    ),
    (Gauge, "notices_waiting", "Notices that are decided and not delivered", ()),
)


class NotifierMetrics:
    """Takes each delivery. No label contains a part of the webhook's address."""

    def __init__(self, registry: CollectorRegistry, liveness: Liveness) -> None:
        self.liveness = liveness
        self._kinds, self._codes = BoundedLabel(), BoundedLabel()
        self._families = register(registry, *_METRICS)

    def follow(self, waiting: Callable[[], int]) -> None:
        """Reads the number of waiting notices at every request from now on."""
        self._families["notices_waiting"].set_function(waiting)

    def stepped(self) -> None:
        """Records a step of the loop that did not fail."""
        self.liveness.turned()
        self.liveness.succeeded()

    def attempted(self, attempt: Attempt) -> None:
        """Takes one delivery."""
        kind, code = self._kinds(attempt.notice.kind), self._codes(attempt.reply.code)
        self.liveness.turned()
        if attempt.fate == "delivered":
            self._families["notices_delivered_total"].labels(kind).inc()
            return
        self._families["notice_deliveries_failed_total"].labels(code).inc()
        if attempt.fate == "given-up":
            self._families["notices_given_up_total"].labels(kind, code).inc()
