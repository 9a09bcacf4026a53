"""What is known of bundles: the load table of a broker, their order by newest figures, their names
and ranges of hashes, and which belong to Pulsar itself and must not move.

Source of the order: `NamespaceBundleStats.compareTo` of Pulsar 4.2.4 (steps are rounded). Figures
become columns of whole numbers, compared from left to right, so that whole tables can be sorted at
once.

Source of the ranges: `NamespaceBundleFactory` and `NamespaceBundles`. The boundaries of a namespace
ascend from 0 to FULL; bundle i holds the hashes from boundary i (inclusive) to boundary i + 1
(exclusive); the last bundle also holds FULL.

Every broker owns a heartbeat namespace (`pulsar/host:port`, formerly `pulsar/cluster/host:port`)
and an SLA-monitor namespace (`sla-monitor/host:port`), whose topics mean nothing on another broker.
Source of the parity rule: `LoadData.getBundleDataForLoadShedding`.
"""

import re
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

#: Column order of every four-column traffic table.
RATE_IN, RATE_OUT, THROUGHPUT_IN, THROUGHPUT_OUT = range(4)

BYTES_PER_STEP = 100_000.0
MESSAGES_PER_STEP = 100.0
CLIENTS_PER_STEP = 500
CACHE_BYTES_PER_STEP = 100_000

_LONG_MAX = np.iinfo(np.int64).max
_LONG_MIN = np.iinfo(np.int64).min

#: The largest hash, and the last boundary of every namespace.
FULL = 0xFFFFFFFF

_BUNDLE = re.compile(
    r"(?P<namespace>.+)/0x(?P<lower>[0-9a-fA-F]{1,8})_0x(?P<upper>[0-9a-fA-F]{1,8})", re.ASCII
)
#: A name that begins like a range is a mistyped bundle, and no topic.
_TOPIC = re.compile(
    r"(?P<domain>(?:non-)?persistent://)?(?P<namespace>[^/\s]+/[^/\s]+)/(?!0[xX])[^/\s]+"
)
_TENANTS = ("pulsar/", "sla-monitor/")
_LEGAL_NAMESPACE = re.compile(r"[-=:.\w]+/[-=:.\w]+", re.ASCII)
_AS_IN_4_2_4 = re.compile(r"(?:pulsar|sla-monitor)/(?:[^/]+/)?[^:]+:\d+", re.ASCII)
_OWN = re.compile(r"(?:pulsar|sla-monitor)/(?:[^/]+/)?[^/]+:\d+|pulsar/system", re.ASCII)


@dataclass(frozen=True, slots=True, eq=False)
class BundleLoads:
    """The bundles of one broker as columns; row i of every array belongs to `names[i]`.

    `short`, `long`: float64[n, 4], averages over at most 10 and 1000 samples (columns RATE_IN …
    THROUGHPUT_OUT); `short_samples`, `long_samples`, `topics`, `sessions` (consumers + producers):
    int64[n]; `current`: float64[n, 4], newest figures.
    """

    names: tuple[str, ...]
    short: Floats
    long: Floats
    short_samples: Ints
    long_samples: Ints
    topics: Ints
    sessions: Ints
    current: Floats
    _rows: dict[str, int] = field(default_factory=dict, init=False, repr=False)

    def row(self, bundle: str) -> int | None:
        """The row of a bundle; None if it is not in the table."""
        if not self._rows and self.names:
            self._rows.update(zip(self.names, range(len(self.names)), strict=True))
        return self._rows.get(bundle)

    def throughput_of(self, bundle: str) -> float:
        """One figure of `msg_throughput`; 0 for a bundle that is not in the table."""
        row = self.row(bundle)
        if row is None:
            return 0.0
        return float(self.short[row, THROUGHPUT_IN] + self.short[row, THROUGHPUT_OUT])

    @property
    def msg_rate(self) -> Floats:
        """float64[n]: short-term messages/s in + out."""
        return self.short[:, RATE_IN] + self.short[:, RATE_OUT]

    @property
    def msg_throughput(self) -> Floats:
        """float64[n]: short-term bytes/s in + out."""
        return self.short[:, THROUGHPUT_IN] + self.short[:, THROUGHPUT_OUT]


@dataclass(frozen=True, slots=True)
class TableSummary:
    """Seven totals and maxima of a bundle table, for rounds that do not unpack the table: of the
    long-term averages with the newest figures as their last sample; all zero for a table without
    rows.

    `rate_in`, `rate_out`: messages/s of all bundles, added one by one in the order of the table,
    because the order decides the last bits; `topics`: of all bundles. `most_topics`,
    `most_sessions`, `most_rate` (messages/s in + out), `most_throughput` (bytes/s in + out): the
    largest value of any bundle, NaN ignored.
    """

    rate_in: float = 0.0
    rate_out: float = 0.0
    topics: int = 0
    most_topics: int = 0
    most_sessions: int = 0
    most_rate: float = 0.0
    most_throughput: float = 0.0


def no_bundles() -> BundleLoads:
    """A table without rows."""
    four, one = np.empty((0, 4)), np.empty(0, dtype=np.int64)
    return BundleLoads((), four, four, one, one, one, one, four)


def newest_order(traffic: Floats, clients: Ints, cache_bytes: Ints) -> Ints:
    """Sort keys int64[n, 5] of float64[n, 4] newest figures, int64[n] topics + consumers +
    producers, and int64[n] cached bytes.
    """
    with np.errstate(all="ignore"):
        columns = (
            _rounded(traffic[:, THROUGHPUT_IN] / BYTES_PER_STEP),
            _rounded(traffic[:, THROUGHPUT_OUT] / BYTES_PER_STEP),
            _rounded((traffic[:, RATE_IN] + traffic[:, RATE_OUT]) / MESSAGES_PER_STEP),
            _steps(clients, CLIENTS_PER_STEP),
            _steps(cache_bytes, CACHE_BYTES_PER_STEP),
        )
    return np.stack(columns, axis=1)


def ranks(keys: Ints) -> Ints:
    """int64[n]: rank of every row of int64[n, k] among the distinct rows, lightest 0; equal rows
    share a rank.
    """
    if not len(keys):
        return np.empty(0, dtype=np.int64)
    order = lightest_first(keys)
    steps = np.any(keys[order[1:]] != keys[order[:-1]], axis=1)
    places = np.empty(len(keys), dtype=np.int64)
    places[order] = np.concatenate(([0], np.cumsum(steps)))
    return places


def lightest_first(keys: Ints, *names: Sequence[str]) -> Ints:
    """int64[n]: rows in ascending order; equal rows by `names` where given, else in their present
    order.
    """
    tie_breakers = tuple(np.array(column) for column in names)
    return np.lexsort((*tie_breakers, *keys.T[::-1])).astype(np.int64)


def _rounded(values: Floats) -> Ints:
    """Java's Math.round: halves round up, exact for all doubles."""
    whole = np.floor(values)
    return truncated(whole + (values - whole >= 0.5))


def truncated(values: Floats) -> Ints:
    """Java's cast of a double to a long: towards zero, NaN is 0, too large values become the
    largest long.
    """
    whole = np.where(np.isnan(values), 0.0, np.trunc(values))
    inside = np.where((whole >= -(2.0**63)) & (whole < 2.0**63), whole, 0.0).astype(np.int64)
    return np.where(whole >= 2.0**63, _LONG_MAX, np.where(whole < -(2.0**63), _LONG_MIN, inside))


def _steps(values: Ints, size: int) -> Ints:
    """Java's integer division, towards zero."""
    return np.where(values < 0, -(-values // size), values // size)


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

    def parts(self, boundaries: Sequence[int]) -> "tuple[KeyRange, ...]":
        """The ranges into which these boundaries (ascending) cut this range."""
        edges = (self.lower, *boundaries, self.upper)
        return tuple(KeyRange(lower, upper) for lower, upper in pairwise(edges))


def topic_hash(topic: str) -> int:
    """CRC-32 of a complete topic name, with its domain and `-partition-n`."""
    return zlib.crc32(topic.encode("utf-8", "surrogatepass"))


def hexadecimal(boundary: int) -> str:
    """A boundary in the form used in bundle names."""
    return f"0x{boundary:08x}"


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


def namespace_and_topic(topic: str) -> tuple[str, str] | None:
    """Namespace and complete name of a topic or partition, persistent unless it names its domain;
    None for a name of another form.
    """
    found = _TOPIC.fullmatch(topic)
    if found is None:
        return None
    return found["namespace"], topic if found["domain"] else f"persistent://{topic}"


def bundles_of_topic(namespace: str, topic: str, bundles: Iterable[str]) -> list[str]:
    """Those of the bundles that hold a topic of a namespace, the narrowest first: a bundle that was
    split holds it, too. `topic`: its complete name.
    """
    hash_ = topic_hash(topic)
    parsed = {one: range_ for one in bundles if (range_ := parse_bundle(one)) is not None}
    holds = [one for one, (of, range_) in parsed.items() if of == namespace and hash_ in range_]
    return sorted(holds, key=lambda one: parsed[one][1].upper - parsed[one][1].lower)


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


#: Names to try: enough for a namespace of 10,000 bundles, with a chance of 1 in 10^8 to find none.
_TRIES = 200_000


@lru_cache(4_096)
def topic_to_look_up(bundle: str) -> str | None:
    """`non-persistent/tenant/namespace/name` whose hash is in the bundle; None for a range so
    narrow that none was found.

    A look-up of a non-persistent topic asks for no metadata of it and creates none.
    """
    parsed = parse_bundle(bundle)
    if parsed is None:
        return None
    namespace, range_ = parsed
    prefix = f"non-persistent://{namespace}/rebalancer-"
    found = (number for number in range(_TRIES) if topic_hash(f"{prefix}{number}") in range_)
    number = next(found, None)
    return None if number is None else f"non-persistent/{namespace}/rebalancer-{number}"
