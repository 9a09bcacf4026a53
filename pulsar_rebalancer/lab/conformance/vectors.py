"""Reads files of decision vectors: JSON Lines, plain or gzipped, one case per line.

Everything that keeps a file from being compared is a SettingsError whose one sentence starts with
the file and the line.
"""

import gzip
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any, Literal, TypeVar, cast

import msgspec

from strategies.errors import SettingsError
from strategies.java.pulsar_versions_and_defaults import RELEASES, PulsarRelease

_GZIP_MAGIC = b"\x1f\x8b"

#: A double; JSON cannot write the last three as numbers.
Number = float | Literal["NaN", "Infinity", "-Infinity"]
#: Per round (or query): Java's answer and ours, with the same fields.
Played = Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]
_T = TypeVar("_T")


class Envelope(msgspec.Struct, frozen=True):
    """Fields common to all cases."""

    suite: str
    strategy: str
    id: str
    expect: dict[str, Any]
    conf: dict[str, Any] = msgspec.field(default_factory=dict)


class _Answers(msgspec.Struct, frozen=True):
    rounds: list[dict[str, Any]] | None = None
    queries: list[dict[str, Any]] | None = None


class _Answered(msgspec.Struct, frozen=True):
    expect: _Answers


@dataclass(frozen=True, slots=True)
class Case:
    """One line of a file. `line`: its text; `where`: file and line for complaints; `release`: whose
    rules are compared with its answers, by default the release that gave them.
    """

    where: str
    line: bytes
    envelope: Envelope
    release: PulsarRelease = RELEASES[0]

    @property
    def answered_by(self) -> PulsarRelease:
        """The release whose classes gave the answers; keys that `conf` leaves out have its
        defaults.
        """
        return answered_by(self.envelope.suite)

    def read(self, type_: type[_T]) -> _T:
        """The case as a type of the suite. Raises SettingsError for another form."""
        return _decode(self.line, type_, self.where)

    def answered(
        self, form: type[_T], what: Literal["rounds", "queries"] = "rounds"
    ) -> list[tuple[_T, dict[str, Any]]]:
        """What Java was given, as `form`, each with its answer. Raises SettingsError unless there
        is one answer to each.
        """
        given, answers = (
            getattr(self.read(_holder(cast(Any, form), what)), what),
            getattr(self.read(_Answered).expect, what),
        )
        if answers is None:
            raise SettingsError(
                [f"{self.where}: not a decision vector: its answers contain no {what}"]
            )
        if len(given) != len(answers):
            raise SettingsError([f"{self.where}: {len(given)} {what} but {len(answers)} answers"])
        return list(zip(given, answers, strict=True))


def answered_by(suite: str) -> PulsarRelease:
    """The release whose classes gave the answers of a suite."""
    return "5.0" if suite.endswith("50") else "4.2"


def read_cases(file: Path, release: PulsarRelease | None = None) -> Iterator[Case]:
    """All cases of a file in order; at least one. `release`: whose rules are compared; None: those
    of the release that answered. Raises SettingsError for a file that cannot be read to its end.
    """
    empty = True
    for number, line in enumerate(_lines(file), start=1):
        if line.strip():
            empty = False
            where = f"{file}: line {number}"
            envelope = _decode(line, Envelope, where)
            yield Case(where, line, envelope, release or answered_by(envelope.suite))
    if empty:
        raise SettingsError(
            [f"{file}: contains no case; name a file of decision vectors (.jsonl or .jsonl.gz)"]
        )


@cache
def _holder(form: type, what: str) -> type:
    """The part of a case that lists its rounds or queries."""
    return msgspec.defstruct("Given", [(what, list[form])])  # type: ignore[valid-type]


def _decode(line: bytes, type_: type[_T], where: str) -> _T:
    try:
        return msgspec.json.decode(line, type=type_)
    except msgspec.ValidationError as error:
        raise SettingsError([f"{where}: not a decision vector: {error}"]) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SettingsError([f"{where}: not JSON: {error}"]) from error


def _lines(file: Path) -> Iterator[bytes]:
    with _readable(file), _open(file) as stream:
        yield from stream


def _open(file: Path) -> IO[bytes]:
    with file.open("rb") as stream:
        packed = file.suffix == ".gz" or stream.read(2) == _GZIP_MAGIC
    return cast(IO[bytes], gzip.open(file, "rb")) if packed else file.open("rb")


@contextmanager
def _readable(file: Path) -> Iterator[None]:
    try:
        yield
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise SettingsError([f"{file}: damaged gzip data ({error}); get the file again"]) from error
    except OSError as error:
        raise SettingsError(
            [f"{file}: cannot be read ({error.strerror or error}); name a file of decision vectors"]
        ) from error
