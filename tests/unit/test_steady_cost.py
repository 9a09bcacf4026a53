"""What SteadyShedder learns about brokers' powers."""

from __future__ import annotations

import numpy as np
import pytest

from strategies.shedding.steady.cost import HIGHEST_BASE, POWERS, learned
from strategies.shedding.steady.load_history import LoadHistory
from strategies.shedding.steady.spread_bounds import Packing, by_groups
from tests.unit.steady_builders import LoadLevel, history_of


def at_usage(usage: float) -> LoadHistory:
    return history_of(levels=(LoadLevel(1e8, 1e5, usage, 5.0, 0.0),))


def with_traffic(usage: float, load: float) -> LoadHistory:
    return history_of(levels=(LoadLevel(1e7 * load, 1e4 * load, usage, 5.0, 0.0),))


def test_a_broker_that_reports_no_usage_for_its_traffic_is_not_taken_for_a_giant() -> None:
    cost = learned({"b1": at_usage(0.5), "b2": at_usage(0.5), "b3": at_usage(0.0)})
    assert cost.powers == {"b3": POWERS[1]}


def test_a_stronger_broker_keeps_its_power() -> None:
    cost = learned({"b1": at_usage(0.6), "b2": at_usage(0.6), "b3": at_usage(0.3)})
    assert cost.powers == {"b3": pytest.approx(2.0)}


def test_an_idle_broker_shows_what_a_broker_uses_without_traffic() -> None:
    histories = {f"b{load}": with_traffic(0.25 + 0.08 * load, load) for load in (0.5, 1, 3, 9)}
    assert learned(histories).base == pytest.approx(0.25, abs=0.05)


def test_a_busy_process_beside_an_idle_broker_is_not_what_brokers_use_without_traffic() -> None:
    histories = {f"b{load}": with_traffic(0.05 + 0.08 * load, load) for load in (1, 3, 5)}
    assert learned({**histories, "hot": with_traffic(0.6, 0.1)}).base <= HIGHEST_BASE


def test_equally_busy_brokers_do_not_show_what_a_broker_uses_without_traffic() -> None:
    histories = {f"b{load}": with_traffic(0.5 + 0.02 * load, load) for load in (1, 2, 3)}
    assert learned(histories).base == HIGHEST_BASE


def test_a_trace_of_traffic_shows_nothing_of_what_traffic_costs() -> None:
    trace = history_of(levels=(LoadLevel(5e-324, 5e-324, 0.5, 5.0, 0.0),))
    cost = learned({"b1": trace, "b2": trace})
    assert cost.of(1e8, 1e5) == 0.0
    assert cost.base > 0.0


def test_the_bound_of_groups_holds_for_capacities_of_any_size() -> None:
    """The best place of the bundle is the giant; the two then differ by 10 points."""
    fixed, capacity = np.array([0.0, 10.0]), np.array([1e-3, 1e30])
    assert by_groups(Packing.of(np.ones(1), fixed, capacity)) <= 10.0
