"""Recordings: telemetry as JSON Lines in a file, plain (.jsonl), .jsonl.gz or .jsonl.zst, or on
standard input.
"""

import codecs
import gzip
import io
import sys
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Self, cast

import zstandard

from sinks.graceful_stop import interruptible
from strategies.errors import SettingsError, SinkError

_BLOCK = 2**18
#: Compressed bytes per read: zstd makes up to 128 KiB of every 4 bytes, so at most 16 MiB.
_PIECE = 512
#: Largest window of a zstd frame (zstd's default for streams), and longest line: more than any
#: topic accepts.
_LARGEST_WINDOW, _LONGEST_LINE = 2**27, 64 * 2**20
#: Lines and bytes that a file of any size may have, and what each further line takes: the shortest
#: record has 66 bytes, and its new time alone leaves more than 2 after compression. Large reports
#: without traffic become some thousand times smaller; Zstandard allows 32,768.
_MOST_LINES, _BYTES_OF_LINE, _PACKED_OF_LINE = 100_000, 32, 2
_MOST_BYTES, _MOST_TIMES = 2**30, 10_000
_GZIP, _ZSTD, _PARQUET = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PAR1"
_KINDS = {".gz": (_GZIP, "gzip (.jsonl.gz)"), ".zst": (_ZSTD, "zstd (.jsonl.zst)")}


def open_recording(source: Path | str, stdin: IO[bytes] | None = None) -> Iterator[bytes]:
    """The lines of a recording without newlines; "-" is standard input. Raises SinkError, and at
    once SettingsError for a file that cannot be opened.
    """
    if str(source) == "-":
        if stdin is None and sys.stdin is None:
            raise SinkError(
                "standard input is closed; pipe telemetry in, or name a recording instead of -."
            )
        return _standard_input(stdin or sys.stdin.buffer)
    path = Path(source)
    return _guarded(path, open_recorded(path))


def open_recorded(path: Path) -> io.BufferedReader:
    """The file of a recording of any form. Raises SettingsError, as for every file that a command
    names and that is not there.
    """
    try:
        return path.open("rb")
    except OSError as error:
        raise SettingsError(
            [
                f"{path}: cannot be read ({error.strerror}); name a recording (.jsonl, .jsonl.gz, "
                ".jsonl.zst or .parquet)"
            ]
        ) from error


class RecordingFile:
    """A recording being written; a context manager."""

    _path: Path

    def close(self) -> None:
        """Completes the file."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _failed(self, error: OSError) -> SinkError:
        return SinkError(
            f"{self._path} cannot be written ({error.strerror or error}); make room, or name "
            "another file."
        )


class Recording(RecordingFile):
    """A recording being written; a context manager. Lines are compressed as they arrive; the file
    is complete after `close`. The file name's ending selects the compression. Equal lines give
    equal bytes.
    """

    def __init__(self, path: Path) -> None:
        """Raises SinkError."""
        try:
            self._file = path.open("wb")
        except OSError as error:
            raise SinkError(
                f"{path} cannot be written ({error.strerror}); name a file in a folder that "
                "this user may write."
            ) from error
        self._path = path
        self._stream = _compressed(path, self._file)

    def append(self, values: Iterable[bytes]) -> None:
        """Appends one line per value. Raises SinkError, for example on a full disk."""
        try:
            for value in values:
                self._stream.write(value + b"\n")
        except OSError as error:
            raise self._failed(error) from error

    def close(self) -> None:
        """Completes the file."""
        try:
            if self._stream is not self._file:
                self._stream.close()
            self._file.close()
        except OSError as error:
            raise self._failed(error) from error


def _compressed(path: Path, file: IO[bytes]) -> IO[bytes]:
    if path.suffix == ".gz":
        # No name and no time in the header: equal lines give equal bytes.
        return cast(IO[bytes], gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0))
    if path.suffix == ".zst":
        return cast(
            IO[bytes],
            zstandard.ZstdCompressor(level=10, write_checksum=True).stream_writer(
                file, closefd=False
            ),
        )
    return file


def _standard_input(stdin: IO[bytes]) -> Iterator[bytes]:
    with interruptible(stdin) as stream:
        yield from _lines("standard input", stream)


def _guarded(path: Path, stream: io.BufferedReader) -> Iterator[bytes]:
    """Lines of a file; every kind of damage becomes a SinkError that names the last good line."""
    count = 0
    with stream:
        try:
            packed = _Packed(stream)
            for line in _bounded(path, packed, _lines(str(path), _plain(path, stream, packed))):
                yield line
                count += 1
        except (EOFError, OSError, zlib.error, zstandard.ZstdError) as error:
            raise SinkError(
                f"{path} is damaged after line {count} ({error}); copy it again, or "
                "decompress the good part into a .jsonl file."
            ) from error


def _plain(path: Path, stream: io.BufferedReader, packed: "_Packed") -> IO[bytes]:
    _check_kind(path, stream.peek(4)[:4])  # a named pipe cannot go back
    if path.suffix == ".gz":
        return cast(IO[bytes], gzip.GzipFile(fileobj=cast(IO[bytes], packed), mode="rb"))
    if path.suffix == ".zst":
        return io.BufferedReader(_ZstdStream(packed), _BLOCK)
    return stream


def _check_kind(path: Path, begin: bytes) -> None:
    """Raises SinkError if the content does not match the file name's ending; empty files pass."""
    if begin == _PARQUET:
        raise SinkError(
            f"{path} is a columnar recording, which only backtest and tune read; name the "
            "JSON Lines it was made of."
        )
    for suffix, (magic, kind) in _KINDS.items():
        if begin.startswith(magic) and path.suffix != suffix:
            raise SinkError(f"{path} is compressed with {kind}; give it that ending.")
        if path.suffix == suffix and begin and not begin.startswith(magic):
            raise SinkError(
                f"{path} is not compressed with {kind}; rename it to match its format, or "
                "copy it again."
            )


def _lines(name: str, stream: IO[bytes]) -> Iterator[bytes]:
    """Yields each line as soon as it is complete, also an unterminated last one. Raises SinkError
    before a too long line is in memory.
    """
    count = 0
    while line := stream.readline(_LONGEST_LINE + 1):
        count += 1
        if len(line) > _LONGEST_LINE:
            raise SinkError(
                f"{name}: line {count} has more than {_LONGEST_LINE >> 20} MiB; a recording "
                "holds one telemetry record per line."
            )
        if count == 1:
            line = _without_mark(name, line)
        yield line[:-1] if line.endswith(b"\n") else line


class _Packed:
    """A compressed file, and how much of it was read."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.taken = 0

    def read(self, size: int = -1, /) -> bytes:
        block = self._stream.read(size)
        self.taken += len(block)
        return block


def _bounded(path: Path, packed: _Packed, lines: Iterable[bytes]) -> Iterator[bytes]:
    """The lines, as long as they are as many and as long as telemetry may be in a file of this
    size. Raises SinkError.
    """
    size = 0
    for count, line in enumerate(lines, 1):
        size += len(line) + 1
        taken = packed.taken or size
        if (
            count > _MOST_LINES + min(size // _BYTES_OF_LINE, taken // _PACKED_OF_LINE)
            or size > _MOST_BYTES + taken * _MOST_TIMES
        ):
            raise SinkError(
                f"{path}: its first {taken} bytes hold {count} lines and {size >> 20} MiB, which "
                "is no telemetry; name a recording made with `rebalancer record`, or decompress "
                "it into a .jsonl file."
            )
        yield line


def _without_mark(name: str, line: bytes) -> bytes:
    """The first line without a byte order mark. Raises SinkError for one of UTF-16."""
    if line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise SinkError(
            f"{name} is UTF-16, as PowerShell writes it; convert it, for example with `iconv "
            "-f UTF-16 -t UTF-8`."
        )
    return line.removeprefix(codecs.BOM_UTF8)


class _ZstdStream(io.RawIOBase):
    """Decompresses one or more frames. Unlike the library's own reader it detects a file that ends
    in the middle of a frame.
    """

    def __init__(self, stream: _Packed) -> None:
        self._stream = stream
        self._frame = _frame()
        self._begun = False
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._ready:
            block = self._stream.read(_PIECE)
            if not block:
                if self._begun and not self._frame.eof:
                    raise EOFError("it ends in the middle of a zstd frame")
                return 0
            self._ready = memoryview(self._decompress(block))
        taken = self._ready[: len(buffer)]
        buffer[: len(taken)] = taken
        self._ready = self._ready[len(taken) :]
        return len(taken)

    def _decompress(self, block: bytes) -> bytes:
        out = []
        while block:
            if self._frame.eof:
                self._frame = _frame()
            self._begun = True
            out.append(self._frame.decompress(block))
            block = self._frame.unused_data if self._frame.eof else b""
        return b"".join(out)


def _frame() -> "zstandard.ZstdDecompressionObj":
    return zstandard.ZstdDecompressor(max_window_size=_LARGEST_WINDOW).decompressobj()


def check_use(origin: str, records: int, rejected: int) -> None:
    """Raises SinkError for a recording without usable records: the argument names the wrong
    file.
    """
    if not records:
        raise SinkError(
            f"{origin} holds no record; name a recording of load reports, made with "
            "`rebalancer record`."
        )
    if rejected >= records:
        count = "its only record" if records == 1 else f"none of its {records} records"
        raise SinkError(
            f"{origin}: {count} can{'not' if records == 1 else ''} be used as telemetry; name "
            "a recording of load reports, made with "
            "`rebalancer record` (`rebalancer replay` says what is wrong with each)."
        )
