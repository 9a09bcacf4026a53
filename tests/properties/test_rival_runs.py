"""Modelled clusters in which only the rebalancer, joins, deaths, restarts and splits move bundles
have no foreign move (the lives of test_rolls.py neither); a rival's moves are all found.
"""

from random import Random

import pytest

from scripts.chaos_rounds import chaos
from strategies.cluster.rule_settings import RivalSettings
from strategies.fold.engine import EngineSettings
from strategies.shedding.registry import SHEDDERS
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
