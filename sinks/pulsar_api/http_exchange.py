"""One HTTP exchange with a deadline, whatever the server does.

A timeout of httpx limits a single read or write, so a server that sends one byte at a time can hold
a client without limit. Here all exchanges of the process run on one event loop, in a thread of its
own, and a deadline (of `time.monotonic()`) ends whatever an exchange is waiting for: the DNS
look-up, the connection, the TLS handshake, the sending of the body, and the answer. A failed TLS
connection is explained, with the setting to change.
"""

import asyncio
import os
import socket
import ssl
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from sinks.pulsar_api.connection_tls_and_token import PulsarSettings

_OTHER_NAME = "use a host name that its certificate contains"
#: X509_V_ERR_… → the next step.
_UNTRUSTED = {
    9: "compare the clocks of the broker and this machine",
    10: "renew the broker's certificate, or correct the clock of this machine",
    62: _OTHER_NAME,
    63: _OTHER_NAME,
    64: _OTHER_NAME,
}
#: OpenSSL's messages for bytes that are not TLS.
_PLAIN = (
    "WRONG_VERSION_NUMBER",
    "RECORD_LAYER_FAILURE",
    "HTTP_REQUEST",
    "UNKNOWN_PROTOCOL",
    "PACKET_LENGTH_TOO_LONG",
)
#: A missing certificate of ours, or one that the broker does not accept.
_OWN = (
    "CERTIFICATE_REQUIRED",
    "HANDSHAKE_FAILURE",
    "ALERT_UNKNOWN_CA",
    "ALERT_BAD_CERTIFICATE",
    "ALERT_CERTIFICATE_UNKNOWN",
    "ALERT_CERTIFICATE_EXPIRED",
    "ALERT_ACCESS_DENIED",
)


if TYPE_CHECKING:
    import httpx

T = TypeVar("T")
#: Two threads must not start a loop each.
_STARTING = threading.Lock()


@dataclass(frozen=True, slots=True)
class Answer:
    """`headers`: by lower-case name; of repeated headers the last."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class TooLarge(Exception):
    """The body has more bytes than the caller accepts."""


class NotConnected(Exception):
    """There was no connection, so nothing was sent."""


class LateConnection(NotConnected, TimeoutError):
    """There was no connection in time. `in_handshake`: only the TLS handshake was not finished."""

    def __init__(self, *, in_handshake: bool) -> None:
        super().__init__("timed out, with the look-up of its name")
        self.in_handshake = in_handshake


class HttpConnections:
    """Connections to any addresses. Threads may share it."""

    def __init__(self, tls: ssl.SSLContext, kept: int, connect_s: float) -> None:
        """`kept`: number of idle connections kept open; `connect_s`: limit of the TCP connection,
        and again of the TLS handshake.
        """
        import httpx

        # Idle connections live until the broker closes them.
        limits = httpx.Limits(
            max_connections=None, max_keepalive_connections=kept, keepalive_expiry=None
        )
        # Not a client: it would look at redirects first.
        self._transport = httpx.AsyncHTTPTransport(verify=tls, trust_env=False, limits=limits)
        self._timeouts = httpx.Timeout(None, connect=connect_s).as_dict()
        self._closed = False

    def close(self) -> None:
        """Closes all of them, those that exchanges are about to open at the exchange's end."""
        self._closed = True
        _run(self._transport.aclose())

    def exchange(
        self,
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

        Raises NotConnected, TimeoutError, TooLarge, ssl.SSLError, httpx.InvalidURL and
        httpx.TransportError.
        """
        import httpx

        steps = _Steps()
        extensions = {"timeout": self._timeouts, "trace": steps.follow}
        request = httpx.Request(
            method, url, headers=dict(headers), content=body, extensions=extensions
        )
        return _run(self._answer(request, steps, until, most))

    async def _answer(
        self, request: "httpx.Request", steps: "_Steps", until: float, most: int
    ) -> Answer:
        import httpx

        answer = None
        try:
            # The loop's clock is `time.monotonic()`.
            async with asyncio.timeout_at(until):
                answer = await self._body_read(request, most)
                return answer
        except (TimeoutError, httpx.ConnectTimeout) as error:
            if not steps.last or "http11" in steps.last:
                raise
            raise LateConnection(in_handshake="start_tls" in steps.last) from error
        except httpx.ConnectError as error:
            if "start_tls" not in steps.last:
                raise NotConnected(_reason(error)) from error
            ended = ssl.SSLEOFError(ssl.SSL_ERROR_EOF, "the connection was closed")
            raise NotConnected(str(error)) from (ssl_error_in(error) or ended)
        finally:
            if answer is None or self._closed:
                await steps.close_opened()

    async def _body_read(self, request: "httpx.Request", most: int) -> Answer:
        answer = await self._transport.handle_async_request(request)
        try:
            body = bytearray()
            async for part in answer.aiter_bytes():
                body += part
                if len(body) > most:
                    raise TooLarge
        finally:
            await answer.aclose()
        return Answer(answer.status_code, dict(answer.headers), bytes(body))


class _Steps:
    """Follows an exchange through httpcore, by its trace."""

    def __init__(self) -> None:
        self.last = ""
        #: The stream of httpcore.
        self._opened: Any = None

    async def follow(self, step: str, found: Mapping[str, Any]) -> None:
        self.last = step
        if step == "connection.connect_tcp.complete":
            self._opened = found["return_value"]

    async def close_opened(self) -> None:
        """Closes the connection that this exchange opened. The pool forgets it if the pool was
        closed before, or the deadline passed in the TLS handshake.
        """
        if self._opened is not None:
            await self._opened.aclose()


def _reason(error: Exception) -> str:
    """What the operating system says, which is in a cause."""
    numbers = (one.errno for one in causes(error) if isinstance(one, OSError) and one.errno)
    number = next(numbers, 0)
    return f"[Errno {number}] {os.strerror(number)}" if number > 0 else str(error)


def _run(work: Coroutine[Any, Any, T]) -> T:
    with _STARTING:
        loop = _loop()
    return asyncio.run_coroutine_threadsafe(work, loop).result()


class _Loop(asyncio.SelectorEventLoop):
    """Looks up each name in a daemon thread of its own: one that hangs holds up neither other names
    nor the end of the process, as it would in the executor of asyncio.
    """

    async def getaddrinfo(
        self,
        host: bytes | str | None,
        port: bytes | str | int | None,
        *,
        family: int = 0,
        type: int = 0,
        proto: int = 0,
        flags: int = 0,
    ) -> Any:
        """As `socket.getaddrinfo`."""
        found = self.create_future()

        def resolve(put: Callable[[Any], None], answer: object) -> None:
            if not found.done():  # else its deadline has passed
                put(answer)

        def look_up() -> None:
            try:
                answer = socket.getaddrinfo(host, port, family, type, proto, flags)
                self.call_soon_threadsafe(resolve, found.set_result, answer)
            except Exception as error:
                self.call_soon_threadsafe(resolve, found.set_exception, error)

        threading.Thread(target=look_up, name="look-up", daemon=True).start()
        return await found


@cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = _Loop()
    threading.Thread(target=loop.run_forever, name="http", daemon=True).start()
    return loop


def tls_obstacle(error: BaseException, settings: PulsarSettings) -> str:
    """The cause and the next step, as the end of a sentence that begins with the server; empty if
    the error is not about TLS.
    """
    found = ssl_error_in(error)
    if found is None:
        return ""
    if isinstance(found, ssl.SSLCertVerificationError):
        add = "add the certificate of its authority to pulsar.tls_ca_file"
        step = _UNTRUSTED.get(found.verify_code, add)
        shown = found.verify_message or found
        return f"presents a TLS certificate that is not trusted ({shown}); {step}"
    reason = getattr(found, "reason", None) or str(found)
    if any(word in reason for word in _PLAIN):
        return (
            f"does not speak TLS at this port ({reason}); name the port with TLS (the "
            "brokers' webServicePortTls, brokerServicePortTls), "
            "or write http:// (pulsar:// for topics) if they have none"
        )
    if any(word in reason for word in _OWN):
        return _own_certificate(reason, settings)
    return (
        f"ended the TLS handshake ({reason}); check that this port is one with TLS "
        "(webServicePortTls, brokerServicePortTls), then check "
        "the broker's log"
    )


def tls_complaint(
    plain: socket.socket, host: str, context: ssl.SSLContext, settings: PulsarSettings
) -> str:
    """What a server objects to in a TLS handshake over this connection, as `tls_obstacle` says it;
    empty if it has no objection. Raises OSError if there is no answer.
    """
    try:
        with context.wrap_socket(plain, server_hostname=host) as connection:
            connection.settimeout(0.5)
            with suppress(TimeoutError):
                # With TLS 1.3, a server refuses our certificate after the handshake.
                connection.recv(1)
    except ssl.SSLError as error:
        return tls_obstacle(error, settings)
    return ""


def speaks_tls(host: str, port: int, timeout_s: float) -> bool:
    """True if a server answers a TLS handshake with any certificate. Sends only the handshake."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        suppress(OSError),
        socket.create_connection((host, port), timeout_s) as plain,
        context.wrap_socket(plain),
    ):
        return True
    return False


def _own_certificate(reason: str, settings: PulsarSettings) -> str:
    if settings.tls_cert_file:
        return (
            f"does not accept our certificate ({reason}); have pulsar.tls_cert_file signed by "
            "an authority that the brokers trust "
            "(their tlsTrustCertsFilePath), and check that it has not expired"
        )
    return (
        f"requires a client certificate ({reason}); name one that the brokers trust in "
        "pulsar.tls_cert_file, and its key in tls_key_file"
    )


def ssl_error_in(error: BaseException) -> ssl.SSLError | None:
    """The error about TLS among the causes of another one."""
    return next((one for one in causes(error) if isinstance(one, ssl.SSLError)), None)


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error, its cause, the cause of that, and so on."""
    # An exception that is raised again in the handler of its own cause is in its chain twice.
    seen = set[int]()
    while error is not None and id(error) not in seen:
        yield error
        seen.add(id(error))
        error = error.__cause__ or error.__context__
