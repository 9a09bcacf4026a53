"""The temporary folder of a job: in use as long as one of its processes lives, deleted after."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from strategies.errors import SettingsError
from streaming.disk_use import temporary_folder
from tools.waiting import eventually

_PROJECT = Path(__file__).parents[2]
#: A job with a child that has its lock, as Java has: it prints the folder and both process ids.
_JOB = """
import subprocess, sys, time
from pathlib import Path
from streaming.disk_use import temporary_folder
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
        assert (one.folder.is_dir(), other.folder.is_dir()) == (True, True)
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
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / ".lock").touch()
    (tmp_path / "pulsar-rebalancer-job-link").symlink_to(precious)
    (tmp_path / "pulsar-rebalancer-job-empty").mkdir()
    (tmp_path / "pulsar-rebalancer-job-file").touch()
    for name in ("elsewhere", "left"):
        (tmp_path / f"pulsar-rebalancer-job-{name}").mkdir()
    (tmp_path / "pulsar-rebalancer-job-elsewhere" / ".lock").symlink_to(precious / ".lock")
    before = sorted(tmp_path.rglob("*"))
    (tmp_path / "pulsar-rebalancer-job-left" / ".lock").touch()
    (tmp_path / "pulsar-rebalancer-job-left" / "link").symlink_to(precious)
    with temporary_folder(tmp_path):
        pass
    before.remove(tmp_path / "pulsar-rebalancer-job-left")
    assert sorted(tmp_path.rglob("*")) == before


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="TMPDIR"), temporary_folder(tmp_path / "nowhere"):
        pytest.fail("it cannot be made")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_the_folder_of_another_user_stays(tmp_path: Path) -> None:
    """Root would take the files of a job whose lock it cannot see: that of another container with
    the same /tmp.
    """
    left = tmp_path / "pulsar-rebalancer-job-left"
    left.mkdir()
    (left / ".lock").touch()
    os.chown(left / ".lock", 4711, -1)
    with temporary_folder(tmp_path):
        assert left.exists()
