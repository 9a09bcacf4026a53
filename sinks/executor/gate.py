"""The gate before every move: asks the cluster whether a move may begin now, at most once in some
seconds. The rules are in strategies/gate.py.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Generic, NamedTuple, TypeVar

from sinks.pulsar_api.admin import PulsarAdmin
from sinks.pulsar_api.freezes import look
from strategies.admission import Objection
from strategies.errors import AdminError, Unauthorized
from strategies.gate import GateFacts, GateRules, ProbeResult, gate_objection

T = TypeVar("T")
#: Brokers that are probed at a time; of a larger cluster, every move probes others.
_AT_ONCE = 16


class _Leader(NamedTuple):
    broker: str | None
    error: str = ""


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
            known = self._answers.get(key)
            began = self._clock()
            if known is None or began - known[0] > self._age_s:
                known = self._answers[key] = (began, ask())
            return known[1]


class MoveGate:
    """Threads may share it. All methods raise Unauthorized; every other failure of a call closes
    the gate.
    """

    def __init__(
        self, admin: PulsarAdmin, rules: GateRules, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`admin`: with one attempt, and `rules.facts_ms` as deadline. `clock`: seconds."""
        self._admin, self._rules, self._clock = admin, rules, clock
        self._leader = _Recent[_Leader](rules.facts_ms / 1000, clock)
        self._probes = _Recent[ProbeResult](rules.facts_ms / 1000, clock)
        self._lock = threading.Lock()
        self._listed: frozenset[str] = frozenset()
        self._lost_at: dict[str, float] = {}
        self._closed_by, self._turn = "", 0

    @property
    def closed_by(self) -> str:
        """Code of the last objection; empty if the gate was open. Any thread may ask."""
        return self._closed_by

    def saw(self, brokers: Sequence[str]) -> None:
        """Learns who is in the list of brokers now, and so who has left it."""
        with self._lock:
            now, listed = self._clock(), frozenset(brokers)
            self._lost_at |= dict.fromkeys(sorted(self._listed - listed), now)
            self._listed = listed

    def objection(self, concerned: Iterable[str] = ()) -> Objection | None:
        """The reason against a move now; `concerned`: the brokers it takes a bundle from and to,
        which are probed if they are listed, beside the leader and others.
        """
        found = gate_objection(self._facts(concerned), self._rules)
        self._closed_by = "" if found is None else found.code
        return found

    def _facts(self, concerned: Iterable[str]) -> GateFacts:
        with self._lock:
            now, listed = self._clock(), self._listed
            lost = {broker: round((now - at) * 1000) for broker, at in self._lost_at.items()}
        if self._rules.facts_ms == 0:
            return GateFacts(lost=lost)
        leader = self._leader.get("", self._ask_leader)
        if leader.broker is None:
            return GateFacts(None, leader.error, {}, lost)
        named = [leader.broker, *(broker for broker in concerned if broker in listed)]
        return GateFacts(leader.broker, "", self._probed(named, sorted(listed)), lost)

    def _probed(self, named: Sequence[str], listed: Sequence[str]) -> dict[str, ProbeResult]:
        """These brokers and, in turns, as many others as are probed at once: one that hangs is
        about to be lost.
        """
        room = max(0, _AT_ONCE - len(named))
        first = self._turn % len(listed) if len(listed) > room else 0
        self._turn += room
        others = [*listed[first:], *listed[:first]][:room]
        brokers = list(dict.fromkeys([*named, *others]))
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="gate") as pool:
            return dict(zip(brokers, pool.map(self._probe, brokers), strict=True))

    def _probe(self, broker: str) -> ProbeResult:
        return self._probes.get(broker, partial(look, self._admin, broker))

    def _ask_leader(self) -> _Leader:
        try:
            return _Leader(self._admin.leader())
        except Unauthorized:
            raise
        except AdminError as error:
            return _Leader(None, str(error))
