"""Runs the live page: follows the topics, and serves until the process is asked to stop."""

import time
from collections.abc import Callable
from contextlib import suppress

from pulsar_rebalancer.decisions.live.page_views import ViewSettings
from pulsar_rebalancer.decisions.live.plans_and_search import PlanSettings
from pulsar_rebalancer.decisions.live.read_topics import LiveTopics
from pulsar_rebalancer.decisions.live.snapshot_fold import LiveSnapshot
from pulsar_rebalancer.decisions.read_status import pause_of
from pulsar_rebalancer.serve.app import LivePage, ViewerNews, assets, routes_of
from pulsar_rebalancer.serve.publish_decisions import NO_KEY, DecisionPublisher
from pulsar_rebalancer.serve.request_guard import LOOPBACK_NAMES, RequestGuard
from pulsar_rebalancer.serve.server import check_certificate, run_server
from pulsar_rebalancer.serve.sign_in import (
    NO_TOKENS,
    FailureLimit,
    Sessions,
    SigningIn,
    read_tokens,
)
from pulsar_rebalancer.settings.merge_sources import Settings
from pulsar_rebalancer.settings.page_address_and_log_settings import (
    ServeSettings,
    is_loopback,
    serve_address,
)
from sinks.graceful_stop import wall_clock_ms
from sinks.metrics.page_metrics import PageMetrics
from sinks.metrics.settings import ListenAddress, listening_socket
from sinks.wire.signing_keys import SigningKey, approvals_key
from strategies.errors import SettingsError
from streaming.checkpoint.guard import checkpoint_folder
from streaming.start_lines import read_start_lines


def run_page(
    settings: Settings,
    is_stopping: Callable[[], bool],
    metrics: PageMetrics,
    *,
    log: Callable[[str], None],
    failed: Callable[[str], None],
    ready: Callable[[str, str], None],
) -> None:
    """Serves until `is_stopping`. `log`: gets a line when a topic is lost or found again; `failed`:
    gets unexpected errors; `ready`: gets the page's address, and what it is for, as soon as it
    listens.

    Raises SettingsError, SinkError if the address cannot be used.
    """
    given = settings.serve
    if given.tls_cert:
        check_certificate(given.tls_cert, given.tls_key)
    topics = LiveTopics(
        settings.connections,
        wall_clock_ms,
        paused=lambda: pause_of(settings.executor).exists,
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
        address = f"{scheme}://{ListenAddress(host, port)}/"
        named = "for people with a token" if given.token_file else "read-only"
        ready(address, f"page: {address} ({named})")
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


def start_line(settings: Settings) -> str:
    """The newest line of a job of this machine that starts; empty without one, or if its checkpoint
    is elsewhere.
    """
    with suppress(SettingsError):
        return "".join(read_start_lines(checkpoint_folder(settings.job))[-1:])
    return ""


def assembled_page(
    settings: Settings,
    snapshot: Callable[[], LiveSnapshot],
    now_ms: Callable[[], int],
    *,
    answered: Callable[[str, int], None],
    log: Callable[[str], None],
) -> tuple[RequestGuard, ViewerNews]:
    """The page of these settings, and what announces changes to its viewers. Raises SettingsError
    for an invalid token file or signing key.
    """
    serve, key = settings.serve, approvals_key(settings.connections.signing)
    page = LivePage(
        snapshot,
        ViewSettings(settings.engine.round, settings.collector.pass_interval_ms),
        SigningIn(
            read_tokens(serve.token_file) if serve.token_file else None,
            Sessions(time.monotonic),
            FailureLimit(time.monotonic),
            secure=bool(serve.tls_cert),
        ),
        assets(),
        now_ms,
        DecisionPublisher(settings.connections, key, now_ms),
        plan_settings(settings, key),
    )
    return RequestGuard(routes_of(page, log), allowed_hosts(serve), answered), page.news


def plan_settings(settings: Settings, key: SigningKey | None) -> PlanSettings:
    """Says whether plans wait for people, and why the page cannot write their decisions."""
    no_key = NO_KEY if key is None else ""
    why_not = no_key if settings.serve.token_file else NO_TOKENS
    return PlanSettings(settings.executor.approval == "required", why_not)


def allowed_hosts(serve: ServeSettings) -> frozenset[str]:
    """The names that requests may be for; empty = any. Without tokens only names of this machine
    are safe: a foreign site's name may lead here, too.
    """
    host = serve_address(serve).host
    named = [name.strip().lower() for name in serve.hosts.split(",") if name.strip()]
    if serve.token_file and not named and not is_loopback(host):
        return frozenset()
    return frozenset({*LOOPBACK_NAMES, host.lower(), *named})
