"""Runs a round of both forms of TransferShedder: builds stores from the brokers' reports, turns the
verdict into decisions and skips.

A report of the extensible load manager carries the broker's own averages, as Pulsar uses them. For
other reports, usage and throughput are averaged here, per round and not every five seconds. A
broker cools down from the round that decides that it sheds.
The top list of a broker is the one that its own report would hold (`topk`), built only for brokers
that the algorithm reaches.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import isfinite
from operator import attrgetter

from strategies.bundles import BundleLoads, namespace_of
from strategies.cluster.model import BrokerLoad, ClusterView, Decision, Evidence, Skip
from strategies.cluster.strategy_memory import NO_MEMORY, Memory
from strategies.settings import Weights
from strategies.shedding.broker_memory import kept_of, with_transfers
from strategies.shedding.candidates import Candidates, bundles_left_alone, must_stay
from strategies.shedding.contract import Shedding
from strategies.shedding.reason_texts import broker_skips, mib, points, setting
from strategies.shedding.transfer.exchange_loop import (
    BrokerEntry,
    Stores,
    TopLists,
    TransferMove,
    TransferVerdict,
    transferable,
)
from strategies.shedding.transfer.settings import TransferSettings
from strategies.shedding.transfer.topk import Top, has_policies, top_lists

_WHY_NOTHING = {
    "CoolDown": (
        "cooling-down",
        "a broker shed bundles less than shedding.transfer.delay_s ago; no broker sheds until "
        "figures show the effect",
    ),
    "NoBundles": (
        "too-few-bundles",
        "the fullest brokers have no bundle that may move and is small enough; splitting "
        "bundles would help",
    ),
    "NoLoadData": ("no-bundle-figures", "the fullest brokers report no bundles that may move"),
}


#: Returns the brokers that take part with their usages (fraction), and skips of the others.
TakePart = Callable[[ClusterView, Weights], tuple[list[tuple[BrokerLoad, float]], list[Skip]]]


#: Returns the verdict of one round. Arguments: stores, settings, number of rounds in a row in which
#: the condition held, `fresh`.
Judge = Callable[[Stores, TransferSettings, int, bool], TransferVerdict]


@dataclass(frozen=True)
class TransferShedder:
    """Moves bundles from the fullest to the emptiest broker, or swaps bundles, when usage is too
    uneven for enough rounds.

    The mode provides `take_part`, `average` (old average, newest figure, weight of the past,
    `fresh`), `judge`,
    `top_bundles` and `candidates`.

    `limits_clock`: the time of a broker's averages is at most the time of its report, which matters
    if its clock is ahead.
    """

    settings: TransferSettings
    weights: Weights
    take_part: TakePart
    average: Callable[[float | None, float, float, bool], float]
    judge: Judge
    top_bundles: Top
    candidates: Callable[[BundleLoads, ClusterView, Collection[str]], Candidates]
    limits_clock: bool

    def shed(self, view: ClusterView, memory: Memory) -> Shedding:
        """Runs one round: decisions, skips and new memory."""
        usages, skips = self.take_part(view, self.weights)
        judged, averages = [broker for broker, _ in usages], self._averages(usages, memory)
        tops = top_lists(judged, view, self.settings, self.top_bundles)
        entries = {
            broker.broker: self._entry(broker, averages[broker.broker], view.now_ms)
            for broker in judged
        }
        gave = kept_of(memory, attrgetter("gave_at_ms"))
        stores = Stores(
            view.now_ms, entries, tops, entries.keys(), view.cooling, gave, self._may_move(view)
        )
        verdict = self.judge(
            stores, self.settings, memory.cluster.hits, any(broker.fresh for broker in judged)
        )
        cooling = {broker: since for broker, since in gave.items() if broker not in verdict.over}
        memory = with_transfers(
            memory, averages, cooling | {move.source: view.now_ms for move in verdict.moves}
        )
        memory = Memory(memory.brokers, replace(memory.cluster, hits=verdict.hits))
        decisions = tuple(
            _exchanges(verdict.moves, [_decision(move, stores, verdict) for move in verdict.moves])
        )
        return Shedding(decisions, (*skips, *self._left_alone(view, judged, verdict, tops)), memory)

    def _may_move(self, view: ClusterView) -> Callable[[str, str, str], bool]:
        """Returns a function: whether a bundle may move from a source to a destination."""
        if view.takers is None:
            return lambda bundle, source, destination: not view.is_excluded(bundle)
        takers, has_rules = (
            cache(view.takers),
            cache(lambda namespace: has_policies(namespace, view.policies)),
        )

        def may_move(bundle: str, source: str, destination: str) -> bool:
            if view.is_excluded(bundle):
                return False
            if not self.settings.with_policies and has_rules(namespace_of(bundle)):
                return False
            return transferable(self.settings, takers(bundle, source), source, destination)

        return may_move

    def _averages(
        self, usages: Sequence[tuple[BrokerLoad, float]], memory: Memory
    ) -> dict[str, tuple[float, float]]:
        """Broker → averages of usage and throughput: the broker's own ones if its report has them,
        else an EWMA.
        """
        averages, weight = {}, self.settings.history
        for broker, usage in usages:
            figures, kept = broker.figures, memory.brokers.get(broker.broker, NO_MEMORY)
            usage_average, throughput_average = figures.usage_average, figures.throughput_average
            if usage_average is None:
                usage_average = self.average(kept.ewma, usage, weight, broker.fresh)
            if throughput_average is None:
                throughput_average = self.average(
                    kept.throughput_ewma, figures.traffic.msg_throughput, weight, broker.fresh
                )
            averages[broker.broker] = usage_average, throughput_average
        return averages

    def _entry(self, broker: BrokerLoad, averages: tuple[float, float], now_ms: int) -> BrokerEntry:
        figures, reported_at_ms = (
            broker.figures,
            now_ms if broker.reported_at_ms is None else broker.reported_at_ms,
        )
        updated_at_ms = reported_at_ms if figures.updated_at_ms is None else figures.updated_at_ms
        if self.limits_clock:
            updated_at_ms = min(updated_at_ms, reported_at_ms)
        return BrokerEntry(*averages, figures.traffic.msg_throughput, updated_at_ms)

    def _left_alone(
        self,
        view: ClusterView,
        judged: Sequence[BrokerLoad],
        verdict: TransferVerdict,
        tops: TopLists,
    ) -> list[Skip]:
        left_out = self._left_out(verdict)
        if verdict.skipped is not None:
            return [self._nothing(view.cluster, verdict), *left_out]
        sources = {move.source for move in verdict.moves}
        involved = sources | {move.destination for move in verdict.moves}
        others = tuple(
            broker.broker
            for broker in judged
            if broker.broker not in involved and broker.broker not in verdict.left_out
        )
        skips = (
            [
                Skip(
                    "broker",
                    others,
                    "not-at-the-ends",
                    "other brokers are fuller or emptier, or the moves suffice",
                )
            ]
            if others
            else []
        )
        for broker in judged:
            if broker.broker in sources:
                skips += self._bundles_left_alone(broker, view, verdict, tops)
        return [*skips, *left_out]

    def _left_out(self, verdict: TransferVerdict) -> list[Skip]:
        cooling = [broker for broker, why in verdict.left_out.items() if why == "CoolDown"]
        old = [broker for broker in verdict.left_out if broker not in cooling]
        delay = f"{setting('shedding.transfer.delay_s', self.settings.delay_s)} s"
        ttl = f"{setting('shedding.transfer.ttl_s', self.settings.ttl_s)} s"
        gave, too_old = (
            f"it shed bundles, and its figures are not yet {delay} newer",
            f"its load data are older than {ttl}",
        )
        return [
            *broker_skips(
                "cooling-down",
                cooling,
                lambda _: gave,
                lambda: f"{len(cooling):,} brokers shed bundles less than {delay} ago",
            ),
            *broker_skips(
                "outdated",
                old,
                lambda _: too_old,
                lambda: f"the load data of {len(old):,} brokers are older than {ttl}",
            ),
        ]

    def _nothing(self, cluster: str, verdict: TransferVerdict) -> Skip:
        spread, figures = _spread(verdict)
        evidence = {**figures, "target_std": self.settings.target_std, "hits": verdict.hits}
        target = setting("shedding.transfer.target_std", self.settings.target_std)
        if verdict.skipped == "HitCount" and verdict.hits == 0:
            return Skip(
                "cluster",
                (cluster,),
                "even",
                f"{spread} ({target}), and no broker is far too full or too empty",
                None,
                evidence,
            )
        if verdict.skipped == "HitCount":
            enough = setting("shedding.transfer.hit_count", self.settings.hit_count)
            text = (
                f"{spread}: uneven in {verdict.hits} rounds in a row, and it takes more than "
                f"{enough}"
            )
            return Skip("cluster", (cluster,), "waiting-for-hits", text, None, evidence)
        why = "" if verdict.left_out and verdict.published is None else verdict.skipped or ""
        code, text = _WHY_NOTHING.get(
            why, ("nobody-to-judge", "fewer than two brokers can be judged")
        )
        return Skip("cluster", (cluster,), code, text, None, evidence)

    def _bundles_left_alone(
        self, broker: BrokerLoad, view: ClusterView, verdict: TransferVerdict, tops: TopLists
    ) -> list[Skip]:
        moving = {move.bundle for move in verdict.moves if move.source == broker.broker}
        taken = {move.bundle for move in verdict.moves} - moving
        found = self.candidates(broker.bundles, replace(view, cooling=view.cooling - moving), taken)
        staying = [name for row in found.rows if (name := broker.bundles.names[row]) not in moving]
        offered = {top.bundle for top in tops(broker.broker) or ()}
        excluded = [
            name for name in staying if self.settings.is_excluded(name) or view.is_excluded(name)
        ]
        staying = [name for name in staying if name not in excluded]
        ruled = (
            []
            if self.settings.with_policies
            else [name for name in staying if has_policies(namespace_of(name), view.policies)]
        )
        light = [name for name in staying if name not in offered and name not in ruled]
        rest = [name for name in staying if name in offered and name not in ruled]
        return [
            *must_stay(broker.broker, found),
            *bundles_left_alone(
                broker.broker,
                "excluded-namespace",
                "limits or shedding.transfer.excluded_namespaces names its namespace",
                excluded,
            ),
            *bundles_left_alone(
                broker.broker,
                "has-policies",
                "isolation or anti-affinity rules where its namespace lives, and "
                "shedding.transfer.with_policies = false",
                ruled,
            ),
            *bundles_left_alone(
                broker.broker,
                "not-among-the-heaviest",
                "it carries nothing, or others carry more",
                light,
            ),
            *bundles_left_alone(
                broker.broker,
                "not-needed",
                "what moves suffices, or its move would be too much",
                rest,
            ),
        ]


def _decision(move: TransferMove, stores: Stores, verdict: TransferVerdict) -> Decision:
    spread, figures = _spread(verdict)
    source = stores.brokers[move.source]
    goes = (
        f"{mib(move.throughput)} leave with this bundle for "
        f"{move.destination or 'a broker that placement picks'}"
    )
    if move.swapped:
        code, text = (
            "swap",
            f"{move.source} gets heavier bundles from {move.destination} and gives lighter "
            f"ones back: {goes}",
        )
    elif move.reason == "Underloaded":
        code, text = (
            "underloaded",
            f"{spread}, and a broker is far below it while {move.source} is at "
            f"{points(source.usage)}: {goes}",
        )
    else:
        code, text = (
            "overloaded",
            f"{spread}, and {move.source} is at {points(source.usage)}: {goes}",
        )
    evidence = {**figures, "usage": source.usage, "bundle_throughput": move.throughput}
    return Decision(move.bundle, move.source, move.destination, code, text, evidence)


def _exchanges(moves: Sequence[TransferMove], decisions: Sequence[Decision]) -> Iterator[Decision]:
    """Marks swaps: a bundle that comes back makes room for the bundle after it."""
    back: list[Decision] = []
    for move, decision in zip(moves, decisions, strict=True):
        if move.swapped:
            back.append(decision)
        elif back:
            yield from (replace(one, exchange=decision.bundle) for one in [*back, decision])
            back = []
        else:
            yield decision


def _spread(verdict: TransferVerdict) -> tuple[str, Evidence]:
    """Mean and standard deviation as text and figures; in `parity` mode the deviation may be NaN
    (decision record 0044).
    """
    average, std = verdict.published or (0.0, 0.0)
    known = isfinite(std)
    text = (
        f"with a standard deviation of {points(std)}"
        if known
        else "and rounding leaves no standard deviation"
    )
    return f"usage averages {points(average)} {text}", {
        "average": average,
        "std": std if known else None,
    }
