"""All rounds and commands of a topic, a file, or the folder of a replay; what was published twice counts once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, TypeVar

from cli.recording import topic_lines
from sinks.file_topic import FileTopicReader
from sinks.limits import WireLimits
from sinks.recording import open_recording
from sinks.segments import segments
from sinks.topic_uri import parse_topic
from sinks.topics import NO_SECURITY, TopicAccess
from sinks.wire import decode_command, decode_round
from strategies.errors import SettingsError, SinkError, WireError
from strategies.model import Command, Round

Kind = Literal["commands", "rounds"]
T = TypeVar("T")
#: What the first part of a line may look like.
TORN = frozenset({"not-json", "not-utf8", "not-object"})
#: Records of our own topics are as large as the cluster makes them.
_LIMITS = WireLimits(max_record_bytes=2**40)


@dataclass(frozen=True)
class History:
    """What was decided, in the order of publication."""

    rounds: tuple[Round, ...]
    commands: tuple[Command, ...]

    def of(self, cluster: str) -> History:
        """The part of one cluster."""
        return History(
            tuple(one for one in self.rounds if one.cluster == cluster), tuple(one for one in self.commands if one.cluster == cluster)
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
    """Reads both sources: a topic URI, a JSON Lines file, or a folder that holds either. SinkError names what cannot be read."""
    by_number = {(one.cluster, one.epoch, one.round): one for one in _decoded("rounds", rounds, decode_round, access)}
    by_id = {one.id: one for one in _decoded("commands", commands, decode_command, access)}
    return History(tuple(by_number.values()), tuple(by_id.values()))


def _decoded(kind: Kind, source: str, decode: Callable[[bytes], T], access: TopicAccess) -> Iterator[T]:
    """Passes over torn lines between whole ones: a job that was killed in an append leaves one, and publishes its record again."""
    torn, whole = "", False
    for number, value in enumerate(_values(kind, source, access), start=1):
        try:
            record = decode(value)
        except WireError as error:
            torn = torn or f"{source}: record {number} is none of the {kind} topic: {error.text}"
            if error.code not in TORN:
                raise SinkError(torn) from error
            continue
        whole = True
        yield record
    if torn and not whole:
        raise SinkError(torn)


def _values(kind: Kind, source: str, access: TopicAccess) -> Iterable[bytes]:
    if "://" in source:
        topic = parse_topic(source)
        return _topic(topic.folder) if topic.scheme == "file" else topic_lines(source, access)
    path = Path(source)
    if not path.exists():
        raise SettingsError([f"{source}: there is no such file or folder; name a topic URI, a JSON Lines file or the folder of a replay"])
    if path.is_file():
        return open_recording(path)
    if segments(path):
        return _topic(path)
    return _in_folder(kind, path)


def _in_folder(kind: Kind, folder: Path) -> Iterable[bytes]:
    """A replay leaves `commands.jsonl`, a job's folder has a topic `commands`."""
    if (folder / f"{kind}.jsonl").is_file():
        return open_recording(folder / f"{kind}.jsonl")
    if (folder / kind).is_dir():
        return _topic(folder / kind)
    raise SettingsError([f"{folder}: holds neither {kind}.jsonl nor a topic {kind}; name the folder that replay --out wrote"])


def _topic(folder: Path) -> Iterable[bytes]:
    if not folder.is_dir():
        raise SettingsError([f"{folder}: there is no such topic yet; has the job run, and with the same topics.* settings?"])
    return (record.value for record in FileTopicReader(folder, limits=_LIMITS).read()[0])
