"""A record's position, limits of its size, and its original bytes, packed into one value that
travels with the decoded record; and the row of the rejected topic that is made of them.
"""

import struct
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

import msgspec
import zstandard

from sinks.wire.contracts.job_output import RejectedRecord
from strategies.cluster.quota import OVER_QUOTA, OverQuota
from strategies.errors import ContractError, WireError
from strategies.settings import Setting

_ENCODER = msgspec.json.Encoder()


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


@dataclass(frozen=True, slots=True)
class OutputRow:
    """One record for the topic that `kind` names. `key`: the cluster, empty if unknown."""

    kind: Literal["commands", "rounds", "rejected"]
    key: str
    value: bytes


def over_quota_row(aside: OverQuota, cluster: str) -> OutputRow:
    """The row of all records that a quota set aside, at the position of the first one."""
    origin = pack_origin(Position(*aside.first), b"", aside.size)
    return rejected_row(WireError(OVER_QUOTA, aside.text), origin, cluster)


def rejected_row(error: WireError, origin: bytes, cluster: str) -> OutputRow:
    """The row of a record that could not be decoded. `origin`: from `pack_origin`; `cluster`: empty
    if unknown.
    """
    return OutputRow("rejected", cluster, encode_rejected(error, unpack_origin(origin), cluster))


def encode_rejected(error: WireError, origin: Origin, cluster: str) -> bytes:
    """Encodes a record of the REJECTED topic; `cluster` is empty if unknown."""
    topic, partition, offset = origin.position
    record = RejectedRecord(
        v=1,
        topic=topic,
        partition=partition,
        offset=offset,
        cluster=cluster or None,
        code=error.code,
        text=error.text,
        original=origin.value[:LARGEST_ORIGINAL],
        size=origin.size,
        truncated=origin.truncated or len(origin.value) > LARGEST_ORIGINAL,
    )
    # `encode` returns bytes with up to half as much memory again; a job holds all rejected records
    # of a micro-batch.
    text = bytearray()
    _ENCODER.encode_into(record, text)
    return bytes(text)
