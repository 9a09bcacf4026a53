"""Records of a modelled cluster as a collector publishes them. A load report is the JSON of a
Pulsar 4.2 broker's response.

The field order is that of `GET /admin/v2/broker-stats/load-report`. JSON carries the same figures
as the records in memory, so a loop without JSON makes the same decisions.
"""

import json
from dataclasses import asdict
from typing import Any

from pulsar_rebalancer.lab.simulation.clock import PERIOD_MS, START_MS
from strategies.cluster.model import (
    BundleStats,
    Figures,
    LoadReport,
    Outcome,
    OutcomeReport,
    Policies,
    Sweep,
    TelemetryRecord,
)
from strategies.figures.usage import unweighted_usage
from strategies.ordered_sum import ordered_sum

MANAGER = "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl"
VERSION = "4.2.4"
#: Bytes in the broker's cache per message/s, about as in recordings of real brokers.
CACHE_SECONDS = 2.0


class TelemetryWriter:
    """Writes the records of one cluster in order: a report names the bundles gained and lost since
    the broker's previous one.
    """

    def __init__(self, start_ms: int = START_MS) -> None:
        """`start_ms`: when the brokers started."""
        self._start_ms = start_ms
        self._listed: dict[str, tuple[str, ...]] = {}

    def json(self, record: TelemetryRecord) -> bytes:
        """One compact JSON object, UTF-8, without a line end."""
        return json.dumps(
            self._fields(record), ensure_ascii=False, separators=(",", ":"), allow_nan=False
        ).encode()

    def _fields(self, record: TelemetryRecord) -> dict[str, Any]:
        match record:
            case LoadReport(figures=Figures() as figures, bundles=BundleStats() as bundles):
                return _envelope("load-report", record.cluster, record.broker, record.ts) | {
                    "report": self._report(record, figures, bundles)
                }
            case OutcomeReport():
                return _envelope("outcome", record.cluster, None, record.ts) | {
                    "report": {"v": 1, **outcome_fields(record.outcome)}
                }
            case Sweep():
                done = {
                    "sweep": record.sweep,
                    "brokers": list(record.brokers),
                    "missing": dict(record.missing),
                }
                return {"v": 1, "kind": "sweep", "cluster": record.cluster, "ts": record.ts} | done
            case Policies():
                return _envelope("policies", record.cluster, None, record.ts) | {
                    "report": json.loads(record.snapshot)
                }
        raise TypeError(f"a modelled cluster publishes no such record: {record!r:.200}")

    def _report(self, report: LoadReport, figures: Figures, bundles: BundleStats) -> dict[str, Any]:
        host, _, _ = report.broker.rpartition(":")
        names, sessions = list(bundles.names), bundles.sessions.tolist()
        producers = [count // 2 for count in sessions]
        consumers = [count - half for count, half in zip(sessions, producers, strict=True)]
        gains, losses = self._changes(report.broker, bundles.names)
        columns = zip(
            names,
            bundles.traffic.tolist(),
            consumers,
            producers,
            bundles.topics.tolist(),
            strict=True,
        )
        return {
            "webServiceUrl": f"http://{report.broker}",
            "pulsarServiceUrl": f"pulsar://{host}:6650",
            "persistentTopicsEnabled": True,
            "nonPersistentTopicsEnabled": True,
            **_resources(figures),
            "msgThroughputIn": figures.traffic.msg_throughput_in,
            "msgThroughputOut": figures.traffic.msg_throughput_out,
            "msgRateIn": figures.traffic.msg_rate_in,
            "msgRateOut": figures.traffic.msg_rate_out,
            "lastUpdate": report.ts - (report.ts - self._start_ms) % PERIOD_MS,
            "lastStats": {name: _stats(*row) for name, *row in columns},
            "numTopics": int(bundles.topics.sum()),
            "numBundles": len(names),
            "numConsumers": ordered_sum(consumers),
            "numProducers": ordered_sum(producers),
            "bundles": names,
            "lastBundleGains": gains,
            "lastBundleLosses": losses,
            "brokerVersionString": VERSION,
            "protocols": {},
            "advertisedListeners": {},
            "loadManagerClassName": MANAGER,
            "startTimestamp": self._start_ms,
            "maxResourceUsage": unweighted_usage(figures),
            "loadReportType": "LocalBrokerData",
        }

    def _changes(self, broker: str, names: tuple[str, ...]) -> tuple[list[str], list[str]]:
        """Bundles gained, and lost, each in the order of the report that lists them."""
        before, now = self._listed.get(broker, ()), frozenset(names)
        self._listed[broker] = names
        known = frozenset(before)
        return [name for name in names if name not in known], [
            name for name in before if name not in now
        ]


def outcome_fields(outcome: Outcome) -> dict[str, Any]:
    """The fields of an outcome, without costs: a model measures none."""
    return {name: value for name, value in asdict(outcome).items() if name != "cost"}


def _envelope(kind: str, cluster: str, broker: str | None, ts: int) -> dict[str, Any]:
    return {"v": 1, "kind": kind, "cluster": cluster, "broker": broker, "ts": ts}


def _resources(figures: Figures) -> dict[str, dict[str, float]]:
    return {
        "cpu": asdict(figures.cpu),
        "memory": asdict(figures.memory),
        "directMemory": asdict(figures.direct_memory),
        "bandwidthIn": asdict(figures.bandwidth_in),
        "bandwidthOut": asdict(figures.bandwidth_out),
    }


def _stats(
    traffic: list[float], consumers: int, producers: int, topics: int
) -> dict[str, float | int]:
    rate_in, rate_out, throughput_in, throughput_out = traffic
    return {
        "msgRateIn": rate_in,
        "msgThroughputIn": throughput_in,
        "msgRateOut": rate_out,
        "msgThroughputOut": throughput_out,
        "consumerCount": consumers,
        "producerCount": producers,
        "topics": topics,
        "cacheSize": int(throughput_in * CACHE_SECONDS),
    }
