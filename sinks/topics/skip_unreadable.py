"""Reads topics for people: records of another kind are skipped, counted, and reported with their
positions.

A topic may contain anything: records of a later version, of another program, or bytes that are not
JSON. None of them ends a command.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from sinks.topics.files.topic import TopicRecord
from sinks.topics.pulsar.partition import id_at, is_shared
from sinks.wire.record_decoding import Position, WireLimits
from strategies.errors import WireError

T = TypeVar("T")
#: Positions in a message before the rest is only counted.
_PLACES = 3


@dataclass(slots=True)
class _Reason:
    """Records skipped for one reason: the first positions, and the complaint about the first
    record.
    """

    text: str
    places: list[str] = field(default_factory=list)
    count: int = 0


@dataclass(slots=True)
class Skipped:
    """Records of `source` that were skipped. `kind`: the expected kind, in the singular, for
    example "command".
    """

    source: str
    kind: str
    reasons: dict[str, _Reason] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return sum(reason.count for reason in self.reasons.values())

    def add(self, position: Position, error: WireError) -> None:
        """Adds a skipped record."""
        reason = self.reasons.setdefault(error.code, _Reason(error.text))
        reason.count += 1
        if len(reason.places) < _PLACES:
            reason.places.append(place(position))

    def lines(self) -> list[str]:
        """One line per reason code: the number of records, the first positions, and the complaint
        about the first record.
        """
        return [_line(self, code, reason) for code, reason in self.reasons.items()]


def readable(
    records: Iterable[TopicRecord], decode: Callable[[bytes], T], skipped: Skipped
) -> Iterator[tuple[Position, T]]:
    """The decoded records with their positions. A record that is unread, or for which `decode`
    raises WireError, goes to `skipped`.
    """
    for record in records:
        try:
            check_read(record)
            decoded = decode(record.value)
        except WireError as error:
            skipped.add(record.position, error)
        else:
            yield record.position, decoded


def check_read(record: TopicRecord) -> None:
    """Raises WireError for a position of the topic that cannot be read."""
    if record.unread:
        raise WireError("unreadable-batch", record.unread)


def place(position: Position) -> str:
    """The position as the topic's own tools print it; in a recording, the byte offset in the
    uncompressed file.
    """
    topic, partition, offset = position
    match topic.partition("://")[0] if "://" in topic else "":
        case "kafka":
            return f"partition {partition}, offset {offset}"
        case "pulsar" | "pulsar+ssl":
            found = id_at(offset)
            later = " or a later one" if is_shared(found) else ""
            return (
                f"partition {partition}, message {found.ledger}:{found.entry}:{found.batch}{later}"
            )
        case "file":
            return f"segment {partition}, byte {offset}"
        case _:
            return f"byte {offset}"


def _line(skipped: Skipped, code: str, reason: _Reason) -> str:
    what = (
        f"1 record that is no {skipped.kind}"
        if reason.count == 1
        else f"{reason.count} records that are no {skipped.kind}s"
    )
    more = (
        f" and {reason.count - len(reason.places)} more"
        if reason.count > len(reason.places)
        else ""
    )
    return (
        f"{skipped.source}: skipped {what} [{code}]: {'; '.join(reason.places)}{more}. "
        f"{reason.text}"
    )


def check_complete(record: TopicRecord, limits: WireLimits, kind: str) -> None:
    """Raises WireError for a record that was not read, or not as a whole. `kind`: see `Skipped`."""
    check_read(record)
    if record.size > limits.max_record_bytes:
        raise WireError(
            "too-large",
            f"The record has {record.size} bytes, more than wire.max_record_bytes; no {kind} is "
            "that large.",
        )
