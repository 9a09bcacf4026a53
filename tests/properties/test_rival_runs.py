"""Modelled clusters in which only the rebalancer, joins, deaths, restarts and splits move bundles
have no foreign move; a rival's moves are all found.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.chaos_rounds import chaos
from strategies.cluster.limit_settings import LimitSettings
from strategies.cluster.model import (
    Command,
    LoadReport,
    Outcome,
    OutcomeReport,
    OutcomeStatus,
    Owned,
    TelemetryRecord,
)
from strategies.cluster.rival_settings import RivalSettings
from strategies.cluster.rival_state import ForeignMove
from strategies.cluster.store import InMemoryStore
from strategies.fold.engine import Engine, EngineSettings
from strategies.settings import RoundSettings
from strategies.shedding.overload.settings import OverloadSettings
from strategies.shedding.registry import SHEDDERS
from tests.properties.costly import costly
from tests.properties.legal import seeds
from tests.world.telemetry import T0, bundle, report, sweep

_NAMES = tuple(f"b{number}:8080" for number in range(5))
_PASS_S = 20
#: Lists of bundles are up to this old, as those of brokers that count them once a minute.
_STATS_S = 60
_EAGER = OverloadSettings(threshold_percent=60.0)


@dataclass
class Cluster:
    """Brokers with bundles, whose lists are refreshed once a minute, and an executor that may be
    slow, lose destinations, or fail. `foreign`: what something else has moved, by bundle.
    """

    rng: Random
    owner: dict[str, str]
    up: dict[str, bool] = field(default_factory=lambda: dict.fromkeys(_NAMES, True))
    started_s: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_NAMES, -9_000))
    silent: dict[str, int] = field(default_factory=dict)
    lists: dict[str, tuple[int, tuple[str, ...]]] = field(default_factory=dict)
    waiting: list[tuple[int, Command]] = field(default_factory=list)
    answers: list[tuple[int, Outcome]] = field(default_factory=list)
    foreign: list[tuple[str, str, str]] = field(default_factory=list)
    new: int = 200
    noted: bool = False
    told: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def alive(self) -> list[str]:
        return [name for name in _NAMES if self.up[name]]

    def pass_at(self, second: int) -> Iterator[TelemetryRecord]:
        """The outcomes and reports of a pass, and its sweep."""
        done = [one for due, one in self.answers if due <= second]
        self.answers = [(due, one) for due, one in self.answers if due > second]
        for number, one in enumerate(done):
            ts = T0 + second * 1000 - 9_000 + number
            yield OutcomeReport("c", ts, replace(one, ts=ts))
        heard = [name for name in self.alive() if self.silent.get(name, -1) < second]
        for number, name in enumerate(heard):
            loads = dict.fromkeys(self._list(name, second), 10.0)
            cpu = min(99.0, 20.0 + 4.0 * len(loads)) + second / 1e6
            said = report(name, second - 5 + number * 0.1, cpu, loads)
            if not self.noted:
                yield replace(said, started_ms=T0 + self.started_s[name] * 1000)
                continue
            yield from self._extensible(said)
        quiet = [name for name in self.alive() if name not in heard]
        yield sweep(second, *heard, missing=dict.fromkeys(quiet, "no answer"))

    def _extensible(self, said: LoadReport) -> Iterator[TelemetryRecord]:
        """Figures, a list of some bundles, and a note of all of them where they have changed."""
        assert said.figures is not None
        yield replace(said, figures=replace(said.figures, usage_average=0.5), bundles=None)
        yield replace(said, figures=None, digest=f"bundles {said.digest}")
        names = tuple(sorted(one for one, owner in self.owner.items() if owner == said.broker))
        if self.told.get(said.broker) != names:
            self.told[said.broker] = names
            yield Owned("c", said.broker, said.ts + 50, names)

    def _list(self, name: str, second: int) -> tuple[str, ...]:
        """What the broker counted last."""
        counted, names = self.lists.get(name, (-_STATS_S, ()))
        if second - counted >= _STATS_S:
            names = tuple(sorted(one for one, owner in self.owner.items() if owner == name))
            self.lists[name] = (second, names)
        return names

    def command(self, commands: list[Command], second: int) -> None:
        """The executor takes commands, some of them late."""
        self.waiting += [(second + self.rng.choice((0, 0, 5, 40)), one) for one in commands]
        due = [one for when, one in self.waiting if when <= second]
        self.waiting = [(when, one) for when, one in self.waiting if when > second]
        for command in due:
            self._carry_out(command, second)

    def _carry_out(self, command: Command, second: int) -> None:
        owner = self.owner.get(command.bundle)
        status: OutcomeStatus = "applied"
        if owner != command.source or not self.up[command.source]:
            status = "refused"
        elif command.is_move:
            others = [name for name in self.alive() if name != command.source]
            wanted = command.destination if command.destination in others else None
            lost = self.rng.random() < 0.2
            self.owner[command.bundle] = (
                self.rng.choice(others) if lost or wanted is None else wanted
            )
            status = "failed" if self.rng.random() < 0.1 else "applied"
        after = self.owner.get(command.bundle) if status == "applied" else None
        said = Outcome(
            command.id, "c", command.bundle, status, None, owner, after, 900, T0 + second * 1000
        )
        if self.rng.random() > 0.05:  # else it is lost
            self.answers.append((second + self.rng.choice((0, 0, 30)), said))

    def happen(self, second: int) -> None:
        """A broker dies, comes back, restarts or falls silent, or a bundle is split."""
        name, die = self.rng.choice(_NAMES), self.rng.random()
        others = [one for one in self.alive() if one != name]
        if die < 0.02 and self.up[name] and len(others) > 2:
            self.up[name] = False
            self._place(name, others)
        elif die < 0.05 and not self.up[name]:
            self._start(name, second)
        elif die < 0.06 and self.up[name]:
            self._place(name, others)
            self._start(name, second)
        elif die < 0.08 and self.up[name]:
            self.silent[name] = second + self.rng.choice((30, 90))
            if self.rng.random() < 0.5:  # it lost its session
                self._place(name, others)
        elif die < 0.09:
            self._split(self.rng.choice(sorted(self.owner)))

    def _start(self, name: str, second: int) -> None:
        self.up[name], self.started_s[name] = True, second
        self.lists.pop(name, None)
        if self.noted:  # the pass meets it while it starts; reports do not say when
            self.silent[name] = second

    def _place(self, name: str, others: list[str]) -> None:
        for one in sorted(self.owner):
            if self.owner[one] == name:
                self.owner[one] = self.rng.choice(others)

    def _split(self, one: str) -> None:
        """Both halves stay for a moment, then a broker may unload one."""
        owner = self.owner.pop(one)
        for _ in range(2):
            self.new += 1
            self.owner[bundle(self.new % 250, f"t/split{self.new}")] = owner

    def rival(self) -> None:
        """Something else moves a bundle."""
        one = self.rng.choice(sorted(self.owner))
        source = self.owner[one]
        self.owner[one] = self.rng.choice([name for name in self.alive() if name != source])
        self.foreign.append((one, source, self.owner[one]))


def lived(
    seed: int,
    passes: int,
    *,
    rivals_from: int | None = None,
    calm: bool = False,
    noted: bool = False,
) -> tuple[Cluster, list[ForeignMove]]:
    """A life of the cluster, and the foreign moves that the fold has found."""
    rng = Random(seed)
    owners = {bundle(number): rng.choice(_NAMES) for number in range(50)}
    cluster = Cluster(rng, owners, noted=noted)
    settings = EngineSettings(
        "overload",
        shedding=_EAGER,
        round=RoundSettings(interval_ms=_PASS_S * 1000, cool_down_ms=120_000),
        rivals=RivalSettings(moves_per_hour=0),
        limits=LimitSettings(excluded_namespaces="*" if calm else ""),
    )
    engine, store, found = Engine(settings), InMemoryStore(), dict[ForeignMove, None]()
    for number in range(passes):
        second = (number + 1) * _PASS_S
        if not calm:
            cluster.happen(second)
        if rivals_from is not None and number >= rivals_from and number % 9 == 0:
            cluster.rival()
        commands = []
        for record in cluster.pass_at(second):
            commands += [one for one in engine.fold(record, store) if isinstance(one, Command)]
        cluster.command(commands, second)
        found |= dict.fromkeys(store.get_cluster().rivals.moves)
    return cluster, list(found)


@pytest.mark.heavy
@costly
@given(seeds, st.integers(20, 120), st.booleans())
def test_what_only_the_rebalancer_and_pulsar_move_is_never_foreign(
    seed: int, passes: int, noted: bool
) -> None:
    _, found = lived(seed, passes, noted=noted)
    assert found == []


@pytest.mark.heavy
@pytest.mark.parametrize("noted", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_what_something_else_moves_is_found(seed: int, noted: bool) -> None:
    """In a cluster where nothing else happens; one that comes back before a list shows it is not
    seen.
    """
    cluster, found = lived(seed, 120, rivals_from=12, calm=True, noted=noted)
    assert [(move.bundle, move.source, move.destination) for move in found] == cluster.foreign[
        : len(found)
    ]
    assert len(cluster.foreign) - len(found) <= 1, "the last one may not be certain yet"
    assert len(found) > 8


@pytest.mark.lab
@pytest.mark.parametrize("strategy", SHEDDERS)
@pytest.mark.parametrize("harsh", [False, True])
def test_chaos_without_a_rival_has_no_foreign_move(strategy: str, harsh: bool) -> None:
    """`Invariants.round` looks for them."""
    assert chaos(7, EngineSettings(strategy=strategy), rounds=120, harsh=harsh).broken == ()
