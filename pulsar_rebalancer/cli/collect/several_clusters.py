"""Collects from several clusters concurrently, one thread each, so that none delays another;
unreachable clusters are retried. Between passes it says what changed: brokers that joined, left,
stopped or resumed answering, or whose figures are not updated.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace

import msgspec

from pulsar_rebalancer.cli.service_log import Level, Line, LogLine
from sinks.collector.broker_poll import Pass, Report
from sinks.collector.collector import Collector, PublishPass, Source, StepResult
from sinks.collector.open_cluster import opened
from sinks.collector.settings import CollectorSettings
from sinks.pulsar_api.admin import PulsarAdmin
from sinks.pulsar_api.connection_tls_and_token import KnownBrokers, PulsarSettings
from sinks.topics.open_topics import Publisher
from sinks.topics.server_outages import RetryBackoff
from strategies.errors import AdminError, RebalancerError, SinkError, Unauthorized

Known = Callable[[PulsarSettings], KnownBrokers]
#: Gets the name of a cluster, the result of a step, and its duration in seconds.
OnStep = Callable[[str, StepResult, float], None]
#: Pulsar's default of loadBalancerReportUpdateMaxIntervalMinutes: the longest interval between two
#: load reports.
STOCK_INTERVAL_MS = 15 * 60_000


class _Written(msgspec.Struct):
    """The time at which a broker wrote its report to the metadata store; reports of both load
    managers may lack it.
    """

    lastUpdate: int | None = None
    updatedAt: int | None = None


@dataclass(slots=True)
class _Since:
    """The time that a broker's report names, since when it does, and whether it was said that the
    broker stands still.
    """

    written: int
    ts: int
    said: bool = False


@dataclass
class Changes:
    """Compares passes. `standstill_ms`: figures of a broker that are not written again for longer
    count as standing still.
    """

    standstill_ms: int = 2 * STOCK_INTERVAL_MS
    _silent: dict[str, int] = field(default_factory=dict, init=False)
    _written: dict[str, _Since] = field(default_factory=dict, init=False)
    _known: frozenset[str] | None = field(default=None, init=False)

    def of(self, done: Pass) -> Iterator[Line]:
        """The changes since the previous pass; for the first pass, what is wrong already."""
        listed = frozenset(done.answered) | done.missing.keys()
        if self._known is not None:
            yield from _came_and_left(self._known, listed)
        self._known = listed
        self._silent = {name: ts for name, ts in self._silent.items() if name in listed}
        self._written = {name: since for name, since in self._written.items() if name in listed}
        yield from self._answers(done)
        for report in done.reports:
            yield from self._stands_still(report)

    def _answers(self, done: Pass) -> Iterator[Line]:
        for broker, why in sorted(done.missing.items()):
            if broker not in self._silent:
                self._silent[broker] = done.ts
                yield _line(
                    "broker-silent",
                    f"{broker} reports no figures: {why}",
                    broker,
                    level="warning",
                    why=why,
                )
        for broker in sorted(self._silent.keys() - done.missing.keys()):
            silent_ms = done.ts - self._silent.pop(broker)
            yield _line(
                "broker-answers",
                f"{broker} reports figures again after {silent_ms / 1000:.0f} s",
                broker,
                silent_ms=silent_ms,
            )

    def _stands_still(self, report: Report) -> Iterator[Line]:
        """A broker that answers but no longer writes its figures: the metadata store is
        unreachable, or the broker is frozen.
        """
        try:
            written_at = msgspec.json.decode(report.body, type=_Written)
        except (ValueError, RecursionError):
            return
        written = written_at.updatedAt if written_at.lastUpdate is None else written_at.lastUpdate
        if written is None:
            return
        last = self._written.get(report.broker)
        if last is None or last.written != written:
            self._written[report.broker] = _Since(written, report.ts)
            if last is not None and last.said:
                yield _line(
                    "broker-moves", f"{report.broker} writes its load report again", report.broker
                )
            return
        still_ms = report.ts - last.ts
        if still_ms > self.standstill_ms and not last.said:
            last.said = True
            text = (
                f"{report.broker} stands still: it answers, but has not written its load "
                f"report for {still_ms // 60_000} min; look for "
                "blocked threads in a thread dump, and restart it"
            )
            yield _line(
                "broker-stands-still", text, report.broker, level="warning", still_ms=still_ms
            )


def standstill_ms(admin: PulsarAdmin) -> int:
    """Twice the longest interval between reports of a broker; Pulsar's default if the configuration
    cannot be read.
    """
    try:
        minutes = admin.configuration().get("loadBalancerReportUpdateMaxIntervalMinutes", "")
    except AdminError:
        minutes = ""
    return 2 * (
        int(minutes) * 60_000 if minutes.isdecimal() and int(minutes) else STOCK_INTERVAL_MS
    )


def _came_and_left(before: frozenset[str], now: frozenset[str]) -> Iterator[Line]:
    for broker in sorted(now - before):
        yield _line("broker-came", f"{broker} joined", broker)
    for broker in sorted(before - now):
        yield _line(
            "broker-left", f"{broker} left the cluster's list of brokers", broker, level="warning"
        )


def _line(event: str, text: str, broker: str, level: Level = "info", **more: object) -> Line:
    fields: Mapping[str, object] = {"broker": broker, **more}
    return Line(text, event, level, fields)


class SharedTopic:
    """One topic of several clusters: passes are published one after the other.

    After an outage the whole pass is published again; a report that was stored already becomes a
    rejected row. The first error that is not retryable is raised in all clusters.
    """

    def __init__(self, publisher: Publisher, outage: RetryBackoff, stop: threading.Event) -> None:
        self._publisher, self._outage, self._stop = publisher, outage, stop
        self._one_at_a_time = threading.Lock()
        self.failed: SinkError | None = None

    def publish(self, cluster: str, records: Sequence[bytes]) -> None:
        """Returns when all of them are stored."""
        try:
            with self._one_at_a_time:
                while not self._stored(cluster, records):
                    pass
        except SinkError as error:
            self.failed = self.failed or error
            raise

    def _stored(self, cluster: str, records: Sequence[bytes]) -> bool:
        try:
            for record in records:
                self._publisher.publish(cluster, record)
            self._publisher.flush()
        except SinkError as error:
            self._outage.wait_or_raise(error)
            if self._stop.is_set():
                raise
            return False
        self._outage.succeeded()
        return True


def collect_all(
    clusters: Sequence[PulsarSettings],
    settings: CollectorSettings,
    publisher: Publisher,
    stop: threading.Event,
    log: LogLine,
    *,
    outage: RetryBackoff,
    known: Known,
    on_step: OnStep,
) -> None:
    """Collects until `stop` is set. Errors of a single cluster are raised; with several, they are
    logged and the cluster is retried.

    Raises SinkError if the telemetry topic fails permanently, or for longer than `outage` allows.
    Raises Unauthorized at the end if one of several clusters refuses our token, at once if all do.
    `known`: the known brokers for a cluster's settings. `on_step`: called in the cluster's thread,
    also for a cluster that cannot be opened, which is a step with a complaint.
    """
    shared = SharedTopic(publisher, outage, stop)
    if len(clusters) == 1:
        with opened(clusters[0], settings, stop.wait, known(clusters[0])) as source:
            log(opened_line(source))
            passes(source, shared.publish, stop, log, on_step=on_step)
    else:
        _collect_several(clusters, settings, shared, stop, log, known=known, on_step=on_step)


def _collect_several(
    clusters: Sequence[PulsarSettings],
    settings: CollectorSettings,
    shared: SharedTopic,
    stop: threading.Event,
    log: LogLine,
    *,
    known: Known,
    on_step: OnStep,
) -> None:
    refused = dict[str, Unauthorized]()

    def collect(pulsar: PulsarSettings) -> None:
        """Until `stop` is set. A cluster that refuses our token is logged once and retried, because
        the token may be replaced; if all do, all end.
        """
        name = pulsar.cluster
        while not stop.is_set():
            try:
                with opened(pulsar, settings, stop.wait, known(pulsar)) as source:
                    refused.pop(name, None)
                    log(opened_line(source))
                    passes(source, shared.publish, stop, log, on_step=on_step, name=name)
            except RebalancerError as error:
                if shared.failed is not None:
                    stop.set()
                    return
                on_step(name, StepResult(None, False, (str(error),)), 0)
                if not isinstance(error, Unauthorized):
                    log(Line(str(error), "cluster-fails", "warning", cluster=name))
                else:
                    if name not in refused:
                        log(Line(str(error), "cluster-refuses", "error", cluster=name))
                    refused[name] = error
                    if len(refused) == len(clusters):
                        stop.set()
                stop.wait(settings.pass_interval_ms / 1000)

    with ThreadPoolExecutor(len(clusters), thread_name_prefix="collect") as pool:
        _run_all(pool, collect, clusters, stop)
    if shared.failed is not None:
        raise shared.failed
    if refused:
        raise Unauthorized("; ".join(f"{name}: {why}" for name, why in sorted(refused.items())))


def _run_all(
    pool: ThreadPoolExecutor,
    collect: Callable[[PulsarSettings], None],
    clusters: Sequence[PulsarSettings],
    stop: threading.Event,
) -> None:
    """Waits for all. An error that one raises ends the others too, and is raised."""
    try:
        for end in as_completed([pool.submit(collect, one) for one in clusters]):
            end.result()
    finally:
        stop.set()


def passes(
    source: Source,
    publish: PublishPass,
    stop: threading.Event,
    log: LogLine,
    *,
    on_step: OnStep,
    name: str = "",
) -> None:
    """Runs passes at fixed intervals. `name`: of the cluster in log lines, if there are several.
    Raises the errors of `Collector.step`.
    """
    collector, changes = Collector(source, publish), Changes(standstill_ms(source.admin))
    interval_s, due = source.settings.pass_interval_ms / 1000, time.monotonic()
    while not stop.is_set():
        began = time.monotonic()
        result, took_s = collector.step(), time.monotonic() - began
        on_step(source.cluster, result, took_s)
        for line in _lines(result, took_s, changes):
            log(replace(line, cluster=name))
        # After a pass that took too long the next one begins at once; missed ones are not made up
        # for.
        due = max(due + interval_s, time.monotonic())
        stop.wait(due - time.monotonic())


def opened_line(source: Source) -> Line:
    """The line for an opened cluster: its brokers and load manager."""
    return Line(
        f"{len(source.brokers)} brokers, {source.manager} load manager",
        "cluster",
        fields={"brokers": len(source.brokers), "load_manager": source.manager},
        cluster=source.cluster,
    )


def _lines(result: StepResult, took_s: float, changes: Changes) -> Iterator[Line]:
    if result.done is not None:
        done = result.done
        missing = f", missing: {', '.join(sorted(done.missing))}" if done.missing else ""
        policies = ", policies changed" if result.policies else ""
        answered, asked = len(done.answered), len(done.answered) + len(done.missing)
        text = (
            f"pass {done.number}: {answered} of {asked} brokers in {took_s:.1f} "
            f"s{policies}{missing}"
        )
        yield Line(
            text,
            "pass",
            fields={
                "pass": done.number,
                "answered": answered,
                "asked": asked,
                "missing": sorted(done.missing),
            },
        )
        yield from changes.of(done)
    for complaint in result.complaints:
        yield Line(complaint, "complaint", "warning")
