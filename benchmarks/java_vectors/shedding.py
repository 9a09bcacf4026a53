"""Histories of load reports for the shedders of the modular load manager."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from benchmarks.java_vectors.draws import FAMILIES, Numbers, drawn, often, share, sizes, weights
from benchmarks.java_vectors.names import broker_names, bundle_names

Case = dict[str, Any]

_MINIMUMS: dict[str, Sequence[Any]] = {
    "maxUnloadPercentage": (0.0, 0.1, 0.2, 0.33, 0.5, 1.0),
    "minUnloadMessage": (0, 1, 100, 500, 1000, 2**31 - 1),
    "minUnloadMessageThroughput": (0, 1, 1000, 1_048_576, 10_485_760, 2**31 - 1),
}
#: broker.conf keys of each shedder with legal values.
CONF: Mapping[str, dict[str, Sequence[Any]]] = {
    "OverloadShedder": {
        "loadBalancerBrokerOverloadedThresholdPercentage": (0, 1, 50, 60, 70, 80, 85, 90, 95, 100)
    },
    "ThresholdShedder": {
        "loadBalancerBrokerThresholdShedderPercentage": (0, 1, 5, 10, 15, 20, 25, 30, 50),
        "loadBalancerHistoryResourcePercentage": (0.0, 0.3, 0.5, 0.75, 0.9, 0.99, 1.0),
        "loadBalancerBundleUnloadMinThroughputThreshold": (0, 0.1, 1, 1.25, 5, 10, 12.5, 100),
        "lowerBoundarySheddingEnabled": (True, False, True),
    },
    "UniformLoadShedder": {
        "loadBalancerMsgRateDifferenceShedderThreshold": (-1, 0, 10, 25, 50, 100, 400),
        "loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold": (-1, 0, 1, 1.5, 2, 4, 10),
        "maxUnloadBundleNumPerShedding": (-1, 0, 1, 2, 5),
        **_MINIMUMS,
    },
    "AvgShedder": {
        "loadBalancerAvgShedderLowThreshold": (0, 1, 5, 10, 15, 20, 25),
        "loadBalancerAvgShedderHighThreshold": (0, 1, 5, 10, 20, 30, 40, 50),
        "loadBalancerAvgShedderHitCountLowThreshold": (1, 2, 3, 4, 8),
        "loadBalancerAvgShedderHitCountHighThreshold": (1, 1, 2, 3, 5),
        **_MINIMUMS,
    },
}


@dataclass
class Cluster:
    """A cluster between two rounds, and how its next reports are drawn."""

    random: Random
    numbers: Numbers
    known: list[str]
    names: list[str]
    per_broker: int
    owner: dict[str, str] = field(default_factory=dict)
    members: list[str] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)

    def start(self) -> None:
        """Some brokers are there, and every bundle is somewhere."""
        self.members = self.known[: max(1, len(self.known) - self.random.choice((0, 0, 1, 3)))]
        full = (
            self.members
            if often(self.random, 0.7)
            else self.random.sample(self.members, max(1, len(self.members) // 2))
        )
        self.owner = {name: self.random.choice(full) for name in self.names}

    def change(self) -> None:
        """Brokers come and go, bundles move."""
        away = [broker for broker in self.known if broker not in self.members]
        if away and often(self.random, 0.3):
            self.members.append(self.random.choice(away))
        if len(self.members) > 1 and often(self.random, 0.2):
            self.members.remove(self.random.choice(self.members))
        for name in share(self.random, self.names, 0.1):
            self.owner[name] = self.random.choice(self.members)

    def report(self, broker: str) -> dict[str, Any]:
        """A broker's report; its traffic is now and then the sum of nothing in particular."""
        random, numbers = self.random, self.numbers
        resources = {
            key: numbers.usage()
            for key in ("cpu", "memory", "directMemory", "bandwidthIn", "bandwidthOut")
            if often(random, 0.6)
        }
        traffic = {
            "msgThroughputIn": numbers.traffic(self.per_broker * 1e7 + 1e6),
            "msgThroughputOut": numbers.traffic(self.per_broker * 1e7 + 1e6),
            "msgRateIn": numbers.traffic(self.per_broker * 1000 + 100),
            "msgRateOut": numbers.traffic(self.per_broker * 1000 + 100),
        }
        owned = [name for name, owner in self.owner.items() if owner == broker]
        claimed = share(random, self.names, 0.02) if often(random, 0.2) else []
        lost = {name for name in owned if often(random, 0.02)}
        bundles = list(dict.fromkeys(name for name in [*owned, *claimed] if name not in lost))
        return {**resources, **traffic, "bundles": random.sample(bundles, len(bundles))}

    def average(self) -> dict[str, Any]:
        """The averages of a bundle."""
        data: dict[str, Any] = {"shortTerm": figures(self.numbers)}
        if often(self.random, 0.3):
            data["longTerm"] = figures(self.numbers)
        if often(self.random, 0.2):
            data["topics"] = self.random.randint(0, 3)
        return data

    def complete(self) -> dict[str, Any]:
        """Everything, in a drawn order."""
        self.shown = self.random.sample(self.members, len(self.members))
        with_data = [name for name in self.names if often(self.random, 0.95)]
        self.random.shuffle(with_data)
        return {
            "brokers": {broker: self.report(broker) for broker in self.shown},
            "bundleData": {name: self.average() for name in with_data},
        }

    def patch(self) -> dict[str, Any]:
        """What changed since the round before."""
        part = self.random.choice(
            (0.0, 0.1, 0.3, 1.0 if len(self.known) * len(self.names) < 400 else 0.3)
        )
        gone = [broker for broker in self.shown if broker not in self.members]
        fresh = [
            broker
            for broker in self.members
            if broker not in self.shown or often(self.random, max(part, 0.2))
        ]
        brokers = {**dict.fromkeys(gone), **{broker: self.report(broker) for broker in fresh}}
        self.shown = [broker for broker in self.shown if broker not in gone]
        self.shown += [broker for broker in fresh if broker not in self.shown]
        changed = share(self.random, self.names, part)
        bundles = {name: None if often(self.random, 0.03) else self.average() for name in changed}
        return {"patch": True, "brokers": brokers, "bundleData": bundles}


def figures(numbers: Numbers) -> dict[str, Any]:
    """The four figures of a bundle; one that is left out is 0."""
    drawn_ = {
        "msgThroughputIn": numbers.traffic(1e7),
        "msgThroughputOut": numbers.traffic(1e7),
        "msgRateIn": numbers.traffic(1000),
        "msgRateOut": numbers.traffic(1000),
    }
    return {key: value for key, value in drawn_.items() if often(numbers.random, 0.9)}


def cluster(
    random: Random, nasty: bool, most: tuple[int, int, int] = (60, 40, 40)
) -> tuple[Cluster, int, str]:
    """A cluster at its start, how many rounds it lives, and its family of values."""
    brokers, per_broker, rounds = sizes(random, most)
    family = random.choice(FAMILIES)
    known = broker_names(random, brokers)
    names = bundle_names(random, len(known) * per_broker, known)
    found = Cluster(random, Numbers(random, family, nasty), known, names, per_broker)
    found.start()
    return found, rounds, family


def shedding(strategy: str, random: Random, nasty: bool) -> Case:
    """One history for this shedder."""
    alive, rounds, family = cluster(random, nasty)
    conf = {**drawn(random, CONF[strategy]), **weights(random)}
    return {
        "conf": conf,
        "kind": family,
        "rounds": [next_round(alive, index) for index in range(rounds)],
    }


def next_round(alive: Cluster, index: int) -> dict[str, Any]:
    """The next round of a cluster: complete or a patch, with what was moved lately and who is
    active.
    """
    random = alive.random
    if index:
        alive.change()
    round_ = alive.complete() if index == 0 or often(random, 0.1) else alive.patch()
    if often(random, 0.5):
        unloaded = share(random, alive.names, random.choice((0.02, 0.2, 0.7)))
        round_["recentlyUnloaded"] = {name: random.randint(0, 10**6) for name in unloaded}
    if often(random, 0.1):
        round_["activeBrokers"] = share(random, alive.members, 0.9)
    return round_
