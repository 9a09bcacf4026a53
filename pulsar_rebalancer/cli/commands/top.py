"""`rebalancer top`: the fullest brokers, the hottest bundles and their topics now."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from pulsar_rebalancer.cli import console, options
from pulsar_rebalancer.decisions.explain.subject import UnknownSubject
from pulsar_rebalancer.decisions.read_status import RECENT_MS
from pulsar_rebalancer.decisions.top import broker_rows, bundle_rows, present_reports, topic_rows
from sinks.graceful_stop import wall_clock_ms

#: Heads of figures, with their key in a row and how they are shown.
_FIGURES: Mapping[str, tuple[str, Callable[[Any], str]]] = {
    "usage %": ("usage", lambda part: f"{100 * part:.1f}"),
    "CPU": ("cpu", lambda part: f"{100 * part:.1f}"),
    "direct": ("direct_memory", lambda part: f"{100 * part:.1f}"),
    "in": ("bandwidth_in", lambda part: f"{100 * part:.1f}"),
    "out": ("bandwidth_out", lambda part: f"{100 * part:.1f}"),
    "heap": ("memory", lambda part: f"{100 * part:.1f}"),
    "msg/s": ("msg_rate", lambda rate: f"{rate:.0f}"),
    "MB/s": ("msg_throughput", lambda rate: f"{rate / 1e6:.2f}"),
    "bundles": ("bundles", str),
    "topics": ("topics", str),
    "clients": ("sessions", str),
}


def top(
    recording: Annotated[
        Path | None,
        typer.Argument(
            metavar="[RECORDING]",
            help="A .jsonl, .jsonl.gz or .jsonl.zst file, as at its end; without one, the topics.",
        ),
    ] = None,
    *,
    last: Annotated[
        int, typer.Option(metavar="N", min=1, help="Show N brokers, bundles and topics.")
    ] = 10,
    cluster: options.OnlyCluster = None,
    config: options.Config = None,
    overrides: options.Overrides = None,
    as_json: options.Json = False,
) -> None:
    """Show the fullest brokers, which resource is full, and the hottest bundles, by the newest load
    report of each broker; of bundles above collector.hot_bundle_mb also the topics.

    Reads the telemetry of the last hour. Usage is that of rounds, the largest weighted resource;
    `fullest` is the largest one, weighted or not, without the heap.
    """
    settings = (options.installation if recording is None else options.settings)(config, overrides)
    reports, notes = present_reports(settings.connections, recording, wall_clock_ms() - RECENT_MS)
    found = [one for one in reports if cluster in (None, one.cluster)]
    if not found:
        raise (
            options.nothing_found("load report", settings)
            if recording is None
            else UnknownSubject(f"{recording}: no load report of {cluster or 'any cluster'}.")
        )
    brokers = broker_rows(found, settings.engine.weights)[:last]
    bundles = bundle_rows(found)[:last]
    topics = topic_rows(one for one in notes if cluster in (None, one.cluster))[:last]
    if as_json:
        console.print_json("top", 1, {"brokers": brokers, "bundles": bundles, "topics": topics})
    else:
        console.show(
            _sheet(brokers, "cluster", "broker", "fullest"),
            "",
            _sheet(bundles, "cluster", "bundle", "broker"),
        )
        if topics:
            console.show("", _sheet(topics, "cluster", "topic", "bundle"))


def _sheet(rows: Sequence[Mapping[str, Any]], *texts: str) -> console.Sheet:
    figures = {head: one for head, one in _FIGURES.items() if any(one[0] in row for row in rows)}
    several = len({row["cluster"] for row in rows}) > 1
    return console.Sheet(
        [
            *((text, "left") for text in texts if several or text != "cluster"),
            *((head, "right") for head in figures),
        ],
        [
            [
                *(row[text] for text in texts if several or text != "cluster"),
                *(show(row[key]) for key, show in figures.values()),
            ]
            for row in rows
        ],
    )
