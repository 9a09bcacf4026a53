"""AvgShedder as a placement: a bundle goes to the broker that shedding planned for it.

Source of the rule: `org.apache.pulsar.broker.loadbalance.impl.AvgShedder.selectBroker` of Pulsar
4.2.4 and 5.0.1. The plan of 4.2 is in `ClusterMemory.planned`: its key is the value of a bundle's
averages; for a new value it draws one broker, which then takes all bundles with that value. The
plan of 5.0 is in `Memory.plan`: its key is the name of a bundle, and it lives for one round. The
repaired rule identifies bundles by name too.
"""

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from strategies.cluster.strategy_memory import Memory
from strategies.figures.texts_of_counts_names_and_ages import counted
from strategies.placement.compared_levels_and_draw import draw, fewest_arrivals, levels, lowest
from strategies.placement.contract import (
    Averages,
    Candidate,
    Placement,
    PlacementStrategy,
    Request,
    unplaced,
    without_figures,
)
from strategies.settings import Setting
from strategies.shedding.avg.parity import plan_key, with_planned
from strategies.states_and_advice_of_codes import CHECK_FILTERS, Meaning

#: Brokers this close to the least used one count as equal; among these, the one with the fewest
#: arrivals wins.
_CLOSE = 0.01
_NO_PLAN: tuple[None, None] = None, None


@dataclass(frozen=True, slots=True)
class AvgPlacementSettings:
    """Settings of the placement half of AvgShedder."""

    overloaded_percent: Annotated[
        float,
        Setting(
            "A planned broker that is fuller than this is replaced by another (fixed, and parity "
            "with Pulsar 5.0)",
            "%",
            "loadBalancerBrokerOverloadedThresholdPercentage",
            ge=0,
        ),
    ] = 85.0


@dataclass(frozen=True)
class ParityAvgPlacement:
    """The rule exactly as in Java: a plan keyed by value, and a random broker for other values."""

    def place(self, request: Request, memory: Memory) -> Placement:
        """Chooses the planned broker if it is a candidate, else a random candidate, which becomes
        the planned one.
        """
        if not request.candidates:
            return unplaced(memory)
        key = key_of(request.averages)
        planned = memory.cluster.planned.get(key)
        if planned is not None and planned in request.candidates:
            return Placement(
                (planned,),
                planned,
                memory,
                "planned",
                "was planned for a bundle with these averages",
            )
        best = tuple(sorted(request.candidates))
        chosen = draw(best, request.seed)
        return Placement(
            best,
            chosen,
            replace(memory, cluster=with_planned(memory.cluster, {key: chosen})),
            "drawn",
            f"was drawn from {len(best)} candidates, because none was planned",
        )


@dataclass(frozen=True)
class ParityAvgPlacement50:
    """The rule exactly as in Pulsar 5.0: a plan by name for one round, a healthy broker instead of
    an overloaded one, and a random broker for other bundles. A draw is not remembered.
    """

    settings: AvgPlacementSettings

    def place(self, request: Request, memory: Memory) -> Placement:
        """Chooses the planned broker if it is a healthy candidate, else a random one."""
        candidates, (source, planned) = (
            request.candidates,
            memory.plan.get(request.bundle, _NO_PLAN),
        )
        if planned is None:
            return _drawn(request, tuple(candidates), memory, "because none was planned")
        if planned not in candidates:
            others = tuple(broker for broker in candidates if broker != source)
            if candidates and not others:
                text = f"cannot be placed: {planned} may not take it, and {source} gives it up"
                return Placement((), None, memory, "only-source", text)
            return _drawn(request, others, memory, f"because {planned} may not take it")
        score = self._score(candidates[planned])
        if score is not None and score > self.settings.overloaded_percent:
            healthy = tuple(
                broker
                for broker, candidate in candidates.items()
                if broker not in (source, planned) and self._healthy(candidate)
            )
            if healthy:
                return _drawn(request, healthy, memory, f"because {planned} is at {score:.1f} %")
        return Placement((planned,), planned, memory, "planned", "was planned for it")

    def _healthy(self, candidate: Candidate | None) -> bool:
        score = self._score(candidate)
        return score is not None and score <= self.settings.overloaded_percent

    @staticmethod
    def _score(candidate: Candidate | None) -> float | None:
        """Usage in percent by the newest report; None for a broker without one."""
        return None if candidate is None else candidate.usage * 100


@dataclass(frozen=True)
class AvgPlacement:
    """A plan keyed by name, for one round; without a planned broker, or with an overloaded one, the
    least used broker takes the bundle.
    """

    settings: AvgPlacementSettings

    def place(self, request: Request, memory: Memory) -> Placement:
        """Chooses the planned broker if it can take the bundle, else the least used candidate."""
        planned = memory.cluster.planned.get(request.bundle)
        found = levels(request, {})
        healthy = {
            broker: level
            for broker, level in found.items()
            if not self._overloaded(request.candidates[broker])
        }
        if (
            planned is not None
            and planned in request.candidates
            and (planned in healthy or not healthy)
        ):
            return Placement((planned,), planned, memory, "planned", "was planned for it")
        if not found:
            return without_figures(request, memory)
        return _least_used(healthy or found, request, memory)

    def _overloaded(self, candidate: Candidate | None) -> bool:
        return (
            candidate is not None and candidate.expected > self.settings.overloaded_percent / 100.0
        )


def _drawn(request: Request, brokers: tuple[str, ...], memory: Memory, because: str) -> Placement:
    if not brokers:
        return unplaced(memory)
    best = tuple(sorted(brokers))
    text = f"was drawn from {counted(len(best), 'broker')}, {because}"
    return Placement(best, draw(best, request.seed), memory, "drawn", text)


def key_of(averages: Averages) -> str:
    """The key of a bundle in a plan keyed by value."""
    samples = averages.short_samples, averages.long_samples
    return plan_key(np.array(averages.short), np.array(averages.long), *samples, averages.topics)


def _least_used(found: dict[str, float], request: Request, memory: Memory) -> Placement:
    best = fewest_arrivals(request, lowest(found, _CLOSE))
    chosen = draw(best, request.seed)
    text = f"is among the least used at {100 * found[chosen]:.1f} % with all moves counted"
    return Placement(best, chosen, memory, "least-used", text, {"level": found[chosen]})


ENTRY = PlacementStrategy(
    "avg",
    "org.apache.pulsar.broker.loadbalance.impl.AvgShedder",
    "The broker that AvgShedder planned when it picked the bundle.",
    AvgPlacementSettings,
    AvgPlacement,
    lambda _: ParityAvgPlacement(),
    sheds=True,
    parity_in={"5.0": ParityAvgPlacement50},
    meanings=(Meaning("only-source", "not-allowed", 510, CHECK_FILTERS),),
)
