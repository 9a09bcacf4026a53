"""Random recordings of a cluster, mostly calm, each from a seed; and settings off the defaults to
go with them.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from random import Random

import numpy as np

from sinks.recordings.columnar import ColumnarRecording
from strategies.cluster import model
from strategies.dispatch_limits.throttle_advice import AdviceSettings
from strategies.fold.engine import EngineSettings
from strategies.settings import LimitSettings, RoundSettings, Weights
from strategies.shedding.avg.settings import AvgSettings
from strategies.shedding.overload.settings import OverloadSettings
from strategies.shedding.threshold.settings import ThresholdSettings
from strategies.shedding.transfer.settings import TransferSettings
from strategies.shedding.uniform.settings import UniformSettings
from strategies.splitting.bundle_limits import SplitSettings
from tests.world.telemetry import T0

MINUTE_MS = 60_000
BROKERS = tuple(f"broker-{number}:8080" for number in range(5))
_POLICIES = {
    "isolation": [
        {"name": "p", "namespaces": ["t/n1"], "primary": ["broker-[01].*"], "secondary": []}
    ]
}


_PLACEMENTS = (
    *("auto", "auto", "none"),
    *("least_resource_usage", "round_robin", "least_resource_usage_extensible"),
)


@dataclass
class _Cluster:
    """Who is there, and who carries which bundle with how many messages/s."""

    chance: Random
    rates: dict[str, dict[str, float]]
    before: dict[str, model.LoadReport] = field(default_factory=dict)

    def passes(self, count: int) -> Iterator[model.TelemetryRecord]:
        """Collection passes, a minute apart."""
        hot, number = "", 0
        for number in range(count):
            self._happens(number)
            if self.chance.random() < 0.06:
                hot = self.chance.choice([*self.rates, *[""] * 12])
            yield from self._pass(
                T0 + number * MINUTE_MS + self.chance.choice((0, 0, 0, 900, -900)), number, hot
            )

    def _happens(self, number: int) -> None:
        """Now and then a broker comes or goes, or a bundle changes hands."""
        chance, there = self.chance, list(self.rates)
        if chance.random() < 0.015 and len(there) > 2:
            leaving = self.rates.pop(chance.choice(there))
            self.rates[chance.choice(list(self.rates))] |= leaving
        if chance.random() < 0.015 and (
            away := [broker for broker in BROKERS if broker not in self.rates]
        ):
            self.rates[chance.choice(away)] = {f"t/n9/0x{number:08x}_0x{number + 1:08x}": 900.0}
        if chance.random() < 0.015:
            everyone = list(self.rates.values())
            source, other = chance.choice(everyone), chance.choice(everyone)
            if source and source is not other:
                bundle = chance.choice(list(source))
                other[bundle] = source.pop(bundle)

    def _pass(self, now_ms: int, number: int, hot: str) -> Iterator[model.TelemetryRecord]:
        chance = self.chance
        order = list(self.rates)
        if chance.random() < 0.1:
            chance.shuffle(order)
        lost = chance.choice(order) if chance.random() < 0.03 else ""
        repeated = chance.random() < 0.1
        for place, broker in enumerate(order):
            ts = now_ms + 10 * place
            if broker != lost:
                report = self._report(broker, ts, 2.5 if broker == hot else 1.0, repeated)
                yield report
                if chance.random() < 0.002:
                    yield report
        if chance.random() < 0.01:
            yield model.Policies("c", now_ms + 700, json.dumps(chance.choice((_POLICIES, {}))))
        if chance.random() > 0.01:
            there = tuple(broker for broker in order if broker != lost)
            yield model.Sweep(
                "c", now_ms + 800, number + 1, there, {lost: "no answer"} if lost else {}
            )

    def _report(self, broker: str, ts: int, factor: float, repeated: bool) -> model.LoadReport:
        before = self.before.get(broker)
        rates = self.rates[broker]
        known = None if before is None else before.bundles
        if repeated and before is not None and known is not None and known.names == tuple(rates):
            return model.LoadReport("c", broker, ts, before.figures, before.bundles, before.digest)
        rows = [[rate * factor * self.chance.uniform(0.9, 1.1)] * 2 for rate in rates.values()]
        traffic = np.array([[one, two, 1000 * one, 1000 * two] for one, two in rows]).reshape(
            len(rows), 4
        )
        totals = model.Traffic(*traffic.sum(axis=0).tolist())
        cpu = model.Resource(3.0 + totals.msg_rate * 0.005, 100.0)
        own = (
            (cpu.usage / 100, totals.msg_throughput, ts - 100)
            if self.chance.random() < 0.01
            else (None, None, None)
        )
        out, none = model.Resource(totals.msg_throughput_out / 125, 1e6), model.Resource()
        figures = model.Figures(cpu, none, none, none, out, totals, len(rates), *own)
        digest = blake2b(repr((cpu, traffic.tolist(), own)).encode(), digest_size=8).hexdigest()
        topics = np.array([self.chance.randint(1, 3) for _ in rates], dtype=np.int64)
        self.before[broker] = model.LoadReport(
            "c",
            broker,
            ts,
            figures,
            model.BundleStats(tuple(rates), traffic, topics, topics),
            digest,
        )
        return self.before[broker]


def some_records(seed: int, passes: int) -> list[model.TelemetryRecord]:
    """Two to five brokers of a few bundles each; some are hot for a while, and all that goes wrong
    with collecting does.
    """
    chance = Random(seed)
    there = chance.sample(BROKERS, chance.randint(2, 5))
    loads = (0.0, 300.0, 700.0, 700.0, 1500.0)
    rates = {
        broker: {
            f"t/n{chance.randint(0, 2)}/0x{at:07x}{k}_0x{at:07x}{k + 1}": load
            for k, load in enumerate(loads)
        }
        for at, broker in enumerate(there)
    }
    return list(_Cluster(chance, rates).passes(passes))


def a_recording(path: Path, seed: int, passes: int) -> None:
    with ColumnarRecording(path) as recording:
        for record in some_records(seed, passes):
            recording.write(_as_bytes(record), record)


def _as_bytes(record: model.TelemetryRecord) -> bytes:
    """Of a load report only the columns are kept."""
    match record:
        case model.Sweep():
            said = {
                "kind": "sweep",
                "sweep": record.sweep,
                "brokers": list(record.brokers),
                "missing": dict(record.missing),
            }
        case model.Policies():
            said = {"kind": "policies", "report": json.loads(record.snapshot)}
        case _:
            return b""
    return json.dumps({"v": 1, "cluster": record.cluster, "ts": record.ts, **said}).encode()


def any_engine(strategy: str, seed: int) -> EngineSettings:
    """A strategy in either mode with settings off the defaults, most of them such that only some
    rounds act.
    """
    chance = Random(seed)
    pick = chance.choice
    shedding: dict[str, object] = {
        "threshold": ThresholdSettings(
            pick((2.0, 10.0)), pick((0.0, 0.5, 0.9)), pick((0.0, 1.0)), pick((True, False))
        ),
        "avg": AvgSettings(
            pick((2.0, 8.0, 15.0)),
            pick((10.0, 40.0)),
            pick((1, 3, 8)),
            pick((1, 2)),
            pick((0.2, 0.9)),
            10.0,
            10.0,
        ),
        "overload": OverloadSettings(threshold_percent=pick((20.0, 40.0, 85.0))),
        "uniform": UniformSettings(
            pick((0.0, 20.0, 60.0)),
            pick((0.0, 1.3, 4.0)),
            pick((0.2, 0.6)),
            10.0,
            10.0,
            pick((-1, 1)),
        ),
        "transfer": TransferSettings(
            pick((0.02, 0.08, 0.25)),
            pick((0, 2, 3)),
            pick((True, False)),
            pick((1, 3)),
            pick((60.0, 180.0)),
            history=pick((0.0, 0.5, 0.9)),
        ),
    }
    return EngineSettings(
        strategy,
        pick(("fixed", "fixed", "parity")),
        shedding[strategy],
        pick((Weights(), Weights(direct_memory=0.5, bandwidth_out=2.0))),
        RoundSettings(
            cool_down_ms=pick((0, 300_000)),
            command_ttl_ms=pick((60_000, 240_000)),
            stale_after_ms=pick((70_000, 180_000)),
        ),
        placement=pick(_PLACEMENTS),
        limits=LimitSettings(
            excluded_namespaces=pick(("", "t/n2")),
            excluded_brokers=pick(("", "", "", "broker-3*")),
            windows=pick(("", "", "00:00-00:20")),
        ),
        splitting=SplitSettings(enabled=chance.random() < 0.1),
        throttling=AdviceSettings(advise=pick((True, False)), above_percent=pick((40.0, 85.0))),
    )
