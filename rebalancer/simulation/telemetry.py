"""What a collector would see of a modelled cluster, as records of the TELEMETRY topic or of the engine."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any

from rebalancer.simulation.cluster import BrokerReport, SimulatedCluster
from rebalancer.simulation.report import engine_record, load_report
from strategies.model import Outcome, OutcomeReport, Sweep, TelemetryRecord

Observation = BrokerReport | Sweep | OutcomeReport

#: Length of one statistics period, which is also how often the simulated collector polls.
PERIOD_MS = 60_000
#: A broker's answer takes this long to arrive.
ANSWER_MS = 12


def collection_pass(cluster: SimulatedCluster, silent: Collection[str] = ()) -> tuple[Observation, ...]:
    """One more period: the report of every broker that is not `silent`, then the sweep marker that closes the pass."""
    cluster.measure()
    began_ms = cluster.model.start_ms + cluster.period * PERIOD_MS
    answering = [name for name in cluster.brokers if name not in silent]
    reports = [cluster.report(name, began_ms + ANSWER_MS * (place + 1), began_ms) for place, name in enumerate(answering)]
    missing = {name: "no answer" for name in cluster.brokers if name in silent}
    ended_ms = began_ms + ANSWER_MS * len(cluster.brokers)
    return *reports, Sweep(cluster.model.cluster, ended_ms, cluster.period + 1, tuple(answering), missing)


def outcome_reports(outcomes: Sequence[Outcome]) -> tuple[OutcomeReport, ...]:
    """Outcomes as the records that feed them back into the telemetry."""
    return tuple(OutcomeReport(outcome.cluster, outcome.ts, outcome) for outcome in outcomes)


def to_record(observation: Observation) -> TelemetryRecord:
    """For the engine."""
    return engine_record(observation) if isinstance(observation, BrokerReport) else observation


def to_json(observation: Observation) -> bytes:
    """For a topic: one compact JSON object, UTF-8, without a line end."""
    return json.dumps(_fields(observation), ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def outcome_fields(outcome: Outcome) -> dict[str, Any]:
    """An outcome as on the OUTCOMES topic."""
    return {
        "v": 1,
        "command_id": outcome.command_id,
        "cluster": outcome.cluster,
        "bundle": outcome.bundle,
        "status": outcome.status,
        "reason": outcome.reason,
        "owner_before": outcome.owner_before,
        "owner_after": outcome.owner_after,
        "took_ms": outcome.took_ms,
        "ts": outcome.ts,
    }


def _fields(observation: Observation) -> dict[str, Any]:
    match observation:
        case BrokerReport():
            cluster = observation.model.cluster
            return _envelope("load-report", cluster, observation.broker, observation.ts) | {"report": load_report(observation)}
        case OutcomeReport():
            head = _envelope("outcome", observation.cluster, None, observation.ts)
            return head | {"report": outcome_fields(observation.outcome)}
        case Sweep():
            pass_ = {"sweep": observation.sweep, "brokers": list(observation.brokers), "missing": dict(observation.missing)}
            return {"v": 1, "kind": "sweep", "cluster": observation.cluster, "ts": observation.ts} | pass_


def _envelope(kind: str, cluster: str, broker: str | None, ts: int) -> dict[str, Any]:
    return {"v": 1, "kind": kind, "cluster": cluster, "broker": broker, "ts": ts}
