"""A notice, and its plain JSON form."""

from __future__ import annotations

import hashlib
import json

import msgspec
from msgspec import Struct
from msgspec.structs import replace


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
