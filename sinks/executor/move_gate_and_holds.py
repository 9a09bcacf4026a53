"""What holds moves back, beside the judge: the gate, which asks the cluster at most once in some
seconds whether a move may begin now; the breaker, bundles without an owner, the budget of repairs
and the rate of commands. The rules are in strategies/executor/gate_and_breaker.py.
"""

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Generic, TypeVar

from sinks.executor.journal import KEPT, MoveJournal
from sinks.executor.settings import GuardRules
from sinks.pulsar_api.admin import PulsarAdmin
from sinks.pulsar_api.frozen_brokers import Probe, probe
from strategies.errors import CallFailed, SettingsError, Unauthorized
from strategies.executor.admission import Objection, unowned_objection
from strategies.executor.gate_and_breaker import (
    BEING_TRIED,
    BreakerState,
    GateFacts,
    GateRules,
    MoveResult,
    breaker_objection,
    breaker_state,
    gate_objection,
)

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
        probes = [partial(probe, self._admin, broker) for broker in unknown]
        if unknown:
            with ThreadPoolExecutor(len(unknown), thread_name_prefix="gate") as pool:
                found |= zip(unknown, pool.map(self._probes.get, unknown, probes), strict=True)
        return {broker: result for broker, result in found.items() if result is not None}

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


#: Seconds between two looks at a bundle without an owner.
_LOOK_AGAIN_S = 2.0


class Breaker:
    """Threads may share it. What it knows is in the journal."""

    def __init__(
        self, journal: MoveJournal, rules: GuardRules, clock_ms: Callable[[], int]
    ) -> None:
        """Raises SinkError."""
        self._journal, self._rules, self._clock_ms = journal, rules.breaker, clock_ms
        self._results = journal.results()
        self._lock = threading.Lock()
        self._tried: str | None = None

    def state(self) -> BreakerState:
        """Its state now."""
        return breaker_state(self._results, self._rules, self._clock_ms())

    def objection(self, command_id: str) -> Objection | None:
        """The reason against this move now."""
        state = self.state()
        if state.code == "trying" and self._tried not in (None, command_id):
            return BEING_TRIED
        return breaker_objection(state, self._rules, self._clock_ms())

    def begin(self, command_id: str) -> Objection | None:
        """The same, for a move that begins now unless there is a reason; one at a time while the
        breaker tries. `end` must follow.
        """
        with self._lock:
            found = self.objection(command_id)
            if found is None and self.state().code == "trying":
                self._tried = command_id
            return found

    def end(self, command_id: str) -> None:
        """The move has ended, and its result was added."""
        with self._lock:
            if self._tried == command_id:
                self._tried = None

    def add(self, result: MoveResult) -> None:
        """Adds the result of a move. Raises SinkError."""
        self._journal.add_result(result)
        with self._lock:
            self._results = [*self._results, result][-KEPT:]


class UnownedBundles:
    """Holds moves of a namespace back while one of its bundles has no owner after a move."""

    def __init__(
        self,
        journal: MoveJournal,
        admin: PulsarAdmin,
        hold_ms: int,
        clock_ms: Callable[[], int],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`admin`: for looks at owners, which raise no error that is passed on."""
        self._journal, self._admin, self._hold_ms = journal, admin, hold_ms
        self._clock_ms, self._clock = clock_ms, clock
        self._looked_at: dict[str, float] = {}

    def add(self, bundle: str) -> None:
        """No broker owns it. Raises SinkError."""
        if self._hold_ms:
            self._journal.add_unowned(bundle, self._clock_ms())

    def objection(self, namespace: str) -> Objection | None:
        """The reason against a move of this namespace now. Raises SinkError, Unauthorized."""
        for bundle, since_ms in self._journal.unowned(namespace):
            now_ms = self._clock_ms()
            if now_ms - since_ms < self._hold_ms and not self._is_owned(bundle):
                return unowned_objection(bundle, since_ms, now_ms)
            self._journal.remove_unowned(bundle)
            self._looked_at.pop(bundle, None)
        return None

    def _is_owned(self, bundle: str) -> bool:
        now = self._clock()
        self._looked_at = {
            name: at for name, at in self._looked_at.items() if now - at < _LOOK_AGAIN_S
        }
        if bundle in self._looked_at:
            return False
        self._looked_at[bundle] = now
        try:
            return self._admin.owner(bundle) is not None
        except CallFailed:
            return False


class MoveGuard:
    """Threads may share it."""

    def __init__(
        self,
        rules: GuardRules,
        journal: MoveJournal,
        admin: PulsarAdmin,
        clock_ms: Callable[[], int],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`admin`: with one attempt, and `rules.gate.facts_ms` as deadline. Raises SinkError."""
        self.gate = MoveGate(admin, rules.gate, clock)
        self.breaker = Breaker(journal, rules, clock_ms)
        self.unowned = UnownedBundles(journal, admin, rules.unowned_hold_ms, clock_ms, clock)
        self._rules, self._journal, self._clock_ms = rules, journal, clock_ms

    def refuse_repair(self, objection: Callable[[], Objection | None]) -> str:
        """Why no bundle may be unloaded once more; empty takes one repair of the hour. `objection`:
        what else speaks against it. Raises SinkError.
        """
        if self._rules.repairs == 0:
            return "executor.repairs is 0"
        found = objection()
        if found is not None:
            return str(found)
        if not self._journal.take_repair(self._clock_ms(), self._rules.repairs):
            return f"the {self._rules.repairs} repairs of this hour are used up (executor.repairs)"
        return ""


_MINUTE_S = 60.0
_SHORTEST_WAIT_S = 0.001


class RateLimiter:
    """Threads may share it; they wait for each other. A limit of 0 is none."""

    def __init__(
        self,
        per_minute: int,
        wait: Callable[[float], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`wait` sleeps for a number of seconds; True from it means that the program is to end.
        `clock` counts seconds.
        """
        self._per_minute = per_minute
        self._wait = wait
        self._clock = clock
        self._begun: deque[float] = deque()
        self._lock = threading.Lock()

    def acquire(self) -> bool:
        """Waits until one more may be begun; False when the program is to end instead."""
        if self._per_minute == 0:
            return True
        with self._lock:
            while True:
                now = self._clock()
                while self._begun and self._begun[0] <= now - _MINUTE_S:
                    self._begun.popleft()
                if len(self._begun) < self._per_minute:
                    self._begun.append(now)
                    return True
                # A remainder that rounding has left would be waited for without ever passing.
                if self._wait(max(_SHORTEST_WAIT_S, self._begun[0] + _MINUTE_S - now)):
                    return False
