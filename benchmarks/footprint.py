"""`python -m benchmarks.footprint`: memory and CPU time of one `rebalancer run` on a real Kafka
broker or on file topics, process by process.

A cluster reports once a minute, as the collector sends it: all brokers at once, and the sweep. Some
passes in quick succession come first, so that Java has compiled and allocated what it will. Memory
does not depend on what else the machine does; CPU time does, a little.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from operator import itemgetter
from pathlib import Path

from benchmarks.figures import say, table
from benchmarks.fleet import Fleet
from benchmarks.options import number, options
from benchmarks.processes import ProcessUse, used_below
from sinks.topics.files.topic import FileTopicWriter

_MIB = 2**20
_TOPICS = ("telemetry", "commands", "rounds", "rejected", "outcomes")
_STARTS_S, _LOOK_S = 600.0, 0.5
_THREAD = re.compile(r'^"([^"]*)".* cpu=([0-9.]+)ms', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Footprint:
    """`processes`: at the end. `peak_mib`: the largest sum of `pss` while reports came once a
    minute. `core_share`: CPU time of all processes in that time, as a share of one core;
    `shares`: by role.
    """

    processes: list[ProcessUse]
    peak_mib: float
    seconds: float
    core_share: float
    shares: Mapping[str, float]
    java: str = ""


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the figures on standard output, what it is doing on standard error."""
    chosen = _options().parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="rebalancer-bench-") as folder:
        found = measure(Path(folder), Fleet(chosen.brokers, chosen.bundles), chosen)
    print(json.dumps({"v": 1, **asdict(found)}, indent=2) if chosen.json else text(found))


def measure(folder: Path, fleet: Fleet, chosen: argparse.Namespace) -> Footprint:
    """Starts the job, and a broker if there is one, feeds it, looks at it, stops both."""
    say(f"the job starts, with topics on {chosen.topics}")
    with (
        _TOPICS_ON[chosen.topics](folder) as (uris, publish_all),
        _job(folder, uris, chosen) as job,
    ):

        def publish(number: int) -> None:
            publish_all([*fleet.reports(number), fleet.sweep(number)])

        for number in range(chosen.warm_up):
            publish(number)
            _wait_for(job, folder, (fleet.brokers + 1) * (number + 1))
        say(f"{chosen.warm_up} passes are done; now one every {chosen.interval:g} s")
        return _watched(job, chosen, publish)


#: The topics' URIs by name, and what appends values to the telemetry.
_Fed = tuple[Mapping[str, str], Callable[[Sequence[bytes]], object]]


@contextmanager
def _on_kafka(folder: Path) -> Iterator[_Fed]:
    from benchmarks.kafka_records import Publisher
    from tools.servers.kafka_broker import kafka_broker

    (folder / "kafka").mkdir()
    with kafka_broker(folder / "kafka") as kafka:
        uris = {name: kafka.topic(name, 1, {"max.message.bytes": str(2**24)}) for name in _TOPICS}
        with Publisher(uris["telemetry"]) as publisher:
            yield uris, publisher.publish


@contextmanager
def _on_files(folder: Path) -> Iterator[_Fed]:
    uris = {name: f"file:{folder / name}" for name in _TOPICS}
    with FileTopicWriter(folder / "telemetry") as writer:
        yield uris, writer.append


_TOPICS_ON = {"kafka": _on_kafka, "files": _on_files}


def _watched(
    job: subprocess.Popen[bytes], chosen: argparse.Namespace, publish: Callable[[int], None]
) -> Footprint:
    before, began, peak = used_below(job.pid), time.monotonic(), 0.0
    threads = _thread_times(before) if chosen.java else {}
    for turn in range(chosen.passes):
        publish(chosen.warm_up + turn)
        while time.monotonic() < began + chosen.interval * (turn + 1):
            time.sleep(_LOOK_S)
            peak = max(peak, _mib(used_below(job.pid)))
    after, seconds = used_below(job.pid), time.monotonic() - began
    earlier = {one.pid: one.cpu_s for one in before}
    shares = defaultdict[str, float](float)
    for one in after:
        shares[one.role] += (one.cpu_s - earlier.get(one.pid, 0.0)) / seconds
    told = _java(after, threads) if chosen.java else ""
    return Footprint(after, peak, seconds, sum(shares.values()), dict(shares), told)


def _mib(uses: Sequence[ProcessUse]) -> float:
    return sum(one.pss for one in uses) / _MIB


@contextmanager
def _job(
    folder: Path, uris: Mapping[str, str], chosen: argparse.Namespace
) -> Iterator[subprocess.Popen[bytes]]:
    """`rebalancer run`, which finishes its micro-batch at the end."""
    settings = {
        "job.checkpoint": folder / "checkpoint",
        "job.progress_file": folder / "progress",
        **{f"topics.{name}": uri for name, uri in uris.items()},
    }
    words = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    words += [word for value in chosen.set or () for word in ("--set", value)]
    with (folder / "job.log").open("wb") as log:
        job = subprocess.Popen(
            [sys.executable, "-m", "pulsar_rebalancer.cli.main", "run", *words],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        yield job
    finally:
        job.terminate()
        job.wait()


def _wait_for(job: subprocess.Popen[bytes], folder: Path, records: int) -> None:
    """Until the job has processed so many records. Raises TimeoutError, RuntimeError."""
    deadline, progress = time.monotonic() + _STARTS_S, folder / "progress"
    while time.monotonic() < deadline:
        lines = progress.read_text("utf-8").splitlines() if progress.exists() else []
        if sum(json.loads(line)["records"] for line in lines) >= records:
            return
        if job.poll() is not None:
            raise RuntimeError((folder / "job.log").read_text("utf-8"))
        time.sleep(0.02)
    raise TimeoutError(f"the job has not processed {records} records in {_STARTS_S:g} s")


def _java(uses: Sequence[ProcessUse], threads_before: Mapping[str, float]) -> str:
    """What Java itself says of its memory (the last answer costs a full collection), and CPU ms of
    its threads since `threads_before`.
    """
    spent = {name: ms - threads_before.get(name, 0.0) for name, ms in _thread_times(uses).items()}
    most = sorted(spent.items(), key=itemgetter(1), reverse=True)[:15]
    busiest = [f"{ms:8.0f} ms  {name}" for name, ms in most]
    memory = ("VM.native_memory", "summary", "scale=MB")
    answers = [_asked(uses, *words) for words in (("GC.heap_info",), memory)]
    live = _asked(uses, "GC.class_histogram").splitlines()
    return "\n".join([*answers, *live[:25], *live[-1:], "CPU of Java's threads:", *busiest])


def _thread_times(uses: Sequence[ProcessUse]) -> Mapping[str, float]:
    """CPU ms of Java's threads until now, by name without numbers."""
    found = defaultdict[str, float](float)
    for name, ms in _THREAD.findall(_asked(uses, "Thread.print")):
        found[re.sub("[0-9]+", "N", name)[:60]] += float(ms)
    return found


def _asked(uses: Sequence[ProcessUse], *words: str) -> str:
    pid = str(next(one.pid for one in uses if one.role == "Java"))
    return subprocess.run(["jcmd", pid, *words], capture_output=True, text=True, check=True).stdout


def text(found: Footprint) -> str:
    """For people."""
    rows = [
        {
            "process": one.role,
            "pid": one.pid,
            "PSS MiB": f"{one.pss / _MIB:,.0f}",
            "own (USS)": f"{one.uss / _MIB:,.0f}",
            "RSS": f"{one.rss / _MIB:,.0f}",
            "no file": f"{one.anonymous / _MIB:,.0f}",
            "threads": one.threads,
        }
        for one in found.processes
    ]
    shares = ", ".join(
        f"{role} {share:.1%}" for role, share in sorted(found.shares.items(), key=itemgetter(1))
    )
    return "\n".join(
        [
            table("Memory at the end", rows),
            f"all: {_mib(found.processes):,.0f} MiB, at most {found.peak_mib:,.0f}",
            f"CPU over {found.seconds:.0f} s: {found.core_share:.1%} of a core ({shares})",
            *([found.java] if found.java else []),
        ]
    )


def _options() -> argparse.ArgumentParser:
    parser = options("benchmarks.footprint", __doc__ or "")
    parser.add_argument(
        "--topics", choices=_TOPICS_ON, default="kafka", help="where they are (default: kafka)"
    )
    number(parser, "--brokers", 100, "of the cluster")
    number(parser, "--bundles", 100, "per broker")
    number(parser, "--warm-up", 30, "passes in quick succession before")
    number(parser, "--passes", 3, "passes that are watched")
    parser.add_argument(
        "--interval", type=float, default=60, metavar="S", help="between them (default: 60)"
    )
    parser.add_argument("--set", action="append", metavar="PATH=VALUE", help="a setting of the job")
    parser.add_argument(
        "--java", action="store_true", help="also what Java says of its memory (jcmd)"
    )
    return parser


if __name__ == "__main__":
    main()
