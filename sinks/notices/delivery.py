"""A notice, its two forms (a JSON document, and a message for Slack's incoming webhooks), and its
delivery to a webhook: signed, repeated with back-off; no message contains a secret.

For Slack, all words from records are in `plain_text` objects, which it does not format. The three
characters that it interprets everywhere are escaped. Sources: Slack's pages "Formatting text for
app surfaces" and "Block Kit: blocks, composition objects", for the limits too.

Signatures follow Standard Webhooks (standardwebhooks.com): HMAC-SHA256 over id, time and body.
"""

import hashlib
import hmac
import json
import random
import ssl
import time
from base64 import b64encode
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from html import escape
from itertools import accumulate
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from sinks.notices.settings import NoticeSettings, Webhook
from sinks.pulsar_api.http_exchange import HttpConnections, NotConnected, TooLarge
from sinks.secret_file import Secret
from strategies.errors import SettingsError

#: Maximum characters of a section's text, of a header, and of the text of a message that Slack does
#: not cut.
SECTION, HEADER, MESSAGE = 3_000, 150, 4_000


class NoticeCause(msgspec.Struct, frozen=True):
    """Why: a stable code, a sentence, and what to do."""

    code: str
    text: str
    advice: str


class Notice(msgspec.Struct, frozen=True):
    """A message about one cluster.

    `kind`: the state of a round that lasts, `ended`, or an event (see `settings.EVENTS`); `title`:
    one line; `ts`: of the record that caused it, `since`: when the change began, both in ms since
    the epoch; `ended`: the kind that is over; `picture`: the cluster in words; `command`: the id of
    the command that an outcome is about.
    """

    kind: str
    cluster: str
    title: str
    ts: int
    since: int
    cause: NoticeCause
    ended: str | None = None
    plan: str | None = None
    command: str | None = None
    picture: str | None = None
    link: str | None = None

    @property
    def id(self) -> str:
        """Derived from the content, so that repeated deliveries have the same id. The picture and
        the link only accompany the change.
        """
        change = replace(self, picture=None, link=None)
        return hashlib.blake2b(msgspec.json.encode(change), digest_size=16).hexdigest()


def as_json(notice: Notice) -> bytes:
    """The JSON document: ASCII, on one line."""
    content = {"v": 1, "id": notice.id, **msgspec.to_builtins(notice)}
    return json.dumps(content, separators=(",", ":")).encode("ascii")


def as_slack(notice: Notice) -> bytes:
    """The message: ASCII, on one line."""
    words = (notice.title, notice.cause.text, notice.cause.advice)
    message = {
        "text": clipped(" — ".join(filter(None, words)), MESSAGE),
        "blocks": list(_blocks(notice)),
    }
    return json.dumps(message, separators=(",", ":")).encode("ascii")


def _blocks(notice: Notice) -> Iterator[Mapping[str, Any]]:
    yield {"type": "header", "text": _plain(notice.title, HEADER)}
    words = (notice.cause.text or notice.cause.code, notice.cause.advice, notice.picture)
    for text in filter(None, words):
        yield {"type": "section", "text": _plain(text, SECTION)}
    if notice.link:
        text = f"<{escape(notice.link, quote=False)}|Show the cluster>"
        yield {"type": "section", "text": {"type": "mrkdwn", "text": text, "verbatim": True}}
    named = {"notice": notice.id, "plan": notice.plan, "command": notice.command}
    about = ", ".join(f"{name} {value}" for name, value in named.items() if value)
    yield {"type": "context", "elements": [_plain(about, SECTION)]}


def _plain(text: str, most: int) -> Mapping[str, Any]:
    return {"type": "plain_text", "text": clipped(text, most), "emoji": False}


def clipped(text: str, most: int) -> str:
    """The text, escaped and on one line, with at most `most` characters; longer ones end with an
    ellipsis. No escape is cut in two.
    """
    parts = [_escaped(character) for character in text]
    ends = list(accumulate(map(len, parts)))
    if not ends or ends[-1] <= most:
        return "".join(parts)
    return f"{''.join(parts[: bisect_right(ends, most - 1)])}…"


def _escaped(character: str) -> str:
    if character.isprintable():
        return escape(character, quote=False)
    return f"\\u{ord(character):04x}"


_LARGEST_ANSWER = 2**20
_LONGEST_PAUSE_S = 300.0
#: Longest pause that a server may ask for.
_LONGEST_RETRY_AFTER_S = 3_600.0
#: Errors of the request that may pass.
_PASSING = frozenset({408, 425, 429})

Fate = Literal["delivered", "again", "given-up", "stopped"]


@dataclass(frozen=True, slots=True)
class Reply:
    """The end of a delivery. `code`: the HTTP status, or `unreachable`, `timeout`, `broken`;
    `text`: the same in words, with the host only; `retry_after_s`: the pause that the server asks
    for.
    """

    code: str
    text: str
    retry_after_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Attempt:
    """One delivery of a notice. `pause_s`: before the next one, if the fate is `again`."""

    notice: Notice
    number: int
    reply: Reply
    fate: Fate
    pause_s: float = 0.0


def fate_of(
    reply: Reply, number: int, settings: NoticeSettings, chance: float
) -> tuple[Fate, float]:
    """What follows from the reply to delivery `number` (from 1), and the pause before the next one
    in seconds. `chance`: a random number from 0 to 1, which shortens the pause by up to a half.
    """
    if reply.code.startswith("2"):
        return "delivered", 0.0
    permanent = (
        reply.code[:1] in "34" and reply.code.isdecimal() and int(reply.code) not in _PASSING
    )
    if permanent or number >= settings.attempts:
        return "given-up", 0.0
    backoff_s = min(settings.backoff_ms / 1000 * 2.0 ** min(number - 1, 30), _LONGEST_PAUSE_S)
    return "again", max(backoff_s * (1 - chance / 2), reply.retry_after_s)


def headers_of(notice: Notice, body: bytes, hook: Webhook, now_s: int) -> Mapping[str, str]:
    """The headers of one delivery. `now_s`: seconds since the epoch, signed with the body."""
    found = {
        "Content-Type": "application/json",
        "User-Agent": "pulsar-rebalancer",
        "webhook-id": notice.id,
        "webhook-timestamp": str(now_s),
    }
    if hook.keys:
        signatures = (signature(key, notice.id, now_s, body) for key in hook.keys)
        found["webhook-signature"] = " ".join(signatures)
    if hook.authorization is not None:
        found["Authorization"] = hook.authorization.reveal().decode("ascii")
    return found


def signature(key: Secret, notice_id: str, now_s: int, body: bytes) -> str:
    """`v1,` and the Base64 of the HMAC over `id.time.body`."""
    signed = f"{notice_id}.{now_s}.".encode() + body
    return "v1," + b64encode(hmac.digest(key.reveal(), signed, hashlib.sha256)).decode()


class Delivery:
    """Sends notices to one webhook. Not thread-safe."""

    def __init__(
        self,
        hook: Webhook,
        settings: NoticeSettings,
        wait: Callable[[float], bool],
        on_attempt: Callable[[Attempt], None],
        *,
        clock_s: Callable[[], float] = time.time,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """Opens no connection. `wait`: sleeps for a number of seconds, True = the process is to
        stop. Raises SettingsError for trusted certificates that cannot be read.
        """
        self._hook, self._settings = hook, settings
        self._wait, self._on_attempt = wait, on_attempt
        self._clock_s, self._chance = clock_s, chance
        self._limit_s = settings.timeout_ms / 1000
        self._connections = HttpConnections(_tls_context(hook), 0, self._limit_s)

    def deliver(self, notice: Notice) -> Fate:
        """Repeats the delivery until it succeeds, is given up, or the process is to stop."""
        number = 0
        while True:
            number += 1
            reply = self._post(notice)
            fate, pause_s = fate_of(reply, number, self._settings, self._chance())
            self._on_attempt(Attempt(notice, number, reply, fate, pause_s))
            if fate != "again":
                return fate
            if self._wait(pause_s):
                return "stopped"

    def _post(self, notice: Notice) -> Reply:
        """One request over a connection of its own; redirects are not followed."""
        import httpx

        host = self._hook.host
        body = as_slack(notice) if self._hook.form == "slack" else as_json(notice)
        try:
            answer = self._connections.exchange(
                "POST",
                self._hook.url,
                headers=headers_of(notice, body, self._hook, int(self._clock_s())),
                body=body,
                until=time.monotonic() + self._limit_s,
                most=_LARGEST_ANSWER,
            )
        except TooLarge:
            return Reply("broken", f"{host} answered with more than {_LARGEST_ANSWER} bytes")
        except TimeoutError:
            return Reply("timeout", f"{host} did not answer within {self._limit_s:g} s")
        except NotConnected as error:
            # The text of the operating system or of OpenSSL, which has no part of the address.
            return Reply("unreachable", f"{host} does not accept the connection ({error})")
        except (httpx.TransportError, ssl.SSLError):
            return Reply("broken", f"{host} closed the connection, or answered other than HTTP")
        after_s = retry_after_s(answer.headers.get("retry-after", ""), self._clock_s())
        return Reply(str(answer.status), f"{host} answered {answer.status}", after_s)


def retry_after_s(header: str, now_s: float) -> float:
    """Seconds until the time in a `Retry-After` header (seconds, or a date), at most an hour; 0 if
    it has none.
    """
    if header.isascii() and header.isdecimal():
        seconds = float(header)
    else:
        try:
            at = parsedate_to_datetime(header)
        except (ValueError, TypeError, IndexError, OverflowError):
            return 0.0
        seconds = (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() - now_s
    return min(max(seconds, 0.0), _LONGEST_RETRY_AFTER_S)


def _tls_context(hook: Webhook) -> ssl.SSLContext:
    if not hook.url.startswith("https:"):
        # Trusts nothing: a plain connection needs no authorities.
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        return ssl.create_default_context(cafile=hook.tls_ca_file or None)
    except (OSError, ValueError) as error:
        raise SettingsError(
            [f"notices.tls_ca_file: {hook.tls_ca_file} contains no certificates ({error})"]
        ) from error
