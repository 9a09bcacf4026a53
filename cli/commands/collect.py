"""`rebalancer collect`: load reports of all brokers onto the telemetry topic, or one look as a table."""

from __future__ import annotations

import time
from contextlib import closing
from typing import Annotated

import typer

from cli import console, exits, options
from cli.collect.source import Source, look, opened
from cli.collect.table import as_json as fields_of
from cli.collect.table import as_table, seen
from cli.settings.load import Settings
from cli.stopping import Stop, stopping
from sinks.collector import Collector, Told
from sinks.topics import open_publisher

app = typer.Typer()

#: One look waits so long for brokers that publish their load on their own rhythm.
_LOOK_S = 15.0


@app.command()
def collect(
    *,
    once: Annotated[bool, typer.Option("--once", help="One look, printed as a table; nothing is published.")] = False,
    telemetry: Annotated[str | None, typer.Option(metavar="URI", help="Topic, for example file:///folder; overrides the setting.")] = None,
    config: options.Config = None,
    overrides: options.Overrides = None,
    as_json: Annotated[bool, typer.Option("--json", help="With --once: print one JSON document instead of a table.")] = False,
) -> None:
    """Ask the brokers of a Pulsar cluster for their load, pass after pass.

    Publishes what every broker reports, a sweep marker at the end of each pass, and the policies when they change. Brokers with the modular
    load manager are asked for their load; those with the extensible one publish it on topics of their own, which are followed. SIGTERM and
    Ctrl-C finish the pass at hand. Exit code 0 after SIGTERM, 130 after Ctrl-C.
    """
    if as_json and not once:
        raise typer.BadParameter("works with --once only; otherwise records go to the telemetry topic", param_hint="--json")
    settings = options.settings(config, overrides, *options.flags(topics__telemetry=telemetry))
    with stopping() as stop, opened(settings.pulsar, settings.collector, stop.wait) as source:
        console.progress(f"{settings.pulsar.cluster}: {len(source.brokers)} brokers, {source.manager} load manager")
        if once:
            _look(settings, source, stop, as_json)
            return
        console.progress(f"collecting into {settings.job.topics.telemetry}")
        with closing(open_publisher(settings.job.topics.telemetry, settings.job.kafka)) as publisher:
            _passes(source.collector(publisher), settings.collector.pass_interval_ms / 1000, stop)
    console.progress(f"stopped ({stop.by})")
    if stop.by == "SIGINT":
        raise typer.Exit(exits.INTERRUPTED)


def _look(settings: Settings, source: Source, stop: Stop, as_json: bool) -> None:
    brokers = seen(settings.pulsar.cluster, look(source, _LOOK_S, stop.wait))
    weights = settings.engine.weights
    if as_json:
        fields = {"cluster": settings.pulsar.cluster, "load_manager": source.manager, "brokers": fields_of(brokers, weights)}
        console.print_json("brokers", 1, fields)
    else:
        console.show(as_table(brokers, weights))


def _passes(collector: Collector, interval_s: float, stop: Stop) -> None:
    due = time.monotonic()
    while not stop.is_set():
        began = time.monotonic()
        _tell(collector.step(), time.monotonic() - began)
        # After a pass that took too long the next one begins at once; those that were missed are not made up for.
        due = max(due + interval_s, time.monotonic())
        stop.wait(due - time.monotonic())


def _tell(told: Told, took_s: float) -> None:
    if told.done is not None:
        done = told.done
        missing = f", missing: {', '.join(sorted(done.missing))}" if done.missing else ""
        policies = ", policies changed" if told.policies else ""
        answered, asked = len(done.reports), len(done.reports) + len(done.missing)
        console.progress(f"pass {done.number}: {answered} of {asked} brokers in {took_s:.1f} s{policies}{missing}")
    for complaint in told.complaints:
        console.progress(f"warning: {complaint}")
