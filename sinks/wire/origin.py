"""Where a record came from and its original bytes, as one opaque value that travels with the decoded record to the rejected topic."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import zstandard

from sinks.wire.position import Position
from strategies.errors import ContractError

#: Version, flags, length of the topic's name, partition, offset, true size of the record.
_HEADER = struct.Struct(">BBHqqq")
_VERSION = 1
_COMPRESSED = 1
#: Kept of a record's original. In base64 it fits into 1 MB, which every topic takes as it is by default (Kafka 1 MB, Pulsar 5 MiB).
LARGEST_ORIGINAL = 512 * 2**10


@dataclass(frozen=True, slots=True)
class Origin:
    """`value`: the original bytes, or the first of them when `truncated`; `size`: how many there were."""

    position: Position
    value: bytes
    size: int

    @property
    def truncated(self) -> bool:
        return len(self.value) < self.size


def pack_origin(position: Position, value: bytes, size: int | None = None, *, compress: bool = True) -> bytes:
    """At most LARGEST_ORIGINAL bytes of `value` are kept, so that a record of 8 MB is not carried a second time.

    `size` is given where `value` holds only the beginning. Without `compress` it is faster and larger; readers need not care.
    """
    topic = position.topic.encode()
    flags = _COMPRESSED if compress else 0
    header = _HEADER.pack(_VERSION, flags, len(topic), position.partition, position.offset, len(value) if size is None else size)
    kept = value[:LARGEST_ORIGINAL]
    return header + topic + (zstandard.ZstdCompressor(level=1).compress(kept) if compress else kept)


def origin_size(origin: bytes) -> int:
    """The true size of the record in bytes, without unpacking anything else."""
    return int(_header(origin)[5])


def unpack_origin(origin: bytes) -> Origin:
    """The opposite of `pack_origin`. Raises ContractError for bytes that it did not write."""
    _, flags, topic_length, partition, offset, size = _header(origin)
    start = _HEADER.size + topic_length
    body = origin[start:]
    value = zstandard.ZstdDecompressor().decompress(body) if flags & _COMPRESSED else body
    return Origin(Position(origin[_HEADER.size : start].decode(), partition, offset), value, size)


def _header(origin: bytes) -> tuple[int, int, int, int, int, int]:
    if len(origin) < _HEADER.size or origin[0] != _VERSION:
        raise ContractError("An origin must be packed by this version; clear the checkpoint or continue it with the version that wrote it.")
    return _HEADER.unpack_from(origin)
