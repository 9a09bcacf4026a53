"""Metrics of the collector (passes, and the brokers that answered or did not), the executor
(outcomes, the duration and cost of moves, its state) and the notifier (deliveries by result, and
notices that wait); and of the disks that a process writes to: a full disk stops it.
"""

import math
import shutil
from collections import Counter as Count
from collections.abc import Callable, Container, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from sinks.collector.collector import StepResult
from sinks.executor.held_commands_and_approval_journal import Answered, RefusedRecord
from sinks.executor.task_intake import Done, Result
from sinks.metrics.http_server_and_probes import BoundedLabel, Liveness, code_of, register, set_all
from sinks.notices.delivery import Attempt
from sinks.topics.topic_settings import Topics

_BY = ("cluster",)
_OF_COLLECTOR = (
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
        self._families = register(registry, *_OF_COLLECTOR)
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


_Seconds = partial(Histogram, buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60))
_OF_EXECUTOR = (
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
        self._families = register(registry, *_OF_EXECUTOR)
        #: Those with the label `cluster` alone.
        self._of = {
            name: self._families[name].labels(cluster)
            for _, name, _, labels in _OF_EXECUTOR
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


_OF_NOTIFIER = (
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
        self._families = register(registry, *_OF_NOTIFIER)

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


_OF_ADVICE = (
    (
        Gauge,
        "recommended_brokers",
        "Fewest brokers by a plan with margin, one of which may die; without one, those there are",
        _BY,
    ),
    (Gauge, "removable_brokers", "Brokers that may go together by this plan, otherwise 0", _BY),
    (
        Gauge,
        "last_advice_timestamp_seconds",
        "End of the telemetry that the last advice knows, by the cluster's clock",
        _BY,
    ),
)


class AdviceMetrics:
    """Takes what comes of each repetition of `advise`. Before the first one nothing is said."""

    def __init__(self, registry: CollectorRegistry, liveness: Liveness) -> None:
        self.liveness = liveness
        self._families = register(registry, *_OF_ADVICE)

    def advised(self, cluster: str, figures: Mapping[str, float]) -> None:
        """Takes an advice. `figures`: by name of their metrics."""
        for name, figure in figures.items():
            self._families[name].labels(cluster).set(figure)
        self.liveness.succeeded()


class DiskSpace(NamedTuple):
    """Bytes of a file system: all, and those that this user may still write."""

    size: float
    free: float


def disk_space(folder: Path) -> DiskSpace:
    """The file system of a folder, or of its nearest parent that exists; NaN if it cannot be
    read.
    """
    try:
        there = next(above for above in (folder, *folder.parents) if above.exists())
        found = shutil.disk_usage(there)
    except OSError:
        return DiskSpace(math.nan, math.nan)
    return DiskSpace(found.total, found.free)


def file_topics(topics: Topics, names: Container[str]) -> dict[str, Path]:
    """Setting and folder of each of these topics that is in a folder."""
    return {
        f"topics.{name}": topic.folder
        for name, topic in topics.named()
        if name in names and topic.scheme == "file"
    }


class DiskMetrics:
    """Reads the free space of a fixed number of folders at every request."""

    def __init__(
        self,
        registry: CollectorRegistry,
        folders: Mapping[str, Path],
        space: Callable[[Path], DiskSpace] = disk_space,
    ) -> None:
        """`folders`: setting that names the folder → folder."""
        free = Gauge(
            "pulsar_rebalancer_disk_free_bytes",
            "Free space of the disk with this folder",
            ["folder"],
            registry=registry,
        )
        size = Gauge(
            "pulsar_rebalancer_disk_size_bytes",
            "Size of the disk with this folder",
            ["folder"],
            registry=registry,
        )

        def follow(setting: str, folder: Path) -> None:
            free.labels(setting).set_function(lambda: space(folder).free)
            size.labels(setting).set_function(lambda: space(folder).size)

        for setting, folder in folders.items():
            follow(setting, folder)
