"""Bundle statistics for the report of the heaviest bundles, with policies."""

from random import Random
from typing import Any

from benchmarks.java_vectors.averaging import stats
from benchmarks.java_vectors.draws import FAMILIES, Numbers, drawn, often, share
from benchmarks.java_vectors.names import broker_names, bundle_names


def isolation_policy(random: Random, namespaces: list[str]) -> dict[str, Any]:
    """A policy as the admin API takes it, for some of the namespaces or patterns of them."""
    patterns = [
        "t/n",
        "t/n.",
        "t/.*",
        ".*",
        "other/.*",
        "t/n[0-2]",
        *namespaces,
        *(f"{name}.*" for name in namespaces[:2]),
    ]
    hosts = [
        "p1",
        "p2",
        "p\\d",
        "p.*",
        "s.*",
        "s1",
        "x1",
        ".*example",
        "broker-[0-9]+\\.example",
        ".*",
        "b.*",
        "::1",
    ]
    limits = {"min_limit": str(random.choice((0, 1, 2, 3, 9))), "usage_threshold": "80"}
    return {
        "namespaces": random.sample(patterns, random.randint(1, 2)),
        "primary": random.sample(hosts, random.randint(1, 2)),
        "secondary": random.sample(hosts, random.randint(0, 2)),
        "auto_failover_policy": {"policy_type": "min_available", "parameters": limits},
    }


def top_bundles(random: Random, nasty: bool) -> dict[str, Any]:
    """A few reports of one broker."""
    numbers = Numbers(random, random.choice(FAMILIES), nasty)
    names = bundle_names(
        random, random.choice((0, 1, 3, 5, 12, 13, 24, 40, 200)), broker_names(random, 3)
    )
    namespaces = sorted({name.rpartition("/")[0] for name in names})
    conf = drawn(
        random,
        {
            "loadBalancerMaxNumberOfBundlesInBundleLoadReport": (1, 2, 3, 10, 50),
            "loadBalancerSheddingBundlesWithPoliciesEnabled": (True, False),
            "loadBalancerSheddingExcludedNamespaces": (
                share(random, namespaces, 0.3) or ["none/none"],
            ),
        },
        0.4,
    )
    case: dict[str, Any] = {"conf": conf}
    if often(random, 0.3):
        case["isolationPolicies"] = {
            f"p{index}": isolation_policy(random, namespaces)
            for index in range(random.randint(0, 2))
        }
    if often(random, 0.3):
        case["antiAffinityGroups"] = {
            name: random.choice(("g1", "g2", " ")) for name in share(random, namespaces, 0.4)
        }
    rounds = []
    for _ in range(random.randint(1, 6)):
        round_: dict[str, Any] = {
            "bundleStats": {name: stats(numbers) for name in share(random, names, 0.9)}
        }
        if often(random, 0.4):
            round_["topk"] = random.choice((1, 2, 5, 100))
        rounds.append(round_)
    return {**case, "rounds": rounds}
