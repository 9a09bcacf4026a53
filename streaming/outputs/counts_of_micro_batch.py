"""Counts of the records that a micro-batch publishes, by kind, and facts of it for the metrics:
counts by code, and the figures of each cluster's newest round.

The stateful task reads them off the records that it returns, so that they are exactly what is
published, and adds them as one more row (`FACTS`). The driver gets these rows with the progress of
the micro-batch; they reach no topic (`counted`).
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import msgspec
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sinks.wire.event_to_topic_rows import OutputRow
from strategies.cluster.intent_records_and_states import ENDED
from strategies.cluster.round_figures import Forecast, Spread

#: Kind of a row with facts.
FACTS = "facts"
#: Order of publishing: on file topics, a reader that sees a round finds its commands.
KINDS = ("commands", "rounds", "rejected")
_NAME = "written"


class StateFigures(msgspec.Struct, frozen=True, omit_defaults=True):
    """The state of a cluster's newest round. `since`: time of the first round of this micro-batch
    since which all rounds have it, in ms since the epoch by the cluster's clock; `changed`: an
    earlier round of the micro-batch has another one.
    """

    code: str
    since: int
    changed: bool = False


class RoundFigures(msgspec.Struct, frozen=True, omit_defaults=True):
    """A cluster's newest round. `ts`: ms since the epoch, by the cluster's clock; spreads and usage
    are fractions. `usage`: per broker, empty unless requested; `intents`: number of drains and
    rolls that have not ended, by state.
    """

    ts: int
    spread: float
    spread_after: float
    usage: dict[str, float] = {}
    forecast: Forecast | None = None
    state: StateFigures | None = None
    intents: dict[str, int] = {}


class ClusterCounts(msgspec.Struct, frozen=True, omit_defaults=True):
    """One cluster in one micro-batch. `commands`: number by action; `skips`: entries by code;
    `newest_report_ms`: time of the newest report (ms since the epoch) if there was one;
    `set_aside`: records beyond the quota.
    """

    cluster: str
    rounds: int = 0
    commands: dict[str, int] = {}
    skips: dict[str, int] = {}
    newest_report_ms: int | None = None
    newest_round: RoundFigures | None = None
    set_aside: int = 0


class BatchFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """One task of a micro-batch. `rejected`: number by code, of all clusters together, because the
    cluster of a rejected record may be made up. `vanished`: clusters whose rows have left the
    state.
    """

    rejected: dict[str, int] = {}
    clusters: list[ClusterCounts] = []
    vanished: list[str] = []


class _Coded(msgspec.Struct):
    code: str


class _Stated(msgspec.Struct):
    state: str


class _Command(msgspec.Struct):
    action: str


class _RoundFields(msgspec.Struct):
    """The fields of a round's record that the facts need."""

    ts: int
    spread: Spread
    spread_after: Spread
    skips: list[_Coded]
    forecast: Forecast | None = None
    state: _Coded | None = None
    intents: list[_Stated] = []


class _RoundFieldsAndUsage(_RoundFields, kw_only=True):
    usage: dict[str, float]


_REJECTED = msgspec.json.Decoder(_Coded)
_COMMAND = msgspec.json.Decoder(_Command)
_ROUND = msgspec.json.Decoder(_RoundFields)
_ROUND_WITH_USAGE = msgspec.json.Decoder(_RoundFieldsAndUsage)
_FACTS = msgspec.json.Decoder(BatchFacts)


class BatchTally:
    """Collects the facts of one task."""

    def __init__(self, *, per_broker: bool) -> None:
        self._per_broker = per_broker
        self._rejected: Counter[str] = Counter()
        self._clusters: list[ClusterCounts] = []
        self._vanished: list[str] = []

    def add(
        self,
        cluster: str,
        rows: Sequence[OutputRow],
        newest_report_ms: int | None,
        set_aside: int = 0,
    ) -> None:
        """Adds the rows of a cluster, in order. `cluster`: empty if it is unknown; `set_aside`:
        number of records beyond its quota.
        """
        self._rejected.update(
            _REJECTED.decode(row.value).code for row in rows if row.kind == "rejected"
        )
        rounds = [self._round(row.value) for row in rows if row.kind == "rounds"]
        commands = Counter(
            _COMMAND.decode(row.value).action for row in rows if row.kind == "commands"
        )
        if not (rounds or commands or set_aside) and newest_report_ms is None:
            return
        skips = Counter(skip.code for round_ in rounds for skip in round_.skips)
        newest = _figures_of(rounds) if rounds else None
        self._clusters.append(
            ClusterCounts(
                cluster, len(rounds), commands, skips, newest_report_ms, newest, set_aside
            )
        )

    def vanished(self, clusters: Sequence[str]) -> None:
        """Adds clusters whose rows have left the state."""
        self._vanished += clusters

    def value(self) -> bytes:
        """Returns the facts as compact JSON."""
        return msgspec.json.encode(BatchFacts(self._rejected, self._clusters, self._vanished))

    def _round(self, value: bytes) -> _RoundFields:
        return (_ROUND_WITH_USAGE if self._per_broker else _ROUND).decode(value)


def read_facts(value: str) -> BatchFacts:
    """Facts from the JSON of `BatchTally.value`."""
    return _FACTS.decode(value)


def _figures_of(rounds: Sequence[_RoundFields]) -> RoundFigures:
    newest = rounds[-1]
    return RoundFigures(
        newest.ts,
        newest.spread.range,
        newest.spread_after.range,
        newest.usage if isinstance(newest, _RoundFieldsAndUsage) else {},
        newest.forecast,
        _state_of(rounds),
        dict(Counter(intent.state for intent in newest.intents if intent.state not in ENDED)),
    )


def _state_of(rounds: Sequence[_RoundFields]) -> StateFigures | None:
    state = rounds[-1].state
    if state is None:
        return None
    same = list(takewhile(lambda earlier: earlier.state == state, reversed(rounds)))
    return StateFigures(state.code, same[-1].ts, len(same) < len(rounds))


@dataclass(frozen=True, slots=True)
class Written:
    """Number of records of each kind that a micro-batch, or the whole run, has published."""

    commands: int = 0
    rounds: int = 0
    rejected: int = 0

    def __add__(self, other: "Written") -> "Written":
        return Written(
            self.commands + other.commands,
            self.rounds + other.rounds,
            self.rejected + other.rejected,
        )

    @property
    def in_words(self) -> str:
        """`17 rounds, 3 commands, 0 rejected records`"""
        return f"{self.rounds} rounds, {self.commands} commands, {self.rejected} rejected records"


def counted(rows: DataFrame, *, with_facts: bool = False) -> DataFrame:
    """Returns the same rows, with the counts of each kind added to the progress event of the
    micro-batch (`observed`).

    `with_facts`: the rows contain facts; these are added to the event too, and removed.
    """
    counts = [F.count(F.when(F.col("kind") == kind, 1)).alias(kind) for kind in KINDS]
    if not with_facts:
        return rows.observe(_NAME, *counts)
    facts = F.collect_list(F.when(F.col("kind") == FACTS, F.col("value").cast("string")))
    return rows.observe(_NAME, *counts, facts.alias(FACTS)).where(F.col("kind") != FACTS)


def observed(progress: Any) -> tuple[Written, tuple[BatchFacts, ...]]:
    """Counts and facts of one micro-batch, from Spark's StreamingQueryProgress; without metrics,
    there are no facts.
    """
    row = progress.observedMetrics.get(_NAME)
    if row is None:
        return Written(), ()
    observations = row.asDict()
    facts = tuple(map(read_facts, observations.pop(FACTS, ())))
    return Written(**observations), facts
