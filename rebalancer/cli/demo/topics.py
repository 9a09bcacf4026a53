"""The demo's side of the five topics: it writes telemetry and outcomes, and reads rounds and
commands.
"""

from __future__ import annotations

from collections.abc import Sequence

from rebalancer.cli.demo.plan import TOPICS, Plan
from rebalancer.simulation.closed_loop import PolledCluster, RoundAnswer
from rebalancer.simulation.telemetry_json import TelemetryWriter
from sinks.topics.access import TopicAccess, TopicRecord, open_publisher, open_reader
from sinks.topics.kafka.admin import TopicPlan, create_topic
from sinks.topics.kafka.settings import KafkaSettings, kafka_access
from sinks.wire.codec import decode_command, decode_round, encode_outcome
from sinks.wire.output_rows import OutputRow
from strategies.model import Command, OutcomeReport, Round, TelemetryRecord


class DemoTopics:
    """Publishers and readers of one run's topics, with the read position of each topic."""

    def __init__(self, plan: Plan, cluster: PolledCluster) -> None:
        """Creates topics on Kafka; on file topics, the first publish creates the folder."""
        kafka = plan.kafka.settings if plan.kafka else KafkaSettings()
        uris = {name: plan.topic_uri(name) for name in TOPICS}
        if plan.kafka:
            for uri in uris.values():
                create_topic(uri, TopicPlan(), kafka_access(kafka))
        access = TopicAccess(kafka)
        self._key, self._writer = plan.cluster, TelemetryWriter(cluster)
        self._publishers = {name: open_publisher(uri, access) for name, uri in uris.items()}
        self._readers = {name: open_reader(uri, access, follow=True) for name, uri in uris.items()}
        self._commands: dict[str, Command] = {}
        self._rounds: dict[int, Round] = {}

    def publish(self, records: Sequence[TelemetryRecord]) -> None:
        """Publishes telemetry with one flush, so that readers of file topics see whole passes, and
        outcomes on their own topic too.
        """
        self._publish(
            "outcomes",
            [encode_outcome(one.outcome) for one in records if isinstance(one, OutcomeReport)],
        )
        self._publish("telemetry", [self._writer.json(one) for one in records])

    def publish_rows(self, rows: Sequence[OutputRow]) -> None:
        """Publishes the rows of the plain loop to the topics that the job writes."""
        for row in rows:
            self._publish(row.kind, [row.value])

    def read(self, name: str) -> list[TopicRecord]:
        """New records of a topic since the last call."""
        found: list[TopicRecord] = []
        while records := self._readers[name].read():
            found += records
        return found

    def close(self) -> None:
        """Closes all publishers and consumers."""
        for publisher in self._publishers.values():
            publisher.close()
        for reader in self._readers.values():
            reader.close()

    def _publish(self, name: str, values: Sequence[bytes]) -> None:
        for value in values:
            self._publishers[name].publish(self._key, value)
        self._publishers[name].flush()

    def answer(self, ts: int) -> RoundAnswer | None:
        """The round that closed at `ts` with all its commands; None until all of them have
        arrived.
        """
        self._commands.update(
            (command.id, command)
            for command in (decode_command(one.value) for one in self.read("commands"))
        )
        self._rounds.update(
            (record.ts, record)
            for record in (decode_round(one.value) for one in self.read("rounds"))
        )
        record = self._rounds.get(ts)
        if record is None or not self._commands.keys() >= set(record.commands):
            return None
        return RoundAnswer(record, tuple(self._commands[id_] for id_ in record.commands))
