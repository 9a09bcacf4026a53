"""Builders of legal TELEMETRY records as bytes, one line per record, shaped as brokers and
collectors write them.
"""

import json
from collections.abc import Mapping
from typing import Any

T0 = 1_795_000_000_000
Fields = dict[str, Any]


def bundle(index: int, namespace: str = "t/ns") -> str:
    return f"{namespace}/0x{index << 24:08x}_0x{(index + 1) << 24:08x}"


def line(kind: str, seconds: float = 0, cluster: str = "c", **fields: object) -> bytes:
    return dumps(
        {"v": 1, "kind": kind, "cluster": cluster, "ts": T0 + int(seconds * 1000), **fields}
    )


def load_report(
    broker: str = "b1:8080",
    seconds: float = 0,
    loads: Mapping[str, float] | None = None,
    cpu: float = 50.0,
    **more: str,
) -> bytes:
    """A modular broker's report: bundles with their msg/s, messages of 1 KiB."""
    rates = {bundle(0): 100.0, bundle(1): 50.0} if loads is None else loads
    stats = {name: bundle_stats(rate) for name, rate in rates.items()}
    report = figures(sum(rates.values()), cpu) | {
        "webServiceUrl": f"http://{broker}",
        "lastUpdate": T0,
        "lastStats": stats,
        "numBundles": len(stats),
        "bundles": list(stats),
        "protocols": {},
        "loadReportType": "LocalBrokerData",
    }
    return line("load-report", seconds, broker=broker, report=report, **more)


def broker_load(
    broker: str = "b1:8080", seconds: float = 0, cpu: float = 50.0, bundle_count: int = 2
) -> bytes:
    """An extensible broker's figures."""
    return line(
        "broker-load-data",
        seconds,
        broker=broker,
        report=figures(150.0, cpu) | {"bundleCount": bundle_count, "topics": 4},
    )


def top_bundles(
    broker: str = "b1:8080", seconds: float = 0, loads: Mapping[str, float] | None = None
) -> bytes:
    """An extensible broker's busiest bundles."""
    rates = {bundle(0): 100.0, bundle(1): 50.0} if loads is None else loads
    entries = [{"bundleName": name, "stats": bundle_stats(rate)} for name, rate in rates.items()]
    return line(
        "top-bundles-load-data", seconds, broker=broker, report={"topBundlesLoadData": entries}
    )


def sweep(
    seconds: float = 0, *brokers: str, missing: Mapping[str, str] | None = None, cluster: str = "c"
) -> bytes:
    return line(
        "sweep",
        seconds,
        cluster,
        sweep=int(seconds),
        brokers=list(brokers),
        missing=dict(missing or {}),
    )


def outcome(seconds: float = 0, status: str = "applied") -> bytes:
    report = {
        "v": 1,
        "command_id": "c-1",
        "cluster": "c",
        "bundle": bundle(0),
        "status": status,
        "reason": None,
        "owner_before": "b1:8080",
        "owner_after": "b2:8080",
        "took_ms": 12,
        "ts": T0,
    }
    return line("outcome", seconds, broker=None, report=report)


def policies(seconds: float = 0) -> bytes:
    return line(
        "policies",
        seconds,
        report={"isolation": {"p": {"namespaces": ["t/.*"]}}, "topic_counts": {bundle(0): 3}},
    )


def intent(seconds: float = 0, action: str = "drain", **fields: object) -> bytes:
    """What an operator wants: as it is, to drain a broker."""
    said: Fields = {"id": "0a" * 16, "action": action, "by": "Zoë", "reason": "new disks"}
    return line("intent", seconds, **said | (fields or {"broker": "b1:8080"}))


def one_of_each() -> list[bytes]:
    """A legal record of every kind, tombstones included."""
    return [
        load_report(),
        broker_load(),
        top_bundles(),
        line("broker-load-data", broker="b1:8080", report=None),
        line("top-bundles-load-data", broker="b1:8080", report=None),
        sweep(1, "b1:8080", "b2:8080", missing={"b3:8080": "no answer"}),
        policies(),
        outcome(),
        intent(),
        intent(1, "roll", brokers=["b1:8080", "b2:8080"], max_unavailable=2),
        line("note", note="event", text="a fourth broker joins"),
    ]


def figures(rate: float, cpu: float) -> Fields:
    return {
        "cpu": {"usage": cpu, "limit": 100.0},
        "memory": {"usage": 512.0, "limit": 2048.0},
        "directMemory": {"usage": 64.0, "limit": 1024.0},
        "bandwidthIn": {"usage": rate * 8, "limit": 1e7},
        "bandwidthOut": {"usage": rate * 8, "limit": 1e7},
        "msgThroughputIn": rate * 1024,
        "msgThroughputOut": rate * 1024,
        "msgRateIn": rate,
        "msgRateOut": rate,
    }


def bundle_stats(rate: float) -> Fields:
    return {
        "msgRateIn": rate,
        "msgThroughputIn": rate * 1024,
        "msgRateOut": rate,
        "msgThroughputOut": rate * 1024,
        "consumerCount": 2,
        "producerCount": 1,
        "topics": 3,
        "cacheSize": 4096,
    }


def dumps(tree: object) -> bytes:
    return json.dumps(tree, ensure_ascii=False, separators=(",", ":")).encode()
