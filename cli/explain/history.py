"""All rounds and commands of a topic, a file, or the folder of a replay; what was published twice counts once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal, TypeVar

from cli.recording import topic_records
from cli.replay.plain import of_recording
from sinks.readable import Skipped, readable
from sinks.segments import segments
from sinks.topic_uri import file_topic_uri, parse_topic
from sinks.topics import NO_SECURITY, TopicAccess
from sinks.wire import decode_command, decode_round
from strategies.errors import SettingsError, SinkError
from strategies.model import Command, Round

Kind = Literal["commands", "rounds"]
T = TypeVar("T")


@dataclass(frozen=True)
class History:
    """What was decided, in the order of publication."""

    rounds: tuple[Round, ...]
    commands: tuple[Command, ...]
    #: One line per kind of record that was skipped: how many, where, why.
    skipped: tuple[str, ...] = ()

    def of(self, cluster: str) -> History:
        """The part of one cluster."""
        return replace(
            self,
            rounds=tuple(one for one in self.rounds if one.cluster == cluster),
            commands=tuple(one for one in self.commands if one.cluster == cluster),
        )

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

    @cached_property
    def _by_id(self) -> dict[str, Command]:
        return {command.id: command for command in self.commands}


def read_history(rounds: str, commands: str, access: TopicAccess = NO_SECURITY) -> History:
    """Reads both sources: a topic URI, a JSON Lines file, or a folder that holds either. Raises SettingsError, SinkError.

    Records that are no rounds or commands are skipped, see `History.skipped`.
    """
    not_rounds, not_commands = Skipped(_located("rounds", rounds), "round"), Skipped(_located("commands", commands), "command")
    by_number = {(one.cluster, one.epoch, one.round): one for one in _decoded(decode_round, access, not_rounds)}
    by_id = {one.id: one for one in _decoded(decode_command, access, not_commands)}
    return History(tuple(by_number.values()), tuple(by_id.values()), (*not_rounds.lines(), *not_commands.lines()))


def _decoded(decode: Callable[[bytes], T], access: TopicAccess, skipped: Skipped) -> Iterator[T]:
    """What a topic or file holds. Raises SinkError for a file with records of another kind only: another file was meant."""
    found = False
    on_topic = "://" in skipped.source
    records = topic_records(skipped.source, access) if on_topic else of_recording(skipped.source)
    for _, record in readable(records, decode, skipped):
        found = True
        yield record
    if skipped.count and not found and not on_topic:
        raise SinkError(f"{skipped.lines()[0]} It holds no {skipped.kind} at all; name another file.")


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
