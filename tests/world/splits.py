"""Builders for tests about splits: topics whose hash is given, brokers with bundles above a
limit.
"""

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np

from strategies.bundles import BundleLoads, parse_bundle, topic_hash
from strategies.cluster.model import BrokerLoad, BundleStats, Figures

PREFIX = "persistent://t/ns/"
_DIGITS = 64


@cache
def _steps(prefix: str) -> tuple[tuple[int, int], ...]:
    """What turning digit i of a name from 0 to 1 does to the hash, as a triangle of (effect, digits
    to turn).
    """
    zero = topic_hash(prefix + "0" * _DIGITS)
    triangle: list[tuple[int, int]] = []
    for digit in range(_DIGITS):
        name = format(1 << digit, f"0{_DIGITS}b")
        effect, turned = topic_hash(prefix + name) ^ zero, 1 << digit
        for known, digits in triangle:
            if effect ^ known < effect:
                effect, turned = effect ^ known, turned ^ digits
        if effect:
            triangle.append((effect, turned))
            triangle.sort(reverse=True)
    return tuple(triangle)


def topic_of(hash_: int, prefix: str = PREFIX) -> str:
    """A topic with this hash: CRC-32 is linear, so digits of the name can be turned until it
    fits.
    """
    missing, turned = topic_hash(prefix + "0" * _DIGITS) ^ hash_, 0
    for effect, digits in _steps(prefix):
        if missing ^ effect < missing:
            missing, turned = missing ^ effect, turned ^ digits
    assert missing == 0
    return prefix + format(turned, f"0{_DIGITS}b")


def stats(bundles: Mapping[str, tuple[int, int, float, float]]) -> BundleStats:
    """Bundles with topics, sessions, messages/s and bytes/s, everything inbound."""
    rows = list(bundles.values())
    return BundleStats(
        tuple(bundles),
        np.array([(rate, 0.0, throughput, 0.0) for _, _, rate, throughput in rows]).reshape(-1, 4),
        np.array([row[0] for row in rows], dtype=np.int64),
        np.array([row[1] for row in rows], dtype=np.int64),
    )


def broker(name: str, bundles: Mapping[str, tuple[int, int, float, float]]) -> BrokerLoad:
    """A broker whose bundles carry the same now and on the long run."""
    newest = stats(bundles)
    ones = np.ones(len(newest.names), dtype=np.int64)
    table = BundleLoads(
        newest.names,
        newest.traffic,
        newest.traffic,
        ones,
        ones,
        newest.topics,
        newest.sessions,
        newest.traffic,
    )
    return BrokerLoad(name, Figures(), lambda: table)


def children_of(bundle: str, boundaries: Sequence[int]) -> list[str]:
    """The bundles into which a bundle is split; in the middle without `boundaries`."""
    parsed = parse_bundle(bundle)
    assert parsed is not None
    namespace, range_ = parsed
    return [f"{namespace}/{part}" for part in range_.parts(boundaries or [range_.middle])]
