"""What a roll's process knows: what rounds say about the roll, what it sees of the cluster, and
what it has done itself. Only the first survives the process (decision 0242). Then the steps that it
may take.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile

from strategies.cluster.intent_records_and_states import (
    LASTING,
    Intent,
    IntentAction,
    IntentStatus,
    RollPhase,
)
from strategies.cluster.model import Round

#: Brokers that are out of service, or soon will be, by the roll.
IN_WORK: tuple[RollPhase, ...] = ("draining", "drained", "restarting")
#: Number of rounds that are kept, if the rules need no more.
_ROUNDS = 8


@dataclass(frozen=True, slots=True)
class RollRules:
    """When a roll goes on and when it halts; times in ms.

    `restart_timeout_ms`: from the restart command, or from when the broker is seen gone, until it
    is back, and from then until rounds have fresh figures of it; `by_hand`: no command, a person
    restarts; `even`: wait at the end until the cluster is balanced; `max_unavailable`: brokers that
    may be drained or restarted at a time; `lost_ms`, `unowned_ms`, `unreadable_ms`: how long a
    broker may be missing, a bundle have no owner, and the cluster not answer; `orphan_ms`: how long
    the command of a process that has died may still take effect; `bad_rounds`: rounds in a row that
    are blind or yield, or do not know the next broker; `fresh_rounds`: rounds in a row with figures
    of a broker that has been restarted; `even_rounds`: rounds in a row in which the cluster is
    balanced: brokers calculate rates over an interval, so their first figures after a move show
    only a part of what it has moved.
    """

    restart_timeout_ms: int = 600_000
    by_hand: bool = False
    even: bool = True
    max_unavailable: int = 1
    lost_ms: int = 30_000
    unowned_ms: int = 60_000
    unreadable_ms: int = 120_000
    orphan_ms: int = 60_000
    bad_rounds: int = 3
    fresh_rounds: int = 2
    even_rounds: int = 4


@dataclass(frozen=True, slots=True)
class Observation:
    """What the process sees now. `now_ms`: by its own clock; `started_ms`: broker → since when it
    runs, by the broker's clock.

    `live`: the cluster's list of brokers, None if it cannot be read; `leader`: None while unknown;
    `reading`: live brokers that answer reads of metadata; `frozen`: live brokers that never do
    while others can; `readable`: the list can be read, and a broker answers reads of metadata;
    `unowned`: bundles of the roll's drains that no broker owns; `obstacle`: why moves wait outside
    of rounds, such as a plan that waits for approval.
    """

    now_ms: int
    live: tuple[str, ...] | None
    leader: str | None = None
    reading: tuple[str, ...] = ()
    frozen: tuple[str, ...] = ()
    started_ms: Mapping[str, int] = field(default_factory=dict)
    unowned: Collection[str] = ()
    readable: bool = True
    obstacle: str | None = None


@dataclass(frozen=True, slots=True)
class RestartRun:
    """A restart that this process has run. `at_ms`: when it began; `started_before_ms`: since when
    the broker ran, by its own clock, 0 if unknown; `running`: its command has not ended; `failed`:
    why it failed, None if it did not.
    """

    at_ms: int
    started_before_ms: int = 0
    running: bool = False
    failed: str | None = None


@dataclass(slots=True)
class RollState:
    """One process of a roll. `roll`: id of the roll; `since_ms`: when the process began; `due`:
    brokers whose restart a round has acknowledged to it, or that a person wants to have restarted
    again; `ran`: restarts that it has run.

    `pending`: its record that no round has answered yet, and `answered_after_ms`: the time that
    rounds with an answer are later than; `ids`: of all its records; `in_charge`: a round has
    accepted one. `rounds`: the newest ones.

    `missing_since_ms`: broker that is not listed → since when; `gone_ms`: broker → when it was last
    seen missing; `unowned_since_ms`: bundle → since when it has no owner; `unreadable_since_ms`:
    since when the cluster does not answer; `restarted_since_ms`: restarted broker → since when
    rounds say so. All by the clock of the process, which may differ from the cluster's. What
    happened between two looks stays unseen.
    """

    roll: str
    since_ms: int
    rules: RollRules = RollRules()
    due: set[str] = field(default_factory=set)
    ran: dict[str, RestartRun] = field(default_factory=dict)
    pending: Intent | None = None
    answered_after_ms: int = 0
    ids: set[str] = field(default_factory=set)
    in_charge: bool = False
    rounds: list[Round] = field(default_factory=list)
    seen: Observation = Observation(0, None)
    missing_since_ms: dict[str, int] = field(default_factory=dict)
    gone_ms: dict[str, int] = field(default_factory=dict)
    unowned_since_ms: dict[str, int] = field(default_factory=dict)
    unreadable_since_ms: int | None = None
    restarted_since_ms: dict[str, int] = field(default_factory=dict)

    def write(self, record: Intent) -> None:
        """Notes a record that was written; until a round answers, the process does nothing else.
        The cluster's clock may be ahead of this machine's.
        """
        self.pending = record
        self.answered_after_ms = max(record.ts, *(done.ts for done in self.rounds), 0)
        self.ids.add(record.id)

    def read(self, done: Round) -> None:
        """Reads a round of the roll's cluster. A record that it accepts is no longer pending, and
        whose restart it acknowledges may be restarted. A drain may be accepted, and refused by the
        same round.
        """
        self.rounds = [*self.rounds, done][-max(_ROUNDS, self.rules.even_rounds) :]
        pending, status = self.pending, self.status
        if pending is None or status is None or status.record != pending.id:
            return
        self.in_charge = True
        if all((one.id, one.state) != (pending.id, "refused") for one in self.said):
            self.pending = None
            if pending.action == "restarting" and pending.broker is not None:
                self.due.add(pending.broker)

    def look(self, seen: Observation) -> None:
        """Notes what is seen of the cluster now. What is not seen is no evidence."""
        self.seen, now_ms = seen, seen.now_ms
        self.restarted_since_ms = _since(self.restarted_since_ms, self.brokers("restarted"), now_ms)
        if seen.live is not None:
            # Rounds forget a broker after a while; this process does not.
            known = set[str]().union(*map(known_brokers, self.rounds))
            away = {*self.phases, *known, *self.missing_since_ms} - {*seen.live}
            self.missing_since_ms = _since(self.missing_since_ms, sorted(away), now_ms)
            self.gone_ms |= dict.fromkeys(away, now_ms)
        if seen.readable:
            self.unowned_since_ms = _since(self.unowned_since_ms, seen.unowned, now_ms)
            self.unreadable_since_ms = None
        elif self.unreadable_since_ms is None:
            self.unreadable_since_ms = now_ms

    def begin_restart(self, broker: str, at_ms: int, failed: str | None = None) -> None:
        """Notes that the restart of a broker has begun. `failed`: why its command could not be
        started.
        """
        self.due.discard(broker)
        before_ms = self.seen.started_ms.get(broker, 0)
        running = failed is None and not self.rules.by_hand
        self.ran[broker] = RestartRun(at_ms, before_ms, running, failed)

    def end_command(self, broker: str, failed: str | None = None) -> None:
        """Notes that the restart command of a broker has ended. `failed`: why it failed."""
        if broker in self.ran:
            self.ran[broker] = replace(self.ran[broker], running=False, failed=failed)

    @property
    def said(self) -> Sequence[IntentStatus]:
        """What the newest round says about intents."""
        return self.rounds[-1].intents if self.rounds else ()

    @property
    def status(self) -> IntentStatus | None:
        """What the newest round says about the roll; None if it does not know it."""
        return _status_in(self.said, self.roll)

    @property
    def phases(self) -> Mapping[str, RollPhase]:
        """Phase of each broker of the roll, by name."""
        return {} if self.status is None else dict(sorted(self.status.phases.items()))

    def drain(self, broker: str) -> IntentStatus | None:
        """The drain of a broker by the roll, while it lasts."""
        wanted = ("drain", broker, self.roll)
        drains = (one for one in self.said if (one.action, one.broker, one.roll) == wanted)
        return next((one for one in drains if one.state in LASTING), None)

    def phase_in(self, done: Round, broker: str) -> RollPhase | None:
        """Phase of a broker in an earlier round; None if it is none of the roll."""
        status = _status_in(done.intents, self.roll)
        return None if status is None else status.phases.get(broker)

    def in_a_row(self, holds: Callable[[Round], bool]) -> int:
        """The number of the newest rounds of which this holds without a break."""
        return len(list(takewhile(holds, reversed(self.rounds))))

    def brokers(self, *phases: str) -> list[str]:
        """The brokers of the roll in one of these phases, by name."""
        return [name for name, phase in self.phases.items() if phase in phases]

    def is_listed(self, broker: str) -> bool:
        return self.seen.live is not None and broker in self.seen.live

    def is_back(self, broker: str) -> bool:
        """Whether the broker is listed and answers reads of metadata."""
        return self.is_listed(broker) and broker in self.seen.reading

    def has_restarted(self, broker: str) -> bool:
        """Whether there is evidence of a restart that belongs to the roll: the broker was missing
        since this process ran the restart (without one: since this process looks), or it says that
        it started after its restart was announced, and later than it said before the restart.
        """
        run = self.ran.get(broker, RestartRun(self.since_ms))
        if self.gone_ms.get(broker, -1) >= run.at_ms:
            return True
        drain, started = self.drain(broker), self.seen.started_ms.get(broker)
        if drain is None or started is None:
            return False
        return started > max(drain.since_ms, run.started_before_ms)


def known_brokers(done: Round) -> set[str]:
    """The brokers of a round, with and without fresh figures."""
    return {*done.brokers, *done.usage, *done.stale}


def _status_in(said: Iterable[IntentStatus], roll: str) -> IntentStatus | None:
    return next((one for one in said if one.id == roll and one.state != "refused"), None)


def _since(before: Mapping[str, int], names: Iterable[str], now_ms: int) -> dict[str, int]:
    """Name → since when it is among the names that are looked at again and again."""
    return {name: before.get(name, now_ms) for name in names}


@dataclass(frozen=True, slots=True)
class WriteRecord:
    """Write a record of the roll. `together`: the drain begins while others last."""

    action: IntentAction
    broker: str | None
    reason: str
    together: bool = False


@dataclass(frozen=True, slots=True)
class RunRestart:
    """Run the restart command for a broker, once."""

    broker: str


@dataclass(frozen=True, slots=True)
class KeepWaiting:
    """Look again later. `text`: what the roll waits for."""

    text: str


@dataclass(frozen=True, slots=True)
class HaltRoll:
    """Write a `halt` record with `text` as its reason, and end the process. `advice`: how to go on,
    as a sentence.
    """

    text: str
    advice: str


@dataclass(frozen=True, slots=True)
class EndProcess:
    """End the process without a record. `code`: done (all brokers are restarted), halted,
    cancelled, refused, unanswered or taken-over.
    """

    code: str
    text: str
    advice: str


RollStep = WriteRecord | RunRestart | KeepWaiting | HaltRoll | EndProcess
