"""Runs the live page: follows the topics, and serves until the process is asked to stop."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from pulsar_rebalancer.decisions.live.follow import LiveTopics
from pulsar_rebalancer.decisions.live.snapshot import LiveSnapshot
from pulsar_rebalancer.serve.page import assembled_page
from pulsar_rebalancer.serve.server import check_certificate, run_server
from pulsar_rebalancer.settings.load import Settings
from pulsar_rebalancer.settings.serve import serve_address
from sinks.executor.settings import pause_file
from sinks.metrics.page import PageMetrics
from sinks.metrics.settings import ListenAddress, listening_socket
from sinks.processes import wall_clock_ms
from strategies.errors import SettingsError
from streaming.checkpoint.guard import checkpoint_folder
from streaming.starting import read_start_lines


def run_page(
    settings: Settings,
    is_stopping: Callable[[], bool],
    metrics: PageMetrics,
    *,
    log: Callable[[str], None],
    failed: Callable[[str], None],
    ready: Callable[[str], None],
) -> None:
    """Serves until `is_stopping`. `log`: gets a line when a topic is lost or found again; `failed`:
    gets unexpected errors; `ready`: gets the page's address as soon as it listens.

    Raises SettingsError, SinkError if the address cannot be used.
    """
    given = settings.serve
    if given.tls_cert:
        check_certificate(given.tls_cert, given.tls_key)
    topics = LiveTopics(
        settings.connections,
        wall_clock_ms,
        paused=lambda: is_paused(settings),
        starting=lambda: start_line(settings),
        log=log,
    )
    page, news = assembled_page(
        settings, lambda: topics.snapshot, wall_clock_ms, answered=metrics.answered, log=failed
    )

    def turn(snapshot: LiveSnapshot) -> None:
        noted(snapshot, news.viewers, metrics)
        news.announce()

    with listening_socket(serve_address(given), "serve.listen") as listening, topics.running(turn):
        host, port = listening.getsockname()[:2]
        scheme = "https" if given.tls_cert else "http"
        ready(f"{scheme}://{ListenAddress(host, port)}/")
        run_server(page, listening, news, is_stopping, cert=given.tls_cert, key=given.tls_key)


def noted(snapshot: LiveSnapshot, viewers: int, metrics: PageMetrics) -> None:
    """Notes the state of the topics in the metrics; the process is ready once it has read them."""
    if all(one.caught_up or one.error for one in snapshot.topics):
        metrics.liveness.succeeded()
    newest = {
        name: one.decisions.rounds[-1].round.ts
        for name, one in snapshot.clusters.items()
        if one.decisions.rounds
    }
    topics = [(one.name, one.records, bool(one.error)) for one in snapshot.topics]
    metrics.turned(viewers, topics, newest.items())


def is_paused(settings: Settings) -> bool | None:
    """Whether the pause file of this machine exists; None if this user may not look."""
    try:
        return pause_file(settings.executor).exists()
    except OSError:
        return None


def start_line(settings: Settings) -> str:
    """The newest line of a job of this machine that starts; empty without one, or if its checkpoint
    is elsewhere.
    """
    with suppress(SettingsError):
        return "".join(read_start_lines(checkpoint_folder(settings.job))[-1:])
    return ""
