"""The Pulsar broker of the topics is away for a while: each process logs when that begins and when
it ends, once, and nothing is lost.
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path

import pytest

from tests.control_topic import TOPICS, Control
from tests.pulsar_fake.server import FakePulsar
from tests.servers.test_kafka_outages import (
    BEGINS,
    ENDS,
    at_work,
    carry_out,
    nothing_was_lost,
    settings_of,
    sweeps,
)
from tools.processes.process import Process
from tools.servers.pulsar_processes import PulsarProcesses, pulsar_processes

pytestmark = [pytest.mark.servers, pytest.mark.spark, pytest.mark.faults]
#: After a longer stop the broker is started again, as a supervisor would do: its metadata session
#: is over, and after 100 s one accepted connections but read no metadata any more, as a frozen
#: broker (docs/PULSAR_FAULTS.md).
RESUMES_S = 60


@pytest.fixture
def lone(jdk: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PulsarProcesses]:
    """One broker, so that no other takes over its topics."""
    with pulsar_processes(tmp_path_factory.mktemp("lone"), brokers=1) as cluster:
        yield cluster


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0, 40, 100])
def test_each_process_logs_the_begin_and_the_end_of_an_outage(
    lone: PulsarProcesses, balanced: FakePulsar, tmp_path: Path, seconds: float
) -> None:
    """A broker that stands still, and one that is killed. All lines of job, collector and executor
    are objects with a time.
    """
    (server,) = lone.servers.values()
    control = Control(tmp_path, {name: lone.cluster.topic(f"out/ages/{name}") for name in TOPICS})
    settings = settings_of(
        control,
        balanced,
        job__checkpoint=tmp_path / "checkpoint",
        round__interval_ms=5_000,
        log__format="json",
    )

    def restart() -> None:
        server.kill()
        server.start()

    with at_work(tmp_path, settings, "run", "collect", "record", "execute") as everybody:
        job, collector, _, executor = everybody
        carry_out(0, control, balanced, job)
        outage(everybody, server.pause, server.resume if seconds <= RESUMES_S else restart, seconds)
        goes_on(job, control)
        carry_out(1, control, balanced, job)
        outage(everybody, server.kill, server.start, seconds)
        goes_on(job, control)
        carry_out(2, control, balanced, job)

        nothing_was_lost(control, everybody)
        for process in everybody:
            assert (process.said.count(BEGINS), process.said.count(ENDS)) == (2, 2)
        for process in (job, collector, executor):
            assert process.stop() == 0
            lines = [json.loads(line) for line in process.said.splitlines()]
            assert all(datetime.fromisoformat(line["ts"]) for line in lines)
            assert [lines[n]["event"] for n in (0, 1, -1)] == ["settings", "starting", "stopped"]


def outage(
    everybody: Sequence[Process], begin: Callable[[], None], end: Callable[[], None], seconds: float
) -> None:
    """Lasts at least that long, until each process has logged it; returns when each has logged its
    end.
    """

    before = [process.said.count(BEGINS) for process in everybody]

    def each_says(words: str) -> None:
        for process, count in zip(everybody, before, strict=True):
            process.wait_until(partial(one_more, words, process, count))

    def one_more(words: str, process: Process, known: int) -> bool:
        return process.said.count(words) > known

    begin()
    gone = time.monotonic()
    each_says(BEGINS)
    everybody[0].wait_until(lambda: time.monotonic() - gone >= seconds)
    end()
    each_says(ENDS)


def goes_on(job: Process, control: Control) -> None:
    """There are newer passes, and the job decides on them."""
    last, rounds = sweeps(control)[-1], len(control.read("rounds"))
    job.wait_until(lambda: sweeps(control)[-1] > last + 1 and len(control.read("rounds")) > rounds)
