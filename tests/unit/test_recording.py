"""Recordings, plain, packed and in columns; what is broken is told, with the last good line."""

import gzip
import io
import os
import subprocess
import sys
import threading
import zlib
from collections import deque
from collections.abc import Iterable
from itertools import count, repeat
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from pulsar_rebalancer.lab.replay import decisions
from sinks.recordings.columnar import schema
from sinks.recordings.columnar_reading import read_blocks
from sinks.recordings.json_lines import Recording, open_recording
from sinks.wire.event_to_topic_rows import rejected_row
from sinks.wire.record_decoding import Position, pack_origin
from strategies.errors import SettingsError, SinkError, WireError

PROJECT = Path(__file__).parents[2]
linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
ENDINGS = [".jsonl", ".jsonl.gz", ".jsonl.zst"]
LINES = [b'{"n":1}', b"", "größe".encode(), b"x" * 1_000_000, b"\r"]
TEXTS = st.text(max_size=50).map(lambda line: line.replace("\n", "").lstrip("\ufeff").encode())


def recorded(path: Path, lines: list[bytes]) -> Path:
    with Recording(path) as recording:
        recording.append(lines)
    return path


@pytest.mark.heavy
@settings(deadline=None)
@given(st.lists(TEXTS, max_size=20), st.sampled_from(ENDINGS))
def test_any_lines_come_back(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], ending: str
) -> None:
    path = recorded(tmp_path_factory.mktemp("r") / f"r{ending}", lines)
    assert list(open_recording(path)) == lines


@pytest.mark.parametrize("ending", ENDINGS)
def test_what_was_recorded_is_read_and_the_same_lines_give_the_same_bytes(
    tmp_path: Path, ending: str
) -> None:
    one, two = (recorded(tmp_path / f"{name}{ending}", LINES) for name in ("one", "two"))
    assert list(open_recording(str(one))) == LINES
    assert one.read_bytes() == two.read_bytes()


@linux
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_pipe_with_a_name_is_read(tmp_path: Path, ending: str) -> None:
    content = recorded(tmp_path / f"r{ending}", LINES).read_bytes()
    pipe = tmp_path / f"pipe{ending}"
    os.mkfifo(pipe)
    writing = threading.Thread(target=pipe.write_bytes, args=(content,))
    writing.start()

    assert list(open_recording(pipe)) == LINES

    writing.join()


@pytest.mark.parametrize("ending", ENDINGS[1:])
def test_archives_may_be_glued_together(tmp_path: Path, ending: str) -> None:
    part = recorded(tmp_path / f"part{ending}", LINES)
    (tmp_path / f"all{ending}").write_bytes(part.read_bytes() * 2)
    assert list(open_recording(tmp_path / f"all{ending}")) == LINES * 2


@pytest.mark.parametrize("ending", ENDINGS[1:])
@pytest.mark.parametrize("kept", [0.3, 0.9, 0.999, None])
def test_a_recording_that_was_cut_or_has_a_wrong_byte_says_how_far_it_was_good(
    tmp_path: Path, ending: str, kept: float | None
) -> None:
    path = recorded(tmp_path / f"r{ending}", [os.urandom(100).hex().encode() for _ in range(2000)])
    data = bytearray(path.read_bytes())
    if kept is None:
        data[len(data) // 2] ^= 0xFF
    else:
        del data[int(len(data) * kept) :]
    path.write_bytes(data)
    good: list[bytes] = []
    with pytest.raises(SinkError) as raised:
        good.extend(open_recording(path))
    assert str(raised.value).startswith(f"{path} is damaged after line {len(good)} (")
    assert "copy it again" in str(raised.value)


@pytest.mark.parametrize("ending", ENDINGS[1:])
def test_text_that_is_called_an_archive_is_told_to_be_none(tmp_path: Path, ending: str) -> None:
    (tmp_path / f"r{ending}").write_bytes(b'{"v":1}\n')
    told = r"is not compressed with .*; rename it to match its format"
    with pytest.raises(SinkError, match=told):
        list(open_recording(tmp_path / f"r{ending}"))


@pytest.mark.parametrize(
    ("data", "ending"),
    [(gzip.compress(b"{}\n", mtime=0), ".jsonl.gz"), (zstandard.compress(b"{}\n"), ".jsonl.zst")],
)
def test_an_archive_that_is_called_text_is_told_its_name(
    tmp_path: Path, data: bytes, ending: str
) -> None:
    (tmp_path / "r.jsonl").write_bytes(data)
    with pytest.raises(SinkError, match=rf"compressed with .*\{ending}\); give it that ending"):
        list(open_recording(tmp_path / "r.jsonl"))


def test_a_recording_that_is_not_there_is_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"nowhere\.jsonl: cannot be read \(No such file"):
        open_recording(tmp_path / "nowhere.jsonl")
    with pytest.raises(SettingsError, match="cannot be read"):
        open_recording(tmp_path)
    with pytest.raises(SinkError, match=r"cannot be written \(No such file"):
        Recording(tmp_path / "no" / "folder.jsonl")


def test_a_last_line_needs_no_newline(tmp_path: Path) -> None:
    (tmp_path / "r.jsonl").write_bytes(b"a\nb")
    assert list(open_recording(tmp_path / "r.jsonl")) == [b"a", b"b"]


def test_standard_input_is_a_recording() -> None:
    assert list(open_recording("-", io.BytesIO(b"a\n\nb\n"))) == [b"a", b"", b"b"]


def test_a_line_from_a_pipe_is_there_as_soon_as_it_was_written() -> None:
    """Who drives a replay waits for an answer before it writes the next line."""
    reading, writing = os.pipe()
    with open(reading, "rb") as stdin, open(writing, "wb", buffering=0) as driver:
        lines = open_recording("-", stdin)
        for line in (b"first", b"second"):
            driver.write(line + b"\n")
            got: list[bytes] = []
            thread = threading.Thread(target=lambda got=got: got.append(next(lines)), daemon=True)
            thread.start()
            thread.join(300)
            assert got == [line]


_READ = """
import sys
from pathlib import Path
from sinks.recordings.json_lines import open_recording
from strategies.errors import SinkError
try:
    for _ in open_recording(Path(sys.argv[1])):
        pass
except SinkError as error:
    print(error)
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM:")))
"""


@pytest.mark.heavy
@linux
@pytest.mark.parametrize("kind", ["gz", "zst"])
def test_a_line_of_a_gigabyte_in_a_small_file_is_refused_within_a_memory_bound(
    tmp_path: Path, kind: str
) -> None:
    path = packed(tmp_path / f"bomb.jsonl.{kind}", [b'{"v":1}\n', *[bytes(2**20)] * 1_000])
    program = [sys.executable, "-c", _READ, str(path)]
    said, peak_kb = subprocess.check_output(program, cwd=PROJECT, text=True).splitlines()
    what = "line 2 has more than 64 MiB; a recording holds one telemetry record per line."
    assert said == f"{path}: {what}"
    assert int(peak_kb) * 1024 < 300 * 2**20


def test_a_frame_that_asks_for_gigabytes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "window.jsonl.zst"
    parameters = zstandard.ZstdCompressionParameters(window_log=31, enable_ldm=True)
    with (
        path.open("wb") as file,
        zstandard.ZstdCompressor(compression_params=parameters).stream_writer(file) as writer,
    ):
        writer.write(b'{"v":1}\n')
    assert "too much memory" in lines_until_refused(path)[1]


SWEEP = b'{"v":1,"kind":"sweep","cluster":"c","ts":%d,"sweep":1,"brokers":["b:8080"]}\n'
#: What a line may hold, without end: nothing, an object, arrays, a record that repeats.
TINY = {"empty": b"\n", "object": b"{}\n", "arrays": b"[[[[]]]]\n", "record": SWEEP % 1}


def packed(path: Path, blocks: Iterable[bytes]) -> Path:
    """A file with these bytes, compressed as its ending says."""
    packer: Any = zlib.compressobj(6, zlib.DEFLATED, 31)
    if path.suffix == ".zst":
        packer = zstandard.ZstdCompressor().compressobj()
    with path.open("wb") as file:
        file.writelines(map(packer.compress, blocks))
        file.write(packer.flush())
    return path


def lines_until_refused(path: Path) -> tuple[int, str]:
    """Number of lines that are asked for before the error, and its text."""
    asked = count()
    with pytest.raises(SinkError) as refused:
        deque(zip(asked, open_recording(path), strict=False), maxlen=0)
    return next(asked), str(refused.value)


@pytest.mark.heavy
@pytest.mark.parametrize("ending", ENDINGS[1:])
@pytest.mark.parametrize("line", TINY.values(), ids=TINY)
def test_a_small_file_of_very_many_lines_is_refused(
    tmp_path: Path, ending: str, line: bytes
) -> None:
    many = line * (2**20 // len(line))
    path = packed(tmp_path / f"bomb{ending}", [many] * 32)
    assert path.stat().st_size < 300_000
    lines, said = lines_until_refused(path)
    assert lines < 300_000
    assert "lines and" in said
    assert "which is no telemetry; name a recording made with `rebalancer record`" in said


def test_a_file_of_empty_lines_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_bytes(b"\n" * 200_000)
    assert lines_until_refused(tmp_path / "empty.jsonl")[0] < 110_000


@pytest.mark.heavy
def test_a_small_file_of_very_many_bytes_is_refused(tmp_path: Path) -> None:
    """Zstandard makes up to 32,768 bytes of one, gzip at most 1,032."""
    path = packed(tmp_path / "bomb.jsonl.zst", [b"[" * (2**20 - 1) + b"\n"] * 2_200)
    assert path.stat().st_size < 300_000
    lines, said = lines_until_refused(path)
    assert lines < 2_000
    assert "which is no telemetry" in said


@pytest.mark.heavy
@pytest.mark.parametrize("ending", ENDINGS)
def test_months_of_a_cluster_in_which_nothing_happens_are_read(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"idle{ending}"
    lines = [SWEEP[:-1] % (1_700_000_000_000 + 60_000 * minute) for minute in range(250_000)]
    assert sum(1 for _ in open_recording(recorded(path, lines))) == len(lines)


def test_rejected_records_that_memory_should_not_hold_end_a_replay() -> None:
    origin = pack_origin(Position("r.jsonl", 0, 0), b"x" * 500_000)
    row = rejected_row(WireError("not-json", "No JSON."), origin, "")
    with pytest.raises(SinkError, match=r"more than 256 MiB .* `rebalancer replay - < FILE`"):
        decisions.collect(repeat(row))
    assert decisions.collect(repeat(row, 200)).rejected == (row,)


def write(path: Path, rows: int, **columns: list[Any]) -> Path:
    """A columnar recording in one row group, all null but for the columns that are given."""
    given = {"kind": ["rejected"] * rows, "ts": [0] * rows, **columns}
    arrays = [pa.array(given.get(field.name, [None] * rows), field.type) for field in schema()]
    parquet.write_table(
        pa.table(arrays, schema=schema()), path, compression="zstd", row_group_size=rows
    )
    return path


@pytest.mark.lab
def test_a_value_that_is_repeated_thousands_of_times_is_held_once(tmp_path: Path) -> None:
    path = write(tmp_path / "repeated.parquet", 1_000, original=[b"x" * 900_000] * 1_000)
    assert path.stat().st_size < 2**20
    (block,) = read_blocks(path)
    assert block.originals.nbytes < 10 * 2**20
    assert block.original(999) == b"x" * 900_000


def test_a_row_group_of_very_many_records_is_refused_with_its_number(tmp_path: Path) -> None:
    path = write(tmp_path / "many.parquet", 70_000)
    told = r"many\.parquet: row group 0 has 70000 records .* make it with `rebalancer convert`"
    with pytest.raises(SinkError, match=told):
        list(read_blocks(path))


@pytest.mark.lab
def test_a_column_that_would_take_very_much_memory_is_refused_with_its_row_group(
    tmp_path: Path,
) -> None:
    path = write(tmp_path / "wide.parquet", 2, bundle_traffic=[None, [0.0] * (2**25 + 1)])
    assert path.stat().st_size < 2**20
    told = r"wide\.parquet: row group 0 has 2 records and a column of 256 MiB"
    with pytest.raises(SinkError, match=told):
        list(read_blocks(path))
