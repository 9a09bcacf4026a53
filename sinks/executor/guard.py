"""What guards the cluster from moves, beside the judge: the gate, the breaker, bundles without an
owner, and the budget of repairs.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from sinks.executor.gate import MoveGate
from sinks.executor.move_journal import KEPT, MoveJournal
from sinks.executor.settings import GuardRules
from sinks.pulsar_api.admin import PulsarAdmin
from strategies.errors import AdminError, Unauthorized
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
        """What it is now."""
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
        """What came of a move. Raises SinkError."""
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
        except Unauthorized:
            raise
        except AdminError:
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
