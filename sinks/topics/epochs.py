"""Which epochs stand on a topic: a job that starts anew takes the next one, and two jobs that write at a time can be told apart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field

import msgspec

from sinks.topics.access import NO_SECURITY, TopicAccess, TopicRecord, open_reader
from sinks.topics.readable import Skipped, readable
from sinks.topics.uri import TopicUri
from sinks.wire.complaints import complaint
from sinks.wire.contracts.fields import LARGEST_INTEGER, Count, Version
from strategies.errors import SinkError


class EpochOnly(msgspec.Struct):
    """What a command or the record of a round says about its job."""

    cluster: str
    epoch: Count


class RoundEpoch(EpochOnly):
    """What the record of a round says about its job, and what tells two jobs of one epoch apart: when it closed and what it commanded."""

    v: Version = 1
    round: Count = 0
    ts: int = 0
    commands: tuple[str, ...] = ()


@dataclass(slots=True)
class History:
    """The epochs of one cluster's rounds in the order of the topic.

    `late`: rounds of an older epoch that came after a newer one had begun, the last of them of epoch `overtaken`; `since`: rounds that
    came after the last of these. `differing`: rounds of the newest epoch that came twice and said something else the second time.
    """

    seen: set[int] = field(default_factory=set)
    newest: int = 0
    late: int = 0
    overtaken: int = 0
    since: int = 0
    differing: int = 0
    _said: dict[int, int] = field(default_factory=dict)

    def add(self, told: RoundEpoch) -> None:
        """The next round."""
        self.seen.add(told.epoch)
        if told.epoch < self.newest:
            self.late, self.overtaken, self.since = self.late + 1, told.epoch, 0
            return
        if told.epoch > self.newest:
            self.differing, self._said = 0, {}
        self.newest, self.since = told.epoch, self.since + 1
        content = hash((told.ts, told.commands))
        self.differing += self._said.setdefault(told.round, content) != content


def epochs_in(values: Iterable[bytes]) -> Iterator[EpochOnly]:
    """Epochs of commands or rounds; what cannot be read is left out, because whoever reads it for its content complains about it."""
    for value in values:
        try:
            yield msgspec.json.decode(value, type=EpochOnly)
        except (ValueError, RecursionError):
            continue


def next_epoch(topics: Sequence[TopicUri], access: TopicAccess = NO_SECURITY) -> int:
    """One more than the highest epoch on any of the topics, 1 if there is none. Raises SettingsError, SinkError."""
    highest = max((told.epoch for topic in topics for told in epochs_in(one.value for one in _records(topic, access))), default=0)
    if highest >= LARGEST_INTEGER:
        raise SinkError(f"the topics {', '.join(map(str, topics))} hold epoch {highest}, after which there is none: begin with new topics")
    return highest + 1


def histories(topic: TopicUri, access: TopicAccess = NO_SECURITY, skipped: Skipped | None = None) -> dict[str, History]:
    """By cluster, what the rounds of a topic tell. Records that are no rounds go to `skipped`. Raises SettingsError, SinkError."""
    found: dict[str, History] = {}
    for _, told in readable(_records(topic, access), _round_epoch, Skipped(str(topic), "round") if skipped is None else skipped):
        found.setdefault(told.cluster, History()).add(told)
    return found


def newest_rounds(topic: TopicUri, access: TopicAccess = NO_SECURITY, *, since_ms: int | None = None) -> dict[tuple[str, int], RoundEpoch]:
    """By cluster and epoch, the newest round on a topic. Raises SettingsError, SinkError.

    `since_ms`: leaves out rounds that were published before (ms since the epoch); a file topic's segments only as a whole.
    """
    newest: dict[tuple[str, int], RoundEpoch] = {}
    for _, told in readable(_records(topic, access, since_ms), _round_epoch, Skipped(str(topic), "round")):
        key = (told.cluster, told.epoch)
        if key not in newest or told.round >= newest[key].round:
            newest[key] = told
    return newest


def _round_epoch(value: bytes) -> RoundEpoch:
    try:
        return msgspec.json.decode(value, type=RoundEpoch)
    except (ValueError, RecursionError) as error:
        raise complaint(value, RoundEpoch, str(error)) from None


def _records(topic: TopicUri, access: TopicAccess, since_ms: int | None = None) -> Iterator[TopicRecord]:
    if topic.scheme == "file" and not topic.folder.is_dir():
        return
    with closing(open_reader(topic, access, since_ms=since_ms)) as reader:
        while records := reader.read():
            yield from records
