"""The demo's side of the five topics: it writes telemetry and outcomes, and reads what was decided."""

from __future__ import annotations

from collections.abc import Sequence

from cli.demo.plan import TOPICS, Plan
from simulation.loop import Answer
from simulation.telemetry import Observation, to_json
from sinks.file_topic import FileTopicReader, FileTopicWriter, Offset, TopicRecord
from sinks.outputs import OutputRow
from sinks.wire import decode_command, decode_round, encode_outcome
from strategies.model import Command, OutcomeReport, Round


class DemoTopics:
    """Writers and readers of one run's folders; remembers how far it has read."""

    def __init__(self, plan: Plan) -> None:
        self._writers = {name: FileTopicWriter(plan.topic(name)) for name in TOPICS}
        self._readers = {name: FileTopicReader(plan.topic(name), plan.topic_uri(name)) for name in TOPICS}
        self._next: dict[str, Offset | None] = dict.fromkeys(TOPICS)
        self._commands: dict[str, Command] = {}
        self._rounds: dict[int, Round] = {}

    def publish(self, observations: Sequence[Observation]) -> None:
        """Telemetry in one append, so that a collection pass is not seen in part; outcomes on their own topic as well."""
        outcomes = [encode_outcome(seen.outcome) for seen in observations if isinstance(seen, OutcomeReport)]
        if outcomes:
            self._writers["outcomes"].append(outcomes)
        self._writers["telemetry"].append([to_json(seen) for seen in observations])

    def publish_rows(self, rows: Sequence[OutputRow]) -> None:
        """What the plain loop decided, to where the job would have written it."""
        for row in rows:
            self._writers[row.kind].append([row.value])

    def read(self, name: str) -> list[TopicRecord]:
        """Records of a topic that were not read before."""
        records, self._next[name] = self._readers[name].read(self._next[name])
        return records

    def answer(self, ts: int) -> Answer | None:
        """The round that was held at `ts` with all its commands; None while they are not all there."""
        self._commands.update((command.id, command) for command in (decode_command(one.value) for one in self.read("commands")))
        self._rounds.update((record.ts, record) for record in (decode_round(one.value) for one in self.read("rounds")))
        record = self._rounds.get(ts)
        if record is None or not self._commands.keys() >= set(record.commands):
            return None
        return Answer(record, tuple(self._commands[id_] for id_ in record.commands))
