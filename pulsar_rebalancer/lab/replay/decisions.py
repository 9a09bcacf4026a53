"""Results of a replay: the rows of the three output topics, in an order that is the same for all
engines.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pulsar_rebalancer.decisions.log import decisive
from pulsar_rebalancer.lab.plain_loop import PlainLoop
from pulsar_rebalancer.lab.report.page import replace_file, shown_settings
from pulsar_rebalancer.lab.simulation.timeline import Timeline, Tracer
from pulsar_rebalancer.lab.strategy_goal import goal_of
from pulsar_rebalancer.settings.merge_sources import Settings
from sinks.topics.files.topic import TopicRecord
from sinks.topics.open_topics import place
from sinks.topics.topic_settings import Connections
from sinks.wire.event_to_topic_rows import OutputRow
from sinks.wire.record_decoding import (
    Position,
    decode,
    decode_command,
    decode_rejected,
    decode_round,
)
from sinks.wire.record_encoding import encode_outcome
from sinks.wire.signing_keys import intents_key
from strategies.cluster.model import Command, Expected, Outcome, OutcomeReport, Round
from strategies.errors import SinkError, WireError
from strategies.figures.texts_of_counts_names_and_ages import counted, counted_with
from strategies.figures.usage_after_moves import expected_spread, reported_spread
from strategies.fold.engine import EngineSettings, placement_of

#: Rejected records that are kept: their rows, and what Python needs for each.
_MOST_REJECTED_BYTES, _ROW_BYTES = 256 * 2**20, 300

FILES: Mapping[str, str] = {
    "commands": "commands.jsonl",
    "rounds": "rounds.jsonl",
    "rejected": "rejected.jsonl",
}


#: Maximum size of an outcome record: some hundred bytes, and a sentence as the reason.
_LONGEST = 65_536


@dataclass(frozen=True)
class Decisions:
    """All rows of a replay by kind, as JSON lines without line ends.

    Commands and rounds are sorted by cluster, then by decision; rejected records by their position
    in the recording.
    """

    commands: tuple[OutputRow, ...]
    rounds: tuple[OutputRow, ...]
    rejected: tuple[OutputRow, ...]

    def rows(self, kind: str) -> tuple[OutputRow, ...]:
        return {"commands": self.commands, "rounds": self.rounds, "rejected": self.rejected}[kind]

    def command_ids(self) -> list[str]:
        """Ids of all commands, in order."""
        return [decode_command(row.value).id for row in self.commands]

    def last_rounds(self) -> Iterator[Round]:
        """The last round of each cluster."""
        return (
            decode_round(value) for value in {row.key: row.value for row in self.rounds}.values()
        )


@dataclass(frozen=True, slots=True)
class ClusterSummary:
    """One line of the summary; `first`, `last`: the cluster's first and last round, None if no
    round closed.
    """

    cluster: str
    rounds: int
    commands: int
    rejected: int
    first: Round | None
    last: Round | None


def collect(rows: Iterable[OutputRow]) -> Decisions:
    """Sorts rows into the order of the files. A row that was published twice (same bytes) counts
    once. Raises SinkError where rejected records are more than memory should hold.
    """
    by_kind: dict[str, dict[OutputRow, None]] = {kind: {} for kind in FILES}
    rejected = 0
    for row in rows:
        if row.kind == "rejected":
            rejected += len(row.value) + _ROW_BYTES
        if rejected > _MOST_REJECTED_BYTES:
            raise SinkError(
                f"more than {_MOST_REJECTED_BYTES >> 20} MiB of records cannot be used as "
                "telemetry; name a recording of load reports, or look at what is wrong with "
                "`rebalancer replay - < FILE`, which keeps none of them."
            )
        by_kind[row.kind][row] = None
    return Decisions(
        commands=tuple(sorted(by_kind["commands"], key=lambda row: row.key)),
        rounds=tuple(sorted(by_kind["rounds"], key=lambda row: row.key)),
        rejected=tuple(sorted(by_kind["rejected"], key=_place)),
    )


def write(decisions: Decisions, folder: Path) -> Mapping[str, Path]:
    """Writes one file per kind, each atomically. Creates the folder. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    written = {kind: folder / name for kind, name in FILES.items()}
    for kind, path in written.items():
        replace_file(path, (row.value + b"\n" for row in decisions.rows(kind)))
    return written


def write_outcomes(outcomes: Sequence[Outcome], folder: Path) -> Mapping[str, Path]:
    """Writes outcomes to the same folder; writes no file without outcomes. Raises OSError."""
    path = folder / "outcomes.jsonl"
    if not outcomes:
        path.unlink(missing_ok=True)
        return {}
    replace_file(path, (encode_outcome(one) + b"\n" for one in outcomes))
    return {"outcomes": path}


def summarise(decisions: Decisions) -> list[ClusterSummary]:
    """One summary per cluster, and one with an empty name for rejected records without a
    cluster.
    """
    clusters = dict.fromkeys(sorted(row.key for kind in FILES for row in decisions.rows(kind)))
    return [_summary(cluster, decisions) for cluster in clusters]


def line(row: OutputRow) -> str:
    """One printable line about a row, with its cluster."""
    if row.kind == "commands":
        return f"{row.key}: {describe_command(decode_command(row.value))}"
    if row.kind == "rounds":
        return f"{row.key}: {describe_round(decode_round(row.value))}"
    rejected = decode_rejected(row.value)
    where = place(Position(rejected.topic, rejected.partition, rejected.offset))
    return f"rejected {rejected.code} at {where} of {rejected.topic}: {rejected.text}"


def describe_command(command: Command) -> str:
    """`round 3 transfer t/ns/0x0_0x1: a:1 → b:1 (87.1 % → 79.0 %, 12.0 % → 20.1 %) because …`"""
    where = (
        command.source
        if command.destination is None
        else f"{command.source} → {command.destination}"
    )
    effect = _effect(command.expected) if command.is_move else _load(command.expected)
    return (
        f"round {command.round} {command.action} {command.bundle}: {where} ({effect}) because "
        f"{command.text}"
    )


def describe_round(record: Round) -> str:
    """`round 3 at 1795218520614 (sweep): 8 brokers, spread 61.2 → 40.0 points, 5 commands, 7 left
    alone`
    """
    stale = f", {len(record.stale)} stale" if record.stale else ""
    left = sum(len(skip.names) for skip in record.skips)
    return (
        f"round {record.round} at {record.ts} ({record.closed_by}): "
        f"{counted(len(record.brokers), 'broker')}{stale}, "
        f"spread {reported_spread(record) * 100:.1f} → {expected_spread(record) * 100:.1f} points"
        f"{counted_with(record.counted)}, "
        f"{counted(len(record.commands), 'command')}, {left} left alone"
    )


def _effect(expected: Expected) -> str:
    parts = [
        f"{before * 100:.1f} % → {after * 100:.1f} %"
        for before, after in (
            (expected.source_before, expected.source_after),
            (expected.destination_before, expected.destination_after),
        )
        if before is not None and after is not None
    ]
    return ", ".join(parts) if parts else "effect unknown"


def _load(expected: Expected) -> str:
    """Usage of the broker where no bundle moves, as in a split or advice."""
    return (
        "usage unknown"
        if expected.source_before is None
        else f"at {expected.source_before * 100:.1f} %"
    )


def _summary(cluster: str, decisions: Decisions) -> ClusterSummary:
    rounds = [row.value for row in decisions.rounds if row.key == cluster]
    return ClusterSummary(
        cluster=cluster,
        rounds=len(rounds),
        commands=sum(row.key == cluster for row in decisions.commands),
        rejected=sum(row.key == cluster for row in decisions.rejected),
        first=decode_round(rounds[0]) if rounds else None,
        last=decode_round(rounds[-1]) if rounds else None,
    )


def _place(row: OutputRow) -> tuple[int, int]:
    rejected = decode_rejected(row.value)
    return rejected.partition, rejected.offset


def decide(
    records: Iterable[TopicRecord], engine: EngineSettings, connections: Connections
) -> Iterator[list[OutputRow]]:
    """Yields the rows of each record as soon as it is read. Raises SettingsError for a key of
    intents that cannot be read.
    """
    loop = PlainLoop(engine, connections.wire, intents_key(connections.signing))
    for record in records:
        yield loop.feed(record.position, record.value)


def timelines(
    made: Decisions, settings: Settings, verdicts: Mapping[str, Outcome]
) -> list[Timeline]:
    """One timeline per cluster, by name. `verdicts`: recorded outcomes of commands with the same
    id.
    """
    commands: dict[str, dict[str, Command]] = defaultdict(dict)
    for row in made.commands:
        command = decode_command(row.value)
        commands[row.key][command.id] = command
    tracers: dict[str, Tracer] = {}
    goal = goal_of(settings.engine)
    for row in made.rounds:
        record = decode_round(row.value)
        tracer = tracers.setdefault(row.key, _tracer(row.key, settings, goal.text))
        tracer.round(
            record, [commands[row.key][one] for one in record.commands], goal.reached(record)
        )
        for name in record.commands:
            if name in verdicts:
                tracer.outcome(verdicts[name])
    return [tracer.timeline() for _, tracer in sorted(tracers.items())]


def _tracer(cluster: str, settings: Settings, goal: str) -> Tracer:
    engine = settings.engine
    return Tracer(
        Timeline(
            title=f"{cluster}: {engine.strategy}",
            kind="recorded",
            strategy=f"{engine.strategy}/{engine.mode}",
            placement=placement_of(engine)[0],
            goal=goal,
            interval_ms=engine.round.interval_ms,
            settings=shown_settings(settings),
            notes=("The recorded reports do not react to these moves: their effect is unknown.",),
        )
    )


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
