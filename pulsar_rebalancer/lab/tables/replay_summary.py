"""The summary of a replay, as a table and as JSON."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pulsar_rebalancer.cli.console import Sheet
from pulsar_rebalancer.lab.replay.decisions import ClusterSummary, Decisions
from sinks.wire.codec import decode_rejected
from strategies.cluster.model import Round
from strategies.figures.describe import reported_spread
from strategies.fold.engine import EngineSettings

UNKNOWN = "(none named)"


def summary_table(summaries: Sequence[ClusterSummary]) -> Sheet:
    """One row per cluster; spread: max − min of the brokers' usage in percentage points."""
    rows = [
        [
            summary.cluster or UNKNOWN,
            str(summary.rounds),
            str(summary.commands),
            _points(summary.first),
            _points(summary.last),
            str(summary.rejected),
        ]
        for summary in summaries
    ]
    return Sheet(
        [
            ("cluster", "left"),
            ("rounds", "right"),
            ("commands", "right"),
            ("first spread", "right"),
            ("last spread", "right"),
            ("rejected", "right"),
        ],
        rows,
    )


def summary_as_json(
    recording: str,
    records: int,
    engine: EngineSettings,
    *,
    summaries: Sequence[ClusterSummary],
    decisions: Decisions,
    files: Mapping[str, Path],
) -> dict[str, Any]:
    """The summary for programs; spreads are fractions."""
    codes = Counter(decode_rejected(row.value).code for row in decisions.rejected)
    return {
        "recording": recording,
        "records": records,
        "strategy": engine.strategy,
        "mode": engine.mode,
        "rounds": len(decisions.rounds),
        "commands": len(decisions.commands),
        "rejected": {"total": len(decisions.rejected), "by_code": dict(sorted(codes.items()))},
        "clusters": [
            {
                "cluster": summary.cluster or None,
                "rounds": summary.rounds,
                "commands": summary.commands,
                "rejected": summary.rejected,
                "first_spread": _spread(summary.first),
                "last_spread": _spread(summary.last),
            }
            for summary in summaries
        ],
        "files": {kind: str(path) for kind, path in files.items()},
    }


def _points(record: Round | None) -> str:
    return "–" if record is None else f"{reported_spread(record) * 100:.1f}"


def _spread(record: Round | None) -> dict[str, float] | None:
    return None if record is None else asdict(record.spread)
