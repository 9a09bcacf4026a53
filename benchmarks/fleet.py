"""A made-up cluster of any size whose load reports cost next to nothing to write, so that only
their readers are measured.

A report has the shape, the precision and (with 100 bundles) the 31 KB of a real one. All figures
change from pass to pass: every broker walks through a few prepared reports, in which only names,
times and its own CPU figure are replaced.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Any

CLUSTER = "bench"
#: Time between two passes over the cluster, which is also the engine's default time between two
#: rounds.
PASS_MS = 60_000

_START_MS = 1_795_000_000_000
#: A power of two, so that a broker meets all of them; and more than the tables of one row of state,
#: which would compress to nothing if brokers had the same figures.
_VARIANTS = 64
_MIB = 1024 * 1024


@dataclass(frozen=True)
class Fleet:
    """`brokers` with `bundles` each, of which the first few carry twice the traffic of the others
    and are nearly full.
    """

    brokers: int
    bundles: int = 100
    seed: int = 42

    @property
    def hot(self) -> int:
        """How many brokers are overloaded: five, or half of a very small cluster."""
        return min(5, self.brokers // 2)

    def reports(self, number: int) -> Iterator[bytes]:
        """One report of every broker, as TELEMETRY records of pass `number`."""
        cpu = Random(f"{self.seed}/{number}")
        for index in range(self.brokers):
            usage = 90 + 8 * cpu.random() if index < self.hot else 40 + 20 * cpu.random()
            yield self._report(index, number, usage)

    def sweep(self, number: int) -> bytes:
        """The marker that ends pass `number`; a round closes at it."""
        names = [broker_name(index) for index in range(self.brokers)]
        record = {
            "v": 1,
            "kind": "sweep",
            "cluster": CLUSTER,
            "ts": _ended_ms(number),
            "sweep": number + 1,
            "brokers": names,
            "missing": {},
        }
        return _json(record)

    def _report(self, index: int, number: int, cpu_percent: float) -> bytes:
        template = self._templates[index < self.hot][(index + number) % _VARIANTS]
        report = template.replace(b"@namespace@", f"tenant-{index % 50}/ns-{index}".encode())
        report = report.replace(b"@broker@", broker_name(index).encode()).replace(
            b'"@cpu@"', repr(cpu_percent * 8).encode()
        )
        return report.replace(b'"@ts@"', str(_reported_ms(number, index, self.brokers)).encode())

    @cached_property
    def _templates(self) -> tuple[list[bytes], list[bytes]]:
        draw = Random(self.seed)
        return [_template(self.bundles, 1, draw) for _ in range(_VARIANTS)], [
            _template(self.bundles, 2, draw) for _ in range(_VARIANTS)
        ]


def broker_name(index: int) -> str:
    """host:port of a broker."""
    return f"broker-{index}.pulsar.local:8080"


def _reported_ms(number: int, index: int, brokers: int) -> int:
    """Answers are spread over half of the pass."""
    return _START_MS + number * PASS_MS + index * (PASS_MS // 2) // brokers


def _ended_ms(number: int) -> int:
    return _START_MS + number * PASS_MS + PASS_MS // 2


def _template(bundles: int, factor: int, draw: Random) -> bytes:
    width = 2**32 // bundles
    stats = {_bundle_name(row, width, bundles): _stats(factor, draw) for row in range(bundles)}
    totals = {
        key: sum(one[key] for one in stats.values())
        for key in ("msgThroughputIn", "msgThroughputOut", "msgRateIn", "msgRateOut")
    }
    report = {
        "webServiceUrl": "http://@broker@",
        "pulsarServiceUrl": "pulsar://@broker@",
        "persistentTopicsEnabled": True,
        "nonPersistentTopicsEnabled": True,
        "cpu": {"usage": "@cpu@", "limit": 800.0},
        "memory": {"usage": 512 * draw.random(), "limit": 2048.0},
        "directMemory": {"usage": 256 * draw.random(), "limit": 4096.0},
        "bandwidthIn": {"usage": 1e6 * draw.random(), "limit": 1e8},
        "bandwidthOut": {"usage": 1e6 * draw.random(), "limit": 1e8},
        **totals,
        "lastUpdate": "@ts@",
        "lastStats": stats,
        "numTopics": 2 * bundles,
        "numBundles": bundles,
        "numConsumers": 4 * bundles,
        "numProducers": 3 * bundles,
        "bundles": list(stats),
        "lastBundleGains": [],
        "lastBundleLosses": [],
        "brokerVersionString": "4.2.4",
        "protocols": {},
        "advertisedListeners": {},
        "loadManagerClassName": "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl",
        "startTimestamp": _START_MS,
        "maxResourceUsage": draw.random(),
        "loadReportType": "LocalBrokerData",
    }
    return _json(
        {
            "v": 1,
            "kind": "load-report",
            "cluster": CLUSTER,
            "broker": "@broker@",
            "ts": "@ts@",
            "report": report,
        }
    )


def _bundle_name(row: int, width: int, bundles: int) -> str:
    end = 0xFFFFFFFF if row == bundles - 1 else (row + 1) * width
    return f"@namespace@/0x{row * width:08x}_0x{end:08x}"


def _stats(factor: int, draw: Random) -> dict[str, float]:
    return {
        "msgRateIn": factor * 3000 * draw.random(),
        "msgThroughputIn": factor * 4e6 * draw.random(),
        "msgRateOut": factor * 6000 * draw.random(),
        "msgThroughputOut": factor * 8e6 * draw.random(),
        "consumerCount": 4,
        "producerCount": 3,
        "topics": 2,
        "cacheSize": draw.randrange(_MIB),
    }


def _json(record: dict[str, Any]) -> bytes:
    return json.dumps(record, separators=(",", ":")).encode()
