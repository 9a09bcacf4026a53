"""Metrics of the executor: outcomes, the duration and cost of moves, and its state."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from sinks.executor.tasks import Answered, Done, RefusedRecord, Result
from sinks.metrics.exposition import Liveness, code_of, register

_Seconds = partial(Histogram, buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60))
_BY = ("cluster",)
_METRICS = (
    (Counter, "outcomes_total", "Published outcomes", (*_BY, "status", "code")),
    (
        Counter,
        "unreadable_commands_total",
        "Records that are no command, or no approval",
        (*_BY, "code"),
    ),
    (
        Counter,
        "approvals_total",
        "Answers to approval records",
        (*_BY, "action", "status", "code"),
    ),
    (Gauge, "last_outcome_timestamp_seconds", "Time of the last published outcome", _BY),
    (
        _Seconds,
        "move_duration_seconds",
        "Duration of applied moves, from the call to the new owner",
        _BY,
    ),
    (
        Counter,
        "moves_came_back_total",
        "Moves after which the source has the bundle again",
        _BY,
    ),
    (
        Counter,
        "lost_destinations_total",
        "Moves that ended at another broker than the commanded one",
        _BY,
    ),
    (
        Counter,
        "repaired_moves_total",
        "Moves whose bundle was unloaded once more because its destination was lost",
        _BY,
    ),
    (_Seconds, "move_unowned_seconds", "Time in which a moved bundle had no owner", _BY),
    (
        _Seconds,
        "move_first_message_seconds",
        "Time from the release of a moved bundle until its first message",
        _BY,
    ),
    (Gauge, "gate_closed", "1 if the gate was closed when it was last asked, otherwise 0", _BY),
    (
        Gauge,
        "breaker_open",
        "1 while failures pause the executor, 0.5 while it waits for one move to succeed, "
        "otherwise 0",
        _BY,
    ),
    (Gauge, "commands_in_flight", "Commands that are being applied", _BY),
    (Gauge, "commands_held", "Commands that wait for the approval of their plan", _BY),
    (
        Gauge,
        "paused",
        "1 while the pause file or a record pauses the executor, otherwise 0",
        _BY,
    ),
    (Gauge, "journal_bytes", "Size of the journal on disk", _BY),
)
#: Reason codes of moves that did not end where the command said → their counter.
_STRAYED = {
    "came-back": "moves_came_back_total",
    "elsewhere": "lost_destinations_total",
    "repaired": "repaired_moves_total",
}
_BREAKER = {"open": 1.0, "trying": 0.5}


class ExecutorMetrics:
    """Takes what comes of each record."""

    def __init__(self, registry: CollectorRegistry, cluster: str, liveness: Liveness) -> None:
        self._cluster = cluster
        self.liveness = liveness
        self._families = register(registry, *_METRICS)
        #: Those with the label `cluster` alone.
        self._of = {
            name: self._families[name].labels(cluster)
            for _, name, _, labels in _METRICS
            if labels == _BY
        }
        self._of["last_outcome_timestamp_seconds"].set(math.nan)

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
        figures = {
            "commands_in_flight": in_flight,
            "paused": is_paused,
            "journal_bytes": journal_bytes,
            "commands_held": held,
            "gate_closed": is_gate_closed,
            "breaker_open": lambda: _BREAKER.get(breaker(), 0.0),
        }
        for name, figure in figures.items():
            self._of[name].set_function(figure)

    def stepped(self) -> None:
        """Records a step of the executor's loop that did not fail."""
        self.liveness.turned()
        self.liveness.succeeded()

    def add(self, result: Result) -> None:
        """Takes a published result."""
        match result:
            case Done():
                self._add_outcome(result)
            case Answered(_, given):
                labels = (self._cluster, given.action, given.status, code_of(given.reason))
                self._families["approvals_total"].labels(*labels).inc()
            case RefusedRecord(_, error):
                code = code_of(error.code)
                self._families["unreadable_commands_total"].labels(self._cluster, code).inc()

    def _add_outcome(self, done: Done) -> None:
        outcome, code = done.outcome, code_of(done.outcome.reason)
        self._families["outcomes_total"].labels(self._cluster, outcome.status, code).inc()
        self._of["last_outcome_timestamp_seconds"].set(outcome.ts / 1000)
        if code in _STRAYED:
            self._of[_STRAYED[code]].inc()
        is_done = outcome.status == "applied" and done.task.command.is_move
        durations = {
            "move_duration_seconds": outcome.took_ms if is_done else None,
            "move_unowned_seconds": outcome.cost.unowned_ms,
            "move_first_message_seconds": outcome.cost.first_message_ms,
        }
        for name, duration_ms in durations.items():
            if duration_ms is not None:
                self._of[name].observe(duration_ms / 1000)
