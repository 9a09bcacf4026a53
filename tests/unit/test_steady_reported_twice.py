"""A bundle that two brokers report moves once in a plan of SteadyShedder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from strategies.bundles.bundle_loads import Bools
from strategies.shedding.steady.cluster import PlannedCluster
from strategies.shedding.steady.cost import learned
from strategies.shedding.steady.load_history import LoadHistory, LoadSample
from strategies.shedding.steady.move_plan import LoadedBrokers, Pieces
from strategies.shedding.steady.move_search import searched
from tests.world.brokers import broker, bundles, ns, view

Bundles = dict[str, float]
_SIZES = {"full": 11.0, "empty": 5.0}


#: Whether a broker (row) may take a bundle of another one: bundle, source, destination.
Rule = Callable[[str, int, int], bool]


def _cluster(
    held: Sequence[Bundles], idle: Sequence[float], rule: Rule = lambda *_: True
) -> LoadedBrokers:
    """Brokers with these bundles (size in points), and their usages without any."""

    def pieces(row: int) -> Pieces:
        sizes = np.array(list(held[row].values()))
        every = np.ones(len(sizes), dtype=bool)
        return Pieces(tuple(held[row]), sizes, 0 * sizes, sizes, every, ~every)

    usage = np.array([base + sum(one.values()) for one, base in zip(held, idle, strict=True)])

    def takers(bundle: str, source: int) -> Bools:
        return np.array([rule(bundle, source, row) for row in range(len(held))])

    return LoadedBrokers(usage, np.ones(len(held)), pieces, takers)


def _moved(brokers: LoadedBrokers) -> list[tuple[str, int, int]]:
    plan = searched(brokers, 1.0)
    return [(one.bundle, one.source, one.destination) for one in plan.moves]


def test_two_full_brokers_that_report_one_bundle_give_it_once() -> None:
    brokers = _cluster([{"t/ns/a": 10.0}, {"t/ns/a": 10.0}, {}, {}], [50.0, 50.0, 40.0, 40.0])

    assert _moved(brokers) == [("t/ns/a", 1, 2)]


def test_who_may_take_a_bundle_depends_on_the_broker_that_gives_it() -> None:
    """The first broker serves the fewest of an anti-affinity group, for example."""

    def takers(bundle: str, source: str) -> list[str]:
        return ["b:1"] if source == "a:1" else ["c:1"]

    shared = bundles(10.0)
    loads = [broker(name, 50.0, 10.0, shared if name != "c" else {}) for name in "abc"]
    history = LoadHistory.of([LoadSample(1, 0.5, 1e7, 0.0)], bundles=1)
    histories = {one.broker: history for one in loads}
    cluster = PlannedCluster.of(
        replace(view(*loads), takers=takers),
        loads,
        histories,
        cost=learned(histories),
        resting=frozenset(),
        left=frozenset(),
        apart=0.0,
    )
    assert [cluster.takers(ns(0), row).tolist() for row in (0, 1, 0)] == [
        [False, True, False],
        [False, False, True],
        [False, True, False],
    ]


def test_a_bundle_that_one_broker_must_not_give_may_be_given_by_the_other() -> None:
    brokers = _cluster(
        [{"t/ns/a": 10.0}, {"t/ns/a": 10.0}, {}],
        [50.0, 50.0, 40.0],
        lambda bundle, source, destination: source == 0,
    )

    assert _moved(brokers) == [("t/ns/a", 0, 2)]


class Asked(str):
    """The name of a bundle that counts how often something is looked up about it."""

    times = 0

    def __hash__(self) -> int:
        self.times += 1
        return super().__hash__()


def _questions(refused: str, count: int) -> list[int]:
    """How often a plan asks about each refused bundle. The fuller broker has bundles of 11 points,
    the emptier one of 5 points, this number each: to swap two of them would help.
    """
    names = {name: [Asked(f"t/ns/{name}{at}") for at in range(count)] for name in _SIZES}
    held: list[Bundles] = [dict.fromkeys(names[name], size) for name, size in _SIZES.items()]
    idle = [usage - sum(one.values()) for usage, one in zip((156.0, 144.0), held, strict=True)]
    brokers = _cluster(held, idle, lambda bundle, *_: refused not in bundle)
    asked = names[refused]
    before = [one.times for one in asked]
    assert _moved(brokers) == []
    return [one.times - earlier for one, earlier in zip(asked, before, strict=True)]


@pytest.mark.parametrize("refused", ["full", "empty"])
def test_a_bundle_that_must_not_move_is_refused_once_for_all_its_swaps(refused: str) -> None:
    assert max(_questions(refused, 10)) == max(_questions(refused, 5))


def test_a_bundle_does_not_change_places_with_itself() -> None:
    """The fuller broker reports it with more traffic, which its newer report shows."""
    brokers = _cluster([{"t/ns/a": 11.0}, {"t/ns/a": 4.0}], [40.0, 35.0])

    assert _moved(brokers) == []
