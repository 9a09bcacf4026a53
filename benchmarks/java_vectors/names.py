"""Drawing names of brokers and bundles for histories: several shapes, some with equal hashes, and
Pulsar's own.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from random import Random

from benchmarks.java_vectors.draws import often, share

_LAST = 0xFFFFFFFF
#: Pairs with equal String.hashCode, from which names that collide are built.
_TWINS = ("Aa", "BB")


def broker_names(random: Random, count: int) -> list[str]:
    """Different names of one shape."""
    shape = random.choice(_BROKERS)
    names = list(dict.fromkeys(shape(random, index) for index in range(count * 2)))
    return random.sample(names, min(count, len(names)))


def _twins(random: Random, index: int) -> str:
    """Names of which eight at a time have the same hash."""
    return "".join(_TWINS[index >> bit & 1] for bit in range(3)) + f"{index >> 3}:8080"


_BROKERS: tuple[Callable[[Random, int], str], ...] = (
    lambda random, index: f"b{index}:1",
    lambda random, index: f"broker-{index}.example:8080",
    lambda random, index: f"pulsar-broker-{index}.pulsar-broker.messaging.svc.cluster.local:8080",
    lambda random, index: f"10.{random.randint(0, 255)}.{random.randint(0, 255)}.{index}:8080",
    lambda random, index: f"localhost:{8080 + index}",
    lambda random, index: f"[2001:db8::{index:x}]:8443",
    lambda random, index: (
        f"{random.choice('abcxyz')}-{random.randint(0, 10**6)}-{index}.dc{index % 3}.internal:8443"
    ),
    _twins,
)
_TENANTS = ("public", "t", "tenant-a", "tenant_b", "a.b", "x=y", "Aa", "BB", "pulsar")
_NAMESPACES = ("default", "orders", "ns", "n", "system", "Aa", "BB", "events.v1", "a:b")


def bundle_names(random: Random, count: int, brokers: Sequence[str] = ()) -> list[str]:
    """Different names of bundles of a few namespaces, and some of Pulsar's own."""
    names: dict[str, None] = {}
    while len(names) < count:
        if brokers and often(random, 0.05):
            names[system_bundle(random, random.choice(brokers))] = None
            continue
        parts = random.choice((1, 2, 4, 7, 16, 64, count, count))
        suffix = random.choice(("", f"-{random.randint(0, 20)}"))
        namespace = f"{random.choice(_TENANTS)}/{random.choice(_NAMESPACES)}{suffix}"
        bounds = _boundaries(random, parts)
        found = [f"{namespace}/0x{low:08x}_0x{high:08x}" for low, high in pairwise(bounds)]
        names |= dict.fromkeys(share(random, found, random.choice((0.3, 1.0))))
    return list(names)[:count]


def _boundaries(random: Random, parts: int) -> list[int]:
    if often(random, 0.5):
        return [*(index * ((_LAST + 1) // parts) for index in range(parts)), _LAST]
    return sorted({0, _LAST, *(random.randint(1, _LAST - 1) for _ in range(parts - 1))})


def system_bundle(random: Random, broker: str) -> str:
    """A heartbeat, SLA-monitor or system bundle, or one that looks almost like it."""
    namespaces = (
        f"pulsar/{broker}",
        f"pulsar/cluster-a/{broker}",
        f"sla-monitor/{broker}",
        f"sla-monitor/cluster-a/{broker}",
        "pulsar/system",
        f"pulsar/{broker}x",
        f"pulsars/{broker}",
        "sla-monitor/host",
    )
    return f"{random.choice(namespaces)}/0x00000000_0xffffffff"
