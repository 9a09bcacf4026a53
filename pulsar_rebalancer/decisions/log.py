"""The log of decisions: rounds, commands and outcomes, and approvals with their answers, of topics,
files, or the folder of a replay. Repeated records count once.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Literal

from sinks.recordings.copy_topic import of_recording, topic_records
from sinks.topics.files.segments import segments
from sinks.topics.open_topics import Skipped, TopicRecord, readable
from sinks.topics.topic_settings import (
    NO_SECURITY,
    Connections,
    TopicAccess,
    TopicUri,
    file_topic,
    parse_topic,
)
from sinks.wire.operator_records import command_digest
from sinks.wire.record_decoding import decode_answer, decode_approval, decode_command, decode_round
from sinks.wire.signing_keys import SigningKey, SigningSettings
from strategies.cluster.model import Command, Outcome, Round
from strategies.errors import SettingsError, SinkError, WireError
from strategies.executor.objections_to_approvals import Approval, ApprovalOutcome

Kind = Literal["telemetry", "commands", "rounds", "rejected", "outcomes", "approvals"]
#: A topic, a JSON Lines file, or a folder that holds either.
Source = TopicUri | Path
#: Cluster, epoch and number of a round.
RoundKey = tuple[str, int, int]
#: `applied` precedes `already-done`, which an executor publishes for a repeated command; then all
#: others; a dry run comes last.
_PRECEDENCE = {"applied": 3, "already-done": 2, "dry-run": 0}


@dataclass(frozen=True, slots=True)
class LoggedCommand:
    """A command, and the SHA-256 (hex) of its record."""

    command: Command
    digest: str


DecisionRecord = Round | LoggedCommand | Outcome | ApprovalOutcome | Approval


@dataclass(frozen=True)
class DecisionLog:
    """Rounds and commands in the order of publication, with their outcomes."""

    rounds: tuple[Round, ...] = ()
    commands: tuple[Command, ...] = ()
    #: One line per kind of skipped record: number, place, reason.
    skipped: tuple[str, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    #: Whether outcomes were read: the folder of a replay has none.
    has_outcomes: bool = False
    #: What people decided, and the answers of executors, in the order of publication.
    approvals: tuple[Approval, ...] = ()
    answers: tuple[ApprovalOutcome, ...] = ()
    #: Command id → SHA-256 (hex) of its record.
    digests: Mapping[str, str] = field(default_factory=dict)
    #: Command id → what it waits for, where plans need an approval.
    waits_for: Mapping[str, str] = field(default_factory=dict)

    def of(self, cluster: str) -> "DecisionLog":
        """The part of one cluster."""
        return self._part(lambda one: one.cluster == cluster)

    def of_epoch(self, epoch: int) -> "DecisionLog":
        """The part of one epoch of every cluster."""
        return self._part(lambda one: one.epoch == epoch)

    def generations(self) -> "list[DecisionLog]":
        """Parts by epoch: the newest epoch of each cluster, then the one before, and so on."""
        found = [(cluster, self.of(cluster).epochs[::-1]) for cluster in self.clusters]
        return [
            self._of_epochs(
                {cluster: epochs[age] for cluster, epochs in found if age < len(epochs)}
            )
            for age in range(max((len(epochs) for _, epochs in found), default=0))
        ]

    def of_newest_rounds(self) -> "DecisionLog":
        """The newest epoch with rounds of each cluster: commands of a newer epoch may be published
        before its first round.
        """
        return self._of_epochs({one.cluster: one.epoch for one in self.newest_rounds()})

    def newest_rounds(self) -> list[Round]:
        """The newest round of each cluster, by name; rounds may be out of order if the topic has
        partitions.
        """
        newest = {
            one.cluster: one for one in sorted(self.rounds, key=lambda one: (one.epoch, one.round))
        }
        return [newest[cluster] for cluster in sorted(newest)]

    @property
    def epochs(self) -> list[int]:
        """All epochs, ascending."""
        return sorted({one.epoch for one in self.rounds} | {one.epoch for one in self.commands})

    def _of_epochs(self, epochs: Mapping[str, int]) -> "DecisionLog":
        """The part with one epoch per cluster."""
        return self._part(lambda one: epochs.get(one.cluster) == one.epoch)

    def _part(self, belongs: Callable[[Round | Command], bool]) -> "DecisionLog":
        return replace(
            self,
            rounds=tuple(one for one in self.rounds if belongs(one)),
            commands=tuple(one for one in self.commands if belongs(one)),
        )

    @property
    def clusters(self) -> list[str]:
        return sorted({one.cluster for one in self.rounds} | {one.cluster for one in self.commands})

    def commands_of(self, done: Round) -> list[Command]:
        """The commands of a round, in its order, without ids whose record is missing."""
        return [self.by_id[name] for name in done.commands if name in self.by_id]

    def round_of(self, command: Command) -> Round | None:
        """The round that published a command, or None."""
        return self._by_number.get(_round_key(command))

    def outcomes_of(self, command: Command) -> Sequence[Outcome]:
        """All different outcomes of a command, in the order of publication."""
        return self._by_command.get((command.id, command.cluster, command.bundle), ())

    def outcome_of(self, command: Command) -> Outcome | None:
        """The decisive outcome of a command; None without any."""
        return decisive(self.outcomes_of(command))

    @cached_property
    def last_ms(self) -> int:
        """The newest time of all records; 0 without records."""
        return max(
            [*(one.ts for one in self.rounds), *(one.ts for one in self.outcomes)], default=0
        )

    @cached_property
    def by_id(self) -> Mapping[str, Command]:
        """Id → command."""
        return {command.id: command for command in self.commands}

    @cached_property
    def by_round(self) -> Mapping[RoundKey, list[Command]]:
        """Round → the commands that name it."""
        found: dict[RoundKey, list[Command]] = {}
        for one in self.commands:
            found.setdefault(_round_key(one), []).append(one)
        return found

    @cached_property
    def _by_number(self) -> dict[RoundKey, Round]:
        return {_round_key(one): one for one in self.rounds}

    @cached_property
    def _by_command(self) -> dict[tuple[str, str, str], list[Outcome]]:
        found: dict[tuple[str, str, str], list[Outcome]] = {}
        for one in self.outcomes:
            found.setdefault((one.command_id, one.cluster, one.bundle), []).append(one)
        return found


def decisive(given: Sequence[Outcome]) -> Outcome | None:
    """The decisive outcome of a command: the one that applied it, otherwise the newest without dry
    runs, otherwise any.
    """
    return max(reversed(given), key=lambda one: _PRECEDENCE.get(one.status, 1), default=None)


def _round_key(record: Round | Command) -> RoundKey:
    return record.cluster, record.epoch, record.round


def state_since(newest_first: Iterable[Round]) -> tuple[int | None, int]:
    """Since when the newest round's state lasts, and the number of rounds in a row that have it;
    None and 0 without a state.
    """
    code, since_ms, number = None, None, 0
    for one in newest_first:
        if one.state is None or code not in (None, one.state.code):
            break
        code, since_ms, number = one.state.code, one.ts, number + 1
    return since_ms, number


def source_of(text: str) -> Source:
    """The source in a command line: a topic's URI or a path. Raises SettingsError."""
    return parse_topic(text) if "://" in text else Path(text)


def read_log(rounds: Source, commands: Source, access: TopicAccess = NO_SECURITY) -> DecisionLog:
    """Reads both sources: a topic, a JSON Lines file, or a folder with either. Raises
    SettingsError, SinkError.

    Records that are not rounds or commands are skipped, see `DecisionLog.skipped`.
    """
    log = with_records(DecisionLog(), "rounds", rounds, access)
    return with_records(log, "commands", commands, access)


def read_topics(
    connections: Connections,
    kinds: Iterable[Kind],
    keys: Mapping[Kind, SigningKey | None],
    since_ms: int | None = None,
) -> DecisionLog:
    """Reads these topics; a file topic that does not exist yet is empty. `keys`: see
    `with_records`. Raises SettingsError, SinkError.
    """
    log, topics = DecisionLog(has_outcomes=True), dict(connections.topics.named())
    for kind in kinds:
        if is_there(kind, topics[kind]):
            key = keys.get(kind)
            log = with_records(log, kind, topics[kind], connections.access, key, since_ms=since_ms)
    return log


def with_records(
    log: DecisionLog,
    kind: Kind,
    source: Source,
    access: TopicAccess = NO_SECURITY,
    key: SigningKey | None = None,
    *,
    since_ms: int | None = None,
) -> DecisionLog:
    """The log with the records of a source. Of several rounds with one number the last counts, of
    several commands with one id the first, of equal outcomes one. Raises SettingsError, and
    SinkError also for a file that has only records of another kind.

    `key`: skips records that are not signed with it; `since_ms`: of a topic, without records that
    were published before.
    """
    source = _located(kind, source)
    skipped = Skipped(str(source), kind.removesuffix("s"))
    records = _records(source, access, since_ms)
    if kind == "approvals" and key is not None:
        records = (one for one in records if key.check(one.value) == "signed")
    decode = partial(decode_decision, kind, key=None if kind == "approvals" else key)
    found = [record for _, record in readable(records, decode, skipped)]
    if skipped.count and not found and isinstance(source, Path):
        raise SinkError(f"{skipped.lines()[0]} The file has no {skipped.kind}; name another file.")
    rounds = {_round_key(one): one for one in found if isinstance(one, Round)}
    commands: dict[str, LoggedCommand] = {}
    for one in found:
        if isinstance(one, LoggedCommand):
            commands.setdefault(one.command.id, one)
    answers = dict.fromkeys(one for one in found if isinstance(one, Outcome | ApprovalOutcome))
    return replace(
        log,
        rounds=(*log.rounds, *rounds.values()),
        commands=(*log.commands, *(one.command for one in commands.values())),
        digests={**log.digests, **{id_: one.digest for id_, one in commands.items()}},
        outcomes=(*log.outcomes, *(one for one in answers if isinstance(one, Outcome))),
        has_outcomes=log.has_outcomes or kind == "outcomes",
        approvals=(*log.approvals, *(one for one in found if isinstance(one, Approval))),
        answers=(*log.answers, *(one for one in answers if isinstance(one, ApprovalOutcome))),
        skipped=(*log.skipped, *skipped.lines()),
    )


def decode_decision(kind: str, value: bytes, key: SigningKey | None = None) -> DecisionRecord:
    """The record of rounds, commands, outcomes or approvals. Raises WireError, with a key also for
    a record that it has not signed.
    """
    record = _DECODERS[kind](value)
    if key is not None and key.check(value) != "signed":
        raise WireError("wrong-signature", "It is not signed with signing.key_file.")
    return record


_DECODERS: Mapping[str, Callable[[bytes], DecisionRecord]] = {
    "rounds": decode_round,
    "commands": lambda value: LoggedCommand(decode_command(value), command_digest(value)),
    "outcomes": decode_answer,
    "approvals": decode_approval,
}


def usable_key(
    signing: SigningSettings,
    read: Callable[[SigningSettings], SigningKey | None],
    log: Callable[[str], None] = lambda _: None,
) -> SigningKey | None:
    """The key, if this user has it: a user who only looks does not need it. `log`: gets the reason
    if not.
    """
    try:
        return read(signing)
    except SettingsError as error:
        log(str(error))
        return None


def is_there(kind: Kind, source: Source) -> bool:
    """True if a source has records of a kind; true for topics on servers, which are not
    contacted.
    """
    if isinstance(source, TopicUri):
        return source.scheme != "file" or source.folder.is_dir()
    return (
        source.is_file()
        or (source / f"{kind}.jsonl").is_file()
        or (source / kind).is_dir()
        or (source.is_dir() and bool(segments(source)))
    )


def values_of(kind: Kind, source: Source, access: TopicAccess = NO_SECURITY) -> Iterable[bytes]:
    """The undecoded records of a source. Raises SettingsError, SinkError."""
    return (record.value for record in _records(_located(kind, source), access))


def _records(
    source: Source, access: TopicAccess, since_ms: int | None = None
) -> Iterable[TopicRecord]:
    if isinstance(source, Path):
        return of_recording(str(source))
    return topic_records(source, access, since_ms=since_ms)


def _located(kind: Kind, source: Source) -> Source:
    """The topic or file of a source. Raises SettingsError, SinkError."""
    if isinstance(source, TopicUri):
        return _topic(source.folder) if source.scheme == "file" else source
    if not source.exists():
        raise SettingsError(
            [
                f"{source}: no such file or folder; name a topic URI, a JSON Lines file or "
                "the folder of a replay"
            ]
        )
    if source.is_file():
        return source
    return _topic(source) if segments(source) else _in_folder(kind, source)


def _in_folder(kind: Kind, folder: Path) -> Source:
    """The file or topic in a folder: a replay writes `commands.jsonl`, a job's folder has a topic
    `commands`.
    """
    if (folder / f"{kind}.jsonl").is_file():
        return folder / f"{kind}.jsonl"
    if (folder / kind).is_dir():
        return _topic(folder / kind)
    raise SettingsError(
        [
            f"{folder}: has neither {kind}.jsonl nor a topic {kind}; name the folder that "
            "replay --out wrote"
        ]
    )


def _topic(folder: Path) -> TopicUri:
    if not folder.is_dir():
        raise SinkError(
            f"{folder}: no such topic yet; check that the job has run with the same topics.* "
            "settings, and name its settings file with --config"
        )
    return file_topic(folder)
