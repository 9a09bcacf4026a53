"""TransferShedder's pure form: whatever the stores hold, a bundle moves once, only where it may,
and order changes nothing.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies.shedding.transfer.fixed import judge_repaired
from strategies.shedding.transfer.parity import judge_as_java
from strategies.shedding.transfer.settings import (
    BrokerEntry,
    OfferedBundle,
    Stores,
    TransferSettings,
)
from tests.world.brokers import ns

NAMES = [f"b{number}:1" for number in range(1, 7)]
NOW_MS = 10_000_000
usages = st.sampled_from([0.0, 0.1, 0.5, 0.5, 0.9, 1.0]) | st.floats(0, 2)
loads = st.sampled_from([0.0, 1.0, 5e6, 5e6, 1e9]) | st.floats(0, 1e10)
entries = st.builds(
    BrokerEntry, usages, loads, loads, st.sampled_from([NOW_MS, NOW_MS - 60_000, 0])
)
tops = st.lists(
    st.builds(OfferedBundle, st.sampled_from([ns(k) for k in range(16)]), loads),
    max_size=6,
    unique_by=lambda top: top.bundle,
)
legal = st.builds(
    Stores,
    st.just(NOW_MS),
    st.dictionaries(st.sampled_from(NAMES), entries),
    st.dictionaries(st.sampled_from(NAMES), tops),
    st.frozensets(st.sampled_from(NAMES)),
    st.frozensets(st.sampled_from([ns(k) for k in range(16)]), max_size=4),
    st.dictionaries(
        st.sampled_from(NAMES), st.sampled_from([NOW_MS - 1000, NOW_MS - 300_000]), max_size=2
    ),
)
choices = st.builds(
    TransferSettings,
    st.sampled_from([0.0, 0.1, 0.25]),
    st.just(0),
    st.booleans(),
    st.integers(0, 4),
    debug=st.booleans(),
)


@pytest.mark.heavy
@given(seen=legal, chosen=choices)
def test_a_bundle_moves_once_and_only_between_brokers_that_were_judged(
    seen: Stores, chosen: TransferSettings
) -> None:
    verdict = judge_repaired(seen, chosen, 0)
    moved = [move.bundle for move in verdict.moves]
    assert len(moved) == len(set(moved))
    assert not set(moved) & set(seen.cooling)
    for move in verdict.moves:
        assert {move.source, move.destination or move.source} <= set(seen.brokers) - set(
            verdict.left_out
        )
        assert move.bundle in {top.bundle for top in seen.top[move.source]}
        assert (move.destination is not None) == chosen.transfer
        assert move.source != move.destination
    assert len({move.source for move in verdict.moves if not move.swapped}) <= chosen.max_brokers
    assert (verdict.skipped is None) == bool(verdict.moves)


@pytest.mark.heavy
@given(seen=legal, chosen=choices, chance=st.randoms(use_true_random=False))
def test_the_order_of_brokers_changes_nothing(
    seen: Stores, chosen: TransferSettings, chance: Random
) -> None:
    names = list(seen.brokers)
    chance.shuffle(names)
    assert judge_repaired(
        replace(seen, brokers={name: seen.brokers[name] for name in names}), chosen, 0
    ) == judge_repaired(seen, chosen, 0)


@pytest.mark.heavy
@given(seen=legal, chosen=choices, hits=st.integers(0, 9))
def test_java_raises_nothing_and_counts_hits_one_by_one(
    seen: Stores, chosen: TransferSettings, hits: int
) -> None:
    assert judge_as_java(seen, chosen, hits).hits in (0, hits, hits + 1)
