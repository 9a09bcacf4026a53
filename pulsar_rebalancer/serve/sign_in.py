"""Signs people in: a token with each request, or once for a browser's session; tokens of people,
their roles, and the sessions of their browsers.

Tokens and session ids are kept as digests, compared in constant time, and never printed.
"""

import asyncio
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

import orjson
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from sinks.secret_file import read_secret
from strategies.errors import SettingsError, raise_complaints

Role = Literal["viewer", "operator"]
_SETTING = "serve.token_file"
_NAME = re.compile(r"[\w.@ -]{1,64}")
#: Shorter tokens can be guessed.
_SHORTEST = 16
_SESSION_S = 12 * 3600
_MOST_SESSIONS = 1_000
#: Failed logins of one address within this time (s), and addresses that are remembered.
_MOST_FAILURES, _FAILURES_S, _MOST_ADDRESSES = 10, 60.0, 10_000


COOKIE = "rebalancer_session"
#: The header with which the page proves that a change is its own.
CSRF_HEADER = "x-csrf-token"
#: A body that does not arrive within this time (s) is given up.
_BODY_S = 10.0
NO_TOKENS = (
    "Only people with an operator token can decide on plans or move bundles here. Set "
    "serve.token_file to a file with a line operator:NAME:TOKEN, then start the page again."
)


@dataclass(frozen=True, slots=True)
class Viewer:
    """A person who is signed in. `csrf`: the secret that the page repeats with each change; empty
    for programs, which send their token with each request.
    """

    name: str
    role: Role
    csrf: str = field(default="", repr=False)

    @property
    def may_operate(self) -> bool:
        """True if the person may approve, deny, pause, resume and move bundles."""
        return self.role == "operator"


#: Each user of this machine, where no token file is set.
LOCAL_VIEWER = Viewer("local", "viewer")


def read_tokens(path: str) -> Mapping[bytes, Viewer]:
    """Digest of each token in a file, and to whom it belongs. Raises SettingsError, which names
    lines but no token.
    """
    try:
        lines = read_secret(path, _SETTING).reveal().decode("utf-8").splitlines()
    except UnicodeDecodeError:
        raise SettingsError([f"{_SETTING}: {path} is no text in UTF-8"]) from None
    complaints: list[str] = []
    entries: dict[bytes, Viewer] = {}
    names: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        role, _, rest = line.strip().partition(":")
        name, _, token = rest.partition(":")
        wrong = list(_complaints(role, name, token))
        if name in names:
            wrong.append(f"the name is also in line {names[name]}; each person has one line")
        if digest_of(token) in entries:
            wrong.append("the token is also another person's; each has an own one")
        complaints += [f"{_SETTING}: {path}, line {number}: {text}" for text in wrong]
        names[name] = number
        entries[digest_of(token)] = Viewer(name, "operator" if role == "operator" else "viewer")
    if not entries and not complaints:
        complaints.append(f"{_SETTING}: {path} has no line role:name:token; add one")
    raise_complaints(complaints)
    return entries


def _complaints(role: str, name: str, token: str) -> Iterator[str]:
    if role not in get_args(Role):
        yield "the line does not begin with viewer: or operator:; write role:name:token"
    elif not _NAME.fullmatch(name):
        yield "the name has other characters than letters, digits, spaces and _.@-, or over 64"
    elif len(token) < _SHORTEST:
        make = "make one with `openssl rand -hex 24`"
        yield f"the token is shorter than {_SHORTEST} characters; {make}"


def digest_of(text: str) -> bytes:
    """What tokens and sessions are looked up by: how long that takes says nothing about them."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


@dataclass(slots=True)
class Sessions:
    """Browsers that are signed in. `clock`: seconds. Only the server's event loop uses it."""

    clock: Callable[[], float]
    _open: dict[bytes, tuple[Viewer, float]] = field(default_factory=dict, repr=False)

    def begin(self, viewer: Viewer) -> tuple[str, Viewer]:
        """A new session: its id for the cookie, and the person with a secret against forged
        requests.
        """
        if len(self._open) >= _MOST_SESSIONS:
            del self._open[next(iter(self._open))]
        name, person = secrets.token_urlsafe(32), replace(viewer, csrf=secrets.token_urlsafe(32))
        self._open[digest_of(name)] = person, self.clock() + _SESSION_S
        return name, person

    def of(self, name: str) -> Viewer | None:
        """The person of a session id, or None."""
        found = self._open.get(digest_of(name))
        if found is None or self.clock() > found[1]:
            self._open.pop(digest_of(name), None)
            return None
        return found[0]

    def end(self, name: str) -> None:
        """Ends a session."""
        self._open.pop(digest_of(name), None)


@dataclass(slots=True)
class FailureLimit:
    """Counts failed logins per address, and says when there were too many. `clock`: seconds."""

    clock: Callable[[], float]
    _failed: dict[str, tuple[int, float]] = field(default_factory=dict)

    def wait_s(self, address: str) -> int:
        """Seconds that this address must wait; 0 if it need not."""
        count, until = self._failed.get(address, (0, 0.0))
        left = until - self.clock()
        return int(left) + 1 if count >= _MOST_FAILURES and left > 0 else 0

    def failed(self, address: str) -> None:
        """Counts a failure."""
        count, until = self._failed.pop(address, (0, 0.0))
        if self.clock() > until:
            count = 0
        if len(self._failed) >= _MOST_ADDRESSES:
            del self._failed[next(iter(self._failed))]
        self._failed[address] = count + 1, self.clock() + _FAILURES_S


@dataclass(frozen=True)
class SigningIn:
    """`tokens`: None = each user of this machine is a viewer; `secure`: cookies need TLS."""

    tokens: Mapping[bytes, Viewer] | None = field(repr=False)
    sessions: Sessions
    failures: FailureLimit
    secure: bool = False

    def viewer_of(self, request: Request) -> Viewer:
        """The person who sent the request. Raises HTTPException with 401 or 429."""
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
        found = None if self.tokens is None else self.tokens.get(digest_of(token))
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
        return self._person(self.viewer_of(request))

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
            max_age=_SESSION_S,
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
