"""Metrics of the executor: outcomes, the duration of moves, and its state."""

from __future__ import annotations

import math
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from sinks.executor.approval_intake import Answered
from sinks.executor.intake import RefusedRecord
from sinks.executor.publish import Done
from sinks.metrics.labels import code_of
from sinks.metrics.server import Liveness
from strategies.cluster.model import Outcome

_MOVE_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
#: Reason codes of moves that did not end where the command said.
_CAME_BACK, _ELSEWHERE, _REPAIRED = "came-back", "elsewhere", "repaired"
_BREAKER = {"open": 1.0, "trying": 0.5}


class ExecutorMetrics:
    """Takes each published outcome and each record that is no command."""

    def __init__(self, registry: CollectorRegistry, cluster: str, liveness: Liveness) -> None:
        by = ["cluster"]
        self._cluster = cluster
        self.liveness = liveness
        self._outcomes = Counter(
            "pulsar_rebalancer_outcomes_total",
            "Published outcomes",
            [*by, "status", "code"],
            registry=registry,
        )
        self._unreadable = Counter(
            "pulsar_rebalancer_unreadable_commands_total",
            "Records that are no command, or no approval",
            [*by, "code"],
            registry=registry,
        )
        self._answers = Counter(
            "pulsar_rebalancer_approvals_total",
            "Answers to approval records",
            [*by, "action", "status", "code"],
            registry=registry,
        )
        self._last = Gauge(
            "pulsar_rebalancer_last_outcome_timestamp_seconds",
            "Time of the last published outcome",
            by,
            registry=registry,
        ).labels(cluster)
        self._last.set(math.nan)
        self._seconds = Histogram(
            "pulsar_rebalancer_move_duration_seconds",
            "Duration of applied moves, from the call to the new owner",
            by,
            buckets=_MOVE_SECONDS,
            registry=registry,
        ).labels(cluster)
        self._came_back = Counter(
            "pulsar_rebalancer_moves_came_back_total",
            "Moves after which the source has the bundle again",
            by,
            registry=registry,
        ).labels(cluster)
        self._lost = Counter(
            "pulsar_rebalancer_lost_destinations_total",
            "Moves that ended at another broker than the commanded one",
            by,
            registry=registry,
        ).labels(cluster)
        self._guarded = _GuardMetrics(registry, cluster)
        self._in_flight = Gauge(
            "pulsar_rebalancer_commands_in_flight",
            "Commands that are being applied",
            by,
            registry=registry,
        ).labels(cluster)
        self._held = Gauge(
            "pulsar_rebalancer_commands_held",
            "Commands that wait for the approval of their plan",
            by,
            registry=registry,
        ).labels(cluster)
        self._paused = Gauge(
            "pulsar_rebalancer_paused",
            "1 while the pause file or a record pauses the executor, otherwise 0",
            by,
            registry=registry,
        ).labels(cluster)
        self._journal = Gauge(
            "pulsar_rebalancer_journal_bytes", "Size of the journal on disk", by, registry=registry
        ).labels(cluster)

    def follow(
        self,
        in_flight: Callable[[], int],
        is_paused: Callable[[], bool],
        journal_bytes: Callable[[], int],
        held: Callable[[], int] = lambda: 0,
        *,
        is_gate_closed: Callable[[], bool] = lambda: False,
        breaker: Callable[[], str] = lambda: "closed",
    ) -> None:
        """Reads these figures at every request from now on, instead of those of an earlier
        executor.
        """
        self._in_flight.set_function(in_flight)
        self._paused.set_function(is_paused)
        self._journal.set_function(journal_bytes)
        self._held.set_function(held)
        self._guarded.gate.set_function(is_gate_closed)
        self._guarded.breaker.set_function(lambda: _BREAKER.get(breaker(), 0.0))

    def stepped(self) -> None:
        """Records a step of the executor's loop that did not fail."""
        self.liveness.turned()
        self.liveness.succeeded()

    def published(self, done: Done) -> None:
        """Takes a published outcome."""
        outcome, code = done.outcome, code_of(done.outcome.reason)
        self._outcomes.labels(self._cluster, outcome.status, code).inc()
        self._last.set(outcome.ts / 1000)
        if outcome.status == "applied" and done.task.command.is_move:
            self._seconds.observe(outcome.took_ms / 1000)
        if code == _CAME_BACK:
            self._came_back.inc()
        if code == _ELSEWHERE:
            self._lost.inc()
        self._guarded.published(outcome, code)

    def answered(self, answer: Answered) -> None:
        """Takes a published answer to an approval."""
        given = answer.outcome
        code = code_of(given.reason)
        self._answers.labels(self._cluster, given.action, given.status, code).inc()

    def refused(self, record: RefusedRecord) -> None:
        """Takes a record that is no command, after it was published as rejected."""
        self._unreadable.labels(self._cluster, code_of(record.error.code)).inc()


class _GuardMetrics:
    """What guards the cluster from moves, and what moves cost."""

    def __init__(self, registry: CollectorRegistry, cluster: str) -> None:
        by = ["cluster"]
        self._repaired = Counter(
            "pulsar_rebalancer_repaired_moves_total",
            "Moves whose bundle was unloaded once more because its destination was lost",
            by,
            registry=registry,
        ).labels(cluster)
        self._unowned_seconds = Histogram(
            "pulsar_rebalancer_move_unowned_seconds",
            "Time in which a moved bundle had no owner",
            by,
            buckets=_MOVE_SECONDS,
            registry=registry,
        ).labels(cluster)
        self._first_message_seconds = Histogram(
            "pulsar_rebalancer_move_first_message_seconds",
            "Time from the release of a moved bundle until its first message",
            by,
            buckets=_MOVE_SECONDS,
            registry=registry,
        ).labels(cluster)
        self.gate = Gauge(
            "pulsar_rebalancer_gate_closed",
            "1 if the gate was closed when it was last asked, otherwise 0",
            by,
            registry=registry,
        ).labels(cluster)
        self.breaker = Gauge(
            "pulsar_rebalancer_breaker_open",
            "1 while failures pause the executor, 0.5 while it waits for one move to succeed, "
            "otherwise 0",
            by,
            registry=registry,
        ).labels(cluster)

    def published(self, outcome: Outcome, code: str) -> None:
        """Takes a published outcome and the code of its reason."""
        cost = outcome.cost
        if code == _REPAIRED:
            self._repaired.inc()
        if cost.unowned_ms is not None:
            self._unowned_seconds.observe(cost.unowned_ms / 1000)
        if cost.first_message_ms is not None:
            self._first_message_seconds.observe(cost.first_message_ms / 1000)
