"""Hostile records through the real job and the real executor on Kafka: python -m
tools.hostile --records 2000 --seed 7.

Each runs twice: over legal records alone, and with hostile ones between them. Nothing may end, what
is decided stays the same bytes, every hostile record has its row on the rejected topic, and memory
(the largest sum over all processes at one moment, looked at every 50 ms) stays near that of the
quiet run.
"""

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from pulsar_rebalancer.lab.plain_loop import PlainLoop
from sinks.wire.record_decoding import Position, decode_rejected
from strategies.fold.engine import EngineSettings
from tests.control_topic import TOPICS, Control, command
from tests.hostile_records import (
    COSTLY,
    costly_command,
    costly_policies,
    costly_sweep,
    hostile_records,
)
from tests.pulsar_fake.model import Cluster
from tests.pulsar_fake.server import FakePulsar
from tests.telemetry_lines import load_report
from tools.kills.installation import running
from tools.processes.real_executor import TOKEN, RealExecutor
from tools.processes.real_job import RealJob, recording
from tools.servers.kafka_broker import KafkaBroker, kafka_broker
from tools.servers.kafka_topics import put, values

#: Telemetry and commands take any record; the topics of ours are as Kafka makes them, with 1 MB.
_WIDE = {"max.message.bytes": str(2**24)}
_LEGAL_COMMANDS = 10
_LOOK_S = 0.05
_ROUNDS_AT_A_TIME = 50


@dataclass(frozen=True, slots=True)
class Result:
    """Peaks in bytes, of the run without and of the run with hostile records; `faults`: what is
    wrong.
    """

    quiet: int
    peak: int
    rejected: int
    codes: Counter[str]
    faults: tuple[str, ...]


def resident(pids: Sequence[int]) -> int:
    """Memory of processes together, now. Pages of files do not count: which process they belong to
    depends on what else runs.
    """
    # Java starts programs by vfork: until such a child has its program, it *is* Java's memory, and
    # has the same figure.
    return sum({_own(pid) for pid in pids})


def _own(pid: int) -> int:
    """Bytes of its part of the pages that belong to no file."""
    try:
        sizes = _kibibytes(Path(f"/proc/{pid}/smaps_rollup"))
    except OSError:
        return 0  # it has ended
    return 1024 * (sizes.get("Pss_Anon", 0) + sizes.get("Pss_Shmem", 0))


def _kibibytes(file: Path) -> dict[str, int]:
    words = (line.split() for line in file.read_text().splitlines())
    return {word[0].rstrip(":"): int(word[1]) for word in words if word[-1:] == ["kB"]}


def peak_until(ended: Callable[[], bool], pids: Callable[[], Sequence[int]], seconds: float) -> int:
    """The largest `resident` until it has ended; AssertionError when that takes too long."""
    deadline, peak = time.monotonic() + seconds, 0
    while not ended():
        assert time.monotonic() < deadline, f"not done after {seconds:g} s"
        peak = max(peak, resident(pids()))
        time.sleep(_LOOK_S)
    return peak


def telemetry(count: int, seed: int) -> Iterator[bytes]:
    """Hostile telemetry: refused reports, and policies and sweeps that may be accepted, of another
    cluster than the recording's.
    """
    rng, kinds = random.Random(seed), list(COSTLY)
    for number, (_, record) in enumerate(hostile_records(count, seed)):
        size = int(10 ** rng.uniform(2, 6 if number % 200 < 10 else 5))
        match number % 10:
            case 7:
                yield costly_policies(kinds[number // 10 % len(kinds)], size)
            case 8:
                yield costly_sweep(kinds[number // 10 % len(kinds)], size)
            case _:
                yield record


def mixed(legal: Sequence[bytes], bad: Sequence[bytes], seed: int) -> list[bytes]:
    """The legal lines in their order, the others anywhere between them."""
    rng = random.Random(seed)
    slots = sorted(rng.randrange(len(legal)) for _ in bad)
    lines, rest = list[bytes](), list(zip(slots, bad, strict=True))
    for index, line in enumerate(legal):
        lines.append(line)
        while rest and rest[0][0] == index:
            lines.append(rest.pop(0)[1])
    return lines


def plain(engine: EngineSettings, uri: str, lines: Sequence[bytes]) -> dict[str, Counter[bytes]]:
    """What the plain loop makes of the lines of one partition."""
    loop, found = (
        PlainLoop(engine),
        {kind: Counter[bytes]() for kind in ("commands", "rounds", "rejected")},
    )
    for offset, line in enumerate(lines):
        for row in loop.feed(Position(uri, 0, offset), line):
            found[row.kind][row.value] += 1
    return found


def batched(records: Iterable[bytes], size: int) -> Iterator[list[bytes]]:
    """At most `size` at a time."""
    rest = iter(records)
    while some := list(islice(rest, size)):
        yield some


def run_job(
    broker: KafkaBroker,
    folder: Path,
    name: str,
    lines: Sequence[bytes],
    settings: Sequence[str] = (),
    *,
    only_python: bool = False,
) -> Result:
    """The job over these lines until all are read. `only_python`: Java's memory does not count."""
    uris = {
        topic: broker.topic(f"{name}-{topic}", configs=_WIDE if topic == "telemetry" else {})
        for topic in TOPICS
    }
    put(uris["telemetry"], lines)
    with RealJob(folder / name) as job:
        given = (*(f"topics.{topic}={uri}" for topic, uri in uris.items()), *settings)
        job.start("--drain", *(word for one in given for word in ("--set", one)))
        counted = is_python if only_python else lambda _: True
        peak = peak_until(
            lambda: not job.running, lambda: sorted(filter(counted, job.aim())), 3_000
        )
        code = job.wait_for_end()
        expected = plain(job.engine, uris["telemetry"], lines)
        words = job.log.read_text("utf-8", errors="replace")[-800:]
    faults = [f"{name}: the job ended with {code}: {words}"] if code else []
    for kind, wanted in expected.items():
        found = Counter(values(uris[kind]))
        if found != wanted:
            faults.append(
                f"{name}: {kind}: {(wanted - found).total()} are missing, "
                f"{(found - wanted).total()} are others"
            )
    rows = [decode_rejected(value) for value in expected["rejected"]]
    return Result(0, peak, len(rows), Counter(row.code for row in rows), tuple(faults))


def run_executor(
    broker: KafkaBroker, folder: Path, name: str, bad: Sequence[bytes], rounds: Iterable[bytes] = ()
) -> Result:
    """The executor over legal commands with other records between them, until all are worked off.
    `rounds` are there before it starts.
    """
    wide = ("commands", "rounds")
    control = Control(
        folder / name,
        {
            topic: broker.topic(f"{name}-{topic}", configs=_WIDE if topic in wide else {})
            for topic in TOPICS
        },
    )
    for some in batched(rounds, _ROUNDS_AT_A_TIME):
        put(control.uri("rounds"), some)
    with (
        FakePulsar(Cluster(token=TOKEN)) as pulsar,
        RealExecutor(folder / name, pulsar, control) as executor,
    ):
        one, two, _ = pulsar.cluster.brokers
        bundles = [f"t/ns/0x{number:08x}_0x{number + 1:08x}" for number in range(_LEGAL_COMMANDS)]
        pulsar.cluster.owners.update(dict.fromkeys(bundles, one))
        legal = [executor.key.sign(_encoded(bundle, one, two)) for bundle in bundles]
        put(control.uri("commands"), mixed(legal, bad, 1))
        executor.start("--once", "--apply")
        peak = peak_until(lambda: executor.dead, lambda: executor.pids, 3_000)
        code = executor.wait_for_end()
        verdicts, rows = (
            Counter(control.verdicts()),
            [decode_rejected(value) for value in control.read("rejected")],
        )
        faults = (
            [f"{name}: the executor ended with {code}: {executor.last_words()}"] if code else []
        )
    if verdicts != {("applied", ""): _LEGAL_COMMANDS}:
        faults.append(f"{name}: outcomes are {dict(verdicts)}")
    if len({row.offset for row in rows}) != len(bad) or len(rows) != len(bad):
        faults.append(
            f"{name}: {len(rows)} rejected rows for {len(bad)} records that are no commands"
        )
    return Result(0, peak, len(rows), Counter(row.code for row in rows), tuple(faults))


def many_rounds(broker: KafkaBroker, folder: Path, count: int) -> Result:
    """The executor with `count` rounds of a megabyte that it has not read."""
    quiet = run_executor(broker, folder, "no-rounds", [])
    padding = b'{"v":1,"cluster":"c","epoch":1,"brokers":"' + b"x" * 2**20 + b'"}'
    return _together(
        quiet, run_executor(broker, folder, "many-rounds", [], (padding for _ in range(count)))
    )


def _encoded(bundle: str, source: str, destination: str) -> bytes:
    from sinks.wire.record_encoding import encode_command

    now = int(time.time() * 1000)
    return encode_command(
        command(bundle, source, destination, issued_at_ms=now, expires_at_ms=now + 3_600_000)
    )


def job(broker: KafkaBroker, folder: Path, count: int, seed: int) -> Result:
    """Both runs of the job."""
    legal = recording("modular-broker-killed")[:300]
    quiet = run_job(broker, folder, "quiet-job", legal)
    loud = run_job(broker, folder, "hostile-job", mixed(legal, list(telemetry(count, seed)), seed))
    return _together(quiet, loud)


def is_python(pid: int) -> bool:
    """Whether a process is not Java, whose heap has a limit of its own."""
    process = running(pid)
    return process is not None and process.program != "java"


def backlog(broker: KafkaBroker, folder: Path, count: int, partitions: int) -> Result:
    """The job without and with as many reports of 8 MB of another cluster, in one micro-batch.
    Memory is that of Python's processes.
    """
    legal = recording("modular-broker-killed")[:300]
    bundles = (f"t/ns/0x{i:08x}_0x{i + 1:08x}" for i in range(38_000))
    large = load_report("b:1", 0, dict.fromkeys(bundles, 1.0), cluster="large-reports")
    settings = (f"job.shuffle_partitions={partitions}",)
    quiet = run_job(broker, folder, "no-backlog", legal, settings, only_python=True)
    lines = [*legal[:150], *[large] * count, *legal[150:]]
    loud = run_job(broker, folder, "backlog", lines, settings, only_python=True)
    return _together(quiet, loud)


def executor(broker: KafkaBroker, folder: Path, count: int, seed: int) -> Result:
    """Both runs of the executor; every third hostile record looks like a command."""
    kinds = list(COSTLY)
    records = [record for _, record in hostile_records(count, seed)]
    records[::3] = [
        costly_command(kinds[number % len(kinds)], len(record) - 200)
        for number, record in enumerate(records[::3])
    ]
    quiet = run_executor(broker, folder, "quiet-executor", [])
    loud = run_executor(broker, folder, "hostile-executor", records)
    return _together(quiet, loud)


def _together(quiet: Result, loud: Result) -> Result:
    return Result(quiet.peak, loud.peak, loud.rejected, loud.codes, (*quiet.faults, *loud.faults))


def main() -> int:
    """Command line; exit code 1 if anything ended, was lost or changed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--only", choices=("job", "executor"))
    given = parser.parse_args()
    faults: list[str] = []
    with tempfile.TemporaryDirectory(prefix="hostile-") as scratch:
        folder = Path(scratch)
        (folder / "broker").mkdir()
        with kafka_broker(folder / "broker") as broker:
            for name, both in (("job", job), ("executor", executor)):
                if given.only in (None, name):
                    began, found = time.monotonic(), both(broker, folder, given.records, given.seed)
                    faults += found.faults
                    print(
                        f"{name}: {given.records} hostile records in "
                        f"{time.monotonic() - began:.0f} s, {found.rejected} rejected rows "
                        f"({dict(found.codes)}); peak {found.peak / 2**20:.0f} MiB, "
                        f"{found.quiet / 2**20:.0f} MiB without them",
                        flush=True,
                    )
    for fault in faults:
        print(f"fault: {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
