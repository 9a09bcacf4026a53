"""`rebalancer collect`: publishes load reports of all brokers on the telemetry topic, or prints
them once as a table.
"""

from __future__ import annotations

from contextlib import closing
from functools import partial
from typing import Annotated, Any

import typer

from pulsar_rebalancer.cli import console, exit_codes, options
from pulsar_rebalancer.cli.collect.several_clusters import collect_all, opened_line
from pulsar_rebalancer.cli.collect.table import as_table, brokers_of
from pulsar_rebalancer.cli.log_lines import Line, Log, log_of
from pulsar_rebalancer.cli.service import end, measured
from pulsar_rebalancer.settings.load import Settings
from sinks.collector.open_cluster import opened, run_until_complete
from sinks.metrics.disk import file_topics
from sinks.metrics.services import CollectorMetrics
from sinks.processes import Stop, stopping
from sinks.pulsar_api.access import KnownBrokers, PulsarSettings, admin_urls
from sinks.topics.access import open_publisher
from sinks.topics.outages import RetryBackoff, watched
from strategies.errors import RebalancerError

app = typer.Typer()

#: Timeout of --once for brokers that publish their load at their own interval.
_ONCE_TIMEOUT_S = 15.0
#: Longest time between two steps of a loop that works: this, and this number of pass intervals.
_STILL_MS, _STILL_INTERVALS = 120_000, 3


@app.command()
def collect(
    ctx: typer.Context,
    *,
    once: Annotated[
        bool, typer.Option("--once", help="Run one pass and print it as a table; publish nothing.")
    ] = False,
    telemetry: options.Topic = None,
    config: options.Config = None,
    overrides: options.Overrides = None,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="With --once: print one JSON document instead of a table."),
    ] = False,
) -> None:
    """Collect load reports of a Pulsar cluster, or of all clusters in the settings, at regular
    intervals.

    Publishes the report of every broker, a sweep marker at the end of each pass, and changed
    policies. Brokers with the modular load manager are asked for their load; those with the
    extensible one publish it on topics that the collector reads. SIGTERM and Ctrl-C finish the
    current pass. Exit code 0 after SIGTERM, 130 after Ctrl-C.
    """
    if as_json and not once:
        raise typer.BadParameter(
            "works with --once only; otherwise records go to the telemetry topic",
            param_hint="--json",
        )
    settings = options.settings(config, overrides, *options.flags(topics__telemetry=telemetry))
    log = log_of(settings)
    with stopping() as stop, log.errors(debug=options.debug(ctx)):
        if once:
            _print_once(settings, stop, log, as_json)
            return
        _collect(settings, stop, log)
    end(log, stop.by)


def _collect(settings: Settings, stop: Stop, log: Log) -> None:
    for cluster in settings.clusters:
        admin_urls(cluster)
    names, connections = [cluster.cluster for cluster in settings.clusters], settings.connections
    log.write(
        Line(
            f"collecting from {', '.join(names)} into {connections.topics.telemetry}",
            "starting",
            fields={"clusters": names},
        )
    )
    with (
        measured(
            settings,
            log,
            stop,
            lambda registry, liveness: CollectorMetrics(registry, names, liveness),
            still_s=(_STILL_MS + _STILL_INTERVALS * settings.collector.pass_interval_ms) / 1000,
            ready_after="a pass",
            loops=names,
            folders=file_topics(connections.topics, ["telemetry"]),
        ) as metrics,
        closing(open_publisher(connections.topics.telemetry, connections.access)) as publisher,
    ):
        known = partial(KnownBrokers, log=log.warn)
        wait = metrics.liveness.turning(stop.wait)
        outage = RetryBackoff(connections.kafka.outage_ms / 1000, wait, log.write)
        with watched([connections.topics.telemetry], connections.access, outage):
            collect_all(
                settings.clusters,
                settings.collector,
                publisher,
                stop,
                log.write,
                outage=outage,
                known=known,
                on_step=metrics.stepped,
            )


def _print_once(settings: Settings, stop: Stop, log: Log, as_json: bool) -> None:
    """Prints one cluster after the other; of several, one that fails does not hide the others."""
    found, failed, several = [], False, len(settings.clusters) > 1
    for cluster in settings.clusters:
        try:
            found.append(_load_of(cluster, settings, stop, log, quiet=as_json))
        except RebalancerError as error:
            if not several:
                raise
            failed = True
            found.append({"cluster": cluster.cluster, "error": str(error)})
            log.write(Line(str(error), "cluster-fails", "error", cluster=cluster.cluster))
    if as_json:
        console.print_json(
            *(("clusters", 1, {"clusters": found}) if several else ("brokers", 1, found[0]))
        )
    if failed:
        raise typer.Exit(exit_codes.ERROR)


def _load_of(
    cluster: PulsarSettings, settings: Settings, stop: Stop, log: Log, *, quiet: bool
) -> dict[str, Any]:
    known = KnownBrokers(cluster, log.warn)
    with opened(cluster, settings.collector, stop.wait, known) as source:
        log.write(opened_line(source))
        done = run_until_complete(source, _ONCE_TIMEOUT_S, stop.wait)
    brokers = brokers_of(source.cluster, done, settings.engine.weights)
    if not quiet:
        console.show(as_table(brokers))
    return {"cluster": source.cluster, "load_manager": source.manager, "brokers": brokers}
