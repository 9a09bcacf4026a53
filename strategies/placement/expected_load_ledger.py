"""The load of every broker while a round decides: its report, plus the moves that no report shows
yet.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from strategies.bundles import namespace_of
from strategies.cluster.model import BrokerLoad
from strategies.figures.usage import weighted_usage, weighted_usages
from strategies.figures.usage_after_moves import burdened, share_of_traffic
from strategies.ordered_sum import ordered_sum
from strategies.placement.contract import UNKNOWN, Averages, Candidate
from strategies.settings import Weights

#: Number of namespaces counted one by one. Counting all namespaces at once takes as long as
#: counting some dozen.
_COUNTED_AT_MOST = 16


@dataclass(frozen=True, slots=True)
class CountedMove:
    """A bundle on its way. `shown`: the figures of both brokers already include the move, but their
    lists of bundles do not.
    """

    bundle: str
    source: str
    destination: str | None
    averages: Averages
    shown: bool = False


class Ledger:
    """Figures, bundles and topics of the brokers of one round. Tables are unpacked and counted on
    first access, and only once.
    """

    def __init__(self, brokers: Sequence[BrokerLoad], weights: Weights) -> None:
        self._brokers = {broker.broker: broker for broker in brokers}
        self._weights = weights
        self._figures = {broker.broker: broker.figures for broker in brokers}
        self._candidates: dict[str, Candidate] = {}
        self._served: dict[str, Mapping[str, int]] = {}
        self._counted: dict[str, dict[str, int]] = {}
        self._arriving: dict[str, dict[str, Averages]] = {}
        self._leaving: dict[str, dict[str, Averages]] = {}
        #: The counted moves, in their order.
        self.moves: list[CountedMove] = []

    def of_first(self, moves: int) -> "Ledger":
        """A ledger of the same brokers with this number of the moves counted so far."""
        other = Ledger(tuple(self._brokers.values()), self._weights)
        for move in self.moves[:moves]:
            other.count(move)
        return other

    def candidate(self, broker: str) -> Candidate | None:
        """A broker as candidate of a placement; None for a broker that is not in this round."""
        load = self._brokers.get(broker)
        if load is None:
            return None
        if broker not in self._candidates:
            usage, figures = weighted_usage(load.figures, self._weights), self._figures[broker]
            expected = usage if figures is load.figures else weighted_usage(figures, self._weights)
            arriving, leaving = self._arriving.get(broker, {}), self._leaving.get(broker, {})
            self._candidates[broker] = Candidate(
                load, usage, expected, dict(arriving), dict(leaving)
            )
        return self._candidates[broker]

    def candidates(self, brokers: Sequence[str]) -> Mapping[str, Candidate]:
        """Those of these brokers that are in this round, in the given order."""
        found = ((broker, self.candidate(broker)) for broker in brokers)
        return {broker: one for broker, one in found if one is not None}

    def emptiest_first(self) -> list[str]:
        """All brokers by expected usage and name."""
        expected = weighted_usages(tuple(self._figures.values()), self._weights).tolist()
        return [broker for _, broker in sorted(zip(expected, self._figures, strict=True))]

    def averages(self, bundle: str, broker: str) -> Averages:
        """Averages of a bundle from the table of its broker; Pulsar's defaults for a bundle that is
        not in it.
        """
        load = self._brokers.get(broker)
        row = None if load is None else load.bundles.row(bundle)
        if load is None or row is None:
            return UNKNOWN
        table = load.bundles
        samples = int(table.short_samples[row]), int(table.long_samples[row])
        return Averages(
            tuple(table.short[row].tolist()),
            tuple(table.long[row].tolist()),
            *samples,
            int(table.topics[row]),
        )

    def served(self, broker: str) -> Mapping[str, int]:
        """Namespace → number of bundles on a broker, moves included; no entry for none."""
        if broker not in self._served:
            load = self._brokers.get(broker)
            found = Counter(map(namespace_of, load.bundles.names if load is not None else ()))
            found.update(map(namespace_of, self._arriving.get(broker, ())))
            found.subtract(map(namespace_of, self._leaving.get(broker, ())))
            self._served[broker] = +found
        return self._served[broker]

    def bundles_of(self, namespace: str, broker: str) -> int:
        """The count of `served` for one namespace. The first few namespaces of a round are counted
        without unpacking tables.
        """
        load = self._brokers.get(broker)
        if broker in self._served or load is None or load.count_bundles is None:
            return self.served(broker).get(namespace, 0)
        if namespace not in self._counted and len(self._counted) == _COUNTED_AT_MOST:
            return self.served(broker).get(namespace, 0)
        counted = self._counted.setdefault(namespace, {})
        if broker not in counted:
            counted[broker] = load.count_bundles(namespace)
        arriving = _of_namespace(self._arriving.get(broker), namespace)
        leaving = _of_namespace(self._leaving.get(broker), namespace)
        return max(0, counted[broker] + arriving - leaving)

    def topics(self, broker: str) -> int:
        """Topics on a broker by its newest report, moves not included."""
        load = self._brokers.get(broker)
        if load is None:
            return 0
        return int(load.bundles.topics.sum()) if load.summary is None else load.summary.topics

    def arriving_topics(self, broker: str) -> int:
        """Topics of the bundles on their way to a broker."""
        arriving = self._arriving.get(broker, {}).values()
        return ordered_sum(averages.topics for averages in arriving) if arriving else 0

    def usage_with(self, broker: str, bundle: str, source: str) -> float:
        """Usage (fraction) of a broker after it takes this bundle too."""
        return self.usages_with((broker,), bundle, source)[broker]

    def usages_with(self, brokers: Sequence[str], bundle: str, source: str) -> dict[str, float]:
        """Broker → its usage (fraction) after it takes this bundle too, of these brokers."""
        load = self._brokers[source]
        share = share_of_traffic(load, bundle)
        return {
            broker: weighted_usage(
                burdened(self._figures[broker], load.figures, share), self._weights
            )
            for broker in brokers
        }

    def count(self, move: CountedMove) -> None:
        """Counts the move as done."""
        self.moves.append(move)
        load = self._brokers.get(move.source)
        if load is not None:
            self._leave(move)
        if move.destination is not None and move.destination in self._brokers:
            self._arriving.setdefault(move.destination, {})[move.bundle] = move.averages
            self._forget(move.destination)
        if load is None or move.shown:
            return
        share = share_of_traffic(load, move.bundle)
        self._figures[move.source] = burdened(self._figures[move.source], load.figures, -share)
        if move.destination in self._figures:
            self._figures[move.destination] = burdened(
                self._figures[move.destination], load.figures, share
            )

    def _leave(self, move: CountedMove) -> None:
        """Counts the bundle as gone from its source, unless the source no longer lists it."""
        if self._brokers[move.source].bundles.row(move.bundle) is not None:
            self._leaving.setdefault(move.source, {})[move.bundle] = move.averages
        self._forget(move.source)

    def _forget(self, broker: str) -> None:
        self._candidates.pop(broker, None)
        self._served.pop(broker, None)


def _of_namespace(moving: Mapping[str, Averages] | None, namespace: str) -> int:
    """Number of bundles of a namespace among those that move."""
    return sum(namespace_of(bundle) == namespace for bundle in moving) if moving else 0
