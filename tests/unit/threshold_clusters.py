"""Clusters that ThresholdShedder judges, for the stories of both modes."""

from __future__ import annotations

from strategies.cluster.model import BrokerLoad, ClusterView
from tests.world.brokers import broker, bundles, view


def forty_ten_ten(b1: BrokerLoad) -> tuple[BrokerLoad, ...]:
    return b1, broker("b2", 10.0, 25.0), broker("b3", 10.0, 25.0)


def hot_then_balanced() -> tuple[ClusterView, ClusterView]:
    """b1 at 80 % beside b2 at 20 %, and both at 50 % after the larger part has moved."""
    hot = view(
        broker("b1", 80.0, 100.0, bundles(60, 40)),
        broker("b2", 20.0, 20.0, bundles(10, 10, first=4)),
    )
    balanced = view(
        broker("b1", 50.0, 60.0, bundles(60, 40)),
        broker("b2", 50.0, 60.0, bundles(10, 10, first=4)),
    )
    return hot, balanced
