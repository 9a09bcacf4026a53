"""The gate before every move: asks the cluster whether a move may begin now, at most once in some
seconds. The rules are in strategies/executor/gate_and_breaker.py.
"""

import math
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Generic, TypeVar

from sinks.pulsar_api.admin import PulsarAdmin
from sinks.pulsar_api.frozen_brokers import Probe, probe
from strategies.errors import CallFailed, SettingsError, Unauthorized
from strategies.executor.admission import Objection
from strategies.executor.gate_and_breaker import GateFacts, GateRules, gate_objection

T = TypeVar("T")
#: Brokers that are probed beside the leader and those of a move; of a larger cluster, others each
#: time.
_OTHERS = 12


class _Recent(Generic[T]):
    """Answers that may be some seconds old. Threads that want the same one wait for one question;
    the age counts from its beginning.
    """

    def __init__(self, age_s: float, clock: Callable[[], float]) -> None:
        self._age_s, self._clock = age_s, clock
        self._lock = threading.Lock()
        self._asking: dict[str, threading.Lock] = {}
        self._answers: dict[str, tuple[float, T]] = {}

    def get(self, key: str, ask: Callable[[], T]) -> T:
        with self._lock:
            asking = self._asking.setdefault(key, threading.Lock())
        with asking:
            known = self.known(key)
            if known is None:
                began = self._clock()
                known = ask()
                with self._lock:
                    self._forget_old()
                    self._answers[key] = (began, known)
            return known

    def _forget_old(self) -> None:
        """Keeps what is young enough to be used, and what is being asked. At worst, a thread that
        is about to ask does so beside another one.
        """
        self._answers = {
            key: answer for key, answer in self._answers.items() if self.known(key) is not None
        }
        self._asking = {
            key: lock for key, lock in self._asking.items() if key in self._answers or lock.locked()
        }

    def known(self, key: str) -> T | None:
        """The answer, if it is not too old."""
        kept = self._answers.get(key)
        return None if kept is None or self._clock() - kept[0] > self._age_s else kept[1]


class MoveGate:
    """Threads may share it. All methods but `keep_up` raise Unauthorized; every other failure of a
    call closes the gate.
    """

    def __init__(
        self, admin: PulsarAdmin, rules: GateRules, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`admin`: with one attempt, and `rules.facts_ms` as deadline. `clock`: seconds."""
        self._admin, self._rules, self._clock = admin, rules, clock
        self._leader = _Recent[tuple[str | None, str]](rules.facts_ms / 1000, clock)
        self._lists = _Recent[bool](rules.facts_ms / 1000, clock)
        self._probes = _Recent[Probe](rules.facts_ms / 1000, clock)
        self._lock = threading.Lock()
        self._listed: frozenset[str] = frozenset()
        self._lost_at: dict[str, float] = {}
        #: Code of the last objection; empty if the gate was open. Any thread may ask.
        self.closed_by = ""
        self._asked_s = -math.inf

    def saw(self, brokers: Sequence[str]) -> None:
        """Learns who is in the list of brokers now, and so who has left it."""
        with self._lock:
            now, listed = self._clock(), frozenset(brokers)
            settles_s = self._rules.settle_ms / 1000
            lost = {name: at for name, at in self._lost_at.items() if now - at <= settles_s}
            self._lost_at = lost | dict.fromkeys(sorted(self._listed - listed), now)
            self._listed = listed

    def keep_up(self) -> None:
        """Looks who is there, if that is half of `settle_ms` ago: without commands, a broker that
        left long ago would else seem to leave with the next one. Raises nothing.
        """
        now, every_s = self._clock(), self._rules.settle_ms / 2000
        if every_s > 0 and now - self._asked_s >= every_s:
            with suppress(Unauthorized, SettingsError):  # the next command ends the program
                self._look_who_is_there()

    def objection(self, concerned: Iterable[str] = ()) -> Objection | None:
        """The reason against a move now; `concerned`: the brokers it takes a bundle from and to,
        which are probed if they are listed, beside the leader and others.
        """
        found = gate_objection(self._facts(concerned), self._rules)
        self.closed_by = "" if found is None else found.code
        return found

    def _facts(self, concerned: Iterable[str]) -> GateFacts:
        if self._rules.facts_ms > 0:
            self._lists.get("", self._look_who_is_there)
        with self._lock:
            now, listed = self._clock(), self._listed
            lost = {broker: round((now - at) * 1000) for broker, at in self._lost_at.items()}
        if self._rules.facts_ms == 0:
            return GateFacts(lost=lost)
        leader, error = self._leader.get("", self._ask_leader)
        if leader is None:
            return GateFacts(None, error, {}, lost)
        named = [leader, *(broker for broker in concerned if broker in listed)]
        probed = self._probed(named, sorted(listed))
        return GateFacts(
            leader,
            "",
            {broker: one.sign for broker, one in probed.items()},
            lost,
            {broker: one.why for broker, one in probed.items() if one.why},
        )

    def _probed(self, named: Sequence[str], listed: Sequence[str]) -> dict[str, Probe]:
        """These brokers and, in turns, some others: one that hangs is about to be lost. The others
        change when answers are too old, not with each move, and whatever brokers it concerns.
        """
        turn = int(self._clock() * 1000) // self._rules.facts_ms
        first = turn * _OTHERS % len(listed) if len(listed) > _OTHERS else 0
        others = [*listed[first:], *listed[:first]][:_OTHERS]
        found = {broker: self._probes.known(broker) for broker in (*named, *others)}
        unknown = [broker for broker, result in found.items() if result is None]
        if unknown:
            with ThreadPoolExecutor(len(unknown), thread_name_prefix="gate") as pool:
                found |= zip(unknown, pool.map(self._probe, unknown), strict=True)
        return {broker: result for broker, result in found.items() if result is not None}

    def _probe(self, broker: str) -> Probe:
        return self._probes.get(broker, partial(probe, self._admin, broker))

    def _look_who_is_there(self) -> bool:
        """True if the list of brokers was answered; else the list before holds. A broker that hangs
        closes the gate until the list no longer has it, so the gate asks for the list itself.
        """
        self._asked_s = self._clock()
        try:
            self.saw(self._admin.brokers())
        except CallFailed:
            return False
        return True

    def _ask_leader(self) -> tuple[str | None, str]:
        """The leader, and why it is not known."""
        try:
            return self._admin.leader(), ""
        except CallFailed as error:
            return None, str(error)
