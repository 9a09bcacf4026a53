"""The HTTP server of a process: `/metrics` for Prometheus, and the probes `/healthz` and
`/readyz`.

It runs in threads of its own, a limited number of them. No request ends it, and a connection that
is not done after some seconds is closed, however slowly its request goes on to arrive. The newest
connection always has a place: connections that do nothing cannot make a probe fail, which would
restart a process that works.
"""

from __future__ import annotations

import socket
import socketserver
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from sinks.metrics.liveness import Liveness
from sinks.metrics.settings import ListenAddress
from strategies.errors import SinkError

_TEXT = "text/plain; charset=utf-8"
#: A request and its answer take at most this time (s).
_CONNECTION_S = 10.0
#: Connections at a time. For one more, the oldest one ends: first of those without a request.
_MOST_CONNECTIONS = 32
#: Threads of connections that are about to end; and connections that wait to be accepted.
_MOST_ENDING, _WAITING_OUTSIDE = 32, 128
#: How often the server thread checks whether it is to end.
_POLL_S = 0.1


@contextmanager
def serving(
    address: ListenAddress,
    registry: CollectorRegistry,
    liveness: Liveness,
    *,
    connection_s: float = _CONNECTION_S,
) -> Iterator[ListenAddress]:
    """Serves until the block ends; gives the address with the port in use. `connection_s`: after
    which a connection is closed.

    Raises SinkError if the address cannot be used.
    """
    server = _opened(address, registry, liveness, connection_s)
    thread = threading.Thread(
        target=server.serve_forever, args=(_POLL_S,), name="metrics", daemon=True
    )
    thread.start()
    try:
        yield ListenAddress(address.host, server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _opened(
    address: ListenAddress, registry: CollectorRegistry, liveness: Liveness, connection_s: float
) -> MetricsServer:
    try:
        family, _, _, _, place = socket.getaddrinfo(
            *address, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return MetricsServer(family, place, registry, liveness, connection_s)
    except (OSError, UnicodeError, OverflowError) as error:
        raise SinkError(
            f"metrics.listen: {address} cannot be used "
            f"({getattr(error, 'strerror', None) or error}); name a free port and an address of "
            "this machine, or leave it empty"
        ) from error


class MetricsServer(ThreadingHTTPServer):
    """Binds to an address of `getaddrinfo`. Raises OSError."""

    daemon_threads = True
    request_queue_size = _WAITING_OUTSIDE
    # Two processes must not share a port unnoticed.
    allow_reuse_port = False

    def __init__(
        self,
        family: int,
        place: Any,
        registry: CollectorRegistry,
        liveness: Liveness,
        connection_s: float,
    ) -> None:
        self.address_family = family
        self.registry = registry
        self.liveness = liveness
        self.connection_s = connection_s
        self._free = threading.Semaphore(_MOST_CONNECTIONS + _MOST_ENDING)
        #: Connection → when it ends, the oldest first; and those whose request has arrived.
        self._until: dict[socket.socket, float] = {}
        self._asked: set[socket.socket] = set()
        super().__init__(place, MetricsRequest)

    def server_bind(self) -> None:
        """Binds without the look-up of the host's name in DNS."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answers in a new thread."""
        if len(self._until) >= _MOST_CONNECTIONS:
            self._make_room()
        if self._free.acquire(blocking=False):
            self._until[request] = time.monotonic() + self.connection_s
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answers, in the thread of the request."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._until.pop(request, None)
            self._asked.discard(request)
            self._free.release()

    def asked(self, request: socket.socket) -> None:
        """The request of a connection has arrived, and is being answered."""
        self._asked.add(request)

    def service_actions(self) -> None:
        """Ends connections that last too long, several times a second. A timeout of the socket
        begins again with each byte that arrives.
        """
        now = time.monotonic()
        for request in [one for one, until in list(self._until.items()) if until <= now]:
            self._end(request)

    def _make_room(self) -> None:
        oldest = list(self._until)
        idle = [one for one in oldest if one not in self._asked]
        for request in (idle or oldest)[:1]:
            self._end(request)

    def _end(self, request: socket.socket) -> None:
        """Its thread notices, and closes it."""
        self._until.pop(request, None)
        with suppress(OSError):  # it ends at this moment
            request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores the error: a client that goes away is no event of this process."""


class MetricsRequest(BaseHTTPRequestHandler):
    """Answers one request."""

    timeout = _CONNECTION_S  # ends connections that outlive the server
    server: MetricsServer
    error_content_type = _TEXT
    error_message_format = "%(message)s\n"

    def do_GET(self) -> None:
        """Answers a known path; 404 with the known ones for others."""
        self.server.asked(self.connection)
        liveness = self.server.liveness
        match self.path.partition("?")[0]:
            case "/metrics":
                self._send_metrics()
            case "/healthz":
                self._send_state(liveness.not_healthy())
            case "/readyz":
                self._send_state(liveness.not_ready())
            case _:
                self._send(
                    HTTPStatus.NOT_FOUND, _TEXT, b"Known paths: /metrics, /healthz, /readyz\n"
                )

    do_HEAD = do_GET

    def version_string(self) -> str:
        """The name in the header `Server`, without versions."""
        return "pulsar-rebalancer"

    def log_message(self, format: str, *args: Any) -> None:
        """Writes nothing: requests are no events of this process."""

    def _send_metrics(self) -> None:
        registry = self.server.registry
        try:
            encode, content_type = choose_encoder(self.headers.get("Accept", ""))
            body = encode(registry)
        except (TypeError, ValueError):  # the library compares versions that are no numbers
            encode, content_type = choose_encoder("")
            body = encode(registry)
        self._send(HTTPStatus.OK, content_type, body)

    def _send_state(self, complaint: str) -> None:
        status = HTTPStatus.SERVICE_UNAVAILABLE if complaint else HTTPStatus.OK
        self._send(status, _TEXT, f"{complaint or 'ok'}\n".encode())

    def _send(self, status: HTTPStatus, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
