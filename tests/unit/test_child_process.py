"""A child process ends when its parent ends, and an error reports its failure in one sentence."""

import os
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from pulsar_rebalancer.cli.child_process import ChildFailed, ChildProcess
from tools.waiting import eventually


def job(tmp_path: Path, program: str, environment: Mapping[str, str] = os.environ) -> ChildProcess:
    command = (sys.executable, "-c", program)
    return ChildProcess("the job", command, tmp_path / "job.log", environment=environment)


def said(tmp_path: Path, word: str) -> str:
    """Waits until the job has said a word, and gives all it said."""
    log = tmp_path / "job.log"
    eventually(lambda: word in log.read_text(), 300, word)
    return log.read_text()


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"


def test_it_is_asked_to_stop_and_waited_for(tmp_path: Path) -> None:
    polite = (
        "import signal,sys\nsignal.signal(15, lambda *_: (print('bye'), "
        "sys.exit(0)))\nprint('up', flush=True)\nsignal.pause()"
    )
    with job(tmp_path, polite) as running:
        said(tmp_path, "up")
        running.check()
    assert "bye" in (tmp_path / "job.log").read_text()


def test_what_it_started_goes_with_it(tmp_path: Path) -> None:
    parent = (
        "import subprocess,signal\nprint(subprocess.Popen(['sleep','600']).pid, 'up', "
        "flush=True)\nsignal.pause()"
    )
    with job(tmp_path, parent):
        child = int(said(tmp_path, "up").split()[0])
        assert is_alive(child)
    eventually(lambda: not is_alive(child), 300)


@pytest.mark.parametrize(
    ("program", "told"),
    [
        (
            "print('starting'); print('error: no Java here.'); print('bye'); exit(1)",
            r"exit code 1\): no Java here; its log is .*job\.log",
        ),
        (
            "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
            r"killed by SIGKILL\): its log is empty",
        ),
    ],
)
def test_a_job_that_ends_by_itself_is_told_with_its_last_words(
    tmp_path: Path, program: str, told: str
) -> None:
    with job(tmp_path, program) as running, pytest.raises(ChildFailed, match=told):
        wait_for_failure(running)


def wait_for_failure(running: ChildProcess) -> None:
    for _ in range(30_000):
        running.check()
        time.sleep(0.01)


def test_settings_in_the_environment_do_not_reach_it(tmp_path: Path) -> None:
    environment = {**os.environ, "REBALANCER_ROUND__INTERVAL_MS": "1000"}
    show = (
        "import os\nprint([name for name in os.environ if name.startswith('REBALANCER_')], 'up', "
        "flush=True)\nimport signal; signal.pause()"
    )
    with job(tmp_path, show, environment):
        assert said(tmp_path, "up").startswith("[] up")


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
def test_a_demo_that_is_killed_takes_the_job_along(tmp_path: Path) -> None:
    demo = (
        "import sys, time\nfrom pathlib import Path\n"
        "from pulsar_rebalancer.cli.child_process import ChildProcess\n"
        "job = (sys.executable, '-c', 'import os, signal; print(os.getpid(), \"up\", "
        "flush=True); signal.pause()')\n"
        "with ChildProcess('the job', job, Path(sys.argv[1])):\n    time.sleep(600)\n"
    )
    log = tmp_path / "job.log"
    log.touch()
    pid = os.spawnv(os.P_NOWAIT, sys.executable, [sys.executable, "-c", demo, str(log)])
    child = int(said(tmp_path, "up").split()[0])
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    eventually(lambda: not is_alive(child), 300)
