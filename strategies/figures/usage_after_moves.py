"""Estimates usage after moves: the load of a bundle is its share of the broker's traffic, or what
the strategy forecasts.

The figures of a resource are absolute (percent of a core, kbit/s). Load that leaves a broker is
added to the other one in the same unit and is then related to that broker's own limit. Heap memory
does not follow traffic and stays. A round has two spreads if its usages count moves as done before
reports do: the reported and the expected one.
"""

from collections.abc import Callable, Mapping, Sequence
from math import sqrt

from strategies.cluster.cluster_state import InFlight
from strategies.cluster.model import (
    BrokerLoad,
    ClusterView,
    Decision,
    Expected,
    Figures,
    Resource,
    Round,
    Traffic,
)
from strategies.cluster.round_figures import Spread
from strategies.ordered_sum import ordered_sum


def share_of_traffic(broker: BrokerLoad, bundle: str) -> float:
    """The part (0–1) of a broker's throughput that one of its bundles carries; 0 when broker or
    bundle is unknown or idle.
    """
    total = broker.figures.traffic.msg_throughput
    return min(1.0, max(0.0, broker.bundles.throughput_of(bundle) / total)) if total > 0 else 0.0


def burdened(figures: Figures, source: Figures, share: float) -> Figures:
    """Figures of a broker after it takes over `share` of the load of `source` (negative: gives it
    up).
    """
    traffic, moved = figures.traffic, source.traffic
    # Not with `replace`, which takes as long again: a round of many moves comes here often.
    return Figures(
        _plus(figures.cpu, source.cpu, share),
        figures.memory,
        _plus(figures.direct_memory, source.direct_memory, share),
        _plus(figures.bandwidth_in, source.bandwidth_in, share),
        _plus(figures.bandwidth_out, source.bandwidth_out, share),
        Traffic(
            max(0.0, traffic.msg_rate_in + moved.msg_rate_in * share),
            max(0.0, traffic.msg_rate_out + moved.msg_rate_out * share),
            max(0.0, traffic.msg_throughput_in + moved.msg_throughput_in * share),
            max(0.0, traffic.msg_throughput_out + moved.msg_throughput_out * share),
        ),
        figures.bundle_count,
        _average_plus(figures.usage_average, source.usage_average, share),
        _average_plus(figures.throughput_average, source.throughput_average, share),
        figures.updated_at_ms,
    )


def count_moves_as_done(
    figures: dict[str, Figures], in_flight: Mapping[str, InFlight]
) -> dict[str, Figures]:
    """Counts every commanded move that no report shows yet as done in the figures, because two
    rounds that act on one imbalance would unload too much.
    """
    result = dict(figures)
    # By name, because the order in which outcomes arrived must not change the last bits.
    for _, move in sorted(in_flight.items()):
        source = figures.get(move.source)
        if source is None:
            continue
        if not move.left:
            result[move.source] = burdened(result[move.source], source, -move.load)
        if move.destination in result:
            result[move.destination] = burdened(result[move.destination], source, move.load)
    return result


def spread(values: Sequence[float]) -> Spread:
    """Spread of the figures, whatever their order; all zero for none."""
    if not values:
        return Spread(0.0, 0.0, 0.0)
    values = sorted(values)
    mean = ordered_sum(values) / len(values)
    apart = [value - mean for value in values]
    std = sqrt(ordered_sum(one * one for one in apart) / len(values))
    return Spread(max(values) - min(values), std, max(values) / mean if mean > 0 else 0.0)


def reported_usage(done: Round) -> Mapping[str, float]:
    """Usage per broker (fraction), without moves that are only commanded."""
    return {**done.usage, **done.measured} if done.measured else done.usage


def reported_spread(done: Round) -> float:
    """Difference of the highest and the lowest of these usages (1.0 = 100 %), without brokers that
    are being drained.
    """
    if not done.measured:
        return done.spread.range
    usage = reported_usage(done)
    values = [usage[name] for name in done.balanced_usage]
    return max(values) - min(values) if values else 0.0


def expected_spread(done: Round) -> float:
    """The one prediction of this spread that texts show: of the strategy's plan, which it estimates
    from several samples; without a plan, by the newest usages.
    """
    bounds = done.certificate
    if bounds is not None and (bounds.moved or done.counted):
        return bounds.spread
    return done.spread_after.range


def changes(done: Round) -> bool:
    """Whether anything is to change these usages: commands, or moves that reports do not show."""
    return bool(done.commands or done.counted)


def _plus(resource: Resource, moved: Resource, share: float) -> Resource:
    if resource.limit <= 0:
        return resource
    return Resource(max(0.0, resource.usage + moved.usage * share), resource.limit)


def _average_plus(average: float | None, moved: float | None, share: float) -> float | None:
    """An average plus a share of the moved one; None if it is None. As in TransferShedder, brokers
    are assumed to be alike: a move adds to one broker's averages what it takes from the other's.
    """
    return average if average is None or moved is None else max(0.0, average + moved * share)


class Estimate:
    """Expected figures of the cluster after the decisions applied so far."""

    def __init__(self, view: ClusterView, usage: Callable[[Figures], float]) -> None:
        self._brokers = {broker.broker: broker for broker in view.brokers}
        self._figures = {broker.broker: broker.figures for broker in view.brokers}
        self._usage = usage
        self._forecast: dict[str, float] = {}
        self.loads: dict[str, float] = {}

    def usage(self, broker: str) -> float:
        """Usage (fraction) of a broker after the decisions applied so far."""
        usage = self._usage(self._figures[broker])
        forecast = self._forecast.get(broker)
        return usage if forecast is None else max(0.0, usage + forecast)

    def usage_with(self, broker: str, source: str, share: float) -> float:
        """Usage (fraction) of a broker if it took over this part of the reported load of `source`,
        after the decisions applied so far.
        """
        burden = self._usage(burdened(self._figures[broker], self._brokers[source].figures, share))
        return max(0.0, burden + self._forecast.get(broker, 0.0))

    def changed_usages(self) -> dict[str, float]:
        """Usage of the brokers that decisions changed, in the cluster's order, without the
        thousands that stay the same.
        """
        changed = (
            name
            for name, broker in self._brokers.items()
            if name in self._forecast or self._figures[name] is not broker.figures
        )
        return {broker: self.usage(broker) for broker in changed}

    def usages(self) -> dict[str, float]:
        """Usage of all brokers, in the cluster's order."""
        return {broker: self.usage(broker) for broker in self._brokers}

    def stays(self, decision: Decision) -> Expected:
        """The effect of a decision that moves no bundle: the current usage of the source."""
        usage = self.usage(decision.source)
        return Expected(usage, usage)

    def apply(self, decision: Decision) -> Expected:
        """Applies a move; returns the usage of both brokers before and after it."""
        share = share_of_traffic(self._brokers[decision.source], decision.bundle)
        self.loads[decision.bundle] = share
        before = self._usages(decision)
        if decision.forecast is None:
            self._burden(decision, share)
        else:
            for broker, change in zip(
                (decision.source, decision.destination),
                (-decision.forecast[0], decision.forecast[1]),
                strict=True,
            ):
                if broker in self._figures:
                    self._forecast[broker] = self._forecast.get(broker, 0.0) + change
        after = self._usages(decision)
        return Expected(before[0], after[0], before[1], after[1])

    def _burden(self, decision: Decision, share: float) -> None:
        original = self._brokers[decision.source].figures
        for broker, part in ((decision.source, -share), (decision.destination, share)):
            if broker in self._figures:
                self._figures[broker] = burdened(self._figures[broker], original, part)

    def _usages(self, decision: Decision) -> tuple[float, float | None]:
        destination = decision.destination
        return self.usage(decision.source), self.usage(
            destination
        ) if destination in self._figures else None
