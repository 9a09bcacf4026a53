"""Checks every request before the page sees it, and adds the headers that protect browsers.

A request to a foreign host name is refused (another site's name that leads to this machine), and so
is one that another site's page has sent.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
#: Largest body of a request (bytes).
LARGEST_BODY = 16 * 2**10
_READING = frozenset({"GET", "HEAD"})
_METHODS = _READING | {"POST", "DELETE"}
_LONGEST_TARGET = 4_096
_HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        b"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
)


@dataclass(frozen=True, slots=True)
class RefusedRequest:
    """An answer instead of the page's: status and sentence."""

    status: int
    text: str


@dataclass(frozen=True)
class RequestGuard:
    """The page behind its checks. `hosts`: names that a request may be for, empty = any;
    `answered`: gets route, status and method of each request; `log`: gets unexpected errors.
    """

    app: App
    hosts: frozenset[str]
    answered: Callable[[str, int], None]
    log: Callable[[str], None]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request."""
        if scope["type"] != "http":
            return
        status, gone = 0, False

        async def send_guarded(message: dict[str, Any]) -> None:
            nonlocal status, gone
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*message.get("headers", ()), *_HEADERS]}
            try:
                await send(message)
            except Exception:
                gone = True  # the client broke the protocol or the connection
                raise

        refusal = refused(scope, self.hosts)
        try:
            if refusal is None:
                await self.app(scope, receive, send_guarded)
            else:
                await _answer(refusal, send_guarded)
        except Exception as error:
            if gone:
                return
            # The text of the error may contain names from records, but no secret: those have no
            # text.
            self.log(
                f"a request failed, please report this as a bug: {type(error).__name__}: {error}"
            )
            if not status:
                await _answer(
                    RefusedRequest(500, "The page failed; its log says why."), send_guarded
                )
        finally:
            self.answered(str(scope.get("route_name", "refused")), status)


def refused(scope: Scope, hosts: frozenset[str]) -> RefusedRequest | None:
    """Why a request is refused before anybody looks at it, or None."""
    headers = scope["headers"]
    host = _only(headers, b"host")
    if scope["method"] not in _METHODS:
        return RefusedRequest(405, "Only GET, HEAD, POST and DELETE are served.")
    if len(scope["path"]) + len(scope["query_string"]) > _LONGEST_TARGET:
        return RefusedRequest(414, "The address is too long.")
    name = _host_name(host)
    if name is None:
        return RefusedRequest(400, "The request has no valid Host header.")
    if hosts and name not in hosts:
        return RefusedRequest(
            421, "The page is not served under this name; add it to serve.hosts if it should be."
        )
    if _size(headers) > LARGEST_BODY:
        return RefusedRequest(413, f"A request has at most {LARGEST_BODY} bytes.")
    if _only(headers, b"sec-fetch-site") == "cross-site" and _is_data(scope):
        return RefusedRequest(403, "Another site's page sent the request.")
    origin = _only(headers, b"origin")
    if scope["method"] not in _READING and origin is not None and not _same(origin, host, scope):
        return RefusedRequest(403, "Another site's page sent the request.")
    return None


def _is_data(scope: Scope) -> bool:
    return str(scope["path"]).startswith("/api/")


def _same(origin: str, host: str | None, scope: Scope) -> bool:
    """Whether the page of this origin came from this host. The scheme may differ where a proxy ends
    TLS.
    """
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and parts.netloc.lower() == (host or "").lower()


def _only(headers: list[tuple[bytes, bytes]], name: bytes) -> str | None:
    """The value of a header that is there once; None otherwise."""
    found = [value for key, value in headers if key == name]
    return found[0].decode("latin-1") if len(found) == 1 else None


def _host_name(host: str | None) -> str | None:
    """The name without port and brackets, in lower case."""
    if not host or any(character in host for character in "/@\\ "):
        return None
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


def _size(headers: list[tuple[bytes, bytes]]) -> int:
    value = _only(headers, b"content-length")
    return int(value) if value is not None and value.isascii() and value.isdecimal() else 0


async def _answer(refusal: RefusedRequest, send: Send) -> None:
    body = json.dumps({"error": refusal.text}).encode()
    await send(
        {
            "type": "http.response.start",
            "status": refusal.status,
            "headers": [
                (b"content-type", b"application/json"),
                (b"content-length", str(len(body)).encode()),
                (b"cache-control", b"no-store"),
            ],
        }
    )
    await send({"type": "http.response.body", "body": body})
