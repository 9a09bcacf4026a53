"""Settings of the streaming job: which topics it connects, and how Spark runs it. Imports no Spark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from sinks.pulsar_api.settings import PulsarSettings
from sinks.topics.access import TopicAccess
from sinks.topics.kafka.settings import KafkaSettings
from sinks.topics.settings import Topics
from sinks.wire.limits import WireLimits
from sinks.wire.raw import SourceSettings
from sinks.wire.signing import SigningSettings
from strategies.settings import Setting
from streaming.jars.connector import JarSettings


@dataclass(frozen=True, slots=True)
class JobSettings:
    """How the job runs. Nothing here changes a decision; `shuffle_partitions` is frozen in the checkpoint."""

    checkpoint: Annotated[str, Setting("Folder for progress and state; one job at a time may use it")] = (
        "/var/lib/pulsar-rebalancer/checkpoint"
    )
    trigger_ms: Annotated[
        int, Setting("Time from the start of one micro-batch to the next; 0 = as soon as there is something", "ms", ge=0, le=3_600_000)
    ] = 0
    max_records_per_batch: Annotated[int, Setting("Records in one micro-batch at most", ge=1, le=1_000_000)] = 5_000
    max_bytes_per_batch: Annotated[
        int, Setting("Telemetry in one micro-batch at most; a single longer record still passes", "bytes", ge=1_048_576, le=1_073_741_824)
    ] = 134_217_728
    read_tasks: Annotated[int, Setting("Tasks that share the reading and decoding of one micro-batch", ge=1, le=256)] = 2
    shuffle_partitions: Annotated[
        int, Setting("Partitions of the state; clusters are spread over them. Cannot be changed later", ge=1, le=1_000)
    ] = 1
    master: Annotated[str, Setting("Where Spark runs: local[threads,task attempts], spark://…, k8s://…")] = "local[2,3]"
    environment: Annotated[
        str, Setting("Archive with the Python packages for workers elsewhere (rebalancer ship); empty = they are installed there")
    ] = ""
    driver_memory: Annotated[str, Setting("Heap of Spark's driver, as Java writes it (1g, 800m)")] = "1g"
    start_attempts: Annotated[int, Setting("How often a start is tried when Spark's Python workers do not answer", ge=1, le=20)] = 3
    segment_bytes: Annotated[
        int, Setting("Size at which a file topic begins its next segment", "bytes", ge=1_048_576, le=1_099_511_627_776)
    ] = 67_108_864
    progress_file: Annotated[str, Setting("JSON Lines file that gets one line per micro-batch; empty = none")] = ""
    topics: Topics = Topics()
    wire: WireLimits = WireLimits()
    kafka: KafkaSettings = KafkaSettings()
    pulsar: PulsarSettings = PulsarSettings()
    source: SourceSettings = SourceSettings()
    jars: JarSettings = JarSettings()
    signing: SigningSettings = SigningSettings()

    @property
    def access(self) -> TopicAccess:
        """How to reach the servers of the topics."""
        return TopicAccess(self.kafka, self.pulsar)


def uses_kafka(topics: Topics) -> bool:
    """Whether any topic lies on Kafka."""
    return any(topic.scheme == "kafka" for _, topic in topics.named())
