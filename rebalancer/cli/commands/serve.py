"""`rebalancer serve`: the live page of all clusters."""

from __future__ import annotations

import typer

from rebalancer.analysis.live.follow import FollowSettings, LiveTopics
from rebalancer.analysis.live.snapshot import LiveSnapshot
from rebalancer.cli import exit_codes, options
from rebalancer.cli.log_lines import Line, Log
from rebalancer.cli.metrics_server import metrics_served
from rebalancer.settings.load import Settings
from rebalancer.settings.serve import serve_address
from sinks.collector.collector import wall_clock_ms
from sinks.executor.settings import pause_file
from sinks.metrics.labels import process_registry
from sinks.metrics.liveness import Liveness
from sinks.metrics.page import PageMetrics
from sinks.metrics.settings import ListenAddress
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

    Reads the topics in the settings and follows them; changes nothing. Listens on this machine only
    unless serve.listen and serve.token_file say otherwise. Exit code 0 after SIGTERM, 130 after
    Ctrl-C.
    """
    settings = options.settings(config, overrides)
    log = Log(settings.log)
    with stopping() as stop, log.errors(debug=options.debug(ctx)):
        _serve(settings, stop, log)
    log.write(Line(f"stopped ({stop.by})", "stopped", fields={"by": stop.by}))
    if stop.by == "SIGINT":
        raise typer.Exit(exit_codes.INTERRUPTED)


def _serve(settings: Settings, stop: Stop, log: Log) -> None:
    from rebalancer.serve.page import assembled_page
    from rebalancer.serve.server import check_certificate, opened, run_server

    given = settings.serve
    if given.tls_cert:
        check_certificate(given.tls_cert, given.tls_key)
    liveness = Liveness(_STILL_S, "reading the topics", is_stopping=stop.is_set)
    registry = process_registry(settings.engine.version)
    metrics = PageMetrics(registry, liveness)
    topics = LiveTopics(
        settings.connections,
        FollowSettings(given.rounds, given.history_ms),
        wall_clock_ms,
        paused=lambda: _is_paused(settings),
        log=log.write,
    )
    page = assembled_page(
        settings,
        lambda: topics.snapshot,
        wall_clock_ms,
        answered=metrics.answered,
        log=lambda text: log.write(Line(text, "request-failed", "error")),
    )

    def turn(snapshot: LiveSnapshot) -> None:
        if all(one.caught_up or one.error for one in snapshot.topics):
            liveness.succeeded()
        metrics.turned(
            page.changes.viewers,
            [(one.name, one.records, bool(one.error)) for one in snapshot.topics],
        )
        page.changes.announce()

    listening = opened(serve_address(given))
    host, port = listening.getsockname()[:2]
    scheme = "https" if given.tls_cert else "http"
    with metrics_served(settings.metrics, registry, liveness, log.write), topics.running(turn):
        address = str(ListenAddress(host, port))
        log.write(
            Line(
                f"page: {scheme}://{address}/ ({_audience(settings)})",
                "page",
                fields={"address": address},
            )
        )
        run_server(
            page.app,
            listening,
            page.changes,
            stop.is_set,
            cert=given.tls_cert,
            key=given.tls_key,
        )


def _audience(settings: Settings) -> str:
    if settings.serve.token_file:
        return "for people with a token"
    return "for users of this machine, to look at only"


def _is_paused(settings: Settings) -> bool | None:
    """Whether the pause file exists; None if this user may not look."""
    try:
        return pause_file(settings.executor).exists()
    except OSError:
        return None
