"""The data that a viewer may see at one moment: immutable, and shared by all viewers."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from pulsar_rebalancer.decisions.live.packed_rounds import PackedRound
from pulsar_rebalancer.decisions.log import DecisionLog
from pulsar_rebalancer.decisions.read_status import CollectionPass

T = TypeVar("T")


class OnceMade:
    """Documents made from a snapshot: each once, by the first viewer who asks for it. One may be
    made from another.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._made: dict[str, object] = {}

    def get(self, name: str, make: Callable[[], T]) -> T:
        """The document of this name."""
        with self._lock:
            if name not in self._made:
                self._made[name] = make()
            return self._made[name]  # type: ignore[return-value]


@dataclass(frozen=True)
class LiveDecisions:
    """The decisions about one cluster. `version`: number of the newest change; `rounds`: the newest
    ones, oldest first; `log`: the same with their commands and outcomes, and what people decided.
    """

    version: int = 0
    rounds: tuple[PackedRound, ...] = ()
    log: DecisionLog = DecisionLog(has_outcomes=True)
    made: OnceMade = field(default_factory=OnceMade, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class LiveCluster:
    """One cluster. `version`: number of its newest change; `now_ms`: when this was made;
    `report_ms`: time of the newest report; `rejected`: reason code → number of records.
    """

    cluster: str
    version: int
    now_ms: int
    decisions: LiveDecisions = LiveDecisions()
    report_ms: int | None = None
    sweep: CollectionPass | None = None
    rejected: Mapping[str, int] = field(default_factory=dict)
    made: OnceMade = field(default_factory=OnceMade, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class TopicHealth:
    """The state of reading a topic. `records`: number of records read; `error`: why it is not read,
    as a sentence, empty if it is; `since_ms`: time of the first failure; `caught_up`: whether all
    records that existed at the start were read.
    """

    name: str
    uri: str
    records: int = 0
    error: str = ""
    since_ms: int | None = None
    caught_up: bool = False


@dataclass(frozen=True, slots=True)
class LiveSnapshot:
    """All clusters by name. `version`: number of the newest change; `topics`: in the order of the
    settings; `paused`: whether the pause file of this machine exists, None = unknown; `starting`:
    the newest line of a job of this machine that starts, otherwise empty; `left_out`: number of
    records of clusters above the limit; `skipped`: number of records that are no round, command or
    outcome.
    """

    version: int = 0
    clusters: Mapping[str, LiveCluster] = field(default_factory=dict)
    topics: tuple[TopicHealth, ...] = ()
    paused: bool | None = None
    starting: str = ""
    left_out: int = 0
    skipped: int = 0
