"""The gate before every move: asks the cluster whether a move may begin now, at most once in some
seconds. The rules are in strategies/gate.py.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Generic, NamedTuple, TypeVar

from sinks.pulsar_api.admin import PulsarAdmin
from sinks.pulsar_api.freezes import look
from strategies.admission import Objection
from strategies.errors import AdminError, Unauthorized
from strategies.gate import GateFacts, GateRules, ProbeResult, gate_objection

T = TypeVar("T")


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


class Gate:
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
        self._closed_by: str = ""

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
        which are probed if they are listed, beside the leader.
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
        probes: dict[str, ProbeResult] = {}
        for broker in () if leader.broker is None else (leader.broker, *concerned):
            if broker == leader.broker or broker in listed:
                probes[broker] = self._probes.get(broker, partial(look, self._admin, broker))
                if probes[broker] != "reads":
                    break  # one is enough, and each waits for its deadline
        return GateFacts(leader.broker, leader.error, probes, lost)

    def _ask_leader(self) -> _Leader:
        try:
            return _Leader(self._admin.leader())
        except Unauthorized:
            raise
        except AdminError as error:
            return _Leader(None, str(error))
