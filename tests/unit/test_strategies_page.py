"""The worked examples of docs/STRATEGIES.md are what the code answers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from strategies.model import ClusterView, Evidence
from strategies.settings import Mode
from strategies.shedding.registry import shedder
from strategies.shedding.transfer_rule import TransferSettings
from tests.unit.shedding_builders import MIB, WEIGHTS, broker, bundles, play, talking, view

PAGE = (Path(__file__).parents[2] / "docs" / "STRATEGIES.md").read_text("utf-8")


def example(name: str) -> list[list[str]]:
    """Rows of the table marked with this name, without its head."""
    found = re.search(rf"<!-- example: {name} -->\n(.*?)<!-- /example -->", PAGE, re.DOTALL)
    assert found is not None
    rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in found[1].splitlines()]
    return rows[2:]


def numbers(cell: str) -> list[float]:
    return [float(word) for word in re.findall(r"[\d.]+", cell)]


def figure(strategy: str, evidence: Evidence) -> tuple[float, float]:
    """Load of a bundle that leaves and what was to leave in all, in the unit of the page."""
    if strategy == "overload":
        return float(str(evidence["bundle_throughput"])) / MIB, float(str(evidence["to_shed"])) / MIB
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
    seen = view(broker(busy[0], 10.0, owned=talking(*numbers(busy[2])), rate=rates[0]), broker(idle[0], 10.0, rate=rates[1]))
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
    (round_,) = play(shedder("transfer", TransferSettings(hit_count=0), WEIGHTS, mode), view(*brokers))
    for row in rows:
        loads = [float(str(move.evidence["bundle_throughput"])) / MIB for move in round_.decisions if move.source == f"{row[0]}:1"]
        assert ", ".join(f"{load:g}" for load in loads) == row[column]
