"""`replay -`: a driver feeds one collection pass, waits for the round, feeds outcomes and goes on;
the answers are those of a replay.
"""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pulsar_rebalancer.lab.simulation.clusters import skewed_cluster
from pulsar_rebalancer.lab.simulation.polled_cluster import outcome_reports
from pulsar_rebalancer.lab.simulation.telemetry_json import TelemetryWriter
from sinks.wire.record_decoding import decode_command, decode_round
from strategies.cluster.model import Command, Outcome, Round
from tests.telemetry_lines import load_report, sweep
from tests.unit.command_line import rebalancer

ROOT = Path(__file__).parents[2]
#: Far more than an answer takes; a driver that waits so long was forgotten.
A_MOMENT_S = 300.0
ROUNDS = 200
PASS = [load_report("a:1", 0), load_report("b:1", 1), sweep(2, "a:1", "b:1")]


class Pipe:
    """The other end of `rebalancer replay -`."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self._rest = b""
        self.log: list[bytes] = []
        self.answers: list[bytes] = []

    def feed(self, lines: Sequence[bytes]) -> None:
        assert self.process.stdin is not None
        self.log += lines
        self.process.stdin.write(b"".join(line + b"\n" for line in lines))
        self.process.stdin.flush()

    def round(self) -> tuple[Round, tuple[Command, ...]]:
        """Reads up to and including the next round record."""
        commands: list[Command] = []
        while True:
            line = self._line()
            if b'"closed_by"' in line:
                return decode_round(line), tuple(commands)
            commands.append(decode_command(line))

    def _line(self) -> bytes:
        assert self.process.stdout is not None
        deadline = time.monotonic() + A_MOMENT_S
        while b"\n" not in self._rest:
            ready, _, _ = select.select(
                [self.process.stdout], [], [], max(0.0, deadline - time.monotonic())
            )
            assert ready, "no answer came, though a round must have closed"
            block = os.read(self.process.stdout.fileno(), 1 << 20)
            assert block, "the answers ended early"
            self._rest += block
        line, _, self._rest = self._rest.partition(b"\n")
        self.answers.append(line)
        return line


@contextmanager
def piped(*words: str) -> Iterator[Pipe]:
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("REBALANCER_")
    }
    command = [sys.executable, "-m", "pulsar_rebalancer.cli.main", "replay", "-", *words]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
    ) as process:
        try:
            yield Pipe(process)
        finally:
            process.kill()


def ended(pipe: Pipe) -> tuple[int, str]:
    """Closes the input and says how the process ended, and what it said on standard error."""
    assert pipe.process.stdin is not None
    assert pipe.process.stderr is not None
    pipe.process.stdin.close()
    said = pipe.process.stderr.read().decode()
    return pipe.process.wait(A_MOMENT_S), said


@pytest.mark.heavy
def test_two_hundred_rounds_in_a_loop_equal_a_replay_of_the_same_log(tmp_path: Path) -> None:
    config = tmp_path / "settings.toml"
    config.write_text(
        "[round]\ncool_down_ms = 120000\n[shedding]\nstrategy = 'avg'\n[shedding.avg]\n"
        "low_threshold = 5\nmax_unload = 0.5\nmin_msg_rate = 1\n",
        "utf-8",
    )
    cluster = skewed_cluster(bundles=48, usage=(0.89, 0.4, 0.1))
    writer, outcomes, moved = TelemetryWriter(cluster.start_ms), tuple[Outcome, ...](), 0

    with piped("--config", str(config)) as pipe:
        for number in range(1, ROUNDS + 1):
            pipe.feed(
                [writer.json(seen) for seen in (*outcome_reports(outcomes), *cluster.collect())]
            )
            done, commands = pipe.round()
            assert (done.round, done.commands) == (
                number,
                tuple(command.id for command in commands),
            )
            outcomes = cluster.carry_out(commands, done.ts)
            moved += sum(outcome.status == "applied" for outcome in outcomes)
        assert ended(pipe) == (0, "")

    assert moved
    log = tmp_path / "log.jsonl"
    log.write_bytes(b"".join(line + b"\n" for line in pipe.log))
    assert rebalancer("replay", log, "--config", config, "--out", tmp_path / "out").code == 0
    answers = (
        [line for line in pipe.answers if b'"closed_by"' in line],
        [line for line in pipe.answers if b'"closed_by"' not in line],
    )
    assert (lines(tmp_path / "out/rounds.jsonl"), lines(tmp_path / "out/commands.jsonl")) == answers


def lines(file: Path) -> list[bytes]:
    return file.read_bytes().splitlines()


def test_rejected_records_are_told_and_kept_while_the_rest_goes_on(tmp_path: Path) -> None:
    log = [b"oops", PASS[0], b"\xff\xfe", *PASS[1:]]
    words = ("replay", "-", "--rejected", tmp_path / "rejected.jsonl")
    answer = rebalancer(*words, stdin=b"".join(line + b"\n" for line in log))

    assert (decode_round(answer.out.encode().splitlines()[-1]).round, answer.code) == (1, 0)
    place = sum(len(line) + 1 for line in log[:2])
    said = [line.partition(" of -:")[0] for line in answer.err.splitlines()]
    assert said == ["rejected not-json at byte 0", f"rejected not-utf8 at byte {place}"]
    kept: list[Any] = [json.loads(line) for line in lines(tmp_path / "rejected.jsonl")]
    assert [(row["code"], row["offset"]) for row in kept] == [("not-json", 0), ("not-utf8", place)]


def test_a_last_record_without_a_line_end_counts() -> None:
    answer = rebalancer("replay", "-", stdin=b"\n".join(PASS))
    assert (decode_round(answer.out.encode().splitlines()[-1]).round, answer.code) == (1, 0)


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, -signal.SIGTERM, marks=pytest.mark.heavy)],
)
def test_interrupted_while_it_waits_for_input(number: int, code: int) -> None:
    with piped() as pipe:
        pipe.feed(PASS)
        pipe.round()
        pipe.process.send_signal(number)
        assert pipe.process.stderr is not None
        assert pipe.process.stderr.read() == b""
        assert pipe.process.wait(A_MOMENT_S) == code


@pytest.mark.heavy
def test_without_a_standard_input_the_error_says_what_to_do() -> None:
    command = f"exec {sys.executable} -m pulsar_rebalancer replay - <&-"
    done = subprocess.run(
        ["sh", "-c", command], check=False, cwd=ROOT, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: standard input is closed; pipe telemetry in, or name")


@pytest.mark.heavy
def test_nobody_reads_the_answers_any_more() -> None:
    with piped() as pipe:
        assert pipe.process.stdout is not None
        assert pipe.process.stdin is not None
        pipe.process.stdout.close()
        pipe.feed(PASS)
        assert ended(pipe) == (1, "")
