"""What SteadyShedder remembers and plans with, and rounds that it judges a minute apart."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from strategies.bundles import Bools
from strategies.cluster.model import BrokerLoad
from strategies.cluster.strategy_memory import Memory
from strategies.shedding.contract import Shedding
from strategies.shedding.steady.memory_format import (
    LoadHistory,
    LoadSample,
    columns,
    packed,
    packed_level,
)
from strategies.shedding.steady.planned_cluster import LoadedBrokers, Pieces
from strategies.shedding.steady.settings import SteadySettings
from strategies.shedding.steady.steady_round import SteadyShedder
from tests.world.brokers import WEIGHTS, view

MINUTE_MS = 60_000
#: Whether a broker (row) may take a bundle of another one: bundle, source, destination.
Rule = Callable[[str, int, int], bool]


class LoadLevel(NamedTuple):
    """A level, in the order of its packed form."""

    throughput: float
    msg_rate: float
    usage: float
    weight: float
    at_ms: float


def history_of(
    samples: Iterable[LoadSample] = (),
    levels: Iterable[LoadLevel] = (),
    *,
    changed_at_ms: int = -1,
    bundles: int = 0,
    doubted: bool = False,
) -> LoadHistory:
    """A history with these samples and levels, oldest first."""
    return LoadHistory(
        b"".join(packed(*one) for one in samples),
        b"".join(packed_level(*one) for one in levels),
        changed_at_ms,
        bundles,
        doubted,
    )


def levels_of(history: LoadHistory) -> list[LoadLevel]:
    """Newest last."""
    return [LoadLevel(*one) for one in columns(history.packed_levels, 5).tolist()]


def named(*sizes: float, row: int = 0) -> dict[str, float]:
    return {f"t/ns/{row}-{at:02d}": size for at, size in enumerate(sizes)}


def loaded(
    held: Sequence[Mapping[str, float]],
    usage: Sequence[float] | float,
    *,
    traffic: Sequence[float] | None = None,
    rule: Rule = lambda *_: True,
) -> LoadedBrokers:
    """Brokers with these bundles (size in points) and usages, or with this usage beside their
    bundles. `traffic`: of the first broker's bundles, if it is not as large as they are.
    """

    def pieces(row: int) -> Pieces:
        sizes = np.array(list(held[row].values()))
        every = np.ones(len(sizes), dtype=bool)
        bytes_ = np.array(traffic) if row == 0 and traffic is not None else sizes
        return Pieces(tuple(held[row]), sizes, 0 * sizes, bytes_, every, ~every)

    def takers(bundle: str, source: int) -> Bools:
        return np.array([rule(bundle, source, row) for row in range(len(held))])

    if isinstance(usage, float):
        usage = [usage + sum(one.values()) for one in held]
    shown = np.array(usage)
    return LoadedBrokers(shown, np.ones(len(held)), pieces, takers, shown)


def played(*minutes: Sequence[BrokerLoad]) -> list[Shedding]:
    """One round a minute with these brokers, each with new figures."""
    rule, memory, rounds = SteadyShedder(SteadySettings(), WEIGHTS), Memory(), list[Shedding]()
    for minute, brokers in enumerate(minutes):
        now_ms = MINUTE_MS * minute
        seen = (replace(one, reported_at_ms=now_ms) for one in brokers)
        rounds.append(rule.shed(replace(view(*seen), now_ms=now_ms), memory))
        memory = rounds[-1].memory
    return rounds
