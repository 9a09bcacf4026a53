"""Batches that no client makes, sent to a Kafka broker in its own protocol: small when sent, large
or broken when unpacked.
"""

import socket
import struct

import zstandard
from crc32c import crc32c
from kafka.record.util import encode_varint

from sinks.topics.topic_settings import TopicUri
from tests.topic_uris import topic_of

_ZSTD = 4
_CHUNK = bytes(2**20)


def bomb(mebibytes: int) -> bytes:
    """The content of a batch with one record of `mebibytes` of zeros, packed without ever being
    whole in memory.
    """
    size = mebibytes * len(_CHUNK)
    before = b"\0" + _varints(0, 0, -1, size)
    packer = zstandard.ZstdCompressor().compressobj()
    parts = [packer.compress(_varints(len(before) + size + 1) + before)]
    parts += [packer.compress(_CHUNK) for _ in range(mebibytes)]
    return b"".join([*parts, packer.compress(_varints(0)), packer.flush()])


def batch(content: bytes, codec: int = _ZSTD, records: int = 1) -> bytes:
    """A batch around what is packed, with the right checksum."""
    summed = struct.pack(">hiqqqhii", codec, records - 1, 0, 0, -1, -1, -1, records) + content
    return struct.pack(">qiibI", 0, len(summed) + 9, 0, 2, crc32c(summed)) + summed


def bombs(records: int, mebibytes: int) -> bytes:
    """The same with several records, each of `mebibytes`."""
    size = mebibytes * len(_CHUNK)
    packer = zstandard.ZstdCompressor().compressobj()
    parts: list[bytes] = []
    for number in range(records):
        before = b"\0" + _varints(0, number, -1, size)
        parts.append(packer.compress(_varints(len(before) + size + 1) + before))
        parts += [packer.compress(_CHUNK) for _ in range(mebibytes)]
        parts.append(packer.compress(_varints(0)))
    return b"".join([*parts, packer.flush()])


def with_header(name: bytes, value: bytes) -> bytes:
    """The content of an unpacked batch: one record whose header has any bytes as its name."""
    body = (
        b"\0"
        + _varints(0, 0, -1, len(value))
        + value
        + _varints(1, len(name))
        + name
        + _varints(-1)
    )
    return _varints(len(body)) + body


def numbered(whole: bytes, offset: int) -> bytes:
    """A batch as it is in a broker's file."""
    return struct.pack(">q", offset) + whole[8:]


def produce(uri: str | TopicUri, records: bytes) -> int:
    """Sends a batch to the topic's first partition; the broker's error code, 0 when it has taken
    it.
    """
    topic = topic_of(uri)
    host, _, port = topic.servers.partition(":")
    name = topic.name.encode()
    body = struct.pack(">hhi", -1, -1, 30_000) + struct.pack(f">ih{len(name)}s", 1, len(name), name)
    body += struct.pack(">iii", 1, 0, len(records)) + records
    request = struct.pack(">hhih", 0, 7, 1, -1) + body
    with socket.create_connection((host, int(port)), 60) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        answer = connection.makefile("rb")
        (length,) = struct.unpack(">i", answer.read(4))
        response = answer.read(length)
    # Correlation, one topic with its name, one partition with its number, then the error.
    return int(struct.unpack_from(">h", response, 4 + 4 + 2 + len(name) + 4 + 4)[0])


def _varints(*numbers: int) -> bytes:
    written = bytearray()
    for number in numbers:
        encode_varint(number, written.append)
    return bytes(written)
