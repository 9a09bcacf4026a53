"""Work in several processes ends with the process that asked for it, whatever ends that one, and
says nothing about it.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from operator import mul
from pathlib import Path

import pytest

from pulsar_rebalancer.lab.processes import WorkerLost, run_each, signals_wait
from tools.waiting import eventually

PROJECT = Path(__file__).parents[2]
#: Longer than any test waits.
LONG = ("simulate", "e10-avg-month", "--strategy", "all", "--seeds", "2", "--jobs", "2")
linux = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")


@pytest.mark.heavy
@pytest.mark.parametrize("processes", [1, 2, 9])
def test_answers_come_in_the_order_of_the_questions_and_each_is_told_once(processes: int) -> None:
    told: list[tuple[int, int]] = []
    found = run_each(
        [partial(mul, 10, number) for number in range(4)],
        processes,
        lambda place, answer: told.append((place, answer)),
    )
    assert found == [0, 10, 20, 30]
    assert sorted(told) == [(0, 0), (1, 10), (2, 20), (3, 30)]


@pytest.mark.heavy
def test_what_one_raises_is_raised_without_waiting_for_the_others() -> None:
    """And no thread is left, which Python's end would disturb, and print a traceback."""
    before = threading.enumerate()
    calls: list[Callable[[], None]] = [partial(time.sleep, 600), _fails]
    with pytest.raises(ValueError, match="fails at once"):
        run_each(calls, 2, lambda _place, _answer: None)
    assert threading.enumerate() == before


@pytest.mark.heavy
def test_a_process_that_was_killed_is_told() -> None:
    with pytest.raises(WorkerLost, match="ended from outside"):
        run_each([_dies, _dies], 2, lambda _place, _answer: None)


def test_a_signal_that_another_thread_hears_waits_until_all_processes_are_started() -> None:
    begun = threading.Event()
    done: list[str] = []

    def hears() -> None:
        begun.wait()
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)

    def starts() -> None:
        with signals_wait():
            begun.set()
            hearing.join()
            done.append("started")
        done.append("went on")

    hearing = threading.Thread(target=hears)
    hearing.start()
    with pytest.raises(KeyboardInterrupt):
        starts()
    assert done == ["started"]


@pytest.mark.heavy
@linux
@pytest.mark.parametrize(
    ("ending", "send", "code"),
    [
        pytest.param(signal.SIGINT, os.killpg, 130, id="Ctrl-C"),
        pytest.param(signal.SIGINT, os.kill, 130, id="SIGINT", marks=pytest.mark.heavy),
        pytest.param(signal.SIGTERM, os.killpg, 143, id="SIGTERM to all", marks=pytest.mark.heavy),
        pytest.param(signal.SIGKILL, os.kill, -9, id="kill -9"),
    ],
)
def test_simulate_leaves_nobody_behind(
    ending: signal.Signals, send: Callable[[int, int], None], code: int
) -> None:
    command = [sys.executable, "-m", "pulsar_rebalancer.cli.main", *LONG]
    with subprocess.Popen(
        command, cwd=PROJECT, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            eventually(
                lambda: len(_of_session(process.pid)) >= 4,
                otherwise="two processes at work and one that counts semaphores",
            )
            send(process.pid, ending)
            assert process.wait(60) == code
            eventually(lambda: not _of_session(process.pid), otherwise="nobody is left")
            assert process.stderr is not None
            said = process.stderr.read()
            # A process that is killed cannot clear up behind itself; that somebody else does so is
            # told.
            assert code == -9 or said.strip().splitlines() == ["12 runs"], said
        finally:
            for left in _of_session(process.pid):
                os.kill(left, signal.SIGKILL)


def _fails() -> None:
    raise ValueError("fails at once")


def _dies() -> None:
    os._exit(9)


def _of_session(session: int) -> list[int]:
    """Processes of it that live."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            state, _parent, _group, of = (
                (entry / "stat").read_text().rpartition(") ")[2].split()[:4]
            )
        except (OSError, ValueError):
            continue
        if int(of) == session and state != "Z":
            found.append(int(entry.name))
    return found
