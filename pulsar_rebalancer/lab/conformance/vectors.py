"""Reads files of decision vectors: JSON Lines, plain or gzipped, one case per line; and says where
two answers to a case differ.

Everything that keeps a file from being compared is a SettingsError whose one sentence starts with
the file and the line.
"""

import gzip
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from math import isnan
from pathlib import Path
from typing import IO, Any, Final, Literal, TypeVar, cast

import msgspec

from strategies.errors import SettingsError
from strategies.java.pulsar_versions_and_defaults import RELEASES, PulsarRelease

_GZIP_MAGIC = b"\x1f\x8b"

#: A double; JSON cannot write the last three as numbers.
Number = float | Literal["NaN", "Infinity", "-Infinity"]
#: Per round (or query): Java's answer and ours, with the same fields.
Played = Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]
#: Placeholder for a field that one side lacks.
ABSENT: Final = "(absent)"
_T = TypeVar("_T")


class Envelope(msgspec.Struct, frozen=True):
    """Fields common to all cases."""

    suite: str
    strategy: str
    id: str
    expect: dict[str, Any]
    conf: dict[str, Any] = msgspec.field(default_factory=dict)


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
        case: Any = self.read(_holder(cast(Any, form), what))
        given, answers = getattr(case, what), getattr(case.expect, what)
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
    """The part of a case that lists its rounds or queries, and the answers to them."""
    answers = msgspec.defstruct("Answers", [(what, list[dict[str, Any]] | None, None)])
    return msgspec.defstruct("Given", [(what, list[form]), ("expect", answers)])  # type: ignore[valid-type]


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


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference between the answers. `round` counts from 1; `field`: a path such as
    `ema[b1:1]`.
    """

    case: str
    round: int
    field: str
    expected: str
    got: str


def differences(
    case: str, round_: int, expected: Mapping[str, Any], got: Mapping[str, Any]
) -> list[Difference]:
    """All differences between two answers of a round, fields that one side lacks included."""
    return [
        Difference(case, round_, path, _shown(wanted), _shown(answered))
        for field in dict.fromkeys((*expected, *got))
        for path, wanted, answered in _walk(
            field, expected.get(field, ABSENT), got.get(field, ABSENT)
        )
    ]


def _walk(path: str, expected: Any, got: Any) -> Iterator[tuple[str, Any, Any]]:
    """Leaves that differ. The type of our value decides how Java's is read: Java writes doubles as
    numbers or names such as NaN.
    """
    if isinstance(got, Mapping) and isinstance(expected, Mapping):
        for key in dict.fromkeys((*expected, *got)):
            yield from _walk(f"{path}[{key}]", expected.get(key, ABSENT), got.get(key, ABSENT))
    elif (
        isinstance(got, list | tuple)
        and isinstance(expected, list | tuple)
        and len(got) == len(expected)
    ):
        for index, (wanted, answered) in enumerate(zip(expected, got, strict=True)):
            yield from _walk(f"{path}[{index}]", wanted, answered)
    elif not _identical(expected, got):
        yield path, expected, got


def _identical(expected: Any, got: Any) -> bool:
    if isinstance(got, float):
        wanted = _as_double(expected)
        return wanted is not None and _bits(wanted) == _bits(got)
    return type(expected) is type(got) and bool(expected == got)


def _as_double(value: Any) -> float | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    return float(value) if value in ("NaN", "Infinity", "-Infinity") else None


def _bits(value: float) -> bytes:
    return b"NaN" if isnan(value) else struct.pack("<d", value)


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Sequence) and not value:
        return "(nothing)"
    return repr(value)
