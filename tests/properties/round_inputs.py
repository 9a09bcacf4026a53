"""States of a cluster before a round, and rounds that an operator has limited, from seeds."""

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from hypothesis import strategies as st

from strategies.averages.bundle_averages import BundleHistory, first_history, unpack_history
from strategies.bundles import BundleLoads, namespace_of
from strategies.cluster.budget import HOUR_MS, Spent
from strategies.cluster.cluster_state import BrokerState, ClusterState, Gained, InFlight
from strategies.cluster.model import BundleStats, ClusterView, Command
from strategies.cluster.strategy_memory import Memory
from strategies.filters.filter_order_and_settings import FilterSettings, LoadManager
from strategies.fold.engine import EngineSettings, rules_of
from strategies.round.round import run_round
from strategies.round.round_input_and_digest import RoundInput, RoundResult
from strategies.settings import LimitSettings, Mode
from strategies.shedding.contract import Shedder
from strategies.splitting.bundle_limits import SplitSettings
from tests.properties.legal import (
    BROKERS,
    BUNDLES,
    EAGER,
    NOW_MS,
    WEIGHTS,
    as_its_own,
    fitting,
    memories,
    seeds,
    views,
)
from tests.world.brokers import MIB, shedder

V = TypeVar("V")
NUMBER = 7
#: The views are of early in a Thursday.
CLOSED = "Fri-Wed 00:00-24:00, Thu 12:00-24:00"
NAMESPACES = sorted({namespace_of(bundle) for bundle in BUNDLES})


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


inputs = st.builds(an_input, views, memories, seeds)


@dataclass(frozen=True)
class Case:
    """A round with limits.

    `reserved`: a namespace that may live on `host` only (empty: anywhere); `draining`: a broker
    that may take nothing.
    """

    given: RoundInput
    settings: EngineSettings
    reserved: str
    host: str
    draining: str

    @property
    def rule(self) -> Shedder:
        settings = self.settings
        return shedder(settings.strategy, settings.shedding, WEIGHTS, settings.mode)

    def close(self) -> RoundResult:
        return run_round(self.given, self.rule, rules_of(self.settings))

    def throughput(self, command: Command) -> float:
        packed = self.given.read_table(command.source)
        assert packed is not None
        table = unpack_history(packed).loads()
        return float(table.msg_throughput[table.names.index(command.bundle)]) / MIB


def with_its_own_memory(given_: RoundInput, strategy: str) -> RoundInput:
    """The input without what only another strategy can have left behind."""
    memory = Memory({one.broker: one.memory for one in given_.brokers}, given_.state.memory)
    memory = as_its_own(memory, strategy)
    state = replace(given_.state, memory=memory.cluster)
    brokers = (replace(one, memory=memory.brokers[one.broker]) for one in given_.brokers)
    return replace(given_, state=state, brokers=tuple(brokers))


def a_case(strategy: str, mode: Mode, given_: RoundInput, seed: int) -> Case:
    chance, given_ = random.Random(seed), with_its_own_memory(given_, strategy)
    reserved, host, draining = (
        chance.choice(NAMESPACES),
        chance.choice(BROKERS),
        chance.choice(BROKERS),
    )
    only = "" if chance.random() < 0.3 else host.rpartition(":")[0]
    policy = {
        "namespaces": [reserved.replace("/", "[/]")],
        "primary": [only or ".*"],
        "secondary": [],
        "auto_failover_policy": {"policy_type": "min_available", "parameters": {"min_limit": 1}},
    }
    snapshot = {"isolation": {"one": policy}, "brokers": {draining: {"draining": True}}}
    limits = LimitSettings(
        excluded_namespaces=chance.choice(("", chance.choice(NAMESPACES), "*"))
        if chance.random() < 0.5
        else "",
        excluded_brokers=chance.choice(("", chance.choice(BROKERS))),
        windows=chance.choice(("", "", "00:00-24:00", CLOSED)),
        moves_per_round=chance.choice((0, 1, 2)),
        moves_per_hour=chance.choice((0, 3, 5)),
        moved_mib_per_round=chance.choice((0.0, 0.01, 1.0, 100.0)),
        moved_mib_per_hour=chance.choice((0.0, 5.0, 1000.0)),
    )
    spent = tuple(
        Spent(NOW_MS - chance.choice((0, 1, HOUR_MS - 1, HOUR_MS)), 1, MIB * chance.random())
        for _ in range(chance.choice((0, 2)))
    )
    manager: LoadManager = (
        "auto" if mode == "fixed" else chance.choice(("auto", "modular", "extensible"))
    )
    settings = EngineSettings(
        strategy,
        mode,
        EAGER[strategy] if chance.random() < 0.7 else None,
        WEIGHTS,
        placement=chance.choice(
            ("auto", "none", "least_resource_usage", "round_robin", "least_long_term_rate", "avg")
        ),
        filters=FilterSettings(load_manager=manager, distribute_evenly=chance.random() < 0.5),
        limits=limits,
        splitting=SplitSettings(enabled=chance.random() < 0.5, max_topics=2, max_msg_rate=10),
    )
    state = replace(given_.state, policies=json.dumps(snapshot), spent=spent)
    return Case(replace(given_, state=state), settings, reserved, only, draining)
