"""Epochs on a topic: a new job takes the next one, and two jobs that write at the same time can be
detected.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import msgspec

from sinks.topics.open_topics import Skipped, readable, records_of
from sinks.topics.topic_settings import NO_SECURITY, TopicAccess, TopicUri
from sinks.wire.contracts.execution import LARGEST_INTEGER, Count, Version
from sinks.wire.decode_complaints import complaint
from strategies.errors import SinkError


class EpochOnly(msgspec.Struct):
    """Cluster and epoch of a command or round."""

    cluster: str
    epoch: Count


class StateOnly(msgspec.Struct):
    """The state of a round."""

    code: str


class RoundEpoch(EpochOnly):
    """Identity of a round: epoch, number, and what distinguishes two jobs of one epoch: closing
    time and commands. And its state.
    """

    v: Version = 1
    round: Count = 0
    ts: int = 0
    commands: tuple[str, ...] = ()
    state: StateOnly | None = None

    @property
    def is_set_aside(self) -> bool:
        """True if no rule could judge the cluster (decisions 0253, 0254)."""
        return self.state is not None and self.state.code == "set-aside"


@dataclass(slots=True)
class History:
    """Epochs of one cluster's rounds in the order of the topic.

    `late`: number of rounds of an older epoch after a newer one began, the last of them of epoch
    `overtaken`; `since`: number of rounds after the last of these. `differing`: number of rounds of
    the newest epoch that were repeated with different content.
    """

    seen: set[int] = field(default_factory=set)
    newest: int = 0
    late: int = 0
    overtaken: int = 0
    since: int = 0
    differing: int = 0
    _contents: dict[int, int] = field(default_factory=dict)

    def add(self, record: RoundEpoch) -> None:
        """Adds the next round of the topic."""
        self.seen.add(record.epoch)
        if record.epoch < self.newest:
            self.late, self.overtaken, self.since = self.late + 1, record.epoch, 0
            return
        if record.epoch > self.newest:
            self.differing, self._contents = 0, {}
        self.newest, self.since = record.epoch, self.since + 1
        content = hash((record.ts, record.commands))
        self.differing += self._contents.setdefault(record.round, content) != content


def epochs_in(values: Iterable[bytes]) -> Iterator[EpochOnly]:
    """Epochs of commands or rounds. Skips unreadable records; the readers of their content report
    them.
    """
    for value in values:
        try:
            yield msgspec.json.decode(value, type=EpochOnly)
        except (ValueError, RecursionError):
            continue


def values_of(
    topic: TopicUri, access: TopicAccess = NO_SECURITY, on_record: Callable[[], None] = lambda: None
) -> Iterator[bytes]:
    """All present records of a topic. `on_record`: called at each one, for a process that must show
    that it works. Raises SettingsError, SinkError.
    """
    for record in records_of(topic, access):
        on_record()
        yield record.value


def next_epoch(
    topics: Sequence[TopicUri],
    access: TopicAccess = NO_SECURITY,
    on_record: Callable[[], None] = lambda: None,
) -> int:
    """One more than the highest epoch on the topics, 1 on empty topics. `on_record`: called at each
    of their records. Raises SettingsError, SinkError.
    """
    highest = max(
        (
            record.epoch
            for topic in topics
            for record in epochs_in(values_of(topic, access, on_record))
        ),
        default=0,
    )
    if highest >= LARGEST_INTEGER:
        raise SinkError(
            f"the topics {', '.join(map(str, topics))} contain epoch {highest}, the highest "
            "possible: use new topics"
        )
    return highest + 1


def histories(
    topic: TopicUri, access: TopicAccess = NO_SECURITY, skipped: Skipped | None = None
) -> dict[str, History]:
    """The epochs of a topic's rounds, by cluster. Records that are not rounds go to `skipped`.
    Raises SettingsError, SinkError.
    """
    by_cluster: dict[str, History] = {}
    for _, record in readable(
        records_of(topic, access),
        _round_epoch,
        Skipped(str(topic), "round") if skipped is None else skipped,
    ):
        by_cluster.setdefault(record.cluster, History()).add(record)
    return by_cluster


def newest_rounds(
    topic: TopicUri, access: TopicAccess = NO_SECURITY, *, since_ms: int | None = None
) -> dict[tuple[str, int], RoundEpoch]:
    """The newest round of each cluster and epoch on a topic. Raises SettingsError, SinkError.

    `since_ms`: skips rounds published before (ms since the epoch); on file topics, whole segments
    only.
    """
    newest: dict[tuple[str, int], RoundEpoch] = {}
    for _, record in readable(
        records_of(topic, access, since_ms), _round_epoch, Skipped(str(topic), "round")
    ):
        key = (record.cluster, record.epoch)
        if key not in newest or record.round >= newest[key].round:
            newest[key] = record
    return newest


def _round_epoch(value: bytes) -> RoundEpoch:
    try:
        return msgspec.json.decode(value, type=RoundEpoch)
    except (ValueError, RecursionError) as error:
        raise complaint(value, RoundEpoch, str(error)) from None
