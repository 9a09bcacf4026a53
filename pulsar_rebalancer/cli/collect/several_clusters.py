"""Collects from several clusters concurrently, one thread each, so that none delays another;
unreachable clusters are retried.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace

from pulsar_rebalancer.cli.collect.broker_warnings import Changes, standstill_ms
from pulsar_rebalancer.cli.service_log import Line, LogLine
from sinks.collector.collector import Collector, PublishPass, Source, StepResult
from sinks.collector.open_cluster import opened
from sinks.collector.settings import CollectorSettings
from sinks.pulsar_api.connection_tls_and_token import KnownBrokers, PulsarSettings
from sinks.topics.open_topics import Publisher
from sinks.topics.server_outages import RetryBackoff
from strategies.errors import RebalancerError, SinkError, Unauthorized

Known = Callable[[PulsarSettings], KnownBrokers]
#: Gets the name of a cluster, the result of a step, and its duration in seconds.
OnStep = Callable[[str, StepResult, float], None]


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
