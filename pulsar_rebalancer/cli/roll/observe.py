"""What the process of a roll sees of the cluster. A look takes seconds at most, also where brokers
do not answer; what is not seen is no evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from typing import TypeVar

from pulsar_rebalancer.decisions.intents import FollowedTopic
from sinks.pulsar_api.admin import PulsarAdmin
from sinks.pulsar_api.freezes import NONE, FreezeWatch, Stuck, probing
from sinks.pulsar_api.http import Wait
from sinks.pulsar_api.known_brokers import KnownBrokers
from sinks.pulsar_api.settings import PulsarSettings
from sinks.topics.connections import Connections
from sinks.topics.readable import check_read
from sinks.wire.codec import decode_answer
from strategies.cluster.intent_contract import RollPhase
from strategies.cluster.model import Outcome
from strategies.errors import AdminError, Unauthorized, WireError
from strategies.roll.view import Absences, Observation, after_look

T = TypeVar("T")
#: A call of a look, and a probe for frozen brokers (ms). A healthy broker answers in milliseconds.
_LOOK_MS, _PROBE_MS = 5_000, 10_000
#: Brokers that are asked for a read of metadata, until one answers.
_READERS = 2
#: Code of outcomes after which a bundle has no owner though it had clients.
_UNOWNED = "unowned"
_MOST_UNOWNED = 20


class ClusterObserver:
    """Looks at one cluster again and again. `look` raises Unauthorized; other errors of the cluster
    are part of what it sees.
    """

    def __init__(
        self,
        connections: Connections,
        known: KnownBrokers,
        wait: Wait,
        since_ms: int,
        *,
        probe_ms: int = _PROBE_MS,
    ) -> None:
        """Opens no connection yet. `since_ms`: older outcomes are not read; `probe_ms`: after which
        a read of metadata counts as unfinished. Raises SettingsError.
        """
        pulsar = connections.pulsar
        self._opened = ExitStack()
        self._admin = self._client(_single_attempt(pulsar), wait, known)
        self._freezes = FreezeWatch(self._client(probing(pulsar, probe_ms), wait, known))
        self._lost = LostBundles(connections, self._admin, since_ms)
        self._opened.callback(self._lost.close)
        self._absences = Absences()
        self._unreadable_ms: int | None = None

    def _client(self, settings: PulsarSettings, wait: Wait, known: KnownBrokers) -> PulsarAdmin:
        client = PulsarAdmin(settings, wait, known=known)
        self._opened.callback(client.close)
        return client

    def close(self) -> None:
        """Closes all connections."""
        self._opened.close()

    def brokers(self) -> tuple[str, ...]:
        """The cluster's list. Raises AdminError."""
        return self._admin.brokers()

    def look(
        self,
        now_ms: int,
        phases: Mapping[str, RollPhase],
        expected: Sequence[str],
        obstacle: str | None = None,
    ) -> Observation:
        """What is there now. `phases`: of the roll's brokers; `expected`: all brokers that should
        be there; `obstacle`: see Observation.
        """
        live = _or_none(self._admin.brokers)
        restarting = [name for name, phase in phases.items() if phase == "restarting"]
        others = [name for name in live or () if name not in restarting]
        stuck = NONE if live is None else self._stuck(others)
        readers = [name for name in others if name not in stuck.brokers]
        readable = bool(stuck.others_read and self._any_reads(readers))
        self._note(now_ms, live, expected, readable=readable)
        back = [name for name in restarting if name in (live or ()) and self._reads(name)]
        return Observation(
            now_ms,
            live,
            _or_none(self._admin.leader),
            (*readers, *back) if readable else (),
            stuck.brokers if stuck.others_read else (),
            self._starts([*back, *(one for one in readers if phases.get(one) == "drained")]),
            self._absences.missing_ms,
            self._absences.gone_ms,
            self._lost.since(now_ms, phases) if readable else {},
            self._unreadable_ms,
            obstacle,
        )

    def _note(
        self, now_ms: int, live: Sequence[str] | None, expected: Sequence[str], *, readable: bool
    ) -> None:
        """Keeps since when brokers are missing, and the cluster does not answer."""
        if live is not None and readable:
            self._unreadable_ms = None
        elif self._unreadable_ms is None:
            self._unreadable_ms = now_ms
        if live is not None:
            self._absences = after_look(self._absences, now_ms, live, expected)

    def _stuck(self, brokers: Sequence[str]) -> Stuck:
        try:
            return self._freezes.stuck(brokers)
        except Unauthorized:
            raise
        except AdminError:
            return NONE

    def _any_reads(self, brokers: Sequence[str]) -> bool:
        """Whether one of the first brokers reads metadata; true without any broker to ask."""
        return not brokers or any(self._reads(name) for name in brokers[:_READERS])

    def _reads(self, broker: str) -> bool:
        try:
            self._admin.read_metadata(broker)
        except Unauthorized:
            raise
        except AdminError:
            return False
        return True

    def _starts(self, brokers: Sequence[str]) -> dict[str, int]:
        found = {}
        for name in brokers:
            started = _or_none(partial(self._admin.started_ms, name))
            if started is not None:
                found[name] = started
        return found


class LostBundles:
    """The bundles that executors have reported without an owner after a move away from the roll's
    brokers, until a broker has them.
    """

    def __init__(self, connections: Connections, admin: PulsarAdmin, since_ms: int) -> None:
        self._outcomes = FollowedTopic(connections.topics.outcomes, connections, since_ms)
        self._cluster, self._admin = connections.pulsar.cluster, admin
        self._since_ms: dict[str, int] = {}

    def since(self, now_ms: int, phases: Mapping[str, RollPhase]) -> dict[str, int]:
        """Bundle → since when this process knows that it has no owner (ms)."""
        for record in self._outcomes.read():
            with suppress(WireError):
                check_read(record)
                answer = decode_answer(record.value)
                if isinstance(answer, Outcome) and answer.cluster == self._cluster:
                    self._learn(answer, now_ms, phases)
        for bundle in list(self._since_ms)[:_MOST_UNOWNED]:
            if not self._is_unowned(bundle):
                del self._since_ms[bundle]
        return dict(self._since_ms)

    def _learn(self, outcome: Outcome, now_ms: int, phases: Mapping[str, RollPhase]) -> None:
        code = (outcome.reason or "").partition(":")[0]
        if code == _UNOWNED and outcome.owner_before in phases:
            self._since_ms.setdefault(outcome.bundle, now_ms)

    def _is_unowned(self, bundle: str) -> bool:
        """Whether it exists and no broker has it. Where the cluster does not say, it stays as it
        is.
        """
        namespace, _, range_ = bundle.rpartition("/")
        try:
            return self._admin.owner(bundle) is None and range_ in self._admin.ranges(namespace)
        except Unauthorized:
            raise
        except AdminError:
            return True

    def close(self) -> None:
        """Closes the topic."""
        self._outcomes.close()


def _single_attempt(pulsar: PulsarSettings) -> PulsarSettings:
    """One attempt, which ends soon: the next look comes in a second."""
    return replace(pulsar, attempts=1, deadline_ms=min(pulsar.deadline_ms, _LOOK_MS))


def _or_none(ask: Callable[[], T]) -> T | None:
    """The answer; None without one. Raises Unauthorized."""
    try:
        return ask()
    except Unauthorized:
        raise
    except AdminError:
        return None
