"""Random rounds in which everything goes wrong: what must hold holds in all of them. Longer: `python -m scripts.chaos`."""

from __future__ import annotations

import pytest

from simulation.chaos import chaos
from strategies.engine import EngineSettings
from strategies.limits.settings import LimitSettings
from strategies.shedding.registry import SHEDDERS


@pytest.mark.parametrize("strategy", SHEDDERS)
@pytest.mark.parametrize("seed", [1, 2])
def test_the_invariants_hold_whatever_happens(strategy: str, seed: int) -> None:
    done = chaos(seed, EngineSettings(strategy=strategy, limits=LimitSettings(moves_per_round=4, moves_per_hour=25)), rounds=120)
    assert done.broken == ()
    assert done.reports > 120 * 3
    assert done.rejected < done.reports / 5


def test_the_same_seed_is_the_same_chaos() -> None:
    one, other = (chaos(3, EngineSettings(strategy="avg"), rounds=60) for _ in range(2))
    assert one == other
    assert one.commands > 0
