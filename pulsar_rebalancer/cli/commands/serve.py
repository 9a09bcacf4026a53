"""`rebalancer serve`: the live page of all clusters."""

from __future__ import annotations

import typer

from pulsar_rebalancer.cli import exit_codes, options
from pulsar_rebalancer.cli.log_lines import Line, Log, log_of
from pulsar_rebalancer.cli.metrics_server import metrics_served
from pulsar_rebalancer.settings.load import Settings
from sinks.metrics.labels import process_registry
from sinks.metrics.liveness import Liveness
from sinks.metrics.page import PageMetrics
from sinks.stopping import Stop, stopping

app = typer.Typer()
#: Longest time between two snapshots, s.
_STILL_S = 60.0


@app.command()
def serve(
    ctx: typer.Context,
    *,
    config: options.Config = None,
    overrides: options.Overrides = None,
) -> None:
    """Serve the live page: state, usage, moves, plans and reasons of each cluster.

    Reads the topics in the settings and follows them. People with an operator token may approve
    and deny plans, pause and resume; otherwise it changes nothing. Listens on this machine only,
    unless serve.listen and serve.token_file say otherwise. Exit code 0 after SIGTERM, 130 after
    Ctrl-C.
    """
    settings = options.settings(config, overrides)
    log = log_of(settings)
    with stopping() as stop, log.errors(debug=options.debug(ctx)):
        _serve(settings, stop, log)
    log.write(Line(f"stopped ({stop.by})", "stopped", fields={"by": stop.by}))
    if stop.by == "SIGINT":
        raise typer.Exit(exit_codes.INTERRUPTED)


def _serve(settings: Settings, stop: Stop, log: Log) -> None:
    from pulsar_rebalancer.serve.process import run_page

    liveness = Liveness(_STILL_S, "reading the topics", is_stopping=stop.is_set)
    registry = process_registry(settings.engine.version)
    metrics = PageMetrics(registry, liveness)
    with metrics_served(settings.metrics, registry, liveness, log.write):
        run_page(
            settings,
            stop.is_set,
            metrics,
            log=log.write,
            failed=lambda text: log.write(Line(text, "request-failed", "error")),
            ready=lambda address: log.write(_address_line(settings, address)),
        )


def _address_line(settings: Settings, address: str) -> Line:
    named = "for people with a token" if settings.serve.token_file else "read-only"
    return Line(f"page: {address} ({named})", "page", fields={"address": address})
