"""Picks the bundles that a broker above its limit sheds, in both modes, and puts the picks in
Pulsar's order of execution: shared by rules that shed a minimum of a broker's traffic.

Source of the rules: the common picker of OverloadShedder and ThresholdShedder of Pulsar 4.2.4, and
their `selectedBundlesCache`, a multimap that is cleared but never shrinks.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from strategies.cluster.model import BrokerLoad, ClusterView, Decision, Evidence, Skip
from strategies.cluster.strategy_memory import Memory
from strategies.java.hash_order import INITIAL_TABLE, hash_map_order
from strategies.shedding.candidates import (
    JavaTies,
    at_least,
    bundles_left_alone,
    candidates,
    column,
    idle,
    must_stay,
    ordinary_bundles,
    pick_by_name,
)
from strategies.shedding.reason_texts import mib, points, too_few_bundles
from strategies.states_and_advice_of_codes import ADD_BROKERS, SPLIT_BUNDLES, Meaning

#: The reason codes of this module.
MEANINGS = (
    Meaning("nobody-to-take", "cannot-help", 910, ADD_BROKERS),
    Meaning("too-big", "cannot-help", 990, SPLIT_BUNDLES),
    Meaning("nothing-may-leave", "cannot-help", 1230, SPLIT_BUNDLES, asks_bundles=True),
)

#: Added to the excess over the threshold: the broker should end five points below it.
MARGIN = 0.05


@dataclass(frozen=True, slots=True)
class SheddingReason:
    """Reason why a broker sheds, the same for all its bundles. `minimum`: throughput to shed,
    bytes/s; `first`: which bundles leave before others.
    """

    code: str
    why: str
    minimum: float
    evidence: Evidence
    first: str = "heavier"

    @property
    def met(self) -> str:
        """Reason why the broker's other bundles stay."""
        return f"the {mib(self.minimum)} that had to go are covered by {self.first} bundles"

    def decision(self, bundle: str, source: str, throughput: float) -> Decision:
        """Decision that the bundle leaves; placement names the destination."""
        leaving = (
            f"{mib(throughput)} of the {mib(self.minimum)} to shed leave with this bundle for a "
            "broker that placement picks"
        )
        text = f"{source} {self.why}: {leaving}"
        return Decision(
            bundle,
            source,
            None,
            self.code,
            text,
            {**self.evidence, "bundle_throughput": throughput},
        )


def relieve_as_java(
    broker: BrokerLoad, reason: SheddingReason, ties: JavaTies
) -> tuple[list[Decision], list[Skip]]:
    """Picks bundles in Java's order, heaviest first, until the minimum is covered, at least one;
    the others become skips.
    """
    if broker.figures.bundle_count <= 1:
        return [], [
            too_few_bundles(broker.broker, "is over the limit", broker.figures.bundle_count)
        ]
    picker = at_least(reason.minimum)
    picks, skips = ties.pick(broker, "msg_throughput", picker, ("not-needed", reason.met))
    decisions = [reason.decision(one.bundle, broker.broker, one.load) for one in picks]
    return decisions, skips if decisions else [nothing_may_leave(broker.broker, reason), *skips]


@dataclass(frozen=True, slots=True)
class Room:
    """Newest usage (fraction) of a broker that sheds, and of the emptiest one that may take a
    bundle (None: there is none).
    """

    usage: float
    lowest: float | None


def relieve(
    broker: BrokerLoad,
    room: Room,
    reason: SheddingReason,
    view: ClusterView,
    taken: Collection[str],
    *,
    ranked: Mapping[str, float] | None = None,
) -> tuple[list[Decision], list[Skip]]:
    """Picks bundles without Java's known defects: only bundles that relieve the broker, and none
    that reverses the imbalance. `ranked`: bundle → rank, the lowest leaves first; without it, the
    heaviest does.
    """
    if (count := ordinary_bundles(broker)) <= 1:
        return [], [too_few_bundles(broker.broker, "is over the limit", count)]
    usage, lowest = room.usage, room.lowest
    if lowest is None or lowest >= usage:
        return [], [no_taker(broker.broker, usage)]
    loads, found = broker.bundles, candidates(broker.bundles, view, taken)
    balancing_throughput = broker.figures.traffic.msg_throughput * (usage - lowest) / 2 / usage
    throughput = column(loads, "msg_throughput").tolist()
    movable = {loads.names[row]: throughput[row] for row in found.rows}
    leaving = _picked(movable, reason.minimum, balancing_throughput, ranked)
    leaves = frozenset(leaving)
    staying = {name: load for name, load in movable.items() if name not in leaves}
    decisions = [reason.decision(name, broker.broker, movable[name]) for name in leaving]
    skips = [
        *must_stay(broker.broker, found),
        *_left_alone(broker.broker, staying, reason, balancing_throughput),
    ]
    return decisions, skips if decisions else [nothing_may_leave(broker.broker, reason), *skips]


def nothing_may_leave(broker: str, reason: SheddingReason) -> Skip:
    """Skip of a broker that is due, but each of whose bundles has a reason to stay."""
    text = f"it {reason.why}, but none of its bundles may leave"
    return Skip("broker", (broker,), "nothing-may-leave", text, None, reason.evidence)


def no_taker(broker: str, usage: float) -> Skip:
    """Skip of a broker while every other broker is settling or as full."""
    text = f"it is over the limit at {points(usage)}, but no emptier broker can be judged"
    return Skip("broker", (broker,), "nobody-to-take", text, None, {"usage": usage})


def _picked(
    movable: Mapping[str, float],
    minimum: float,
    balancing_throughput: float,
    ranked: Mapping[str, float] | None,
) -> list[str]:
    """Picks the bundles of the lowest rank that do not reverse the imbalance; if every bundle
    would, the lightest one that still lowers the peak.

    `balancing_throughput`: throughput that, moved to the emptiest broker, makes it as full as the
    source, if usage follows traffic.
    """
    fitting = {name: load for name, load in movable.items() if 0 < load <= balancing_throughput}
    if fitting:
        names, loads = list(fitting), list(fitting.values())
        return [
            names[position] for position in pick_by_name(names, loads, at_least(minimum), ranked)
        ]
    lowering = [
        (load, name) for name, load in movable.items() if 0 < load < 2 * balancing_throughput
    ]
    return [min(lowering)[1]] if lowering else []


def _left_alone(
    broker: str, staying: Mapping[str, float], reason: SheddingReason, balancing_throughput: float
) -> list[Skip]:
    without_traffic = [name for name, load in staying.items() if not load > 0]
    too_big = [name for name, load in staying.items() if load > balancing_throughput]
    spared = [name for name, load in staying.items() if 0 < load <= balancing_throughput]
    limit = (
        f"it carries more than the {mib(balancing_throughput)} that would make the emptiest "
        "broker as full as this one"
    )
    return [
        *idle(broker, without_traffic),
        *bundles_left_alone(broker, "too-big", limit, too_big),
        *bundles_left_alone(broker, "not-needed", reason.met, spared),
    ]


def as_executed(
    decisions: Sequence[Decision], memory: Memory, table: str
) -> tuple[tuple[Decision, ...], Memory]:
    """Source brokers in the order of the multimap, bundles as they were picked; `table` names its
    size in the memory.
    """
    sources = list(dict.fromkeys(decision.source for decision in decisions))
    before = memory.cluster.table_sizes.get(table, INITIAL_TABLE)
    order, size = hash_map_order(sources, before)
    rank = {sources[index]: position for position, index in enumerate(order.tolist())}
    if size != before:
        memory = Memory(
            memory.brokers,
            replace(memory.cluster, table_sizes={**memory.cluster.table_sizes, table: size}),
        )
    return tuple(sorted(decisions, key=lambda decision: rank[decision.source])), memory
