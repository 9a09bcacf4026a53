"""Histories of the extensible load manager's stores for TransferShedder."""

from dataclasses import dataclass, field
from random import Random
from typing import Any

from benchmarks.java_vectors.draws import FAMILIES, Numbers, drawn, often, share, sizes
from benchmarks.java_vectors.names import broker_names, bundle_names

_CONF = {
    "loadBalancerBrokerLoadTargetStd": (0.0, 0.05, 0.1, 0.125, 0.25, 0.5, 1.2),
    "loadBalancerTransferEnabled": (True, True, False),
    "loadBalancerMaxNumberOfBrokerSheddingPerCycle": (0, 1, 2, 3, 10),
    "loadBalanceSheddingDelayInSeconds": (0, 10, 180, 600),
    "loadBalancerBrokerLoadDataTTLInSeconds": (60, 600, 1800),
    "loadBalancerBrokerOverloadedThresholdPercentage": (50, 70, 75, 85, 100),
    "loadBalancerSheddingConditionHitCountThreshold": (0, 0, 0, 1, 2),
    "loadBalancerDebugModeEnabled": (True, False),
}


@dataclass
class Fleet:
    """Brokers of the extensible load manager and what they published last."""

    random: Random
    numbers: Numbers
    conf: dict[str, Any]
    known: list[str]
    names: list[str]
    per_broker: int
    shown: list[str] = field(default_factory=list)

    def entry(self) -> dict[str, Any]:
        """A broker's load data; throughput follows usage or not."""
        usage = self._usage()
        follows = isinstance(usage, int | float) and abs(usage) < 1e100 and often(self.random, 0.6)
        throughput = [usage * 1e8 if follows else self.numbers.traffic(1e8) for _ in range(3)]
        keys = ("msgThroughputEMA", "msgThroughputIn", "msgThroughputOut")
        return {
            "weightedMaxEMA": usage,
            **dict(zip(keys, throughput, strict=True)),
            "ageMs": self._age(),
        }

    def top(self) -> list[dict[str, Any]]:
        """A broker's heaviest bundles, lightest first or in any order; one is there twice now and
        then.
        """
        chosen = self.random.sample(
            self.names, min(len(self.names), self.random.randint(0, self.per_broker))
        )
        if chosen and often(self.random, 0.03):
            chosen.append(self.random.choice(chosen))
        scale = self.random.choice((1e6, 1e7, 5e7))
        rows = [
            {
                "bundle": name,
                "msgThroughputIn": self.numbers.traffic(scale),
                "msgThroughputOut": self.numbers.traffic(scale),
            }
            for name in chosen
        ]
        if often(self.random, 0.8):
            rows.sort(
                key=lambda row: float(row["msgThroughputIn"]) + float(row["msgThroughputOut"])
            )
        return rows

    def next_round(self, first: bool) -> dict[str, Any]:
        """Complete, or what changed."""
        random = self.random
        complete = first or often(random, 0.1)
        if complete:
            self.shown = share(random, self.known, 0.9) or self.known[:1]
        changing = (
            self.shown if complete else share(random, self.known, random.choice((0.0, 0.1, 0.4)))
        )
        brokers = {
            name: None if not complete and often(random, 0.1) else self.entry() for name in changing
        }
        self.shown = [
            name
            for name in dict.fromkeys([*self.shown, *brokers])
            if brokers.get(name, True) is not None
        ]
        top = {name: self.top() for name in changing if often(random, 0.95)}
        return {
            "brokers": brokers,
            "topBundles": top,
            **({} if complete else {"patch": True}),
            **self._around(),
        }

    def _around(self) -> dict[str, Any]:
        random = self.random
        around: dict[str, Any] = {"available": random.sample(self.shown, len(self.shown))}
        if often(random, 0.08):
            around["available"] = share(random, self.known, 0.8)
        if often(random, 0.4):
            moved = share(random, self.names, random.choice((0.05, 0.3)))
            around["recentlyUnloadedBundles"] = {name: random.randint(0, 10**6) for name in moved}
        if often(random, 0.15):
            around["recentlyUnloadedBrokers"] = {
                name: self._unloaded()
                for name in share(random, self.known, random.choice((0.05, 0.3)))
            }
        return around

    def _usage(self) -> Any:
        random, family = self.random, self.numbers.family
        if self.numbers.nasty and often(random, 0.1):
            return self.numbers.traffic()
        if family in ("grid", "ties", "zero"):
            return random.choice(
                (0.0, 0.125, 0.25, 0.5, 0.75, 0.85, 1.0)
                if family == "grid"
                else (0.0, 0.5, 0.5, 1.0)
            )
        if family == "huge" and often(random, 0.3):
            return random.random() * random.choice((10, 1000))
        return random.random() * random.choice((1e-9 if family == "tiny" else 1.0, 1.0, 1.2))

    def _age(self) -> int:
        """Not within three seconds below the limit, where Java's clock would decide."""
        limit = 1000 * int(self.conf.get("loadBalancerBrokerLoadDataTTLInSeconds", 1800))
        return (
            self.random.choice((limit + 1, limit + 60_000))
            if often(self.random, 0.02)
            else self.random.randint(0, limit - 3000)
        )

    def _unloaded(self) -> int:
        delay = 1000 * int(self.conf.get("loadBalanceSheddingDelayInSeconds", 180))
        return self.random.choice(
            (0, delay - 1, delay, delay + 1, delay + 30_000, 2 * delay + 100_000)
        )


def transfer(random: Random, nasty: bool) -> dict[str, Any]:
    """One history for TransferShedder."""
    brokers, per_broker, rounds = sizes(random)
    known = broker_names(random, brokers)
    names = bundle_names(random, max(2, len(known) * per_broker // 2), known)
    conf = drawn(random, _CONF)
    if often(random, 0.2):
        conf["loadBalancerSheddingExcludedNamespaces"] = sorted(
            {name.rpartition("/")[0] for name in share(random, names, 0.1)}
        )
    fleet = Fleet(
        random,
        Numbers(random, random.choice(FAMILIES), nasty),
        conf,
        known,
        names,
        max(2, per_broker),
    )
    return {"conf": conf, "rounds": [fleet.next_round(index == 0) for index in range(rounds)]}
