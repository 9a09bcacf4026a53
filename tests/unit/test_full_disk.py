"""A full disk: the message names the file or folder, its free space, and what to do. Each file here
is a link to a device that is always full.
"""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from pulsar_rebalancer.cli.errors import reported
from pulsar_rebalancer.lab.replay.decisions import Decisions, write
from pulsar_rebalancer.lab.report.page import write_page
from sinks.disk import is_full, write_durably
from sinks.recordings.json_lines import Recording
from sinks.topics.files.consumer import FileConsumer
from sinks.topics.files.topic import FileTopicWriter
from sinks.wire.origin import OutputRow

FULL = Path("/dev/full")

pytestmark = pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")


def linked(file: Path) -> Path:
    file.parent.mkdir(exist_ok=True)
    file.symlink_to(FULL)
    return file


def page(folder: Path) -> None:
    linked(folder / f".page.html.{os.getpid()}.part")
    write_page(folder / "page.html", "<p>")


def decisions(folder: Path) -> None:
    linked(folder / f".commands.jsonl.{os.getpid()}.part")
    write(Decisions((OutputRow("commands", "c", b"{}"),), (), ()), folder)


def settings(folder: Path) -> None:
    linked(folder / "draft")
    write_durably(folder / "guard.json", "{}", "draft")


def topic(folder: Path) -> None:
    linked(folder / "segment-00000000.jsonl")
    with FileTopicWriter(folder) as writer:
        writer.append([b"{}"])


def positions(folder: Path) -> None:
    with FileTopicWriter(folder / "topic") as writer:
        writer.append([b"{}"])
    consumer = FileConsumer(folder / "topic", "file:///t", "group", folder)
    (record,) = consumer.poll(1, 0)
    consumer.commit(record)
    (stored,) = folder.glob("group-*.json")
    linked(stored.with_suffix(".part"))
    consumer = FileConsumer(folder / "topic", "file:///t", "group", folder)
    with FileTopicWriter(folder / "topic") as writer:
        writer.append([b"{}"])
    (record,) = consumer.poll(1, 0)
    consumer.commit(record)


def recording(folder: Path) -> None:
    with Recording(linked(folder / "all.jsonl")) as file:
        file.append([b"{}"])


@pytest.mark.parametrize("writes", [page, decisions, settings, topic, positions, recording])
def test_it_is_named_with_the_remedy_whatever_is_written(
    writes: Callable[[Path], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "full"
    folder.mkdir()
    with pytest.raises(typer.Exit), reported():
        writes(folder)

    said = capsys.readouterr().err
    assert said.startswith(f"error: {folder}")
    assert "No space left on device" in said
    assert "free space there" in said or "make room" in said


def test_of_a_file_without_a_name_the_likely_folders_are_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As of standard output."""
    with pytest.raises(typer.Exit), reported(), FULL.open("w") as out:
        print("a line", file=out, flush=True)

    said = capsys.readouterr().err
    assert said.startswith("error: No space left on device; ")
    assert f"{Path.cwd()} has " in said
    assert "MiB free; free space there, or name a folder on another disk" in said


@pytest.mark.parametrize(
    ("error", "full"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), True),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), True),
        (RuntimeError("java.io.IOException: No space left on device"), True),
        (OSError("[Errno 28] Error writing bytes to file. Detail: No space left on device"), True),
        (OSError(errno.EACCES, "Permission denied"), False),
        (RuntimeError("java.io.IOException: Broken pipe"), False),
    ],
)
def test_what_a_full_disk_is(error: Exception, full: bool) -> None:
    assert is_full(error) == full
