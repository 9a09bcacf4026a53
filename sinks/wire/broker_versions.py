"""The versions that brokers report, as telemetry records hold them: in a modular load report, and
in the policies that a collector publishes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from sinks.wire.checks import check_shape
from strategies.errors import WireError


class _Versioned(msgspec.Struct):
    """Of a report, only what names versions."""

    brokerVersionString: Any = None
    brokers: Any = None


class _VersionRecord(msgspec.Struct):
    kind: str = ""
    cluster: str = ""
    broker: str | None = None
    brokers: Any = None
    report: msgspec.Raw = msgspec.Raw(b"null")


def brokers_in(value: bytes, *, collected: bool = True) -> dict[str, str] | None:
    """Broker → version, as one telemetry record says; empty for a record that says nothing, None if
    it cannot be read or does not show that brokers have reported. Brokers have their cluster before
    them: `cluster/host:port`.

    `collected`: a collector publishes the records. Load data of the extensible load manager has no
    version, and comes before the policies that name them; the sweep comes after these.
    """
    try:
        check_shape(value)
        record = msgspec.json.decode(value, type=_VersionRecord)
        if record.kind not in ("load-report", "policies"):
            shows = bool(record.brokers) if record.kind == "sweep" else not collected
            return {} if shows else None
        versions = dict(_named(record, msgspec.json.decode(record.report, type=_Versioned)))
        return versions if versions or record.kind == "load-report" else None
    except (WireError, ValueError, RecursionError):
        return None


def _named(record: _VersionRecord, report: _Versioned) -> Iterator[tuple[str, str]]:
    if record.kind == "load-report":
        if record.broker and isinstance(report.brokerVersionString, str):
            yield f"{record.cluster}/{record.broker}", report.brokerVersionString
    elif isinstance(report.brokers, dict):
        for broker, facts in report.brokers.items():
            version = facts.get("version") if isinstance(facts, dict) else None
            if isinstance(version, str):
                yield f"{record.cluster}/{broker}", version
