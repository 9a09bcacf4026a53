"""Which bundles a round splits, and why others that are too big stay whole for now."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from strategies.bundles.ranges import parse_bundle
from strategies.filters.contract import Refusal
from strategies.filters.pipeline import LoadManager
from strategies.model import BrokerLoad, BundleStats, ClusterView, Decision, Skip
from strategies.settings import Mode
from strategies.splitting.limits import SplitSettings
from strategies.splitting.when import Splits, modular_splits
from strategies.splitting.when_extensible import BrokerContext, extensible_splits
from strategies.splitting.where import Cuts


@dataclass(frozen=True, slots=True)
class DueSplits:
    """The splits of a round, what stays whole, and for the extensible load manager the `hits` to remember."""

    decisions: tuple[Decision, ...] = ()
    skips: tuple[Skip, ...] = ()
    hits: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class SplitRules:
    """By what a round splits. `bundles_in`: how many bundles a namespace has; asked only for namespaces with hot bundles.

    `closed`: why nothing may be split now, if so; it reads on from what is wrong with a bundle.
    """

    settings: SplitSettings
    load_manager: LoadManager
    mode: Mode
    bundles_in: Callable[[str], int]
    closed: Refusal | None = None


def due_splits(view: ClusterView, leaving: Collection[str], hits: Mapping[str, int], rules: SplitRules) -> DueSplits:
    """The splits of one round, after it was decided which bundles leave. `hits`: what the round before answered.

    In fixed mode a bundle of the extensible load manager that was due and stays keeps its hits: it still is.
    """
    if not rules.settings.enabled:
        return DueSplits()
    extensible, counted = rules.load_manager == "extensible", dict[str, int]()
    if extensible:
        found, skips, counted = _by_broker(view.brokers, hits, rules)
    else:
        splits: Splits = modular_splits(view.brokers, rules.bundles_in, rules.settings, rules.mode)
        found, skips = splits.decisions, splits.skips
    kept, more = dict[str, Decision](), list[Skip]()
    for decision in found:
        why = _twice(decision, kept) or _stays_for_now(decision.bundle, view, leaving) or rules.closed
        if why is None:
            kept[decision.bundle] = replace(decision, text=f"it {decision.text}")
            continue
        more.append(Skip("bundle", (decision.bundle,), why.code, f"it {decision.text}, but {why.text}", decision.source))
        if extensible and rules.mode == "fixed" and decision.bundle not in kept:
            counted[decision.bundle] = hits.get(decision.bundle, 0) + 1
    return DueSplits(tuple(kept.values()), (*(replace(skip, text=f"it {skip.text}") for skip in skips), *more), counted)


def _by_broker(
    brokers: Sequence[BrokerLoad], hits: Mapping[str, int], rules: SplitRules
) -> tuple[tuple[Decision, ...], tuple[Skip, ...], dict[str, int]]:
    """As every broker of the extensible load manager looks at its own bundles."""
    decisions, skips, counted = list[Decision](), list[Skip](), dict[str, int]()
    for broker in brokers:
        table = broker.bundles
        stats = BundleStats(table.names, table.current, table.topics, table.sessions)
        own = extensible_splits(stats, hits, BrokerContext(broker.broker, rules.bundles_in, _middle), rules.settings, rules.mode)
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


def _twice(decision: Decision, kept: Mapping[str, Decision]) -> Refusal | None:
    """A bundle that two brokers report must not be split twice in a round: ids stand for one command."""
    other = kept.get(decision.bundle)
    return None if other is None else Refusal("on-two-brokers", f"{other.source} reports it too, and splits it")


def _stays_for_now(bundle: str, view: ClusterView, leaving: Collection[str]) -> Refusal | None:
    if bundle in leaving:
        return Refusal("already-leaving", "it leaves its broker in this round")
    if bundle in view.cooling:
        return Refusal("cooling-down", "it was moved or split a short while ago")
    return Refusal("excluded-namespace", "its namespace is one of those that stay") if view.is_excluded(bundle) else None
