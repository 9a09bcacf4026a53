"""What a process needs to read and write the topics: where they are, how to reach their servers,
and the form of their records.
"""

from __future__ import annotations

from dataclasses import dataclass

from sinks.pulsar_api.settings import PulsarSettings
from sinks.topics.access import TopicAccess
from sinks.topics.files.settings import FileSettings
from sinks.topics.kafka.settings import KafkaSettings
from sinks.topics.settings import Topics
from sinks.wire.raw import SourceSettings
from sinks.wire.signing import SigningSettings
from sinks.wire.size_limits import WireLimits


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
