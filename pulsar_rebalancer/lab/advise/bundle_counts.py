"""How many bundles a cluster needs so that its brokers can be nearly even: the fewest splits of the
present bundles, and the fewest bundles at all. The load of a bundle is taken to split in halves, as
its topics are unknown; one of a single topic cannot be split.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from pulsar_rebalancer.lab.advise.packing import PackingProblem, exchange, largest_first
from pulsar_rebalancer.lab.advise.sized_cluster import SizedCluster
from strategies.bundles import Floats, KeyRange, namespace_of, parse_bundle, topic_hash

#: Most splits that are tried, and the largest number of bundles for a new namespace, as power of 2.
_SPLITS, _BITS = 2048, 10
#: A present bundle: its range (None: unknown), mean load and topics.
Leaf = tuple[KeyRange | None, float, int]


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """A range of the hashes of a namespace with a mean load: `leaves`, the present bundles in it,
    by range; `parent`: what it is a part of.
    """

    namespace: str
    load: float
    leaves: tuple[Leaf, ...]
    parent: "Piece | None" = None

    @property
    def range(self) -> KeyRange | None:
        first, last = self.leaves[0][0], self.leaves[-1][0]
        return None if first is None or last is None else KeyRange(first.lower, last.upper)

    def parts(self) -> "list[Piece]":
        """Its two parts: of several bundles with about half of the load each, of one the halves of
        its range; none if it cannot be split.
        """
        leaves, (range_, load, topics) = self.leaves, self.leaves[0]
        if len(leaves) == 1 and range_ is not None and topics > 1 and range_.can_split:
            lower, upper = range_.parts([range_.middle])
            leaves = (lower, load / 2, topics - topics // 2), (upper, load / 2, topics // 2)
        sums = np.cumsum([load for _, load, _ in leaves])
        at = 1 + int(np.abs(sums[:-1] - sums[-1] / 2).argmin()) if len(leaves) > 1 else 0
        sides = (float(sums[at - 1]), leaves[:at]), (float(sums[-1] - sums[at - 1]), leaves[at:])
        return [Piece(self.namespace, *side, self) for side in sides if at]


def present_pieces(cluster: SizedCluster) -> tuple[list[Piece], list[Piece]]:
    """The present bundles, and each namespace as one piece."""
    loads, pieces, spaces = cluster.sizes.mean(axis=1), list[Piece](), dict[str, list[Leaf]]()
    for name, load, topics in zip(cluster.names, loads.tolist(), cluster.topics, strict=True):
        space, range_ = parse_bundle(name) or (namespace_of(name) or name, None)
        leaf = range_, load, int(topics)
        pieces.append(Piece(space, load, (leaf,)))
        spaces.setdefault(space, []).append(leaf)
    return pieces, [
        Piece(space, float(np.sum([load for _, load, _ in some])), tuple(sorted(some, key=str)))
        for space, some in sorted(spaces.items())
    ]


def enough(cluster: SizedCluster, pieces: Iterable[Piece], most: float) -> list[Piece] | None:
    """The pieces after as few splits as found, the largest first, with which brokers can be within
    `most` points of each other; without those that are not needed. None if no split is enough.
    """

    def reach(some: Sequence[Piece]) -> bool:
        return spread_of(cluster, np.array([one.load for one in some])) <= most

    whole, pieces = list[Piece](), sorted(pieces, key=lambda one: one.load)
    while not reach([*whole, *pieces]):
        if not pieces or len(pieces) > _SPLITS:
            return None
        for one in [pieces.pop() for _ in range(1 + len(pieces) // 32)]:
            whole += [] if one.parts() else [one]
            pieces = sorted([*pieces, *one.parts()], key=lambda one: one.load)
    pieces += whole
    for one in sorted(pieces, key=lambda one: one.load):
        others = [other for other in pieces if other.parent is not one.parent]
        if one.parent and one in pieces and len(pieces) - len(others) == 2:
            pieces = [*others, one.parent] if reach([*others, one.parent]) else pieces
    return pieces


def split_pieces(pieces: Iterable[Piece]) -> list[Piece]:
    """The pieces that were split, parents first."""
    found, left = dict[Piece, None](), [one.parent for one in pieces]
    for one in left:
        if one is not None and one not in found:
            found[one] = None
            left.append(one.parent)
    return sorted(found, key=lambda one: (-one.load, str(one.range)))


def presplit(
    cluster: SizedCluster, namespace: str, loads: Sequence[float], at_most: float, most: float
) -> list[int] | None:
    """The partitions in each of the fewest bundles, a power of two, for a new namespace whose
    partitions have these loads, so that brokers can be even and none of the bundles is too large
    for a broker up to this usage (fraction); None if no number is enough. Names matter little:
    CRC-32 is linear, so another name of the topic exchanges bundles.
    """
    topic = f"persistent://{namespace}/topic-partition-"
    hashes = np.array([topic_hash(f"{topic}{one}") for one in range(len(loads))])
    for bits in range(_BITS + 1):
        parts = np.bincount(hashes >> (32 - bits), loads, minlength=1 << bits)
        fits = parts.max() <= np.median(at_most * cluster.power - cluster.idle)
        if fits and spread_of(cluster, np.append(cluster.sizes.mean(axis=1), parts)) <= most:
            return [int(one) for one in np.bincount(hashes >> (32 - bits), minlength=1 << bits)]
    return None


def spread_of(cluster: SizedCluster, loads: Floats) -> float:
    """The spread in points of the best placement that was found for bundles with these loads."""
    all_ = np.ones(len(cluster.brokers), dtype=bool)
    demand = PackingProblem(loads[:, None], cluster.idle[:, None], cluster.power, lambda *_: all_)
    owners = largest_first(demand, np.full(len(loads), -1))
    assert owners is not None
    exchange(demand, owners, 0.0)
    return 100 * float(np.ptp(demand.fill(owners)))
