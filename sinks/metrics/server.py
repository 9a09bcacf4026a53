"""The HTTP server of a process: `/metrics` for Prometheus, and the probes `/healthz` and
`/readyz`. It answers in threads of its own, and no request ends the process.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import ThreadingHTTPServer
from io import BytesIO
from typing import Any

from prometheus_client import CollectorRegistry, MetricsHandler
from prometheus_client.exposition import choose_encoder

from sinks.metrics.liveness import Liveness
from sinks.metrics.settings import ListenAddress, listening_socket

_TEXT = "text/plain; charset=utf-8"
#: How often the server thread checks whether it is to end (s).
_POLL_S = 0.1


@contextmanager
def serving(
    address: ListenAddress, registry: CollectorRegistry, liveness: Liveness
) -> Iterator[ListenAddress]:
    """Serves until the block ends; gives the address with the port in use.

    Raises SinkError if the address cannot be used.
    """
    listening = listening_socket(address, "metrics.listen", ", or leave it empty", both=True)
    server = MetricsServer(listening, registry, liveness)
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


class MetricsServer(ThreadingHTTPServer):
    """Serves on a socket that listens."""

    daemon_threads = True

    def __init__(
        self, listening: socket.socket, registry: CollectorRegistry, liveness: Liveness
    ) -> None:
        super().__init__(
            listening.getsockname(), ProcessHandler.factory(registry), bind_and_activate=False
        )
        self.socket.close()
        self.socket = listening
        self.liveness = liveness

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores the error: a client that goes away is no event of this process."""


class ProcessHandler(MetricsHandler):
    """Answers one request."""

    #: A connection that is silent for this time (s) is closed.
    timeout = 10.0
    server: MetricsServer
    error_content_type = _TEXT
    error_message_format = "%(message)s\n"

    def do_GET(self) -> None:
        """Answers a known path; 404 with the known ones for others."""
        match self.path.partition("?")[0]:
            case "/metrics":
                self._send_metrics()
            case "/healthz":
                self._send_state(self.server.liveness.not_healthy())
            case "/readyz":
                self._send_state(self.server.liveness.not_ready())
            case _:
                self._send(HTTPStatus.NOT_FOUND, "Known paths: /metrics, /healthz, /readyz")

    do_HEAD = do_GET

    def version_string(self) -> str:
        """The name in the header `Server`, without versions."""
        return "pulsar-rebalancer"

    def _send_metrics(self) -> None:
        try:
            choose_encoder(self.headers.get("Accept", ""))
        except (TypeError, ValueError):  # the library compares versions that are no numbers
            del self.headers["Accept"]
        super().do_GET()

    def end_headers(self) -> None:
        """Ends the headers; the body of an answer to HEAD goes nowhere."""
        super().end_headers()
        if self.command == "HEAD":
            self.wfile = BytesIO()

    def _send_state(self, complaint: str) -> None:
        status = HTTPStatus.SERVICE_UNAVAILABLE if complaint else HTTPStatus.OK
        self._send(status, complaint or "ok")

    def _send(self, status: HTTPStatus, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", _TEXT)
        self.end_headers()
        self.wfile.write(f"{text}\n".encode())
