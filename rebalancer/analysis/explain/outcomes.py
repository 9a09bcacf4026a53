"""What became of commands, as far as a recording tells: executors feed their outcomes back into the telemetry."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from rebalancer.analysis.explain.answers import telling
from sinks.topics.readable import Placed
from sinks.wire.codec import decode
from strategies.errors import WireError
from strategies.model import Outcome, OutcomeReport

#: An outcome is some hundred bytes, and its reason a sentence.
_LONGEST = 65_536


class Passing:
    """Records on their way to the loop: counted, and their outcomes kept."""

    def __init__(self, records: Iterable[Placed]) -> None:
        self._records = records
        self._outcomes: dict[str, dict[Outcome, None]] = {}
        self.count = 0

    def __iter__(self) -> Iterator[Placed]:
        for record in self._records:
            self.count += 1
            # Most records are reports, which are long: only what may be an outcome is read here.
            if len(record.value) < _LONGEST and b'"outcome"' in record.value:
                self._keep(record.value)
            yield record

    def outcomes_of(self, ids: Iterable[str]) -> list[Outcome]:
        """All different outcomes of these commands, command by command."""
        return [one for id_ in ids for one in self._outcomes.get(id_, ())]

    def verdicts(self) -> Mapping[str, Outcome]:
        """Command id → the outcome that says what became of it."""
        return {id_: found for id_, given in self._outcomes.items() if (found := telling(tuple(given))) is not None}

    def _keep(self, value: bytes) -> None:
        try:
            record = decode(value, b"")
        except WireError:
            return
        if isinstance(record, OutcomeReport):
            self._outcomes.setdefault(record.outcome.command_id, {})[record.outcome] = None
