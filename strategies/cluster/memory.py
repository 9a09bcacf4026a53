"""The memory of strategies from round to round, per broker and per cluster."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

#: What only the strategy that wrote it understands: texts, numbers, bytes, None, and mappings and
#: lists of these, which states keep as they are.
Private = tuple[Any, ...]
#: SteadyShedder's `Episode()`: the rows of states have it wherever a cluster has any memory.
NO_EPISODE: Private = (
    *(-1, -1, False, 0.0, 0.0, True, 0, 1.0, -1),
    *(None, 0, 0, -1, -1, 0.0, -1, -1),
)


@dataclass(frozen=True, slots=True)
class BrokerMemory:
    """Memory of strategies about one broker from round to round; None = no entry (which differs
    from zero).

    `ewma`: ThresholdShedder's history (fraction). `placement_ewma`: LeastResourceUsageWithWeight's
    own history.
    `hit_high`, `hit_low`: AvgShedder's hit counts. `throughput_ewma` (bytes/s), `gave_at_ms` (last
    decision to shed): TransferShedder's. `history`: whatever else the strategy keeps.
    """

    ewma: float | None = None
    placement_ewma: float | None = None
    hit_high: int | None = None
    hit_low: int | None = None
    throughput_ewma: float | None = None
    gave_at_ms: int | None = None
    history: Private | None = None


#: Memory of a broker without any entry.
NO_MEMORY = BrokerMemory()


@dataclass(frozen=True, slots=True)
class ClusterMemory:
    """Memory of strategies about a cluster: consecutive hits, planned destinations, sizes of Java
    hash tables (parity mode).

    `planned` maps a bundle (fixed mode) or the exact value of its averages (parity mode, see
    AvgShedder) to a broker. `rotation`, `turn`: the brokers that take bundles one after the other,
    and the position of the next one (RoundRobinBrokerSelector). `split_hits`: bundle → number of
    rounds in a row in which it was too big (splits of the extensible load manager). `moves`,
    `episode`: SteadyShedder's own.
    `left_out`: the resources by which brokers were not compared, because not all of them measure
    these; `others_measured`: in the last round, they were others.
    """

    hits: int = 0
    planned: Mapping[str, str] = field(default_factory=dict)
    table_sizes: Mapping[str, int] = field(default_factory=dict)
    rotation: tuple[str, ...] = ()
    turn: int = 0
    split_hits: Mapping[str, int] = field(default_factory=dict)
    moves: tuple[Private, ...] = ()
    episode: Private = NO_EPISODE
    left_out: tuple[str, ...] = ()
    others_measured: bool = False


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory per broker and per cluster. Strategies take it as an argument and return the new one;
    they never keep it.
    """

    brokers: Mapping[str, BrokerMemory] = field(default_factory=dict)
    cluster: ClusterMemory = ClusterMemory()
    #: Bundle → its source and its destination, planned in this round (AvgShedder of Pulsar 5.0).
    #: No state keeps it, so it ends with the round, whatever happens in it.
    plan: Mapping[str, tuple[str, str]] = field(default_factory=dict)
