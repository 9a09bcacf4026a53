"""Builders for whoever feeds an executor: commands, one line each, and the topics around it as
folders.
"""

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from sinks.topics.files.topic import FileTopicReader
from sinks.topics.open_topics import Publisher, open_publisher, open_reader
from sinks.topics.topic_settings import TopicAccess, Topics, file_topic_uri
from sinks.wire.record_decoding import decode_answer
from sinks.wire.record_encoding import encode_command
from sinks.wire.signing_keys import SigningKey
from strategies.cluster.model import Command, Expected, Outcome, OutcomeStatus
from strategies.executor.objections_to_approvals import ApprovalOutcome
from tests.topic_uris import topic_of, topics_of

TOPICS = ("telemetry", "commands", "rounds", "rejected", "outcomes", "approvals")
_NUMBERS = itertools.count(1)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def storing(publisher: Publisher) -> Callable[[str, Sequence[bytes]], None]:
    """Stores the passes of a collector."""

    def publish(cluster: str, records: Sequence[bytes]) -> None:
        for record in records:
            publisher.publish(cluster, record)
        publisher.flush()

    return publish


def command(bundle: str, source: str, destination: str | None = None, **changes: object) -> Command:
    """A transfer, or an unload without a destination, that is good for five minutes."""
    plain = Command(
        id=f"command-{next(_NUMBERS)}",
        cluster="c",
        round=1,
        epoch=1,
        action="unload" if destination is None else "transfer",
        bundle=bundle,
        source=source,
        destination=destination,
        strategy="avg",
        code="test",
        text="a test wants it",
        evidence={},
        expected=Expected(),
        issued_at_ms=now_ms(),
        expires_at_ms=now_ms() + 300_000,
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def outcome(
    of: Command, status: OutcomeStatus, reason: str | None = None, seconds: float = 5
) -> Outcome:
    """What became of a command, `seconds` after it was given."""
    return Outcome(
        command_id=of.id,
        cluster=of.cluster,
        bundle=of.bundle,
        status=status,
        reason=reason,
        owner_before=of.source,
        owner_after=of.destination if status == "applied" else of.source,
        took_ms=120,
        ts=of.issued_at_ms + int(seconds * 1000),
    )


class Control:
    """The six topics as a job and a reader of outcomes see them: those that `uris` names, the
    others below a folder.
    """

    def __init__(
        self,
        folder: Path,
        uris: Mapping[str, str] | None = None,
        access: TopicAccess = TopicAccess(),
    ) -> None:
        self.folder, self.access = folder, access
        self._uris = {topic: file_topic_uri(folder / topic) for topic in TOPICS} | dict(uris or {})

    @property
    def topics(self) -> Topics:
        return topics_of(**self._uris)

    def uri(self, topic: str) -> str:
        return self._uris[topic]

    def settings(self, **more: object) -> dict[str, object]:
        """Of a process of the cluster c with these topics; `more`: others, with __ for dots."""
        topics = {f"topics.{topic}": self.uri(topic) for topic in TOPICS}
        usual = {"pulsar.cluster": "c", "executor.state": self.folder / "state"}
        return topics | usual | {name.replace("__", "."): value for name, value in more.items()}

    def send(self, *commands: Command, key: SigningKey | None = None) -> None:
        records = [encode_command(one) for one in commands]
        self.write("commands", records if key is None else [key.sign(record) for record in records])

    def write(self, topic: str, records: Sequence[bytes]) -> None:
        with closing(open_publisher(topic_of(self.uri(topic)), self.access)) as publisher:
            for record in records:
                publisher.publish("c", record)
            publisher.flush()

    def read(self, topic: str) -> list[bytes]:
        if self.uri(topic).startswith("file:"):
            return [record.value for record in FileTopicReader(self.folder / topic).read()[0]]
        values = []
        with closing(open_reader(topic_of(self.uri(topic)), self.access)) as reader:
            while records := reader.read():
                values += [record.value for record in records]
        return values

    def outcomes(self) -> list[Outcome]:
        """Of commands; answers to approvals are left out."""
        given = [decode_answer(value) for value in self.read("outcomes")]
        return [one for one in given if isinstance(one, Outcome)]

    def answers(self) -> list[ApprovalOutcome]:
        given = [decode_answer(value) for value in self.read("outcomes")]
        return [one for one in given if isinstance(one, ApprovalOutcome)]

    def verdicts(self) -> list[tuple[str, str]]:
        """Status and reason code of every outcome; the code is empty where all went as
        commanded.
        """
        return [(one.status, (one.reason or "").partition(":")[0]) for one in self.outcomes()]
