"""Signs people in: a token with each request, or once for a browser's session."""

from __future__ import annotations

import asyncio
import hmac
from dataclasses import dataclass

import orjson
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from pulsar_rebalancer.serve.tokens import LOCAL_VIEWER, FailureLimit, Sessions, TokenBook, Viewer

COOKIE = "rebalancer_session"
#: The header with which the page proves that a change is its own.
CSRF_HEADER = "x-csrf-token"
#: A body that does not arrive within this time (s) is given up.
_BODY_S = 10.0
NO_TOKENS = (
    "Plans and the executor can be decided on here only by people with an operator token. Set "
    "serve.token_file to a file with a line operator:NAME:TOKEN, then start the page again."
)


@dataclass(frozen=True)
class SigningIn:
    """`tokens`: None = each user of this machine is a viewer; `secure`: cookies need TLS."""

    tokens: TokenBook | None
    sessions: Sessions
    failures: FailureLimit
    secure: bool = False

    def viewer_of(self, request: Request) -> Viewer:
        """Who sent the request. Raises HTTPException with 401 or 429."""
        if self.tokens is None:
            return LOCAL_VIEWER
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return self._owner_of(token.strip(), request)
        found = self.sessions.of(request.cookies.get(COOKIE, ""))
        if found is None:
            raise HTTPException(401, "Sign in with your token.", {"WWW-Authenticate": "Bearer"})
        return found

    def operator_of(self, request: Request) -> Viewer:
        """The operator who sent the request. Raises HTTPException with 401, 403 or 429."""
        viewer = self.viewer_of(request)
        if not viewer.may_operate:
            raise HTTPException(
                403, NO_TOKENS if self.tokens is None else "This needs the role operator."
            )
        self.check_own(viewer, request)
        return viewer

    def check_own(self, viewer: Viewer, request: Request) -> None:
        """Raises HTTPException with 403 unless our own page sent the request of a session."""
        given = request.headers.get(CSRF_HEADER, "")
        if viewer.csrf and not hmac.compare_digest(viewer.csrf.encode(), given.encode()):
            raise HTTPException(403, "The request lacks the page's own secret; reload the page.")

    def _owner_of(self, token: str, request: Request) -> Viewer:
        """Compares first: behind a proxy all people share the address of who guesses."""
        found = None if self.tokens is None else self.tokens.owner_of(token)
        if found is not None:
            return found
        address = request.client.host if request.client else ""
        wait_s = self.failures.wait_s(address)
        if wait_s:
            raise HTTPException(
                429, f"Too many wrong tokens; wait {wait_s} s.", {"Retry-After": str(wait_s)}
            )
        self.failures.failed(address)
        raise HTTPException(401, "No such token.", {"WWW-Authenticate": "Bearer"})

    async def who_is_it(self, request: Request) -> Response:
        """Name, role and the page's secret of the person who sent the request."""
        viewer = self.viewer_of(request)
        return self._person(viewer)

    def _person(self, viewer: Viewer) -> Response:
        reason = NO_TOKENS if self.tokens is None else "This needs the role operator."
        return JSONResponse(
            {
                "name": viewer.name,
                "role": viewer.role,
                "csrf": viewer.csrf,
                "signed_in": self.tokens is not None,
                "may_operate": viewer.may_operate,
                "why_not": "" if viewer.may_operate else reason,
            },
            headers={"Cache-Control": "no-store"},
        )

    async def sign_in(self, request: Request) -> Response:
        """Begins the session of the person whose token the body has."""
        if self.tokens is None:
            return self._person(LOCAL_VIEWER)
        token = (await json_of(request)).get("token")
        if not isinstance(token, str):
            raise HTTPException(400, "The body has no text named token.")
        name, viewer = self.sessions.begin(self._owner_of(token, request))
        response = self._person(viewer)
        response.set_cookie(
            COOKIE,
            name,
            max_age=self.sessions.lasts_s,
            path="/",
            secure=self.secure,
            httponly=True,
            samesite="strict",
        )
        return response

    async def sign_out(self, request: Request) -> Response:
        """Ends the session."""
        if self.tokens is not None:
            self.check_own(self.viewer_of(request), request)
            self.sessions.end(request.cookies.get(COOKIE, ""))
        response = Response(status_code=204)
        response.delete_cookie(
            COOKIE, path="/", secure=self.secure, httponly=True, samesite="strict"
        )
        return response


async def json_of(request: Request) -> dict[str, object]:
    """The JSON object in a body. Raises HTTPException with 400, 408, 413 or 415."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise HTTPException(415, "Send the body as application/json.")
    try:
        async with asyncio.timeout(_BODY_S):
            body = await request.body()
    except TimeoutError:
        raise HTTPException(408, "The body did not arrive in time.") from None
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise HTTPException(400, "The body is no JSON.") from None
    if not isinstance(found, dict):
        raise HTTPException(400, "The body is no JSON object.")
    return found
