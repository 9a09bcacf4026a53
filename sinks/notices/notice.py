"""A notice, and its two forms: a JSON document, and a message for Slack's incoming webhooks.

For Slack, all words from records are in `plain_text` objects, which it does not format. The three
characters that it interprets everywhere are escaped. Sources: Slack's pages "Formatting text for
app surfaces" and "Block Kit: blocks, composition objects", for the limits too.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from html import escape
from itertools import accumulate
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

#: Maximum characters of a section's text, of a header, and of the text of a message that Slack does
#: not cut.
SECTION, HEADER, MESSAGE = 3_000, 150, 4_000


class NoticeCause(Struct, frozen=True):
    """Why: a stable code, a sentence, and what to do."""

    code: str
    text: str
    advice: str


class Notice(Struct, frozen=True):
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
    yield from (_section(text) for text in words if text)
    if notice.link:
        text = f"<{escape(notice.link, quote=False)}|Show the cluster>"
        yield {"type": "section", "text": {"type": "mrkdwn", "text": text, "verbatim": True}}
    named = {"notice": notice.id, "plan": notice.plan, "command": notice.command}
    about = ", ".join(f"{name} {value}" for name, value in named.items() if value)
    yield {"type": "context", "elements": [_plain(about, SECTION)]}


def _section(text: str) -> Mapping[str, Any]:
    return {"type": "section", "text": _plain(text, SECTION)}


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
