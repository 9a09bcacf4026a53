"""A full disk: the message names the file or folder, its free space, and what to do; metrics of the
space. Each full file is a link to a device that is always full.
"""

import errno
import math
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from prometheus_client import CollectorRegistry

from pulsar_rebalancer.cli.errors import reported
from pulsar_rebalancer.lab.replay.decisions import Decisions, write
from pulsar_rebalancer.lab.report.page import write_page
from sinks.durable_files import is_full, write_durably
from sinks.metrics.service_metrics import DiskMetrics, DiskSpace, disk_space, file_topics
from sinks.recordings.json_lines import Recording
from sinks.topics.files.consumer import FileConsumer
from sinks.topics.files.topic import FileTopicWriter
from sinks.topics.topic_settings import Topics, file_topic, parse_topic
from sinks.wire.event_to_topic_rows import OutputRow
from tests.unit.metric_samples import samples

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
    """The second position finds no room."""
    for full in (False, True):
        with FileTopicWriter(folder / "topic") as writer:
            writer.append([b"{}"])
        consumer = FileConsumer(folder / "topic", "file:///t", "group", folder)
        (record,) = consumer.poll(1, 0)
        if full:
            (stored,) = folder.glob("group-*.json")
            linked(stored.with_suffix(".part"))
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


def test_the_metrics_of_the_space_are_read_at_every_request(tmp_path: Path) -> None:
    registry, free = CollectorRegistry(), [300.0]
    DiskMetrics(registry, {"executor.state": tmp_path}, lambda _: DiskSpace(1000, free[0]))
    assert samples(registry, "disk_free_bytes") == {("executor.state",): 300}
    free[0] = 200
    assert samples(registry, "disk_free_bytes") == {("executor.state",): 200}
    assert samples(registry, "disk_size_bytes") == {("executor.state",): 1000}


def test_a_folder_that_does_not_exist_yet_has_the_space_of_its_parent_or_no_figure(
    tmp_path: Path,
) -> None:
    found = disk_space(tmp_path / "not" / "yet")
    assert found.size == shutil.disk_usage(tmp_path).total
    assert 0 < found.free <= found.size
    assert all(map(math.isnan, disk_space(tmp_path / ("x" * 300)))), "it cannot be read"


@pytest.mark.parametrize("names", [["telemetry"], ["telemetry", "rounds", "commands"]])
def test_only_topics_in_folders_have_a_disk(names: list[str], tmp_path: Path) -> None:
    topics = Topics(telemetry=file_topic(tmp_path / "t"), rounds=parse_topic("kafka://h:1/rounds"))
    found = dict(file_topics(topics, names))
    assert found["topics.telemetry"] == tmp_path / "t"
    assert found.keys() == {f"topics.{name}" for name in names if name != "rounds"}
