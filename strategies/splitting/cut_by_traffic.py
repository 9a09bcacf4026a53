"""Cuts a bundle by the traffic of its topics, and predicts what each child carries.

Topics without a name in the record count as evenly spread over the bundle's hashes: they are many
and small. The boundary between two topics is the one of Pulsar's
`FlowOrQpsEquallyDivideBundleSplitAlgorithm`: one past the middle. That algorithm fills parts up to
a limit; this one makes the two most equal parts, because brokers of the extensible load manager
refuse more than two.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from strategies.bundles import KeyRange, parse_bundle, topic_hash
from strategies.cluster.topics_of_bundle import TopicsOfBundle
from strategies.ordered_sum import ordered_sum


@dataclass(frozen=True, slots=True)
class Cut:
    """A boundary strictly inside the bundle, and the parts (0–1) of the bundle's traffic that the
    lower and the upper child carry.
    """

    boundary: int
    shares: tuple[float, float]


def even_cut(known: TopicsOfBundle, range_: KeyRange, *, by_messages: bool) -> Cut | None:
    """The cut between two topics that makes the children most equal; None if there are no two
    topics of different hashes inside the bundle, or no traffic.
    """
    weights, others = _weights(known, range_, by_messages), _others(known, by_messages)
    cuts = [
        cut
        for before, hash_ in pairwise(sorted(weights))
        if (cut := _cut(weights, others, range_, before + (hash_ - before) // 2 + 1)) is not None
    ]
    return min(cuts, key=lambda cut: (abs(cut.shares[0] - 0.5), cut.boundary), default=None)


def cut_at(
    known: TopicsOfBundle, range_: KeyRange, boundary: int, *, by_messages: bool
) -> Cut | None:
    """The prediction for a boundary; None for a bundle without traffic."""
    weights = _weights(known, range_, by_messages)
    return _cut(weights, _others(known, by_messages), range_, boundary)


def shares_of(known: TopicsOfBundle, children: Sequence[str]) -> Mapping[str, float]:
    """Child → the part (0–1) of the bundle's bytes/s that it is to carry; empty without children or
    traffic.
    """
    parts = {child: parsed[1] for child in children if (parsed := parse_bundle(child)) is not None}
    width = ordered_sum(one.upper - one.lower for one in parts.values())
    others = _others(known, by_messages=False) / max(1, width)
    loads = {
        child: ordered_sum(
            [
                *_weights(known, part, by_messages=False).values(),
                others * (part.upper - part.lower),
            ]
        )
        for child, part in parts.items()
    }
    total = ordered_sum(loads.values())
    return {child: load / total for child, load in loads.items()} if total > 0 else {}


def _cut(
    weights: Mapping[int, float], others: float, range_: KeyRange, boundary: int
) -> Cut | None:
    total = ordered_sum([*weights.values(), others])
    if not (total > 0 and range_.inside(boundary)):
        return None
    below = [weight for hash_, weight in sorted(weights.items()) if hash_ < boundary]
    spread = others * (boundary - range_.lower) / (range_.upper - range_.lower)
    lower = min(1.0, ordered_sum([*below, spread]) / total)
    return Cut(boundary, (lower, 1.0 - lower))


def _others(known: TopicsOfBundle, by_messages: bool) -> float:
    """Traffic of the topics without a name in the record."""
    return known.others_msg_rate if by_messages else known.others_throughput


def _weights(known: TopicsOfBundle, range_: KeyRange, by_messages: bool) -> Mapping[int, float]:
    """Hash → traffic of the topics of that hash."""
    found = dict[int, float]()
    for topic in known.topics:
        hash_ = topic_hash(topic.name)
        if hash_ in range_:
            weight = topic.msg_rate if by_messages else topic.throughput
            found[hash_] = found.get(hash_, 0.0) + weight
    return found
