"""Budgets are never exceeded, whatever wants to move and whatever moved before: counted once more
and naively.
"""

from __future__ import annotations

from math import fsum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies.cluster.budget import HOUR_MS, Budget, Spent
from strategies.cluster.rule_settings import LimitSettings

MIB = 1024 * 1024
NOW_MS = 10_000_000
loads = st.sampled_from([0.0, 1.0, 0.5 * MIB, 1.0 * MIB, 3.0 * MIB]) | st.floats(0, 1e9)
limits = st.builds(
    LimitSettings,
    moves_per_round=st.integers(0, 5),
    moves_per_hour=st.integers(0, 8),
    moved_mib_per_round=st.sampled_from([0.0, 1.0, 4.5, 100.0]),
    moved_mib_per_hour=st.sampled_from([0.0, 2.0, 9.0, 300.0]),
)
#: Bundles that move together or not at all: a swap is two.
wishes = st.lists(st.lists(loads, min_size=1, max_size=3), max_size=12)
rounds = st.lists(
    st.tuples(st.sampled_from([0, 60_000, 1_200_000, HOUR_MS - 1, HOUR_MS]), wishes), max_size=6
)


@pytest.mark.heavy
@given(limits, rounds)
def test_budgets_are_never_exceeded(
    settings: LimitSettings, wanted: list[tuple[int, list[list[float]]]]
) -> None:
    now_ms, history, moved = NOW_MS, list[Spent](), list[tuple[int, float]]()
    for pause_ms, groups in wanted:
        now_ms += pause_ms
        budget = Budget(settings, history, now_ms)
        this_round: list[float] = []
        for group in groups:
            if budget.refuses(group) is None:
                budget.spend(group)
                this_round += group
        if budget.spent is not None:
            history.append(budget.spent)
        moved += [(now_ms, load) for load in this_round]
        within(this_round, settings.moves_per_round, settings.moved_mib_per_round)
        within(
            [load for ts, load in moved if ts > now_ms - HOUR_MS],
            settings.moves_per_hour,
            settings.moved_mib_per_hour,
        )


def within(loads: list[float], bundles: int, mib: float) -> None:
    """0 is no limit. Sums in another order may differ in their last bits."""
    assert not bundles or len(loads) <= bundles
    assert not mib or fsum(loads) <= mib * MIB * (1 + 1e-12)
