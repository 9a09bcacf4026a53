"""The last owner of a bundle, by load reports and the collector's notes, for bundles that no round
mentions.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from sinks.wire.codec import decode
from strategies.cluster.model import LoadReport, Note, Owned
from strategies.errors import WireError


class _OwnedBundlesNote(msgspec.Struct, tag_field="note", tag="owned-bundles"):
    broker: str
    report: dict[str, msgspec.Raw]


_OWNED = msgspec.json.Decoder(_OwnedBundlesNote)


def owners_in(lines: Iterable[bytes], cluster: str | None = None) -> dict[str, str]:
    """Bundle → the broker that listed it last. Ignores records that are not telemetry."""
    found: dict[str, str] = {}
    for line in lines:
        try:
            record = decode(line, b"")
        except WireError:
            continue
        if cluster is not None and record.cluster != cluster:
            continue
        if isinstance(record, LoadReport) and record.bundles is not None:
            found |= dict.fromkeys(record.bundles.names, record.broker)
        elif isinstance(record, Note | Owned):
            found |= _noted(line)
    return found


def _noted(line: bytes) -> dict[str, str]:
    try:
        note = _OWNED.decode(line)
    except msgspec.DecodeError:
        return {}
    return dict.fromkeys(note.report, note.broker)
