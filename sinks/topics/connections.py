"""What a process needs to read and write the topics: where they are, how to reach their servers,
and the form of their records.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

from sinks.pulsar_api.settings import PulsarSettings
from sinks.topics.kafka.settings import KafkaSettings
from sinks.topics.uri import TopicUri, file_topic
from sinks.wire.raw import SourceSettings
from sinks.wire.signing import SigningSettings
from sinks.wire.size_limits import WireLimits
from strategies.cluster.budget import HOUR_MS
from strategies.settings import Setting

_HOME = Path("/var/lib/pulsar-rebalancer")


@dataclass(frozen=True, slots=True)
class Topics:
    """Where records come from and where they go; every topic is a URI and means the same
    everywhere.
    """

    telemetry: Annotated[TopicUri, Setting("Load reports, sweeps and outcomes")] = file_topic(
        _HOME / "telemetry"
    )
    commands: Annotated[TopicUri, Setting("Commands (the control topic)")] = file_topic(
        _HOME / "commands"
    )
    rounds: Annotated[TopicUri, Setting("One record per round: its input and decisions")] = (
        file_topic(_HOME / "rounds")
    )
    rejected: Annotated[TopicUri, Setting("Records that could not be used, with the reason")] = (
        file_topic(_HOME / "rejected")
    )
    outcomes: Annotated[TopicUri, Setting("Outcomes of commands, reported by executors")] = (
        file_topic(_HOME / "outcomes")
    )
    approvals: Annotated[
        TopicUri,
        Setting("Approvals of plans, pauses and resumes; used by executors with an approvals key"),
    ] = file_topic(_HOME / "approvals")

    def named(self) -> Iterator[tuple[str, TopicUri]]:
        """All six by the names of their settings, in this order."""
        for field in fields(self):
            yield field.name, getattr(self, field.name)


@dataclass(frozen=True, slots=True)
class FileSettings:
    """Retention, as the servers of Kafka and Pulsar have it for their topics."""

    retention_hours: Annotated[
        int,
        Setting(
            "Writers delete segments whose newest line is older, but never the newest segment; "
            "0 = never",
            "h",
            ge=0,
            le=876_000,
        ),
    ] = 0
    #: Stop if records were deleted before they were read, otherwise go on with the oldest one: the
    #: job's `fail_on_data_loss`.
    fail_on_data_loss: bool = True

    @property
    def retention_ms(self) -> int | None:
        """None = no segment is deleted."""
        return self.retention_hours * HOUR_MS or None


@dataclass(frozen=True, slots=True)
class TopicAccess:
    """Settings for reaching the servers of topics, and of topics in folders."""

    kafka: KafkaSettings = KafkaSettings()
    pulsar: PulsarSettings = PulsarSettings()
    files: FileSettings = FileSettings()


NO_SECURITY = TopicAccess()


@dataclass(frozen=True, slots=True)
class Connections:
    """The settings that the job, the collector, the executor and the commands without Spark
    share.
    """

    topics: Topics = Topics()
    wire: WireLimits = WireLimits()
    files: FileSettings = FileSettings()
    kafka: KafkaSettings = KafkaSettings()
    pulsar: PulsarSettings = PulsarSettings()
    source: SourceSettings = SourceSettings()
    signing: SigningSettings = SigningSettings()

    @property
    def access(self) -> TopicAccess:
        """Settings for reaching the servers of the topics."""
        return TopicAccess(self.kafka, self.pulsar, self.files)
