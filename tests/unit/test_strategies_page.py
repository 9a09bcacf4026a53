"""The worked examples of docs/STRATEGIES.md are what the code answers."""

import pytest

from strategies.cluster.model import ClusterView, Evidence
from strategies.settings import Mode
from strategies.shedding.avg.settings import AvgSettings
from strategies.shedding.transfer.settings import TransferSettings
from tests.unit.strategies_page import example, numbers
from tests.world.brokers import MIB, WEIGHTS, broker, bundles, shedder, talking, view
from tests.world.sheddings import ewmas, play


def figure(strategy: str, evidence: Evidence) -> tuple[float, float]:
    """Load of a bundle that leaves and what was to leave in all, in the unit of the page."""
    if strategy == "overload":
        return float(str(evidence["bundle_throughput"])) / MIB, float(
            str(evidence["to_shed"])
        ) / MIB
    return float(str(evidence["bundle_load"])), float(str(evidence["need"]))


def leaving(strategy: str, mode: Mode, seen: ClusterView) -> tuple[str, str]:
    """Loads of the bundles that leave, and what was to leave, as the page writes them."""
    (round_,) = play(shedder(strategy, None, WEIGHTS, mode), seen)
    figures = [figure(strategy, decision.evidence) for decision in round_.decisions]
    return ", ".join(f"{load:g}" for load, _ in figures), f"{figures[0][1]:,.0f}"


@pytest.mark.parametrize(("mode", "column"), [("parity", 5), ("fixed", 6)])
def test_overload(mode: Mode, column: int) -> None:
    hot, cool = example("overload")
    (usage,), (traffic,), (low,) = numbers(hot[1]), numbers(hot[2]), numbers(cool[1])
    seen = view(broker(hot[0], usage, traffic, bundles(*numbers(hot[3]))), broker(cool[0], low))
    loads, minimum = leaving("overload", mode, seen)
    assert (loads, f"{minimum} MiB/s") == (hot[column], hot[4])


@pytest.mark.parametrize(("mode", "column"), [("parity", 4), ("fixed", 5)])
def test_uniform(mode: Mode, column: int) -> None:
    busy, idle = example("uniform")
    rates = [float(row[1].replace(",", "")) for row in (busy, idle)]
    seen = view(
        broker(busy[0], 10.0, owned=talking(*numbers(busy[2])), rate=rates[0]),
        broker(idle[0], 10.0, rate=rates[1]),
    )
    assert leaving("uniform", mode, seen) == (busy[column], busy[3])


@pytest.mark.parametrize(("mode", "column"), [("parity", 4), ("fixed", 5)])
def test_transfer(mode: Mode, column: int) -> None:
    rows = example("transfer")
    first = 0
    brokers = []
    for row in rows:
        (usage,), (traffic,), loads = numbers(row[1]), numbers(row[2]), numbers(row[3])
        brokers.append(broker(row[0], usage, traffic, bundles(*loads, first=first)))
        first += len(loads)
    (round_,) = play(
        shedder("transfer", TransferSettings(hit_count=0), WEIGHTS, mode), view(*brokers)
    )
    for row in rows:
        loads = [
            float(str(move.evidence["bundle_throughput"])) / MIB
            for move in round_.decisions
            if move.source == f"{row[0]}:1"
        ]
        assert ", ".join(f"{load:g}" for load in loads) == row[column]


@pytest.mark.parametrize(("mode", "column"), [("parity", 4), ("fixed", 5)])
def test_threshold(mode: Mode, column: int) -> None:
    rows = example("threshold")
    seen = []
    for row in rows:
        high, low = numbers(row[1])
        one = broker("b1", high, 100.0 if row[0] == "1" else 60.0, bundles(30, 25, 25, 20))
        seen.append(
            view(one, broker("b2", low, 20.0 if row[0] == "1" else 60.0, bundles(10, 10, first=4)))
        )
    for row, round_ in zip(
        rows, play(shedder("threshold", None, WEIGHTS, mode), *seen), strict=True
    ):
        assert [round(100 * ewmas(round_)[name], 1) for name in ("b1:1", "b2:1")] == numbers(row[2])
        moves = [decision.evidence for decision in round_.decisions]
        assert (
            ", ".join(f"{float(str(move['bundle_throughput'])) / MIB:g}" for move in moves) or "–"
        ) == row[column]
        assert not moves or f"{float(str(moves[0]['to_shed'])) / MIB:.1f}" == row[3]


@pytest.mark.parametrize("mode", ["parity", "fixed"])
def test_avg(mode: Mode) -> None:
    idle, busy = example("avg")
    rates = [float(row[2].replace(",", "")) for row in (idle, busy)]
    (low,), (high,) = numbers(idle[1]), numbers(busy[1])
    seen = view(
        broker("b1", low, rate=rates[0]),
        broker("b2", high, rate=rates[1], owned=talking(*numbers(busy[3]))),
    )
    rounds = play(shedder("avg", AvgSettings(max_unload=0.5), WEIGHTS, mode), *[seen] * 3)
    told = [
        ", ".join(
            f"{float(str(decision.evidence['bundle_load'])):g}" for decision in round_.decisions
        )
        or "–"
        for round_ in rounds
    ]
    assert told == busy[5:]
    assert f"{float(str(rounds[1].decisions[0].evidence['to_move'])):,.0f}" == busy[4]
    assert {decision.destination for decision in rounds[1].decisions} == {"b1:1"}
