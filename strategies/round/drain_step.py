"""The step of a round that drains brokers: before the strategy judges, on all brokers with fresh
figures. What leaves counts as done for the rest of the round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from strategies.cluster.budget import Budget
from strategies.cluster.intent_state import Intents
from strategies.cluster.memory import Memory
from strategies.cluster.model import LARGEST_TIME, BrokerLoad, Skip
from strategies.cluster.state import InFlight
from strategies.figures.estimate import share_of_traffic
from strategies.placement.answers import BEING_DRAINED
from strategies.placement.destinations import Destinations
from strategies.reason_codes import Refusal
from strategies.round.drain_progress import DrainFacts, being_drained, progressed
from strategies.round.evacuate import Draining, DrainRules, Evacuation, evacuate
from strategies.round.round_input import RoundInput, Rules
from strategies.round.screening import Screened, on_the_way, view_of
from strategies.settings import MODE_RULES


@dataclass(frozen=True)
class DrainStep:
    """What the step has decided. `draining`: brokers that are no part of the rest of the round;
    `moves`: the bundles that leave them, as moves under way; `memory`: of the placement, None if
    there was nothing to place.
    """

    draining: tuple[str, ...] = ()
    evacuation: Evacuation = Evacuation()
    moves: Mapping[str, InFlight] = field(default_factory=dict)
    memory: Memory | None = None

    @property
    def skips(self) -> tuple[Skip, ...]:
        """The draining brokers, and the bundles that stay on them, by reason."""
        if not self.draining:
            return ()
        text = "an operator drains it: it takes no bundle, and its bundles leave"
        found = [Skip("broker", self.draining, BEING_DRAINED, text)]
        for broker, stays in self.evacuation.stays.items():
            reasons: dict[tuple[str, str], list[str]] = {}
            for bundle, why in stays.items():
                reasons.setdefault((why.code, why.text), []).append(bundle)
            found += [
                Skip("bundle", tuple(bundles), code, f"it {said}", broker)
                for (code, said), bundles in reasons.items()
            ]
        return tuple(found)


def drain_step(
    given: RoundInput, screened: Screened, rules: Rules, budget: Budget, closed: Refusal | None
) -> DrainStep:
    """Decides which bundles leave draining brokers. `closed`: why no bundle may leave now."""
    refusals = being_drained(given.state.intents)
    draining = tuple(one.broker for one in screened.live if one.broker in refusals)
    if not draining:
        return DrainStep()
    # In every mode: a drain must not command a bundle twice, and must not overload a broker.
    counting = replace(rules, by_mode=MODE_RULES["fixed"])
    view = view_of(given, screened.live, counting)
    destinations = Destinations(
        view,
        given.number,
        rules.destinations,
        policies=view.policies,
        memory=given.memory,
        on_the_way=on_the_way(given, view, rules),
        closed=refusals,
    )
    brokers = {one.broker: one for one in view.brokers if one.broker in refusals}
    done = evacuate(
        _draining(given, list(brokers.values())),
        destinations,
        DrainRules(rules.drains, budget, closed),
    )
    moves = _moves(given, brokers, done, rules.round.command_ttl_ms)
    return DrainStep(draining, done, moves, destinations.memory)


def after_step(given: RoundInput, screened: Screened, step: DrainStep, rules: Rules) -> Intents:
    """The intents with the progress of drains after the round."""
    if not given.state.intents.drains:
        return given.state.intents
    left = _left(given, rules.round.stale_after_ms)
    facts = DrainFacts(given, screened.stale, left, rules.meanings)
    return progressed(step.evacuation, facts)


def _left(given: RoundInput, stale_after_ms: int) -> frozenset[str]:
    """Draining brokers that have left the cluster: the sweep does not list them. Without a sweep,
    those without any record for a while: brokers of the extensible load manager withdraw their
    figures whenever a bundle moves.
    """
    known = {state.broker for state in given.brokers}
    if given.listed is not None:
        return frozenset({*given.state.intents.drains} - known - {*given.listed})
    recent = {name for name, ts in given.state.gone.items() if ts >= given.now_ms - stale_after_ms}
    return frozenset({*given.state.intents.drains} - known - recent - {*given.state.missing})


def _draining(given: RoundInput, brokers: Sequence[BrokerLoad]) -> Draining:
    drains = given.state.intents.drains
    owned = {
        broker: frozenset(note.bundles) - frozenset(drains[broker].gone)
        for broker, note in given.owned.items()
    }
    return Draining(given, brokers, owned)


def _moves(
    given: RoundInput, brokers: Mapping[str, BrokerLoad], done: Evacuation, ttl_ms: int
) -> dict[str, InFlight]:
    expires_at_ms = min(given.now_ms + ttl_ms, LARGEST_TIME)
    return {
        bundle: InFlight(
            "",
            one.source,
            one.destination,
            given.now_ms,
            expires_at_ms,
            share_of_traffic(brokers[one.source], bundle),
        )
        for bundle, one in done.leaving.items()
    }
