"""A signal that asks a process to stop is noticed at whatever step of its work it arrives."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from types import FrameType
from typing import Any

import pytest

from sinks.processes import Stop, stopping

_SOON_S, _LONG_S = 0.5, 60.0


class SignalAt:
    """A trace function that raises SIGTERM at one step of the interpreter; counts the steps."""

    def __init__(self, step: int) -> None:
        self.step, self.steps = step, 0

    def __call__(self, frame: FrameType, event: str, _: Any) -> SignalAt:
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
    """Even while the main thread holds the lock of the event, for which the handler must not
    wait.
    """
    code = f"from {__name__} import signal_at_every_step; print(signal_at_every_step())"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=_LONG_S, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) > 50


def test_a_stop_is_set_as_soon_as_it_is_asked_for() -> None:
    with stopping() as stop:
        assert not stop.is_set()
        signal.raise_signal(signal.SIGINT)
        assert (stop.is_set(), stop.by) == (True, "SIGINT")
