"""What must hold of every split, every look at bundles and every report."""

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_rebalancer.lab.conformance.split_algorithms import bundle_of
from pulsar_rebalancer.lab.simulation.demand import initial_boundaries
from strategies.bundles import FULL
from strategies.cluster.model import BundleStats
from strategies.filters.policies import PoliciesView
from strategies.shedding.transfer.topk import TopFault, TopSettings, java_top_bundles, top_bundles
from strategies.splitting.bundle_limits import SplitSettings
from strategies.splitting.when_extensible import BrokerContext, extensible_splits
from strategies.splitting.when_modular import modular_splits
from tests.properties.legal import seeds
from tests.world.brokers import ns
from tests.world.splits import broker, stats

sizes = st.tuples(
    st.sampled_from([0, 1, 2, 999, 1000, 1001, 2002]),
    st.sampled_from([0, 1000, 1001]),
    st.sampled_from([0.0, 30_000.0, 30_001.0]) | st.floats(0, 1e15),
    st.sampled_from([0.0, 104_857_600.0, 104_857_601.0]) | st.floats(0, 1e15),
)
NAMES = [
    *(ns(k) for k in range(8)),
    *(ns(k, "t/ns2") for k in range(4)),
    "t/ns/0x00000005_0x00000006",
    "pulsar/b1:1/0x00000000_0xffffffff",
]
tables = st.dictionaries(st.sampled_from(NAMES), sizes, max_size=8)
limits = st.builds(
    SplitSettings,
    max_topics=st.sampled_from([0, 1, 1000]),
    max_bandwidth_mib=st.sampled_from([0, 100, 2048, 5000]),
    max_bundles=st.integers(0, 8),
    hit_count=st.integers(0, 3),
    max_splits=st.integers(1, 4),
)


@given(tables, limits, st.integers(0, 6), seeds)
def test_the_order_of_bundles_changes_nothing(
    table: dict[str, Any], limit: SplitSettings, existing: int, seed: int
) -> None:
    mixed = list(table.items())
    random.Random(seed).shuffle(mixed)
    around = BrokerContext(
        "b1:1", lambda _: existing, lambda _: (5,), lambda bundle: bundle != ns(1), [ns(2)]
    )
    hits = {name: index % 5 for index, name in enumerate(NAMES)}
    one = extensible_splits(stats(table), hits, around, limit)
    other = extensible_splits(stats(dict(mixed)), hits, around, limit)
    assert (one.decisions, one.hits, sorted(one.failed)) == (
        other.decisions,
        other.hits,
        sorted(other.failed),
    )
    assert len(one.decisions) <= limit.max_splits
    two = modular_splits([broker("b1:1", table)], lambda _: existing, limit)
    assert (
        two.decisions
        == modular_splits([broker("b1:1", dict(mixed))], lambda _: existing, limit).decisions
    )


small = st.sampled_from([0.0, 49_999.0, 50_000.0, 149_999.0, 150_000.0, 1e6]) | st.floats(0, 1e9)


@pytest.mark.heavy
@given(st.lists(st.tuples(small, small), max_size=20), st.integers(0, 12), seeds)
def test_reports_are_ascending_and_no_longer_than_asked(
    rows: list[tuple[float, float]], most: int, seed: int
) -> None:
    names = tuple(ns(index % 8, f"t/n{index}") for index in range(len(rows)))
    traffic = np.array([(0.0, 0.0, into, out) for into, out in rows]).reshape(-1, 4)
    one = np.ones(len(rows), dtype=np.int64)
    mixed = list(range(len(rows)))
    random.Random(seed).shuffle(mixed)
    turned = BundleStats(tuple(names[row] for row in mixed), traffic[mixed], one, one)
    java = java_top_bundles(
        BundleStats(names, traffic, one, one), PoliciesView(), TopSettings(most)
    )
    ours = top_bundles(BundleStats(names, traffic, one, one), PoliciesView(), TopSettings(most))
    other = top_bundles(turned, PoliciesView(), TopSettings(most))
    assert not isinstance(ours, TopFault)
    assert not isinstance(other, TopFault)
    assert [names[row] for row in ours] == [turned.names[row] for row in other]
    steps = [tuple(int(np.floor(one / 1e5 + 0.5)) for one in row) for row in rows]
    weights = [steps[row] for row in ours]
    assert weights == sorted(weights)
    if most:
        assert not isinstance(java, TopFault)
        assert len(java) == len(ours) == min(most, sum(into + out > 0 for into, out in rows))
        assert weights == [steps[row] for row in java]


edges = st.integers(0, FULL) | st.sampled_from([0, 1, 2, FULL - 1, FULL, 2**31])


@given(st.integers(1, 200), edges)
def test_every_hash_but_the_largest_has_a_bundle(bundles: int, hash_: int) -> None:
    boundaries = initial_boundaries(bundles)
    assert list(boundaries) == sorted(set(boundaries))
    found = bundle_of(hash_, boundaries)
    assert found is None if hash_ == FULL else found is not None and hash_ in found
