"""All rounds, commands and outcomes of a topic, a file, or the folder of a replay; repeated records
count once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Literal, TypeVar

from sinks.recordings.placed_lines import of_recording
from sinks.recordings.recorder import topic_records
from sinks.topics.access import NO_SECURITY, TopicAccess, TopicRecord
from sinks.topics.files.segments import segments
from sinks.topics.readable import Placed, Skipped, readable
from sinks.topics.uri import TopicUri, file_topic, parse_topic
from sinks.wire.codec import decode_answer, decode_command, decode_round
from sinks.wire.command_digest import command_digest
from sinks.wire.signing import SigningKey
from strategies.cluster.model import Command, Outcome, Round
from strategies.errors import SettingsError, SinkError, WireError
from strategies.executor.approvals import ApprovalOutcome

Kind = Literal["commands", "rounds", "outcomes", "telemetry"]
#: A topic, a JSON Lines file, or a folder that holds either.
Source = TopicUri | Path
T = TypeVar("T")


@dataclass(frozen=True)
class DecisionHistory:
    """Rounds and commands in the order of publication, with their outcomes."""

    rounds: tuple[Round, ...]
    commands: tuple[Command, ...]
    #: One line per kind of skipped record: number, place, reason.
    skipped: tuple[str, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    #: Whether outcomes were read: the folder of a replay has none.
    has_outcomes: bool = False
    #: Answers of executors to approvals, in the order of publication.
    approval_outcomes: tuple[ApprovalOutcome, ...] = ()
    #: Command id → SHA-256 (hex) of its record.
    digests: Mapping[str, str] = field(default_factory=dict)
    #: Command id → what it waits for, where plans need an approval.
    waits_for: Mapping[str, str] = field(default_factory=dict)

    def of(self, cluster: str) -> DecisionHistory:
        """The part of one cluster."""
        return self._part(lambda one: one.cluster == cluster)

    def of_epoch(self, epoch: int) -> DecisionHistory:
        """The part of one epoch of every cluster."""
        return self._part(lambda one: one.epoch == epoch)

    def generations(self) -> list[DecisionHistory]:
        """Parts by epoch: the newest epoch of each cluster, then the one before, and so on."""
        found = [(cluster, self.of(cluster).epochs[::-1]) for cluster in self.clusters]
        return [
            self._of_epochs(
                {cluster: epochs[age] for cluster, epochs in found if age < len(epochs)}
            )
            for age in range(max((len(epochs) for _, epochs in found), default=0))
        ]

    def of_newest_rounds(self) -> DecisionHistory:
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

    def _of_epochs(self, epochs: Mapping[str, int]) -> DecisionHistory:
        """The part with one epoch per cluster."""
        return self._part(lambda one: epochs.get(one.cluster) == one.epoch)

    def _part(self, belongs: Callable[[Round | Command], bool]) -> DecisionHistory:
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
        return [self._by_id[name] for name in done.commands if name in self._by_id]

    def round_of(self, command: Command) -> Round | None:
        """The round that published a command, or None."""
        key = (command.cluster, command.epoch, command.round)
        return next(
            (one for one in self.rounds if (one.cluster, one.epoch, one.round) == key), None
        )

    def outcomes_of(self, command: Command) -> tuple[Outcome, ...]:
        """All different outcomes of a command, in the order of publication."""
        return tuple(self._answers.get((command.id, command.cluster, command.bundle), ()))

    @cached_property
    def last_ms(self) -> int:
        """The newest time of all records; 0 without records."""
        return max(
            [*(one.ts for one in self.rounds), *(one.ts for one in self.outcomes)], default=0
        )

    @cached_property
    def _answers(self) -> dict[tuple[str, str, str], list[Outcome]]:
        found: dict[tuple[str, str, str], list[Outcome]] = {}
        for one in self.outcomes:
            found.setdefault((one.command_id, one.cluster, one.bundle), []).append(one)
        return found

    @cached_property
    def _by_id(self) -> dict[str, Command]:
        return {command.id: command for command in self.commands}


NO_HISTORY = DecisionHistory((), ())


def source_of(text: str) -> Source:
    """The source in a command line: a topic's URI or a path. Raises SettingsError."""
    return parse_topic(text) if "://" in text else Path(text)


def read_history(
    rounds: Source, commands: Source, access: TopicAccess = NO_SECURITY
) -> DecisionHistory:
    """Reads both sources: a topic, a JSON Lines file, or a folder with either. Raises
    SettingsError, SinkError.

    Records that are not rounds or commands are skipped, see `DecisionHistory.skipped`.
    """
    return with_commands(with_rounds(NO_HISTORY, rounds, access), commands, access)


def with_rounds(
    history: DecisionHistory,
    source: Source,
    access: TopicAccess = NO_SECURITY,
    *,
    since_ms: int | None = None,
) -> DecisionHistory:
    """The history with the rounds of a source. `since_ms`: of a topic, without records that were
    published before. Raises SettingsError, SinkError.
    """
    source = _located("rounds", source)
    no_rounds = Skipped(str(source), "round")
    by_number = {
        (one.cluster, one.epoch, one.round): one
        for one in _decoded(source, decode_round, access, no_rounds, since_ms=since_ms)
    }
    skipped = (*history.skipped, *no_rounds.lines())
    return replace(history, rounds=tuple(by_number.values()), skipped=skipped)


def with_commands(
    history: DecisionHistory,
    source: Source,
    access: TopicAccess = NO_SECURITY,
    key: SigningKey | None = None,
    *,
    since_ms: int | None = None,
) -> DecisionHistory:
    """The history with the commands of a source; of several records with one id the first counts.
    Raises SettingsError, SinkError.

    `key`: skips commands that are not signed with it; `since_ms`: see `with_rounds`.
    """
    source = _located("commands", source)
    no_commands = Skipped(str(source), "command")

    def decode(value: bytes) -> tuple[Command, str]:
        command = decode_command(value)
        if key is not None and key.check(value) != "signed":
            raise WireError("wrong-signature", "It is not signed with signing.key_file.")
        return command, command_digest(value)

    by_id: dict[str, tuple[Command, str]] = {}
    for command, digest in _decoded(source, decode, access, no_commands, since_ms=since_ms):
        by_id.setdefault(command.id, (command, digest))
    return replace(
        history,
        commands=tuple(command for command, _ in by_id.values()),
        digests={id_: digest for id_, (_, digest) in by_id.items()},
        skipped=(*history.skipped, *no_commands.lines()),
    )


def with_outcomes(
    history: DecisionHistory,
    source: Source,
    access: TopicAccess = NO_SECURITY,
    *,
    since_ms: int | None = None,
) -> DecisionHistory:
    """The history with outcomes from a source, of the same kinds as for rounds, and with answers to
    approvals; of equal ones the first counts. `since_ms`: see `with_rounds`.
    """
    source = _located("outcomes", source)
    no_outcomes = Skipped(str(source), "outcome")
    found = dict.fromkeys(_decoded(source, decode_answer, access, no_outcomes, since_ms=since_ms))
    return replace(
        history,
        outcomes=tuple(one for one in found if isinstance(one, Outcome)),
        approval_outcomes=tuple(one for one in found if isinstance(one, ApprovalOutcome)),
        has_outcomes=True,
        skipped=(*history.skipped, *no_outcomes.lines()),
    )


def is_there(kind: Kind, source: Source) -> bool:
    """Whether a source has records of a kind; true for topics on servers, which are not
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


def _decoded(
    source: Source,
    decode: Callable[[bytes], T],
    access: TopicAccess,
    skipped: Skipped,
    *,
    since_ms: int | None,
) -> Iterator[T]:
    """The decoded records of a topic or file. Raises SinkError for a file that has only records of
    another kind.
    """
    found = False
    for _, record in readable(_records(source, access, since_ms), decode, skipped):
        found = True
        yield record
    if skipped.count and not found and isinstance(source, Path):
        raise SinkError(f"{skipped.lines()[0]} The file has no {skipped.kind}; name another file.")


def _records(
    source: Source, access: TopicAccess, since_ms: int | None = None
) -> Iterable[Placed | TopicRecord]:
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
