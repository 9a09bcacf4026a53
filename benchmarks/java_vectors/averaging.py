"""Samples for the data classes: averages, sums, percentages, the smoothed load, orders."""

from collections.abc import Callable, Mapping
from random import Random
from types import MappingProxyType
from typing import Any

from benchmarks.java_vectors.draws import FAMILIES, Numbers, drawn, often, share, weights
from benchmarks.java_vectors.names import broker_names, bundle_names
from benchmarks.java_vectors.shedding import figures

_RESOURCES = ("cpu", "memory", "directMemory", "bandwidthIn", "bandwidthOut")


def stats(numbers: Numbers) -> dict[str, Any]:
    """Newest figures of a bundle, around the steps in which Pulsar compares them."""
    random = numbers.random
    if often(random, 0.5):
        throughput = (0, 49_999, 50_000, 50_001, 99_999, 100_000, 149_999, 150_000, 250_000)
        rates = (0, 24.9, 25, 49, 50, 50.5, 99, 100, 150)
        traffic = [
            random.choice(throughput),
            random.choice(throughput),
            random.choice(rates),
            random.choice(rates),
        ]
        traffic = [
            numbers.traffic() if numbers.nasty and often(random, 0.1) else value
            for value in traffic
        ]
        four = dict(
            zip(
                ("msgThroughputIn", "msgThroughputOut", "msgRateIn", "msgRateOut"),
                traffic,
                strict=True,
            )
        )
    else:
        four = figures(numbers)
    return {
        **four,
        "topics": random.choice((0, 1, 2, 3, 100, 499, 500, 1001)),
        "consumerCount": random.choice((0, 1, 10, 499, 500, 501)),
        "producerCount": random.choice((0, 1, 10, 499, 500, 501)),
        "cacheSize": random.choice((0, 99_999, 100_000, 199_999, 5_000_000)),
    }


def _numbers(random: Random, nasty: bool) -> Numbers:
    return Numbers(random, random.choice(FAMILIES), nasty)


def _bundle(random: Random, nasty: bool) -> dict[str, Any]:
    numbers = _numbers(random, nasty)
    case: dict[str, Any] = {"samples": [stats(numbers) for _ in range(random.randint(1, 40))]}
    if often(random, 0.5):
        case |= {"shortSamples": random.randint(1, 12), "longSamples": random.randint(1, 40)}
    if often(random, 0.5):
        case["default"] = figures(numbers)
    return case


def _broker(random: Random, nasty: bool) -> dict[str, Any]:
    numbers = _numbers(random, nasty)
    names = bundle_names(random, random.randint(0, 60), broker_names(random, 3))
    return {
        "bundles": names,
        "bundleData": {
            name: {"shortTerm": figures(numbers), "longTerm": figures(numbers)}
            for name in share(random, names, 0.8)
        },
        "default": figures(numbers),
    }


def _usage(random: Random, nasty: bool) -> dict[str, Any]:
    numbers = _numbers(random, nasty)
    brokers = [
        {key: numbers.usage() for key in _RESOURCES if often(random, 0.8)}
        for _ in range(random.randint(1, 30))
    ]
    return {"conf": weights(random), "brokers": brokers}


def _smoothed(random: Random, nasty: bool) -> dict[str, Any]:
    numbers = _numbers(random, nasty)
    samples: list[dict[str, Any]] = []
    for _ in range(random.randint(1, 40)):
        if often(random, 0.05):
            samples.append({"clear": True})
        else:
            samples.append(
                {
                    **{key: numbers.usage() for key in _RESOURCES if often(random, 0.8)},
                    **figures(numbers),
                }
            )
    history = drawn(random, {"loadBalancerHistoryResourcePercentage": (0.0, 0.5, 0.75, 0.9, 1.0)})
    return {"conf": {**weights(random), **history}, "samples": samples}


def _pairs(random: Random, nasty: bool) -> dict[str, Any]:
    numbers = _numbers(random, nasty)
    pairs = []
    for _ in range(random.randint(1, 60)):
        left = stats(numbers)
        right = {
            key: value if often(random, 0.6) else stats(numbers).get(key, 0)
            for key, value in left.items()
        }
        pairs.append([left, right])
    return {"pairs": pairs}


DRAWS: Mapping[str, Callable[[Random, bool], dict[str, Any]]] = MappingProxyType(
    {
        "BundleData": _bundle,
        "TimeAverageBrokerData": _broker,
        "ResourceUsage": _usage,
        "BrokerLoadData": _smoothed,
        "Compare": _pairs,
    }
)
