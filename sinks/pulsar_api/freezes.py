"""Recognises frozen brokers: they answer what needs no metadata, stay in the list of brokers, and never finish a read of metadata.

That is how a modular broker is left by Pulsar's own fault (docs/PULSAR_FAULTS.md) until it is restarted. One slow answer is no proof: a
broker counts as stuck when two looks in a row time out while it answers other calls at once, as frozen when another one reads meanwhile.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from sinks.pulsar_api.admin import PulsarAdmin
from sinks.pulsar_api.answers import Unanswered
from sinks.pulsar_api.settings import PulsarSettings
from strategies.errors import AdminError, BrokerUnavailable, Unauthorized

#: reads: metadata comes; stuck: the broker answers, metadata does not come; silent: no answer, or a slow one.
Sign = Literal["reads", "stuck", "silent"]

_RESTART = (
    "restart that broker; keep a thread dump before (jstack PID): metadata-store-event in getOwnedNameSpacesStatusAsync … join is the "
    "fault in docs/PULSAR_FAULTS.md"
)
PATIENCE_MS = 30_000
#: A broker that takes longer for its version is starved, which delays reads as well.
_QUICK_S = 3.0
_LONG_S = 60.0
_AT_ONCE = 16
_EVERY_S = 30.0


@dataclass(frozen=True, slots=True)
class Stuck:
    """Brokers that do not read metadata; `others_read`: another broker does, so that it is not the metadata store."""

    brokers: tuple[str, ...] = ()
    others_read: bool = True

    def __bool__(self) -> bool:
        return bool(self.brokers)

    def __str__(self) -> str:
        return f"{self.what}; {self.remedy}" if self.brokers else ""

    @property
    def what(self) -> str:
        """Which brokers, and what is wrong with them."""
        names = ", ".join(self.brokers)
        if self.others_read:
            return f"{names} {'is' if len(self.brokers) == 1 else 'are'} frozen: listed, answering, but no read of metadata ends there"
        return f"no read of metadata ends at any broker ({names}): the metadata store does not answer, or all brokers are frozen"

    @property
    def remedy(self) -> str:
        """What to do."""
        return _RESTART if self.others_read else "look at the metadata store, then restart the brokers one by one"


NONE = Stuck()


def probing(settings: PulsarSettings, patience_ms: int = PATIENCE_MS) -> PulsarSettings:
    """Settings for the admin client that looks: one try, with a time of its own."""
    return replace(settings, attempts=1, deadline_ms=patience_ms)


def look(admin: PulsarAdmin, broker: str) -> Sign:
    """One look. Raises Unauthorized."""
    try:
        admin.read_metadata(broker)
    except Unauthorized:
        raise
    except Unanswered:
        return "stuck" if _answers(admin, broker) else "silent"
    except BrokerUnavailable:
        return "silent"
    except AdminError:
        return "reads"
    return "reads"


def find_stuck(admin: PulsarAdmin, suspects: Collection[str], brokers: Sequence[str], before: Collection[str] = ()) -> Stuck:
    """Which of the suspects are stuck now; `brokers`: all live ones. Who was stuck `before` is, until it reads. Raises Unauthorized."""
    first = _looks(admin, [broker for broker in brokers if broker in suspects])
    doubtful = [broker for broker, sign in first.items() if sign == "stuck" or (sign == "silent" and broker in before)]
    if not doubtful:
        return NONE
    others = [broker for broker in brokers if broker not in doubtful]
    second = _looks(admin, [*doubtful, *others[:_AT_ONCE]])
    stuck = tuple(broker for broker in doubtful if second[broker] == "stuck" or (second[broker] == "silent" and broker in before))
    return Stuck(stuck, "reads" in (*first.values(), *second.values())) if stuck else NONE


def stuck_brokers(settings: PulsarSettings, patience_ms: int = PATIENCE_MS) -> Stuck:
    """All brokers of a cluster, looked at once. Raises AdminError, SettingsError."""
    with closing(PulsarAdmin(probing(settings, patience_ms))) as admin:
        brokers = admin.brokers()
        return find_stuck(admin, brokers, brokers)


class FrozenReports:
    """Load reports. A broker that seems frozen is not asked: each call would hold one of its web threads for good, until none is left.

    It is called frozen when all looks of a minute found it stuck; a pass waits for one look only.
    """

    def __init__(self, admin: PulsarAdmin, clock: Callable[[], float] = time.monotonic) -> None:
        """`admin`: for questions to single brokers, without repetition."""
        self._admin, self._clock = admin, clock
        self._stuck_since: dict[str, float] = {}
        self._frozen: set[str] = set()

    def load_report(self, broker: str) -> bytes:
        """As `PulsarAdmin.load_report`; BrokerUnavailable says so when the broker is frozen. Threads may share it, not for one broker."""
        if broker in self._stuck_since:
            self._look_again(broker)
        try:
            return self._admin.load_report(broker)
        except Unanswered:
            if look(self._admin, broker) == "stuck":
                self._stuck_since[broker] = self._clock()
            raise

    def _look_again(self, broker: str) -> None:
        sign = look(self._admin, broker)
        if sign == "reads" or (sign == "silent" and broker not in self._frozen):
            del self._stuck_since[broker]
            self._frozen.discard(broker)
            return
        seconds = self._clock() - self._stuck_since[broker]
        if broker in self._frozen or (seconds >= _LONG_S and self._others_read(broker)):
            self._frozen.add(broker)
            raise BrokerUnavailable(str(Stuck((broker,))))
        raise BrokerUnavailable(f"{broker} answers, but finishes no read of metadata for {seconds:.0f} s; wait, or look after it")

    def _others_read(self, broker: str) -> bool:
        return any(look(self._admin, other) == "reads" for other in self._admin.brokers() if other != broker)


class FreezeWatch:
    """What is stuck, looked up again every now and then. Threads may share it; they wait for the one that looks."""

    def __init__(self, admin: PulsarAdmin, every_s: float = _EVERY_S, clock: Callable[[], float] = time.monotonic) -> None:
        """`admin`: with settings as from `probing`."""
        self._admin, self._every_s, self._clock = admin, every_s, clock
        self._lock = threading.Lock()
        self._stuck, self._due = NONE, clock()

    def stuck(self, brokers: Sequence[str]) -> Stuck:
        """Of these live brokers. Raises Unauthorized."""
        with self._lock:
            if self._clock() >= self._due:
                self._stuck = find_stuck(self._admin, brokers, brokers, self._stuck.brokers)
                self._due = self._clock() + self._every_s
            return self._stuck


def _answers(admin: PulsarAdmin, broker: str) -> bool:
    began = time.monotonic()
    try:
        admin.version(broker)
    except Unauthorized:
        raise
    except AdminError:
        return False
    return time.monotonic() - began < _QUICK_S


def _looks(admin: PulsarAdmin, brokers: Sequence[str]) -> dict[str, Sign]:
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="look") as pool:
        return dict(zip(brokers, pool.map(partial(look, admin), brokers), strict=True))
