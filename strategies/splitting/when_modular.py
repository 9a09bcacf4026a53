"""Decides which bundles the modular load manager splits.

Source of the rule: `BundleSplitterTask.findBundlesToSplit` of Pulsar 4.2.4: current numbers of
topics and sessions, long-term averages of traffic, and no more splits than the namespace's limit of
bundles allows.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from strategies.bundles import has_java_namespace, is_system_bundle, namespace_of, parse_bundle
from strategies.cluster.model import BrokerLoad, Decision, Skip
from strategies.java.hash_order import concurrent_hash_map_order
from strategies.splitting.bundle_limits import (
    REASONS,
    Sizes,
    SplitSettings,
    bandwidth_limit,
    excess,
    java_bandwidth_limit,
    maybe_hot,
    reason_text,
    reasons,
)
from strategies.states_and_advice_of_codes import SPLIT_BUNDLES, Meaning

#: The reason codes of this module.
MEANINGS = (
    Meaning(
        "namespace-full",
        "not-allowed",
        320,
        "Raise splitting.max_bundles, if the namespace may have more.",
    ),
    Meaning("not-divisible", "cannot-help", 1200, SPLIT_BUNDLES),
)


@dataclass(frozen=True, slots=True)
class Splits:
    """Bundles to split, in the order of execution (never with a destination), and hot ones that
    stay whole. For the extensible load manager, `hits`: for the next scan; `failed`: bundles that
    count as failures; the evidence of a decision has its `boundary`.
    """

    decisions: tuple[Decision, ...] = ()
    skips: tuple[Skip, ...] = ()
    hits: Mapping[str, int] = field(default_factory=dict)
    failed: tuple[str, ...] = ()


#: A bundle above a limit, and the ratio of its figure to the limit.
_Hot = tuple[Decision, float]


def modular_splits(
    brokers: Sequence[BrokerLoad],
    bundles_in: Callable[[str], int],
    settings: SplitSettings,
) -> Splits:
    """The splits of one round, hottest bundles first. `bundles_in`: number of bundles of a
    namespace; called only for namespaces with hot bundles.
    """
    found = sorted(
        _hot_bundles(brokers, settings, bandwidth_limit(settings)),
        key=lambda hot: (-hot[1], hot[0].bundle, hot[0].source),
    )
    once = dict[str, Decision]()
    for decision, _ in found:
        once.setdefault(decision.bundle, decision)
    stays = {
        decision.bundle: whole
        for decision in once.values()
        if (whole := stays_whole(decision.bundle, decision.source)) is not None
    }
    splits = _within_namespaces(
        (one for one in once.values() if one.bundle not in stays), bundles_in, settings
    )
    return Splits(splits.decisions, (*stays.values(), *splits.skips))


def java_modular_splits(
    brokers: Sequence[BrokerLoad],
    bundles_in: Callable[[str], int],
    settings: SplitSettings,
) -> Splits:
    """The splits of one round as in Java, broker by broker in hash order."""
    order = concurrent_hash_map_order([broker.broker for broker in brokers])
    found = _hot_bundles(
        [brokers[index] for index in order], settings, java_bandwidth_limit(settings)
    )
    return _within_namespaces(
        (decision for decision, _ in found if has_java_namespace(decision.bundle)),
        bundles_in,
        settings,
    )


def bundles_per_namespace(bundles: Iterable[str]) -> Counter[str]:
    """Namespace → number of these bundles."""
    return Counter(map(namespace_of, bundles))


def stays_whole(bundle: str, source: str) -> Skip | None:
    """Why a hot bundle cannot be split, whatever its load; None for an ordinary one."""
    parsed = parse_bundle(bundle)
    if is_system_bundle(bundle):
        return Skip("bundle", (bundle,), "system-bundle", "belongs to Pulsar itself", source)
    if parsed is None or not parsed[1].can_split:
        return Skip(
            "bundle",
            (bundle,),
            "not-divisible",
            "is too hot, and its range holds no boundary to cut it at",
            source,
        )
    return None


def namespace_full(bundle: str, source: str, settings: SplitSettings) -> Skip:
    """Skip of a hot bundle in a namespace with the maximum number of bundles."""
    text = (
        "is too hot, and its namespace already has splitting.max_bundles = "
        f"{settings.max_bundles} bundles"
    )
    return Skip("bundle", (bundle,), "namespace-full", text, source)


def _within_namespaces(
    hot: Iterable[Decision], bundles_in: Callable[[str], int], settings: SplitSettings
) -> Splits:
    """The splits within the limits of their namespaces. Java's plan is a map: a bundle that two
    brokers report counts twice, and is split on the broker where it was seen last.
    """
    plan: dict[str, Decision] = {}
    planned: Counter[str] = Counter()
    skips = []
    for decision in hot:
        namespace = namespace_of(decision.bundle)
        if bundles_in(namespace) + planned[namespace] >= settings.max_bundles:
            skips.append(namespace_full(decision.bundle, decision.source, settings))
            continue
        plan[decision.bundle] = decision
        planned[namespace] += 1
    return Splits(tuple(plan.values()), tuple(skips))


def _hot_bundles(
    brokers: Sequence[BrokerLoad], settings: SplitSettings, bandwidth: int
) -> Iterator[_Hot]:
    """The bundles above a limit, in the order of the brokers. `bandwidth`: the limit in bytes/s."""
    for broker in maybe_hot(brokers, settings, bandwidth):
        yield from _hot(broker, settings, bandwidth)


def _hot(broker: BrokerLoad, settings: SplitSettings, bandwidth: int) -> Iterator[_Hot]:
    table = broker.bundles
    sizes = Sizes.of_traffic(table.topics, table.sessions, table.long)
    found = reasons(sizes, settings, bandwidth)
    rows = np.flatnonzero(found >= 0)
    if not len(rows):
        return
    above = excess(sizes, settings)
    for row in rows.tolist():
        evidence, reason = sizes.evidence(row), REASONS[found[row]]
        decision = Decision(
            table.names[row],
            broker.broker,
            None,
            reason,
            reason_text(reason, sizes, row, settings),
            evidence,
        )
        yield decision, float(above[row])
