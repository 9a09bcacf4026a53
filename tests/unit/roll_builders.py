"""Rolls as rounds, eyes and a process's memory see them; and a small world in which a roll goes on:
a fold of its records, brokers that restart, and processes that die.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from random import Random
from typing import Any, TypeVar

from strategies.cluster.intent_contract import Intent, IntentAction, IntentStatus, RollPhase
from strategies.cluster.model import Round
from strategies.cluster.round_figures import RoundState
from strategies.roll.next_step import next_step
from strategies.roll.steps import (
    EndProcess,
    HaltRoll,
    KeepWaiting,
    RollFacts,
    RollStep,
    RunRestart,
    WriteRecord,
)
from strategies.roll.view import (
    Observation,
    RestartRun,
    RollMemory,
    RollRounds,
    RollRules,
    RollView,
    after_round,
    with_answer,
    with_record,
    with_restart,
)
from tests.unit.test_wire_encoding import ROUND

T = TypeVar("T")
A, B, C, D = "a:1", "b:1", "c:1", "d:1"
ROLL = "0" * 32
#: Some hours after the epoch; brokers run since the epoch's beginning.
NOW = 10_000_000
STARTED = 1_000
ROUND_MS = 60_000


def roll_status(phases: Mapping[str, RollPhase], **given: Any) -> IntentStatus:
    made: dict[str, Any] = {
        "id": ROLL,
        "action": "roll",
        "state": "rolling",
        "text": "the roll goes on",
        "advice": "Nothing to do.",
        "by": "anna",
        "reason": "upgrade",
        "asked_ms": NOW - 600_000,
        "since_ms": NOW - 600_000,
        "phases": dict(phases),
        "record": "mine",
    }
    return IntentStatus(**{**made, **given})


def drain_status(broker: str, state: str = "drained", **given: Any) -> IntentStatus:
    made: dict[str, Any] = {
        "id": f"drain-{broker}",
        "action": "drain",
        "state": state,
        "text": f"drains {broker}: 3 of 9 bundles are left",
        "advice": "Nothing to do.",
        "by": "anna",
        "reason": "roll",
        "asked_ms": NOW - 300_000,
        "since_ms": NOW - 200_000,
        "broker": broker,
        "roll": ROLL,
    }
    return IntentStatus(**{**made, **given})


#: Where an argument of `facts` goes that several of its parts have.
SPECIAL = {"round_state": "state", "round_text": "text"}


def changed(made: T, given: dict[str, Any], *names: str) -> T:
    """The object with those of the given values that it has, or only the named ones of them."""
    mine = names or tuple(one.name for one in fields(made))  # type: ignore[arg-type]
    taken = {name: given.pop(name) for name in mine if name in given}
    return replace(made, **{SPECIAL.get(name, name): value for name, value in taken.items()})  # type: ignore[type-var]


def facts(phases: Mapping[str, RollPhase], **given: Any) -> RollFacts:
    """A roll in these phases, at rest: all brokers live, the last one leads, restarted ones have
    fresh figures, and the process has had an answer to all its records.

    `given`: fields of the status (`state`, `record`), of the rounds (`round_state`, `round_text`),
    and of what is seen, of the memory and of the rules, by their own names.
    """
    brokers = tuple(phases)
    drains = {
        one: drain_status(one, "draining" if phase == "draining" else "drained")
        for one, phase in phases.items()
        if phase not in ("waiting", "restarted")
    }
    rounds = RollRounds(
        RollView(changed(roll_status(phases), given, "state", "record"), drains),
        (NOW - 2 * ROUND_MS, NOW - ROUND_MS),
        brokers,
        {},
        "balanced",
        "nothing has to move",
        fresh={one: 2 for one, phase in phases.items() if phase == "restarted"},
        balanced=RollRules().even_rounds,
    )
    seen = Observation(NOW, brokers, brokers[-1], brokers, (), dict.fromkeys(brokers, STARTED))
    memory = RollMemory(NOW - 30_000, ids=frozenset({"mine"}), in_charge=True)
    most = given.pop("max_unavailable", 1)
    rounds = changed(changed(rounds, given, "round_state", "round_text"), given)
    found = RollFacts(
        rounds,
        changed(seen, given),
        changed(memory, given),
        changed(RollRules(), given),
        most,
    )
    assert not given, given
    return found


def intent(action: IntentAction, broker: str | None = None, id_: str = "mine") -> Intent:
    return Intent("c", NOW, id_, action, "anna", "roll", broker, roll=ROLL)


@dataclass
class World:
    """Brokers, a job that closes a round a minute, and at most one process of a roll.

    `restarts`: every restart that began, in order; `most_out`: most brokers that were out of
    service at the same time by the roll's doing; `rounds_behind_ms`: how far the clock of the
    rounds is behind that of the process.
    """

    brokers: tuple[str, ...] = (A, B, C, D)
    leader: str | None = D
    max_unavailable: int = 1
    down_ms: int = 40_000
    now_ms: int = NOW
    rounds_behind_ms: int = 0
    rules: RollRules = RollRules()
    status: IntentStatus | None = None
    drains: dict[str, IntentStatus] = field(default_factory=dict)
    refused: list[IntentStatus] = field(default_factory=list)
    log: list[Intent] = field(default_factory=list)
    written: list[Intent] = field(default_factory=list)
    started: dict[str, int] = field(default_factory=dict)
    down_until: dict[str, int] = field(default_factory=dict)
    delayed: list[tuple[int, str]] = field(default_factory=list)
    restarts: list[str] = field(default_factory=list)
    rounds: list[tuple[Round, tuple[IntentStatus, ...]]] = field(default_factory=list)
    leaders: list[tuple[str, str | None, int]] = field(default_factory=list)
    most_out: int = 0

    def live(self) -> tuple[str, ...]:
        return tuple(one for one in self.brokers if self.down_until.get(one, 0) <= self.now_ms)

    def pass_(self, ms: int) -> None:
        """Time goes by: restarts that were ordered begin, brokers come back, rounds close."""
        end = self.now_ms + ms
        while self.now_ms < end:
            self.now_ms += 1_000
            for due in [one for one in self.delayed if one[0] <= self.now_ms]:
                self.delayed.remove(due)
                self.restart(due[1])
            self.most_out = max(self.most_out, len(self.brokers) - len(self.live()))
            if self.now_ms % ROUND_MS == 0:
                self.close_round()

    def restart(self, broker: str) -> None:
        self.restarts.append(broker)
        self.down_until[broker] = self.now_ms + self.down_ms
        self.started[broker] = self.now_ms + self.down_ms // 2

    def write(self, record: Intent) -> None:
        self.log.append(record)
        self.written.append(record)

    def close_round(self) -> None:
        for record in self.log:
            self._fold(record)
        self.log.clear()
        live = self.live()
        done = replace(
            ROUND,
            ts=self.now_ms - self.rounds_behind_ms,
            brokers=live,
            usage=dict.fromkeys(live, 0.5),
            stale={one: "no report" for one in self.brokers if one not in live},
            state=RoundState("balanced", "nothing has to move", "Nothing to do."),
        )
        statuses = [] if self.status is None else [self.status]
        self.rounds.append((done, (*statuses, *self.drains.values(), *self.refused)))
        for broker, drain in list(self.drains.items()):
            if drain.state == "draining":
                self.drains[broker] = replace(drain, state="drained", since_ms=self.now_ms)
                self._phase(broker, "drained")

    def _fold(self, record: Intent) -> None:
        why = self._objection(record)
        if why is not None:
            self.refused.append(
                roll_status({}, id=record.id, action=record.action, state="refused", text=why)
            )
            return
        broker = record.broker or ""
        if record.action == "roll":
            phases: dict[str, RollPhase] = dict.fromkeys(record.brokers, "waiting")
            self.status = roll_status(phases, asked_ms=self.now_ms, since_ms=self.now_ms)
        assert self.status is not None
        self.status = replace(self.status, record=record.id)
        match record.action:
            case "drain":
                self._phase(broker, "draining")
                self.drains[broker] = drain_status(broker, "draining", since_ms=self.now_ms)
            case "restarting":
                self._phase(broker, "restarting")
            case "restarted":
                self._phase(broker, "restarted")
                del self.drains[broker]
            case "halt":
                self.status = replace(self.status, state="halted", text=record.reason)
            case "resume":
                self.status = replace(self.status, state="rolling")
            case "end":
                self.status = replace(self.status, state="done", text="all are restarted")

    def _objection(self, record: Intent) -> str | None:
        if record.action == "roll" or self.status is None:
            return None
        phase = self.status.phases.get(record.broker or "")
        if self.status.state == "halted" and record.action not in ("resume", "halt", "end"):
            return "the roll is halted"
        before = {"drain": "waiting", "restarting": "drained", "restarted": "restarting"}
        wanted = before.get(record.action)
        return None if wanted in (None, phase) else f"{record.broker} is {phase}"

    def _phase(self, broker: str, phase: RollPhase) -> None:
        assert self.status is not None
        self.status = replace(self.status, phases={**self.status.phases, broker: phase})


@dataclass
class RollProcess:
    """One process of a roll in a world: what it remembers dies with it. `after_ms`: how long its
    restart command takes before the broker goes.
    """

    world: World
    ids: str
    again: frozenset[str] = frozenset()
    after_ms: int = 0
    rounds: RollRounds = RollRounds()
    read: int = 0
    ended: HaltRoll | EndProcess | None = None

    def __post_init__(self) -> None:
        self.memory = RollMemory(self.world.now_ms, due=self.again)
        self.gone: dict[str, int] = {}
        self.missing: dict[str, int] = {}
        self.count = 0

    def write(self, action: IntentAction, broker: str | None = None) -> None:
        self.count += 1
        record = replace(intent(action, broker, f"{self.ids}-{self.count}"), ts=self.world.now_ms)
        if action == "roll":
            record = replace(record, id=ROLL, roll=None, brokers=self.world.brokers)
        self.memory = with_record(self.memory, record, self.rounds)
        self.world.write(record)

    def look(self) -> Observation:
        world, live = self.world, self.world.live()
        for broker in world.brokers:
            if broker in live:
                self.missing.pop(broker, None)
            else:
                self.missing.setdefault(broker, world.now_ms)
                self.gone[broker] = world.now_ms
        return Observation(
            world.now_ms,
            live,
            world.leader if world.leader in live else None,
            live,
            started_ms={one: world.started.get(one, STARTED) for one in live},
            missing_ms=dict(self.missing),
            gone_ms=dict(self.gone),
        )

    def step(self) -> RollStep:
        """Reads the new rounds, looks, decides, acts."""
        world = self.world
        for done, intents in world.rounds[self.read :]:
            self.rounds = after_round(
                self.rounds, done, intents, ROLL, world.rules, now_ms=world.now_ms
            )
            self.memory = with_answer(self.memory, self.rounds.view)
        self.read = len(world.rounds)
        seen = self.look()
        found = next_step(
            RollFacts(self.rounds, seen, self.memory, world.rules, world.max_unavailable)
        )
        self._act(found, seen)
        return found

    def _act(self, step: RollStep, seen: Observation) -> None:
        match step:
            case WriteRecord(action, broker):
                if action == "drain":
                    waiting = sum(p == "waiting" for p in self.rounds.view.phases.values())
                    self.world.leaders.append((str(broker), seen.leader, waiting))
                self.write(action, broker)
            case RunRestart(broker):
                run = RestartRun(seen.now_ms, seen.started_ms.get(broker, 0))
                self.memory = with_restart(self.memory, broker, run)
                self.world.delayed.append((seen.now_ms + self.after_ms, broker))
            case HaltRoll(text):
                self.world.write(replace(intent("halt", id_=f"{self.ids}-h"), reason=text))
                self.ended = step
            case EndProcess():
                self.ended = step
            case KeepWaiting(text):
                assert text


def run_roll(world: World, random: Random | None = None, deaths: int = 0) -> list[RollProcess]:
    """The processes of a roll until one ends by itself: `deaths` of them are killed at random
    points, and the next one resumes.
    """
    lives = [RollProcess(world, "p0")]
    lives[0].write("roll")
    left = 0 if random is None else random.randint(1, 60)
    for _ in range(3_000):
        process = lives[-1]
        process.step()
        if process.ended is not None:
            return lives
        world.pass_(5_000)
        left -= 1
        if random is not None and len(lives) <= deaths and left <= 0:
            left = random.randint(1, 80)
            world.pass_(1_000 * random.randint(0, 90))
            lives.append(RollProcess(world, f"p{len(lives)}", after_ms=random.choice([0, 20_000])))
            lives[-1].write("resume")
    raise AssertionError("a roll without an end")
