"""The figures of a back-test as data for JSON, and the check that it decided anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pulsar_rebalancer.lab.backtest.run import BacktestJob, BacktestResult
from pulsar_rebalancer.lab.report.summary import Summary
from pulsar_rebalancer.lab.simulation.timeline import Move
from sinks.recordings.recorder import check_use
from strategies.errors import SinkError

#: What the loops of a back-test mean, for the reader.
LOOPS = {
    "closed": "closed loop: the recorded load of every bundle follows "
    "its moves, as if equal traffic "
    "cost all brokers the same",
    "open": "open loop: recorded reports do not react to moves, so this shows when each would have "
    "acted, not the result",
}
_SHOWN = ("ts", "bundle", "source", "destination", "kind", "code", "reason")


def run_as_json(job: BacktestJob, answer: BacktestResult) -> dict[str, Any]:
    """One run, with figures and moves of each cluster."""
    return {
        "title": job.title,
        "strategy": job.settings.engine.strategy,
        "mode": job.settings.engine.mode,
        "records": answer.records,
        "rejected": answer.rejected,
        "clusters": [
            {"cluster": line.cluster, **Summary(line).as_json(), "moves": _moves(line.moves)}
            for line in answer.timelines
        ],
    }


def check_rounds(recording: Path, answers: Sequence[BacktestResult]) -> None:
    """Raises SinkError for a recording without rounds."""
    check_use(str(recording), answers[0].records, answers[0].rejected)
    if not any(line.rounds for answer in answers for line in answer.timelines):
        raise SinkError(
            f"{recording}: no round closed in its {answers[0].records} records; record for "
            "longer, some minutes at least."
        )


def _moves(moves: Sequence[Move]) -> list[dict[str, Any]]:
    return [{key: value for key, value in asdict(move).items() if key in _SHOWN} for move in moves]
