"""Detects frozen brokers: they answer calls that need no metadata, are in the list of brokers, and
never finish a read of metadata.

A fault of Pulsar leaves a modular broker in this state until it is restarted
(docs/PULSAR_FAULTS.md). One slow answer is no proof: a broker is stuck if two probes in a row time
out while it answers other calls at once, and frozen if another broker can read meanwhile.
"""

import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, NamedTuple

from sinks.pulsar_api.admin import PulsarAdmin
from sinks.pulsar_api.admin_errors import Busy, Unanswered
from sinks.pulsar_api.connection_tls_and_token import PulsarSettings
from strategies.errors import BrokerUnavailable, CallFailed

#: reads: reads of metadata succeed; stuck: the broker answers, but not reads of metadata; silent:
#: no answer, or a slow one; busy: an answer at once that it cannot now.
Sign = Literal["reads", "stuck", "busy", "silent"]

_RESTART = (
    "restart that broker; keep a thread dump before (jstack PID): metadata-store-event in "
    "getOwnedNameSpacesStatusAsync … join is the "
    "fault in docs/PULSAR_FAULTS.md"
)
#: Signs that neither prove a freeze nor end one.
_AWAY = ("busy", "silent")

PATIENCE_MS = 30_000
#: A broker that takes longer than this for its version is overloaded, which delays reads of
#: metadata too.
_QUICK_S = 3.0
_LONG_S = 60.0
_AT_ONCE = 16
#: Brokers that are remembered as stuck.
MOST_STUCK = 1_000
_EVERY_S = 30.0


@dataclass(frozen=True, slots=True)
class Stuck:
    """Brokers that cannot read metadata. `others_read`: another broker can, so the metadata store
    is not the cause.
    """

    brokers: tuple[str, ...] = ()
    others_read: bool = True

    def __bool__(self) -> bool:
        return bool(self.brokers)

    def __str__(self) -> str:
        return f"{self.what}; {self.remedy}" if self.brokers else ""

    @property
    def what(self) -> str:
        """The stuck brokers and the fault."""
        names = ", ".join(self.brokers)
        if self.others_read:
            verb = "is" if len(self.brokers) == 1 else "are"
            return (
                f"{names} {verb} frozen: listed and answering, but reads of metadata never finish"
            )
        return (
            f"reads of metadata finish on no broker ({names}): the metadata store does not "
            "answer, or all brokers are frozen"
        )

    @property
    def remedy(self) -> str:
        """The next step for the operator."""
        return (
            _RESTART
            if self.others_read
            else "check the metadata store, then restart the brokers one by one"
        )


NONE = Stuck()


class Probe(NamedTuple):
    """What a probe has shown; `why`: the sentence of the call that failed."""

    sign: Sign
    why: str = ""


def probing(settings: PulsarSettings, patience_ms: int = PATIENCE_MS) -> PulsarSettings:
    """Settings of the admin client for probes: one attempt, with its own deadline."""
    return replace(settings, attempts=1, deadline_ms=patience_ms)


def look(admin: PulsarAdmin, broker: str) -> Sign:
    """Probes one broker once. Raises Unauthorized."""
    return probe(admin, broker).sign


def probe(admin: PulsarAdmin, broker: str) -> Probe:
    """The same, with what came of it. Raises Unauthorized."""
    try:
        admin.read_metadata(broker)
    except Unanswered as error:
        return Probe("stuck" if _answers(admin, broker) else "silent", str(error))
    except BrokerUnavailable as error:
        return Probe("busy" if isinstance(error, Busy) else "silent", str(error))
    except CallFailed:
        return Probe("reads")
    return Probe("reads")


def find_stuck(
    admin: PulsarAdmin,
    suspects: Collection[str],
    brokers: Sequence[str],
    before: Collection[str] = (),
) -> Stuck:
    """The suspects that are stuck now. `brokers`: all live ones; `before`: stuck until a read
    succeeds. Raises Unauthorized.
    """
    first = _looks(admin, [broker for broker in brokers if broker in suspects])
    doubtful = [
        broker
        for broker, sign in first.items()
        if sign == "stuck" or (sign in _AWAY and broker in before)
    ]
    if not doubtful:
        return NONE
    others = [broker for broker in brokers if broker not in doubtful]
    second = _looks(admin, [*doubtful, *others[:_AT_ONCE]])
    stuck = tuple(
        broker
        for broker in doubtful
        if second[broker] == "stuck" or (second[broker] in _AWAY and broker in before)
    )
    return Stuck(stuck, "reads" in (*first.values(), *second.values())) if stuck else NONE


class FrozenReports:
    """Load reports. Skips a broker that seems frozen: each call would block one of its web threads
    for good, until none is left.

    Reports a broker as frozen after all probes of a minute found it stuck; a pass waits for one
    probe only.
    """

    def __init__(self, admin: PulsarAdmin, clock: Callable[[], float] = time.monotonic) -> None:
        """`admin`: for calls to single brokers, without retries."""
        self._admin, self._clock = admin, clock
        self._stuck_since: dict[str, float] = {}
        self._frozen: set[str] = set()

    def load_report(self, broker: str) -> bytes:
        """As `PulsarAdmin.load_report`; BrokerUnavailable names frozen brokers. Thread-safe, except
        for calls about the same broker.
        """
        if broker in self._stuck_since:
            self._look_again(broker)
        try:
            return self._admin.load_report(broker)
        except Unanswered:
            if look(self._admin, broker) == "stuck":
                self._note(broker)
            raise

    def _note(self, broker: str) -> None:
        """Of brokers that left while they were stuck, the oldest make room."""
        for gone in list(self._stuck_since)[: 1 - MOST_STUCK]:
            self._stuck_since.pop(gone, None)
            self._frozen.discard(gone)
        self._stuck_since[broker] = self._clock()

    def _look_again(self, broker: str) -> None:
        sign = look(self._admin, broker)
        if sign == "reads" or (sign in _AWAY and broker not in self._frozen):
            self._stuck_since.pop(broker, None)
            self._frozen.discard(broker)
            return
        now = self._clock()
        seconds = now - self._stuck_since.get(broker, now)
        if broker in self._frozen or (
            seconds >= _LONG_S
            and any(
                look(self._admin, other) == "reads"
                for other in self._admin.brokers()
                if other != broker
            )
        ):
            self._frozen.add(broker)
            raise BrokerUnavailable(str(Stuck((broker,))))
        raise BrokerUnavailable(
            f"{broker} answers, but has finished no read of metadata for {seconds:.0f} s; "
            "wait, or check the broker"
        )


class FreezeWatch:
    """The stuck brokers of a cluster, probed again every `every_s` seconds. Thread-safe; callers
    wait for a running probe.
    """

    def __init__(
        self,
        admin: PulsarAdmin,
        every_s: float = _EVERY_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`admin`: with settings as from `probing`."""
        self._admin, self._every_s, self._clock = admin, every_s, clock
        self._lock = threading.Lock()
        self._stuck, self._due = NONE, clock()

    def stuck(self, brokers: Sequence[str]) -> Stuck:
        """The stuck ones of these live brokers. Raises Unauthorized."""
        with self._lock:
            if brokers and self._clock() >= self._due:
                self._stuck = find_stuck(self._admin, brokers, brokers, self._stuck.brokers)
                self._due = self._clock() + self._every_s
            return self._stuck


def _answers(admin: PulsarAdmin, broker: str) -> bool:
    began = time.monotonic()
    try:
        admin.version(broker)
    except CallFailed:
        return False
    return time.monotonic() - began < _QUICK_S


def _looks(admin: PulsarAdmin, brokers: Sequence[str]) -> dict[str, Sign]:
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="look") as pool:
        return dict(zip(brokers, pool.map(partial(look, admin), brokers), strict=True))
