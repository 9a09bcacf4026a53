"""Reads the names of bundles: their namespace, their range of hashes, and which belong to Pulsar
itself and must not move.

Source of the rules: `NamespaceBundleFactory` and `NamespaceBundles` of Pulsar 4.2.4. The boundaries
of a namespace ascend from 0 to FULL; bundle i holds the hashes from boundary i (inclusive) to
boundary i + 1 (exclusive); the last bundle also holds FULL.

Every broker owns a heartbeat namespace (`pulsar/host:port`, formerly `pulsar/cluster/host:port`)
and an SLA-monitor namespace (`sla-monitor/host:port`), whose topics mean nothing on another broker.
Source of the parity rule: `LoadData.getBundleDataForLoadShedding` of Pulsar 4.2.4.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

#: The largest hash, and the last boundary of every namespace.
FULL = 0xFFFFFFFF

_BUNDLE = re.compile(
    r"(?P<namespace>.+)/0x(?P<lower>[0-9a-fA-F]{1,8})_0x(?P<upper>[0-9a-fA-F]{1,8})", re.ASCII
)
_TENANTS = ("pulsar/", "sla-monitor/")
_LEGAL_NAMESPACE = re.compile(r"[-=:.\w]+/[-=:.\w]+", re.ASCII)
_AS_IN_4_2_4 = re.compile(r"(?:pulsar|sla-monitor)/(?:[^/]+/)?[^:]+:\d+", re.ASCII)
_OWN = re.compile(r"(?:pulsar|sla-monitor)/(?:[^/]+/)?[^/]+:\d+|pulsar/system", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class KeyRange:
    """The hashes from `lower` to `upper`; `upper` belongs to the range only when it is FULL."""

    lower: int
    upper: int

    def __str__(self) -> str:
        return f"{hexadecimal(self.lower)}_{hexadecimal(self.upper)}"

    def __contains__(self, hash_: int) -> bool:
        return self.lower <= hash_ < self.upper or hash_ == self.upper == FULL

    @property
    def can_split(self) -> bool:
        """Whether the range has room for a boundary strictly inside."""
        return self.upper - self.lower > 1

    @property
    def middle(self) -> int:
        """The boundary that cuts the range in two halves."""
        return self.lower + (self.upper - self.lower) // 2

    def inside(self, boundary: int) -> bool:
        """Whether a boundary leaves a part on both sides."""
        return self.lower < boundary < self.upper

    def parts(self, boundaries: Sequence[int]) -> tuple[KeyRange, ...]:
        """The ranges into which these boundaries (ascending) cut this range."""
        edges = (self.lower, *boundaries, self.upper)
        return tuple(KeyRange(lower, upper) for lower, upper in pairwise(edges))


def topic_hash(topic: str) -> int:
    """CRC-32 of a complete topic name, with its domain and `-partition-n`."""
    return zlib.crc32(topic.encode("utf-8", "surrogatepass"))


def hexadecimal(boundary: int) -> str:
    """A boundary in the form used in bundle names."""
    return f"0x{boundary:08x}"


def initial_boundaries(bundles: int) -> tuple[int, ...]:
    """The boundaries of a new namespace with `bundles` bundles (1 or more); the last bundle takes
    the remainder of the division.
    """
    size = 2**32 // bundles
    return (*(index * size for index in range(bundles)), FULL)


def namespace_of(bundle: str) -> str:
    """`tenant/namespace` of `tenant/namespace/0x…_0x…`."""
    return bundle.rpartition("/")[0]


def parse_bundle(bundle: str) -> tuple[str, KeyRange] | None:
    """Namespace and range in a bundle's name; None for a name of another form."""
    found = _BUNDLE.fullmatch(bundle)
    return (
        None
        if found is None
        else (found["namespace"], KeyRange(int(found["lower"], 16), int(found["upper"], 16)))
    )


def has_java_namespace(bundle: str) -> bool:
    """Whether Pulsar 4.2.4 can parse the namespace of a bundle; it refuses names of three parts,
    which existed up to 2.x.
    """
    return _LEGAL_NAMESPACE.fullmatch(namespace_of(bundle)) is not None


def is_system_bundle(bundle: str) -> bool:
    """Whether a bundle belongs to Pulsar itself and must never move."""
    return bundle.startswith(_TENANTS) and _OWN.fullmatch(namespace_of(bundle)) is not None


def is_java_system_bundle(bundle: str) -> bool:
    """Whether Pulsar 4.2.4 recognises a bundle as its own; it misses names of three parts."""
    if not bundle.startswith(_TENANTS):
        return False
    # Java fails to parse a namespace of three parts, then matches the whole bundle name, which
    # never ends in a port.
    subject = namespace_of(bundle) if has_java_namespace(bundle) else bundle
    return _AS_IN_4_2_4.fullmatch(subject) is not None
