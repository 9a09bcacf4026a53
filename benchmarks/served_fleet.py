"""Many fake brokers in a process of their own, for benchmarks: prints their admin URLs and serves
until its standard input is closed.
"""

import json
import random
import sys
from itertools import pairwise
from typing import Any

from tests.pulsar_fake.model import Cluster, Request
from tests.pulsar_fake.server import FakePulsar, Fault


def report(bundles: int) -> dict[str, Any]:
    """A load report of a broker with so many busy bundles, as long as a real one."""
    figures = {
        "msgRateIn": 123.456789,
        "msgThroughputIn": 234567.8901234,
        "msgRateOut": 345.678901,
        "msgThroughputOut": 456789.0123456,
        "consumerCount": 3,
        "producerCount": 2,
        "topics": 4,
        "cacheSize": 12345,
    }
    bounds = [number * 0x100000 for number in range(bundles + 1)]
    names = [f"tenant/namespace/0x{low:08x}_0x{high:08x}" for low, high in pairwise(bounds)]
    resource = {"usage": 40.0, "limit": 800.0}
    resources = ("cpu", "memory", "directMemory", "bandwidthIn", "bandwidthOut")
    return {
        **dict.fromkeys(resources, resource),
        "msgThroughputIn": 1e6,
        "msgThroughputOut": 2e6,
        "msgRateIn": 1000.0,
        "msgRateOut": 2000.0,
        "lastStats": dict.fromkeys(names, figures),
        "bundles": names,
        "brokerVersionString": "4.2.4",
    }


def main() -> None:
    """Command line: number of brokers, bundles per broker, shortest and longest answer in ms."""
    brokers, bundles, shortest_ms, longest_ms = map(int, sys.argv[1:])
    rng = random.Random(brokers)

    def late(_: Request) -> Fault:
        return Fault(delay_s=rng.uniform(shortest_ms, longest_ms) / 1000)

    with FakePulsar(Cluster(report=report(bundles)), brokers) as pulsar:
        pulsar.faults = late
        print(json.dumps(pulsar.admin_urls), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
