"""Modelled clusters in which only the rebalancer, joins, deaths, restarts and splits move bundles
have no foreign move; a rival's moves are all found.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.chaos_rounds import chaos
from strategies.fold.engine import EngineSettings
from strategies.settings import RivalSettings
from strategies.shedding.registry import SHEDDERS
from tests.properties.costly import costly
from tests.properties.legal import seeds
from tests.world.rivals import Life

NAMES = tuple(f"b{number}:8080" for number in range(5))


def a_life(rng: Random, *, noted: bool) -> Life:
    """Fifty bundles on five brokers, which count them once a minute; rounds never yield."""
    owned: dict[str, list[int]] = {name: [] for name in NAMES}
    for number in range(50):
        owned[rng.choice(NAMES)].append(number)
    started = dict.fromkeys(NAMES, -9_000)
    patient = RivalSettings(moves_per_hour=0)
    return Life(owned, patient, {}, started, noted, counts_every=1 if noted else 3)


@dataclass
class Troubles:
    """What happens between two passes, and the brokers that are down or silent meanwhile."""

    life: Life
    rng: Random
    down: set[str] = field(default_factory=set)
    silent: dict[str, int] = field(default_factory=dict)
    waiting: list[tuple[int, int, str, str]] = field(default_factory=list)
    new: int = 100

    def live(self, passes: int) -> None:
        for number in range(passes):
            self.happen(number)
            self.command(number)
            quiet = [name for name, until in self.silent.items() if until >= number]
            self.life.passes(missing={*quiet} - self.down, gone=self.down)

    def happen(self, number: int) -> None:
        """A broker dies, comes back, restarts or falls silent, or a bundle is split."""
        name, dice = self.rng.choice(NAMES), self.rng.random()
        others = [one for one in NAMES if one not in {name, *self.down}]
        if dice < 0.05 and name in self.down:
            self.down.discard(name)
            self.start(name, number)
        elif name in self.down:
            return
        elif dice < 0.02 and len(others) > 2:
            self.down.add(name)
            self.place(name, others)
        elif dice < 0.06:
            self.place(name, others)
            self.start(name, number)
        elif dice < 0.08:
            self.silent[name] = number + self.rng.choice((1, 4))
            if self.rng.random() < 0.5:  # it lost its session
                self.place(name, others)
        elif dice < 0.1 and self.life.owned[name]:
            self.life.leave(self.rng.choice(self.life.owned[name]))
            self.life.gain(self.new, self.new + 1, to=name)
            self.new += 2

    def start(self, name: str, number: int) -> None:
        self.life.started_s[name] = self.life.now_s + 5
        self.life.counted.pop(name, None)
        if self.life.noted:  # the pass meets it while it starts; reports do not say when
            self.silent[name] = number

    def place(self, name: str, others: Sequence[str]) -> None:
        """Pulsar places the bundles of a broker that has lost them."""
        for bundle in list(self.life.owned[name]):
            self.life.move(bundle, self.rng.choice(others))

    def command(self, number: int) -> None:
        """The rebalancer moves a bundle; its destination may be lost, its outcome late or lost."""
        due = [one for one in self.waiting if one[0] <= number]
        self.waiting = [one for one in self.waiting if one[0] > number]
        for _, bundle, source, owner in due:
            self.life.outcome(bundle, "applied", source, owner)
        full = [name for name in NAMES if self.life.owned[name] and name not in self.down]
        if self.waiting or self.rng.random() < 0.7 or not full:
            return
        source = self.rng.choice(full)
        bundle = self.rng.choice(self.life.owned[source])
        wanted, lost = self.rng.sample([one for one in NAMES if one not in {source, *self.down}], 2)
        owner = lost if self.rng.random() < 0.2 else wanted
        self.life.command(bundle, source, wanted).move(bundle, owner)
        dice = self.rng.random()
        if dice < 0.1:
            self.life.outcome(bundle, "failed", source, None)
        elif dice < 0.95:
            self.waiting.append((number + self.rng.choice((0, 0, 2)), bundle, source, owner))


@pytest.mark.heavy
@costly
@given(seeds, st.integers(20, 120), st.booleans())
def test_what_only_the_rebalancer_and_pulsar_move_is_never_foreign(
    seed: int, passes: int, noted: bool
) -> None:
    rng = Random(seed)
    life = a_life(rng, noted=noted)
    Troubles(life, rng).live(passes)
    assert life.foreign == []


@pytest.mark.heavy
@pytest.mark.parametrize("noted", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_what_something_else_moves_is_found(seed: int, noted: bool) -> None:
    """In a cluster where nothing else happens; one that comes back before a list shows it is not
    seen.
    """
    rng, moved = Random(seed), list[tuple[int, str, str]]()
    life = a_life(rng, noted=noted).passes(12)
    for bundle in rng.sample(range(50), 12):
        source = next(name for name in NAMES if bundle in life.owned[name])
        moved.append((bundle, source, rng.choice([name for name in NAMES if name != source])))
        life.move(bundle, moved[-1][2]).passes(9)
    assert life.foreign == moved


@pytest.mark.lab
@pytest.mark.parametrize("strategy", SHEDDERS)
@pytest.mark.parametrize("harsh", [False, True])
def test_chaos_without_a_rival_has_no_foreign_move(strategy: str, harsh: bool) -> None:
    """`Invariants.round` looks for them."""
    assert chaos(7, EngineSettings(strategy=strategy), rounds=120, harsh=harsh).broken == ()
