"""What a roll's process knows: what rounds say about the roll, what it sees of the cluster, and
what it has done itself. Only the first survives the process (decision 0242).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from strategies.cluster.intent_contract import Intent, IntentStatus, RollPhase
from strategies.cluster.model import Round

#: States of a drain that still lasts, and of a roll.
ACTIVE_DRAIN = ("asked", "draining", "drained", "blocked")
ACTIVE_ROLL = ("rolling", "halted")
#: Brokers that are out of service, or soon will be, by the roll.
IN_WORK: tuple[RollPhase, ...] = ("draining", "drained", "restarting")
#: States of a round that finds a gap and no move for it: waiting does not help.
_HELPLESS = ("cannot-help", "not-allowed")
#: Number of round times that are kept.
_TIMES = 8


@dataclass(frozen=True, slots=True)
class RollRules:
    """When a roll goes on and when it halts; times in ms.

    `restart_timeout_ms`: from the restart command, or from when the broker is seen gone, until it
    is back, and from then until rounds have fresh figures of it; `by_hand`: no command, a person
    restarts; `even`: wait at the end until the cluster is balanced; `lost_ms`, `unowned_ms`,
    `unreadable_ms`: how long a broker may be missing, a bundle have no owner, and the cluster not
    answer; `orphan_ms`: how long the command of a process that has died may still take effect;
    `bad_rounds`: rounds in a row that are blind or yield, or do not know the next broker;
    `fresh_rounds`: rounds in a row with figures of a broker that has been restarted; `even_rounds`:
    rounds in a row in which the cluster is balanced: brokers calculate rates over an interval, so
    their first figures after a move show only a part of what it has moved.
    """

    restart_timeout_ms: int = 600_000
    by_hand: bool = False
    even: bool = True
    lost_ms: int = 30_000
    unowned_ms: int = 60_000
    unreadable_ms: int = 120_000
    orphan_ms: int = 60_000
    bad_rounds: int = 3
    fresh_rounds: int = 2
    even_rounds: int = 4


@dataclass(frozen=True, slots=True)
class RollView:
    """What a round says about a roll. `status`: None if it does not know the roll; `drains`: broker
    → its drain, of those that last; `refused`: id → refused record, of whatever roll.
    """

    status: IntentStatus | None = None
    drains: Mapping[str, IntentStatus] = field(default_factory=dict)
    refused: Mapping[str, IntentStatus] = field(default_factory=dict)

    @property
    def phases(self) -> Mapping[str, RollPhase]:
        """Phase of each broker of the roll, by name."""
        return {} if self.status is None else dict(sorted(self.status.phases.items()))


def roll_view(intents: Iterable[IntentStatus], roll: str) -> RollView:
    """The view of one roll. `intents`: of one round; `roll`: id of the roll."""
    found = tuple(intents)
    return RollView(
        next((one for one in found if one.id == roll and one.state != "refused"), None),
        {
            one.broker: one
            for one in found
            if one.action == "drain" and one.roll == roll and one.state in ACTIVE_DRAIN
            if one.broker is not None
        },
        {one.id: one for one in found if one.state == "refused"},
    )


@dataclass(frozen=True, slots=True)
class RollRounds:
    """What the rounds until now say. `times`: of the newest ones; `brokers`: of the newest one,
    with and without fresh figures; `stale`: those without, with the reason; `state`, `text`,
    `advice`: of the newest one; `bad`: number of rounds in a row that are blind or yield; `fresh`:
    restarted broker → number of rounds in a row with figures of it; `restarted_ms`: restarted
    broker → when the process read the first of its rounds since, by its own clock; `unknown`:
    broker that is yet to be drained → number of rounds in a row without it; `balanced`, `helpless`:
    number of rounds in a row that are balanced, or find no move for a gap, since all brokers have
    been restarted.
    """

    view: RollView = RollView()
    times: tuple[int, ...] = ()
    brokers: tuple[str, ...] = ()
    stale: Mapping[str, str] = field(default_factory=dict)
    state: str | None = None
    text: str = ""
    advice: str = ""
    bad: int = 0
    fresh: Mapping[str, int] = field(default_factory=dict)
    restarted_ms: Mapping[str, int] = field(default_factory=dict)
    unknown: Mapping[str, int] = field(default_factory=dict)
    balanced: int = 0
    helpless: int = 0

    def after(self, ts: int) -> int:
        """Number of the newest rounds that are later than `ts`."""
        return sum(time > ts for time in self.times)


def after_round(
    before: RollRounds,
    done: Round,
    intents: Sequence[IntentStatus],
    roll: str,
    rules: RollRules,
    *,
    now_ms: int,
) -> RollRounds:
    """What is known after one more round of the roll's cluster. `intents`: of that round; `now_ms`:
    by the clock of the process, which may differ from the cluster's.
    """
    view = roll_view(intents, roll)
    restarted = [broker for broker, phase in view.phases.items() if phase == "restarted"]
    fresh = {
        broker: before.fresh.get(broker, 0) + 1
        if broker in done.usage and broker not in done.stale
        else 0
        for broker in restarted
    }
    excused = {broker for broker, count in fresh.items() if count < rules.fresh_rounds}
    excused |= {broker for broker, phase in view.phases.items() if phase == "restarting"}
    code = None if done.state is None else str(done.state.code)
    # A broker that is being restarted may leave too few for a judgement.
    bad = code == "yielding" or (
        code == "blind" and (not done.stale or any(name not in excused for name in done.stale))
    )
    is_last = len(restarted) == len(view.phases)
    brokers = {*done.brokers, *done.usage, *done.stale}
    return RollRounds(
        view,
        (*before.times, done.ts)[-_TIMES:],
        tuple(sorted(brokers)),
        dict(done.stale),
        code,
        "" if done.state is None else done.state.text,
        "" if done.state is None else done.state.advice,
        before.bad + 1 if bad else 0,
        fresh,
        {broker: before.restarted_ms.get(broker, now_ms) for broker in restarted},
        {
            broker: before.unknown.get(broker, 0) + 1
            for broker, phase in view.phases.items()
            if phase == "waiting" and broker not in brokers
        },
        before.balanced + 1 if is_last and code == "balanced" else 0,
        before.helpless + 1 if is_last and code in _HELPLESS else 0,
    )


@dataclass(frozen=True, slots=True)
class Observation:
    """What the process sees now. `now_ms`: by its own clock, as all times here but `started_ms`,
    which is by the broker's.

    `live`: the cluster's list of brokers, None if it cannot be read; `unreadable_ms`: since when it
    cannot, or no broker answers reads of metadata; `leader`: None while unknown; `reading`: live
    brokers that answer reads of metadata; `frozen`: live brokers that never do while others can;
    `missing_ms`: broker that is not listed → since when; `gone_ms`: broker → when it was last seen
    missing; `unowned_ms`: bundle of the roll's drains that no broker owns → since when; `obstacle`:
    why moves wait outside of rounds, such as a plan that waits for approval.
    """

    now_ms: int
    live: tuple[str, ...] | None
    leader: str | None = None
    reading: tuple[str, ...] = ()
    frozen: tuple[str, ...] = ()
    started_ms: Mapping[str, int] = field(default_factory=dict)
    missing_ms: Mapping[str, int] = field(default_factory=dict)
    gone_ms: Mapping[str, int] = field(default_factory=dict)
    unowned_ms: Mapping[str, int] = field(default_factory=dict)
    unreadable_ms: int | None = None
    obstacle: str | None = None


@dataclass(frozen=True, slots=True)
class Absences:
    """Brokers that looks did not find; what happened between two looks stays unseen. `missing_ms`,
    `gone_ms`: as in Observation.
    """

    missing_ms: Mapping[str, int] = field(default_factory=dict)
    gone_ms: Mapping[str, int] = field(default_factory=dict)


def after_look(
    before: Absences, now_ms: int, live: Collection[str], expected: Iterable[str]
) -> Absences:
    """What is known after one more look that could read the list. `live`: the brokers on it;
    `expected`: all brokers that should be.
    """
    away = [name for name in expected if name not in live]
    still = {name: since for name, since in before.missing_ms.items() if name not in live}
    return Absences(
        {**dict.fromkeys(away, now_ms), **still}, {**before.gone_ms, **dict.fromkeys(away, now_ms)}
    )


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


@dataclass(frozen=True, slots=True)
class RollMemory:
    """What the process has done, lost with it. `since_ms`: when it began; `pending`: its record
    that no round has answered yet, and `answered_after_ms`: the time that rounds with an answer
    are later than; `ids`: of all its records; `in_charge`: a round has accepted one; `due`: brokers
    whose restart a round has acknowledged to this process, or that a person wants to have restarted
    again; `ran`: restarts that this process has run.
    """

    since_ms: int
    pending: Intent | None = None
    answered_after_ms: int = 0
    ids: frozenset[str] = frozenset()
    in_charge: bool = False
    due: frozenset[str] = frozenset()
    ran: Mapping[str, RestartRun] = field(default_factory=dict)


def with_record(
    memory: RollMemory, record: Intent, rounds: RollRounds = RollRounds()
) -> RollMemory:
    """After this process has written a record; until it is answered, it does nothing else.
    `rounds`: those before: the cluster's clock may be ahead of this machine's.
    """
    after_ms = max(record.ts, *rounds.times, 0)
    ids = memory.ids | {record.id}
    return replace(memory, pending=record, answered_after_ms=after_ms, ids=ids)


def with_answer(memory: RollMemory, view: RollView) -> RollMemory:
    """After a round: the record that it accepted is no longer pending. Whose restart it has
    acknowledged may be restarted. A drain may be accepted, and refused by the same round.
    """
    pending, status = memory.pending, view.status
    if pending is None or status is None or status.record != pending.id:
        return memory
    if pending.id in view.refused:
        return replace(memory, in_charge=True)
    due = memory.due
    if pending.action == "restarting" and pending.broker is not None:
        due |= {pending.broker}
    return replace(memory, pending=None, in_charge=True, due=due)


def with_restart(memory: RollMemory, broker: str, run: RestartRun) -> RollMemory:
    """After this process has begun a restart, and again when its command has ended."""
    return replace(memory, due=memory.due - {broker}, ran={**memory.ran, broker: run})
