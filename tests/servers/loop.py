"""The closed loop as three processes, `rebalancer collect`, `run` and `execute --apply`, each of which can be killed and started again."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal
from uuid import uuid4

from sinks.file_topic import FileTopicReader, FileTopicWriter
from sinks.pulsar_settings import PulsarSettings
from sinks.topic_uri import file_topic_uri
from sinks.wire import decode_command, decode_outcome, decode_round
from strategies.model import Command, Outcome, Round
from tests.control_topic import TOPICS
from tests.faults.real_job import MARK, environment_of_a_short_run, kill_marked
from tests.servers.jvm import dying_with_us, eventually

Program = Literal["collect", "run", "execute"]
PROGRAMS: Mapping[Program, tuple[str, ...]] = {"collect": ("collect",), "run": ("run",), "execute": ("execute", "--apply")}
#: Generous: the machine may be busy with other things.
_LONG_S, _STOP_S = 300.0, 120.0
PROJECT = Path(__file__).parents[2]
_NOTE = b'{"v":1,"kind":"note","cluster":"c","ts":1,"text":"the loop begins"}'
#: What the loop is to reach: the busiest broker's throughput by the idlest one's.
GOAL = 1.5
#: Figures are seconds old, so rounds may be as short. Traffic is judged, not usage: the brokers share a machine's two cores with everything
#: else, and what the CPU of that machine does says nothing about a broker.
SETTINGS: Mapping[str, object] = {
    "round.interval_ms": 8_000,
    "round.lateness_ms": 4_000,
    "round.stale_after_ms": 20_000,
    "round.cool_down_ms": 600_000,
    "weights.cpu": 0,
    "shedding.strategy": "uniform",
    "shedding.uniform.rate_difference_percent": 0,
    # Below the goal: brokers measure traffic of their own too, which our clients do not count.
    "shedding.uniform.throughput_ratio": 1.35,
    "shedding.uniform.max_unload": 0.5,
    "shedding.uniform.min_throughput": 1000,
    "filters.distribute_evenly": False,
    "collector.pass_interval_ms": 2_000,
    "executor.arrival_timeout_ms": 10_000,
}


class Loop:
    """Topics, checkpoint, journal and logs below one folder. Leaving `closed_loop` kills what still runs."""

    def __init__(self, folder: Path, pulsar: PulsarSettings, **more: object) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self._mark = folder, uuid4().hex
        given = {
            "pulsar.cluster": pulsar.cluster,
            "pulsar.admin_urls": pulsar.admin_urls,
            "pulsar.token_file": pulsar.token_file,
            "executor.state": folder / "state",
            "job.checkpoint": folder / "checkpoint",
            **{f"topics.{name}": file_topic_uri(folder / name) for name in TOPICS},
            **SETTINGS,
            **{name.replace("__", "."): value for name, value in more.items()},
        }
        self.words = [word for path, value in given.items() for word in ("--set", f"{path}={_written(value)}")]
        self._processes: dict[Program, subprocess.Popen[bytes]] = {}

    def start(self, *programs: Program) -> None:
        """What they print is added to their logs."""
        for program in programs:
            command = [*dying_with_us(), sys.executable, "-m", "cli.main", *PROGRAMS[program], *self.words]
            with self.log(program).open("ab") as log:
                self._processes[program] = subprocess.Popen(
                    command,
                    cwd=PROJECT,
                    env=environment_of_a_short_run() | {MARK: f"{self._mark}-{program}"},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )

    def begin(self) -> None:
        """Starts the others once the job has worked off a first record, so that it does not begin with a backlog of rounds."""
        self.wait_until(lambda: b"batch 0: " in self.log("run").read_bytes(), "the job works")
        self.start("collect", "execute")

    def kill(self, program: Program) -> None:
        """SIGKILL to everything it has started."""
        process = self._processes.pop(program, None)
        if process is not None:
            process.kill()
            kill_marked(f"{self._mark}-{program}")
            process.wait()

    def stop(self, *programs: Program) -> None:
        """SIGTERM; each finishes what it is at."""
        for program in programs:
            self._processes[program].terminate()
        for program in programs:
            assert self._processes.pop(program).wait(_STOP_S) == 0, f"see {self.log(program)}"

    def log(self, program: Program) -> Path:
        return self.folder / f"{program}.log"

    def wait_until(self, true: Callable[[], bool], what: str, every_s: float = 0.5) -> None:
        """It is an error when one of the processes ends, or a long time has passed."""

        def looked() -> bool:
            ended = {program: process.poll() for program, process in self._processes.items()}
            assert not any(code is not None for code in ended.values()), f"ended: {ended}, waiting for {what}; see {self.folder}"
            return true()

        eventually(looked, _LONG_S, f"not within {_LONG_S:g} s: {what}; see {self.folder}", every_s)

    def commands(self) -> list[Command]:
        return [decode_command(value) for value in self.read("commands")]

    def rounds(self) -> list[Round]:
        return [decode_round(value) for value in self.read("rounds")]

    def outcomes(self) -> list[Outcome]:
        return [decode_outcome(value) for value in self.read("outcomes")]

    def read(self, topic: str) -> list[bytes]:
        """All complete records of a topic."""
        return [record.value for record in FileTopicReader(self.folder / topic).read()[0]]


@contextmanager
def closed_loop(folder: Path, pulsar: PulsarSettings, **more: object) -> Iterator[Loop]:
    """A loop whose job starts, which takes a while; what it is to work on can be made meanwhile, and then the others `begin`."""
    loop = Loop(folder, pulsar, **more)
    with FileTopicWriter(folder / "telemetry") as telemetry:
        telemetry.append([_NOTE])
    try:
        loop.start("run")
        yield loop
    finally:
        for program in PROGRAMS:
            loop.kill(program)


def _written(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
