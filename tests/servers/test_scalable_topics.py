"""Scalable topics of a real Pulsar 5.0: where its segments are, which the simulation models."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from pulsar_rebalancer.lab.simulation.segments import HASHES, Segment
from strategies.bundles import parse_bundle, topic_hash
from tools.servers.pulsar_cluster import PulsarCluster, token_of
from tools.waiting import eventually

pytestmark = [pytest.mark.servers, pytest.mark.slow]


@pytest.mark.parametrize("kind", ["pulsar50", "guarded_pulsar50"], ids=["modular", "extensible"])
def test_segments_are_in_the_bundles_of_their_names(cluster: PulsarCluster, tmp_path: Path) -> None:
    topic = f"{cluster.namespace(f't/{tmp_path.name}', 16)}/scaled"
    cluster.put(f"scalable/{topic}", None)
    cluster.post(f"scalable/{topic}/split/0", None)
    split = named(topic, [(0, HASHES - 1), (0, HASHES // 2 - 1), (HASHES // 2, HASHES - 1)])

    eventually(lambda: set(placed(cluster, topic)) == split, 60, "not all segments are loaded")
    for segment, bundle in placed(cluster, topic).items():
        assert holds(bundle, topic_hash(segment)), (segment, bundle)

    cluster.post(f"scalable/{topic}/merge/1/2", None)
    whole = f"segment://{topic}/0000-ffff-3"
    eventually(lambda: whole in placed(cluster, topic), 60, "the merged segment is not loaded")
    assert holds(placed(cluster, topic)[whole], topic_hash(whole))


def named(topic: str, ranges: list[tuple[int, int]]) -> set[str]:
    """The names that the simulation gives to segments, numbered in turn."""
    segments = [Segment(number, *hashes) for number, hashes in enumerate(ranges)]
    return {f"segment://{topic}/{one.range_name}" for one in segments}


def holds(bundle: str, hash_: int) -> bool:
    parsed = parse_bundle(bundle)
    assert parsed is not None
    return parsed[1].lower <= hash_ < parsed[1].upper


def placed(cluster: PulsarCluster, topic: str) -> dict[str, str]:
    """Segment → bundle, of all segments that a broker has loaded."""
    namespace = topic.rpartition("/")[0]
    return {
        name: f"{namespace}/{range_}"
        for broker in cluster.brokers
        for range_, topics in loaded(cluster, broker).get(namespace, {}).items()
        for name in topics.get("persistent", {})
        if name.startswith(f"segment://{topic}/")
    }


def loaded(cluster: PulsarCluster, broker: str) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {token_of('admin')}"} if cluster.guarded else {}
    url = f"http://{broker}/admin/v2/broker-stats/topics"
    return httpx.get(url, headers=headers, timeout=30).json()  # type: ignore[no-any-return]
