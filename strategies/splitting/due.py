"""Which bundles a round splits, and why others that are too big stay whole for now."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from strategies.filters.pipeline import LoadManager
from strategies.model import BrokerLoad, BundleStats, ClusterView, Decision, Skip
from strategies.settings import Mode
from strategies.splitting.hashing import parse_bundle
from strategies.splitting.limits import SplitSettings
from strategies.splitting.when import Splits, modular_splits
from strategies.splitting.when_extensible import Surroundings, extensible_splits
from strategies.splitting.where import Cuts


@dataclass(frozen=True, slots=True)
class DueSplits:
    """The splits of a round, what stays whole, and for the extensible load manager the `hits` to remember."""

    decisions: tuple[Decision, ...] = ()
    skips: tuple[Skip, ...] = ()
    hits: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class SplitRules:
    """By what a round splits. `bundles_in`: how many bundles a namespace has; asked only for namespaces with hot bundles."""

    settings: SplitSettings
    load_manager: LoadManager
    mode: Mode
    bundles_in: Callable[[str], int]


def due_splits(view: ClusterView, leaving: Collection[str], hits: Mapping[str, int], rules: SplitRules) -> DueSplits:
    """The splits of one round, after it was decided which bundles leave. `hits`: what the round before answered."""
    if not rules.settings.enabled:
        return DueSplits()
    if rules.load_manager == "extensible":
        found, skips, hits = _by_broker(view.brokers, hits, rules)
    else:
        splits: Splits = modular_splits(view.brokers, rules.bundles_in, rules.settings, rules.mode)
        found, skips, hits = splits.decisions, splits.skips, {}
    kept, more = list[Decision](), list[Skip]()
    for decision in found:
        why = _stays_for_now(decision.bundle, view, leaving)
        if why is None:
            kept.append(decision)
        else:
            more.append(Skip("bundle", (decision.bundle,), why[0], f"it {decision.text}, but {why[1]}", decision.source))
    return DueSplits(tuple(kept), (*skips, *more), hits)


def _by_broker(
    brokers: Sequence[BrokerLoad], hits: Mapping[str, int], rules: SplitRules
) -> tuple[tuple[Decision, ...], tuple[Skip, ...], dict[str, int]]:
    """As every broker of the extensible load manager looks at its own bundles."""
    decisions, skips, counted = list[Decision](), list[Skip](), dict[str, int]()
    for broker in brokers:
        table = broker.bundles
        stats = BundleStats(table.names, table.current, table.topics, table.sessions)
        own = extensible_splits(stats, hits, Surroundings(broker.broker, rules.bundles_in, _middle), rules.settings, rules.mode)
        decisions += [_where_known(decision, rules.settings) for decision in own.decisions]
        skips += own.skips
        counted |= own.hits
    return tuple(decisions), tuple(skips), counted


def _middle(bundle: str) -> Cuts:
    """Load reports name no topics, so only the middle of the range is known; where another algorithm cuts, its broker finds out."""
    parsed = parse_bundle(bundle)
    return None if parsed is None else (parsed[1].lower + (parsed[1].upper - parsed[1].lower) // 2,)


def _where_known(decision: Decision, settings: SplitSettings) -> Decision:
    if settings.algorithm == "range_equally_divide":
        return decision
    return replace(decision, evidence={key: value for key, value in decision.evidence.items() if key != "boundary"})


def _stays_for_now(bundle: str, view: ClusterView, leaving: Collection[str]) -> tuple[str, str] | None:
    if bundle in leaving:
        return "already-leaving", "it leaves its broker in this round"
    if bundle in view.cooling:
        return "cooling-down", "it was moved or split a short while ago"
    return ("excluded-namespace", "its namespace is one of those that stay") if view.is_excluded(bundle) else None
