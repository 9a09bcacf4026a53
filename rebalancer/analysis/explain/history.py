"""All rounds, commands and outcomes of a topic, a file, or the folder of a replay; what was published twice counts once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal, TypeVar

from rebalancer.analysis.replay.plain import of_recording
from sinks.recordings.recorder import topic_records
from sinks.topics.access import NO_SECURITY, TopicAccess, TopicRecord
from sinks.topics.files.segments import segments
from sinks.topics.readable import Placed, Skipped, readable
from sinks.topics.uri import file_topic_uri, parse_topic
from sinks.wire.codec import decode_command, decode_outcome, decode_round
from strategies.errors import SettingsError, SinkError
from strategies.model import Command, Outcome, Round

Kind = Literal["commands", "rounds", "outcomes", "telemetry"]
T = TypeVar("T")


@dataclass(frozen=True)
class DecisionHistory:
    """What was decided, in the order of publication."""

    rounds: tuple[Round, ...]
    commands: tuple[Command, ...]
    #: One line per kind of record that was skipped: how many, where, why.
    skipped: tuple[str, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    #: Whether outcomes could be read at all: a replay's folder holds none.
    has_outcomes: bool = False

    def of(self, cluster: str) -> DecisionHistory:
        """The part of one cluster."""
        return self._part(lambda one: one.cluster == cluster)

    def of_epoch(self, epoch: int) -> DecisionHistory:
        """The part of one epoch of every cluster."""
        return self._part(lambda one: one.epoch == epoch)

    def generations(self) -> list[DecisionHistory]:
        """The newest epoch of every cluster, then the one before, and so on."""
        found = [(cluster, self.of(cluster).epochs[::-1]) for cluster in self.clusters]
        count = max((len(epochs) for _, epochs in found), default=0)
        by_age = [{cluster: epochs[age] for cluster, epochs in found if age < len(epochs)} for age in range(count)]
        return [self._of_epochs(epochs) for epochs in by_age]

    def of_newest_rounds(self) -> DecisionHistory:
        """The newest epoch of every cluster that has rounds: commands of a newer one may be there before its first round."""
        return self._of_epochs({one.cluster: one.epoch for one in self.newest_rounds()})

    def newest_rounds(self) -> list[Round]:
        """One of each cluster, by name; publication may be out of order where a topic has partitions."""
        newest = {one.cluster: one for one in sorted(self.rounds, key=lambda one: (one.epoch, one.round))}
        return [newest[cluster] for cluster in sorted(newest)]

    @property
    def epochs(self) -> list[int]:
        """Ascending."""
        return sorted({one.epoch for one in self.rounds} | {one.epoch for one in self.commands})

    def _of_epochs(self, epochs: Mapping[str, int]) -> DecisionHistory:
        """One epoch of each cluster."""
        return self._part(lambda one: epochs.get(one.cluster) == one.epoch)

    def _part(self, belongs: Callable[[Round | Command], bool]) -> DecisionHistory:
        rounds = tuple(one for one in self.rounds if belongs(one))
        return replace(self, rounds=rounds, commands=tuple(one for one in self.commands if belongs(one)))

    @property
    def clusters(self) -> list[str]:
        return sorted({one.cluster for one in self.rounds} | {one.cluster for one in self.commands})

    def commands_of(self, done: Round) -> list[Command]:
        """The commands of a round, in its order; ids whose record is not at hand are left out."""
        return [self._by_id[name] for name in done.commands if name in self._by_id]

    def round_of(self, command: Command) -> Round | None:
        """The round that gave a command."""
        key = (command.cluster, command.epoch, command.round)
        return next((one for one in self.rounds if (one.cluster, one.epoch, one.round) == key), None)

    def outcomes_of(self, command: Command) -> tuple[Outcome, ...]:
        """All different outcomes of a command, in the order of publication."""
        return tuple(self._answers.get((command.id, command.cluster, command.bundle), ()))

    @cached_property
    def last_ms(self) -> int:
        """The newest time that any record names; 0 if there is none."""
        return max([*(one.ts for one in self.rounds), *(one.ts for one in self.outcomes)], default=0)

    @cached_property
    def _answers(self) -> dict[tuple[str, str, str], list[Outcome]]:
        found: dict[tuple[str, str, str], list[Outcome]] = {}
        for one in self.outcomes:
            found.setdefault((one.command_id, one.cluster, one.bundle), []).append(one)
        return found

    @cached_property
    def _by_id(self) -> dict[str, Command]:
        return {command.id: command for command in self.commands}


def read_history(rounds: str, commands: str, access: TopicAccess = NO_SECURITY) -> DecisionHistory:
    """Reads both sources: a topic URI, a JSON Lines file, or a folder that holds either. Raises SettingsError, SinkError.

    Records that are no rounds or commands are skipped, see `DecisionHistory.skipped`.
    """
    not_rounds, not_commands = Skipped(_located("rounds", rounds), "round"), Skipped(_located("commands", commands), "command")
    by_number = {(one.cluster, one.epoch, one.round): one for one in _decoded(decode_round, access, not_rounds)}
    by_id = {one.id: one for one in _decoded(decode_command, access, not_commands)}
    return DecisionHistory(tuple(by_number.values()), tuple(by_id.values()), skipped=(*not_rounds.lines(), *not_commands.lines()))


def with_outcomes(history: DecisionHistory, source: str, access: TopicAccess = NO_SECURITY) -> DecisionHistory:
    """The same with what became of the commands, from a source like the others; of equal outcomes the first counts."""
    no_outcomes = Skipped(_located("outcomes", source), "outcome")
    found = dict.fromkeys(_decoded(decode_outcome, access, no_outcomes))
    return replace(history, outcomes=tuple(found), has_outcomes=True, skipped=(*history.skipped, *no_outcomes.lines()))


def is_there(kind: Kind, source: str) -> bool:
    """Whether a source holds records of a kind, as far as can be seen without asking a server."""
    if "://" in source:
        topic = parse_topic(source)
        return topic.scheme != "file" or topic.folder.is_dir()
    path = Path(source)
    return path.is_file() or (path / f"{kind}.jsonl").is_file() or (path / kind).is_dir() or (path.is_dir() and bool(segments(path)))


def values_of(kind: Kind, source: str, access: TopicAccess = NO_SECURITY) -> Iterable[bytes]:
    """The records of a source as they are. Raises SettingsError, SinkError."""
    return (record.value for record in _records(_located(kind, source), access))


def _decoded(decode: Callable[[bytes], T], access: TopicAccess, skipped: Skipped) -> Iterator[T]:
    """What a topic or file holds. Raises SinkError for a file with records of another kind only: another file was meant."""
    found = False
    for _, record in readable(_records(skipped.source, access), decode, skipped):
        found = True
        yield record
    if skipped.count and not found and "://" not in skipped.source:
        raise SinkError(f"{skipped.lines()[0]} It holds no {skipped.kind} at all; name another file.")


def _records(source: str, access: TopicAccess) -> Iterable[Placed | TopicRecord]:
    return topic_records(source, access) if "://" in source else of_recording(source)


def _located(kind: Kind, source: str) -> str:
    """The topic's URI or the file's path that a source means. Raises SettingsError."""
    if "://" in source:
        topic = parse_topic(source)
        return _topic(topic.folder) if topic.scheme == "file" else source
    path = Path(source)
    if not path.exists():
        raise SettingsError([f"{source}: there is no such file or folder; name a topic URI, a JSON Lines file or the folder of a replay"])
    if path.is_file():
        return source
    if segments(path):
        return _topic(path)
    return _in_folder(kind, path)


def _in_folder(kind: Kind, folder: Path) -> str:
    """A replay leaves `commands.jsonl`, a job's folder has a topic `commands`."""
    if (folder / f"{kind}.jsonl").is_file():
        return str(folder / f"{kind}.jsonl")
    if (folder / kind).is_dir():
        return _topic(folder / kind)
    raise SettingsError([f"{folder}: holds neither {kind}.jsonl nor a topic {kind}; name the folder that replay --out wrote"])


def _topic(folder: Path) -> str:
    if not folder.is_dir():
        raise SettingsError([f"{folder}: there is no such topic yet; has the job run, and with the same topics.* settings?"])
    return file_topic_uri(folder)
