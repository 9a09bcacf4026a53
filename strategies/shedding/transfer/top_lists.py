"""The top lists of brokers, as their own reports would hold them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from strategies.cluster.model import BrokerLoad, BundleStats, ClusterView
from strategies.filters.policies import PoliciesView
from strategies.shedding.transfer.settings import OfferedBundle, TransferSettings
from strategies.shedding.transfer.topk import TopFault, TopSettings

#: Returns the rows of a broker's top list, or Java's exception.
Top = Callable[[BundleStats, PoliciesView, TopSettings], tuple[int, ...] | TopFault]


class TopLists(Mapping[str, Sequence[OfferedBundle]]):
    """Top lists by broker, each built on first access."""

    def __init__(
        self,
        brokers: Sequence[BrokerLoad],
        view: ClusterView,
        settings: TransferSettings,
        top_bundles: Top,
    ) -> None:
        self._brokers, self._view = {broker.broker: broker for broker in brokers}, view
        self._settings, self._top = (
            TopSettings(most=settings.top_bundles, with_policies=settings.with_policies),
            top_bundles,
        )
        self._made: dict[str, tuple[OfferedBundle, ...]] = {}

    def __getitem__(self, broker: str) -> tuple[OfferedBundle, ...]:
        if broker not in self._made:
            self._made[broker] = self._make(self._brokers[broker])
        return self._made[broker]

    def __contains__(self, broker: object) -> bool:
        return broker in self._brokers

    def __iter__(self) -> Iterator[str]:
        return iter(self._brokers)

    def __len__(self) -> int:
        return len(self._brokers)

    def _make(self, broker: BrokerLoad) -> tuple[OfferedBundle, ...]:
        loads = broker.bundles
        offered = np.array([not self._view.is_excluded(name) for name in loads.names], dtype=bool)
        stats = BundleStats(
            loads.names,
            np.where(offered[:, None], loads.current, 0.0),
            loads.topics,
            loads.sessions,
        )
        rows = self._top(stats, self._view.policies, self._settings)
        with np.errstate(over="ignore", invalid="ignore"):
            throughput = (loads.current[:, 2] + loads.current[:, 3]).tolist()
        return (
            ()
            if isinstance(rows, TopFault)
            else tuple(OfferedBundle(loads.names[row], throughput[row]) for row in rows)
        )
