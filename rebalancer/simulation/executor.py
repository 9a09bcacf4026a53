"""A simulated executor: carries commands out on a modelled cluster, checking what a real one has to check first."""

from __future__ import annotations

from rebalancer.simulation.chance import uniform
from rebalancer.simulation.cluster import SimulatedCluster
from rebalancer.simulation.placement import least_long_term_rate
from strategies.model import Command, Outcome, OutcomeStatus

#: A command is picked up this long after its round closed.
REACTION_MS = 1_000
#: A transfer took 150–175 ms on a small real cluster; here between these bounds.
TOOK_MS = (120, 240)


class SimulatedExecutor:
    """Applies commands one after the other in virtual time; holds nothing but the cluster."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster

    def apply(self, commands: tuple[Command, ...], now_ms: int) -> tuple[Outcome, ...]:
        """Outcome of each command, in order; `now_ms` is when the round that issued them closed."""
        clock, outcomes = now_ms + REACTION_MS, []
        for number, command in enumerate(commands):
            outcome = self._apply_one(command, clock, number)
            clock = outcome.ts
            outcomes.append(outcome)
        return tuple(outcomes)

    def _apply_one(self, command: Command, now_ms: int, number: int) -> Outcome:
        before = self._cluster.owner(command.bundle)
        status, reason = self._check(command, before, now_ms)
        took_ms = 0
        if status == "applied":
            self._cluster.move(command.bundle, command.destination or least_long_term_rate(self._cluster, command.bundle))
            took_ms = self._took_ms(number)
        after = self._cluster.owner(command.bundle)
        ends_ms = now_ms + took_ms
        return Outcome(command.id, command.cluster, command.bundle, status, reason, before, after, took_ms, ends_ms)

    def _check(self, command: Command, owner: str | None, now_ms: int) -> tuple[OutcomeStatus, str | None]:
        if command.action == "throttle":
            return "refused", "throttling is advice for people; no executor carries it out"
        if command.action == "split":
            return "refused", "the modelled cluster cannot split bundles; it keeps those it began with"
        if command.expires_at_ms < now_ms:
            return "expired", "the command was picked up too late"
        if owner is None or command.destination not in (None, *self._cluster.brokers):
            return "refused", "the bundle or the destination does not exist"
        if owner == command.destination or owner != command.source:
            return "already-done", f"the bundle is served by {owner}"
        return "applied", None

    def _took_ms(self, number: int) -> int:
        low, high = TOOK_MS
        share = uniform(1, self._cluster.model.seed, 3, max(self._cluster.period, 0), number)[0]
        return int(low + (high - low) * share)
