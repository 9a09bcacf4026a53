"""Encodes the collector's records: reports verbatim in their envelope, sweep markers, policies, and
notes on bundle ownership.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET

from sinks.collector.broker_poll import Pass, Report
from sinks.collector.leader import LeaderFacts
from sinks.wire.contracts.telemetry import PoliciesRecord, SweepRecord
from sinks.wire.raw import ReportEnvelope

_ENCODER = msgspec.json.Encoder()


def encode_report(cluster: str, report: Report) -> bytes:
    """A broker's report; its body is copied without being parsed."""
    return _ENCODER.encode(
        ReportEnvelope(1, report.kind, cluster, report.broker, report.ts, msgspec.Raw(report.body))
    )


def encode_owned(cluster: str, owned: Report) -> bytes:
    """All bundles of a broker, as a note, which rounds ignore."""
    return _ENCODER.encode(
        {
            "v": 1,
            "kind": "note",
            "note": "owned-bundles",
            "cluster": cluster,
            "broker": owned.broker,
            "ts": owned.ts,
            "report": msgspec.Raw(owned.body),
        }
    )


def encode_sweep(cluster: str, done: Pass, facts: LeaderFacts) -> bytes:
    """The sweep marker of a pass, with what is known about the leader."""
    return _ENCODER.encode(
        SweepRecord(
            1,
            cluster,
            done.ts,
            done.number,
            list(done.answered),
            dict(done.missing),
            answering=list(done.answering) or UNSET,
            leader=UNSET if facts.leader is None else facts.leader,
            shedding=UNSET if facts.shedding is None else facts.shedding,
        )
    )


def encode_policies(cluster: str, ts: int, snapshot: Mapping[str, Any]) -> bytes:
    """A complete policies snapshot."""
    return _ENCODER.encode(PoliciesRecord(1, cluster, ts, dict(snapshot)))
