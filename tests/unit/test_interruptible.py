"""A program that waits for input on a pipe ends at the first Ctrl-C, also when the signal arrives
right before it begins to wait.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import threading
from pathlib import Path

from sinks.processes import interruptible

ROOT = Path(__file__).parents[2]
#: Signals itself from a second thread as it begins to read, again and again. On one core the two
#: threads take turns where the first one lets go: between its last look for signals and the read.
#: An ordinary read misses about one signal in fifteen, and then waits for ever.
SIGNALLED = """
import os, signal, sys, threading
from sinks.processes import interruptible

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
    try:
        done = subprocess.run(
            [sys.executable, "-c", SIGNALLED],
            check=False,
            cwd=ROOT,
            stdin=reading,
            capture_output=True,
            text=True,
            timeout=FORGOTTEN_S,
        )
    finally:
        os.close(reading)
        os.close(writing)
    assert (done.stdout, done.stderr) == ("every signal was noticed\n", "")


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
