"""The topics of one hot bundle, as its owner reports them: the largest by name, others as sums."""

from dataclasses import dataclass

#: Number of topics that a record names at most, and of bundles that a state remembers, and
#: for how many ms.
MOST_TOPICS, MOST_BUNDLES, TOPICS_MS = 64, 16, 900_000


@dataclass(frozen=True, slots=True)
class TopicLoad:
    """Traffic of one topic, or of one partition: messages/s and bytes/s, in + out."""

    #: Complete name, such as persistent://t/ns/orders-partition-3.
    name: str
    msg_rate: float
    throughput: float


@dataclass(frozen=True, slots=True)
class TopicsOfBundle:
    """The loaded topics of a bundle. The record has no part in the cluster's time."""

    cluster: str
    broker: str
    ts: int
    bundle: str
    #: Largest throughput first.
    topics: tuple[TopicLoad, ...]
    #: Number of the other topics, and their messages/s and bytes/s together.
    others: int = 0
    others_msg_rate: float = 0.0
    others_throughput: float = 0.0
    #: Number of partitions of the first topic's name, 0 = not partitioned; None = unknown.
    partitions: int | None = None
    #: Dispatch limits of the first topic that are in force, messages/s and bytes/s, -1 = no limit;
    #: None = unknown.
    dispatch: tuple[int, int] | None = None
    origin: bytes = b""
