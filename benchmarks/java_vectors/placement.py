"""Look-ups for the placement strategies of both load managers."""

from random import Random
from typing import Any

from benchmarks.java_vectors.draws import FAMILIES, drawn, often, share, sizes, weights
from benchmarks.java_vectors.names import broker_names
from benchmarks.java_vectors.shedding import CONF, Cluster, cluster, figures, next_round

_CONF = {
    "loadBalancerBrokerOverloadedThresholdPercentage": (0, 50, 70, 75, 85, 95, 100),
    "loadBalancerHistoryResourcePercentage": (0.0, 0.5, 0.75, 0.9, 1.0),
    "loadBalancerAverageResourceUsageDifferenceThresholdPercentage": (0, 5, 10, 12, 20, 25),
}
STRATEGIES = (
    "LeastLongTermMessageRate",
    "LeastResourceUsageWithWeight",
    "ExtLeastResourceUsageWithWeight",
)


def placement(strategy: str, random: Random, nasty: bool) -> dict[str, Any]:
    """One history of look-ups, each with candidates of its own."""
    alive, rounds, family = cluster(random, nasty, (60, 4, 40))
    with_memory = strategy == "ExtLeastResourceUsageWithWeight"
    drawn_ = [
        _extensible(alive) if with_memory else _modular(alive, index) for index in range(rounds)
    ]
    for round_ in drawn_:
        stored = round_.get("brokers", {})
        known = [
            broker for broker in alive.known if broker in stored and stored[broker] is not None
        ]
        missing_allowed = with_memory or nasty
        round_["candidates"] = _candidates(random, known if not missing_allowed else alive.known)
    return {"conf": {**drawn(random, _CONF), **weights(random)}, "kind": family, "rounds": drawn_}


def _candidates(random: Random, known: list[str]) -> list[str]:
    return share(random, known, random.choice((0.1, 0.5, 0.9, 1.0)))


def _modular(alive: Cluster, index: int) -> dict[str, Any]:
    """Complete rounds, so that the candidates are among the brokers with data."""
    random, numbers = alive.random, alive.numbers
    if index:
        alive.change()
    brokers = {}
    for broker in random.sample(alive.members, len(alive.members)):
        report = alive.report(broker)
        if often(random, 0.2):
            report |= {"msgRateIn": 0, "msgRateOut": 0}
        report["timeAverage"] = {
            "longTermMsgRateIn": numbers.traffic(1000),
            "longTermMsgRateOut": numbers.traffic(1000),
        }
        arriving = share(random, alive.names, 0.1)[:20]
        report["preallocated"] = {name: {"longTerm": figures(numbers)} for name in arriving}
        brokers[broker] = report
    round_: dict[str, Any] = {"brokers": brokers}
    if often(random, 0.15):
        round_["activeBrokers"] = share(random, alive.members, 0.8)
    return round_


def _extensible(alive: Cluster) -> dict[str, Any]:
    random = alive.random
    quantized = alive.numbers.family in ("grid", "ties", "zero")
    brokers: dict[str, Any] = {}
    for broker in share(random, alive.known, 0.9):
        usage: Any = (
            random.choice((0.0, 0.25, 0.375, 0.5, 0.75, 0.85, 1.0))
            if quantized
            else random.random() * 1.2
        )
        brokers[broker] = {
            "weightedMaxEMA": alive.numbers.traffic()
            if alive.numbers.nasty and often(random, 0.1)
            else usage
        }
    return {"brokers": brokers}


def planned(random: Random, nasty: bool) -> dict[str, Any]:
    """AvgShedder from shedding to look-up: bundles that were planned, drawn ones, others, and those
    with one more sample.
    """
    alive, rounds, family = cluster(random, nasty, (20, 12, 20))
    conf = {
        **drawn(random, CONF["AvgShedder"]),
        **weights(random),
        "loadBalancerAvgShedderHitCountHighThreshold": 1,
    }
    drawn_, with_data = [], set[str]()
    for index in range(rounds):
        round_ = next_round(alive, index)
        round_.pop("activeBrokers", None)
        with_data = set() if not round_.get("patch") else with_data
        with_data |= {name for name, data in round_["bundleData"].items() if data is not None}
        with_data -= {name for name, data in round_["bundleData"].items() if data is None}
        if often(random, 0.1):
            round_["shed"] = False
        round_["place"] = [
            _look_up(random, alive, name)
            for name in share(random, sorted(with_data), random.choice((0.1, 0.5)))[:30]
        ]
        drawn_.append(round_)
    return {"conf": conf, "kind": family, "rounds": drawn_}


def _look_up(random: Random, alive: Cluster, bundle: str) -> dict[str, Any]:
    look_up: dict[str, Any] = {
        "bundle": bundle,
        "candidates": share(random, alive.shown, 0.9) or alive.shown[:1],
    }
    if often(random, 0.1):
        look_up["sample"] = figures(alive.numbers)
    elif often(random, 0.1):
        look_up |= {"bundle": "t/new/0x00000000_0xffffffff", "data": alive.average()}
    return look_up


def round_robin(random: Random, nasty: bool) -> dict[str, Any]:
    """Candidates that stay the same for a while, and then change."""
    brokers, _, rounds = sizes(random)
    known = broker_names(random, brokers)
    candidates = _candidates(random, known)
    drawn_ = []
    for _ in range(rounds):
        if often(random, 0.3):
            candidates = _candidates(random, known)
        drawn_.append({"candidates": random.sample(candidates, len(candidates))})
    return {"conf": {}, "kind": random.choice(FAMILIES), "rounds": drawn_}
