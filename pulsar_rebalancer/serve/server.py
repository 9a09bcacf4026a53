"""Runs the page's HTTP server in the main thread until the process is asked to stop."""

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from pulsar_rebalancer.serve.app import ViewerNews
from pulsar_rebalancer.serve.request_guard import RequestGuard
from strategies.errors import SettingsError

#: Connections at a time; more get 503.
_MOST_CONNECTIONS = 600
#: The head of a request is at most this long (bytes), and arrives within this time (s).
_LARGEST_HEAD, _HEAD_S = 16 * 2**10, 15.0
_KEEP_ALIVE_S = 20
#: How long requests may still take when the process stops (s).
_GRACE_S = 3
_CLOSING_S = 0.1


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

    @contextlib.contextmanager
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
