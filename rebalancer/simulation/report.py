"""A modelled broker's report in its two forms: the JSON a Pulsar 4.2 broker answers with, and the engine's own record.

The field order is that of `GET /admin/v2/broker-stats/load-report`. Both forms carry the same figures, so a scenario may skip the
JSON and still decide the same.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from rebalancer.simulation.cluster import BrokerReport
from rebalancer.simulation.model import BundleModel
from strategies.model import BundleStats, Figures, LoadReport, Resource

MANAGER = "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl"
#: Bytes that stay in the broker's cache per message/s, roughly as in recordings of real brokers.
CACHE_SECONDS = 2.0


def load_report(report: BrokerReport) -> dict[str, Any]:
    """The `report` object of a `load-report` record."""
    figures, bundles = report.figures, [report.model.bundles[row] for row in report.rows]
    host, _, _ = report.broker.rpartition(":")
    names = list(report.names)
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
        "lastUpdate": report.measured_at_ms,
        "lastStats": {bundle.name: _stats(bundle, row) for bundle, row in zip(bundles, report.traffic.tolist(), strict=True)},
        "numTopics": sum(bundle.topics for bundle in bundles),
        "numBundles": len(names),
        "numConsumers": sum(bundle.consumers for bundle in bundles),
        "numProducers": sum(bundle.producers for bundle in bundles),
        "bundles": names,
        "lastBundleGains": list(report.gains),
        "lastBundleLosses": list(report.losses),
        "brokerVersionString": report.model.version,
        "protocols": {},
        "advertisedListeners": {},
        "loadManagerClassName": MANAGER,
        "startTimestamp": report.model.start_ms,
        "maxResourceUsage": _max_usage(figures),
        "loadReportType": "LocalBrokerData",
    }


def engine_record(report: BrokerReport) -> LoadReport:
    """The record the engine folds, without a detour over JSON."""
    model, rows = report.model, report.rows
    stats = BundleStats(report.names, report.traffic, model.topics()[rows], model.sessions()[rows])
    return LoadReport(model.cluster, report.broker, report.ts, report.figures, stats, _digest(report))


def _resources(figures: Figures) -> dict[str, dict[str, float]]:
    named = {
        "cpu": figures.cpu,
        "memory": figures.memory,
        "directMemory": figures.direct_memory,
        "bandwidthIn": figures.bandwidth_in,
        "bandwidthOut": figures.bandwidth_out,
    }
    return {name: {"usage": resource.usage, "limit": resource.limit} for name, resource in named.items()}


def _stats(bundle: BundleModel, traffic: list[float]) -> dict[str, float | int]:
    rate_in, rate_out, throughput_in, throughput_out = traffic
    return {
        "msgRateIn": rate_in,
        "msgThroughputIn": throughput_in,
        "msgRateOut": rate_out,
        "msgThroughputOut": throughput_out,
        "consumerCount": bundle.consumers,
        "producerCount": bundle.producers,
        "topics": bundle.topics,
        "cacheSize": int(throughput_in * CACHE_SECONDS),
    }


def _max_usage(figures: Figures) -> float:
    """Pulsar's own figure: unweighted, in 32-bit floats."""
    return float(max(_percent(part) for part in (figures.cpu, figures.direct_memory, figures.bandwidth_in, figures.bandwidth_out)))


def _percent(resource: Resource) -> np.float32:
    if resource.limit <= 0:
        return np.float32(0)
    return np.float32(np.float32(resource.usage) / np.float32(resource.limit) * np.float32(100) / np.float32(100))


def _digest(report: BrokerReport) -> str:
    content = repr((report.figures.cpu, report.figures.traffic, report.names)).encode() + report.traffic.tobytes()
    return hashlib.sha256(content).hexdigest()[:32]
