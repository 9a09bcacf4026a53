"""Scalable topics of Pulsar 5.0 in the simulation: when segments are split and merged, in which
bundles they are, and what a bundle's load then does.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from pulsar_rebalancer.lab.simulation.broker_measurements import World
from pulsar_rebalancer.lab.simulation.clusters import drawn_world
from pulsar_rebalancer.lab.simulation.demand import SegmentedFlow
from pulsar_rebalancer.lab.simulation.scenarios.default_bundles import default_bundles
from pulsar_rebalancer.lab.simulation.scenarios.schema import Scenario
from pulsar_rebalancer.lab.simulation.segments import HASHES, Keys, Segment, Segments, segments_of
from strategies.bundles import parse_bundle
from tests.modelled import a_scenario

EVEN = Keys(np.ones(1))
A_MINUTE = 6


def grown(
    minutes: Sequence[float], keys: Keys = EVEN, rules: Segments | None = None
) -> tuple[Segment, ...]:
    """The segments of a topic with so many messages/s of 1,000 bytes in each minute; each is read
    once.
    """
    rates = np.repeat(np.array(minutes), A_MINUTE)
    return segments_of(rules or Segments(), keys, 1000.0, rates, rates)


def active(segments: Sequence[Segment], minute: float) -> list[Segment]:
    at = minute * 60
    return sorted(
        (one for one in segments if one.begin_s <= at < one.end_s), key=lambda one: one.low
    )


def counts(segments: Sequence[Segment], minutes: int) -> list[int]:
    return [len(active(segments, minute + 0.5)) for minute in range(minutes)]


def test_the_hottest_segment_is_split_in_the_middle_one_a_minute() -> None:
    found = grown([35_000] * 8)
    assert counts(found, 8) == [1, 2, 3, 4, 4, 4, 4, 4]
    assert [one.range_name for one in found[:3]] == ["0000-ffff-0", "0000-7fff-1", "8000-ffff-2"]
    assert [(one.number, one.end_s) for one in found if one.end_s < 1e9] == [
        (0, 60.0),
        (1, 120.0),
        (2, 180.0),
    ]


def test_of_two_hot_segments_the_hotter_one_comes_first() -> None:
    found = grown([30_000] * 3, Keys(np.array([1.0, 2.0])))
    assert [one.number for one in found if one.end_s == 120.0] == [2]


def test_cold_neighbours_are_merged_after_five_minutes_and_one_pair_in_five() -> None:
    """The last pair waits for the record of the segment that was merged five minutes before."""
    found = grown([35_000] * 5 + [400] * 20)
    assert counts(found, 25) == [1, 2, 3] + [4] * 8 + [3] * 5 + [2] * 6 + [1] * 3
    last = active(found, 24)[0]
    assert (last.low, last.high, last.merges) == (0, HASHES - 1, 2)


def test_a_topic_between_the_thresholds_stays_as_it_is() -> None:
    assert counts(grown([18_000] + [6_000] * 20), 21) == [1] + [2] * 20


def test_a_rise_that_is_not_reported_splits_nothing() -> None:
    """A load record is written only after a change of a quarter."""
    assert counts(grown([9_000] + [11_000] * 5), 6) == [1] * 6
    assert counts(grown([9_000] + [11_500] * 5), 6) == [1, 1, 2, 2, 2, 2]


def test_bytes_and_what_is_read_split_as_well() -> None:
    rates = np.full(6, 2_000.0)
    assert len(segments_of(Segments(), EVEN, 30_000.0, rates, rates)) == 3
    assert len(segments_of(Segments(), EVEN, 1_000.0, rates, rates * 30)) == 3
    assert len(segments_of(Segments(), EVEN, 1_000.0, rates, rates * 20)) == 1


def test_the_limits_of_the_policy_hold() -> None:
    waves = ([35_000] * 4 + [400] * 26) * 4
    assert max(counts(grown(waves, rules=Segments(max_segments=3)), 120)) == 3
    assert min(counts(grown(waves, rules=Segments(min_segments=2, initial=2)), 120)) == 2
    once = grown(waves, rules=Segments(max_dag_depth=1))
    assert max(one.merges for one in once) == 1
    assert grown(waves, rules=Segments(max_dag_depth=0))[-1].merges == 0


def scenario(**changes: Any) -> Scenario:
    """Two scalable topics, 64 MiB/s for minutes 2 to 12, 4 MiB/s otherwise."""
    flow = {
        "name": "scaled",
        "mib_in": 4,
        "fan_out": 2,
        "segments": {"topics": 2},
        "wave": {"kind": "steps", "at": [[2, 16], [12, 1]]},
    }
    told: dict[str, Any] = {"minutes": 30, "bundles": 16, "traffic": [flow]}
    return a_scenario("abc", cpu_per_mib=3, **(told | changes))


def measured(world: World, minutes: int) -> list[np.ndarray[Any, np.dtype[np.float64]]]:
    """Bytes/s in of each bundle, minute by minute."""
    found = []
    for minute in range(1, minutes + 1):
        world.measure(minute * 60.0)
        found.append(world.sampled[2].copy())
    return found


def flow_of(world: World) -> SegmentedFlow:
    (flow,) = world.demand.flows
    assert isinstance(flow, SegmentedFlow)
    return flow


def test_a_burst_is_in_two_bundles_at_first_and_in_many_later() -> None:
    world = drawn_world(scenario(), 1)
    parts = measured(world, 12)
    busy = [np.count_nonzero(part > 2**20) for part in parts]
    assert busy[:2] == [2, 2]
    assert busy[10] > 4
    assert parts[10].max() < parts[2].max() / 2
    assert parts[10].sum() == pytest.approx(64 * 2**20)
    assert world.sampled[3].sum() == pytest.approx(2 * world.sampled[2].sum())


def test_topics_are_the_segments_of_the_moment() -> None:
    world = drawn_world(scenario(), 1)
    assert world.demand.topics.sum() == 2
    most = 0
    for minute in range(1, 31):
        world.measure(minute * 60.0)
        most = max(most, int(world.demand.topics.sum()))
    assert most == 8
    assert world.demand.topics.sum() < 8


@pytest.mark.parametrize("share", [0.5, 0.25])
def test_a_split_of_a_bundle_parts_segments_by_their_hashes(share: float) -> None:
    world = drawn_world(scenario(bundles=2), 3)
    before = measured(world, 8)[-1]
    low = parse_bundle(world.names[0])
    assert low is not None
    middle = int(low[1].upper - share * (low[1].upper - low[1].lower))
    where = flow_of(world).places.copy()
    there = flow_of(world).rows == 0

    world.split(0, middle)

    flow = flow_of(world)
    assert ((flow.rows == 2) == (there & (where >= 1.0 - share))).all()
    assert ((flow.places >= 0) & (flow.places < 1)).all()
    world.measure(9 * 60.0)
    assert len(world.demand.topics) == 3
    of_a_minute = np.full(3, 420.0), np.full(3, 480.0), np.zeros(3, dtype=np.int64)
    after = world.demand.together(world.demand.parts(*of_a_minute))[2]
    assert after.sum() == pytest.approx(before.sum())


def test_seeds_put_segments_into_other_bundles_and_the_same_seed_into_the_same() -> None:
    rows = [flow_of(drawn_world(scenario(), seed)).rows.tolist() for seed in (1, 1, 2)]
    assert rows[0] == rows[1] != rows[2]


def test_segments_are_in_the_bundles_of_their_own_namespace() -> None:
    named = scenario(
        bundles="5.0",
        namespaces=[{"name": "t/other"}, {"name": "t/scaled"}],
        traffic=[{"name": "x", "namespace": "t/scaled", "mib_in": 40, "segments": {}}],
    )
    rows = flow_of(drawn_world(named, 1)).rows
    assert rows.min() >= 32
    assert rows.max() < 64


def test_a_namespace_has_the_bundles_of_its_release() -> None:
    names = [{"name": name} for name in ("public/default", "pulsar/system", "t/n")]
    flow = {"name": "x", "namespace": "t/n", "mib_in": 1}
    for release, expected in (("4.2", [16, 16, 4]), ("5.0", [32, 64, 32])):
        made = scenario(bundles=release, namespaces=names, traffic=[flow])
        assert [len(rows) for rows in made.places.values()] == expected
        assert made.bundles == sum(expected)
        assert [default_bundles(release, one["name"]) for one in names] == expected
