"""What must hold of a whole round, from the state of a cluster to numbered commands, with every
strategy in both modes.
"""

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies.averages.bundle_averages import BundleHistory, first_history, unpack_history
from strategies.bundles import BundleLoads
from strategies.cluster.memory import Memory
from strategies.cluster.model import BundleStats, ClusterView
from strategies.cluster.state import ClusterState, Gained, InFlight
from strategies.cluster.store import BrokerState
from strategies.fold.engine import EngineSettings, rules_of
from strategies.round.round import run_round
from strategies.round.round_input import RoundInput, RoundResult
from strategies.settings import Mode, RoundSettings
from strategies.shedding.registry import SHEDDERS
from tests.properties.legal import (
    BROKERS,
    BUNDLES,
    EAGER,
    NOW_MS,
    WEIGHTS,
    a_view,
    as_its_own,
    fitting,
    memories,
    seeds,
    sizes,
)
from tests.world.brokers import shedder

V = TypeVar("V")
NUMBER = 7
SETTINGS = RoundSettings()
any_strategy = pytest.mark.parametrize("strategy", list(SHEDDERS))


def an_input(view: ClusterView, memory: Memory, seed: int) -> RoundInput:
    """The state from which a round makes such a view, with moves under way and bundles that two
    brokers report.
    """
    chance, memory = random.Random(seed), fitting(memory, view)
    tables = {broker.broker: history(broker.bundles, chance) for broker in view.brokers}
    states = [
        a_state(broker.broker, order, view, memory, chance)
        for order, broker in enumerate(view.brokers)
    ]
    states = [replace(state, table=tables[state.broker].summary()) for state in states]
    packed = {broker: table.pack() for broker, table in tables.items()}
    flights = {
        bundle: a_flight(chance) for bundle in chance.sample(BUNDLES, chance.choice((0, 0, 4)))
    }
    gained = {
        bundle: Gained(chance.choice(BROKERS), NUMBER)
        for bundle in chance.sample(BUNDLES, chance.choice((0, 0, 3)))
    }
    cooling = dict.fromkeys(sorted(view.cooling), NOW_MS - 60000)
    missing = dict.fromkeys(chance.sample(BROKERS, 1), "no answer")
    state = ClusterState(
        round=NUMBER - 1,
        missing=missing,
        cooling=cooling,
        in_flight=flights,
        gained=gained,
        memory=memory.cluster,
    )
    return RoundInput("c", state, NOW_MS, "sweep", tuple(states), packed.get)


def history(table: BundleLoads, chance: random.Random) -> BundleHistory:
    """A table of one sample, or one with a past."""
    stats = BundleStats(table.names, table.current, table.topics, table.sessions)
    if chance.random() < 0.3:
        return first_history(stats, NUMBER)
    base = np.hstack(
        (table.short, table.long, table.short_samples[:, None], table.long_samples[:, None])
    ).astype(np.float64)
    return BundleHistory(stats, base, NUMBER)


def a_state(
    name: str, order: int, view: ClusterView, memory: Memory, chance: random.Random
) -> BrokerState:
    load = view.brokers[order]
    reported = NOW_MS - chance.choice((0, 1000, 1000, 1000, 100_000, 400_000, NOW_MS + 1))
    sampled = NUMBER if load.fresh else NUMBER - 1
    judged_after = reported if load.settling else 0
    digest = str(load.figures)
    state = BrokerState(
        name,
        order,
        reported,
        NUMBER,
        reported,
        reported,
        sampled,
        judged_after,
        digest,
        digest,
        load.figures,
    )
    return replace(state, memory=memory.brokers[name]) if name in memory.brokers else state


def a_flight(chance: random.Random) -> InFlight:
    source, destination = chance.sample(BROKERS, 2)
    towards = chance.choice((destination, None))
    return InFlight(
        "id",
        source,
        towards,
        NOW_MS - 60_000,
        NOW_MS + 60_000,
        chance.choice((0.0, 0.2, 1.0)),
        chance.random() < 0.5,
    )


def turned(given_: RoundInput, seed: int) -> RoundInput:
    """The same state, brokers, the rows of their tables and what is under way in another order."""
    chance = random.Random(seed)
    tables = {
        state.broker: rows_turned(given_.read_table(state.broker), chance)
        for state in given_.brokers
    }
    brokers = [
        replace(state, table=tables[state.broker].summary())
        for state in chance.sample(given_.brokers, len(given_.brokers))
    ]
    packed = {broker: table.pack() for broker, table in tables.items()}
    state = given_.state
    state = replace(
        state,
        cooling=reordered(state.cooling, chance),
        in_flight=reordered(state.in_flight, chance),
        gained=reordered(state.gained, chance),
    )
    return replace(given_, state=state, brokers=tuple(brokers), read_table=packed.get)


def reordered(items: Mapping[str, V], chance: random.Random) -> dict[str, V]:
    return dict(chance.sample(list(items.items()), len(items)))


def rows_turned(data: bytes | None, chance: random.Random) -> BundleHistory:
    assert data is not None
    table = unpack_history(data)
    rows = chance.sample(range(len(table.newest.names)), len(table.newest.names))
    newest = table.newest
    names = tuple(newest.names[row] for row in rows)
    turned_ = BundleStats(names, newest.traffic[rows], newest.topics[rows], newest.sessions[rows])
    return BundleHistory(turned_, table.base[rows], NUMBER)


inputs = st.builds(an_input, st.builds(a_view, seeds, sizes, sizes), memories, seeds)


def with_its_own_memory(given_: RoundInput, strategy: str) -> RoundInput:
    """The input without what only another strategy can have left behind."""
    memory = Memory({one.broker: one.memory for one in given_.brokers}, given_.state.memory)
    memory = as_its_own(memory, strategy)
    state = replace(given_.state, memory=memory.cluster)
    brokers = (replace(one, memory=memory.brokers[one.broker]) for one in given_.brokers)
    return replace(given_, state=state, brokers=tuple(brokers))


def closed(strategy: str, mode: Mode, given_: RoundInput) -> RoundResult:
    given_ = with_its_own_memory(given_, strategy)
    settings = EngineSettings(strategy, mode, EAGER[strategy], WEIGHTS, SETTINGS)
    return run_round(given_, shedder(strategy, EAGER[strategy], WEIGHTS, mode), rules_of(settings))


@pytest.mark.heavy
@any_strategy
@given(given_=inputs, seed=seeds)
def test_the_order_of_brokers_and_bundles_changes_nothing(
    strategy: str, given_: RoundInput, seed: int
) -> None:
    one, other = (closed(strategy, "fixed", seen) for seen in (given_, turned(given_, seed)))
    assert one.commands == other.commands
    assert one.memory == other.memory
    assert one.loads == other.loads
    assert one.round == replace(other.round, brokers=one.round.brokers, digest=one.round.digest)
