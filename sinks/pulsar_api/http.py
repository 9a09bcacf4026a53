"""HTTP client for brokers: follows redirects itself, enforces deadlines, retries repeatable calls,
protects the token.

HTTP clients that follow a redirect to another host drop the Authorization header, and the
redirected unload then gets 401. Here method, body and token are sent again, but only to brokers
that the cluster itself lists, and never from https to http.
"""

import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import NoReturn
from urllib.parse import urljoin, urlsplit

from sinks.pulsar_api.admin_errors import Call, Elsewhere, Unanswered, check_status
from sinks.pulsar_api.connection_tls_and_token import (
    AdminUrl,
    KnownBrokers,
    PulsarSettings,
    admin_urls,
    base_of,
    check_brackets,
    message_of,
    tls_context,
    token_header,
)
from sinks.pulsar_api.http_exchange import (
    Answer,
    HttpConnections,
    LateConnection,
    NotConnected,
    TooLarge,
    speaks_tls,
    tls_complaint,
    tls_obstacle,
)
from sinks.wire.names_and_times import is_broker
from strategies.errors import BrokerUnavailable, NotOwned, Refused

_MOST_HOPS = 6
_LONGEST_PAUSE_S = 30.0
#: Idle connections of a client, those used last: to find one among many costs more than the call.
_KEPT = 16

#: Sleeps for a number of seconds; returns True if the program is to end, which stops all retries.
Wait = Callable[[float], bool]


@dataclass(frozen=True, slots=True)
class _Window:
    """Start of a call and deadline of an exchange, of `time.monotonic()`."""

    began: float
    until: float


class PulsarHttp:
    """Thread-safe. `list_brokers`: asks the cluster for its brokers, to check redirects."""

    def __init__(
        self,
        settings: PulsarSettings,
        list_brokers: Callable[[], frozenset[str]],
        wait: Wait | None = None,
        *,
        keep_open: bool = True,
        deadline_name: str = "pulsar.deadline_ms",
        known: KnownBrokers | None = None,
    ) -> None:
        """Opens no connection yet. Without `keep_open` every connection serves one call. Raises
        SettingsError.

        `deadline_name`: the setting that `settings.deadline_ms` comes from. `known`: brokers to ask
        besides `pulsar.admin_urls`.
        """
        self._deadline_name = deadline_name
        self._settings = settings
        self._urls = admin_urls(settings)
        self.known = known or KnownBrokers(settings)
        self._list_brokers = list_brokers
        self._wait = wait or _sleep
        self._tls = tls_context(settings)
        self._connections = HttpConnections(
            self._tls, _KEPT if keep_open else 0, settings.connect_timeout_ms / 1000
        )
        self._known = frozenset(url.netloc for url in self._urls)
        self._refreshing = threading.local()
        token_header(settings)

    def ask(self, call: Call) -> bytes:
        """Returns the body of a successful answer. Raises AdminError; SettingsError if the token's
        file has become unreadable.
        """
        if call.at is not None:
            check_brackets(call.at)
        bases = (
            self.known.bases()
            if call.at is None
            else (base_of(call.at, self._urls, self._settings),)
        )
        began = time.monotonic()
        deadline = min(
            began + self._settings.deadline_ms / 1000,
            getattr(self._refreshing, "until", float("inf")),
        )
        failed: list[BrokerUnavailable] = []
        for attempt in count(1):
            base = bases[(attempt - 1) % len(bases)]
            # A broker that accepts the call and does not answer leaves time for the next one.
            share = 2 if call.repeatable and attempt < len(bases) else 1
            now = time.monotonic()
            try:
                body = self._exchange(call, base, _Window(began, now + (deadline - now) / share))
                if call.at is None:
                    self.known.helped(base, failed[0] if failed else None)
                return body
            except BrokerUnavailable as error:
                if call.at is None:
                    self.known.failed(base)
                failed.append(error)
                if not (call.repeatable or isinstance(error, _NeverSent)) or attempt >= max(
                    self._settings.attempts, len(bases)
                ):
                    raise self._all_failed(failed, bases) from error
                rounds, place = divmod(attempt, len(bases))
                if place == 0 and not self._pause(rounds, deadline):
                    raise self._all_failed(failed, bases) from error
        raise AssertionError("count() has no end")

    def _all_failed(
        self, failed: Sequence[BrokerUnavailable], bases: Sequence[AdminUrl]
    ) -> BrokerUnavailable:
        """The error after all addresses failed: the last one, or the first one with the number of
        other brokers.
        """
        first, last = failed[0], failed[-1]
        fallbacks = sum(map(self.known.is_fallback, bases))
        if not fallbacks or len(bases) == 1:
            return last
        return type(last)(
            f"{first} None of {fallbacks} more brokers of the cluster answers either."
        )

    def broker_at(self, netloc: str, brokers: Sequence[str]) -> str | None:
        """The broker among these whose web service is at `netloc` (host:port)."""
        return next(
            (
                broker
                for broker in brokers
                if base_of(broker, self._urls, self._settings).netloc == netloc
            ),
            None,
        )

    def close(self) -> None:
        """Closes all connections, those of calls that other threads begin later at their end."""
        self._connections.close()

    def _pause(self, rounds: int, deadline: float) -> bool:
        """Sleeps before a retry. Returns False if the deadline or a stop ends the retries."""
        seconds = min(_LONGEST_PAUSE_S, self._settings.backoff_ms / 1000 * 2.0 ** (rounds - 1))
        return time.monotonic() + seconds < deadline and not self._wait(seconds)

    def _exchange(self, call: Call, base: AdminUrl, window: _Window) -> bytes:
        """One call with all its redirects."""
        url = f"{base}{call.path}"
        for _ in range(_MOST_HOPS):
            answer = self._send(call, url, window)
            location = answer.headers.get("location")
            if answer.status not in (301, 302, 303, 307, 308) or not location:
                check_status(call, _host(url), answer.status, self._without_token(answer.body))
                return answer.body
            asked, url = _host(url), self._redirected(call, url, location, window.until)
            if not call.follow:
                raise Elsewhere(f"{asked} names {_host(url)} in answer to {call.what}", _host(url))
        raise NotOwned(
            f"{call.what} was redirected {_MOST_HOPS} times, last to {_host(url)}: no broker "
            "claims the bundle (ownership is changing); "
            "the next round decides again."
        )

    def _send(self, call: Call, url: str, window: _Window) -> Answer:
        """Sends one request and converts foreign exceptions to ours."""
        import httpx

        if time.monotonic() >= window.until:
            raise self._late(call, url, window)
        headers = {
            "Accept": "application/json, text/plain, */*",
            "User-Agent": "pulsar-rebalancer",
            **token_header(self._settings),
        }
        if call.body is not None:
            headers["Content-Type"] = "application/json"
        try:
            return self._connections.exchange(
                call.method,
                url,
                headers=headers,
                body=call.body,
                until=window.until,
                most=call.most,
            )
        except TooLarge as error:
            raise Refused(
                f"{_host(url)} answered {call.what} with more than {call.most} bytes; "
                "the address is not a broker's."
            ) from error
        except NotConnected as error:
            raise _NeverSent(self._no_connection(call, url, error)) from error
        except TimeoutError as error:
            raise self._late(call, url, window) from error
        except (httpx.TransportError, httpx.InvalidURL, ssl.SSLError) as error:
            obstacle = tls_obstacle(error, self._settings) or self._unsaid_obstacle(
                error, url, window
            )
            if obstacle:
                raise Unanswered(
                    f"{_host(url)} {obstacle}: {call.what} was not answered."
                ) from error
            raise Unanswered(
                f"{_host(url)} closed the connection during {call.what} ({message_of(error)}); "
                "check the broker and its log."
            ) from error

    def _no_connection(self, call: Call, url: str, error: Exception) -> str:
        obstacle = tls_obstacle(error, self._settings)
        if obstacle:
            return f"{_host(url)} {obstacle}: {call.what} was not asked."
        if isinstance(error, LateConnection) and error.in_handshake:
            return (
                f"{_host(url)} did not finish the TLS handshake within "
                f"{self._settings.connect_timeout_ms / 1000:g} s: {call.what} was not asked; "
                "check that this port is one with TLS (webServicePortTls)."
            )
        return (
            f"{_host(url)} does not accept connections ({message_of(error)}): {call.what} was not "
            "asked; start the broker, or correct "
            "pulsar.admin_urls."
        )

    def _unsaid_obstacle(self, error: Exception, url: str, window: _Window) -> str:
        """Connects once more: after an answer that was not HTTP, because a plain port may speak
        TLS, and after a reset, which may have lost the server's objection to our certificate.
        """
        import httpx

        host, _, port = _host(url).rpartition(":")
        timeout_s = min(self._settings.connect_timeout_ms / 1000, window.until - time.monotonic())
        if not port.isdecimal() or timeout_s <= 0:
            return ""
        host = host.strip("[]")
        if urlsplit(url).scheme == "https":
            if not isinstance(error, httpx.NetworkError):
                return ""
            with (
                suppress(OSError),
                socket.create_connection((host, int(port)), timeout_s) as plain,
            ):
                return tls_complaint(plain, host, self._tls, self._settings)
            return ""
        if not speaks_tls(host, int(port), timeout_s):
            return ""
        return (
            "speaks TLS at this port; write https:// in pulsar.admin_urls, or name the port "
            "without TLS (webServicePort)"
        )

    def _late(self, call: Call, url: str, window: _Window) -> Unanswered:
        return Unanswered(
            f"{_host(url)} did not answer {call.what} within {window.until - window.began:.3g} s; "
            f"check the broker, or raise {self._deadline_name}."
        )

    def _redirected(self, call: Call, url: str, location: str, deadline: float) -> str:
        """The address of a redirect, if the token may be sent there."""
        try:
            target = urljoin(url, location)
            parts = urlsplit(target)
            netloc = (
                parts.netloc.rpartition("@")[2]
                if parts.port
                else f"{parts.hostname}:{443 if parts.scheme == 'https' else 80}"
            )
        except ValueError:
            self._refuse_redirect(call, url, "an invalid address")
        if "@" in parts.netloc or parts.scheme != self._urls[0].scheme or not is_broker(netloc):
            self._refuse_redirect(call, url, f"{parts.scheme}://{netloc}")
        if not self._is_known(netloc, deadline):
            self._refuse_redirect(call, url, netloc)
        return target

    def _refuse_redirect(self, call: Call, url: str, where: str) -> NoReturn:
        raise Refused(
            f"{_host(url)} redirects {call.what} to {where}, which is no broker in the "
            "cluster's list: not followed, and the token was not "
            "sent; add the address to pulsar.admin_urls if it is one of yours."
        )

    def _is_known(self, netloc: str, deadline: float) -> bool:
        """True if the address is a broker of the cluster; lists the brokers again, within the
        call's deadline: it may have just joined.
        """
        if netloc in self._known:
            return True
        if hasattr(self._refreshing, "until"):  # this thread checks another call's redirect
            return False
        self._refreshing.until = deadline
        try:
            listed = {
                base_of(broker, self._urls, self._settings).netloc
                for broker in self._list_brokers()
            }
        finally:
            del self._refreshing.until
        self._known = frozenset(listed) | {url.netloc for url in self._urls}
        return netloc in self._known

    def _without_token(self, body: bytes) -> bytes:
        """Removes the token from a body: a proxy may repeat what it received."""
        token = token_header(self._settings).get("Authorization", "").removeprefix("Bearer ")
        return body.replace(token.encode(), b"(token)") if token else body


class _NeverSent(BrokerUnavailable):
    """No connection was made, so the call was not executed."""


def _sleep(seconds: float) -> bool:
    time.sleep(seconds)
    return False


def _host(url: str) -> str:
    with suppress(ValueError):
        return urlsplit(url).netloc.rpartition("@")[2]
    return "the broker"
