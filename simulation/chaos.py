"""Random rounds in which everything goes wrong, and what must hold in every one of them.

Brokers join, leave and die, load goes up to 120 %, half the time one bundle is hot; reports are lost, late, repeated and out of order;
commands are lost, carried out twice, or carried out late. Everything follows from the seed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from simulation.hands import Hands
from simulation.leader import Leader
from simulation.noise import Stream
from simulation.running import START_MS
from simulation.saying import Voices
from simulation.scenarios.form import Scenario
from simulation.world import PERIOD_S, World
from strategies.engine import Engine, EngineSettings
from strategies.model import Command, Event, LoadReport, OutcomeReport, Rejection, Round, Sweep, TelemetryRecord
from strategies.store import InMemoryStore

_CLUSTER = "chaos"
#: Chances per round, per report and per command.
_MEMBERS, _STEP, _LOST, _LATE, _TWICE, _COMMAND_LOST, _COMMAND_LATE = 0.03, 0.02, 0.03, 0.03, 0.03, 0.05, 0.05
_FEWEST = 3


@dataclass(frozen=True, slots=True)
class Chaos:
    """What came of it. `imbalance`: (max − mean) ÷ mean of the lasting usage, per round; `broken`: what should hold and did not."""

    rounds: int
    imbalance: tuple[float, ...]
    commands: int
    moves: int
    reports: int
    rejected: int
    broken: tuple[str, ...]


def chaos(seed: int, settings: EngineSettings, rounds: int, brokers: int = 8, bundles: int = 96) -> Chaos:
    """So many random rounds of one cluster. Never raises: what must hold and does not is told in `broken`."""
    return _Chaos(seed, settings, brokers, bundles).run(rounds)


def _scenario(seed: int, brokers: int, bundles: int) -> Scenario:
    """Half of the seeds have a hot bundle. The mean load is between 40 and 120 % of what all brokers can do, step by step."""
    stream = Stream(seed, 100)
    hot = [{"name": "hot", "mib_in": 40, "partitions": 1}] if seed % 2 else []
    steps, minute = list[tuple[float, float]](), 0.0
    while minute < 20_000:
        minute += 1 + float(np.floor(stream.uniform(1)[0] / _STEP))
        steps.append((minute, 0.5 + stream.uniform(1)[0]))
    return Scenario.model_validate(
        {
            "title": "chaos",
            "minutes": 2,
            "bundles": bundles,
            "machines": {"plain": {"cores": 16, "cpu_idle": 5, "cpu_per_mib": 8}},
            "noise": {"traffic": 0.02, "wander": 0.05, "cpu_points": 1.5},
            "brokers": [{"machine": "plain", "count": brokers}],
            "traffic": [
                {"name": "all", "mib_in": 76 * brokers, "partitions": 6 * bundles, "wave": {"kind": "steps", "at": steps}},
                *hot,
            ],
        }
    )


@dataclass(slots=True)
class _Chaos:
    seed: int
    settings: EngineSettings
    brokers: int
    bundles: int
    _waiting: list[tuple[int, TelemetryRecord]] = field(default_factory=list)
    _late: list[Command] = field(default_factory=list)
    _active: dict[str, Command] = field(default_factory=dict)
    _times: list[int] = field(default_factory=list)
    _broken: list[str] = field(default_factory=list)
    _seen: Counter[str] = field(default_factory=Counter)

    def run(self, rounds: int) -> Chaos:
        world = World(_scenario(self.seed, self.brokers, self.bundles), self.seed)
        store, engine, chance = InMemoryStore(), Engine(self.settings), Stream(self.seed, 101)
        hands = Hands(world, Leader(self.settings, _CLUSTER, store), START_MS)
        voices, imbalance = Voices(world, _CLUSTER, None), []
        for number in range(rounds):
            now_s = number * PERIOD_S
            _change_members(world, hands, chance, now_s)
            world.measure(now_s)
            now_ms = START_MS + int(now_s * 1000)
            events = [event for record in self._records(voices, world, chance, number, now_ms) for event in engine.fold(record, store)]
            commands = self._judge(events, world, now_ms)
            self._carry_out(commands, hands, chance, number, now_s)
            usage = world.lasting(now_s)[0]
            known = usage[np.isfinite(usage)]
            imbalance.append(float((known.max() - known.mean()) / known.mean()))
        seen = self._seen
        return Chaos(rounds, tuple(imbalance), seen["commands"], seen["moves"], seen["reports"], seen["rejected"], tuple(self._broken))

    def _records(self, voices: Voices, world: World, chance: Stream, number: int, now_ms: int) -> Iterator[TelemetryRecord]:
        """What arrives in this round: what was held back earlier, then the reports in any order, then the sweep."""
        due = [record for when, record in self._waiting if when <= number]
        self._waiting = [(when, record) for when, record in self._waiting if when > number]
        reports = voices.reports(now_ms)
        kept: list[LoadReport] = []
        for report, dice in zip(reports, chance.uniform(len(reports)).tolist(), strict=True):
            if dice < _LOST:
                continue
            if dice < _LOST + _LATE:
                self._waiting.append((number + 1, report))
                continue
            kept += [report, report] if dice < _LOST + _LATE + _TWICE else [report]
        order = np.argsort(chance.uniform(len(kept)), kind="stable").tolist()
        for record in [*due, *(kept[place] for place in order)]:
            self._seen["reports"] += isinstance(record, LoadReport)
            yield record
        answered = {report.broker for report in kept}
        missing = {report.broker: "no answer" for report in reports if report.broker not in answered}
        yield Sweep(_CLUSTER, now_ms + 100, number + 1, tuple(sorted(answered)), missing)

    def _judge(self, events: Sequence[Event], world: World, now_ms: int) -> list[Command]:
        """The invariants of a round."""
        self._seen["rejected"] += sum(isinstance(event, Rejection) for event in events)
        rounds = [event for event in events if isinstance(event, Round)]
        commands = [event for event in events if isinstance(event, Command) and event.action in ("unload", "transfer")]
        self._seen["commands"] += len(commands)
        self._active = {bundle: one for bundle, one in self._active.items() if now_ms < one.expires_at_ms}
        if len(rounds) != 1:
            self._tell(now_ms, f"{len(rounds)} rounds closed instead of one")
        alive = {name for name, there in zip(world.fleet.names, world.present.tolist(), strict=True) if there}
        for command in commands:
            if command.bundle in self._active and self.settings.mode == "fixed":
                self._tell(now_ms, f"{command.bundle} has a command already: {self._active[command.bundle].id}, and now {command.id}")
            if command.destination is not None and command.destination not in alive:
                self._tell(now_ms, f"{command.bundle} is sent to {command.destination}, which is gone")
            if command.destination == command.source:
                self._tell(now_ms, f"{command.bundle} is sent to where it is")
            self._active[command.bundle] = command
        self._times += [now_ms] * len(commands)
        limits = self.settings.limits
        hour = sum(ts > now_ms - 3_600_000 for ts in self._times)
        if 0 < limits.moves_per_round < len(commands):
            self._tell(now_ms, f"{len(commands)} bundles move, {limits.moves_per_round} may")
        if 0 < limits.moves_per_hour < hour:
            self._tell(now_ms, f"{hour} bundles move within the hour, {limits.moves_per_hour} may")
        return commands

    def _carry_out(self, commands: Sequence[Command], hands: Hands, chance: Stream, number: int, now_s: float) -> None:
        """Some commands are lost, some wait for the next round, some are carried out twice."""
        now: list[Command] = list(self._late)
        self._late = []
        for command, dice in zip(commands, chance.uniform(len(commands)).tolist(), strict=True):
            if dice < _COMMAND_LOST:
                continue
            if dice < _COMMAND_LOST + _COMMAND_LATE:
                self._late.append(command)
                continue
            now += [command, command] if dice < _COMMAND_LOST + _COMMAND_LATE + _TWICE else [command]
        for done in hands.carry_out(now, now_s):
            outcome = done.outcome
            self._seen["moves"] += outcome.status == "applied"
            self._active.pop(outcome.bundle, None)
            self._waiting.append((number + 1, OutcomeReport(_CLUSTER, outcome.ts, replace(outcome))))

    def _tell(self, now_ms: int, what: str) -> None:
        minute = (now_ms - START_MS) // 60_000
        self._broken.append(f"seed {self.seed}, round {minute}, {self.settings.strategy}/{self.settings.mode}: {what}")


def _change_members(world: World, hands: Hands, chance: Stream, now_s: float) -> None:
    """Now and then a broker goes, by itself or killed, or one that went comes back."""
    dice, which, how = chance.uniform(3).tolist()
    if dice >= _MEMBERS:
        return
    there, gone = np.flatnonzero(world.present), np.flatnonzero(~world.present)
    if how < 0.5 and len(gone):
        hands.join([world.fleet.names[int(gone[int(which * len(gone))])]])
    elif len(there) > _FEWEST:
        hands.leave([world.fleet.names[int(there[int(which * len(there))])]], now_s, killed=how > 0.75)
