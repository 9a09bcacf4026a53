"""Clusters that AvgShedder pairs, for the stories of both modes."""

from __future__ import annotations

from collections.abc import Mapping

from strategies.cluster.model import ClusterView
from tests.world.brokers import Load, broker, talking, view


def five_uneven_brokers() -> ClusterView:
    """Five brokers at 20, 30, 52, 70 and 80 %."""
    return view(
        broker("b1", 20.0, rate=500),
        broker("b2", 30.0, rate=3000),
        broker("b3", 52.0),
        broker("b4", 70.0, rate=2000, owned=talking(500, 500, first=8)),
        broker("b5", 80.0, rate=10_000, owned=talking(6000, 3000, 1000)),
    )


def ten_ninety(
    owned: Mapping[str, Load], *, rate: float = 0.0, mib: float = 0.0, fresh: bool = True
) -> ClusterView:
    """b1 at 10 %, b2 at 90 % with these bundles: urgent from the first round."""
    return view(
        broker("b1", 10.0, fresh=fresh), broker("b2", 90.0, mib, owned, rate=rate, fresh=fresh)
    )
