"""Bundles to cut: queries to the algorithms, topics to hash, and statistics for both split
deciders.
"""

from collections.abc import Callable, Mapping
from random import Random
from types import MappingProxyType
from typing import Any

from benchmarks.java_vectors.draws import drawn, often, share
from benchmarks.java_vectors.names import broker_names, bundle_names

_LAST = 0xFFFFFFFF
_ALGORITHMS = (
    "range_equally_divide",
    "topic_count_equally_divide",
    "specified_positions_divide",
    "flow_or_qps_equally_divide",
)
_MB = 1_048_576
_LIMITS = {
    "loadBalancerNamespaceBundleMaxTopics": (2, 10, 1000),
    "loadBalancerNamespaceBundleMaxSessions": (-1, 0, 100, 1000),
    "loadBalancerNamespaceBundleMaxMsgRate": (1000, 30000),
    "loadBalancerNamespaceBundleMaxBandwidthMbytes": (1, 100, 2047, 2048, 4096, 5000),
    "loadBalancerNamespaceMaximumBundles": (8, 16, 128),
}


def _topic(random: Random, namespace: str = "t/ns") -> str:
    domain = random.choice(("persistent", "persistent", "non-persistent"))
    name = random.choice(("orders", "x", "tøpic", "a.b", "日本", "emoji-😀", "UPPER"))
    suffix = random.choice(("", f"-partition-{random.randint(0, 99)}"))
    return f"{domain}://{namespace}/{name}-{random.randint(0, 999_999)}{suffix}"


def _hex(boundaries: list[int]) -> list[str]:
    return [f"0x{boundary:08x}" for boundary in boundaries]


def _boundaries(random: Random) -> list[int]:
    parts = random.choice((1, 1, 2, 3, 4, 16, 128))
    if often(random, 0.5):
        return [*(index * ((_LAST + 1) // parts) for index in range(parts)), _LAST]
    near = (
        [random.choice((1, 2, 5, 0x10, 0x11, _LAST - 1, _LAST - 2)) for _ in range(2)]
        if often(random, 0.3)
        else []
    )
    return sorted({0, _LAST, *near, *(random.randint(1, _LAST - 1) for _ in range(parts - 1))})


def _flow(random: Random, rate: float, throughput: float) -> dict[str, Any]:
    part = random.choice((0, 0.1, 0.25, 0.45, 0.5, 0.55, 0.6, 1.0, 1.1, random.random()))
    other = random.choice((0, 0, 0.25, 0.5, 1.0, random.random()))
    return {
        "msgRateIn": rate * part,
        "msgThroughputIn": throughput * other,
        "msgRateOut": random.choice((0, 0, rate * 0.1)),
    }


def _query(random: Random) -> dict[str, Any]:
    boundaries = _boundaries(random)
    at = random.randrange(len(boundaries) - 1)
    low, high = boundaries[at], boundaries[at + 1]
    if often(random, 0.1):  # of another time
        low, high = random.choice(
            ((0, _LAST), (0x10, 0x11), (low, low + 1), (0x10000000, 0x20000000))
        )
    algorithm = random.choice(_ALGORITHMS)
    query: dict[str, Any] = {
        "algorithm": algorithm,
        "bundle": f"t/ns/0x{low:08x}_0x{high:08x}",
        "boundaries": _hex(boundaries),
    }
    if often(random, 0.9):
        query["topics"] = [_topic(random) for _ in range(random.choice((0, 1, 2, 3, 5, 20, 60)))]
        if query["topics"] and often(random, 0.05):
            query["topics"].append(query["topics"][0])
    if algorithm == "specified_positions_divide":
        places = (
            low,
            high,
            low + 1,
            high - 1,
            (low + high) // 2,
            random.randint(0, _LAST),
            _LAST,
            0,
        )
        query["positions"] = [random.choice(places) for _ in range(random.randint(0, 4))]
        query |= {"force": True} if often(random, 0.3) else {}
    if algorithm == "flow_or_qps_equally_divide":
        query |= _flow_query(random, query.get("topics", []))
    elif often(random, 0.05):
        query["defaultAlgorithm"] = random.choice(_ALGORITHMS)
    return query


def _flow_query(random: Random, topics: list[str]) -> dict[str, Any]:
    conf = drawn(
        random,
        {
            "loadBalancerNamespaceBundleMaxMsgRate": (100, 1000, 30000),
            "loadBalancerNamespaceBundleMaxBandwidthMbytes": (1, 100, 2048),
            "flowOrQpsDifferenceThresholdPercentage": (0, 1, 10, 50),
        },
    )
    rate = conf.get("loadBalancerNamespaceBundleMaxMsgRate", 30000)
    throughput = conf.get("loadBalancerNamespaceBundleMaxBandwidthMbytes", 100) * _MB
    with_stats = share(random, list(dict.fromkeys(topics)), 0.9)
    found = {
        "conf": conf,
        "topicStats": {topic: _flow(random, rate, throughput) for topic in with_stats},
    }
    return {**found, "defaultAlgorithm": "range_equally_divide"} if often(random, 0.05) else found


def algorithms(random: Random, nasty: bool) -> dict[str, Any]:
    """A dozen queries."""
    return {"queries": [_query(random) for _ in range(12)]}


def hashing(random: Random, nasty: bool) -> dict[str, Any]:
    """Numbers of bundles, and topics of namespaces with boundaries."""
    namespaces = ("t/ns", "public/default")
    topics = [
        {
            "topic": _topic(random, random.choice(namespaces)),
            "boundaries": _hex(_boundaries(random)),
        }
        for _ in range(30)
    ]
    counts = (1, 2, 3, 4, 64, 127, 128)
    return {
        "numBundles": [random.choice((*counts, random.randint(1, 400))) for _ in range(4)],
        "topics": topics,
    }


def _stats(random: Random) -> dict[str, Any]:
    rates = (0, 500, 500.5, 1000, 15000.0, 30000, 30000.5, random.random() * 40000)
    throughput = (
        0,
        1,
        50 * _MB,
        100 * _MB,
        1024 * _MB,
        2048 * _MB,
        4096.0 * _MB,
        random.random() * 1e9,
    )
    return {
        "topics": random.choice((0, 1, 2, 3, 10, 11, 50, 1000, 1001)),
        "consumerCount": random.choice((0, 5, 50, 100, 101, 500, 501, 1001)),
        "producerCount": random.choice((0, 5, 50, 100, 500, 501)),
        "msgRateIn": random.choice(rates),
        "msgRateOut": random.choice(rates),
        "msgThroughputIn": random.choice(throughput),
        "msgThroughputOut": random.choice(throughput),
    }


def _counts(random: Random, names: list[str]) -> dict[str, int]:
    namespaces = sorted({name.rpartition("/")[0] for name in names})
    return {
        namespace: random.choice((1, 4, 6, 7, 8, 14, 15, 16, 126, 127, 128))
        for namespace in share(random, namespaces, 0.9)
    }


def modular(random: Random, nasty: bool) -> dict[str, Any]:
    """The leader's statistics, round after round."""
    known = broker_names(random, random.choice((1, 2, 3, 12, 13, 24)))
    names = bundle_names(random, random.choice((1, 5, 12, 30, 100)), known)
    rounds = []
    for _ in range(random.randint(1, 5)):
        owner = {name: random.choice(known) for name in names}
        brokers = {
            broker: {
                "lastStats": {
                    name: _stats(random)
                    for name in random.sample(names, len(names))
                    if owner[name] == broker
                }
            }
            for broker in random.sample(known, len(known))
        }
        averages = {
            name: {"shortTerm": {}, "longTerm": _stats(random)}
            for name in share(random, names, 0.9)
        }
        rounds.append(
            {"brokers": brokers, "bundleData": averages, "bundleCounts": _counts(random, names)}
        )
    return {"conf": drawn(random, _LIMITS), "rounds": rounds}


def extensible(random: Random, nasty: bool) -> dict[str, Any]:
    """One broker's statistics, round after round; hits in a row count."""
    keys = {
        "loadBalancerNamespaceBundleSplitConditionHitCountThreshold": (0, 1, 2, 5),
        "loadBalancerMaxNumberOfBundlesToSplitPerCycle": (1, 2, 5, 10),
        "defaultNamespaceBundleSplitAlgorithm": (
            "range_equally_divide",
            "topic_count_equally_divide",
            "flow_or_qps_equally_divide",
        ),
    }
    names = bundle_names(random, random.choice((1, 3, 6, 12, 30)))
    kept = {name: _stats(random) for name in names}
    conf = {**drawn(random, _LIMITS), **drawn(random, keys)}
    return {
        "conf": conf,
        "rounds": [_own_round(random, names, kept) for _ in range(random.randint(1, 12))],
    }


def _own_round(random: Random, names: list[str], kept: dict[str, Any]) -> dict[str, Any]:
    kept |= {name: _stats(random) for name in share(random, names, 0.2)}
    shown = share(random, names, 0.95)
    round_: dict[str, Any] = {
        "bundleStats": {name: kept[name] for name in shown},
        "bundleCounts": _counts(random, names),
    }
    if often(random, 0.2):
        round_["splitting"] = share(random, names, 0.2)
    if often(random, 0.1):
        round_["notOwned"] = share(random, names, 0.2)
    if often(random, 0.5):
        round_["topics"] = [_topic(random) for _ in range(random.choice((3, 20, 100)))]
        round_["topicStats"] = {
            topic: _flow(random, 30000, 100 * _MB) for topic in share(random, round_["topics"], 0.9)
        }
    return round_


DRAWS: Mapping[str, Callable[[Random, bool], dict[str, Any]]] = MappingProxyType(
    {
        "algorithms": algorithms,
        "hashing": hashing,
        "BundleSplitterTask": modular,
        "DefaultNamespaceBundleSplitStrategyImpl": extensible,
    }
)
