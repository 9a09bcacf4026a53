"""Converts statuses of Pulsar's admin API to errors, for all calls (statuses as observed on Pulsar
4.2.4).
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from strategies import errors

_BEING_UNLOADED = re.compile(r"\bNamespace bundle \S+ is being unloaded\b")


class Unanswered(errors.BrokerUnavailable):
    """The call was sent and may or may not have been executed: check before you repeat it."""


class Busy(errors.BrokerUnavailable):
    """The broker answered at once that it cannot serve the call now."""


class Declined(errors.Refused):
    """The broker refused what the call asks for, and would refuse it again: this says nothing about
    the state of the cluster.
    """


class Elsewhere(errors.NotOwned):
    """A redirect of a call with `follow=False`. `netloc`: host:port of the web service in the
    redirect, a broker of the cluster.
    """

    def __init__(self, text: str, netloc: str) -> None:
        super().__init__(text)
        self.netloc = netloc


class Missing(errors.NotFound):
    """What Pulsar itself says does not exist. `reason`: its words."""

    def __init__(self, text: str, reason: str) -> None:
        super().__init__(text)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Call:
    """One call. `path` is encoded, without scheme and host; `what` names the call in messages, for
    example "the list of brokers".

    `at`: the broker to ask; None = any configured one. `repeatable`: repeating the call does no
    harm.
    `missing`: further statuses with which Pulsar reports that the subject does not exist.
    `follow`: follow redirects; False raises Elsewhere.
    `most`: largest body in bytes; a larger one raises Refused.
    """

    what: str
    path: str
    method: str = "GET"
    at: str | None = None
    body: bytes | None = None
    repeatable: bool = True
    missing: frozenset[int] = frozenset()
    follow: bool = True
    most: int = 256 * 2**20


_BUSY = (Busy, ": the broker is busy or starting; try again later.")
#: A proxy or the broker stopped waiting for work that may have been done.
_GAVE_UP = (Unanswered, ": the call timed out; check its effect before you try again.")
_REDIRECT = (
    errors.Refused,
    ", a redirect without usable address; if there is a proxy, name the brokers themselves in "
    "pulsar.admin_urls.",
)
_DECLINED = (Declined, ": the broker does not do what was asked; its reason and its log say why.")
_OTHER = (errors.Refused, "; see the broker's log.")
#: A page of another server at this address, such as a proxy, says nothing about the subject.
_NOT_PULSAR = (
    errors.Refused,
    ", which is not an answer of Pulsar: correct pulsar.admin_urls; name the web service of a "
    "broker (webServicePort in its broker.conf), without a proxy in between.",
)
#: Status → our error and the end of its text.
_MEANINGS: Mapping[int, tuple[type[errors.AdminError], str]] = {
    **dict.fromkeys(range(300, 400), _REDIRECT),
    **dict.fromkeys(range(400, 500), _DECLINED),
    401: (
        errors.Unauthorized,
        ": the token is missing, invalid or expired, or its role is not a super user; check the "
        "token in pulsar.token_file, and that its role is in the brokers' superUserRoles.",
    ),
    403: (
        errors.Unauthorized,
        ": the token's role lacks the permission; make it a super user (superUserRoles of the "
        "brokers).",
    ),
    404: (
        errors.NotFound,
        ": it does not exist (any more); check the name, or wait for the decision of the next "
        "round.",
    ),
    409: (
        Declined,
        ": the subject of the call is not available; check that the destination is alive.",
    ),
    **dict.fromkeys((425, 429, 503), _BUSY),
    **dict.fromkeys((408, 502, 504), _GAVE_UP),
}


def reason_of(body: bytes) -> str:
    """The line of Pulsar's answer that gives the reason, printable and short."""
    text = body.decode("utf-8", errors="replace").strip()
    try:
        tree = json.loads(text)
        text = (
            str(tree.get("reason") or tree.get("message") or "") if isinstance(tree, dict) else text
        )
    except (ValueError, RecursionError):
        pass
    if text.startswith("<"):
        return ""  # an HTML page
    # For unexpected errors Pulsar sends the whole stack trace; its first line has the exception and
    # its message.
    line = (text.partition("Stacktrace:")[2].strip() or text.strip()).partition("\n")[0].rstrip()
    return "".join(c if c.isprintable() else " " for c in line)[:300]


def check_status(call: Call, host: str, status: int, body: bytes) -> None:
    """Returns for a success; raises the AdminError of any other status."""
    if 200 <= status < 300:
        return
    reason = reason_of(body)
    kind, step = _MEANINGS.get(404 if status in call.missing else status, _OTHER)
    if kind is errors.NotFound and not _is_of_pulsar(body):
        kind, step = _NOT_PULSAR
    if issubclass(kind, errors.Refused) and _BEING_UNLOADED.search(reason):
        kind, step = errors.NotOwned, ": ownership is changing; the next round decides again."
    said = f"{host} answered {status} to {call.what}" + (f" ({reason})" if reason else "")
    raise Missing(said + step, reason) if kind is errors.NotFound else kind(said + step)


def _is_of_pulsar(body: bytes) -> bool:
    """True if an answer has the form of Pulsar's errors, `{"reason": …}`."""
    try:
        tree = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return isinstance(tree, dict) and "reason" in tree
