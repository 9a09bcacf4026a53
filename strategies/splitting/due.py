"""Decides which bundles a round splits, and why others that are too big stay whole for now."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from strategies.bundles import parse_bundle
from strategies.cluster.model import BrokerLoad, BundleStats, ClusterView, Decision, Skip
from strategies.filters.filter_order_and_settings import LoadManager
from strategies.settings import Mode
from strategies.splitting.bundle_limits import BY_TRAFFIC, SplitSettings
from strategies.splitting.when_extensible import (
    BrokerContext,
    extensible_splits,
    java_extensible_splits,
)
from strategies.splitting.when_modular import Splits, java_modular_splits, modular_splits
from strategies.states_and_advice_of_codes import NEXT_ROUNDS, Meaning, Refusal

#: The reason codes of this module.
MEANINGS = (Meaning("topics-awaited", "waiting", 705, NEXT_ROUNDS),)
#: Number of rounds that a split by traffic waits for the topics of its bundle.
_AWAITED_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Splitter:
    """The rules of a mode that find bundles to split, by load manager. `keeps_due`: a bundle that
    was due but stays whole keeps its hits, because it is still due.
    """

    modular: Callable[[Sequence[BrokerLoad], Callable[[str], int], SplitSettings], Splits]
    extensible: Callable[[BundleStats, Mapping[str, int], BrokerContext, SplitSettings], Splits]
    keeps_due: bool


SPLITTERS: Mapping[Mode, Splitter] = MappingProxyType(
    {
        "fixed": Splitter(modular_splits, extensible_splits, keeps_due=True),
        "parity": Splitter(java_modular_splits, java_extensible_splits, keeps_due=False),
    }
)


@dataclass(frozen=True)
class SplitRules:
    """Rules by which a round splits. `bundles_in`: number of bundles of a namespace; called only
    for namespaces with hot bundles.

    `closed`: why no bundle may be split now, or None; its text continues a sentence about a bundle.
    """

    settings: SplitSettings
    load_manager: LoadManager
    splitter: Splitter
    bundles_in: Callable[[str], int]
    closed: Refusal | None = None
    #: Bundles whose topics are known.
    topics: Collection[str] = ()


def due_splits(
    view: ClusterView, leaving: Collection[str], hits: Mapping[str, int], rules: SplitRules
) -> Splits:
    """The splits of one round, after the round has decided which bundles leave. `hits`: result of
    the previous round.
    """
    if not rules.settings.enabled:
        return Splits()
    extensible, counted = rules.load_manager == "extensible", dict[str, int]()
    if extensible:
        found, skips, counted = _by_broker(view.brokers, hits, rules)
    else:
        splits = rules.splitter.modular(view.brokers, rules.bundles_in, rules.settings)
        found, skips = splits.decisions, splits.skips
    kept, more = dict[str, Decision](), list[Skip]()
    for decision in found:
        why = (
            _stays_for_now(decision, kept, view, leaving)
            or rules.closed
            or _awaits_topics(decision.bundle, hits, rules)
        )
        if why is None:
            kept[decision.bundle] = replace(decision, text=f"it {decision.text}")
            continue
        more.append(
            Skip(
                "bundle",
                (decision.bundle,),
                why.code,
                f"it {decision.text}, but {why.text}",
                decision.source,
            )
        )
        if (
            (extensible or why.code == "topics-awaited")
            and rules.splitter.keeps_due
            and decision.bundle not in kept
        ):
            counted[decision.bundle] = hits.get(decision.bundle, 0) + 1
    return Splits(
        tuple(kept.values()),
        (*(replace(skip, text=f"it {skip.text}") for skip in skips), *more),
        counted,
    )


def _by_broker(
    brokers: Sequence[BrokerLoad], hits: Mapping[str, int], rules: SplitRules
) -> tuple[tuple[Decision, ...], tuple[Skip, ...], dict[str, int]]:
    """The splits of all brokers of the extensible load manager, each of which scans its own
    bundles. By name: the order in which brokers were seen first must not show in the round.
    """
    decisions, skips, counted = list[Decision](), list[Skip](), dict[str, int]()
    for broker in sorted(brokers, key=lambda one: one.broker):
        table = broker.bundles
        stats = BundleStats(table.names, table.current, table.topics, table.sessions)
        own = rules.splitter.extensible(
            stats,
            hits,
            BrokerContext(broker.broker, rules.bundles_in, _middle),
            rules.settings,
        )
        decisions += [_where_known(decision, rules.settings) for decision in own.decisions]
        skips += own.skips
        counted |= own.hits
    return tuple(decisions), tuple(skips), counted


def _middle(bundle: str) -> Sequence[int]:
    """The middle of the bundle's range. Load reports name no topics, so for another algorithm the
    broker finds the boundary itself.
    """
    parsed = parse_bundle(bundle)
    return [] if parsed is None else [parsed[1].middle]


def _where_known(decision: Decision, settings: SplitSettings) -> Decision:
    if settings.algorithm == "range_equally_divide":
        return decision
    return replace(
        decision,
        evidence={key: value for key, value in decision.evidence.items() if key != "boundary"},
    )


def _stays_for_now(
    decision: Decision, kept: Mapping[str, Decision], view: ClusterView, leaving: Collection[str]
) -> Refusal | None:
    """Why a bundle is not split in this round. One that two brokers report is split once: an id
    identifies one command.
    """
    bundle, other = decision.bundle, kept.get(decision.bundle)
    if other is not None:
        return Refusal("on-two-brokers", f"{other.source} reports it too, and splits it")
    if bundle in leaving:
        return Refusal("already-leaving", "it leaves its broker in this round")
    if bundle in view.cooling:
        return Refusal("cooling-down", "it was moved or split a short while ago")
    if view.is_excluded(bundle):
        return Refusal("excluded-namespace", "its namespace is one of those that stay")
    return None


def _awaits_topics(bundle: str, hits: Mapping[str, int], rules: SplitRules) -> Refusal | None:
    """Why a split by traffic waits; None from the round on in which the topics are known, or after
    some rounds without them. As with all that is due and stays, hits count the rounds.
    """
    before = rules.settings.hit_count if rules.load_manager == "extensible" else 0
    waits = hits.get(bundle, 0) - before < _AWAITED_ROUNDS and bundle not in rules.topics
    if not (waits and rules.splitter.keeps_due and rules.settings.algorithm in BY_TRAFFIC):
        return None
    return Refusal("topics-awaited", "its topics are not known yet; the collector reads them")
