"""Runs the live page: follows the topics, and serves in the main thread until the process is asked
to stop.
"""

import asyncio
import logging
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from pulsar_rebalancer.decisions.live.page_views import ViewSettings
from pulsar_rebalancer.decisions.live.plans_and_search import PlanSettings
from pulsar_rebalancer.decisions.live.read_topics import LiveTopics
from pulsar_rebalancer.decisions.live.snapshot_fold import LiveSnapshot
from pulsar_rebalancer.decisions.preview import PresentCluster, read_present
from pulsar_rebalancer.decisions.read_status import pause_of
from pulsar_rebalancer.serve.app import LivePage, ViewerNews, assets, routes_of
from pulsar_rebalancer.serve.publish_decisions import NO_KEY, DecisionPublisher
from pulsar_rebalancer.serve.publish_intents import IntentPublisher
from pulsar_rebalancer.serve.request_guard import LOOPBACK_NAMES, RequestGuard
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
from pulsar_rebalancer.settings.reported_release import in_reported_release
from sinks.graceful_stop import wall_clock_ms
from sinks.metrics.page_metrics import PageMetrics
from sinks.metrics.settings import ListenAddress, listening_socket
from sinks.wire.signing_keys import SigningKey, approvals_key, intents_key
from strategies.cluster.model import Round
from strategies.errors import SettingsError
from streaming.checkpoint.guard import checkpoint_folder
from streaming.start_lines import read_start_lines

#: Connections at a time; more get 503.
_MOST_CONNECTIONS = 600
#: The head of a request is at most this long (bytes), and arrives within this time (s).
_LARGEST_HEAD, _HEAD_S = 16 * 2**10, 15.0
_KEEP_ALIVE_S = 20
#: How long requests may still take when the process stops (s).
_GRACE_S = 3
_CLOSING_S = 0.1


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
    serve, signing = settings.serve, settings.connections.signing
    key = approvals_key(signing)
    # A page without tokens writes nothing.
    moves_key = intents_key(signing) if serve.token_file else None
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
        IntentPublisher(
            settings.connections,
            moves_key,
            now_ms,
            partial(present_of, settings),
            settings.executor.approval == "required",
        ),
        plan_settings(settings, key),
    )
    return RequestGuard(routes_of(page, log), allowed_hosts(serve), answered), page.news


def present_of(settings: Settings, newest: Round) -> PresentCluster:
    """The cluster of this round as its next one will find it, by these settings. Raises
    IntentError, SinkError.
    """
    given = in_reported_release(settings)
    return read_present(given.connections, given.engine, newest, wall_clock_ms())


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


class PatientProtocol(H11Protocol):
    """Gives up connections whose next request does not arrive in time."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client has connected."""
        super().connection_made(transport)
        self._deadline = self.loop.time() + _HEAD_S
        self._limit()

    def data_received(self, data: bytes) -> None:
        """Bytes of a request have arrived."""
        super().data_received(data)
        self._limit()

    def on_response_complete(self) -> None:
        """A request was answered."""
        self._deadline = self.loop.time() + _KEEP_ALIVE_S
        super().on_response_complete()

    def _limit(self) -> None:
        cycle: RequestResponseCycle | None = self.cycle
        waiting = cycle is None or cycle.response_complete
        if waiting and self.timeout_keep_alive_task is None and not self.transport.is_closing():
            self.timeout_keep_alive_task = self.loop.call_at(
                self._deadline, self.timeout_keep_alive_handler
            )


class StoppableServer(uvicorn.Server):
    """Ends when `is_stopping`, and leaves signals to the process."""

    def __init__(
        self, config: uvicorn.Config, is_stopping: Callable[[], bool], news: ViewerNews
    ) -> None:
        super().__init__(config)
        self._is_stopping, self._news = is_stopping, news

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handles no signal."""
        yield

    async def on_tick(self, counter: int) -> bool:
        """True if the server is to end; called ten times a second."""
        ends = await super().on_tick(counter) or self._is_stopping()
        if ends:
            self._news.end()
        return ends


def check_certificate(cert: str, key: str) -> None:
    """Raises SettingsError if the certificate and its key cannot be used."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key, password=lambda: b"")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or getattr(error, "reason", None) or error
        raise SettingsError(
            [
                f"serve.tls_cert: {cert} with serve.tls_key: {key} cannot be used ({reason}); name "
                "a certificate chain and its key in PEM form, without a password"
            ]
        ) from None


def run_server(
    page: RequestGuard,
    listening: socket.socket,
    news: ViewerNews,
    is_stopping: Callable[[], bool],
    *,
    cert: str = "",
    key: str = "",
) -> None:
    """Serves until `is_stopping`. `cert`, `key`: files in PEM form, empty without TLS."""
    # The library writes a line for each malformed request; the page's metrics count them.
    logging.getLogger("uvicorn").addHandler(logging.NullHandler())
    logging.getLogger("uvicorn").propagate = False
    config = uvicorn.Config(
        page,
        http=PatientProtocol,
        loop="asyncio",
        ws="none",
        lifespan="off",
        log_config=None,
        log_level=logging.CRITICAL,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=_MOST_CONNECTIONS,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_GRACE_S,
        h11_max_incomplete_event_size=_LARGEST_HEAD,
        ssl_certfile=cert or None,
        ssl_keyfile=key or None,
    )
    server = StoppableServer(config, is_stopping, news)
    asyncio.run(_serve(server, listening))


async def _serve(server: StoppableServer, listening: socket.socket) -> None:
    asyncio.get_running_loop().set_exception_handler(_broken_connection)
    await server.serve([listening])
    for connection in [*server.server_state.connections]:
        connection.transport.abort()
    # Connections with TLS close in several turns of the loop.
    await asyncio.sleep(_CLOSING_S)


def _broken_connection(_: asyncio.AbstractEventLoop, __: dict[str, Any]) -> None:
    """A client broke the protocol or went away: no event of this process."""
