"""`rebalancer collect`: publishes load reports of all brokers on the telemetry topic, or prints
them once as a table.
"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Annotated, Any

import msgspec
import typer

from pulsar_rebalancer.cli import console, exit_codes, options
from pulsar_rebalancer.cli.collect.several_clusters import collect_all, opened_line
from pulsar_rebalancer.cli.service_log import Line, Log, end, log_of, measured
from pulsar_rebalancer.settings.merge_sources import Settings
from sinks.collector.broker_poll import Pass, Report
from sinks.collector.collector import encode_report, longest_step_s
from sinks.collector.hot_bundle_topics import read_topics
from sinks.collector.open_cluster import opened, run_until_complete
from sinks.graceful_stop import Stop, stopping
from sinks.metrics.service_metrics import CollectorMetrics, file_topics
from sinks.pulsar_api.admin import PulsarAdmin
from sinks.pulsar_api.connection_tls_and_token import KnownBrokers, PulsarSettings, admin_urls
from sinks.topics.open_topics import open_publisher
from sinks.topics.server_outages import RetryBackoff, watched
from sinks.wire.record_decoding import decode
from sinks.wire.telemetry_to_engine import topics_of_bundle
from strategies.cluster.model import LoadReport
from strategies.dispatch_limits.hot_topic_text import MB, hot_topic_text
from strategies.errors import RebalancerError, WireError
from strategies.figures.usage import percent, weighted_usage
from strategies.settings import Weights

#: Timeout of --once for brokers that publish their load at their own interval.
_ONCE_TIMEOUT_S = 15.0


def collect(
    ctx: typer.Context,
    *,
    once: Annotated[
        bool, typer.Option("--once", help="Run one pass and print it as a table; publish nothing.")
    ] = False,
    topics: Annotated[
        str,
        typer.Option(
            metavar="BUNDLE",
            help="Print the topics of one bundle, as its owner reports them; publish nothing.",
        ),
    ] = "",
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
        if topics:
            _print_topics(topics, settings)
            return
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
            still_s=longest_step_s(settings.collector),
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


def _print_topics(bundle: str, settings: Settings) -> None:
    """Prints the largest topics, and what helps if the bundle is too hot."""
    for cluster in settings.clusters:
        with closing(PulsarAdmin(cluster)) as admin:
            owner = admin.owner(bundle)
            if owner is None:
                continue
            found = read_topics(admin, bundle, owner)
        known = topics_of_bundle(cluster.cluster, owner, 0, found)
        rest = [(f"{found.others} others", found.others_msg_rate, found.others_throughput)]
        rows = [
            [name, f"{rate:.0f}", f"{load / MB:.2f}"]
            for name, rate, load in (*found.topics, *rest[: found.others])
        ]
        console.show(
            console.Sheet([("topic", "left"), ("msg/s", "right"), ("MB/s", "right")], rows)
        )
        limit = settings.engine.throttling.max_partition_mb
        if known is not None and (text := hot_topic_text(known, limit)):
            console.say(text)
        return
    raise typer.BadParameter(f"no broker owns {bundle}", param_hint="--topics")


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


class _ReportedTopics(msgspec.Struct):
    """Topics in an extensible broker's report; modular ones report them per bundle."""

    topics: int | None = None


def brokers_of(cluster: str, done: Pass, weights: Weights) -> list[dict[str, Any]]:
    """The figures of all brokers of a pass, sorted by name; `missing`: why a broker has none, else
    null.
    """
    found: dict[str, dict[str, Any]] = {
        broker: {"broker": broker, "missing": reason} for broker, reason in done.missing.items()
    }
    for report in done.reports:
        if report.kind != "top-bundles-load-data" and report.broker in done.answered:
            found[report.broker] = {"broker": report.broker, **_figures(cluster, report, weights)}
    return [found[broker] for broker in sorted(found)]


def _figures(cluster: str, report: Report, weights: Weights) -> dict[str, Any]:
    try:
        record = decode(encode_report(cluster, report), b"")
    except WireError as error:
        return {"missing": f"its report cannot be used: {error}"}
    if not isinstance(record, LoadReport) or record.figures is None:
        return {"missing": "it has withdrawn its figures"}
    figures, traffic = record.figures, record.figures.traffic
    topics = (
        msgspec.json.Decoder(_ReportedTopics).decode(report.body).topics
        if record.bundles is None
        else int(record.bundles.topics.sum())
    )
    return {
        "missing": None,
        "usage": weighted_usage(figures, weights),
        "cpu_percent": percent(figures.cpu),
        "msg_rate_in": traffic.msg_rate_in,
        "msg_rate_out": traffic.msg_rate_out,
        "msg_throughput_in": traffic.msg_throughput_in,
        "msg_throughput_out": traffic.msg_throughput_out,
        "bundles": figures.bundle_count,
        "topics": topics,
    }


def as_table(brokers: Sequence[Mapping[str, Any]]) -> console.Sheet:
    """One row per broker."""
    columns: list[tuple[str, console.Side]] = [
        ("broker", "left"),
        ("usage %", "right"),
        ("CPU %", "right"),
        ("msg/s in", "right"),
        ("msg/s out", "right"),
        ("MB/s in", "right"),
        ("MB/s out", "right"),
        ("bundles", "right"),
        ("topics", "right"),
        ("remark", "left"),
    ]
    return console.Sheet(columns, [_row(one) for one in brokers])


def _row(one: Mapping[str, Any]) -> list[str]:
    if one["missing"] is not None:
        return [one["broker"], *["–"] * 8, one["missing"]]
    return [
        one["broker"],
        f"{one['usage'] * 100:.1f}",
        f"{one['cpu_percent']:.1f}",
        f"{one['msg_rate_in']:.0f}",
        f"{one['msg_rate_out']:.0f}",
        f"{one['msg_throughput_in'] / 1e6:.2f}",
        f"{one['msg_throughput_out'] / 1e6:.2f}",
        str(one["bundles"]),
        "–" if one["topics"] is None else str(one["topics"]),
        "",
    ]
