"""AvgShedder as a placement: a bundle goes to the broker that shedding planned for it.

Source of the rule: `org.apache.pulsar.broker.loadbalance.impl.AvgShedder.selectBroker` of Pulsar
4.2.4. The plan is in `ClusterMemory.planned`. Java's key is the value of a bundle's averages; for a
new value it draws one broker, which then takes all bundles with that value. The repaired rule
identifies bundles by name.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from strategies.model import Memory
from strategies.placement.contract import Averages, Candidate, Placement, Request, draw, unplaced
from strategies.placement.levels import levels, lowest
from strategies.settings import Setting
from strategies.shedding.avg.parity import plan_key

#: Brokers this close to the least used one count as equal; among these, the one with the fewest
#: arrivals wins.
_CLOSE = 0.01
#: Maximum size of the plan. Java never removes a planned destination; here, as in shedding, the
#: oldest entries are dropped.
_PLANNED_AT_MOST = 100_000


@dataclass(frozen=True, slots=True)
class AvgPlacementSettings:
    """Settings of the placement half of AvgShedder."""

    overloaded_percent: Annotated[
        float,
        Setting(
            "A planned broker that is fuller than this is replaced by another (fixed)",
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
            planned_to(memory, key, chosen),
            "drawn",
            f"was drawn from {len(best)} candidates, because none was planned",
        )


@dataclass(frozen=True)
class AvgPlacement:
    """A plan keyed by name, for one round; without a planned broker, or with an overloaded one, the
    least used broker takes the bundle.
    """

    settings: AvgPlacementSettings

    def place(self, request: Request, memory: Memory) -> Placement:
        """Chooses the planned broker if it can take the bundle, else the least used candidate."""
        if not request.candidates:
            return unplaced(memory)
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
            return Placement(
                (),
                None,
                memory,
                "unusable-figures",
                "cannot be placed: the usage of no candidate is a finite number",
            )
        return _least_used(healthy or found, request, memory)

    def _overloaded(self, candidate: Candidate | None) -> bool:
        return (
            candidate is not None and candidate.expected > self.settings.overloaded_percent / 100.0
        )


def key_of(averages: Averages) -> str:
    """The key of a bundle in a plan keyed by value."""
    samples = averages.short_samples, averages.long_samples
    return plan_key(np.array(averages.short), np.array(averages.long), *samples, averages.topics)


def planned_to(memory: Memory, key: str, broker: str) -> Memory:
    """Memory with `key` planned for this broker."""
    planned = {**memory.cluster.planned, key: broker}
    if len(planned) > _PLANNED_AT_MOST:
        planned = dict(list(planned.items())[-_PLANNED_AT_MOST:])
    return replace(memory, cluster=replace(memory.cluster, planned=planned))


def _least_used(found: dict[str, float], request: Request, memory: Memory) -> Placement:
    close = lowest(found, _CLOSE)
    arrivals = {
        broker: len(candidate.arriving)
        for broker in close
        if (candidate := request.candidates[broker]) is not None
    }
    fewest = min(arrivals.values())
    best = tuple(broker for broker in close if arrivals[broker] == fewest)
    chosen = draw(best, request.seed)
    text = f"is among the least used at {100 * found[chosen]:.1f} % with all moves counted"
    return Placement(best, chosen, memory, "least-used", text, {"level": found[chosen]})
