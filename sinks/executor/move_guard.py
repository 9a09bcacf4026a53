"""Guards the cluster from moves, beside the judge: the gate, the breaker, bundles without an owner,
the budget of repairs and the rate of commands, and the part of the journal that remembers these and
the unloads of a bundle.
"""

import threading
import time
from collections import deque
from collections.abc import Callable

from sinks.executor.move_gate import MoveGate
from sinks.executor.move_journal import KEPT, MoveJournal
from sinks.executor.settings import GuardRules
from sinks.pulsar_api.admin import PulsarAdmin
from strategies.errors import CallFailed
from strategies.executor.admission import Objection, unowned_objection
from strategies.executor.gate_and_breaker import (
    BreakerState,
    MoveResult,
    being_tried,
    breaker_objection,
    breaker_state,
)

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
            return being_tried()
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
