"""Lives of a roll, each from a seed: brokers that restart and die, a job and a roll's process that
are killed, an executor that fails, people who interfere. Rounds decide with the real engine, the
process steps with the real rules; everything else is this small model.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from random import Random
from typing import Any

from pulsar_rebalancer.lab.simulation.operators import ModelledRoll
from strategies.bundles import is_system_bundle
from strategies.cluster import model
from strategies.cluster.cluster_state import InMemoryStore
from strategies.cluster.intent_records_and_states import Intent, IntentAction
from strategies.fold.engine import Engine, EngineSettings
from strategies.roll.roll_state_and_evidence import Observation, RollRules, RollState
from tests.properties.roll_draws import (
    MINUTE_MS,
    Faults,
    ModelledBroker,
    drawn_brokers,
    drawn_faults,
    drawn_rules,
    drawn_settings,
)
from tests.properties.roll_promises import PERSON
from tests.properties.test_steady import reopened
from tests.world.placement import policy
from tests.world.telemetry import T0, bundle, commands, fold_all, parts, report, rounds, sweep

#: A process looks this often in a minute, in ms after the round.
LOOKS_MS = (1_000, 21_000, 41_000)
#: A person gives up after this number of halts.
_TRIES = 2
#: Rounds within which a process notices that another one goes on with its roll.
_NOTICES = 6


@dataclass(frozen=True, slots=True)
class Decided:
    """The records that a round closed, what followed from them, and the round itself."""

    records: Sequence[model.TelemetryRecord]
    events: Sequence[model.Event]
    round: model.Round


@dataclass
class RollLife:
    """One life. `rounds`: what was decided; `restarts`: brokers that restarted by the roll's
    doing, in order; `allowed`: broker → how often it may; `ended`: why processes ended; `broken`:
    what no process may do, as sentences.
    """

    seed: int
    settings: EngineSettings
    faults: Faults
    rules: RollRules
    chance: Random
    brokers: dict[str, ModelledBroker] = field(default_factory=dict)
    owners: dict[str, str | None] = field(default_factory=dict)
    traffic: dict[str, float] = field(default_factory=dict)
    apart: tuple[str, ...] = ()
    now_ms: int = T0
    store: InMemoryStore = field(default_factory=InMemoryStore)
    rounds: list[Decided] = field(default_factory=list)
    restarts: list[str] = field(default_factory=list)
    allowed: dict[str, int] = field(default_factory=dict)
    process: ModelledRoll | None = None
    ended: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    roll: str = ""
    _others: list[tuple[int, ModelledRoll]] = field(default_factory=list)
    _waiting: list[model.TelemetryRecord] = field(default_factory=list)
    _late: list[tuple[int, model.TelemetryRecord]] = field(default_factory=list)
    _due: list[tuple[int, model.Command]] = field(default_factory=list)
    _ids: int = 0
    _resumes_ms: int | None = None

    @classmethod
    def of(cls, seed: int) -> "RollLife":
        chance = Random(seed)
        life = cls(seed, drawn_settings(chance), drawn_faults(chance), drawn_rules(chance), chance)
        life.brokers = drawn_brokers(chance)
        names = list(life.brokers)
        life.apart = tuple(names[: chance.randint(1, len(names))]) if chance.random() < 0.3 else ()
        life._deal(names)
        return life

    def _deal(self, names: Sequence[str]) -> None:
        chance = self.chance
        for number in range(chance.randint(0, 3 * len(names))):
            namespace = "t/apart" if self.apart and chance.random() < 0.3 else "t/ns"
            name = bundle(number, namespace)
            self.traffic[name] = chance.lognormvariate(1, 1)
            self.owners[name] = chance.choice(self._homes(name))
        for name in names if chance.random() < 0.3 else ():
            system = f"pulsar/{name}/0x00000000_0xffffffff"
            self.traffic[system], self.owners[system] = 0.01, name

    @property
    def up(self) -> list[str]:
        return [name for name, one in self.brokers.items() if one.up]

    def _homes(self, bundle: str) -> list[str]:
        """The brokers that may have a bundle, by Pulsar's own placement."""
        apart = self.apart if bundle.startswith("t/apart/") else ()
        return [name for name in self.up if not apart or name in apart]

    def live(self, minutes: int) -> "RollLife":
        """Lives until the roll has ended, or until a person cancels it after this time."""
        self._round()
        self._begin_roll()
        for minute in range(minutes + 8):
            for look_ms in LOOKS_MS:
                self._pass_until(T0 + minute * MINUTE_MS + look_ms)
                self._look()
            if minute >= minutes:
                self._person("end", None, "takes too long", roll=self.roll)
            self._people()
            self._pass_until(T0 + (minute + 1) * MINUTE_MS)
            self._round()
            if self.is_over:
                break
        self._check_end()
        return self

    def _check_end(self) -> None:
        found = next((one for one in self.rounds[-1].round.intents if one.id == self.roll), None)
        self._must(self.is_over and found and found.text, f"the roll has not ended: {found}")
        missed = [name for name in self.allowed if name not in self.restarts]
        done = found is not None and found.state == "done" and not self.faults.broker_dies
        self._must(not (done and missed), f"the roll is done, and {missed} never restarted")

    def _must(self, holds: object, broken: str) -> None:
        self.broken += [] if holds else [broken]

    @property
    def is_over(self) -> bool:
        """Whether the newest round says that the roll has ended, or was refused."""
        return any(
            one.id == self.roll and one.state in ("done", "cancelled", "refused")
            for one in self.rounds[-1].round.intents
        )

    def _pass_until(self, ms: int) -> None:
        self.now_ms = ms
        for name, one in self.brokers.items():
            if one.goes_ms is not None and one.goes_ms <= ms:
                self._go(name, one)
            if one.back_ms is not None and one.back_ms <= ms:
                one.up, one.started_ms, one.back_ms = True, one.back_ms, None
                for process in self._processes():
                    process.state.end_command(name)
        due = [command for at, command in self._due if at <= ms]
        self._due = [one for one in self._due if one[0] > ms]
        for command in due:
            self._carry_out(command)

    def _go(self, name: str, one: ModelledBroker) -> None:
        self.restarts.append(name)
        may = self.restarts.count(name) <= self.allowed.get(name, 0)
        self._must(may, f"{name} restarts once more than it may")
        one.back_ms = None if one.away_ms is None else self.now_ms + one.away_ms
        one.goes_ms, one.up = None, False
        self._place_bundles_of(name)

    def _place_bundles_of(self, broker: str) -> None:
        """Pulsar places the bundles of a broker that left, where their clients look them up."""
        for name, owner in self.owners.items():
            if owner == broker and not is_system_bundle(name):
                homes = [one for one in self._homes(name) if one != broker]
                self.owners[name] = self.chance.choice(homes) if homes else None

    def _round(self) -> None:
        records = list(self._records())
        events = fold_all(Engine(self.settings), records, self.store)
        if self.chance.random() < self.faults.job_restarts:
            self.store = reopened(self.store)
        (done,) = rounds(events)
        self.rounds.append(Decided(records, events, done))
        for process in self._processes():
            process.state.read(done)
        self._due += [(self._starts_ms(), one) for one in commands(events) if one.is_move]

    def _records(self) -> Iterator[model.TelemetryRecord]:
        if not self.rounds and self.apart:
            isolation = [policy("apart", ["t/apart"], ["|".join(self.apart)])]
            yield model.Policies("c", self.now_ms, json.dumps({"isolation": isolation}))
        found = [*self._waiting, *(one for at, one in self._late if at <= self.now_ms)]
        self._waiting, self._late = [], [one for one in self._late if one[0] > self.now_ms]
        reports = [self._report(name) for name in self.up]
        heard = list[model.LoadReport]()
        for one in reports:
            dice, faults = self.chance.random(), self.faults
            if dice < faults.late_report:
                self._late.append((self.now_ms + faults.late_rounds * MINUTE_MS, one))
            elif dice < 1 - faults.lost_report:
                heard.append(one)
        for record in (*found, *(part for one in heard for part in self._parts(one))):
            yield record
            if self.chance.random() < self.faults.repeated:
                yield record
        names = [one.broker for one in heard]
        missing = {one.broker: "no answer" for one in reports if one.broker not in names}
        yield sweep((self.now_ms + 100 - T0) / 1000, *names, missing=missing)

    def _report(self, name: str) -> model.LoadReport:
        own = {bundle: self.traffic[bundle] for bundle, one in self.owners.items() if one == name}
        cpu = min(99.0, 5.0 + 3.0 * sum(own.values()) / self.brokers[name].power)
        return report(name, (self.now_ms - T0) / 1000, cpu, own)

    def _parts(self, whole: model.LoadReport) -> Iterator[model.TelemetryRecord]:
        if self.faults.top is None or whole.bundles is None:
            yield whole
            return
        yield from parts(whole, self.faults.top)
        if self.faults.notes:
            yield model.Owned("c", whole.broker, whole.ts, whole.bundles.names)

    def _starts_ms(self) -> int:
        late = self.faults.late_rounds * MINUTE_MS if self.chance.random() < self.faults.late else 0
        return self.now_ms + 5_000 + late

    def _carry_out(self, command: model.Command) -> None:
        faults, dice = self.faults, self.chance.random()
        owner, destination = self.owners[command.bundle], command.destination
        if destination is None or dice < faults.elsewhere:
            homes = [one for one in self._homes(command.bundle) if one != owner]
            destination = self.chance.choice(homes) if homes else None
        if self.chance.random() < faults.silent:
            return
        if faults.dry_runs:
            self._answer(command, "dry-run", None)
        elif self.now_ms >= command.expires_at_ms:
            self._answer(command, "expired", owner)
        elif self.chance.random() < faults.refuses or destination not in self.up:
            self._answer(command, "refused", owner)
        elif owner != command.source:
            same = owner == destination
            self._answer(command, "already-done" if same else "refused", owner)
        elif self.chance.random() < faults.fails:
            self._answer(command, "failed", owner)
        else:
            self.owners[command.bundle] = destination
            self._answer(command, "applied", destination)
            if self.faults.top is not None and self.chance.random() < faults.withdraws:
                for name in (command.source, destination):
                    self._waiting.append(model.Tombstone("c", name, self.now_ms + 600))

    def _answer(
        self, command: model.Command, status: model.OutcomeStatus, owner: str | None
    ) -> None:
        reason = None if status in ("applied", "already-done", "dry-run") else f"{status}: drawn"
        ts = self.now_ms + 500
        answer = model.Outcome(
            command.id, "c", command.bundle, status, reason, command.source, owner, 500, ts
        )
        record = model.OutcomeReport("c", ts, answer)
        if self.chance.random() < self.faults.late:
            self._late.append((self.now_ms + self.faults.late_rounds * MINUTE_MS, record))
        else:
            self._waiting.append(record)

    def _begin_roll(self) -> None:
        chance, names = self.chance, list(self.brokers)
        some = chance.sample(names, chance.randint(1, min(5, len(names))))
        most = min(chance.choice((1, 1, 1, 2, 3)), max(1, len(names) - 1))
        self.rules = replace(self.rules, max_unavailable=most)
        self.process = self._new_process(set())
        self._waiting.append(self.process.begin(some, "upgrade", self.now_ms + 500))
        self.roll = self.process.state.roll
        self.allowed = dict.fromkeys(some, 1)

    def _processes(self) -> list[ModelledRoll]:
        """The process of the roll, and those that have not noticed yet that it took over."""
        mine = [] if self.process is None else [self.process]
        return [*mine, *(one for _, one in self._others)]

    def _look(self) -> None:
        if self.process is None:
            self._start_again()
        started = {name: one.started_ms for name, one in self.brokers.items()}
        seen = Observation(
            self.now_ms,
            tuple(self.up),
            min(self.up, key=lambda name: started[name], default=None),
            tuple(self.up),
            started_ms=started if self.faults.says_start else {},
        )
        for process in self._processes():
            self._act(process, seen)
        self._others = [one for one in self._others if one[1].ended is None]
        noticed = all(len(self.rounds) <= since + _NOTICES for since, _ in self._others)
        self._must(noticed, f"minute {len(self.rounds)}: two processes run the roll")

    def _act(self, process: ModelledRoll, seen: Observation) -> None:
        waiting = process.state.brokers("waiting")
        records, restarts = process.act(seen)
        drains = [one.broker for one in records if one.action == "drain"]
        last = seen.leader not in drains or waiting == [seen.leader]
        self._must(last, f"the leader {seen.leader} is drained before {waiting}")
        self._must(process.said, f"minute {len(self.rounds)}: a process says nothing")
        if process is self.process and self.chance.random() < self.faults.process_dies:
            if self.chance.random() < self.faults.drops:
                records, restarts = [], []
            self.process, self._resumes_ms = None, self.now_ms + self.chance.choice((0, 90_000))
        self._waiting += records
        for name in restarts:
            self._run_restart(name, process)
        if process.ended is not None and process is self.process:
            self._must(process.ended.advice.endswith("."), f"no advice: {process.ended}")
            self.ended.append(getattr(process.ended, "code", "halted"))
            self.process, self._resumes_ms = None, self.now_ms + 2 * MINUTE_MS

    def _run_restart(self, name: str, process: ModelledRoll) -> None:
        chance, faults = self.chance, self.faults
        known = self._phases().get(name) == "restarting"
        self._must(known, f"{name} is restarted, and the newest round does not know it")
        if chance.random() < faults.command_fails:
            process.state.end_command(name, "exit code 1")
            return
        one = self.brokers[name]
        one.goes_ms = self.now_ms + chance.choice((0, 1_000, 25_000))
        gone = chance.random() < faults.never_back
        one.away_ms = None if gone else 1_000 * chance.randint(1, faults.slow_s)

    def _start_again(self) -> None:
        """A person looks at what the last process said, mends it, and starts another one, or gives
        up.
        """
        if self._resumes_ms is None or self.now_ms < self._resumes_ms or self.is_over:
            return
        if len(self.ended) >= _TRIES:
            self._resumes_ms = None
            self._person("end", None, "it halts again and again", roll=self.roll)
            return
        for one in self.brokers.values():
            if not one.up and one.back_ms is None:
                one.back_ms = self.now_ms
        again = [
            name
            for name, phase in self._phases().items()
            if phase == "restarting" and self.chance.random() < self.faults.again
        ]
        for name in again:
            self.allowed[name] += 1
        self._resumes_ms = None
        self._resume(set(again))

    def _new_process(self, again: set[str]) -> ModelledRoll:
        state = RollState(self.roll, self.now_ms, self.rules, again)
        return ModelledRoll("c", self._next_id, state)

    def _resume(self, again: set[str]) -> None:
        self.process = self._new_process(again)
        why, id_ = "the process starts again", self._next_id()
        record = Intent("c", self.now_ms, id_, "resume", "operator", why, None, roll=self.roll)
        self.process.state.write(record)
        self._waiting.append(record)

    def _phases(self) -> dict[str, str]:
        intents = self.rounds[-1].round.intents
        return next((dict(one.phases) for one in intents if one.id == self.roll), {})

    def _people(self) -> None:
        chance, faults, names = self.chance, self.faults, list(self.brokers)
        if chance.random() < faults.undrains:
            self._person("undrain", chance.choice(names), "needs it")
        if chance.random() < faults.drains:
            together = chance.random() < 0.5
            until = self.now_ms + 5 * MINUTE_MS
            self._person("drain", chance.choice(names), "disk", together=together, until_ms=until)
        if self.process is not None and chance.random() < faults.doubles:
            self._others.append((len(self.rounds), self.process))
            self._resume(set())
        if chance.random() < faults.cancels:
            self._person("end", None, "not today", roll=self.roll)
        if self.owners and chance.random() < faults.rival:
            bundle = chance.choice(list(self.owners))
            homes = self._homes(bundle)
            if homes and not is_system_bundle(bundle):
                self.owners[bundle] = chance.choice(homes)
        for name, one in self.brokers.items():
            if one.up and chance.random() < faults.broker_dies and len(self.up) > 1:
                one.up = False
                one.back_ms = chance.choice((None, self.now_ms + 90_000, self.now_ms + 600_000))
                self._place_bundles_of(name)

    def _person(self, action: IntentAction, broker: str | None, reason: str, **given: Any) -> None:
        record = Intent("c", self.now_ms, self._next_id(), action, PERSON, reason, broker, **given)
        self._waiting.append(record)

    def _next_id(self) -> str:
        self._ids += 1
        return blake2b(f"{self.seed} {self._ids}".encode(), digest_size=16).hexdigest()
