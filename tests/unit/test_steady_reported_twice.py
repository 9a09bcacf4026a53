"""A bundle that two brokers report moves once in a plan of SteadyShedder."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from strategies.shedding.steady.move_plan import LoadedBrokers, Pieces
from strategies.shedding.steady.move_search import searched

Bundles = dict[str, float]


def _cluster(held: Sequence[Bundles], idle: Sequence[float]) -> LoadedBrokers:
    """Brokers with these bundles (size in points), and their usages without any."""

    def pieces(row: int) -> Pieces:
        sizes = np.array(list(held[row].values()))
        every = np.ones(len(sizes), dtype=bool)
        return Pieces(tuple(held[row]), sizes, 0 * sizes, sizes, every, ~every)

    usage = np.array([base + sum(one.values()) for one, base in zip(held, idle, strict=True)])
    every = np.ones(len(held), dtype=bool)
    return LoadedBrokers(usage, np.ones(len(held)), pieces, lambda *_: every)


def _moved(brokers: LoadedBrokers) -> list[tuple[str, int, int]]:
    plan = searched(brokers, 1.0)
    return [(one.bundle, one.source, one.destination) for one in plan.moves]


def test_two_full_brokers_that_report_one_bundle_give_it_once() -> None:
    brokers = _cluster([{"t/ns/a": 10.0}, {"t/ns/a": 10.0}, {}, {}], [50.0, 50.0, 40.0, 40.0])

    assert _moved(brokers) == [("t/ns/a", 1, 2)]


def test_a_bundle_does_not_change_places_with_itself() -> None:
    """The fuller broker reports it with more traffic, which its newer report shows."""
    brokers = _cluster([{"t/ns/a": 11.0}, {"t/ns/a": 4.0}], [40.0, 35.0])

    assert _moved(brokers) == []
