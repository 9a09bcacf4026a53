"""What SteadyShedder remembers from round to round: recent load and learned levels per broker,
its recent moves, and how well they worked.
"""

from collections.abc import Iterable
from struct import Struct
from typing import NamedTuple

import numpy as np

from strategies.bundles import Floats
from strategies.cluster.strategy_memory import NO_MEMORY, ClusterMemory, Memory

#: Figures above this are nonsense and count as this; sums of their squares stay finite.
LARGEST = 1e15
_ROW, _LEVEL = Struct("<4d"), Struct("<5d")
#: Bytes of a packed sample, and of a packed level.
ROW_BYTES, LEVEL_BYTES = _ROW.size, _LEVEL.size
packed, unpacked_at, rows = _ROW.pack, _ROW.unpack_from, _ROW.iter_unpack
packed_level, unpacked_level = _LEVEL.pack, _LEVEL.unpack_from


class LoadSample(NamedTuple):
    """A broker's load at a time (ms): usage (fraction), throughput (bytes/s in + out) and message
    rate (messages/s in + out).
    """

    at_ms: int
    usage: float
    throughput: float
    msg_rate: float


class LoadHistory(NamedTuple):
    """The load of one broker over time. Samples and levels are packed, because a round adds to
    those of thousands of brokers: little-endian float64, in the order of `LoadSample`, and as said
    below.
    """

    #: Newest last. The moves made since are counted in.
    packed_samples: bytes = b""
    #: Newest last, one per level of traffic: mean throughput, message rate and usage over samples
    #: with nearly equal traffic, their weight, and the time (ms) of the newest of them.
    packed_levels: bytes = b""
    #: Samples up to this time do not show the broker's last move, or gain or loss of bundles.
    changed_at_ms: int = -1
    #: Number of bundles in the newest report.
    bundles: int = 0
    #: The newest report showed a jump of usage without a change of traffic, which was not believed.
    doubted: bool = False
    #: Periods since its samples began again, until three of them show the same number of bundles; 0
    #: while none is awaited.
    waited: float = 0.0
    #: When its number of bundles last changed.
    recounted_at_ms: int = -1

    @property
    def samples(self) -> list[LoadSample]:
        """Newest last."""
        return [LoadSample(int(at_ms), *load) for at_ms, *load in rows(self.packed_samples)]


def columns(packed: bytes, width: int = 4) -> Floats:
    """float64[n, 4]: samples, read-only; levels with a width of 5."""
    return np.frombuffer(packed, "<f8").reshape(-1, width)


class RecentMove(NamedTuple):
    """A bundle that the strategy decided to move, its traffic (bytes/s, messages/s in + out), and
    the predicted changes of usage (fractions). `counted`: older samples of both brokers include it;
    `shown`: reports have shown that it was carried out; `held`: a limit of the round held it back,
    and a later round decides it again; `exchange`: number of the swap that it is half of, 0 for
    others.
    """

    bundle: str
    source: str
    destination: str
    at_ms: int
    throughput: float
    msg_rate: float
    source_loses: float
    destination_gains: float
    counted: bool = False
    shown: bool = False
    held: bool = False
    exchange: int = 0


class Episode(NamedTuple):
    """A series of rounds with moves that follow each other closely. Usages are fractions.

    `last_at_ms`: of the last moves; `spread_before`, `spread_predicted`: of the last plan;
    `judged`: their effect has been compared with the prediction; `idle_rounds`: rounds of moves in
    a row that brought less than a tenth of what they predicted; `caution`: factor of all limits, 1
    or more; `rests_until_ms`: no moves before this time; `error`: mean difference between predicted
    and seen usage after the last judged moves, None without any; `idle_moves`: number of moves
    of the idle rounds; `planned`: number of the last moves when they were decided;
    `judged_at_ms`: when moves were last compared with their prediction; `planned_at_ms`: when the
    last plan was made, whose moves limits may spread over many rounds; `planned_points`: the gap
    that it was for, in points; `looked_at_ms`: when persistence of load was last looked at, and
    `packed_looks`: what these looks saw, the newest last.
    """

    began_at_ms: int = -1
    last_at_ms: int = -1
    followed_up: bool = False
    spread_before: float = 0.0
    spread_predicted: float = 0.0
    judged: bool = True
    idle_rounds: int = 0
    caution: float = 1.0
    rests_until_ms: int = -1
    error: float | None = None
    idle_moves: int = 0
    planned: int = 0
    judged_at_ms: int = -1
    planned_at_ms: int = -1
    planned_points: float = 0.0
    looked_at_ms: int = -1
    packed_looks: bytes = b""


def histories_of(memory: Memory, brokers: Iterable[str]) -> dict[str, LoadHistory]:
    """The histories of those of these brokers that have one."""
    return {
        name: kept if isinstance(kept, LoadHistory) else LoadHistory(*kept)
        for name in brokers
        if (kept := memory.brokers.get(name, NO_MEMORY).history) is not None
    }


def episode_of(cluster: ClusterMemory) -> Episode:
    """The episode in memory; one of an earlier version has no looks."""
    episode = Episode(*cluster.episode)
    known = isinstance(episode.packed_looks, bytes)
    return episode if known else episode._replace(looked_at_ms=-1, packed_looks=b"")


def moves_of(cluster: ClusterMemory) -> list[RecentMove]:
    """The moves in memory, oldest first."""
    return [RecentMove(*one) for one in cluster.moves]
