"""Guards the page: refuses requests before the page sees them, and adds the headers that protect
browsers.

A request to a foreign host name is refused (another site's name that leads to this machine), and so
is one that another site's page has sent.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src "
    "'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


@dataclass(frozen=True)
class RequestGuard:
    """The page behind its checks. `hosts`: names that a request may be for, empty = any;
    `answered`: gets route and status of each request.
    """

    app: ASGIApp
    hosts: frozenset[str]
    answered: Callable[[str, int], None]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request."""
        if scope["type"] != "http":
            return
        status = 0

        async def send_protected(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message).update(_HEADERS)
            try:
                await send(message)
            except Exception as error:
                raise ClientDisconnect from error

        try:
            refusal = refusal_of(Request(scope), self.hosts)
            await (refusal or self.app)(scope, receive, send_protected)
        finally:
            self.answered(getattr(scope.get("route"), "path", "refused"), status)


def json_error(status: int, text: str, headers: Mapping[str, str] | None = None) -> Response:
    """An answer that says what is wrong with the request."""
    kept = {**(headers or {}), "Cache-Control": "no-store"}
    return JSONResponse({"error": text}, status_code=status, headers=kept)


def refusal_of(request: Request, hosts: frozenset[str]) -> Response | None:
    """The answer to a request that the page does not see."""
    host = request.headers.get("host", "")
    name = _host_name(host)
    if name is None:
        return json_error(400, "The request has no valid Host header.")
    if hosts and name not in hosts:
        return json_error(
            421, "The page is not served under this name; add it to serve.hosts if it should be."
        )
    if _is_foreign(request, host):
        return json_error(403, "Another site's page sent the request.")
    return None


def _is_foreign(request: Request, host: str) -> bool:
    """True if another site's page sent the request. The scheme may differ where a proxy ends
    TLS.
    """
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site == "cross-site" and request.scope["path"].startswith("/api/"):
        return True
    if request.method in ("GET", "HEAD") or origin is None:
        return False
    return origin.lower() not in (f"http://{host}".lower(), f"https://{host}".lower())


def _host_name(host: str) -> str | None:
    """The name without port and brackets, in lower case."""
    if any(character in host for character in "/@\\ "):
        return None
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None
