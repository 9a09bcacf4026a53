"""One HTTP exchange with a deadline, whatever the server does.

A timeout of httpcore limits a single read or write, so a server that sends one byte at a time can
hold a client without limit. Here the timeouts that httpcore passes to the network are deadlines (of
`time.monotonic()`). Every operation gets the remaining time: the DNS look-up, the connection, the
TLS handshake, each write, and each read of status line, header and body.
"""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    import httpcore

LookUp = Callable[[str, int], list[Any]]


@dataclass(frozen=True, slots=True)
class Answer:
    """`headers`: by lower-case name; of repeated headers the last."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class TooLarge(Exception):
    """The body has more bytes than the caller accepts."""


def open_pool(
    tls: ssl.SSLContext, kept: int, connect_s: float, look_up: LookUp | None = None
) -> httpcore.ConnectionPool:
    """`kept`: number of idle connections kept open; `connect_s`: limit of the TCP connection, and
    again of the TLS handshake.
    """
    import httpcore

    backend = cast("httpcore.NetworkBackend", _Backend(connect_s, look_up or _look_up))
    return httpcore.ConnectionPool(
        tls, max_connections=None, max_keepalive_connections=kept, network_backend=backend
    )


def exchange(
    pool: httpcore.ConnectionPool,
    method: str,
    url: str,
    *,
    headers: Mapping[str, str],
    body: bytes | None,
    until: float,
    most: int,
) -> Answer:
    """One request and its answer; redirects are not followed. `until`: deadline of
    `time.monotonic()`; `most`: largest body in bytes.

    Raises httpx.InvalidURL, TooLarge, and httpcore's exceptions: ConnectError and ConnectTimeout
    before anything was sent.
    """
    import httpcore
    import httpx

    parsed = httpx.URL(url)
    target = httpcore.URL(
        scheme=parsed.raw_scheme, host=parsed.raw_host, port=parsed.port, target=parsed.raw_path
    )
    content = body if body is not None or method == "GET" else b""
    moments = dict.fromkeys(("connect", "read", "write"), until)
    with pool.stream(
        method,
        target,
        headers=[("Host", parsed.netloc.decode("ascii")), *headers.items()],
        content=content,
        extensions={"timeout": moments},
    ) as answer:
        found = bytearray()
        for part in answer.iter_stream():
            found += part
            if len(found) > most:
                raise TooLarge
        named = {
            name.decode("latin-1").lower(): value.decode("latin-1")
            for name, value in answer.headers
        }
        return Answer(answer.status, named, bytes(found))


class _Backend:
    """The network backend of httpcore; its timeouts are deadlines."""

    def __init__(self, connect_s: float, look_up: LookUp) -> None:
        self._connect_s = connect_s
        self._names = _Names(look_up)

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Any = None,
    ) -> _Stream:
        import httpcore

        until = min(_deadline(timeout), time.monotonic() + self._connect_s)
        addresses = self._names.addresses(host, port, until)
        failed: Exception = httpcore.ConnectError(f"{host} has no address")
        for number, address in enumerate(addresses):
            # An address that does not answer leaves time for the next ones.
            share = _remaining(until, _no_connection) / (len(addresses) - number)
            try:
                return _Stream(
                    httpcore.SyncBackend().connect_tcp(
                        address, port, share, socket_options=socket_options
                    ),
                    self._connect_s,
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failed = error
        raise failed


class _Stream:
    """A connection; its timeouts are deadlines."""

    def __init__(self, inner: httpcore.NetworkStream, connect_s: float) -> None:
        self._inner = inner
        self._connect_s = connect_s

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        import httpcore

        return self._inner.read(
            max_bytes,
            _remaining(_deadline(timeout), lambda: httpcore.ReadTimeout("the time is up")),
        )

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Writes in pieces: the inner stream would give each piece the whole time."""
        import httpcore

        sock, rest = self._inner.get_extra_info("socket"), memoryview(buffer)
        while rest:
            remaining = _remaining(
                _deadline(timeout), lambda: httpcore.WriteTimeout("the time is up")
            )
            try:
                sock.settimeout(remaining)
                rest = rest[sock.send(rest) :]
            except TimeoutError as error:
                raise httpcore.WriteTimeout(str(error)) from error
            except OSError as error:
                raise httpcore.WriteError(str(error)) from error

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> _Stream:
        import httpcore

        until = min(_deadline(timeout), time.monotonic() + self._connect_s)
        try:
            return _Stream(
                self._inner.start_tls(
                    ssl_context, server_hostname, _remaining(until, _no_connection)
                ),
                self._connect_s,
            )
        except httpcore.ConnectError as error:
            if isinstance(error.__cause__, ConnectionError):
                raise httpcore.ConnectError(str(error)) from ssl.SSLEOFError(
                    ssl.SSL_ERROR_EOF, "the connection was closed"
                )
            raise

    def close(self) -> None:
        self._inner.close()

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


class _Names:
    """Resolves host names. The system's look-up has no timeout, so it runs in a thread of its own,
    one per name.
    """

    def __init__(self, look_up: LookUp) -> None:
        self._look_up = look_up
        self._under_way: dict[tuple[str, int], Future[list[Any]]] = {}
        self._asking = threading.Lock()

    def addresses(self, host: str, port: int, until: float) -> list[str]:
        """Addresses of a host. Raises httpcore.ConnectError, httpcore.ConnectTimeout."""
        import httpcore

        if _is_address(host):
            return [host]
        try:
            found = self._answer(host, port).result(_remaining(until, _no_connection))
        except TimeoutError as error:
            raise httpcore.ConnectTimeout(
                f"the look-up of {host} takes too long; check the name server of this machine"
            ) from error
        except OSError as error:
            raise httpcore.ConnectError(str(error)) from error
        return list(dict.fromkeys(str(entry[4][0]) for entry in found))

    def _answer(self, host: str, port: int) -> Future[list[Any]]:
        with self._asking:
            if (host, port) not in self._under_way:
                self._under_way[host, port] = Future()
                threading.Thread(
                    target=self._ask, args=(host, port), name=f"look-up-{host}", daemon=True
                ).start()
            return self._under_way[host, port]

    def _ask(self, host: str, port: int) -> None:
        answer = self._under_way[host, port]
        try:
            found = self._look_up(host, port)
        except Exception as error:
            self._forget(host, port)
            answer.set_exception(error)
        else:
            self._forget(host, port)
            answer.set_result(found)

    def _forget(self, host: str, port: int) -> None:
        with self._asking:
            del self._under_way[host, port]


def _look_up(host: str, port: int) -> list[Any]:
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)


def _is_address(host: str) -> bool:
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
        except OSError:
            continue
        return True
    return False


def _deadline(timeout: float | None) -> float:
    assert timeout is not None, "every exchange has an end"
    return timeout


def _remaining(until: float, late: Callable[[], Exception]) -> float:
    """Seconds until the deadline. Raises `late()` if it has passed: a timeout of 0 would mean not
    to wait at all.
    """
    remaining = until - time.monotonic()
    if remaining <= 0:
        raise late()
    return remaining


def _no_connection() -> Exception:
    import httpcore

    return httpcore.ConnectTimeout("timed out")
