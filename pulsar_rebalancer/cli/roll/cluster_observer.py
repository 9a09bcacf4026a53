"""Observes the cluster for the process of a roll. A look takes seconds at most, also where brokers
do not answer; what is not seen is no evidence. And why the moves of a roll wait outside of rounds:
a plan that a person has to approve.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from functools import partial
from typing import TypeVar

from pulsar_rebalancer.decisions.intents import FollowedTopic
from pulsar_rebalancer.decisions.plans import plans_of, read_plans
from pulsar_rebalancer.settings.merge_sources import Settings
from sinks.graceful_stop import wall_clock_ms
from sinks.pulsar_api.admin import PulsarAdmin
from sinks.pulsar_api.connection_tls_and_token import PulsarSettings
from sinks.pulsar_api.fallback_brokers import KnownBrokers
from sinks.pulsar_api.frozen_brokers import NONE, FreezeWatch, probing
from sinks.topics.skip_unreadable import check_read
from sinks.wire.record_decoding import decode_answer
from strategies.cluster.intent_records_and_states import RollPhase
from strategies.cluster.model import Outcome
from strategies.errors import AdminError, RebalancerError, Unauthorized, WireError
from strategies.roll.roll_state_and_evidence import Observation

#: Pause between two reads of the plans (s): each opens four topics.
_EVERY_S = 15.0


T = TypeVar("T")
U = TypeVar("U")
#: A call of a look, and a probe for frozen brokers (ms). A healthy broker answers in milliseconds.
_LOOK_MS, _PROBE_MS = 5_000, 10_000
#: Brokers that are asked for a read of metadata, until one answers.
_READERS = 2
_MOST_UNOWNED = 20


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
    plans = plans_of(read_plans(connections, since_ms), now_ms)
    waiting = [one.id for one in plans if (one.cluster, one.state) == (cluster, "waiting")]
    if not waiting:
        return None
    id_ = waiting[-1]
    return f"plan {id_} waits for approval: `rebalancer plans approve {id_} --reason TEXT`"


class ClusterObserver:
    """Looks at one cluster again and again. `look` raises Unauthorized; other errors of the cluster
    are part of what it sees.
    """

    def __init__(self, settings: Settings, cluster: str, *, probe_ms: int = _PROBE_MS) -> None:
        """Opens no connection yet. `probe_ms`: after which a read of metadata counts as unfinished.
        Outcomes from before now are not read. Raises SettingsError.
        """
        pulsar = settings.connections.pulsar
        self._known = KnownBrokers(pulsar)
        self._opened = ExitStack()
        # One attempt, which ends soon: the next look comes in a second.
        quick = replace(pulsar, attempts=1, deadline_ms=min(pulsar.deadline_ms, _LOOK_MS))
        self._admin = self._client(quick)
        self._freezes = FreezeWatch(self._client(probing(pulsar, probe_ms)))
        outcomes = settings.connections.topics.outcomes
        self._outcomes = FollowedTopic(outcomes, settings.connections, wall_clock_ms())
        self._opened.callback(self._outcomes.close)
        self._plans = WaitingPlans(settings, cluster)
        self._cluster = pulsar.cluster
        self._unowned: dict[str, None] = {}

    def _client(self, settings: PulsarSettings) -> PulsarAdmin:
        client = PulsarAdmin(settings, lambda _: False, known=self._known)
        return self._opened.enter_context(closing(client))

    def close(self) -> None:
        """Closes all connections."""
        self._opened.close()

    def brokers(self) -> tuple[str, ...]:
        """The cluster's list. Raises AdminError."""
        return self._admin.brokers()

    def look(self, phases: Mapping[str, RollPhase]) -> Observation:
        """Observes what is there now. `phases`: of the roll's brokers."""
        now_ms, live = wall_clock_ms(), _ask(self._admin.brokers, None)
        restarting = [name for name, phase in phases.items() if phase == "restarting"]
        others = [name for name in live or () if name not in restarting]
        stuck = NONE if live is None else _ask(partial(self._freezes.stuck, others), NONE)
        readers = [name for name in others if name not in stuck.brokers]
        readable = (
            live is not None
            and stuck.others_read
            and (not readers or any(self._reads(name) for name in readers[:_READERS]))
        )
        back = [name for name in restarting if name in (live or ()) and self._reads(name)]
        return Observation(
            now_ms,
            live,
            _ask(self._admin.leader, None),
            (*readers, *back) if readable else (),
            stuck.brokers if stuck.others_read else (),
            self._starts([*back, *(one for one in readers if phases.get(one) == "drained")]),
            self._unowned_bundles(phases) if readable else (),
            readable,
            self._plans.obstacle(),
        )

    def _reads(self, broker: str) -> bool:
        return _ask(partial(self._admin.read_metadata, broker), False) is None

    def _starts(self, brokers: Sequence[str]) -> dict[str, int]:
        starts = {name: _ask(partial(self._admin.started_ms, name), None) for name in brokers}
        return {name: started for name, started in starts.items() if started is not None}

    def _unowned_bundles(self, phases: Mapping[str, RollPhase]) -> Sequence[str]:
        """The bundles that executors have reported without an owner after a move away from the
        roll's brokers, until a broker has them.
        """
        for record in self._outcomes.read():
            with suppress(WireError):
                check_read(record)
                answer = decode_answer(record.value)
                if isinstance(answer, Outcome) and self._is_lost(answer, phases):
                    self._unowned[answer.bundle] = None
        for bundle in list(self._unowned)[:_MOST_UNOWNED]:
            if not self._is_unowned(bundle):
                del self._unowned[bundle]
        return list(self._unowned)

    def _is_lost(self, outcome: Outcome, phases: Mapping[str, RollPhase]) -> bool:
        code = (outcome.reason or "").partition(":")[0]
        of_roll = outcome.cluster == self._cluster and outcome.owner_before in phases
        return of_roll and code == "unowned"

    def _is_unowned(self, bundle: str) -> bool:
        """True if it exists and no broker has it. Where the cluster does not say, it stays as it
        is.
        """
        namespace, _, range_ = bundle.rpartition("/")
        return _ask(
            lambda: self._admin.owner(bundle) is None and range_ in self._admin.ranges(namespace),
            True,
        )


def _ask(ask: Callable[[], T], unknown: U) -> T | U:
    """The answer of the cluster; `unknown` without one. Raises Unauthorized."""
    try:
        return ask()
    except Unauthorized:
        raise
    except AdminError:
        return unknown
