"""Queries to the filters: who may take a bundle."""

from collections.abc import Callable, Mapping
from random import Random
from types import MappingProxyType
from typing import Any

from benchmarks.java_vectors.draws import often, share
from benchmarks.java_vectors.names import broker_names
from benchmarks.java_vectors.topk import isolation_policy

_NAMESPACES = [f"t/n{index}" for index in range(6)]
_RANGES = [f"0x{index:x}0000000_0x{index + 2:x}0000000" for index in range(0, 14, 2)] + [
    "0xe0000000_0xffffffff"
]
_STATES = (
    "Owned",
    "Owned",
    "Owned",
    "Assigning",
    "Releasing",
    "Splitting",
    "Free",
    "Deleted",
    "Init",
)
_HOSTS = (
    "p1",
    "p2",
    "p10",
    "s1",
    "s2",
    "x1",
    "broker-1.example",
    "broker-12.example",
    "b1",
    "::1",
    "10.0.0.1",
)


def _bundle(random: Random) -> str:
    return f"{random.choice(_NAMESPACES)}/{random.choice(_RANGES)}"


def _owned(random: Random, known: list[str]) -> dict[str, list[str]]:
    most = random.choice((1, 3, 8))
    return {
        broker: list(dict.fromkeys(_bundle(random) for _ in range(random.randint(0, most))))
        for broker in known
        if often(random, 0.9)
    }


def _anti_affinity(random: Random) -> dict[str, Any]:
    known = broker_names(random, random.randint(1, 20))
    candidates = share(random, known, random.choice((0.3, 0.7, 1.0)))
    query: dict[str, Any] = {
        "manager": random.choice(("modular", "extensible")),
        "conf": {"failureDomainsEnabled": often(random, 0.6)},
        "bundle": _bundle(random),
        "candidates": candidates,
        "groups": {
            name: random.choice(("g1", "g1", "G1", "g2", "", " "))
            for name in share(random, _NAMESPACES, 0.8)
        },
    }
    if often(random, 0.8):
        query["domains"] = {
            broker: f"d{random.randint(0, 3)}"
            for broker in share(random, known, random.choice((0.5, 1.0)))
        }
    if candidates and often(random, 0.5):
        query["current"] = random.choice(known)
    if query["manager"] == "modular":
        query["brokerBundles"] = _owned(random, known)
    else:
        bundles = list(dict.fromkeys(_bundle(random) for _ in range(random.randint(0, 40))))
        query["ownership"] = [_ownership(random, bundle, known) for bundle in bundles]
    return query


def _ownership(random: Random, bundle: str, known: list[str]) -> list[Any]:
    state = random.choice(_STATES)
    return [
        bundle,
        state,
        random.choice(known) if state in ("Owned", "Assigning", "Splitting") else None,
    ]


def _even(random: Random) -> dict[str, Any]:
    known = broker_names(random, random.randint(1, 20))
    return {
        "bundle": _bundle(random),
        "candidates": share(random, known, random.choice((0.0, 0.3, 1.0))),
        "brokerBundles": _owned(random, known),
    }


def _isolation(random: Random) -> dict[str, Any]:
    brokers = [f"{host}:8080" for host in share(random, _HOSTS, 0.7)]
    query: dict[str, Any] = {"bundle": _bundle(random), "brokers": brokers}
    if often(random, 0.9):
        query["policies"] = {
            f"pol{index}": isolation_policy(random, _NAMESPACES)
            for index in range(random.randint(0, 4))
        }
    if often(random, 0.4):
        query["nonPersistent"] = True
    if often(random, 0.4):
        query |= {
            "persistentDisabled": share(random, brokers, 0.3),
            "nonPersistentDisabled": share(random, brokers, 0.3),
        }
    return query


def _topic_count(random: Random) -> dict[str, Any]:
    limit = random.choice((10, 1000, 50_000))
    known = broker_names(random, random.randint(1, 12))
    brokers: dict[str, Any] = {}
    for broker in share(random, known, 0.9):
        brokers[broker] = {"numTopics": max(0, limit + random.choice((-10, -5, -1, 0, 1, 5)))}
        if often(random, 0.3):
            arriving: dict[str, Any] = {
                f"t/n/0x{index:08x}_0x{index + 1:08x}": {
                    "longTerm": {},
                    "topics": random.choice((0, 1, 5)),
                }
                for index in range(2)
            }
            brokers[broker]["preallocated"] = arriving
    return {
        "manager": random.choice(("modular", "extensible")),
        "conf": {}
        if limit == 50_000 and often(random, 0.5)
        else {"loadBalancerBrokerMaxTopics": limit},
        "candidates": share(random, known, random.choice((0.5, 1.0))),
        "brokers": brokers,
    }


def _ten(query: Callable[[Random], dict[str, Any]]) -> Callable[[Random, bool], dict[str, Any]]:
    return lambda random, nasty: {"queries": [query(random) for _ in range(10)]}


DRAWS: Mapping[str, Callable[[Random, bool], dict[str, Any]]] = MappingProxyType(
    {
        "antiAffinity": _ten(_anti_affinity),
        "evenDistribution": _ten(_even),
        "isolation": _ten(_isolation),
        "topicCount": _ten(_topic_count),
    }
)
