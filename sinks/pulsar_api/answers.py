"""What each status of Pulsar's admin API means, for all calls in one place (statuses as observed on Pulsar 4.2.4)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass

from strategies.errors import AdminError, BrokerUnavailable, NotFound, NotOwned, Refused, Unauthorized

_LONGEST_REASON = 300
_AGAIN_LATER = frozenset({425, 429, 503})
#: Something between us and the broker, or the broker itself, gave up waiting for work that may have been done.
_GAVE_UP = frozenset({408, 502, 504})
_BEING_UNLOADED = re.compile(r"\bNamespace bundle \S+ is being unloaded\b")


class Unanswered(BrokerUnavailable):
    """The call was sent, and nobody knows whether it was carried out: look before you repeat it."""


class Elsewhere(NotOwned):
    """A call with `follow=False` was redirected. `netloc`: host:port of the web service that the broker names, one of the cluster's."""

    def __init__(self, text: str, netloc: str) -> None:
        super().__init__(text)
        self.netloc = netloc


@dataclass(frozen=True, slots=True)
class Call:
    """One call. `path` is encoded and begins below the host; `what` names it in sentences: "the list of brokers".

    `at`: the broker to ask, None = whichever configured one answers. `repeatable`: asking twice does no harm.
    `missing`: further statuses by which Pulsar says that the subject does not exist.
    `follow`: go where a redirect leads; False raises Elsewhere.
    `proof`: whether a body shows that a broker of the cluster sent it; asked of addresses that only a file of an earlier process names.
    """

    what: str
    method: str
    path: str
    at: str | None = None
    body: bytes | None = None
    repeatable: bool = True
    missing: frozenset[int] = frozenset()
    follow: bool = True
    proof: Callable[[bytes], bool] = lambda _: True


def check_status(call: Call, host: str, status: int, body: bytes) -> None:
    """Nothing for a success; raises the AdminError of the status for everything else."""
    if not 200 <= status < 300:
        raise _error(call, host, status, reason_of(body))


def reason_of(body: bytes) -> str:
    """The line of Pulsar's answer that says what was wrong, printable and short."""
    text = body.decode("utf-8", errors="replace").strip()
    try:
        tree = json.loads(text)
        text = str(tree.get("reason") or tree.get("message") or "") if isinstance(tree, dict) else text
    except (ValueError, RecursionError):
        pass
    if text.startswith("<"):
        return ""  # a web server's page for people
    # Of what nobody foresaw Pulsar gives the whole stack trace; its first line names the exception and what it says.
    line = (text.partition("Stacktrace:")[2].strip() or text.strip()).partition("\n")[0].rstrip()
    return "".join(c if c.isprintable() else " " for c in line)[:_LONGEST_REASON]


def _error(call: Call, host: str, status: int, reason: str) -> AdminError:
    said = f"{host} answered {status} to {call.what}" + (f" ({reason})" if reason else "")
    if status == 401:
        return Unauthorized(
            f"{said}: Pulsar says so for a missing, broken or expired token, and for one without super-user rights; check the token in "
            "pulsar.token_file, and that its role is one of the brokers' superUserRoles."
        )
    if status == 403:
        return Unauthorized(f"{said}: the token's role may not do this; give it super-user rights (superUserRoles of the brokers).")
    if status == 404 or status in call.missing:
        return NotFound(f"{said}: there is no such thing (any more); look at its name, or wait for the next round to decide anew.")
    if status in _AGAIN_LATER:
        return BrokerUnavailable(f"{said}: it is busy or starting; try again in a while.")
    if status in _GAVE_UP:
        return Unanswered(f"{said}: it took too long; look at what came of it before you try again.")
    if _BEING_UNLOADED.search(reason):
        return NotOwned(f"{said}: ownership is changing; the next round decides again.")
    return _refused(said, status)


def _refused(said: str, status: int) -> Refused:
    if status == 409:
        return Refused(f"{said}: what the call names is not available at the moment; check that the destination is alive.")
    if 300 <= status < 400:
        return Refused(
            f"{said}, which leads nowhere; is there a proxy before the brokers? Name the brokers themselves in pulsar.admin_urls."
        )
    return Refused(f"{said}; the broker's log says more.")
