"""What shedders see, one line per broker: cpu in percent, traffic in MiB/s (`Load.rate` in
messages/s).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from strategies.bundles import BundleLoads
from strategies.cluster.model import BrokerLoad, ClusterView, Figures, Resource, Traffic
from strategies.settings import Mode, Weights
from strategies.shedding.contract import Shedder
from strategies.shedding.registry import SHEDDERS

MIB = 1048576
WEIGHTS = Weights()


def shedder(name: str, settings: object | None, weights: Weights, mode: Mode) -> Shedder:
    """The strategy called `name`; `settings` None means its defaults."""
    return SHEDDERS.named(name).build(SHEDDERS.settings_of(name, settings), weights, mode)


def ns(k: int, namespace: str = "t/ns") -> str:
    """`t/ns/0xk0000000_0x(k+1)0000000`"""
    return f"{namespace}/0x{k:x}0000000_0x{k + 1:x}0000000"


@dataclass(frozen=True)
class Load:
    """Short-term traffic of a bundle, inbound only."""

    mib: float = 0.0
    rate: float = 0.0


def bundles(*mib: float, first: int = 0) -> dict[str, Load]:
    """Bundles ns(first), ns(first + 1), … with so much throughput."""
    return {ns(first + index): Load(mib=load) for index, load in enumerate(mib)}


def talking(*rates: float, first: int = 0) -> dict[str, Load]:
    """Bundles ns(first), ns(first + 1), … with so many messages/s."""
    return {ns(first + index): Load(rate=rate) for index, rate in enumerate(rates)}


def broker(
    name: str,
    cpu: float,
    mib: float = 0.0,
    owned: Mapping[str, Load] | None = None,
    *,
    rate: float = 0.0,
    unknown: int = 0,
    fresh: bool = True,
    settling: bool = False,
) -> BrokerLoad:
    """A broker at `cpu` of 100. `unknown`: bundles it serves that nobody has averages of."""
    table = loads(owned or {})
    figures = Figures(
        cpu=Resource(cpu, 100.0),
        traffic=Traffic(msg_rate_in=rate, msg_throughput_in=mib * MIB),
        bundle_count=len(table.names) + unknown,
    )
    return BrokerLoad(f"{name}:1", figures, lambda: table, fresh, settling)


def loads(owned: Mapping[str, Load]) -> BundleLoads:
    """Averages with full sample counts."""
    columns = np.array(
        [(load.rate, 0.0, load.mib * MIB, 0.0) for load in owned.values()], dtype=np.float64
    ).reshape(-1, 4)
    ones = np.ones(len(owned), dtype=np.int64)
    return BundleLoads(
        tuple(owned), columns, columns, 10 * ones, 1000 * ones, 0 * ones, 0 * ones, columns
    )


def view(*brokers: BrokerLoad, cooling: Iterable[str] = ()) -> ClusterView:
    return ClusterView("c", 0, brokers, frozenset(cooling))
