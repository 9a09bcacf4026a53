"""Who may see the page: tokens of people, their roles, and the sessions of their browsers.

Tokens and session ids are kept as digests, compared in constant time, and never printed.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from sinks.secret_file import read_secret
from strategies.errors import SettingsError

Role = Literal["viewer", "operator"]
_SETTING = "serve.token_file"
_NAME = re.compile(r"[\w.@ -]{1,64}")
#: Shorter tokens can be guessed.
_SHORTEST = 16
_SESSION_S = 12 * 3600.0
_MOST_SESSIONS = 1_000
#: Failed logins of one address within this time (s), and addresses that are remembered.
_MOST_FAILURES, _FAILURES_S, _MOST_ADDRESSES = 10, 60.0, 10_000


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
        """Whether the person may approve, deny, pause and resume."""
        return self.role == "operator"


#: Each user of this machine, where no token file is set.
LOCAL_VIEWER = Viewer("local", "viewer")


@dataclass(frozen=True, slots=True)
class TokenBook:
    """Digest of each token, and to whom it belongs."""

    entries: tuple[tuple[bytes, Viewer], ...] = field(repr=False)

    def owner_of(self, token: str) -> Viewer | None:
        """The person with this token, or None. Compares with all, however early one fits."""
        given, found = _digest(token), None
        for digest, viewer in self.entries:
            if hmac.compare_digest(digest, given):
                found = viewer
        return found


def read_tokens(path: str) -> TokenBook:
    """The tokens in a file. Raises SettingsError, which names lines but no token."""
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
        if _digest(token) in entries:
            wrong.append("the token is also another person's; each has an own one")
        complaints += [f"{_SETTING}: {path}, line {number}: {text}" for text in wrong]
        names[name] = number
        entries[_digest(token)] = Viewer(name, "operator" if role == "operator" else "viewer")
    if not entries and not complaints:
        complaints.append(f"{_SETTING}: {path} has no line role:name:token; add one")
    if complaints:
        raise SettingsError(complaints)
    return TokenBook(tuple(entries.items()))


def _complaints(role: str, name: str, token: str) -> Iterator[str]:
    if role not in get_args(Role):
        yield "the line does not begin with viewer: or operator:; write role:name:token"
    elif not _NAME.fullmatch(name):
        yield "the name has other characters than letters, digits, spaces and _.@-, or over 64"
    elif len(token) < _SHORTEST:
        make = "make one with `openssl rand -hex 24`"
        yield f"the token is shorter than {_SHORTEST} characters; {make}"


def _digest(text: str) -> bytes:
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
        self._open[_digest(name)] = person, self.clock() + _SESSION_S
        return name, person

    def of(self, name: str) -> Viewer | None:
        """The person of a session id, or None."""
        found = self._open.get(_digest(name))
        if found is None or self.clock() > found[1]:
            self._open.pop(_digest(name), None)
            return None
        return found[0]

    def end(self, name: str) -> None:
        """Ends a session."""
        self._open.pop(_digest(name), None)

    @property
    def lasts_s(self) -> int:
        """How long a session lasts."""
        return int(_SESSION_S)


@dataclass(slots=True)
class FailureLimit:
    """Counts failed logins per address, and says when there were too many. `clock`: seconds."""

    clock: Callable[[], float]
    _failed: dict[str, tuple[int, float]] = field(default_factory=dict)

    def wait_s(self, address: str) -> int:
        """How long this address must wait; 0 if it need not."""
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
