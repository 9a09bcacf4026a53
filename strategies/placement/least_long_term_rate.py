"""LeastLongTermMessageRate: the broker with the fewest messages per second in the long run, unless
it is overloaded.

Source of the rule: `org.apache.pulsar.broker.loadbalance.impl.LeastLongTermMessageRate` of Pulsar
4.2.4. It remembers nothing.
"""

from dataclasses import dataclass
from math import inf, isfinite
from typing import Annotated

from strategies.cluster.strategy_memory import Memory
from strategies.placement.compared_levels_and_draw import draw, levels, lowest
from strategies.placement.contract import (
    Candidate,
    Placement,
    PlacementStrategy,
    Request,
    unknown_broker,
    unplaced,
    without_figures,
)
from strategies.settings import Setting
from strategies.states_and_advice_of_codes import ADD_BROKERS, Meaning


@dataclass(frozen=True, slots=True)
class LeastLongTermRateSettings:
    """Settings of LeastLongTermMessageRate, with Pulsar's defaults."""

    overloaded_percent: Annotated[
        float,
        Setting(
            "A broker fuller than this takes a bundle only if all brokers are fuller",
            "%",
            "loadBalancerBrokerOverloadedThresholdPercentage",
            ge=0,
        ),
    ] = 85.0


@dataclass(frozen=True)
class ParityLeastLongTermRate:
    """The rule exactly as in Java: an overloaded broker scores infinity, and all brokers are equal
    when all are overloaded.
    """

    settings: LeastLongTermRateSettings

    def place(self, request: Request, memory: Memory) -> Placement:
        """Chooses from the candidates with the smallest score, or from all of them when every score
        is NaN.
        """
        scores: dict[str, float] = {}
        for broker, candidate in request.candidates.items():
            if candidate is None:
                return unknown_broker(memory, broker)
            scores[broker] = self._score(candidate)
        if not scores:
            return unplaced(memory)
        least = min((score for score in scores.values() if score < inf), default=inf)
        best = tuple(sorted(broker for broker, score in scores.items() if score == least)) or tuple(
            sorted(scores)
        )
        return _answer(best, least, memory, request.seed)

    def _score(self, candidate: Candidate) -> float:
        if candidate.usage > self.settings.overloaded_percent / 100.0:
            return inf
        rate_in, rate_out = candidate.long_rates
        return candidate.arriving_rate + (rate_in + rate_out)


@dataclass(frozen=True)
class LeastLongTermRate:
    """The rule with arriving and leaving bundles of the round counted; if all brokers are
    overloaded, the least used one.
    """

    settings: LeastLongTermRateSettings

    def place(self, request: Request, memory: Memory) -> Placement:
        """Chooses from the candidates with the smallest rate that are not overloaded."""
        known = {
            broker: candidate
            for broker in sorted(request.candidates)
            if (candidate := request.candidates[broker]) is not None
        }
        limit = self.settings.overloaded_percent / 100.0
        healthy = {
            broker: candidate for broker, candidate in known.items() if candidate.expected <= limit
        }
        if not healthy:
            return self._least_overloaded(request, memory)
        rates = {
            broker: rate
            for broker, candidate in healthy.items()
            if isfinite(rate := candidate.expected_rate)
        }
        if not rates:
            return without_figures(request, memory, "message rate")
        least = min(rates.values())
        return _answer(
            tuple(broker for broker, rate in rates.items() if rate == least),
            least,
            memory,
            request.seed,
        )

    def _least_overloaded(self, request: Request, memory: Memory) -> Placement:
        found = levels(request, {})
        if not found:
            return unplaced(memory)
        best = lowest(found)
        text = (
            f"is the least used at {100 * found[best[0]]:.1f} %, all candidates being above "
            f"{self.settings.overloaded_percent:g} %"
        )
        return Placement(
            best,
            draw(best, request.seed),
            memory,
            "all-overloaded",
            text,
            {"usage": found[best[0]]},
        )


def _answer(best: tuple[str, ...], rate: float, memory: Memory, seed: str) -> Placement:
    if rate == inf:
        return Placement(
            best,
            draw(best, seed),
            memory,
            "all-overloaded",
            "was drawn from the candidates, all being overloaded",
        )
    alike = f", as {len(best) - 1} others" if len(best) > 1 else ""
    text = f"has the lowest long-term message rate, {rate:,.0f} msg/s{alike}"
    return Placement(best, draw(best, seed), memory, "least-rate", text, {"long_term_rate": rate})


ENTRY = PlacementStrategy(
    "least_long_term_rate",
    "org.apache.pulsar.broker.loadbalance.impl.LeastLongTermMessageRate",
    "The broker with the lowest long-term message rate that is not overloaded.",
    LeastLongTermRateSettings,
    LeastLongTermRate,
    ParityLeastLongTermRate,
    meanings=(Meaning("all-overloaded", "cannot-help", 940, ADD_BROKERS),),
)
