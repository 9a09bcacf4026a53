"""Writers of a topic that die in the middle of an append: the torn line is one rejected record, and
nothing beside it is lost.
"""

import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_rebalancer.lab.plain_loop import PlainLoop
from sinks.topics.files.segments import segment_path
from sinks.topics.files.topic import FileTopicReader, FileTopicWriter
from sinks.wire.event_to_topic_rows import OutputRow
from sinks.wire.record_decoding import decode_rejected
from tools.processes.real_job import PROJECT, eager, recording

pytestmark = pytest.mark.faults

#: Appends large records for ever and says after each that it is there.
_WRITES_FOR_EVER = """
import itertools, pathlib, sys
from sinks.topics.files.topic import FileTopicWriter
with FileTopicWriter(pathlib.Path(sys.argv[1]), 10_000_000) as writer:
    for number in itertools.count():
        writer.append([b"%08d" % number + b"x" * 3_000_000, b"%08d" % number])
        print(number, flush=True)
"""


def child(script: str, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments], cwd=PROJECT, stdout=subprocess.PIPE
    )


def killed(process: subprocess.Popen[bytes]) -> bytes:
    """SIGKILL; what the process had said."""
    process.send_signal(signal.SIGKILL)
    return process.communicate()[0]


def read(folder: Path) -> list[bytes]:
    return [record.value for record in FileTopicReader(folder).read()[0]]


def decided(folder: Path) -> list[OutputRow]:
    loop = PlainLoop(eager("threshold"))
    return [row for record in FileTopicReader(folder).read()[0] for row in loop.feed(*record[:3])]


def tell(folder: Path, log: Sequence[bytes], size: int) -> None:
    """Publishes the log in appends of `size` lines."""
    with FileTopicWriter(folder, 300_000) as writer:
        for start in range(0, len(log), size):
            writer.append(log[start : start + size])


@pytest.mark.parametrize("seed", range(4))
def test_whatever_moment_a_writer_is_killed_at_all_that_it_had_told_is_there(
    tmp_path: Path, seed: int
) -> None:
    process = child(_WRITES_FOR_EVER, str(tmp_path))
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(random.Random(seed).uniform(0, 0.3))
    told = 1 + killed(process).count(b"\n")
    tell(tmp_path, [b"the next writer"], 1)
    lines = read(tmp_path)
    written = [
        b"%08d" % number + tail for number in range(told + 1) for tail in (b"x" * 3_000_000, b"")
    ]
    assert lines[: 2 * told] == written[: 2 * told]
    assert lines[-1] == b"the next writer"
    unfinished = lines[2 * told : -1]
    assert len(unfinished) <= 2
    assert all(
        whole.startswith(line) for line, whole in zip(unfinished, written[2 * told :], strict=False)
    )


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.integers(1, 9), st.data())
def test_a_torn_append_that_is_repeated_changes_no_decision(size: int, data: st.DataObject) -> None:
    log = [line for line in recording("modular-broker-killed")[:120] if b'"note"' not in line]
    start = data.draw(st.integers(0, len(log) - 1).map(lambda at: at - at % size))
    whole = b"".join(line + b"\n" for line in log[start : start + size])
    cut = data.draw(st.integers(1, len(whole) - 1))
    with TemporaryDirectory() as scratch:
        clean, torn = Path(scratch, "clean"), Path(scratch, "torn")
        tell(clean, log, size)
        tell(torn, log[:start], size)
        torn.mkdir(exist_ok=True)
        segment = max(torn.glob("segment-*"), default=segment_path(torn, 0))
        with segment.open("ab") as file:
            file.write(whole[:cut])
        tell(torn, log[start:], size)
        expected, found = decided(clean), decided(torn)
    assert [row for row in found if row.kind != "rejected"] == expected
    rejected = [decode_rejected(row.value) for row in found if row.kind == "rejected"]
    # What comes twice is no fault, unless something newer came between.
    assert len(rejected) <= len(whole[:cut].splitlines())
    assert [row.code for row in rejected if row.code != "out-of-order"] in ([], ["not-json"])
