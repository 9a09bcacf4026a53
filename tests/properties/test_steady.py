"""What must hold of SteadyShedder over many rounds of a closed loop, whatever happens to the
cluster.
"""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from strategies.cluster.cluster_state import InMemoryStore
from streaming.state.state_to_bytes import from_bytes, pack_entry, to_bytes, unpack_brokers
from tests.properties.costly import costly
from tests.properties.drawn_lives import DrawnCluster, Form, Life, some_settings
from tests.properties.legal import seeds

sizes_, rounds_ = st.tuples(st.integers(2, 5), st.integers(0, 16)), st.integers(3, 16)


def lived(life: Life, seed: int, sizes: tuple[int, int], rounds: int) -> Life:
    return life.live(DrawnCluster.of(seed, *sizes), rounds)


@pytest.mark.heavy
@given(seed=seeds, sizes=sizes_, rounds=rounds_)
@example(seed=177, sizes=(3, 7), rounds=9)  # with `tight`, bundles rest for minutes
@example(seed=2178, sizes=(5, 6), rounds=6)  # the source of a lost command leaves
def test_nothing_returns_nothing_rises_and_no_budget_is_exceeded(
    seed: int, sizes: tuple[int, int], rounds: int
) -> None:
    life = lived(Life(some_settings(seed)), seed, sizes, rounds)
    assert life.broken == []


@pytest.mark.heavy
@costly
@pytest.mark.parametrize("changed", ["order", "twice the capacity and the load", "encoding"])
@given(seed=seeds, sizes=sizes_, rounds=rounds_, order=seeds)
def test_order_scale_and_encoding_of_the_state_change_nothing(
    changed: str, seed: int, sizes: tuple[int, int], rounds: int, order: int
) -> None:
    settings = some_settings(seed)
    life = {
        "order": Life(settings, Form(order=order)),
        "twice the capacity and the load": Life(settings, Form(scale=2.0)),
        "encoding": Life(settings, reopen=reopened),
    }[changed]
    one, other = lived(Life(settings), seed, sizes, rounds), lived(life, seed, sizes, rounds)
    assert one.decided == other.decided
    assert changed != "encoding" or one.rounds == other.rounds


def reopened(store: InMemoryStore) -> InMemoryStore:
    """The store, with the state as Spark stores and reads it."""
    packed = pack_entry({"c": {one.broker: one for one in store.brokers()}})
    for broker in unpack_brokers(packed)["c"].values():
        assert broker is not None
        store.put_broker(broker)
    store.put_cluster(from_bytes(to_bytes(store.get_cluster())))
    return store
