"""The memory of strategies from round to round, per broker and per cluster."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

#: Memory of one strategy that no other module reads: texts, numbers, bytes, None, and mappings and
#: lists of these, which states keep as they are.
Private = tuple[Any, ...]
#: SteadyShedder's `Episode()` as a row. Every state with any cluster memory holds one, also with
#: another strategy.
NO_EPISODE: Private = (
    *(-1, -1, False, 0.0, 0.0, True, 0, 1.0, -1),
    *(None, 0, 0, -1, -1, 0.0, -1, b""),
)


@dataclass(frozen=True, slots=True)
class BrokerMemory:
    """Memory of strategies about one broker from round to round; None = no entry, which differs
    from zero.
    """

    #: ThresholdShedder: average usage (fraction).
    ewma: float | None = None
    #: LeastResourceUsageWithWeight: its own average usage (fraction).
    placement_ewma: float | None = None
    #: AvgShedder: rounds in a row above and below its thresholds.
    hit_high: int | None = None
    hit_low: int | None = None
    #: TransferShedder: average throughput (bytes/s), and time of its last decision to shed from the
    #: broker (ms since the epoch).
    throughput_ewma: float | None = None
    gave_at_ms: int | None = None
    #: Whatever else the strategy keeps.
    history: Private | None = None


#: Memory of a broker without any entry.
NO_MEMORY = BrokerMemory()


@dataclass(frozen=True, slots=True)
class ClusterMemory:
    """Memory of strategies about a cluster from round to round."""

    #: TransferShedder: rounds in a row in which the load was uneven.
    hits: int = 0
    #: Bundle (fixed mode) or exact value of its averages (parity mode, see AvgShedder) → the broker
    #: planned for it.
    planned: Mapping[str, str] = field(default_factory=dict)
    #: Name of a Java hash table → its capacity, on which the order of its entries depends (parity
    #: mode).
    table_sizes: Mapping[str, int] = field(default_factory=dict)
    #: The brokers that take bundles one after the other, and the position of the next one
    #: (RoundRobinBrokerSelector).
    rotation: tuple[str, ...] = ()
    turn: int = 0
    #: Bundle → number of rounds in a row in which it was too big (splits of the extensible load
    #: manager).
    split_hits: Mapping[str, int] = field(default_factory=dict)
    #: SteadyShedder's own.
    moves: tuple[Private, ...] = ()
    episode: Private = NO_EPISODE
    #: The resources by which brokers were not compared, because not all of them measure these.
    left_out: tuple[str, ...] = ()
    #: The last round waited because it would have left out other resources than these.
    others_measured: bool = False


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory per broker and per cluster. Strategies take it as an argument and return the new one;
    they never keep it.
    """

    #: Broker → its memory.
    brokers: Mapping[str, BrokerMemory] = field(default_factory=dict)
    cluster: ClusterMemory = ClusterMemory()
    #: Bundle → its source and its destination, planned in this round (AvgShedder of Pulsar 5.0).
    #: States do not hold it, so it ends with the round in every case.
    plan: Mapping[str, tuple[str, str]] = field(default_factory=dict)
