"""The position of a record in its topic, and limits of its size. Packed with the original bytes
into one value, the position travels with the decoded record to the rejected topic.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import zstandard

from strategies.errors import ContractError
from strategies.settings import Setting


@dataclass(frozen=True, slots=True)
class WireLimits:
    """Limits of the wire format. Readers cut a record larger than `max_record_bytes` to
    `kept_bytes` and pass on its true size.
    """

    max_record_bytes: Annotated[
        int,
        Setting(
            "Largest record that is decoded; a larger one goes to the rejected topic",
            "bytes",
            ge=1024,
            le=2**30,
        ),
    ] = 8 * 2**20
    #: Part of a too large record that the rejected topic keeps.
    kept_bytes: int = 64 * 2**10


DEFAULT_LIMITS = WireLimits()


def clip(value: bytes, limits: WireLimits) -> bytes:
    """The value itself, or its beginning if it is too large."""
    return value if len(value) <= limits.max_record_bytes else value[: limits.kept_bytes]


class Position(NamedTuple):
    """Sorted by topic, partition, offset. In a file topic: segment number and byte offset in the
    segment.
    """

    topic: str
    partition: int
    offset: int


#: Version, flags, length of the topic's name, partition, offset, true size of the record.
_HEADER = struct.Struct(">BBHqqq")
_VERSION = 1
#: The flag of an original in the state that an earlier version has compressed.
_COMPRESSED = 1
#: Bytes of a rejected record's original. As base64 it fits into the default record limits of Kafka
#: (1 MB) and Pulsar (5 MiB).
LARGEST_ORIGINAL = 512 * 2**10


@dataclass(frozen=True, slots=True)
class Origin:
    """`value`: the original bytes, or their beginning if `truncated`. `size`: bytes of the whole
    record.
    """

    position: Position
    value: bytes
    size: int

    @property
    def truncated(self) -> bool:
        return len(self.value) < self.size


def pack_origin(position: Position, value: bytes, size: int | None = None) -> bytes:
    """Keeps at most LARGEST_ORIGINAL bytes of `value`, so that a record of 8 MB is not copied.
    `size`: bytes of the whole record, if `value` is cut.
    """
    topic = position.topic.encode()
    header = _HEADER.pack(
        _VERSION,
        0,
        len(topic),
        position.partition,
        position.offset,
        len(value) if size is None else size,
    )
    return header + topic + value[:LARGEST_ORIGINAL]


def origin_size(origin: bytes) -> int:
    """Bytes of the whole record, read from the header alone."""
    return int(_header(origin)[5])


def unpack_origin(origin: bytes) -> Origin:
    """The inverse of `pack_origin`. Raises ContractError for bytes that `pack_origin` did not
    write.
    """
    _, flags, topic_length, partition, offset, size = _header(origin)
    start = _HEADER.size + topic_length
    body = origin[start:]
    value = zstandard.ZstdDecompressor().decompress(body) if flags & _COMPRESSED else body
    return Origin(Position(origin[_HEADER.size : start].decode(), partition, offset), value, size)


def _header(origin: bytes) -> tuple[int, int, int, int, int, int]:
    if len(origin) < _HEADER.size or origin[0] != _VERSION:
        raise ContractError(
            "An origin must be packed by this version; clear the checkpoint or continue it "
            "with the version that wrote it."
        )
    return _HEADER.unpack_from(origin)
