"""`rebalancer collect`: load reports of all brokers onto the telemetry topic, or one look as a table."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from typing import Annotated

import typer

from cli import console, exits, options
from cli.collect.table import as_json as fields_of
from cli.collect.table import as_table, seen
from cli.settings.load import Settings
from cli.stopping import Stop, stopping
from sinks.collecting import BrokerPoll
from sinks.collector import Collector, Told, wall_clock_ms
from sinks.pulsar_admin import PulsarAdmin
from sinks.topics import open_publisher

app = typer.Typer()


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

    Publishes every broker's load report, a sweep marker at the end of each pass, and the policies when they change. For clusters with the
    modular load manager. SIGTERM and Ctrl-C finish the pass at hand. Exit code 0 after SIGTERM, 130 after Ctrl-C.
    """
    if as_json and not once:
        raise typer.BadParameter("works with --once only; otherwise records go to the telemetry topic", param_hint="--json")
    settings = options.settings(config, overrides, *options.flags(topics__telemetry=telemetry))
    with stopping() as stop, _admins(settings, stop) as (admin, poll_admin):
        if once:
            _look(settings, admin, poll_admin, as_json)
            return
        brokers = admin.brokers()
        console.progress(f"collecting from {len(brokers)} brokers of {settings.pulsar.cluster} into {settings.job.topics.telemetry}")
        with closing(open_publisher(settings.job.topics.telemetry, settings.job.kafka)) as publisher:
            given = settings.collector
            collector = Collector(settings.pulsar.cluster, given, admin=admin, poll_admin=poll_admin, telemetry=publisher)
            _passes(collector, given.pass_interval_ms / 1000, stop)
    console.progress(f"stopped ({stop.by})")
    if stop.by == "SIGINT":
        raise typer.Exit(exits.INTERRUPTED)


@contextmanager
def _admins(settings: Settings, stop: Stop) -> Iterator[tuple[PulsarAdmin, PulsarAdmin]]:
    """One for what is asked of the cluster, one for single brokers, which have less time and no second try."""
    hasty = replace(settings.pulsar, attempts=1, deadline_ms=settings.collector.broker_deadline_ms)
    with ExitStack() as stack:
        admin, poll_admin = PulsarAdmin(settings.pulsar, stop.wait), PulsarAdmin(hasty, stop.wait, keep_open=False)
        stack.callback(admin.close)
        stack.callback(poll_admin.close)
        yield admin, poll_admin


def _look(settings: Settings, admin: PulsarAdmin, poll_admin: PulsarAdmin, as_json: bool) -> None:
    poll = BrokerPoll(poll_admin, settings.collector.max_concurrent, 0, wall_clock_ms)
    brokers = seen(settings.pulsar.cluster, poll.run(admin.brokers()))
    weights = settings.engine.weights
    if as_json:
        console.print_json("brokers", 1, {"cluster": settings.pulsar.cluster, "brokers": fields_of(brokers, weights)})
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
