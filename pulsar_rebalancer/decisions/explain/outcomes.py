"""Outcomes of commands in a recording: executors publish their outcomes to TELEMETRY too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from pulsar_rebalancer.decisions.log import decisive
from sinks.topics.files.topic import TopicRecord
from sinks.wire.codec import decode
from strategies.cluster.model import Outcome, OutcomeReport
from strategies.errors import WireError

#: Maximum size of an outcome record: some hundred bytes, and a sentence as the reason.
_LONGEST = 65_536


class OutcomeCollector:
    """Passes records through to the loop, counts them, and keeps their outcomes."""

    def __init__(self, records: Iterable[TopicRecord]) -> None:
        self._records = records
        self._outcomes: dict[str, dict[Outcome, None]] = {}
        self.count = 0

    def __iter__(self) -> Iterator[TopicRecord]:
        for record in self._records:
            self.count += 1
            # Most records are reports, which are long: only possible outcomes are decoded here.
            if len(record.value) < _LONGEST and b'"outcome"' in record.value:
                self._keep(record.value)
            yield record

    def outcomes_of(self, ids: Iterable[str]) -> list[Outcome]:
        """All different outcomes of these commands, grouped by command."""
        return [one for id_ in ids for one in self._outcomes.get(id_, ())]

    def verdicts(self) -> Mapping[str, Outcome]:
        """Command id → its decisive outcome."""
        return {
            id_: found
            for id_, given in self._outcomes.items()
            if (found := decisive(tuple(given))) is not None
        }

    def _keep(self, value: bytes) -> None:
        try:
            record = decode(value, b"")
        except WireError:
            return
        if isinstance(record, OutcomeReport):
            self._outcomes.setdefault(record.outcome.command_id, {})[record.outcome] = None
