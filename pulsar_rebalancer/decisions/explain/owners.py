"""The last owner of a bundle, by load reports and the collector's notes, for bundles that no round
mentions.
"""

from __future__ import annotations

from collections.abc import Iterable

from sinks.wire.codec import decode
from strategies.cluster.model import LoadReport, Owned
from strategies.errors import WireError


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
        elif isinstance(record, Owned):
            found |= dict.fromkeys(record.bundles, record.broker)
    return found
