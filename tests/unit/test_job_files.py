"""Files of a job stay bounded for months, whoever has them open; its temporary folder is deleted
after it.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from strategies.errors import SettingsError
from streaming.job_files import cut, keep_short, older_names, temporary_folder
from streaming.outputs.counts_of_micro_batch import Written
from streaming.progress import BatchProgress, progress_file
from tools.waiting import eventually


def older(file: Path) -> list[str]:
    return sorted(one.name for one in file.parent.glob(f"{file.name}.*"))


def test_whoever_has_a_file_open_goes_on_writing_to_it_when_it_is_cut(tmp_path: Path) -> None:
    file = tmp_path / "spark.log"
    with file.open("ab", buffering=0) as log:
        for number in range(6):
            log.write(f"line {number} {'x' * 90}\n".encode())
            cut(file, 190)
    lines = [text(older_one(file, number)) for number in (3, 2, 1)]
    assert [one.split()[1] for one in "".join([*lines, text(file)]).splitlines()] == [*"012345"]
    assert b"\0" not in file.read_bytes()


def text(file: Path) -> str:
    return file.read_text("utf-8") if file.exists() else ""


def older_one(file: Path, number: int) -> Path:
    return file.with_name(f"{file.name}.{number}")


def test_a_small_file_stays_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "spark.log"
    file.write_text("short")
    cut(file, 6)
    assert (text(file), older(file)) == ("short", [])


def test_only_the_newest_older_files_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "spark.log"
    for number in range(6):
        file.write_text(f"{number}")
        cut(file, 1)
    assert older(file) == ["spark.log.1", "spark.log.2", "spark.log.3"]
    assert [text(older_one(file, number)) for number in (1, 2, 3)] == ["5", "4", "3"]
    assert {*older(file)} < {*older_names("spark.log")}


def test_the_file_is_cut_beside_the_work(tmp_path: Path) -> None:
    file = tmp_path / "spark.log"
    with keep_short(file, 100, every_s=0.01):
        file.write_bytes(b"x" * 100)
        eventually(lambda: older(file) == ["spark.log.1"])
    assert file.stat().st_size == 0


def batch(number: int) -> BatchProgress:
    return BatchProgress(number, "2026-11-25T00:00:00Z", 1, 0, 5, {}, 3, Written())


def test_every_micro_batch_is_in_one_of_the_progress_files(tmp_path: Path) -> None:
    file = tmp_path / "progress.jsonl"
    write = progress_file(file, 3 * len(batch(0).json()))
    for number in range(7):
        write(batch(number))
    found = [text(older_one(file, 2)), text(older_one(file, 1)), text(file)]
    assert [one.count("\n") for one in found] == [3, 3, 1]
    assert "".join(found) == "".join(f"{batch(number).json()}\n" for number in range(7))


@pytest.mark.parametrize("device", ["null", "full"])
def test_what_is_no_regular_file_stays_and_a_full_disk_does_not_end_the_job(device: str) -> None:
    progress_file(Path("/dev", device), 0)(batch(0))
    assert not Path("/dev", f"{device}.1").exists()


def test_a_file_that_another_program_has_moved_away_is_opened_again(tmp_path: Path) -> None:
    file, theirs = tmp_path / "progress.jsonl", tmp_path / "theirs"
    write = progress_file(file, 10**9)
    write(batch(0))
    file.replace(theirs)
    write(batch(1))
    assert (text(theirs), text(file)) == (f"{batch(0).json()}\n", f"{batch(1).json()}\n")


@pytest.mark.parametrize("most", [1, 10**9])
def test_a_file_whose_content_has_no_other_place_grows(tmp_path: Path, most: int) -> None:
    file = tmp_path / "progress.jsonl"
    for number in (1, 2, 3):
        (older_one(file, number) / "in the way").mkdir(parents=True)
    write = progress_file(file, most)
    write(batch(0))
    write(batch(1))
    assert text(file).count("\n") == 2


_PROJECT = Path(__file__).parents[2]
#: A job with a child that has its lock, as Java has: it prints the folder and both process ids.
_JOB = """
import subprocess, sys, time
from pathlib import Path
from streaming.job_files import temporary_folder
with temporary_folder(Path(sys.argv[1])) as made:
    java = subprocess.Popen(["sleep", "600"], pass_fds=(made.lock,), stdout=subprocess.DEVNULL)
    (made.folder / "state").mkdir()
    (made.folder / "state" / "1.sst").write_bytes(b"x")
    (made.folder / "librocksdbjni.so").symlink_to("/bin/sh")
    print(made.folder, java.pid, flush=True)
    time.sleep(600)
"""


def test_two_jobs_have_folders_of_their_own_and_leave_none(tmp_path: Path) -> None:
    with temporary_folder(tmp_path) as one, temporary_folder(tmp_path) as other:
        assert one.folder != other.folder
        assert other.folder.is_dir()
        (one.folder / "file").write_text("x")
    assert list(tmp_path.iterdir()) == []


def test_the_folder_of_a_killed_job_is_deleted_once_its_java_has_ended(tmp_path: Path) -> None:
    job = subprocess.Popen(
        [sys.executable, "-c", _JOB, str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=_PROJECT
    )
    with job:
        assert job.stdout is not None
        name, java = job.stdout.readline().split()
        job.kill()
    left = Path(name)

    def next_job_deletes_it() -> bool:
        with temporary_folder(tmp_path):
            return not left.exists()

    assert not next_job_deletes_it(), "Java still uses it"
    assert (left / "state" / "1.sst").exists()
    os.kill(int(java), signal.SIGKILL)
    eventually(next_job_deletes_it)
    assert list(tmp_path.iterdir()) == []


def test_what_others_put_there_stays(tmp_path: Path) -> None:
    precious, names = tmp_path / "precious", ("link", "empty", "file", "elsewhere", "left")
    link, empty, file, elsewhere, left = (
        tmp_path / f"pulsar-rebalancer-job-{name}" for name in names
    )
    for folder in (precious, empty, elsewhere, left):
        folder.mkdir()
    for one in (precious / ".lock", file):
        one.touch()
    link.symlink_to(precious)
    (elsewhere / ".lock").symlink_to(precious / ".lock")
    before = {*tmp_path.rglob("*")}
    (left / ".lock").touch()
    (left / "link").symlink_to(precious)
    with temporary_folder(tmp_path):
        pass
    assert {*tmp_path.rglob("*")} == before - {left}


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="TMPDIR"), temporary_folder(tmp_path / "nowhere"):
        pytest.fail("it cannot be made")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_the_folder_of_another_user_stays(tmp_path: Path) -> None:
    """Root would take the files of another container with the same /tmp, whose lock is hidden."""
    left = tmp_path / "pulsar-rebalancer-job-left"
    left.mkdir()
    (left / ".lock").touch()
    os.chown(left / ".lock", 4711, -1)
    with temporary_folder(tmp_path):
        assert left.exists()
