"""Exposes a process: `/metrics` for Prometheus, and the probes `/healthz` and `/readyz`. The
server answers in threads of its own, and no request ends the process.

Prometheus keeps a time series for every value of a label. Clusters and codes come from records, so
their number is limited here, whatever the records contain.
"""

import re
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from http.server import ThreadingHTTPServer
from io import BytesIO
from typing import Any

from prometheus_client import CollectorRegistry, Gauge, Info, MetricsHandler
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics import MetricWrapperBase

from sinks.metrics.settings import ListenAddress, listening_socket

#: Value of a label that stands for all values above the limit.
OTHER = "other"
#: Clusters that a process names: twice those of the largest job that was measured. A scrape of
#: 1,000 clusters is 3.6 MiB.
MOST_CLUSTERS = 2_000
_CODE = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")


class BoundedLabel:
    """The first `most` values of a label are kept; all later ones become `other`. `on_full` gets
    the first of these, once.
    """

    def __init__(self, most: int = 100, on_full: Callable[[str], object] | None = None) -> None:
        self._most = most
        self._on_full = on_full
        self._known: set[str] = set()

    def __call__(self, value: str) -> str:
        """The value, or `other`."""
        if value not in self._known:
            if len(self._known) >= self._most:
                on_full, self._on_full = self._on_full, None
                if on_full is not None:
                    on_full(value)
                return OTHER
            self._known.add(value)
        return value

    def release(self, value: str) -> bool:
        """Makes room for another value; whether this one was kept. Its series are the caller's to
        remove.
        """
        kept = value in self._known
        self._known.discard(value)
        return kept


def code_of(reason: str | None) -> str:
    """The code of a reason (`code: sentence`): empty without a reason, `other` without a code."""
    code = (reason or "").partition(":")[0]
    return code if not code or _CODE.fullmatch(code) else OTHER


def process_registry(version: str) -> CollectorRegistry:
    """A new registry with the version of the product in it."""
    registry = CollectorRegistry()
    Info(
        "pulsar_rebalancer_build", "Version of the process, as label; always 1", registry=registry
    ).info({"version": version})
    return registry


def register(
    registry: CollectorRegistry, *table: tuple[Callable[..., Any], str, str, Sequence[str]]
) -> dict[str, Any]:
    """Registers metrics by kind, name, meaning and labels; returns them by name. Their full names
    begin with `pulsar_rebalancer_`.
    """
    return {
        name: kind(f"pulsar_rebalancer_{name}", meaning, labels, registry=registry)
        for kind, name, meaning, labels in table
    }


def remove_cluster(families: Iterable[MetricWrapperBase], cluster: str) -> None:
    """Removes all series of a cluster."""
    for family in families:
        family.remove_by_labels({"cluster": cluster})


def set_all(
    gauge: Gauge, cluster: str, figures: Iterable[tuple[str, float]], before: Iterable[str]
) -> list[str]:
    """Sets the gauge for (cluster, name) of each figure; removes the names in `before` that have
    none now. Returns the names.
    """
    now = dict(figures)
    for name, figure in now.items():
        gauge.labels(cluster, name).set(figure)
    for name in before:
        if name not in now:
            gauge.remove(cluster, name)
    return list(now)


#: Longest wait of a turn, below every limit.
_TURN_S = 60.0


class Liveness:
    """Turns of the main loops of a process. Threads may share it.

    A process may have several loops, each with a name; one that stands still is enough to report
    the process as not working.
    """

    def __init__(
        self,
        limit_s: float,
        ready_after: str,
        *,
        loops: Iterable[str] = ("",),
        is_stopping: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`limit_s`: longest time between two turns of a loop. `ready_after`: what must succeed
        first, for the sentence of `/readyz`. `loops`: their names. `clock`: seconds.
        """
        self._limit_s = limit_s
        self._ready_after = ready_after
        self._is_stopping = is_stopping
        self._clock = clock
        self._lock = threading.Lock()
        self._turned = dict.fromkeys(loops, clock())
        self._ready = False

    def turned(self, *loops: str) -> None:
        """Records a turn of these loops; of all, if none is named."""
        with self._lock:
            self._turned |= dict.fromkeys(loops or self._turned, self._clock())

    def turning(self, wait: Callable[[float], bool]) -> Callable[[float], bool]:
        """The same function, which waits in several turns and records each of them of all loops: a
        loop that waits on purpose works, for example as long as a webhook asks for.
        """

        def wait_in_turns(seconds: float) -> bool:
            self.turned()
            while seconds > _TURN_S:
                if wait(_TURN_S):
                    return True
                self.turned()
                seconds -= _TURN_S
            return wait(seconds)

        return wait_in_turns

    def succeeded(self) -> None:
        """Records that the first unit of work has succeeded; the process is ready from then on."""
        self._ready = True

    def not_healthy(self) -> str:
        """Why the process does not work, as a sentence; empty if it does."""
        with self._lock:
            loop, turned_s = min(self._turned.items(), key=lambda item: item[1])
        still_s = self._clock() - turned_s
        if still_s <= self._limit_s:
            return ""
        name = f"The main loop of {loop}" if loop else "The main loop"
        return (
            f"{name} has not turned for {still_s:.0f} s, more than {self._limit_s:.0f} s: read the "
            "log, then start the process again."
        )

    def not_ready(self) -> str:
        """Why the process is not ready, as a sentence; empty if it is."""
        if self._is_stopping():
            return "The process is stopping."
        return "" if self._ready else f"The process has not finished {self._ready_after} yet."


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
