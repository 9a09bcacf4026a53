"""Why the moves of a roll wait outside of rounds: a plan that a person has to approve."""

from __future__ import annotations

import time
from contextlib import suppress

from rebalancer.analysis.plans import read_plans
from rebalancer.settings.load import Settings
from sinks.wall_clock import wall_clock_ms
from strategies.errors import RebalancerError

#: Pause between two reads of the plans (s): each reads the topics as a whole.
_EVERY_S = 15.0


class WaitingPlans:
    """The plan of a cluster that waits for approval, looked for at intervals."""

    def __init__(self, settings: Settings, cluster: str) -> None:
        self._settings, self._cluster = settings, cluster
        self._due = 0.0
        self._found: str | None = None

    def obstacle(self) -> str | None:
        """A sentence about the oldest plan that waits; None without one."""
        if self._settings.executor.approval != "required":
            return None
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + _EVERY_S
            with suppress(RebalancerError):
                self._found = self._read()
        return self._found

    def _read(self) -> str | None:
        plans = read_plans(self._settings.connections, wall_clock_ms()).plans
        waiting = [one for one in plans if one.cluster == self._cluster and one.state == "waiting"]
        if not waiting:
            return None
        id_ = waiting[-1].id
        return f"plan {id_} waits for approval: `rebalancer plans approve {id_} --reason TEXT`"
