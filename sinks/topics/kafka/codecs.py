"""Decompresses batches of Kafka topics with all of Kafka's codecs, within a size limit.

kafka-python decompresses a batch in memory without limit: 32 KB of zstd become 1 GiB, and the
broker accepts such a batch, because max.message.bytes limits the compressed size. Its decoders are
names of one module and have no setting, so `bound_batches` replaces them. kafka-python also stops
for good at a batch it cannot read, without naming the position: with `bound_batches` the error
names it, and a reader continues after the batch.
"""

import io
import struct
import zlib
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

from sinks.topics.kafka.settings import LARGEST_REQUEST_BYTES

#: Largest decompressed batch, equal to our largest request. Reading it takes about three times as
#: much memory.
LARGEST_BATCH_BYTES = LARGEST_REQUEST_BYTES
#: How errors about a too large batch and about one that cannot be decompressed begin.
TOO_LARGE, UNREADABLE = "BatchTooLarge", "BatchUnreadable"
#: How kafka-python reports a batch with a wrong checksum.
_DAMAGED = "failed crc check"
#: Python package per codec.
PACKAGES: Mapping[str, str] = {
    "gzip": "",
    "snappy": "python-snappy",
    "lz4": "lz4",
    "zstd": "zstandard",
}
_SAMPLE = b"a load report " * 100
#: Framing of snappy by Kafka's own clients: a magic number, two versions, then blocks with their
#: lengths.
_XERIAL, _XERIAL_HEADER_BYTES = b"\x82SNAPPY\x00", 16


class _TooLarge(Exception):
    """A batch is above the size limit."""


class UnreadBatch(Exception):
    """A batch that is intact (its checksum is right) but unusable: above the size limit, or
    impossible to decompress.

    `partition`: kafka-python's TopicPartition; `first`, `last`: offsets of the skipped records.
    """

    def __init__(self, reason: str, partition: Any, first: int, last: int) -> None:
        super().__init__(f"{reason} (offsets {first} to {last})" if first < last else reason)
        self.partition, self.first, self.last = partition, first, last


def bound_batches() -> None:
    """Makes consumers of kafka-python raise UnreadBatch for a batch above LARGEST_BATCH_BYTES or
    with unreadable content.

    A reader continues after the batch with `seek`. A batch with a wrong checksum was damaged and
    stays a CorruptRecordError.
    """
    from kafka.consumer.fetcher import Fetcher
    from kafka.record import default_records

    for codec in _DECODERS:
        setattr(default_records, f"{codec}_decode", partial(unpacked, codec))
    Fetcher.PartitionRecords = _tracking_class()


@cache
def _tracking_class() -> Any:
    """A subclass of kafka-python's class for one partition's batches in a fetch response; reports
    the position of an unread batch.
    """
    from kafka.consumer.fetcher import Fetcher
    from kafka.errors import CorruptRecordError

    class TrackingRecords(Fetcher.PartitionRecords):  # type: ignore[misc]
        def __init__(self, fetch_offset: int, tp: Any, records: Any, **more: Any) -> None:
            self._noted = _TrackedBatches(records)
            super().__init__(fetch_offset, tp, self._noted, **more)

        def take(self, n: int | None = None) -> Any:
            try:
                return super().take(n)
            except CorruptRecordError as error:
                batch = self._noted.newest
                if batch is None or _DAMAGED in str(error):
                    raise
                first, partition = (
                    max(self.next_fetch_offset, batch.base_offset),
                    self.topic_partition,
                )
                self.drain()
                raise UnreadBatch(
                    str(error.args[0]), partition, first, batch.last_offset
                ) from error

    return TrackingRecords


class _TrackedBatches:
    """Batches of kafka-python, one by one. `newest`: the batch that is being read."""

    def __init__(self, records: Any) -> None:
        self._records = records
        self.newest: Any = None

    def next_batch(self) -> Any:
        """The next batch, None after the last."""
        self.newest = self._records.next_batch()
        return self.newest


def unpacked(codec: str, packed: Any, limit: int = LARGEST_BATCH_BYTES) -> bytes:
    """The content of a batch. Raises kafka.errors.CorruptRecordError if it has more than `limit`
    bytes or cannot be decompressed.
    """
    from kafka.errors import CorruptRecordError

    try:
        return _DECODERS[codec](bytes(packed), limit)
    except _TooLarge:
        raise CorruptRecordError(
            f"{TOO_LARGE}: {codec}, {len(packed):,} bytes hold more than {limit:,}"
        ) from None
    except Exception as error:  # each library has its own errors, some are RuntimeErrors
        raise CorruptRecordError(
            f"{UNREADABLE}: {codec}, {type(error).__name__}: {error}"
        ) from error


def broken_codecs() -> list[str]:
    """Codecs that do not work here, because a library is missing or broken."""
    from kafka import codec as codecs

    return [codec for codec in PACKAGES if not _works(codec, codecs)]


def _works(codec: str, codecs: Any) -> bool:
    try:
        return (
            getattr(codecs, f"has_{codec}")()
            and unpacked(codec, getattr(codecs, f"{codec}_encode")(_SAMPLE)) == _SAMPLE
        )
    except Exception:  # a broken library may raise anything
        return False


def _gzip(packed: bytes, limit: int) -> bytes:
    found = b""
    while packed:
        member = zlib.decompressobj(wbits=31)  # the format of gzip
        found += member.decompress(packed, limit + 1 - len(found))
        _check(len(found), limit)
        if not member.eof:
            raise EOFError("it ends too early")
        packed = member.unused_data
    return found


def _snappy(packed: bytes, limit: int) -> bytes:
    import snappy

    blocks = _xerial_blocks(packed) if packed.startswith(_XERIAL) else [packed]
    _check(sum(map(_snappy_length, blocks)), limit)
    return b"".join(map(snappy.decompress, blocks))


def _xerial_blocks(packed: bytes) -> list[bytes]:
    blocks, place = [], _XERIAL_HEADER_BYTES
    while place < len(packed):
        (length,) = struct.unpack_from("!I", packed, place)
        blocks.append(packed[place + 4 : place + 4 + length])
        place += 4 + length
    return blocks


def _snappy_length(block: bytes) -> int:
    """The length that a block claims, which the decoder allocates: a varint at its beginning."""
    length = 0
    for place, byte in enumerate(block[:5]):
        length |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return length
    raise ValueError("a block without a length")


def _lz4(packed: bytes, limit: int) -> bytes:
    from lz4.frame import LZ4FrameDecompressor

    frame = LZ4FrameDecompressor()
    found: bytes = frame.decompress(packed, max_length=limit + 1)
    _check(len(found), limit)
    if not frame.eof:
        raise EOFError("it ends too early")
    return found


def _zstd(packed: bytes, limit: int) -> bytes:
    import zstandard

    with zstandard.ZstdDecompressor().stream_reader(
        io.BytesIO(packed), read_across_frames=True
    ) as reader:
        found = reader.read(limit + 1)
    _check(len(found), limit)
    return found


def _check(size: int, limit: int) -> None:
    if size > limit:
        raise _TooLarge


_DECODERS: Mapping[str, Callable[[bytes, int], bytes]] = {
    "gzip": _gzip,
    "snappy": _snappy,
    "lz4": _lz4,
    "zstd": _zstd,
}
