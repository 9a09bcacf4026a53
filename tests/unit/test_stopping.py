"""A signal that asks a process to stop is noticed at whatever step of its work it arrives."""

import io
import os
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from sinks.graceful_stop import Stop, interruptible, repeated, stopping

_SOON_S, _LONG_S = 0.5, 60.0


class SignalAt:
    """A trace function that raises SIGTERM at one step of the interpreter; counts the steps."""

    def __init__(self, step: int) -> None:
        self.step, self.steps = step, 0

    def __call__(self, frame: FrameType, event: str, _: Any) -> "SignalAt":
        frame.f_trace_opcodes = True
        if event == "opcode":
            self.steps += 1
            if self.steps == self.step:
                signal.raise_signal(signal.SIGTERM)
        return self


def steps_until_rescued(stop: Stop, at: SignalAt, rescue_s: float) -> int | None:
    """Waits for the stop; None if it came by itself, the number of steps so far if not."""
    steps: list[int] = []

    def rescue() -> None:
        steps.append(at.steps)
        stop.set()

    timer = threading.Timer(rescue_s, rescue)
    timer.start()
    sys.settrace(at)
    stop.wait()
    sys.settrace(None)
    timer.cancel()
    return steps[0] if steps else None


def signal_at_every_step() -> int:
    """The number of steps of `wait` at which a signal was noticed."""
    with stopping() as stop:
        until_it_blocks = steps_until_rescued(stop, SignalAt(0), _SOON_S)
    assert until_it_blocks
    for step in range(1, until_it_blocks + 1):
        with stopping() as stop:
            assert steps_until_rescued(stop, SignalAt(step), _LONG_S) is None, step
            assert stop.is_set()
            assert stop.by == "SIGTERM"
    return until_it_blocks


@pytest.mark.heavy
def test_a_signal_at_any_step_of_waiting_for_it_ends_the_wait() -> None:
    """Even while the main thread holds the lock of the event."""
    code = f"from {__name__} import signal_at_every_step; print(signal_at_every_step())"
    program = [sys.executable, "-c", code]
    steps = subprocess.check_output(program, stderr=subprocess.STDOUT, text=True, timeout=_LONG_S)
    assert int(steps) > 50


def test_a_stop_is_set_as_soon_as_it_is_asked_for() -> None:
    with stopping() as stop:
        assert not stop.is_set()
        signal.raise_signal(signal.SIGINT)
        assert (stop.is_set(), stop.by) == (True, "SIGINT")


ROOT = Path(__file__).parents[2]
#: Signals itself from a second thread as it begins to read, again and again. On one core the two
#: threads take turns where the first one lets go: between its last look for signals and the read.
#: An ordinary read misses about one signal in fifteen, and then waits for ever.
SIGNALLED = """
import os, signal, sys, threading
from sinks.graceful_stop import interruptible

class Signalled(Exception):
    pass

def raise_it(*_):
    raise Signalled

def send():
    while True:
        begins.wait()
        begins.clear()
        signal.pthread_kill(reader, signal.SIGUSR1)

os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}) if sys.platform == "linux" else None
signal.signal(signal.SIGUSR1, raise_it)
begins, reader = threading.Event(), threading.main_thread().ident
threading.Thread(target=send, daemon=True).start()
with interruptible(sys.stdin.buffer) as stream:
    for _ in range(300):
        try:
            begins.set()
            stream.readline()
        except Signalled:
            continue
print("every signal was noticed")
"""
#: Far more than it takes.
FORGOTTEN_S = 300.0


def test_no_signal_is_lost_however_close_to_the_read() -> None:
    reading, writing = os.pipe()
    program = [sys.executable, "-c", SIGNALLED]
    with os.fdopen(reading), os.fdopen(writing, "w"):
        said = subprocess.check_output(
            program, stderr=subprocess.STDOUT, cwd=ROOT, stdin=reading, timeout=FORGOTTEN_S
        )
    assert said == b"every signal was noticed\n"


def test_input_arrives_whole_and_ends() -> None:
    lines = [b"x" * size + b"\n" for size in (0, 1, 100, 70_000)]
    reading, writing = os.pipe()

    def write() -> None:
        with os.fdopen(writing, "wb") as sink:
            sink.writelines(lines)

    with os.fdopen(reading, "rb") as source:
        writer = threading.Thread(target=write)
        writer.start()
        with interruptible(source) as stream:
            assert list(stream) == lines
        writer.join()


def test_other_threads_read_the_stream_itself() -> None:
    source, found = io.BytesIO(b"line\n"), list[bytes]()

    def read() -> None:
        with interruptible(source) as stream:
            found.append(stream.readline())

    thread = threading.Thread(target=read)
    thread.start()
    thread.join()
    assert found == [b"line\n"]


def test_work_is_repeated_until_the_end_which_it_can_see() -> None:
    seen, third = list[bool](), threading.Event()

    def work(ended: threading.Event) -> None:
        seen.append(ended.is_set())
        if len(seen) == 3:
            third.set()
            ended.wait(30)
            seen.append(ended.is_set())

    with repeated(work, 0.001, "work", end_s=30):
        assert third.wait(30)
    assert seen == [False, False, False, True]


def test_what_the_work_uses_is_closed_by_its_thread_when_it_has_ended() -> None:
    used, closed_by = ExitStack(), list[str]()
    used.callback(lambda: closed_by.append(threading.current_thread().name))
    with repeated(lambda _: None, 0.001, "work", used=used, end_s=30):
        assert closed_by == []
    assert closed_by == ["work"]
