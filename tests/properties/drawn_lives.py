"""Lives of a small cluster in a closed loop with SteadyShedder, each from a seed: brokers of
unequal power come and go, bundles cost more or less than their traffic shows, step and split,
reports are lost, commands fail, are lost, or end on another broker.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import fsum
from random import Random

import numpy as np

from benchmarks.uncertified import UNCERTIFIED
from scripts.invariants import Invariants
from scripts.steady_invariants import SteadyInvariants
from strategies.cluster import model
from strategies.cluster.cluster_state import InMemoryStore
from strategies.fold.engine import Engine, EngineSettings
from strategies.settings import LimitSettings, RoundSettings
from strategies.shedding.steady.settings import SteadySettings
from tests.world.telemetry import T0, bundle

PERIOD_MS = 60_000
#: Probabilities per round, report and command.
STEPS, SPLITS, JOINS, LEAVES, LOST_REPORT = 0.1, 0.03, 0.05, 0.03, 0.03
FAILS, LOST, ELSEWHERE = 0.1, 0.04, 0.04
_NAMES = tuple(f"b{number}:1" for number in range(8))
_MESSAGE = 1024


@dataclass(frozen=True, slots=True)
class Form:
    """How the same cluster reports: all traffic and all processors times `scale`; brokers and
    bundles in the order of their names, or in that of a seed.
    """

    scale: float = 1.0
    order: int | None = None


@dataclass(slots=True)
class Bundle:
    """`traffic`: bytes/s; `cost`: usage of a broker of power 1 (fraction), which its traffic shows
    only in part.
    """

    owner: str
    traffic: float
    message_bytes: float
    cost: float

    def times(self, factor: float) -> None:
        self.traffic *= factor
        self.cost *= factor


@dataclass(slots=True)
class DrawnCluster:
    """`powers`: of the present brokers; `named`: number of bundle names used so far."""

    chance: Random
    powers: dict[str, float]
    bundles: dict[str, Bundle]
    idle: float
    noise: float
    named: int

    @classmethod
    def of(cls, seed: int, brokers: int, bundles: int) -> "DrawnCluster":
        """Half of the brokers own all bundles at first, at a mean usage of 20 to 80 %."""
        chance = Random(seed)
        powers = {name: chance.choice((1.0, 1.0, 1.0, 2.0)) for name in _NAMES[:brokers]}
        sizes = [chance.lognormvariate(0, 1) for _ in range(bundles)]
        load = chance.uniform(0.2, 0.8) * sum(powers.values()) / (sum(sizes) or 1.0)
        owners = list(powers)[: brokers // 2 + 1]
        per_byte, hidden = chance.uniform(1e-9, 1e-8), chance.choice((0.0, 0.35))
        found = {
            bundle(number): Bundle(
                chance.choice(owners),
                load * size / per_byte,
                chance.choice((_MESSAGE, 10 * _MESSAGE)),
                load * size * chance.uniform(1 - hidden, 1 + hidden),
            )
            for number, size in enumerate(sizes)
        }
        idle, noise = chance.uniform(0.02, 0.1), chance.choice((0.0, 0.01, 0.03))
        return cls(chance, powers, found, idle, noise, bundles)

    def change(self) -> None:
        """What happens to the cluster between two rounds, without commands."""
        chance = self.chance
        if self.bundles and chance.random() < STEPS:
            self.bundles[chance.choice(list(self.bundles))].times(chance.choice((0.1, 0.5, 2, 4)))
        if self.bundles and chance.random() < SPLITS:
            old = self.bundles.pop(chance.choice(list(self.bundles)))
            old.times(0.5)
            for _ in range(2):
                self.bundles[bundle(self.named)] = replace(old)
                self.named += 1
        absent = [name for name in _NAMES if name not in self.powers]
        if absent and chance.random() < JOINS:
            self.powers[chance.choice(absent)] = chance.choice((1.0, 2.0))
        if len(self.powers) > 2 and chance.random() < LEAVES:
            self._leave(chance.choice(list(self.powers)))

    def _leave(self, broker: str) -> None:
        del self.powers[broker]
        for one in self.bundles.values():
            if one.owner == broker:
                one.owner = self.chance.choice(list(self.powers))

    def move(self, name: str, destination: str) -> str | None:
        """The owner afterwards; None if the bundle or the broker is gone."""
        if name not in self.bundles or destination not in self.powers:
            return None
        self.bundles[name].owner = destination
        return destination

    def reports(self, now_ms: int, form: Form) -> Iterator[model.TelemetryRecord]:
        """The brokers' reports, some of them lost, and the sweep."""
        found = [self._report(name, now_ms, form) for name in self.powers]
        found = [one for one in found if self.chance.random() >= LOST_REPORT]
        if form.order is not None:
            Random(form.order + now_ms).shuffle(found)
        yield from found
        answered = tuple(sorted(one.broker for one in found))
        missing = {name: "no answer" for name in self.powers if name not in answered}
        yield model.Sweep("c", now_ms + 100, 1, answered, missing)

    def _report(self, broker: str, now_ms: int, form: Form) -> model.LoadReport:
        chance = self.chance
        own = {name: one for name, one in self.bundles.items() if one.owner == broker}
        factors = {name: chance.gauss(1.0, self.noise) for name in own}
        names = list(own)
        if form.order is not None:
            Random(form.order - now_ms).shuffle(names)
        rows = [
            [form.scale * factors[name] * own[name].traffic * part for part in parts]
            for name in names
            for parts in [_parts(own[name].message_bytes)]
        ]
        load = fsum(factors[name] * one.cost for name, one in own.items()) / self.powers[broker]
        usage = min(max(self.idle + load + chance.gauss(0.0, self.noise), 0.0), 1.0)
        traffic, ones = np.array(rows).reshape(len(rows), 4), np.ones(len(rows), dtype=np.int64)
        figures = model.Figures(
            cpu=model.Resource(form.scale * 100 * usage, form.scale * 100.0),
            traffic=model.Traffic(*(fsum(column) for column in traffic.T.tolist())),
            bundle_count=len(names),
        )
        stats = model.BundleStats(tuple(names), traffic, ones, ones)
        return model.LoadReport("c", broker, now_ms, figures, stats, f"{broker} {now_ms}")


def _parts(message_bytes: float) -> tuple[float, float, float, float]:
    """Messages/s in and out, and bytes/s in and out, per byte/s."""
    return 0.25 / message_bytes, 0.75 / message_bytes, 0.25, 0.75


@dataclass(slots=True)
class Life:
    """What happened in the rounds: their moves and skips, and the invariants that they broke.
    `reopen`: what becomes of the state after each round.
    """

    settings: EngineSettings
    form: Form = Form()
    reopen: Callable[[InMemoryStore], InMemoryStore] = lambda store: store
    store: InMemoryStore = field(default_factory=InMemoryStore)
    rounds: list[tuple[model.Command, ...]] = field(default_factory=list)
    skips: list[tuple[model.Skip, ...]] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)

    @property
    def decided(self) -> list[list[tuple[str, ...]]]:
        """The moves and the skips of each round as people read them."""
        return [
            [
                *(
                    (one.bundle, one.source, str(one.destination), one.code, one.text)
                    for one in moves
                ),
                *((*one.names, one.code, one.text) for one in skips),
            ]
            for moves, skips in zip(self.rounds, self.skips, strict=True)
        ]

    def live(self, cluster: DrawnCluster, rounds: int) -> "Life":
        chosen = self.settings.chosen
        assert isinstance(chosen, SteadySettings)
        invariants = Invariants("fixed", self.settings.limits)
        steady = SteadyInvariants(chosen)
        outcomes = list[model.Outcome]()
        for number in range(rounds):
            now_ms = T0 + number * PERIOD_MS
            cluster.change()
            records = [
                *(model.OutcomeReport("c", one.ts, one) for one in outcomes),
                *cluster.reports(now_ms, self.form),
            ]
            closed_ms = records[-1].ts
            for record in records:
                if isinstance(record, model.LoadReport):
                    invariants.moved_on(record)
            events = self._fold(records)
            moves = invariants.round(events, cluster.powers, closed_ms, self.store)
            self.broken += steady.round(closed_ms, moves, self.store)
            self.rounds.append(tuple(moves))
            closed = [event for event in events if isinstance(event, model.Round)]
            self.skips.append(tuple(skip for one in closed for skip in one.skips))
            self.store = self.reopen(self.store)
            outcomes = [one for move in moves if (one := _carried_out(cluster, move)) is not None]
            for one in outcomes:
                invariants.finished(one.bundle)
                if one.status == "failed":
                    steady.failed(one.bundle)
        self.broken += invariants.broken
        return self

    def _fold(self, records: Sequence[model.TelemetryRecord]) -> list[model.Event]:
        engine = Engine(self.settings)
        return [event for record in records for event in engine.fold(record, self.store)]


def _carried_out(cluster: DrawnCluster, command: model.Command) -> model.Outcome | None:
    """The outcome of a command; None for one that got lost."""
    dice, destination = cluster.chance.random(), command.destination or ""
    if dice < LOST:
        return None
    if dice < LOST + ELSEWHERE:
        destination = cluster.chance.choice(list(cluster.powers))
    failed = dice > 1 - FAILS
    owner = None if failed else cluster.move(command.bundle, destination)
    status: model.OutcomeStatus = "failed" if owner is None else "applied"
    at_ms = command.issued_at_ms + 1_000
    return model.Outcome(
        command.id, "c", command.bundle, status, None, command.source, owner, 500, at_ms
    )


def some_settings(seed: int) -> EngineSettings:
    """Settings that nearly always find something to move; cool-downs that are shorter than the
    strategy's rest.
    """
    chance = Random(seed)
    chosen = SteadySettings(
        chance.choice(("tight", "tight", "default", "background")), chance.choice((5.0, 15.0, 60.0))
    )
    limits = LimitSettings(
        moves_per_round=chance.choice((0, 0, 1, 3)), moves_per_hour=chance.choice((0, 0, 8))
    )
    round_ = RoundSettings(cool_down_ms=chance.choice((120_000, 600_000)))
    # Certificates take most of the time of a small round, and have tests of their own.
    return EngineSettings(
        "steady", shedding=chosen, round=round_, limits=limits, shedders=UNCERTIFIED
    )
