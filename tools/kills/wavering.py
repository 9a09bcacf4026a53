"""A fake Pulsar cluster whose load never comes to rest: the rate of each bundle rises and falls at
its own pace, so that there is always something to move. Its brokers report what they own.
"""

import json
import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.pulsar_fake.model import Answer, Request
from tests.pulsar_fake.server import FakePulsar, Fault
from tests.telemetry_lines import bundle, load_report

#: Message rate at which a broker is busy to the last percent.
_MOST_MSGS = 2_000.0
_SHORTEST_S, _LONGEST_S = 15.0, 60.0


@dataclass
class WaveringLoad:
    """The faults of a fake cluster: `pulsar.faults = WaveringLoad.of(pulsar, 12, seed)`.

    `waves`: bundle → its mean rate (msg/s), its period (s), and where in it it begins (radians).
    `at_release`: called with each request that is about to release a bundle; what it returns
    happens to the request.
    """

    pulsar: FakePulsar
    waves: dict[str, tuple[float, float, float]]
    at_release: Callable[[Request], Fault | None] = lambda _: None
    began_s: float = field(default_factory=time.monotonic)

    @staticmethod
    def of(pulsar: FakePulsar, bundles: int, seed: int) -> "WaveringLoad":
        """Deals the bundles to the brokers."""
        rng, brokers = random.Random(seed), pulsar.cluster.brokers
        waves = {
            bundle(number): (
                rng.uniform(50, 250),
                rng.uniform(_SHORTEST_S, _LONGEST_S),
                rng.uniform(0, 2 * math.pi),
            )
            for number in range(bundles)
        }
        owners = {name: brokers[number % len(brokers)] for number, name in enumerate(waves)}
        pulsar.cluster.owners.update(owners)
        return WaveringLoad(pulsar, waves)

    def __call__(self, request: Request) -> Fault | None:
        if request.method == "PUT" and self.pulsar.cluster.releases(request):
            return self.at_release(request)
        if request.path == "/admin/v2/broker-stats/load-report":
            return Fault(instead=Answer(200, self._report(request.broker)))
        return None

    def _report(self, broker: str) -> bytes:
        rates = {
            name: self._rate(name)
            for name, owner in sorted(self.pulsar.cluster.owners.items())
            if owner == broker
        }
        cpu = min(100.0, 100.0 * sum(rates.values()) / _MOST_MSGS)
        report = json.loads(load_report(broker, 0, rates, cpu))["report"]
        return json.dumps(report | {"lastUpdate": time.time_ns() // 1_000_000}).encode()

    def _rate(self, name: str) -> float:
        mean, period_s, begin = self.waves[name]
        passed_s = time.monotonic() - self.began_s
        return round(mean * (1 + math.sin(begin + 2 * math.pi * passed_s / period_s)), 3)
