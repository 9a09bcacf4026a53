"""`rebalancer serve`: the live page of all clusters."""

import typer

from pulsar_rebalancer.cli import options
from pulsar_rebalancer.cli.service_log import Line, Log, end, log_of, measured
from pulsar_rebalancer.settings.merge_sources import Settings
from sinks.graceful_stop import Stop, stopping
from sinks.metrics.page_metrics import STILL_S, PageMetrics


def serve(
    ctx: typer.Context,
    *,
    config: options.Config = None,
    overrides: options.Overrides = None,
) -> None:
    """Serve the live page: state, usage, moves, plans and reasons of each cluster.

    Reads the topics in the settings and follows them. People with an operator token may approve
    and deny plans, pause and resume, and move bundles; otherwise it changes nothing. Listens on
    this machine only, unless serve.listen and serve.token_file say otherwise. Exit code 0 after
    SIGTERM, 130 after Ctrl-C.
    """
    settings = options.settings(config, overrides)
    log = log_of(settings)
    with stopping() as stop, log.errors(debug=options.debug(ctx)):
        _serve(settings, stop, log)
    end(log, stop.by)


def _serve(settings: Settings, stop: Stop, log: Log) -> None:
    from pulsar_rebalancer.serve.page_start_and_readiness import run_page

    with measured(
        settings, log, stop, PageMetrics, still_s=STILL_S, ready_after="reading the topics"
    ) as metrics:
        run_page(
            settings,
            stop.is_set,
            metrics,
            log=log.write,
            failed=lambda text: log.write(Line(text, "request-failed", "error")),
            ready=lambda address, text: log.write(Line(text, "page", fields={"address": address})),
        )
