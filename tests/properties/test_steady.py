"""What must hold of SteadyShedder over many rounds of a closed loop, whatever happens to the
cluster.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scripts.steady_invariants import infinite_figures
from strategies.bundles import BundleLoads
from strategies.cluster.memory import Memory
from strategies.cluster.model import BrokerLoad, ClusterView, Figures, Resource, Traffic
from strategies.cluster.store import InMemoryStore
from strategies.shedding.steady.fixed import SteadyShedder
from strategies.shedding.steady.settings import SteadySettings
from streaming.state.rows import from_bytes, pack_entry, to_bytes, unpack_brokers
from tests.properties.costly import costly
from tests.properties.drawn_lives import DrawnCluster, Form, Life, some_settings
from tests.properties.legal import WEIGHTS, seeds
from tests.world.brokers import ns

brokers, bundles, rounds = st.integers(2, 5), st.integers(0, 16), st.integers(3, 16)


def lived(life: Life, seed: int, sizes: tuple[int, int], rounds: int) -> Life:
    return life.live(DrawnCluster.of(seed, *sizes), rounds)


@pytest.mark.heavy
@given(seed=seeds, brokers=brokers, bundles=bundles, rounds=rounds)
@example(seed=177, brokers=3, bundles=7, rounds=9)  # with `tight`, bundles rest for minutes
@example(seed=2178, brokers=5, bundles=6, rounds=6)  # the source of a lost command leaves
def test_nothing_returns_nothing_rises_and_no_budget_is_exceeded(
    seed: int, brokers: int, bundles: int, rounds: int
) -> None:
    life = lived(Life(some_settings(seed)), seed, (brokers, bundles), rounds)
    assert life.broken == []


@pytest.mark.heavy
@costly
@given(seed=seeds, brokers=brokers, bundles=bundles, rounds=rounds, order=seeds)
def test_the_order_of_brokers_and_bundles_changes_nothing(
    seed: int, brokers: int, bundles: int, rounds: int, order: int
) -> None:
    one, other = (
        lived(Life(some_settings(seed), form), seed, (brokers, bundles), rounds)
        for form in (Form(), Form(order=order))
    )
    assert one.decided == other.decided


@pytest.mark.heavy
@costly
@given(seed=seeds, brokers=brokers, bundles=bundles, rounds=rounds)
def test_twice_the_capacity_and_twice_the_load_change_nothing(
    seed: int, brokers: int, bundles: int, rounds: int
) -> None:
    one, other = (
        lived(Life(some_settings(seed), form), seed, (brokers, bundles), rounds)
        for form in (Form(), Form(scale=2.0))
    )
    assert one.decided == other.decided


@pytest.mark.heavy
@costly
@given(seed=seeds, brokers=brokers, bundles=bundles, rounds=rounds)
def test_the_state_survives_encoding(seed: int, brokers: int, bundles: int, rounds: int) -> None:
    one, other = (
        lived(life, seed, (brokers, bundles), rounds)
        for life in (Life(some_settings(seed)), Life(some_settings(seed), reopen=reopened))
    )
    assert one.rounds == other.rounds


def reopened(store: InMemoryStore) -> InMemoryStore:
    """The state as Spark stores and reads it."""
    found = InMemoryStore()
    packed = pack_entry({"c": {one.broker: one for one in store.brokers()}})
    for name, broker in unpack_brokers(packed)["c"].items():
        assert broker is not None
        found.put_broker(broker)
        table = store.get_table(name)
        if table is not None:
            found.put_table(name, table)
    found.put_cluster(from_bytes(to_bytes(store.get_cluster())))
    return found


nasty = st.floats() | st.sampled_from([-1.0, 0.0, 1.0, 1e308, 5e-324])
NO_TRAFFIC = Traffic(0.0, 0.0, 0.0, 0.0)
IDLE = (Resource(0.0, 100.0), NO_TRAFFIC)
nasty_figures = st.tuples(
    st.builds(Resource, nasty | st.floats(0, 100), st.just(100.0)),
    st.builds(Traffic, nasty, nasty, nasty, nasty),
)


@pytest.mark.heavy
@given(st.lists(st.lists(nasty_figures, min_size=3, max_size=3), min_size=4, max_size=8))
@example(
    [
        [
            IDLE,
            (Resource(0.0, 100.0), Traffic(0.0, 0.0, 5e-324, 5e-324)),
            (Resource(1.0, 100.0), Traffic(0.0, 1.0, 0.0, 0.0)),
        ],
        *[[IDLE, IDLE, IDLE]] * 3,
    ]
)  # bytes of infinite cost
def test_nonsense_raises_nothing_and_leaves_finite_memory(
    seen: list[list[tuple[Resource, Traffic]]],
) -> None:
    """Rounds a minute apart in which brokers report nonsense."""
    shedder, memory = SteadyShedder(SteadySettings("tight"), WEIGHTS), Memory()
    for number, figures in enumerate(seen):
        loads = tuple(a_load(f"b{row}", 60_000 * number, *one) for row, one in enumerate(figures))
        round_ = shedder.shed(ClusterView("c", 60_000 * number, loads), memory)
        memory = round_.memory
        round_.certify(())
        assert infinite_figures(memory) == []


def a_load(name: str, at_ms: int, cpu: Resource, traffic: Traffic) -> BrokerLoad:
    """A broker of three bundles that each carry all its traffic."""
    row = np.array(
        [
            [
                traffic.msg_rate_in,
                traffic.msg_rate_out,
                traffic.msg_throughput_in,
                traffic.msg_throughput_out,
            ]
        ]
        * 3
    )
    one = np.ones(3, dtype=np.int64)
    table = BundleLoads(
        tuple(ns(number, name) for number in range(3)), row, row, one, one, one, one, row
    )
    return BrokerLoad(
        name,
        replace(Figures(traffic=traffic, bundle_count=3), cpu=cpu),
        lambda: table,
        fresh=True,
        reported_at_ms=at_ms,
    )
