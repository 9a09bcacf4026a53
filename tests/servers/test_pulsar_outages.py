"""The Pulsar broker of the topics is away for a while: each process logs when that begins and when
it ends, once, and nothing is lost.
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path

import pytest

from tests.control_topic import TOPICS, Control, command
from tests.pulsar_fake.model import Cluster
from tests.pulsar_fake.server import FakePulsar
from tests.servers.test_kafka_outages import settings_of, sweeps
from tests.unit.test_collector import REPORT
from tools.processes.process import Process
from tools.servers.pulsar_processes import PulsarProcesses, pulsar_processes

pytestmark = [pytest.mark.servers, pytest.mark.spark, pytest.mark.faults]
BUNDLES = ("t/ns/0x00000000_0x40000000", "t/ns/0x40000000_0x80000000", "t/ns/0x80000000_0xffffffff")
#: After a longer stop the broker is started again, as a supervisor would do: its metadata session
#: is over, and after 100 s one accepted connections but read no metadata any more, as a frozen
#: broker (docs/PULSAR_FAULTS.md).
RESUMES_S = 60
BEGINS, ENDS = "trying again for up to 600 s", "the servers of the topics answer again after"


@pytest.fixture
def lone(jdk: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PulsarProcesses]:
    """One broker, so that no other takes over its topics."""
    with pulsar_processes(tmp_path_factory.mktemp("lone"), brokers=1) as cluster:
        yield cluster


@pytest.fixture
def balanced() -> Iterator[FakePulsar]:
    """The cluster that is balanced is another one, whose brokers stay."""
    with FakePulsar(Cluster(report=REPORT)) as running:
        running.cluster.owners |= dict.fromkeys(BUNDLES, running.cluster.brokers[0])
        yield running


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
    settings = {
        **settings_of(control, balanced),
        "job.checkpoint": tmp_path / "checkpoint",
        "round.interval_ms": 5_000,
        "log.format": "json",
    }

    def restart() -> None:
        server.kill()
        server.start()

    commands = (
        ("run",),
        ("collect",),
        ("record", tmp_path / "copy.jsonl", "--follow"),
        ("execute", "--apply"),
    )
    with ExitStack() as stack:
        logs = ((tmp_path / f"{words[0]}.log", words) for words in commands)
        everybody = [
            stack.enter_context(Process(log, *words, settings=settings)) for log, words in logs
        ]
        source, destination = balanced.cluster.brokers[:2]

        def carry_out(number: int) -> None:
            control.send(command(BUNDLES[number], source, destination, epoch=1))
            everybody[-1].wait_until(lambda: len(control.outcomes()) == number + 1)

        for process, ready in zip(
            everybody, ("batch", "pass 1", "records", "applying"), strict=True
        ):
            process.wait_for(ready)
        carry_out(0)
        outage(everybody, server.pause, server.resume if seconds <= RESUMES_S else restart, seconds)
        goes_on(everybody[0], control)
        carry_out(1)
        outage(everybody, server.kill, server.start, seconds)
        goes_on(everybody[0], control)
        carry_out(2)

        assert [status for status, _ in control.verdicts()] == ["applied"] * 3
        passes = sorted(set(sweeps(control)))
        assert passes == list(range(1, len(passes) + 1)), "a pass was lost"
        assert [
            (process.said.count(BEGINS), process.said.count(ENDS)) for process in everybody
        ] == [(2, 2)] * 4
        assert [process.said for process in everybody if "Traceback" in process.said] == []
        job, collector, _, executor = everybody
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

    def one_more(words: str, process: Process, before: int) -> None:
        process.wait_until(lambda: process.said.count(words) > before)

    before = [process.said.count(BEGINS) for process in everybody]
    begin()
    gone = time.monotonic()
    for process, count in zip(everybody, before, strict=True):
        one_more(BEGINS, process, count)
    everybody[0].wait_until(lambda: time.monotonic() - gone >= seconds)
    end()
    for process, count in zip(everybody, before, strict=True):
        one_more(ENDS, process, count)


def goes_on(job: Process, control: Control) -> None:
    """There are newer passes, and the job decides on them."""
    last, rounds = sweeps(control)[-1], len(control.read("rounds"))
    job.wait_until(lambda: sweeps(control)[-1] > last + 1 and len(control.read("rounds")) > rounds)
