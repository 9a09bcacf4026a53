"""A modelled cluster while it runs: who owns which bundle now, what each statistics period measured, what a move changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from rebalancer.simulation.model import ClusterModel
from strategies.bundles.bundle_loads import RATE_IN, RATE_OUT, Floats, Ints
from strategies.model import Figures, Traffic

#: Pulsar's long-term averages are over at most this many samples.
LONG_TERM_SAMPLES = 1000


@dataclass(frozen=True, slots=True, eq=False)
class BrokerReport:
    """What one broker reports in one statistics period, before it is written as JSON.

    `rows`: indices of its bundles in the model, in the order in which it took them over; `traffic`: float64[rows, 4].
    """

    model: ClusterModel
    broker: str
    ts: int
    measured_at_ms: int
    figures: Figures
    rows: Ints
    traffic: Floats
    gains: tuple[str, ...] = ()
    losses: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.model.bundles[row].name for row in self.rows)


class SimulatedCluster:
    """Ownership and traffic of a modelled cluster at one instant of virtual time; changes only by `measure`, `move` and `carry`."""

    def __init__(self, model: ClusterModel, owners: Mapping[str, str]) -> None:
        """`owners`: bundle → broker, in the order in which brokers took their bundles over. Raises KeyError for unknown names."""
        self.model = model
        self.period = -1
        self._bundle_rows = {bundle.name: row for row, bundle in enumerate(model.bundles)}
        self._broker_rows = {broker.name: row for row, broker in enumerate(model.brokers)}
        self._owned: dict[str, list[int]] = {broker.name: [] for broker in model.brokers}
        self._owner: dict[int, str] = {}
        for bundle, broker in owners.items():
            self._owned[broker].append(self._bundle_rows[bundle])
            self._owner[self._bundle_rows[bundle]] = broker
        self._reported: dict[str, frozenset[int]] = {broker.name: frozenset() for broker in model.brokers}
        self._base = model.base_traffic()
        self._traffic = self._base
        self._long_rate = np.zeros(len(model.bundles))

    @property
    def brokers(self) -> tuple[str, ...]:
        return tuple(self._broker_rows)

    def owner(self, bundle: str) -> str | None:
        """The broker that serves the bundle; None for a bundle that does not exist or that nobody serves."""
        row = self._bundle_rows.get(bundle)
        return None if row is None else self._owner.get(row)

    def measure(self) -> None:
        """One more statistics period: new traffic figures for every bundle, and one more sample in their long-term rates."""
        self.period += 1
        self._traffic = self.model.traffic_at(self._base, self.period)
        rate = self._traffic[:, RATE_IN] + self._traffic[:, RATE_OUT]
        samples = min(self.period + 1, LONG_TERM_SAMPLES)
        self._long_rate = ((samples - 1) * self._long_rate + rate) / samples

    def move(self, bundle: str, destination: str) -> None:
        """Takes the bundle to another broker at once; its clients follow. Raises KeyError for names that do not exist."""
        row = self._bundle_rows[bundle]
        target = self._owned[destination]
        if row in self._owner:
            self._owned[self._owner[row]].remove(row)
        target.append(row)
        self._owner[row] = destination

    def carry(self, bundle: str, msg_rate_in: float) -> None:
        """From the next period on the bundle takes in this many messages/s. Raises KeyError for an unknown bundle."""
        row = self._bundle_rows[bundle]
        self._base[row] = replace(self.model.bundles[row], msg_rate_in=msg_rate_in).traffic()

    def long_term_rate(self, broker: str) -> float:
        """Sum of the long-term messages/s in + out of the bundles it serves."""
        return float(self._long_rate[self._owned[broker]].sum())

    def figures(self, broker: str) -> Figures:
        """What the broker measured in this period, given the bundles it serves now."""
        row = self._broker_rows[broker]
        owned = self._owned[broker]
        traffic = Traffic(*(float(total) for total in self._traffic[owned].sum(axis=0)))
        factor = float(self.model.cpu_factors(max(self.period, 0))[row])
        return self.model.brokers[row].hardware.figures(traffic, len(owned), factor)

    def report(self, broker: str, ts: int, measured_at_ms: int) -> BrokerReport:
        """The broker's report; bundles gained and lost since its previous one are named in it once."""
        rows = self._owned[broker]
        before, now = self._reported[broker], frozenset(rows)
        self._reported[broker] = now
        return BrokerReport(
            model=self.model,
            broker=broker,
            ts=ts,
            measured_at_ms=measured_at_ms,
            figures=self.figures(broker),
            rows=np.array(rows, dtype=np.int64),
            traffic=self._traffic[rows],
            gains=self._names(row for row in rows if row not in before),
            losses=self._names(sorted(before - now)),
        )

    def _names(self, rows: Iterable[int]) -> tuple[str, ...]:
        return tuple(self.model.bundles[row].name for row in rows)
