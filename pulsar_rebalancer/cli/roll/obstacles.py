"""Why the moves of a roll wait outside of rounds: a plan that a person has to approve."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace

from pulsar_rebalancer.decisions.plans import read_plans
from pulsar_rebalancer.settings.load import Settings
from sinks.processes import wall_clock_ms
from strategies.errors import RebalancerError

#: Pause between two reads of the plans (s): each opens four topics.
_EVERY_S = 15.0


class WaitingPlans:
    """The plan of a cluster that waits for approval, looked for at intervals."""

    def __init__(self, settings: Settings, cluster: str) -> None:
        self._settings, self._cluster = settings, cluster
        self._due = 0.0
        self._found: str | None = None

    def obstacle(self) -> str | None:
        """A sentence about the oldest plan that waits; None without one."""
        if self._settings.executor.approval == "required" and time.monotonic() >= self._due:
            self._due = time.monotonic() + _EVERY_S
            with suppress(RebalancerError):
                self._found = _waiting_plan(self._settings, self._cluster)
        return self._found


def _waiting_plan(settings: Settings, cluster: str) -> str | None:
    connections, rounds, now_ms = settings.connections, settings.engine.round, wall_clock_ms()
    # The roll's next look must not wait until servers that are away come back.
    connections = replace(connections, kafka=replace(connections.kafka, outage_ms=0))
    # The commands of older records have expired: their plans wait no longer.
    since_ms = now_ms - rounds.command_ttl_ms - rounds.max_clock_jump_ms
    plans = read_plans(connections, now_ms, since_ms).plans
    waiting = [one.id for one in plans if (one.cluster, one.state) == (cluster, "waiting")]
    if not waiting:
        return None
    id_ = waiting[-1]
    return f"plan {id_} waits for approval: `rebalancer plans approve {id_} --reason TEXT`"
