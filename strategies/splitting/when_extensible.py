"""Decides which of its own bundles a broker of the extensible load manager splits, and where.

Source of the rule: `DefaultNamespaceBundleSplitStrategyImpl.findBundlesToSplit` of Pulsar 4.2.4: a
bundle must be above a limit several times in a row, judged by its newest figures, and the algorithm
must find exactly one boundary.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from strategies.bundles import Ints, KeyRange, hexadecimal, namespace_of, parse_bundle
from strategies.cluster.model import BundleStats, Decision, Skip
from strategies.java.hash_order import concurrent_hash_map_order
from strategies.splitting import bundle_limits
from strategies.splitting.when_modular import Splits, namespace_full, stays_whole
from strategies.states_and_advice_of_codes import NEXT_ROUNDS, Meaning

#: The reason codes of this module.
MEANINGS = (
    Meaning("enough-splits", "not-allowed", 330, "Wait, or raise splitting.max_splits."),
    Meaning("being-split", "waiting", 700, NEXT_ROUNDS),
    Meaning("no-boundary", "cannot-help", 1210, "Check splitting.algorithm."),
)


@dataclass(frozen=True, slots=True)
class BrokerContext:
    """Input of a broker's scan besides the figures of its bundles.

    `broker`: its own id; `bundles_in`: number of bundles of a namespace; `cut`: the boundaries at
    which the algorithm would cut a bundle; `owns`: whether the service unit state channel assigns
    the bundle to this broker; `splitting`: bundles of any broker that are being split.
    """

    broker: str
    bundles_in: Callable[[str], int]
    cut: Callable[[str], Sequence[int]]
    owns: Callable[[str], bool] = lambda _: True
    splitting: Collection[str] = ()


@dataclass
class _SplitScan:
    """One scan of the bundles of a broker, with its results so far. `is_of`: whether a bundle
    belongs to a namespace.
    """

    stats: BundleStats
    context: BrokerContext
    settings: bundle_limits.SplitSettings
    is_of: Callable[[str, str], bool]
    sizes: bundle_limits.Sizes
    found: Ints
    hits: dict[str, int]
    decisions: list[Decision] = field(default_factory=list)
    skips: list[Skip] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    planned: Counter[str] = field(default_factory=Counter)

    @property
    def result(self) -> Splits:
        return Splits(tuple(self.decisions), tuple(self.skips), self.hits, tuple(self.failed))

    def as_java(self) -> None:
        """Scans the bundles one by one in hash order: counts, checks and splits each before the
        next one.
        """
        for row in concurrent_hash_map_order(self.stats.names).tolist():
            if self.sizes.topics[row] >= 2 and self.context.owns(self.stats.names[row]):
                before = len(self.decisions)
                self.look_at(row)
                # Java stops when a split reaches the maximum, so that 0 means no limit.
                if before < len(self.decisions) == self.settings.max_splits:
                    break

    def look_at(self, row: int) -> None:
        bundle = self.stats.names[row]
        parsed = parse_bundle(bundle)
        if parsed is None or not parsed[1].can_split:
            self.failed.append(bundle)
        elif self.found[row] < 0:
            self.hits.pop(bundle, None)
        else:
            self.hits[bundle] = self.hits.get(bundle, 0) + 1
            if self.hits[bundle] > self.settings.hit_count:
                self.split(row, parsed[1])

    def hottest_first(self) -> None:
        """Counts all bundles before the first split; drops the counts of bundles of Pulsar itself
        or of other brokers.
        """
        rows = [row for row in np.flatnonzero(self.found >= 0).tolist() if self.counts(row)]
        names = self.stats.names
        self.hits = {names[row]: self.hits.get(names[row], 0) + 1 for row in rows}
        above = bundle_limits.excess(self.sizes, self.settings)
        for row in sorted(rows, key=lambda row: (-above[row], names[row])):
            parsed = parse_bundle(names[row])
            if parsed is not None and self.hits[names[row]] > self.settings.hit_count:
                self.split_or_wait(row, parsed[1])

    def counts(self, row: int) -> bool:
        bundle = self.stats.names[row]
        if not self.context.owns(bundle):
            return False
        if (skip := stays_whole(bundle, self.context.broker)) is not None:
            self.skips.append(skip)
        return skip is None

    def split_or_wait(self, row: int, range_: KeyRange) -> None:
        if len(self.decisions) >= self.settings.max_splits:
            text = (
                f"is too hot; splitting.max_splits = {self.settings.max_splits} others are split "
                "first"
            )
            self.skips.append(
                Skip("bundle", (self.stats.names[row],), "enough-splits", text, self.context.broker)
            )
        else:
            self.split(row, range_)

    def split(self, row: int, range_: KeyRange) -> None:
        bundle = self.stats.names[row]
        namespace = namespace_of(bundle)
        if (
            self.context.bundles_in(namespace) + self.planned[namespace]
            >= self.settings.max_bundles
        ):
            self.skips.append(namespace_full(bundle, self.context.broker, self.settings))
        elif any(
            self.is_of(other, namespace) and _shares_boundary(range_, other)
            for other in self.context.splitting
        ):
            self.skips.append(
                Skip(
                    "bundle",
                    (bundle,),
                    "being-split",
                    "is being split already",
                    self.context.broker,
                )
            )
        else:
            self.cut(row, self.context.cut(bundle))

    def cut(self, row: int, boundaries: Sequence[int]) -> None:
        bundle = self.stats.names[row]
        if len(boundaries) != 1:
            self.failed.append(bundle)
            self.skips.append(
                Skip(
                    "bundle",
                    (bundle,),
                    "no-boundary",
                    f"is too hot, but {_why_not(boundaries)}",
                    self.context.broker,
                )
            )
            return
        evidence, reason = self.sizes.evidence(row), bundle_limits.REASONS[self.found[row]]
        text = bundle_limits.reason_text(reason, self.sizes, row, self.settings)
        self.decisions.append(
            Decision(
                bundle,
                self.context.broker,
                None,
                reason,
                text,
                {**evidence, "boundary": hexadecimal(boundaries[0])},
            )
        )
        self.planned[namespace_of(bundle)] += 1
        del self.hits[bundle]


def extensible_splits(
    stats: BundleStats,
    hits: Mapping[str, int],
    context: BrokerContext,
    settings: bundle_limits.SplitSettings,
) -> Splits:
    """Scans a broker's bundles, hottest first. `hits`: result of the previous scan."""
    scan = _scan(
        stats, hits, context, settings, bandwidth=bundle_limits.bandwidth_limit, is_of=_is_of
    )
    scan.hottest_first()
    return scan.result


def java_extensible_splits(
    stats: BundleStats,
    hits: Mapping[str, int],
    context: BrokerContext,
    settings: bundle_limits.SplitSettings,
) -> Splits:
    """Scans a broker's bundles as Java does. For Java, a namespace that begins with another one is
    the same.
    """
    scan = _scan(
        stats,
        hits,
        context,
        settings,
        bandwidth=bundle_limits.java_bandwidth_limit,
        is_of=str.startswith,
    )
    scan.as_java()
    return scan.result


def _scan(
    stats: BundleStats,
    hits: Mapping[str, int],
    context: BrokerContext,
    settings: bundle_limits.SplitSettings,
    *,
    bandwidth: Callable[[bundle_limits.SplitSettings], int],
    is_of: Callable[[str, str], bool],
) -> _SplitScan:
    sizes = bundle_limits.Sizes.of_traffic(stats.topics, stats.sessions, stats.traffic)
    present = set(stats.names)
    kept = {bundle: count for bundle, count in hits.items() if bundle in present}
    found = bundle_limits.reasons(sizes, settings, bandwidth(settings))
    return _SplitScan(stats, context, settings, is_of, sizes, found, kept)


def _is_of(bundle: str, namespace: str) -> bool:
    return namespace_of(bundle) == namespace


def _shares_boundary(range_: KeyRange, other: str) -> bool:
    lower, _, upper = other.rpartition("/")[2].partition("_")
    return lower == hexadecimal(range_.lower) or upper == hexadecimal(range_.upper)


def _why_not(boundaries: Sequence[int]) -> str:
    if not boundaries:
        return "the algorithm found no boundary"
    return (
        f"the algorithm would cut it into {len(boundaries) + 1} parts, and the extensible load "
        "manager makes two"
    )
